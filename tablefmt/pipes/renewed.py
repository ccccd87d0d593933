"""Runs by keys of a source in which names stand for other columns than when it was taken from last.

Rows that nobody touched have other values under such a name, and are no changes. Spec: PIP-5.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tablefmt.errors import SchemaMismatchError
from tablefmt.expressions.predicate import quote_name
from tablefmt.model.entry import DerivedFrom
from tablefmt.model.schema import Array, Map, Schema, Struct, Type
from tablefmt.pipes.taking import ANEW
from tablefmt.session.context import TableContext
from tablefmt.session.scan import Scan


@dataclass(frozen=True, slots=True)
class Renewed:
    """Columns of a later schema by what rows of before have in them."""

    kept: list[tuple[str, str]] = field(default_factory=list)
    """The values they had, perhaps under another name: that one, and the name now."""
    replaced: list[str] = field(default_factory=list)
    """Other values than under the same name before: those of another column."""
    filled: list[str] = field(default_factory=list)
    """Perhaps values, under a name that had none: a default, what a restore brought back, and
    structs whose parts are others."""
    empty: list[str] = field(default_factory=list)
    """NULL: the column is new."""


def renewed(before: Schema, after: Schema) -> Renewed:
    """What became of the names of columns. Pure."""
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
    """Whether each field in it is the one of that name."""
    if isinstance(then, Struct) and isinstance(now, Struct):
        known = {part.name.casefold(): part for part in then.fields}
        both = ((known.get(part.name.casefold()), part) for part in now.fields)
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
    """Whether all rows of before go and all rows of the end come, and not what changed alone.

    Where neither table has other columns than then, it is not looked at.

    Args:
        source: read up to `derived.to`.
        target: None if there is none.
        derived: which versions.
        keys: of the pipe.
        chosen: a condition or a function decides which rows go in, and by which keys.

    Raises:
        SchemaMismatchError: by which keys rows of before went in is not known any more.
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
    folded = {key.casefold() for key in keys}
    moved = [
        new for old, new in apart if old.casefold() != new.casefold() or new.casefold() in folded
    ]
    others = [*what.replaced, *moved]
    if others and (chosen or any(name.casefold() in folded for name in others)):
        raise SchemaMismatchError(
            f"since version {start} of the source, which was taken last, "
            f"{', '.join(map(repr, others))} became the name of another column; by which keys its "
            f"rows went into the target cannot be told now. {ANEW}",
            others,
        )
    return bool(others or apart or what.filled) or _holds(target, what.empty, then)


def _schema_at(target: TableContext, at: int) -> Schema:
    """Who does not know any more what the columns were then goes by those of now."""
    view = target.view
    return view.metadata_at(max(at, view.head.totals.oldest)).schema


def _not_followed(
    kept: Sequence[tuple[str, str]], target: Schema, then: Schema
) -> list[tuple[str, str]]:
    """Those of which the name now is of another column in the target than the name then was."""
    names = {column.id: column.name.casefold() for column in then.fields}
    found = ((old, new, target.find(new)) for old, new in kept)
    # A name that the target has not is told by the MERGE, if rows have it.
    return [(o, n) for o, n, c in found if c is not None and names.get(c.id) != o.casefold()]


def _holds(target: TableContext, names: Sequence[str], then: Schema) -> bool:
    """Whether a row of the target may have had a value under one of the names already then."""
    found = map(target.view.head.metadata.schema.find, names)
    # What came after that has the values of others, if any.
    there = [c for c in found if c is not None and (c.id <= then.last_id or c.initial is not None)]
    if not there:
        return False
    snapshot = target.view.snapshot()
    where = " OR ".join(f"{quote_name(column.name)} IS NOT NULL" for column in there)
    rows = Scan(target.store, snapshot, columns=[], where=where, limit=1).to_batches()
    return any(batch.num_rows for batch in rows)
