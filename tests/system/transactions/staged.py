"""Operations that are no verbs yet, staged as a transaction's work with real files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tablefmt.commit.plan import Plan
from tablefmt.conflict.facts import Group
from tablefmt.model.entry import AddedFiles, Operation, OperationClass
from tablefmt.session.row_changes import Change, rewrite
from tablefmt.session.snapshot import TransactionSnapshot, joined, scope_of_files
from tablefmt.session.staging import Stage

MINOR, MAJOR, CLUSTER = (
    OperationClass.MINOR_COMPACT,
    OperationClass.MAJOR_COMPACT,
    OperationClass.CLUSTER,
)

Choose = Callable[[pa.Table], Iterable[Sequence[int]]]
"""The live files of a snapshot; gives the groups to compact, as ids in the order of their rows."""


def compact(cls: OperationClass, choose: Choose, sort: Change | None = None) -> Stage:
    """One commit of a MINOR or MAJOR compaction, or with `sort` of a clustering."""

    def stage(pinned: TransactionSnapshot) -> Plan:
        parts: list[AddedFiles | None] = []
        groups: list[Group] = []
        first = 0
        for ids in choose(pinned.snapshot.files):
            added, outputs = rewrite(pinned, ids, sort)
            groups.append(Group(np.array(sorted(ids), np.int64), tuple(enumerate(outputs, first))))
            parts.append(added)
            first += len(outputs)
        inputs = [file for group in groups for file in group.inputs.tolist()]
        files = pinned.snapshot.files
        chosen = files.filter(pc.is_in(files["id"], pa.array(inputs, pa.int64())))
        return Plan(
            transaction=pinned.transaction,
            operation=Operation(name="OPTIMIZE", cls=cls),
            scope=scope_of_files(chosen, pinned.metadata),
            written_under=pinned.metadata,
            read_version=pinned.version,
            add=joined(parts),
            groups=tuple(groups),
        )

    return stage
