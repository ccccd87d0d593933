"""What statements and verbs need of whoever reads and writes data files: one protocol.

`backend_choice.backend_for` gives the backend for a session and a store; nobody above this package
knows which it is. `Layout` says how rows are spread over files, from options, properties and the
files there are, and is pure. Spec: DAT-1 .. DAT-7, DEL-1, ADD-5.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tablefmt.changes.commit_rows import FileChanges
from tablefmt.data.column_bounds import stats_of
from tablefmt.model.log_entry import AddedFiles, Metadata
from tablefmt.model.properties import get_property
from tablefmt.model.schema import Field, Schema
from tablefmt.model.schema_rules import HIDDEN_IDS
from tablefmt.session.transaction_snapshot import TransactionFiles
from tablefmt.snapshot.head import Head
from tablefmt.snapshot.table_state import Snapshot
from tablefmt.spark.pyspark_objects import DataFrame, Session
from tablefmt.spark.spark_options import FileOptions

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


FILE = "__tablefmt_file"
"""The place of a row's file among those given, from 0: an int."""

ROW = "__tablefmt_row"
"""The position of a row in its file, from 0: a long."""

SOURCE = "__tablefmt_source"
"""The number of the source row that a row of the table matched: a long."""

ACTION = "__tablefmt_action"
"""What becomes of a row: an int, as of `merge_pairs`."""

ROW_COLUMNS = {
    FILE: pa.field(FILE, pa.int32()),
    ROW: pa.field(ROW, pa.int64()),
    SOURCE: pa.field(SOURCE, pa.int64()),
    ACTION: pa.field(ACTION, pa.int32()),
}
"""Columns of the kind that no schema of a table names."""

_SPARK_NAMES = {pa.int32(): "integer", pa.int64(): "long"}


def spark_fields(columns: pa.Schema) -> list[dict[str, object]]:
    """Spark's JSON forms of some of ROW_COLUMNS, with their Parquet ids (DAT-11)."""
    return [
        {
            "name": field.name,
            "type": _SPARK_NAMES[field.type],
            "nullable": True,
            "metadata": {"parquet.field.id": HIDDEN_IDS[field.name]},
        }
        for field in columns
    ]


@dataclass(frozen=True, slots=True)
class Destination:
    """Where the rows of a query go, and how."""

    transaction: str
    """Names the folder."""
    metadata: Metadata
    """Schema, partitioning and constraints to write under."""
    layout: Layout

    @property
    def stats(self) -> tuple[Field, ...]:
        """Columns to keep bounds of."""
        return tuple(stats_of(self.metadata))


@dataclass(frozen=True, slots=True, eq=False)
class Rewritten:
    """What came of a query of rows with their positions."""

    files: AddedFiles | None
    """Of the rows written; with ACTION of those with UPDATED there."""
    positions: pa.Table
    """Those of ROW_COLUMNS that the query had, of all its rows."""

    def column(self, name: str) -> NDArray[np.int64]:
        """One of them, as numbers; NULL is -1."""
        values = self.positions[name]
        if values.null_count:
            values = values.fill_null(-1)
        numbers: NDArray[np.int64] = values.to_numpy().astype(np.int64)
        return numbers


@dataclass(frozen=True, slots=True)
class ChangeRange:
    """Versions whose row changes are read, and in which columns."""

    table: str
    """The table's id."""
    first: int
    last: int
    """Both inclusive."""
    schema: Schema
    """Of the rows, without the change columns."""


class Backend(Protocol):
    """Reads and writes the data files of one store's table for one session.

    Every method raises UnsupportedFeatureError where this backend cannot do what is asked, and what
    runs a query Spark's own exceptions if it fails.
    """

    def read_snapshot(self, snapshot: Snapshot, *, asked: bool = False) -> DataFrame:
        """The rows of a version, columns under their logical names.

        Args:
            snapshot: the version.
            asked: somebody asked for it by number or time, so that no commit will change it.
        """

    def read_changes(self, of: ChangeRange, files: Sequence[FileChanges]) -> DataFrame:
        """Rows of a range, each with its change columns (INC-3); in no order.

        Args:
            of: the range.
            files: those of its changes that are read; there may be none.
        """

    def read_positions(
        self,
        files: pa.Table,
        schema: Schema,
        columns: Schema,
        partition_ids: frozenset[int],
        version: int | None,
    ) -> DataFrame:
        """The live rows of files, each with FILE and ROW as its last columns (DEL-1).

        Args:
            files: live files of one version, with the snapshot's columns; `vector` as
                `Snapshot.with_vectors` gives it.
            schema: the version's.
            columns: those to read, of that schema.
            partition_ids: ids of its partition columns.
            version: shown in plans.
        """

    def write_rows(self, frame: DataFrame, to: Destination) -> AddedFiles | None:
        """Run the query and write its rows under the transaction's folder, durably (ADD-5).

        Args:
            frame: its columns go to the table's by name.
            to: a transaction with no file yet.

        Returns:
            The files; None if there were no rows.

        Raises:
            SchemaMismatchError: DAT-2. ConstraintViolationError: DAT-3. CommitRejectedError: the
            files are not all that was written. Then nothing stays under the folder.
        """

    def rewrite_rows(
        self, frame: DataFrame, to: Destination, names: Sequence[str], part: str
    ) -> Rewritten:
        """Run a query over rows with positions; write rows, and give the positions of all.

        Args:
            frame: the table's columns by name, and those of `names`.
            to: what files are written.
            names: of ROW_COLUMNS, those there are; with ACTION only rows with UPDATED are written.
            part: names the folder below the transaction's: one for every call.

        Raises:
            As `write_rows`; but the files stay.
        """

    def files_of(self, transaction: str) -> TransactionFiles:
        """What a transaction wrote, and this backend left beside it, to be removed or kept."""
