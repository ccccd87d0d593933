"""The entry that says from which version on a table is kept. Spec: ENT-13, RET-5."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tablefmt.commit.plan import Staged
from tablefmt.model.entry import Horizon, LogHorizon, Operation, OperationClass, PartitionScope
from tablefmt.session.context import TableContext
from tablefmt.session.receipt import Commit
from tablefmt.session.snapshot import TransactionSnapshot
from tablefmt.session.staging import commit_anew
from tablefmt.snapshot.head import Head


def commit_horizon(
    context: TableContext,
    name: str,
    oldest: int,
    parameters: Mapping[str, Any],
    metrics: Mapping[str, int],
    log: LogHorizon | None = None,
) -> Commit:
    """Give up the versions below `oldest`; where that is done already, only say that it was run.

    Args:
        context: the table.
        name: of the operation.
        oldest: the earliest version that is kept.
        parameters, metrics: of the operation.
        log: which entries may go too.

    Raises:
        CommitRejectedError, CommitUnknownError, ConcurrentModificationException: CMT-1.
    """
    operation = Operation(
        name=name,
        cls=OperationClass.MINOR_COMPACT,
        parameters=dict(parameters),
        metrics=dict(metrics),
    )

    def stage(_: Head, pinned: TransactionSnapshot) -> Staged:
        return Staged(
            transaction=pinned.transaction,
            operation=operation,
            scope=PartitionScope(()),
            written_under=pinned.metadata,
            read_version=pinned.version,
            horizon=Horizon(oldest, log) if oldest > 0 else None,
            recorded=True,
        )

    return commit_anew(context, stage)
