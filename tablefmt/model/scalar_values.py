"""Single values: their JSON encoding in an entry, and their display in errors. Pure.

Partition values and bounds are encoded. Every value is exact or absent. Integers, dates (days) and
timestamps (µs) are integers; decimals are strings; binary is base64. Floats are numbers, with NaN
and the infinities as strings. Spec: VAL-1 .. VAL-4 (spec/entry.md).
"""

from __future__ import annotations

import base64
import binascii
import decimal
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tablefmt.errors import CorruptEntryError
from tablefmt.model.arrow_types import arrow_type
from tablefmt.model.schema import Decimal, Primitive, Type, is_float

BOUND_LENGTH_MAX = 32
"""Maximum length of a bound: code points of a string, bytes of binary."""

_STORAGE = {"date": pa.int32(), "timestamp": pa.int64(), "timestamp_ntz": pa.int64()}


def encode(values: pa.Array, kind: Type) -> list[Any]:
    """Return an Arrow array of `arrow_type(kind)` as JSON values, nulls as None. Spec: VAL-1."""
    name = kind.name if isinstance(kind, Primitive) else "decimal"
    if name in _STORAGE:
        values = values.view(_STORAGE[name])
    plain: list[Any] = values.to_pylist()
    return [encode_value(v, name) for v in plain] if name in _NOT_PLAIN else plain


_NOT_PLAIN = frozenset({"decimal", "binary", "float", "double"})


def encode_value(value: Any, name: str) -> Any:
    """Return one Python value of the type called `name` as its JSON value."""
    if value is None:
        return None
    if name in ("float", "double"):
        if value != value:
            return "NaN"
        if value in (float("inf"), float("-inf")):
            return "Infinity" if value > 0 else "-Infinity"
        return value
    if name == "decimal":
        return format(value, "f")
    if name == "binary":
        return base64.b64encode(value).decode("ascii")
    return value


def decode(values: Sequence[Any], kind: Type) -> pa.Array:
    """Return JSON values as an Arrow array of `arrow_type(kind)`.

    Raises:
        CorruptEntryError: VAL-1, a value of another type, or one that does not fit.
    """
    target = arrow_type(kind)
    if isinstance(kind, Decimal) and len(values) >= _MANY:
        exact = _decimals(values, kind)
        if exact is not None:
            return exact
    try:
        _check_json(values, kind)
        if is_float(kind):
            return _floats(values, target)
        if isinstance(kind, Primitive):
            if kind.name in _STORAGE:
                return pa.array(values, _STORAGE[kind.name]).view(target)
            if kind.name == "binary":
                return pa.array([None if v is None else _bytes_in(v) for v in values], target)
            return pa.array(values, target)
        return pa.array([None if v is None else decimal.Decimal(v) for v in values], target)
    except (
        pa.ArrowException,
        ValueError,
        TypeError,
        OverflowError,
        ArithmeticError,
        binascii.Error,
    ) as error:
        raise CorruptEntryError(
            f"a value does not fit its type {kind}: {error}", rule="VAL-1"
        ) from None


_MANY = 64
"""Number of values from which one call for all of them is faster than Python's decimals."""


def _decimals(values: Sequence[Any], kind: Decimal) -> pa.Array | None:
    """Return decimals that obey VAL-1; None if a value does not."""
    if not {str, type(None)}.issuperset(map(type, values)):
        return None
    before = kind.precision - kind.scale
    # Arrow's cast does not refuse every text with too many digits.
    whole = rf"(?:0|[1-9][0-9]{{0,{before - 1}}})" if before else "0"
    point = rf"\.[0-9]{{{kind.scale}}}" if kind.scale else ""
    try:
        texts = pa.array(values, pa.string())
        right = pc.match_substring_regex(texts, rf"^-?{whole}{point}$")
        wrong = pc.match_substring_regex(texts, r"^-0(?:\.0*)?$")
        if pc.all(right).as_py() is False or pc.any(wrong).as_py():
            return None
        return texts.cast(arrow_type(kind))
    except (pa.ArrowException, UnicodeError):
        return None


def _bytes_in(text: str) -> bytes:
    """Return the bytes of a base64 text. Raises ValueError if the text is not canonical."""
    found = base64.b64decode(text, validate=True)
    if base64.b64encode(found).decode("ascii") != text:
        raise ValueError("base64 is not canonical: its last digit has extra bits")
    return found


def _floats(values: Sequence[Any], target: pa.DataType) -> pa.Array:
    """Return the floats nearest to the numbers. Text is NaN or infinite.

    A whole number may lack the point in JSON, so it may be more exact than the float. Raises
    ValueError if a number is too large.
    """
    floats = pa.array([None if v is None else float(v) for v in values], pa.float64()).cast(target)
    if target != pa.float64():
        infinite = sum(type(v) is str and v != "NaN" for v in values)
        if pc.sum(pc.is_inf(floats)).as_py() not in (None, infinite):
            raise ValueError("a number is too large")
    return floats


def has_negative_zero(values: pa.Array | pa.ChunkedArray) -> bool:
    """Return True if an Arrow array holds a float that is -0.0 (VAL-2)."""
    if not pa.types.is_floating(values.type):
        return False
    plain = pc.fill_null(values, 1).to_numpy()
    return bool(np.any(np.signbit(plain) & (plain == 0)))


_NOT_NUMBERS = frozenset({"NaN", "Infinity", "-Infinity"})
_WHOLE_PART = r"(?!-0(\.0*)?$)-?(0|[1-9][0-9]*)"
_JSON_TYPES: dict[str, frozenset[type]] = {
    "boolean": frozenset({bool}),
    "float": frozenset({int, float, str}),
    "double": frozenset({int, float, str}),
    "string": frozenset({str}),
    "binary": frozenset({str}),
}


def _check_json(values: Sequence[Any], kind: Type) -> None:
    """Refuse JSON that Arrow and Python accept but VAL-1 forbids: `true` as 1, "1e3" as a
    decimal.
    """
    name = kind.name if isinstance(kind, Primitive) else "string"
    allowed = _JSON_TYPES.get(name, frozenset({int}))
    classes = set(map(type, values)) - {type(None)}
    if not classes <= allowed:
        found = ", ".join(sorted(t.__name__ for t in classes - allowed))
        expected = " or ".join(sorted(t.__name__ for t in allowed))
        raise TypeError(f"expected {expected}, got {found}")
    texts = [v for v in values if type(v) is str] if is_float(kind) else []
    if not _NOT_NUMBERS.issuperset(texts):
        raise ValueError("text that is not NaN, Infinity or -Infinity")
    if isinstance(kind, Decimal):
        form = re.compile(_WHOLE_PART + (rf"\.[0-9]{{{kind.scale}}}" if kind.scale else ""))
        if any(v is not None and not form.fullmatch(v) for v in values):
            raise ValueError(f"expected a decimal with {kind.scale} digits after the point")


def decode_value(value: Any, kind: Type) -> Any:
    """Return one JSON value as the Python value that predicates hold. Dates and times stay
    integers.

    `value` is not None and comes from a checked entry (VAL-1).
    """
    if is_float(kind):
        return float(value)
    if isinstance(kind, Primitive):
        return base64.b64decode(value) if kind.name == "binary" else value
    return decimal.Decimal(value)


def lower_bound(value: Any) -> Any:
    """Return a value <= the given one, short enough to store. Text and binary are cut. Spec:
    VAL-3.
    """
    return value[:BOUND_LENGTH_MAX] if isinstance(value, str | bytes) else value


def upper_bound(value: Any) -> Any:
    """Return a value >= the given one, short enough to store, or None if there is none. Spec:
    VAL-3.
    """
    if isinstance(value, str) and len(value) > BOUND_LENGTH_MAX:
        return _next_text(value[:BOUND_LENGTH_MAX])
    if isinstance(value, bytes) and len(value) > BOUND_LENGTH_MAX:
        return _next_bytes(value[:BOUND_LENGTH_MAX])
    return value


def _next_text(text: str) -> str | None:
    """Return the shortest text above every text that starts with `text`; None if all are
    U+10FFFF.
    """
    for i in range(len(text) - 1, -1, -1):
        point = ord(text[i])
        if point < 0x10FFFF:
            # UTF-8 cannot encode surrogates, so skip them.
            following = 0xE000 if point == 0xD7FF else point + 1
            return text[:i] + chr(following)
    return None


def _next_bytes(data: bytes) -> bytes | None:
    for i in range(len(data) - 1, -1, -1):
        if data[i] < 0xFF:
            return data[:i] + bytes([data[i] + 1])
    return None


def shown_value(value: pa.Scalar) -> Any:
    """Return a value as its Python object, or as text where Python has none (days beyond the year
    9999).
    """
    try:
        return value.as_py()
    except (OverflowError, ValueError):
        pass
    try:
        return value.cast(pa.string()).as_py()
    except pa.ArrowException:
        return f"a value of type {value.type} that Python cannot represent"
