"""Schema replacement, for an overwrite of the schema or REPLACE TABLE.

Pure. A column of the same name and type keeps its id and physical name. So repeated replacements do
not grow its file name or the list of reserved names. Spec: SCH-8.
"""

from __future__ import annotations

from dataclasses import replace

from tablefmt.model.new_ids import NewIds, checked_schema, dropped_names
from tablefmt.model.numbering import check_names
from tablefmt.model.schema import Array, Field, Map, Schema, Struct, Type
from tablefmt.model.schema_views import same_type


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
