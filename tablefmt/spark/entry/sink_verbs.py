"""The sink of a stream: its start, and each of its batches as one commit.

Spec: STR-10 .. STR-15.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from tablefmt.errors import ConcurrentTransactionException, IdempotenceError
from tablefmt.expressions.ddl import schema_from
from tablefmt.model.schema_views import nullable
from tablefmt.operations.append import NAME
from tablefmt.operations.create import definition
from tablefmt.operations.first_rows import check_partitioning
from tablefmt.session.context import TableContext
from tablefmt.snapshot.head import check_writable
from tablefmt.spark.backends.choice import backend_for
from tablefmt.spark.entry.callers import frame_of, place, session_of
from tablefmt.spark.entry.delta_settings import default_properties, with_settings
from tablefmt.spark.entry.write import append_rows, overwrite_rows, write_first
from tablefmt.spark.runtime.frames import DataFrame, JavaObject, Session
from tablefmt.spark.runtime.stream_batches import content_of
from tablefmt.spark.statements.open_logs import open_context, open_if_there
from tablefmt.spark.streams.sink import (
    Applied,
    Batch,
    Sink,
    application_of,
    check_follows,
    check_there,
    options_of,
    sink_of,
)
from tablefmt.store.foreign import check_place
from tablefmt.store.open import open_store
from tablefmt.store.protocol import Store


def _start(session: JavaObject, mode: str, given: str, partition_by: str) -> str | None:
    """Check what a query is told before it runs; the id of the table that is there, if one is."""
    spark = session_of(session)
    sink, store = _sink(spark, mode, given, partition_by)
    backend_for(spark, store)
    context = open_if_there(store)
    if context is None:
        check_place(store)
        return None
    _check_table(sink, context)
    return context.view.head.table


def _sink(spark: Session, mode: str, given: str, partition_by: str) -> tuple[Sink, Store]:
    sink = sink_of(mode, with_settings(spark, json.loads(given)), json.loads(partition_by))
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
    """Write one batch.

    Args:
        data: its rows, a Dataset that nothing of the stream is left in.
        number: of the batch. query, run: ids of the query and of this run of it.
        begun: the id of the table as of the start or of the batch before; None: none yet.

    Returns:
        The id of the table.
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
    # The newest version was looked for just now; what came since is judged at the commit.
    if sink.complete:
        by = sink.partition_by or None
        overwrite_rows(context, rows, options, by, refresh=False)
    else:
        append_rows(context, rows, options, refresh=False)
    return context.view.head.table


def open_for(batch: Batch, sink: Sink, store: Store, begun: str | None) -> TableContext | None:
    """The table that a batch goes to; None: it makes it.

    Raises:
        TableNotFoundError, TableReplacedError, ConcurrentTransactionException: STR-14.
    """
    context = open_if_there(store)
    if context is None:
        check_there(store.uri, batch, begun)
        return None
    check_on_top(context, batch, sink, begun)
    return context


def check_on_top(context: TableContext, batch: Batch, sink: Sink, begun: str | None) -> None:
    """Whether a batch may go on top of what is known of a table. Raises as `open_for`."""
    head = context.view.read_head
    known = head.applications.get(application_of(sink, batch))
    last = None if known is None else Applied(number=known[0].version, version=known[1])
    check_follows(context.store.uri, batch, last, head.table, begun)


def _first(rows: DataFrame, store: Store, sink: Sink, batch: Batch) -> str:
    """The batch that makes the table."""
    properties = default_properties(rows.sparkSession)
    metadata = definition(nullable(schema_from(rows.schema)), sink.partition_by, properties)
    options = options_of(sink, batch)
    try:
        context, done = write_first(rows, store, metadata, options, exist_ok=not sink.complete)
    except IdempotenceError as error:
        # There was no table when this batch began: it met the other one in a race.
        winner = open_context(store).view.read_head.applications[application_of(sink, batch)]
        raise ConcurrentTransactionException(
            f"another run of this query made the table, and wrote batch {winner[0].version}",
            winner_version=winner[1],
            winner_operation=NAME,
            rule="CFL-6",
        ) from error
    if done.already_applied:
        # By another run, which may have gone on.
        check_on_top(context, batch, sink, None)
    return context.view.head.table


VERBS: Mapping[str, Callable[..., Any]] = {"sink_start": _start, "sink_batch": _batch}
"""By the names by which Java calls them."""
