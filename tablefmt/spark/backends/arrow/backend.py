"""Arrow in Spark's Python workers reads and writes the files.

For Spark Connect, for stores that Hadoop has no file system for, and for who asks for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from tablefmt.changes.commit_rows import FileChanges
from tablefmt.model.entry import AddedFiles
from tablefmt.model.schema import Schema
from tablefmt.session.files import TransactionFiles
from tablefmt.snapshot.state import Snapshot
from tablefmt.spark.backends.arrow import read, write
from tablefmt.spark.backends.base import ChangeRange, Destination, Rewritten
from tablefmt.spark.runtime.frames import DataFrame, Session
from tablefmt.store.protocol import Store


@dataclass(frozen=True, slots=True)
class ArrowBackend:
    """A `Backend`; its methods are described there."""

    spark: Session
    """Classic or Connect."""
    store: Store

    def read_snapshot(self, snapshot: Snapshot, *, asked: bool = False) -> DataFrame:
        """As of `Backend`."""
        return read.read_snapshot(self.spark, self.store, snapshot, asked=asked)

    def read_changes(self, of: ChangeRange, files: Sequence[FileChanges]) -> DataFrame:
        """As of `Backend`."""
        return read.read_changes(self.spark, self.store, of, files)

    def read_positions(
        self,
        files: pa.Table,
        schema: Schema,
        columns: Schema,
        partition_ids: frozenset[int],
        version: int | None,
    ) -> DataFrame:
        """As of `Backend`."""
        return read.read_positions(self.spark, self.store, files, schema, columns)

    def write_rows(self, frame: DataFrame, to: Destination) -> AddedFiles | None:
        """As of `Backend`."""
        return write.write_rows(frame, self.store, to)

    def rewrite_rows(
        self, frame: DataFrame, to: Destination, names: Sequence[str], part: str
    ) -> Rewritten:
        """As of `Backend`. Names of files have no part that could be one of another call."""
        return write.rewrite_rows(frame, self.store, to, names)

    def files_of(self, transaction: str) -> TransactionFiles:
        """As of `Backend`."""
        return TransactionFiles(self.store, transaction)
