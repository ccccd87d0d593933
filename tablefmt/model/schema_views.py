"""Views of a schema: with physical names, with NULL allowed everywhere, without comments. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tablefmt.model.schema import Array, Field, Map, Schema, Struct, Type


def physical(schema: Schema) -> Schema:
    """Return the schema with physical names as names, at every level."""
    return replace(schema, fields=tuple(map(physical_field, schema.fields)))


def physical_field(field: Field) -> Field:
    """Return the field with physical names as names, at every level."""
    return replace(field, name=field.physical, type=_each(field.type, physical_field, keep=True))


def nullable(schema: Schema) -> Schema:
    """Return the schema with NULL allowed in every field, element and map value."""
    return replace(schema, fields=tuple(map(nullable_field, schema.fields)))


def nullable_field(field: Field) -> Field:
    """Return the field with NULL allowed in it and in every part of it."""
    return replace(field, nullable=True, type=_each(field.type, nullable_field, keep=False))


def without_comments(schema: Schema) -> Schema:
    """Return the schema without comments."""
    return replace(schema, fields=tuple(map(_uncommented, schema.fields)))


def _uncommented(field: Field) -> Field:
    return replace(field, comment=None, type=_each(field.type, _uncommented, keep=True))


def _each(kind: Type, change: Callable[[Field], Field], *, keep: bool) -> Type:
    """Return `kind` with every field in it changed.

    With `keep`, elements and values keep their nullability. Otherwise they become nullable.
    """
    if isinstance(kind, Struct):
        return Struct(tuple(map(change, kind.fields)))
    if isinstance(kind, Array):
        element = _each(kind.element, change, keep=keep)
        return replace(kind, element=element, nullable=kind.nullable or not keep)
    if isinstance(kind, Map):
        key, value = (_each(inner, change, keep=keep) for inner in (kind.key, kind.value))
        return replace(kind, key=key, value=value, nullable=kind.nullable or not keep)
    return kind


def same_type(one: Type, other: Type) -> bool:
    """Return True if the types are equal in names, order and nullability. Ids are ignored."""
    if isinstance(one, Struct) and isinstance(other, Struct):
        return len(one.fields) == len(other.fields) and all(
            a.name == b.name and a.nullable == b.nullable and same_type(a.type, b.type)
            for a, b in zip(one.fields, other.fields, strict=True)
        )
    if isinstance(one, Array) and isinstance(other, Array):
        return one.nullable == other.nullable and same_type(one.element, other.element)
    if isinstance(one, Map) and isinstance(other, Map):
        return (
            one.nullable == other.nullable
            and same_type(one.key, other.key)
            and same_type(one.value, other.value)
        )
    return one == other
