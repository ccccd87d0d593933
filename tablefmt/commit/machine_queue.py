"""The turn of one commit among processes that write to one log, and what they hand each other.

An entry that another process met or made is taken for read if it follows the head that is known:
its `previous` is a SHA-256 of all that came before. A courtesy: nothing relies on it. Spec: STO-14.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from contextlib import ExitStack

from tablefmt.errors import CorruptTableError, UnsupportedFeatureError
from tablefmt.log.codec import decode, digest
from tablefmt.log.header import follows
from tablefmt.log.names import entry_key
from tablefmt.snapshot.head import Head
from tablefmt.store.protocol import Slate, Store

CROWDED = 8
"""So many commits after the last one that met others a writer still asks for its turn first."""


class MachineQueue:
    """At most one turn at a time. Ends with the block at the latest."""

    def __init__(self, store: Store, met: deque[tuple[int, bytes]]) -> None:
        self.had_slate = False
        """A turn came with a slate."""
        self.slate: Slate | None = None
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
        self.slate = self._turn.enter_context(self._store.turn(entry_key(version), seconds))
        self.had_slate = self.had_slate or self.slate is not None

    def end(self) -> None:
        """Leave what was met, and let the next one go on."""
        slate, self.slate, self._taken = self.slate, None, False
        self._found = ("", [])
        try:
            if slate is not None and self._met:
                slate.leave(list(self._met))
        finally:
            self._turn.close()

    def after(self, head: Head) -> list[bytes]:
        """The entries after `head` that others left, in order; none if they cannot be that."""
        if self.slate is None:
            return []
        if self._found[0] != head.digest:
            left = self.slate.read()
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
