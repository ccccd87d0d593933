"""How rows are spread over files, from options, properties and the files there are. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from tablefmt.model.entry import Metadata
from tablefmt.model.properties import get_property
from tablefmt.snapshot.head import Head
from tablefmt.spark.options import FileOptions
from tablefmt.spark.runtime.frames import Session

SHUFFLED_PER_FILE_BYTE = 3
"""Bytes that Spark shuffles for one byte of a file: rows with lz4 against columns with zstd."""

SAMPLE_ROWS = 10_000
"""Fewer rows than this in a table say too little about how large a row is."""


@dataclass(frozen=True, slots=True)
class Layout:
    """How rows are spread over files."""

    compression: str = "zstd"
    rows_max: int | None = None
    """Rows a file; None: as the session says."""
    shuffle_bytes: int | None = None
    """Bytes a task of the shuffle that `optimizeWrite` asks for; None: no shuffle."""


def session_layout(
    spark: Session, files: FileOptions, metadata: Metadata, head: Head | None
) -> Layout:
    """`layout`, with what a session says of rows a file."""
    rows_max = int(spark.conf.get("spark.sql.files.maxRecordsPerFile", "0"))
    return layout(files, metadata, head, rows_max)


def layout(
    files: FileOptions, metadata: Metadata, head: Head | None, session_rows_max: int = 0
) -> Layout:
    """What options, properties and the table's files so far say.

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
    shuffles = files.optimize
    if shuffles is None:
        shuffles = get_property(properties, "optimizeWrite") == "true"
    return Layout(files.compression, rows_max, SHUFFLED_PER_FILE_BYTE * size if shuffles else None)
