"""Defaults of columns as SQL text, as Spark and its JSON form of a schema have them. Pure."""

from __future__ import annotations

from typing import Any

from tablefmt.expressions.literals import literal_sql
from tablefmt.model.schema import Schema, Type, kind_name
from tablefmt.model.values import decode_value

CURRENT_DEFAULT = "CURRENT_DEFAULT"
"""Spark's name, in a column's metadata, for the SQL text of its default."""

EXISTS_DEFAULT = "EXISTS_DEFAULT"
"""Spark's name for a value that its reader takes for a column which a file lacks."""


def default_sql(value: Any, kind: Type) -> str:
    """A value of VAL-1 as text that Spark reads as a literal of exactly that type and value."""
    name = kind_name(kind)
    return f"CAST({literal_sql(decode_value(value, kind), name)} AS {str(kind).upper()})"


def say_values(described: dict[str, Any], schema: Schema, which: str) -> dict[str, Any]:
    """Spark's JSON form of the schema, with values of its columns under Spark's names for them.

    Args:
        described: as of `to_spark_json`; it is changed.
        schema: the same schema.
        which: CURRENT_DEFAULT or EXISTS_DEFAULT.
    """
    for field, one in zip(schema.fields, described["fields"], strict=True):
        value = field.default if which == CURRENT_DEFAULT else field.initial
        if value is not None:
            one["metadata"][which] = default_sql(value, field.type)
    return described
