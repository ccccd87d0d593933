"""Rows taken out of files, entry by entry, with the version each came; their union. Pure.

Like the files, one structure answers for every version: a delta counts from its version on.
Bitmaps stay bytes until somebody asks for the rows of a file. Spec: DEL-1, DEL-2, DEL-4.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyroaring import BitMap64

from tablefmt.errors import CorruptEntryError
from tablefmt.log.names import entry_key
from tablefmt.model.cached import cached_property
from tablefmt.model.positions import DELETE_COLUMNS, marks

_NONE = np.zeros(0, np.int64)

UNIONS_KEPT = 1024
"""Files whose union is kept to go on from: one with many deltas is read version by version."""

Unions = dict[int, tuple[int, BitMap64]]
"""By file: the positions that are gone at a version."""


@dataclass(frozen=True)
class Deltas:
    """What entries said of rows: one element a file and entry, in the order of the entries."""

    file: NDArray[np.int64] = field(default_factory=lambda: _NONE)
    version: NDArray[np.int64] = field(default_factory=lambda: _NONE)
    rows: NDArray[np.int64] = field(default_factory=lambda: _NONE)
    takes: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, bool))
    """The rows are gone from this version on. False: the file itself went with the same entry, and
    its marks are for incremental reads alone."""
    maps: pa.Table = field(default_factory=lambda: DELETE_COLUMNS.empty_table())
    """`deleted` and `updated`, packed."""
    unions: Unions = field(default_factory=dict, compare=False, repr=False)
    """What was worked out before, for this or another state of the same history."""

    def __len__(self) -> int:
        return len(self.file)

    @cached_property
    def _by_file(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Files ascending, and their places; within one in the order of versions."""
        order = np.argsort(self.file, kind="stable")
        return self.file[order], order

    def counts(self, ids: NDArray[np.int64], version: int) -> NDArray[np.int64]:
        """How many rows are gone at `version` from each of the files `ids`, which are ascending."""
        counts = np.zeros(len(ids), np.int64)
        if len(self) == 0:
            return counts
        at = np.flatnonzero(self.takes & (self.version <= version) & np.isin(self.file, ids))
        np.add.at(counts, np.searchsorted(ids, self.file[at]), self.rows[at])
        return counts

    def union(self, file: int, rows: int, version: int) -> BitMap64:
        """The positions that are gone from a file at `version`.

        Args:
            file: its id.
            rows: how many it has.
            version: of the snapshot.

        Raises:
            CorruptEntryError: DEL-1 a position is not in the file, DEL-2, DEL-4 one went twice.
        """
        since, found = self.unions.get(file, (-1, BitMap64()))
        if since > version:
            since, found = -1, BitMap64()
        found = found.copy()
        files, order = self._by_file
        first, last = np.searchsorted(files, [file, file + 1])
        places = order[first:last]
        versions = self.version[places]
        for place in places[self.takes[places] & (since < versions) & (versions <= version)]:
            taken = self.taken(int(place), rows)
            if not found.isdisjoint(taken):
                raise self.bad(place, "DEL-4", f"it takes a row out of file {file} that was gone")
            found |= taken
        self._keep(file, version, found)
        return found

    def _keep(self, file: int, version: int, found: BitMap64) -> None:
        if self.unions.get(file, (-1, found))[0] >= version:
            return
        if len(self.unions) >= UNIONS_KEPT:
            self.unions.clear()
        self.unions[file] = (version, found.copy())

    def taken(self, place: int, rows: int) -> BitMap64:
        """The positions of one element; `rows` is how many its file has.

        Raises:
            CorruptEntryError: DEL-1, DEL-2.
        """
        deleted, updated = (self.maps[name][place].as_py() for name in ("deleted", "updated"))
        try:
            found = marks(int(self.rows[place]), deleted, updated).all
        except CorruptEntryError as error:
            raise self.bad(place, error.rule, error.detail) from None
        if found.max() >= rows:
            raise self.bad(place, "DEL-1", f"it has rows beyond the end of file {self.file[place]}")
        return found

    def bad(self, place: int, rule: str, message: str) -> CorruptEntryError:
        """The error that names the entry of one element."""
        return CorruptEntryError(message, key=entry_key(int(self.version[place])), rule=rule)


class DeltaHistory:
    """Deltas of all entries so far; grows by `push`."""

    def __init__(self) -> None:
        self._segments: list[Deltas] = []
        self._unions: Unions = {}

    def copy(self) -> DeltaHistory:
        """Another that grows apart from this one."""
        other = DeltaHistory()
        other._segments, other._unions = list(self._segments), self._unions
        return other

    def push(self, entries: Sequence[tuple[int, pa.Table, NDArray[np.bool_]]]) -> None:
        """Take in those of the next entries.

        Args:
            entries: of each its version, DELETE_COLUMNS, and by row of them `Deltas.takes`.
        """
        if not entries:
            return
        counts = [columns.num_rows for _, columns, _ in entries]
        versions = np.repeat(np.array([version for version, _, _ in entries], np.int64), counts)
        maps = pa.concat_tables([columns for _, columns, _ in entries])
        file, rows = (maps[name].to_numpy() for name in ("file", "rows"))
        takes = np.concatenate([takes for _, _, takes in entries])
        self._segments.append(Deltas(file, versions, rows, takes, maps, self._unions))
        # Like a binary counter: every delta is copied O(log n) times over a long life.
        while len(self._segments) > 1 and len(self._segments[-2]) <= 2 * len(self._segments[-1]):
            self._segments[-2:] = [_joined(self._segments[-2:])]

    def all(self) -> Deltas:
        """Those of all entries so far. Later ones do not change it."""
        segments = self._segments
        if not segments:
            return Deltas()
        if len(segments) > 1:
            segments = self._segments = [_joined(segments)]
        return segments[0]


def _joined(segments: list[Deltas]) -> Deltas:
    return Deltas(
        np.concatenate([s.file for s in segments]),
        np.concatenate([s.version for s in segments]),
        np.concatenate([s.rows for s in segments]),
        np.concatenate([s.takes for s in segments]),
        pa.concat_tables([s.maps for s in segments]).combine_chunks(),
        segments[0].unions,
    )
