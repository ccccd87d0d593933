"""Copy-on-write by Spark: rows that stay in files of which others go are written again in tasks.

One task a file, and what comes back is what an entry says of the files written. Spec: DEL-1, LIN-1,
ADD-5.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from tablefmt.conflict.facts import Ids, Output
from tablefmt.data.bounds import stats_of
from tablefmt.data.known_values import columns_read
from tablefmt.data.read import answer_schema, read_files
from tablefmt.data.write import write_data
from tablefmt.model.entry import AddedFiles, Metadata
from tablefmt.model.positions import pack_positions
from tablefmt.model.schema import Field, Schema
from tablefmt.session.change_plan import CopyRows, Rows
from tablefmt.session.files import TransactionFiles
from tablefmt.session.row_changes import flagged, runs_of
from tablefmt.session.snapshot import TransactionSnapshot, joined
from tablefmt.spark.backends.choice import check_shared
from tablefmt.spark.backends.task_results import described, read_back
from tablefmt.spark.backends.workers import check_workers, for_workers
from tablefmt.spark.runtime import failures
from tablefmt.spark.runtime.failures import carrying
from tablefmt.spark.runtime.frames import Session
from tablefmt.spark.runtime.jobs import job_description
from tablefmt.store.protocol import Store

JOB_BYTES = 32 << 20
"""Bitmaps that go to the tasks of one job; with more there are several jobs, one after another."""

_log = logging.getLogger("tablefmt.spark")


@dataclass(frozen=True, slots=True)
class CopyRowsTask:
    """Writes the rows that a file still has to files of a transaction."""

    store: Store
    transaction: str
    schema: Schema
    """The one to read under."""
    metadata: Metadata
    """What to write under. Constraints held when the rows came in."""
    stats: tuple[Field, ...]
    prefix: str
    """Of the names of all files that the statement carries."""

    def copy_rows(self, file: pa.Table, number: int) -> AddedFiles | None:
        """Write the rows of one file, under names that no other attempt has; then it is durable.

        Args:
            file: one row, as `read_files` takes it.
            number: tells the files apart.

        Raises:
            CorruptDataError, StoreError, with a record that `recovered` finds.
        """
        with carrying():
            columns = self.schema.fields
            batches = read_files(self.store, file, self.schema, columns)
            return write_data(
                self.store,
                self.transaction,
                pa.RecordBatchReader.from_batches(answer_schema(columns), batches),
                self.metadata,
                self.stats,
                prefix=f"{self.prefix}{number:05d}-{secrets.token_hex(8)}-",
            )


def copy_rows_in_tasks(spark: Session) -> CopyRows:
    """What `stage_changes` calls to write rows that stay; in tasks of this session.

    If a task fails for good, Spark's own exception leaves, or the TablefmtError behind it, and what
    the tasks wrote is removed.
    """

    def copy(
        pinned: TransactionSnapshot, ids: Ids, removed: Rows
    ) -> tuple[AddedFiles | None, tuple[Output, ...]]:
        if not len(ids):
            return None, ()
        failures.install()
        check_shared(pinned.store)
        check_workers(spark)
        step = f"copy-on-write: writing the rows that stay of {len(ids)} files"
        prefix = f"carry-{secrets.token_hex(4)}-"
        files = TransactionFiles(pinned.store, pinned.transaction)
        with files.removed_on_failure((prefix,)), job_description(spark, step):
            return _copied(spark, pinned, ids, removed, prefix)

    return copy


def _copied(
    spark: Session, pinned: TransactionSnapshot, ids: Ids, removed: Rows, prefix: str
) -> tuple[AddedFiles | None, tuple[Output, ...]]:
    snapshot = pinned.snapshot
    places = pc.index_in(pa.array(ids, pa.int64()), snapshot.files["id"].combine_chunks())
    files = snapshot.files.take(places).combine_chunks()
    dropped = [snapshot.positions(int(file)) | removed[int(file)] for file in ids]
    vectors = [pack_positions(rows) for rows in dropped]
    read = files.select([name for name in columns_read(files) if name != "deleted"])
    read = read.append_column("vector", pa.array(vectors, pa.large_binary()))
    under = replace(pinned.target, constraints={})
    stats = stats_of(under)
    task = CopyRowsTask(
        for_workers(pinned.store),
        pinned.transaction,
        snapshot.schema,
        under,
        tuple(stats),
        prefix,
    )
    parts: list[AddedFiles] = []
    outputs: list[Output] = []
    for start, end in _jobs([len(v) for v in vectors]):
        singles = [read.slice(at, 1) for at in range(start, end)]
        for at, added in enumerate(_run(spark, task, singles, start), start):
            assert added is not None, "a file that does not go whole has rows left"
            inputs = [(int(ids[at]), files["rows"][at].as_py(), dropped[at])]
            outputs.extend(enumerate(runs_of(inputs, added.columns["rows"]), len(outputs)))
            parts.append(flagged(added, updated=False))
    added = joined(parts)
    assert added is not None
    TransactionFiles(pinned.store, pinned.transaction).keep_winners(added, prefix)
    _log.info("carried %d rows of %d files in tasks", added.rows, len(ids))
    return added, tuple(outputs)


def _jobs(sizes: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Runs of files whose bitmaps go together."""
    start = held = 0
    for at, size in enumerate(sizes):
        if at > start and held + size > JOB_BYTES:
            yield start, at
            start, held = at, 0
        held += size
    yield start, len(sizes)


def _run(
    spark: Session, task: CopyRowsTask, singles: Sequence[pa.Table], first: int
) -> list[AddedFiles | None]:
    """What was written for each file, in their order."""

    def tablefmt_copy_rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for at in batch.column(0).to_pylist():
                body = described(task.copy_rows(singles[at], first + at))
                columns = [pa.array([at], pa.int64()), pa.array([body], pa.binary())]
                yield pa.RecordBatch.from_arrays(columns, ["file", "written"])

    count = len(singles)
    numbers = spark.range(0, count, 1, count)
    answers = numbers.mapInArrow(tablefmt_copy_rows, "file bigint, written binary").collect()
    written = {row[0]: read_back(bytes(row[1])) for row in answers}
    return [written[at] for at in range(count)]
