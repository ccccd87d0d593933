"""Verbs of statements on a table as a whole: see `expressions.table_statements`."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa

from tablefmt.expressions.table_statements import TableStatement, read_statement
from tablefmt.maintenance.vacuum_plan import DOOMED
from tablefmt.operations import detail, history
from tablefmt.session.receipt import Commit
from tablefmt.spark.entry.callers import catalog_table, session_of
from tablefmt.spark.entry.table import SparkTable
from tablefmt.spark.entry.table import open as open_table
from tablefmt.spark.runtime.frames import JavaObject, Session

_COMMIT = pa.schema(
    [("path", pa.string()), ("version", pa.int64()), ("metrics", pa.map_(pa.string(), pa.int64()))]
)
"""Of OPTIMIZE and RESTORE: the newest version then, and what its commit says it took."""

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)


def _history(spark: Session, table: SparkTable, asked: TableStatement) -> pa.Table:
    return table.table.history(asked.limit)


def _detail(spark: Session, table: SparkTable, asked: TableStatement) -> pa.Table:
    return detail.detail(table.table.context)


def _optimize(spark: Session, table: SparkTable, asked: TableStatement) -> pa.Table:
    if asked.by:
        return _committed(table, table.cluster(asked.by, where=asked.where))
    return _committed(table, table.compact(where=asked.where))


def _vacuum(spark: Session, table: SparkTable, asked: TableStatement) -> pa.Table:
    retention = None if asked.hours is None else dt.timedelta(hours=asked.hours)
    return table.table.vacuum(retention=retention, dry_run=asked.dry_run).to_arrow()


def _restore(spark: Session, table: SparkTable, asked: TableStatement) -> pa.Table:
    if asked.timestamp is None:
        return _committed(table, table.restore(version=asked.version))
    # Spark knows its literals, and the session's zone.
    query = f"SELECT unix_micros(CAST({asked.timestamp} AS TIMESTAMP))"
    (micros,) = spark.sql(query).collect()[0]
    if micros is None:
        # ANSI would have said so.
        return _committed(table, table.restore(timestamp=asked.timestamp.strip("'")))
    when = _EPOCH + dt.timedelta(microseconds=micros)
    return _committed(table, table.restore(timestamp=when))


def _committed(table: SparkTable, commit: Commit) -> pa.Table:
    row = {
        "path": table.table.uri,
        "version": commit.version,
        "metrics": sorted(commit.metrics.items()),
    }
    return pa.Table.from_pylist([row], _COMMIT)


_STATEMENTS: Mapping[
    str, tuple[pa.Schema, Callable[[Session, SparkTable, TableStatement], pa.Table]]
] = {
    "HISTORY": (history.SCHEMA, _history),
    "DETAIL": (detail.SCHEMA, _detail),
    "OPTIMIZE": (_COMMIT, _optimize),
    "VACUUM": (DOOMED, _vacuum),
    "RESTORE": (_COMMIT, _restore),
}
"""What each answers with, and who carries it out."""


def _statement(session: JavaObject, text: str) -> str | None:
    """The columns that a statement answers with, in Spark's JSON form; None if the text is none of
    these, or of another's table.
    """
    from pyspark.sql.pandas.types import from_arrow_schema

    asked = read_statement(text)
    if asked is None or catalog_table(session_of(session), asked.table) is None:
        return None
    columns, _ = _STATEMENTS[asked.verb]
    described: str = from_arrow_schema(columns).json()
    return described


def _maintain(session: JavaObject, text: str) -> JavaObject:
    """Carry out such a statement: a Dataset of what it answers."""
    spark = session_of(session)
    asked = read_statement(text)
    assert asked is not None
    found = catalog_table(spark, asked.table)
    assert found is not None, "the table was there a moment ago"
    table = open_table(spark, found.uri, storage_options=found.storage_options)
    _, carry_out = _STATEMENTS[asked.verb]
    return spark.createDataFrame(carry_out(spark, table, asked))._jdf


VERBS: Mapping[str, Callable[..., Any]] = {"statement": _statement, "maintain": _maintain}
"""By the names by which Java calls them."""
