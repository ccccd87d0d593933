"""Concurrent commits that a transaction meets: read, judged in order, and absorbed by the log view.

Only metadata is read: the entry of a concurrent commit, and its overflow files if the rules need
them. Each commit is judged once, in version order. The transaction is rebased onto every commit
that the rules allow. Spec: CMT-4 .. CMT-6 (spec/commit.md), CFL-1.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pyarrow as pa

from tablefmt.commit.commit_protocol import Judged
from tablefmt.commit.commit_queue import keep_newest
from tablefmt.commit.transaction_plan import Plan, is_overtaken
from tablefmt.conflict.conflict_check import check
from tablefmt.conflict.read_write_sets import ConcurrentCommit, PendingCommit
from tablefmt.conflict.rebase import rebase_onto
from tablefmt.conflict.verdict import Overtaken, RebasedOver, Verdict
from tablefmt.errors import (
    CorruptEntryError,
    CorruptTableError,
    StoreError,
    UnsupportedFeatureError,
)
from tablefmt.log.codec import EntryHeader, decode, entry_headers
from tablefmt.log.log_reader import tail_windows
from tablefmt.log.object_names import entry_key
from tablefmt.log.overflow_metadata import read_deletes, read_overflow
from tablefmt.model.log_entry import NOT_LOGICAL, Entry, OperationClass, OverflowFile, StoredEntry
from tablefmt.model.positions import DeletionVector, delete_columns, marks_of
from tablefmt.snapshot.file_columns import added_table, shared_values, with_partitioning
from tablefmt.snapshot.head import advance, dropped, same_table, skip_to
from tablefmt.snapshot.log_view import LogView, cursors_at
from tablefmt.store.clocks import Moment
from tablefmt.store.object_store import Store

_BY_ROWS = NOT_LOGICAL | {OperationClass.UPDATE}
"""Classes for which the rules need the rows that a concurrent commit deleted."""


class ConflictResolver:
    """One transaction, rebased onto the concurrent commits so far."""

    def __init__(self, store: Store, plan: Plan) -> None:
        self.store = store
        self.plan = plan
        self.pending: PendingCommit = plan.pending
        self.rebased_over: list[RebasedOver] = []
        """The concurrent commits it was rebased onto, each with the rule that allowed it."""
        self._last = -1
        self._alike: dict[tuple[OperationClass, bool], RebasedOver] = {}

    @property
    def judges_by_headers(self) -> bool:
        """Return whether the class alone decides about concurrent commits without metadata and
        protocol (CFL-3)."""
        facts = self.plan.pending
        says_more = facts.application is not None or facts.derived_from is not None
        return facts.floating and facts.granularity != "transaction" and not says_more

    def follow_headers(self, concurrent_commits: Sequence[EntryHeader]) -> None:
        """Rebase onto concurrent commits of which only the headers are known."""
        for concurrent in concurrent_commits:
            kind = (concurrent.cls, concurrent.blind)
            if kind not in self._alike:
                alike = ConcurrentCommit(concurrent.as_entry())
                assert check(alike, self.pending) is None, concurrent
                self.pending, self._alike[kind] = rebase_onto(alike, self.pending)
            allowed = self._alike[kind]
            self.rebased_over.append(
                RebasedOver(concurrent.version, concurrent.operation, allowed.rule, allowed.cell)
            )
            self._last = concurrent.version

    def judge(self, entry: Entry) -> Verdict:
        """Return the verdict on an entry. None: the transaction is now rebased onto the entry.

        An entry that was judged before is skipped.

        Raises:
            CorruptTableError: the contents of the entry are damaged, or it dropped the table.
            StoreError: an overflow file cannot be read now.
        """
        if entry.version <= self._last:
            return None
        if entry.ends:
            raise dropped(entry.version)
        concurrent = self._concurrent(entry)
        verdict = check(concurrent, self.pending)
        if verdict is not None:
            return verdict
        self.pending, rebased = rebase_onto(concurrent, self.pending)
        self.rebased_over.append(rebased)
        self._last = entry.version
        return Overtaken(entry.version) if is_overtaken(self.plan, self.pending) else None

    def _concurrent(self, entry: Entry) -> ConcurrentCommit:
        files = None
        if self.pending.reads and entry.add is not None and self.pending.metadata is not None:
            files = self._files(entry)
        deletes: Mapping[int, DeletionVector] = {}
        if self.pending.cls in _BY_ROWS and entry.delete is not None:
            deletes = self._deletes(entry)
        return ConcurrentCommit(entry, files, deletes)

    def _files(self, entry: Entry) -> pa.Table:
        assert entry.add is not None
        metadata = self.pending.metadata
        assert metadata is not None
        if isinstance(entry.add, OverflowFile):
            files = read_overflow(self.store, entry.add)
        else:
            files = added_table(entry.add, metadata)
        if not metadata.is_evolved:
            return files
        # An entry with other metadata conflicts, whatever its files hold (CFL-5).
        return shared_values(with_partitioning(files, metadata.partitioning), metadata)

    def _deletes(self, entry: Entry) -> dict[int, DeletionVector]:
        delete = entry.delete
        assert delete is not None
        try:
            if isinstance(delete, OverflowFile):
                return marks_of(read_deletes(self.store, delete))
            return marks_of(delete_columns(delete))
        except CorruptEntryError as error:
            key = error.key or entry_key(entry.version)
            raise CorruptEntryError(error.detail, key=key, rule=error.rule) from None


FOLLOWING = 4
"""Versions requested at once after a guess that was too low. Each missing one costs a request."""


class ConcurrentCommitReader:
    """Follows the log for one transaction."""

    def __init__(self, store: Store, plan: Plan, view: LogView | None) -> None:
        self.resolver = ConflictResolver(store, plan)
        self.head = view.head if view is not None else None
        """The head that the next entry follows. The view may be ahead, because other threads use
        it.

        After skipped entries, `applications` and `cursors` are those of an earlier version.
        """
        self.read_others = 0
        """Number of entries of other transactions that were read from the store."""
        self.met: deque[tuple[int, bytes]] = deque()
        """The newest sound entries that were read or made on the way, by version."""
        self._store = store
        self._view = view
        self._transaction = plan.transaction
        self._asked: Moment | None = None

    def known(self, since: int, last: int) -> tuple[Judged, ...]:
        """Return the entries above `since`, up to `last`, that the view already knew. Raises as
        `read`."""
        assert self._view is not None
        return self._judged(self._view.entries_after(since, last))

    def read(
        self, version: int, handed: Sequence[bytes] = (), asked: Moment | None = None
    ) -> tuple[Judged, ...]:
        """Read the entries from `version` on, absorb them into the view and judge them.

        At most one window of entries is held at a time. Reading stops after the entry that decides.

        Args:
            version: the contested version.
            handed: entries from that version on, read by an earlier commit of the queue.
            asked: the time now. None if this read must not count as news of the head.

        Returns:
            The judged entries, in order. Empty if the version is free.

        Raises:
            CorruptTableError, UnsupportedFeatureError: the first entry cannot be judged, or an
                entry is missing below others (LOG-2), so its version must not be taken.
            StoreError: the first entry cannot be read now.
        """
        self._asked = asked
        if handed:
            return self._absorb_readable(handed, version)
        concurrent_commits: list[Judged] = []
        try:
            # Ask for as many entries as last time, and for a free version. Then one round is often
            # enough.
            others = self._view.others if self._view is not None else 0
            for bodies in tail_windows(self._store, version, 1 + others, FOLLOWING):
                self.read_others += len(bodies)
                fresh = self._absorb_readable(bodies, version + len(concurrent_commits))
                concurrent_commits.extend(fresh)
                decided = any(w.verdict is not None or self._is_own(w) for w in fresh)
                if decided or len(fresh) < len(bodies):
                    break
        except StoreError:
            # Keep what was read before. The next request reads the rest.
            if not concurrent_commits:
                raise
        return tuple(concurrent_commits)

    def add_own(self, version: int, body: bytes) -> None:
        """Add our own committed entry to the entries that were met."""
        if not self.met or self.met[-1][0] < version:
            keep_newest(self.met, [(version, body)])

    def _is_own(self, concurrent: Judged) -> bool:
        return concurrent.transaction == self._transaction

    def _absorb_readable(self, bodies: Sequence[bytes], first: int) -> tuple[Judged, ...]:
        """Absorb all entries, or those before the first that cannot be judged. Return at least
        one."""
        try:
            return self._absorb(bodies, first)
        except (CorruptTableError, UnsupportedFeatureError):
            if len(bodies) == 1:
                raise
        concurrent_commits: list[Judged] = []
        for version, body in enumerate(bodies, first):
            try:
                concurrent_commits.extend(self._absorb([body], version))
            except (CorruptTableError, UnsupportedFeatureError):
                if not concurrent_commits:
                    raise
                break
            if concurrent_commits[-1].verdict is not None or self._is_own(concurrent_commits[-1]):
                break
        return tuple(concurrent_commits)

    def _absorb(self, bodies: Sequence[bytes], first: int) -> tuple[Judged, ...]:
        judged = self._skipped(bodies, first) or self._all_judged(bodies, first)
        keep_newest(self.met, enumerate(bodies, first))
        return judged

    def _all_judged(self, bodies: Sequence[bytes], first: int) -> tuple[Judged, ...]:
        entries = [decode(body, version) for version, body in enumerate(bodies, first)]
        if self._view is None or self.head is None:
            return self._judged(entries)
        if not self.head.ended:
            # Otherwise the entries create another table, as this transaction would (ENT-14).
            same_table(self.head, entries[0])
        head = self.head
        if any(stored.entry.moves_cursors for stored in entries):
            # Skipped entries may have moved cursors too (RPL-7).
            head = replace(head, cursors=cursors_at(self._view, head.version))
        # Judge first. If that fails now, the head stays where the next request begins.
        judged = self._judged(entries)
        for stored in entries:
            if stored.version > head.version:
                head = advance(head, stored)
        self._view.absorb(entries)
        if self._asked is not None:
            self._view.freshness.heard(self._asked)
        self.head = head
        return judged

    def _skipped(self, bodies: Sequence[bytes], first: int) -> tuple[Judged, ...]:
        """Skip the entries after the head, and decode only the last. Return none if they must be
        read."""
        view, head = self._view, self.head
        if view is None or head is None or not self.resolver.judges_by_headers:
            return ()
        if first != head.version + 1:
            return ()
        seen = entry_headers(bodies, first, head.digest)
        if any(one.transaction == self._transaction for one in seen):
            return ()
        if seen:
            last = decode(bodies[-1], seen[-1].version)
            view.skip(bodies, last)
            self.head = skip_to(head, last)
            self.resolver.follow_headers(seen)
        return tuple(Judged(one.version, one.transaction) for one in seen)

    def _judged(self, entries: Sequence[StoredEntry]) -> tuple[Judged, ...]:
        judged: list[Judged] = []
        decided = False
        for stored in entries:
            entry = stored.entry
            # An entry above our own, or above a conflict, decides nothing.
            decided = decided or entry.transaction == self._transaction
            verdict = None if decided else self.resolver.judge(entry)
            decided = decided or verdict is not None
            judged.append(Judged(entry.version, entry.transaction, verdict))
        return tuple(judged)
