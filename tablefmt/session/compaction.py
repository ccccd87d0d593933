"""Compaction: live rows of files into fewer files. Staged only, so far: the caller chooses files.

Rows keep their order and the entry says where they went (LIN-1), so that whoever changed them
meanwhile can follow; CLUSTER reorders, and says nothing. Spec: LIN-1, CFL-14 .. CFL-16.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tablefmt.commit.plan import Staged
from tablefmt.conflict.facts import Group
from tablefmt.model.entry import AddedFiles, Operation, OperationClass
from tablefmt.session.partitions import scope_of_files
from tablefmt.session.row_changes import Change, rewrite
from tablefmt.session.snapshot import TransactionSnapshot, joined

NAMES = {
    OperationClass.MINOR_COMPACT: "COMPACT MINOR",
    OperationClass.MAJOR_COMPACT: "COMPACT MAJOR",
    OperationClass.CLUSTER: "CLUSTER",
}


def stage_compact(
    pinned: TransactionSnapshot,
    cls: OperationClass,
    groups: Sequence[Sequence[int]],
    sort: Change | None = None,
) -> Staged:
    """The rewrite of groups of files at the pinned version, each standing or falling by itself.

    Args:
        pinned: the version, and where the files go.
        cls: MINOR_COMPACT, MAJOR_COMPACT or CLUSTER.
        groups: ids of live files of one partition each, in the order in which their rows come; no
            file in two groups.
        sort: for CLUSTER, and for it alone: puts a group's rows into their order.
    """
    assert (cls is OperationClass.CLUSTER) == (sort is not None)
    parts: list[AddedFiles | None] = []
    staged_groups: list[Group] = []
    count = 0
    for files in groups:
        added, runs = rewrite(pinned, files, sort)
        outputs = tuple(enumerate(runs, count))
        count += len(outputs)
        parts.append(added)
        staged_groups.append(Group(np.sort(np.array(files, np.int64)), outputs))
    inputs = pa.array([file for files in groups for file in files], pa.int64())
    live = pinned.snapshot.files
    return Staged(
        transaction=pinned.transaction,
        operation=Operation(name=NAMES[cls], cls=cls),
        scope=scope_of_files(live.filter(pc.is_in(live["id"], inputs)), pinned.metadata),
        written_under=pinned.metadata,
        read_version=pinned.version,
        add=joined(parts),
        groups=tuple(staged_groups),
    )
