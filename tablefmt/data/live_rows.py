"""Rows of data files with their positions, without those that are gone. Spec: DEL-1, DEL-4.

Arrow's scanner tells no positions and drops rows that a filter refuses, so here the filter only
chooses row groups; what it says of a row is computed as a column.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from numpy.typing import NDArray

from tablefmt.data.scanner import READAHEAD, keep_rows, replace_fragments, scanner
from tablefmt.model.cached import cached_property
from tablefmt.model.positions import live_mask

THREADS = 16
"""Footers read at once."""

POSITION = "\0position"
"""The last column of a batch. No column of a table can be called so (SCH-2)."""

_KEEP = "\0keep"

Spans = list[tuple[int, int]]
"""Runs of positions: the first, and how many."""

Part = tuple[ds.ParquetFileFragment, Spans]
"""Row groups of a file, and where they are in it."""


def live_batches(
    files: ds.FileSystemDataset,
    rows: Sequence[int],
    vectors: Sequence[bytes | None],
    names: Sequence[str],
    pushed: pc.Expression | None,
    readahead: int = READAHEAD,
    located: bool = True,
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The place of a file, and rows of it that are not gone and for which `pushed` is true.

    Args:
        files: the files, every one with a path of its own.
        rows: how many each holds.
        vectors: the packed positions of each that are gone, or None.
        names: the columns wanted.
        pushed: the filter, None for all rows.
        readahead: files that are decoded before their rows are asked for: memory for latency.
        located: POSITION comes after the columns.

    Raises:
        ValueError: a file holds another number of rows. Arrow's own errors: it cannot be read.
    """
    parts: list[Part]
    if pushed is None:
        parts = [(f, [(0, n)]) for f, n in zip(files.get_fragments(), rows, strict=True)]
    else:
        parts = list(_in_parallel(lambda f: _row_groups(f, pushed, files.schema), files))

    def live(place: int) -> NDArray[np.bool_]:
        return live_mask(vectors[place], rows[place])

    yield from _chosen(files, parts, live, names, pushed, readahead, located)


class Matches:
    """Rows of files at positions that are known. Row groups without any of them are not read."""

    def __init__(
        self,
        files: ds.FileSystemDataset,
        rows: Sequence[int],
        positions: Mapping[int, NDArray[np.int64]],
    ) -> None:
        """Look at the footers of those that hold some.

        Args:
            files: the files, every one with a path of its own.
            rows: how many each holds.
            positions: by the place of a file, ascending.
        """
        self._files, self._rows, self._positions = files, rows, positions
        none: NDArray[np.int64] = np.zeros(0, np.int64)
        self._parts = [
            _holding(fragment, positions.get(place, none))
            for place, fragment in enumerate(files.get_fragments())
        ]

    @property
    def groups(self) -> int:
        """Row groups that hold some."""
        return sum(len(spans) for _, spans in self._parts)

    @property
    def of_groups(self) -> int:
        """Row groups of all the files."""
        return sum(fragment.metadata.num_row_groups for fragment in self._files.get_fragments())

    def batches(
        self, names: Sequence[str], readahead: int, located: bool
    ) -> Iterator[tuple[int, pa.RecordBatch]]:
        """The place of a file, and rows of it, as of `live_batches`. Raises the same."""
        if not self._positions:
            return iter(())
        return _chosen(self._files, self._parts, self._mask, names, None, readahead, located)

    def _mask(self, place: int) -> NDArray[np.bool_]:
        mask: NDArray[np.bool_] = np.zeros(self._rows[place], bool)
        mask[self._positions[place]] = True
        return mask


def _chosen(
    files: ds.FileSystemDataset,
    parts: Sequence[Part],
    chosen: Callable[[int], NDArray[np.bool_]],
    names: Sequence[str],
    pushed: pc.Expression | None,
    readahead: int,
    located: bool,
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Rows of parts of all the files that are `chosen` by position, and by `pushed`."""
    read = [fragment for fragment, spans in parts if spans]
    places = {fragment.path: place for place, (fragment, _) in enumerate(parts)}
    computed = {} if pushed is None else {_KEEP: pushed}
    cursor = _Cursor(-1, [(0, 0)], np.zeros(0, bool))
    scan = scanner(replace_fragments(files, read), names, None, computed, readahead)
    for tagged in scan.scan_batches():
        place = places[tagged.fragment.path]
        if place != cursor.place:
            cursor.finish()
            cursor = _Cursor(place, parts[place][1], chosen(place))
        batch, keep = tagged.record_batch, cursor.take(tagged.record_batch.num_rows)
        if pushed is not None:
            passes = batch.column(len(names)).fill_null(False)
            keep = keep & passes.to_numpy(zero_copy_only=False)
        if keep.any():
            columns = batch.columns[: len(names)]
            if not keep.all():
                columns = keep_rows(columns, pa.array(keep))
            if located:
                columns.append(pa.array(cursor.positions(keep)))
            yield place, pa.RecordBatch.from_arrays(columns, [*names, POSITION][: len(columns)])
    cursor.finish()


def _in_parallel(
    find: Callable[[ds.ParquetFileFragment], Part], files: ds.FileSystemDataset
) -> Iterator[Part]:
    """Of every file; it takes its footer."""
    fragments = list(files.get_fragments())
    with ThreadPoolExecutor(max(1, min(THREADS, len(fragments)))) as pool:
        return pool.map(find, fragments)


def _row_groups(fragment: ds.ParquetFileFragment, pushed: pc.Expression, schema: pa.Schema) -> Part:
    """The part of a file that may hold wanted rows, and where it is."""
    part = fragment.subset(filter=pushed, schema=schema)
    starts, counts = _extents(fragment)
    return part, [(int(starts[group.id]), int(counts[group.id])) for group in part.row_groups]


def _holding(fragment: ds.ParquetFileFragment, positions: NDArray[np.int64]) -> Part:
    """The row groups of a file that hold rows at these positions, and where they are."""
    starts, counts = _extents(fragment)
    groups = np.unique(np.searchsorted(starts, positions, side="right") - 1).tolist()
    part = fragment.subset(row_group_ids=groups) if groups else fragment
    return part, [(int(starts[group]), int(counts[group])) for group in groups]


def _extents(fragment: ds.ParquetFileFragment) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The first position of every row group of a file, and how many rows it has."""
    footer = fragment.metadata
    counts = np.array(
        [footer.row_group(i).num_rows for i in range(footer.num_row_groups)], np.int64
    )
    return np.cumsum(counts) - counts, counts


class _Cursor:
    """Where the rows of one file, as they come, are in it."""

    def __init__(self, place: int, spans: Spans, chosen: NDArray[np.bool_]) -> None:
        self.place = place
        if sum(count for _, count in spans) > len(chosen):
            raise ValueError("there are more rows than the log says")
        self._spans = spans
        self._chosen = _joined([chosen[first : first + count] for first, count in spans])
        self._at = 0

    def take(self, count: int) -> NDArray[np.bool_]:
        """Of the next rows, which are chosen; not to be changed."""
        self._at += count
        if self._at > len(self._chosen):
            raise ValueError("there are more rows than the log says")
        return self._chosen[self._at - count : self._at]

    def positions(self, kept: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Of the rows taken last, those `kept`."""
        start = self._at - len(kept)
        return self._positions[start : self._at][kept]

    @cached_property
    def _positions(self) -> NDArray[np.int64]:
        return _joined([np.arange(first, first + count) for first, count in self._spans])

    def finish(self) -> None:
        """Every row has come."""
        if self._at < len(self._chosen):
            raise ValueError("there are fewer rows than the log says")


def _joined(pieces: list[NDArray[Any]]) -> NDArray[Any]:
    return pieces[0] if len(pieces) == 1 else np.concatenate(pieces)
