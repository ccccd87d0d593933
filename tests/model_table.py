"""A table as plain Python lists: what every read of the real one is compared with."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

Row = tuple[Any, ...]
Change = tuple[Row, str, int, int]
"""Row, `insert` or `delete`, version, commit timestamp in µs."""


@dataclass(frozen=True)
class Version:
    """What one commit left behind."""

    timestamp: int
    time_version: int
    rows: tuple[Row, ...]
    deleted: tuple[Row, ...] = ()
    inserted: tuple[Row, ...] = ()


class ModelTable:
    """Versions 0 to the head. Times are µs."""

    def __init__(self, now: int) -> None:
        self.versions = [Version(now, now, ())]

    @property
    def head(self) -> int:
        return len(self.versions) - 1

    def append(self, rows: Sequence[Row], now: int) -> bool:
        """True if a version was made, here and below."""
        return bool(rows) and self._commit((), rows, now)

    def overwrite(
        self, rows: Sequence[Row], now: int, where: Callable[[Row], bool] = lambda row: True
    ) -> bool:
        gone = [row for row in self.versions[-1].rows if where(row)]
        return bool(gone or rows) and self._commit(gone, rows, now)

    def overwrite_partitions(
        self, rows: Sequence[Row], now: int, partition: Callable[[Row], Any]
    ) -> bool:
        touched = {partition(row) for row in rows}
        return bool(rows) and self.overwrite(rows, now, lambda row: partition(row) in touched)

    def compact(self, now: int) -> bool:
        """Moves rows; changes none."""
        before = self.versions[-1]
        self.versions.append(
            Version(max(now, before.timestamp + 1), before.time_version, before.rows)
        )
        return True

    def _commit(self, gone: Iterable[Row], rows: Sequence[Row], now: int) -> bool:
        before = self.versions[-1]
        time = max(now, before.timestamp + 1)
        left = Counter(before.rows)
        left.subtract(gone)
        after = (*left.elements(), *rows)
        self.versions.append(Version(time, time, after, tuple(gone), tuple(rows)))
        return True

    def at_time(self, micros: int) -> int | None:
        """The largest version whose time version is <= `micros`."""
        found = [v for v, known in enumerate(self.versions) if known.time_version <= micros]
        return max(found, default=None)

    def changes(self, versions: Iterable[int]) -> list[Change]:
        """In order; within a version deletes first."""
        found: list[Change] = []
        for version in versions:
            known = self.versions[version]
            for kind, rows in (("delete", known.deleted), ("insert", known.inserted)):
                found.extend((row, kind, version, known.timestamp) for row in rows)
        return found


def apply(rows: Iterable[Row], changes: Iterable[Change]) -> Counter[Row]:
    """The rows after the changes, as a multiset."""
    result = Counter(rows)
    for row, kind, _, _ in changes:
        result[row] += 1 if kind == "insert" else -1
    assert all(count >= 0 for count in result.values()), "a row is deleted that is not there"
    return +result
