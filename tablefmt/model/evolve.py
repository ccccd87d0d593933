"""Schemas that change: columns added, renamed, dropped, moved and widened, and two schemas merged.

Pure. Whatever is done to a schema, a field keeps its id and its physical name, and no id and no
physical name is given out twice: so old files are read right under the new schema, and values of a
dropped column never come back under its name. Spec: SCH-3, SCH-4, SCH-7 .. SCH-9 (spec/entry.md).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Any

from tablefmt.errors import SchemaMismatchError
from tablefmt.model.defaults import default_of, recoded
from tablefmt.model.given_names import check_new_names
from tablefmt.model.paths import path_of
from tablefmt.model.schema import (
    Array,
    Decimal,
    Field,
    Map,
    Primitive,
    Schema,
    Struct,
    Type,
    check_comments,
    check_names,
    number_fields,
)
from tablefmt.model.schema_views import nullable_field
from tablefmt.model.text_lengths import fits_within, fitted_default

Fields = tuple[Field, ...]

_INTEGERS = ("byte", "short", "integer", "long")
"""From the narrowest."""

_INTEGER_DIGITS = {"byte": 10, "short": 10, "integer": 10, "long": 20}
"""Digits before the point that a decimal needs to take all of them, as Spark counts them."""


def is_widening(old: Type, new: Type) -> bool:
    """Whether files with values of `old` can be read as `new`, without loss. Spec: SCH-9.

    Those are the pairs that Spark's Parquet reader converts by itself.
    """
    if _is_wider_of_kind(old, new):
        return True
    if not isinstance(old, Primitive):
        return False
    if isinstance(new, Decimal):
        digits = _INTEGER_DIGITS.get(old.name)
        return digits is not None and new.precision - new.scale >= digits
    pair = (old.name, str(new))
    return pair == ("date", "timestamp_ntz") or (old.name in _INTEGERS[:3] and pair[1] == "double")


def _is_wider_of_kind(old: Type, new: Type) -> bool:
    """Whether `new` is a wider type of the same kind: what merging schemas widens to by itself."""
    if isinstance(old, Decimal) and isinstance(new, Decimal):
        whole = (old.precision - old.scale, new.precision - new.scale)
        return old != new and whole[0] <= whole[1] and old.scale <= new.scale
    if not isinstance(old, Primitive) or not isinstance(new, Primitive):
        return False
    if old.name in _INTEGERS and new.name in _INTEGERS:
        return _INTEGERS.index(old.name) < _INTEGERS.index(new.name)
    return (old.name, new.name) == ("float", "double")


def merged_schema(table: Schema, incoming: Schema, fixed: Collection[int] = ()) -> Schema:
    """The table's schema with what `incoming` has beyond it, at every depth. Spec: SCH-8.

    Columns are matched by name, case ignored. New ones come last, in their order, and are nullable.
    A column that is there keeps its name, its place and its nullability; its type becomes the one
    of `incoming` if that is a wider integer, double for float, or a wider decimal. Any other
    difference is left to who writes the rows: they are cast, or refused.

    Args:
        table: the table's.
        incoming: of the rows to be written; its ids and physical names are not looked at.
        fixed: ids of columns that keep their types: those that the table is partitioned by.

    Returns:
        `table` itself where nothing changes.

    Raises:
        SchemaMismatchError: SCH-2: names that cannot be told apart, too many columns, too deep.
    """
    check_names(incoming.fields)
    ids = NewIds(table)
    fields = _merged_fields(table.fields, incoming.fields, ids, frozenset(fixed))
    if fields == table.fields:
        return table
    return checked_schema(Schema(fields, ids.last, table.dropped), table)


def _merged_fields(ours: Fields, theirs: Fields, ids: NewIds, fixed: frozenset[int]) -> Fields:
    given = {f.name.casefold(): f for f in theirs}
    kept = []
    for field in ours:
        other = given.pop(field.name.casefold(), None)
        if other is not None and field.id not in fixed:
            kind = _merged_type(field.type, other.type, ids)
            field = _with_type(field, kind)
        kept.append(field)
    for field in theirs:
        if field.name.casefold() in given:
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
    return theirs if _is_wider_of_kind(ours, theirs) else ours


def with_field(
    schema: Schema, name: str, field: Field, *, after: str | None = None, first: bool = False
) -> Schema:
    """The schema with one more column, or one more field of a struct.

    Args:
        schema: the table's.
        name: its name; with dots, if the part before the first is a column, the path to a field.
        field: type, nullability and values; its id and names are not looked at.
        after: the sibling that it comes after; by default it comes last.
        first: it comes before its siblings.

    Raises:
        SchemaMismatchError: SCH-2; no such struct or sibling; a value for a field of a struct.
    """
    parts = path_of(schema, name, new=True)
    if len(parts) > 1 and field.initial is not None:
        raise SchemaMismatchError(f"{name!r} is inside a column, and cannot have a default", [name])
    if len(parts) > 1 and field.text is not None:
        raise SchemaMismatchError(
            f"{name!r} is inside a column, and cannot be {field.text.upper()}; use STRING", [name]
        )
    ids = NewIds(schema)

    def add(fields: Fields) -> Fields:
        made = ids.numbered(replace(field, name=parts[-1]), fields)
        if any(f.name.casefold() == made.name.casefold() for f in fields):
            raise SchemaMismatchError(f"there is a column {name!r} already", [name])
        return _placed(fields, made, after, first)

    fields = _at_siblings(schema.fields, parts, add, name)
    return checked_schema(Schema(fields, ids.last, schema.dropped), schema)


def renamed(schema: Schema, name: str, to: str) -> Schema:
    """The schema with another name for a column or a field; values stay where they are.

    Args:
        schema: the table's.
        name: the column, or the path of the field.
        to: the new name, as it is: dots in it mean nothing.

    Raises:
        SchemaMismatchError: no such field; SCH-2: the new name is taken, or none.
    """
    parts = path_of(schema, name)

    def rename(fields: Fields) -> Fields:
        at = _find(fields, parts[-1], name)
        return (*fields[:at], replace(fields[at], name=to), *fields[at + 1 :])

    fields = _at_siblings(schema.fields, parts, rename, name)
    return checked_schema(replace(schema, fields=fields), schema)


def without_field(schema: Schema, name: str) -> Schema:
    """The schema without a column or a field; its physical name is not given out again.

    Raises:
        SchemaMismatchError: no such field, or the only one of the table or of its struct.
    """
    parts = path_of(schema, name)
    gone: list[Field] = []

    def drop(fields: Fields) -> Fields:
        at = _find(fields, parts[-1], name)
        if len(fields) == 1:
            raise SchemaMismatchError(
                f"{name!r} is the only one there; a table, and a struct, needs at least one column",
                [name],
            )
        gone.append(fields[at])
        return fields[:at] + fields[at + 1 :]

    fields = _at_siblings(schema.fields, parts, drop, name)
    return Schema(fields, schema.last_id, dropped_names(schema, gone))


def moved(schema: Schema, name: str, *, after: str | None = None, first: bool = False) -> Schema:
    """The schema with a column or a field at another place among its siblings.

    Args:
        schema: the table's.
        name: the column, or the path of the field.
        after: the sibling that it comes after, by its own name.
        first: it comes before its siblings.

    Raises:
        SchemaMismatchError: no such field or sibling; neither `after` nor `first`, or both.
    """
    if (after is None) != first:
        raise SchemaMismatchError(f"say where {name!r} goes: after=…, or first=True", [name])
    parts = path_of(schema, name)

    def move(fields: Fields) -> Fields:
        at = _find(fields, parts[-1], name)
        others = fields[:at] + fields[at + 1 :]
        if after is not None and after.casefold() == fields[at].name.casefold():
            raise SchemaMismatchError(f"{name!r} cannot come after itself", [name])
        return _placed(others, fields[at], after, first)

    return replace(schema, fields=_at_siblings(schema.fields, parts, move, name))


def widened(schema: Schema, name: str, kind: Type, text: str | None = None) -> Schema:
    """The schema with a wider type for a column, a field, elements, keys or values.

    Args:
        schema: the table's.
        name: a column, or a path: `s.f`, `list.element`, `map.key`, `map.value`.
        kind: the new type; the one that it is changes nothing.
        text: the declared length of a string; None for none.

    Raises:
        SchemaMismatchError: no such column, or `is_widening`, or `fits_within`, is false.
    """
    parts = path_of(schema, name)

    def widen(old: Type) -> Type:
        if old != kind and not is_widening(old, kind):
            raise SchemaMismatchError(
                f"column {name!r} is {old} and cannot become {kind}: only types that hold every "
                "value there is can be set (a wider integer, double for float or int, a decimal "
                "with room for all, timestamp_ntz for date)",
                [name],
            )
        return kind

    fields = _at_type(schema.fields, parts, widen, name)
    at = _find(fields, parts[0], name)
    was = fields[at].text if len(parts) == 1 else None
    if not fits_within(was, text):
        raise SchemaMismatchError(
            f"column {name!r} is {(was or 'string').upper()} and cannot become "
            f"{str(text).upper()}: a length can only grow, as VARCHAR, or go, as STRING",
            [name],
        )
    if text != was:
        fields = (*fields[:at], replace(fields[at], text=text), *fields[at + 1 :])
    return replace(schema, fields=fields)


def with_default(schema: Schema, name: str, value: Any) -> Schema:
    """The schema with another value for rows that are written without a column from now on.

    Args:
        schema: the table's.
        name: a top-level column.
        value: as of `default_of`; None for none, which is NULL.

    Raises:
        SchemaMismatchError: no such column, or the value is none of its type.
    """
    field = schema.find(name)
    if field is None:
        raise _missing(name, schema.fields, name)
    default = fitted_default(default_of(value, field.type, name), field.text, name)
    new = replace(field, default=default)
    return replace(schema, fields=tuple(new if f.id == field.id else f for f in schema.fields))


def with_comment(schema: Schema, name: str, comment: str | None) -> Schema:
    """The schema with another comment of a column or a field. Spec: ENT-11.

    Args:
        schema: the table's.
        name: the column, or the path of the field.
        comment: as of `checked_comment`; None for none.

    Raises:
        SchemaMismatchError: no such field.
    """
    parts = path_of(schema, name)

    def say(fields: Fields) -> Fields:
        at = _find(fields, parts[-1], name)
        return (*fields[:at], replace(fields[at], comment=comment), *fields[at + 1 :])

    return replace(schema, fields=_at_siblings(schema.fields, parts, say, name))


class NewIds:
    """Gives out ids and physical names that were never given out."""

    def __init__(self, schema: Schema) -> None:
        self.last = schema.last_id
        self._dropped = {name.casefold() for name in schema.dropped}

    def numbered(self, field: Field, siblings: Sequence[Field]) -> Field:
        """The field, and all in it, as new ones beside its siblings."""
        whole = number_fields([field], self.last + 1)
        self.last = whole.last_id
        new = whole.fields[0]
        # What is inside a new column is in no file, so only its own name may be taken.
        taken = self._dropped.union(f.physical.casefold() for f in siblings)
        name = new.name
        while name.casefold() in taken:
            name = f"{name}_{new.id}"
        return replace(new, physical=name)


def dropped_names(schema: Schema, gone: Collection[Field]) -> tuple[str, ...]:
    """Physical names that are not given out again once these fields are gone too. Spec: SCH-8."""
    return tuple(sorted({*schema.dropped, *(f.physical for f in gone)}))


def _with_type(field: Field, kind: Type) -> Field:
    """The field with another type, and its values in it."""
    if kind == field.type:
        return field
    values = (recoded(v, field.type, kind) for v in (field.default, field.initial))
    return replace(field, type=kind, default=next(values), initial=next(values))


def _at_type(
    fields: Fields, parts: tuple[str, ...], change: Callable[[Type], Type], said: str
) -> Fields:
    """The fields with the type at the end of a path changed."""
    at = _find(fields, parts[0], said)
    new = _with_type(fields[at], _inside(fields[at].type, parts[1:], change, said))
    return (*fields[:at], new, *fields[at + 1 :])


def _inside(kind: Type, parts: tuple[str, ...], change: Callable[[Type], Type], said: str) -> Type:
    if not parts:
        return change(kind)
    rest, step = parts[1:], parts[0].casefold()
    if isinstance(kind, Struct):
        return Struct(_at_type(kind.fields, parts, change, said))
    if isinstance(kind, Array) and step == "element":
        return replace(kind, element=_inside(kind.element, rest, change, said))
    if isinstance(kind, Map) and step == "key":
        return replace(kind, key=_inside(kind.key, rest, change, said))
    if isinstance(kind, Map) and step == "value":
        return replace(kind, value=_inside(kind.value, rest, change, said))
    raise SchemaMismatchError(f"there is no {said!r}: {kind} has no {parts[0]!r}", [said])


def _at_siblings(
    fields: Fields, parts: tuple[str, ...], change: Callable[[Fields], Fields], said: str
) -> Fields:
    """The fields with those changed among which the end of a path is."""
    if len(parts) == 1:
        return change(fields)

    def inside(kind: Type) -> Type:
        if not isinstance(kind, Struct):
            raise SchemaMismatchError(f"there is no {said!r}: {kind} has no fields", [said])
        return Struct(change(kind.fields))

    return _at_type(fields, parts[:-1], inside, said)


def _placed(fields: Fields, field: Field, after: str | None, first: bool) -> Fields:
    if first and after is not None:
        raise SchemaMismatchError(f"{field.name!r} cannot come first and after {after!r}", [after])
    at = 0 if first else len(fields)
    if after is not None:
        at = _position(fields, after) + 1
        if at == 0:
            raise SchemaMismatchError(f"there is no column {after!r} to come after", [after])
    return (*fields[:at], field, *fields[at:])


def _position(fields: Fields, name: str) -> int:
    folded = name.casefold()
    return next((i for i, f in enumerate(fields) if f.name.casefold() == folded), -1)


def _find(fields: Fields, name: str, said: str) -> int:
    at = _position(fields, name)
    if at < 0:
        raise _missing(name, fields, said)
    return at


def _missing(name: str, fields: Fields, said: str) -> SchemaMismatchError:
    there = ", ".join(repr(f.name) for f in fields[:50])
    return SchemaMismatchError(f"there is no column {said!r}: no {name!r} among {there}", [said])


def checked_schema(schema: Schema, before: Schema) -> Schema:
    """Refuse what no reader would take, and names not to be given to what `before` had not.

    Raises:
        SchemaMismatchError: SCH-2, SCH-11.
    """
    number_fields(schema.fields)
    check_comments(schema)
    return check_new_names(schema, before)
