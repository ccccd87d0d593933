"""Choice of the compaction or clustering that a table needs, and automatic compaction after writes.

A table with a clustering order is clustered, every other table is compacted.

Tables with the property `autoCompact` are compacted in the background after writes. No write waits
for such a compaction or fails by it. Spec: CMP-7, CMP-8.
"""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass, field
from functools import partial
from weakref import WeakKeyDictionary

import numpy as np
import pyarrow.compute as pc

from tablefmt.data.selection import Condition
from tablefmt.model.clustering_columns import clustering_of
from tablefmt.model.log_entry import NOT_LOGICAL, Entry, Metadata
from tablefmt.model.properties import get_property
from tablefmt.operations.cluster import Cluster, cluster_statement, order_here
from tablefmt.operations.compact import Compaction, compact_statement, rewrite_here
from tablefmt.operations.compact_plan import HOLES, OVERLAPS, LayoutPlan, PlannedGroup
from tablefmt.session.background_work import BackgroundWork
from tablefmt.session.commit_options import CommitOptions
from tablefmt.session.staging import autocommit
from tablefmt.session.statement import Statement
from tablefmt.session.table_context import TableContext
from tablefmt.snapshot.log_view import LogView

logger = logging.getLogger(__name__)

MORE_FILES = 50
"""A writer plans a compaction when the table has this many more files than at its last plan."""

GROUP_FILES = 10
"""Least files of a group, so that no file is rewritten for a few rows."""

MOST_BYTES = 1 << 30
"""Most bytes in the files of one compaction, unless a single group has more."""


@dataclass(eq=False)
class _Watch:
    """State of a process for one log."""

    files: int = 0
    """Number of files at the last plan."""
    background: BackgroundWork = field(
        default_factory=lambda: BackgroundWork("automatic compaction failed")
    )


_watches: WeakKeyDictionary[LogView, _Watch] = WeakKeyDictionary()


def layout_of(metadata: Metadata, where: Condition = None) -> Compaction | Cluster:
    """Return the compaction of a table, or the clustering if the table has an order (CMP-8)."""
    return Cluster(where=where) if clustering_of(metadata) else Compaction(where=where)


def layout_here(asked: Compaction | Cluster, groups: tuple[PlannedGroup, ...]) -> Statement:
    """Return the statement that rewrites planned groups in threads of this process."""
    if isinstance(asked, Cluster):
        return cluster_statement(asked, order_here(), groups)
    return compact_statement(asked, rewrite_here(), groups)


def watch(context: TableContext) -> None:
    """Start compactions after commits of this handle when they are due."""
    context.afterwards = partial(_committed, context)


def _committed(context: TableContext, entry: Entry) -> None:
    properties, environment = context.view.head.metadata.properties, context.environment
    if get_property(properties, "autoCompact") != "true":
        return
    # In this mode, a compaction would conflict with concurrent changes of rows.
    if get_property(properties, "deleteMode") == "copy-on-write":
        return
    if entry.add is None or entry.operation.cls in NOT_LOGICAL:
        return
    known = _watches.get(context.view) or _watches.setdefault(context.view, _Watch())
    known.files = min(known.files, entry.totals.files)
    if entry.totals.files - known.files < MORE_FILES:
        return
    known.background.start(environment, lambda: _compact(context, known))


def _compact(context: TableContext, known: _Watch) -> None:
    # Use a separate handle, because the writer's handle stays at the version that it wrote.
    own = TableContext(context.store, context.view, context.environment)
    asked = layout_of(own.begin().metadata)
    plan = asked.plan(own.pin(own.view.head.version))
    # A clustering may merge files of any size. In the background, it is bounded.
    most = MOST_BYTES if isinstance(asked, Cluster) else math.inf
    groups = worthwhile(plan, largest=most)
    everything = worthwhile(plan, largest=most, most_bytes=math.inf)
    if groups:
        commit = autocommit(own, layout_here(asked, groups), CommitOptions())
        logger.info("version %d: %s", commit.version, commit.operation)
    if len(groups) == len(everything):
        known.files = own.view.head.totals.files


def worthwhile(
    plan: LayoutPlan,
    *,
    rows_deleted: bool = False,
    most_bytes: float | None = None,
    largest: float = math.inf,
) -> tuple[PlannedGroup, ...]:
    """Return the groups of a plan that are large enough, up to a bound of bytes. Pure.

    The first such group is included even if it is above the bound.

    Args:
        plan: of a MINOR compaction, or of a clustering in the table's order.
        rows_deleted: include files with many deleted rows, whatever the size of their group.
        most_bytes: the bound; None: MOST_BYTES.
        largest: bytes above which a group is left out.
    """
    of_groups = np.zeros(len(plan.groups))
    grouped = plan.files.filter(plan.files["group"].is_valid())
    numbers = grouped["group"].to_numpy()
    np.add.at(of_groups, numbers, grouped["size"].to_numpy())
    large = np.array([len(group.files) >= GROUP_FILES for group in plan.groups], bool)
    for reason in (HOLES, OVERLAPS) if rows_deleted else (OVERLAPS,):
        large[numbers[pc.equal(grouped["reason"], reason).to_numpy()]] = True
    places = np.flatnonzero(large & (of_groups <= largest))
    chosen, read = [plan.groups[at] for at in places], np.cumsum(of_groups[places])
    most = MOST_BYTES if most_bytes is None else most_bytes
    return tuple(chosen[: max(1, int(np.searchsorted(read, most, "right")))])
