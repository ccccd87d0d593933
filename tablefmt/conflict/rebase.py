"""Rebase of a transaction onto a concurrent commit that it may follow, by metadata alone. Pure.

No data file is read or written. The transaction and the live files bound the memory, not the number
of concurrent commits. Spec: CFL-5, CFL-9, CFL-13 .. CFL-16 (spec/conflicts.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from pyroaring import BitMap64

from tablefmt.conflict.appended import may_have_read
from tablefmt.conflict.cells import is_blind, rule_text
from tablefmt.conflict.compactions import not_overtaken, taking_over, with_deletes_of
from tablefmt.conflict.facts import Ids, Marks, PendingCommit, Read, Winner
from tablefmt.conflict.ids import ascending, is_among, shared, union, without
from tablefmt.conflict.lineage import Moves, moves_of, place_all, rewritten
from tablefmt.conflict.matrix import ROW, SERIAL, Cell, matrix_of, transaction_rule
from tablefmt.conflict.removal_overlap import removed_files
from tablefmt.conflict.verdict import RebasedOver
from tablefmt.model.entry import NOT_LOGICAL, OperationClass


def follow(winner: Winner, pending: PendingCommit) -> tuple[PendingCommit, RebasedOver]:
    """Return `pending` rebased onto `winner`, and the rule that allowed it.

    Args:
        winner: the next entry in version order; `check(winner, pending)` is None.
        pending: the commit as rebased onto the entries before.

    Raises:
        CorruptEntryError: the concurrent commit's lineage is damaged, or loses rows (LIN-1, DEL-2).
    """
    after, rule = _followed(winner, pending)
    entry = winner.entry
    return after, RebasedOver(entry.version, entry.operation.name, rule, rule_text(winner, pending))


def _followed(winner: Winner, pending: PendingCommit) -> tuple[PendingCommit, str]:
    entry = winner.entry
    general = _general_rule(winner, pending)
    if entry.metadata is not None and pending.floating:
        return replace(pending, metadata=entry.metadata), "CFL-5"
    compacted = entry.operation.cls in NOT_LOGICAL
    if pending.cls in NOT_LOGICAL:
        if not compacted:
            after, rule = with_deletes_of(winner, pending), "CFL-14"
        elif pending.granularity == "transaction":
            after, rule = taking_over(winner, pending), "CFL-16"
        else:
            after, rule = not_overtaken(winner, pending), "CFL-15"
    elif pending.cls is not OperationClass.UPDATE:
        return pending, general
    elif compacted:
        return _moved(winner, pending, general)
    else:
        pending = _without_known(pending, entry.remove)
        after, rule = _skipping(winner, pending), "CFL-9"
    return after, general if after is pending else rule


def _general_rule(winner: Winner, pending: PendingCommit) -> str:
    cls = winner.entry.operation.cls
    if rule_text(winner, pending) is None:
        return "CFL-5"
    if pending.granularity != "transaction":
        return "CFL-3"
    # The check passed although the rule is FAIL, so the scopes are disjoint.
    return "CFL-19" if transaction_rule(cls, pending.cls) is Cell.FAIL else "CFL-2"


def _skipping(winner: Winner, pending: PendingCommit) -> PendingCommit:
    """Record the first skipped blind commit whose rows the reads might have returned (CFL-9)."""
    if pending.granularity == "transaction" or pending.isolation == SERIAL or not is_blind(winner):
        return pending
    if pending.passed_over is not None:
        return pending
    if not any(may_have_read(winner, pending, read).any() for read in pending.reads):
        return pending
    return replace(pending, passed_over=winner.entry.version)


def _moved(winner: Winner, pending: PendingCommit, general: str) -> tuple[PendingCommit, str]:
    """Move reads and removals along with the rows into the compaction's outputs (CFL-13)."""
    removed = removed_files(winner)
    pending = _with_known(winner, pending, removed)
    files = union(
        pending.removes,
        ascending(pending.deletes),
        *(read.files for read in pending.reads),
    )
    hit = shared(removed, files)
    if len(hit) == 0:
        return pending, general
    moves: Moves = {**{file: [] for file in hit.tolist()}, **moves_of(winner.entry, hit)}
    after = replace(
        pending,
        removes=without(pending.removes, removed),
        deletes=_moved_deletes(winner, pending, moves),
        carried=tuple((index, rewritten(runs, moves)) for index, runs in pending.carried),
        reads=tuple(_moved_read(read, removed, moves) for read in pending.reads),
    )
    return after, "CFL-13" if any(moves.values()) else general


def _moved_deletes(winner: Winner, pending: PendingCommit, moves: Moves) -> dict[int, Marks]:
    deletes = {file: marks for file, marks in pending.deletes.items() if file not in moves}
    whole = frozenset(shared(pending.removes, ascending(moves)).tolist())
    for file, each in moves.items():
        marks = pending.deletes.get(file)
        if marks is not None:
            for output, rows in place_all(winner.entry, each, file, marks.updated).items():
                _mark(deletes, output, _NO_ROWS, rows)
            for output, rows in place_all(winner.entry, each, file, marks.deleted).items():
                _mark(deletes, output, rows, _NO_ROWS)
        if file in whole:
            # Remove the rows that are left of a file which was to be removed as a whole.
            for move in each:
                theirs = winner.deletes.get(move.output)
                rows = move.all - theirs.all if theirs is not None else move.all
                known = deletes.get(move.output)
                _mark(deletes, move.output, rows - known.updated if known else rows, _NO_ROWS)
    return deletes


def _mark(deletes: dict[int, Marks], file: int, deleted: BitMap64, updated: BitMap64) -> None:
    if not deleted and not updated:
        return
    before = deletes.get(file)
    if before is not None:
        deleted, updated = before.deleted | deleted, before.updated | updated
    deletes[file] = Marks(deleted, updated)


def _moved_read(read: Read, removed: Ids, moves: Moves) -> Read:
    moved_files = shared(removed, read.files).tolist()
    if not moved_files:
        return read
    outputs = {move.output for file in moved_files for move in moves[file] if move.rows}
    known = read.moved if read.rows is None else read.rows
    after = {file: rows for file, rows in known.items() if file not in moves}
    for file in moved_files:
        rows = known.get(file, None if read.rows is None else _NO_ROWS)
        for move in moves[file]:
            new_rows = move.all if rows is None else move.place(rows)
            if new_rows:
                after[move.output] = (
                    after[move.output] | new_rows if move.output in after else new_rows
                )
    left = without(read.files, removed)
    if read.rows is None:
        # An output with none of the rows was not read. Listing it would count it as a whole.
        return replace(read, files=union(left, ascending(outputs & after.keys())), moved=after)
    return replace(read, files=union(left, ascending(outputs)), rows=after)


def _with_known(winner: Winner, pending: PendingCommit, removed: Ids) -> PendingCommit:
    """Add compaction outputs to the known files if their rows were all there at the read version
    (CFL-17).
    """
    entry = winner.entry
    if not pending.reads or matrix_of(pending.granularity, pending.delete_mode) != ROW:
        return pending
    known = pending.known - frozenset(removed.tolist())
    if entry.add is not None:
        count = len(entry.add)
        news = np.ones(count, np.bool_)
        if entry.lineage is None:
            news[:] = _all_known(removed, pending)
        else:
            lines = np.asarray(entry.lineage.input, np.int64)
            strange = ~_are_known(lines, pending)
            news[np.asarray(entry.lineage.output, np.int64)[strange]] = False
        first = entry.totals.next_id - count
        known |= frozenset((np.flatnonzero(news) + first).tolist())
    return pending if known == pending.known else replace(pending, known=known)


def _without_known(pending: PendingCommit, removed: Sequence[int]) -> PendingCommit:
    forgotten = pending.known.intersection(removed)
    return replace(pending, known=pending.known - forgotten) if forgotten else pending


def _are_known(
    files: Ids, pending: PendingCommit
) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
    old: np.ndarray[tuple[int, ...], np.dtype[np.bool_]] = files < pending.next_id
    return old | is_among(files, ascending(pending.known))


def _all_known(files: Ids, pending: PendingCommit) -> bool:
    return bool(_are_known(files, pending).all())


_NO_ROWS = BitMap64()
