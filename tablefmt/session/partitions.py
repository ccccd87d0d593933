"""Partitions of files as conditions. Pure."""

from __future__ import annotations

from typing import Any

from tablefmt.expressions.predicate import Comparison, IsNull, Predicate, all_of, any_of
from tablefmt.model.entry import AddedFiles, Metadata
from tablefmt.model.schema import Field
from tablefmt.model.values import decode_value


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
