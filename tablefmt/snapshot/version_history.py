"""Facts about each version of a log that need no files: times, sums, metadata. Pure.

Versions and times are converted into each other. An append does not read the entries that it skips;
they are held until a caller does. Spec: ENT-6, ENT-13, RPL-4, RPL-7, TIM-2, TIM-4.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterator
from operator import attrgetter
from typing import Any, Protocol

from tablefmt.errors import VersionNotFoundError
from tablefmt.log.codec import decode
from tablefmt.model.log_entry import (
    Entry,
    LogRetentionHorizon,
    Metadata,
    OverflowFile,
    StoredEntry,
    Totals,
)
from tablefmt.model.times import show_time
from tablefmt.snapshot.checkpoint_base import NOTHING, Base
from tablefmt.snapshot.cursors import NO_CURSORS, CursorMove, Cursors, after, move_of
from tablefmt.snapshot.head import Head


class EarlierTimes(Protocol):
    """Times of versions before those in a timeline."""

    def time_version(self, version: int) -> int:
        """Return the time version of one version, µs UTC."""

    def first_time(self, low: int, high: int, micros: int) -> int:
        """Return the smallest version from `low` to `high` whose time version is >= `micros`; else
        `high`.
        """

    def first_committed(self, low: int, high: int, micros: int) -> int:
        """Return the smallest version from `low` to `high` committed at or after `micros`; else
        `high`.
        """


class Timeline:
    """Timestamps and time versions of versions `first`, `first` + 1, …, in µs UTC.

    On a checkpoint base, `earlier` reads the times of earlier versions.
    """

    def __init__(
        self, first: int = 0, created: int | None = None, earlier: EarlierTimes | None = None
    ) -> None:
        self.first = first
        self._created = created
        self._earlier = earlier
        self.oldest = first if earlier is None else 0
        """Earliest version that may be read; earlier ones have expired (ENT-13)."""
        self.timestamps = array("q")
        """Timestamps from `first` on: ascending, and constant from the last µs of year 9999 on
        (TIM-1).
        """
        self.time_versions = array("q")
        """Time versions from `first` on; never descending."""

    @property
    def last(self) -> int:
        """Return the newest version."""
        return self.first + len(self.timestamps) - 1

    def append(self, timestamp: int, time_version: int, oldest: int = 0) -> None:
        """Add the next version, with its earliest kept version."""
        self.oldest = max(self.oldest, oldest)
        self.time_versions.append(time_version)
        # Last, because its length defines the number of versions.
        self.timestamps.append(timestamp)

    def forget_after(self, version: int) -> None:
        """Drop versions after `version`, including a partly added one."""
        count = version + 1 - self.first
        del self.timestamps[count:]
        del self.time_versions[count:]

    def timestamp(self, version: int) -> int:
        """Return the commit timestamp of a version. Raises VersionNotFoundError."""
        return self.timestamps[self.place(version)]

    def time_version(self, version: int) -> int:
        """Return the time version of a version. Raises VersionNotFoundError."""
        return self.time_versions[self.place(version)]

    def place(self, version: int) -> int:
        """Return the index of a version in the arrays, kept or expired. Raises
        VersionNotFoundError.
        """
        if not self.first <= version <= self.last:
            raise VersionNotFoundError(f"version {version}", self.oldest, self.last)
        return version - self.first

    @property
    def earliest(self) -> int:
        """Return the time version of version 0."""
        return self.time_versions[0] if self._created is None else self._created

    def first_from(self, micros: int) -> int:
        """Return the smallest version whose time version is >= `micros`; `last` + 1 if there is
        none.
        """
        if self._earlier is not None and micros <= self.time_versions[0]:
            return self._earlier.first_time(min(self.oldest, self.first), self.first, micros)
        return self.first + bisect_left(self.time_versions, micros)

    def first_after(self, micros: int) -> int:
        """Return the smallest version whose time version is > `micros`; `last` + 1 if there is
        none.
        """
        if self._earlier is not None and micros < self.time_versions[0]:
            return self.first_from(micros + 1)
        return self.first + bisect_right(self.time_versions, micros)

    def last_by(self, micros: int) -> int:
        """Return the largest version that was committed at or before `micros`.

        If there is none, return the version before the first known one. On a checkpoint base,
        return the version before the first kept one.
        """
        if self._earlier is not None and micros < self.timestamps[0]:
            low = min(self.oldest, self.first)
            if micros < self.earliest:
                return low - 1
            return self._earlier.first_committed(low, self.first, micros + 1) - 1
        return self.first - 1 + bisect_right(self.timestamps, micros)

    def version_at(self, micros: int) -> int:
        """Return the largest version whose time version is <= `micros` (TIM-4).

        Raises:
            VersionNotFoundError: `micros` is before the first version that is kept.
        """
        version = self.first_after(micros) - 1
        if version < self.oldest:
            raise VersionNotFoundError(
                f"time {show_time(micros)}",
                show_time(self._time_of_oldest()),
                show_time(self.time_versions[-1]),
            )
        return version

    def _time_of_oldest(self) -> int:
        if self.oldest >= self.first or self._earlier is None:
            return self.time_versions[self.oldest - self.first]
        return self._earlier.time_version(self.oldest)

    def check_version(self, version: int) -> int:
        """Return `version` if it is in the history that is kept, both ends included.

        Raises:
            VersionNotFoundError: it is not.
        """
        if not self.oldest <= version <= self.last:
            raise VersionNotFoundError(f"version {version}", self.oldest, self.last)
        return version


_SUMS = ("files", "rows", "bytes", "next_id", "metadata_version", "deleted", "oldest")
_sums_of = attrgetter(*_SUMS)


class Versions:
    """Facts about versions `timeline.first` to `timeline.last`."""

    def __init__(self, base: Base = NOTHING, earlier: EarlierTimes | None = None) -> None:
        self.timeline = Timeline(base.first, base.created, earlier if base.first else None)
        self.with_lineage: list[int] = []
        """Versions with lineage of their files' rows (LIN-1)."""
        self.sides: list[tuple[int, str]] = []
        """Overflow metadata files, with the versions that name them (ADD-6, DEL-3)."""
        self.log_retention_horizons: list[tuple[int, LogRetentionHorizon]] = []
        """Log retention horizons, with the versions that set them (ENT-13)."""
        self._sums = array("q")
        self._metadata: list[tuple[int, Metadata]] = []
        self._cursors: Cursors = NO_CURSORS
        """Cursors at the first version."""
        self._moves: list[CursorMove] = []
        """Changes of cursors since the first version."""

    def start(self, head: Head, described: int | None = None) -> None:
        """Add the first version, from a checkpoint base.

        Args:
            head: the head of the version.
            described: the version that wrote its metadata; None: `totals.metadata_version`.
        """
        assert self.timeline.last < self.timeline.first == head.version
        since = head.totals.metadata_version if described is None else described
        self._cursors = head.cursors
        self._take(since, head.totals, head.metadata)
        self.timeline.append(head.timestamp, head.time_version, head.totals.oldest)

    def append(self, entry: Entry) -> None:
        """Add the next version, after dropping the remains of an interrupted attempt."""
        self.forget_after(entry.version - 1)
        if entry.lineage is not None:
            self.with_lineage.append(entry.version)
        move = move_of(entry)
        if move is not None:
            self._moves.append(move)
        for columns in (entry.add, entry.delete):
            if isinstance(columns, OverflowFile):
                self.sides.append((entry.version, columns.path))
        if entry.horizon is not None and entry.horizon.log is not None:
            self.log_retention_horizons.append((entry.version, entry.horizon.log))
        self._take(entry.version, entry.totals, entry.metadata)
        self.timeline.append(entry.timestamp, entry.time_version, entry.totals.oldest)

    def _take(self, version: int, totals: Totals, metadata: Metadata | None) -> None:
        self._sums.extend(_sums_of(totals))
        if metadata is not None:
            self._metadata.append((version, metadata))

    def forget_after(self, version: int) -> None:
        """Drop versions after `version`, including a partly added one."""
        self.timeline.forget_after(version)
        del self._sums[len(_SUMS) * (version + 1 - self.timeline.first) :]
        while self.with_lineage and self.with_lineage[-1] > version:
            self.with_lineage.pop()
        while self._moves and self._moves[-1].version > version:
            self._moves.pop()
        told: tuple[list[tuple[int, Any]], ...] = (
            self._metadata,
            self.sides,
            self.log_retention_horizons,
        )
        for kept in told:
            while kept and kept[-1][0] > version:
                kept.pop()

    def timestamp(self, version: int) -> int:
        """Return the commit timestamp of a version, µs UTC. Raises VersionNotFoundError."""
        return self.timeline.timestamp(version)

    def time_version(self, version: int) -> int:
        """Return the time version of a version, µs UTC. Raises VersionNotFoundError."""
        return self.timeline.time_version(version)

    def totals(self, version: int) -> Totals:
        """Return the table statistics after a version. Raises VersionNotFoundError."""
        at = len(_SUMS) * self.timeline.place(version)
        return Totals(**dict(zip(_SUMS, self._sums[at : at + len(_SUMS)], strict=True)))

    def metadata(self, version: int) -> Metadata:
        """Return the metadata in force at a version that was read, or skipped after one (RPL-4)."""
        return next(m for v, m in reversed(self._metadata) if v <= version)

    def metadata_version(self, version: int) -> int:
        """Return the version that wrote the metadata in force at `version` (ADD-9)."""
        return next(v for v, _ in reversed(self._metadata) if v <= version)

    def cursors(self, version: int) -> Cursors:
        """Return the source cursors at a version that was read (RPL-7)."""
        return after(self._cursors, (e for e in self._moves if e.version <= version))


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
