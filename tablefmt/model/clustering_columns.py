"""Columns by which files are clustered: their checks, and the property `clusterBy`. Pure.

Spec: CMP-5, CMP-8.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tablefmt.errors import SchemaMismatchError
from tablefmt.model.argument_checks import checked_mapping, checked_names
from tablefmt.model.log_entry import Metadata
from tablefmt.model.name_matching import there_are
from tablefmt.model.properties import CLUSTER_BY, listed, split_names
from tablefmt.model.schema import Field, Schema, is_nested

COLUMNS_MAX = 32
"""Most columns of an order. With more, each would have less than two bits of a curve."""


def clustering_fields(
    names: Sequence[str], schema: Schema, partition_by: Sequence[int]
) -> tuple[Field, ...]:
    """Return the columns to cluster by, in the order of their names.

    Raises:
        SchemaMismatchError: there are too many names. A column is missing, nested, named twice, or
            a partition column.
    """
    if len(names) > COLUMNS_MAX:
        raise SchemaMismatchError(
            f"cannot cluster by {len(names)} columns; name at most {COLUMNS_MAX}"
        )
    fields: list[Field] = []
    for name in names:
        field = schema.find(name) if isinstance(name, str) else None
        problem = _problem(str(name), field, schema, partition_by, fields)
        if field is None or problem:
            raise SchemaMismatchError(f"cannot cluster by {name!r:.100}: {problem}", [str(name)])
        fields.append(field)
    return tuple(fields)


def _problem(
    given: str,
    field: Field | None,
    schema: Schema,
    partition_by: Sequence[int],
    chosen: Sequence[Field],
) -> str:
    if field is None:
        return f"no such column; {there_are(given, schema.names)}"
    if is_nested(field.type):
        return "it is nested, so files have no bounds for it"
    if field.id in partition_by:
        return "it is a partition column, so all rows of a file have one value"
    return "it is named twice" if field in chosen else ""


def clustering_of(metadata: Metadata) -> tuple[Field, ...]:
    """Return the columns of the table's clustering order; none if it has no order.

    An invalid property value in the log is ignored (PTY-1).
    """
    try:
        return _named(metadata.schema, metadata.partition_by, metadata.properties)
    except SchemaMismatchError:
        return ()


def check_clustering(metadata: Metadata) -> None:
    """Refuse metadata whose property `clusterBy` names other columns than it may.

    Raises:
        SchemaMismatchError: as `clustering_fields`.
    """
    _named(metadata.schema, metadata.partition_by, metadata.properties)


def _named(
    schema: Schema, partition_by: Sequence[int], properties: Mapping[str, str]
) -> tuple[Field, ...]:
    names = split_names(properties.get(CLUSTER_BY, ""))
    return clustering_fields(names, schema, partition_by)


def with_cluster_by(
    properties: Mapping[str, Any] | None, cluster_by: str | Sequence[str] | None
) -> dict[str, Any]:
    """Return properties with the clustering order of a new table.

    Raises:
        SchemaMismatchError: a name is not text; the properties have an order too.
    """
    names = checked_names(cluster_by, "cluster_by")
    given = dict(checked_mapping({} if properties is None else properties, "properties"))
    if not names:
        return given
    if CLUSTER_BY in given:
        raise SchemaMismatchError(
            f"the columns {names} and the property {CLUSTER_BY} both give a clustering order; give "
            "one of them"
        )
    return {**given, CLUSTER_BY: listed(names)}
