"""Which version of a table a query reads: what is then written there depends on it.

An INSERT, OVERWRITE or MERGE whose source reads the table, and a statement with a sub-query over
it, read all of the table's rows for the conflict rules, at the version that the query is pinned to.
A version that somebody asked for by number or time is a constant, whatever commits.

Spec: CFL-8, CFL-10.
"""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np

from tablefmt.commit.plan import Plan
from tablefmt.conflict.facts import Read
from tablefmt.operations.context import TableContext
from tablefmt.operations.pinned import Pinned
from tablefmt.operations.transaction import with_reads
from tablefmt.snapshot.load import LogView
from tablefmt.spark import java
from tablefmt.spark.read import snapshot_identity
from tablefmt.store.protocol import Store

_walkers: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()


def version_read(store: Store, view: LogView, query: Any) -> int | None:
    """The version of the table that a DataFrame reads, sub-queries included; of several the oldest.

    None: it does not read the table, or only at versions that were asked for; or the session is one
    of Spark Connect, which keeps its plans to itself.
    """
    plan = getattr(query, "_jdf", None)
    spark = query.sparkSession
    if plan is None or java.problem(spark):
        return None
    jvm = java.gateway(spark)
    if jvm not in _walkers:
        _walkers[jvm] = java.new_instance(spark, "Queried")
    known = f"{snapshot_identity(store, view)}@"
    lines = str(_walkers[jvm].snapshots(plan)).split("\n")
    found = [line.removeprefix(known) for line in lines if line.startswith(known)]
    return min(map(int, found), default=None)


def pinned_to(pinned: Pinned, version: int) -> Pinned:
    """The same transaction on the version that its query reads."""
    if version > pinned.view.head.version:
        pinned.view.refresh()
    other = Pinned(pinned.store, pinned.view, version, pinned.transaction, pinned.measured)
    if pinned.target != pinned.metadata:
        other.target = pinned.target
    return other


def with_query(plan: Plan, pinned: Pinned) -> Plan:
    """The plan of a statement whose query read the table at the pinned version: class UPDATE."""
    if plan.is_empty:
        return plan
    files = np.sort(pinned.snapshot.files["id"].to_numpy())
    return with_reads(plan, (Read(by_row=False, files=files),), pinned)


def pin_query(context: TableContext, query: Any) -> Pinned | None:
    """What `with_query` needs for a query that reads the table; None if it does not."""
    version = version_read(context.store, context.view, query)
    return None if version is None else context.pin(version)
