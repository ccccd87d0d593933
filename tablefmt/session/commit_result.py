"""The result of an operation that commits: a `Commit`, or the exception of its outcome."""

from __future__ import annotations

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
from tablefmt.model.log_entry import StoredEntry
from tablefmt.model.times import from_micros
from tablefmt.snapshot.log_view import LogView

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
    ]
)
"""Of a commit as a row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit(ArrowReport):
    """The result of an operation that commits. The log is the truth.

    `to_arrow` has one row; pandas, polars and DuckDB take the commit itself.
    """

    version: int
    """The ID version made; for a no-op the one it was decided on."""
    timestamp: datetime
    """Of that version, aware, UTC."""
    transaction: str
    """32 hex digits; "" where another commit had applied it."""
    operation: str
    """Its name, as `history` has it."""
    metrics: Mapping[str, int] = field(default_factory=dict)
    """By Delta's names: counts, bytes, and milliseconds where a name ends so."""
    rebased_over: tuple[RebasedOver, ...] = ()
    """Versions since the one that was read that this commit went on top of, and why it might."""
    already_applied: bool = False
    """The same application version was in the table already; nothing was written."""
    no_op: bool = False
    """Nothing to do, so no version was made."""

    def to_arrow(self) -> pa.Table:
        """Return one row, a column for each field. Concurrent commits are structs of a list."""
        row = {field.name: getattr(self, field.name) for field in fields(self)}
        row["metrics"] = list(self.metrics.items())
        row["rebased_over"] = [vars(over) for over in self.rebased_over]
        return pa.Table.from_pylist([row], SCHEMA)


def commit_result(plan: Plan, done: Done, view: LogView | None) -> Commit:
    """Return the commit, or raise what its outcome is. Deletes nothing: see `remove_leftovers`.

    Raises:
        CommitRejectedError, ConcurrentModificationException, CommitUnknownError; what says why no
        entry could be made, or what is wrong with one in the way: UnsupportedFeatureError (ENT-2,
        ENT-7), CorruptTableError.
    """
    outcome = done.outcome
    if isinstance(outcome, Committed):
        assert done.entry is not None
        return committed(done.entry, tuple(done.rebased_over))
    if isinstance(outcome, Unknown):
        unknown = CommitUnknownError(plan.transaction, outcome.version, outcome.reason)
        raise done.refused or unknown
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
