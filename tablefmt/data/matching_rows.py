"""Live rows of a scan task for which a condition is true, with as little decoding as possible.

The condition's columns are decoded first. The other columns follow only for row groups with a
match: the pages that hold one, or all pages up to the last match. If that saves nothing, all
columns are decoded at once.

Spec: DAT-4, DEL-1, DEL-4, PRN-10.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tablefmt.data.arrow_scanner import (
    POSITION,
    READAHEAD,
    keep_rows,
)
from tablefmt.data.direct_reader import (
    BATCH_ROWS,
    PICKED_MOST,
    PickedRows,
    RowGroup,
    first_rows,
    needs_plain,
    plain_batches,
    row_groups,
)
from tablefmt.data.live_batches import inhabited_parts, live_batches, passing_batches
from tablefmt.data.parallel_jobs import side_by_side
from tablefmt.data.polars_decoder import PIECE_BYTES as POLARS_BYTES
from tablefmt.data.polars_decoder import PolarsDecoder, decoder_for, is_loaded
from tablefmt.data.scan_tasks import (
    PIECE_BYTES,
    Needs,
    Part,
    ScanTask,
    part_rows,
    passing_parts,
    pieces,
    whole_parts,
)
from tablefmt.data.small_files import Run, small_files
from tablefmt.expressions.predicate import Predicate, fields, to_comparisons, to_scan_expression
from tablefmt.log.page_files import FileMemory
from tablefmt.model.positions import live_mask, true_positions
from tablefmt.model.schema import Schema
from tablefmt.store.object_store import Store

WINDOW_ROWS, WINDOW_MOST = 1 << 18, 1 << 23
"""Rows of the first window, and of each window after one that saved something. A window has a cost
of its own.
"""

WORTH = 0.8
"""Condition-first must decode at most this share of the values of a full decode to be faster. The
second pass has a cost of its own.
"""

FEW_MATCH = 0.3
"""polars decodes if at most this share of the rows match. Arrow's own texts cost it a copy."""

LOOKED_ROWS = 1 << 14
"""Rows that show whether polars had better decode all columns: less than a page."""

POLARS_THREADS = 2
"""Pieces that polars decodes at once."""

ALL_ROWS_BYTES = 32 << 20
"""Approximate Arrow data that polars decodes at once, if all rows are returned one batch at a time.
"""

ALL_ROWS_LEAST = 1 << 16
"""For fewer rows, the start of polars' threads takes longer than it saves."""

PLAIN_ROWS = 1 << 14
"""Up to this many first rows of a file are read without Arrow's scanner, which decodes whole row
groups.
"""

Test = Callable[[pa.RecordBatch], pa.BooleanArray]
"""Returns for each row whether it matches; never null. Columns have physical names."""


@dataclass(frozen=True, slots=True, eq=False)
class RowFilter:
    """A condition on rows, over physical names.

    Parquet statistics ignore NaN, and Arrow takes a row group with equal bounds for a constant. So
    the pushed filter may be wider than the condition (PRN-10).
    """

    pushed: pc.Expression | None
    """Passes every matching row, whatever the statistics say."""
    exact: pc.Expression | Test | None = None
    """Applied to the scan's output; None if `pushed` is already exact."""
    reads: tuple[str, ...] = ()
    """Physical names of the columns that `exact` reads."""
    pushed_reads: frozenset[str] | None = None
    """Physical names of the columns that `pushed` reads; None: unknown."""
    predicate: Predicate | None = None
    """True for every matching row; None: unknown. `pushed` can be made from it for another
    schema.
    """

    def pushed_on(self, schema: Schema) -> RowFilter:
        """Return a filter for files of another schema, which passes every matching row."""
        if self.predicate is None:
            return RowFilter(None)
        reads = frozenset(schema.by_id(i).physical for i in fields(self.predicate))
        pushed = to_scan_expression(self.predicate, physical_schema(schema))
        return RowFilter(pushed, pushed_reads=reads)

    def comparisons(self, schema: Schema) -> Test | None:
        """Return the condition as comparisons of whole columns; None: it is something else.

        A result of NULL is no match.
        """
        # Without these columns the predicate may be wider than the condition.
        if self.exact is not None or self.columns is None or self.predicate is None:
            return None
        return to_comparisons(self.predicate, physical_schema(schema))

    @property
    def columns(self) -> frozenset[str] | None:
        """Physical names of the columns that the condition reads; None: unknown."""
        if self.pushed is not None and self.pushed_reads is None:
            return None
        return frozenset(self.reads).union(self.pushed_reads or ())

    def needs(
        self,
        schema: Schema,
        names: Sequence[str],
        eager: bool = True,
        first: int | None = None,
        coded: bool = True,
    ) -> Needs:
        """Return the file columns to read for the given physical names.

        Without `coded`, all text is read as text.
        """
        looked = self.columns
        if looked is None:
            return Needs(schema, None, self.pushed, eager)
        # Of the first rows alone, text is read faster than its codes.
        is_coded = coded and first is None
        unlooked = frozenset(names) - looked if is_coded else frozenset[str]()
        return Needs(schema, looked.union(names), self.pushed, eager, unlooked, first)

    def is_coded_later(self, store: Store) -> bool:
        """Return whether polars may decode the rows. It needs no codes of text, and to look for
        columns that suit them takes some time.
        """
        return is_loaded() and store.traits.on_disk and self.predicate is not None

    def of_rows(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the matching rows of any rows, given all columns that the condition reads."""
        return self.kept(batch if self.pushed is None else batch.filter(self.pushed))

    def kept(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the matching rows of the scan's output."""
        if self.exact is None:
            return batch
        exact = self.exact
        if isinstance(exact, pc.Expression):
            return batch.filter(exact)
        return batch.filter(exact(batch))


def physical_schema(schema: Schema) -> Schema:
    """Return the schema with physical names as names, for conditions on data files."""
    return replace(schema, fields=tuple(replace(f, name=f.physical) for f in schema.fields))


@dataclass(slots=True, eq=False)
class LookFirst:
    """Decides whether to decode the condition's columns first.

    After scan tasks without a saving, the following scan tasks skip the trial, twice as many each
    time.
    """

    rows: int = field(default_factory=lambda: WINDOW_ROWS)
    """Rows of the next window."""
    matched: float = 1.0
    """Share of the rows that matched where the condition's columns were decoded first."""
    _spared: int = 0
    _next_spared: int = 1

    def is_due(self) -> bool:
        """Return whether to try condition-first on this scan task."""
        self._spared -= self._spared > 0
        return not self._spared

    def judge(self, paid: bool) -> None:
        """Record whether condition-first saved anything on `rows` rows."""
        if paid:
            self.rows, self._next_spared = WINDOW_MOST, 1
        else:
            self.rows, self._spared = WINDOW_ROWS, self._next_spared + 1
            self._next_spared *= 2


@dataclass(frozen=True, slots=True, eq=False)
class Reading:
    """Description of the rows and columns to read of a scan task."""

    schema: Schema
    names: Sequence[str]
    """Physical names of the columns to return, those of `condition.reads` first."""
    condition: RowFilter
    readahead: int = READAHEAD
    """Files that are decoded ahead: memory for latency."""
    first: int | None = None
    """Most rows that will be requested; None for all."""
    located: bool = False
    """True if POSITION follows `names`."""
    most_bytes: int | None = None
    """Most bytes decoded ahead of the consumer; None: PIECE_BYTES."""
    views: bool = False
    """Text may be returned as Arrow's views, where polars decodes it."""
    look_first: LookFirst = field(default_factory=LookFirst)
    """State that carries over from one scan task to the next."""
    coded_later: bool = False
    """True if the scan task has no codes of text yet, which Arrow decodes faster."""


PlacedBatch = tuple[int, pa.RecordBatch]
"""Index of a file, and rows of it."""

AtOnce = Callable[[ScanTask, Reading], Iterator[PlacedBatch]]
"""Decodes all columns together."""


def matching(task: ScanTask, reading: Reading) -> Iterator[pa.RecordBatch]:
    """Yield the matching rows without their file; the columns `names` come first."""
    condition = reading.condition
    few = reading.first is not None and reading.first <= PLAIN_ROWS
    if few and condition.pushed is None and condition.exact is None:
        batches = _plain(task, reading, batch_rows=max(reading.first or 0, 1))
    else:
        batches = _wanted(task, reading, _filtered if task.is_whole else _live)
    for _, batch in batches:
        yield batch


def located(task: ScanTask, reading: Reading) -> Iterator[PlacedBatch]:
    """Yield the index of a file in the scan task, and its matching rows; POSITION follows
    `names`.
    """
    return _wanted(task, replace(reading, located=True), _live)


def _wanted(task: ScanTask, reading: Reading, at_once: AtOnce) -> Iterator[PlacedBatch]:
    start, stop = 0, task.files.num_rows
    parts: list[Part] | None = None
    if needs_plain(reading.schema):
        at_once = _plain
    elif (runs := _small_files(task, reading)) is not None:
        for run in runs:
            if run.rows is None:
                rows = at_once(task.slice(run.start, run.stop), reading)
                yield from ((run.start + at, reading.condition.kept(batch)) for at, batch in rows)
            else:
                yield from ((0, batch) for batch in run.rows)
        return
    elif _can_decide(task, reading) and reading.look_first.is_due():
        parts = _passing(task, reading)
        if not _match_widely(task, reading, parts):
            start = yield from _condition_first(task, reading, parts)
    if start < stop:
        decoder = None if at_once is _plain else _whole_decoder(task, reading)
        rest = task.slice(start, stop)
        if decoder is not None:
            at_once = partial(_by_polars, decoder, None if parts is None else parts[start:])
        elif reading.coded_later and at_once is not _plain:
            rest = rest.coded(reading.condition.needs(reading.schema, reading.names))
        for place, batch in at_once(rest, reading):
            yield start + place, reading.condition.kept(batch)


def _can_decide(task: ScanTask, reading: Reading) -> bool:
    """Return whether decoding the condition first may pay off."""
    looked = reading.condition.columns
    if not looked or task.is_fetched:
        return False
    return not looked.issuperset(reading.names)


def _passing(task: ScanTask, reading: Reading) -> list[Part]:
    """Return the row groups of each file that can hold a match."""
    if reading.condition.pushed is None:
        return whole_parts(task.dataset, task.files["rows"].to_pylist())
    return passing_parts(task.dataset, reading.condition.pushed)


def _match_widely(task: ScanTask, reading: Reading, parts: Sequence[Part]) -> bool:
    """Return whether the first rows show that the condition's columns need no look of their own:
    so many of them match that polars had better decode all columns, or that Arrow must.
    """
    if not is_loaded() or not task.data.on_disk or sum(map(part_rows, parts)) <= WINDOW_ROWS:
        return False
    # A row group may have no rows.
    place, at, count = next(
        (place, at, count)
        for place, (_, spans) in enumerate(parts)
        for at, (_, count) in enumerate(spans)
        if count > 0
    )
    part = parts[place]
    if len(part[0].row_groups) != len(part[1]):
        return False
    test = _Test(task.slice(place, place + 1), reading)
    first = first_rows(task.dataset, part, at, test.names, LOOKED_ROWS)
    matches = len(test.matches(first)) * count // first.rows.num_rows
    if matches <= PICKED_MOST:
        return False
    reading.look_first.matched = matches / count
    widely = reading.look_first.matched > FEW_MATCH or _whole_decoder(task, reading) is not None
    if widely:
        reading.look_first.judge(False)
    return widely


def _condition_first(
    task: ScanTask, reading: Reading, parts: Sequence[Part]
) -> Generator[PlacedBatch, None, int]:
    """Yield the matching rows of files from the first on, and return the number of these files.

    It covers all files if few row groups hold a match.
    """
    counts = np.array([sum(count for _, count in spans) for _, spans in parts], np.int64)
    looked = reading.condition.columns or frozenset[str]()
    at_once = len(looked.union(reading.names))

    def look(start: int, most: int) -> tuple[ScanTask, PickedRows]:
        """Find the matching rows of a window of files."""
        stop = start + int(np.searchsorted(np.cumsum(counts[start:]), most)) + 1
        window = task.slice(start, stop)
        return window, PickedRows(window.dataset, _positions(window, reading, parts[start:stop]))

    start, coming = 0, None
    with ThreadPoolExecutor(1) as pool:
        while start < len(counts):
            window, picked = coming.result() if coming else look(start, reading.look_first.rows)
            after = start + window.files.num_rows
            reading.look_first.matched = picked.wanted / max(1, picked.of_rows)
            columns = len(looked) * picked.of_rows + len(reading.names) * picked.decoded
            paid = columns < WORTH * at_once * picked.of_rows
            reading.look_first.judge(paid)
            # Python describes the pages of one window while Arrow decodes the next.
            coming = None
            if paid and after < len(counts) and reading.first is None:
                coming = pool.submit(look, after, reading.look_first.rows)
            decoder = _decoder(window, reading) if picked.wanted else None
            for place, batch in picked.batches(reading.names, reading.located, decoder):
                yield start + place, batch
            start = after
            if not paid:
                break
    return start


def _positions(
    task: ScanTask, reading: Reading, parts: Sequence[Part]
) -> dict[int, NDArray[np.int64]]:
    """Return the positions of matching rows by file index, for files with a match.

    Args:
        task: the files.
        reading: the condition.
        parts: the row groups of each file that may hold a match.
    """
    for (fragment, _), count in zip(parts, task.files["rows"].to_pylist(), strict=True):
        if fragment.metadata.num_rows != count:
            raise ValueError("a file has a different number of rows than the log says")
    pieces: dict[int, list[NDArray[np.int64]]] = {}
    test = _Test(task, reading)
    found: Iterator[tuple[int, NDArray[np.int64]]]
    if test.compared is not None:
        found = row_groups(
            task.dataset, parts, test.names, lambda group: (group.place, test.matches(group))
        )
    else:
        whole = row_groups(task.dataset, parts, test.names, lambda group: group, together=1)
        found = ((group.place, test.matches(group)) for group in whole)
    for place, positions in found:
        if len(positions):
            pieces.setdefault(place, []).append(positions)
    return {place: np.concatenate(parts) for place, parts in pieces.items()}


class _Test:
    """The condition on the live rows of files."""

    def __init__(self, task: ScanTask, reading: Reading) -> None:
        self._condition, self._vectors = reading.condition, task.vectors
        self._counts: list[int] = task.files["rows"].to_pylist()
        self._live = lru_cache(1)(lambda at: live_mask(self._vectors[at], self._counts[at]))
        looked = reading.condition.columns or ()
        self.names = [f.physical for f in reading.schema.fields if f.physical in looked]
        """Columns that the condition reads."""
        self.compared = reading.condition.comparisons(reading.schema)
        """The condition as comparisons, which may run in any thread; None: Arrow executes it."""

    def matches(self, group: RowGroup) -> NDArray[np.int64]:
        """Return the positions of live rows of `names` that match, in their file."""
        place, start, batch = group
        vector = self._vectors[place]
        found: NDArray[np.int64]
        if self.compared is not None:
            found = true_positions(self.compared(batch)) + start
            return found if vector is None else found[self._live(place)[found]]
        positions = np.arange(start, start + batch.num_rows)
        columns = [*batch.columns, pa.array(positions)]
        if vector is not None:
            columns = keep_rows(columns, self._live(place)[positions])
        kept = self._condition.of_rows(pa.RecordBatch.from_arrays(columns, [*self.names, POSITION]))
        found = kept.column(POSITION).to_numpy()
        return found


def _filtered(task: ScanTask, reading: Reading) -> Iterator[PlacedBatch]:
    """Yield the rows of whole files that pass the pushed filter, without their file."""
    rows, widths = task.files["rows"].to_pylist(), task.row_bytes(reading.names)
    names, pushed = reading.names, reading.condition.pushed
    ahead, most = reading.readahead, reading.most_bytes
    batches = passing_batches(task.dataset, rows, widths, names, pushed, ahead, most)
    return ((0, batch) for batch in batches)


def _live(task: ScanTask, reading: Reading) -> Iterator[PlacedBatch]:
    """Yield the live rows that pass the pushed filter."""
    rows, widths = task.files["rows"].to_pylist(), task.row_bytes(reading.names)
    names, pushed = reading.names, reading.condition.pushed
    # A batch without columns has no row count.
    ahead, located = reading.readahead, reading.located or not names
    return live_batches(
        task.dataset,
        rows,
        widths,
        task.vectors,
        names,
        pushed,
        ahead,
        located,
        reading.most_bytes,
    )


def _decoder(task: ScanTask, reading: Reading) -> PolarsDecoder | None:
    """Return polars as the decoder of matching rows, if it gives the same rows with less work."""
    condition = reading.condition
    if reading.look_first.matched > FEW_MATCH or condition.predicate is None or not reading.names:
        return None
    # Of other stores, polars' own scans ask for rows while its threads wait for them.
    if not task.data.on_disk:
        return None
    return decoder_for(
        task.dataset, reading.schema, reading.names, condition.predicate, reading.views
    )


def _small_files(task: ScanTask, reading: Reading) -> Iterator[Run] | None:
    """Return the rows of small files, decoded by polars; None: Arrow must decode them."""
    condition = reading.condition
    if reading.located or reading.first is not None or condition.exact is not None:
        return None
    if condition.pushed is not None and (condition.predicate is None or condition.columns is None):
        # Without these columns the predicate may be wider than the condition.
        return None
    predicate = None if condition.pushed is None else condition.predicate
    return small_files(task, reading.schema, reading.names, predicate, reading.views)


def _whole_decoder(task: ScanTask, reading: Reading) -> PolarsDecoder | None:
    """Return polars as the decoder of whole row groups, without evaluating their condition."""
    condition = reading.condition
    # Without these columns the predicate may be wider than the condition.
    if condition.exact is not None or condition.columns is None:
        return None
    if reading.located or reading.first is not None or not reading.names:
        return None
    if condition.pushed is not None:
        return _decoder(task, reading)
    if not task.data.on_disk or not is_loaded() or not _pays_with_polars(task, reading):
        return None
    return decoder_for(task.dataset, reading.schema, reading.names, None, reading.views)


def _pays_with_polars(task: ScanTask, reading: Reading) -> bool:
    """Return whether polars returns all rows with less work than Arrow, because there is text.

    Arrow decodes text of few distinct values fast enough, but not into the form of polars.
    """
    texts = {name for name in reading.names if _is_text(task.dataset.schema.field(name).type)}
    if not texts or pc.sum(task.files["rows"]).as_py() < ALL_ROWS_LEAST:
        return False
    first = next(iter(task.dataset.get_fragments())).physical_schema
    kinds = [field.type for field in first if field.name in texts]
    return reading.views or any(map(_is_text, kinds))


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_binary(kind))


def _by_polars(
    decoder: PolarsDecoder, passing: Sequence[Part] | None, task: ScanTask, reading: Reading
) -> Iterator[PlacedBatch]:
    """Yield the rows of `_live`, decoded by polars where it can, without their file.

    `passing` are the row groups of each file that can hold a match, if they are known.
    """
    rows, vectors, pushed = task.files["rows"].to_pylist(), task.vectors, reading.condition.pushed
    widths = task.row_bytes([*decoder.looked.union(reading.names)])
    if passing is not None:
        parts = list(passing)
    elif pushed is not None:
        parts = passing_parts(task.dataset, pushed)
    else:
        parts = inhabited_parts(task.dataset, rows, vectors)
    places = {fragment.path: place for place, (fragment, _) in enumerate(parts)}
    # Only a job that runs uses memory.
    spare = [FileMemory() for _ in range(POLARS_THREADS)]

    @lru_cache(2)
    def mask(place: int) -> NDArray[np.bool_]:
        return live_mask(vectors[place], rows[place])

    def decode(run: list[Part]) -> tuple[list[Part], list[pa.RecordBatch] | None]:
        def live(at: int) -> NDArray[np.bool_] | None:
            place = places[run[at][0].path]
            return None if vectors[place] is None else mask(place)

        memory = spare.pop()
        found = decoder.rows(run, live, memory)
        spare.append(memory)
        return run, found

    # While polars decodes one piece, the pages of the next are verified.
    most = ALL_ROWS_BYTES if reading.most_bytes is None else min(reading.most_bytes, PIECE_BYTES)
    runs = pieces(parts, widths, most if pushed is None else POLARS_BYTES)
    for run, batches in side_by_side(decode, runs, POLARS_THREADS):
        if batches is not None:
            yield from ((0, batch) for batch in batches)
            continue
        some: list[Part] = [(fragment, []) for fragment, _ in parts]
        for part in run:
            some[places[part[0].path]] = part
        yield from live_batches(
            task.dataset,
            rows,
            widths,
            vectors,
            reading.names,
            pushed,
            reading.readahead,
            located=False,
            most_bytes=reading.most_bytes,
            parts=some,
        )


def _plain(task: ScanTask, reading: Reading, batch_rows: int = BATCH_ROWS) -> Iterator[PlacedBatch]:
    rows = task.files["rows"].to_pylist()
    names, pushed = reading.names, reading.condition.pushed
    return plain_batches(
        task.dataset, reading.schema, rows, task.vectors, names, pushed, batch_rows
    )
