"""`format("tablefmt")` where there is no JVM at hand: a Python data source on Arrow batches.

Reads are pinned when the DataFrame is analysed: `schema` notes the version in the instance, which
Spark keeps for the plan. There is no `pushFilters` on purpose: Spark 4.1 to 4.3 keep the answer of
one query for all others of the same DataFrame, whatever their filters, and rows would be lost
(spec/decisions/0005).
`tablefmt.spark.write` and `read` do not come here: what they need is in no plan.

Of a stream, Spark keeps one reader as long as a query runs, and asks it for offsets and for what
tasks read; the copies that travel to tasks know nothing. Before 4.2 it says neither where a batch
begins nor how much there may be in it. Spec: STR-1 .. STR-6.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

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
from tablefmt.spark.entry.pyspark_wrappers import READ_STREAM, SESSION_ZONE
from tablefmt.spark.entry.python_writer import (
    TablefmtStreamWriter,
    TablefmtWriter,
    make_stream_writer,
    make_writer,
    source_store,
)
from tablefmt.spark.pyspark_objects import has_jvm, java_session, jvm_of
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


@dataclass(frozen=True, slots=True)
class StreamTask:
    """Reads a part of a batch; travels to the workers."""

    task: ChangesTask
    shape: pa.Schema
    """Of the rows, as Spark was told."""
    part: Part

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows.

        Raises:
            CorruptDataError: DAT-5. SchemaMismatchError: NULL where Spark was told of none, by
            `schema()`, or by a client that does not say what it reads as a stream.
        """
        for batch in self.task.batches(self.part):
            for column, field in zip(batch.columns, self.shape, strict=True):
                if column.null_count and not field.nullable:
                    with carrying():
                        raise SchemaMismatchError(
                            f"Spark was told that column {field.name!r} is NOT NULL, and rows of "
                            "the stream have NULL there; leave schema() out, and call "
                            "tablefmt.spark.register(spark) before the stream is loaded",
                            [field.name],
                        )
            yield pa.RecordBatch.from_arrays(batch.columns, names=self.shape.names).cast(self.shape)


class StreamReader(DataSourceStreamReader):  # type: ignore[misc]
    """Reads one stream. Nothing is opened until somebody asks for an offset."""

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
        """Where the last batch ended of which the parts were given."""
        self._first_head: int | None = None
        """The newest version when Spark asked for the end of a first batch before its beginning."""

    def __getstate__(self) -> dict[str, Any]:
        """What a task reads travels with its partition."""
        return {}

    def initialOffset(self) -> dict[str, Any]:
        """Where a stream begins that has no checkpoint."""
        with carrying():
            if self._began is None:
                self._began = self._source().beginning(self._first_head)
            return _plain(self._began)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """A part of the batch each."""
        with carrying():
            source, begins, ends = self._source(), _offset(start), _offset(end)
            # Spark asks for the beginning again where it repeats a first batch: by then it may be
            # another one, and what the batch had is what its end says.
            first = begins == self._began and begins != self._read
            changes = source.batch(None if first else begins, ends)
            self._last = self._read = ends
            fields = source.schema.fields
            marks = CHANGE_COLUMNS if source.options.changes else pa.schema([])
            task = ChangesTask(Answer(for_workers(source.view.store), source.schema, fields, marks))
            shape = pa.schema([*to_arrow(schema_from(self._columns))])
            return [InputPartition(StreamTask(task, shape, part)) for part in parts_of(changes)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a part. Raises as `StreamTask.batches`."""
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
        """Refuse columns that somebody gave and that are not the stream's."""
        told = json.loads(self._columns.json())["fields"]
        marks = len(CHANGE_COLUMNS) if source.options.changes else 0
        table = StructType.fromJson({"type": "struct", "fields": told[: len(told) - marks]})
        ours, theirs = (
            to_spark_json(without_comments(nullable(each)))
            for each in (source.schema, schema_from(table))
        )
        if ours != theirs:
            raise SchemaMismatchError(
                f"the stream was told {self._columns.simpleString()}, and the table has "
                f"{StructType.fromJson(ours).simpleString()}; leave schema() out",
                source.schema.names,
            )


class UnlimitedReader(StreamReader):
    """For a Spark that says nothing of where a batch begins: what is there is one batch.

    It asks for the beginning after it has asked for the end of the first batch.
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
                f"{', '.join(limits)}: this release of Spark does not say where a batch begins, so "
                "each is all that there is; leave it out, or use Spark 4.2, or a classic session "
                "that reads natively",
                [f"option:{name}" for name in limits],
            )

    def latestOffset(self) -> dict[str, Any]:
        """All that there is now; from where the last batch ended, if this reader knows."""
        with carrying():
            last = self._last
            self._last = self._source().end_of_log(last)
            if last is None:
                self._first_head = self._last.position.version - 1
            return _plain(self._last)


if KNOWS_LIMITS:

    class LimitedReader(StreamReader, SupportsTriggerAvailableNow):  # type: ignore[misc]
        """For a Spark that says where a batch begins."""

        def latestOffset(self, start: dict[str, Any], limit: Any) -> dict[str, Any]:
            """Where the next batch ends."""
            with carrying():
                limited = not isinstance(limit, ReadAllAvailable)
                return _plain(self._source().next_offset(_offset(start), limited=limited))

        def getDefaultReadLimit(self) -> Any:
            """That there is one: which, the options say."""
            return ReadMaxFiles(1)

        def prepareForTriggerAvailableNow(self) -> None:
            """Read what is there now and no more."""
            with carrying():
                self._source().stop_at_head()


def stream_reader(
    options: Mapping[str, str], columns: StructType, schema_version: int | None, zone: str | None
) -> StreamReader:
    """A reader of a stream for this release of Spark.

    Args:
        options: of the source.
        columns: as Spark knows them.
        schema_version: the version whose columns these are; None: somebody gave them.
        zone: the session's time zone; None: it is not known (TIM-5).

    Raises:
        UnsupportedFeatureError: a limit of a batch (STR-4), of a release that heeds none.
    """
    return (LimitedReader if KNOWS_LIMITS else UnlimitedReader)(
        options, columns, schema_version, zone
    )


def stream_schema(options: Mapping[str, str], zone: str | None) -> tuple[StructType, int]:
    """The columns of a stream with these options, and the version that has them.

    Raises:
        InvalidRangeError, UnsupportedFeatureError: an option that is none of a stream.
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
        self.schema_version: int | None = None

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
        columns, self.schema_version = stream_schema(self.options, self.zone)
        return columns

    def _columns(self) -> StructType:
        changes = self._changes()
        if changes is not None:
            self.schema_version = changes.last_version
            return StructType.fromJson(to_spark_json(from_arrow(changes.schema)))
        _, snapshot = self._snapshot()
        self.schema_version = snapshot.version
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
            return stream_reader(self.options, schema, self.schema_version, self.zone)

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
        pyspark_wrappers.install_stream_hints(spark)
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
