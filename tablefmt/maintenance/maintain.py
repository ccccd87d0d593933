"""Everything that is due, in one run that ends: for cron, or beside a stream."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa

from tablefmt.commit.environment import SYSTEM
from tablefmt.data.arrow_report import ArrowReport
from tablefmt.errors import InvalidRangeError, TablefmtError
from tablefmt.maintenance.checkpoint import checkpoint
from tablefmt.maintenance.due import CHECKPOINT, COMPACT, EXPIRE, VACUUM, WORK, Due, reason_for
from tablefmt.maintenance.expire import ExpiryReport, expire_log
from tablefmt.maintenance.vacuum import VacuumReport, vacuum
from tablefmt.model.arguments import check_flags
from tablefmt.model.features import EXPIRY
from tablefmt.operations.auto_compact import worthwhile
from tablefmt.operations.compact import Compaction, compact_statement, rewrite_here
from tablefmt.printable import printable_lines
from tablefmt.session.context import TableContext
from tablefmt.session.options import CommitOptions
from tablefmt.session.staging import autocommit
from tablefmt.snapshot.load import LogView
from tablefmt.store.open import Uri, open_store

SECONDS = 3600.0
"""How long a run may begin new work, unless told."""

COMPACTION_SHARE = 0.5
"""Of that time: the rest of the work waits on no compaction, however much there is of it."""

DONE, NOT_DUE, WOULD, POSTPONED, FAILED = "done", "not due", "is due", "postponed", "failed"
OUTCOMES = (DONE, NOT_DUE, WOULD, POSTPONED, FAILED)
"""What became of a piece of work; POSTPONED: the time was over."""

FAILURES = (TablefmtError, OSError, pa.ArrowException)
"""What a piece of work may fail by: a disk that is full, a file that is damaged, a store."""

Progress = Callable[[str], None]
"""Told of each piece of work as it begins."""

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
    """One piece of work, and what became of it."""

    work: str
    outcome: str
    """One of OUTCOMES."""
    reason: str | None = None
    """Why it was due."""
    result: str | None = None
    """What it did, or why it failed."""
    seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class MaintenanceReport(ArrowReport):
    """What a run did, and what is due next. `print` shows it; `to_arrow` has a row a step."""

    uri: str
    dry_run: bool
    version: int
    """The newest version when it ended."""
    steps: tuple[Step, ...]
    """One for each piece of work, in order; then those of which it is not known whether they are
    due next."""
    next: tuple[Due, ...]
    """What is due now."""

    @property
    def ok(self) -> bool:
        """Whether nothing failed."""
        return all(step.outcome != FAILED for step in self.steps)

    def to_arrow(self) -> pa.Table:
        """Columns work, outcome, reason, result, seconds."""
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


def maintain_uri(
    uri: Uri,
    *,
    dry_run: bool = False,
    seconds: float = SECONDS,
    storage_options: Mapping[str, Any] | None = None,
) -> MaintenanceReport:
    """`Table.maintain` of the table at `uri`."""
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
    """Compact, checkpoint, vacuum and expire the log, as far as each is due by the properties.

    What fails is in the report, and keeps nothing else from being done: also where it is not known
    whether something is due.

    Args:
        context: the table.
        dry_run: say what is due, and change nothing.
        seconds: after so many nothing is begun any more, what was begun is ended; half of them at
            most go to compactions, which are committed every GiB.
        progress: told of each piece of work.

    Raises:
        InvalidRangeError: seconds below zero, or none. StoreError, CorruptTableError: the log
            cannot be read.
    """
    check_flags(dry_run=dry_run)
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not seconds >= 0:
        raise InvalidRangeError(f"seconds {seconds!r:.100} is not a number from 0 on")
    context.view.refresh()
    clock = context.environment.monotonic
    end = clock() + seconds
    compacted_by = clock() + COMPACTION_SHARE * seconds
    work: dict[str, Callable[[], tuple[str, str]]] = {
        COMPACT: partial(_compact, context, compacted_by),
        CHECKPOINT: lambda: (DONE, str(checkpoint(context))),
        VACUUM: lambda: _removed(vacuum(context, dry_run=False)),
        EXPIRE: lambda: _removed(expire_log(context, dry_run=False)),
    }
    assert tuple(work) == WORK
    steps: list[Step] = []
    for name, run in work.items():
        # Asked anew each time: a compaction may be what makes a checkpoint due.
        reason, step = _asked(context, name)
        if step is None and reason is not None and not dry_run and clock() <= end:
            if progress is not None:
                progress(name)
            step = _run(name, reason, run, clock)
        outcome = NOT_DUE if reason is None else WOULD if dry_run else POSTPONED
        steps.append(step or Step(name, outcome, reason))
    following: list[Due] = []
    for name in WORK:
        reason, step = _asked(context, name, reason_for)
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


def _reason(context: TableContext, work: str) -> str | None:
    """Why a piece of work is due; None if it is not."""
    reason = reason_for(context, work)
    if work == EXPIRE and reason is None and EXPIRY in context.view.head.protocol.reader:
        # Of a log that was cut before, its beginning is not told by the log.
        going = expire_log(context).entries.num_rows
        reason = f"{going} entries are older than logRetentionDuration" if going else None
    return reason


def _asked(
    context: TableContext, work: str, why: Callable[[TableContext, str], str | None] = _reason
) -> tuple[str | None, Step | None]:
    """Why a piece of work is due, or the step that says that it is not known."""
    try:
        return why(context, work), None
    except FAILURES as error:
        return None, Step(work, FAILED, "whether it is due is not known", _shown(error))


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


def _removed(report: VacuumReport | ExpiryReport) -> tuple[str, str]:
    """What became of it: what could not be removed waits for the next run."""
    return FAILED if report.failures else DONE, str(report)


def _compact(context: TableContext, end: float) -> tuple[str, str]:
    """Commit by commit, until nothing is worth it any more or the time is over."""
    asked, files, outputs, commits = Compaction(), 0, 0, 0
    while commits == 0 or context.environment.monotonic() < end:
        plan = asked.plan(context.pin(context.begin().version))
        groups = worthwhile(plan, rows_gone=True)
        if not groups:
            break
        statement = compact_statement(asked, rewrite_here(), groups)
        if autocommit(context, statement, CommitOptions()).no_op:
            break
        commits += 1
        files += sum(len(group.files) for group in groups)
        outputs += sum(group.outputs for group in groups)
    return DONE, f"{files} files became about {outputs}, in {commits} commits"
