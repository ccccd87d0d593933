"""Writes of the Python data source, in batches or streams: tasks write files, then one commit.

For each batch of a stream, Spark makes two writers. The first goes to the tasks and does not know
the batch number. The second commits and does not know the first. So the messages of the tasks say
how to commit their files. Spec: STR-10 .. STR-15.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from tablefmt.commit.environment import SYSTEM
from tablefmt.commit.transaction_plan import Staged
from tablefmt.data.column_bounds import stats_of
from tablefmt.errors import InvalidArgumentError, UnsupportedFeatureError
from tablefmt.expressions.ddl import schema_from
from tablefmt.model.log_entry import AddedFiles, Metadata
from tablefmt.model.schema import Schema, nullable
from tablefmt.operations.alter import add_features
from tablefmt.operations.append import NAME, append_files
from tablefmt.operations.create import (
    check_first_rows,
    check_partitioning,
    commit_first,
    definition,
)
from tablefmt.operations.create import prepare as prepare_place
from tablefmt.operations.overwrite import OVERWRITE, check_overwritable, overwrite_files
from tablefmt.session.commit_result import Commit
from tablefmt.session.identity_claims import worker_claims
from tablefmt.session.staging import autocommit, newest_snapshot
from tablefmt.session.statement import Begun, Statement
from tablefmt.session.table_context import TableContext
from tablefmt.session.transaction_snapshot import TransactionFiles, TransactionSnapshot, joined
from tablefmt.spark.backends.arrow.arrow_tasks import WriteTask, check_columns
from tablefmt.spark.backends.backend_choice import check_shared
from tablefmt.spark.backends.backend_protocol import Layout, layout
from tablefmt.spark.backends.python_workers import described, for_workers, read_back
from tablefmt.spark.columns.row_conditions import check_zoned
from tablefmt.spark.entry.dataframe_io import check_first, evolved
from tablefmt.spark.entry.stream_verbs import check_on_top, open_for
from tablefmt.spark.runtime.failures import carrying
from tablefmt.spark.spark_options import WriteOptions, parse_options, pop_option, pop_partition_by
from tablefmt.spark.statements.execution import open_context, open_context_if_exists, rows_of
from tablefmt.spark.streams.stream_sink import Batch, Sink, application_of, options_of, sink_of
from tablefmt.store.clocks import Moment
from tablefmt.store.location import open_store
from tablefmt.store.object_store import Store


@dataclass
class TaskFiles(WriterCommitMessage):
    """Serialized files that the committed attempt of a task wrote."""

    body: bytes


@dataclass(frozen=True, slots=True)
class Prepared:
    """A planned write, before its rows are written."""

    task: WriteTask
    overwrite: bool
    read_version: int | None
    """None: the table does not exist yet."""
    written_under: Metadata
    """Metadata of `read_version`. The task has the metadata after the write."""
    began: Moment

    def since(
        self,
        transaction: str,
        version: int | None,
        under: Metadata,
        to: Metadata,
        began: Moment,
    ) -> Prepared:
        """Return the same write with another writer's transaction, to commit or discard its files.

        Args:
            transaction: the transaction that wrote the files.
            version: `read_version` of that transaction.
            under: `written_under` of that transaction.
            to: the metadata that its files were written with.
            began: the start of that transaction.
        """
        task = replace(self.task, transaction=transaction, metadata=to)
        return replace(self, task=task, read_version=version, written_under=under, began=began)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> bytes:
        """Write the rows of one task attempt, in a worker. Return the files, serialized."""
        from pyspark import TaskContext

        context = TaskContext.get()
        partition = context.partitionId() if context is not None else 0
        return described(self.task.write(iterator, partition))

    def commit(
        self, bodies: Iterable[bytes], options: WriteOptions, there: TableContext | None = None
    ) -> tuple[TableContext, Commit]:
        """Commit the files of all tasks in one commit.

        Args:
            bodies: the serialized files of all tasks.
            options: the options of the write.
            there: the table, if the caller has just opened it.

        Returns:
            The table, and the commit.

        Raises as `tablefmt.spark.write`.
        """
        store, transaction, metadata = self.task.store, self.task.transaction, self.task.metadata
        added = joined(map(read_back, bodies))
        files = TransactionFiles(store, transaction)
        files.keep_only(added)
        if self.read_version is None:
            return commit_first(
                store,
                metadata,
                transaction,
                added,
                options.commit,
                exist_ok=not self.overwrite,
                began=self.began,
                digest=options.digest,
            )
        with files.discarded_on_failure():
            context = there or open_context(store)
        begun = Begun(transaction=transaction, version=self.read_version, began=self.began)
        statement = self._statement(added, options)
        return context, autocommit(context, statement, options.commit, begun=begun)

    def _statement(self, added: AddedFiles | None, options: WriteOptions) -> Statement:
        """Return the append or overwrite of the files that tasks wrote."""

        def stage(txn: TransactionSnapshot, _: None) -> Staged:
            txn.target = self.task.metadata
            if not self.overwrite:
                return append_files(
                    txn.transaction,
                    added,
                    self.written_under,
                    read_version=txn.version,
                    evolved=txn.target,
                )
            return overwrite_files(
                txn.transaction,
                added,
                self.written_under,
                read_version=txn.version,
                where=options.replace_where,
                dynamic_partitions=options.dynamic_partitions,
                evolved=txn.target,
            )

        name = OVERWRITE if self.overwrite else NAME
        return Statement(name=name, stage=stage, engine=rows_of(options))

    def discard(self) -> None:
        """Remove the files that tasks wrote."""
        TransactionFiles(self.task.store, self.task.transaction).discard()


class TablefmtWriter(DataSourceArrowWriter):
    """Writes files in tasks, then commits them in one commit."""

    def __init__(self, prepared: Prepared, options: WriteOptions, *, applied: bool) -> None:
        self.prepared = prepared
        self.options = options
        self.applied = applied
        """True if the table has this application version already: nothing is written."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskFiles:
        """Write the rows of one task attempt, in a worker."""
        return TaskFiles(described(None) if self.applied else self.prepared.write(iterator))

    def commit(self, messages: Sequence[Any]) -> None:
        """Commit the files of all tasks in one commit. Raises as `tablefmt.spark.write`."""
        if self.applied:
            return
        with carrying():
            self.prepared.commit((m.body for m in messages if m is not None), self.options)

    def abort(self, messages: Sequence[Any]) -> None:
        """Remove the files of a failed job.

        Spark calls this after a failed commit, too. Every task has sent its message then, and the
        commit itself has removed its files, unless the table may contain them.
        """
        if any(message is None for message in messages):
            self.prepared.discard()


def make_writer(options: dict[str, str], schema: StructType, *, overwrite: bool) -> TablefmtWriter:
    """Return a writer of one transaction. Raises as `tablefmt.spark.write`."""
    path, partition_by = pop_option(options, "path"), pop_partition_by(options)
    parsed = parse_options(options)
    store = source_store(path, parsed.storage_options)
    prepared, context = prepare(store, parsed, schema, partition_by, overwrite=overwrite)
    applied = context is not None and context.applied(parsed.commit, None, NAME) is not None
    return TablefmtWriter(prepared, parsed, applied=applied)


def prepare(
    store: Store,
    options: WriteOptions,
    schema: StructType,
    partition_by: Sequence[str],
    *,
    overwrite: bool,
) -> tuple[Prepared, TableContext | None]:
    """Plan a write of rows with the columns of `schema`. Return it, and the table if it exists.

    Raises as `tablefmt.spark.write`.
    """
    rows = nullable(schema_from(schema))
    began = SYSTEM.moment(store)
    context = open_context_if_exists(store)
    if context is None:
        check_first(options)
        prepare_place(store)
        transaction = SYSTEM.nonce()
        metadata = definition(rows, partition_by, {})
        check_first_rows(metadata)
        task = _task(store, transaction, metadata, rows, layout(options.files, metadata, None))
        return Prepared(task, overwrite, None, metadata, began), None
    if options.overwrite_schema and overwrite:
        add_features(context, evolved(context.view.head.metadata, rows, options, partition_by))
    txn = newest_snapshot(context)
    under = txn.metadata
    if not options.overwrite_schema:
        check_partitioning(under, partition_by)
    elif not overwrite:
        raise InvalidArgumentError(
            "overwriteSchema has no effect with mode='append'; use mode='overwrite', or mergeSchema"
        )
    if overwrite:
        _check_part(options)
        where, dynamic = options.replace_where, options.dynamic_partitions
        check_overwritable(under, where, dynamic)
        if where is not None:
            check_zoned(where, under.schema)
    metadata = evolved(under, rows, options, partition_by)
    check_columns(rows, metadata)
    spread = layout(options.files, metadata, context.view.head)
    task = _task(store, txn.transaction, metadata, rows, spread)
    return Prepared(task, overwrite, txn.version, under, began), context


def _check_part(options: WriteOptions) -> None:
    """Check that Spark's tasks alone can replace the rows. Raises UnsupportedFeatureError."""
    if options.replace_using or options.replace_on:
        raise UnsupportedFeatureError(
            f"{options.part} compares the new rows with those of the table, which format() without "
            "a JVM cannot; use tablefmt.spark.write(df, path, mode='overwrite', "
            f"{options.part}=…)",
            [f"option:{options.part}"],
        )


def _task(
    store: Store, transaction: str, metadata: Metadata, rows: Schema, spread: Layout
) -> WriteTask:
    stats = tuple(stats_of(metadata))
    names = tuple(rows.names)
    return WriteTask(
        for_workers(store),
        transaction,
        metadata,
        stats,
        names,
        spread.compression,
        spread.rows_max,
        worker_claims(for_workers(store), metadata),
    )


def source_store(path: str | None, storage_options: Mapping[str, Any]) -> Store:
    """Return the store of a data source's path.

    Raises:
        UnsupportedFeatureError: the path is missing, or is at memory://. Other errors as
            `open_store`.
    """
    if not path:
        raise UnsupportedFeatureError(
            "the path is missing; give it to load() or save(), or set option path (this data "
            "source gets no path for a catalog table: use tablefmt.spark.open(spark, name), or a "
            "temporary view)",
            ["option:path"],
        )
    store = open_store(path, storage_options)
    check_shared(store)
    return store


_UNNUMBERED = Batch(number=0, query=None, run=None)


@dataclass
class BatchFiles(WriterCommitMessage):
    """Serialized files that the committed attempt of a task wrote, and facts to commit them.

    Spark keeps one message per task on the driver. So it has nothing that all tasks share, and no
    secret.
    """

    body: bytes
    transaction: str
    read_version: int | None
    """None: the table did not exist."""
    table: str | None
    """Id of the table, if it existed."""
    began: Moment
    """Start of the transaction."""


class TablefmtStreamWriter(DataSourceStreamArrowWriter):
    """Writes the files of one batch in tasks, or commits them in one commit."""

    def __init__(self, sink: Sink, rows: Schema, prepared: Prepared, table: str | None) -> None:
        self.sink = sink
        self.rows = rows
        self.prepared = prepared
        self.table = table

    def write(self, iterator: Iterator[pa.RecordBatch]) -> BatchFiles:
        """Write the rows of one task attempt, in a worker."""
        body, prepared = self.prepared.write(iterator), self.prepared
        transaction, version = prepared.task.transaction, prepared.read_version
        return BatchFiles(body, transaction, version, self.table, prepared.began)

    def commit(self, messages: Sequence[Any], batchId: int) -> None:
        """Commit the files of all tasks in one commit, unless the batch was applied before.

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
                # A table that was created meanwhile may already have this batch.
                applied = None if context is None else context.applied(options.commit, None, NAME)
                prepared = self._begun(written, context)
            if applied is not None:
                prepared.discard()
                return
            context, done = prepared.commit((m.body for m in written), options, context)
            if done.already_applied:
                # Another run applied this batch, and may have written later ones.
                check_on_top(context, batch, self.sink, None)

    def abort(self, messages: Sequence[Any], batchId: int) -> None:
        """Remove the files of a failed job. A failed commit removes its files itself.

        Without a message of any task, the files are unknown here. Vacuum removes them later.
        """
        written = [message for message in messages if message is not None]
        if written and len(written) < len(messages):
            self._files(written).discard()

    def _files(self, written: Sequence[BatchFiles]) -> TransactionFiles:
        task = self.prepared.task
        transaction = written[0].transaction if written else task.transaction
        return TransactionFiles(task.store, transaction)

    def _begun(self, written: Sequence[BatchFiles], context: TableContext | None) -> Prepared:
        """Return the write that the tasks began, perhaps at an earlier version than this writer."""
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
    """Return a writer of one batch.

    Raises:
        UnsupportedFeatureError: txnAppId is missing. Other errors as `sink_of` and
            `tablefmt.spark.write`.
    """
    sink = sink_of("complete" if overwrite else "append", options)
    application_of(sink, _UNNUMBERED)
    store = source_store(sink.uri, sink.options.storage_options)
    by = sink.partition_by
    prepared, context = prepare(store, sink.options, schema, by, overwrite=overwrite)
    table = None if context is None else context.view.head.table
    rows = nullable(schema_from(schema))
    return TablefmtStreamWriter(sink, rows, prepared, table)
