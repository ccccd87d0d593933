"""Defaults: values of columns that the caller left out, or that a file lacks. Pure. Spec: SCH-7."""

from __future__ import annotations

import math
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa

from tablefmt.errors import CorruptEntryError, SchemaMismatchError
from tablefmt.model.arrow_types import arrow_type
from tablefmt.model.scalar_values import decode, encode
from tablefmt.model.schema import Primitive, Schema, Type, fitted_text, is_nested, kind_name


def has_values(kind: Type) -> bool:
    """Return True if columns of the type may have a default, that is, if Spark's reader can fill it
    in.
    """
    return not is_nested(kind) and kind != Primitive("binary")


def default_of(value: Any, kind: Type, name: str) -> Any:
    """Return a Python value or an Arrow scalar as the default of a column, in the form of VAL-1.

    Raises:
        SchemaMismatchError: the value does not have the column's type, or the type is nested or
            binary.
    """
    if value is None:
        return None
    if not has_values(kind):
        raise SchemaMismatchError(f"column {name!r} is {kind} and cannot have a default", [name])
    target = arrow_type(kind)
    plain = value
    try:
        if isinstance(value, pa.Scalar):
            plain = value.as_py()
        if not isinstance(plain, _TAKEN[kind_name(kind)]) or _is_other(plain, kind):
            raise ValueError(f"a value of type {type(plain).__name__} does not fit")
        given = pa.array([plain], target)
        if kind_name(kind) == "float" and math.isinf(given[0].as_py()) and not _is_infinite(plain):
            raise ValueError("it is out of range")
        return encode(given, kind)[0]
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        first = (str(error).splitlines() or [type(error).__name__])[0]
        # Python raises on repr() of a scalar beyond its calendar.
        shown = f"a {plain.type}" if isinstance(plain, pa.Scalar) else f"{plain!r:.100}"
        raise SchemaMismatchError(
            f"{shown} cannot be the default of column {name!r} ({kind}): {first}", [name]
        ) from None


def default_array(value: Any, kind: Type) -> pa.Array:
    """Return a value of VAL-1 as an Arrow array of one, of `arrow_type(kind)`; None becomes
    null.
    """
    return decode([value], kind) if value is not None else pa.nulls(1, arrow_type(kind))


def recoded(value: Any, old: Type, new: Type) -> Any:
    """Return a value of VAL-1, converted to a wider type."""
    if value is None:
        return None
    return encode(default_array(value, old).cast(arrow_type(new)), new)[0]


_WHOLE = dict.fromkeys(("byte", "short", "integer", "long"), (int,))
_TAKEN: dict[str, tuple[type, ...]] = {
    **_WHOLE,
    "boolean": (bool,),
    "float": (int, float),
    "double": (int, float),
    "decimal": (int, Decimal),
    "string": (str,),
    "date": (date,),
    "timestamp": (datetime,),
    "timestamp_ntz": (datetime,),
}


def _is_other(value: Any, kind: Type) -> bool:
    """Return True if Arrow would change a value of an accepted class or of a subclass."""
    name = kind_name(kind)
    if isinstance(value, bool):
        return name != "boolean"
    if isinstance(value, datetime):
        return name == "date" or (name == "timestamp_ntz" and value.tzinfo is not None)
    return False


def _is_infinite(value: Any) -> bool:
    return isinstance(value, float) and math.isinf(value)


def check_values(schema: Schema) -> None:
    """Refuse defaults that are not values of their columns. Spec: SCH-7.

    Raises:
        CorruptEntryError: it names the column.
    """
    for field in schema.fields:
        for value in (field.default, field.initial):
            if value is None:
                continue
            if not has_values(field.type):
                message = f"column {field.name!r} is {field.type} and cannot have a default"
                raise CorruptEntryError(message, rule="SCH-7")
            try:
                decode([value], field.type)
            except CorruptEntryError as error:
                raise CorruptEntryError(
                    f"column {field.name!r} has an invalid default: {error.detail}",
                    rule="SCH-7",
                ) from None
            if field.text is not None and fitted_text(value, field.text) != value:
                raise CorruptEntryError(
                    f"column {field.name!r} is {field.text} and its default does not fit it",
                    rule="SCH-10",
                )
