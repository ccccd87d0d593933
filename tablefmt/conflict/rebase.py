"""Rebase of a transaction onto a concurrent commit that it may follow, by metadata alone. Pure.

No data file is read or written. The transaction and the live files bound the memory, not the number
of concurrent commits. Lineage gives the new positions of rows that a compaction moved. A compaction
applies concurrent deletes, and takes over the files of other compactions.
Spec: LIN-1 (spec/entry.md), CFL-5, CFL-9, CFL-13 .. CFL-16 (spec/conflicts.md).
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from pyroaring import BitMap64

from tablefmt.conflict.commit_overlap import may_have_read, removed_files, touched_files
from tablefmt.conflict.conflict_matrix import (
    ROW,
    SERIAL,
    TransactionRule,
    is_blind,
    matrix_of,
    rule_text,
    transaction_rule,
)
from tablefmt.conflict.read_write_sets import (
    ConcurrentCommit,
    DeletionVector,
    Group,
    Ids,
    Output,
    PendingCommit,
    Read,
    Run,
    ascending,
    is_among,
    own_file,
    shared,
    union,
    without,
)
from tablefmt.conflict.verdict import RebasedOver
from tablefmt.errors import CorruptEntryError
from tablefmt.model.log_entry import NOT_LOGICAL, Entry, OperationClass
from tablefmt.model.positions import decode_positions, row_span


@dataclass(frozen=True, slots=True)
class RowMove:
    """Run of rows of an input, and its position in an output."""

    run: Run
    output: int
    """File id, or `own_file`."""
    offset: int
    """Position in the output of the first row that was not dropped."""

    @property
    def rows(self) -> int:
        """Return the number of rows that were not dropped."""
        return self.run.rows - len(self.run.dropped)

    @property
    def all(self) -> BitMap64:
        """Return the positions in the output."""
        return row_span(self.offset, self.offset + self.rows)

    def place(self, positions: BitMap64) -> BitMap64:
        """Return the output positions of the given input positions that are in the run and not
        dropped.
        """
        run = self.run
        if not positions:
            return positions
        inside = positions
        if inside.min() < run.start or inside.max() >= run.start + run.rows:
            inside = inside & row_span(run.start, run.start + run.rows)
        shift = self.offset - run.start
        if not run.dropped or not inside:
            return inside.shift(shift)
        if run.dropped.max() < inside.min():
            return inside.shift(shift - len(run.dropped))
        inside = inside - run.dropped
        at = _numbers(inside)
        moved = at + shift - np.searchsorted(_numbers(run.dropped), at)
        return BitMap64(array("Q", moved.astype(np.uint64).tobytes()))


Moves = Mapping[int, list[RowMove]]
"""Moves by input, in the order of its rows."""


def moves_of(entry: Entry, inputs: Ids) -> dict[int, list[RowMove]]:
    """Return the moves of the rows of `inputs` (ascending ids) from an entry's lineage.

    The function reads only the lines of outputs that hold rows of `inputs`.

    Raises:
        CorruptEntryError: DEL-2, an invalid set of positions.
    """
    lineage = entry.lineage
    if lineage is None or entry.add is None or len(inputs) == 0:
        return {}
    files = np.asarray(lineage.input, np.int64)
    of_inputs = is_among(files, inputs)
    outputs = np.asarray(lineage.output, np.int64)
    lines = np.flatnonzero(np.isin(outputs, outputs[of_inputs]))
    first = entry.totals.next_id - len(entry.add)
    moves: dict[int, list[RowMove]] = {}
    output, offset = -1, 0
    for at in lines.tolist():
        if outputs[at] != output:
            output, offset = int(outputs[at]), 0
        text = lineage.dropped[at]
        dropped = BitMap64() if text is None else decode_positions(text)
        if of_inputs[at]:
            run = Run(lineage.input[at], lineage.start[at], lineage.rows[at], dropped)
            moves.setdefault(run.file, []).append(RowMove(run, first + output, offset))
        offset += lineage.rows[at] - len(dropped)
    return _in_order(moves)


def moves_of_outputs(outputs: Iterable[Output]) -> dict[int, list[RowMove]]:
    """Return the moves of a transaction's own rewrite; outputs are `own_file` ids."""
    moves: dict[int, list[RowMove]] = {}
    for index, runs in outputs:
        offset = 0
        for run in runs:
            move = RowMove(run, own_file(index), offset)
            moves.setdefault(run.file, []).append(move)
            offset += move.rows
    return _in_order(moves)


def _in_order(moves: dict[int, list[RowMove]]) -> dict[int, list[RowMove]]:
    for each in moves.values():
        each.sort(key=lambda move: move.run.start)
    return moves


def place_all(
    entry: Entry, moves: Iterable[RowMove], file: int, rows: BitMap64
) -> dict[int, BitMap64]:
    """Return the new positions of live rows of one input, by output.

    Raises:
        CorruptEntryError: LIN-1, the lineage does not place one of the rows.
    """
    placed: dict[int, BitMap64] = {}
    for move in moves if rows else ():
        rows_moved = move.place(rows)
        if rows_moved:
            placed[move.output] = (
                placed[move.output] | rows_moved if move.output in placed else rows_moved
            )
    if sum(map(len, placed.values())) != len(rows):
        raise CorruptEntryError(
            f"the lineage of version {entry.version} loses rows of file {file}", rule="LIN-1"
        )
    return placed


def rewritten(runs: Iterable[Run], moves: Moves) -> tuple[Run, ...]:
    """Return the same rows in the same order, with runs of moved files replaced by runs of the
    outputs.
    """
    result: list[Run] = []
    for run in runs:
        if run.file not in moves:
            result.append(run)
            continue
        for move in moves[run.file]:
            part = _part(run, move)
            if part is not None:
                result.append(part)
    return tuple(result)


def _part(run: Run, move: RowMove) -> Run | None:
    """Return the rows that a run and a move share, as a run of the move's output."""
    start = max(run.start, move.run.start)
    end = min(run.start + run.rows, move.run.start + move.run.rows)
    if start >= end:
        return None
    dropped = move.run.dropped
    lead = start - move.run.start - dropped.range_cardinality(move.run.start, start)
    rows = end - start - dropped.range_cardinality(start, end)
    if rows == 0:
        return None
    inside = run.dropped & row_span(start, end)
    return Run(move.output, move.offset + lead, rows, move.place(inside))


def _numbers(positions: BitMap64) -> Ids:
    return np.frombuffer(positions.to_array(), np.uint64).astype(np.int64)


def apply_deletes_of(concurrent: ConcurrentCommit, pending: PendingCommit) -> PendingCommit:
    """Return the compaction with the concurrent commit's deletes applied to its outputs
    (CFL-14).
    """
    touched = shared(touched_files(concurrent), _inputs(pending))
    if len(touched) == 0:
        return pending
    removed = removed_files(concurrent)
    whole = frozenset(shared(removed, touched).tolist())
    moves = moves_of_outputs(output for group in pending.groups for output in group.outputs)
    deletes = dict(pending.deletes)
    for file in touched.tolist():
        for move in moves.get(file, ()):
            lost = move.all if file in whole else move.place(concurrent.deletes[file].all)
            if lost:
                before = deletes.get(move.output, _NO_MARKS)
                deletes[move.output] = DeletionVector(before.deleted | lost, before.updated)
    groups = [replace(group, inputs=without(group.inputs, removed)) for group in pending.groups]
    return _with_groups(replace(pending, deletes=deletes), [g for g in groups if len(g.inputs)])


def drop_overtaken_groups(concurrent: ConcurrentCommit, pending: PendingCommit) -> PendingCommit:
    """Return the compaction without the groups whose files the concurrent commit replaced
    (CFL-15).
    """
    removed = removed_files(concurrent)
    kept = [group for group in pending.groups if len(shared(removed, group.inputs)) == 0]
    return pending if len(kept) == len(pending.groups) else _with_groups(pending, kept)


def cannot_take_over(concurrent: ConcurrentCommit, pending: PendingCommit) -> set[int]:
    """Return the files that prevent using a concurrent compaction's outputs as inputs (CFL-16).

    These are inputs that only the concurrent commit has, and files with rows that it dropped but
    `pending` holds.
    """
    removed = removed_files(concurrent)
    hit = shared(removed, _inputs(pending))
    if len(hit) == 0:
        return set()
    lineage = concurrent.entry.lineage
    if lineage is None:
        return set(hit.tolist()) if concurrent.entry.add is not None else set()
    inputs: dict[int, set[int]] = {}
    for output, file in zip(lineage.output, lineage.input, strict=True):
        inputs.setdefault(output, set()).add(file)
    needed = frozenset(hit.tolist())
    foreign = {f for files in inputs.values() if files & needed for f in files - needed}
    return foreign | _kept_but_dropped(pending, moves_of(concurrent.entry, hit))


def take_over_outputs(concurrent: ConcurrentCommit, pending: PendingCommit) -> PendingCommit:
    """Return the compaction with the concurrent commit's outputs in place of their inputs
    (CFL-16).
    """
    removed = removed_files(concurrent)
    hit = shared(removed, _inputs(pending))
    if len(hit) == 0:
        return pending
    moves: Moves = {**{file: [] for file in hit.tolist()}, **moves_of(concurrent.entry, hit)}
    groups: list[Group] = []
    for group in pending.groups:
        taken = shared(removed, group.inputs).tolist()
        outputs = ascending(move.output for file in taken for move in moves[file] if move.rows)
        inputs = union(without(group.inputs, removed), outputs)
        group = Group(inputs, tuple((i, rewritten(runs, moves)) for i, runs in group.outputs))
        # A file that holds rows of two groups joins the groups.
        tied = [g for g in groups if is_among(inputs, g.inputs).any()]
        groups = [g for g in groups if not is_among(inputs, g.inputs).any()]
        groups.append(_joined([*tied, group]))
    return _with_groups(pending, [group for group in groups if len(group.inputs)])


def _kept_but_dropped(pending: PendingCommit, moves: Moves) -> set[int]:
    """Return the files with rows that `pending` holds but the outputs do not."""
    files: set[int] = set()
    for group in pending.groups:
        for _, runs in group.outputs:
            for run in runs:
                for move in moves.get(run.file, ()):
                    lost = move.run.dropped & row_span(run.start, run.start + run.rows)
                    if not lost.issubset(run.dropped):
                        files.add(run.file)
    return files


def _joined(groups: list[Group]) -> Group:
    if len(groups) == 1:
        return groups[0]
    outputs = sorted((o for group in groups for o in group.outputs), key=lambda output: output[0])
    return Group(union(*(group.inputs for group in groups)), tuple(outputs))


def _with_groups(pending: PendingCommit, groups: Iterable[Group]) -> PendingCommit:
    """Return the commit with only these groups, and only the deletes of their outputs."""
    kept = tuple(groups)
    outputs = {own_file(index) for group in kept for index, _ in group.outputs}
    deletes = {file: marks for file, marks in pending.deletes.items() if file in outputs}
    return replace(pending, groups=kept, deletes=deletes)


def _inputs(pending: PendingCommit) -> Ids:
    return union(*(group.inputs for group in pending.groups))


_NO_ROWS = BitMap64()
_NO_MARKS = DeletionVector(_NO_ROWS, _NO_ROWS)


def rebase_onto(
    concurrent: ConcurrentCommit, pending: PendingCommit
) -> tuple[PendingCommit, RebasedOver]:
    """Return `pending` rebased onto `concurrent`, and the rule that allowed it.

    Args:
        concurrent: the next entry in version order; `check(concurrent, pending)` is None.
        pending: the commit as rebased onto the entries before.

    Raises:
        CorruptEntryError: the concurrent commit's lineage is damaged, or loses rows (LIN-1, DEL-2).
    """
    after, rule = _rebased(concurrent, pending)
    entry = concurrent.entry
    return after, RebasedOver(
        entry.version, entry.operation.name, rule, rule_text(concurrent, pending)
    )


def _rebased(concurrent: ConcurrentCommit, pending: PendingCommit) -> tuple[PendingCommit, str]:
    entry = concurrent.entry
    general = _general_rule(concurrent, pending)
    if entry.metadata is not None and pending.floating:
        return replace(pending, metadata=entry.metadata), "CFL-5"
    compacted = entry.operation.cls in NOT_LOGICAL
    if pending.cls in NOT_LOGICAL:
        if not compacted:
            after, rule = apply_deletes_of(concurrent, pending), "CFL-14"
        elif pending.granularity == "transaction":
            after, rule = take_over_outputs(concurrent, pending), "CFL-16"
        else:
            after, rule = drop_overtaken_groups(concurrent, pending), "CFL-15"
    elif pending.cls is not OperationClass.UPDATE:
        return pending, general
    elif compacted:
        return _move_along(concurrent, pending, general)
    else:
        pending = _without_known(pending, entry.remove)
        after, rule = _record_skipped(concurrent, pending), "CFL-9"
    return after, general if after is pending else rule


def _general_rule(concurrent: ConcurrentCommit, pending: PendingCommit) -> str:
    cls = concurrent.entry.operation.cls
    if rule_text(concurrent, pending) is None:
        return "CFL-5"
    if pending.granularity != "transaction":
        return "CFL-3"
    # The check passed although the rule is FAIL, so the scopes are disjoint.
    return "CFL-19" if transaction_rule(cls, pending.cls) is TransactionRule.FAIL else "CFL-2"


def _record_skipped(concurrent: ConcurrentCommit, pending: PendingCommit) -> PendingCommit:
    """Record the first skipped blind commit whose rows the reads might have returned (CFL-9)."""
    if (
        pending.granularity == "transaction"
        or pending.isolation == SERIAL
        or not is_blind(concurrent)
    ):
        return pending
    if pending.skipped is not None:
        return pending
    if not any(may_have_read(concurrent, pending, read).any() for read in pending.reads):
        return pending
    return replace(pending, skipped=concurrent.entry.version)


def _move_along(
    concurrent: ConcurrentCommit, pending: PendingCommit, general: str
) -> tuple[PendingCommit, str]:
    """Move reads and removals along with the rows into the compaction's outputs (CFL-13)."""
    removed = removed_files(concurrent)
    pending = _with_known(concurrent, pending, removed)
    files = union(
        pending.removes,
        ascending(pending.deletes),
        *(read.files for read in pending.reads),
    )
    hit = shared(removed, files)
    if len(hit) == 0:
        return pending, general
    moves: Moves = {**{file: [] for file in hit.tolist()}, **moves_of(concurrent.entry, hit)}
    after = replace(
        pending,
        removes=without(pending.removes, removed),
        deletes=_move_deletes(concurrent, pending, moves),
        copied=tuple((index, rewritten(runs, moves)) for index, runs in pending.copied),
        reads=tuple(_move_read(read, removed, moves) for read in pending.reads),
    )
    return after, "CFL-13" if any(moves.values()) else general


def _move_deletes(
    concurrent: ConcurrentCommit, pending: PendingCommit, moves: Moves
) -> dict[int, DeletionVector]:
    """Return the deleted rows by the files that hold them after the compaction.

    In the outputs, the rows of a file that was to be removed as a whole are deleted one by one.
    """
    deletes = {file: marks for file, marks in pending.deletes.items() if file not in moves}
    for file, of_file in moves.items():
        marks = pending.deletes.get(file, _NO_MARKS)
        for output, rows in place_all(concurrent.entry, of_file, file, marks.updated).items():
            _add_marks(deletes, output, updated=rows)
        for output, rows in place_all(concurrent.entry, of_file, file, marks.deleted).items():
            _add_marks(deletes, output, deleted=rows)
    for file in shared(pending.removes, ascending(moves)).tolist():
        for move in moves[file]:
            # Rows that the winning commit deleted stay deleted. An update stays an update.
            dead = concurrent.deletes.get(move.output, _NO_MARKS).all
            updated = deletes.get(move.output, _NO_MARKS).updated
            _add_marks(deletes, move.output, deleted=move.all - dead - updated)
    return deletes


def _add_marks(
    deletes: dict[int, DeletionVector],
    file: int,
    *,
    deleted: BitMap64 = _NO_ROWS,
    updated: BitMap64 = _NO_ROWS,
) -> None:
    """Add positions to the deleted rows of a file."""
    if deleted or updated:
        before = deletes.get(file, _NO_MARKS)
        deletes[file] = DeletionVector(before.deleted | deleted, before.updated | updated)


def _move_read(read: Read, removed: Ids, moves: Moves) -> Read:
    """Return a read by the files that hold its rows after the compaction.

    If it covered whole files, the positions of their rows in the outputs are in `moved`.
    """
    moved_files = shared(removed, read.files).tolist()
    if not moved_files:
        return read
    covers_files = read.rows is None
    before = read.moved if read.rows is None else read.rows
    after = {file: rows for file, rows in before.items() if file not in moves}
    outputs = set()
    for file in moved_files:
        is_whole = covers_files and file not in before
        for move in moves[file]:
            rows = move.all if is_whole else move.place(before.get(file, _NO_ROWS))
            if rows:
                after[move.output] = after.get(move.output, _NO_ROWS) | rows
            if move.rows:
                outputs.add(move.output)
    left = without(read.files, removed)
    if covers_files:
        # An output without rows of the read would count as read as a whole.
        return replace(read, files=union(left, ascending(outputs & after.keys())), moved=after)
    return replace(read, files=union(left, ascending(outputs)), rows=after)


def _with_known(
    concurrent: ConcurrentCommit, pending: PendingCommit, removed: Ids
) -> PendingCommit:
    """Add compaction outputs to the known files if their rows were all there at the read version
    (CFL-17).
    """
    entry = concurrent.entry
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
