"""REPARTITION: rewrite files of older partitionings by the current one (EVO-5).

The class is CLUSTER: rows of one file go to several, so their places are not recorded.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tablefmt.commit.transaction_plan import Staged
from tablefmt.model.log_entry import PARTITIONING, OperationClass
from tablefmt.operations import alterations
from tablefmt.operations.alter import alter
from tablefmt.operations.compact import (
    Progress,
    RewrittenGroup,
    commit_layout,
    groups_of,
    partition_columns,
    rewrite_groups,
    rewriting,
    staged_rewrites,
    target_of,
)
from tablefmt.operations.compact_plan import (
    CODE,
    CURRENT,
    OLDER,
    FilesByPartition,
    LayoutPlan,
    PlannedGroup,
    bins,
    group_of,
)
from tablefmt.session.commit_options import CommitOptions
from tablefmt.session.commit_result import Commit
from tablefmt.session.statement import Statement
from tablefmt.session.table_context import TableContext
from tablefmt.session.transaction_snapshot import TransactionSnapshot

NAME = "REPARTITION"
TOGETHER = 8
"""Files of a group have at most this many times the target size: its rows go to many partitions."""


Rewrite = Callable[[TransactionSnapshot, "tuple[PlannedGroup, ...]"], list[RewrittenGroup]]
"""Writes the groups of a plan, on any engine."""


@dataclass(frozen=True, slots=True)
class Repartition:
    """A request to rewrite older files."""

    rewrite: Rewrite

    def plan(self, txn: TransactionSnapshot) -> LayoutPlan:
        """Return the plan for a version: every file of an older partitioning is in a group."""
        files, target = txn.snapshot.files, target_of(None, txn)
        table = FilesByPartition(files, list(partition_columns(txn.metadata, files)))
        older = np.zeros(len(table), bool)
        if txn.metadata.is_evolved:
            older = table.table[PARTITIONING].to_numpy() != txn.metadata.partitioning
        nowhere = np.zeros(len(table), np.int64)
        starts, places = bins(nowhere, table.live_bytes, older, TOGETHER * target)
        ends = np.append(starts, len(places))
        group = np.full(len(table), -1, np.int64)
        group[places] = np.repeat(np.arange(len(starts)), np.diff(ends))
        groups = tuple(
            group_of(table, places[start:end], target)
            for start, end in zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True)
        )
        reasons = np.where(older, CODE[OLDER], CODE[CURRENT])
        named = partition_columns(txn.metadata, files)
        return LayoutPlan(txn.version, NAME, target, groups, table.shown(group, reasons, named))


def rewrite_here(progress: Progress | None = None) -> Rewrite:
    """Return a function that rewrites the groups in threads of this process.

    Args:
        progress: called with the number of finished groups and of all groups.
    """

    def rewrite(txn: TransactionSnapshot, groups: tuple[PlannedGroup, ...]) -> list[RewrittenGroup]:
        work = rewriting(txn)
        return rewrite_groups(
            txn,
            [group.files for group in groups],
            lambda _, files, prefix: work.repartitioned(files, prefix),
            progress,
        )

    return rewrite


def repartition(
    context: TableContext,
    asked: Repartition,
    options: CommitOptions,
    *,
    commit_every: int | None = None,
) -> Commit:
    """Rewrite older files in one commit, or in several of `commit_every` groups.

    Another commit of class METADATA then drops the older partitionings, if no file has one.

    Raises:
        InvalidArgumentError: as `compact`.
        CorruptDataError: DAT-5.
        ConcurrentModificationException: a concurrent commit changed one of these files.
        CommitRejectedError, CommitUnknownError: of a commit.
    """
    done = commit_layout(
        context, options, commit_every, asked.plan, lambda groups: _statement(asked, groups)
    )
    metadata = context.view.head.metadata
    if metadata.is_evolved and context.view.snapshot().partitionings() <= {metadata.partitioning}:
        last = alter(context, alterations.forget_partitionings(), CommitOptions())
        return done if last.no_op or not done.no_op else last
    return done


def _statement(asked: Repartition, chosen: tuple[PlannedGroup, ...] | None) -> Statement:
    def stage(txn: TransactionSnapshot, _: Any) -> Staged:
        done = asked.rewrite(txn, groups_of(txn, asked.plan, chosen))
        staged = staged_rewrites(txn, OperationClass.CLUSTER, done)
        parameters = {"partitionBy": ", ".join(txn.metadata.partition_names)}
        return replace(
            staged, operation=replace(staged.operation, name=NAME, parameters=parameters)
        )

    return Statement(name=NAME, stage=stage)
