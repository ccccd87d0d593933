"""Types that hold every value of another, so that they read its files. Pure. Spec: SCH-9."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from tablefmt.model.defaults import recoded
from tablefmt.model.schema import Array, Decimal, Field, Map, Primitive, Schema, Struct, Type

_INTEGERS = ("byte", "short", "integer", "long")
"""From the narrowest."""

_INTEGER_DIGITS = {"byte": 10, "short": 10, "integer": 10, "long": 20}
"""Digits before the point that a decimal needs to take all of them, as Spark counts them."""


def is_widening(old: Type, new: Type) -> bool:
    """Whether files with values of `old` can be read as `new`, without loss. Spec: SCH-9.

    Those are the pairs that Spark's Parquet reader converts by itself.
    """
    if is_wider_of_kind(old, new):
        return True
    if not isinstance(old, Primitive):
        return False
    if isinstance(new, Decimal):
        digits = _INTEGER_DIGITS.get(old.name)
        return digits is not None and new.precision - new.scale >= digits
    pair = (old.name, str(new))
    return pair == ("date", "timestamp_ntz") or (old.name in _INTEGERS[:3] and pair[1] == "double")


def is_wider_of_kind(old: Type, new: Type) -> bool:
    """Whether `new` is a wider type of the same kind: what merging schemas widens to by itself."""
    if isinstance(old, Decimal) and isinstance(new, Decimal):
        whole = (old.precision - old.scale, new.precision - new.scale)
        return old != new and whole[0] <= whole[1] and old.scale <= new.scale
    if not isinstance(old, Primitive) or not isinstance(new, Primitive):
        return False
    if old.name in _INTEGERS and new.name in _INTEGERS:
        return _INTEGERS.index(old.name) < _INTEGERS.index(new.name)
    return (old.name, new.name) == ("float", "double")


def share_origin(one: Type, other: Type) -> bool:
    """Whether a column may have had both types: each is a type that some type can widen to.

    A restore brings the older type back, and another way of widening may follow (RET-3).
    """
    if one == other or is_widening(one, other) or is_widening(other, one):
        return True
    if isinstance(one, Decimal) and isinstance(other, Decimal):
        return True
    origins = (Primitive(name) for name in (*_INTEGERS, "float", "date"))
    return any(is_widening(origin, one) and is_widening(origin, other) for origin in origins)


def with_type(field: Field, kind: Type) -> Field:
    """The field with another type, and its values in it."""
    if kind == field.type:
        return field
    values = (recoded(v, field.type, kind) for v in (field.default, field.initial))
    return replace(field, type=kind, default=next(values), initial=next(values))


def widest(schema: Schema, others: Iterable[Schema]) -> Schema:
    """The columns of a schema with types that hold the values of all, which had the same columns.

    A type may have been wider before: a restore brings the old one back (RET-3).
    """
    for other in others:
        schema = replace(schema, fields=_widest_fields(schema.fields, other.fields))
    return schema


def _widest_fields(fields: tuple[Field, ...], others: tuple[Field, ...]) -> tuple[Field, ...]:
    by_id = {other.id: other for other in others}
    return tuple(
        with_type(field, _widest(field.type, by_id[field.id].type)) if field.id in by_id else field
        for field in fields
    )


def _widest(kind: Type, other: Type) -> Type:
    if isinstance(kind, Struct) and isinstance(other, Struct):
        return replace(kind, fields=_widest_fields(kind.fields, other.fields))
    if isinstance(kind, Array) and isinstance(other, Array):
        return replace(kind, element=_widest(kind.element, other.element))
    if isinstance(kind, Map) and isinstance(other, Map):
        inside = _widest(kind.key, other.key), _widest(kind.value, other.value)
        return replace(kind, key=inside[0], value=inside[1])
    return other if is_widening(kind, other) else kind
