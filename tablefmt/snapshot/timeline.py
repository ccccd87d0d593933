"""Conversion between versions and times. Pure. Spec: ENT-13, TIM-2, TIM-4."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from typing import Protocol

from tablefmt.errors import VersionNotFoundError
from tablefmt.model.times import show_time


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
