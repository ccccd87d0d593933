"""`format("tablefmt")` where there is no JVM at hand: a Python data source on Arrow batches.

Reads are pinned when the DataFrame is analysed: `schema` notes the version in the instance, which
Spark keeps for the plan. There is no `pushFilters` on purpose: Spark 4.1 to 4.3 keep the answer of
one query for all others of the same DataFrame, whatever their filters, and rows would be lost
(spec/decisions/0005).
`tablefmt.spark.write` and `read` do not come here: what they need is in no plan.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from tablefmt.commit.environment import SYSTEM
from tablefmt.data.bounds import stats_of
from tablefmt.errors import InvalidRangeError, SchemaMismatchError, UnsupportedFeatureError
from tablefmt.expressions.ddl import schema_from, to_spark_json
from tablefmt.model.entry import Metadata
from tablefmt.model.schema import Schema
from tablefmt.model.schema_views import nullable, without_comments
from tablefmt.operations.append import NAME, append_files
from tablefmt.operations.create import definition
from tablefmt.operations.overwrite import check_overwritable, overwrite_files
from tablefmt.session.context import discard
from tablefmt.snapshot.state import Snapshot
from tablefmt.spark.backends.arrow.tasks import (
    ReadTask,
    WriteTask,
    check_columns,
    groups_of,
    packed,
    remove_losers,
    unpacked,
)
from tablefmt.spark.backends.choice import check_shared
from tablefmt.spark.backends.layout import Layout, layout
from tablefmt.spark.backends.task_results import described, merged, read_back
from tablefmt.spark.columns.conditions import check_zoned
from tablefmt.spark.entry.write import check_partitioning, commit_first, evolved, prepare_first
from tablefmt.spark.options import WriteOptions, parse_options, parse_read_options
from tablefmt.spark.runtime import failures
from tablefmt.spark.runtime.failures import carrying
from tablefmt.spark.statements.open_logs import open_context, open_if_there
from tablefmt.store.open import open_store
from tablefmt.store.protocol import Store

FORMAT = "tablefmt"

REDACTED = "spark.sql.redaction.options.regex"
"""Spark's setting: options whose names match it are not shown in plans."""

SECRETS = r"(?i)(^|\.)storage\."
"""Every option of the storage is taken for a secret."""

_NO_CATALOG = (
    "Spark hands no options of a catalog's table on to a Python data source, so such a table could "
    "not be read here; use CREATE TEMPORARY VIEW … USING tablefmt OPTIONS (path '…'), or a classic "
    "session"
)


class TablefmtDataSource(DataSource):  # type: ignore[misc]
    """What Spark makes of `format("tablefmt")` and its options."""

    def __init__(self, options: Mapping[str, str]) -> None:
        super().__init__(dict(options))
        self.pinned: int | None = None

    @classmethod
    def name(cls) -> str:
        """The format's name."""
        return FORMAT

    def schema(self) -> StructType:
        """The columns of the version asked for, which is the one that is read from now on."""
        with carrying():
            if "provider" in self.options:
                raise UnsupportedFeatureError(_NO_CATALOG, ["spark:catalog-table"])
            _, snapshot = self._snapshot()
            self.pinned = snapshot.version
            return StructType.fromJson(to_spark_json(snapshot.schema))

    def reader(self, schema: StructType) -> TablefmtReader:
        """A reader of the pinned version; for a catalog's table, of the newest there is now."""
        with carrying():
            store, snapshot = self._snapshot()
            _check_given(schema, snapshot)
            return TablefmtReader(store, snapshot)

    def writer(self, schema: StructType, overwrite: bool) -> TablefmtWriter:
        """A writer of one transaction."""
        with carrying():
            return _writer(dict(self.options), schema, overwrite)

    def _snapshot(self) -> tuple[Store, Snapshot]:
        options = parse_read_options(self.options)
        store = _store(options.path, options.storage_options)
        context = open_context(store)
        if self.pinned is not None:
            return store, context.view.snapshot(self.pinned)
        point = context.resolve_point(options.version, options.timestamp)
        return store, context.view.snapshot(point)


class TablefmtReader(DataSourceReader):  # type: ignore[misc]
    """Reads every file of one version, several files a task."""

    def __init__(self, store: Store, snapshot: Snapshot) -> None:
        self.task = ReadTask(store, snapshot.schema)
        self.groups = [packed(group) for group in groups_of(snapshot.with_vectors(snapshot.files))]

    def __getstate__(self) -> dict[str, Any]:
        """The groups travel as partitions, not with every task."""
        return {"task": self.task, "groups": []}

    def partitions(self) -> Sequence[InputPartition]:
        """A group of files each."""
        return [InputPartition(group) for group in self.groups]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a group. Raises CorruptDataError."""
        if partition.value is None:
            return
        yield from self.task.batches(unpacked(partition.value))


@dataclass
class TaskFiles(WriterCommitMessage):  # type: ignore[misc]
    """What the winning attempt of a task wrote, packed."""

    body: bytes


class TablefmtWriter(DataSourceArrowWriter):  # type: ignore[misc]
    """Writes files in tasks, and makes one commit of them."""

    def __init__(
        self,
        task: WriteTask,
        options: WriteOptions,
        *,
        overwrite: bool,
        read_version: int | None,
        applied: bool,
        written_under: Metadata | None = None,
    ) -> None:
        self.task = task
        self.options = options
        self.overwrite = overwrite
        self.read_version = read_version
        """None: there is no table yet."""
        self.written_under = written_under or task.metadata
        """The metadata of `read_version`; the files are written under the task's."""
        self.applied = applied
        """The same application version is in the table: nothing is written."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskFiles:
        """In a worker: write the rows of one attempt of a task."""
        from pyspark import TaskContext

        if self.applied:
            return TaskFiles(described(None))
        context = TaskContext.get()
        partition = context.partitionId() if context is not None else 0
        return TaskFiles(described(self.task.write(iterator, partition)))

    def commit(self, messages: Sequence[Any]) -> None:
        """Make one commit of the files of all tasks. Raises as `tablefmt.spark.write`."""
        if self.applied:
            return
        with carrying():
            store, transaction = self.task.store, self.task.transaction
            added = merged(read_back(m.body) for m in messages if m is not None)
            remove_losers(store, transaction, added)
            metadata, commit = self.task.metadata, self.options.commit
            if self.read_version is None:
                commit_first(
                    store,
                    metadata,
                    transaction,
                    added,
                    self.options,
                    exist_ok=not self.overwrite,
                )
                return
            context = open_context(store)
            if not self.overwrite:
                append_files(
                    context,
                    transaction,
                    added,
                    self.written_under,
                    commit,
                    read_version=self.read_version,
                    evolved=metadata,
                )
                return
            overwrite_files(
                context,
                transaction,
                added,
                self.written_under,
                commit,
                read_version=self.read_version,
                evolved=metadata,
                where=self.options.replace_where,
                dynamic_partitions=self.options.dynamic_partitions,
            )

    def abort(self, messages: Sequence[Any]) -> None:
        """Remove the files of a job that failed.

        Spark calls this after a commit that failed, too. Then every task has said what it wrote,
        and the commit itself has removed its files, unless they may be in the table.
        """
        if any(message is None for message in messages):
            discard(self.task.store, self.task.transaction)


@contextmanager
def _active(spark: Any) -> Iterator[None]:
    """Spark looks for sources of the same name in the session that is active, whoever registers."""
    if getattr(spark, "_jsparkSession", None) is None:
        yield
        return
    sessions = spark._jvm.org.apache.spark.sql.classic.SparkSession
    before = sessions.getActiveSession()
    sessions.setActiveSession(spark._jsparkSession)
    try:
        yield
    finally:
        if before.isDefined():
            sessions.setActiveSession(before.get())


def register_source(spark: Any, name: str = "tablefmt") -> None:
    """Make `format("tablefmt")` known to a session, and its errors to PySpark. Idempotent.

    Options of the storage are kept out of the plans that Spark shows.
    """
    failures.install()
    source: Any = TablefmtDataSource
    if name != source.name():
        source = type(source.__name__, (source,), {"name": classmethod(lambda _: name)})
    with _active(spark):
        spark.dataSource.register(source)
    known = spark.conf.get(REDACTED, "") or ""
    if SECRETS not in known:
        spark.conf.set(REDACTED, f"{known}|{SECRETS}" if known else SECRETS)


def _writer(options: dict[str, str], schema: StructType, overwrite: bool) -> TablefmtWriter:
    given = {name.casefold(): name for name in options}
    path = options.pop(given.get("path", "path"), None)
    names = options.pop(given.get("partitionby", "partitionBy"), "")
    partition_by = [name.strip() for name in names.split(",") if name.strip()]
    parsed = parse_options(options)
    store = _store(path, parsed.storage_options)
    rows = nullable(schema_from(schema))
    transaction = SYSTEM.nonce()
    context = open_if_there(store)
    if context is None:
        prepare_first(store, parsed)
        metadata = definition(rows, partition_by, {})
        task = _task(store, transaction, metadata, rows, layout(parsed.files, metadata, None))
        return TablefmtWriter(task, parsed, overwrite=overwrite, read_version=None, applied=False)
    head = context.begin()
    if not parsed.overwrite_schema:
        check_partitioning(head.metadata, partition_by)
    elif not overwrite:
        raise InvalidRangeError("overwriteSchema means nothing with mode='append'; use mergeSchema")
    if overwrite:
        where, dynamic = parsed.replace_where, parsed.dynamic_partitions
        check_overwritable(head.metadata, where, dynamic)
        if where is not None:
            check_zoned(where, head.metadata.schema)
    metadata = evolved(head.metadata, rows, parsed, partition_by)
    check_columns(rows, metadata.schema)
    applied = context.applied(parsed.commit, None, NAME) is not None
    return TablefmtWriter(
        _task(store, transaction, metadata, rows, layout(parsed.files, metadata, head)),
        parsed,
        overwrite=overwrite,
        read_version=head.version,
        applied=applied,
        written_under=head.metadata,
    )


def _task(
    store: Store, transaction: str, metadata: Metadata, rows: Schema, spread: Layout
) -> WriteTask:
    stats = tuple(stats_of(metadata))
    names = tuple(rows.names)
    return WriteTask(
        store, transaction, metadata, stats, names, spread.compression, spread.rows_max
    )


def _store(path: str | None, storage_options: Mapping[str, Any]) -> Store:
    if not path:
        raise UnsupportedFeatureError(
            "there is no path: give it to load(), save() or the option path (a catalog's table "
            "has none here; use a temporary view)",
            ["option:path"],
        )
    store = open_store(path, storage_options)
    check_shared(store)
    return store


def _check_given(schema: StructType, snapshot: Snapshot) -> None:
    """Refuse columns other than the table's: a catalog's that are out of date, or a user's."""
    wanted = to_spark_json(without_comments(nullable(snapshot.schema)))
    given = to_spark_json(without_comments(nullable(schema_from(schema))))
    if given != wanted:
        raise SchemaMismatchError(
            f"Spark's catalog or the reader says the columns are {schema.simpleString()}, and "
            f"version {snapshot.version} of the table has "
            f"{StructType.fromJson(wanted).simpleString()}; "
            'leave schema() out, or bring the catalog up to date: tablefmt.spark.sync(spark, "…")',
            [f.name for f in schema.fields],
        )
