"""Maintenance that is due on a table, by its log. Data is not listed, and nothing is changed.

Spec: CMP-1, CKP-7, RET-4.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tablefmt.maintenance.ages import kept_by_log, kept_by_store, kept_seconds, log_seconds, now_of
from tablefmt.maintenance.derived import many_checkpoints
from tablefmt.maintenance.vacuum_plan import removals
from tablefmt.maintenance.whole import whole_view
from tablefmt.model.entry import Totals
from tablefmt.model.features import EXPIRY
from tablefmt.model.properties import get_property
from tablefmt.operations.auto_compact import worthwhile
from tablefmt.operations.compact import Compaction, plan_of
from tablefmt.session.checkpointing import newest_checkpoint
from tablefmt.session.context import TableContext

COMPACT, CHECKPOINT, VACUUM, EXPIRE = "compact", "checkpoint", "vacuum", "expire-log"


@dataclass(frozen=True, slots=True)
class Due:
    """One maintenance task that is due, with the reason."""

    work: str
    """One of WORK."""
    reason: str


def due(context: TableContext) -> tuple[Due, ...]:
    """Return the tasks that are due on the newest version, in the order of WORK.

    For vacuum, the log shows how many files were removed long enough ago. For log expiry, it shows
    only whether none has run yet. The dry runs list the files and entries.
    """
    reasons = ((work, reason_for(context, work)) for work in WORK)
    return tuple(Due(work, reason) for work, reason in reasons if reason is not None)


def reason_for(context: TableContext, work: str) -> str | None:
    """Return why one task of WORK is due on the newest version; None if it is not."""
    context.view.refresh()
    return _REASONS[work](context)


def _of_files(context: TableContext) -> str | None:
    """Return why files should be compacted."""
    plan = plan_of(context, Compaction().plan)
    groups = worthwhile(plan, rows_gone=True)
    if not groups:
        return None
    ids = pa.array(np.concatenate([group.files for group in groups]))
    chosen = plan.files.filter(pc.is_in(plan.files["id"], ids))
    rows, deleted = pc.sum(chosen["rows"]).as_py(), pc.sum(chosen["deleted"]).as_py()
    return (
        f"{chosen.num_rows} files can be compacted into {sum(group.outputs for group in groups)}; "
        f"{deleted} of their {rows} rows are deleted"
    )


def _of_versions(context: TableContext) -> str | None:
    view = context.view
    interval = get_property(view.head.metadata.properties, "checkpointInterval")
    behind = view.head.version - newest_checkpoint(view)
    if behind < int(interval):
        return None
    return f"{behind} versions since the last checkpoint; checkpointInterval is {interval}"


def _of_age(context: TableContext) -> str | None:
    """Return why files should be vacuumed: old removals above the retention horizon (RET-5)."""
    view, name = context.view, "deletedFileRetentionDuration"
    seconds, oldest = kept_seconds(view.head.metadata, name), view.head.totals.oldest
    now_us = now_of(context)
    kept = kept_by_log(view, now_us, seconds)
    files = 0
    if kept > oldest:
        files = _removed(view.totals_at(kept)) - _removed(view.totals_at(oldest))
    if files:
        # A restore may have brought some files back by the same path.
        gone = removals(whole_view(context.store).snapshot().history, oldest, kept)
        stays = kept_by_store(context.store, oldest, int(gone.max(initial=0)), now_us, seconds)
        files = int(np.count_nonzero(gone <= stays))
    if files:
        return f"{files} files were removed longer ago than {name}"
    if many_checkpoints(context.store, now_us):
        return "there are many superseded checkpoints"
    return None


def _removed(totals: Totals) -> int:
    """Return the number of files that were ever removed up to a version."""
    return totals.next_id - 1 - totals.files


def _of_entries(context: TableContext) -> str | None:
    view, name = context.view, "logRetentionDuration"
    if EXPIRY in view.head.protocol.reader or view.head.version < 2:
        return None
    seconds = log_seconds(view.head.metadata)
    # Entry 0 stays, so entry 1 is the first candidate.
    now_us = now_of(context)
    going = kept_by_log(view, now_us, seconds) > 1
    going = going and kept_by_store(context.store, 0, 2, now_us, seconds) > 1
    return f"entries are older than {name}" if going else None


_REASONS: dict[str, Callable[[TableContext], str | None]] = {
    COMPACT: _of_files,
    CHECKPOINT: _of_versions,
    VACUUM: _of_age,
    EXPIRE: _of_entries,
}
WORK = tuple(_REASONS)
"""All tasks, in execution order, by their command-line names."""
