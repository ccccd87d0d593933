"""Automatic compactions in the background after writes. No write waits for one or fails by it.

They run on tables with the property `autoCompact`. Spec: CMP-7.
"""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass, field
from functools import partial
from weakref import WeakKeyDictionary

import numpy as np
import pyarrow.compute as pc

from tablefmt.model.log_entry import NOT_LOGICAL, Entry
from tablefmt.model.properties import get_property
from tablefmt.operations.compact import Compaction, compact_statement, rewrite_here
from tablefmt.operations.compact_plan import HOLES, LayoutPlan, PlannedGroup
from tablefmt.session.background_work import BackgroundWork
from tablefmt.session.commit_options import CommitOptions
from tablefmt.session.staging import autocommit
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
    asked = Compaction()
    plan = asked.plan(own.pin(own.begin().version))
    groups, everything = worthwhile(plan), worthwhile(plan, most_bytes=math.inf)
    if groups:
        commit = autocommit(own, compact_statement(asked, rewrite_here(), groups), CommitOptions())
        logger.info("version %d: %s", commit.version, commit.operation)
    if len(groups) == len(everything):
        known.files = own.view.head.totals.files


def worthwhile(
    plan: LayoutPlan, *, rows_deleted: bool = False, most_bytes: float | None = None
) -> tuple[PlannedGroup, ...]:
    """Return the groups of a plan that are large enough, up to a bound of bytes. Pure.

    The first such group is included even if it is above the bound.

    Args:
        plan: of a MINOR compaction.
        rows_deleted: include files with many deleted rows, whatever the size of their group.
        most_bytes: the bound; None: MOST_BYTES.
    """
    of_groups = np.zeros(len(plan.groups))
    grouped = plan.files.filter(plan.files["group"].is_valid())
    numbers = grouped["group"].to_numpy()
    np.add.at(of_groups, numbers, grouped["size"].to_numpy())
    large = np.array([len(group.files) >= GROUP_FILES for group in plan.groups], bool)
    if rows_deleted:
        large[numbers[pc.equal(grouped["reason"], HOLES).to_numpy()]] = True
    places = np.flatnonzero(large)
    chosen, read = [plan.groups[at] for at in places], np.cumsum(of_groups[places])
    most = MOST_BYTES if most_bytes is None else most_bytes
    return tuple(chosen[: max(1, int(np.searchsorted(read, most, "right")))])
