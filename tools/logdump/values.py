"""Decode the values of columns in an entry, from spec/ alone (VAL)."""

from __future__ import annotations

import base64
import re
import struct
from decimal import Decimal
from typing import Any

import pyarrow as pa

from logdump.shapes import fits, require

DECIMAL_TYPE = re.compile(r"decimal\((\d{1,2}),(\d{1,2})\)\Z", re.ASCII)
DECIMAL_TEXT = re.compile(r"-?\d+(\.\d+)?\Z", re.ASCII)
BITS = {"byte": 8, "short": 16, "integer": 32, "long": 64}
BITS |= {"date": 32, "timestamp": 64, "timestamp_ntz": 64}


def encode(column: pa.ChunkedArray) -> list[Any]:
    """Return a Parquet column's values in the encoding of VAL-1."""
    if pa.types.is_date(column.type):
        column = column.cast(pa.int32())
    elif pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64())
    values = column.to_pylist()
    if pa.types.is_binary(column.type):
        return [None if value is None else base64.b64encode(value).decode() for value in values]
    if pa.types.is_decimal(column.type):
        return [None if value is None else f"{value:f}" for value in values]
    if pa.types.is_floating(column.type):
        special = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}
        return [special.get(repr(value), value) for value in values]
    return list(values)


def decode(value: Any, kind: Any) -> Any:
    """Refuse a value in a wrong encoding for its type (VAL-1); return a comparable value."""
    if value is None:
        return None
    sound, decoded = False, value
    if kind in ("float", "double"):
        sound = fits(value, ({"NaN", "Infinity", "-Infinity"}, int, float))
        decoded = nearest(value, kind) if sound else None
        sound = decoded is not None
    elif kind in ("boolean", "string"):
        sound = type(value) is {"boolean": bool, "string": str}[kind]
    elif isinstance(kind, str) and kind in BITS:
        limit = 2 ** (BITS[kind] - 1)
        sound = type(value) is int and -limit <= value < limit
    elif kind == "binary" and isinstance(value, str):
        try:
            decoded = base64.b64decode(value, validate=True)
            sound = base64.b64encode(decoded).decode() == value
        except ValueError:
            sound = False
    elif isinstance(kind, str) and isinstance(value, str) and DECIMAL_TEXT.match(value):
        decoded = Decimal(value)
        sound = _is_written(decoded, value, kind)
    require(sound, "VAL-1", f"holds {value!r:.100} where the type is {kind!r:.100}")
    return decoded


def nearest(value: Any, kind: str) -> float | None:
    """Return the nearest number of the type; None if only infinity is nearest."""
    number = float(value)
    if kind == "double" or isinstance(value, str):
        return number
    try:
        single: float = struct.unpack("<f", struct.pack("<f", number))[0]
    except OverflowError:
        return None
    return single


def _is_written(number: Decimal, text: str, kind: str) -> bool:
    """Return True if a decimal has exactly its type's digits, and no sign on zero."""
    match = DECIMAL_TYPE.match(kind)
    if match is None:
        return False
    precision, scale = int(match[1]), int(match[2])
    plain = f"{number.copy_abs():.{scale}f}"
    digits = plain.replace(".", "").lstrip("0")
    return text == ("-" if number < 0 else "") + plain and len(digits) <= precision


def check_bounds(lower: Any, upper: Any, kind: Any) -> None:
    """Refuse bounds that are too long, NaN, of another type, or swapped."""
    low, high = decode(lower, kind), decode(upper, kind)
    require("NaN" not in (lower, upper) or kind == "string", "VAL-4", "has NaN for a bound")
    short = kind not in ("string", "binary") or all(len(b or "") <= 32 for b in (low, high))
    require(short, "VAL-3", "has a bound longer than 32")
    ordered = low is None or high is None or low <= high
    require(ordered, "VAL-3", f"has the bounds {lower!r:.60} and {upper!r:.60}, upside down")
