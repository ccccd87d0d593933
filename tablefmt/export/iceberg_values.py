"""Values in the two binary forms of Iceberg: bounds, and partition values in Avro. Pure.

Both are made per column, from Arrow arrays in the types of the table. Spec: XPT-21.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tablefmt.export.avro_file import binary_of, fixed, longs, texts
from tablefmt.model.schema import Decimal, Type, is_float, kind_name

_INTEGERS = {"byte": pa.int32(), "short": pa.int32(), "integer": pa.int32(), "long": pa.int64()}
_AS_INTEGERS = {
    **_INTEGERS,
    "date": pa.int32(),
    "timestamp": pa.int64(),
    "timestamp_ntz": pa.int64(),
}
"""Types whose values are integers, with the width that Iceberg stores."""


def single_values(values: pa.Array, kind: Type) -> pa.Array:
    """Return Iceberg's single-value serialization: a binary array, NULL where a value is NULL."""
    name = kind_name(kind)
    if isinstance(kind, Decimal):
        encoded = _shortest(_big_endian(values))
    elif name in ("string", "binary"):
        return values.cast(pa.binary())
    elif name == "boolean":
        encoded = fixed(_filled(values, False).astype(np.uint8))
    elif is_float(kind):
        encoded = fixed(_filled(values, 0.0))
    else:
        encoded = fixed(_filled(_cast(values, _AS_INTEGERS[name]), 0))
    return _with_nulls(encoded, values)


def single_width(kind: Type) -> int:
    """Return the bytes of a value's single-value serialization; 0 if they differ."""
    name = kind_name(kind)
    if name in _AS_INTEGERS:
        return 4 if _AS_INTEGERS[name] == pa.int32() else 8
    return {"boolean": 1, "float": 4, "double": 8}.get(name, 0)


def partition_values(values: pa.Array, kind: Type) -> pa.Array:
    """Return the Avro bytes of values without the union: a binary array, NULL for NULL."""
    name = kind_name(kind)
    if isinstance(kind, Decimal):
        width = decimal_bytes(kind.precision)
        encoded = fixed_bytes(_big_endian(values)[:, 16 - width :])
    elif name in ("string", "binary"):
        return texts(values)
    elif name == "boolean":
        encoded = fixed(_filled(values, False).astype(np.uint8))
    elif is_float(kind):
        encoded = fixed(_filled(values, 0.0))
    else:
        encoded = longs(_filled(_cast(_cast(values, _AS_INTEGERS[name]), pa.int64()), 0))
    return _with_nulls(encoded, values)


def lower_bound_of_zero(values: pa.Array) -> pa.Array:
    """Return float lower bounds with -0.0 for each zero. Iceberg orders -0.0 before 0.0."""
    return _zero_as(values, -0.0)


def upper_bound_of_zero(values: pa.Array) -> pa.Array:
    """Return float upper bounds with 0.0 for each zero."""
    return _zero_as(values, 0.0)


def _zero_as(values: pa.Array, zero: float) -> pa.Array:
    return pc.if_else(
        pc.equal(values, pa.scalar(0.0, values.type)), pa.scalar(zero, values.type), values
    )


def decimal_bytes(precision: int) -> int:
    """Return the least bytes that hold every decimal of some digits in two's complement."""
    return (int(10**precision - 1).bit_length() + 8) // 8


def fixed_bytes(matrix: NDArray[np.uint8]) -> pa.Array:
    """Return a binary array with the lines of a matrix."""
    lengths = np.full(matrix.shape[0], matrix.shape[1], np.int64)
    return binary_of(matrix, np.ones(matrix.shape, bool), lengths)


def _big_endian(values: pa.Array) -> NDArray[np.uint8]:
    """Return the 16 bytes of each decimal, high byte first; anything for NULL."""
    start, count = 16 * values.offset, len(values)
    data = np.frombuffer(values.buffers()[1], np.uint8)[start : start + 16 * count]
    return data.reshape(count, 16)[:, ::-1]


def _shortest(matrix: NDArray[np.uint8]) -> pa.Array:
    """Return two's complement numbers without the bytes that only repeat the sign."""
    sign = np.where(matrix[:, :1] >= 0x80, 0xFF, 0).astype(np.uint8)
    differs = matrix != sign
    first = np.where(differs.any(axis=1), differs.argmax(axis=1), 15)
    rows = np.arange(len(matrix))
    # The first byte that stays must have the sign's bit.
    wrong = (matrix[rows, first] >= 0x80) != (sign[:, 0] >= 0x80)
    first = first - wrong
    return binary_of(matrix, np.arange(16) >= first[:, None], 16 - first)


def _filled(values: pa.Array, nothing: Any) -> NDArray[Any]:
    if values.null_count:
        values = pc.fill_null(values, pa.scalar(nothing, values.type))
    array: NDArray[Any] = values.to_numpy(zero_copy_only=False)
    return array


def _cast(values: pa.Array, kind: pa.DataType) -> pa.Array:
    return values if values.type == kind else values.cast(kind)


def _with_nulls(encoded: pa.Array, values: pa.Array) -> pa.Array:
    if not values.null_count:
        return encoded
    return pc.if_else(pc.is_valid(values), encoded, pa.scalar(None, pa.binary()))
