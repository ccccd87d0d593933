"""New values of columns, as Spark's ANSI store assignment takes them. Spec: SQL-3."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tablefmt.model.schema import Field, Schema
from tablefmt.spark.columns.assignment import cast_column, same_type, spark_types
from tablefmt.spark.columns.projection import check_inner, misfit
from tablefmt.spark.runtime.frames import functions_of
from tablefmt.spark.runtime.statement_errors import statement_errors


def store_assigned(
    frame: Any, values: Sequence[tuple[Field, Any]]
) -> tuple[tuple[Field, Any], ...]:
    """New values in the types of their columns, by the rules of INSERT (ANSI store assignment).

    Args:
        frame: over which the values are worked out.
        values: columns and values as Spark has them.

    Raises:
        SchemaMismatchError: a type that cannot be stored in the column.
        InvalidPredicateError: Spark refuses the value.
    """
    from pyspark.errors import AnalysisException

    if not values:
        return ()
    with statement_errors():
        rows = frame.select(*(value.alias(field.name) for field, value in values))
        given = [field.dataType for field in rows.schema.fields]
    fields = [field for field, _ in values]
    types = spark_types(fields)
    kinds = [field.dataType for field in types.fields]
    if all(map(same_type, given, kinds)):
        return tuple(values)
    check_inner(rows, Schema(tuple(fields), max(f.id for f in fields)))
    try:
        rows.to(types).schema  # noqa: B018
    except AnalysisException as error:
        raise misfit(error) from None
    functions = functions_of(frame)
    return tuple(
        (field, cast_column(functions, value, kind, there))
        for (field, value), kind, there in zip(values, given, kinds, strict=True)
    )
