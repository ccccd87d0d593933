"""Expressions worked out over Arrow rows: by Arrow's own functions where these are enough.

They are at hand, and DuckDB takes a tenth of a second and more to load and open. Spec: SQL-1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from tablefmt.data.engine import Engine, LazyEngine, check_engine
from tablefmt.data.nested_values import relabelled
from tablefmt.expressions.arrow_values import Call, ColumnValue, Value
from tablefmt.expressions.sql_to_duckdb import Translated
from tablefmt.model.arrow_types import arrow_type
from tablefmt.model.schema import Schema

_NO_RESULT = (pa.ArrowException, RecursionError, OverflowError)


def check_carried_out(expressions: Sequence[Translated]) -> None:
    """Say what is missing before any work is done.

    Raises:
        UnsupportedFeatureError: one of them needs DuckDB, and it is not installed.
    """
    if any(each.arrow is None for each in expressions):
        check_engine()


def evaluate(
    engine: Callable[[], Engine], rows: pa.Table, expressions: Sequence[Translated]
) -> list[pa.ChunkedArray]:
    """The value of each expression for every row, in order, as `arrow_type` of its type.

    Args:
        engine: asked for only if it is needed.
        rows: columns by their handles, those used at least.
        expressions: none of type NULL.

    Raises:
        InvalidPredicateError: a value for which there is no result: overflow, division by zero, …
        UnsupportedFeatureError: the engine is needed and not installed.
    """
    columns = by_arrow(rows, expressions)
    return engine().evaluate(rows, expressions) if columns is None else columns


def by_arrow(rows: pa.Table, expressions: Sequence[Translated]) -> list[pa.ChunkedArray] | None:
    """The same without the engine; None if that has to be asked."""
    columns = []
    for each in expressions:
        if each.arrow is None:
            return None
        assert each.type is not None, "NULL is no computation"
        try:
            columns.append(_column(_value(each.arrow, rows), arrow_type(each.type), rows.num_rows))
        except _NO_RESULT:
            # Perhaps of a branch that is not taken.
            return None
    return columns


def _value(value: Value, rows: pa.Table) -> pa.ChunkedArray | pa.Array | pa.Scalar:
    if isinstance(value, ColumnValue):
        return rows[value.handle]
    if isinstance(value, Call):
        operands = [_value(operand, rows) for operand in value.operands]
        return pc.call_function(value.function, operands, value.options)
    return pa.scalar(value.value, arrow_type(value.type))


def _column(
    value: pa.ChunkedArray | pa.Array | pa.Scalar, kind: pa.DataType, rows: int
) -> pa.ChunkedArray:
    if isinstance(value, pa.Scalar):
        value = pa.repeat(value, rows)
    column = value if isinstance(value, pa.ChunkedArray) else pa.chunked_array([value])
    assert column.type == kind, "it has the type that it was translated to"
    return column


@dataclass(slots=True)
class RowTest:
    """A condition on rows of data files."""

    schema: Schema
    condition: Translated
    """Over one relation: the schema, with the prefix `t`."""
    engine: LazyEngine = field(default_factory=LazyEngine)

    def __call__(self, batch: pa.RecordBatch) -> pa.BooleanArray:
        """Whether it is TRUE, for each row. Columns have physical names.

        Raises:
            InvalidPredicateError: it has no result for a row.
        """
        columns = {}
        for at, column in enumerate(self.schema.fields):
            if f"t{at}" in self.condition.columns:
                values = batch.column(column.physical)
                columns[f"t{at}"] = relabelled(values, arrow_type(column.type))
        rows = pa.table(columns) if columns else pa.table({"none": pa.nulls(batch.num_rows)})
        (truth,) = evaluate(self.engine, rows, [self.condition])
        return pc.fill_null(truth, False).combine_chunks()
