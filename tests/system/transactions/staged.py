"""Operations that are no verbs yet, staged as a transaction's work with real files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import pyarrow as pa

from tablefmt.model.entry import OperationClass
from tablefmt.session.compaction import stage_compact
from tablefmt.session.row_changes import Change
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

    return lambda pinned: stage_compact(pinned, cls, list(choose(pinned.snapshot.files)), sort)
