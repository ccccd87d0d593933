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
from dataclasses import replace
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    InputPartition,
)
from pyspark.sql.types import StructType

from tablefmt.changes.read import Changes
from tablefmt.errors import (
    SchemaMismatchError,
    TablefmtError,
    UnsupportedFeatureError,
    VersionNotFoundError,
)
from tablefmt.expressions.ddl import schema_from, to_spark_json
from tablefmt.model.arrow_types import from_arrow
from tablefmt.model.schema_views import nullable, without_comments
from tablefmt.snapshot.state import Snapshot
from tablefmt.spark.backends.arrow.changes import ChangesTask, parts_of
from tablefmt.spark.backends.arrow.tasks import (
    ReadTask,
    groups_of,
    packed,
    unpacked,
)
from tablefmt.spark.backends.workers import for_workers
from tablefmt.spark.entry import stream_hints
from tablefmt.spark.entry.python_sink import TablefmtStreamWriter, make_stream_writer
from tablefmt.spark.entry.python_stream import StreamReader, stream_reader, stream_schema
from tablefmt.spark.entry.python_writer import TablefmtWriter, make_writer, source_store
from tablefmt.spark.entry.stream_hints import READ_STREAM, SESSION_ZONE
from tablefmt.spark.jvm.pyspark_parts import has_jvm, java_session, jvm_of
from tablefmt.spark.options import parse_read_options
from tablefmt.spark.runtime import failures
from tablefmt.spark.runtime.failures import carrying
from tablefmt.spark.statements.open_logs import open_context
from tablefmt.spark.streams.source_options import is_of_stream
from tablefmt.store.protocol import Store
from tablefmt.table import Table

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
        given = dict(options)
        self.is_streamed = given.pop(READ_STREAM, None) is not None
        """Somebody said that it is for a stream. Spark does not."""
        self.zone = given.pop(SESSION_ZONE, None)
        """The session's time zone, if somebody said it (TIM-5). Spark does not."""
        super().__init__(given)
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
            if self.is_streamed:
                return self._columns_of_stream()
            try:
                return self._columns()
            except VersionNotFoundError:
                # A stream may begin after the head, and rows of now may not be asked for there.
                raise
            except TablefmtError as error:
                # The options may be those of a stream.
                try:
                    return self._columns_of_stream()
                except TablefmtError:
                    if is_of_stream(self.options):
                        raise
                    raise error from None

    def _columns_of_stream(self) -> StructType:
        columns, self.pinned = stream_schema(self.options, self.zone)
        return columns

    def _columns(self) -> StructType:
        changes = self._changes()
        if changes is not None:
            self.pinned = changes.last_version
            return StructType.fromJson(to_spark_json(from_arrow(changes.schema)))
        _, snapshot = self._snapshot()
        self.pinned = snapshot.version
        return StructType.fromJson(to_spark_json(snapshot.schema))

    def reader(self, schema: StructType) -> TablefmtReader | ChangesReader:
        """A reader of the pinned version; for a catalog's table, of the newest there is now."""
        with carrying():
            changes = self._changes()
            if changes is not None:
                return ChangesReader(changes)
            store, snapshot = self._snapshot()
            _check_given(schema, snapshot)
            return TablefmtReader(store, snapshot)

    def writer(self, schema: StructType, overwrite: bool) -> TablefmtWriter:
        """A writer of one transaction."""
        with carrying():
            return make_writer(dict(self.options), schema, overwrite=overwrite)

    def streamReader(self, schema: StructType) -> StreamReader:
        """A reader of a stream in the columns of the pinned version."""
        with carrying():
            return stream_reader(self.options, schema, self.pinned, self.zone)

    def streamWriter(self, schema: StructType, overwrite: bool) -> TablefmtStreamWriter:
        """A writer of one batch; Spark asks for another one to commit it."""
        with carrying():
            return make_stream_writer(dict(self.options), schema, overwrite=overwrite)

    def _changes(self) -> Changes | None:
        """The row changes asked for, if any are; up to the pinned version, once there is one."""
        options = parse_read_options(self.options, self.zone)
        asked = options.changes
        if asked is None:
            return None
        if self.pinned is not None:
            asked = {**asked, "ending_version": self.pinned, "ending_timestamp": None}
            if asked.get("starting_version") == self.pinned + 1:
                asked = {**asked, "starting_version": None, "after_version": self.pinned}
        store = source_store(options.path, options.storage_options)
        return Table(open_context(store)).changes(**asked)

    def _snapshot(self) -> tuple[Store, Snapshot]:
        options = parse_read_options(self.options, self.zone)
        store = source_store(options.path, options.storage_options)
        context = open_context(store)
        if self.pinned is not None:
            return store, context.view.snapshot(self.pinned)
        point = context.resolve_point(options.version, options.timestamp)
        return store, context.view.snapshot(point)


class TablefmtReader(DataSourceReader):  # type: ignore[misc]
    """Reads every file of one version, several files a task."""

    def __init__(self, store: Store, snapshot: Snapshot) -> None:
        self.task = ReadTask(for_workers(store), snapshot.schema, snapshot.version)
        self.groups = [packed(group) for group in groups_of(snapshot.with_vectors(snapshot.files))]

    def __getstate__(self) -> dict[str, Any]:
        """The groups travel as partitions, not with every task."""
        return {"task": self.task, "groups": []}

    def partitions(self) -> Sequence[InputPartition]:
        """A group of files each."""
        return [InputPartition(group) for group in self.groups]

    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        """The rows of a group. Raises CorruptDataError."""
        # Where there is no group at all, Spark asks once: 4.1 with None, others with its value.
        if partition is None or partition.value is None:
            return
        yield from self.task.batches(unpacked(partition.value))


class ChangesReader(DataSourceReader):  # type: ignore[misc]
    """Reads the files of row changes, several files a task; of a run whose rows cancel, all."""

    def __init__(self, changes: Changes) -> None:
        answer = changes.answer
        self.task = ChangesTask(replace(answer, store=for_workers(answer.store)))
        self.parts = parts_of(changes.file_changes)

    def __getstate__(self) -> dict[str, Any]:
        """The parts travel as partitions, not with every task."""
        return {"task": self.task, "parts": []}

    def partitions(self) -> Sequence[InputPartition]:
        """A part each; Spark wants one at least."""
        return [InputPartition(part) for part in self.parts or [[]]]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a part. Raises CorruptDataError."""
        if partition.value is not None:
            yield from self.task.batches(partition.value)


@contextmanager
def _active(spark: Any) -> Iterator[None]:
    """Spark looks for sources of the same name in the session that is active, whoever registers."""
    if not has_jvm(spark):
        yield
        return
    sessions = jvm_of(spark).org.apache.spark.sql.classic.SparkSession
    before = sessions.getActiveSession()
    sessions.setActiveSession(java_session(spark))
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
    if name == source.name():
        stream_hints.install(spark)
    else:
        source = type(source.__name__, (source,), {"name": classmethod(lambda _: name)})
    with _active(spark):
        spark.dataSource.register(source)
    known = spark.conf.get(REDACTED, "") or ""
    if SECRETS not in known:
        spark.conf.set(REDACTED, f"{known}|{SECRETS}" if known else SECRETS)


def _check_given(schema: StructType, snapshot: Snapshot) -> None:
    """Refuse columns other than the table's: a catalog's that are out of date, or a user's."""
    expected = to_spark_json(without_comments(nullable(snapshot.schema)))
    given = to_spark_json(without_comments(nullable(schema_from(schema))))
    if given != expected:
        raise SchemaMismatchError(
            f"Spark's catalog or the reader says the columns are {schema.simpleString()}, and "
            f"version {snapshot.version} of the table has "
            f"{StructType.fromJson(expected).simpleString()}; "
            'leave schema() out, or bring the catalog up to date: tablefmt.spark.sync(spark, "…")',
            [f.name for f in schema.fields],
        )
