"""One schema seen differently: as data files name it, or with NULL allowed everywhere. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tablefmt.model.schema import Array, Field, Map, Schema, Struct, Type


def physical(schema: Schema) -> Schema:
    """The same schema with physical names for names, at every level."""
    return replace(schema, fields=tuple(map(physical_field, schema.fields)))


def physical_field(field: Field) -> Field:
    """The same for one field."""
    return replace(field, name=field.physical, type=_each(field.type, physical_field, keep=True))


def nullable(schema: Schema) -> Schema:
    """The same schema with NULL allowed in every field, element and map value."""
    return replace(schema, fields=tuple(map(nullable_field, schema.fields)))


def nullable_field(field: Field) -> Field:
    """The same for one field."""
    return replace(field, nullable=True, type=_each(field.type, nullable_field, keep=False))


def without_comments(schema: Schema) -> Schema:
    """The same schema with nothing said of its columns."""
    return replace(schema, fields=tuple(map(_uncommented, schema.fields)))


def _uncommented(field: Field) -> Field:
    return replace(field, comment=None, type=_each(field.type, _uncommented, keep=True))


def _each(kind: Type, change: Callable[[Field], Field], *, keep: bool) -> Type:
    """`kind` with every field in it changed; elements and values stay as nullable as they are, or
    become nullable.
    """
    if isinstance(kind, Struct):
        return Struct(tuple(map(change, kind.fields)))
    if isinstance(kind, Array):
        return Array(_each(kind.element, change, keep=keep), kind.nullable or not keep)
    if isinstance(kind, Map):
        return Map(
            _each(kind.key, change, keep=keep),
            _each(kind.value, change, keep=keep),
            kind.nullable or not keep,
        )
    return kind
