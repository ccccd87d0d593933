"""What became of an operation, for who asked for it: a `Commit`, or the exception that fits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from tablefmt.commit.driver import Done
from tablefmt.commit.plan import Plan
from tablefmt.commit.results import (
    AlreadyApplied,
    Committed,
    Conflicted,
    Overtaken,
    Rejected,
    Unknown,
)
from tablefmt.conflict.verdict import Conflict, RebasedOver
from tablefmt.errors import CommitRejectedError, CommitUnknownError
from tablefmt.model.entry import StoredEntry
from tablefmt.model.times import from_micros
from tablefmt.session.files import TransactionFiles, delete_keys, guest_among
from tablefmt.snapshot.load import LogView
from tablefmt.store.protocol import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """What became of an operation. Truth is the log; this is its receipt."""

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


def receipt(store: Store, plan: Plan, done: Done, view: LogView | None) -> Commit:
    """The commit, or the exception that its outcome is.

    Raises:
        CommitRejectedError, ConcurrentModificationException, CommitUnknownError; what says why no
        entry could be made, or what is wrong with one in the way: UnsupportedFeatureError (ENT-2,
        ENT-7), CorruptTableError. With these the files are removed too, unless the entry may be in
        the log.
    """
    outcome = done.outcome
    if isinstance(outcome, Committed):
        assert done.entry is not None
        delete_keys(store, done.left_out)
        return committed(done.entry, tuple(done.rebased_over))
    if isinstance(outcome, Unknown):
        unknown = CommitUnknownError(plan.transaction, outcome.version, outcome.reason)
        raise done.refused or unknown
    # An entry goes before the files that it names.
    delete_keys(store, done.left_out)
    guest = guest_among(plan.add, plan.transaction)
    TransactionFiles(store, plan.transaction, guest=guest).discard()
    if isinstance(outcome, Rejected):
        raise done.refused or CommitRejectedError(outcome.reason)
    if isinstance(outcome, Conflicted):
        assert isinstance(outcome.conflict, Conflict)
        raise outcome.conflict.exception()
    assert isinstance(outcome, AlreadyApplied | Overtaken)
    assert view is not None
    when = from_micros(view.timestamp_at(outcome.version))
    return Commit(
        version=outcome.version,
        timestamp=when,
        transaction=plan.transaction,
        operation=plan.operation.name,
        rebased_over=tuple(done.rebased_over),
        already_applied=isinstance(outcome, AlreadyApplied),
        no_op=isinstance(outcome, Overtaken),
    )


def committed(stored: StoredEntry, rebased_over: tuple[RebasedOver, ...] = ()) -> Commit:
    """The receipt of an entry that is in the log."""
    entry = stored.entry
    return Commit(
        version=entry.version,
        timestamp=from_micros(entry.timestamp),
        transaction=entry.transaction,
        operation=entry.operation.name,
        metrics=dict(entry.operation.metrics),
        rebased_over=rebased_over,
    )
