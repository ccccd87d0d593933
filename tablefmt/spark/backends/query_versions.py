"""Which version of a table a query reads, found in its plan, whoever reads the files.

A session with a JVM is asked by SourceVersions.java. Over Connect there is only the text of a plan.
Either way what Arrow reads for `tablefmt.spark.read` says which table and version it is; a scan of
the Python data source says neither, so it counts as one of this table, however pinned.

Spec: CFL-22.
"""

from __future__ import annotations

import re

from tablefmt.model.case_folding import folded
from tablefmt.snapshot.load import LogView
from tablefmt.spark.backends.native.relation import snapshot_identity
from tablefmt.spark.jvm import loader
from tablefmt.spark.jvm.pyspark_parts import java_rows_if_any
from tablefmt.spark.runtime.frames import DataFrame
from tablefmt.store.protocol import Store

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
    if plan is None or loader.problem(spark):
        return _version_in_text(view, query)
    walker = loader.kept(
        spark, "SourceVersions", lambda: loader.new_instance(spark, "SourceVersions")
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
