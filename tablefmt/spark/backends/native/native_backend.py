"""Spark itself reads and writes the files, in its own Parquet code; needs a JVM at hand.

Row changes are read as files with the change columns as columns of their group.
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
    first_uses,
    masks_of,
    rows_of_change,
    shared_files,
    turns_of,
)
from tablefmt.expressions.ddl import to_spark_json
from tablefmt.expressions.predicate import quote_name
from tablefmt.model.arrow_types import from_arrow
from tablefmt.model.log_entry import AddedFiles
from tablefmt.model.schema import Schema
from tablefmt.session.transaction_snapshot import TransactionFiles
from tablefmt.snapshot.table_state import Snapshot
from tablefmt.spark.backends.backend_protocol import (
    FILE,
    ROW,
    Backend,
    ChangeRange,
    Destination,
    Rewritten,
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
"""Rows of which each is known by its place. With more, a file is scanned for every commit that took
rows out of it."""

_change_reads = itertools.count(1)

NO_FILES = pa.schema(
    [("path", pa.string()), *((name, pa.int64()) for name in ("size", "rows", "deleted", "id"))]
).empty_table()
"""What `FileChanges.files` has at least."""


def read_changes(
    spark: Session, store: Store, of: ChangeRange, files: Sequence[FileChanges]
) -> DataFrame:
    """Rows of a range; as of `Backend`. A condition on the change columns leaves out commits.

    Spec: INC-3, INC-4.
    """
    identity = f"{store.identity}#{of.table}@changes {of.first}..{of.last} {next(_change_reads)}"
    # A file has values of the columns that it was partitioned by, and of no others.
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
    """Files out of which several commits took rows, and which rows: as RowTurns takes them."""

    scanned: Files
    packed: bytes
    marks: str

    @classmethod
    def of(
        cls, identity: str, schema: Schema, each: Sequence[FileChanges], shared: Mapping[int, Uses]
    ) -> _SharedFiles:
        """From the changes that the files are in."""
        turns = [turns_of(each, uses) for _, uses in sorted(shared.items())]
        counts = np.array([len(positions) for positions, _ in turns])
        files = first_uses(each, shared)
        # Which rows are meant is asked apart.
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
        """Their rows: one scan, and for each row a look at what is known of its place."""
        from pyspark.sql import DataFrame

        rows = to_dataframe(spark, store, self.scanned)
        limit = java_classes.long(spark, DELETED_TASK_BYTES)
        turns = java_classes.new_instance(spark, "RowTurns", self.packed, self.marks, limit)
        return DataFrame(turns.marked(java_rows(rows), "\t".join(CHANGE_COLUMNS.names)), spark)


def _files(identity: str, schema: Schema, alike: list[FileChanges]) -> Files:
    """Files of one partitioning, in groups by what happened to them and their partition values."""
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
        return read_changes(self.spark, self.store, of, files)

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
        return native_writer.write_rows(frame, self.store, to)

    def rewrite_rows(
        self, frame: DataFrame, to: Destination, names: Sequence[str], part: str
    ) -> Rewritten:
        """As of `Backend`."""
        if replaced_name(to.metadata.schema) is not None:
            return self.otherwise().rewrite_rows(frame, to, names, part)
        return native_writer.rewrite_rows(frame, self.store, to, names, part)

    def files_of(self, transaction: str) -> TransactionFiles:
        """As of `Backend`."""
        return native_writer.NativeFiles(self.spark, self.store, transaction)
