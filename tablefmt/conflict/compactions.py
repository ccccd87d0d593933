"""Rebase of compactions: apply concurrent deletes, and take over the files of other compactions.

Pure. Spec: CFL-14, CFL-15, CFL-16.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from pyroaring import BitMap64

from tablefmt.conflict.facts import Group, Ids, Marks, PendingCommit, Winner, own_file
from tablefmt.conflict.ids import ascending, is_among, shared, union, without
from tablefmt.conflict.lineage import Moves, moves_of, moves_of_outputs, rewritten, span
from tablefmt.conflict.removal_overlap import removed_files, touched_files


def with_deletes_of(winner: Winner, pending: PendingCommit) -> PendingCommit:
    """Return the compaction with the concurrent commit's deletes applied to its outputs
    (CFL-14).
    """
    touched = shared(touched_files(winner), _inputs(pending))
    if len(touched) == 0:
        return pending
    removed = removed_files(winner)
    whole = frozenset(shared(removed, touched).tolist())
    moves = moves_of_outputs(output for group in pending.groups for output in group.outputs)
    deletes = dict(pending.deletes)
    for file in touched.tolist():
        for move in moves.get(file, ()):
            lost = move.all if file in whole else move.place(winner.deletes[file].all)
            if lost:
                before = deletes.get(move.output, _NO_MARKS)
                deletes[move.output] = Marks(before.deleted | lost, before.updated)
    groups = [replace(group, inputs=without(group.inputs, removed)) for group in pending.groups]
    return _with_groups(replace(pending, deletes=deletes), [g for g in groups if len(g.inputs)])


def not_overtaken(winner: Winner, pending: PendingCommit) -> PendingCommit:
    """Return the compaction without the groups whose files the concurrent commit replaced
    (CFL-15).
    """
    removed = removed_files(winner)
    kept = [group for group in pending.groups if len(shared(removed, group.inputs)) == 0]
    return pending if len(kept) == len(pending.groups) else _with_groups(pending, kept)


def cannot_take_over(winner: Winner, pending: PendingCommit) -> set[int]:
    """Return the files that prevent using a concurrent compaction's outputs as inputs (CFL-16).

    These are inputs that only the concurrent commit has, and files with rows that it dropped but
    `pending` holds.
    """
    removed = removed_files(winner)
    hit = shared(removed, _inputs(pending))
    if len(hit) == 0:
        return set()
    lineage = winner.entry.lineage
    if lineage is None:
        return set(hit.tolist()) if winner.entry.add is not None else set()
    inputs: dict[int, set[int]] = {}
    for output, file in zip(lineage.output, lineage.input, strict=True):
        inputs.setdefault(output, set()).add(file)
    needed = frozenset(hit.tolist())
    foreign = {f for files in inputs.values() if files & needed for f in files - needed}
    return foreign | _kept_but_dropped(pending, moves_of(winner.entry, hit))


def taking_over(winner: Winner, pending: PendingCommit) -> PendingCommit:
    """Return the compaction with the concurrent commit's outputs in place of their inputs
    (CFL-16).
    """
    removed = removed_files(winner)
    hit = shared(removed, _inputs(pending))
    if len(hit) == 0:
        return pending
    moves: Moves = {**{file: [] for file in hit.tolist()}, **moves_of(winner.entry, hit)}
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
                    lost = move.run.dropped & span(run.start, run.rows)
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


_NO_MARKS = Marks(BitMap64(), BitMap64())
