"""Entries that an append went by without reading them, held until somebody reads. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from tablefmt.log.codec import decode
from tablefmt.model.entry import StoredEntry

UNREAD_MAX = 1024
"""Entries skipped and held as bytes until somebody reads; more are got again from the store."""

AT_ONCE = 64
"""So many are read under a view's lock: commits wait for no more."""

UNREAD_BYTES = 64 << 10
"""Longer ones are not held."""


class SkippedEntries:
    """The newest of them, in order."""

    def __init__(self) -> None:
        self._held: deque[tuple[int, bytes | StoredEntry | None]] = deque(maxlen=UNREAD_MAX)

    def hold(self, version: int, entry: bytes | StoredEntry) -> None:
        """Take in the next one."""
        large = isinstance(entry, bytes) and len(entry) > UNREAD_BYTES
        self._held.append((version, None if large else entry))

    def forget_after(self, version: int) -> None:
        """Let go of those after a version."""
        while self._held and self._held[-1][0] > version:
            self._held.pop()

    def clear(self) -> None:
        """Let go of all."""
        self._held.clear()

    def read(self, first: int, last: int) -> Iterator[StoredEntry]:
        """Entries of versions from one to another, both inclusive, AT_ONCE at most, up to the first
        that is not held.
        """
        held = dict(self._held)
        for version in range(first, min(last, first + AT_ONCE - 1) + 1):
            one = held.get(version)
            if one is None:
                return
            yield one if isinstance(one, StoredEntry) else decode(one, version)

    def missing(self, first: int, last: int) -> range:
        """The versions from one on that are not held, up to the first that is, or the last."""
        held = {version for version, one in self._held if one is not None}
        return range(first, next((v for v in range(first, last + 1) if v in held), last + 1))
