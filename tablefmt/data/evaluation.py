"""Evaluation of expressions over Arrow rows, by Arrow's own functions where they suffice.

Arrow is already loaded. DuckDB takes a tenth of a second or more to load and open. Spec: SQL-1.
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
    """Raise if an expression needs DuckDB and it is missing, before any work is done.

    Raises:
        UnsupportedFeatureError: an expression needs DuckDB, and it is not installed.
    """
    if any(each.arrow is None for each in expressions):
        check_engine()


def evaluate(
    engine: Callable[[], Engine], rows: pa.Table, expressions: Sequence[Translated]
) -> list[pa.ChunkedArray]:
    """Return the value of each expression for every row, in order, as `arrow_type` of its type.

    Args:
        engine: called only if it is needed.
        rows: columns by their handles; at least the columns that the expressions use.
        expressions: none of type NULL.

    Raises:
        InvalidPredicateError: an expression has no result, such as overflow or division by zero.
        UnsupportedFeatureError: the engine is needed and not installed.
    """
    columns = by_arrow(rows, expressions)
    return engine().evaluate(rows, expressions) if columns is None else columns


def by_arrow(rows: pa.Table, expressions: Sequence[Translated]) -> list[pa.ChunkedArray] | None:
    """Return the same values by Arrow alone; None if the engine is needed."""
    columns = []
    for each in expressions:
        if each.arrow is None:
            return None
        assert each.type is not None, "NULL is no computation"
        try:
            columns.append(_column(_value(each.arrow, rows), arrow_type(each.type), rows.num_rows))
        except _NO_RESULT:
            # The error may come from a branch that SQL does not evaluate.
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
    """The condition over one relation: the schema, with the prefix `t`."""
    engine: LazyEngine = field(default_factory=LazyEngine)

    def __call__(self, batch: pa.RecordBatch) -> pa.BooleanArray:
        """Return for each row whether the condition is TRUE. Columns have physical names.

        Raises:
            InvalidPredicateError: the condition has no result for a row.
        """
        columns = {}
        for at, column in enumerate(self.schema.fields):
            if f"t{at}" in self.condition.columns:
                values = batch.column(column.physical)
                columns[f"t{at}"] = relabelled(values, arrow_type(column.type))
        rows = pa.table(columns) if columns else pa.table({"none": pa.nulls(batch.num_rows)})
        (truth,) = evaluate(self.engine, rows, [self.condition])
        return pc.fill_null(truth, False).combine_chunks()
