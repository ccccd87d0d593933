"""Which version of a table a query reads: what is then written there depends on it.

An INSERT, OVERWRITE or MERGE whose source reads the table, and a statement with a sub-query over
it, read all of the table's rows for the conflict rules, at the version that the query is pinned to.
A version that somebody asked for by number or time is a constant, whatever commits.

On the Arrow plane there is only the text of a plan. What `tablefmt.spark.read` gives says there
which table and version it is; a scan by `format("tablefmt")` says neither, so it counts as one of
this table, however pinned.

Spec: CFL-22.
"""

from __future__ import annotations

import re
import weakref
from typing import Any

import numpy as np

from tablefmt.commit.plan import Plan
from tablefmt.conflict.facts import Read
from tablefmt.session.context import TableContext
from tablefmt.session.snapshot import TransactionSnapshot
from tablefmt.session.source import with_reads
from tablefmt.snapshot.load import LogView
from tablefmt.spark.backends import choice
from tablefmt.spark.jvm import loader
from tablefmt.spark.statements.snapshots import snapshot_identity
from tablefmt.store.protocol import Store

_READ = re.compile(r"\btablefmt_arrow_([0-9a-f]{32})_v(\d+)_")
_SCANNED = re.compile(r"\bRelationV2\[[^\n]*\] (?:\S+ )?tablefmt(?:_arrow)?\b")

_LOCAL = frozenset({"LocalRelation", "CachedLocalRelation", "ChunkedCachedLocalRelation", "Range"})
_ON_TOP = frozenset({"SubqueryAlias", "ToDF", "ToSchema", "Repartition", "Limit"})
"""Nodes of a Connect client's plan: with no expression, so with no sub-query."""

_walkers: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()


def version_read(store: Store, view: LogView, query: Any) -> int | None:
    """The version of the table that a DataFrame reads, sub-queries included; of several the oldest.

    None: it does not read the table, or only at versions that were asked for.
    """
    plan = getattr(query, "_jdf", None)
    spark = query.sparkSession
    if plan is None or loader.problem(spark) or choice.choose(spark, store).kind == "arrow":
        return _version_said(view, query)
    jvm = loader.gateway(spark)
    if jvm not in _walkers:
        _walkers[jvm] = loader.new_instance(spark, "Queried")
    known = f"{snapshot_identity(store, view)}@"
    lines = str(_walkers[jvm].snapshots(plan)).split("\n")
    found = [line.removeprefix(known) for line in lines if line.startswith(known)]
    return min(map(int, found), default=None)


def _version_said(view: LogView, query: Any) -> int | None:
    """`version_read` by the text of the plan. The newest version known here is not above the one
    that a scan by format() will take when it runs.
    """
    plan = getattr(query, "_jdf", None)
    if plan is not None:
        text = plan.queryExecution().analyzed().toString()
    elif _is_local(query):
        return None
    else:
        text = query._explain_string(extended=True)
    versions = [int(found[2]) for found in _READ.finditer(text) if found[1] == view.head.table]
    if _SCANNED.search(text):
        versions.append(view.head.version)
    return min(versions, default=None)


def _is_local(query: Any) -> bool:
    """Whether a Connect client's query is rows that it has itself: its server need not be asked."""
    plan = getattr(query, "_plan", None)
    while type(plan).__name__ in _ON_TOP:
        plan = getattr(plan, "_child", None)
    return type(plan).__name__ in _LOCAL


def pinned_to(pinned: TransactionSnapshot, version: int) -> TransactionSnapshot:
    """The same transaction on the version that its query reads."""
    if version > pinned.view.head.version:
        pinned.view.refresh()
    other = TransactionSnapshot(
        pinned.store, pinned.view, version, pinned.transaction, pinned.measured
    )
    if pinned.target != pinned.metadata:
        other.target = pinned.target
    return other


def with_query(plan: Plan, pinned: TransactionSnapshot) -> Plan:
    """The plan of a statement whose query read the table at the pinned version: class UPDATE."""
    if plan.is_empty:
        return plan
    files = np.sort(pinned.snapshot.files["id"].to_numpy())
    return with_reads(plan, (Read(by_row=False, files=files),), pinned)


def pin_query(context: TableContext, query: Any) -> TransactionSnapshot | None:
    """What `with_query` needs for a query that reads the table; None if it does not."""
    version = version_read(context.store, context.view, query)
    return None if version is None else context.pin(version)
