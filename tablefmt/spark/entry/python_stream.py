"""The source of a stream where there is no JVM at hand: Arrow batches of Spark's Python workers.

Spark keeps one reader as long as a query runs, and asks it for offsets and for what tasks read; the
copies that travel to tasks know nothing. Before 4.2 it says neither where a batch begins nor how
much there may be in it. Spec: STR-1 .. STR-6.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from tablefmt.changes.answer import Answer
from tablefmt.changes.columns import CHANGE_COLUMNS
from tablefmt.errors import SchemaMismatchError, UnsupportedFeatureError
from tablefmt.expressions.ddl import schema_from, to_spark_json
from tablefmt.model.arrow_types import to_arrow
from tablefmt.model.schema_views import nullable, without_comments
from tablefmt.spark.backends.arrow.changes import ChangesTask, Part, parts_of
from tablefmt.spark.backends.workers import for_workers
from tablefmt.spark.entry.python_writer import source_store
from tablefmt.spark.runtime.failures import carrying
from tablefmt.spark.statements.open_logs import open_context
from tablefmt.spark.streams.source import StreamSource
from tablefmt.spark.streams.source_columns import stream_columns
from tablefmt.spark.streams.source_offset import StreamOffset
from tablefmt.spark.streams.source_options import limits_in, parse_stream_options

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
        pinned: int | None,
        zone: str | None = None,
    ) -> None:
        self._options, self._columns, self._pinned = dict(options), columns, pinned
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
            pinned = view.head.version if self._pinned is None else self._pinned
            source = StreamSource(view, options, pinned)
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
        pinned: int | None,
        zone: str | None = None,
    ) -> None:
        super().__init__(options, columns, pinned, zone)
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
    options: Mapping[str, str], columns: StructType, pinned: int | None, zone: str | None
) -> StreamReader:
    """A reader of a stream for this release of Spark.

    Args:
        options: of the source.
        columns: as Spark knows them.
        pinned: the version whose columns these are; None: somebody gave them.
        zone: the session's time zone; None: it is not known (TIM-5).

    Raises:
        UnsupportedFeatureError: a limit of a batch (STR-4), of a release that heeds none.
    """
    return (LimitedReader if KNOWS_LIMITS else UnlimitedReader)(options, columns, pinned, zone)


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
