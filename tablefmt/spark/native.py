"""Spark writes the data files of one transaction itself; what comes of it goes to the log.

Spec: DAT-1, DAT-6, DAT-7, ADD-4, ADD-5.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from tablefmt.data.footer import describe_files
from tablefmt.log.names import data_folder
from tablefmt.model.entry import AddedFiles, Metadata
from tablefmt.model.predicate import quote_name
from tablefmt.model.schema import Field
from tablefmt.spark import java
from tablefmt.spark.relation import hadoop_root
from tablefmt.store.protocol import Store

SESSION_CONF = {
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
    "spark.sql.parquet.int96RebaseModeInWrite": "CORRECTED",
    "spark.sql.parquet.fieldId.write.enabled": "true",
    "spark.sql.parquet.writeLegacyFormat": "false",
    "spark.sql.parquet.output.committer.class": "org.apache.parquet.hadoop.ParquetOutputCommitter",
    "spark.sql.sources.commitProtocolClass": (
        "org.apache.spark.sql.execution.datasources.SQLHadoopMapReduceCommitProtocol"
    ),
}
"""Set on a copy of the session: neither the user's session nor a query beside it sees them."""

WRITE_OPTIONS = {
    "compression": "zstd",
    "parquet.page.write-checksum.enabled": "true",
    # A partition value has to come out of the footer whole.
    "parquet.statistics.truncate.length": str((1 << 31) - 1),
    "mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
    # The first algorithm alone publishes the files of winning attempts and of no other.
    "mapreduce.fileoutputcommitter.algorithm.version": "1",
    # The default local file system leaves a hidden checksum file beside every file.
    "fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
    "fs.file.impl.disable.cache": "true",
}

_log = logging.getLogger(__name__)


def write_native(
    frame: Any, store: Store, transaction: str, metadata: Metadata, stats: Sequence[Field]
) -> AddedFiles | None:
    """Run the query and write its rows under the transaction's folder, durably (ADD-5).

    Args:
        frame: a DataFrame with exactly the table's columns under their physical names.
        store: the table's.
        transaction: names the folder, which must be new.
        metadata: schema and partitioning to write under.
        stats: columns to keep bounds of.

    Returns:
        The files; None if there were no rows.

    Raises:
        ConstraintViolationError: DAT-3. Spark's own exceptions if the query fails. Either way
        nothing stays under the folder.
    """
    try:
        _run(frame, store, transaction, metadata)
        folder = data_folder(transaction)
        written = [(found.key, found.size) for found in store.list_after(folder)]
        added = describe_files(store, written, metadata, stats)
        kept = set(added.columns["path"]) if added is not None else set()
        for key, _ in written:
            if key not in kept:
                store.delete(key)
        if added is not None:
            store.sync(added.columns["path"])
            return added
    except BaseException:
        remove_folder(frame.sparkSession, store, transaction)
        raise
    remove_folder(frame.sparkSession, store, transaction)
    return None


def remove_folder(spark: Any, store: Store, transaction: str) -> None:
    """Delete whatever a transaction wrote, empty directories too. For one never committed."""
    try:
        path = _path(spark, store, transaction)
        system = path.getFileSystem(spark._jsparkSession.sessionState().newHadoopConf())
        system.delete(path, True)
    except Exception:
        # What stays is an orphan: no entry names it.
        _log.warning("files of transaction %s could not be removed", transaction, exc_info=True)


def _path(spark: Any, store: Store, transaction: str) -> Any:
    scheme, root = hadoop_root(store)
    folder = f"{root}/{data_folder(transaction)}"
    return spark._jvm.org.apache.hadoop.fs.Path(scheme, None, folder)


def _run(frame: Any, store: Store, transaction: str, metadata: Metadata) -> None:
    spark = frame.sparkSession
    frame, group = _grouped(frame, metadata)
    session = spark._jsparkSession.cloneSession()
    for name, value in SESSION_CONF.items():
        session.conf().set(name, value)
    dataset = java.scala_object(spark._jvm, "org.apache.spark.sql.classic.Dataset")
    writer = dataset.ofRows(session, frame._jdf.logicalPlan()).write()
    writer = writer.format("parquet").mode("append")
    for name, value in WRITE_OPTIONS.items():
        writer = writer.option(name, value)
    if group is not None:
        writer = writer.partitionBy(java.string_array(spark, [group]))
    scheme, root = hadoop_root(store)
    writer.save(f"{scheme}:{root}/{data_folder(transaction)}")


def _grouped(frame: Any, metadata: Metadata) -> tuple[Any, str | None]:
    """The rows with a column that tells partitions apart, to be written a file each.

    The column is a hash, so that no value gets into a path. Flags keep (NULL, 'a') from
    ('a', NULL): a hash passes over NULL. Should two partitions ever share a hash, the footers show
    it and the write fails (ADD-4).
    """
    if not metadata.partition_by:
        return frame, None
    from pyspark.sql import functions

    taken = {name.casefold() for name in frame.columns}
    group = "__p"
    while group in taken:
        group += "_"
    parts = []
    for field_id in metadata.partition_by:
        column = functions.col(quote_name(metadata.schema.by_id(field_id).physical))
        parts += [column.isNull(), column]
    return frame.withColumn(group, functions.xxhash64(*parts)), group
