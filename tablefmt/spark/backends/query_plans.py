"""Tables in Spark's query plans: the relation that SQL reads, and the versions that a query reads.

SQL resolves names to a relation before an execution backend can be chosen, and Spark itself reads
that relation. So the backend setting does not affect a SELECT. Imported files with names of their
own are an exception (IMP-4): the optimizer replaces their relation with a read through Arrow.

With a JVM, SourceVersions.java finds the versions that a query reads. Over Connect there is only
the text of a plan. In both cases, labels of Arrow reads of `tablefmt.spark.read` contain the table
and the version. A scan of the Python data source shows neither. So it counts as a read of this
table, at whatever version.

Spec: CFL-22.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from tablefmt.model.schema import Schema
from tablefmt.snapshot.log_view import LogView
from tablefmt.snapshot.table_state import Snapshot
from tablefmt.spark.backends.backend_choice import arrow_backend
from tablefmt.spark.backends.native.native_relation import (
    kept_relation,
    snapshot_files,
    snapshot_identity,
)
from tablefmt.spark.backends.native.relation_columns import cells
from tablefmt.spark.jvm import java_classes
from tablefmt.spark.pyspark_objects import (
    DataFrame,
    JavaObject,
    Session,
    connect_plan,
    java_rows_if_any,
)
from tablefmt.store.location import scheme_of
from tablefmt.store.object_store import Store

_READ = re.compile(r"\btablefmt_arrow_([0-9a-f]{32})_v(\d+)_")
_SCANNED = re.compile(r"\bRelationV2\[[^\n]*\] (?:\S+ )?tablefmt(?:_arrow)?\b")

_LOCAL = frozenset({"LocalRelation", "CachedLocalRelation", "ChunkedCachedLocalRelation", "Range"})
_ON_TOP = frozenset({"SubqueryAlias", "ToDF", "ToSchema", "Repartition", "Limit"})
"""Nodes of a Connect client's plan without expressions, and so without subqueries."""

_SCAN = "scan "


def versions_read(store: Store, view: LogView, query: DataFrame) -> list[int]:
    """Return the versions of the table that a DataFrame and its subqueries read, ascending.

    Versions that the user asked for do not count.
    """
    plan = java_rows_if_any(query)
    spark = query.sparkSession
    if plan is None or java_classes.problem(spark):
        return _versions_in_text(view, query)
    walker = java_classes.cached_in_jvm(
        spark, "SourceVersions", lambda: java_classes.new_instance(spark, "SourceVersions")
    )
    lines = str(walker.of(plan)).split("\n")
    known = f"{snapshot_identity(store, view.head.table)}@"
    versions = [int(line.removeprefix(known)) for line in lines if line.startswith(known)]
    versions += _labelled(view, "\n".join(lines))
    scanned = [line.removeprefix(_SCAN) for line in lines if line.startswith(_SCAN)]
    if any(scheme_of(uri) == store.traits.scheme for uri in scanned):
        versions.append(view.head.version)
    return sorted(set(versions))


def _versions_in_text(view: LogView, query: DataFrame) -> list[int]:
    """Return `versions_read` from the text of the plan.

    A scan by format() reads the newest version when it runs. That is at least the newest version
    known here.
    """
    plan = java_rows_if_any(query)
    if plan is not None:
        text = plan.queryExecution().analyzed().toString()
    elif _is_local(query):
        return []
    else:
        text = connect_plan(query)
    versions = _labelled(view, text)
    if _SCANNED.search(text):
        versions.append(view.head.version)
    return sorted(set(versions))


def _labelled(view: LogView, text: str) -> list[int]:
    """Return the versions of the table in labels of Arrow reads."""
    return [int(label[2]) for label in _READ.finditer(text) if label[1] == view.head.table]


def _is_local(query: DataFrame) -> bool:
    """Return whether a Connect client's query is local data: the server need not be asked."""
    plan = getattr(query, "_plan", None)
    while type(plan).__name__ in _ON_TOP:
        plan = getattr(plan, "_child", None)
    return type(plan).__name__ in _LOCAL


def sql_relation(
    spark: Session,
    store: Store,
    snapshot: Snapshot,
    uri: str,
    storage: Mapping[str, str],
    *,
    asked: bool,
) -> JavaObject:
    """Return a SnapshotRelation of the JVM over a version of a table.

    Args:
        spark: a classic session.
        store: the table's store.
        snapshot: the version.
        uri: the location that INSERT into the relation writes to.
        storage: passed back to Python by an INSERT.
        asked: True if the user asked for the version by number or time.

    Raises:
        UnsupportedFeatureError: Hadoop has no file system for the store.
    """

    def otherwise() -> DataFrame:
        return arrow_backend(spark, store).read_snapshot(snapshot, asked=asked)

    files = replace(snapshot_files(store, snapshot, asked=asked), otherwise=otherwise)
    return kept_relation(spark, store, files, uri, storage)


def live_partitions(files: pa.Table, schema: Schema, partition_by: Sequence[int]) -> str | None:
    """Return the partitions with rows, one line each as in `Groups.values`. None: there is none.

    Args:
        files: one row per live file, with `rows` and `deleted`.
        schema: the table's schema.
        partition_by: ids of its partition columns in their order, at least one.
    """
    there = files.filter(pc.greater(files["rows"], files["deleted"]))
    if there.num_rows == 0:
        return None
    columns = [schema.by_id(i) for i in partition_by]
    texts = [cells(there[f"partition.{f.id}"], f.type) for f in columns]
    lines = pc.unique(pc.binary_join_element_wise(*texts, "\t"))
    return "\n".join(sorted(lines.to_pylist()))
