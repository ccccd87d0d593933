"""Compact: small files into large ones, and rows that are gone left out (MINOR, MAJOR).

Rows keep their order and no answer changes: there is no new time version, and incremental reads do
not see it. The entry says where rows went (LIN-1), so that whoever changed them meanwhile can
follow; CLUSTER reorders, and says nothing. Each group of files stands or falls alone.
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
from tablefmt.model.log_entry import AddedFiles, Metadata, Operation, OperationClass
from tablefmt.operations.compact_plan import KINDS, MINOR, LayoutPlan, PlannedGroup, plan_compaction
from tablefmt.session.commit_options import CommitOptions
from tablefmt.session.commit_result import Commit
from tablefmt.session.measurements import REWRITE
from tablefmt.session.row_changes import live_files, runs_of
from tablefmt.session.staging import autocommit
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
class Rewritten:
    """What became of one group."""

    files: Ids
    """Its files, in the order in which their rows came."""
    added: AddedFiles | None


def rewriting(txn: TransactionSnapshot) -> Rewriting:
    """How rows of the pinned version are written again."""
    stats = tuple(stats_of(txn.metadata))
    return Rewriting(txn.store, txn.transaction, txn.metadata, stats)


def files_of_groups(
    txn: TransactionSnapshot, groups: Sequence[Ids | Sequence[int]]
) -> Iterator[pa.Table]:
    """The live files of each group in its order, with the positions that are gone."""
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
) -> list[Rewritten]:
    """Rewrite groups in threads of this process, a few at once.

    Args:
        txn: the version, and where the files go.
        groups: ids of live files of one partition each; no file in two groups.
        work: writes a group: its number, its files with their vectors, and what the names of the
            new files begin with.
        progress: told of groups done, and of how many there are.
    """

    def jobs() -> Iterator[tuple[int, pa.Table, str]]:
        for at, files in enumerate(files_of_groups(txn, groups)):
            yield at, files, txn.next_prefix()

    done: list[Rewritten] = []
    with txn.measured.timed(REWRITE):
        for added in side_by_side(lambda job: work(*job), jobs(), HELD_FILES):
            done.append(Rewritten(np.asarray(groups[len(done)], np.int64), added))
            if progress is not None:
                progress(len(done), len(groups))
    return done


def staged_rewrites(
    txn: TransactionSnapshot,
    cls: OperationClass,
    done: Sequence[Rewritten],
    parameters: Mapping[str, str] | None = None,
) -> Staged:
    """What groups that are written again come to as one commit.

    Args:
        txn: the version that was read.
        cls: MINOR_COMPACT, MAJOR_COMPACT or CLUSTER.
        done: all of its groups.
        parameters: what the history shows of what was asked for.
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
    txn: TransactionSnapshot, cls: OperationClass, one: Rewritten, rows: Sequence[int]
) -> tuple[tuple[Run, ...], ...]:
    """The runs of rows of each new file of a group; none where nothing is said of the order."""
    if cls is OperationClass.CLUSTER:
        return ((),) * (0 if one.added is None else len(one.added))
    inputs = [
        (file, count, txn.snapshot.positions(file))
        for file, count in zip(one.files.tolist(), rows, strict=True)
    ]
    return runs_of(inputs, [] if one.added is None else one.added.columns["rows"])


TARGET_MAX = 1 << 50
"""Bytes; as of the property."""

Progress = Callable[[int, int], None]
"""Told of groups done, and of how many there are."""

Rewrite = Callable[[TransactionSnapshot, "tuple[PlannedGroup, ...]", "Compaction"], Staged]
"""Writes the groups of a plan, by whatever engine, and says what is to be committed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compaction:
    """What was asked for, checked as far as it can be without a table."""

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
        """Of the commit."""
        minor, major = OperationClass.MINOR_COMPACT, OperationClass.MAJOR_COMPACT
        return minor if self.kind == MINOR else major

    def plan(self, txn: TransactionSnapshot) -> LayoutPlan:
        """What goes together at a version. Raises as `files_chosen`."""
        files = files_chosen(txn, self.where)
        named = partition_columns(txn.metadata)
        target = target_of(self.target_file_size, txn)
        return plan_compaction(files, named, txn.version, self.kind, target)

    def parameters(self, txn: TransactionSnapshot) -> dict[str, str]:
        """What the history shows of it."""
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
    """Compact in one commit, or in several of `commit_every` groups. Nothing to do: no version.

    Args:
        context: the table.
        asked: what to do.
        options: what every commit takes.
        commit_every: groups a commit; those that are done stay, whatever comes after.
        progress: told how far it is.
        rewrite: who writes the files; by default threads of this process.

    Raises:
        InvalidPredicateError: the condition. InvalidArgumentError: `commit_every`, or with an
            application version, which only one commit can carry. CorruptDataError: DAT-5.
        CommitRejectedError, ConcurrentModificationException, CommitUnknownError.
    """
    work = rewrite or rewrite_here(progress)
    if commit_every is None:
        return autocommit(context, compact_statement(asked, work), options)
    return in_batches(
        context, options, commit_every, asked.plan, lambda c: compact_statement(asked, work, c)
    )


def plan_of(context: TableContext, plan: Callable[[TransactionSnapshot], LayoutPlan]) -> LayoutPlan:
    """A plan on the newest version; nothing is written, by nobody."""
    context.view.refresh()
    return plan(context.pin(context.view.head.version))


def compact_statement(
    asked: Compaction, rewrite: Rewrite, chosen: tuple[PlannedGroup, ...] | None = None
) -> Statement:
    """A compaction of what the plan says, or of those groups of an older plan that are still there.

    Args:
        asked: what to do.
        rewrite: who writes the files.
        chosen: groups; None: those of a plan that is made then.
    """

    def stage(txn: TransactionSnapshot, rows: Any) -> Staged:
        groups = asked.plan(txn).groups if chosen is None else still_there(txn, chosen)
        return rewrite(txn, groups, asked)

    def text(metadata: Metadata) -> tuple[str, ...]:
        shown = shown_where(asked.where, metadata).get("predicate", "None")
        return shown, str(asked.target_file_size)

    return Statement(name=f"COMPACT {asked.kind.upper()}", stage=stage, text=text)


def rewrite_here(progress: Progress | None = None) -> Rewrite:
    """Threads of this process write the files."""

    def rewrite(
        txn: TransactionSnapshot, groups: tuple[PlannedGroup, ...], asked: Compaction
    ) -> Staged:
        writer = rewriting(txn)

        def work(at: int, files: pa.Table, prefix: str) -> AddedFiles | None:
            return writer.in_order(files, prefix, groups[at].rows_max)

        done = rewrite_groups(txn, [group.files for group in groups], work, progress)
        return staged_rewrites(txn, asked.cls, done, asked.parameters(txn))

    return rewrite


def in_batches(
    context: TableContext,
    options: CommitOptions,
    commit_every: int,
    plan: Callable[[TransactionSnapshot], LayoutPlan],
    statement: Callable[[tuple[PlannedGroup, ...]], Statement],
) -> Commit:
    """The groups of one plan in several commits, each on the newest version that there is then.

    Returns:
        The last commit that made a version, with the metrics of all of them added up; a no-op if
        there was nothing to do.
    """
    each = whole_number(commit_every)
    if each is None or each < 1:
        raise InvalidArgumentError(f"commit_every {commit_every!r:.100} is not a number from 1 on")
    if options.application is not None:
        raise InvalidArgumentError(
            "an application version is carried by one commit, and commit_every makes several"
        )
    groups = plan(context.pin(context.begin().version)).groups
    batches = [groups[at : at + each] for at in range(0, len(groups), each)] or [()]
    done = [autocommit(context, statement(batch), options) for batch in batches]
    made = [commit for commit in done if not commit.no_op] or done[-1:]
    metrics: dict[str, int] = {}
    for commit in made:
        for name, value in commit.metrics.items():
            metrics[name] = metrics.get(name, 0) + value
    return replace(made[-1], metrics=metrics)


def still_there(
    txn: TransactionSnapshot, groups: tuple[PlannedGroup, ...]
) -> tuple[PlannedGroup, ...]:
    """Those of the groups of which nobody took a file away meanwhile."""
    if not groups:
        return ()
    ids = np.concatenate([group.files for group in groups])
    live = np.isin(ids, txn.snapshot.of_ids(np.unique(ids))["id"].to_numpy())
    ends = np.cumsum([len(group.files) for group in groups])
    whole = np.logical_and.reduceat(live, np.concatenate([[0], ends[:-1]]))
    return tuple(groups[at] for at in np.flatnonzero(whole))


def check_target(size: int | None) -> None:
    """Refuse a size that is none. Raises InvalidArgumentError."""
    if size is None:
        return
    number = whole_number(size)
    if number is None or not 0 < number < TARGET_MAX:
        raise InvalidArgumentError(
            f"target_file_size {size!r:.100} is not a whole number of bytes from 1 on"
        )


def target_of(size: int | None, txn: TransactionSnapshot) -> int:
    """Bytes wanted in a file."""
    return int(txn.property("targetFileSize") if size is None else size)


def partition_columns(metadata: Metadata) -> dict[str, str]:
    """Names of the columns about files that say their partition, and what people call them."""
    names = zip(metadata.partition_by, metadata.partition_names, strict=True)
    return {f"partition.{field_id}": name for field_id, name in names}


def files_chosen(txn: TransactionSnapshot, where: Condition) -> pa.Table:
    """The live files that may hold rows of a condition; all of them for None (CMP-3).

    Raises:
        InvalidPredicateError, UnsupportedFeatureError: the condition; one that rules out no file.
    """
    if where is None:
        return txn.snapshot.files
    predicate = analyzed_condition(where, txn.metadata.schema).predicate
    if predicate is None:
        raise InvalidPredicateError(
            f"nothing is understood of the condition {str(where)[:200]!r} by which files could be "
            "chosen; compare columns with constants"
        )
    return txn.snapshot.matching(predicate)


def shown_where(where: Condition, metadata: Metadata) -> dict[str, str]:
    """The condition, for the history."""
    if where is None:
        return {}
    return {"predicate": analyzed_condition(where, metadata.schema).text}
