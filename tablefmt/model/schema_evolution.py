"""Schema evolution: add, rename, drop, move and widen columns; merge and replace schemas.

Pure. A field always keeps its id and its physical name. No id and no physical name is ever assigned
twice. So old files stay readable under the new schema. Values of a dropped column never come back
under its name. A merge adds the columns and wider types of incoming rows. A replacement (an
overwrite of the schema, REPLACE TABLE) keeps id and physical name of a column of the same name and
type. So repeated replacements grow neither its file name nor the list of reserved names.
Spec: SCH-3, SCH-4, SCH-7 .. SCH-9 (spec/entry.md).
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Any

from tablefmt.errors import SchemaMismatchError
from tablefmt.model.argument_checks import checked_name
from tablefmt.model.defaults import default_of
from tablefmt.model.name_matching import did_you_mean, folded
from tablefmt.model.schema import (
    Array,
    Field,
    Map,
    Schema,
    Struct,
    Type,
    fits_within,
    fitted_default,
    nullable_field,
    path_of,
    same_type,
)
from tablefmt.model.schema_rules import NewIds, check_names, checked_schema, dropped_names
from tablefmt.model.type_widening import is_widening, is_wider_of_kind, with_type

Fields = tuple[Field, ...]


def with_field(
    schema: Schema, name: str, field: Field, *, after: str | None = None, first: bool = False
) -> Schema:
    """Return the schema with one more column, or one more field of a struct.

    Args:
        schema: the table's schema.
        name: the new name. With dots outside backticks, it is the path to a field.
        field: type, nullability and values; its id and names are ignored.
        after: the sibling that it comes after; by default it comes last.
        first: it comes before its siblings.

    Raises:
        SchemaMismatchError: SCH-2; no such column, struct or sibling; a value for a field of a
            struct.
    """
    parts = path_of(schema, name, new=True)
    if len(parts) > 1 and field.initial is not None:
        raise SchemaMismatchError(
            f"{name!r} is a field inside a column; only top-level columns can have a default",
            [name],
        )
    if len(parts) > 1 and field.text is not None:
        raise SchemaMismatchError(
            f"{name!r} is a field inside a column and cannot be {field.text.upper()}; use STRING",
            [name],
        )
    ids = NewIds(schema)

    def add(fields: Fields) -> Fields:
        new = ids.numbered(replace(field, name=parts[-1]), fields)
        if any(folded(f.name) == folded(new.name) for f in fields):
            raise SchemaMismatchError(f"column {name!r} already exists", [name])
        return _placed(fields, new, after, first)

    fields = _at_siblings(schema.fields, parts, add, name)
    return checked_schema(replace(schema, fields=fields, last_id=ids.last), schema)


def renamed(schema: Schema, name: str, to: str) -> Schema:
    """Return the schema with another name for a column or a field. Values are unchanged.

    Args:
        schema: the table's schema.
        name: the column, or the path of the field.
        to: the new name, taken literally: dots have no special meaning.

    Raises:
        SchemaMismatchError: no such field; SCH-2: the new name is taken or invalid.
    """
    parts = path_of(schema, name)

    def rename(fields: Fields) -> Fields:
        at = _find(fields, parts[-1], name)
        return (*fields[:at], replace(fields[at], name=to), *fields[at + 1 :])

    fields = _at_siblings(schema.fields, parts, rename, name)
    return checked_schema(replace(schema, fields=fields), schema)


def without_field(schema: Schema, name: str) -> Schema:
    """Return the schema without a column or a field. Its physical name is never assigned again.

    Raises:
        SchemaMismatchError: no such field, or the only one of the table or of its struct.
    """
    parts = path_of(schema, name)
    dropped: list[Field] = []

    def drop(fields: Fields) -> Fields:
        at = _find(fields, parts[-1], name)
        if len(fields) == 1:
            raise SchemaMismatchError(
                f"{name!r} is the only column there; a table or struct needs at least one",
                [name],
            )
        dropped.append(fields[at])
        return fields[:at] + fields[at + 1 :]

    fields = _at_siblings(schema.fields, parts, drop, name)
    return replace(schema, fields=fields, dropped=dropped_names(schema, dropped))


def moved(schema: Schema, name: str, *, after: str | None = None, first: bool = False) -> Schema:
    """Return the schema with a column or a field at another position among its siblings.

    Args:
        schema: the table's schema.
        name: the column, or the path of the field.
        after: the sibling that it comes after, by its own name.
        first: it comes before its siblings.

    Raises:
        SchemaMismatchError: no such field or sibling; neither `after` nor `first`, or both.
    """
    if (after is None) != first:
        raise SchemaMismatchError(
            f"the new position of {name!r} is unclear: expected either after=… or first=True",
            [name],
        )
    parts = path_of(schema, name)

    def move(fields: Fields) -> Fields:
        at = _find(fields, parts[-1], name)
        others = fields[:at] + fields[at + 1 :]
        if after is not None and folded(checked_name(after)) == folded(fields[at].name):
            raise SchemaMismatchError(f"{name!r} cannot come after itself", [name])
        return _placed(others, fields[at], after, first)

    return replace(schema, fields=_at_siblings(schema.fields, parts, move, name))


def widened(schema: Schema, name: str, kind: Type, text: str | None = None) -> Schema:
    """Return the schema with a wider type for a column, a field, elements, keys or values.

    Args:
        schema: the table's schema.
        name: a column, or a path: `s.f`, `list.element`, `map.key`, `map.value`.
        kind: the new type. The current type changes nothing.
        text: the declared length of a string; None for no declared length.

    Raises:
        SchemaMismatchError: no such column, or `is_widening`, or `fits_within`, is false.
    """
    parts = path_of(schema, name)

    def widen(old: Type) -> Type:
        if same_type(old, kind):
            return old
        if not is_widening(old, kind):
            raise SchemaMismatchError(
                f"column {name!r} is {old} and cannot become {kind}: the new type must hold every "
                "value of the old type (a wider integer, double for float or int, a decimal "
                "with enough digits, timestamp_ntz for date)",
                [name],
            )
        return kind

    fields = _at_type(schema.fields, parts, widen, name)
    at = _find(fields, parts[0], name)
    was = fields[at].text if len(parts) == 1 else None
    if not fits_within(was, text):
        raise SchemaMismatchError(
            f"column {name!r} is {(was or 'string').upper()} and cannot become "
            f"{str(text).upper()}: change it to a longer VARCHAR, or to STRING",
            [name],
        )
    if text != was:
        fields = (*fields[:at], replace(fields[at], text=text), *fields[at + 1 :])
    return replace(schema, fields=fields)


def with_default(schema: Schema, name: str, value: Any) -> Schema:
    """Return the schema with another default for rows that are written without the column from now
    on.

    Args:
        schema: the table's schema.
        name: a top-level column.
        value: as `default_of` accepts it; None for no default, which is NULL.

    Raises:
        SchemaMismatchError: no such column, or the value does not have its type.
    """
    parts = path_of(schema, name)
    field = schema.find(parts[0])
    if field is None or len(parts) > 1:
        raise _missing(name, schema.fields, name)
    default = fitted_default(default_of(value, field.type, name), field.text, name)
    new = replace(field, default=default)
    return replace(schema, fields=tuple(new if f.id == field.id else f for f in schema.fields))


def with_comment(schema: Schema, name: str, comment: str | None) -> Schema:
    """Return the schema with another comment of a column or a field. Spec: ENT-11.

    Args:
        schema: the table's schema.
        name: the column, or the path of the field.
        comment: as `checked_comment` returns it; None for no comment.

    Raises:
        SchemaMismatchError: no such field.
    """
    parts = path_of(schema, name)

    def say(fields: Fields) -> Fields:
        at = _find(fields, parts[-1], name)
        return (*fields[:at], replace(fields[at], comment=comment), *fields[at + 1 :])

    return replace(schema, fields=_at_siblings(schema.fields, parts, say, name))


def _at_type(
    fields: Fields, parts: tuple[str, ...], change: Callable[[Type], Type], path: str
) -> Fields:
    """Return the fields with the type at the end of a path changed."""
    at = _find(fields, parts[0], path)
    new = with_type(fields[at], _inside(fields[at].type, parts[1:], change, path))
    return (*fields[:at], new, *fields[at + 1 :])


def _inside(kind: Type, parts: tuple[str, ...], change: Callable[[Type], Type], path: str) -> Type:
    if not parts:
        return change(kind)
    rest, step = parts[1:], folded(parts[0])
    if isinstance(kind, Struct):
        return Struct(_at_type(kind.fields, parts, change, path))
    if isinstance(kind, Array) and step == "element":
        return replace(kind, element=_inside(kind.element, rest, change, path))
    if isinstance(kind, Map) and step == "key":
        return replace(kind, key=_inside(kind.key, rest, change, path))
    if isinstance(kind, Map) and step == "value":
        return replace(kind, value=_inside(kind.value, rest, change, path))
    raise SchemaMismatchError(f"there is no {path!r}: {kind} has no field {parts[0]!r}", [path])


def _at_siblings(
    fields: Fields, parts: tuple[str, ...], change: Callable[[Fields], Fields], path: str
) -> Fields:
    """Return the fields, with the siblings at the end of a path changed."""
    if len(parts) == 1:
        return change(fields)

    def inside(kind: Type) -> Type:
        if not isinstance(kind, Struct):
            raise SchemaMismatchError(f"there is no {path!r}: {kind} has no fields", [path])
        return Struct(change(kind.fields))

    return _at_type(fields, parts[:-1], inside, path)


def _placed(fields: Fields, field: Field, after: str | None, first: bool) -> Fields:
    if first and after is not None:
        raise SchemaMismatchError(f"{field.name!r} cannot come first and after {after!r}", [after])
    at = 0 if first else len(fields)
    if after is not None:
        at = _position(fields, checked_name(after)) + 1
        if at == 0:
            raise SchemaMismatchError(f"there is no column {after!r} to come after", [after])
    return (*fields[:at], field, *fields[at:])


def _position(fields: Fields, name: str) -> int:
    wanted = folded(name)
    return next((i for i, f in enumerate(fields) if folded(f.name) == wanted), -1)


def _find(fields: Fields, name: str, path: str) -> int:
    at = _position(fields, name)
    if at < 0:
        raise _missing(name, fields, path)
    return at


def _missing(name: str, fields: Fields, path: str) -> SchemaMismatchError:
    there = [f.name for f in fields]
    return SchemaMismatchError(
        f"there is no column {path!r}: no {name!r} among "
        f"{', '.join(map(repr, there[:50]))}{did_you_mean(name, there)}",
        [path],
    )


def merged_schema(table: Schema, incoming: Schema, fixed: Collection[int] = ()) -> Schema:
    """Return the table's schema, extended by the additions of `incoming` at every depth. Spec:
    SCH-8.

    Columns match by name, ignoring case. New columns come last, in their order, and are nullable.
    An existing column keeps its name, its position and its nullability. It takes the type of
    `incoming` if that is a wider integer, double for float, or a wider decimal. The writer of the
    rows handles any other difference: it casts or refuses the values.

    Args:
        table: the table's schema.
        incoming: the schema of the rows to write; its ids and physical names are ignored.
        fixed: ids of columns that keep their types: the partition columns.

    Returns:
        `table` itself if nothing changes.

    Raises:
        SchemaMismatchError: SCH-2: indistinguishable names, too many columns, too deep.
    """
    check_names(incoming.fields)
    ids = NewIds(table)
    fields = _merged_fields(table.fields, incoming.fields, ids, frozenset(fixed))
    if fields == table.fields:
        return table
    return checked_schema(replace(table, fields=fields, last_id=ids.last), table)


def _merged_fields(ours: Fields, theirs: Fields, ids: NewIds, fixed: frozenset[int]) -> Fields:
    given = {folded(f.name): f for f in theirs}
    kept = []
    for field in ours:
        other = given.pop(folded(field.name), None)
        if other is not None and field.id not in fixed:
            kind = _merged_type(field.type, other.type, ids)
            field = with_type(field, kind)
        kept.append(field)
    for field in theirs:
        if folded(field.name) in given:
            kept.append(ids.numbered(nullable_field(field), kept))
    return tuple(kept)


def _merged_type(ours: Type, theirs: Type, ids: NewIds) -> Type:
    if isinstance(ours, Struct) and isinstance(theirs, Struct):
        return Struct(_merged_fields(ours.fields, theirs.fields, ids, frozenset()))
    if isinstance(ours, Array) and isinstance(theirs, Array):
        return replace(ours, element=_merged_type(ours.element, theirs.element, ids))
    if isinstance(ours, Map) and isinstance(theirs, Map):
        key = _merged_type(ours.key, theirs.key, ids)
        return replace(ours, key=key, value=_merged_type(ours.value, theirs.value, ids))
    return theirs if is_wider_of_kind(ours, theirs) else ours


def replaced_schema(table: Schema, incoming: Schema, *, whole: bool = False) -> Schema:
    """Return the schema of `incoming` in place of the table's, for rows that replace all rows.

    A column of the same name and type keeps its identity; all others are new. Spec: SCH-8.

    Args:
        table: the table's schema.
        incoming: the new columns in their order; ids and physical names are ignored.
        whole: a column that stays gets the default and the comments of `incoming`. Otherwise it
            keeps its default, and its comments where `incoming` has none.

    Raises:
        SchemaMismatchError: SCH-2.
    """
    check_names(incoming.fields)
    ids = NewIds(table)
    kept = {}
    for field in incoming.fields:
        there = table.find(field.name)
        if there is not None and _same_column(there, field):
            kept[field.name] = replace(
                there,
                name=field.name,
                nullable=field.nullable,
                default=field.default if whole else there.default,
                comment=field.comment or (None if whole else there.comment),
                type=_commented(there.type, field.type, whole),
            )
    fields: list[Field] = []
    for field in incoming.fields:
        new_field = kept.get(field.name) or ids.numbered(field, (*table.fields, *fields))
        fields.append(new_field)
    staying = {f.id for f in kept.values()}
    dropped = [f for f in table.fields if f.id not in staying]
    whole_schema = Schema(tuple(fields), ids.last, dropped_names(table, dropped))
    return checked_schema(whole_schema, table)


def _commented(ours: Type, theirs: Type, whole: bool) -> Type:
    """Return our type with the comments of theirs, which is the same type."""
    if isinstance(ours, Struct) and isinstance(theirs, Struct):
        pairs = zip(ours.fields, theirs.fields, strict=True)
        return Struct(
            tuple(
                replace(
                    mine,
                    comment=other.comment or (None if whole else mine.comment),
                    type=_commented(mine.type, other.type, whole),
                )
                for mine, other in pairs
            )
        )
    if isinstance(ours, Array) and isinstance(theirs, Array):
        return replace(ours, element=_commented(ours.element, theirs.element, whole))
    if isinstance(ours, Map) and isinstance(theirs, Map):
        key = _commented(ours.key, theirs.key, whole)
        return replace(ours, key=key, value=_commented(ours.value, theirs.value, whole))
    return ours


def _same_column(ours: Field, theirs: Field) -> bool:
    return ours.text == theirs.text and same_type(ours.type, theirs.type)
