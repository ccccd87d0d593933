"""Which columns and fields of its source a MERGE with schema merging brings into the table. Pure.

Spec: MRG-1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tablefmt.expressions.assignments import Expression
from tablefmt.expressions.clauses import Action, MergeStatement, Side
from tablefmt.model.numbering import number_fields
from tablefmt.model.paths import parts_of
from tablefmt.model.schema import Field, Schema, Struct


def evolving_columns(statement: MergeStatement, schema: Schema, source: Schema) -> Schema | None:
    """The columns, and fields, that a MERGE may bring into the table; None: none.

    Args:
        statement: with `merge_schema` or without.
        schema: the table's.
        source: the source's.

    Returns:
        All columns of the source, if a clause says `SET *` or `INSERT *`; else those that clauses
        about its rows name and the table lacks.
    """
    if not statement.merge_schema:
        return None
    clauses = statement.of(Side.MATCHED, Side.NOT_MATCHED)
    if any(c.values is None and c.action is not Action.DELETE for c in clauses):
        return source
    paths = [
        path
        for clause in clauses
        for name, value in (clause.values or {}).items()
        if (path := _only_in_source(statement, schema, source, name, value))
    ]
    return number_fields(_pruned(source.fields, paths)) if paths else None


def _only_in_source(
    statement: MergeStatement, schema: Schema, source: Schema, name: str, value: Expression
) -> tuple[Field, ...]:
    """Where the source has what a clause names, if the table lacks it or a part of it."""
    if not isinstance(name, str):
        return ()
    plain = source.find(name)
    parts = [name] if plain is not None or schema.find(name) is not None else parts_of(name)
    if len(parts) > 1 and parts[0].casefold() == statement.target_alias.casefold():
        parts = parts[1:]
    theirs = _walked(source.fields, parts)
    ours = _walked(schema.fields, parts)
    if len(theirs) < len(parts):
        return ()
    if len(ours) == len(parts):
        # The whole of a column as the source has it: with what it has inside.
        written = ".".join(parts).casefold()
        text = value.replace("`", "").casefold() if isinstance(value, str) else ""
        return theirs if text == f"{statement.source_alias.casefold()}.{written}" else ()
    inside = ours[-1].type if ours else None
    return () if inside is not None and not isinstance(inside, Struct) else theirs


def _walked(fields: Sequence[Field], parts: Sequence[str]) -> tuple[Field, ...]:
    """The fields on a path, as far as there are any."""
    path: list[Field] = []
    for part in parts:
        field = next((f for f in fields if f.name.casefold() == part.casefold()), None)
        if field is None:
            break
        path.append(field)
        fields = field.type.fields if isinstance(field.type, Struct) else ()
    return tuple(path)


def _pruned(fields: Sequence[Field], paths: Sequence[tuple[Field, ...]]) -> list[Field]:
    """Of the fields, those that are on a path or at its end."""
    kept = []
    for field in fields:
        below = [path[1:] for path in paths if path[0] == field]
        if below and isinstance(field.type, Struct) and all(below):
            kept.append(replace(field, type=Struct(tuple(_pruned(field.type.fields, below)))))
        elif below:
            kept.append(field)
    return kept
