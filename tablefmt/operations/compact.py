"""COMPACT: combine small files into large ones, and drop deleted rows (MINOR, MAJOR).

Rows keep their order, and no query result changes. So there is no new time version, and incremental
reads skip the commit. The entry maps old positions to new ones (LIN-1), so that concurrent changes
of rows can be rebased. CLUSTER reorders rows, so its entry has no such map. Groups of files
conflict independently.
Spec: CMP-1 .. CMP-4, LIN-1, CFL-14 .. CFL-16.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from tablefmt.commit.transaction_plan import Staged
from tablefmt.conflict.read_write_sets import Group, Ids, Run
from tablefmt.data.column_bounds import stats_of
from tablefmt.data.data_writer import HELD_FILES
from tablefmt.data.file_rewrite import Rewriting
from tablefmt.data.parallel_jobs import side_by_side
from tablefmt.data.selection import Condition
from tablefmt.errors import InvalidArgumentError, InvalidPredicateError
from tablefmt.model.argument_checks import whole_number
from tablefmt.model.log_entry import (
    OWN,
    AddedFiles,
    Metadata,
    Operation,
    OperationClass,
)
from tablefmt.operations.compact_plan import (
    KINDS,
    MINOR,
    LayoutPlan,
    PlannedGroup,
    plan_compaction,
)
from tablefmt.session.commit_options import CommitOptions
from tablefmt.session.commit_result import Commit
from tablefmt.session.measurements import REWRITE
from tablefmt.session.row_changes import live_files, runs_of
from tablefmt.session.staging import autocommit, newest_snapshot
from tablefmt.session.statement import Statement
from tablefmt.session.statement_scope import analyzed_condition, scope_of_files
from tablefmt.session.table_context import TableContext
from tablefmt.session.transaction_snapshot import TransactionSnapshot, joined

NAMES = {
    OperationClass.MINOR_COMPACT: "COMPACT MINOR",
    OperationClass.MAJOR_COMPACT: "COMPACT MAJOR",
    OperationClass.CLUSTER: "CLUSTER",
}


@dataclass(frozen=True, slots=True)
class RewrittenGroup:
    """The result of rewriting one group."""

    files: Ids
    """Files of the group, in the order of their rows."""
    added: AddedFiles | None


def rewriting(txn: TransactionSnapshot) -> Rewriting:
    """Return the settings to rewrite rows of the transaction snapshot."""
    stats = tuple(stats_of(txn.metadata))
    return Rewriting(txn.store, txn.transaction, txn.metadata, stats)


def files_of_groups(
    txn: TransactionSnapshot, groups: Sequence[Ids | Sequence[int]]
) -> Iterator[pa.Table]:
    """Yield the live files of each group in its order, with the positions of deleted rows."""
    ids = np.concatenate([np.zeros(0, np.int64), *(np.asarray(g, np.int64) for g in groups)])
    files, at = live_files(txn, ids), 0
    for group in groups:
        yield txn.snapshot.with_vectors(files.slice(at, len(group)))
        at += len(group)


def rewrite_groups(
    txn: TransactionSnapshot,
    groups: Sequence[Ids | Sequence[int]],
    work: Callable[[int, pa.Table, str], AddedFiles | None],
    progress: Callable[[int, int], None] | None = None,
) -> list[RewrittenGroup]:
    """Rewrite groups in threads of this process, a few at once.

    Args:
        txn: the version to read, and the folder for the files.
        groups: ids of live files, of one partition in each group. No file is in two groups.
        work: writes a group, given its number, its files with their deletion vectors, and a prefix
            for the names of the new files.
        progress: called with the number of finished groups and of all groups.
    """

    def jobs() -> Iterator[tuple[int, pa.Table, str]]:
        for at, files in enumerate(files_of_groups(txn, groups)):
            yield at, files, txn.next_prefix()

    done: list[RewrittenGroup] = []
    with txn.measured.timed(REWRITE):
        for added in side_by_side(lambda job: work(*job), jobs(), HELD_FILES):
            done.append(RewrittenGroup(np.asarray(groups[len(done)], np.int64), added))
            if progress is not None:
                progress(len(done), len(groups))
    return done


def staged_rewrites(
    txn: TransactionSnapshot,
    cls: OperationClass,
    done: Sequence[RewrittenGroup],
    parameters: Mapping[str, str] | None = None,
) -> Staged:
    """Return the commit of rewritten groups.

    Args:
        txn: the version that was read.
        cls: MINOR_COMPACT, MAJOR_COMPACT or CLUSTER.
        done: all groups of the commit.
        parameters: of the request, for the history.
    """
    parts: list[AddedFiles | None] = []
    groups: list[Group] = []
    count = 0
    looked = files_of_groups(txn, [one.files for one in done])
    for one, files in zip(done, looked, strict=True):
        runs = _runs(txn, cls, one, files["rows"].to_pylist())
        groups.append(Group(np.sort(one.files), tuple(enumerate(runs, count))))
        parts.append(one.added)
        count += len(runs)
    inputs = np.concatenate([np.zeros(0, np.int64), *(group.inputs for group in groups)])
    return Staged(
        transaction=txn.transaction,
        operation=Operation(name=NAMES[cls], cls=cls, parameters=dict(parameters or {})),
        scope=scope_of_files(txn.snapshot.of_ids(np.unique(inputs)), txn.metadata),
        written_under=txn.metadata,
        read_version=txn.version,
        add=joined(parts),
        groups=tuple(groups),
    )


def _runs(
    txn: TransactionSnapshot, cls: OperationClass, one: RewrittenGroup, rows: Sequence[int]
) -> tuple[tuple[Run, ...], ...]:
    """Return the runs of rows of each new file of a group. They are empty if the order changed."""
    if cls is OperationClass.CLUSTER:
        return ((),) * (0 if one.added is None else len(one.added))
    inputs = [
        (file, count, txn.snapshot.positions(file))
        for file, count in zip(one.files.tolist(), rows, strict=True)
    ]
    return runs_of(inputs, [] if one.added is None else one.added.columns["rows"])


TARGET_MAX = 1 << 50
"""Bytes, as in the property."""

Progress = Callable[[int, int], None]
"""Called with the number of finished groups and of all groups."""

Rewrite = Callable[[TransactionSnapshot, "tuple[PlannedGroup, ...]", "Compaction"], Staged]
"""Writes the groups of a plan, on any engine, and returns the work to commit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compaction:
    """A request to compact, checked as far as possible without a table."""

    kind: str = MINOR
    where: Condition = None
    target_file_size: int | None = None
    """Bytes; None: the table's property."""

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise InvalidArgumentError(f"kind {self.kind!r:.100} is not one of {', '.join(KINDS)}")
        check_target(self.target_file_size)

    @property
    def cls(self) -> OperationClass:
        """Class of the commit."""
        minor, major = OperationClass.MINOR_COMPACT, OperationClass.MAJOR_COMPACT
        return minor if self.kind == MINOR else major

    def plan(self, txn: TransactionSnapshot) -> LayoutPlan:
        """Return the plan for a version. Raises as `files_chosen`."""
        files = files_chosen(txn, self.where)
        named = partition_columns(txn.metadata, files)
        target = target_of(self.target_file_size, txn)
        return plan_compaction(files, named, txn.version, self.kind, target)

    def parameters(self, txn: TransactionSnapshot) -> dict[str, str]:
        """Return the parameters for the history."""
        target = str(target_of(self.target_file_size, txn))
        return {"targetFileSize": target, **shown_where(self.where, txn.metadata)}


def compact(
    context: TableContext,
    asked: Compaction,
    options: CommitOptions,
    *,
    commit_every: int | None = None,
    progress: Progress | None = None,
    rewrite: Rewrite | None = None,
) -> Commit:
    """Compact in one commit, or in several of `commit_every` groups. Without work, make no version.

    Args:
        context: the table.
        asked: the request.
        options: of the commit.
        commit_every: groups per commit. Groups that are committed stay, even if a later one fails.
        progress: called with the number of finished groups and of all groups.
        rewrite: writes the files; by default in threads of this process.

    Raises:
        InvalidPredicateError: the condition.
        InvalidArgumentError: `commit_every` is invalid, or comes with an application version, which
            needs a single commit.
        CorruptDataError: DAT-5.
        CommitRejectedError, ConcurrentModificationException, CommitUnknownError.
    """
    work = rewrite or rewrite_here(progress)
    return commit_layout(
        context, options, commit_every, asked.plan, lambda c: compact_statement(asked, work, c)
    )


def plan_of(context: TableContext, plan: Callable[[TransactionSnapshot], LayoutPlan]) -> LayoutPlan:
    """Return a plan for the newest version. Nothing is written."""
    context.view.refresh()
    return plan(context.pin(context.view.head.version))


def compact_statement(
    asked: Compaction, rewrite: Rewrite, chosen: tuple[PlannedGroup, ...] | None = None
) -> Statement:
    """Return the statement of a compaction.

    Args:
        asked: the request.
        rewrite: writes the files.
        chosen: groups of an older plan, of which those with all files still live are rewritten;
            None: plan anew.
    """

    def stage(txn: TransactionSnapshot, rows: Any) -> Staged:
        return rewrite(txn, groups_of(txn, asked.plan, chosen), asked)

    def text(metadata: Metadata) -> tuple[str, ...]:
        shown = shown_where(asked.where, metadata).get("predicate", "None")
        return shown, str(asked.target_file_size)

    return Statement(name=f"COMPACT {asked.kind.upper()}", stage=stage, text=text)


def rewrite_here(progress: Progress | None = None) -> Rewrite:
    """Return a rewrite in which threads of this process write the files."""

    def rewrite(
        txn: TransactionSnapshot, groups: tuple[PlannedGroup, ...], asked: Compaction
    ) -> Staged:
        writer = rewriting(txn)

        def work(at: int, files: pa.Table, prefix: str) -> AddedFiles | None:
            return writer.in_order(files, prefix, groups[at].rows_max)

        done = rewrite_groups(txn, [group.files for group in groups], work, progress)
        return staged_rewrites(txn, asked.cls, done, asked.parameters(txn))

    return rewrite


def commit_layout(
    context: TableContext,
    options: CommitOptions,
    commit_every: int | None,
    plan: Callable[[TransactionSnapshot], LayoutPlan],
    statement: Callable[[tuple[PlannedGroup, ...] | None], Statement],
) -> Commit:
    """Commit a layout in one commit, or the groups of one plan in several.

    Each of several commits is on the newest version at its time.

    Args:
        context: the table.
        options: of the commit.
        commit_every: groups per commit; None: one commit.
        plan: plans for a version.
        statement: returns the statement for groups of a plan; None: it plans by itself.

    Returns:
        The last commit that made a version, with the sum of all metrics. A no-op if there was
        nothing to do.
    """
    if commit_every is None:
        return autocommit(context, statement(None), options)
    each = whole_number(commit_every)
    if each is None or each < 1:
        raise InvalidArgumentError(
            f"expected a whole number of at least 1 as commit_every, got {commit_every!r:.100}"
        )
    if options.application is not None:
        raise InvalidArgumentError(
            "an application version needs a single commit, and commit_every makes several; "
            "leave one of them out"
        )
    groups = plan(newest_snapshot(context)).groups
    batches = [groups[at : at + each] for at in range(0, len(groups), each)] or [()]
    done = [autocommit(context, statement(batch), options) for batch in batches]
    made = [commit for commit in done if not commit.no_op] or done[-1:]
    metrics: dict[str, int] = {}
    for commit in made:
        for name, value in commit.metrics.items():
            metrics[name] = metrics.get(name, 0) + value
    return replace(made[-1], metrics=metrics)


def groups_of(
    txn: TransactionSnapshot,
    plan: Callable[[TransactionSnapshot], LayoutPlan],
    chosen: tuple[PlannedGroup, ...] | None,
) -> tuple[PlannedGroup, ...]:
    """Return the groups to rewrite: of a new plan, or those of `chosen` that are still there."""
    return plan(txn).groups if chosen is None else still_there(txn, chosen)


def still_there(
    txn: TransactionSnapshot, groups: tuple[PlannedGroup, ...]
) -> tuple[PlannedGroup, ...]:
    """Return the groups whose files are all still live."""
    if not groups:
        return ()
    ids = np.concatenate([group.files for group in groups])
    live = np.isin(ids, txn.snapshot.of_ids(np.unique(ids))["id"].to_numpy())
    ends = np.cumsum([len(group.files) for group in groups])
    whole = np.logical_and.reduceat(live, np.concatenate([[0], ends[:-1]]))
    return tuple(groups[at] for at in np.flatnonzero(whole))


def check_target(size: int | None) -> None:
    """Refuse an invalid target size. Raises InvalidArgumentError."""
    if size is None:
        return
    number = whole_number(size)
    if number is None or not 0 < number < TARGET_MAX:
        raise InvalidArgumentError(
            f"expected a whole number of bytes, at least 1, as target_file_size, got {size!r:.100}"
        )


def target_of(size: int | None, txn: TransactionSnapshot) -> int:
    """Return the target size of a file in bytes."""
    return int(txn.property("targetFileSize") if size is None else size)


def partition_columns(metadata: Metadata, files: pa.Table) -> dict[str, str]:
    """Return the names of the files' partition columns, mapped to the names of the table's
    columns.

    If the partitioning changed, these are the columns of all partitionings.
    """
    columns = {f"partition.{field.id}": field.name for field in metadata.partition_fields}
    if not metadata.is_evolved:
        return columns
    return {
        f"{group}{field.id}": field.name
        for field in metadata.all_partition_fields
        for group in ("partition.", OWN)
        if f"{group}{field.id}" in files.column_names
    }


def files_chosen(txn: TransactionSnapshot, where: Condition) -> pa.Table:
    """Return the live files that may hold rows of a condition; all of them for None (CMP-3).

    Raises:
        InvalidPredicateError, UnsupportedFeatureError: the condition is invalid, or cannot rule out
            any file.
    """
    if where is None:
        return txn.snapshot.files
    predicate = analyzed_condition(where, txn.metadata.schema).predicate
    if predicate is None:
        raise InvalidPredicateError(
            f"cannot choose files by the condition {str(where)[:200]!r}; compare columns with "
            "constants"
        )
    return txn.snapshot.matching(predicate)


def shown_where(where: Condition, metadata: Metadata) -> dict[str, str]:
    """Return the condition for the history."""
    if where is None:
        return {}
    return {"predicate": analyzed_condition(where, metadata.schema).text}
