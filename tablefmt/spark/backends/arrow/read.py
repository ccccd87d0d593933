"""Reads by Arrow: files are dealt out to Spark's Python workers, which give their rows back."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from tablefmt.changes.answer import Answer
from tablefmt.changes.columns import CHANGE_COLUMNS
from tablefmt.changes.commit_rows import FileChanges
from tablefmt.expressions.ddl import to_spark_json
from tablefmt.model.arrow_types import from_arrow, to_arrow
from tablefmt.model.schema import Schema
from tablefmt.snapshot.state import Snapshot
from tablefmt.spark.backends.arrow.changes import ChangesTask, parts_of
from tablefmt.spark.backends.arrow.tasks import LocateTask, ReadTask, groups_of
from tablefmt.spark.backends.base import FILE, ROW, ChangeRange
from tablefmt.spark.backends.workers import for_workers
from tablefmt.spark.runtime import failures
from tablefmt.spark.runtime.frames import DataFrame, Session
from tablefmt.store.protocol import Store

Task = ReadTask | LocateTask | ChangesTask

_POSITIONS = pa.schema([pa.field(FILE, pa.int32(), False), pa.field(ROW, pa.int64(), False)])

_log = logging.getLogger(__name__)


def read_snapshot(spark: Session, store: Store, snapshot: Snapshot, *, asked: bool) -> DataFrame:
    """The rows of a version.

    Args:
        spark: a session, classic or Connect. Its workers have to see the store, and have tablefmt.
        store: the table's. What it is opened with is in no plan.
        snapshot: the version.
        asked: somebody asked for this version, by number or time.
    """
    failures.install()
    files = snapshot.files
    groups = [(group,) for group in groups_of(snapshot.with_vectors(files))]
    _log.info(
        "arrow backend: version %d of %s, %d files in %d tasks",
        snapshot.version, store.uri, files.num_rows, len(groups),
    )  # fmt: skip
    # query_versions.py finds it in plans.
    at = f"{'at' if asked else 'v'}{snapshot.version}"
    label = f"tablefmt_arrow_{snapshot.table_id}_{at}_{files.num_rows}_files"
    task, nothing = ReadTask(for_workers(store), snapshot.schema, snapshot.version), pa.schema([])
    return _frame(spark, task, snapshot.schema, groups, nothing, label)


def read_changes(
    spark: Session, store: Store, of: ChangeRange, files: Sequence[FileChanges]
) -> DataFrame:
    """Rows of a range, each with its change columns; equal ones do not cancel."""
    failures.install()
    parts = [(part,) for part in parts_of([replace(each, cancels=False) for each in files])]
    label = f"tablefmt_arrow_changes_{of.first}_to_{of.last}"
    task = ChangesTask(Answer(for_workers(store), of.schema, of.schema.fields, CHANGE_COLUMNS))
    return _frame(spark, task, of.schema, parts, CHANGE_COLUMNS, label)


def read_positions(
    spark: Session, store: Store, files: pa.Table, table: Schema, columns: Schema
) -> DataFrame:
    """Rows with FILE and ROW."""
    failures.install()
    groups, first = [], 0
    for group in groups_of(files):
        groups.append((group, first))
        first += group.num_rows
    label = f"tablefmt_arrow_positions_{files.num_rows}_files"
    task = LocateTask(for_workers(store), table, columns)
    return _frame(spark, task, columns, groups, _POSITIONS, label)


def _frame(
    spark: Session,
    task: Task,
    columns: Schema,
    groups: Sequence[tuple[Any, ...]],
    more: pa.Schema,
    label: str,
) -> DataFrame:
    """A DataFrame with a task for every group, which `task` takes; its columns, then `more`.

    `label` is what EXPLAIN shows.
    """
    from pyspark.sql.types import StructType

    fields = list(to_spark_json(columns)["fields"])
    if len(more):
        fields += to_spark_json(from_arrow(more))["fields"]
    schema = StructType.fromJson({"type": "struct", "fields": fields})
    names = [field["name"] for field in fields]
    shape = pa.schema([*to_arrow(columns), *more])

    def rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for at in batch.column(0).to_pylist():
                for batch_of_rows in task.batches(*groups[at]):
                    yield batch_of_rows.rename_columns(names).cast(shape)

    rows.__name__ = label
    count = len(groups)
    return spark.range(0, count, 1, max(1, count)).mapInArrow(rows, schema)
