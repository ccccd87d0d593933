"""Difference of two multisets of rows, after equal rows cancel.

Up to MEMORY_BYTES, both are held in memory. Beyond that, a hash deals them into PARTS parts on
disk, which are compared one after another. So memory holds the largest part.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tablefmt.data.row_keys import row_hashes, row_keys
from tablefmt.data.spill_buffers import RangeSpill

MEMORY_BYTES = 256 << 20
PARTS = 64
"""Parts are selected by the upper six bits of a hash."""

Side = list[pa.RecordBatch]


def row_difference(
    went: Iterable[pa.RecordBatch],
    came: Iterable[pa.RecordBatch],
    schema: pa.Schema,
    compared: Sequence[int],
    memory_limit: int = MEMORY_BYTES,
) -> Iterator[tuple[bool, pa.RecordBatch]]:
    """Yield rows that went more often than they came, then rows that came more often.

    Args:
        went: rows of that schema.
        came: rows of that schema.
        schema: the schema of both.
        compared: positions of the columns that decide equality.
        memory_limit: bytes of rows in memory.

    Yields:
        False and rows that went; then True and rows that came. No batch is empty.

    Raises:
        StoreError: the disk for temporary files is full.
    """
    sides: tuple[Side, Side] = ([], [])
    streams = (iter(went), iter(came))
    budget = memory_limit
    for side, stream in zip(sides, streams, strict=True):
        for batch in stream:
            side.append(batch)
            budget -= batch.nbytes
            if budget < 0:
                yield from _on_disk(sides, streams, schema, compared, memory_limit)
                return
    went_rows, came_rows = (pa.Table.from_batches(side, schema) for side in sides)
    lost, won = _cancelled(went_rows, came_rows, compared)
    yield from ((False, batch) for batch in lost.to_batches() if batch.num_rows)
    yield from ((True, batch) for batch in won.to_batches() if batch.num_rows)


def _cancelled(
    went: pa.Table, came: pa.Table, compared: Sequence[int]
) -> tuple[pa.Table, pa.Table]:
    if went.num_rows == 0 or came.num_rows == 0:
        return went, came
    rows = went.num_rows + came.num_rows
    both = pa.concat_tables([went, came])
    columns = [both.column(at).combine_chunks() for at in compared]
    codes = row_keys(columns, rows).dictionary_encode().indices.to_numpy()
    split = went.num_rows
    kinds = int(codes.max()) + 1
    surplus = np.bincount(codes[:split], minlength=kinds)
    surplus -= np.bincount(codes[split:], minlength=kinds)
    return (
        went.filter(pa.array(_ranks(codes[:split]) < surplus[codes[:split]])),
        came.filter(pa.array(_ranks(codes[split:]) < -surplus[codes[split:]])),
    )


def _ranks(codes: NDArray[np.int32]) -> NDArray[np.int64]:
    """Return for each code the number of equal codes before it."""
    order = np.argsort(codes, kind="stable")
    ranks = np.empty(len(codes), np.int64)
    starts = np.flatnonzero(np.diff(codes[order], prepend=-1))
    counts = np.diff(np.append(starts, len(codes)))
    ranks[order] = np.arange(len(codes)) - np.repeat(starts, counts)
    return ranks


def _on_disk(
    held: tuple[Side, Side],
    streams: tuple[Iterator[pa.RecordBatch], ...],
    schema: pa.Schema,
    compared: Sequence[int],
    memory_limit: int,
) -> Iterator[tuple[bool, pa.RecordBatch]]:
    """Compare part by part on disk.

    Raises:
        StoreError: the disk for temporary files is full.
    """
    with contextlib.ExitStack() as spills:
        each = memory_limit // 4
        went, came, won = (spills.enter_context(RangeSpill(PARTS, each)) for _ in range(3))
        for spill, side, stream in zip((went, came), held, streams, strict=True):
            for batch in itertools.chain(_emptied(side), stream):
                hashes = row_hashes([batch.column(at) for at in compared], batch.num_rows)
                spill.put(batch, (hashes >> np.uint64(58)).astype(np.int64))
        for part in range(PARTS):
            sides = [spill.take(part) for spill in (went, came)]
            rows = [schema.empty_table() if side is None else side for side in sides]
            left, new = _cancelled(rows[0], rows[1], compared)
            yield from ((False, batch) for batch in left.to_batches() if batch.num_rows)
            for batch in new.to_batches():
                won.put(batch, np.full(batch.num_rows, part))
        for _, rows in won.ranges():
            yield from ((True, batch) for batch in rows.to_batches() if batch.num_rows)


def _emptied(held: Side) -> Iterator[pa.RecordBatch]:
    while held:
        yield held.pop(0)
