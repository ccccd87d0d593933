"""Schema merge: add columns and wider types of incoming rows to the table. Pure. Spec: SCH-8."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from tablefmt.model.case_folding import folded
from tablefmt.model.new_ids import NewIds, checked_schema
from tablefmt.model.numbering import check_names
from tablefmt.model.schema import Array, Field, Map, Schema, Struct, Type
from tablefmt.model.schema_views import nullable_field
from tablefmt.model.widening import is_wider_of_kind, with_type

Fields = tuple[Field, ...]


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
    return checked_schema(Schema(fields, ids.last, table.dropped), table)


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
