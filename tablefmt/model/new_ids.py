"""Ids and physical names for new columns: none is given out twice. Pure. Spec: SCH-4, SCH-8."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace

from tablefmt.model.case_folding import folded
from tablefmt.model.given_names import check_new_names
from tablefmt.model.numbering import check_comments, number_fields
from tablefmt.model.schema import Array, Field, Map, Schema, Struct, Type


class NewIds:
    """Gives out ids and physical names that were never given out."""

    def __init__(self, schema: Schema) -> None:
        self.last = schema.last_id
        self._dropped = {folded(name) for name in schema.dropped}

    def numbered(self, field: Field, siblings: Sequence[Field]) -> Field:
        """The field, and all in it, as new ones beside its siblings."""
        whole = number_fields([field], self.last + 1)
        self.last = whole.last_id
        new = whole.fields[0]
        # What is inside a new column is in no file, so only its own name may be taken.
        taken = self._dropped.union(folded(f.physical) for f in siblings)
        name = new.name
        while folded(name) in taken:
            name = f"{name}_{new.id}"
        return replace(new, physical=name)


def dropped_names(schema: Schema, dropped: Collection[Field]) -> tuple[str, ...]:
    """Physical names that are not given out again once these fields are gone too. Spec: SCH-8."""
    return tuple(sorted({*schema.dropped, *(f.physical for f in dropped)}))


def checked_schema(schema: Schema, before: Schema) -> Schema:
    """Refuse what no reader would take, and names not to be given to what `before` had not.

    Raises:
        SchemaMismatchError: SCH-2, SCH-11.
    """
    number_fields(schema.fields)
    check_comments(schema)
    return check_new_names(schema, before)


def roots_gone(fields: Iterable[Field], staying: Collection[int]) -> Iterator[Field]:
    """Fields that are not among those `staying`, at any depth; of what is inside them nothing."""
    for each in fields:
        if each.id not in staying:
            yield each
        else:
            for inner in _structs(each.type):
                yield from roots_gone(inner.fields, staying)


def _structs(kind: Type) -> Iterator[Struct]:
    """The structs in a type that are in no other one."""
    if isinstance(kind, Struct):
        yield kind
    elif isinstance(kind, Array):
        yield from _structs(kind.element)
    elif isinstance(kind, Map):
        yield from _structs(kind.key)
        yield from _structs(kind.value)
