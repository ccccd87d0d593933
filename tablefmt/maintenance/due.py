"""What a table waits for, as far as its log tells: nothing is listed, and nothing is changed.

Spec: CMP-1, CKP-7, RET-4.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tablefmt.maintenance.ages import kept_seconds
from tablefmt.model.features import EXPIRY
from tablefmt.model.properties import get_property
from tablefmt.operations.auto_compact import worthwhile
from tablefmt.operations.compact import Compaction, plan_of
from tablefmt.session.checkpointing import newest_checkpoint
from tablefmt.session.context import TableContext

COMPACT, CHECKPOINT, VACUUM, EXPIRE = "compact", "checkpoint", "vacuum", "expire-log"

_MICROS = 1_000_000


@dataclass(frozen=True, slots=True)
class Due:
    """One piece of work that is due, and why."""

    work: str
    """One of WORK."""
    reason: str


def due(context: TableContext) -> tuple[Due, ...]:
    """What is due on the newest version, in the order of WORK.

    Of vacuum the log tells only that there are versions old enough, of its expiry only whether none
    was yet; what files or entries go, their dry runs say.
    """
    reasons = ((work, reason_for(context, work)) for work in WORK)
    return tuple(Due(work, reason) for work, reason in reasons if reason is not None)


def reason_for(context: TableContext, work: str) -> str | None:
    """Why one piece of WORK is due on the newest version; None if it is not."""
    context.view.refresh()
    return _REASONS[work](context)


def _of_files(context: TableContext) -> str | None:
    """Why files should be compacted."""
    plan = plan_of(context, Compaction().plan)
    groups = worthwhile(plan, rows_gone=True)
    if not groups:
        return None
    ids = pa.array(np.concatenate([group.files for group in groups]))
    chosen = plan.files.filter(pc.is_in(plan.files["id"], ids))
    rows, deleted = pc.sum(chosen["rows"]).as_py(), pc.sum(chosen["deleted"]).as_py()
    return (
        f"{chosen.num_rows} files could be {sum(group.outputs for group in groups)}; "
        f"{deleted} of their {rows} rows are gone"
    )


def _of_versions(context: TableContext) -> str | None:
    view = context.view
    interval = get_property(view.head.metadata.properties, "checkpointInterval")
    behind = view.head.version - newest_checkpoint(view)
    if behind < int(interval):
        return None
    return f"{behind} versions since the last one; checkpointInterval is {interval}"


def _of_age(context: TableContext) -> str | None:
    """Whether another version took the oldest one's place long enough ago."""
    view, name = context.view, "deletedFileRetentionDuration"
    oldest = view.head.totals.oldest
    if oldest >= view.head.version or view.timestamp_at(oldest + 1) > _cutoff(context, name):
        return None
    return f"version {oldest} was the newest one longer ago than {name}"


def _of_entries(context: TableContext) -> str | None:
    view, name = context.view, "logRetentionDuration"
    if EXPIRY in view.head.protocol.reader or view.head.version < 2:
        return None
    return f"entries are older than {name}" if view.created <= _cutoff(context, name) else None


def _cutoff(context: TableContext, name: str) -> int:
    """µs UTC: what was before it is older than a property says."""
    now_us = context.store.server_time_us() or context.environment.now_us()
    return now_us - round(kept_seconds(context.view.head.metadata, name) * _MICROS)


_REASONS: dict[str, Callable[[TableContext], str | None]] = {
    COMPACT: _of_files,
    CHECKPOINT: _of_versions,
    VACUUM: _of_age,
    EXPIRE: _of_entries,
}
WORK = tuple(_REASONS)
"""What there is to do, in the order in which it is done; as the command line calls it."""
