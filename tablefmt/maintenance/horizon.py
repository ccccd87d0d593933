"""Commit of a retention horizon, the earliest version that a table keeps. Spec: ENT-13, RET-5."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tablefmt.commit.plan import Staged
from tablefmt.model.entry import Horizon, LogHorizon, Operation, OperationClass, PartitionScope
from tablefmt.session.commit_result import Commit
from tablefmt.session.context import TableContext
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
    """Set the retention horizon to `oldest`. If it is already there, only record the run.

    Args:
        context: the table.
        name: name of the operation.
        oldest: the earliest version that is kept.
        parameters, metrics: of the operation.
        log: the horizon of the log, if entries may go too.

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
