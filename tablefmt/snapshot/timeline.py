"""Between versions and times. Pure. Spec: ENT-13, TIM-2, TIM-4."""

from __future__ import annotations

from array import array
from bisect import bisect_right

from tablefmt.errors import VersionNotFoundError
from tablefmt.model.times import show_time


class Timeline:
    """Timestamps and time versions of versions 0, 1, 2, …, in µs UTC."""

    def __init__(self) -> None:
        self.timestamps = array("q")
        """Strictly rising."""
        self.time_versions = array("q")
        """Never falling."""
        self.logical = bytearray()
        """1 for a commit that changed the table logically, 0 for one that moved rows (TIM-2)."""
        self.oldest = 0
        """The earliest version that is kept: those before can not be read any more (ENT-13)."""

    def __len__(self) -> int:
        return len(self.timestamps)

    def append(self, timestamp: int, time_version: int, logical: bool, oldest: int = 0) -> None:
        """Take in the next version, and from where on it says that versions are kept."""
        self.oldest = max(self.oldest, oldest)
        self.logical.append(logical)
        self.time_versions.append(time_version)
        # Last: it says how many versions there are.
        self.timestamps.append(timestamp)

    def forget_after(self, version: int) -> None:
        """Leave versions up to `version`; of what was to follow any part may be there."""
        del self.timestamps[version + 1 :]
        del self.time_versions[version + 1 :]
        del self.logical[version + 1 :]

    def version_at(self, micros: int) -> int:
        """The largest version whose time version is <= `micros` (TIM-4).

        Raises:
            VersionNotFoundError: `micros` is before the first version that is kept.
        """
        version = bisect_right(self.time_versions, micros) - 1
        if version < self.oldest:
            raise VersionNotFoundError(
                f"time {show_time(micros)}",
                show_time(self.time_versions[self.oldest]),
                show_time(self.time_versions[-1]),
            )
        return version

    def check_version(self, version: int) -> int:
        """`version` if it is in the history that is kept, both ends included.

        Raises:
            VersionNotFoundError: it is not.
        """
        if not self.oldest <= version < len(self):
            raise VersionNotFoundError(f"version {version}", self.oldest, len(self) - 1)
        return version
