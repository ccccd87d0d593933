"""Tables in Spark's query plans: the relation that SQL reads, and the version that a query reads.

SQL resolves names against a relation before anybody can choose who reads it, and Spark itself reads
that; so the setting of a backend says nothing of a SELECT.

For the version of a query, a session with a JVM is asked by SourceVersions.java. Over Connect there
is only the text of a plan. Either way what Arrow reads for `tablefmt.spark.read` says which table
and version it is; a scan of the Python data source says neither, so it counts as one of this table,
however pinned.

Spec: CFL-22.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from tablefmt.model.name_matching import folded
from tablefmt.model.schema import Schema
from tablefmt.snapshot.log_view import LogView
from tablefmt.snapshot.table_state import Snapshot
from tablefmt.spark.backends.native.native_relation import (
    kept_relation,
    snapshot_files,
    snapshot_identity,
)
from tablefmt.spark.backends.native.relation_columns import cells
from tablefmt.spark.jvm import java_classes
from tablefmt.spark.pyspark_objects import DataFrame, JavaObject, Session, java_rows_if_any
from tablefmt.store.object_store import Store

_READ = re.compile(r"\btablefmt_arrow_([0-9a-f]{32})_v(\d+)_")
_SCANNED = re.compile(r"\bRelationV2\[[^\n]*\] (?:\S+ )?tablefmt(?:_arrow)?\b")

_LOCAL = frozenset({"LocalRelation", "CachedLocalRelation", "ChunkedCachedLocalRelation", "Range"})
_ON_TOP = frozenset({"SubqueryAlias", "ToDF", "ToSchema", "Repartition", "Limit"})
"""Nodes of a Connect client's plan: with no expression, so with no sub-query."""

_SCAN = "scan "
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):/")


def version_read(store: Store, view: LogView, query: DataFrame) -> int | None:
    """The version of the table that a DataFrame reads, sub-queries included; of several the oldest.

    None: it does not read the table, or only at versions that were asked for.
    """
    plan = java_rows_if_any(query)
    spark = query.sparkSession
    if plan is None or java_classes.problem(spark):
        return _version_in_text(view, query)
    walker = java_classes.kept(
        spark, "SourceVersions", lambda: java_classes.new_instance(spark, "SourceVersions")
    )
    lines = str(walker.of(plan)).split("\n")
    known = f"{snapshot_identity(store, view.head.table)}@"
    versions = [int(line.removeprefix(known)) for line in lines if line.startswith(known)]
    versions += _labelled(view, "\n".join(lines))
    scheme = _scheme(store.identity)
    if any(_scheme(line.removeprefix(_SCAN)) == scheme for line in lines if line.startswith(_SCAN)):
        versions.append(view.head.version)
    return min(versions, default=None)


def _version_in_text(view: LogView, query: DataFrame) -> int | None:
    """`version_read` by the text of the plan. The newest version known here is not above the one
    that a scan by format() will take when it runs.
    """
    plan = java_rows_if_any(query)
    if plan is not None:
        text = plan.queryExecution().analyzed().toString()
    elif _is_local(query):
        return None
    else:
        text = query._explain_string(extended=True)
    versions = _labelled(view, text)
    if _SCANNED.search(text):
        versions.append(view.head.version)
    return min(versions, default=None)


def _labelled(view: LogView, text: str) -> list[int]:
    """Versions of the table in labels of what Arrow reads."""
    return [int(label[2]) for label in _READ.finditer(text) if label[1] == view.head.table]


def _scheme(place: str) -> str:
    given = _SCHEME.match(place)
    scheme = folded(given[1]) if given else "file"
    return {"s3a": "s3", "s3n": "s3"}.get(scheme, scheme)


def _is_local(query: DataFrame) -> bool:
    """Whether a Connect client's query is rows that it has itself: its server need not be asked."""
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
