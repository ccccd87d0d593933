"""What a winner took away of what another operation read or takes away itself. Pure.

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
    """Files and rows that both sides touched."""

    files: set[int] = field(default_factory=set)
    rows: dict[int, BitMap64] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.files or self.rows)

    def evidence(self) -> Evidence:
        """The rows where they are known, else the files."""
        if not self.rows:
            return of_files(self.files)
        return {**of_rows(self.rows), **of_files(self.files | self.rows.keys())}

    def add_rows(self, file: int, rows: BitMap64) -> None:
        """More rows of one file."""
        if rows:
            self.rows[file] = self.rows[file] | rows if file in self.rows else rows


def removed_files(winner: Winner) -> Ids:
    """Files that the winner took out whole, ascending."""
    return np.asarray(winner.entry.remove, np.int64)


def marked_files(winner: Winner, removed: Ids) -> Ids:
    """Files that lost rows and are still there, ascending."""
    taken_out = frozenset(removed.tolist())
    return ascending(file for file in winner.deletes if file not in taken_out)


def touched_files(winner: Winner) -> Ids:
    """Files that lost rows, or went."""
    removed = removed_files(winner)
    return union(removed, marked_files(winner, removed))


def overlap_with_read(winner: Winner, read: Read, by_row: bool) -> RemovalOverlap:
    """What the winner took away of what was read (CFL-10); positions where `by_row`."""
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
    """The rows read of one of `read.files`; None: all that were live."""
    if read.rows is not None:
        return read.rows.get(file, _NO_ROWS)
    return read.moved.get(file)


def overlap_with_removals(winner: Winner, pending: PendingCommit, by_row: bool) -> RemovalOverlap:
    """What the winner took away of what the later operation takes away too (CFL-11)."""
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
    """Those of the rows that are marked. Mostly none, so nothing is built to find that out."""
    if marks.deleted.isdisjoint(rows) and marks.updated.isdisjoint(rows):
        return _NO_ROWS
    return marks.all & rows


def overlap_with_inputs(winner: Winner, pending: PendingCommit) -> RemovalOverlap:
    """Files that a compaction would rewrite, and that changed or went (CFL-11)."""
    inputs = union(*(group.inputs for group in pending.groups))
    return RemovalOverlap(files=set(shared(touched_files(winner), inputs).tolist()))


_NO_ROWS = BitMap64()
