"""One open table as the operations see it: its store, what is known of its log, its environment."""

from __future__ import annotations

from collections.abc import Callable

from tablefmt.commit.driver import commit
from tablefmt.commit.environment import SYSTEM, Environment
from tablefmt.commit.transaction_plan import Plan
from tablefmt.errors import IdempotenceError, InvalidRangeError, VersionNotFoundError
from tablefmt.model.argument_checks import whole_number
from tablefmt.model.content_hashes import advice_for, differ
from tablefmt.model.log_entry import Entry
from tablefmt.model.schema import Schema
from tablefmt.model.times import Time, from_micros, to_micros
from tablefmt.session.checkpoint_writing import Checkpointer
from tablefmt.session.commit_options import CommitOptions
from tablefmt.session.commit_result import Commit, commit_result
from tablefmt.session.measurements import Measured
from tablefmt.session.transaction_snapshot import (
    SharedFolders,
    TransactionSnapshot,
    remove_leftovers,
)
from tablefmt.snapshot.head import Head, check_writable, dropped
from tablefmt.snapshot.log_view import LogView
from tablefmt.store.forks import ForkedLock
from tablefmt.store.location_checks import ensure_safe
from tablefmt.store.object_store import Store


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
        self.afterwards: Callable[[Entry], None] | None = None
        """Told of commits of this handle that are in the log; never raises, and does not wait."""
        self.shared_folders = SharedFolders()
        self._moving = ForkedLock()
        self.checkpointer = Checkpointer()

    def measure(self) -> Measured:
        """Start to measure an operation: its time, and the requests of this handle."""
        return Measured.start(self.environment.monotonic, self.store, self.environment.now_us)

    def refresh(self) -> None:
        """Move the handle to the newest version."""
        self.view.refresh()
        self._move_to(self.view.head.version)

    def _move_to(self, version: int) -> None:
        """Never back: another thread may have come further meanwhile."""
        with self._moving:
            self.version = max(self.version, version)

    def begin(self, *, refresh: bool = True) -> Head:
        """Get ready to write: a store that keeps its promise, the newest version, known features.

        Raises:
            UnsafeStoreError: the store ignores put-if-absent.
            UnsupportedFeatureError: ENT-7, the table needs a newer writer.
            TableReplacedError: ENT-14, the table was dropped.
        """
        ensure_safe(self.store, self.environment.nonce(), self.environment.sleep)
        # Who has not heard of the log for long may go by a version that is long gone.
        refresh = refresh or self.view.freshness.is_stale
        if refresh:
            self.view.refresh()
        # What is judged at commit is all that follows: what comes before has to be known.
        head = self.view.read_head if refresh else self.view.head
        if head.ended:
            raise dropped(head.version)
        check_writable(head)
        return head

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
            hint = "; a time goes into timestamp" if isinstance(version, str) else ""
            raise InvalidRangeError(f"version {version!r:.100} is not a whole number{hint}")
        if number > self.view.head.version:
            self.view.refresh()
        return self.view.check_version(number)

    def applied(self, options: CommitOptions, digest: str | None, name: str) -> Commit | None:
        """Return the result of the commit that carried this application version, if there is one.

        Raises:
            IdempotenceError: the version is the last one applied, with other content.
        """
        if options.application is None:
            return None
        application_id, version = options.application
        # What another thread's append passed over may have it.
        known = self.view.read_head.applications.get(application_id)
        if known is None or version > known[0].version:
            return None
        last, at = known
        if version == last.version and differ(last.digest, digest):
            raise IdempotenceError(
                f"version {version} of application {application_id!r} was applied at version {at} "
                f"with other content; {advice_for(digest)}"
            )
        try:
            when = from_micros(self.view.timestamp_at(at))
        except VersionNotFoundError:
            # Its entry was removed; it is as old as the oldest that is kept, or older.
            when = from_micros(self.view.timestamp_at(self.view.head.totals.oldest))
        return Commit(
            version=at, timestamp=when, transaction="", operation=name, already_applied=True
        )

    def no_op(self, transaction: str, name: str) -> Commit:
        """Return the result of an operation that had nothing to do."""
        head = self.view.head
        return Commit(
            version=head.version,
            timestamp=from_micros(head.timestamp),
            transaction=transaction,
            operation=name,
            no_op=True,
        )

    def pin(
        self,
        version: int | None = None,
        *,
        measured: Measured | None = None,
        shared_folder: str | None = None,
        transaction: str | None = None,
    ) -> TransactionSnapshot:
        """Pin a version, by default the newest known, for a transaction.

        Args:
            version: which one.
            measured: the measurement of the operation; None: it starts now.
            shared_folder: the transaction in whose folder a lone small file may go.
            transaction: the id of one whose files exist; None: a new one.
        """
        return TransactionSnapshot(
            self.store,
            self.view,
            self.view.head.version if version is None else version,
            transaction or self.environment.nonce(),
            measured or self.measure(),
            shared_folder,
        )

    def finish(self, plan: Plan, deadline: float | None = None) -> Commit:
        """Commit the plan; remove its files if the entry certainly is not in the log (CMT-1).

        Args:
            plan: complete.
            deadline: seconds after which to give up.

        Raises:
            CommitRejectedError, ConcurrentModificationException, CommitUnknownError.
        """
        before = plan.staged.written_under or self.view.head.metadata
        done = commit(self.store, plan, self.environment, self.view, deadline)
        remove_leftovers(self.store, plan, done)
        commit_made = commit_result(plan, done, self.view)
        if self.store.has_folders and plan.staged.add is not None:
            self.shared_folders.take(plan.transaction, plan.staged.add)
        if self.changed is not None and plan.staged.metadata is not None and done.entry is not None:
            self.changed(done.entry.entry.table, before.schema, plan.staged.metadata.schema)
        self._move_to(commit_made.version)
        if done.entry is not None:
            add = done.entry.entry.add
            added = 0 if add is None else len(add)
            version = commit_made.version
            self.checkpointer.committed(self.view, version, added, self.environment)
            if self.afterwards is not None:
                self.afterwards(done.entry.entry)
        return commit_made
