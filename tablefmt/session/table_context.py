"""One open table for the operations: its store, the known part of its log, and its environment."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tablefmt.commit.commit_protocol import Committed, Conflicted, Unknown
from tablefmt.commit.driver import Done, commit
from tablefmt.commit.environment import SYSTEM, Environment
from tablefmt.commit.transaction_plan import Plan
from tablefmt.errors import IdempotenceError, InvalidRangeError, VersionNotFoundError
from tablefmt.export.table_export import follow_commit
from tablefmt.model.content_hashes import advice_for, differ
from tablefmt.model.log_entry import Entry
from tablefmt.model.schema import Schema
from tablefmt.model.tags import version_or_tag
from tablefmt.model.times import Time, from_micros, to_micros
from tablefmt.session.checkpoint_writing import Checkpointer
from tablefmt.session.commit_options import CommitOptions
from tablefmt.session.commit_result import Commit, commit_result, report_outcome
from tablefmt.session.identity_claims import IdentityClaims
from tablefmt.session.measurements import Measured
from tablefmt.session.refused_commits import REFUSED_COMMITS, refusal_of
from tablefmt.session.transaction_snapshot import (
    SharedFolders,
    TransactionSnapshot,
    remove_leftovers,
)
from tablefmt.snapshot.head import Head, check_writable, dropped, tagged_at
from tablefmt.snapshot.log_view import LogView
from tablefmt.store.forks import ForkedLock
from tablefmt.store.import_roots import with_imports
from tablefmt.store.location_checks import ensure_safe
from tablefmt.store.object_store import Store
from tablefmt.telemetry import span


class TableContext:
    """Store, log and environment of one handle."""

    def __init__(self, store: Store, view: LogView, environment: Environment = SYSTEM) -> None:
        if any(each.root or each.names for each in view.head.metadata.imports.values()):
            store = with_imports(store)
            view.store = store
        self.store = store
        self.view = view
        self.environment = environment
        self.version = view.head.version
        """The version that this handle reads. The known log may be ahead of it."""
        self.changed: Callable[[str, Schema, Schema], None] | None = None
        """Called after a commit of this handle changed the columns, with the table's id, the
        columns before and the columns after."""
        self.afterwards: Callable[[Entry], None] | None = None
        """Called after every commit of this handle. It must not raise or wait."""
        self.shared_folders = SharedFolders()
        self.claims = IdentityClaims(lambda: (self.store, self.view), environment)
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
        """Move the handle forward only, because another thread may have moved it further."""
        with self._moving:
            self.version = max(self.version, version)

    def begin(self, *, refresh: bool = True) -> Head:
        """Prepare to write: check the store and the table's features, and find the newest version.

        Raises:
            UnsafeStoreError: the store ignores put-if-absent.
            UnsupportedFeatureError: ENT-7, the table needs a newer writer.
            TableReplacedError: ENT-14, the table was dropped.
        """
        ensure_safe(self.store, self.environment.nonce(), self.environment.sleep)
        # A stale view may know only versions that were removed long ago.
        refresh = refresh or self.view.freshness.is_stale
        if refresh:
            self.view.refresh()
        # The commit judges only later entries, so all earlier ones must be known.
        head = self.view.read_head if refresh else self.view.head
        if head.ended:
            raise dropped(head.version)
        check_writable(head)
        return head

    def version_of(self, version: int | str) -> int:
        """Return a version that is given as a number, or as the name of a tag (TAG-1).

        Raises:
            InvalidRangeError: it is neither.
            VersionNotFoundError: there is no such tag.
        """
        known = version_or_tag(version)
        if isinstance(known, int):
            return known
        self.view.refresh()
        return tagged_at(self.view.head, known)

    def resolve_point(self, version: int | str | None = None, timestamp: Time | None = None) -> int:
        """Return the version to read; by default the handle's own.

        Args:
            version: a version, or the name of a tag.
            timestamp: alternative to `version`: a time (TIM-4).

        Raises:
            InvalidRangeError: both arguments are given, or one is invalid.
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
        number = self.version_of(version)
        if number > self.view.head.version:
            self.view.refresh()
        return self.view.check_version(number)

    def applied(self, options: CommitOptions, digest: str | None, name: str) -> Commit | None:
        """Return the result of the commit that has this application version, if there is one.

        Raises:
            IdempotenceError: the version is the last one applied, with other content.
        """
        if options.application is None:
            return None
        application_id, version = options.application
        # An entry that another thread's append skipped may have it.
        known = self.view.read_head.applications.get(application_id)
        if known is None or version > known[0].version:
            return None
        last, at = known
        if version == last.version and differ(last.digest, digest):
            raise IdempotenceError(
                f"version {version} of application {application_id!r} was applied at version {at} "
                f"with different content; {advice_for(digest)}"
            )
        try:
            when = from_micros(self.view.timestamp_at(at))
        except VersionNotFoundError:
            # Its entry was removed. The version is at most as new as the oldest kept one.
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
        """Take a transaction's snapshot of a version, by default the newest known.

        Args:
            version: the version.
            measured: measurement of the operation; None: it starts now.
            shared_folder: the transaction whose folder may take a single small file.
            transaction: id of a transaction with existing files; None: a new one.
        """
        return TransactionSnapshot(
            self.store,
            self.view,
            self.view.head.version if version is None else version,
            transaction or self.environment.nonce(),
            measured or self.measure(),
            shared_folder,
            self.claims,
        )

    def finish(self, plan: Plan, deadline: float | None = None) -> Commit:
        """Commit the plan. Remove its files if the entry certainly is not in the log (CMT-1).

        Args:
            plan: complete.
            deadline: seconds after which the commit gives up.

        Raises:
            CommitRejectedError, ConcurrentModificationException, CommitUnknownError.
        """
        before = plan.staged.written_under or self.view.head.metadata
        with span("commit", self.store.uri, operation=plan.staged.operation.name) as add_fields:
            table = self.view.head.table
            refused = REFUSED_COMMITS.take(table)
            if refused:
                plan = replace(plan, refused=refused)
            done = commit(self.store, plan, self.environment, self.view, deadline)
            _note_refused(table, plan, done)
            report_outcome(self.store.uri, plan, done)
            remove_leftovers(self.store, plan, done)
            commit_made = commit_result(plan, done, self.view)
            add_fields(
                version=commit_made.version,
                transaction=commit_made.transaction,
                rebased_over=[int(over) for over in commit_made.rebased_over],
            )
        if self.store.traits.on_disk and plan.staged.add is not None:
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
            exports = follow_commit(self.store, self.view, self.environment)
            if exports:
                return replace(commit_made, exports=exports)
        return commit_made


def _note_refused(table: str, plan: Plan, done: Done) -> None:
    """Count a refused commit. Keep the counts for the next entry if none can have them (ENT-17)."""
    if not isinstance(done.outcome, Committed | Unknown):
        kept = list(plan.refused)
        if isinstance(done.outcome, Conflicted):
            kept.append(refusal_of(plan.staged.operation.name, done.outcome.conflict))
        if kept:
            REFUSED_COMMITS.note(table, kept)
