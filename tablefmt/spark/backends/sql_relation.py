"""What Spark's SQL and catalog have of a table, in a session with a JVM.

SQL resolves names against a relation before anybody can choose who reads it, and Spark itself reads
that; so the setting of a backend says nothing of a SELECT.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from tablefmt.model.schema import Schema
from tablefmt.snapshot.state import Snapshot
from tablefmt.spark.backends.native.groups import cells
from tablefmt.spark.backends.native.relation import kept_relation, snapshot_files
from tablefmt.spark.runtime.frames import JavaObject, Session
from tablefmt.store.protocol import Store


def sql_relation(
    spark: Session,
    store: Store,
    snapshot: Snapshot,
    uri: str,
    storage: Mapping[str, str],
    *,
    asked: bool,
) -> JavaObject:
    """A SnapshotRelation of the JVM over a version of a table.

    Args:
        spark: a classic session.
        store: where the table is.
        snapshot: the version.
        uri: where INSERT into the relation writes.
        storage: handed back to Python with such an INSERT.
        asked: somebody asked for the version by number or time.

    Raises:
        UnsupportedFeatureError: Hadoop has no file system for the store.
    """
    return kept_relation(spark, store, snapshot_files(store, snapshot, asked=asked), uri, storage)


def live_partitions(files: pa.Table, schema: Schema, partition_by: Sequence[int]) -> str | None:
    """The partitions that rows are in, a line each as of `Groups.values`; None: there is none.

    Args:
        files: a row a live file, with `rows` and `deleted`.
        schema: the table's.
        partition_by: ids of its partition columns, at least one, in their order.
    """
    there = files.filter(pc.greater(files["rows"], files["deleted"]))
    if there.num_rows == 0:
        return None
    columns = [schema.by_id(i) for i in partition_by]
    texts = [cells(there[f"partition.{f.id}"], f.type) for f in columns]
    lines = pc.unique(pc.binary_join_element_wise(*texts, "\t"))
    return "\n".join(sorted(lines.to_pylist()))
