"""A DataFrame with a table's columns, by Spark's functions alone: what Connect can do too."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from tablefmt.expressions.predicate import quote_name
from tablefmt.model.schema import Array, Field, Map, Schema, Struct, Type
from tablefmt.spark.columns.projection import Columns, alignment, misfit
from tablefmt.spark.runtime import failures
from tablefmt.spark.runtime.frames import DataFrame, functions_of
from tablefmt.spark.runtime.sql_text import parsed


def aligned(
    frame: DataFrame, schema: Schema, more: Sequence[Mapping[str, object]] = ()
) -> DataFrame:
    """The rows with exactly the table's columns, by their logical names; and those of `more`."""
    steps = alignment(frame, _as_named(schema), more)
    frame = _selected(frame, steps.choose)
    if steps.fit is not None:
        frame = _cast_to(frame, steps.fit)
    if steps.lengths is None:
        return frame
    failures.install()
    return _selected(frame, steps.lengths)


def _cast_to(frame: DataFrame, schema: dict[str, Any]) -> DataFrame:
    from pyspark.errors import AnalysisException
    from pyspark.sql.types import StructType

    try:
        frame = frame.to(StructType.fromJson(schema))
        # Connect analyses when it is asked for a schema that it cannot know by itself.
        frame.select("*").schema  # noqa: B018
    except AnalysisException as error:
        raise misfit(error) from None
    return frame


def _selected(frame: DataFrame, steps: Columns) -> DataFrame:
    from pyspark.sql.types import StructType

    functions = functions_of(frame)
    columns = []
    for step in steps:
        if "source" in step:
            column = functions.col(quote_name(step["source"]))
        else:
            column = parsed(functions, step.get("value", "NULL"))
        if "type" in step:
            field = {**step, "nullable": True, "metadata": {}}
            kind = StructType.fromJson({"type": "struct", "fields": [field]})[0].dataType
            column = column.cast(kind)
        columns.append(column.alias(step["name"]))
    return frame.select(*columns)


def _as_named(schema: Schema) -> Schema:
    """The schema with logical names for physical ones, at every level."""
    return Schema(tuple(map(_field_as_named, schema.fields)), schema.last_id)


def _field_as_named(field: Field) -> Field:
    return replace(field, physical=field.name, type=_type_as_named(field.type))


def _type_as_named(kind: Type) -> Type:
    if isinstance(kind, Struct):
        return Struct(tuple(map(_field_as_named, kind.fields)))
    if isinstance(kind, Array):
        return replace(kind, element=_type_as_named(kind.element))
    if isinstance(kind, Map):
        return replace(kind, key=_type_as_named(kind.key), value=_type_as_named(kind.value))
    return kind
