"""Defaults of columns as SQL text, as in Spark and in its JSON form of a schema. Pure."""

from __future__ import annotations

from typing import Any

from tablefmt.expressions.literals import literal_sql
from tablefmt.model.schema import Schema, Type, kind_name
from tablefmt.model.values import decode_value

CURRENT_DEFAULT = "CURRENT_DEFAULT"
"""Key in Spark's column metadata for the SQL text of its default."""

EXISTS_DEFAULT = "EXISTS_DEFAULT"
"""Key in Spark's column metadata for the value that its reader uses if a file lacks the column."""


def default_sql(value: Any, kind: Type) -> str:
    """Return a value of VAL-1 as a Spark literal of exactly that type and value."""
    name = kind_name(kind)
    return f"CAST({literal_sql(decode_value(value, kind), name)} AS {str(kind).upper()})"


def say_values(described: dict[str, Any], schema: Schema, which: str) -> dict[str, Any]:
    """Return Spark's JSON form of the schema, with values of its columns under Spark's keys.

    Args:
        described: the JSON from `to_spark_json`. The function changes it.
        schema: the same schema.
        which: CURRENT_DEFAULT or EXISTS_DEFAULT.
    """
    for field, one in zip(schema.fields, described["fields"], strict=True):
        value = field.default if which == CURRENT_DEFAULT else field.initial
        if value is not None:
            one["metadata"][which] = default_sql(value, field.type)
    return described
