"""Changes of columns in the metadata, for `alter` and for writers that evolve the schema. Pure.

Other parts of the metadata that name columns are changed too, or forbid the change.
Spec: SCH-7 .. SCH-9.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from tablefmt.data.column_bounds import STATS_PROPERTY, stats_columns, stats_problem
from tablefmt.errors import SchemaMismatchError
from tablefmt.expressions.check_constraints import check_columns_stay
from tablefmt.expressions.ddl import schema_from
from tablefmt.expressions.generated_columns import (
    GeneratedColumn,
    generated_columns,
    refuse_generated,
    renumbered_constraints,
    with_generation,
    without_generation,
)
from tablefmt.expressions.predicate import quote_name
from tablefmt.model import schema_evolution
from tablefmt.model.argument_checks import checked_name, checked_names
from tablefmt.model.clustering_columns import check_clustering, clustering_fields, clustering_of
from tablefmt.model.defaults import default_of
from tablefmt.model.identity_columns import (
    continued,
    identity_ids,
    refuse_identity,
    renumbered_identities,
    without_history,
)
from tablefmt.model.log_entry import AddedFiles, Metadata
from tablefmt.model.name_matching import there_are
from tablefmt.model.partition_fields import bound_by, partitioned, sources_of
from tablefmt.model.properties import CLUSTER_BY, listed
from tablefmt.model.schema import Field, Schema, Type, fitted_default, is_nested, path_of
from tablefmt.model.schema_evolution import merged_schema, replaced_schema
from tablefmt.model.schema_rules import number_fields
from tablefmt.model.tags import only_tags, without_tags


def column_of(name: str, kind: Any, default: Any = None, *, required: bool = False) -> Field:
    """Return a new column. `default` is its value in existing and in new rows.

    Args:
        name: of the column, or the path of a field.
        kind: DDL text, a pyarrow.DataType, a Spark DataType, or a `Type`.
        default: a value of the type; None for NULL.
        required: NOT NULL, whatever `kind` says.

    Raises:
        SchemaMismatchError: SCH-2, SCH-5, SCH-7; NOT NULL without a default.
    """
    column = _one_column(name, kind)
    refuse_generated([column], "a table that exists")
    refuse_identity([column], "a table that exists")
    column = replace(column, nullable=column.nullable and not required)
    value = fitted_default(default_of(default, column.type, name), column.text, name)
    if not column.nullable and value is None:
        raise SchemaMismatchError(
            f"column {name!r} cannot be NOT NULL: existing rows would have NULL; give a default",
            [name],
        )
    return replace(column, default=value, initial=value)


def type_of(name: str, kind: Any) -> Type:
    """Return the new type of a column. Raises SchemaMismatchError."""
    return _one_column(name, kind).type


def wider_of(name: str, kind: Any) -> Field:
    """Return a column with its new type and length. Raises SchemaMismatchError."""
    return _one_column(name, kind)


def _one_column(name: str, kind: Any) -> Field:
    name = checked_name(name)
    if isinstance(kind, str):
        schema = schema_from(f"{quote_name(name)} {kind}")
    elif isinstance(kind, pa.DataType):
        schema = schema_from(pa.schema([pa.field(name, kind)]))
    elif callable(getattr(kind, "jsonValue", None)):
        json = {"name": name, "type": kind.jsonValue(), "nullable": True, "metadata": {}}
        schema = schema_from({"type": "struct", "fields": [json]})
    else:
        raise SchemaMismatchError(
            "expected a type as DDL text, a pyarrow.DataType or a Spark DataType, got "
            f"{kind!r:.100}",
            [name],
        )
    if len(schema.fields) != 1 or schema.fields[0].name != name:
        raise SchemaMismatchError(
            f"expected the type of one column, such as 'BIGINT', got {kind!r:.100}", [name]
        )
    return schema.fields[0]


def added(metadata: Metadata, name: str, column: Field, after: str | None, first: bool) -> Metadata:
    """Return the metadata with one more column or field. Raises SchemaMismatchError."""
    schema = schema_evolution.with_field(metadata.schema, name, column, after=after, first=first)
    return with_schema(metadata, schema)


def renamed(metadata: Metadata, name: str, to: str) -> Metadata:
    """Return the metadata with a new name for a column or field.

    Raises:
        SchemaMismatchError: as for `alter`; a constraint uses the column.
    """
    own = _generated_at(metadata, name)
    plain = without_generation(metadata, [each.field.id for each in own])
    _check_unused(plain, name, "renamed")
    changed = with_schema(plain, schema_evolution.renamed(plain.schema, name, to))
    return with_generation(changed, own)


def dropped(metadata: Metadata, name: str) -> Metadata:
    """Return the metadata without a column or field.

    Raises:
        SchemaMismatchError: as for `alter`; a constraint uses the column, it is a partition
            column, or the table is clustered by it.
    """
    _check_not_partition(metadata, name, "dropped")
    metadata = without_generation(metadata, [f.field.id for f in _generated_at(metadata, name)])
    _check_unused(metadata, name, "dropped")
    if metadata.schema.find(path_of(metadata.schema, name)[0]) in clustering_of(metadata):
        raise SchemaMismatchError(
            f"the table is clustered by {name!r}, so the column cannot be dropped; set another "
            "order with alter.set_clustering first",
            [name],
        )
    return with_schema(metadata, schema_evolution.without_field(metadata.schema, name))


def moved(metadata: Metadata, name: str, after: str | None, first: bool) -> Metadata:
    """Return the metadata with a column or field at another place. Raises SchemaMismatchError."""
    return with_schema(
        metadata, schema_evolution.moved(metadata.schema, name, after=after, first=first)
    )


def widened(metadata: Metadata, name: str, wider: Field) -> Metadata:
    """Return the metadata with the type and length of `wider`.

    Raises:
        SchemaMismatchError: as for `alter`; a constraint uses the column, or it is a partition
            column.
    """
    _check_not_partition(metadata, name, "widened", wider.type)
    _check_not_generated(metadata, name, "have another type")
    _check_not_identity(metadata, name, "have another type")
    _check_unused(metadata, name, "widened")
    schema = schema_evolution.widened(metadata.schema, name, wider.type, wider.text)
    return with_schema(metadata, schema)


def with_default(metadata: Metadata, name: str, value: Any) -> Metadata:
    """Return the metadata with another default for new rows. Raises SchemaMismatchError."""
    _check_not_generated(metadata, name, "have a default")
    _check_not_identity(metadata, name, "have a default")
    return with_schema(metadata, schema_evolution.with_default(metadata.schema, name, value))


def with_comment(metadata: Metadata, name: str | None, comment: str | None) -> Metadata:
    """Return the metadata with another comment of the table, or of a column or field.

    Args:
        metadata: of the table.
        name: of the column or field; None for the table.
        comment: from `checked_comment`.

    Raises:
        SchemaMismatchError: no such column.
    """
    if name is None:
        return replace(metadata, comment=comment)
    return with_schema(metadata, schema_evolution.with_comment(metadata.schema, name, comment))


def with_nullable(metadata: Metadata, name: str, nullable: bool) -> Metadata:
    """Return the metadata with a top-level column that is nullable or NOT NULL. Raises
    SchemaMismatchError."""
    schema = metadata.schema
    parts = path_of(schema, name)
    field = schema.find(parts[0])
    if field is None or len(parts) > 1:
        raise SchemaMismatchError(
            f"there is no column {name!r}; {there_are(name, schema.names)}", [name]
        )
    new = replace(field, nullable=nullable)
    fields = tuple(new if f.id == field.id else f for f in schema.fields)
    return with_schema(metadata, replace(schema, fields=fields))


def merged(metadata: Metadata, incoming: Schema) -> Metadata:
    """Return the metadata with the columns and wider types that only `incoming` has.

    It is `metadata` itself if there are none.

    Raises:
        SchemaMismatchError: SCH-2.
    """
    fixed = metadata.all_partition_ids.union(
        sources_of(metadata.schema), *(c.columns for c in metadata.constraints.values())
    )
    fixed |= identity_ids(metadata)
    new = [f for f in incoming.fields if metadata.schema.find(f.name) is None]
    refuse_generated(new, "a table that exists")
    refuse_identity(new, "a table that exists")
    return with_schema(metadata, merged_schema(metadata.schema, incoming, fixed))


def replaced(
    metadata: Metadata, incoming: Schema, partition_by: str | Sequence[str] | None = None
) -> Metadata:
    """Return the metadata with the columns of `incoming` in place of all others.

    Args:
        metadata: of the table.
        incoming: the columns, in their order.
        partition_by: names of columns to partition by, or one name; None: keep the partition
            columns.

    Raises:
        SchemaMismatchError: SCH-2; a partition column is missing or nested; a constraint uses a
            column that is removed, or gets another name or type; a column of the clustering order
            is missing, nested or a partition column.
    """
    refuse_generated(incoming.fields, "rows that replace others")
    refuse_identity(incoming.fields, "rows that replace others")
    leaving = [f.id for f in metadata.schema.fields if incoming.find(f.name) is None]
    metadata = without_generation(metadata, leaving)
    schema = replaced_schema(metadata.schema, incoming)
    order = [field.name for field in clustering_of(metadata)]
    staying = {f.id: f.name for f in schema.fields}
    for field in metadata.schema.fields:
        if staying.get(field.id) != field.name:
            _check_unused(metadata, field.name, "replaced")
    given = checked_names(partition_by, "partition_by")
    names = metadata.partition_names if partition_by is None else given
    schema, columns = partitioned(schema, names, metadata.schema, kept=partition_by is None)
    clustering_fields(order, schema, columns)
    changed = with_schema(
        replace(metadata, partition_by=columns, partitionings={}), schema, metadata.schema
    )
    # A column with another type has another id, and stays in the order by its name.
    return _with_order(changed, order) if order else changed


def redefined(metadata: Metadata, definition: Metadata) -> Metadata:
    """Return the metadata with everything that another definition says.

    Args:
        metadata: of the table, with the counters of its identity columns (`with_counters`).
        definition: of another table, with its own column ids.

    Raises:
        SchemaMismatchError: SCH-2.
    """
    schema = replaced_schema(metadata.schema, definition.schema, whole=True)
    changed = _renumbered(
        replace(definition, properties=without_tags(definition.properties)),
        schema,
        metadata.schema,
    )
    changed = continued(metadata, changed)
    return replace(changed, properties={**changed.properties, **only_tags(metadata.properties)})


def for_new_table(metadata: Metadata) -> Metadata:
    """Return the same definition for another table, without a history."""
    fields = [replace(field, initial=None) for field in metadata.schema.fields]
    bare = without_history(replace(metadata, properties=without_tags(metadata.properties)))
    return _renumbered(bare, number_fields(fields))


def _renumbered(metadata: Metadata, schema: Schema, before: Schema | None = None) -> Metadata:
    """Return the metadata over the same columns, in the same order, under other ids.

    Args:
        metadata: over its own columns.
        schema: the columns with their ids.
        before: the schema in force, whose hidden partition fields keep their ids.
    """
    pairs = zip(metadata.schema.fields, schema.fields, strict=True)
    ids = {old.id: new.id for old, new in pairs}
    schema, partition_by = partitioned(schema, metadata.partition_names, before, kept=True)
    return replace(
        metadata,
        schema=schema,
        partition_by=partition_by,
        partitionings={},
        constraints=renumbered_constraints(metadata, ids),
        properties=renumbered_identities(metadata, ids),
    )


def with_properties(metadata: Metadata, changed: Mapping[str, str]) -> Metadata:
    """Return the metadata with other values of some properties.

    Raises:
        SchemaMismatchError: a property names a column that does not exist.
    """
    problem = stats_problem(metadata.schema, changed)
    if problem is not None:
        raise problem
    result = replace(metadata, properties={**metadata.properties, **changed})
    if CLUSTER_BY in changed:
        check_clustering(result)
    return result


def with_clustering(metadata: Metadata, names: Sequence[str]) -> Metadata:
    """Return the metadata with another clustering order; without an order for no names.

    Raises:
        SchemaMismatchError: as `clustering_fields`.
    """
    clustering_fields(names, metadata.schema, metadata.partition_by)
    return _with_order(metadata, names)


def _with_order(metadata: Metadata, names: Sequence[str]) -> Metadata:
    properties = {n: text for n, text in metadata.properties.items() if n != CLUSTER_BY}
    if names:
        properties[CLUSTER_BY] = listed(names)
    return replace(metadata, properties=properties)


def with_schema(metadata: Metadata, schema: Schema, before: Schema | None = None) -> Metadata:
    """Return the metadata with another schema. Properties that name columns get the new names."""
    before = metadata.schema if before is None else before
    if schema == metadata.schema:
        return metadata
    check_columns_stay(metadata.constraints, before, schema)
    changed = replace(metadata, schema=schema)
    ordered = clustering_of(replace(metadata, schema=before))
    staying = {f.id: f.name for f in schema.fields if not is_nested(f.type)}
    order = [staying[f.id] for f in ordered if f.id in staying]
    if order != [f.name for f in ordered]:
        changed = _with_order(changed, order)
    return _with_stats(changed, before)


def _with_stats(changed: Metadata, before: Schema) -> Metadata:
    """Return the metadata with the new names of columns in `statsColumns`."""
    schema = changed.schema
    kept = changed.properties.get(STATS_PROPERTY)
    if kept is None or stats_problem(before, changed.properties) is not None:
        return changed
    names = {f.id: f.name for f in schema.fields if not is_nested(f.type)}
    stats = stats_columns(before, kept)
    if all(names.get(f.id) == f.name for f in stats):
        return changed
    text = ", ".join(quote_name(names[f.id]) for f in stats if f.id in names)
    return replace(changed, properties={**changed.properties, STATS_PROPERTY: text})


def rebound(added: AddedFiles, before: Schema, after: Schema) -> AddedFiles:
    """Return files that were written under one schema as an entry with another schema has them.

    Bounds of columns with a new type are unknown (VAL-4).
    """
    types = {f.id: f.type for f in before.fields}
    other = {f.id for f in after.fields if f.id in types and types[f.id] != f.type}
    unknown = {f"{side}.{i}" for side in ("lower", "upper") for i in other}
    return AddedFiles({n: values for n, values in added.columns.items() if n not in unknown})


def _generated_at(metadata: Metadata, name: str) -> list[GeneratedColumn]:
    """Return the generated column of that name; empty if it is another column, or a field."""
    path = path_of(metadata.schema, name)
    column = metadata.schema.find(path[0]) if len(path) == 1 else None
    return [e for e in generated_columns(metadata) if column is not None and e.field == column]


def _check_not_generated(metadata: Metadata, name: str, what: str) -> None:
    for each in _generated_at(metadata, name):
        raise SchemaMismatchError(
            f"column {name!r} is generated ({each.expression[:200]}), so it cannot {what}", [name]
        )


def _check_not_identity(metadata: Metadata, name: str, what: str) -> None:
    path = path_of(metadata.schema, name)
    column = metadata.schema.find(path[0]) if len(path) == 1 else None
    if column is not None and column.id in identity_ids(metadata):
        raise SchemaMismatchError(
            f"column {name!r} is an identity column, so it cannot {what}", [name]
        )


def _check_unused(metadata: Metadata, name: str, what: str) -> None:
    """Refuse to change a column that a constraint uses, because the constraint's text names it."""
    column = metadata.schema.find(path_of(metadata.schema, name)[0])
    users = [
        constraint
        for constraint, each in metadata.constraints.items()
        if column is not None and column.id in each.columns
    ]
    for each in generated_columns(metadata):
        if each.constraint in users:
            raise SchemaMismatchError(
                f"column {each.field.name!r} is generated from column {name!r} "
                f"({each.expression[:200]}), so {name!r} cannot be {what}; drop "
                f"{each.field.name!r} first",
                [name],
            )
    if users:
        raise SchemaMismatchError(
            f"the constraint {users[0]!r} uses column {name!r}, so the column cannot be {what}; "
            "drop the constraint first",
            [name],
        )


def _check_not_partition(
    metadata: Metadata, name: str, what: str, kind: Type | None = None
) -> None:
    """Refuse to drop or widen a column that partitions the table, itself or by a transform.

    A type with the same transformed values may follow (HID-6).
    """
    column = metadata.schema.find(path_of(metadata.schema, name)[0])
    if column is None:
        return
    if column.id in metadata.partition_by:
        raise SchemaMismatchError(
            f"the table is partitioned by {name!r}, so the column cannot be {what}", [name]
        )
    if column.id in metadata.all_partition_ids or _bound_by_older(column, metadata, kind):
        raise SchemaMismatchError(
            f"older files are partitioned by column {name!r}, so it cannot be {what}; rewrite "
            "them first, with Table.repartition()",
            [name],
        )
    for text in bound_by(column, metadata.schema, kind):
        raise SchemaMismatchError(
            f"the table is partitioned by {text}, so column {name!r} cannot be {what}; overwrite "
            "the table with overwrite_schema=True and another partition_by first",
            [name],
        )


def _bound_by_older(column: Field, metadata: Metadata, kind: Type | None) -> bool:
    """Return whether a hidden field of an older partitioning alone does not allow a change."""
    older = [f for f in metadata.schema.hidden if f.id not in metadata.partition_by]
    return bool(bound_by(column, replace(metadata.schema, hidden=tuple(older)), kind))
