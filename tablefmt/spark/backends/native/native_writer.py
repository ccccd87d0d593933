"""Write the data files of one transaction with Spark, and collect their metadata for the log.

Rewritten rows carry the positions of their old versions. The positions are stored in the data files
as columns that are in no schema (DAT-11). So one pass over the table is enough, even if Spark
retries tasks.

Spec: DAT-1, DAT-6, DAT-7, ADD-4, ADD-5.
"""

from __future__ import annotations

import json
import logging
import uuid
from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa

from tablefmt.data.file_descriptions import describe_files
from tablefmt.data.file_prefetch import open_data_file
from tablefmt.errors import CommitRejectedError, CorruptDataError
from tablefmt.log.bounded_parquet import open_checked
from tablefmt.log.object_names import data_folder
from tablefmt.model.log_entry import AddedFiles
from tablefmt.model.name_matching import folded
from tablefmt.model.schema import Schema, physical
from tablefmt.session.merge_pairs import UPDATED
from tablefmt.session.transaction_snapshot import ALL, TransactionFiles, delete_keys
from tablefmt.spark.backends.backend_protocol import (
    ACTION,
    ROW_COLUMNS,
    Destination,
    Layout,
    PositionedRows,
    spark_fields,
)
from tablefmt.spark.backends.native import s3a
from tablefmt.spark.backends.native.hadoop_root import HadoopRoot, hadoop_root
from tablefmt.spark.columns.projection import alignment, generation, guard, misfit, missing_columns
from tablefmt.spark.jvm import java_classes
from tablefmt.spark.pyspark_objects import (
    DataFrame,
    Session,
    java_class,
    java_rows,
    java_session,
)
from tablefmt.spark.runtime import failures
from tablefmt.store.object_store import Store

SESSION_CONF = {
    # SQL text contains names and defaults of the table (SEC-4).
    "spark.sql.variable.substitute": "false",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
    "spark.sql.parquet.int96RebaseModeInWrite": "CORRECTED",
    "spark.sql.parquet.fieldId.write.enabled": "true",
    "spark.sql.parquet.writeLegacyFormat": "false",
    # Arrow cannot read shredded variants (DAT-10).
    "spark.sql.variant.writeShredding.enabled": "false",
    "spark.sql.variant.inferShreddingSchema": "false",
    "spark.sql.optimizer.plannedWrite.enabled": "true",
    "spark.sql.parquet.output.committer.class": "org.apache.parquet.hadoop.ParquetOutputCommitter",
    "spark.sql.sources.commitProtocolClass": (
        "org.apache.spark.sql.execution.datasources.SQLHadoopMapReduceCommitProtocol"
    ),
}
"""Settings of a copy of the session. The user's session and concurrent queries do not see them."""

WRITE_OPTIONS = {
    "parquet.page.write-checksum.enabled": "true",
    # A partition value must be complete in the footer.
    "parquet.statistics.truncate.length": str((1 << 31) - 1),
    "mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
    # Only version 1 publishes nothing but the files of committed attempts.
    "mapreduce.fileoutputcommitter.algorithm.version": "1",
}

POSITION_OPTIONS = {"parquet.writer.version": "v2"}
"""Additional options for rows with positions (DAT-11).

This writer version stores ascending numbers as differences, which take almost no space. It applies
to integer columns of the table, too.
"""

DIRECT_CONF = {"spark.sql.sources.commitProtocolClass": "tablefmt.DirectFiles"}
"""Additional settings of a session copy that writes to a root with `direct`."""

DIRECT_JOB = "tablefmt.direct.job"
"""The option of a write by which `DirectFiles` names its job."""

OPTIMIZED_CONF = {
    "spark.sql.adaptive.enabled": "true",
    "spark.sql.adaptive.coalescePartitions.enabled": "true",
    "spark.sql.adaptive.coalescePartitions.parallelismFirst": "false",
    "spark.sql.adaptive.optimizeSkewsInRebalancePartitions.enabled": "true",
}
"""Additional settings with `optimizeWrite`: adaptive execution sizes the tasks."""

_log = logging.getLogger(__name__)


def write_rows(frame: DataFrame, store: Store, to: Destination) -> AddedFiles | None:
    """Run the query and write its rows, as `Backend`."""
    files = NativeFiles(frame.sparkSession, store, to.transaction)
    with files.removed_on_failure():
        rows, written = write_files(frame, store, files.folder, to)
        added = described_files(store, written, to)
        check_published(rows, 0 if added is None else added.rows)
    files.keep_only(added)
    return added


def write_files(
    frame: DataFrame,
    store: Store,
    folder: str,
    to: Destination,
    more: Sequence[Mapping[str, object]] = (),
    apart: str | None = None,
) -> tuple[int, list[tuple[str, int]]]:
    """Run the query and write its rows. The files are not durable yet.

    Args:
        frame: the rows. Its columns match the table's, and those of `more`, by name.
        store: the table's store.
        folder: the transaction's folder or one below it. It must not exist.
        to: how files are written.
        more: Spark's JSON forms of columns that are in no schema (DAT-11).
        apart: a column of `more`. Each file has rows of one value of it.

    Returns:
        The number of rows that Spark's tasks report, negative if they report none; and keys and
        sizes of the files, including files without rows.

    Raises:
        As `Backend.write_rows`. Written files remain.
    """
    if store.traits.on_disk:
        # Hadoop would follow a link in the path. The store rejects it (STO-2).
        next(iter(store.list_after(folder)), None)
    root = hadoop_root(frame.sparkSession, store)
    rows, reported = _run(frame, root, folder, to, more, apart)
    if not root.direct:
        return rows, _published(frame.sparkSession, store, folder)
    if reported is None:
        raise CommitRejectedError("Spark did not say which files its tasks wrote")
    return rows, _direct(store, root, folder, reported)


def described_files(
    store: Store, written: Sequence[tuple[str, int]], to: Destination
) -> AddedFiles | None:
    """Make files durable, and return their metadata. Files without rows are removed."""
    added = describe_files(store, written, to.metadata, to.stats) if written else None
    kept = frozenset() if added is None else frozenset(added.columns["path"])
    delete_keys(store, [key for key, _ in written if key not in kept])
    if added is not None:
        store.sync(added.columns["path"])
    return added


def _published(spark: Session, store: Store, folder: str) -> list[tuple[str, int]]:
    """Return keys and sizes of a job's files below a folder. Remove the committer's records."""
    listed = [(one.key, one.size) for one in store.list_after(folder)]
    notes = s3a.magic_folders(folder, (key for key, _ in listed))
    for one in notes:
        _delete(spark, store, one)
    store.delete_folder_marker(folder)
    return [(key, size) for key, size in listed if not key.startswith(tuple(notes))]


def _direct(store: Store, root: HadoopRoot, folder: str, reported: str) -> list[tuple[str, int]]:
    """Return keys and sizes of the files that `DirectFiles` reported.

    Removes the files of failed attempts, and Hadoop's marks of folders. A file that an attempt is
    still writing is left to vacuum.
    """
    lines = [line.split("\t", 1) for line in reported.splitlines()]
    files = [(f"{folder}{path}", int(size)) for size, path in lines]
    kept = {key for key, _ in files}
    delete_keys(store, [one.key for one in store.list_after(folder) if one.key not in kept])
    if root.folder_marks == "each folder":
        store.delete_many(sorted(_folders(folder, kept)))
    elif root.folder_marks:
        # A failed attempt may have emptied it for a moment.
        store.delete_folder_marker(folder)
    return files


def _folders(folder: str, keys: Iterable[str]) -> set[str]:
    """Return a job's folder, those below it, and the transaction's, by which Hadoop marks them.

    The mark of `data` stays: each write would bring it back.
    """
    found: set[str] = set()
    for name in [folder.rstrip("/"), *(key.rpartition("/")[0] for key in keys)]:
        while "/" in name and name not in found:
            found.add(name)
            name = name.rpartition("/")[0]
    return found


class NativeFiles(TransactionFiles):
    """Files of a transaction that Spark's own committer publishes, and what it leaves behind."""

    def __init__(self, spark: Session, store: Store, transaction: str) -> None:
        super().__init__(store, transaction)
        self.spark = spark

    def remove(self, prefixes: Sequence[str] = ALL, keep: Collection[str] = ()) -> bool:
        """Remove files, as `TransactionFiles`.

        Without arguments, also remove uploads, records and empty directories of failed jobs.
        """
        if keep or prefixes != ALL:
            return super().remove(prefixes, keep)
        try:
            s3a.abort_uploads(self.store, self.folder)
            _delete(self.spark, self.store, self.folder)
        except Exception:
            # The session may be stopped.
            _log.warning("Spark could not remove the files of transaction %s", self.transaction)
            return super().remove()
        return True

    def keep_only(self, added: AddedFiles | None, prefix: str = "") -> None:
        """Remove leftovers of a job without rows. The committer publishes no other files."""
        if added is None:
            self.remove()


def _delete(spark: Session, store: Store, folder: str) -> None:
    """Delete a folder and its content with Hadoop, which deletes many objects per request."""
    root = hadoop_root(spark, store)
    conf = java_session(spark).sessionState().newHadoopConf()
    for name, value in root.settings.items():
        conf.set(name, value)
    path = java_class("org.apache.hadoop.fs.Path")(
        root.scheme, root.authority, f"{root.path}/{folder}"
    )
    path.getFileSystem(conf).delete(path, True)


def check_published(written: int, published: int) -> None:
    """Check that all written rows are in the published files.

    A committer that does not fit the session publishes no files and reports success.

    Args:
        written: number of rows that Spark's tasks report. Negative if this Spark reports none.
        published: number of rows in the published files.
    """
    if 0 <= written != published:
        raise CommitRejectedError(
            f"Spark wrote {written} rows, but the files that it published have {published}; check "
            "the session's committer settings (spark.sql.sources.commitProtocolClass, "
            "fs.s3a.committer, mapreduce.fileoutputcommitter)"
        )


def _run(
    frame: DataFrame,
    root: HadoopRoot,
    folder: str,
    to: Destination,
    more: Sequence[Mapping[str, object]],
    apart: str | None,
) -> tuple[int, str | None]:
    """Write the rows.

    Returns:
        The number of rows that Spark's tasks report, negative if they report none; and the files
        that `DirectFiles` reports, None for a root that is not `direct`.
    """
    from pyspark.errors import AnalysisException

    failures.install()
    metadata, layout = to.metadata, to.layout
    check, generate = guard(metadata), generation(frame, metadata, more)
    steps = alignment(
        frame,
        metadata.schema,
        more,
        named=check is not None or generate is not None,
        filled=missing_columns(frame, metadata),
    )
    settings, options = _settings(root, layout)
    if more:
        options.update(POSITION_OPTIONS)
        longs = [column["name"] for column in more if column["type"] == "long"]
        options.update({f"parquet.enable.dictionary#{name}": "false" for name in longs})
    write = java_classes.new_instance(
        frame.sparkSession, "NativeWrite", java_rows(frame), json.dumps(settings)
    )
    try:
        write.select(json.dumps(steps.choose))
        if steps.fit is not None:
            write.fit(json.dumps(steps.fit))
        if steps.lengths is not None:
            write.select(json.dumps(steps.lengths))
        if generate is not None:
            write.generate(json.dumps(generate.columns), generate.check)
        if check is not None:
            write.filter(check)
        if steps.rename is not None:
            write.select(json.dumps(steps.rename))
    except AnalysisException as error:
        raise misfit(error) from None
    group = None
    names = [metadata.schema.by_id(i).physical for i in metadata.partition_by]
    names += [] if apart is None else [apart]
    if names:
        group = _group_name(metadata.schema)
        write.group(group, json.dumps(names))
    if layout.shuffle_bytes is not None:
        write.rebalance(group, layout.shuffle_bytes)
    elif group is not None:
        write.keepOrder(group)
    rows: int = write.save(json.dumps(options), group, root / folder)
    return rows, write.published()


def _settings(root: HadoopRoot, layout: Layout) -> tuple[dict[str, str], dict[str, str]]:
    """Return session settings and writer options for a table at a root."""
    settings = dict(SESSION_CONF)
    options = {**WRITE_OPTIONS, "compression": layout.compression}
    if layout.rows_max is not None:
        options["maxRecordsPerFile"] = str(layout.rows_max)
    if layout.shuffle_bytes is not None:
        settings.update(OPTIMIZED_CONF)
    settings.update(root.session_conf)
    options.update({**root.write_options, **root.settings})
    if root.direct:
        settings.update(DIRECT_CONF)
        options[DIRECT_JOB] = uuid.uuid4().hex
    return settings, options


def _group_name(schema: Schema) -> str:
    """Return a name for the column that separates partitions, which no column of the files has.

    If two partitions ever have the same value in it, the footers show that, and the write fails
    (ADD-4).
    """
    taken = {folded(field.name) for field in physical(schema).fields}
    group = "__p"
    while group in taken:
        group += "_"
    return group


THREADS = 8


def rewrite_rows(
    frame: DataFrame, store: Store, to: Destination, names: Sequence[str], part: str
) -> PositionedRows:
    """Run a query over rows with positions, as `Backend`."""
    shape = pa.schema([ROW_COLUMNS[name] for name in names])
    folder = f"{data_folder(to.transaction)}{part}/"
    apart = ACTION if ACTION in names else None
    rows, written = write_files(frame, store, folder, to, spark_fields(shape), apart)
    if not names:
        added = described_files(store, written, to)
        check_published(rows, 0 if added is None else added.rows)
        return PositionedRows(added, shape.empty_table())
    positions = _read_back(store, written, shape)
    check_published(rows, sum(table.num_rows for table in positions))
    pairs = list(zip(written, positions, strict=True))
    kept = [file for file, table in pairs if table.num_rows and _is_written(table)]
    delete_keys(store, [file[0] for file in written if file not in kept])
    added = described_files(store, kept, to)
    return PositionedRows(added, pa.concat_tables([shape.empty_table(), *positions]))


def _is_written(positions: pa.Table) -> bool:
    return ACTION not in positions.column_names or positions[ACTION][0].as_py() == UPDATED


def _read_back(
    store: Store, written: Sequence[tuple[str, int]], shape: pa.Schema
) -> list[pa.Table]:
    def read(written: tuple[str, int]) -> pa.Table:
        key, size = written
        try:
            with open_data_file(store, key, size) as source:
                file = open_checked(source)
                return file.read(shape.names, use_threads=False).select(shape.names).cast(shape)
        except (OSError, ValueError, pa.ArrowException) as error:
            first = str(error).splitlines()[0]
            raise CorruptDataError(f"it cannot be read: {first}", key=key, rule="DAT-5") from None

    if len(written) < 2:
        return [read(file) for file in written]
    with ThreadPoolExecutor(min(THREADS, len(written))) as pool:
        return list(pool.map(read, written))
