"""Facts about each version of a log that need no files: times, sums, metadata. Pure.

Spec: ENT-6, RPL-4, RPL-7, TIM-2, TIM-4.
"""

from __future__ import annotations

from array import array
from operator import attrgetter
from typing import Any

from tablefmt.model.entry import Entry, LogHorizon, Metadata, SideFile, Totals
from tablefmt.snapshot.base import NOTHING, Base
from tablefmt.snapshot.cursors import NO_CURSORS, Cursors, Move, after, move_of
from tablefmt.snapshot.head import Head
from tablefmt.snapshot.timeline import EarlierTimes, Timeline

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
        self.log_horizons: list[tuple[int, LogHorizon]] = []
        """Log retention horizons, with the versions that set them (ENT-13)."""
        self._sums = array("q")
        self._metadata: list[tuple[int, Metadata]] = []
        self._cursors: Cursors = NO_CURSORS
        """Cursors at the first version."""
        self._moves: list[Move] = []
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
            if isinstance(columns, SideFile):
                self.sides.append((entry.version, columns.path))
        if entry.horizon is not None and entry.horizon.log is not None:
            self.log_horizons.append((entry.version, entry.horizon.log))
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
        told: tuple[list[tuple[int, Any]], ...] = (self._metadata, self.sides, self.log_horizons)
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
