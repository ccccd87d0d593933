"""The loop in which the commit protocol meets the store and the clock. Decides nothing itself.

Large columns of an entry go to files of their own before the entry is sent.
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
    DEADLINE,
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
    entry_on,
    left_out,
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
from tablefmt.log.codec import decode, digest, encode
from tablefmt.log.log_reader import is_followed
from tablefmt.log.object_names import entry_key
from tablefmt.log.overflow_metadata import (
    DELETES_ABOVE_BYTES,
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

OVERFLOW_FROM_FILES = 2000
"""Fewer files than this seldom reach OVERFLOW_ABOVE_BYTES, so their size is not computed."""


class OverflowFileWriter:
    """The side files of one transaction. What did not change since the last entry stays."""

    def __init__(self, store: Store, plan: Plan) -> None:
        self.store = store
        self.plan = plan
        self._add: tuple[AddedFiles, AddedFiles | OverflowFile] | None = None
        self._delete: tuple[RowDeletes, RowDeletes | OverflowFile] | None = None

    def entry(self, entry: Entry) -> Entry:
        """The entry with side files in place of what is large; they are durable then.

        Raises:
            StoreError: a side file cannot be written.
        """
        add, delete = entry.add, entry.delete
        if isinstance(add, AddedFiles) and len(add) >= OVERFLOW_FROM_FILES:
            if self._add is None or self._add[0] is not add:
                self._add = (add, self._added(add))
            entry = replace(entry, add=self._add[1])
        if isinstance(delete, RowDeletes) and _size(delete) > DELETES_ABOVE_BYTES:
            if self._delete is None or self._delete[0] != delete:
                side = write_deletes(self.store, self.plan.transaction, delete)
                self._delete = (delete, side)
            entry = replace(entry, delete=self._delete[1])
        return entry

    def _added(self, add: AddedFiles) -> AddedFiles | OverflowFile:
        # The entry may bring the metadata that its files were written under.
        metadata = self.plan.staged.metadata or self.plan.staged.written_under
        if metadata is None or len(orjson.dumps(dict(add.columns))) <= OVERFLOW_ABOVE_BYTES:
            return add
        return write_overflow(self.store, self.plan.transaction, added_table(add, metadata))


def _size(deletes: RowDeletes) -> int:
    """Characters of the columns in an entry, about."""
    texts = (len(text) for column in (deletes.deleted, deletes.updated) for text in column if text)
    return sum(texts) + 24 * len(deletes)


logger = logging.getLogger(__name__)

DEADLINE_SECONDS = 600.0
"""How long a commit goes on by default when the store is silent or the table is contended."""

CLOCK_AHEAD_MAX_US = 600_000_000
"""TIM-3: ten minutes."""

SENT_WITHIN_US = 600_000_000
"""CMT-8, INC-2: ten minutes."""


_UNREADABLE = (CorruptTableError, UnsupportedFeatureError, VersionNotFoundError)
"""What is in the way cannot be judged, or is not there any more."""


@dataclass(slots=True)
class Done:
    """How it ended, and what the way there was."""

    outcome: Outcome
    entry: StoredEntry | None = None
    """The entry as committed; None unless `outcome` is Committed."""
    rebased_over: list[RebasedOver] = field(default_factory=list)
    """The winners since the version that was read that this commit went on top of."""
    left_out: list[str] = field(default_factory=list)
    """Objects of this commit that nobody needs: files of groups that other compactions have done,
    and an entry whose version was given up."""
    refused: TablefmtError | None = None
    """Why no entry could be made, or what is wrong with one in the way; None: neither ended it."""


class Driver:
    """Brings one plan into the log."""

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
        self.refused: TablefmtError | None = None
        self.written = False
        """The last put was answered with Written."""
        self.entries: dict[int, tuple[bytes, StoredEntry]] = {}
        self.machine_queue: MachineQueue | None = None
        """The turn of this commit, once it contests a version."""
        now = environment.moment(store) if view is None else view.freshness.now()
        self.heard = self.asked = now
        """When this commit last heard of the head, and when its last request was sent (RET-9)."""

    def run(self) -> Done:
        """Contest versions until one is decided. See `commit`."""
        problem = self._far_clock()
        if problem is not None:
            return Done(Rejected(problem))
        if self.view is None:
            return self._contest(0)
        # Threads of one process take turns: they would only race each other for one version.
        queue = queue_of(self.store.identity)
        with queue.turn(self.expires - self.environment.monotonic()) as turn:
            late = turn.waited and self.environment.monotonic() >= self.expires
            if turn.expired or late:
                return Done(Rejected(DEADLINE))
            try:
                if self.view.freshness.is_stale:
                    self.view.refresh()
                self._take_over(self.view, turn.found)
                head = self.concurrent_commits.head = self._head(self.view)
                self.heard = self.view.freshness.heard_at
                early = self._overtaken(head)
            except _UNREADABLE as error:
                # Nothing of ours was sent.
                return Done(Rejected(_text(error)), refused=error)
            except StoreError as error:
                return Done(Rejected(_text(error)))
            done = Done(early) if early else self._contest(head.version + 1)
            turn.left.extend(self.concurrent_commits.met)
        return done

    def _head(self, view: LogView) -> Head:
        """What to go on top of. Where cursors matter, every entry up to it was read (RPL-7)."""
        reads = self.plan.pending.derived_from is not None or self.plan.staged.restoring is not None
        return view.read_head if reads else view.head

    def _take_over(self, view: LogView, handed: Sequence[tuple[int, bytes]]) -> None:
        """Take in what other threads of this process met or made while this one waited."""
        head = view.head
        bodies = [body for version, body in handed if version > head.version]
        if not bodies or handed[0][0] > head.version + 1:
            return
        entries = [decode(body, version) for version, body in enumerate(bodies, head.version + 1)]
        if entries[0].entry.previous == head.digest:
            view.absorb(entries)

    def _overtaken(self, head: Head) -> Outcome | None:
        """CMT-6: what this handle took in since the transaction read counts like a lost race."""
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
                    # There are others: read and create undisturbed where the store can (STO-14).
                    # Half the time that is left is kept for the request itself.
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
        passed = self.concurrent_commits.resolver.passed
        if not isinstance(following, Committed):
            return Done(following, rebased_over=passed, refused=self.refused)
        try:
            late = self._late(following.version, attempt)
            if late is not None:
                # Below the horizon readers do not see it (LOG-8), and nobody is on top of it.
                gone = [entry_key(following.version)] if isinstance(late, Rejected) else []
                return Done(late, rebased_over=passed, left_out=gone)
            stored = self._committed(following.version)
        except StoreError as error:
            return Done(Unknown(following.version, _text(error)), rebased_over=passed)
        except _UNREADABLE as error:
            # Below it is what nobody here had read.
            unknown = Unknown(following.version, _text(error))
            return Done(unknown, rebased_over=passed, refused=error)
        add = self.plan.staged.add
        paths = [] if add is None else add.columns["path"]
        dropped = left_out(self.plan, self.concurrent_commits.resolver.pending)
        return Done(following, stored, passed, [paths[index] for index in dropped])

    def _late(self, version: int, attempt: Attempt) -> Outcome | None:
        """Look at the log before a success is believed that came long after the head was heard of
        (RET-9). None: the entry is in the log.
        """
        view, known = self.view, self.entries.get(version)
        if view is None or not view.freshness.is_long_since(self.heard):
            return None
        follows = None if known is None else is_followed(self.store, version, known[1].digest)
        if follows:
            return None
        lost = f"version {version} is among those that were given up while this writer stood still"
        # A put that was sent just now cannot have been accepted before they were given up.
        just_sent = view.freshness.seconds_since(self.asked) < ENTRY_SECONDS_MIN
        told = just_sent and self.written and not attempt.unanswered
        if follows is None and not (told and self.store.get_many([entry_key(version)]) != [None]):
            # Where its entry is gone too, an expiry may have removed both that named its danger.
            return Unknown(version, lost)
        return Rejected(f"{lost}: open the table anew")

    def _wait(self, attempt: Attempt) -> None:
        pause = wait_seconds(attempt, self.environment.fraction())
        self.environment.sleep(min(pause, max(0.0, self.expires - self.environment.monotonic())))

    def _request(self, attempt: Attempt, request: Put | Get) -> Reply:
        if self.environment.monotonic() >= self.expires and attempt.requests > 0:
            return Expired()
        if self.view is not None:
            self.asked = self.view.freshness.now()
        if isinstance(request, Put):
            if self._stood_still(attempt):
                return Refused("this writer stood still, and its newest version may be an old one")
            if self._is_stale(request.version):
                if attempt.maybe_sent:
                    return Expired()
                self.entries.clear()
            try:
                body = self._bytes(request.version)
            except StoreError as error:
                return Refused(_text(error))
            except TablefmtError as error:
                # No entry of ours can go on this head: nothing of it was sent (CMT-7).
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

    def _stood_still(self, attempt: Attempt) -> bool:
        """Return whether the head is too old to be the base of a first put (RET-9)."""
        view = self.view
        return (
            view is not None and not attempt.maybe_sent and view.freshness.is_long_since(self.heard)
        )

    def _is_known_free(self) -> bool:
        """Whether those who take turns left nothing new, and nobody else was met of late."""
        queue, view, head = self.machine_queue, self.view, self.concurrent_commits.head
        if queue is None or queue.shared is None or view is None or head is None:
            return False
        return view.others + self.concurrent_commits.read_others == 0 and not queue.after(head)

    def _bytes(self, version: int) -> bytes:
        """The bytes of this version: made once, so that a repeated put sends the same (CMT-3)."""
        if version not in self.entries:
            head = self.concurrent_commits.head
            if head is not None:
                check_writable(head)
                if self.plan.began is not None:
                    # An ALTER that it goes on top of may allow less time (CFL-5).
                    now = self.environment.moment(self.store)
                    check_age(seconds_between(self.plan.began, now), head.metadata)
            entry = self._entry_on(head)
            if entry.timestamp > MICROS_MAX:
                raise StoreError("the commit would be after the year 9999; set the clock right.")
            entry = self.overflow_files.entry(entry)
            assert entry.version == version, (entry.version, version)
            body = encode(entry)
            stored = StoredEntry(entry, digest(body))
            if head is not None:
                # Nothing is sent that a reader would refuse.
                advance(head, stored)
            self.entries = {version: (body, stored)}
        return self.entries[version][0]

    def _entry_on(self, head: Head | None) -> Entry:
        plan, pending = self.plan, self.concurrent_commits.resolver.pending
        if plan.staged.restoring is None:
            return entry_on(plan, pending, head, self._removed(), self._now_us())
        assert self.view is not None
        assert head is not None
        restored = restored_on(plan.staged.restoring, head, self.view.snapshot(head.version))
        operation = restored.measured(plan.staged.operation, plan.staged.restoring)
        staged = replace(plan.staged, add=restored.added, operation=operation)
        plan = replace(plan, staged=staged, cursors=restored.cursors)
        removed = removed_from(restored.goes)
        return entry_on(plan, restored.pending(pending), head, removed, self._now_us())

    def _is_stale(self, version: int) -> bool:
        """CMT-8: an entry stamped long ago is not sent, or a settled range would grow (INC-2)."""
        known = self.entries.get(version)
        if known is None:
            return False
        return self._now_us() - known[1].entry.timestamp > SENT_WITHIN_US

    def _now_us(self) -> int:
        """The later of this clock and the store's: a slow clock must not write into the past."""
        return max(self.environment.now_us(), self.store.server_time_us() or 0)

    def _removed(self) -> Removed:
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
        assert chosen.num_rows == len(ids), "what is removed is live"
        return removed_from(chosen)

    def _concurrent_commits(self, version: int) -> Reply:
        # What follows a head of long ago may have been put there by others who were late (RET-9).
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
        """What is ours is committed, whatever is wrong above it (CMT-4)."""
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
            # Met, not answered: the name may be there and not durable yet (STO-3).
            self.store.sync([entry_key(version)])
        if self.view is not None:
            self.view.absorb([stored])
            self.view.freshness.heard(self.asked)
        return stored

    def _far_clock(self) -> str | None:
        """TIM-3: a clock far ahead of the store's would bind every later timestamp."""
        theirs = self.store.server_time_us()
        ahead = self.environment.now_us() - theirs if theirs is not None else 0
        if ahead <= CLOCK_AHEAD_MAX_US:
            return None
        return f"this machine's clock is {ahead // 1_000_000} s ahead of the store's; set it right"


def _text(error: TablefmtError) -> str:
    return str(error).rstrip(".")


def commit(
    store: Store,
    plan: Plan,
    environment: Environment,
    view: LogView | None,
    deadline_seconds: float | None = None,
) -> Done:
    """Bring `plan` into the log on top of what `view` knows, or find out why not.

    Args:
        store: where the log is.
        plan: the transaction; its data files exist already (ADD-5).
        environment: clock, nonces, waiting.
        view: the log as known; None to create version 0. It is brought up to the commit.
        deadline_seconds: give up after this long; by default DEADLINE_SECONDS.

    Returns:
        One of the outcomes of commit/commit_protocol.py. What the store does, or what is in the
        log, raises nothing: an entry that cannot be judged is in `Done.refused`.
    """
    return Driver(store, plan, environment, view, deadline_seconds).run()
