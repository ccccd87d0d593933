"""Binary row keys: two rows have the same bytes exactly if all their values are equal.

NULL equals NULL, all NaN are equal, and -0.0 differs from 0.0. Maps are equal if they have the same
entries in the same order. No Python object is made for a row. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

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
