"""Spark writes the data files of one transaction itself; what comes of it goes to the log.

Spec: DAT-1, DAT-6, DAT-7, ADD-4, ADD-5.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from typing import Any

from tablefmt.data.footer import describe_files
from tablefmt.errors import CommitRejectedError
from tablefmt.log.names import data_folder
from tablefmt.model.entry import AddedFiles, Metadata
from tablefmt.model.properties import get_property
from tablefmt.model.schema import Field, Schema
from tablefmt.model.schema_views import physical
from tablefmt.session.context import discard
from tablefmt.snapshot.head import Head
from tablefmt.spark.backends.base import Layout
from tablefmt.spark.backends.native import s3
from tablefmt.spark.backends.native.relation import HadoopRoot, hadoop_root
from tablefmt.spark.columns.constraints import guard
from tablefmt.spark.columns.projection import alignment, misfit
from tablefmt.spark.jvm import loader
from tablefmt.spark.runtime import failures
from tablefmt.spark.runtime.options import FileOptions
from tablefmt.store.protocol import Store

SESSION_CONF = {
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
    "spark.sql.parquet.int96RebaseModeInWrite": "CORRECTED",
    "spark.sql.parquet.fieldId.write.enabled": "true",
    "spark.sql.parquet.writeLegacyFormat": "false",
    # Arrow reads no variant whose parts have columns of their own (DAT-10).
    "spark.sql.variant.writeShredding.enabled": "false",
    "spark.sql.variant.inferShreddingSchema": "false",
    "spark.sql.optimizer.plannedWrite.enabled": "true",
    "spark.sql.parquet.output.committer.class": "org.apache.parquet.hadoop.ParquetOutputCommitter",
    "spark.sql.sources.commitProtocolClass": (
        "org.apache.spark.sql.execution.datasources.SQLHadoopMapReduceCommitProtocol"
    ),
}
"""Set on a copy of the session: neither the user's session nor a query beside it sees them."""

WRITE_OPTIONS = {
    "parquet.page.write-checksum.enabled": "true",
    # A partition value has to come out of the footer whole.
    "parquet.statistics.truncate.length": str((1 << 31) - 1),
    "mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
    # The first algorithm alone publishes the files of winning attempts and of no other.
    "mapreduce.fileoutputcommitter.algorithm.version": "1",
}

PLACED_OPTIONS = {"parquet.writer.version": "v2"}
"""On top of that for rows that carry their places (DAT-11): positions in order are then written as
their differences, which take next to nothing, and so are whole numbers of the table's.
"""

LOCAL_OPTIONS = {
    # The default local file system leaves a hidden checksum file beside every file.
    "fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
    "fs.file.impl.disable.cache": "true",
}

OPTIMIZED_CONF = {
    "spark.sql.adaptive.enabled": "true",
    "spark.sql.adaptive.coalescePartitions.enabled": "true",
    "spark.sql.adaptive.coalescePartitions.parallelismFirst": "false",
    "spark.sql.adaptive.optimizeSkewsInRebalancePartitions.enabled": "true",
}
"""On top of that with `optimizeWrite`: adaptive execution is what sizes the tasks."""

SHUFFLED_PER_FILE_BYTE = 3
"""Bytes that Spark shuffles for one byte of a file: rows with lz4 against columns with zstd."""

SAMPLE_ROWS = 10_000
"""Fewer rows than this in a table say too little about how large a row is."""

_log = logging.getLogger(__name__)


def layout(
    files: FileOptions, metadata: Metadata, head: Head | None, session_rows_max: int = 0
) -> Layout:
    """What options, properties and the table's files so far say. Pure.

    Spark's writer rolls by rows alone, so a size in bytes becomes rows by the bytes a row of the
    table's files. Without such files a size holds with `optimizeWrite` alone.

    Args:
        files: the options of this write.
        metadata: the table's, with its properties.
        head: the table's newest version; None for a new table.
        session_rows_max: spark.sql.files.maxRecordsPerFile; 0: none.
    """
    properties = metadata.properties
    size = files.target_file_size or int(get_property(properties, "targetFileSize"))
    rows_max = files.max_records or session_rows_max or None
    totals = None if head is None else head.totals
    if totals is not None and totals.rows >= SAMPLE_ROWS and totals.bytes > 0:
        by_size = max(1, size * totals.rows // totals.bytes)
        rows_max = min(rows_max or by_size, by_size)
    wanted = files.optimize
    if wanted is None:
        wanted = get_property(properties, "optimizeWrite") == "true"
    return Layout(files.compression, rows_max, SHUFFLED_PER_FILE_BYTE * size if wanted else None)


def write_native(
    frame: Any,
    store: Store,
    transaction: str,
    metadata: Metadata,
    stats: Sequence[Field],
    spread: Layout,
) -> AddedFiles | None:
    """Run the query and write its rows under the transaction's folder, durably (ADD-5).

    Args:
        frame: a DataFrame; its columns go to the table's by name.
        store: the table's.
        transaction: names the folder, which must be new.
        metadata: schema and partitioning to write under.
        stats: columns to keep bounds of.
        spread: how rows are spread over files.

    Returns:
        The files; None if there were no rows.

    Raises:
        SchemaMismatchError: DAT-2. ConstraintViolationError: DAT-3. Spark's own exceptions if the
        query fails. CommitRejectedError: the files are not all that Spark wrote. Either way nothing
        stays under the folder.
    """
    try:
        said = _run(frame, store, data_folder(transaction), metadata, spread)
        folder = data_folder(transaction)
        written = _published(frame.sparkSession, store, folder)
        added = describe_files(store, written, metadata, stats)
        kept = set(added.columns["path"]) if added is not None else set()
        for key, _ in written:
            if key not in kept:
                store.delete(key)
        check_published(said, 0 if added is None else added.rows)
        if added is not None:
            store.sync(added.columns["path"])
            return added
    except BaseException:
        remove_folder(frame.sparkSession, store, transaction)
        raise
    remove_folder(frame.sparkSession, store, transaction)
    return None


def write_more(
    frame: Any,
    store: Store,
    folder: str,
    metadata: Metadata,
    spread: Layout,
    more: Sequence[Mapping[str, Any]],
    apart: str | None = None,
) -> tuple[int, list[tuple[str, int]]]:
    """Run the query and write its rows with columns that no schema names (DAT-11); not durably yet.

    Args:
        frame: as of `write_native`, and the columns of `more`.
        store: the table's.
        folder: below the transaction's; new.
        metadata: schema and partitioning to write under.
        spread: how rows are spread over files.
        more: Spark's JSON forms of those columns.
        apart: one of them: a file holds rows of one value of it.

    Returns:
        Rows that Spark's tasks say they wrote, negative if they do not say; and keys and sizes of
        the files, those without rows too.

    Raises:
        As `write_native`; what was written stays.
    """
    said = _run(frame, store, folder, metadata, spread, more, apart)
    return said, _published(frame.sparkSession, store, folder)


def _published(spark: Any, store: Store, folder: str) -> list[tuple[str, int]]:
    """Keys and sizes of the files that a job left below a folder; its committer's notes go."""
    found = [(one.key, one.size) for one in store.list_after(folder)]
    notes = s3.magic_folders(folder, (key for key, _ in found))
    for one in notes:
        _delete(spark, store, one)
    s3.remove_markers(store, folder)
    return [(key, size) for key, size in found if not key.startswith(tuple(notes))]


def remove_folder(spark: Any, store: Store, transaction: str) -> None:
    """Delete whatever a transaction wrote, empty directories too. For one never committed."""
    try:
        s3.abort_uploads(store, data_folder(transaction))
        _delete(spark, store, data_folder(transaction))
    except Exception:
        # The session may have been stopped. What stays even so is an orphan: no entry names it.
        _log.warning("Spark could not remove the files of transaction %s", transaction)
        discard(store, transaction)


def _delete(spark: Any, store: Store, folder: str) -> None:
    """Delete a folder and what is in it, by Hadoop: many objects a request."""
    root = hadoop_root(store)
    conf = spark._jsparkSession.sessionState().newHadoopConf()
    for name, value in root.settings.items():
        conf.set(name, value)
    path = spark._jvm.org.apache.hadoop.fs.Path(
        root.scheme, root.authority, f"{root.path}/{folder}"
    )
    path.getFileSystem(conf).delete(path, True)


def check_published(said: int, found: int) -> None:
    """A committer that does not fit the session publishes no files, and says that all is well.

    Args:
        said: rows that Spark's tasks wrote; negative if this Spark does not say.
        found: rows in the files that are there.
    """
    if 0 <= said != found:
        raise CommitRejectedError(
            f"Spark wrote {said} rows and the files that it published hold {found}; look for "
            "settings of this session about committers (spark.sql.sources.commitProtocolClass, "
            "fs.s3a.committer, mapreduce.fileoutputcommitter)"
        )


def _run(
    frame: Any,
    store: Store,
    folder: str,
    metadata: Metadata,
    spread: Layout,
    more: Sequence[Mapping[str, Any]] = (),
    apart: str | None = None,
) -> int:
    """Rows that Spark's tasks say they wrote; negative if they do not say."""
    from pyspark.errors import AnalysisException

    failures.install()
    check = guard(metadata)
    steps = alignment(frame, metadata.schema, more, named=check is not None)
    root = hadoop_root(store)
    settings, options = _settings(root, spread)
    if more:
        options.update(PLACED_OPTIONS)
        longs = [column["name"] for column in more if column["type"] == "long"]
        options.update({f"parquet.enable.dictionary#{name}": "false" for name in longs})
    write = loader.new_instance(frame.sparkSession, "NativeWrite", frame._jdf, json.dumps(settings))
    try:
        write.select(json.dumps(steps.choose))
        if steps.fit is not None:
            write.fit(json.dumps(steps.fit))
        if steps.lengths is not None:
            write.select(json.dumps(steps.lengths))
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
    if spread.shuffle_bytes is not None:
        write.rebalance(group, spread.shuffle_bytes)
    elif group is not None:
        write.keepOrder(group)
    rows: int = write.save(json.dumps(options), group, root / folder)
    return rows


def _settings(root: HadoopRoot, spread: Layout) -> tuple[dict[str, str], dict[str, str]]:
    """Session settings, and options of the writer, for a table there."""
    settings = dict(SESSION_CONF)
    options = {**WRITE_OPTIONS, "compression": spread.compression}
    if spread.rows_max is not None:
        options["maxRecordsPerFile"] = str(spread.rows_max)
    if spread.shuffle_bytes is not None:
        settings.update(OPTIMIZED_CONF)
    if root.scheme == "file":
        options.update(LOCAL_OPTIONS)
    else:
        settings.update(s3.SESSION_CONF)
        options.update(s3.WRITE_OPTIONS)
        options.update(root.settings)
    return settings, options


def _group_name(schema: Schema) -> str:
    """A name for the column that tells partitions apart, which no column of the files has.

    Should two partitions ever share its value, the footers show it and the write fails (ADD-4).
    """
    taken = {field.name.casefold() for field in physical(schema).fields}
    group = "__p"
    while group in taken:
        group += "_"
    return group
