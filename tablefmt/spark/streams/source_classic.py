"""A stream's source for a session with a JVM at hand: batches are DataFrames of Spark's own."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from tablefmt.changes.columns import CHANGE_COLUMNS
from tablefmt.changes.commit_rows import FileChanges
from tablefmt.expressions.predicate import quote_name
from tablefmt.snapshot.load import LogView
from tablefmt.spark.backends.base import ChangeRange
from tablefmt.spark.jvm import loader
from tablefmt.spark.jvm.pyspark_parts import java_rows
from tablefmt.spark.runtime.failures import answered
from tablefmt.spark.runtime.frames import DataFrame, JavaObject, Session
from tablefmt.spark.runtime.sql_text import selected
from tablefmt.spark.statements.changes import apart, rows_of_changes
from tablefmt.spark.streams.source import StreamSource
from tablefmt.spark.streams.source_columns import stream_columns
from tablefmt.spark.streams.source_offset import StreamOffset
from tablefmt.spark.streams.source_options import StreamOptions


def java_stream(spark: Session, view: LogView, options: StreamOptions, pinned: int) -> JavaObject:
    """A source of the JVM; see TableStream.java.

    Args:
        spark: a classic session.
        view: the table's log.
        options: of the stream.
        pinned: the version whose columns it has.
    """
    source = StreamSource(view, options, pinned)
    columns = stream_columns(source.schema, options)
    schema = loader.java_schema(spark, json.dumps(columns))
    stream = loader.new_instance(spark, "TableStream", schema, f"tablefmt[{view.store.uri}]")

    def latest(start: str | None, limited: bool) -> str:
        return source.next_offset(_read(start), limited=limited).to_json()

    def batch(start: str | None, end: str) -> JavaObject:
        ends = StreamOffset.from_json(end)
        files = source.batch(_read(start), ends)
        return java_rows(_frame(spark, source, files))

    work: dict[str, Callable[..., Any]] = {
        "available": source.stop_at_head,
        "latest": latest,
        "batch": batch,
    }
    stream.setPython(
        loader.callback(spark, lambda request: answered(work[request[0]], *list(request)[1:]))
    )
    return stream


def _frame(spark: Session, source: StreamSource, files: Sequence[FileChanges]) -> DataFrame:
    versions = [change.version for change in files] or [source.files.pinned]
    schema = source.schema if source.options.changes else apart(source.schema)
    of = ChangeRange(source.view.head.table, min(versions), max(versions), schema)
    rows = rows_of_changes(spark, source.view.store, of, files)
    named = zip(schema.names, source.schema.names, strict=True)
    columns = [f"{quote_name(read)} AS {quote_name(name)}" for read, name in named]
    return selected(rows, *columns, *(CHANGE_COLUMNS.names if source.options.changes else ()))


def _read(offset: str | None) -> StreamOffset | None:
    return None if offset is None else StreamOffset.from_json(offset)
