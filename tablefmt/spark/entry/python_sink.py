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

from tablefmt.operations.append import NAME
from tablefmt.spark.entry.python_writer import Prepared, prepare, source_store
from tablefmt.spark.entry.sink_verbs import open_for
from tablefmt.spark.runtime.failures import carrying
from tablefmt.spark.streams.sink import (
    Batch,
    Sink,
    application_of,
    options_of,
    sink_of,
)
from tablefmt.store.protocol import Store

_UNNUMBERED = Batch(number=0, query=None, run=None)


@dataclass
class BatchFiles(WriterCommitMessage):  # type: ignore[misc]
    """What the winning attempt of a task wrote, packed; and how it is to be committed."""

    body: bytes
    prepared: Prepared
    table: str | None
    """Id of the table that was there; None: there was none."""


class TablefmtStreamWriter(DataSourceStreamArrowWriter):  # type: ignore[misc]
    """Writes files of one batch in tasks, or makes one commit of them."""

    def __init__(self, sink: Sink, prepared: Prepared, table: str | None) -> None:
        self.sink = sink
        self.prepared = prepared
        self.table = table

    def write(self, iterator: Iterator[pa.RecordBatch]) -> BatchFiles:
        """In a worker: write the rows of one attempt of a task."""
        return BatchFiles(self.prepared.write(iterator), self.prepared, self.table)

    def commit(self, messages: Sequence[Any], batchId: int) -> None:
        """Make one commit of the files of all tasks, unless the batch was applied before.

        Raises:
            TableNotFoundError, TableReplacedError: STR-14. As `tablefmt.spark.write`.
        """
        batch = Batch(number=batchId, query=None, run=None)
        written = [message for message in messages if message is not None]
        prepared = written[0].prepared if written else self.prepared
        table = written[0].table if written else self.table
        with carrying():
            try:
                applied = _is_applied(prepared.task.store, self.sink, batch, table)
            except Exception:
                prepared.discard()
                raise
            if applied:
                prepared.discard()
                return
            prepared.commit((m.body for m in written), options_of(self.sink, batch))

    def abort(self, messages: Sequence[Any], batchId: int) -> None:
        """Remove the files of a job that failed; not those of a commit, which sees to them itself.

        Where no task has told what it wrote, no table names it: vacuum takes it.
        """
        written = [message for message in messages if message is not None]
        if written and len(written) < len(messages):
            written[0].prepared.discard()


def _is_applied(store: Store, sink: Sink, batch: Batch, begun: str | None) -> bool:
    context = open_for(batch, sink, store, begun)
    commit = options_of(sink, batch).commit
    return context is not None and context.applied(commit, None, NAME) is not None


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
    return TablefmtStreamWriter(sink, prepared, table)
