"""Python data source `format("tablefmt")` for sessions without a JVM. Rows are Arrow batches.

A read fixes its version when the DataFrame is analyzed: `schema` stores the version in the
instance, which Spark keeps for the plan. `pushFilters` is missing on purpose. Spark 4.1 to 4.3 plan
the partitions of a DataFrame once, with the filters of its first query, and reuse them for later
queries. Rows would be lost (spec/decisions/0005). `tablefmt.spark.write` and `read` do not use this
source: a plan does not have what they need.

Spark keeps one stream reader while a query runs, and asks it for offsets and partitions. The copies
that travel to tasks have no state. Before 4.2, Spark passes neither the start of a batch nor its
limit. Spec: STR-1 .. STR-6.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.types import StructType

from tablefmt.changes.change_reader import Answer, Changes
from tablefmt.changes.change_schema import CHANGE_COLUMNS
from tablefmt.errors import (
    SchemaMismatchError,
    TablefmtError,
    UnsupportedFeatureError,
    VersionNotFoundError,
)
from tablefmt.expressions.ddl import schema_from, to_spark_json
from tablefmt.model.arrow_types import from_arrow, to_arrow
from tablefmt.model.schema import nullable, without_comments
from tablefmt.snapshot.table_state import Snapshot
from tablefmt.spark.backends.arrow.arrow_tasks import (
    ChangesTask,
    Part,
    ReadTask,
    groups_of,
    packed,
    parts_of,
    unpacked,
)
from tablefmt.spark.backends.python_workers import for_workers
from tablefmt.spark.entry import pyspark_wrappers
from tablefmt.spark.entry.metadata_frames import metadata_at, read_metadata, spark_schema
from tablefmt.spark.entry.pyspark_wrappers import READ_STREAM, SESSION_ZONE
from tablefmt.spark.entry.python_writer import (
    TablefmtStreamWriter,
    TablefmtWriter,
    make_stream_writer,
    make_writer,
    source_store,
)
from tablefmt.spark.pyspark_objects import Session, has_jvm, java_class, java_session
from tablefmt.spark.runtime import failures
from tablefmt.spark.runtime.failures import carrying
from tablefmt.spark.spark_options import parse_read_options
from tablefmt.spark.statements.execution import open_context
from tablefmt.spark.streams.stream_options import (
    is_of_stream,
    limits_in,
    parse_stream_options,
    stream_columns,
)
from tablefmt.spark.streams.stream_progress import StreamOffset
from tablefmt.spark.streams.stream_source import StreamSource
from tablefmt.store.object_store import Store
from tablefmt.table import Table

if TYPE_CHECKING:
    from pyspark.sql.streaming.datasource import ReadLimit

try:
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadMaxFiles,
        SupportsTriggerAvailableNow,
    )
except ImportError:
    KNOWS_LIMITS = False
else:
    KNOWS_LIMITS = True

METADATA_ROWS = 1 << 16
"""Rows of a metadata table that one partition carries: some megabytes."""


@dataclass(frozen=True, slots=True)
class StreamTask:
    """Reads one part of a batch. Travels to the workers."""

    task: ChangesTask
    shape: pa.Schema
    """Schema of the rows that Spark expects."""
    part: Part

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows.

        Raises:
            CorruptDataError: DAT-5.
            SchemaMismatchError: NULL in a column that Spark expects to be NOT NULL. The schema came
                from `schema()`, or from a client that does not mark its streams.
        """
        for batch in self.task.batches(self.part):
            for column, field in zip(batch.columns, self.shape, strict=True):
                if column.null_count and not field.nullable:
                    with carrying():
                        raise SchemaMismatchError(
                            f"column {field.name!r} is NOT NULL in the schema that Spark has, but "
                            "rows of the stream have NULL there; leave schema() out, and call "
                            "tablefmt.spark.register(spark) before the stream is loaded",
                            [field.name],
                        )
            yield pa.RecordBatch.from_arrays(batch.columns, names=self.shape.names).cast(self.shape)


class MetadataReader(DataSourceReader):
    """Passes rows that the driver has on to tasks, as Arrow batches."""

    def __init__(self, rows: pa.Table) -> None:
        self.rows: pa.Table | None = rows

    def __getstate__(self) -> dict[str, None]:
        """Return the state without rows: they travel as partitions, not with every task."""
        return {"rows": None}

    def partitions(self) -> Sequence[InputPartition]:
        """Return at least one partition, as Spark requires."""
        assert self.rows is not None
        starts = range(0, max(self.rows.num_rows, 1), METADATA_ROWS)
        return [InputPartition(packed(self.rows.slice(at, METADATA_ROWS))) for at in starts]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a partition."""
        yield from unpacked(partition.value).to_batches()


class StreamReader(DataSourceStreamReader):
    """Reads one stream. Opens the table when Spark asks for the first offset."""

    def __init__(
        self,
        options: Mapping[str, str],
        columns: StructType,
        schema_version: int | None,
        zone: str | None = None,
    ) -> None:
        self._options, self._columns, self._schema_version = dict(options), columns, schema_version
        self._zone = zone
        self._opened: StreamSource | None = None
        self._began: StreamOffset | None = None
        self._last: StreamOffset | None = None
        self._read: StreamOffset | None = None
        """End of the last batch that had its partitions planned."""
        self._first_head: int | None = None
        """Newest version when Spark asked for the end of the first batch before its start."""

    def __getstate__(self) -> dict[str, Any]:
        """Return no state: what a task needs travels with its partition."""
        return {}

    def initialOffset(self) -> dict[str, Any]:
        """Return the start of a stream that has no checkpoint."""
        with carrying():
            if self._began is None:
                self._began = self._source().beginning(self._first_head)
            return _plain(self._began)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Return one partition per part of the batch."""
        with carrying():
            source, begins, ends = self._source(), _offset(start), _offset(end)
            # Spark asks for the start again when it repeats a first batch. The start may have moved
            # by then, but the end of the batch still identifies its rows.
            first = begins == self._began and begins != self._read
            changes = source.batch(None if first else begins, ends)
            self._last = self._read = ends
            fields = source.schema.fields
            marks = CHANGE_COLUMNS if source.options.changes else pa.schema([])
            task = ChangesTask(Answer(for_workers(source.view.store), source.schema, fields, marks))
            shape = pa.schema([*to_arrow(schema_from(self._columns))])
            return [InputPartition(StreamTask(task, shape, part)) for part in parts_of(changes)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a part. Raises as `StreamTask.batches`."""
        yield from partition.value.batches()

    def _source(self) -> StreamSource:
        if self._opened is None:
            options = parse_stream_options(self._options, self._zone)
            view = open_context(source_store(options.path, options.storage_options)).view
            schema_version = (
                view.head.version if self._schema_version is None else self._schema_version
            )
            source = StreamSource(view, options, schema_version)
            self._check_columns(source)
            self._opened = source
        return self._opened

    def _check_columns(self, source: StreamSource) -> None:
        """Check that columns from `schema()` are the stream's columns."""
        declared = json.loads(self._columns.json())["fields"]
        marks = len(CHANGE_COLUMNS) if source.options.changes else 0
        table = StructType.fromJson({"type": "struct", "fields": declared[: len(declared) - marks]})
        ours, theirs = (
            to_spark_json(without_comments(nullable(each)))
            for each in (source.schema, schema_from(table))
        )
        if ours != theirs:
            raise SchemaMismatchError(
                f"the stream has the schema {self._columns.simpleString()}, and the table has "
                f"{StructType.fromJson(ours).simpleString()}; leave schema() out",
                source.schema.names,
            )


class UnlimitedReader(StreamReader):
    """Reads a stream on Spark releases that do not pass the start of a batch: one batch has all.

    Such a release asks for the start after it has asked for the end of the first batch.
    """

    def __init__(
        self,
        options: Mapping[str, str],
        columns: StructType,
        schema_version: int | None,
        zone: str | None = None,
    ) -> None:
        super().__init__(options, columns, schema_version, zone)
        limits = limits_in(options)
        if limits:
            raise UnsupportedFeatureError(
                f"{', '.join(limits)}: this Spark release does not support batch limits in Python "
                "data sources, so a batch always reads everything; leave the option out, use Spark "
                "4.2, or use a classic session with the native backend",
                [f"option:{name}" for name in limits],
            )

    # Before 4.2, Spark passes nothing.
    def latestOffset(self) -> dict[str, Any]:  # type: ignore[override]
        """Return the end of the log. It follows the last batch's end if this reader knows that."""
        with carrying():
            last = self._last
            self._last = self._source().end_of_log(last)
            if last is None:
                self._first_head = self._last.position.version - 1
            return _plain(self._last)


if KNOWS_LIMITS:

    class LimitedReader(StreamReader, SupportsTriggerAvailableNow):
        """Reads a stream on Spark releases that pass the start of a batch."""

        def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
            """Return the end of the next batch."""
            with carrying():
                limited = not isinstance(limit, ReadAllAvailable)
                return _plain(self._source().next_offset(_offset(start), limited=limited))

        def getDefaultReadLimit(self) -> ReadLimit:
            """Return a limit, so that Spark passes one. The options set the actual limit."""
            return ReadMaxFiles(1)

        def prepareForTriggerAvailableNow(self) -> None:
            """Stop the stream at the current end of the log."""
            with carrying():
                self._source().stop_at_head()


def stream_reader(
    options: Mapping[str, str], columns: StructType, schema_version: int | None, zone: str | None
) -> StreamReader:
    """Return a reader of a stream for this release of Spark.

    Args:
        options: the options of the source.
        columns: the columns that Spark has.
        schema_version: the version that has these columns. None: they come from `schema()`.
        zone: the session's time zone. None: unknown (TIM-5).

    Raises:
        UnsupportedFeatureError: a batch limit (STR-4) on a release that does not support it.
    """
    return (LimitedReader if KNOWS_LIMITS else UnlimitedReader)(
        options, columns, schema_version, zone
    )


def stream_schema(options: Mapping[str, str], zone: str | None) -> tuple[StructType, int]:
    """Return the columns of a stream with these options, and the version that has them.

    Raises:
        InvalidRangeError, UnsupportedFeatureError: an invalid stream option.
        As `tablefmt.open`.
    """
    asked = parse_stream_options(options, zone)
    head = open_context(source_store(asked.path, asked.storage_options)).view.head
    columns = stream_columns(nullable(head.metadata.schema), asked)
    return StructType.fromJson(columns), head.version


def _plain(offset: StreamOffset) -> dict[str, Any]:
    values: dict[str, Any] = json.loads(offset.to_json())
    return values


def _offset(values: dict[str, Any]) -> StreamOffset:
    return StreamOffset.from_json(json.dumps(values))


FORMAT = "tablefmt"

REDACTED = "spark.sql.redaction.options.regex"
"""Spark's setting for the options that plans do not show, as a regex of option names."""

SECRETS = r"(?i)(^|\.)storage\."
"""Regex that hides every storage option, because each may be a secret."""

_NO_CATALOG = (
    "Spark does not pass the options of a catalog table on to a Python data source, so this table "
    "cannot be read here. Use CREATE TEMPORARY VIEW … USING tablefmt OPTIONS (path '…'), or a "
    "classic session"
)


class TablefmtDataSource(DataSource):
    """Python data source for `format("tablefmt")` and its options."""

    def __init__(self, options: Mapping[str, str]) -> None:
        given = dict(options)
        self.is_streamed = given.pop(READ_STREAM, None) is not None
        """True if a wrapped `readStream` marked the read as a stream. Spark does not pass this."""
        self.zone = given.pop(SESSION_ZONE, None)
        """Session's time zone, if a wrapped reader passed it (TIM-5). Spark does not pass it."""
        super().__init__(given)
        self.schema_version: int | None = None

    @classmethod
    def name(cls) -> str:
        """Return the format's name."""
        return FORMAT

    def schema(self) -> StructType:
        """Return the columns of the requested version, and fix that version for later reads."""
        with carrying():
            if "provider" in self.options:
                raise UnsupportedFeatureError(_NO_CATALOG, ["spark:catalog-table"])
            if self.is_streamed:
                return self._columns_of_stream()
            try:
                return self._columns()
            except VersionNotFoundError:
                # Not tried as a stream, which may start after the newest version.
                raise
            except TablefmtError as error:
                # The options may be stream options.
                try:
                    return self._columns_of_stream()
                except TablefmtError:
                    if is_of_stream(self.options):
                        raise
                    raise error from None

    def _columns_of_stream(self) -> StructType:
        columns, self.schema_version = stream_schema(self.options, self.zone)
        return columns

    def _columns(self) -> StructType:
        metadata = self._metadata()
        if metadata is not None:
            return spark_schema(metadata)
        changes = self._changes()
        if changes is not None:
            self.schema_version = changes.last_version
            return StructType.fromJson(to_spark_json(from_arrow(changes.schema)))
        _, snapshot = self._snapshot()
        self.schema_version = snapshot.version
        return StructType.fromJson(to_spark_json(snapshot.schema))

    def reader(self, schema: StructType) -> TablefmtReader | ChangesReader | MetadataReader:
        """Return a reader at the fixed version; for a catalog table, at the newest version."""
        with carrying():
            metadata = self._metadata()
            if metadata is not None:
                return MetadataReader(metadata)
            changes = self._changes()
            if changes is not None:
                return ChangesReader(changes)
            store, snapshot = self._snapshot()
            _check_given(schema, snapshot)
            return TablefmtReader(store, snapshot)

    def writer(self, schema: StructType, overwrite: bool) -> TablefmtWriter:
        """Return a writer of one transaction."""
        with carrying():
            return make_writer(dict(self.options), schema, overwrite=overwrite)

    def streamReader(self, schema: StructType) -> StreamReader:
        """Return a reader of a stream with the columns of the fixed version."""
        with carrying():
            return stream_reader(self.options, schema, self.schema_version, self.zone)

    def streamWriter(self, schema: StructType, overwrite: bool) -> TablefmtStreamWriter:
        """Return a writer of one batch. Spark asks for a second one to commit the batch."""
        with carrying():
            return make_stream_writer(dict(self.options), schema, overwrite=overwrite)

    def _metadata(self) -> pa.Table | None:
        """Return the rows of a metadata table; None: the path is not one."""
        options = parse_read_options(self.options, self.zone)
        found = metadata_at(options.path, options.storage_options)
        if found is None:
            return None
        path, kind = found
        context = open_context(source_store(path, options.storage_options))
        return read_metadata(context, kind, options)

    def _changes(self) -> Changes | None:
        """Return the requested row changes, if any, up to the fixed version once there is one."""
        options = parse_read_options(self.options, self.zone)
        asked = options.changes
        if asked is None:
            return None
        if not options.change_columns:
            raise UnsupportedFeatureError(
                "changeColumns=false needs a registered classic session; leave it out, and select "
                "the columns of the table",
                ["option:changeColumns"],
            )
        if self.schema_version is not None:
            asked = {**asked, "ending_version": self.schema_version, "ending_timestamp": None}
            if asked.get("starting_version") == self.schema_version + 1:
                asked = {**asked, "starting_version": None, "after_version": self.schema_version}
        store = source_store(options.path, options.storage_options)
        return Table(open_context(store)).changes(**asked)

    def _snapshot(self) -> tuple[Store, Snapshot]:
        options = parse_read_options(self.options, self.zone)
        store = source_store(options.path, options.storage_options)
        context = open_context(store)
        if self.schema_version is not None:
            return store, context.view.snapshot(self.schema_version)
        point = context.resolve_point(options.version, options.timestamp)
        return store, context.view.snapshot(point)


class TablefmtReader(DataSourceReader):
    """Reads every file of one version, several files per task."""

    def __init__(self, store: Store, snapshot: Snapshot) -> None:
        self.task = ReadTask(for_workers(store), snapshot.schema, snapshot.version)
        self.groups = [packed(group) for group in groups_of(snapshot.with_vectors(snapshot.files))]

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without groups: they travel as partitions, not with every task."""
        return {"task": self.task, "groups": []}

    def partitions(self) -> Sequence[InputPartition]:
        """Return one partition per group of files."""
        return [InputPartition(group) for group in self.groups]

    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a group. Raises CorruptDataError."""
        # Without any group, Spark reads once: 4.1 passes None, later releases a partition of None.
        if partition is None or partition.value is None:
            return
        yield from self.task.batches(unpacked(partition.value))


class ChangesReader(DataSourceReader):
    """Reads the files of row changes, several files per task.

    One task reads all files of a range in which rows may cancel each other.
    """

    def __init__(self, changes: Changes) -> None:
        answer = changes.answer
        self.task = ChangesTask(replace(answer, store=for_workers(answer.store)))
        self.parts = parts_of(changes.file_changes)

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without parts: they travel as partitions, not with every task."""
        return {"task": self.task, "parts": []}

    def partitions(self) -> Sequence[InputPartition]:
        """Return one partition per part, at least one, as Spark requires."""
        return [InputPartition(part) for part in self.parts or [[]]]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a part. Raises CorruptDataError."""
        if partition.value is not None:
            yield from self.task.batches(partition.value)


@contextmanager
def _active(spark: Session) -> Iterator[None]:
    """Make a session the active one: Spark checks the active session for a source of this name."""
    if not has_jvm(spark):
        yield
        return
    sessions = java_class("org.apache.spark.sql.classic.SparkSession")
    before = sessions.getActiveSession()
    sessions.setActiveSession(java_session(spark))
    try:
        yield
    finally:
        if before.isDefined():
            sessions.setActiveSession(before.get())


def register_source(spark: Session, name: str = "tablefmt") -> None:
    """Register `format("tablefmt")` in a session, and its errors in PySpark. Idempotent.

    Also hides storage options from the plans that Spark shows.
    """
    failures.install()
    source: Any = TablefmtDataSource
    if name == source.name():
        pyspark_wrappers.install_stream_hints(spark)
    else:
        source = type(source.__name__, (source,), {"name": classmethod(lambda _: name)})
    with _active(spark):
        spark.dataSource.register(source)
    known = spark.conf.get(REDACTED, "") or ""
    if SECRETS not in known:
        spark.conf.set(REDACTED, f"{known}|{SECRETS}" if known else SECRETS)


def _check_given(schema: StructType, snapshot: Snapshot) -> None:
    """Check that the columns from a catalog or from `schema()` are the table's columns."""
    expected = to_spark_json(without_comments(nullable(snapshot.schema)))
    given = to_spark_json(without_comments(nullable(schema_from(schema))))
    if given != expected:
        raise SchemaMismatchError(
            f"the schema of Spark's catalog or of schema() is {schema.simpleString()}, and "
            f"version {snapshot.version} of the table has "
            f"{StructType.fromJson(expected).simpleString()}; "
            'leave schema() out, or update the catalog with tablefmt.spark.sync(spark, "…")',
            [f.name for f in schema.fields],
        )
