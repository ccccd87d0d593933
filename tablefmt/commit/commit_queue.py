"""Queues of commits to one log, among the threads of a process and the processes of a machine.

A waiting commit gets the entries that arrive during its wait. So its first put does not lose to
another thread of the process. Every commit stays an entry of its own.

Entries of another process count as read if they follow the known head: `previous` of an entry is a
SHA-256 over everything before it.

The queue is only an optimization. A thread does not wait for a queue that does not move.
Spec: STO-14.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from weakref import WeakValueDictionary

from tablefmt.errors import CorruptTableError, UnsupportedFeatureError
from tablefmt.log.codec import decode, digest, follows
from tablefmt.log.object_names import entry_key
from tablefmt.snapshot.head import Head
from tablefmt.store.forks import ForkedLock
from tablefmt.store.object_store import SharedEntries, Store

PATIENCE_SECONDS = 5.0
"""Stop waiting for a queue that has not moved for this long. The commit at its head may hang in a
request without an answer.
"""

HANDED_MAX = 1024
"""Most entries kept for waiting commits. A commit that is further behind reads the log."""

HANDED_BYTES = 16 << 20
"""Most bytes of these entries. An entry of a large commit has megabytes."""


def keep_newest(kept: deque[tuple[int, bytes]], entries: Iterable[tuple[int, bytes]]) -> None:
    """Add entries in order of version, and drop the oldest above HANDED_MAX and HANDED_BYTES."""
    size = sum(len(body) for _, body in kept)
    for entry in entries:
        kept.append(entry)
        size += len(entry[1])
        while kept and (size > HANDED_BYTES or len(kept) > HANDED_MAX):
            size -= len(kept.popleft()[1])


@dataclass(slots=True)
class QueuedCommit:
    """A commit in the queue: the entries it gets from earlier commits, and those it leaves."""

    found: Sequence[tuple[int, bytes]] = ()
    """Entries by version, without gaps: at least those that came in during the wait."""
    waited: bool = False
    """Another commit was in the queue before this one."""
    expired: bool = False
    """The time ran out before this commit was first."""
    left: list[tuple[int, bytes]] = field(default_factory=list)
    """Entries that this commit read or wrote, in order. The next commit of the queue gets them."""


class CommitQueue:
    """A queue of the threads of one process, first come, first served."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._tickets: deque[threading.Event] = deque()
        self._threads: set[int] = set()
        self._ended = 0
        self._handed: deque[tuple[int, bytes]] = deque()

    @contextmanager
    def turn(self, seconds: float) -> Iterator[QueuedCommit]:
        """Wait for the earlier commits in the queue, at most `seconds`.

        A thread that already has a place in the queue, and commits again from within, does not
        wait.
        """
        me = threading.get_ident()
        if me in self._threads:
            yield QueuedCommit()
            return
        ticket = threading.Event()
        with self._mutex:
            alone = not self._tickets
            self._tickets.append(ticket)
            self._threads.add(me)
        turn = QueuedCommit(waited=not alone)
        try:
            if not alone and self._wait(ticket, seconds, turn):
                turn.found = tuple(self._handed)
            yield turn
        finally:
            self._leave(ticket, turn)

    def _wait(self, ticket: threading.Event, seconds: float, turn: QueuedCommit) -> bool:
        """Wait to be first in the queue. Return False if time ran out or the queue is stuck."""
        left = seconds
        while left > 0:
            ended, pause = self._ended, min(left, PATIENCE_SECONDS)
            if ticket.wait(pause):
                return True
            left -= pause
            if self._ended == ended:
                break
        turn.expired = left <= 0 and not ticket.is_set()
        return ticket.is_set()

    def _leave(self, ticket: threading.Event, turn: QueuedCommit) -> None:
        with self._mutex:
            self._ended += 1
            self._tickets.remove(ticket)
            self._threads.discard(threading.get_ident())
            if not self._tickets:
                self._handed.clear()
                return
            fresh: list[tuple[int, bytes]] = []
            last = self._handed[-1][0] if self._handed else -1
            for version, body in turn.left:
                if version != last + 1:
                    # A commit did not wait, so there is a gap. Start again from here.
                    self._handed.clear()
                    fresh.clear()
                fresh.append((version, body))
                last = version
            keep_newest(self._handed, fresh)
            self._tickets[0].set()


_LINES: WeakValueDictionary[tuple[int, str], CommitQueue] = WeakValueDictionary()
_LINES_LOCK = ForkedLock()


def queue_of(identity: str) -> CommitQueue:
    """Return this process's queue for the table in the store with that identity."""
    # A forked child must not use its parent's queues: the waiting threads do not exist in it.
    key = (os.getpid(), identity)
    with _LINES_LOCK:
        line = _LINES.get(key)
        if line is None:
            line = _LINES[key] = CommitQueue()
        return line


CROWDED = 8
"""Number of commits after a lost race that still join the queue before the first put."""


class MachineQueue:
    """One commit's place in the machine's shared commit queue. It joins the queue at most once.

    Leaving the context leaves the queue.
    """

    def __init__(self, store: Store, met: deque[tuple[int, bytes]]) -> None:
        self.had_shared = False
        """Being first came with entries shared by other processes."""
        self.shared: SharedEntries | None = None
        self._store = store
        self._met = met
        self._turn = ExitStack()
        self._taken = False
        self._found: tuple[str, list[bytes]] = ("", [])

    def __enter__(self) -> MachineQueue:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def take(self, version: int, seconds: float) -> None:
        """Wait to be first, at most `seconds`. Do nothing if this commit is first already."""
        if self._taken:
            return
        self._taken = True
        self.shared = self._turn.enter_context(self._store.turn(entry_key(version), seconds))
        self.had_shared = self.had_shared or self.shared is not None

    def end(self) -> None:
        """Leave the entries that this commit met, and leave the queue."""
        shared, self.shared, self._taken = self.shared, None, False
        self._found = ("", [])
        try:
            if shared is not None and self._met:
                shared.leave(list(self._met))
        finally:
            self._turn.close()

    def after(self, head: Head) -> list[bytes]:
        """Return the shared entries after `head`, in order. Return none if they do not follow
        it."""
        if self.shared is None:
            return []
        if self._found[0] != head.digest:
            left = self.shared.read()
            follows = bool(left) and left[0][0] <= head.version + 1
            bodies = [body for version, body in left if follows and version > head.version]
            self._found = (head.digest, bodies if _are_entries(bodies, head) else [])
        return self._found[1]


def _are_entries(bodies: Sequence[bytes], head: Head) -> bool:
    """Return whether the bytes are undamaged entries that follow the head without a gap."""
    previous = head.digest
    for version, body in enumerate(bodies, head.version + 1):
        if not follows(body, version, previous):
            return False
        previous = digest(body)
    try:
        # The next entry holds the digest of each one but the last. The last has its own checksum.
        return not bodies or decode(bodies[-1], head.version + len(bodies)) is not None
    except (CorruptTableError, UnsupportedFeatureError):
        return False
