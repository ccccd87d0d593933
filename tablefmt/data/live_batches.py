"""Live rows of files that pass a filter, decoded by Arrow's scanner, all columns at once.

Arrow's scanner reports no positions and drops rows that fail a filter. So where positions matter,
the filter only selects row groups, and its result per row is computed as a column.

Spec: DAT-4, DEL-1, DEL-4.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import islice
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from numpy.typing import NDArray

from tablefmt.data.arrow_scanner import (
    POSITION,
    READAHEAD,
    keep_rows,
    replace_fragments,
    scanner,
)
from tablefmt.data.scan_tasks import (
    Part,
    Spans,
    inhabited_part,
    passing_parts,
    pieces,
    whole_parts,
)
from tablefmt.model.cached_property import cached_property
from tablefmt.model.positions import live_mask

_KEEP = "\0keep"

FEW = 8
"""If fewer than one row in FEW is live, row groups without live rows are not read."""


def live_batches(
    files: ds.FileSystemDataset,
    rows: Sequence[int],
    widths: Sequence[int],
    vectors: Sequence[bytes | None],
    names: Sequence[str],
    pushed: pc.Expression | None,
    readahead: int = READAHEAD,
    located: bool = True,
    most_bytes: int | None = None,
    parts: Sequence[Part] | None = None,
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield the index of a file, and its live rows for which `pushed` is true.

    Args:
        files: the files, each with its own path.
        rows: row count of each file.
        widths: bytes of a row of `names` in each file, as `row_bytes` returns them.
        vectors: encoded positions of the deleted rows of each file, or None.
        names: the columns to return.
        pushed: the filter, None for all rows.
        readahead: files that are decoded ahead: memory for latency.
        located: add the column POSITION at the end.
        most_bytes: most bytes decoded ahead of the consumer; by default PIECE_BYTES.
        parts: the row groups of each file, perhaps none; None: those that can hold such a row.

    Raises:
        ValueError: a file holds another number of rows. Arrow's own errors: it cannot be read.
    """

    @lru_cache(1)
    def live(place: int) -> NDArray[np.bool_]:
        return live_mask(vectors[place], rows[place])

    if parts is None and pushed is not None:
        parts = passing_parts(files, pushed)
    elif parts is None:
        parts = inhabited_parts(files, rows, vectors)
    places = {fragment.path: place for place, (fragment, _) in enumerate(parts)}

    for run in pieces(parts, widths, most_bytes):
        there = {fragment.path: spans for fragment, spans in run}
        cursor = _Cursor(-1, [(0, 0)], np.zeros(0, bool))
        computed = {} if pushed is None else {_KEEP: pushed}
        some = replace_fragments(files, [fragment for fragment, _ in run])
        for tagged in scanner(some, names, None, computed, readahead).scan_batches():
            path, batch = tagged.fragment.path, tagged.record_batch
            place = places[path]
            if place != cursor.place:
                cursor.finish()
                cursor = _Cursor(place, there[path], live(place))
            keep = cursor.take(batch.num_rows)
            if pushed is not None:
                passes = batch.column(len(names)).fill_null(False)
                keep = keep & passes.to_numpy(zero_copy_only=False)
            if keep.any():
                columns = batch.columns[: len(names)]
                if not keep.all():
                    columns = keep_rows(columns, keep)
                if located:
                    columns.append(pa.array(cursor.positions(keep)))
                yield place, pa.RecordBatch.from_arrays(columns, [*names, POSITION][: len(columns)])
        cursor.finish()


def inhabited_parts(
    files: ds.FileSystemDataset, rows: Sequence[int], vectors: Sequence[bytes | None]
) -> list[Part]:
    """Return the row groups of each file. If few of its rows are live, those with a live row."""
    parts = whole_parts(files, rows)
    for place, vector in enumerate(vectors):
        if vector is not None:
            live = live_mask(vector, rows[place])
            if np.count_nonzero(live) * FEW < rows[place]:
                parts[place] = inhabited_part(parts[place], live)
    return parts


def passing_batches(
    files: ds.FileSystemDataset,
    rows: Sequence[int],
    widths: Sequence[int],
    names: Sequence[str],
    pushed: pc.Expression | None,
    readahead: int = READAHEAD,
    most_bytes: int | None = None,
) -> Iterator[pa.RecordBatch]:
    """Yield rows of whole files for which `pushed` is true. Takes and raises as `live_batches`."""
    parts = whole_parts(files, rows)
    if pushed is not None and len(list(islice(pieces(parts, widths, most_bytes), 2))) > 1:
        # For a single piece, Arrow selects the row groups itself.
        parts = passing_parts(files, pushed)
    for run in pieces(parts, widths, most_bytes):
        some = replace_fragments(files, [fragment for fragment, _ in run])
        yield from scanner(some, names, pushed, readahead=readahead).to_batches()


class _Cursor:
    """Position of a scan within one file, as its rows arrive."""

    def __init__(self, place: int, spans: Spans, chosen: NDArray[np.bool_]) -> None:
        self.place = place
        if sum(count for _, count in spans) > len(chosen):
            raise ValueError("the file has more rows than the log says")
        self._spans = spans
        self._chosen = _joined([chosen[first : first + count] for first, count in spans])
        self._at = 0

    def take(self, count: int) -> NDArray[np.bool_]:
        """Return which of the next rows are live. The caller must not modify the result."""
        self._at += count
        if self._at > len(self._chosen):
            raise ValueError("the file has more rows than the log says")
        return self._chosen[self._at - count : self._at]

    def positions(self, kept: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Return the positions of the rows in `kept`, among the rows taken last."""
        start = self._at - len(kept)
        return self._positions[start : self._at][kept]

    @cached_property
    def _positions(self) -> NDArray[np.int64]:
        return _joined([np.arange(first, first + count) for first, count in self._spans])

    def finish(self) -> None:
        """Check that every row has arrived."""
        if self._at < len(self._chosen):
            raise ValueError("the file has fewer rows than the log says")


def _joined(pieces: list[NDArray[Any]]) -> NDArray[Any]:
    return pieces[0] if len(pieces) == 1 else np.concatenate(pieces)
