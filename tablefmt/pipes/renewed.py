"""Runs by keys after column names of the source came to mean other columns.

Unchanged rows then have other values under such a name, but are not changes. Spec: PIP-5.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tablefmt.errors import SchemaMismatchError
from tablefmt.expressions.predicate import quote_name
from tablefmt.model.case_folding import folded
from tablefmt.model.entry import DerivedFrom
from tablefmt.model.schema import Array, Map, Schema, Struct, Type
from tablefmt.pipes.taking import ANEW
from tablefmt.session.context import TableContext
from tablefmt.session.scan import Scan


@dataclass(frozen=True, slots=True)
class Renewed:
    """Columns of a later schema, classified by the values that earlier rows have in them."""

    kept: list[tuple[str, str]] = field(default_factory=list)
    """Columns with their earlier values: the earlier name, and the name now."""
    replaced: list[str] = field(default_factory=list)
    """Columns with other values than before under the same name, because it is another column."""
    filled: list[str] = field(default_factory=list)
    """Columns that may have values under a name without any before: defaults, restored columns, and
    structs with other fields.
    """
    empty: list[str] = field(default_factory=list)
    """Columns with NULL: the column is new."""


def renewed(before: Schema, after: Schema) -> Renewed:
    """Classify the columns of a later schema. Pure."""
    known = {column.id: column for column in before.fields}
    what = Renewed()
    for column in after.fields:
        then = known.get(column.id)
        if then is not None:
            what.kept.append((then.name, column.name))
            if not _same_parts(then.type, column.type):
                what.filled.append(column.name)
        elif before.find(column.name) is not None:
            what.replaced.append(column.name)
        elif column.id <= before.last_id or column.initial is not None:
            what.filled.append(column.name)
        else:
            what.empty.append(column.name)
    return what


def _same_parts(then: Type, now: Type) -> bool:
    """Return whether each nested field is still the field of the same name."""
    if isinstance(then, Struct) and isinstance(now, Struct):
        known = {folded(part.name): part for part in then.fields}
        both = ((known.get(folded(part.name)), part) for part in now.fields)
        return all(p and p.id == part.id and _same_parts(p.type, part.type) for p, part in both)
    if isinstance(then, Array) and isinstance(now, Array):
        return _same_parts(then.element, now.element)
    if isinstance(then, Map) and isinstance(now, Map):
        return _same_parts(then.key, now.key) and _same_parts(then.value, now.value)
    return True


def takes_both_ends(
    source: TableContext,
    target: TableContext | None,
    derived: DerivedFrom,
    keys: Sequence[str],
    *,
    chosen: bool,
) -> bool:
    """Return whether a run must replace all earlier rows instead of applying changes only.

    If the columns of neither table changed since, no rows are read.

    Args:
        source: the source, read up to `derived.to`.
        target: the target; None if there is none.
        derived: the versions to copy.
        keys: keys of the pipe.
        chosen: True if a condition or a function decides which rows are copied, and their keys.

    Raises:
        SchemaMismatchError: the keys of earlier rows are no longer known.
    """
    start, view = derived.start, source.view
    if start is None or target is None:
        return False
    at = target.view.read_head.cursors[derived.key].at
    is_new = view.metadata_version_at(derived.to) > start
    if not is_new and target.view.head.totals.metadata_version <= at:
        return False
    what = renewed(view.metadata_at(start).schema, view.metadata_at(derived.to).schema)
    then = _schema_at(target, at)
    apart = _not_followed(what.kept, target.view.head.metadata.schema, then)
    lowered = {folded(key) for key in keys}
    moved = [new for old, new in apart if folded(old) != folded(new) or folded(new) in lowered]
    others = [*what.replaced, *moved]
    if others and (chosen or any(folded(name) in lowered for name in others)):
        raise SchemaMismatchError(
            f"since version {start} of the source, the last one copied, the names "
            f"{', '.join(map(repr, others))} refer to other columns. The keys of rows already in "
            f"the target are no longer known. {ANEW}",
            others,
        )
    return bool(others or apart or what.filled) or _holds(target, what.empty, then)


def _schema_at(target: TableContext, at: int) -> Schema:
    """Return the schema at a version, or at the oldest kept one if that version has expired."""
    view = target.view
    return view.metadata_at(max(at, view.head.totals.oldest)).schema


def _not_followed(
    kept: Sequence[tuple[str, str]], target: Schema, then: Schema
) -> list[tuple[str, str]]:
    """Return columns whose name now belongs to another target column than the name before did."""
    names = {column.id: folded(column.name) for column in then.fields}
    found = ((old, new, target.find(new)) for old, new in kept)
    # The MERGE reports a name that the target lacks, if rows have it.
    return [(o, n) for o, n, c in found if c is not None and names.get(c.id) != folded(o)]


def _holds(target: TableContext, names: Sequence[str], then: Schema) -> bool:
    """Return whether an earlier row of the target may have a value under one of the names."""
    found = map(target.view.head.metadata.schema.find, names)
    # A column added later holds values of other columns, if any.
    there = [c for c in found if c is not None and (c.id <= then.last_id or c.initial is not None)]
    if not there:
        return False
    snapshot = target.view.snapshot()
    where = " OR ".join(f"{quote_name(column.name)} IS NOT NULL" for column in there)
    rows = Scan(target.store, snapshot, columns=[], where=where, limit=1).to_batches()
    return any(batch.num_rows for batch in rows)
