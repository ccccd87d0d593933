"""Native backend: Spark reads and writes the data files with its own Parquet code. Needs a JVM.

A file of row changes is read with the change columns as constant columns of its group of files.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tablefmt.changes.change_schema import CHANGE_COLUMNS, schema_of_files
from tablefmt.changes.commit_rows import (
    FileChanges,
    Uses,
    change_row_mapping,
    first_uses,
    masks_of,
    rows_of_change,
    shared_files,
)
from tablefmt.expressions.ddl import to_spark_json
from tablefmt.expressions.predicate import quote_name
from tablefmt.model.arrow_types import from_arrow
from tablefmt.model.identity_columns import identity_columns
from tablefmt.model.log_entry import AddedFiles, Metadata
from tablefmt.model.schema import Schema
from tablefmt.session.transaction_snapshot import TransactionFiles
from tablefmt.snapshot.table_state import Snapshot
from tablefmt.spark.backends.backend_protocol import (
    FILE,
    ROW,
    Backend,
    ChangeRange,
    Destination,
    PositionedRows,
)
from tablefmt.spark.backends.native import native_writer
from tablefmt.spark.backends.native.native_relation import (
    DELETED_TASK_BYTES,
    POSITION,
    Files,
    snapshot_files,
    to_dataframe,
)
from tablefmt.spark.backends.native.relation_columns import (
    Groups,
    partition_groups,
    replaced_name,
    single_groups,
)
from tablefmt.spark.jvm import java_classes
from tablefmt.spark.pyspark_objects import DataFrame, Session, java_rows
from tablefmt.spark.runtime.sql_text import selected
from tablefmt.store.object_store import Store

SHARED_ROWS = 1 << 20
"""Most rows of files that are read once for several commits, with a mapping from row to commit.

Larger files are scanned once for every commit that deleted rows of them.
"""

_change_reads = itertools.count(1)

NO_FILES = pa.schema(
    [("path", pa.string()), *((name, pa.int64()) for name in ("size", "rows", "deleted", "id"))]
).empty_table()
"""Columns that `FileChanges.files` always has."""


def read_changes(
    spark: Session, store: Store, of: ChangeRange, files: Sequence[FileChanges]
) -> DataFrame:
    """Return the rows of a range, as `Backend`. A condition on change columns prunes commits.

    Spec: INC-3, INC-4.
    """
    identity = f"{store.identity}#{of.table}@changes {of.first}..{of.last} {next(_change_reads)}"
    # A file has partition values for its own partition columns only.
    alike: dict[tuple[frozenset[int], frozenset[int]], list[FileChanges]] = {}
    for change in files:
        alike.setdefault((change.partition_ids, change.lost), []).append(change)
    frames = []
    for n, each in enumerate(alike.values() or [[]]):
        schema = schema_of_files(of.schema, each[0].lost if each else frozenset())
        shared = shared_files(each, SHARED_ROWS, rows_of_change)
        masks = masks_of(each, shared)
        apart = [
            replace(change, files=change.files.filter(pa.array(~masks[at])))
            if at in masks
            else change
            for at, change in enumerate(each)
        ]
        left = [change for change in apart if change.files.num_rows]
        if left or not shared:
            scanned = _files(f"{identity} {n}", schema, left)
            frames.append(to_dataframe(spark, store, scanned))
        if shared:
            once = _SharedFiles.of(f"{identity} {n} shared", schema, each, shared)
            frames.append(once.frame(spark, store))
    return reduce(lambda whole, part: whole.unionAll(part), frames)


@dataclass(frozen=True, slots=True, eq=False)
class _SharedFiles:
    """Files in which several commits changed rows, in the form that ChangeRowMapping takes."""

    scanned: Files
    packed: bytes
    marks: str

    @classmethod
    def of(
        cls, identity: str, schema: Schema, each: Sequence[FileChanges], shared: Mapping[int, Uses]
    ) -> _SharedFiles:
        """Build the object from the changes that have these files."""
        turns = [change_row_mapping(each, uses) for _, uses in sorted(shared.items())]
        counts = np.array([len(positions) for positions, _ in turns])
        files = first_uses(each, shared)
        # ChangeRowMapping selects the rows, so the scan reads every row.
        files = files.drop_columns("vector").append_column(
            "vector", pa.nulls(files.num_rows, pa.large_binary())
        )
        ids = each[0].partition_ids
        scanned = Files(
            identity=identity,
            columns=files,
            schema=schema,
            partition_ids=ids,
            groups=single_groups(files, schema, ids, FILE),
            positions=True,
        )
        sizes = np.stack([files["rows"].to_numpy(), counts], axis=1).ravel()
        numbers = [np.array([len(turns)]), sizes, *(p for p, _ in turns), *(t for _, t in turns)]
        lines = ["\t".join(map(str, change.marks)) for change in each]
        return cls(scanned, np.concatenate(numbers).astype("<i4").tobytes(), "\n".join(lines))

    def frame(self, spark: Session, store: Store) -> DataFrame:
        """Return the rows. One scan reads each row once and looks up its commits."""
        from pyspark.sql import DataFrame

        rows = to_dataframe(spark, store, self.scanned)
        limit = java_classes.long(DELETED_TASK_BYTES)
        mapping = java_classes.new_instance(
            spark, "ChangeRowMapping", self.packed, self.marks, limit
        )
        return DataFrame(mapping.marked(java_rows(rows), "\t".join(CHANGE_COLUMNS.names)), spark)


def _files(identity: str, schema: Schema, alike: list[FileChanges]) -> Files:
    """Return files of one partitioning, grouped by their change and their partition values."""
    ids = alike[0].partition_ids if alike else frozenset()
    columns = pa.concat_tables(
        [change.files for change in alike] or [NO_FILES], promote_options="default"
    )
    return Files(
        identity=identity,
        columns=columns,
        schema=schema,
        partition_ids=ids,
        groups=_groups(alike, partition_groups(columns, schema, ids)),
    )


def _groups(alike: list[FileChanges], partitions: Groups | None) -> Groups:
    counts = [change.files.num_rows for change in alike]
    lines = ["\t".join(map(str, change.marks)) for change in alike]
    described = to_spark_json(from_arrow(CHANGE_COLUMNS))
    of_file = pa.array(np.repeat(np.arange(len(alike)), counts))
    if partitions is None:
        return Groups(json.dumps(described), "\n".join(lines), of_file)
    described["fields"] = json.loads(partitions.columns)["fields"] + described["fields"]
    values = pa.array(partitions.values.split("\n"), pa.string()).take(partitions.of_file)
    whole = pc.binary_join_element_wise(values, pa.array(lines, pa.string()).take(of_file), "\t")
    groups = whole.dictionary_encode()
    return Groups(json.dumps(described), "\n".join(groups.dictionary.to_pylist()), groups.indices)


_numbers = itertools.count(1)


def _by_workers(metadata: Metadata) -> bool:
    """Return whether Spark's workers must write the files, and not its JVM."""
    computed = bool(identity_columns(metadata)) or any(
        f.transform is not None for f in metadata.partition_fields
    )
    return computed or replaced_name(metadata.schema) is not None


@dataclass(frozen=True, slots=True)
class NativeBackend:
    """The native `Backend`, which describes the methods."""

    spark: Session
    """A classic session."""
    store: Store
    otherwise: Callable[[], Backend]
    """Returns the backend for columns with names in which Hadoop would replace a part (SEC-4), and
    for writes of tables with identity columns, whose tasks claim numbers (IDN-2)."""

    def read_snapshot(self, snapshot: Snapshot, *, asked: bool = False) -> DataFrame:
        """Implement `Backend.read_snapshot`."""
        if replaced_name(snapshot.schema) is not None:
            return self.otherwise().read_snapshot(snapshot, asked=asked)
        files = snapshot_files(self.store, snapshot, asked=asked)
        return to_dataframe(self.spark, self.store, files, keep=True)

    def read_changes(self, of: ChangeRange, files: Sequence[FileChanges]) -> DataFrame:
        """Implement `Backend.read_changes`."""
        if replaced_name(of.schema) is not None:
            return self.otherwise().read_changes(of, files)
        return read_changes(self.spark, self.store, of, files)

    def read_positions(
        self,
        files: pa.Table,
        schema: Schema,
        columns: Schema,
        partition_ids: frozenset[int],
        version: int | None,
    ) -> DataFrame:
        """Implement `Backend.read_positions`."""
        if replaced_name(schema) is not None:
            return self.otherwise().read_positions(files, schema, columns, partition_ids, version)
        shown = "" if version is None else version
        scanned = Files(
            # A unique identity, so that Spark never treats two scans as the same.
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
        """Implement `Backend.write_rows`."""
        if _by_workers(to.metadata):
            return self.otherwise().write_rows(frame, to)
        return native_writer.write_rows(frame, self.store, to)

    def rewrite_rows(
        self, frame: DataFrame, to: Destination, names: Sequence[str], part: str
    ) -> PositionedRows:
        """Implement `Backend.rewrite_rows`."""
        if _by_workers(to.metadata):
            return self.otherwise().rewrite_rows(frame, to, names, part)
        return native_writer.rewrite_rows(frame, self.store, to, names, part)

    def files_of(self, transaction: str) -> TransactionFiles:
        """Implement `Backend.files_of`."""
        return native_writer.NativeFiles(self.spark, self.store, transaction)
