"""Overlap of a concurrent commit's removals with the reads or removals of another operation. Pure.

Spec: CFL-10, CFL-11.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from pyroaring import BitMap64

from tablefmt.conflict.evidence import Evidence, of_files, of_rows
from tablefmt.conflict.facts import Ids, Marks, PendingCommit, Read, Winner
from tablefmt.conflict.ids import ascending, shared, union


@dataclass(slots=True)
class RemovalOverlap:
    """Files and rows that both commits touched."""

    files: set[int] = field(default_factory=set)
    rows: dict[int, BitMap64] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.files or self.rows)

    def evidence(self) -> Evidence:
        """Return the rows if they are known, else the files."""
        if not self.rows:
            return of_files(self.files)
        return {**of_rows(self.rows), **of_files(self.files | self.rows.keys())}

    def add_rows(self, file: int, rows: BitMap64) -> None:
        """Add rows of one file."""
        if rows:
            self.rows[file] = self.rows[file] | rows if file in self.rows else rows


def removed_files(winner: Winner) -> Ids:
    """Return the files that the concurrent commit removed as a whole, ascending."""
    return np.asarray(winner.entry.remove, np.int64)


def marked_files(winner: Winner, removed: Ids) -> Ids:
    """Return the files that lost rows but are still live, ascending."""
    taken_out = frozenset(removed.tolist())
    return ascending(file for file in winner.deletes if file not in taken_out)


def touched_files(winner: Winner) -> Ids:
    """Return the files that lost rows or were removed."""
    removed = removed_files(winner)
    return union(removed, marked_files(winner, removed))


def overlap_with_read(winner: Winner, read: Read, by_row: bool) -> RemovalOverlap:
    """Return what the concurrent commit removed of a read (CFL-10): positions if `by_row`, else
    files.
    """
    taken = RemovalOverlap()
    removed = removed_files(winner)
    removed_read = shared(removed, read.files)
    marked = shared(marked_files(winner, removed), read.files)
    if not (by_row and read.by_row):
        taken.files.update(removed_read.tolist(), marked.tolist())
        return taken
    for file in removed_read.tolist():
        rows = rows_read(read, file)
        if rows is None:
            taken.files.add(file)
        else:
            taken.add_rows(file, rows)
    for file in marked.tolist():
        rows, marks = rows_read(read, file), winner.deletes[file]
        taken.add_rows(file, marks.all if rows is None else _lost(marks, rows))
    return taken


def rows_read(read: Read, file: int) -> BitMap64 | None:
    """Return the rows read of one of `read.files`; None: all live rows."""
    if read.rows is not None:
        return read.rows.get(file, _NO_ROWS)
    return read.moved.get(file)


def overlap_with_removals(winner: Winner, pending: PendingCommit, by_row: bool) -> RemovalOverlap:
    """Return what both the concurrent commit and the later operation remove (CFL-11)."""
    taken = RemovalOverlap()
    removed = removed_files(winner)
    own = union(pending.removes, ascending(file for file in pending.deletes if file >= 0))
    taken.files.update(shared(removed, own).tolist())
    whole = frozenset(shared(marked_files(winner, removed), pending.removes).tolist())
    for file in shared(marked_files(winner, removed), own).tolist():
        if not by_row:
            taken.files.add(file)
        elif file in whole:
            taken.add_rows(file, winner.deletes[file].all)
        else:
            marks = winner.deletes[file]
            for rows in (pending.deletes[file].deleted, pending.deletes[file].updated):
                taken.add_rows(file, _lost(marks, rows))
    return taken


def _lost(marks: Marks, rows: BitMap64) -> BitMap64:
    """Return the given rows that are deleted. Usually there are none, so test that without
    allocation.
    """
    if marks.deleted.isdisjoint(rows) and marks.updated.isdisjoint(rows):
        return _NO_ROWS
    return marks.all & rows


def overlap_with_inputs(winner: Winner, pending: PendingCommit) -> RemovalOverlap:
    """Return the files that a compaction would rewrite and that were changed or removed
    (CFL-11).
    """
    inputs = union(*(group.inputs for group in pending.groups))
    return RemovalOverlap(files=set(shared(touched_files(winner), inputs).tolist()))


_NO_ROWS = BitMap64()
