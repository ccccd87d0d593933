"""The loop that runs the commit protocol against the store and the clock. It decides nothing
itself.

Large columns of an entry go to overflow files before the entry is sent.
Spec: CMT-1 .. CMT-10 (spec/commit.md), TIM-3, ADD-6, DEL-3.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from tablefmt.commit.commit_protocol import (
    Attempt,
    Committed,
    Expired,
    Found,
    Get,
    Judged,
    Missing,
    Next,
    Outcome,
    Put,
    Rejected,
    Reply,
    Unknown,
    Unreadable,
    outcome_of,
    start,
    step,
    wait_seconds,
)
from tablefmt.commit.commit_queue import CROWDED, MachineQueue, queue_of
from tablefmt.commit.concurrent_commits import ConcurrentCommitReader
from tablefmt.commit.environment import Environment
from tablefmt.commit.restore_plan import restored_on
from tablefmt.commit.transaction_plan import (
    NOTHING,
    Plan,
    Removed,
    check_age,
    dropped_outputs,
    entry_on,
    removed_from,
    removed_ids,
)
from tablefmt.conflict.verdict import RebasedOver
from tablefmt.errors import (
    CorruptTableError,
    StoreError,
    TablefmtError,
    UnsupportedFeatureError,
    VersionNotFoundError,
)
from tablefmt.log.codec import check_amount, decode, digest, encode_unchecked
from tablefmt.log.log_reader import is_followed
from tablefmt.log.object_names import entry_key
from tablefmt.log.overflow_metadata import (
    DELETES_ABOVE_BYTES,
    IMPORT_ABOVE_BYTES,
    OVERFLOW_ABOVE_BYTES,
    write_deletes,
    write_overflow,
)
from tablefmt.model.log_entry import AddedFiles, Entry, OverflowFile, RowDeletes, StoredEntry
from tablefmt.model.times import MICROS_MAX
from tablefmt.snapshot.file_columns import added_table
from tablefmt.snapshot.head import Head, advance, check_writable
from tablefmt.snapshot.head_freshness import ENTRY_SECONDS_MIN
from tablefmt.snapshot.log_view import LogView
from tablefmt.store.clocks import seconds_between
from tablefmt.store.object_store import NoAnswer, Refused, Store, Written

OVERFLOW_FROM_FILES = 512
"""Fewer files than this seldom reach OVERFLOW_ABOVE_BYTES, so their size is computed only if the
whole entry is longer. The bound of imported files is lower, so theirs is always computed."""


class OverflowFileWriter:
    """Writes the overflow files of one transaction. An unchanged file is written once."""

    def __init__(self, store: Store, plan: Plan) -> None:
        self.store = store
        self.plan = plan
        self._add: tuple[AddedFiles, AddedFiles | OverflowFile] | None = None
        self._delete: tuple[RowDeletes, RowDeletes | OverflowFile] | None = None

    def entry(self, entry: Entry, length: int = 0) -> Entry:
        """Return the entry with its large columns moved to overflow files, which are durable.

        Args:
            entry: with all columns.
            length: of the entry, if it is known.

        Raises:
            StoreError: an overflow file cannot be written.
        """
        add, delete = entry.add, entry.delete
        known = self._add is not None and self._add[0] is add
        if isinstance(add, AddedFiles) and (known or _may_be_large(add, length)):
            if self._add is None or not known:
                self._add = (add, self._store_added(add))
            entry = replace(entry, add=self._add[1])
        if isinstance(delete, RowDeletes) and _size(delete) > DELETES_ABOVE_BYTES:
            if self._delete is None or self._delete[0] != delete:
                overflow = write_deletes(self.store, self.plan.transaction, delete)
                self._delete = (delete, overflow)
            entry = replace(entry, delete=self._delete[1])
        return entry

    def _store_added(self, add: AddedFiles) -> AddedFiles | OverflowFile:
        # The entry may contain the metadata that its files were written under.
        metadata = self.plan.staged.metadata or self.plan.staged.written_under
        most = IMPORT_ABOVE_BYTES if "import" in add.columns else OVERFLOW_ABOVE_BYTES
        if metadata is None or len(orjson.dumps(dict(add.columns))) <= most:
            return add
        return write_overflow(self.store, self.plan.transaction, added_table(add, metadata))


def _may_be_large(add: AddedFiles, length: int) -> bool:
    """Return whether the columns of files may be too large for an entry of a length."""
    many = len(add) >= OVERFLOW_FROM_FILES or length > OVERFLOW_ABOVE_BYTES
    return many or "import" in add.columns


def _size(deletes: RowDeletes) -> int:
    """Return roughly the number of characters that the columns take in an entry."""
    texts = (len(text) for column in (deletes.deleted, deletes.updated) for text in column if text)
    return sum(texts) + 24 * len(deletes)


logger = logging.getLogger(__name__)

DEADLINE_SECONDS = 600.0
"""Default time limit of a commit while the store is silent or the table is contended."""

CLOCK_AHEAD_MAX_US = 600_000_000
"""TIM-3: ten minutes."""

SENT_WITHIN_US = 600_000_000
"""CMT-8, INC-2: ten minutes."""


_UNREADABLE = (CorruptTableError, UnsupportedFeatureError, VersionNotFoundError)
"""Errors of an entry in the way that cannot be judged, or is no longer there."""


@dataclass(slots=True)
class Done:
    """Result of running a commit: the outcome, and what happened on the way."""

    outcome: Outcome
    entry: StoredEntry | None = None
    """The entry as committed. None unless `outcome` is Committed."""
    rebased_over: list[RebasedOver] = field(default_factory=list)
    """Concurrent commits since the read version that this commit was rebased onto."""
    unneeded: list[str] = field(default_factory=list)
    """Unneeded objects of this commit: output files of groups that other compactions did, and an
    entry whose version was given up."""
    refused: TablefmtError | None = None
    """Why no entry could be made, or the damage of an entry in the way. None if neither ended the
    commit."""


class Driver:
    """Commits one plan to the log."""

    def __init__(
        self,
        store: Store,
        plan: Plan,
        environment: Environment,
        view: LogView | None,
        deadline_seconds: float | None = None,
    ) -> None:
        self.store = store
        self.plan = plan
        self.environment = environment
        self.view = view
        self.concurrent_commits = ConcurrentCommitReader(store, plan, view)
        self.overflow_files = OverflowFileWriter(store, plan)
        limit = DEADLINE_SECONDS if deadline_seconds is None else deadline_seconds
        self.expires = environment.monotonic() + limit
        self.late = f"the deadline of {limit:g} s passed"
        self.refused: TablefmtError | None = None
        self.written = False
        """True if the reply to the last put was Written."""
        self.entries: dict[int, tuple[bytes, StoredEntry]] = {}
        self.machine_queue: MachineQueue | None = None
        """This commit's place in the shared commit queue, once it contests a version."""
        now = environment.moment(store) if view is None else view.freshness.now()
        self.heard = self.asked = now
        """Times of the last news of the head, and of this commit's last request (RET-9)."""

    def run(self) -> Done:
        """Contest versions until one is decided. See `commit`."""
        problem = self._far_clock()
        if problem is not None:
            return Done(Rejected(problem))
        if self.view is None:
            return self._contest(0)
        # Threads of one process queue up. Otherwise they would race each other for one version.
        queue = queue_of(self.store.identity)
        with queue.turn(self.expires - self.environment.monotonic()) as turn:
            late = turn.waited and self.environment.monotonic() >= self.expires
            if turn.expired or late:
                return Done(Rejected(self.late))
            try:
                if self.view.freshness.is_stale:
                    self.view.refresh()
                self._absorb_handed(self.view, turn.found)
                head = self.concurrent_commits.head = self._head(self.view)
                self.heard = self.view.freshness.heard_at
                early = self._check_known(head)
            except _UNREADABLE as error:
                # Nothing was sent yet.
                return Done(Rejected(_text(error)), refused=error)
            except StoreError as error:
                return Done(Rejected(_text(error)))
            done = Done(early) if early else self._contest(head.version + 1)
            turn.left.extend(self.concurrent_commits.met)
        return done

    def _head(self, view: LogView) -> Head:
        """Return the head to commit after. If cursors or counters matter, every entry up to it is
        read (RPL-7, IDN-2)."""
        staged = self.plan.staged
        counts = staged.claims is not None or staged.restoring is not None
        reads = self.plan.pending.derived_from is not None or counts
        return view.read_head if reads else view.head

    def _absorb_handed(self, view: LogView, handed: Sequence[tuple[int, bytes]]) -> None:
        """Absorb entries that other threads of this process read or made during the wait."""
        head = view.head
        bodies = [body for version, body in handed if version > head.version]
        if not bodies or handed[0][0] > head.version + 1:
            return
        entries = [decode(body, version) for version, body in enumerate(bodies, head.version + 1)]
        if entries[0].entry.previous == head.digest:
            view.absorb(entries)

    def _check_known(self, head: Head) -> Outcome | None:
        """Judge entries that this handle absorbed since the transaction's read version (CMT-6).

        They count like a lost race.
        """
        if self.plan.staged.read_version is None:
            return None
        try:
            concurrent_commits = self.concurrent_commits.known(
                self.plan.staged.read_version, head.version
            )
        except StoreError as error:
            return Rejected(_text(error))
        for concurrent in concurrent_commits:
            if concurrent.verdict is not None:
                return outcome_of(concurrent.verdict)
        return None

    def _contest(self, version: int) -> Done:
        following: Next
        view = self.view
        crowded = view is not None and view.others + view.crowd > 0
        attempt, following = start(self.plan.transaction, version, probe=crowded)
        with MachineQueue(self.store, self.concurrent_commits.met) as self.machine_queue:
            while isinstance(following, Put | Get):
                if following.backoff:
                    self.machine_queue.end()
                    self._wait(attempt)
                if isinstance(following, Get):
                    # There are other writers: join the queue to read and put undisturbed, if the
                    # store has one (STO-14). Keep half of the remaining time for the request.
                    left = self.expires - self.environment.monotonic()
                    self.machine_queue.take(version, max(0.0, left / 2))
                attempt, following = step(attempt, self._request(attempt, following))
            if isinstance(following, Committed) and following.version in self.entries:
                self.concurrent_commits.add_own(
                    following.version, self.entries[following.version][0]
                )
        if view is not None:
            view.others = self.concurrent_commits.read_others
            if self.machine_queue.had_shared:
                view.crowd = CROWDED if attempt.version > version else max(0, view.crowd - 1)
        if not isinstance(following, Committed):
            rebased = self.concurrent_commits.resolver.rebased_over
            return Done(following, rebased_over=rebased, refused=self.refused)
        return self._finished(following, attempt)

    def _finished(self, committed: Committed, attempt: Attempt) -> Done:
        """Return the result of an attempt whose entry the store has accepted."""
        resolver, version = self.concurrent_commits.resolver, committed.version
        rebased = resolver.rebased_over
        try:
            late = self._check_late_success(version, attempt)
            if late is not None:
                # Readers do not see an entry below the retention horizon (LOG-8), and no entry
                # follows it. So a rejected one can go.
                unneeded = [entry_key(version)] if isinstance(late, Rejected) else []
                return Done(late, rebased_over=rebased, unneeded=unneeded)
            stored = self._committed(version)
        except StoreError as error:
            return Done(Unknown(version, _text(error)), rebased_over=rebased)
        except _UNREADABLE as error:
            # An entry that this writer had not read is below our own.
            return Done(Unknown(version, _text(error)), rebased_over=rebased, refused=error)
        added = self.plan.staged.add
        paths = [] if added is None else added.columns["path"]
        dropped = [paths[at] for at in dropped_outputs(self.plan, resolver.pending)]
        return Done(committed, stored, rebased, dropped)

    def _check_late_success(self, version: int, attempt: Attempt) -> Outcome | None:
        """Return None if our entry is certainly in the log, as it is unless the writer was paused.

        Log expiry may have removed the entries that a writer has not read, if it was paused for
        longer than entries are kept after a retention horizon (RET-9). Its put then creates an
        entry below the retention horizon, which no reader sees.
        """
        view, known = self.view, self.entries.get(version)
        if view is None or not view.freshness.is_long_since(self.heard):
            return None
        follows = None if known is None else is_followed(self.store, version, known[1].digest)
        if follows:
            return None
        lost = f"version {version} was given up while this writer was paused"
        # The version was given up longer ago. So a put of just now created an entry that no reader
        # sees.
        just_sent = view.freshness.seconds_since(self.asked) < ENTRY_SECONDS_MIN
        sure = just_sent and self.written and not attempt.unanswered
        if follows is None and not (sure and self.store.get_many([entry_key(version)]) != [None]):
            # If the entry is missing too, log expiry may have removed every trace of this danger.
            return Unknown(version, lost)
        return Rejected(f"{lost}: open the table again")

    def _wait(self, attempt: Attempt) -> None:
        pause = wait_seconds(attempt, self.environment.fraction())
        self.environment.sleep(min(pause, max(0.0, self.expires - self.environment.monotonic())))

    def _request(self, attempt: Attempt, request: Put | Get) -> Reply:
        if self.environment.monotonic() >= self.expires and attempt.requests > 0:
            return Expired(self.late)
        if self.view is not None:
            self.asked = self.view.freshness.now()
        if isinstance(request, Put):
            if self._has_old_head(attempt):
                return Refused("this writer was paused, and its newest known version may be old")
            if self._is_stale(request.version):
                if attempt.maybe_sent:
                    minutes = SENT_WITHIN_US // 60_000_000
                    return Expired(f"its entry is older than {minutes} minutes")
                self.entries.clear()
            try:
                body = self._bytes(request.version)
            except StoreError as error:
                return Refused(_text(error))
            except TablefmtError as error:
                # No entry of ours fits this head, so nothing was sent (CMT-7).
                self.refused = error
                return Refused(_text(error))
            reply = self.store.put_if_absent(entry_key(request.version), body)
            self.written = isinstance(reply, Written)
            if isinstance(reply, NoAnswer):
                logger.info("no answer for version %d: %s", request.version, reply.reason)
            return reply
        if not attempt.maybe_sent and self._is_known_free():
            return Missing()
        return self._concurrent_commits(request.version)

    def _has_old_head(self, attempt: Attempt) -> bool:
        """Return whether the known head is too old for a first put (RET-9)."""
        view = self.view
        return (
            view is not None and not attempt.maybe_sent and view.freshness.is_long_since(self.heard)
        )

    def _is_known_free(self) -> bool:
        """Return whether the queue left no new entries, and no other writer was met recently."""
        queue, view, head = self.machine_queue, self.view, self.concurrent_commits.head
        if queue is None or queue.shared is None or view is None or head is None:
            return False
        return view.others + self.concurrent_commits.read_others == 0 and not queue.after(head)

    def _bytes(self, version: int) -> bytes:
        """Return the bytes of this version, encoded once so that a repeated put sends the same
        (CMT-3)."""
        if version not in self.entries:
            head = self.concurrent_commits.head
            if head is not None:
                check_writable(head)
                if self.plan.began is not None:
                    # A concurrent ALTER may allow less time (CFL-5).
                    now = self.environment.moment(self.store)
                    check_age(seconds_between(self.plan.began, now), head.metadata)
            entry = self._entry_on(head)
            if entry.timestamp > MICROS_MAX:
                raise StoreError(
                    "the time of the commit would be after the year 9999; correct the clock."
                )
            entry = self.overflow_files.entry(entry)
            assert entry.version == version, (entry.version, version)
            body = encode_unchecked(entry)
            if len(body) > OVERFLOW_ABOVE_BYTES:
                entry = self.overflow_files.entry(entry, len(body))
                body = encode_unchecked(entry)
            stored = StoredEntry(entry, digest(check_amount(body)))
            if head is not None:
                # Check that readers will accept the entry before it is sent.
                advance(head, stored)
            self.entries = {version: (body, stored)}
        return self.entries[version][0]

    def _entry_on(self, head: Head | None) -> Entry:
        plan, pending = self.plan, self.concurrent_commits.resolver.pending
        if plan.staged.restoring is None:
            return entry_on(plan, pending, head, self._select_removed(), self._now_us())
        assert self.view is not None
        assert head is not None
        restored = restored_on(plan.staged.restoring, head, self.view.snapshot(head.version))
        operation = restored.measured(plan.staged.operation, plan.staged.restoring)
        staged = replace(plan.staged, add=restored.added, operation=operation)
        plan = replace(plan, staged=staged, cursors=restored.cursors)
        removed = removed_from(restored.removed)
        return entry_on(plan, restored.pending(pending), head, removed, self._now_us())

    def _is_stale(self, version: int) -> bool:
        """Return whether the entry's timestamp is too old to send it (CMT-8).

        An old entry would extend a time range that readers take as settled (INC-2).
        """
        known = self.entries.get(version)
        if known is None:
            return False
        return self._now_us() - known[1].entry.timestamp > SENT_WITHIN_US

    def _now_us(self) -> int:
        """Return the later of this clock and the store's. A slow clock must not write into the
        past."""
        return max(self.environment.now_us(), self.store.server_time_us() or 0)

    def _select_removed(self) -> Removed:
        ids = removed_ids(self.concurrent_commits.resolver.pending)
        if self.view is None or self.concurrent_commits.head is None:
            return NOTHING
        if self.plan.staged.replacing is None and len(ids) == 0:
            return NOTHING
        snapshot = self.view.snapshot(self.concurrent_commits.head.version)
        if self.plan.staged.replacing is not None:
            return removed_from(snapshot.in_scope(self.plan.staged.replacing.predicate))
        files = snapshot.files
        chosen = files.filter(pc.is_in(files["id"], pa.array(ids)))
        assert chosen.num_rows == len(ids), "removed files are live"
        return removed_from(chosen)

    def _concurrent_commits(self, version: int) -> Reply:
        # After a long time, late writers may have put entries above the known head (RET-9).
        late = self.view is not None and self.view.freshness.is_long_since(self.heard)
        try:
            queue, head = self.machine_queue, self.concurrent_commits.head
            handed = queue.after(head) if queue and head else []
            asked = None if handed or late else self.asked
            found = self.concurrent_commits.read(version, handed, asked)
            if found and asked is not None:
                self.heard = asked
            return Found(found) if found else Missing()
        except StoreError as error:
            return NoAnswer(str(error)) if error.retryable else Refused(_text(error))
        except _UNREADABLE as error:
            return self._unreadable(version, error)

    def _unreadable(self, version: int, error: TablefmtError) -> Reply:
        """Return the reply for entries that cannot be read: our own is committed despite them
        (CMT-4)."""
        known = self.entries.get(version)
        try:
            if known is not None and self.store.get_many([entry_key(version)]) == [known[0]]:
                return Found((Judged(version, self.plan.transaction),))
        except StoreError as silent:
            return NoAnswer(str(silent)) if silent.retryable else Refused(_text(silent))
        self.refused = error
        return Unreadable(_text(error))

    def _committed(self, version: int) -> StoredEntry:
        known = self.entries.get(version)
        if known is not None and known[1].entry.version == version:
            stored = known[1]
        else:
            stored = decode(self.store.get(entry_key(version)), version)
        if not self.written:
            # Found without a reply to our put: the name may exist and not be durable yet (STO-3).
            self.store.sync([entry_key(version)])
        if self.view is not None:
            self.view.absorb([stored])
            self.view.freshness.heard(self.asked)
        return stored

    def _far_clock(self) -> str | None:
        """Return the problem of a clock far ahead of the store's. None: the clock is fine (TIM-3).

        Every later timestamp would have to follow the clock.
        """
        theirs = self.store.server_time_us()
        ahead = self.environment.now_us() - theirs if theirs is not None else 0
        if ahead <= CLOCK_AHEAD_MAX_US:
            return None
        return f"this machine's clock is {ahead // 1_000_000} s ahead of the store's; correct it"


def _text(error: TablefmtError) -> str:
    return str(error).rstrip(".")


def commit(
    store: Store,
    plan: Plan,
    environment: Environment,
    view: LogView | None,
    deadline_seconds: float | None = None,
) -> Done:
    """Commit `plan` after the head that `view` knows, or find out why that is impossible.

    Args:
        store: where the log is.
        plan: the transaction. Its data files exist already (ADD-5).
        environment: clock, nonces and waiting.
        view: the log as known; None to create version 0. It is advanced to the commit.
        deadline_seconds: give up after this long; by default DEADLINE_SECONDS.

    Returns:
        One of the outcomes of commit_protocol.py. Errors of the store and of entries in the log are
        not raised: `Done.refused` has the error of an entry that cannot be judged.
    """
    return Driver(store, plan, environment, view, deadline_seconds).run()
