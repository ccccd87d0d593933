"""Comparison of rows: binary keys of rows, and the difference of two multisets of rows.

Two rows have the same key exactly if all their values are equal. NULL equals NULL, all NaN are
equal, and -0.0 differs from 0.0. Maps are equal if they have the same entries in the same order. No
Python object is made for a row.

For a difference, equal rows cancel. Up to MEMORY_BYTES, both are held in memory. Beyond that, a
hash deals them into PARTS parts on disk, which are compared one after another. So memory holds the
largest part.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tablefmt.data.spill_buffers import RangeSpill

_NOTHING = pa.scalar(b"", pa.large_binary())

_SAMPLES = 32
"""Half the number of bytes of a variable-width value that enter its hash."""

Bytes = NDArray[np.uint8]
"""Two-dimensional array with one array row for each table row."""


def row_keys(columns: Sequence[pa.Array], rows: int) -> pa.LargeBinaryArray:
    """Return the key of each row: the fixed-width bytes with all lengths, then the rest."""
    key = _Key(rows)
    for column in columns:
        key.take(column)
    return key.joined()


def row_hashes(columns: Sequence[pa.Array], rows: int) -> NDArray[np.uint64]:
    """Return a hash for each row. Equal rows have equal hashes."""
    key = _Key(rows)
    for column in columns:
        key.take(column)
    return key.hashes()


class _Key:
    """Builder of keys, column by column."""

    def __init__(self, rows: int) -> None:
        self._rows = rows
        self._fixed: list[Bytes] = []
        self._varying: list[pa.LargeBinaryArray] = []

    def joined(self) -> pa.LargeBinaryArray:
        """Return the complete keys; none is empty."""
        fixed = self._fixed_bytes()
        ends = np.arange(self._rows + 1, dtype=np.int64) * fixed.shape[1]
        buffers = [None, pa.py_buffer(ends), pa.py_buffer(np.ascontiguousarray(fixed))]
        first = pa.Array.from_buffers(pa.large_binary(), self._rows, buffers)
        if not self._varying:
            return first
        return pc.binary_join_element_wise(first, *self._varying, _NOTHING)

    def hashes(self) -> NDArray[np.uint64]:
        """Return hashes of all fixed-width bytes, and of samples of the others."""
        fixed = self._fixed_bytes()
        factors = np.random.default_rng(0)
        hashes = np.ones(self._rows, np.uint64)
        for at in range(0, fixed.shape[1], 8):
            word = np.zeros((self._rows, 8), np.uint8)
            part = fixed[:, at : at + 8]
            word[:, : part.shape[1]] = part
            hashes = _mixed(hashes ^ word.view(np.uint64)[:, 0], factors)
        for varying in self._varying:
            ends = np.frombuffer(varying.buffers()[1], np.int64)[varying.offset :]
            starts, lengths = ends[: self._rows], np.diff(ends[: self._rows + 1])
            data = np.frombuffer(varying.buffers()[2] or b"", np.uint8)
            some = np.zeros((self._rows, 8), np.uint8)
            there = lengths > 0
            for sample in range(2 * _SAMPLES if len(data) else 0):
                at = starts[there] + (lengths[there] - 1) * sample // (2 * _SAMPLES - 1)
                some[there, sample % 8] ^= data[at]
                if sample % 8 == 7:
                    hashes = _mixed(hashes ^ some.view(np.uint64)[:, 0], factors)
        return hashes

    def _fixed_bytes(self) -> Bytes:
        return np.concatenate([np.zeros((self._rows, 1), np.uint8), *self._fixed], axis=1)

    def take(self, values: pa.Array) -> None:
        """Add a column."""
        kind = values.type
        if values.null_count:
            self._number(values.is_valid().cast(pa.uint8()))
        else:
            self._fixed.append(np.ones((self._rows, 1), np.uint8))
        if pa.types.is_struct(kind):
            for part in values.flatten():
                self.take(part)
        elif pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_map(kind):
            self._list(values)
        elif pa.types.is_boolean(kind):
            self._number(values.cast(pa.uint8()))
        elif pa.types.is_primitive(kind) or pa.types.is_decimal(kind):
            self._number(values)
        else:
            values = pc.fill_null(values.cast(pa.large_binary()), b"")
            self._number(pc.binary_length(values))
            self._varying.append(values)

    def _number(self, values: pa.Array) -> None:
        """Add values of one width. NULL gets constant bytes."""
        kind = values.type
        if pa.types.is_floating(kind) and pc.any(pc.is_nan(values)).as_py():
            values = pc.if_else(pc.is_nan(values), pa.scalar(float("nan"), kind), values)
        width = kind.bit_width // 8
        buffer = np.frombuffer(values.buffers()[1] or b"", np.uint8)
        first = values.offset * width
        data = buffer[first : first + self._rows * width].reshape(self._rows, width)
        if values.null_count:
            data = data * values.is_valid().cast(pa.uint8()).to_numpy()[:, np.newaxis]
        self._fixed.append(data)

    def _list(self, values: pa.Array) -> None:
        """Add the concatenated elements of lists, each with its length before it."""
        if pa.types.is_map(values.type):
            entry = pa.struct([values.type.key_field, values.type.item_field])
            values = values.cast(pa.list_(pa.field("entries", entry, nullable=False)))
        counts = pc.fill_null(pc.list_value_length(values), 0).cast(pa.int64())
        self._number(counts)
        elements = values.flatten()
        inner = _Key(len(elements))
        inner.take(elements)
        keys = inner.joined()
        framed = _Key(len(elements))
        framed._number(pc.binary_length(keys))
        framed._varying.append(keys)
        ends = np.concatenate([[0], np.cumsum(counts.to_numpy())]).astype(np.int64)
        lists = pa.LargeListArray.from_arrays(pa.array(ends), framed.joined())
        joined = pc.binary_join(lists, _NOTHING)
        self._number(pc.binary_length(joined))
        self._varying.append(joined)


def _mixed(values: NDArray[np.uint64], factors: np.random.Generator) -> NDArray[np.uint64]:
    factor = np.uint64(int(factors.integers(1 << 62, 1 << 63)) | 1)
    product: NDArray[np.uint64] = values * factor
    product ^= product >> np.uint64(32)
    return product


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
