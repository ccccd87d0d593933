"""Values that stand for columns that were not given, or are not in a file. Pure. Spec: SCH-7."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from tablefmt.errors import CorruptEntryError, SchemaMismatchError
from tablefmt.model.arrow_types import arrow_type
from tablefmt.model.coerce import kind_name
from tablefmt.model.literals import literal_sql
from tablefmt.model.schema import Schema, Type, is_nested
from tablefmt.model.values import decode, decode_value, encode


def default_of(value: Any, kind: Type, name: str) -> Any:
    """A Python value or an Arrow scalar as the default of a column: in the form of VAL-1.

    Raises:
        SchemaMismatchError: it is no value of that type, or the type is nested.
    """
    if value is None:
        return None
    if is_nested(kind):
        raise SchemaMismatchError(f"column {name!r} is {kind} and cannot have a default", [name])
    target = arrow_type(kind)
    plain = value.as_py() if isinstance(value, pa.Scalar) else value
    try:
        if isinstance(plain, bool) != pa.types.is_boolean(target):
            raise ValueError("a truth value is no number, and no number is a truth value")
        if type(plain) is int and not _is_number(target):
            # Arrow would take it for days or microseconds.
            raise ValueError("it is a number")
        given = pa.array([plain], target)
        return encode(given, kind)[0]
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        first = (str(error).splitlines() or [type(error).__name__])[0]
        raise SchemaMismatchError(
            f"{plain!r:.100} cannot be the default of column {name!r} ({kind}): {first}", [name]
        ) from None


def default_array(value: Any, kind: Type) -> pa.Array:
    """A value of VAL-1 as an Arrow array of one, of `arrow_type(kind)`; None is null."""
    return decode([value], kind) if value is not None else pa.nulls(1, arrow_type(kind))


def recoded(value: Any, old: Type, new: Type) -> Any:
    """A value of VAL-1 as one of a wider type."""
    if value is None:
        return None
    return encode(default_array(value, old).cast(arrow_type(new)), new)[0]


def _is_number(kind: pa.DataType) -> bool:
    types = pa.types
    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind))


def check_values(schema: Schema) -> None:
    """Refuse defaults that are no values of their columns. Spec: SCH-7.

    Raises:
        CorruptEntryError: which of them.
    """
    for field in schema.fields:
        for value in (field.default, field.initial):
            if value is None:
                continue
            if is_nested(field.type):
                message = f"column {field.name!r} is nested and has a default"
                raise CorruptEntryError(message, rule="SCH-7")
            try:
                decode([value], field.type)
            except CorruptEntryError as error:
                raise CorruptEntryError(
                    f"column {field.name!r} has a default that is none: {error.detail}",
                    rule="SCH-7",
                ) from None


def default_sql(value: Any, kind: Type) -> str:
    """A value of VAL-1 as text that Spark reads as a literal of exactly that type and value."""
    name = kind_name(kind)
    return f"CAST({literal_sql(decode_value(value, kind), name)} AS {str(kind).upper()})"
