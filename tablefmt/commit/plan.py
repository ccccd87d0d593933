"""What one transaction wants to commit, and the entry that says it on top of a given parent. Pure.

Everything that depends on the parent is computed here, and nowhere else: version, times, sums, ids,
and what an OVERWRITE removes. A re-base is this function on another parent. Spec: CMT-2, TIM-1,
TIM-2, ENT-6, CFL-3.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tablefmt.conflict.check import Mine
from tablefmt.model.entry import (
    NOT_LOGICAL,
    AddedFiles,
    Application,
    Basis,
    Entry,
    Metadata,
    Operation,
    ProtocolFeatures,
    Scope,
    SideFile,
    Totals,
)
from tablefmt.model.predicate import Predicate
from tablefmt.snapshot.head import Head


@dataclass(frozen=True, slots=True)
class Replacing:
    """An OVERWRITE's removals: the live files whose partition values make `predicate` true.

    None stands for the whole table. Decided anew on every parent (CFL-3).
    """

    predicate: Predicate | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One transaction, fixed but for its place in the log."""

    transaction: str
    operation: Operation
    scope: Scope = None
    blind: bool = False
    floating: bool = False
    """See `Mine.floating`."""
    granularity: str = "row"
    isolation: str = "WriteSerializable"
    table: str | None = None
    """The id of a table that is being created; None for one that exists."""
    written_under: Metadata | None = None
    """The metadata the data files were written under; None when a table is created."""
    read_version: int | None = None
    add: AddedFiles | SideFile | None = None
    added_rows: int = 0
    added_bytes: int = 0
    replacing: Replacing | None = None
    protocol: ProtocolFeatures | None = None
    metadata: Metadata | None = None
    application: Application | None = None
    user_metadata: Mapping[str, Any] = field(default_factory=dict)

    def mine(self) -> Mine:
        """What the conflict rules have to know of this transaction."""
        return Mine(
            cls=self.operation.cls,
            granularity=self.granularity,
            isolation=self.isolation,
            scope=self.scope,
            metadata=self.written_under,
            floating=self.floating,
            application=self.application,
        )


@dataclass(frozen=True, slots=True)
class Removed:
    """Live files that an entry takes out of the table."""

    ids: Sequence[int] = ()
    rows: int = 0
    bytes: int = 0


NOTHING = Removed()


def removed_from(files: pa.Table) -> Removed:
    """Removals for live files with the columns `id`, `rows` and `size`."""
    if files.num_rows == 0:
        return NOTHING
    return Removed(
        files["id"].to_pylist(),
        pc.sum(files["rows"]).as_py(),
        pc.sum(files["size"]).as_py(),
    )


def entry_on(plan: Plan, parent: Head | None, removed: Removed, now_us: int) -> Entry:
    """The entry of `plan` right after `parent`; version 0 for None.

    Args:
        plan: the transaction.
        parent: the head it goes on top of.
        removed: what `plan.replacing` comes to on that parent.
        now_us: the writer's clock.
    """
    version = 0 if parent is None else parent.version + 1
    before = parent.totals if parent else _EMPTY
    added = len(plan.add) if plan.add is not None else 0
    timestamp = now_us if parent is None else max(now_us, parent.timestamp + 1)
    logical = parent is None or plan.operation.cls not in NOT_LOGICAL
    table = parent.table if parent else plan.table
    assert table is not None
    return Entry(
        table=table,
        version=version,
        timestamp=timestamp,
        time_version=timestamp if parent is None or logical else parent.time_version,
        transaction=plan.transaction,
        previous=parent.digest if parent else None,
        operation=_measured(plan, added, removed),
        basis=Basis(
            read_version=plan.read_version,
            isolation=plan.isolation,
            granularity=plan.granularity,
            blind=plan.blind,
            scope=plan.scope,
        ),
        totals=Totals(
            files=before.files + added - len(removed.ids),
            rows=before.rows + plan.added_rows - removed.rows,
            bytes=before.bytes + plan.added_bytes - removed.bytes,
            next_id=before.next_id + added,
            metadata_version=version
            if plan.metadata is not None or plan.protocol is not None
            else before.metadata_version,
        ),
        protocol=plan.protocol,
        metadata=plan.metadata,
        add=plan.add,
        remove=removed.ids,
        application=plan.application,
        user_metadata=plan.user_metadata,
    )


_EMPTY = Totals(files=0, rows=0, bytes=0, next_id=1, metadata_version=0)


def _measured(plan: Plan, added: int, removed: Removed) -> Operation:
    """The operation with Delta's metric names; removals are known only on a parent."""
    if added == 0 and plan.replacing is None:
        return plan.operation
    metrics = dict(plan.operation.metrics)
    metrics.update(numFiles=added, numOutputRows=plan.added_rows, numOutputBytes=plan.added_bytes)
    if plan.replacing is not None:
        metrics.update(
            numRemovedFiles=len(removed.ids),
            numRemovedBytes=removed.bytes,
            numDeletedRows=removed.rows,
        )
    return replace(plan.operation, metrics=metrics)
