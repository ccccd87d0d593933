"""Substrait literals as values of columns. Pure. Spec: PRN-15 (spec/pruning.md)."""

from __future__ import annotations

import decimal
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tablefmt.expressions.substrait_messages import Message, has_only
from tablefmt.model.schema import Decimal, Field

_WHOLE = {"byte": 8, "short": 16, "integer": 32, "long": 64}

_KINDS = {
    "boolean": "boolean",
    "i8": "byte",
    "i16": "short",
    "i32": "integer",
    "i64": "long",
    "fp32": "float",
    "fp64": "double",
    "string": "string",
    "binary": "binary",
    "timestamp": "timestamp_ntz",
    "date": "date",
    "decimal": "decimal",
    "timestamp_tz": "timestamp",
    "null": "null",
}
"""Column type by field of Literal. Type variations, which none of these fields records, are
refused.
"""


class NotConvertedError(Exception):
    """Error for a message with unsupported content. It never leaves `arrow_to_predicate`."""


@dataclass(frozen=True, slots=True)
class Literal:
    """Value of the type called `kind`; for "null", the value is None."""

    kind: str
    value: Any


def check_only(message: Message, *names: str) -> None:
    """Raise NotConvertedError if other fields are set, or unknown ones."""
    if not has_only(message, *names):
        raise NotConvertedError("unknown fields")


def inner(message: Message, name: str) -> Message:
    """Return the value of the only field that a message has."""
    check_only(message, name)
    if not message.HasField(name):
        raise NotConvertedError("a field is missing")
    return getattr(message, name)


def decoded(value: bytes) -> str:
    """Return UTF-8 bytes as text. Raises NotConvertedError."""
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError:
        raise NotConvertedError("not UTF-8") from None


def literal_of(node: Message) -> Literal:
    """Return the literal. Raises NotConvertedError for unknown types, variations and parts."""
    literal = inner(node, "literal")
    check_only(literal, "nullable", *_KINDS)
    given = [(field.name, value) for field, value in literal.ListFields()]
    values = [(_KINDS[name], value) for name, value in given if name in _KINDS]
    if len(values) != 1:
        raise NotConvertedError("not one value")
    kind, value = values[0]
    decode = _DECODERS.get(kind)
    return Literal(kind, value if decode is None else decode(value))


def _whole(kind: str) -> Callable[[int], int]:
    """Return a check for a number that the message may hold in more bits than its type has."""
    end = 1 << _WHOLE[kind] - 1

    def decode(value: int) -> int:
        if not -end <= value < end:
            raise NotConvertedError("beyond its type")
        return value

    return decode


def _decimal(message: Message) -> decimal.Decimal:
    check_only(message, "value", "precision", "scale")
    precision, scale = message.precision, message.scale
    if len(message.value) != 16 or not 0 < precision <= 38 or not 0 <= scale <= precision:
        raise NotConvertedError("not a decimal")
    whole = int.from_bytes(message.value, "little", signed=True)
    digits = tuple(map(int, str(abs(whole))))
    if len(digits) > precision:
        raise NotConvertedError("beyond its precision")
    return decimal.Decimal((int(whole < 0), digits, -scale))


_DECODERS: Mapping[str, Callable[[Any], Any]] = {
    **{kind: _whole(kind) for kind in ("byte", "short")},
    "string": decoded,
    "decimal": _decimal,
    "null": lambda kind: None,
}
"""Converters for kinds whose message value is not the value itself."""


def value_in(literal: Literal, field: Field) -> Any:
    """Return the value as one of the column's own type."""
    if isinstance(field.type, Decimal) and literal.kind == "decimal":
        return _fitted(literal.value, field.type)
    if literal.kind != str(field.type):
        raise NotConvertedError("another type than the column's")
    return literal.value


def option_in(literal: Literal, field: Field) -> Any:
    """Return `value_in`, but accept whole numbers of any width, since Arrow converts sets."""
    bits = _WHOLE.get(str(field.type))
    if bits and literal.kind in _WHOLE:
        return _whole(str(field.type))(literal.value)
    return value_in(literal, field)


def _fitted(value: decimal.Decimal, kind: Decimal) -> decimal.Decimal:
    """Return the same number with the column's scale. Raises NotConvertedError if that is not
    exact.
    """
    context = decimal.Context(kind.precision, traps=[decimal.Inexact, decimal.InvalidOperation])
    try:
        return value.quantize(decimal.Decimal((0, (1,), -kind.scale)), context=context)
    except (decimal.Inexact, decimal.InvalidOperation):
        raise NotConvertedError("beyond the column's precision") from None
