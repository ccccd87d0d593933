"""Deletion vectors by entry, with the version of each, and their union. Pure.

Like the files, one structure serves a range of versions: a vector applies from its version on.
Bitmaps stay bytes until a caller needs the rows of a file. Spec: DEL-1, DEL-2, DEL-4.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyroaring import BitMap64

from tablefmt.errors import CorruptEntryError
from tablefmt.log.object_names import entry_key
from tablefmt.model.cached_property import cached_property
from tablefmt.model.positions import DELETE_COLUMNS, DeletionVector, marks, pack_positions

_NONE = np.zeros(0, np.int64)
_NO_MAPS = DELETE_COLUMNS.empty_table()

UNIONS_KEPT = 1024
"""Number of files whose union is cached, because a file with many vectors is read repeatedly."""

Unions = dict[int, tuple[int, BitMap64]]
"""Deleted positions by file, each with their version."""


@dataclass(frozen=True)
class Deltas:
    """Deletion vectors of entries: one element per file and entry, in the order of the entries."""

    file: NDArray[np.int64] = field(default_factory=lambda: _NONE)
    version: NDArray[np.int64] = field(default_factory=lambda: _NONE)
    rows: NDArray[np.int64] = field(default_factory=lambda: _NONE)
    takes: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, bool))
    """True if the rows are deleted from this version on. False if the same entry removes the file;
    its vector then serves incremental reads only.
    """
    maps: pa.Table = field(default_factory=lambda: _NO_MAPS)
    """`deleted` and `updated`, as bytes."""
    unions: Unions = field(default_factory=dict, compare=False, repr=False)
    """Cached unions, for this or another state of the same history."""

    def __post_init__(self) -> None:
        for array in (self.file, self.version, self.rows, self.takes):
            array.setflags(write=False)

    def __len__(self) -> int:
        return len(self.file)

    @classmethod
    def of_entry(cls, version: int, maps: pa.Table, takes: NDArray[np.bool_]) -> Deltas:
        """Return the vectors of one entry: DELETE_COLUMNS, and `takes` for each of their rows."""
        file, rows = (maps[name].to_numpy() for name in ("file", "rows"))
        return cls(file, np.full(len(file), version, np.int64), rows, takes, maps)

    @classmethod
    def joined(cls, parts: Sequence[Deltas]) -> Deltas:
        """Return the vectors of all parts, in their order. The first part has the largest cache."""
        if len(parts) == 1:
            return parts[0]
        if not parts:
            return cls()
        return cls(
            np.concatenate([part.file for part in parts]),
            np.concatenate([part.version for part in parts]),
            np.concatenate([part.rows for part in parts]),
            np.concatenate([part.takes for part in parts]),
            pa.concat_tables([part.maps for part in parts]).combine_chunks(),
            parts[0].unions,
        )

    def only(self, mask: NDArray[np.bool_]) -> Deltas:
        """Return the vectors that the mask selects."""
        if mask.all():
            return self
        file, version, rows = self.file[mask], self.version[mask], self.rows[mask]
        maps = self.maps.filter(pa.array(mask))
        return Deltas(file, version, rows, self.takes[mask], maps, self.unions)

    @cached_property
    def _by_file(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the files ascending, and their places; for one file in the order of versions."""
        order = np.argsort(self.file, kind="stable")
        return self.file[order], order

    def counts(self, ids: NDArray[np.int64], version: int) -> NDArray[np.int64]:
        """Return the number of deleted rows at `version` of each of the files `ids`, each given
        once.
        """
        counts = np.zeros(len(ids), np.int64)
        if len(self) and len(ids):
            places, own = self.deleting_from(ids, version)
            np.add.at(counts, places, self.rows[own])
        return counts

    def deleting_from(
        self, ids: NDArray[np.int64], version: int
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the vectors that delete rows of the files `ids` at `version`.

        Each has the place of its file in `ids`, and its own place here. `ids` has each file once,
        and is not empty.
        """
        order = np.argsort(ids, kind="stable")
        ascending = ids[order]
        at = np.flatnonzero(self.takes & (self.version <= version))
        places = np.minimum(np.searchsorted(ascending, self.file[at]), len(ids) - 1)
        known = ascending[places] == self.file[at]
        return order[places[known]], at[known]

    def union(self, file: int, rows: int, version: int) -> BitMap64:
        """Return the deleted positions of a file at `version`.

        Args:
            file: its id.
            rows: the number of its rows.
            version: the version of the snapshot.

        Raises:
            CorruptEntryError: DEL-1 a position is not in the file; DEL-2; DEL-4 a row is deleted
                twice.
        """
        since, union = self.unions.get(file, (-1, BitMap64()))
        if since > version:
            since, union = -1, BitMap64()
        union = union.copy()
        files, order = self._by_file
        first, last = np.searchsorted(files, [file, file + 1])
        places = order[first:last]
        versions = self.version[places]
        for place in places[self.takes[places] & (since < versions) & (versions <= version)]:
            taken = self.taken(int(place), rows)
            if not union.isdisjoint(taken):
                raise self.bad(
                    place, "DEL-4", f"it deletes a row of file {file} that was deleted before"
                )
            union |= taken
        self._keep(file, version, union)
        return union

    def _keep(self, file: int, version: int, union: BitMap64) -> None:
        if self.unions.get(file, (-1, union))[0] >= version:
            return
        if len(self.unions) >= UNIONS_KEPT:
            self.unions.clear()
        self.unions[file] = (version, union.copy())

    def taken(self, place: int, rows: int) -> BitMap64:
        """Return the positions of one element; `rows` is the number of rows of its file.

        Raises:
            CorruptEntryError: DEL-1, DEL-2.
        """
        return self.marks_of(place, rows).all

    def marks_of(self, place: int, rows: int) -> DeletionVector:
        """Return the deletion vector of one element, with deleted and updated rows separate."""
        deleted, updated = (self.maps[name][place].as_py() for name in ("deleted", "updated"))
        try:
            row_marks = marks(int(self.rows[place]), deleted, updated)
        except CorruptEntryError as error:
            raise self.bad(place, error.rule, error.detail) from None
        if row_marks.all.max() >= rows:
            raise self.bad(
                place, "DEL-1", f"it deletes rows beyond the end of file {self.file[place]}"
            )
        return row_marks

    def bad(self, place: int, rule: str, message: str) -> CorruptEntryError:
        """Return the error that names the entry of one element."""
        return CorruptEntryError(message, key=entry_key(int(self.version[place])), rule=rule)


def with_vectors(files: pa.Table, deltas: Deltas, version: int) -> pa.Table:
    """Return the files with the deleted positions at a version, as `read_files` needs them.

    Args:
        files: with the columns `id`, `rows` and `deleted`.
        deltas: deletion vectors that include those of the files.
        version: the version that `deleted` counts.

    Returns:
        The files with the column `vector`, which has encoded positions or null. The same table if
        no row is deleted.

    Raises:
        CorruptEntryError: DEL-1, DEL-2, DEL-4.
    """
    if not pc.any(pc.greater(files["deleted"], 0)).as_py():
        return files
    columns = (files[name].to_pylist() for name in ("id", "rows", "deleted"))
    vectors = [
        pack_positions(deltas.union(file, rows, version)) if deleted else None
        for file, rows, deleted in zip(*columns, strict=True)
    ]
    return files.append_column("vector", pa.array(vectors, pa.large_binary()))
