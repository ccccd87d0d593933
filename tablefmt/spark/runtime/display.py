"""Rows of Spark's for people: in the messages and fields of errors."""

from __future__ import annotations

from typing import Any

from tablefmt.expressions.predicate import quote_name
from tablefmt.spark.runtime.frames import DataFrame, functions_of

_PLAIN = frozenset({"boolean", "byte", "short", "integer", "long", "float", "double", "string"})


def shown_rows(frame: DataFrame) -> list[dict[str, Any]]:
    """A few rows by their columns' names; with text for what Python does not have, as for days
    beyond the year 9999.

    Raises: Spark's own errors.
    """
    try:
        return [row.asDict() for row in frame.collect()]
    except (OverflowError, ValueError):
        pass
    functions = functions_of(frame)
    columns = []
    for field in frame.schema.fields:
        column = functions.col(quote_name(field.name))
        plain = field.dataType.typeName() in _PLAIN
        columns.append(column if plain else column.cast("string").alias(field.name))
    return [row.asDict() for row in frame.select(*columns).collect()]
