"""Spark itself reads and writes the files, in its own Parquet code; needs a JVM at hand."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from tablefmt.changes.commit_rows import FileChanges
from tablefmt.expressions.predicate import quote_name
from tablefmt.model.entry import AddedFiles
from tablefmt.model.schema import Schema
from tablefmt.session.files import TransactionFiles
from tablefmt.snapshot.state import Snapshot
from tablefmt.spark.backends.base import FILE, ROW, Backend, ChangeRange, Destination, Rewritten
from tablefmt.spark.backends.native import changes as native_changes
from tablefmt.spark.backends.native import rewrite, writer
from tablefmt.spark.backends.native.groups import single_groups
from tablefmt.spark.backends.native.hadoop_text import replaced_name
from tablefmt.spark.backends.native.relation import POSITION, Files, snapshot_files, to_dataframe
from tablefmt.spark.runtime.frames import DataFrame, Session
from tablefmt.spark.runtime.sql_text import selected
from tablefmt.store.protocol import Store

_numbers = itertools.count(1)


@dataclass(frozen=True, slots=True)
class NativeBackend:
    """A `Backend`; its methods are described there."""

    spark: Session
    """Classic."""
    store: Store
    otherwise: Callable[[], Backend]
    """Gives the backend for columns whose names Hadoop would replace a part of (SEC-4)."""

    def read_snapshot(self, snapshot: Snapshot, *, asked: bool = False) -> DataFrame:
        """As of `Backend`."""
        if replaced_name(snapshot.schema) is not None:
            return self.otherwise().read_snapshot(snapshot, asked=asked)
        files = snapshot_files(self.store, snapshot, asked=asked)
        return to_dataframe(self.spark, self.store, files, keep=True)

    def read_changes(self, of: ChangeRange, files: Sequence[FileChanges]) -> DataFrame:
        """As of `Backend`."""
        if replaced_name(of.schema) is not None:
            return self.otherwise().read_changes(of, files)
        return native_changes.read_changes(self.spark, self.store, of, files)

    def read_positions(
        self,
        files: pa.Table,
        schema: Schema,
        columns: Schema,
        partition_ids: frozenset[int],
        version: int | None,
    ) -> DataFrame:
        """As of `Backend`."""
        if replaced_name(schema) is not None:
            return self.otherwise().read_positions(files, schema, columns, partition_ids, version)
        shown = "" if version is None else version
        scanned = Files(
            # No two are the same, so that Spark never takes one for another.
            identity=f"{self.store.identity}#positions {next(_numbers)}@{shown}",
            columns=files,
            schema=schema,
            partition_ids=partition_ids,
            groups=single_groups(files, schema, partition_ids, FILE),
            positions=True,
            of_statement=True,
        )
        names = [quote_name(f.name) for f in columns.fields]
        frame = to_dataframe(self.spark, self.store, scanned)
        return selected(frame, *names, FILE, f"{POSITION} AS {ROW}")

    def write_rows(self, frame: DataFrame, to: Destination) -> AddedFiles | None:
        """As of `Backend`."""
        if replaced_name(to.metadata.schema) is not None:
            return self.otherwise().write_rows(frame, to)
        return writer.write_rows(frame, self.store, to)

    def rewrite_rows(
        self, frame: DataFrame, to: Destination, names: Sequence[str], part: str
    ) -> Rewritten:
        """As of `Backend`."""
        if replaced_name(to.metadata.schema) is not None:
            return self.otherwise().rewrite_rows(frame, to, names, part)
        return rewrite.rewrite_rows(frame, self.store, to, names, part)

    def files_of(self, transaction: str) -> TransactionFiles:
        """As of `Backend`."""
        return writer.NativeFiles(self.spark, self.store, transaction)
