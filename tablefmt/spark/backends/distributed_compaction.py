"""Compaction and clustering by Spark: planned here, carried out by tasks, one commit.

There is a task for every file that is written. Arrow in the workers reads and writes the files,
whoever does it for queries; so it works over Spark Connect as well. Tasks are values that travel to
the workers: files in, files out, no row in between. Where rows have to go from one worker to
another they are bytes that nobody looks into.

Spec: CMP-1 .. CMP-6, ADD-5.
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
from tablefmt.model.log_entry import AddedFiles, OperationClass
from tablefmt.operations import cluster, compact
from tablefmt.operations.compact import Rewritten, files_of_groups, rewriting, staged_rewrites
from tablefmt.operations.compact_plan import PlannedGroup
from tablefmt.session.measurements import REWRITE
from tablefmt.session.table_context import TableContext
from tablefmt.session.transaction_snapshot import TransactionFiles, TransactionSnapshot
from tablefmt.spark.backends.arrow.arrow_tasks import groups_of, packed, unpacked
from tablefmt.spark.backends.backend_choice import check_shared
from tablefmt.spark.backends.python_workers import (
    check_workers,
    described,
    for_workers,
    merged,
    read_back,
)
from tablefmt.spark.columns.row_conditions import analyzed_text, session_zone, without_filters
from tablefmt.spark.pyspark_objects import DataFrame, Session, functions_of
from tablefmt.spark.runtime import failures
from tablefmt.spark.runtime.failures import carrying
from tablefmt.spark.runtime.spark_jobs import job_description

PARCEL_BYTES = 4 << 20
"""Arrow data of rows that go from worker to worker as one value, at most about."""

_LZ4 = pa.ipc.IpcWriteOptions(compression="lz4")


@contextmanager
def _attempt(rewriting: Rewriting, number: int) -> Iterator[str]:
    """What the names of the files of one attempt begin with; they go if it fails."""
    prefix = f"{number:05d}-{secrets.token_hex(8)}-"
    files = TransactionFiles(rewriting.store, rewriting.transaction, shared=True)
    with carrying(), files.removed_on_failure((prefix,)):
        yield prefix


@dataclass(frozen=True, slots=True, eq=False)
class CompactTask:
    """Writes groups of files again, in their order."""

    rewriting: Rewriting
    groups: tuple[pa.Table, ...]
    rows_max: tuple[int | None, ...]

    def write(self, group: int) -> AddedFiles | None:
        """What came of one group. Raises as `Rewriting.in_order`, with a record for `recovered`."""
        with _attempt(self.rewriting, group) as prefix:
            return self.rewriting.in_order(self.groups[group], prefix, self.rows_max[group])


@dataclass(frozen=True, slots=True, eq=False)
class SampleTask:
    """Reads what orders are learnt from."""

    clustering: Clustering
    parts: tuple[tuple[int, pa.Table], ...]
    """Files, and the number of the group that they are of."""
    steps: tuple[int, ...]
    """One row in how many is taken of each group."""

    def read(self, part: int) -> tuple[int, bytes]:
        """A group's number, and rows of it. Raises CorruptDataError, as of `CompactTask.write`."""
        group, files = self.parts[part]
        with carrying():
            return group, packed(self.clustering.sample(files, self.steps[group]))


@dataclass(frozen=True, slots=True, eq=False)
class ApartTask:
    """Reads rows and puts them apart by where they are to go."""

    clustering: Clustering
    parts: tuple[tuple[int, pa.Table], ...]
    orders: tuple[RowOrder, ...]
    together: tuple[int, ...]
    """Ranges of each group's order that are written by one task."""
    firsts: tuple[int, ...]
    """The number of the first of those tasks."""

    def read(self, part: int) -> Iterator[tuple[int, bytes]]:
        """The number of a task that writes, and rows for it."""
        group, files = self.parts[part]
        order, together = self.orders[group], self.together[group]
        with carrying():
            for number, rows in self.clustering.put_apart(files, order, together):
                for parcel in _parcels(rows):
                    yield self.firsts[group] + number, parcel


@dataclass(frozen=True, slots=True, eq=False)
class OrderTask:
    """Writes the rows of some ranges in order, as one file."""

    clustering: Clustering
    orders: tuple[RowOrder, ...]
    partitions: tuple[dict[str, Any], ...]
    group_of: tuple[int, ...]
    """Of every task that writes."""

    def write(self, number: int, parcels: Iterable[bytes]) -> AddedFiles | None:
        """What came of one task's rows. Raises as of `CompactTask.write`."""
        group = self.group_of[number]
        with _attempt(self.clustering.rewriting, number) as prefix:
            return self.clustering.write_rows(
                _opened(parcels), self.orders[group], prefix, self.partitions[group]
            )


def steps_of(rows: Iterable[int]) -> tuple[int, ...]:
    """Of groups of so many rows, one row in how many is enough for an order."""
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
"""Times the size of a file that its rows take in Arrow, at most as a rule."""

Added = list[AddedFiles | None]
"""By group."""

_Results = Iterator[tuple[int, bytes]]


def compact_groups(
    spark: Session,
    rewriting: Rewriting,
    groups: Sequence[pa.Table],
    rows_max: Sequence[int | None],
) -> Added:
    """Write groups of files again in their order, each in a task.

    Args:
        spark: a session, classic or Connect. Its workers have to see the store, and have tablefmt.
        rewriting: how.
        groups: files as of `Rewriting.in_order`.
        rows_max: of each group, as there.

    Raises:
        CorruptDataError: DAT-5. CommitRejectedError: the store refused a file. Spark's own
        exceptions. Then nothing stays.
    """
    check_workers(spark)
    rewriting = replace(rewriting, store=for_workers(rewriting.store))
    task = CompactTask(rewriting, tuple(map(_narrow, groups)), tuple(rows_max))

    def work(group: int) -> _Results:
        yield group, described(task.write(group))

    files = TransactionFiles(rewriting.store, rewriting.transaction)
    with files.removed_on_failure():
        written = _collected(_tasks(spark, len(groups), work, "compact"))
        return _by_group(files, written, range(len(groups)))


def cluster_groups(
    spark: Session, clustering: Clustering, groups: Sequence[pa.Table], outputs: Sequence[int]
) -> Added:
    """Write groups of files again in another order: learnt from a sample, then rows go to the task
    that writes their range.

    Args:
        spark: as of `compact_groups`.
        clustering: how.
        groups: files as of `Clustering.write`.
        outputs: how many files come of each.

    Raises:
        As `compact_groups`; StoreError if a worker's disk of temporary files is full.
    """
    check_workers(spark)
    store = for_workers(clustering.rewriting.store)
    clustering = replace(clustering, rewriting=replace(clustering.rewriting, store=store))
    parts = tuple((at, part) for at, files in enumerate(groups) for part in groups_of(files))
    orders, together = _orders(spark, clustering, groups, parts, outputs)
    count = [-(-order.count // some) for order, some in zip(orders, together, strict=True)]
    firsts = tuple(np.cumsum([0, *count])[:-1].tolist())
    group_of = tuple(at for at, tasks in enumerate(count) for _ in range(tasks))
    apart = ApartTask(clustering, parts, orders, together, firsts)
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
        rows = _tasks(spark, len(parts), apart.read, "read_to_cluster")
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
    """The order of each group, and how many of its ranges make a file."""
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
    """A DataFrame of what `count` tasks give, each called with its number."""
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
    """What tasks wrote, in the order of their numbers; attempts that lost leave nothing."""
    parts: list[Added] = [[] for _ in range(len(group_of) if groups is None else groups)]
    for number, body in sorted(written):
        parts[group_of[number]].append(read_back(body))
    added = [merged(each) for each in parts]
    files.keep_only(merged(added))
    return added


def _narrow(files: pa.Table) -> pa.Table:
    """What a task looks at of files."""
    more = [n for n in files.column_names if n == "vector" or n.startswith("nans.")]
    return files.select([*columns_read(files), *more]).combine_chunks()


def compact_by(spark: Session) -> compact.Rewrite:
    """Spark's tasks write the groups of a compaction."""

    def rewrite(
        txn: TransactionSnapshot, groups: tuple[PlannedGroup, ...], asked: compact.Compaction
    ) -> Staged:
        files = _files(txn, groups)
        with txn.measured.timed(REWRITE), job_description(spark, _step(asked.kind, files)):
            rows_max = [group.rows_max for group in groups]
            added = compact_groups(spark, rewriting(txn), files, rows_max) if files else []
        done = _rewritten(groups, added)
        return staged_rewrites(txn, asked.cls, done, asked.parameters(txn))

    return rewrite


def cluster_by(spark: Session) -> cluster.Rewrite:
    """Spark's tasks write the groups of a clustering."""

    def rewrite(
        txn: TransactionSnapshot, groups: tuple[PlannedGroup, ...], asked: cluster.Cluster
    ) -> Staged:
        files, writer = _files(txn, groups), cluster.clustering(txn, asked)
        with txn.measured.timed(REWRITE), job_description(spark, _step("cluster", files)):
            outputs = [group.outputs for group in groups]
            added = cluster_groups(spark, writer, files, outputs) if files else []
        done = _rewritten(groups, added)
        cls = OperationClass.CLUSTER
        return staged_rewrites(txn, cls, done, asked.parameters(txn))

    return rewrite


def files_where(spark: Session, context: TableContext, where: str | Filters | None) -> str | None:
    """A condition that chooses files, with the session's zone in it (SQL-4).

    Raises:
        InvalidPredicateError: it makes no sense.
        UnsupportedFeatureError: memory://, which Spark's workers do not see.
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
) -> list[Rewritten]:
    return [Rewritten(group.files, one) for group, one in zip(groups, added, strict=True)]


def _step(what: str, files: Sequence[pa.Table]) -> str:
    count = sum(group.num_rows for group in files)
    return f"{what}: {count} files in {len(files)} groups"
