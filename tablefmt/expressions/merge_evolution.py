"""Schema evolution of a MERGE: source columns and fields that it adds to the table. Pure.

Spec: MRG-1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tablefmt.expressions.assignments import Expression
from tablefmt.expressions.clauses import Action, MergeStatement, Side
from tablefmt.model.case_folding import folded
from tablefmt.model.numbering import number_fields
from tablefmt.model.paths import parts_of
from tablefmt.model.schema import Field, Schema, Struct


def evolving_columns(statement: MergeStatement, schema: Schema, source: Schema) -> Schema | None:
    """Return the columns and fields that a MERGE may add to the table; None if there are none.

    Args:
        statement: with `merge_schema` or without.
        schema: the table's schema.
        source: the source's schema.

    Returns:
        All columns of the source if a clause has `SET *` or `INSERT *`. Otherwise the columns that
        clauses for its rows name and the table lacks.
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
    """Return the source path that a clause names, if the table lacks it or a part of it."""
    if not isinstance(name, str):
        return ()
    plain = source.find(name)
    parts = [name] if plain is not None or schema.find(name) is not None else parts_of(name)
    if len(parts) > 1 and folded(parts[0]) == folded(statement.target_alias):
        parts = parts[1:]
    theirs = _walked(source.fields, parts)
    ours = _walked(schema.fields, parts)
    if len(theirs) < len(parts):
        return ()
    if len(ours) == len(parts):
        # The clause assigns the whole source column of that name, including its fields.
        written = folded(".".join(parts))
        text = folded(value.replace("`", "")) if isinstance(value, str) else ""
        return theirs if text == f"{folded(statement.source_alias)}.{written}" else ()
    inside = ours[-1].type if ours else None
    return () if inside is not None and not isinstance(inside, Struct) else theirs


def _walked(fields: Sequence[Field], parts: Sequence[str]) -> tuple[Field, ...]:
    """Return the fields along a path, up to the first missing one."""
    path: list[Field] = []
    for part in parts:
        field = next((f for f in fields if folded(f.name) == folded(part)), None)
        if field is None:
            break
        path.append(field)
        fields = field.type.fields if isinstance(field.type, Struct) else ()
    return tuple(path)


def _pruned(fields: Sequence[Field], paths: Sequence[tuple[Field, ...]]) -> list[Field]:
    """Return the fields that are on a path or at its end."""
    kept = []
    for field in fields:
        below = [path[1:] for path in paths if path[0] == field]
        if below and isinstance(field.type, Struct) and all(below):
            kept.append(replace(field, type=Struct(tuple(_pruned(field.type.fields, below)))))
        elif below:
            kept.append(field)
    return kept
