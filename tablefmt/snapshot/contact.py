"""When a view last heard of the head of its log. Who knows nothing newer may know it no longer.

A log may lose its beginning (ENT-13), and a name that is free again can be created again: whoever
goes by an old head asks for more than the next entry. Spec: RET-9, LOG-8.
"""

from __future__ import annotations

import time

from tablefmt.errors import TableReplacedError, VersionNotFoundError
from tablefmt.log.gaps import kept_range
from tablefmt.log.reader import read_tail
from tablefmt.model.entry import StoredEntry
from tablefmt.store.protocol import Store

ENTRY_SECONDS_MIN = 3600.0
"""An entry stays in the log for at least twice as long, unless somebody says that nothing is under
way (RET-9): whoever heard of the head within half of it cannot have missed one that is gone."""

_BOOT = getattr(time, "CLOCK_BOOTTIME", None)


def elapsed() -> float:
    """Seconds that only rise, and go on while the machine sleeps."""
    return time.monotonic() if _BOOT is None else time.clock_gettime(_BOOT)


class Contact:
    """Of one view."""

    def __init__(self) -> None:
        self.clock = elapsed
        self.began_at = self.heard_at = elapsed()

    def heard(self) -> None:
        """The head was seen just now."""
        self.heard_at = self.clock()

    @property
    def age(self) -> float:
        """Seconds since the log was opened."""
        return self.clock() - self.began_at

    @property
    def is_stale(self) -> bool:
        """Entries above the head that is known may have come, and gone."""
        return self.clock() - self.heard_at > ENTRY_SECONDS_MIN / 2

    def entries_after(self, store: Store, version: int) -> list[StoredEntry]:
        """All entries above the head that is known; one request if there is none.

        Raises:
            TableReplacedError: LOG-8, some of them were given up. As `read_tail`.
        """
        stale, now = self.is_stale, self.clock()
        try:
            fresh = read_tail(store, version + 1)
        except VersionNotFoundError as error:
            raise _behind(version, error.oldest, error.latest) from None
        if stale and not fresh:
            oldest, newest = kept_range(store, version, version)
            if newest > version + 1:
                raise _behind(version, oldest, newest)
        self.heard_at = now
        return fresh


def _behind(version: int, oldest: object, newest: object) -> TableReplacedError:
    return TableReplacedError(
        f"what is known here ends at version {version}, and the log was expired since: versions "
        f"{oldest} to {newest} are kept",
        rule="LOG-8",
    )
