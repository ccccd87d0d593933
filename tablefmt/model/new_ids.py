"""Ids and physical names for new columns, each assigned once. Pure. Spec: SCH-4, SCH-8."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace

from tablefmt.model.case_folding import folded
from tablefmt.model.given_names import check_new_names
from tablefmt.model.numbering import check_comments, number_fields
from tablefmt.model.schema import Array, Field, Map, Schema, Struct, Type


class NewIds:
    """Generator of ids and physical names that were never assigned before."""

    def __init__(self, schema: Schema) -> None:
        self.last = schema.last_id
        self._dropped = {folded(name) for name in schema.dropped}

    def numbered(self, field: Field, siblings: Sequence[Field]) -> Field:
        """Return the field, with new ids for it and all its parts, beside its siblings."""
        whole = number_fields([field], self.last + 1)
        self.last = whole.last_id
        new = whole.fields[0]
        # No file holds a part of a new column, so only the column's own name can collide.
        taken = self._dropped.union(folded(f.physical) for f in siblings)
        name = new.name
        while folded(name) in taken:
            name = f"{name}_{new.id}"
        return replace(new, physical=name)


def dropped_names(schema: Schema, dropped: Collection[Field]) -> tuple[str, ...]:
    """Return the physical names that stay reserved after these fields are dropped. Spec: SCH-8."""
    return tuple(sorted({*schema.dropped, *(f.physical for f in dropped)}))


def checked_schema(schema: Schema, before: Schema) -> Schema:
    """Refuse a schema that readers reject, and new names that SCH-11 reserves.

    Names that `before` has may stay.

    Raises:
        SchemaMismatchError: SCH-2, SCH-11.
    """
    number_fields(schema.fields)
    check_comments(schema)
    return check_new_names(schema, before)


def roots_gone(fields: Iterable[Field], staying: Collection[int]) -> Iterator[Field]:
    """Yield the fields that are not among `staying`, at any depth, without the fields inside
    them.
    """
    for each in fields:
        if each.id not in staying:
            yield each
        else:
            for inner in _structs(each.type):
                yield from roots_gone(inner.fields, staying)


def _structs(kind: Type) -> Iterator[Struct]:
    """Yield the structs in a type that are not inside another struct."""
    if isinstance(kind, Struct):
        yield kind
    elif isinstance(kind, Array):
        yield from _structs(kind.element)
    elif isinstance(kind, Map):
        yield from _structs(kind.key)
        yield from _structs(kind.value)
