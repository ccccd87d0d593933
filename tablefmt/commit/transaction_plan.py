"""Plan of one transaction, and the entry it becomes on a given parent. Pure.

Everything that depends on the parent is computed only here: version, times, statistics, ids, and
the files that an OVERWRITE removes. A rebase runs this function on another parent, with the pending
commit as the concurrent commits left it. A transaction that is too old is refused, because vacuum
may have removed its files: no entry refers to them yet.
Spec: CMT-2, TIM-1, TIM-2, ENT-6, CFL-3, RET-6.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from tablefmt.commit.restore_plan import Restoring, check_kept
from tablefmt.conflict.read_write_sets import (
    NO_IDS,
    Group,
    Ids,
    Output,
    PendingCommit,
    Read,
    own_file,
)
from tablefmt.errors import CommitRejectedError, CorruptTableError, SchemaMismatchError
from tablefmt.expressions.predicate import Predicate
from tablefmt.log.object_names import entry_key
from tablefmt.log.strict_json import INTEGER_MAX
from tablefmt.model.identity_columns import counted, identity_columns
from tablefmt.model.log_entry import (
    NOT_LOGICAL,
    AddedFiles,
    ApplicationTransaction,
    Basis,
    CursorBack,
    DerivedFrom,
    Entry,
    Lineage,
    Metadata,
    Operation,
    OperationClass,
    ProtocolFeatures,
    RetentionHorizon,
    RowDeletes,
    RowUpdate,
    Scope,
    Totals,
)
from tablefmt.model.partitionings import with_own_values
from tablefmt.model.positions import DeletionVector, encode_positions, row_deletes
from tablefmt.model.properties import transaction_seconds
from tablefmt.model.refusals import REFUSED, Refusal, refusals_to_json
from tablefmt.model.times import next_time
from tablefmt.snapshot.file_columns import exact_sum
from tablefmt.snapshot.head import Head
from tablefmt.store.clocks import Moment


@dataclass(frozen=True, slots=True)
class Replacing:
    """Removals of an OVERWRITE: the live files whose partition values make `predicate` true.

    None means the whole table. The files are chosen anew on every parent (CFL-3). An UPDATE that
    replaces a table from its own rows (SCH-12) has it too, beside the removals that it read.
    """

    predicate: Predicate | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Staged:
    """The work of an operation at the version it read, independent of how it is committed."""

    transaction: str
    operation: Operation
    scope: Scope = None
    predicate: str | None = None
    """The condition of a DELETE, UPDATE or MERGE as text."""
    blind: bool = False
    written_under: Metadata | None = None
    """The metadata of `read_version`; None when a table is created."""
    read_version: int | None = None
    add: AddedFiles | None = None
    replacing: Replacing | None = None
    restoring: Restoring | None = None
    """An older version to restore. Added and removed files are computed on the parent."""
    reads: tuple[Read, ...] = ()
    removes: Ids = field(default_factory=lambda: NO_IDS)
    """Files that an UPDATE removes whole. Ascending."""
    deletes: Mapping[int, DeletionVector] = field(default_factory=dict)
    """Rows deleted from files that stay. For files in `removes`: which rows were updated or
    deleted."""
    groups: tuple[Group, ...] = ()
    """Groups of a compaction."""
    copied: tuple[Output, ...] = ()
    """See `PendingCommit.copied`."""
    update: RowUpdate | None = None
    horizon: RetentionHorizon | None = None
    """Older versions are given up, unless a concurrent commit gave up as many."""
    ends: bool = False
    """The table is dropped."""
    recorded: bool = False
    """Commit even without changes, so that the history shows the run (VACUUM)."""
    protocol: ProtocolFeatures | None = None
    metadata: Metadata | None = None
    """The table's new metadata, under which the files were written. None: unchanged."""
    keeps: int | None = None
    """A version that a tag of the new metadata names. It must be kept on every parent (TAG-2)."""
    adds_constraints: bool = False
    """See `PendingCommit.adds_constraints`."""
    replaces: bool = False
    """See `PendingCommit.replaces`."""
    claims: tuple[int, int] | None = None
    """The id of an identity column, and how many of its numbers the entry claims (IDN-2)."""

    @property
    def is_empty(self) -> bool:
        """Return whether the transaction has at most an application version or a cursor."""
        return (
            self.add is None
            and self.replacing is None
            and self.restoring is None
            and self.protocol is None
            and self.metadata is None
            and self.horizon is None
            and not self.recorded
            and not (len(self.removes) or self.deletes or self.groups)
        )


def pending_of(
    staged: Staged,
    *,
    floating: bool = False,
    granularity: str = "row",
    isolation: str = "WriteSerializable",
    delete_mode: str = "merge-on-read",
    next_id: int = 1,
    application: ApplicationTransaction | None = None,
    derived_from: DerivedFrom | None = None,
) -> PendingCommit:
    """Return the facts that the conflict rules need about staged work. Arguments as the fields."""
    return PendingCommit(
        cls=staged.operation.cls,
        granularity=granularity,
        isolation=isolation,
        scope=staged.scope,
        metadata=staged.written_under,
        floating=floating,
        application=application,
        derived_from=derived_from,
        delete_mode=delete_mode,
        read_version=staged.read_version,
        next_id=next_id,
        reads=staged.reads,
        removes=staged.removes,
        deletes=staged.deletes,
        groups=staged.groups,
        copied=staged.copied,
        adds_constraints=staged.adds_constraints,
        defines=staged.metadata is not None or staged.horizon is not None,
        replaces=staged.replaces,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One transaction, complete except for its place in the log."""

    staged: Staged
    """The work that it did."""
    pending: PendingCommit
    """The same work for the conflict rules, before any concurrent commit."""
    table: str | None = None
    """The id of a table that is being created; None for one that exists."""
    cursors: tuple[CursorBack, ...] = ()
    """Cursors that a RESTORE sets back on the parent."""
    began: Moment | None = None
    """Start of the work. None: the maker of the plan has checked its age (RET-6)."""
    user_metadata: Mapping[str, Any] = field(default_factory=dict)
    refused: tuple[Refusal, ...] = ()
    """Earlier commits of this process that were refused. The entry reports them (ENT-17)."""

    @classmethod
    def of(cls, staged: Staged, *, floating: bool = False, table: str | None = None) -> Plan:
        """Return the plan of staged work at the default levels. Arguments as the fields."""
        return cls(staged=staged, pending=pending_of(staged, floating=floating), table=table)

    @property
    def transaction(self) -> str:
        """Return the id in its entry and in the names of its files."""
        return self.staged.transaction


@dataclass(frozen=True, slots=True)
class Removed:
    """Live files that an entry removes from the table."""

    ids: Sequence[int] = ()
    rows: int = 0
    bytes: int = 0
    deleted: int = 0
    """Rows of these files that were deleted before."""


NOTHING = Removed()


def removed_from(files: pa.Table) -> Removed:
    """Return the removals for live files with the columns `id`, `rows`, `size` and `deleted`."""
    if files.num_rows == 0:
        return NOTHING
    return Removed(
        files["id"].to_pylist(),
        *(exact_sum(files[name].to_numpy()) for name in ("rows", "size", "deleted")),
    )


def removed_ids(pending: PendingCommit) -> Ids:
    """Return the ids of the files to remove that do not depend on the parent. Ascending."""
    if not pending.groups:
        return pending.removes
    parts = [pending.removes, *(group.inputs for group in pending.groups)]
    return np.unique(np.concatenate(parts))


def is_overtaken(plan: Plan, pending: PendingCommit) -> bool:
    """Return whether concurrent commits did all of a compaction, so that nothing is left to
    commit."""
    return bool(plan.staged.groups) and not pending.groups and plan.pending.application is None


def entry_on(
    plan: Plan, pending: PendingCommit, parent: Head | None, removed: Removed, now_us: int
) -> Entry:
    """Return the entry of `plan` right after `parent`. Without a parent it is version 0.

    Args:
        plan: the transaction.
        pending: its pending commit after the rebases so far.
        parent: the head that it follows.
        removed: the files of `plan.staged.replacing` and `removed_ids` on that parent.
        now_us: the writer's clock.
    """
    version = 0 if parent is None else parent.version + 1
    if plan.staged.keeps is not None and parent is not None:
        check_kept(plan.staged.keeps, parent.totals.oldest, parent.version)
    before = parent.totals if parent else _EMPTY
    add, names = _added(plan, pending, before.next_id)
    metadata = plan.staged.metadata or (parent.metadata if parent else None)
    if add is not None and metadata is not None:
        add = with_own_values(add, metadata)
    deletes = row_deletes({names.get(file, file): marks for file, marks in pending.deletes.items()})
    timestamp = now_us if parent is None else max(now_us, next_time(parent.timestamp))
    horizon = _retention_horizon(plan.staged.horizon, before.oldest)
    logical = parent is None or plan.staged.operation.cls not in NOT_LOGICAL
    table = plan.table or (parent.table if parent else None)
    assert table is not None
    return Entry(
        table=table,
        version=version,
        timestamp=timestamp,
        time_version=timestamp if parent is None or logical else parent.time_version,
        transaction=plan.transaction,
        previous=parent.digest if parent else None,
        operation=_measured(plan, add, deletes, removed),
        basis=Basis(
            read_version=plan.staged.read_version,
            isolation=plan.pending.isolation,
            granularity=plan.pending.granularity,
            blind=plan.staged.blind,
            scope=plan.staged.scope,
            predicate=plan.staged.predicate,
        ),
        totals=_totals(plan, before, version, add, removed, deletes, horizon),
        protocol=plan.staged.protocol,
        metadata=plan.staged.metadata,
        add=add,
        remove=removed.ids,
        delete=deletes,
        lineage=_lineage(pending, names, before.next_id),
        update=plan.staged.update,
        application=_claimed(plan, parent) or plan.pending.application,
        derived_from=plan.pending.derived_from,
        cursors=plan.cursors,
        horizon=horizon,
        ends=plan.staged.ends,
        user_metadata=plan.user_metadata,
        unknown={REFUSED: refusals_to_json(plan.refused)} if plan.refused else {},
    )


def _claimed(plan: Plan, parent: Head | None) -> ApplicationTransaction | None:
    """Return the counter of an identity column after the plan's claim on the parent (IDN-2).

    Raises:
        ConstraintViolationError: its values would not fit a BIGINT.
        SchemaMismatchError: the parent has no such identity column.
    """
    if plan.staged.claims is None or parent is None:
        return None
    number, count = plan.staged.claims
    columns = {each.field.id: each for each in identity_columns(parent.metadata)}
    if number not in columns:
        raise SchemaMismatchError("the identity column was dropped meanwhile; read the table again")
    column = columns[number]
    return ApplicationTransaction(
        column.counter, column.claimed(counted(parent.applications, column), count)
    )


def _retention_horizon(wanted: RetentionHorizon | None, oldest: int) -> RetentionHorizon | None:
    """Return the retention horizon to commit, given the oldest version that the parent keeps
    (RET-5, RET-9).

    A concurrent commit may have given up as much or more.
    """
    if wanted is None or wanted.version > oldest:
        return wanted
    return None if wanted.log is None else replace(wanted, version=oldest)


def _totals(
    plan: Plan,
    before: Totals,
    version: int,
    add: AddedFiles | None,
    removed: Removed,
    deletes: RowDeletes | None,
    horizon: RetentionHorizon | None,
) -> Totals:
    """Return the table statistics after the entry (ENT-6)."""
    count, rows, size = (len(add), add.rows, add.bytes) if add is not None else (0, 0, 0)
    defines = plan.staged.metadata is not None or plan.staged.protocol is not None
    oldest = before.oldest if horizon is None else horizon.version
    if plan.staged.ends or plan.table is not None:
        # The first and the last entry of a table keep nothing from before (ENT-14).
        oldest = version
    sums = {
        "rows": before.rows + rows - removed.rows,
        "bytes": before.bytes + size - removed.bytes,
    }
    _check_fit(sums, version)
    return Totals(
        **sums,
        files=before.files + count - len(removed.ids),
        next_id=before.next_id + count,
        metadata_version=version if defines else before.metadata_version,
        deleted=before.deleted + _deleted_rows(deletes, removed) - removed.deleted,
        oldest=oldest,
    )


def _check_fit(sums: Mapping[str, int], version: int) -> None:
    """Refuse statistics that no entry can hold, before they are written (ENT-6)."""
    for name, value in sums.items():
        if value > INTEGER_MAX:
            raise CorruptTableError(
                f"with this commit the table would have {value} {name}, more than 2**63 - 1: an "
                "earlier entry states an impossible size of a file",
                key=entry_key(version - 1) if version else "",
                rule="ENT-6",
                advice="Find the file with `tablefmt files`, and delete or overwrite its rows, "
                "restore a version before it, or drop the table.",
            )


_EMPTY = Totals(files=0, rows=0, bytes=0, next_id=1, metadata_version=0)


def dropped_outputs(plan: Plan, pending: PendingCommit) -> list[int]:
    """Return the indices of added files that are dropped: the outputs of dropped groups."""
    if not plan.staged.groups:
        return []
    kept = {index for group in pending.groups for index, _ in group.outputs}
    return sorted({i for group in plan.staged.groups for i, _ in group.outputs} - kept)


def _added(
    plan: Plan, pending: PendingCommit, first_id: int
) -> tuple[AddedFiles | None, dict[int, int]]:
    """Return the files to add, and their new ids by `own_file`."""
    if plan.staged.add is None:
        return None, {}
    dropped = frozenset(dropped_outputs(plan, pending))
    if not dropped:
        return plan.staged.add, {own_file(i): first_id + i for i in range(len(plan.staged.add))}
    kept = [i for i in range(len(plan.staged.add)) if i not in dropped]
    names = {own_file(i): first_id + at for at, i in enumerate(kept)}
    columns = {name: [c[i] for i in kept] for name, c in plan.staged.add.columns.items()}
    return (AddedFiles(columns) if kept else None), names


def _deleted_rows(deletes: RowDeletes | None, removed: Removed) -> int:
    """Return the number of rows deleted from files that stay."""
    if deletes is None:
        return 0
    whole = frozenset(removed.ids)
    pairs = zip(deletes.file, deletes.rows, strict=True)
    return sum(rows for file, rows in pairs if file not in whole)


def _lineage(pending: PendingCommit, names: Mapping[int, int], first_id: int) -> Lineage | None:
    outputs = [*pending.copied, *(output for group in pending.groups for output in group.outputs)]
    lines = [
        (names[own_file(index)] - first_id, run)
        for index, runs in sorted(outputs, key=lambda output: output[0])
        for run in runs
    ]
    if not lines:
        return None
    return Lineage(
        output=[output for output, _ in lines],
        input=[run.file for _, run in lines],
        start=[run.start for _, run in lines],
        rows=[run.rows for _, run in lines],
        dropped=[encode_positions(run.dropped) if run.dropped else None for _, run in lines],
    )


def _measured(
    plan: Plan, add: AddedFiles | None, deletes: RowDeletes | None, removed: Removed
) -> Operation:
    """Return the operation with Delta's metric names. Removals are known only on a parent."""
    metrics = dict(plan.staged.operation.metrics)
    changes_rows = plan.staged.operation.cls is OperationClass.UPDATE
    rows, size = (add.rows, add.bytes) if add is not None else (0, 0)
    count = len(add) if add is not None else 0
    if add is not None or plan.staged.replacing is not None:
        metrics.update(numFiles=count, numOutputRows=rows, numOutputBytes=size)
    if changes_rows or "numFiles" in metrics:
        metrics.update(numOutputRows=rows, numAddedFiles=count, numRemovedFiles=len(removed.ids))
    if changes_rows:
        metrics.update(numAddedBytes=size, numRemovedBytes=removed.bytes)
    if plan.staged.replacing is not None:
        metrics.update(numDeletedRows=removed.rows - removed.deleted)
    if plan.staged.replacing is not None or removed.ids:
        metrics.update(numRemovedFiles=len(removed.ids), numRemovedBytes=removed.bytes)
    if deletes is not None or changes_rows:
        whole = frozenset(removed.ids)
        marked = () if deletes is None else deletes.file
        metrics.update(numDeletionVectorsAdded=sum(file not in whole for file in marked))
    return replace(plan.staged.operation, metrics=metrics) if metrics else plan.staged.operation


def check_age(seconds: float, metadata: Metadata) -> None:
    """Refuse a transaction so old that vacuum may have removed its files.

    Args:
        seconds: how long ago the work began.
        metadata: of the version that it read, or of the parent.

    Raises:
        CommitRejectedError: RET-6.
    """
    allowed = transaction_seconds(metadata.properties)
    if seconds > allowed:
        raise CommitRejectedError(
            f"the transaction is too old: it began {int(seconds)} s ago, and {int(allowed)} s are "
            "allowed (half of deletedFileRetentionDuration, at least an hour). Vacuum may have "
            "removed its files"
        )
