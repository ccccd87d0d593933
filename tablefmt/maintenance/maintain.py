"""Maintenance run: finds what is due on a table by its log, and executes it, once.

For cron, or beside a stream. To find what is due, data is not listed, and nothing is changed.
Spec: CMP-1, CKP-7, RET-4.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tablefmt.commit.environment import SYSTEM
from tablefmt.data.arrow_results import ArrowReport
from tablefmt.errors import InvalidArgumentError, TablefmtError
from tablefmt.maintenance.log_expiry import ExpiryReport, expire_log
from tablefmt.maintenance.manual_checkpoint import checkpoint
from tablefmt.maintenance.removal_plan import removals
from tablefmt.maintenance.retention import (
    kept_by_log,
    kept_by_store,
    kept_seconds,
    log_seconds,
    now_of,
    whole_view,
)
from tablefmt.maintenance.vacuum import VacuumReport, many_checkpoints, vacuum
from tablefmt.model.argument_checks import check_flags
from tablefmt.model.argument_names import check_names
from tablefmt.model.features import EXPIRY
from tablefmt.model.log_entry import Totals
from tablefmt.model.properties import get_property
from tablefmt.model.tags import kept_for_tags
from tablefmt.operations.automatic_compaction import layout_here, layout_of, worthwhile
from tablefmt.operations.compact import plan_of
from tablefmt.operations.compact_plan import PlannedGroup
from tablefmt.printable import number_of, printable_lines
from tablefmt.session.checkpoint_writing import newest_checkpoint
from tablefmt.session.commit_options import CommitOptions
from tablefmt.session.staging import autocommit
from tablefmt.session.table_context import TableContext
from tablefmt.snapshot.log_view import LogView
from tablefmt.store.location import Uri, open_store
from tablefmt.telemetry import log_event, span

logger = logging.getLogger(__name__)

COMPACT, CHECKPOINT, VACUUM, EXPIRE = "compact", "checkpoint", "vacuum", "expire-log"


@dataclass(frozen=True, slots=True)
class Due:
    """One maintenance task that is due, with the reason."""

    work: str
    """One of WORK."""
    reason: str


def due(context: TableContext) -> tuple[Due, ...]:
    """Return the tasks that are due on the newest version, in the order of WORK.

    Vacuum: the number of files removed long enough ago, from the log alone. Log expiry: only
    whether it has ever run. The dry runs list the files and entries.
    """
    reasons = ((work, reason_for(context, work)) for work in WORK)
    return tuple(Due(work, reason) for work, reason in reasons if reason is not None)


def reason_for(context: TableContext, work: str) -> str | None:
    """Return why one task of WORK is due on the newest version; None if it is not."""
    context.view.refresh()
    return _WHY[work](context)


def _why_compact(context: TableContext) -> str | None:
    """Return why files should be compacted."""
    plan = plan_of(context, layout_of(context.view.head.metadata).plan)
    groups = worthwhile(plan, rows_deleted=True)
    if not groups:
        return None
    ids = pa.array(np.concatenate([group.files for group in groups]))
    chosen = plan.files.filter(pc.is_in(plan.files["id"], ids))
    rows, deleted = pc.sum(chosen["rows"]).as_py(), pc.sum(chosen["deleted"]).as_py()
    return (
        f"{number_of(chosen.num_rows, 'file')} can be compacted into "
        f"{sum(group.outputs for group in groups)}; {deleted} of their {rows} rows are deleted"
    )


def _why_checkpoint(context: TableContext) -> str | None:
    view = context.view
    interval = get_property(view.head.metadata.properties, "checkpointInterval")
    behind = view.head.version - newest_checkpoint(view)
    if behind < int(interval):
        return None
    return f"{behind} versions since the last checkpoint; checkpointInterval is {interval}"


def _why_vacuum(context: TableContext) -> str | None:
    """Return why files should be vacuumed: old removals above the retention horizon (RET-5)."""
    view, name = context.view, "deletedFileRetentionDuration"
    seconds, oldest = kept_seconds(view.head.metadata, name), view.head.totals.oldest
    now_us = now_of(context)
    kept = kept_for_tags(view.head.metadata, now_us, kept_by_log(view, now_us, seconds), oldest)
    files = 0
    if kept > oldest:
        files = _removed_of(view.totals_at(kept)) - _removed_of(view.totals_at(oldest))
    if files:
        # A restore may have brought some files back by the same path.
        removed_at = removals(whole_view(context.store).snapshot().history, oldest, kept)
        stays = kept_by_store(
            context.store, oldest, int(removed_at.max(initial=0)), now_us, seconds
        )
        files = int(np.count_nonzero(removed_at <= stays))
    if files:
        return f"{files} files were removed longer ago than {name}"
    if many_checkpoints(context.store, now_us):
        return "there are many superseded checkpoints"
    return None


def _removed_of(totals: Totals) -> int:
    """Return the number of files that were ever removed up to a version."""
    return totals.next_id - 1 - totals.files


def _why_expire(context: TableContext) -> str | None:
    view, name = context.view, "logRetentionDuration"
    if EXPIRY in view.head.protocol.reader or view.head.version < 2:
        return None
    seconds = log_seconds(view.head.metadata)
    # Entry 0 stays, so entry 1 is the first candidate.
    now_us = now_of(context)
    kept, oldest = kept_by_log(view, now_us, seconds), view.head.totals.oldest
    going = kept_for_tags(view.head.metadata, now_us, kept, oldest) > 1
    going = going and kept_by_store(context.store, 0, 2, now_us, seconds) > 1
    return f"entries are older than {name}" if going else None


_WHY: dict[str, Callable[[TableContext], str | None]] = {
    COMPACT: _why_compact,
    CHECKPOINT: _why_checkpoint,
    VACUUM: _why_vacuum,
    EXPIRE: _why_expire,
}
WORK = tuple(_WHY)
"""All tasks, in execution order, by their command-line names."""


SECONDS = 3600.0
"""Default time in seconds during which a run may begin new work."""

COMPACTION_SHARE = 0.5
"""Share of that time for compactions. It leaves time for the other tasks."""

DONE, NOT_DUE, WOULD, POSTPONED, FAILED = "done", "not due", "is due", "postponed", "failed"
OUTCOMES = (DONE, NOT_DUE, WOULD, POSTPONED, FAILED)
"""Outcomes of a task; POSTPONED: the time was over."""

FAILURES = (TablefmtError, OSError, pa.ArrowException)
"""Errors by which a task may fail: a full disk, a damaged file, a store error."""

Progress = Callable[[str], None]
"""Called with each task as it begins."""

SCHEMA = pa.schema(
    [
        pa.field("work", pa.string(), nullable=False),
        pa.field("outcome", pa.string(), nullable=False),
        pa.field("reason", pa.string()),
        pa.field("result", pa.string()),
        pa.field("seconds", pa.float64(), nullable=False),
    ]
)


@dataclass(frozen=True, slots=True)
class Step:
    """One task, and its outcome."""

    work: str
    outcome: str
    """One of OUTCOMES."""
    reason: str | None = None
    """The reason that made it due."""
    result: str | None = None
    """The result, or the error."""
    seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class MaintenanceReport(ArrowReport):
    """The tasks of a run, and those due next.

    `print` shows it; `to_arrow` has a row for each step.
    """

    uri: str
    dry_run: bool
    version: int
    """The newest version at the end of the run."""
    steps: tuple[Step, ...]
    """One step for each task, in order. Then one for each task whose next due state is unknown."""
    next: tuple[Due, ...]
    """Tasks that are due now."""

    @property
    def ok(self) -> bool:
        """True if no step failed."""
        return all(step.outcome != FAILED for step in self.steps)

    def to_arrow(self) -> pa.Table:
        """Return the columns work, outcome, reason, result, seconds."""
        rows = [{name: getattr(step, name) for name in SCHEMA.names} for step in self.steps]
        return pa.Table.from_pylist(rows, SCHEMA)

    def __str__(self) -> str:
        lines = [f"{self.uri}: version {self.version}"]
        for step in self.steps:
            lines.append(": ".join(filter(None, (f"  {step.work}", step.outcome, step.reason))))
            lines += [f"    {line}" for line in (step.result or "").splitlines()]
        lines += [f"  next: {one.work}: {one.reason}" for one in self.next]
        if self.dry_run:
            lines.append("nothing was changed: this was a dry run")
        return printable_lines(lines)


@check_names
def maintain_uri(
    uri: Uri,
    *,
    dry_run: bool = False,
    seconds: float = SECONDS,
    storage_options: Mapping[str, Any] | None = None,
) -> MaintenanceReport:
    """Run `Table.maintain` on the table at `uri`."""
    store = open_store(uri, storage_options)
    context = TableContext(store, LogView.open(store), SYSTEM)
    return maintain(context, dry_run=dry_run, seconds=seconds)


def maintain(
    context: TableContext,
    *,
    dry_run: bool = False,
    seconds: float = SECONDS,
    progress: Progress | None = None,
) -> MaintenanceReport:
    """Run compaction, checkpoint, vacuum and log expiry, each if its table properties make it due.

    A failure is in the report, and the other tasks still run. This includes a failed check whether
    a task is due.

    Args:
        context: the table.
        dry_run: report the tasks that are due, and change nothing.
        seconds: begin nothing after this time, but finish running work. At most half of it goes to
            compactions, which commit every GiB.
        progress: called with each task.

    Raises:
        InvalidArgumentError: `seconds` is negative or not a number.
        StoreError, CorruptTableError: the log cannot be read.
    """
    check_flags(dry_run=dry_run)
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not seconds >= 0:
        raise InvalidArgumentError(f"seconds={seconds!r:.100}: expected a number of 0 or more")
    context.view.refresh()
    clock = context.environment.monotonic
    end = clock() + seconds
    compacted_by = clock() + COMPACTION_SHARE * seconds
    work: dict[str, Callable[[], tuple[str, str]]] = {
        COMPACT: partial(_compact, context, compacted_by),
        CHECKPOINT: lambda: (DONE, str(checkpoint(context))),
        VACUUM: lambda: _outcome_of(vacuum(context, dry_run=False)),
        EXPIRE: lambda: _outcome_of(expire_log(context, dry_run=False)),
    }
    assert tuple(work) == WORK
    steps: list[Step] = []
    for name, run in work.items():
        # Check each task just before it runs: a compaction may make a checkpoint due.
        reason, step = _reason_or_failure(context, name)
        if step is None and reason is not None and not dry_run and clock() <= end:
            if progress is not None:
                progress(name)
            with span("maintenance", context.store.uri, work=name) as add_fields:
                step = _run(name, reason, run, clock)
                add_fields(outcome=step.outcome)
        outcome = NOT_DUE if reason is None else WOULD if dry_run else POSTPONED
        steps.append(step or Step(name, outcome, reason))
        log_event(logger, "maintenance", context.store.uri, **asdict(steps[-1]))
    following: list[Due] = []
    for name in WORK:
        reason, step = _reason_or_failure(context, name, reason_for)
        if step is not None:
            steps.append(step)
        elif reason is not None:
            following.append(Due(name, reason))
    return MaintenanceReport(
        uri=context.store.uri,
        dry_run=dry_run,
        steps=tuple(steps),
        next=tuple(following),
        version=context.view.head.version,
    )


def _reason_before_run(context: TableContext, work: str) -> str | None:
    """Return why a task is due; None if it is not."""
    reason = reason_for(context, work)
    if work == EXPIRE and reason is None and EXPIRY in context.view.head.protocol.reader:
        # After an earlier expiry, the log does not show the age of its first entries.
        going = expire_log(context).entries.num_rows
        reason = f"{going} entries are older than logRetentionDuration" if going else None
    return reason


def _reason_or_failure(
    context: TableContext,
    work: str,
    why: Callable[[TableContext, str], str | None] = _reason_before_run,
) -> tuple[str | None, Step | None]:
    """Return why a task is due, or a failed step if that is unknown."""
    try:
        return why(context, work), None
    except FAILURES as error:
        return None, Step(work, FAILED, "cannot tell whether it is due", _shown(error))


def _run(
    name: str, reason: str, run: Callable[[], tuple[str, str]], clock: Callable[[], float]
) -> Step:
    began = clock()
    try:
        outcome, result = run()
    except FAILURES as error:
        outcome, result = FAILED, _shown(error)
    return Step(name, outcome, reason, result, clock() - began)


def _shown(error: Exception) -> str:
    kind = error.kind if isinstance(error, TablefmtError) else type(error).__name__
    return f"{kind}: {error}"


def _outcome_of(report: VacuumReport | ExpiryReport) -> tuple[str, str]:
    """Return the outcome. The next run retries objects that could not be removed."""
    return FAILED if report.failures else DONE, str(report)


def _is_of_one(group: PlannedGroup, made: Sequence[range]) -> bool:
    """Return whether one of these ranges of ids has all files of a group."""
    first, last = int(group.files.min()), int(group.files.max())
    return any(first in ids and last in ids for ids in made)


def _compact(context: TableContext, end: float) -> tuple[str, str]:
    """Compact commit by commit until nothing is worth it or the time is over.

    Whether rows are in order is an estimate. So the result of one commit is not rewritten alone.
    """
    files, outputs, commits = 0, 0, 0
    written: list[range] = []
    while commits == 0 or context.environment.monotonic() < end:
        asked = layout_of(context.begin().metadata)
        plan = asked.plan(context.pin(context.view.head.version))
        worth = worthwhile(plan, rows_deleted=True)
        groups = tuple(group for group in worth if not _is_of_one(group, written))
        if not groups:
            break
        first = context.view.head.totals.next_id
        if autocommit(context, layout_here(asked, groups), CommitOptions()).no_op:
            break
        commits += 1
        written.append(range(first, context.view.head.totals.next_id))
        files += sum(len(group.files) for group in groups)
        outputs += sum(group.outputs for group in groups)
    made = f"about {outputs}, in {number_of(commits, 'commit')}"
    return DONE, f"compacted {number_of(files, 'file')} into {made}"
