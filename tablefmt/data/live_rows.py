"""Rows of data files with their positions, without those that are gone. Spec: DEL-1, DEL-4.

Arrow's scanner tells no positions and drops rows that a filter refuses, so here the filter only
chooses row groups; what it says of a row is computed as a column.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from numpy.typing import NDArray

from tablefmt.model.positions import unpack_positions

THREADS = 16
"""Footers read at once."""

READAHEAD = 4
"""Files: Arrow's own default."""

POSITION = "\0position"
"""The last column of a batch. No column of a table can be called so (SCH-2)."""

_KEEP = "\0keep"

Spans = list[tuple[int, int]]
"""Runs of positions: the first, and how many."""


def live_batches(
    files: ds.FileSystemDataset,
    rows: Sequence[int],
    vectors: Sequence[bytes | None],
    names: Sequence[str],
    pushed: pc.Expression | None,
    readahead: int = READAHEAD,
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The place of a file, and rows of it that are not gone and for which `pushed` is true.

    Args:
        files: the files, every one with a path of its own.
        rows: how many each holds.
        vectors: the packed positions of each that are gone, or None.
        names: the columns wanted; POSITION comes after them.
        pushed: the filter, None for all rows.
        readahead: files that are decoded before their rows are asked for: memory for latency.

    Raises:
        ValueError: a file holds another number of rows. Arrow's own errors: it cannot be read.
    """
    fragments = list(files.get_fragments())
    places = {fragment.path: place for place, fragment in enumerate(fragments)}
    spans: list[Spans] = [[(0, count)] for count in rows]
    if pushed is not None:
        with ThreadPoolExecutor(max(1, min(THREADS, len(fragments)))) as pool:
            chosen = list(pool.map(lambda f: _row_groups(f, pushed, files.schema), fragments))
        fragments, spans = [f for f, _ in chosen if f.row_groups], [s for _, s in chosen]
    columns = {name: pc.field(name) for name in names}
    if pushed is not None:
        columns[_KEEP] = pushed
    chosen_files = ds.FileSystemDataset(fragments, files.schema, files.format, files.filesystem)
    cursor = _Cursor(-1, [], None, 0)
    scanner = chosen_files.scanner(columns=columns, fragment_readahead=readahead)
    for tagged in scanner.scan_batches():
        place = places[tagged.fragment.path]
        if place != cursor.place:
            cursor.finish()
            cursor = _Cursor(place, spans[place], vectors[place], rows[place])
        batch, positions = tagged.record_batch, cursor.take(tagged.record_batch.num_rows)
        keep = cursor.live[positions]
        if pushed is not None:
            passes = batch.column(len(names)).fill_null(False)
            keep &= passes.to_numpy(zero_copy_only=False)
        if keep.any():
            arrays = [*batch.columns[: len(names)], pa.array(positions)]
            located = pa.RecordBatch.from_arrays(arrays, names=[*names, POSITION])
            yield place, located if keep.all() else located.filter(pa.array(keep))
    cursor.finish()


def _row_groups(
    fragment: ds.ParquetFileFragment, pushed: pc.Expression, schema: pa.Schema
) -> tuple[ds.ParquetFileFragment, Spans]:
    """The part of a file that may hold wanted rows, and where it is."""
    part = fragment.subset(filter=pushed, schema=schema)
    footer = fragment.metadata
    counts = [footer.row_group(i).num_rows for i in range(footer.num_row_groups)]
    starts = np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])
    return part, [(int(starts[group.id]), counts[group.id]) for group in part.row_groups]


class _Cursor:
    """Where the rows of one file, as they come, are in it."""

    def __init__(self, place: int, spans: Spans, vector: bytes | None, rows: int) -> None:
        self.place = place
        self.live: NDArray[np.bool_] = np.ones(rows, bool)
        if vector is not None:
            removed = np.asarray(unpack_positions(vector).to_array(), np.int64)
            self.live[removed] = False
        self._rest = _positions(spans)
        self._end = rows

    def take(self, count: int) -> NDArray[np.int64]:
        """The positions of the next rows."""
        taken, self._rest = self._rest[:count], self._rest[count:]
        if len(taken) != count or (count and taken[-1] >= self._end):
            raise ValueError("there are more rows than the log says")
        return taken

    def finish(self) -> None:
        """Every row has come."""
        if len(self._rest):
            raise ValueError("there are fewer rows than the log says")


def _positions(spans: Spans) -> NDArray[np.int64]:
    if not spans:
        return np.zeros(0, np.int64)
    return np.concatenate([np.arange(first, first + count) for first, count in spans])
