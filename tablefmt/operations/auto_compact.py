"""Compactions that follow writes by themselves, aside: no write waits for one, or fails by it.

Only tables whose property `autoCompact` says so. Spec: CMP-7.
"""

from __future__ import annotations

import logging
import math
import threading
from dataclasses import dataclass, field
from functools import partial
from weakref import WeakKeyDictionary

import numpy as np
import pyarrow.compute as pc

from tablefmt.model.log_entry import NOT_LOGICAL, Entry
from tablefmt.model.properties import get_property
from tablefmt.operations.compact import Compaction, compact_statement, rewrite_here
from tablefmt.operations.compact_plan import HOLES, LayoutPlan, PlannedGroup
from tablefmt.session.commit_options import CommitOptions
from tablefmt.session.staging import autocommit
from tablefmt.session.table_context import TableContext
from tablefmt.snapshot.log_view import LogView
from tablefmt.store.forks import renew_after_fork

logger = logging.getLogger(__name__)

MORE_FILES = 50
"""A writer looks for something to do when there are so many files more than when it last looked."""

GROUP_FILES = 10
"""Files that have to go together, so that a file is not written again for a few rows."""

MOST_BYTES = 1 << 30
"""Of the files of one compaction, at most, unless a group alone has more."""

REST = 10
"""A writer rests so many times as long as its last compaction took: it has other work."""


@dataclass(eq=False)
class _Watch:
    """What a process knows of one log."""

    files: int = 0
    """When it last looked."""
    rests_until: float = float("-inf")
    busy: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        renew_after_fork(self)

    def after_fork(self) -> None:
        """Whatever the parent is writing, it goes on writing there."""
        self.busy = threading.Lock()


_watches: WeakKeyDictionary[LogView, _Watch] = WeakKeyDictionary()


def watch(context: TableContext) -> None:
    """From now on commits of this handle are followed by a compaction where one is due."""
    context.afterwards = partial(_committed, context)


def _committed(context: TableContext, entry: Entry) -> None:
    properties, environment = context.view.head.metadata.properties, context.environment
    if get_property(properties, "autoCompact") != "true":
        return
    # There a compaction would stand in the way of those who change rows.
    if get_property(properties, "deleteMode") == "copy-on-write":
        return
    if entry.add is None or entry.operation.cls in NOT_LOGICAL:
        return
    known = _watches.get(context.view) or _watches.setdefault(context.view, _Watch())
    known.files = min(known.files, entry.totals.files)
    if entry.totals.files - known.files < MORE_FILES:
        return
    if environment.monotonic() < known.rests_until or not known.busy.acquire(blocking=False):
        return
    busy = known.busy
    try:
        environment.aside(lambda: _compact(context, known, busy))
    except Exception as error:
        # The interpreter is about to end and starts no thread any more, or there is no room for
        # one: the write that was followed is in the table all the same.
        logger.debug("no compaction: %s", error)
        busy.release()


def _compact(context: TableContext, known: _Watch, busy: threading.Lock) -> None:
    environment = context.environment
    began = environment.monotonic()
    # A handle of its own: the writer's stays at the version that it wrote.
    own = TableContext(context.store, context.view, environment)
    try:
        asked = Compaction()
        plan = asked.plan(own.pin(own.begin().version))
        groups, everything = worthwhile(plan), worthwhile(plan, most_bytes=math.inf)
        if groups:
            commit = autocommit(
                own, compact_statement(asked, rewrite_here(), groups), CommitOptions()
            )
            logger.info("version %d: %s", commit.version, commit.operation)
        if len(groups) == len(everything):
            known.files = own.view.head.totals.files
    except Exception as error:
        # Whatever it is: the write that was followed is in the table, and the next one tries again.
        logger.warning("no compaction was made: %s", error)
    finally:
        now = environment.monotonic()
        known.rests_until = now + REST * (now - began)
        busy.release()


def worthwhile(
    plan: LayoutPlan, *, rows_deleted: bool = False, most_bytes: float | None = None
) -> tuple[PlannedGroup, ...]:
    """The groups of a plan that are large enough, up to a bound of bytes; at least one. Pure.

    Args:
        plan: of a MINOR compaction.
        rows_deleted: whether it is enough, too, that many rows of a file are gone.
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
