"""Avro encoding of Arrow columns. Pure.

Each function returns one binary Arrow array with the Avro bytes of one field, a value per record.
`joined` puts the fields of a record together. So thousands of records cost no Python object each.
Spec: XPT-22.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Union

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

Encoded = Union[pa.Array, bytes]  # noqa: UP007 - evaluated at run time in 3.10
"""Avro bytes of one field: a value per record, or the same bytes in every record."""

_NOTHING = pa.scalar(b"", pa.binary())
_ABSENT, _PRESENT = b"\x00", b"\x02"
"""Branches of the union of null and a type."""


FEW = 16
"""Numbers up to which a loop is faster than numpy."""


def long_bytes(value: int) -> bytes:
    """Return the encoding of one `int` or `long`: zigzag, then 7 bits in a byte, low bits first."""
    number = (value << 1) ^ (value >> 63)
    made = bytearray()
    while number > 0x7F:
        made.append(number & 0x7F | 0x80)
        number >>= 7
    made.append(number)
    return bytes(made)


def longs(values: NDArray[np.int64]) -> pa.Array:
    """Return the encoding of `int` and `long`, as `long_bytes` of each number."""
    if len(values) <= FEW:
        return pa.array(list(map(long_bytes, values.tolist())), pa.binary())
    zigzag = ((values << 1) ^ (values >> 63)).astype(np.uint64)
    limits = np.uint64(1) << np.arange(7, 64, 7, dtype=np.uint64)
    lengths = np.searchsorted(limits, zigzag, side="right") + 1
    widest = int(lengths.max()) if len(lengths) else 0
    places = np.arange(widest)
    groups = (zigzag[:, None] >> (places * 7).astype(np.uint64)) & np.uint64(0x7F)
    more = places < (lengths - 1)[:, None]
    matrix = groups.astype(np.uint8) | (more.astype(np.uint8) << 7)
    return binary_of(matrix, places < lengths[:, None], lengths)


def binary_of(
    matrix: NDArray[np.uint8], used: NDArray[np.bool_], lengths: NDArray[np.int64]
) -> pa.Array:
    """Return a binary array with the used bytes of each line of a matrix."""
    offsets = np.zeros(len(lengths) + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    data = np.ascontiguousarray(matrix[used])
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.binary(), len(lengths), buffers)


def fixed(values: NDArray[np.generic]) -> pa.Array:
    """Return the bytes of numbers of a fixed width, as the array holds them."""
    width, count = values.dtype.itemsize, len(values)
    offsets = np.arange(count + 1, dtype=np.int32) * width
    data = pa.py_buffer(np.ascontiguousarray(values))
    return pa.Array.from_buffers(pa.binary(), count, [None, pa.py_buffer(offsets), data])


def texts(values: pa.Array) -> pa.Array:
    """Return the encoding of `string` and `bytes`: the length, then the bytes. NULL stays NULL."""
    raw = values.cast(pa.binary())
    lengths = pc.fill_null(pc.binary_length(raw), 0).to_numpy(zero_copy_only=False)
    return joined(longs(lengths.astype(np.int64)), raw)


def joined(*parts: Encoded) -> pa.Array:
    """Return the parts of each record in one piece. It is NULL if one of them is NULL."""
    whole = [pa.scalar(part, pa.binary()) if isinstance(part, bytes) else part for part in parts]
    return pc.binary_join_element_wise(*whole, _NOTHING)


def optional(encoded: pa.Array) -> pa.Array:
    """Return the encoding of a union of null and a type. NULL is the absent value."""
    made = joined(_PRESENT, encoded)
    return pc.fill_null(made, pa.scalar(_ABSENT, pa.binary())) if made.null_count else made


def id_map(
    values: Mapping[int, pa.Array], count: int, widths: Mapping[int, int] | None = None
) -> pa.Array:
    """Return the encoding of a map with ids as keys: an array of records of a key and a value.

    Args:
        values: the encoded values by id; NULL where the map of a record lacks the id.
        count: the number of records.
        widths: lengths of values that are not encoded yet, but bytes of a fixed length.
    """
    sizes = np.zeros(count, np.int64)
    parts = []
    for key, encoded in values.items():
        sizes += _present(encoded)
        width = 0 if widths is None else widths.get(key, 0)
        pair = joined(long_bytes(key) + (long_bytes(width) if width else b""), encoded)
        parts.append(pc.fill_null(pair, _NOTHING) if pair.null_count else pair)
    empty = pa.scalar(_ABSENT, pa.binary())
    if not parts or not sizes.any():
        return pa.repeat(empty, count)
    if sizes.min() == sizes.max():
        return joined(long_bytes(int(sizes[0])), *parts, _ABSENT)
    return pc.if_else(pa.array(sizes > 0), joined(longs(sizes), *parts, _ABSENT), empty)


def _present(encoded: pa.Array) -> NDArray[np.int64] | int:
    if not encoded.null_count:
        return 1
    valid: NDArray[np.bool_] = pc.is_valid(encoded).to_numpy(zero_copy_only=False)
    return valid.astype(np.int64)
