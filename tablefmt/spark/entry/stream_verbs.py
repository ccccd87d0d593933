"""JVM callback handlers of streams, for a session with a JVM: sources, and sinks with batches.

A source returns each batch as a DataFrame of Spark, for `spark.readStream`. A sink has one call at
the start of a query, and commits each batch once. Spec: STR-10 .. STR-15.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tablefmt.changes.change_schema import CHANGE_COLUMNS
from tablefmt.changes.commit_rows import FileChanges
from tablefmt.errors import (
    ConcurrentTransactionException,
    IdempotenceError,
    SchemaMismatchError,
    TableReplacedError,
    UnsupportedFeatureError,
)
from tablefmt.expressions.ddl import schema_from, to_spark_json
from tablefmt.expressions.predicate import quote_name
from tablefmt.model.schema import nullable
from tablefmt.operations.append import NAME
from tablefmt.operations.create import check_partitioning, definition
from tablefmt.session.table_context import TableContext
from tablefmt.snapshot.head import check_writable
from tablefmt.snapshot.log_view import LogView
from tablefmt.spark.backends.backend_choice import backend_for
from tablefmt.spark.backends.backend_protocol import ChangeRange
from tablefmt.spark.columns.catalog_columns import declared, different, shown
from tablefmt.spark.columns.row_conditions import session_zone
from tablefmt.spark.entry.dataframe_io import append_rows, overwrite_rows, write_first
from tablefmt.spark.entry.delta_settings import (
    check_read_settings,
    default_properties,
    with_settings,
)
from tablefmt.spark.entry.java_arguments import frame_of, path_of, place, session_of
from tablefmt.spark.entry.pyspark_wrappers import READ_STREAM, SESSION_ZONE
from tablefmt.spark.entry.read_verbs import in_catalog
from tablefmt.spark.jvm import java_classes
from tablefmt.spark.pyspark_objects import DataFrame, JavaObject, Session, java_rows
from tablefmt.spark.runtime.failures import answered
from tablefmt.spark.runtime.spark_jobs import content_of
from tablefmt.spark.runtime.sql_text import selected
from tablefmt.spark.statements.execution import open_context, open_context_if_exists
from tablefmt.spark.statements.frame_reads import rows_of_changes, without_clashes
from tablefmt.spark.streams.stream_options import (
    StreamOptions,
    parse_stream_options,
    stream_columns,
)
from tablefmt.spark.streams.stream_progress import StreamOffset
from tablefmt.spark.streams.stream_sink import (
    Applied,
    Batch,
    Sink,
    application_of,
    check_follows,
    check_there,
    options_of,
    sink_of,
)
from tablefmt.spark.streams.stream_source import StreamSource
from tablefmt.store.location import open_store
from tablefmt.store.location_checks import refuse_foreign_files
from tablefmt.store.object_store import Store


def java_stream(spark: Session, view: LogView, options: StreamOptions, txn: int) -> JavaObject:
    """Return a streaming source of the JVM. See TableStream.java.

    Args:
        spark: a classic session.
        view: the table's log.
        options: the options of the stream.
        txn: the version whose columns the stream has.
    """
    source = StreamSource(view, options, txn)
    columns = stream_columns(source.schema, options)
    schema = java_classes.java_schema(json.dumps(columns))
    stream = java_classes.new_instance(spark, "TableStream", schema, f"tablefmt[{view.store.uri}]")

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
        java_classes.callback(spark, lambda request: answered(work[request[0]], *list(request)[1:]))
    )
    return stream


def _frame(spark: Session, source: StreamSource, files: Sequence[FileChanges]) -> DataFrame:
    versions = [change.version for change in files] or [source.files.schema_version]
    schema = source.schema if source.options.changes else without_clashes(source.schema)
    of = ChangeRange(source.view.head.table, min(versions), max(versions), schema)
    rows = rows_of_changes(spark, source.view.store, of, files)
    named = zip(schema.names, source.schema.names, strict=True)
    columns = [f"{quote_name(read)} AS {quote_name(name)}" for read, name in named]
    return selected(rows, *columns, *(CHANGE_COLUMNS.names if source.options.changes else ()))


def _read(offset: str | None) -> StreamOffset | None:
    return None if offset is None else StreamOffset.from_json(offset)


def _stream_columns(session: JavaObject, given: str, columns: str | None) -> str:
    """Return the table id and version of a loaded stream, and on the next line its columns as JSON.

    `columns` are those that the caller or the catalog expects, if any.
    """
    options, view = _opened(session, given)
    head = view.head
    table = nullable(head.metadata.schema)
    described = json.dumps(stream_columns(table, options))
    if columns is not None:
        # A catalog passes the table's columns, also for a stream of changes.
        ours, theirs = declared(json.dumps(to_spark_json(table))), declared(columns)
        if theirs not in (ours, declared(described)):
            raise SchemaMismatchError(
                f"the stream has the schema {shown(theirs)}, and the table has {shown(ours)}; "
                "leave schema() out, and choose columns with select()",
                different(ours, theirs),
            )
    return f"{head.table}:{head.version}\n{described}"


def _stream(session: JavaObject, given: str, loaded: str | None) -> JavaObject:
    """Return a source for a query over a stream that was loaded."""
    if loaded is None:
        raise UnsupportedFeatureError(
            "Spark replaced the relation of the stream after it was loaded; load the stream by its "
            'path: spark.readStream.format("tablefmt").load(path)',
            ["spark:stream"],
        )
    options, view = _opened(session, given)
    table, _, version = loaded.rpartition(":")
    if view.head.table != table:
        raise TableReplacedError(
            "the table was replaced after the stream was loaded; load the stream again",
            rule="STR-5",
        )
    return java_stream(session_of(session), view, options, int(version))


def _opened(session: JavaObject, given: str) -> tuple[StreamOptions, LogView]:
    asked = json.loads(given)
    # Hive's catalog adds the first option, a session without our Java classes the others.
    for name in ("serialization.format", READ_STREAM, SESSION_ZONE):
        asked.pop(name, None)
    spark = session_of(session)
    check_read_settings(spark)
    options = parse_stream_options(asked, session_zone(spark))
    uri, storage = path_of(options.path), options.storage_options
    found = in_catalog(spark, uri)
    if found is not None and found[2] is None:
        uri, storage, _ = found
    return options, open_context(open_store(place(uri), storage)).view


VERBS: Mapping[str, Callable[..., Any]] = {
    "stream_columns": _stream_columns,
    "stream": _stream,
}
"""Handlers by the name that Java uses."""


def _start(session: JavaObject, mode: str, given: str, partition_by: str) -> str | None:
    """Check a query's options before it runs, and return the id of the table if it exists."""
    spark = session_of(session)
    sink, store = _sink(spark, mode, given, partition_by)
    backend_for(spark, store)
    context = open_context_if_exists(store)
    if context is None:
        refuse_foreign_files(store)
        return None
    _check_table(sink, context)
    return context.view.head.table


def _sink(spark: Session, mode: str, given: str, partition_by: str) -> tuple[Sink, Store]:
    sink = sink_of(
        mode, with_settings(spark, json.loads(given), stream=True), json.loads(partition_by)
    )
    return sink, open_store(place(sink.uri), sink.options.storage_options)


def _check_table(sink: Sink, context: TableContext) -> None:
    check_writable(context.view.head)
    if not sink.options.overwrite_schema:
        check_partitioning(context.view.head.metadata, sink.partition_by)


def _batch(
    session: JavaObject,
    mode: str,
    given: str,
    partition_by: str,
    data: JavaObject,
    number: int,
    query: str | None,
    run: str | None,
    begun: str | None,
) -> str:
    """Write one batch, and return the id of the table.

    Args:
        data: the rows of the batch, a Dataset that contains nothing of the stream.
        number: the number of the batch.
        query: the id of the query.
        run: the id of this run of the query.
        begun: the id of the table at the start, or after the batch before. None: no table yet.
    """
    spark = session_of(session)
    sink, store = _sink(spark, mode, given, partition_by)
    content = None if query is None else content_of(spark, query, number)
    batch = Batch(number=number, query=query, run=run, content=content)
    options = options_of(sink, batch)
    rows = frame_of(session, data)
    context = open_for(batch, sink, store, begun)
    if context is None:
        return _first(rows, store, sink, batch)
    _check_table(sink, context)
    # The version was just read. Commits since then are checked when this batch commits.
    if sink.complete:
        by = sink.partition_by or None
        overwrite_rows(context, rows, options, by, refresh=False)
    else:
        append_rows(context, rows, options, refresh=False)
    return context.view.head.table


def open_for(batch: Batch, sink: Sink, store: Store, begun: str | None) -> TableContext | None:
    """Return the table that a batch is written to. None if the batch creates it.

    Raises:
        TableNotFoundError, TableReplacedError, ConcurrentTransactionException: STR-14.
    """
    context = open_context_if_exists(store)
    if context is None:
        check_there(store.uri, batch, begun)
        return None
    check_on_top(context, batch, sink, begun)
    return context


def check_on_top(context: TableContext, batch: Batch, sink: Sink, begun: str | None) -> None:
    """Check that a batch may be committed after the known head of a table. Raises as `open_for`."""
    head = context.view.read_head
    known = head.applications.get(application_of(sink, batch))
    last = None if known is None else Applied(number=known[0].version, version=known[1])
    check_follows(context.store.uri, batch, last, head.table, begun)


def _first(rows: DataFrame, store: Store, sink: Sink, batch: Batch) -> str:
    """Create the table from its first batch, and return the table's id."""
    properties = default_properties(rows.sparkSession)
    metadata = definition(nullable(schema_from(rows.schema)), sink.partition_by, properties)
    options = options_of(sink, batch)
    try:
        context, done = write_first(rows, store, metadata, options, exist_ok=not sink.complete)
    except IdempotenceError as error:
        # There was no table when this batch began: another run created it in a race.
        concurrent = open_context(store).view.read_head.applications[application_of(sink, batch)]
        raise ConcurrentTransactionException(
            f"another run of this query created the table, and wrote batch {concurrent[0].version}",
            winner_version=concurrent[1],
            winner_operation=NAME,
            rule="CFL-6",
        ) from error
    if done.already_applied:
        # Another run applied this batch, and may have written later ones.
        check_on_top(context, batch, sink, None)
    return context.view.head.table


SINK_VERBS: Mapping[str, Callable[..., Any]] = {"sink_start": _start, "sink_batch": _batch}
"""Handlers by the name that Java uses."""
