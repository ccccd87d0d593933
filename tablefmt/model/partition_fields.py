"""Partitionings: columns, and hidden fields for transforms such as `days(ts)`. Pure.

Spec: ENT-8, HID-1, HID-2.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tablefmt.errors import SchemaMismatchError
from tablefmt.model.name_matching import folded, there_are
from tablefmt.model.partition_transforms import (
    PartitionTransform,
    named,
    parsed_transform,
    transform_of,
)
from tablefmt.model.schema import Decimal, Field, Schema, Transform, Type, is_nested, kind_name
from tablefmt.model.schema_rules import check_hidden_names


def partitioned(
    schema: Schema, names: Sequence[str], before: Schema | None = None, *, kept: bool = False
) -> tuple[Schema, tuple[int, ...]]:
    """Return the schema with the hidden fields of a partitioning, and the ids of all its fields.

    Args:
        schema: the columns. Its hidden fields are forgotten.
        names: columns, or transforms of columns, perhaps with a name: `days(ts) AS day`.
        before: the schema in force. The same transform of the same column keeps its id, and its
            name unless one is given.
        kept: the partitioning was chosen before. It may then leave no column for data.

    Raises:
        SchemaMismatchError: no such column or transform; a nested column; one named twice; no
            column is left for data; a column has the name of a hidden field; a column gets
            another name.
    """
    known = {} if before is None else {f.transform: f for f in before.hidden}
    plain = replace(schema, hidden=())
    ids: list[int] = []
    hidden: list[Field] = []
    last = schema.last_id
    for name in names:
        made = parsed_transform(name, plain)
        if made is None:
            field = _column(name, plain)
        else:
            field, last = _hidden(made, known, last)
            hidden.append(field)
        if field.id in ids:
            raise SchemaMismatchError(f"partition_by names {name!r:.200} twice", [name])
        ids.append(field.id)
    if not kept and len(ids) - len(hidden) == len(plain.fields):
        raise SchemaMismatchError(
            "every column is a partition column; leave at least one for data", list(names)
        )
    found = tuple(sorted(hidden, key=lambda field: field.id))
    whole = replace(plain, hidden=found, last_id=last)
    check_hidden_names(whole)
    return whole, tuple(ids)


def _column(text: str, schema: Schema) -> Field:
    name, own = named(text, schema)
    field = schema.find(name)
    if field is not None and own is not None and own != field.name:
        raise SchemaMismatchError(
            f"cannot partition by {text!r:.200}: a partition column keeps its own name; leave out "
            f"AS {own}",
            [name],
        )
    if field is None:
        raise SchemaMismatchError(
            f"cannot partition by {name!r}: no such column; {there_are(name, schema.names)}",
            [name],
        )
    if is_nested(field.type):
        raise SchemaMismatchError(
            f"cannot partition by {name!r}: its type {field.type} is nested", [name]
        )
    return field


def _hidden(
    made: PartitionTransform, known: dict[Transform | None, Field], last: int
) -> tuple[Field, int]:
    transform = made.field(0).transform
    if transform not in known:
        last += 1
        known[transform] = made.field(last)
    elif made.given_name is not None:
        known[transform] = made.field(known[transform].id)
    return known[transform], last


def renumbered_hidden(schema: Schema, ids: Mapping[int, int], last: int) -> dict[int, Field]:
    """Return the hidden fields over columns with other ids, each by its id before.

    Args:
        schema: with the hidden fields.
        ids: new ids of columns.
        last: the highest id in use, above which the fields get theirs.
    """
    found = {}
    for number, field in enumerate(schema.hidden, last + 1):
        assert field.transform is not None
        moved = replace(field.transform, source=ids[field.transform.source])
        found[field.id] = replace(field, id=number, transform=moved)
    return found


def same_partitioning(names: Sequence[str], known: Sequence[str], schema: Schema) -> bool:
    """Return whether two declarations of a partitioning mean the same.

    Columns have an order, and so have transforms. A catalog of Spark lists all columns first.
    """

    def meant(names: Sequence[str]) -> tuple[list[str], list[str]]:
        made = [(parsed_transform(name, schema), name) for name in names]
        columns = [folded(name) for transform, name in made if transform is None]
        return columns, [folded(str(transform)) for transform, _ in made if transform is not None]

    return meant(names) == meant(known)


def sources_of(schema: Schema) -> frozenset[int]:
    """Return the ids of the columns that hidden fields transform."""
    return frozenset(f.transform.source for f in schema.hidden if f.transform is not None)


def bound_by(column: Field, schema: Schema, kind: Type | None) -> list[str]:
    """Return the transforms of a column that do not allow a change, such as `days(ts)`.

    Args:
        column: of the table.
        schema: its schema.
        kind: the new type of the column; None: it is dropped.
    """
    bound = []
    for hidden in schema.hidden:
        made = transform_of(hidden, schema)
        if made.column.id == column.id and not (kind is not None and _keeps_values(made, kind)):
            bound.append(str(made))
    return bound


_KEEPING = frozenset({"byte", "short", "integer", "long"})


def _keeps_values(made: PartitionTransform, kind: Type) -> bool:
    """Return whether all values have the same partition values under a wider type. Spec: HID-6."""
    names = {kind_name(made.column.type), kind_name(kind)}
    if made.kind == "bucket":
        same_scale = isinstance(kind, Decimal) and (
            isinstance(made.column.type, Decimal) and kind.scale == made.column.type.scale
        )
        return names <= _KEEPING or same_scale
    return made.kind in ("years", "months", "days") and names == {"date", "timestamp_ntz"}
