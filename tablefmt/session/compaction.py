"""Compaction: live rows of files into fewer files, each group of files standing or falling alone.

Rows keep their order and the entry says where they went (LIN-1), so that whoever changed them
meanwhile can follow; CLUSTER reorders, and says nothing. Spec: LIN-1, CFL-14 .. CFL-16.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from tablefmt.commit.plan import Staged
from tablefmt.conflict.facts import Group, Ids, Run
from tablefmt.data.bounds import stats_of
from tablefmt.data.rewrite import Rewriting
from tablefmt.data.side_by_side import side_by_side
from tablefmt.data.write import HELD_FILES
from tablefmt.model.entry import AddedFiles, Operation, OperationClass
from tablefmt.session.measurements import REWRITE
from tablefmt.session.partitions import scope_of_files
from tablefmt.session.row_changes import runs_of
from tablefmt.session.selected_rows import live_files
from tablefmt.session.snapshot import TransactionSnapshot, joined

NAMES = {
    OperationClass.MINOR_COMPACT: "COMPACT MINOR",
    OperationClass.MAJOR_COMPACT: "COMPACT MAJOR",
    OperationClass.CLUSTER: "CLUSTER",
}


@dataclass(frozen=True, slots=True)
class Rewritten:
    """What became of one group."""

    files: Ids
    """Its files, in the order in which their rows came."""
    added: AddedFiles | None


def rewriting(pinned: TransactionSnapshot) -> Rewriting:
    """How rows of the pinned version are written again."""
    stats = tuple(stats_of(pinned.metadata))
    return Rewriting(pinned.store, pinned.transaction, pinned.metadata, stats)


def files_of_groups(
    pinned: TransactionSnapshot, groups: Sequence[Ids | Sequence[int]]
) -> Iterator[pa.Table]:
    """The live files of each group in its order, with the positions that are gone."""
    ids = np.concatenate([np.zeros(0, np.int64), *(np.asarray(g, np.int64) for g in groups)])
    files, at = live_files(pinned, ids), 0
    for group in groups:
        yield pinned.snapshot.with_vectors(files.slice(at, len(group)))
        at += len(group)


def rewrite_groups(
    pinned: TransactionSnapshot,
    groups: Sequence[Ids | Sequence[int]],
    work: Callable[[int, pa.Table, str], AddedFiles | None],
    progress: Callable[[int, int], None] | None = None,
) -> list[Rewritten]:
    """Rewrite groups in threads of this process, a few at once.

    Args:
        pinned: the version, and where the files go.
        groups: ids of live files of one partition each; no file in two groups.
        work: writes a group: its number, its files with their vectors, and what the names of the
            new files begin with.
        progress: told of groups done, and of how many there are.
    """

    def jobs() -> Iterator[tuple[int, pa.Table, str]]:
        for at, files in enumerate(files_of_groups(pinned, groups)):
            yield at, files, pinned.next_prefix()

    done: list[Rewritten] = []
    with pinned.measured.timed(REWRITE):
        for added in side_by_side(lambda job: work(*job), jobs(), HELD_FILES):
            done.append(Rewritten(np.asarray(groups[len(done)], np.int64), added))
            if progress is not None:
                progress(len(done), len(groups))
    return done


def staged_rewrites(
    pinned: TransactionSnapshot,
    cls: OperationClass,
    done: Sequence[Rewritten],
    parameters: Mapping[str, str] | None = None,
) -> Staged:
    """What groups that are written again come to as one commit.

    Args:
        pinned: the version that was read.
        cls: MINOR_COMPACT, MAJOR_COMPACT or CLUSTER.
        done: all of its groups.
        parameters: what the history shows of what was asked for.
    """
    parts: list[AddedFiles | None] = []
    groups: list[Group] = []
    count = 0
    looked = files_of_groups(pinned, [one.files for one in done])
    for one, files in zip(done, looked, strict=True):
        runs = _runs(pinned, cls, one, files["rows"].to_pylist())
        groups.append(Group(np.sort(one.files), tuple(enumerate(runs, count))))
        parts.append(one.added)
        count += len(runs)
    inputs = np.concatenate([np.zeros(0, np.int64), *(group.inputs for group in groups)])
    return Staged(
        transaction=pinned.transaction,
        operation=Operation(name=NAMES[cls], cls=cls, parameters=dict(parameters or {})),
        scope=scope_of_files(pinned.snapshot.of_ids(np.unique(inputs)), pinned.metadata),
        written_under=pinned.metadata,
        read_version=pinned.version,
        add=joined(parts),
        groups=tuple(groups),
    )


def _runs(
    pinned: TransactionSnapshot, cls: OperationClass, one: Rewritten, rows: Sequence[int]
) -> tuple[tuple[Run, ...], ...]:
    """The runs of rows of each new file of a group; none where nothing is said of the order."""
    if cls is OperationClass.CLUSTER:
        return ((),) * (0 if one.added is None else len(one.added))
    inputs = [
        (file, count, pinned.snapshot.positions(file))
        for file, count in zip(one.files.tolist(), rows, strict=True)
    ]
    return runs_of(inputs, [] if one.added is None else one.added.columns["rows"])
