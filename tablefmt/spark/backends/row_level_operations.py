"""Building blocks of row-level changes: read rows with their positions, and rewrite rows.

Spark reads live rows with their positions, and lists or aggregates the positions. The driver gets
one bit or a pair of numbers per row. New rows are written under the transaction's folder by the
execution backend. Copy-on-write rewrites the remaining rows of a file in tasks, one task per file.
The tasks return the metadata of the files that they wrote.

Spec: DEL-1, DEL-4, LIN-1, ADD-5.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyroaring import BitMap64

from tablefmt.conflict.read_write_sets import Ids, Output
from tablefmt.data.arrow_scanner import columns_read
from tablefmt.data.column_bounds import stats_of
from tablefmt.data.data_writer import write_data
from tablefmt.data.row_reader import answer_schema, read_files
from tablefmt.errors import SchemaMismatchError
from tablefmt.model.identity_columns import without_identities
from tablefmt.model.log_entry import PARTITIONING, AddedFiles, Metadata
from tablefmt.model.name_matching import folded
from tablefmt.model.positions import pack_positions
from tablefmt.model.schema import Field, Schema
from tablefmt.session.measurements import REWRITE
from tablefmt.session.merge_pairs import positions_by_file
from tablefmt.session.row_changes import CopyRows, Rows, flagged, partitioning_of, runs_of
from tablefmt.session.transaction_snapshot import TransactionFiles, TransactionSnapshot, joined
from tablefmt.spark.backends.backend_choice import backend_for, check_shared
from tablefmt.spark.backends.backend_protocol import (
    FILE,
    ROW,
    Destination,
    PositionedRows,
    session_layout,
)
from tablefmt.spark.backends.python_workers import check_workers, described, for_workers, read_back
from tablefmt.spark.pyspark_objects import DataFrame, Session
from tablefmt.spark.runtime import failures
from tablefmt.spark.runtime.failures import carrying
from tablefmt.spark.runtime.spark_jobs import job_description
from tablefmt.spark.runtime.sql_text import selected
from tablefmt.spark.spark_options import WriteOptions
from tablefmt.store.object_store import Store


def rewrite(
    spark: Session,
    txn: TransactionSnapshot,
    frame: DataFrame,
    names: Sequence[str],
    options: WriteOptions,
    part: str = "u",
) -> PositionedRows:
    """Run a query, and write its rows durably to files under the transaction's folder (ADD-5).

    Args:
        spark: the session.
        txn: the transaction, at its version.
        frame: the table's columns by name, and those of `names`.
        names: those of FILE, ROW, SOURCE and ACTION that the frame has.
        options: how the files are written.
        part: names the folder below the transaction's. Must differ between calls.

    Raises:
        SchemaMismatchError: DAT-2. ConstraintViolationError: DAT-3. CommitRejectedError: not all
        rows that Spark wrote are in the files. Spark's own exceptions if the query fails. Files are
        not removed.
    """
    layout = session_layout(spark, options.files, txn.target, txn.view.head)
    # Rows without positions are new.
    to = Destination(txn.transaction, txn.target, layout, updates=bool(names))
    backend = backend_for(spark, txn.store)
    with txn.measured.timed(REWRITE):
        return backend.rewrite_rows(frame, to, names, part)


def with_positions(
    spark: Session,
    store: Store,
    files: pa.Table,
    schema: Schema,
    partition_ids: frozenset[int],
    *,
    columns: Sequence[Field] | None = None,
    version: int | None = None,
) -> DataFrame:
    """Return the live rows of files as a DataFrame, with FILE and ROW as its last columns.

    A condition on the DataFrame prunes whole files, as in `tablefmt.spark.read`. The native backend
    also skips unused columns.

    Args:
        spark: a session, classic or Connect.
        store: the store of the files.
        files: live files of one version, with the snapshot's columns, and `vector` as from
            `Snapshot.with_vectors`.
        schema: the version's schema.
        partition_ids: the version's partition columns.
        columns: the columns to read. None: all.
        version: shown in plans.

    Raises:
        SchemaMismatchError: a column of the table is named FILE or ROW.
        UnsupportedFeatureError: no backend can reach the store.
    """
    taken = [f.name for f in schema.fields if folded(f.name) in (FILE, ROW)]
    if taken:
        raise SchemaMismatchError(
            f"column {taken[0]!r} has a name that tablefmt reserves for row-level changes; rename "
            "the column",
            taken,
        )
    read = schema if columns is None else Schema(tuple(columns), schema.last_id)
    backend = backend_for(spark, store)
    return backend.read_positions(files, schema, read, partition_ids, version)


LISTED_MAX = 1 << 24
"""Most rows of files with positions that are listed, without a shuffle.

Positions in larger files are aggregated to bitmaps, 32,768 bits per row.
"""

_BITS = 32768

_BUCKET, _MAP = "bucket", "bits"


def find_positions(rows: DataFrame, ids: NDArray[np.int64], count: int) -> dict[int, BitMap64]:
    """Run a query, and return the positions of its rows by file id.

    Args:
        rows: a DataFrame with FILE and ROW. No row occurs twice.
        ids: the ids of the files, indexed by FILE.
        count: the number of rows of these files.
    """
    if count <= LISTED_MAX:
        pairs = rows.select(FILE, ROW).toArrow()
        return positions_by_file(_numbers(pairs, FILE), _numbers(pairs, ROW), ids)
    # Spark's bitmap functions count from 1.
    bits = selected(
        rows,
        FILE,
        f"bitmap_bucket_number({ROW} + 1) AS {_BUCKET}",
        f"bitmap_bit_position({ROW} + 1) AS {_MAP}",
    )
    grouped = bits.groupBy(FILE, _BUCKET).agg({_MAP: "bitmap_construct_agg"})
    return _from_bits(grouped.toDF(FILE, _BUCKET, _MAP).toArrow(), ids)


def _from_bits(bitmaps: pa.Table, ids: NDArray[np.int64]) -> dict[int, BitMap64]:
    result: dict[int, BitMap64] = {}
    columns = (bitmaps[name].to_pylist() for name in (FILE, _BUCKET, _MAP))
    for place, bucket, body in zip(*columns, strict=True):
        bits = np.unpackbits(np.frombuffer(body, np.uint8), bitorder="little")
        positions = np.flatnonzero(bits).astype(np.uint64) + np.uint64((bucket - 1) * _BITS)
        result.setdefault(int(ids[place]), BitMap64()).update(BitMap64(positions))
    return result


def _numbers(table: pa.Table, name: str) -> NDArray[np.int64]:
    numbers: NDArray[np.int64] = table[name].to_numpy().astype(np.int64)
    return numbers


JOB_BYTES = 32 << 20
"""Bytes of bitmaps that travel to the tasks of one job. More bitmaps need several jobs in a row."""

_log = logging.getLogger("tablefmt.spark")


@dataclass(frozen=True, slots=True)
class CopyRowsTask:
    """Copies the remaining rows of a file to files of a transaction."""

    store: Store
    transaction: str
    schema: Schema
    """Schema to read the file with."""
    metadata: Metadata
    """Metadata to write with. It has no constraints: the rows were checked when they were added."""
    stats: tuple[Field, ...]
    prefix: str
    """Prefix of the names of all files with rows that the statement copies."""

    def copy_rows(self, file: pa.Table, number: int) -> AddedFiles | None:
        """Write the remaining rows of one file, durably, under names that no other attempt uses.

        Args:
            file: one row, as `read_files` takes it.
            number: distinguishes the files.

        Raises:
            CorruptDataError, StoreError, with a record that `recovered` finds.
        """
        with carrying():
            columns, partitioning = self.schema.fields, partitioning_of(file)
            batches = read_files(self.store, file, self.schema, columns)
            under = self.metadata
            if partitioning is not None:
                under = under.partitioned_as(partitioning)
            added = write_data(
                self.store,
                self.transaction,
                pa.RecordBatchReader.from_batches(answer_schema(columns), batches),
                under,
                self.stats,
                prefix=f"{self.prefix}{number:05d}-{secrets.token_hex(8)}-",
            )
            return added if added is None or partitioning is None else added.numbered(partitioning)


def copy_rows_in_tasks(spark: Session) -> CopyRows:
    """Return the function that `stage_changes` calls to copy rows, in tasks of this session.

    If a task fails for good, the function raises Spark's own exception, or the TablefmtError behind
    it, and removes the files of the tasks.
    """

    def copy(
        txn: TransactionSnapshot, ids: Ids, removed: Rows
    ) -> tuple[AddedFiles | None, tuple[Output, ...]]:
        if not len(ids):
            return None, ()
        failures.install()
        check_shared(txn.store)
        check_workers(spark)
        step = f"copy-on-write: copying the remaining rows of {len(ids)} files"
        prefix = f"carry-{secrets.token_hex(4)}-"
        files = TransactionFiles(txn.store, txn.transaction)
        with files.removed_on_failure((prefix,)), job_description(spark, step):
            return _copied(spark, txn, ids, removed, prefix)

    return copy


def _copied(
    spark: Session, txn: TransactionSnapshot, ids: Ids, removed: Rows, prefix: str
) -> tuple[AddedFiles | None, tuple[Output, ...]]:
    """Copy files without the removed rows, one file a task. Return new files and their sources."""
    snapshot = txn.snapshot
    places = pc.index_in(pa.array(ids, pa.int64()), snapshot.files["id"].combine_chunks())
    files = snapshot.files.take(places).combine_chunks()
    dropped = [snapshot.positions(int(file)) | removed[int(file)] for file in ids]
    vectors = [pack_positions(rows) for rows in dropped]
    kept = {*columns_read(files), PARTITIONING} - {"deleted"}
    read = files.select([name for name in files.column_names if name in kept])
    read = read.append_column("vector", pa.array(vectors, pa.large_binary()))
    under = replace(without_identities(txn.target), constraints={})
    stats = stats_of(under)
    task = CopyRowsTask(
        for_workers(txn.store),
        txn.transaction,
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
            assert added is not None, "a file that is not removed as a whole has rows left"
            inputs = [(int(ids[at]), files["rows"][at].as_py(), dropped[at])]
            outputs.extend(enumerate(runs_of(inputs, added.columns["rows"]), len(outputs)))
            parts.append(flagged(added, updated=False))
    added = joined(parts)
    assert added is not None
    TransactionFiles(txn.store, txn.transaction).keep_only(added, prefix)
    _log.info("copied %d rows of %d files in tasks", added.rows, len(ids))
    return added, tuple(outputs)


def _jobs(sizes: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield ranges of files with bitmaps that travel together."""
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
    """Return the files written for each input file, in their order."""

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
