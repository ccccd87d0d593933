"""Queues of commits to one log: threads of this process and processes of this machine take turns.

Whoever waited is handed the entries that came in meanwhile, so its first put does not lose to a
thread beside it. Every commit stays an entry of its own. An entry that another process met or made
is taken for read if it follows the head that is known: its `previous` is a SHA-256 of all that came
before. A courtesy: nothing relies on it, and a thread that waits behind one who does not move goes
on without its turn. Spec: STO-14.
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
from tablefmt.store.object_store import SharedEntries, Store

PATIENCE_SECONDS = 5.0
"""A line in which nobody's turn ends for this long is not waited in: its head may hang in a request
that gets no answer."""

HANDED_MAX = 1024
"""Most entries kept for those who wait. Who is further behind reads the log."""

HANDED_BYTES = 16 << 20
"""Most bytes of them: entries of large commits are megabytes each."""


def keep_newest(kept: deque[tuple[int, bytes]], entries: Iterable[tuple[int, bytes]]) -> None:
    """Add entries, by version, and let go of the oldest: HANDED_MAX and HANDED_BYTES stay."""
    size = sum(len(body) for _, body in kept)
    for entry in entries:
        kept.append(entry)
        size += len(entry[1])
        while kept and (size > HANDED_BYTES or len(kept) > HANDED_MAX):
            size -= len(kept.popleft()[1])


@dataclass(slots=True)
class Turn:
    """What one commit gets from those before it in the line, and leaves to those behind."""

    found: Sequence[tuple[int, bytes]] = ()
    """Entries, by version, contiguous: what came in while this one waited, and maybe more."""
    waited: bool = False
    """Somebody was before it in the line."""
    expired: bool = False
    """All the time there was is gone, and the turn did not come."""
    left: list[tuple[int, bytes]] = field(default_factory=list)
    """Entries that this one read or made, in order."""


class CommitQueue:
    """First come, first served."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._tickets: deque[threading.Event] = deque()
        self._threads: set[int] = set()
        self._ended = 0
        self._handed: deque[tuple[int, bytes]] = deque()

    @contextmanager
    def turn(self, seconds: float) -> Iterator[Turn]:
        """Wait for those who came before, `seconds` at most.

        A thread that is in the line already, and commits once more from within, waits for nobody.
        """
        me = threading.get_ident()
        if me in self._threads:
            yield Turn()
            return
        ticket = threading.Event()
        with self._mutex:
            alone = not self._tickets
            self._tickets.append(ticket)
            self._threads.add(me)
        turn = Turn(waited=not alone)
        try:
            if not alone and self._wait(ticket, seconds, turn):
                turn.found = tuple(self._handed)
            yield turn
        finally:
            self._leave(ticket, turn)

    def _wait(self, ticket: threading.Event, seconds: float, turn: Turn) -> bool:
        """Whether the turn came. If not, somebody else has it, or nobody."""
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

    def _leave(self, ticket: threading.Event, turn: Turn) -> None:
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
                    # Somebody went on without a turn: from here on it is known again.
                    self._handed.clear()
                    fresh.clear()
                fresh.append((version, body))
                last = version
            keep_newest(self._handed, fresh)
            self._tickets[0].set()


_LINES: WeakValueDictionary[tuple[int, str], CommitQueue] = WeakValueDictionary()


def queue_of(identity: str) -> CommitQueue:
    """The line for the table in the store of that identity, of this process alone."""
    # A forked child has no part in its parent's lines: who stood in them is not there to leave.
    key = (os.getpid(), identity)
    line = _LINES.get(key)
    return line if line is not None else _LINES.setdefault(key, CommitQueue())


CROWDED = 8
"""So many commits after the last one that met others a writer still asks for its turn first."""


class MachineQueue:
    """At most one turn at a time. Ends with the block at the latest."""

    def __init__(self, store: Store, met: deque[tuple[int, bytes]]) -> None:
        self.had_shared = False
        """A turn came with a slate."""
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
        """Wait for the turn, `seconds` at most, unless it is had already."""
        if self._taken:
            return
        self._taken = True
        self.shared = self._turn.enter_context(self._store.turn(entry_key(version), seconds))
        self.had_shared = self.had_shared or self.shared is not None

    def end(self) -> None:
        """Leave what was met, and let the next one go on."""
        shared, self.shared, self._taken = self.shared, None, False
        self._found = ("", [])
        try:
            if shared is not None and self._met:
                shared.leave(list(self._met))
        finally:
            self._turn.close()

    def after(self, head: Head) -> list[bytes]:
        """The entries after `head` that others left, in order; none if they cannot be that."""
        if self.shared is None:
            return []
        if self._found[0] != head.digest:
            left = self.shared.read()
            follows = bool(left) and left[0][0] <= head.version + 1
            bodies = [body for version, body in left if follows and version > head.version]
            self._found = (head.digest, bodies if _are_entries(bodies, head) else [])
        return self._found[1]


def _are_entries(bodies: Sequence[bytes], head: Head) -> bool:
    """Whether they follow each other and the head, and not a byte of them is another."""
    previous = head.digest
    for version, body in enumerate(bodies, head.version + 1):
        if not follows(body, version, previous):
            return False
        previous = digest(body)
    try:
        # Each but the last has its digest in the one after it; the last has a checksum.
        return not bodies or decode(bodies[-1], head.version + len(bodies)) is not None
    except (CorruptTableError, UnsupportedFeatureError):
        return False
