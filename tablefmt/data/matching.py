"""Rows of a portion for which a condition is true, decoding no more than it takes to know them.

The columns of the condition come first. If few rows match, the others are decoded for the row
groups that hold one; if many do, all columns at once. Spec: DAT-4, DEL-4, PRN-10.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tablefmt.data.live_rows import POSITION, READAHEAD, Matches, live_batches
from tablefmt.data.plain_read import BATCH_ROWS, needs_plain, plain_batches
from tablefmt.data.portions import Needs, Portion
from tablefmt.data.scanner import scanner
from tablefmt.model.schema import Schema

FEW = 2
"""One of so many row groups, at most, holds a match where the condition is looked at first."""

WINDOW_ROWS, WINDOW_MOST = 1 << 18, 1 << 22
"""Rows looked at first; then twice as many each time, up to the second."""

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

    def kept(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows wanted of what the scan gave."""
        if self.exact is None:
            return batch
        exact = self.exact
        return batch.filter(exact if isinstance(exact, pc.Expression) else exact(batch))


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


def matching(portion: Portion, reading: Reading) -> Iterator[pa.RecordBatch]:
    """The rows wanted, without a place; the columns `names` come first."""
    names, condition = reading.names, reading.condition
    few = reading.first is not None and reading.first <= PLAIN_ROWS
    if few and condition.pushed is None and condition.exact is None:
        for _, batch in _plain(portion, reading, batch_rows=max(reading.first or 0, 1)):
            yield batch
    elif portion.is_whole and not needs_plain(reading.schema) and not _decides(portion, reading):
        scan = scanner(portion.dataset, names, condition.pushed, readahead=reading.readahead)
        for batch in scan.to_batches():
            yield condition.kept(batch)
    else:
        for _, batch in located(portion, reading):
            yield batch


def located(portion: Portion, reading: Reading) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The place of a file in the portion, and rows wanted of it; POSITION comes after `names`."""
    if needs_plain(reading.schema):
        batches = _plain(portion, reading)
    elif not _decides(portion, reading):
        batches = _at_once(portion, reading)
    else:
        yield from _condition_first(portion, reading)
        return
    for place, batch in batches:
        yield place, reading.condition.kept(batch)


def _decides(portion: Portion, reading: Reading) -> bool:
    """Whether it may pay to look at the condition first."""
    looked = reading.condition.columns
    if not looked or portion.is_fetched:
        return False
    return not looked.issuperset(reading.names)


def _condition_first(portion: Portion, reading: Reading) -> Iterator[tuple[int, pa.RecordBatch]]:
    start, most = 0, WINDOW_ROWS
    counts = portion.files["rows"].to_numpy()
    while start < len(counts):
        stop = start + int(np.searchsorted(np.cumsum(counts[start:]), most)) + 1
        window = portion.slice(start, stop)
        rows = window.files["rows"].to_pylist()
        matches = Matches(window.dataset, rows, _positions(window, reading))
        for place, batch in matches.batches(reading.names, reading.readahead):
            yield start + place, batch
        start, most = stop, min(2 * most, WINDOW_MOST)
        if matches.groups * FEW > matches.of_groups:
            break
    if start < len(counts):
        for place, batch in _at_once(portion.slice(start, len(counts)), reading):
            yield start + place, reading.condition.kept(batch)


def _positions(portion: Portion, reading: Reading) -> dict[int, NDArray[np.int64]]:
    """Where the rows wanted are, by the place of the file; only of files that hold one."""
    pieces: dict[int, list[NDArray[np.int64]]] = {}
    condition = replace(reading, names=reading.condition.reads)
    for place, batch in _at_once(portion, condition):
        kept = reading.condition.kept(batch)
        if kept.num_rows:
            pieces.setdefault(place, []).append(kept.column(POSITION).to_numpy())
    return {place: np.concatenate(parts) for place, parts in pieces.items()}


def _at_once(portion: Portion, reading: Reading) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The rows that are live and pass what is pushed, with all columns."""
    rows = portion.files["rows"].to_pylist()
    names, pushed = reading.names, reading.condition.pushed
    return live_batches(portion.dataset, rows, portion.vectors, names, pushed, reading.readahead)


def _plain(
    portion: Portion, reading: Reading, batch_rows: int = BATCH_ROWS
) -> Iterator[tuple[int, pa.RecordBatch]]:
    rows = portion.files["rows"].to_pylist()
    names, pushed = reading.names, reading.condition.pushed
    return plain_batches(
        portion.dataset, reading.schema, rows, portion.vectors, names, pushed, batch_rows
    )
