"""Rows of a portion for which a condition is true, decoding no more than it takes to know them.

The columns of the condition come first, and the others only of the row groups that hold a match,
up to the last one. Where that saves nothing, all columns are decoded at once.

Spec: DAT-4, DEL-4, PRN-10.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tablefmt.data.live_rows import live_batches, passing_batches
from tablefmt.data.picked_rows import PickedRows
from tablefmt.data.plain_read import BATCH_ROWS, needs_plain, plain_batches
from tablefmt.data.portions import Needs, Portion
from tablefmt.data.scanner import POSITION, READAHEAD
from tablefmt.model.schema import Schema

WINDOW_ROWS, WINDOW_MOST = 1 << 18, 1 << 22
"""Rows looked at first; then twice as many each time, up to the second."""

WORTH = 0.8
"""Of the values that all columns at once have: what the condition first decodes at most, if it is
to be faster. A second look has a price of its own."""

PLAIN_ROWS = 1 << 14
"""Up to so many, the first rows of a file are read without Arrow's scanner: it decodes whole row
groups."""

Test = Callable[[pa.RecordBatch], pa.BooleanArray]
"""Says of each row whether it is wanted; never null. Columns have physical names."""


@dataclass(frozen=True, slots=True, eq=False)
class RowFilter:
    """Which rows are wanted, over physical names.

    Parquet statistics leave NaN out, and Arrow takes a row group with equal bounds for a constant;
    so what is pushed into the scan may be wider than what is wanted (PRN-10).
    """

    pushed: pc.Expression | None
    """Passes every row that is wanted, in spite of the statistics."""
    exact: pc.Expression | Test | None = None
    """Applied to what the scan gives; None if `pushed` is exact already."""
    reads: tuple[str, ...] = ()
    """Physical names of the columns that `exact` looks at."""
    pushed_reads: frozenset[str] | None = None
    """Physical names of the columns that `pushed` looks at; None: unknown."""

    @property
    def columns(self) -> frozenset[str] | None:
        """Physical names of the columns that it looks at; None: unknown."""
        if self.pushed is not None and self.pushed_reads is None:
            return None
        return frozenset(self.reads).union(self.pushed_reads or ())

    def needs(
        self, schema: Schema, names: Sequence[str], eager: bool = True, first: int | None = None
    ) -> Needs:
        """What is read of files for columns of those physical names."""
        looked = self.columns
        if looked is None:
            return Needs(schema, None, self.pushed, eager)
        unlooked = frozenset(names) - looked
        return Needs(schema, looked.union(names), self.pushed, eager, unlooked, first)

    def of_rows(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows wanted of any rows, with all columns that it looks at."""
        return self.kept(batch if self.pushed is None else batch.filter(self.pushed))

    def kept(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows wanted of what the scan gave."""
        if self.exact is None:
            return batch
        exact = self.exact
        return batch.filter(exact if isinstance(exact, pc.Expression) else exact(batch))


@dataclass(slots=True, eq=False)
class LookFirst:
    """Whether the condition is looked at before other columns: portions that follow others on which
    it saved nothing are spared the trial, twice as many each time."""

    rows: int = field(default_factory=lambda: WINDOW_ROWS)
    """Looked at next."""
    _spared: int = 0
    _next_spared: int = 1

    def is_due(self) -> bool:
        """Whether it is to be tried on this portion."""
        self._spared -= self._spared > 0
        return not self._spared

    def judge(self, paid: bool) -> None:
        """Take note of whether it saved anything on so many `rows`."""
        if paid:
            self.rows, self._next_spared = min(2 * self.rows, WINDOW_MOST), 1
        else:
            self.rows, self._spared = WINDOW_ROWS, self._next_spared + 1
            self._next_spared *= 2


@dataclass(frozen=True, slots=True, eq=False)
class Reading:
    """What is read of a portion."""

    schema: Schema
    names: Sequence[str]
    """Physical names of the columns wanted, those of `condition.reads` first."""
    condition: RowFilter
    readahead: int = READAHEAD
    """Files that are decoded before their rows are asked for: memory for latency."""
    first: int | None = None
    """No more than so many rows will be asked for; None: all."""
    located: bool = False
    """Whether POSITION comes after `names`."""
    most_bytes: int | None = None
    """Decoded ahead of whoever asks for rows, at most; None: PIECE_BYTES."""
    look_first: LookFirst = field(default_factory=LookFirst)
    """Learns from one portion to the next."""


PlacedBatch = tuple[int, pa.RecordBatch]
"""The place of a file, and rows of it."""

AtOnce = Callable[[Portion, Reading], Iterator[PlacedBatch]]
"""Decodes all columns together."""


def matching(portion: Portion, reading: Reading) -> Iterator[pa.RecordBatch]:
    """The rows wanted, without a place; the columns `names` come first."""
    condition = reading.condition
    few = reading.first is not None and reading.first <= PLAIN_ROWS
    if few and condition.pushed is None and condition.exact is None:
        batches = _plain(portion, reading, batch_rows=max(reading.first or 0, 1))
    else:
        batches = _wanted(portion, reading, _filtered if portion.is_whole else _live)
    for _, batch in batches:
        yield batch


def located(portion: Portion, reading: Reading) -> Iterator[PlacedBatch]:
    """The place of a file in the portion, and rows wanted of it; POSITION comes after `names`."""
    return _wanted(portion, replace(reading, located=True), _live)


def _wanted(portion: Portion, reading: Reading, at_once: AtOnce) -> Iterator[PlacedBatch]:
    start, stop = 0, portion.files.num_rows
    if needs_plain(reading.schema):
        at_once = _plain
    elif _can_decide(portion, reading) and reading.look_first.is_due():
        start = yield from _condition_first(portion, reading)
    if start < stop:
        for place, batch in at_once(portion.slice(start, stop), reading):
            yield start + place, reading.condition.kept(batch)


def _can_decide(portion: Portion, reading: Reading) -> bool:
    """Whether it may pay to look at the condition first."""
    looked = reading.condition.columns
    if not looked or portion.is_fetched:
        return False
    return not looked.issuperset(reading.names)


def _condition_first(portion: Portion, reading: Reading) -> Generator[PlacedBatch, None, int]:
    """The rows wanted of files from the first one on; returns how many files these are: all, if
    few row groups hold any."""
    start, paid = 0, True
    counts = portion.files["rows"].to_numpy()
    looked = reading.condition.columns or frozenset[str]()
    at_once = len(looked.union(reading.names))
    while paid and start < len(counts):
        rows_to = np.cumsum(counts[start:])
        stop = start + int(np.searchsorted(rows_to, reading.look_first.rows)) + 1
        window = portion.slice(start, stop)
        picked = PickedRows(window.dataset, _positions(window, reading))
        for place, batch in picked.batches(reading.names, reading.located):
            yield start + place, batch
        start = min(stop, len(counts))
        columns = len(looked) * picked.of_rows + len(reading.names) * picked.decoded
        paid = columns < WORTH * at_once * picked.of_rows
        reading.look_first.judge(paid)
    return start


def _positions(portion: Portion, reading: Reading) -> dict[int, NDArray[np.int64]]:
    """Where the rows wanted are, by the place of the file; only of files that hold one."""
    pieces: dict[int, list[NDArray[np.int64]]] = {}
    condition = replace(reading, names=reading.condition.reads, located=True)
    for place, batch in _live(portion, condition):
        kept = reading.condition.kept(batch)
        if kept.num_rows:
            pieces.setdefault(place, []).append(kept.column(POSITION).to_numpy())
    return {place: np.concatenate(parts) for place, parts in pieces.items()}


def _filtered(portion: Portion, reading: Reading) -> Iterator[PlacedBatch]:
    """The rows of whole files that pass what is pushed; which file they are of is not told."""
    rows, widths = portion.files["rows"].to_pylist(), portion.row_bytes(reading.names)
    names, pushed = reading.names, reading.condition.pushed
    ahead, most = reading.readahead, reading.most_bytes
    batches = passing_batches(portion.dataset, rows, widths, names, pushed, ahead, most)
    return ((0, batch) for batch in batches)


def _live(portion: Portion, reading: Reading) -> Iterator[PlacedBatch]:
    """The rows that are live and pass what is pushed."""
    rows, widths = portion.files["rows"].to_pylist(), portion.row_bytes(reading.names)
    names, pushed = reading.names, reading.condition.pushed
    # Without a column there would be nothing to count.
    ahead, located = reading.readahead, reading.located or not names
    return live_batches(
        portion.dataset,
        rows,
        widths,
        portion.vectors,
        names,
        pushed,
        ahead,
        located,
        reading.most_bytes,
    )


def _plain(
    portion: Portion, reading: Reading, batch_rows: int = BATCH_ROWS
) -> Iterator[PlacedBatch]:
    rows = portion.files["rows"].to_pylist()
    names, pushed = reading.names, reading.condition.pushed
    return plain_batches(
        portion.dataset, reading.schema, rows, portion.vectors, names, pushed, batch_rows
    )
