"""Writes by Arrow: Spark hands its rows to Python workers, which write the files.

The driver, or the Connect client, plans, and makes the one commit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import pyarrow as pa

from tablefmt.expressions.predicate import quote_name
from tablefmt.model.entry import AddedFiles, Metadata
from tablefmt.session.files import TransactionFiles
from tablefmt.session.merge_pairs import UPDATED
from tablefmt.spark.backends.arrow.alignment import aligned
from tablefmt.spark.backends.arrow.tasks import RewriteTask, WriteTask, unpacked
from tablefmt.spark.backends.base import (
    ACTION,
    ROW_COLUMNS,
    Destination,
    Rewritten,
    spark_fields,
)
from tablefmt.spark.backends.task_results import described, merged, read_back
from tablefmt.spark.backends.workers import for_workers
from tablefmt.spark.columns.conditions import analyzed_text, session_zone
from tablefmt.spark.columns.constraints import guard
from tablefmt.spark.runtime import failures
from tablefmt.spark.runtime.ansi import moved, under_ansi
from tablefmt.spark.runtime.frames import DataFrame, functions_of
from tablefmt.spark.runtime.sql_text import parsed
from tablefmt.store.protocol import Store


def write_rows(frame: DataFrame, store: Store, to: Destination) -> AddedFiles | None:
    """Run the query; its rows go to files. As of `Backend`."""
    frame, metadata = _checked(aligned(frame, to.metadata.schema), to.metadata)
    task = _task(store, to, metadata)
    if to.layout.shuffle_bytes is not None:
        frame = _together(frame, metadata.partition_names)

    frame, names = _plainly_named(frame)

    def write_tablefmt_arrow(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        batches = (batch.rename_columns(names) for batch in batches)
        added = task.write(batches, context.partitionId() if context else 0)
        yield pa.RecordBatch.from_arrays([pa.array([described(added)], pa.binary())], ["files"])

    files = TransactionFiles(store, to.transaction)
    with files.removed_on_failure():
        answers = frame.mapInArrow(write_tablefmt_arrow, "files binary").collect()
    added = merged(read_back(bytes(answer[0])) for answer in answers)
    files.keep_winners(added)
    return added


def rewrite_rows(
    frame: DataFrame, store: Store, to: Destination, names: Sequence[str]
) -> Rewritten:
    """The same of rows with positions, which go into no file. As of `Backend`."""
    shape = pa.schema([ROW_COLUMNS[name] for name in names])
    rows = aligned(frame, to.metadata.schema, spark_fields(shape))
    checked, metadata = _checked(rows, to.metadata)
    action = ACTION if ACTION in names else None
    task = RewriteTask(_task(store, to, metadata), tuple(names), action, UPDATED)

    checked, given = _plainly_named(checked)

    def rewrite_tablefmt_arrow(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        batches = (batch.rename_columns(given) for batch in batches)
        added, positions = task.write(batches, context.partitionId() if context else 0)
        answer = [pa.array([body], pa.binary()) for body in (described(added), positions)]
        yield pa.RecordBatch.from_arrays(answer, ["files", "positions"])

    kinds = "files binary, positions binary"
    with TransactionFiles(store, to.transaction).removed_on_failure():
        answers = checked.mapInArrow(rewrite_tablefmt_arrow, kinds).collect()
    added = merged(read_back(bytes(answer[0])) for answer in answers)
    positions = [unpacked(bytes(answer[1])).cast(shape) for answer in answers if answer[1]]
    return Rewritten(added, pa.concat_tables([shape.empty_table(), *positions]))


def _plainly_named(frame: DataFrame) -> tuple[DataFrame, list[str]]:
    """The rows with names that PySpark finds again: it asks for columns by their names, without
    quotes. And the names as they are.
    """
    names = list(frame.columns)
    if not any(mark in name for name in names for mark in ".`"):
        return frame, names
    return frame.toDF(*(f"c{at}" for at in range(len(names)))), names


def _task(store: Store, to: Destination, metadata: Metadata) -> WriteTask:
    return WriteTask(
        for_workers(store),
        to.transaction,
        metadata,
        to.stats,
        tuple(metadata.schema.names),
        to.layout.compression,
        to.layout.rows_max,
    )


def _checked(frame: DataFrame, metadata: Metadata) -> tuple[DataFrame, Metadata]:
    """Rows that break a constraint fail in Spark itself; the workers are left nothing to check."""
    check = guard(metadata)
    if check is None:
        return frame, metadata
    failures.install()
    schema, zone = metadata.schema, session_zone(frame.sparkSession)
    conditions = [each.condition for each in metadata.constraints.values()]
    plain = all(analyzed_text(text, schema, zone).exact for text in conditions)
    with under_ansi(frame.sparkSession, plain=plain) as ansi:
        return moved(frame, ansi).where(parsed(functions_of(frame), check)), replace(
            metadata, constraints={}
        )


def _together(frame: DataFrame, names: Sequence[str]) -> DataFrame:
    """Rows of one partition in one task, or in a few where adaptive execution sizes them."""
    if frame.sparkSession.conf.get("spark.sql.adaptive.enabled", "true") == "true":
        return frame.hint("rebalance", *(quote_name(n) for n in names))
    return frame.repartition(*(quote_name(n) for n in names)) if names else frame
