"""JVM callback handlers of statements on a whole table: see `expressions.table_statements`."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, cast

import pyarrow as pa

from tablefmt.errors import InvalidArgumentError, InvalidRangeError, UnsupportedFeatureError
from tablefmt.expressions.procedure_calls import WITHOUT_OURS
from tablefmt.expressions.table_statements import TableStatement, read_statement
from tablefmt.imports.source import Format
from tablefmt.maintenance.removal_plan import CANDIDATES
from tablefmt.model.name_matching import folded
from tablefmt.model.partition_transforms import with_name
from tablefmt.model.tags import tags_of
from tablefmt.operations import alterations, describe
from tablefmt.operations.alter import alter
from tablefmt.operations.restore import RESTORED, restored
from tablefmt.session.commit_options import CommitOptions
from tablefmt.session.commit_result import Commit
from tablefmt.spark.entry.clone_verbs import RESULT, clone_result, described_clone, point_of
from tablefmt.spark.entry.delta_settings import may_break_transactions
from tablefmt.spark.entry.java_arguments import (
    CatalogTable,
    catalog_table,
    follow,
    name_parts,
    place,
    session_of,
)
from tablefmt.spark.entry.procedure_verbs import call, refusal, result_of
from tablefmt.spark.entry.spark_table import SparkTable
from tablefmt.spark.pyspark_objects import JavaObject, Session, java_rows, java_session
from tablefmt.spark.statements.execution import open_context, open_context_if_exists
from tablefmt.store.location import open_store
from tablefmt.table import Table, import_table

_COMMIT = pa.schema(
    [("path", pa.string()), ("version", pa.int64()), ("metrics", pa.map_(pa.string(), pa.int64()))]
)
"""Result of OPTIMIZE, SYNC and PARTITION: the newest version then, and the metrics of the
commit.
"""

_CONVERTED = pa.schema([("path", pa.string()), ("version", pa.int64()), ("numFiles", pa.int64())])
"""Result of CONVERT: the new table."""

_HOUR_SECONDS = 3600

_ADVICE = (
    "pass breaks_running_transactions=True",
    "set spark.databricks.delta.retentionDurationCheck.enabled to false",
)
"""Advice for a short retention, in Python and in SQL."""


def _history(spark: Session, table: SparkTable, asked: TableStatement) -> pa.Table:
    return table.table.history(asked.limit)


def _detail(spark: Session, table: SparkTable, asked: TableStatement) -> pa.Table:
    return describe.detail(table.table.context, _name_of(spark, asked))


def _name_of(spark: Session, asked: TableStatement) -> str | None:
    """Return the whole name of the table in the catalog. None: the statement has its path."""
    found = None if asked.by_path else catalog_table(spark, asked.table)
    words = [] if found is None else name_parts(found.quoted)
    return ".".join(words) if len(words) == 3 else None


def _optimize(spark: Session, table: SparkTable, asked: TableStatement) -> pa.Table:
    order = table.table.cluster_by
    if asked.by and order:
        raise InvalidArgumentError(
            f"the table is clustered by {', '.join(order)}, so OPTIMIZE does not take ZORDER BY; "
            "leave it out, or remove the order with ALTER TABLE … CLUSTER BY NONE"
        )
    if asked.full:
        done = table.repartition()
        if asked.where is None and not asked.by and not order:
            return _committed(table, done)
    if asked.by or order:
        return _committed(table, table.cluster(asked.by or None, where=asked.where))
    return _committed(table, table.compact(where=asked.where))


def _vacuum(spark: Session, table: SparkTable, asked: TableStatement) -> pa.Table:
    retention = None if asked.hours is None else asked.hours * _HOUR_SECONDS
    try:
        report = table.table.vacuum(
            retention=retention,
            dry_run=asked.dry_run,
            breaks_running_transactions=may_break_transactions(spark),
        )
    except InvalidRangeError as error:
        raise InvalidRangeError(str(error).replace(*_ADVICE)) from None
    return report.to_arrow()


def _restore(spark: Session, table: SparkTable, asked: TableStatement) -> pa.Table:
    return restored(table.table.context, table.restore(**point_of(spark, asked)))


def _sync(spark: Session, table: SparkTable, asked: TableStatement) -> pa.Table:
    return _committed(table, table.alter.sync_identity(asked.by[0]))


def _partition_field(spark: Session, table: SparkTable, asked: TableStatement) -> pa.Table:
    change = asked.field_change
    assert change is not None
    alteration = (
        alterations.replace_partition_field(change.of, with_name(change.by, change.alias))
        if change.by is not None
        else alterations.add_partition_field(with_name(change.of, change.alias))
        if change.change == "ADD"
        else alterations.drop_partition_field(change.of)
    )
    return _committed(table, alter(table.table.context, alteration, CommitOptions()))


def _purge(spark: Session, table: SparkTable, asked: TableStatement) -> pa.Table:
    return _committed(table, table.compact("major", where=asked.where))


def _tag(spark: Session, table: SparkTable, asked: TableStatement) -> pa.Table:
    """Set or drop a tag, as Iceberg does: CREATE of a tag that is there is an error."""
    request, (name,) = asked.tag_request, asked.by
    assert request is not None
    there = name in tags_of(table.table.context.view.head.metadata)
    if request.quiet and there != request.drop:
        return _COMMIT.empty_table()
    if request.drop:
        return _committed(table, table.alter.drop_tag(name))
    if there and not request.replace:
        raise InvalidArgumentError(
            f"the table has a tag {name!r}; write CREATE OR REPLACE TAG to move it"
        )
    if not there and not request.create:
        raise InvalidArgumentError(
            f"the table has no tag {name!r}; write CREATE OR REPLACE TAG to set it"
        )
    retain = None if request.retain is None else folded(request.retain)
    return _committed(table, table.alter.set_tag(name, version=asked.version, retain=retain))


def _layout(spark: Session, table: SparkTable, asked: TableStatement) -> pa.Table:
    """Set the order of new files, or that writes bring the rows of a partition together."""
    assert asked.layout is not None
    parts = []
    if asked.layout.by is not None:
        parts.append(alterations.set_clustering(asked.layout.by))
    if asked.layout.by_partition:
        parts.append(alterations.set_properties({"optimizeWrite": True}))
    done = alter(table.table.context, alterations.combined(parts), CommitOptions())
    return _committed(table, done)


def _call(spark: Session, table: SparkTable, asked: TableStatement) -> pa.Table:
    assert asked.call is not None
    return call(spark, table, asked.call)


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
    "HISTORY": (describe.HISTORY_SCHEMA, _history),
    "DETAIL": (describe.DETAIL_SCHEMA, _detail),
    "OPTIMIZE": (_COMMIT, _optimize),
    "VACUUM": (CANDIDATES, _vacuum),
    "RESTORE": (RESTORED, _restore),
    "SYNC": (_COMMIT, _sync),
    "PARTITION": (_COMMIT, _partition_field),
    "REORG": (_COMMIT, _purge),
    "TAG": (_COMMIT, _tag),
    "WRITE": (_COMMIT, _layout),
}
"""Result schema and function of each statement."""


def _convert(uri: str, asked: TableStatement) -> pa.Table:
    format = cast(Format | None, asked.format)
    table = import_table(uri, format, partition_schema=asked.partition_schema)
    files = table.context.view.snapshot().totals[0]
    row = {"path": table.uri, "version": table.version, "numFiles": files}
    return pa.Table.from_pylist([row], _CONVERTED)


def _named(spark: Session, asked: TableStatement) -> CatalogTable | None:
    """Return the table of a statement if it is ours; of CONVERT, the place of the source."""
    if asked.call is not None and asked.call.name in WITHOUT_OURS:
        return None if _has_procedures(spark) else CatalogTable("", {}, asked.table)
    if asked.format is not None:
        (path,) = name_parts(asked.table)
        return CatalogTable(place(path), {}, f"tablefmt.{asked.table}")
    table = catalog_table(spark, asked.table)
    return None if table and asked.by_path and not _is_table(table.uri) else table


def _statement(session: JavaObject, text: str, parameters: bool) -> str | None:
    """Describe a statement to run, as JSON with its result columns in Spark's JSON form.

    None if the text is no statement of `expressions.table_statements`, or names no tablefmt table.
    """
    from pyspark.sql.pandas.types import from_arrow_schema

    asked = read_statement(text)
    table = None if asked is None else _named(session_of(session), asked)
    if asked is None or table is None:
        _check_clone_source(session_of(session), asked)
        return None
    _check(asked)
    if parameters:
        raise UnsupportedFeatureError(
            f"{asked.verb} does not take parameters; write the values into the statement's text",
            ["sql:parameters"],
        )
    described = {
        "text": text,
        "uri": table.uri,
        "storage": dict(table.storage_options),
        "name": table.quoted,
        "columns": from_arrow_schema(_columns(asked)).json(),
    }
    if asked.clone is not None:
        described |= described_clone(session_of(session), asked, table)
    return json.dumps(described)


def _check_clone_source(spark: Session, asked: TableStatement | None) -> None:
    """Refuse a clone of files of another format, unless Delta's parser reads the statement.

    Raises:
        UnsupportedFeatureError: the source is a path of another format.
    """
    if asked is None or asked.clone is None:
        return
    format, _, path = asked.table.partition(".")
    if folded(format.strip()) not in ("parquet", "iceberg", "delta") or "/" not in path:
        return
    if "io.delta" not in str(spark.conf.get("spark.sql.extensions", "")):
        raise UnsupportedFeatureError(
            f"CLONE of {asked.table} is not supported; use CONVERT TO tablefmt {asked.table}, or "
            "CREATE TABLE … AS SELECT to copy the rows",
            ["sql:CLONE"],
        )


def _check(asked: TableStatement) -> None:
    """Raise UnsupportedFeatureError for a statement without a counterpart."""
    problem = None if asked.call is None else refusal(asked.call.name)
    if asked.refused is not None:
        feature, instead = asked.refused
        problem = UnsupportedFeatureError(
            f"{feature} is not supported on tablefmt tables; {instead}", [f"sql:{feature}"]
        )
    if problem is not None:
        raise problem


def _has_procedures(spark: Session) -> bool:
    """Return whether the catalog of the session is Iceberg's, which has procedures of its own."""
    return "iceberg" in folded(str(spark.conf.get("spark.sql.catalog.spark_catalog", "")))


def _columns(asked: TableStatement) -> pa.Schema:
    """Return the columns of a statement's result."""
    if asked.call is not None:
        return result_of(asked.call.name)
    if asked.clone is not None:
        return RESULT
    return _CONVERTED if asked.format else _STATEMENTS[asked.verb][0]


def _is_table(uri: str) -> bool:
    """Return whether there is a tablefmt table. Another format may have one at the same path."""
    try:
        return open_context_if_exists(open_store(uri)) is not None
    except UnsupportedFeatureError:
        # A kind of store that only other formats know.
        return False


def _maintain(session: JavaObject, described: str) -> JavaObject:
    """Run the statement that `_statement` described, and return its result as a Dataset.

    The table is the one that the name stood for when the statement was described.
    """
    spark, given = session_of(session), json.loads(described)
    asked = read_statement(given["text"])
    assert asked is not None
    if asked.format is not None:
        return java_rows(spark.createDataFrame(_convert(given["uri"], asked)))
    if asked.clone is not None:
        return java_rows(spark.createDataFrame(clone_result(spark, given, asked)))
    context = open_context(open_store(given["uri"], given["storage"]))
    before = context.view.head.metadata.schema
    carry_out = _call if asked.call else _STATEMENTS[asked.verb][1]
    answer = carry_out(spark, SparkTable(spark, Table(context)), asked)
    after = context.view.head.metadata.schema
    if after != before:
        follow(spark, given["name"], after)
    restores = asked.verb == "RESTORE" or asked.call is not None
    if restores and not java_session(spark).sharedState().cacheManager().isEmpty():
        spark.catalog.refreshTable(given["name"])
    return java_rows(spark.createDataFrame(answer))


VERBS: Mapping[str, Callable[..., Any]] = {"statement": _statement, "maintain": _maintain}
"""Handlers by the name that Java uses."""
