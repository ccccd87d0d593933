"""One version of an open table as a DataFrame, or looked into for a row."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tablefmt.errors import InvalidPredicateError
from tablefmt.expressions.constraints import shown_columns
from tablefmt.expressions.predicate import quote_name
from tablefmt.expressions.session_times import in_session
from tablefmt.model.times import Time
from tablefmt.session.context import TableContext
from tablefmt.session.snapshot import TransactionSnapshot
from tablefmt.spark.backends.choice import backend_for
from tablefmt.spark.columns.conditions import session_zone
from tablefmt.spark.runtime.ansi import under_ansi
from tablefmt.spark.runtime.display import shown_rows
from tablefmt.spark.runtime.frames import DataFrame, Session, functions_of
from tablefmt.spark.runtime.sql_text import parsed


def read_at(
    spark: Session, context: TableContext, version: int | None, timestamp: Time | None
) -> DataFrame:
    """A version of an open table; the newest one known for neither. Raises as `read`."""
    if timestamp is not None:
        timestamp = in_session(timestamp, session_zone(spark))
    snapshot = context.view.snapshot(context.resolve_point(version, timestamp))
    asked = version is not None or timestamp is not None
    return backend_for(spark, context.store).read_snapshot(snapshot, asked=asked)


def find_row(
    spark: Session, context: TableContext, pinned: TransactionSnapshot, where: str
) -> Mapping[str, Any] | None:
    """A live row of the pinned version for which SQL text is TRUE, found by Spark.

    Raises:
        InvalidPredicateError: Spark does not understand it as a condition.
    """
    from pyspark.errors import AnalysisException, ParseException

    names = [quote_name(f.name) for f in shown_columns(pinned.metadata.schema)]
    try:
        with under_ansi(spark) as ansi:
            rows = read_at(ansi, context, pinned.version, None)
            chosen = rows.where(parsed(functions_of(rows), where))
            rows_found = shown_rows(chosen.select(*names).limit(1))
    except (AnalysisException, ParseException) as error:
        first = str(error).splitlines()[0]
        raise InvalidPredicateError(f"Spark does not take the condition: {first}") from None
    return rows_found[0] if rows_found else None
