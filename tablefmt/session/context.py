"""One open table as the operations see it: its store, what is known of its log, its environment.

Turns the outcomes of the commit driver into a `Commit` or the one exception that fits.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from numbers import Real
from typing import Any

import orjson

from tablefmt.commit.driver import Done, commit
from tablefmt.commit.environment import SYSTEM, Environment
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
from tablefmt.data.write import remove_data
from tablefmt.errors import (
    CommitRejectedError,
    CommitUnknownError,
    CorruptEntryError,
    IdempotenceError,
    InvalidRangeError,
    StoreError,
)
from tablefmt.log.codec import check_limits
from tablefmt.log.names import deletes_key, side_key
from tablefmt.model.entry import (
    AddedFiles,
    Application,
    Metadata,
    PartitionScope,
    Scope,
    StoredEntry,
)
from tablefmt.model.fingerprints import differ
from tablefmt.model.integers import whole_number
from tablefmt.model.properties import DECISIVE, get_property
from tablefmt.model.schema import Schema
from tablefmt.model.times import Time, from_micros, to_micros
from tablefmt.session.measurements import Measured
from tablefmt.session.snapshot import SCOPE_PARTITIONS_MAX, TransactionSnapshot
from tablefmt.snapshot.head import Head, check_writable
from tablefmt.snapshot.load import LogView
from tablefmt.store.probe import ensure_safe
from tablefmt.store.protocol import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitOptions:
    """What every operation that commits takes."""

    application: tuple[str, int] | None = None
    """Application id and version: applied at most once."""
    user_metadata: Mapping[str, Any] = field(default_factory=dict)
    """Kept in the entry; JSON values."""
    deadline: float | None = None
    """Seconds after which to give up."""

    def __post_init__(self) -> None:
        try:
            kept = orjson.loads(orjson.dumps(dict(self.user_metadata)))
            # Level 2: an entry's outermost object is around it.
            check_limits(kept, 2)
            if kept != self.user_metadata:
                raise ValueError("it would be kept as something else (NaN, dates, tuples, …)")
        except CorruptEntryError as error:
            raise InvalidRangeError(f"user_metadata is refused: {error.detail}") from None
        except (TypeError, ValueError) as error:
            raise InvalidRangeError(f"user_metadata cannot be written as JSON: {error}") from None
        if self.application is not None:
            object.__setattr__(self, "application", _checked_application(self.application))
        if self.deadline is None:
            return
        if not (isinstance(self.deadline, Real) and self.deadline >= 0):
            raise InvalidRangeError(f"deadline {self.deadline!r} is not a number of seconds from 0")
        try:
            object.__setattr__(self, "deadline", float(self.deadline))
        except OverflowError:
            raise InvalidRangeError("the deadline is more seconds than a float can hold") from None


def _checked_application(application: Any) -> tuple[str, int]:
    pair = tuple(application) if isinstance(application, tuple | list) else ()
    number = whole_number(pair[1]) if len(pair) == 2 else None
    if number is None or not isinstance(pair[0], str):
        raise InvalidRangeError(
            f"application={application!r} is not a pair of a text and a whole number"
        )
    checked = str(pair[0]), number
    try:
        check_limits(list(checked))
        checked[0].encode()
    except CorruptEntryError as error:
        raise InvalidRangeError(f"application={application!r} is refused: {error.detail}") from None
    except UnicodeEncodeError as error:
        raise InvalidRangeError(f"application={application!r} is refused: {error}") from None
    return checked


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


class TableContext:
    """Store, log and environment of one handle."""

    def __init__(self, store: Store, view: LogView, environment: Environment = SYSTEM) -> None:
        self.store = store
        self.view = view
        self.environment = environment
        self.version = view.head.version
        """The version this handle reads. What is known of the log may be ahead of it."""
        self.changed: Callable[[str, Schema, Schema], None] | None = None
        """Told of commits of this handle that give the table other columns: its id, the columns
        before and after."""
        self._local = threading.local()

    @property
    def measured(self) -> Measured | None:
        """The operation that this thread began last and has not finished."""
        found: Measured | None = getattr(self._local, "measured", None)
        return found

    @measured.setter
    def measured(self, measured: Measured | None) -> None:
        """Take one up again; None: this thread has none."""
        self._local.measured = measured

    def measure(self) -> Measured:
        """Begin to measure an operation of this thread."""
        measured = Measured.start(self.environment.monotonic, self.store)
        self.measured = measured
        return measured

    def refresh(self) -> None:
        """Move the handle to the newest version."""
        self.view.refresh()
        self.version = self.view.head.version

    def begin(self, *, refresh: bool = True) -> Head:
        """Get ready to write: a store that keeps its promise, the newest version, known features.

        Raises:
            UnsafeStoreError: the store ignores put-if-absent.
            UnsupportedFeatureError: ENT-7, the table needs a newer writer.
        """
        self.measure()
        ensure_safe(self.store, self.environment.nonce(), self.environment.sleep)
        if refresh:
            self.view.refresh()
        check_writable(self.view.head)
        return self.view.head

    def resolve_point(self, version: int | None = None, timestamp: Time | None = None) -> int:
        """The version to read; the handle's own by default.

        Raises:
            InvalidRangeError: both are given, or the time cannot be read.
            VersionNotFoundError: TIM-4, outside the history.
        """
        if version is not None and timestamp is not None:
            raise InvalidRangeError("give a version or a timestamp, not both")
        if timestamp is not None:
            micros = to_micros(timestamp)
            self.view.refresh()
            return self.view.timeline.version_at(micros)
        if version is None:
            return self.version
        number = whole_number(version)
        if number is None:
            raise InvalidRangeError(f"version {version!r} is not a whole number")
        if number > self.view.head.version:
            self.view.refresh()
        return self.view.timeline.check_version(number)

    def applied(self, options: CommitOptions, digest: str | None, name: str) -> Commit | None:
        """The receipt of the commit that carried this application version, if there is one.

        Raises:
            IdempotenceError: the version is the last one applied, with other content.
        """
        if options.application is None:
            return None
        application_id, version = options.application
        known = self.view.head.applications.get(application_id)
        if known is None or version > known[0].version:
            return None
        last, at = known
        if version == last.version and differ(last.digest, digest):
            raise IdempotenceError(
                f"version {version} of application {application_id!r} was applied at version {at} "
                "with other content; use a new application version for new content"
            )
        when = from_micros(self.view.timeline.timestamps[at])
        return Commit(
            version=at, timestamp=when, transaction="", operation=name, already_applied=True
        )

    def no_op(self, transaction: str, name: str) -> Commit:
        """The receipt of an operation that had nothing to do."""
        head = self.view.head
        return Commit(
            version=head.version,
            timestamp=from_micros(head.timestamp),
            transaction=transaction,
            operation=name,
            no_op=True,
        )

    def pin(self, version: int | None = None) -> TransactionSnapshot:
        """A version, by default the newest known, as a new transaction sees it."""
        wanted = self.view.head.version if version is None else version
        measured = self.measured or self.measure()
        return TransactionSnapshot(
            self.store, self.view, wanted, self.environment.nonce(), measured
        )

    def finish(self, plan: Plan, options: CommitOptions) -> Commit:
        """Commit the plan; remove its files if it certainly is not in the table.

        Raises:
            CommitRejectedError, ConcurrentModificationException, CommitUnknownError.
        """
        known = plan.written_under or self.view.head.metadata
        values = {name: get_property(known.properties, name) for name in DECISIVE}
        measured, self.measured = self.measured, None
        if measured is not None:
            plan = with_metrics(plan, measured.metrics())
        plan = replace(
            plan,
            add=self._added(plan),
            granularity=values["conflictGranularity"],
            isolation=values["isolationLevel"],
            delete_mode=values["deleteMode"],
            next_id=plan.next_id
            if plan.read_version is None or plan.floating
            else self.view.totals[plan.read_version].next_id,
            user_metadata=dict(options.user_metadata),
        )
        done = commit(self.store, plan, self.environment, self.view, options.deadline)
        commit_made = receipt(self.store, plan, done, self.view)
        if self.changed is not None and plan.metadata is not None and done.entry is not None:
            self.changed(done.entry.entry.table, known.schema, plan.metadata.schema)
        self.version = max(self.version, commit_made.version)
        return commit_made

    def _added(self, plan: Plan) -> AddedFiles | None:
        """The files, each with the version of the metadata that it was written under (ADD-9).

        Those of a commit that brings metadata were written under that, whatever its version.
        """
        add = plan.add
        if add is None or plan.metadata is not None or plan.read_version is None:
            return add
        under = self.view.metadata_version_at(plan.read_version)
        written = add.columns.get("written", [None] * len(add))
        known = [under if version is None else version for version in written]
        return AddedFiles({**add.columns, "written": known})


def with_metrics(plan: Plan, metrics: Mapping[str, int]) -> Plan:
    """The plan that says more of itself."""
    told = replace(plan.operation, metrics={**plan.operation.metrics, **metrics})
    return replace(plan, operation=told)


class writing:
    """Files are written inside; if that fails they are removed, for nothing names them yet."""

    def __init__(self, store: Store, transaction: str) -> None:
        self.store = store
        self.transaction = transaction

    def __enter__(self) -> None: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: Any
    ) -> None:
        if error is None:
            return
        if isinstance(error, Exception):
            discard(self.store, self.transaction)
        if isinstance(error, StoreError):
            raise CommitRejectedError(str(error).rstrip(".")) from error


def discard(store: Store, transaction: str) -> None:
    """Remove what a transaction wrote, best effort: what stays is an orphan, never in the table."""
    try:
        remove_data(store, transaction)
    except StoreError:
        # The store that refused the write may refuse this too; vacuum finds orphans by name.
        return
    _delete_files(store, [side_key(transaction), deletes_key(transaction)])


def _delete_files(store: Store, keys: Sequence[str]) -> None:
    try:
        for key in keys:
            store.delete(key)
    except StoreError:
        return


def receipt(store: Store, plan: Plan, done: Done, view: LogView | None) -> Commit:
    """The commit, or the exception that its outcome is.

    Raises:
        CommitRejectedError, ConcurrentModificationException, CommitUnknownError; what says why no
        entry could be made: UnsupportedFeatureError (ENT-2, ENT-7), CorruptTableError.
    """
    outcome = done.outcome
    if isinstance(outcome, Committed):
        assert done.entry is not None
        _delete_files(store, done.left_out)
        return committed(done.entry, tuple(done.rebased_over))
    if isinstance(outcome, Unknown):
        raise CommitUnknownError(plan.transaction, outcome.version, outcome.reason)
    discard(store, plan.transaction)
    if isinstance(outcome, Rejected):
        raise done.refused or CommitRejectedError(outcome.reason)
    if isinstance(outcome, Conflicted):
        assert isinstance(outcome.conflict, Conflict)
        raise outcome.conflict.exception()
    assert isinstance(outcome, AlreadyApplied | Overtaken)
    assert view is not None
    when = from_micros(view.timeline.timestamps[outcome.version])
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


def commit_options(given: Mapping[str, Any]) -> CommitOptions:
    """The keywords that every operation takes.

    Raises:
        InvalidRangeError: a keyword that is not one of them, or a value of the wrong kind.
    """
    unknown = sorted(set(given) - {"application", "user_metadata", "deadline"})
    if unknown:
        raise InvalidRangeError(
            f"unknown argument {', '.join(unknown)}; there are application, user_metadata, deadline"
        )
    return CommitOptions(**given)


def application_of(options: CommitOptions, digest: str | None) -> Application | None:
    """The `application` field of the entry."""
    if options.application is None:
        return None
    application_id, version = options.application
    return Application(application_id, version, digest)


def partition_scope(added: AddedFiles | None, metadata: Metadata) -> Scope:
    """The partitions that the files are in; None, the whole table, without partitioning."""
    if not metadata.partition_by or added is None:
        return None
    columns = [added.columns[f"partition.{i}"] for i in metadata.partition_by]
    values = dict.fromkeys(zip(*columns, strict=True))
    return PartitionScope(tuple(values)) if len(values) <= SCOPE_PARTITIONS_MAX else None
