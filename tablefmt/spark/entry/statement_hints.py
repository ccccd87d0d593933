"""Statements on a table as a whole in sessions whose parser cannot be added to: what to call."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

from tablefmt.errors import UnsupportedFeatureError
from tablefmt.expressions.table_statements import read_statement
from tablefmt.spark.runtime.frames import Session

CALLS: Mapping[str, str] = {
    "HISTORY": "tablefmt.spark.open(spark, uri).history()",
    "DETAIL": "tablefmt.open(uri), which has version, schema and properties, or on the command "
    "line `tablefmt describe URI`",
    "OPTIMIZE": "tablefmt.spark.open(spark, uri).compact(where=…), or cluster(columns, where=…) "
    "for ZORDER BY",
    "VACUUM": "tablefmt.spark.open(spark, uri).vacuum(retention=…, dry_run=False)",
    "RESTORE": "tablefmt.spark.open(spark, uri).restore(version=…), or timestamp=…",
}
"""By verb of a `TableStatement`."""


def install(spark: Session) -> None:
    """Have `spark.sql` of a session say what to call where Spark knows no such statement.

    Whatever the session's Spark does understand is as it was.
    """
    original = spark.sql
    if getattr(original, "tablefmt", False):
        return

    @functools.wraps(original)
    def sql(sqlQuery: str, *arguments: Any, **named: Any) -> Any:
        from pyspark.errors import AnalysisException

        try:
            return original(sqlQuery, *arguments, **named)
        except AnalysisException as error:
            asked = read_statement(sqlQuery)
            if asked is None or not _is_unknown(error, asked.verb):
                raise
        raise UnsupportedFeatureError(
            f"this session's Spark does not know {asked.verb} of a table; for one of tablefmt, "
            f"call {CALLS[asked.verb]}",
            [f"sql:{asked.verb}"],
        )

    sql.tablefmt = True  # type: ignore[attr-defined]
    spark.sql = sql


def _is_unknown(error: Exception, verb: str) -> bool:
    """Whether Spark refused the words and not the table."""
    from pyspark.errors import ParseException

    # DESCRIBE HISTORY t is Spark's for column t of a table HISTORY.
    return isinstance(error, ParseException) or f"`{verb}`" in str(error).upper()
