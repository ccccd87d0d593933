"""The sink of a stream where there is no JVM at hand: tasks write files, each batch is one commit.

Spark asks the source for a writer twice a batch: one goes to the tasks, and knows no number; the
other commits, and knows nothing of the first. So what a task wrote says how to commit it.
Spec: STR-10 .. STR-15.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from tablefmt.expressions.ddl import schema_from
from tablefmt.model.schema import Schema
from tablefmt.model.schema_views import nullable
from tablefmt.operations.append import NAME
from tablefmt.operations.create import definition
from tablefmt.session.context import TableContext
from tablefmt.session.files import TransactionFiles
from tablefmt.spark.entry.python_writer import Prepared, prepare, source_store
from tablefmt.spark.entry.sink_verbs import check_on_top, open_for
from tablefmt.spark.entry.write import evolved
from tablefmt.spark.runtime.failures import carrying
from tablefmt.spark.streams.sink import (
    Batch,
    Sink,
    application_of,
    options_of,
    sink_of,
)
from tablefmt.store.clocks import Moment

_UNNUMBERED = Batch(number=0, query=None, run=None)


@dataclass
class BatchFiles(WriterCommitMessage):  # type: ignore[misc]
    """What the winning attempt of a task wrote, packed; and what ties it to its commit.

    Spark keeps one of every task on the driver: nothing is in it that all have, and no secret.
    """

    body: bytes
    transaction: str
    read_version: int | None
    """None: there was no table."""
    table: str | None
    """Id of the table that was there."""
    began: Moment
    """When the transaction began."""


class TablefmtStreamWriter(DataSourceStreamArrowWriter):  # type: ignore[misc]
    """Writes files of one batch in tasks, or makes one commit of them."""

    def __init__(self, sink: Sink, rows: Schema, prepared: Prepared, table: str | None) -> None:
        self.sink = sink
        self.rows = rows
        self.prepared = prepared
        self.table = table

    def write(self, iterator: Iterator[pa.RecordBatch]) -> BatchFiles:
        """In a worker: write the rows of one attempt of a task."""
        body, prepared = self.prepared.write(iterator), self.prepared
        transaction, version = prepared.task.transaction, prepared.read_version
        return BatchFiles(body, transaction, version, self.table, prepared.began)

    def commit(self, messages: Sequence[Any], batchId: int) -> None:
        """Make one commit of the files of all tasks, unless the batch was applied before.

        Raises:
            TableNotFoundError, TableReplacedError, ConcurrentTransactionException: STR-14.
            As `tablefmt.spark.write`.
        """
        batch = Batch(number=batchId, query=None, run=None)
        written: list[BatchFiles] = [message for message in messages if message is not None]
        options = options_of(self.sink, batch)
        with carrying():
            with self._files(written).discarded_on_failure():
                table = written[0].table if written else self.table
                context = open_for(batch, self.sink, self.prepared.task.store, table)
                # A table that was made meanwhile may hold this very batch.
                applied = None if context is None else context.applied(options.commit, None, NAME)
                prepared = self._begun(written, context)
            if applied is not None:
                prepared.discard()
                return
            context, done = prepared.commit((m.body for m in written), options, context)
            if done.already_applied:
                # By another run, which may have gone on.
                check_on_top(context, batch, self.sink, None)

    def abort(self, messages: Sequence[Any], batchId: int) -> None:
        """Remove the files of a job that failed; not those of a commit, which sees to them itself.

        Where no task has told what it wrote, no table names it: vacuum takes it.
        """
        written = [message for message in messages if message is not None]
        if written and len(written) < len(messages):
            self._files(written).discard()

    def _files(self, written: Sequence[BatchFiles]) -> TransactionFiles:
        task = self.prepared.task
        transaction = written[0].transaction if written else task.transaction
        return TransactionFiles(task.store, transaction)

    def _begun(self, written: Sequence[BatchFiles], context: TableContext | None) -> Prepared:
        """The write that the tasks began: of an earlier version than this writer's, maybe."""
        prepared, sink = self.prepared, self.sink
        if not written:
            return prepared
        transaction, version = written[0].transaction, written[0].read_version
        under, to = prepared.written_under, prepared.task.metadata
        if version is None:
            under = to = definition(self.rows, sink.partition_by, {})
        elif version != prepared.read_version and context is not None:
            under = context.view.metadata_at(version)
            to = evolved(under, self.rows, sink.options, sink.partition_by)
        return prepared.since(transaction, version, under, to, written[0].began)


def make_stream_writer(
    options: dict[str, str], schema: StructType, *, overwrite: bool
) -> TablefmtStreamWriter:
    """A writer of one batch.

    Raises:
        UnsupportedFeatureError: no txnAppId. As `sink_of` and `tablefmt.spark.write`.
    """
    sink = sink_of("complete" if overwrite else "append", options)
    application_of(sink, _UNNUMBERED)
    store = source_store(sink.uri, sink.options.storage_options)
    by = sink.partition_by
    prepared, context = prepare(store, sink.options, schema, by, overwrite=overwrite)
    table = None if context is None else context.view.head.table
    rows = nullable(schema_from(schema))
    return TablefmtStreamWriter(sink, rows, prepared, table)
