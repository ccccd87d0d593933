"""Conflict check: decide if `pending` may follow `winner`, in the specification's order. Pure.

Spec: CFL-1 .. CFL-6, CFL-8 .. CFL-12, CFL-16, CFL-19, CFL-24 (spec/conflicts.md).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tablefmt.conflict.commit_overlap import (
    may_have_read,
    new_files,
    overlap_with_inputs,
    overlap_with_read,
    overlap_with_removals,
    shared_partitions,
)
from tablefmt.conflict.conflict_matrix import (
    ROW,
    Cell,
    Rule,
    kind_of,
    matrix_of,
    rule_for,
    rule_text,
    transaction_rule,
)
from tablefmt.conflict.read_write_sets import PendingCommit, Winner, shared
from tablefmt.conflict.rebase import cannot_take_over
from tablefmt.conflict.verdict import (
    AlreadyApplied,
    Conflict,
    Evidence,
    Verdict,
    conflict,
    of_added,
    of_files,
    of_partitions,
)
from tablefmt.errors import (
    ConcurrentAppendException,
    ConcurrentDeleteDeleteException,
    ConcurrentDeleteReadException,
    ConcurrentTransactionException,
    ConcurrentWriteException,
    MetadataChangedException,
    ProtocolChangedException,
)
from tablefmt.model.content_hashes import differ
from tablefmt.model.log_entry import NOT_LOGICAL, Metadata, OperationClass
from tablefmt.model.name_matching import folded
from tablefmt.model.properties import DECISIVE, get_property
from tablefmt.model.schema import Field

RUN_AGAIN = "Run the pipe again: it resumes from the cursor of the other run."


def check(winner: Winner, pending: PendingCommit) -> Verdict:
    """Return the verdict of the first check that applies (CFL-1).

    Args:
        winner: an entry above the version that `pending` read. `follow` has processed the entries
            before it.
        pending: the commit as the last `follow` returned it.

    Returns:
        None if `pending` may commit after `winner`. The caller then calls `follow`.

    Raises:
        CorruptEntryError: the lineage or the key hashes of the concurrent commit are damaged.
    """
    for each in _CHECKS:
        verdict = each(winner, pending)
        if verdict is not None:
            return verdict
    return None


def _protocol(winner: Winner, pending: PendingCommit) -> Verdict:
    if winner.entry.protocol is None:
        if not (pending.replaces and replaces_table(winner)):
            return None
        reason = "another writer replaced the table"
        return conflict(winner, ProtocolChangedException, "CFL-4", reason)
    created = winner.entry.version == 0 and pending.metadata is None
    changed = "the winning commit changed the protocol"
    reason = "another writer created the table" if created else changed
    return conflict(winner, ProtocolChangedException, "CFL-4", reason)


def replaces_table(winner: Winner) -> bool:
    """Return True if the concurrent commit replaced the table with another one (CFL-4)."""
    entry = winner.entry
    if entry.metadata is None or entry.basis.scope is not None:
        return False
    if entry.operation.cls is OperationClass.OVERWRITE:
        return True
    # A replacement whose source read the table is an UPDATE without a condition. No file stays.
    added = 0 if entry.add is None else len(entry.add)
    replaced = entry.basis.predicate is None and bool(entry.remove)
    update = entry.operation.cls is OperationClass.UPDATE
    return update and replaced and entry.totals.files == added


def _metadata(winner: Winner, pending: PendingCommit) -> Verdict:
    if winner.entry.metadata is None:
        return None
    if pending.floating and pending.metadata is not None:
        misfit = misfit_of(pending.metadata, winner.entry.metadata)
        if misfit is None:
            return None
        return conflict(winner, MetadataChangedException, "CFL-5", misfit)
    reason = "the winning commit changed schema, properties or partitioning"
    return conflict(winner, MetadataChangedException, "CFL-5", reason)


def _application(winner: Winner, pending: PendingCommit) -> Verdict:
    theirs, own = winner.entry.application, pending.application
    if theirs is None or own is None or theirs.id != own.id:
        return None
    if theirs.version == own.version and not differ(theirs.digest, own.digest):
        return AlreadyApplied(winner.entry.version)
    reason = (
        f"the winning commit used the same application id {own.id!r}, at version {theirs.version}"
    )
    evidence = {"theirs": theirs.version, "mine": own.version}
    return conflict(winner, ConcurrentTransactionException, "CFL-6", reason, evidence=evidence)


def _cursor(winner: Winner, pending: PendingCommit) -> Verdict:
    own = pending.derived_from
    if own is None:
        return None
    derived = winner.entry.derived_from
    keys: dict[tuple[str, str], int | None] = {b.key: b.to for b in winner.entry.cursors}
    if derived is not None:
        keys[derived.key] = derived.to
    if own.key not in keys:
        return None
    evidence = {"source": own.source, "name": own.name, "theirs": keys[own.key], "mine": own.start}
    reason = "the winning commit moved the cursor of this source"
    error = ConcurrentTransactionException
    return replace(conflict(winner, error, "CFL-24", reason, evidence=evidence), advice=RUN_AGAIN)


def _added_constraints(winner: Winner, pending: PendingCommit) -> Verdict:
    """Check CFL-12: an added constraint covers every row, so it reads the whole table."""
    if not pending.promises or kind_of(winner) is None:
        return None
    new = new_files(winner)
    if not new.any():
        return None
    evidence = of_added(winner, new, pending.metadata)
    reason = "the winning commit added rows that were not checked against the new constraint"
    return conflict(winner, ConcurrentAppendException, "CFL-12", reason, None, evidence)


def _rows(winner: Winner, pending: PendingCommit) -> Verdict:
    cell = rule_text(winner, pending)
    if cell is None:
        return None
    rule = _by_scope if pending.granularity == "transaction" else _by_cell
    return rule(winner, pending, cell)


_CHECKS: tuple[Callable[[Winner, PendingCommit], Verdict], ...] = (
    _protocol,
    _metadata,
    _application,
    _cursor,
    _added_constraints,
    _rows,
)


def _by_scope(winner: Winner, pending: PendingCommit, cell: str) -> Conflict | None:
    """Check the scopes (CFL-2)."""
    earlier, later = winner.entry.operation.cls, pending.cls
    if transaction_rule(earlier, later) is not Cell.FAIL:
        return _out_of_reach(winner, pending, cell)
    partitions = shared_partitions(winner.entry.basis.scope, pending.scope, pending.metadata)
    if partitions is not None and not partitions:
        return None
    evidence = of_partitions(partitions) if partitions is not None else {}
    reason = f"{later.value} may not follow {earlier.value} in the same scope"
    return conflict(winner, ConcurrentWriteException, "CFL-2", reason, cell, evidence)


def _out_of_reach(winner: Winner, pending: PendingCommit, cell: str) -> Conflict | None:
    """Return the conflict of a passing matrix rule that metadata alone cannot satisfy, if any."""
    if winner.entry.operation.cls not in NOT_LOGICAL:
        return None
    if pending.cls in NOT_LOGICAL:
        files = cannot_take_over(winner, pending)
        if not files:
            return None
        reason = "the winning commit compacted files of this compaction together with others"
        return _both_remove(winner, "CFL-16", reason, cell, of_files(files))
    if not reorders(winner):
        return None
    taken = overlap_with_removals(winner, pending, by_row=False)
    if not taken:
        return None
    reason = "the winning commit reordered rows that this operation removes"
    if any(len(shared(sorted(taken.files), read.files)) for read in pending.reads):
        error = ConcurrentDeleteReadException
        return conflict(winner, error, "CFL-10", reason, cell, taken.evidence())
    return _both_remove(winner, "CFL-11", reason, cell, taken.evidence())


def _both_remove(winner: Winner, rule: str, reason: str, cell: str, evidence: Evidence) -> Conflict:
    return conflict(winner, ConcurrentDeleteDeleteException, rule, reason, cell, evidence)


def reorders(winner: Winner) -> bool:
    """Return True if a compaction does not record the new positions of its rows."""
    entry = winner.entry
    clustered = entry.operation.cls is OperationClass.CLUSTER
    return clustered or (entry.lineage is None and entry.add is not None)


def _by_cell(winner: Winner, pending: PendingCommit, cell: str) -> Conflict | None:
    """Check what the matrix rule requires (CFL-3), in the order of the exceptions."""
    rule = rule_for(winner, pending)
    if rule in (Rule.NEVER, Rule.OVERTAKEN):
        needs_order = pending.cls is OperationClass.UPDATE and (
            winner.entry.operation.cls in NOT_LOGICAL and reorders(winner)
        )
        return _removed(winner, pending, cell) if needs_order else None
    if rule is not Rule.SAME:
        appended = _appended(winner, pending, cell)
        if appended is not None:
            return appended
    return None if rule is Rule.APPENDED else _removed(winner, pending, cell)


def _appended(winner: Winner, pending: PendingCommit, cell: str) -> Conflict | None:
    for read in pending.reads:
        mask = may_have_read(winner, pending, read)
        if mask.any():
            evidence: Evidence = of_added(winner, mask, pending.metadata)
            reason = "the winning commit added rows that this operation would have read"
            return conflict(winner, ConcurrentAppendException, "CFL-8", reason, cell, evidence)
    if pending.passed_over is None or not _may_have_seen(winner, pending, pending.passed_over):
        return None
    reason = (
        f"the winning commit may have read the rows that version {pending.passed_over} inserted, "
        "but this operation did not see them"
    )
    passed = {"passed_over": pending.passed_over, "read_version": winner.entry.basis.read_version}
    return conflict(winner, ConcurrentAppendException, "CFL-9", reason, cell, passed)


def _may_have_seen(winner: Winner, pending: PendingCommit, blind: int) -> bool:
    """Check CFL-9: return True if a non-blind commit may depend on the rows of a blind one."""
    entry = winner.entry
    partitions = shared_partitions(entry.basis.scope, pending.scope, pending.metadata)
    if partitions is not None and not partitions:
        return False
    if entry.operation.cls is OperationClass.OVERWRITE:
        # An OVERWRITE reads nothing, but selects the files to remove when it commits. A RESTORE
        # keeps existing files.
        added = 0 if entry.add is None else len(entry.add)
        stays = entry.basis.scope is None and entry.totals.files > added
        return stays or any(file >= pending.next_id for file in entry.remove)
    return entry.basis.read_version is None or entry.basis.read_version >= blind


def _removed(winner: Winner, pending: PendingCommit, cell: str) -> Conflict | None:
    """Check for removed files and deleted rows (CFL-10, CFL-11)."""
    if pending.cls in NOT_LOGICAL:
        taken = overlap_with_inputs(winner, pending)
        reason = "the winning commit changed or removed files that this operation rewrites"
        return _both_remove(winner, "CFL-11", reason, cell, taken.evidence()) if taken else None
    by_row = matrix_of(pending.granularity, pending.delete_mode) == ROW
    for read in pending.reads:
        taken = overlap_with_read(winner, read, by_row)
        if taken:
            reason = f"the winning commit removed {_what(taken.rows)} that this operation read"
            error = ConcurrentDeleteReadException
            return conflict(winner, error, "CFL-10", reason, cell, taken.evidence())
    taken = overlap_with_removals(winner, pending, by_row)
    if not taken:
        return None
    reason = f"the winning commit removed {_what(taken.rows)} that this operation removes"
    return _both_remove(winner, "CFL-11", reason, cell, taken.evidence())


def _what(rows: object) -> str:
    return "rows" if rows else "files"


def misfit_of(written: Metadata, now: Metadata) -> str | None:
    """Return the reason why rows written under one metadata do not fit a later one (CFL-5).

    Return None if every file would be the same under the later metadata. The time of writing then
    does not matter.
    """
    if written.partition_by != now.partition_by:
        return "the winning commit changed the partitioning"
    for name in DECISIVE:
        if get_property(written.properties, name) != get_property(now.properties, name):
            return f"the winning commit set property {name!r}"
    old = {f.id: f for f in written.schema.fields}
    new = {f.id: f for f in now.schema.fields}
    for field_id, column in old.items():
        if field_id not in new:
            return f"the winning commit dropped column {column.name!r}"
        changed = _changed(column, new[field_id])
        if changed is not None:
            return f"the winning commit {changed} column {column.name!r}"
    for field_id, column in new.items():
        if field_id in old:
            continue
        if not column.nullable:
            return f"the winning commit added column {column.name!r}, which is NOT NULL"
        if column.default != column.initial:
            return (
                f"the winning commit added column {column.name!r}, "
                "and its default has changed since"
            )
    held = list(written.constraints.values())
    for name, each in now.constraints.items():
        if each not in held:
            return f"the winning commit added constraint {name!r}"
    return None


def _changed(before: Field, after: Field) -> str | None:
    """Return the change to a column that affects what is written to it; None if there is none."""
    if folded(before.name) != folded(after.name):
        return "renamed"
    if before.type != after.type or before.text != after.text:
        return "changed the type of"
    if before.default != after.default:
        return "changed the default of"
    return "set NOT NULL on" if before.nullable and not after.nullable else None
