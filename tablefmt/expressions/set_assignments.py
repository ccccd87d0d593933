"""Assignments of SET and INSERT to columns and struct fields, checked against the table. Pure.

Expressions are opaque: SQL text, or an engine's own objects. Spec: SQL-5.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tablefmt.errors import InvalidPredicateError, SchemaMismatchError, UnsupportedFeatureError
from tablefmt.model.name_matching import folded, there_are
from tablefmt.model.schema import Field, Schema, Struct, is_nested, parts_of

Expression = Any
"""SQL text in Spark's dialect; on Spark also a Column."""

Assignment = tuple[Field, Expression]
"""Column of the table, or field of a struct, with its new value: an expression, `Parts` or
`Over`.
"""

NESTED_INSERT = "insert:nested-field"
INSIDE_COLLECTION = "update:inside-array-or-map"


@dataclass(frozen=True, slots=True)
class Parts:
    """New values of fields of a struct. Its other fields stay unchanged. Spec: SQL-5."""

    values: tuple[Assignment, ...]
    """Assignments, at least one, in the order of the struct's fields."""


@dataclass(frozen=True, slots=True)
class Over:
    """New value of a struct that may lack some of its fields. These stay unchanged, at any depth.
    NULL over NULL is NULL. Spec: MRG-1.
    """

    value: Expression


def over(field: Field, value: Expression) -> Expression:
    """Return the value that `SET *` with schema merging assigns to a column."""
    return Over(value) if isinstance(field.type, Struct) else value


def assigned(
    values: Mapping[str, Expression], schema: Schema, alias: str | None = None
) -> tuple[Assignment, ...]:
    """Return the columns of SET or of an INSERT, in the table's order.

    Args:
        values: by column, or field of a struct. The key is the plain name or its SQL form, with or
            without `alias` before it.
        schema: the table's schema.
        alias: the table's name in the statement.

    Raises:
        InvalidPredicateError: there are no assignments.
        SchemaMismatchError: a column that does not exist, or is set twice. This includes a struct
            and a part of it.
        UnsupportedFeatureError: something inside an array or a map is set.
    """
    if not values:
        raise InvalidPredicateError("there are no columns to set; name at least one")
    paths: dict[str, tuple[Field, ...]] = {}
    for name in values:
        path = find_path(schema, name, alias)
        for other, there in paths.items():
            shared = min(len(path), len(there))
            if path[:shared] == there[:shared]:
                raise SchemaMismatchError(
                    f"column {_dotted(max(path, there, key=len))!r} is set twice, as {other!r} and "
                    f"as {name!r}",
                    [path[0].name],
                )
        paths[name] = path
    return _tree(schema.fields, [(path, values[name]) for name, path in paths.items()])


def check_whole(values: Sequence[Assignment]) -> None:
    """Refuse an INSERT that sets a part of a column. Raises UnsupportedFeatureError."""
    for column, value in values:
        if isinstance(value, Parts):
            raise UnsupportedFeatureError(
                f"INSERT sets only a part of column {column.name!r}; pass the whole column with "
                "named_struct()",
                [NESTED_INSERT],
            )


def _tree(
    fields: Sequence[Field], values: Sequence[tuple[tuple[Field, ...], Expression]]
) -> tuple[Assignment, ...]:
    assignments: list[Assignment] = []
    for field in fields:
        below = [(path[1:], value) for path, value in values if path[0] == field]
        if not below:
            continue
        if not below[0][0]:
            assignments.append((field, below[0][1]))
        else:
            assert isinstance(field.type, Struct)
            assignments.append((field, Parts(_tree(field.type.fields, below))))
    return tuple(assignments)


def find_path(schema: Schema, name: str, alias: str | None = None) -> tuple[Field, ...]:
    """Return the column, or the field of a struct, that a name in SET refers to, with its parents.

    A column of exactly this name comes first, then a column of the table that `alias` names, then a
    part of a column.

    Raises:
        SchemaMismatchError: there is none.
        UnsupportedFeatureError: it is inside an array, a map or a variant.
    """
    if not isinstance(name, str):
        raise SchemaMismatchError(
            f"{name!r} is not a column name: expected str, got {type(name).__name__}"
        )
    plain = schema.find(name)
    if plain is not None:
        return (plain,)
    parts = parts_of(name)
    qualified = len(parts) > 1 and alias is not None and folded(parts[0]) == folded(alias)
    if qualified and schema.find(parts[1]) is not None:
        parts = parts[1:]
    outer = schema.find(parts[0]) if parts else None
    if outer is None or (len(parts) > 1 and not is_nested(outer.type)):
        raise SchemaMismatchError(f"no column {name!r}; {there_are(name, schema.names)}", [name])
    path = [outer]
    for part in parts[1:]:
        path.append(_field_of(path, part))
    return tuple(path)


def _field_of(path: Sequence[Field], name: str) -> Field:
    kind = path[-1].type
    if not isinstance(kind, Struct):
        if is_nested(kind):
            raise UnsupportedFeatureError(
                f"{name!r} is inside {_dotted(path)!r}, which is {kind}: only fields of structs "
                "can be set separately; set the whole value",
                [INSIDE_COLLECTION],
            )
        raise SchemaMismatchError(f"{_dotted(path)!r} is {kind} and has no fields", [path[0].name])
    for field in kind.fields:
        if folded(field.name) == folded(name):
            return field
    raise SchemaMismatchError(
        f"{_dotted(path)!r} has no field {name!r}; "
        f"{there_are(name, [f.name for f in kind.fields])}",
        [path[0].name],
    )


def _dotted(path: Sequence[Field]) -> str:
    return ".".join(field.name for field in path)
