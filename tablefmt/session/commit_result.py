"""The result of an operation that commits: a `Commit`, or the exception of its outcome."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime

import pyarrow as pa

from tablefmt.commit.commit_protocol import (
    AlreadyApplied,
    Committed,
    Conflicted,
    Overtaken,
    Rejected,
    Unknown,
)
from tablefmt.commit.driver import Done
from tablefmt.commit.transaction_plan import Plan
from tablefmt.conflict.verdict import RebasedOver
from tablefmt.data.arrow_results import ArrowReport
from tablefmt.errors import CommitRejectedError, CommitUnknownError
from tablefmt.model.identity_columns import CLAIM
from tablefmt.model.log_entry import StoredEntry
from tablefmt.model.times import from_micros
from tablefmt.snapshot.log_view import LogView
from tablefmt.telemetry import log_event

logger = logging.getLogger(__name__)

_OVER = pa.struct(
    [
        ("version", pa.int64()),
        ("operation", pa.string()),
        ("rule", pa.string()),
        ("cell", pa.string()),
    ]
)

SCHEMA = pa.schema(
    [
        ("version", pa.int64()),
        ("timestamp", pa.timestamp("us", "UTC")),
        ("transaction", pa.string()),
        ("operation", pa.string()),
        ("metrics", pa.map_(pa.string(), pa.int64())),
        ("rebased_over", pa.list_(_OVER)),
        ("already_applied", pa.bool_()),
        ("no_op", pa.bool_()),
        ("exports", pa.map_(pa.string(), pa.int64())),
    ]
)
"""Schema of a commit as a row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit(ArrowReport):
    """The result of an operation that commits. The log holds the same facts.

    `to_arrow` returns one row. pandas, polars and DuckDB read the commit object directly.
    """

    version: int
    """The version of the commit. For a no-op, the version at which there was nothing to do."""
    timestamp: datetime
    """Timestamp of that version: aware, UTC."""
    transaction: str
    """32 hex digits; "" if an earlier commit had applied it."""
    operation: str
    """Name of the operation, as in `history`."""
    metrics: Mapping[str, int] = field(default_factory=dict)
    """Metrics by Delta's names: counts, bytes, and milliseconds in names that end in `Ms`."""
    rebased_over: tuple[RebasedOver, ...] = ()
    """Concurrent commits since the read version that this commit was rebased onto, with the
    rules."""
    already_applied: bool = False
    """The table already had this application version, so nothing was written."""
    no_op: bool = False
    """There was nothing to do, so no version was made."""
    exports: Mapping[str, int] = field(default_factory=dict)
    """The version that each copy of the property `export` shows, by the name of its format."""

    def to_arrow(self) -> pa.Table:
        """Return one row with a column for each field. Concurrent commits are a list of structs."""
        row = {field.name: getattr(self, field.name) for field in fields(self)}
        row["metrics"] = list(self.metrics.items())
        row["exports"] = list(self.exports.items())
        row["rebased_over"] = [vars(over) for over in self.rebased_over]
        return pa.Table.from_pylist([row], SCHEMA)


def commit_result(plan: Plan, done: Done, view: LogView | None) -> Commit:
    """Return the commit, or raise the error of its outcome. Deletes nothing: see
    `remove_leftovers`.

    Raises:
        CommitRejectedError, ConcurrentModificationException, CommitUnknownError: the outcome.
        UnsupportedFeatureError, CorruptTableError: no entry could be made, or an entry in the way
            cannot be judged (ENT-2, ENT-7). Of an unknown outcome they are the cause (CMT-12).
    """
    outcome = done.outcome
    if isinstance(outcome, Committed):
        assert done.entry is not None
        # A claim of numbers changes nothing, and may be this commit's own (IDN-2).
        others = tuple(over for over in done.rebased_over if over.operation != CLAIM)
        return committed(done.entry, others)
    if isinstance(outcome, Unknown):
        unknown = CommitUnknownError(plan.transaction, outcome.version, outcome.reason)
        raise unknown from done.refused
    if isinstance(outcome, Rejected):
        raise done.refused or CommitRejectedError(outcome.reason)
    if isinstance(outcome, Conflicted):
        raise outcome.conflict.exception()
    assert isinstance(outcome, AlreadyApplied | Overtaken)
    assert view is not None
    when = from_micros(view.timestamp_at(outcome.version))
    return Commit(
        version=outcome.version,
        timestamp=when,
        transaction=plan.transaction,
        operation=plan.staged.operation.name,
        rebased_over=tuple(done.rebased_over),
        already_applied=isinstance(outcome, AlreadyApplied),
        no_op=isinstance(outcome, Overtaken),
    )


def report_outcome(table: str, plan: Plan, done: Done) -> None:
    """Log the outcome of a commit, and each concurrent commit that it was rebased onto."""
    outcome = done.outcome
    work = {"operation": plan.staged.operation.name, "transaction": plan.transaction}
    if isinstance(outcome, Committed):
        assert done.entry is not None
        entry = done.entry.entry
        work["operation"] = entry.operation.name
        for over in done.rebased_over:
            log_event(
                logger,
                "rebase",
                table,
                version=entry.version,
                **work,
                winner_version=int(over),
                winner_operation=over.operation,
                rule=over.rule,
                cell=over.cell,
            )
        log_event(
            logger,
            "commit",
            table,
            version=entry.version,
            **work,
            metrics=dict(entry.operation.metrics),
            rebased_over=[int(over) for over in done.rebased_over],
        )
    elif isinstance(outcome, Conflicted):
        lost = outcome.conflict
        log_event(
            logger,
            "conflict",
            table,
            **work,
            error=lost.error.__name__,
            reason=lost.reason,
            winner_version=lost.winner_version,
            winner_operation=lost.winner_operation,
            rule=lost.rule,
            cell=lost.cell,
            evidence=dict(lost.evidence),
        )
    elif isinstance(outcome, Rejected):
        log_event(logger, "rejected", table, **work, reason=outcome.reason)
    elif isinstance(outcome, Unknown):
        log_event(logger, "unknown", table, version=outcome.version, **work, reason=outcome.reason)
    elif isinstance(outcome, AlreadyApplied):
        reason = f"version {outcome.version} has applied this operation already"
        log_event(logger, "nothing to commit", table, **work, reason=reason)
    else:
        reason = f"other commits did the same up to version {outcome.version}"
        log_event(logger, "nothing to commit", table, **work, reason=reason)


def committed(stored: StoredEntry, rebased_over: tuple[RebasedOver, ...] = ()) -> Commit:
    """Return the result of a commit whose entry is in the log."""
    entry = stored.entry
    return Commit(
        version=entry.version,
        timestamp=from_micros(entry.timestamp),
        transaction=entry.transaction,
        operation=entry.operation.name,
        metrics=dict(entry.operation.metrics),
        rebased_over=rebased_over,
    )
