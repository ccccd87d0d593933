"""Compaction and clustering spread by Spark: a task for every file that is written.

Arrow in the workers reads and writes the files, whoever does it for queries; so it works over Spark
Connect as well. Spec: CMP-1, CMP-5, CMP-6, ADD-5.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tablefmt.data.clustering import RANGE_BYTES, Clustering
from tablefmt.data.known_values import columns_read
from tablefmt.data.rewrite import Rewriting
from tablefmt.data.row_order import RowOrder, learn_order
from tablefmt.model.entry import AddedFiles
from tablefmt.session.files import TransactionFiles
from tablefmt.spark.backends.arrow.layout_tasks import (
    ApartTask,
    CompactTask,
    OrderTask,
    SampleTask,
    steps_of,
)
from tablefmt.spark.backends.arrow.tasks import groups_of, unpacked
from tablefmt.spark.backends.task_results import described, merged, read_back
from tablefmt.spark.backends.workers import check_workers, for_workers
from tablefmt.spark.runtime import failures
from tablefmt.spark.runtime.frames import DataFrame, Session, functions_of

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
    files.keep_winners(merged(added))
    return added


def _narrow(files: pa.Table) -> pa.Table:
    """What a task looks at of files."""
    more = [n for n in files.column_names if n == "vector" or n.startswith("nans.")]
    return files.select([*columns_read(files), *more]).combine_chunks()
