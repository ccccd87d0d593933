"""Skipped entries: an append does not read them; they are held until a caller does. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from tablefmt.log.codec import decode
from tablefmt.model.entry import StoredEntry

UNREAD_MAX = 1024
"""Maximum number of skipped entries held as bytes. Further ones are read again from the store."""

AT_ONCE = 64
"""Maximum number of entries read under a view's lock, so that commits wait only briefly."""

UNREAD_BYTES = 64 << 10
"""Maximum length of an entry to hold."""


class SkippedEntries:
    """Newest skipped entries, in order."""

    def __init__(self) -> None:
        self._held: deque[tuple[int, bytes | StoredEntry | None]] = deque(maxlen=UNREAD_MAX)

    def hold(self, version: int, entry: bytes | StoredEntry) -> None:
        """Add the next entry."""
        large = isinstance(entry, bytes) and len(entry) > UNREAD_BYTES
        self._held.append((version, None if large else entry))

    def forget_after(self, version: int) -> None:
        """Drop entries after a version."""
        while self._held and self._held[-1][0] > version:
            self._held.pop()

    def clear(self) -> None:
        """Drop all entries."""
        self._held.clear()

    def read(self, first: int, last: int) -> Iterator[StoredEntry]:
        """Yield entries of versions `first` to `last`, at most AT_ONCE, up to the first missing
        one.
        """
        held = dict(self._held)
        for version in range(first, min(last, first + AT_ONCE - 1) + 1):
            one = held.get(version)
            if one is None:
                return
            yield one if isinstance(one, StoredEntry) else decode(one, version)

    def missing(self, first: int, last: int) -> range:
        """Return the versions from `first` on that are not held, up to the next held one, or
        `last`.
        """
        held = {version for version, one in self._held if one is not None}
        return range(first, next((v for v in range(first, last + 1) if v in held), last + 1))
