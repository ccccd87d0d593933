"""Python values as the constants that conditions compare with a column. Pure."""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from tablefmt.errors import InvalidPredicateError
from tablefmt.expressions.ansi_comparisons import INTEGERS, Literal
from tablefmt.model.schema import Field, kind_name

_EPOCH = datetime.datetime(1970, 1, 1)
_EPOCH_UTC = _EPOCH.replace(tzinfo=datetime.timezone.utc)
_MICROSECOND = datetime.timedelta(microseconds=1)

_DIGITS = range(-400, 400)
"""Range of powers of ten for a number, as in text."""


def literal_of(value: Any, field: Field) -> Literal:
    """Return a constant that the column can be compared with.

    Args:
        value: None, which is NULL; bool, int, float, Decimal, str, bytes, date or datetime, where a
            naive one is UTC for a timestamp column; numpy's and pyarrow's scalars of these, and
            pandas' times.
        field: a column that is not nested.

    Raises:
        InvalidPredicateError: a value of another kind than the column's.
    """
    plain = _plain(value)
    if plain is None:
        return Literal("null", None)
    reader = _READERS.get(kind_name(field.type))
    literal = None if reader is None else reader(plain)
    if literal is None:
        advice = ""
        if isinstance(plain, str):
            advice = "; text is compared only with text, so pass a number, a date or a datetime"
        raise InvalidPredicateError(
            f"column {field.name!r} is {field.type} and cannot be compared with the "
            f"{type(value).__name__} {value!r:.80}{advice}"
        )
    return literal


def _plain(value: Any) -> Any:
    """Return the value as a plain Python value."""
    if isinstance(value, pa.Scalar):
        value = value.as_py()
    if isinstance(value, np.datetime64):
        if np.isnat(value):
            return None
        fine = value.astype("datetime64[us]")
        return fine.item() if fine == value else value
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, datetime.date) and value != value:
        return None  # pandas' NaT
    return bytes(value) if isinstance(value, bytearray | memoryview) else value


def _truth(value: Any) -> Literal | None:
    return Literal("boolean", value) if isinstance(value, bool) else None


def _number(value: Any) -> Literal | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return Literal("integral", int(value))
    if isinstance(value, float):
        return Literal("double", float(value))
    if isinstance(value, decimal.Decimal) and value.is_finite() and value.adjusted() in _DIGITS:
        return Literal("decimal", value)
    return None


def _double(value: Any) -> Literal | None:
    literal = _number(value)
    try:
        return None if literal is None else Literal("double", float(literal.value))
    except OverflowError:
        return None


def _text(value: Any) -> Literal | None:
    try:
        text = value.decode("utf-8") if isinstance(value, bytes) else value
        if isinstance(text, str):
            # No text of a table contains an unpaired surrogate.
            text.encode("utf-8")
            return Literal("string", str(text))
    except UnicodeError:
        pass
    return None


def _binary(value: Any) -> Literal | None:
    if isinstance(value, str):
        text = _text(value)
        return None if text is None else Literal("binary", text.value.encode("utf-8"))
    return Literal("binary", value) if isinstance(value, bytes) else None


def _time(value: Any) -> Literal | None:
    if isinstance(value, datetime.datetime):
        if getattr(value, "nanosecond", 0):
            return None
        if value.utcoffset() is None:
            wall = value.replace(tzinfo=None) - _EPOCH
            return Literal("timestamp_ntz", wall // _MICROSECOND)
        return Literal("timestamp", (value - _EPOCH_UTC) // _MICROSECOND)
    if isinstance(value, datetime.date):
        return Literal("date", (value - _EPOCH.date()).days)
    return None


_READERS: dict[str, Callable[[Any], Literal | None]] = {
    "boolean": _truth,
    **dict.fromkeys((*INTEGERS, "decimal"), _number),
    **dict.fromkeys(("float", "double"), _double),
    "string": _text,
    "binary": _binary,
    **dict.fromkeys(("date", "timestamp", "timestamp_ntz"), _time),
}
"""Converters by kind of column. They return None for a value that cannot be compared with it."""
