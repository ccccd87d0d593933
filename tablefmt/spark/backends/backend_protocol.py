"""Protocol of execution backends, which read and write data files for statements.

`backend_choice.backend_for` returns the backend for a session and a store. Code above this package
does not know which backend it has. `layout` decides how rows are distributed over files, from
options, properties and existing files. It is pure. Spec: DAT-1 .. DAT-7, DEL-1, ADD-5.
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
"""Shuffle bytes per byte of a file: rows compressed with lz4 against columns with zstd."""

SAMPLE_ROWS = 10_000
"""Fewest rows of a table that are enough to estimate the size of a row."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Distribution of rows over files."""

    compression: str = "zstd"
    rows_max: int | None = None
    """Most rows per file. None: as the session's setting."""
    shuffle_bytes: int | None = None
    """Bytes per task of the shuffle for `optimizeWrite`. None: no shuffle."""


def session_layout(
    spark: Session, files: FileOptions, metadata: Metadata, head: Head | None
) -> Layout:
    """Return `layout` with the session's limit of rows per file."""
    rows_max = int(spark.conf.get("spark.sql.files.maxRecordsPerFile", "0") or 0)
    return layout(files, metadata, head, rows_max)


def layout(
    files: FileOptions, metadata: Metadata, head: Head | None, session_rows_max: int = 0
) -> Layout:
    """Return the layout from options, properties and the table's existing files.

    Spark's writer limits files by rows only. So a size in bytes is converted to rows, by the bytes
    per row of the existing files. Without such files, a size applies to `optimizeWrite` only.

    Args:
        files: the options of this write.
        metadata: the table's metadata, with its properties.
        head: the table's newest version. None for a new table.
        session_rows_max: spark.sql.files.maxRecordsPerFile. 0: no limit.
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
"""Index of a row's file in the list of files, from 0: an int."""

ROW = "__tablefmt_row"
"""The position of a row in its file, from 0: a long."""

SOURCE = "__tablefmt_source"
"""The number of the source row that a row of the table matched: a long."""

ACTION = "__tablefmt_action"
"""Action for a row: an int, as in `merge_pairs`."""

ROW_COLUMNS = {
    FILE: pa.field(FILE, pa.int32()),
    ROW: pa.field(ROW, pa.int64()),
    SOURCE: pa.field(SOURCE, pa.int64()),
    ACTION: pa.field(ACTION, pa.int32()),
}
"""Arrow fields of the columns above, which are in no table schema."""

_SPARK_NAMES = {pa.int32(): "integer", pa.int64(): "long"}


def spark_fields(columns: pa.Schema) -> list[dict[str, object]]:
    """Return Spark's JSON forms of some of ROW_COLUMNS, with their Parquet ids (DAT-11)."""
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
    """Destination of a query's rows, and how to write them."""

    transaction: str
    """Names the folder."""
    metadata: Metadata
    """Schema, partitioning and constraints to write with."""
    layout: Layout
    updates: bool = False
    """The rows are new versions of rows of the table, which have their numbers (IDN-3)."""

    @property
    def stats(self) -> tuple[Field, ...]:
        """Columns to collect bounds of."""
        return tuple(stats_of(self.metadata))


@dataclass(frozen=True, slots=True, eq=False)
class PositionedRows:
    """Result of a query over rows with their positions."""

    files: AddedFiles | None
    """Files written. With ACTION, they have the rows with action UPDATED only."""
    positions: pa.Table
    """Columns of ROW_COLUMNS that the query had, for all its rows."""

    def column(self, name: str) -> NDArray[np.int64]:
        """Return one of these columns as numbers. NULL becomes -1."""
        values = self.positions[name]
        if values.null_count:
            values = values.fill_null(-1)
        numbers: NDArray[np.int64] = values.to_numpy().astype(np.int64)
        return numbers


@dataclass(frozen=True, slots=True)
class ChangeRange:
    """A range of versions of which row changes are read, and the columns to read."""

    table: str
    """The table's id."""
    first: int
    last: int
    """First and last version, both inclusive."""
    schema: Schema
    """Schema of the rows, without the change columns."""


class Backend(Protocol):
    """Reads and writes the data files of one table for one session.

    Every method raises UnsupportedFeatureError if the backend does not support the request. Methods
    that run a query raise Spark's own exceptions if it fails.
    """

    def read_snapshot(self, snapshot: Snapshot, *, asked: bool = False) -> DataFrame:
        """Return the rows of a version, with columns under their logical names.

        Args:
            snapshot: the version.
            asked: True if the user asked for it by number or time, so that later commits do not
                change the result.
        """

    def read_changes(self, of: ChangeRange, files: Sequence[FileChanges]) -> DataFrame:
        """Return the rows of a range in no order, each with its change columns (INC-3).

        Args:
            of: the range.
            files: the changes of the range to read, possibly none.
        """

    def read_positions(
        self,
        files: pa.Table,
        schema: Schema,
        columns: Schema,
        partition_ids: frozenset[int],
        version: int | None,
    ) -> DataFrame:
        """Return the live rows of files, each with FILE and ROW as its last columns (DEL-1).

        Args:
            files: live files of one version, with the snapshot's columns, and `vector` as from
                `Snapshot.with_vectors`.
            schema: the version's schema.
            columns: the columns of that schema to read.
            partition_ids: ids of its partition columns.
            version: shown in plans.
        """

    def write_rows(self, frame: DataFrame, to: Destination) -> AddedFiles | None:
        """Run the query, and write its rows durably under the transaction's folder (ADD-5).

        Args:
            frame: the rows. Its columns match the table's by name.
            to: a transaction without files.

        Returns:
            The files. None if there were no rows.

        Raises:
            SchemaMismatchError: DAT-2. ConstraintViolationError: DAT-3. CommitRejectedError: not
            all written rows are in the files. After an error, the folder is empty.
        """

    def rewrite_rows(
        self, frame: DataFrame, to: Destination, names: Sequence[str], part: str
    ) -> PositionedRows:
        """Run a query over rows with positions. Write rows, and return the positions of all rows.

        Args:
            frame: the table's columns by name, and those of `names`.
            to: how files are written.
            names: those of ROW_COLUMNS that the frame has. With ACTION, only rows with action
                UPDATED are written.
            part: names the folder below the transaction's. Must differ between calls.

        Raises:
            As `write_rows`, but the files remain.
        """

    def files_of(self, transaction: str) -> TransactionFiles:
        """Return the files of a transaction, and what the backend left beside them, to clean up."""
