"""Rewrites of files by Spark: planned on the driver, run in tasks, committed once.

Each written file is one task. Arrow in the workers reads and writes the files, whatever the
session's execution backend is. So it works over Spark Connect, too. Tasks are values that travel to
the workers. They take files and return files, but no rows. Where a clustering moves rows between
workers, Spark shuffles them as serialized bytes.

Spec: CMP-1 .. CMP-6, ADD-5, EVO-5.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tablefmt.commit.transaction_plan import Staged
from tablefmt.data.arrow_scanner import columns_read
from tablefmt.data.clustering_order import RowOrder, learn_order
from tablefmt.data.file_rewrite import RANGE_BYTES, Clustering, Rewriting, sample_step
from tablefmt.expressions.filter_tuples import Filters
from tablefmt.model.log_entry import OWN, PARTITIONING, AddedFiles, OperationClass
from tablefmt.operations import cluster, compact, repartition
from tablefmt.operations.compact import RewrittenGroup, files_of_groups, rewriting, staged_rewrites
from tablefmt.operations.compact_plan import PlannedGroup
from tablefmt.session.measurements import REWRITE
from tablefmt.session.table_context import TableContext
from tablefmt.session.transaction_snapshot import TransactionFiles, TransactionSnapshot, joined
from tablefmt.spark.backends.arrow.arrow_tasks import groups_of, packed, unpacked
from tablefmt.spark.backends.backend_choice import check_shared
from tablefmt.spark.backends.python_workers import (
    check_workers,
    described,
    for_workers,
    read_back,
)
from tablefmt.spark.columns.row_conditions import analyzed_text, session_zone, without_filters
from tablefmt.spark.pyspark_objects import DataFrame, Session, functions_of
from tablefmt.spark.runtime import failures
from tablefmt.spark.runtime.failures import carrying
from tablefmt.spark.runtime.spark_jobs import job_description

PARCEL_BYTES = 4 << 20
"""Approximate limit of the Arrow data of rows that are shuffled as one value."""

_LZ4 = pa.ipc.IpcWriteOptions(compression="lz4")


@contextmanager
def _attempt(rewriting: Rewriting, number: int) -> Iterator[str]:
    """Yield the prefix of file names of one attempt. Remove the attempt's files if it fails."""
    prefix = f"{number:05d}-{secrets.token_hex(8)}-"
    files = TransactionFiles(rewriting.store, rewriting.transaction, shared=True)
    with carrying(), files.removed_on_failure((prefix,)):
        yield prefix


@dataclass(frozen=True, slots=True, eq=False)
class CompactTask:
    """Rewrites groups of files, with rows in their order."""

    rewriting: Rewriting
    groups: tuple[pa.Table, ...]
    rows_max: tuple[int | None, ...]

    def write(self, group: int) -> AddedFiles | None:
        """Return the files written for one group.

        Raises as `Rewriting.in_order`, with a record that `recovered` finds.
        """
        with _attempt(self.rewriting, group) as prefix:
            return self.rewriting.in_order(self.groups[group], prefix, self.rows_max[group])


@dataclass(frozen=True, slots=True, eq=False)
class RepartitionTask:
    """Rewrites groups of files by the current partitioning."""

    rewriting: Rewriting
    groups: tuple[pa.Table, ...]

    def write(self, group: int) -> AddedFiles | None:
        """Return the files written for one group. Raises as `CompactTask.write`."""
        with _attempt(self.rewriting, group) as prefix:
            return self.rewriting.repartitioned(self.groups[group], prefix)


@dataclass(frozen=True, slots=True, eq=False)
class SampleTask:
    """Reads samples of rows, from which the sort order is learned."""

    clustering: Clustering
    parts: tuple[tuple[int, pa.Table], ...]
    """Group number and files of each part."""
    steps: tuple[int, ...]
    """Sampling step of each group: one row of this many is sampled."""

    def read(self, part: int) -> tuple[int, bytes]:
        """Return a group's number and sampled rows. Raises CorruptDataError."""
        group, files = self.parts[part]
        with carrying():
            return group, packed(self.clustering.sample(files, self.steps[group]))


@dataclass(frozen=True, slots=True, eq=False)
class SplitTask:
    """Reads rows, and splits them by the task that will write them."""

    clustering: Clustering
    parts: tuple[tuple[int, pa.Table], ...]
    orders: tuple[RowOrder, ...]
    together: tuple[int, ...]
    """Number of ranges of each group's order that one task writes."""
    firsts: tuple[int, ...]
    """Number of the first writing task of each group."""

    def read(self, part: int) -> Iterator[tuple[int, bytes]]:
        """Yield the number of a writing task, and rows for it."""
        group, files = self.parts[part]
        order, together = self.orders[group], self.together[group]
        with carrying():
            for number, rows in self.clustering.put_apart(files, order, together):
                for parcel in _parcels(rows):
                    yield self.firsts[group] + number, parcel


@dataclass(frozen=True, slots=True, eq=False)
class OrderTask:
    """Writes the rows of some ranges in order to one file."""

    clustering: Clustering
    orders: tuple[RowOrder, ...]
    partitions: tuple[dict[str, Any], ...]
    group_of: tuple[int, ...]
    """Group of every writing task."""

    def write(self, number: int, parcels: Iterable[bytes]) -> AddedFiles | None:
        """Return the files written for one task's rows. Raises as `CompactTask.write`."""
        group = self.group_of[number]
        with _attempt(self.clustering.rewriting, number) as prefix:
            return self.clustering.write_rows(
                _opened(parcels), self.orders[group], prefix, self.partitions[group]
            )


def steps_of(rows: Iterable[int]) -> tuple[int, ...]:
    """Return the sampling steps of groups with these numbers of rows."""
    return tuple(map(sample_step, rows))


def _parcels(rows: pa.Table) -> Iterator[bytes]:
    step = max(1, rows.num_rows * PARCEL_BYTES // max(1, rows.nbytes))
    for start in range(0, rows.num_rows, step):
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, rows.schema, options=_LZ4) as stream:
            stream.write_table(rows.slice(start, step))
        yield sink.getvalue().to_pybytes()


def _opened(parcels: Iterable[bytes]) -> Iterator[pa.RecordBatch]:
    for parcel in parcels:
        with pa.ipc.open_stream(parcel) as stream:
            yield from stream


DECODED = 8
"""Usual upper bound of the size of rows in Arrow, as a multiple of their file size."""

Added = list[AddedFiles | None]
"""Added files by group."""

_Results = Iterator[tuple[int, bytes]]


def compact_groups(
    spark: Session,
    rewriting: Rewriting,
    groups: Sequence[pa.Table],
    rows_max: Sequence[int | None],
) -> Added:
    """Rewrite groups of files, with rows in their order, one task per group.

    Args:
        spark: a session, classic or Connect. Its workers need tablefmt and access to the store.
        rewriting: how to rewrite files.
        groups: files as in `Rewriting.in_order`.
        rows_max: most rows per file of each group, as in `Rewriting.in_order`.

    Raises:
        CorruptDataError: DAT-5. CommitRejectedError: the store rejected a file. Spark's own
        exceptions. After an error, no file remains, except of tasks that Spark was still ending:
        vacuum removes those.
    """
    check_workers(spark)
    rewriting = replace(rewriting, store=for_workers(rewriting.store))
    return _group_by_group(
        spark, CompactTask(rewriting, tuple(map(_for_task, groups)), tuple(rows_max)), "compact"
    )


def repartition_groups(spark: Session, rewriting: Rewriting, groups: Sequence[pa.Table]) -> Added:
    """Rewrite groups of files by the current partitioning, one task per group.

    Arguments and errors are those of `compact_groups`.
    """
    check_workers(spark)
    rewriting = replace(rewriting, store=for_workers(rewriting.store))
    task = RepartitionTask(rewriting, tuple(map(_for_task, groups)))
    return _group_by_group(spark, task, "repartition")


def _group_by_group(spark: Session, task: CompactTask | RepartitionTask, label: str) -> Added:
    def work(group: int) -> _Results:
        yield group, described(task.write(group))

    count, rewriting = len(task.groups), task.rewriting
    files = TransactionFiles(rewriting.store, rewriting.transaction)
    with files.removed_on_failure():
        written = _collected(_tasks(spark, count, work, label))
        return _by_group(files, written, range(count))


def cluster_groups(
    spark: Session, clustering: Clustering, groups: Sequence[pa.Table], outputs: Sequence[int]
) -> Added:
    """Rewrite groups of files with their rows in another order.

    The order is learned from a sample. Then each row is shuffled to the task that writes its range.

    Args:
        spark: as in `compact_groups`.
        clustering: how to sort and rewrite.
        groups: files as in `Clustering.write`.
        outputs: number of output files of each group.

    Raises:
        As `compact_groups`. StoreError if a worker's disk for temporary files is full.
    """
    check_workers(spark)
    store = for_workers(clustering.rewriting.store)
    clustering = replace(clustering, rewriting=replace(clustering.rewriting, store=store))
    parts = tuple((at, part) for at, files in enumerate(groups) for part in groups_of(files))
    orders, together = _orders(spark, clustering, groups, parts, outputs)
    count = [-(-order.count // some) for order, some in zip(orders, together, strict=True)]
    firsts = tuple(np.cumsum([0, *count])[:-1].tolist())
    group_of = tuple(at for at, tasks in enumerate(count) for _ in range(tasks))
    split = SplitTask(clustering, parts, orders, together, firsts)
    partitions = tuple(map(clustering.rewriting.partition, groups))
    ordering = OrderTask(clustering, orders, partitions, group_of)

    def write_tablefmt_ordered(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        first = next(batches, None)
        if first is None:
            return
        number = first.column(0)[0].as_py()

        def parcels() -> Iterator[bytes]:
            batch: pa.RecordBatch | None = first
            while batch is not None:
                assert set(batch.column(0).to_pylist()) == {number}, "a task has one range"
                for value in batch.column(1):
                    yield value.as_py()
                batch = next(batches, None)

        yield _answer(number, described(ordering.write(number, parcels())))

    files = TransactionFiles(clustering.rewriting.store, clustering.rewriting.transaction)
    with files.removed_on_failure():
        rows = _tasks(spark, len(parts), split.read, "read_to_cluster")
        number = functions_of(spark).col("number").cast("int")
        written = _collected(
            rows.repartitionById(max(1, len(group_of)), number).mapInArrow(
                write_tablefmt_ordered, _SHAPE
            )
        )
        return _by_group(files, written, group_of, len(groups))


def _orders(
    spark: Session,
    clustering: Clustering,
    groups: Sequence[pa.Table],
    parts: tuple[tuple[int, pa.Table], ...],
    outputs: Sequence[int],
) -> tuple[tuple[RowOrder, ...], tuple[int, ...]]:
    """Return the order of each group, and how many of its ranges make a file."""
    rows = [int(pc.sum(f["rows"]).as_py()) - int(pc.sum(f["deleted"]).as_py()) for f in groups]
    task = SampleTask(clustering, parts, steps_of(rows))

    def work(part: int) -> _Results:
        yield task.read(part)

    answers = _collected(_tasks(spark, len(parts), work, "sample"))
    samples: dict[int, list[pa.Table]] = {}
    for group, body in answers:
        samples.setdefault(group, []).append(unpacked(body))
    orders, together = [], []
    for at, (files, count) in enumerate(zip(groups, outputs, strict=True)):
        size = int(pc.sum(files["size"]).as_py())
        some = max(1, -(-DECODED * size // count // RANGE_BYTES))
        sample = pa.concat_tables(samples[at])
        orders.append(learn_order(sample, clustering.by, clustering.curve, count * some))
        together.append(some)
    return tuple(orders), tuple(together)


_SHAPE = "number long, body binary"


def _tasks(spark: Session, count: int, work: Callable[[int], _Results], label: str) -> DataFrame:
    """Return a DataFrame of the results of `count` tasks. Each task gets its number."""
    failures.install()

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for at in batch.column(0).to_pylist():
                for number, body in work(at):
                    yield _answer(number, body)

    run.__name__ = f"tablefmt_{label}_{count}_tasks"
    return spark.range(0, count, 1, max(1, count)).mapInArrow(run, _SHAPE)


def _answer(number: int, body: bytes) -> pa.RecordBatch:
    columns = [pa.array([number], pa.int64()), pa.array([body], pa.binary())]
    return pa.RecordBatch.from_arrays(columns, ["number", "body"])


def _collected(frame: DataFrame) -> list[tuple[int, bytes]]:
    return [(answer[0], bytes(answer[1])) for answer in frame.collect()]


def _by_group(
    files: TransactionFiles,
    written: Iterable[tuple[int, bytes]],
    group_of: Sequence[int],
    groups: int | None = None,
) -> Added:
    """Return what tasks wrote, in the order of their numbers. Remove files of other attempts."""
    parts: list[Added] = [[] for _ in range(len(group_of) if groups is None else groups)]
    for number, body in sorted(written):
        parts[group_of[number]].append(read_back(body))
    added = [joined(each) for each in parts]
    files.keep_only(joined(added))
    return added


def _for_task(files: pa.Table) -> pa.Table:
    """Return files with the columns that a task needs."""
    own = ("vector", PARTITIONING)
    more = [n for n in files.column_names if n in own or n.startswith(("nans.", OWN))]
    return files.select([*columns_read(files), *more]).combine_chunks()


def compact_by(spark: Session) -> compact.Rewrite:
    """Return a function that rewrites the groups of a compaction in Spark's tasks."""

    def rewrite(
        txn: TransactionSnapshot, groups: tuple[PlannedGroup, ...], asked: compact.Compaction
    ) -> Staged:
        files = _files(txn, groups)
        with txn.measured.timed(REWRITE), job_description(spark, _job_step(asked.kind, files)):
            rows_max = [group.rows_max for group in groups]
            added = compact_groups(spark, rewriting(txn), files, rows_max) if files else []
        done = _rewritten(groups, added)
        return staged_rewrites(txn, asked.cls, done, asked.parameters(txn))

    return rewrite


def cluster_by(spark: Session) -> cluster.Rewrite:
    """Return a function that rewrites the groups of a clustering in Spark's tasks."""

    def rewrite(
        txn: TransactionSnapshot, groups: tuple[PlannedGroup, ...], asked: cluster.Cluster
    ) -> Staged:
        files, writer = _files(txn, groups), cluster.clustering(txn, asked)
        with txn.measured.timed(REWRITE), job_description(spark, _job_step("cluster", files)):
            outputs = [group.outputs for group in groups]
            added = cluster_groups(spark, writer, files, outputs) if files else []
        done = _rewritten(groups, added)
        cls = OperationClass.CLUSTER
        return staged_rewrites(txn, cls, done, asked.parameters(txn))

    return rewrite


def repartition_by(spark: Session) -> repartition.Rewrite:
    """Return a function that rewrites files of older partitionings in Spark's tasks."""

    def rewrite(txn: TransactionSnapshot, groups: tuple[PlannedGroup, ...]) -> list[RewrittenGroup]:
        files = _files(txn, groups)
        with txn.measured.timed(REWRITE), job_description(spark, _job_step("repartition", files)):
            added = repartition_groups(spark, rewriting(txn), files) if files else []
        return _rewritten(groups, added)

    return rewrite


def files_where(spark: Session, context: TableContext, where: str | Filters | None) -> str | None:
    """Return a condition that chooses files, with the session's time zone in it (SQL-4).

    Raises:
        InvalidPredicateError: an invalid condition.
        UnsupportedFeatureError: memory://, which Spark's workers cannot read.
    """
    check_shared(context.store)
    if where is None:
        return None
    context.view.refresh()
    schema = context.view.head.metadata.schema
    text = without_filters(where, schema)
    target = analyzed_text(text, schema, session_zone(spark))
    return target.text if target.exact else text


def _files(txn: TransactionSnapshot, groups: Sequence[PlannedGroup]) -> list[pa.Table]:
    return list(files_of_groups(txn, [group.files for group in groups]))


def _rewritten(
    groups: Sequence[PlannedGroup], added: Sequence[AddedFiles | None]
) -> list[RewrittenGroup]:
    return [RewrittenGroup(group.files, one) for group, one in zip(groups, added, strict=True)]


def _job_step(what: str, files: Sequence[pa.Table]) -> str:
    count = sum(group.num_rows for group in files)
    return f"{what}: {count} files in {len(files)} groups"
