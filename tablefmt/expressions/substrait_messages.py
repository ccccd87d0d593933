"""Substrait messages that pyarrow creates for a condition, as protobuf classes. Pure.

Only supported content has a field here. All else is an unknown field to protobuf, which readers of
a message check. The numbers are those of substrait.io; they never change.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

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
