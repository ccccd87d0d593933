"""May `mine` commit on top of `winner`? The checks in the order of the specification. Pure.

Here: INSERT and OVERWRITE that read nothing, METADATA and PROTOCOL as winners, and application
ids. Operations that read the table add their read set to `Mine` and their checks to `_CHECKS`.
Spec: CFL-1 .. CFL-6 (spec/conflicts.md).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Union

from tablefmt.conflict.matrix import FILE_BLIND, Cell, transaction_cell
from tablefmt.errors import (
    ConcurrentModificationException,
    ConcurrentTransactionException,
    ConcurrentWriteException,
    MetadataChangedException,
    ProtocolChangedException,
    UnsupportedFeatureError,
)
from tablefmt.model.entry import (
    Application,
    Entry,
    Metadata,
    OperationClass,
    PartitionScope,
    Scope,
)

EVIDENCE_MAX = 10
"""Most items of one kind that evidence names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mine:
    """What the commit that wants to go on top did, and on what it relied."""

    cls: OperationClass
    granularity: str
    isolation: str
    scope: Scope
    metadata: Metadata | None
    """The metadata the data files were written under; None when a table is created."""
    floating: bool = False
    """An autocommit blind append: it depends on nothing it read, so a changed schema stops it only
    if its files do not fit (CFL-5)."""
    application: Application | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Conflict:
    """Why not. `error` is the exception that a caller raises."""

    error: type[ConcurrentModificationException]
    rule: str
    reason: str
    winner_version: int
    winner_operation: str
    evidence: Mapping[str, Any] = field(default_factory=dict)

    def exception(self) -> ConcurrentModificationException:
        """The exception with all fields."""
        return self.error(
            self.reason,
            winner_version=self.winner_version,
            winner_operation=self.winner_operation,
            rule=self.rule,
            evidence=self.evidence,
        )


class Same(Enum):
    """The winner is this very write, sent by somebody else before."""

    ALREADY_APPLIED = "already applied"


Verdict = Union[Conflict, Same, None]  # noqa: UP007 - evaluated at run time in 3.10
"""None: it may go on top."""


def check(winner: Entry, mine: Mine) -> Verdict:
    """The first check that applies decides (CFL-1)."""
    for each in _CHECKS:
        verdict = each(winner, mine)
        if verdict is not None:
            return verdict
    return None


def _protocol(winner: Entry, mine: Mine) -> Verdict:
    if winner.protocol is None:
        return None
    created = winner.version == 0 and mine.metadata is None
    reason = "another writer created the table" if created else "the winner changed the protocol"
    return _conflict(winner, ProtocolChangedException, "CFL-4", reason)


def _metadata(winner: Entry, mine: Mine) -> Verdict:
    if winner.metadata is None:
        return None
    if mine.floating and mine.metadata is not None:
        misfit = misfit_of(mine.metadata, winner.metadata)
        if misfit is None:
            return None
        return _conflict(winner, MetadataChangedException, "CFL-5", misfit)
    reason = "the winner changed schema, properties or partitioning"
    return _conflict(winner, MetadataChangedException, "CFL-5", reason)


def _application(winner: Entry, mine: Mine) -> Verdict:
    theirs, own = winner.application, mine.application
    if theirs is None or own is None or theirs.id != own.id:
        return None
    if (theirs.version, theirs.digest) == (own.version, own.digest):
        return Same.ALREADY_APPLIED
    reason = f"the winner carries the same application id {own.id!r}, at version {theirs.version}"
    evidence = {"theirs": theirs.version, "mine": own.version}
    return _conflict(winner, ConcurrentTransactionException, "CFL-6", reason, evidence)


def _matrix(winner: Entry, mine: Mine) -> Verdict:
    pair = (winner.operation.cls, mine.cls)
    if not _NO_ROWS.isdisjoint(pair):
        return None
    if mine.granularity != "transaction":
        if pair not in FILE_BLIND:
            raise UnsupportedFeatureError(
                f"version {winner.version} is of class {pair[0].value}, and this version cannot "
                f"decide whether {pair[1].value} may follow it. Upgrade tablefmt.",
                [f"conflict:{pair[0].value}-{pair[1].value}"],
            )
        return None
    if transaction_cell(*pair) is not Cell.FAIL:
        return None
    shared = overlap(winner.basis.scope, mine.scope)
    if shared is not None and not shared:
        return None
    evidence: dict[str, Any] = {"cell": f"{pair[0].value}, {pair[1].value}"}
    if shared is not None:
        evidence["partitions"] = [list(values) for values in sorted(shared, key=repr)]
        evidence["partitions"] = evidence["partitions"][:EVIDENCE_MAX]
        evidence["partitions_count"] = len(shared)
    reason = f"{pair[1].value} may not follow {pair[0].value} in one scope"
    return _conflict(winner, ConcurrentWriteException, "CFL-2", reason, evidence)


_CHECKS: tuple[Callable[[Entry, Mine], Verdict], ...] = (
    _protocol,
    _metadata,
    _application,
    _matrix,
)


_NO_ROWS = frozenset({OperationClass.METADATA, OperationClass.PROTOCOL})
"""Classes that touch no rows: what they change was checked by name."""


def overlap(theirs: Scope, mine: Scope) -> frozenset[tuple[Any, ...]] | None:
    """The partitions in both scopes; None if they may overlap in ways that are not listed."""
    if isinstance(theirs, PartitionScope) and isinstance(mine, PartitionScope):
        return frozenset(theirs.values) & frozenset(mine.values)
    return None


def misfit_of(written: Metadata, now: Metadata) -> str | None:
    """Why files written under one metadata do not fit a later one; None if they do (CFL-5)."""
    if written.partition_by != now.partition_by:
        return "the winner changed the partitioning"
    old = {f.id: f for f in written.schema.fields}
    new = {f.id: f for f in now.schema.fields}
    for field_id, column in old.items():
        if field_id not in new:
            return f"the winner dropped column {column.name!r}"
        if new[field_id].type != column.type:
            return f"the winner changed the type of column {column.name!r}"
        if column.nullable and not new[field_id].nullable:
            return f"the winner made column {column.name!r} NOT NULL"
    for field_id, column in new.items():
        if field_id not in old and not column.nullable:
            return f"the winner added column {column.name!r}, which is NOT NULL"
    return None


def _conflict(
    winner: Entry,
    error: type[ConcurrentModificationException],
    rule: str,
    reason: str,
    evidence: Mapping[str, Any] | None = None,
) -> Conflict:
    return Conflict(
        error=error,
        rule=rule,
        reason=reason,
        winner_version=winner.version,
        winner_operation=winner.operation.name,
        evidence=evidence or {},
    )
