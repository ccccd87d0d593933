"""Rows of data files with their positions, without those that are gone. Spec: DEL-1, DEL-4.

Arrow's scanner tells no positions and drops rows that a filter refuses, so here the filter only
chooses row groups; what it says of a row is computed as a column.
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

from tablefmt.data.row_groups import Spans, inhabited_part, passing_parts, pieces, whole_parts
from tablefmt.data.scanner import POSITION, READAHEAD, keep_rows, replace_fragments, scanner
from tablefmt.model.cached import cached_property
from tablefmt.model.positions import live_mask

_KEEP = "\0keep"

FEW = 8
"""Of a file with fewer than one live row in so many, row groups without any are not read."""


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
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The place of a file, and rows of it that are not gone and for which `pushed` is true.

    Args:
        files: the files, every one with a path of its own.
        rows: how many each holds.
        widths: of each, bytes of a row of `names`, as of `row_bytes`.
        vectors: the packed positions of each that are gone, or None.
        names: the columns wanted.
        pushed: the filter, None for all rows.
        readahead: files that are decoded before their rows are asked for: memory for latency.
        located: POSITION comes after the columns.
        most_bytes: decoded ahead of whoever asks for rows, at most; by default PIECE_BYTES.

    Raises:
        ValueError: a file holds another number of rows. Arrow's own errors: it cannot be read.
    """

    @lru_cache(1)
    def live(place: int) -> NDArray[np.bool_]:
        return live_mask(vectors[place], rows[place])

    parts = whole_parts(files, rows) if pushed is None else passing_parts(files, pushed)
    if pushed is None:
        for place, vector in enumerate(vectors):
            if vector is not None and np.count_nonzero(live(place)) * FEW < rows[place]:
                parts[place] = inhabited_part(parts[place], live(place))
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
                    columns = keep_rows(columns, pa.array(keep))
                if located:
                    columns.append(pa.array(cursor.positions(keep)))
                yield place, pa.RecordBatch.from_arrays(columns, [*names, POSITION][: len(columns)])
        cursor.finish()


def passing_batches(
    files: ds.FileSystemDataset,
    rows: Sequence[int],
    widths: Sequence[int],
    names: Sequence[str],
    pushed: pc.Expression | None,
    readahead: int = READAHEAD,
    most_bytes: int | None = None,
) -> Iterator[pa.RecordBatch]:
    """Rows of whole files for which `pushed` is true. Takes and raises as `live_batches`."""
    parts = whole_parts(files, rows)
    if pushed is not None and len(list(islice(pieces(parts, widths, most_bytes), 2))) > 1:
        # In one piece Arrow looks by itself at what can pass.
        parts = passing_parts(files, pushed)
    for run in pieces(parts, widths, most_bytes):
        some = replace_fragments(files, [fragment for fragment, _ in run])
        yield from scanner(some, names, pushed, readahead=readahead).to_batches()


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
