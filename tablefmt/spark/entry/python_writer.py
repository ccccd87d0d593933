"""What the Python data source does when rows are written: tasks write files, then one commit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from tablefmt.commit.environment import SYSTEM
from tablefmt.data.bounds import stats_of
from tablefmt.errors import InvalidRangeError, UnsupportedFeatureError
from tablefmt.expressions.ddl import schema_from
from tablefmt.model.entry import Metadata
from tablefmt.model.schema import Schema
from tablefmt.model.schema_views import nullable
from tablefmt.operations.append import NAME, append_files
from tablefmt.operations.create import definition
from tablefmt.operations.first_rows import check_partitioning
from tablefmt.operations.overwrite import check_overwritable, overwrite_files
from tablefmt.session.files import TransactionFiles
from tablefmt.session.staging import commit_staged
from tablefmt.spark.backends.arrow.tasks import WriteTask, check_columns
from tablefmt.spark.backends.choice import check_shared
from tablefmt.spark.backends.layout import Layout, layout
from tablefmt.spark.backends.task_results import described, merged, read_back
from tablefmt.spark.columns.conditions import check_zoned
from tablefmt.spark.entry.write import commit_first, evolved, prepare_first
from tablefmt.spark.options import WriteOptions, parse_options
from tablefmt.spark.runtime.failures import carrying
from tablefmt.spark.statements.open_logs import open_context, open_if_there
from tablefmt.store.open import open_store
from tablefmt.store.protocol import Store


@dataclass
class TaskFiles(WriterCommitMessage):  # type: ignore[misc]
    """What the winning attempt of a task wrote, packed."""

    body: bytes


class TablefmtWriter(DataSourceArrowWriter):  # type: ignore[misc]
    """Writes files in tasks, and makes one commit of them."""

    def __init__(
        self,
        task: WriteTask,
        options: WriteOptions,
        *,
        overwrite: bool,
        read_version: int | None,
        applied: bool,
        written_under: Metadata | None = None,
    ) -> None:
        self.task = task
        self.options = options
        self.overwrite = overwrite
        self.read_version = read_version
        """None: there is no table yet."""
        self.written_under = written_under or task.metadata
        """The metadata of `read_version`; the files are written under the task's."""
        self.applied = applied
        """The same application version is in the table: nothing is written."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskFiles:
        """In a worker: write the rows of one attempt of a task."""
        from pyspark import TaskContext

        if self.applied:
            return TaskFiles(described(None))
        context = TaskContext.get()
        partition = context.partitionId() if context is not None else 0
        return TaskFiles(described(self.task.write(iterator, partition)))

    def commit(self, messages: Sequence[Any]) -> None:
        """Make one commit of the files of all tasks. Raises as `tablefmt.spark.write`."""
        if self.applied:
            return
        with carrying():
            store, transaction = self.task.store, self.task.transaction
            added = merged(read_back(m.body) for m in messages if m is not None)
            files = TransactionFiles(store, transaction)
            files.keep_winners(added)
            metadata = self.task.metadata
            if self.read_version is None:
                commit_first(
                    store,
                    metadata,
                    transaction,
                    added,
                    self.options,
                    exist_ok=not self.overwrite,
                )
                return
            context = open_context(store)
            with files.removed_on_failure():
                staged = (
                    overwrite_files(
                        transaction,
                        added,
                        self.written_under,
                        read_version=self.read_version,
                        evolved=metadata,
                        where=self.options.replace_where,
                        dynamic_partitions=self.options.dynamic_partitions,
                    )
                    if self.overwrite
                    else append_files(
                        transaction,
                        added,
                        self.written_under,
                        read_version=self.read_version,
                        evolved=metadata,
                    )
                )
            commit_staged(context, staged, self.options.commit)

    def abort(self, messages: Sequence[Any]) -> None:
        """Remove the files of a job that failed.

        Spark calls this after a commit that failed, too. Then every task has said what it wrote,
        and the commit itself has removed its files, unless they may be in the table.
        """
        if any(message is None for message in messages):
            TransactionFiles(self.task.store, self.task.transaction).discard()


def make_writer(options: dict[str, str], schema: StructType, *, overwrite: bool) -> TablefmtWriter:
    """A writer of one transaction. Raises as `tablefmt.spark.write`."""
    given = {name.casefold(): name for name in options}
    path = options.pop(given.get("path", "path"), None)
    names = options.pop(given.get("partitionby", "partitionBy"), "")
    partition_by = [name.strip() for name in names.split(",") if name.strip()]
    parsed = parse_options(options)
    store = source_store(path, parsed.storage_options)
    rows = nullable(schema_from(schema))
    transaction = SYSTEM.nonce()
    context = open_if_there(store)
    if context is None:
        prepare_first(store, parsed)
        metadata = definition(rows, partition_by, {})
        task = _task(store, transaction, metadata, rows, layout(parsed.files, metadata, None))
        return TablefmtWriter(task, parsed, overwrite=overwrite, read_version=None, applied=False)
    head = context.begin()
    if not parsed.overwrite_schema:
        check_partitioning(head.metadata, partition_by)
    elif not overwrite:
        raise InvalidRangeError("overwriteSchema means nothing with mode='append'; use mergeSchema")
    if overwrite:
        where, dynamic = parsed.replace_where, parsed.dynamic_partitions
        check_overwritable(head.metadata, where, dynamic)
        if where is not None:
            check_zoned(where, head.metadata.schema)
    metadata = evolved(head.metadata, rows, parsed, partition_by)
    check_columns(rows, metadata.schema)
    applied = context.applied(parsed.commit, None, NAME) is not None
    return TablefmtWriter(
        _task(store, transaction, metadata, rows, layout(parsed.files, metadata, head)),
        parsed,
        overwrite=overwrite,
        read_version=head.version,
        applied=applied,
        written_under=head.metadata,
    )


def _task(
    store: Store, transaction: str, metadata: Metadata, rows: Schema, spread: Layout
) -> WriteTask:
    stats = tuple(stats_of(metadata))
    names = tuple(rows.names)
    return WriteTask(
        store, transaction, metadata, stats, names, spread.compression, spread.rows_max
    )


def source_store(path: str | None, storage_options: Mapping[str, Any]) -> Store:
    """Raises UnsupportedFeatureError: there is no path, or memory://. As `open_store`."""
    if not path:
        raise UnsupportedFeatureError(
            "there is no path: give it to load(), save() or the option path (a catalog's table "
            "has none here; use a temporary view)",
            ["option:path"],
        )
    store = open_store(path, storage_options)
    check_shared(store)
    return store
