"""Substrait messages that pyarrow creates for a condition, and their literals as values. Pure.

Only supported content has a field here. All else is an unknown field to protobuf, which readers of
a message check. The numbers are those of substrait.io; they never change. Spec: PRN-15
(spec/pruning.md).
"""

from __future__ import annotations

import decimal
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from tablefmt.model.schema import Decimal, Field

_NUMBER, _LONG, _FLOAT, _DOUBLE, _BOOL, _BYTES = (
    "INT32",
    "INT64",
    "FLOAT",
    "DOUBLE",
    "BOOL",
    "BYTES",
)

MESSAGES: Mapping[str, Mapping[str, tuple[int, str]]] = {
    "ExtendedExpression": {
        "extension_uris": (1, "ExtensionUri*"),
        "extensions": (2, "Declaration*"),
        "referred_expr": (3, "Reference*"),
    },
    "ExtensionUri": {"anchor": (1, _NUMBER), "uri": (2, _BYTES)},
    "Declaration": {"extension_function": (3, "Function")},
    "Function": {"uri_reference": (1, _NUMBER), "anchor": (2, _NUMBER), "name": (3, _BYTES)},
    "Reference": {"expression": (1, "Expression"), "output_names": (3, "BYTES*")},
    "Expression": {
        "literal": (1, "Literal"),
        "selection": (2, "FieldReference"),
        "scalar_function": (3, "ScalarFunction"),
        "singular_or_list": (8, "SingularOrList"),
    },
    "ScalarFunction": {
        "function_reference": (1, _NUMBER),
        "output_type": (3, _BYTES),
        "arguments": (4, "Argument*"),
    },
    "Argument": {"value": (3, "Expression")},
    "FieldReference": {"direct_reference": (1, "Segment"), "root_reference": (4, _BYTES)},
    "Segment": {"struct_field": (2, "StructField")},
    "StructField": {"field": (1, _NUMBER)},
    "SingularOrList": {"value": (1, "Expression"), "options": (2, "Expression*")},
    "Literal": {
        "boolean": (1, _BOOL),
        "i8": (2, _NUMBER),
        "i16": (3, _NUMBER),
        "i32": (5, _NUMBER),
        "i64": (7, _LONG),
        "fp32": (10, _FLOAT),
        "fp64": (11, _DOUBLE),
        "string": (12, _BYTES),
        "binary": (13, _BYTES),
        "timestamp": (14, _LONG),
        "date": (16, _NUMBER),
        "decimal": (24, "Decimal"),
        "timestamp_tz": (27, _LONG),
        "null": (29, _BYTES),
        "nullable": (50, _BOOL),
    },
    "Decimal": {"value": (1, _BYTES), "precision": (2, _NUMBER), "scale": (3, _NUMBER)},
}
"""Number and type by message and field; `*` marks a repeated field. Types and texts are bytes;
readers compare or decode them where needed.
"""

Message = Any
"""Instance of one of the classes that protobuf creates. protobuf has no static types for them."""


def extended_expression(content: bytes) -> Message | None:
    """Return the ExtendedExpression of these bytes; None if they are invalid."""
    message, error = _parser()
    try:
        return message.FromString(content)
    except error:
        return None


def has_only(message: Message, *names: str) -> bool:
    """Return True if only these fields are set, and no unknown ones."""
    from google.protobuf.unknown_fields import UnknownFieldSet

    known = all(field.name in names for field, _ in message.ListFields())
    return known and not len(UnknownFieldSet(message))


@lru_cache(maxsize=1)
def _parser() -> tuple[Any, type[Exception]]:
    from google.protobuf import descriptor_pb2, descriptor_pool, message, message_factory

    kinds = descriptor_pb2.FieldDescriptorProto
    # proto2, because it distinguishes an unset field from 0.
    page = descriptor_pb2.FileDescriptorProto(
        name="tablefmt/substrait.proto", package="tablefmt.substrait", syntax="proto2"
    )
    for name, fields in MESSAGES.items():
        described = page.message_type.add(name=name)
        for field, (number, kind) in fields.items():
            one = described.field.add(name=field, number=number)
            one.label = kinds.LABEL_REPEATED if kind.endswith("*") else kinds.LABEL_OPTIONAL
            inner = kind.removesuffix("*")
            if inner in MESSAGES:
                one.type, one.type_name = kinds.TYPE_MESSAGE, f".tablefmt.substrait.{inner}"
            else:
                one.type = getattr(kinds, f"TYPE_{inner}")
    # Use a private pool: other libraries may register Substrait's messages in the default one.
    pool = descriptor_pool.DescriptorPool()
    pool.Add(page)
    whole = pool.FindMessageTypeByName("tablefmt.substrait.ExtendedExpression")
    return message_factory.GetMessageClass(whole), message.DecodeError


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
