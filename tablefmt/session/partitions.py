"""Partitions of files, as conditions and as the scope of a commit. Pure."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from tablefmt.expressions.predicate import (
    TRUE,
    Comparison,
    IsNull,
    Predicate,
    all_of,
    any_of,
    over_columns,
    to_sql,
)
from tablefmt.model.entry import AddedFiles, Metadata, PartitionScope, PredicateScope, Scope
from tablefmt.model.schema import Field
from tablefmt.model.values import decode_value, encode

SCOPE_PARTITIONS_MAX = 1000
"""An entry names at most this many partitions as its scope; beyond, the whole table."""


def partitions_of(added: AddedFiles, metadata: Metadata) -> Predicate:
    """True exactly for the partitions that the files are in."""
    columns = [metadata.schema.by_id(i) for i in metadata.partition_by]
    encoded = [added.columns[f"partition.{c.id}"] for c in columns]
    distinct = list(dict.fromkeys(zip(*encoded, strict=True)))
    alternatives = []
    for values in distinct:
        pairs = zip(columns, values, strict=True)
        alternatives.append(all_of([_is(column, value) for column, value in pairs]))
    return any_of(alternatives)


def _is(column: Field, encoded: Any) -> Predicate:
    """`column` holds exactly this partition value, NULL included."""
    if encoded is None:
        return IsNull(column)
    return Comparison(column, "=", decode_value(encoded, column.type))


def partition_scope(added: AddedFiles | None, metadata: Metadata) -> Scope:
    """The partitions that the files are in; None, the whole table, without partitioning."""
    if not metadata.partition_by or added is None:
        return None
    columns = [added.columns[f"partition.{i}"] for i in metadata.partition_by]
    values = dict.fromkeys(zip(*columns, strict=True))
    return PartitionScope(tuple(values)) if len(values) <= SCOPE_PARTITIONS_MAX else None


def scope_of(predicate: Predicate | None, metadata: Metadata) -> Scope:
    """The partitions that rows for which the condition holds can be in; None: all."""
    if predicate is None or not metadata.partition_by:
        return None
    over = over_columns(predicate, frozenset(metadata.partition_by))
    return None if over == TRUE else PredicateScope(to_sql(over))


def scope_of_files(files: pa.Table, metadata: Metadata) -> Scope:
    """The partitions of live files, as columns `partition.<id>`; None if there are too many."""
    if not metadata.partition_by:
        return None
    columns = [
        encode(files[f"partition.{i}"].combine_chunks(), metadata.schema.by_id(i).type)
        for i in metadata.partition_by
    ]
    values = dict.fromkeys(zip(*columns, strict=True))
    return PartitionScope(tuple(values)) if len(values) <= SCOPE_PARTITIONS_MAX else None
