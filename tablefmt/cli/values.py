"""Conversion of Arrow values to exact JSON values. Pure.

Integers and booleans stay as they are. Times become ISO text with µs, with Z for a timestamp with a
zone. Decimals become text, bytes base64, NaN and infinities text, and maps lists of pairs.
"""

from __future__ import annotations

import base64
import math
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc


def plain(array: pa.Array) -> list[Any]:
    """Return the elements of `array`, nulls as None."""
    kind = array.type
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        return _times(array, "Z" if getattr(kind, "tz", None) else "")
    if pa.types.is_struct(kind):
        return _structs(array)
    if pa.types.is_map(kind):
        pairs = list(map(list, zip(plain(array.keys), plain(array.items), strict=True)))
        return _slices(array, pairs)
    if pa.types.is_list(kind):
        return _slices(array, plain(array.values))
    values: list[Any] = array.to_pylist()
    if pa.types.is_floating(kind):
        return [_float(value) for value in values]
    if pa.types.is_decimal(kind):
        return [None if value is None else format(value, "f") for value in values]
    if pa.types.is_binary(kind):
        return [None if v is None else base64.b64encode(v).decode("ascii") for v in values]
    return values


def records(table: pa.Table | pa.RecordBatch) -> list[dict[str, Any]]:
    """Return the rows as dicts, columns in order. Of two columns with one name, the last one
    counts.
    """
    columns = [plain_column(column) for column in table.columns]
    names = table.schema.names
    if not columns:
        return [{} for _ in range(table.num_rows)]
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def plain_column(column: pa.ChunkedArray | pa.Array) -> list[Any]:
    """Return `plain` of all chunks."""
    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    return [value for chunk in chunks for value in plain(chunk)]


def _times(array: pa.Array, suffix: str) -> list[Any]:
    """Format times with numpy: Python's datetime ends at year 9999, Spark's does not."""
    unit = "D" if pa.types.is_date32(array.type) else "us"
    if unit == "D":
        whole = pc.fill_null(array.view(pa.int32()), 0).cast(pa.int64())
    else:
        whole = pc.fill_null(array.cast(pa.timestamp("us", array.type.tz)).view(pa.int64()), 0)
    texts = np.datetime_as_string(whole.to_numpy(zero_copy_only=False).view(f"M8[{unit}]"))
    valid = array.is_valid().to_pylist()
    return [str(t) + suffix if known else None for t, known in zip(texts, valid, strict=True)]


def _structs(array: pa.StructArray) -> list[Any]:
    names = [array.type.field(i).name for i in range(array.type.num_fields)]
    columns = [plain(column) for column in array.flatten()]
    valid = array.is_valid().to_pylist()
    return [
        {name: column[at] for name, column in zip(names, columns, strict=True)} if known else None
        for at, known in enumerate(valid)
    ]


def _slices(array: pa.ListArray | pa.MapArray, elements: list[Any]) -> list[Any]:
    offsets, valid = array.offsets.to_pylist(), array.is_valid().to_pylist()
    return [
        elements[offsets[at] : offsets[at + 1]] if known else None for at, known in enumerate(valid)
    ]


def _float(value: float | None) -> Any:
    if value is None or math.isfinite(value):
        return value
    if math.isnan(value):
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"
