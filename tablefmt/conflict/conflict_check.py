"""Conflict check: decide if `pending` may follow `concurrent`, in the specification's order. Pure.

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
    ALWAYS_COMMIT,
    ROW,
    Rule,
    TransactionRule,
    conflict_kind,
    matrix_of,
    reorders,
    rule_for,
    rule_text,
    transaction_rule,
)
from tablefmt.conflict.read_write_sets import ConcurrentCommit, PendingCommit, shared
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
from tablefmt.model.identity_columns import identity_columns
from tablefmt.model.log_entry import NOT_LOGICAL, Metadata, OperationClass
from tablefmt.model.name_matching import folded
from tablefmt.model.properties import DECISIVE, get_property
from tablefmt.model.schema import Field
from tablefmt.model.tags import is_tagging

RUN_AGAIN = "Run the pipe again: it resumes from the cursor of the other run."


def check(concurrent: ConcurrentCommit, pending: PendingCommit) -> Verdict:
    """Return the verdict of the first check that applies (CFL-1).

    Args:
        concurrent: an entry above the version that `pending` read. `rebase_onto` has processed the
            entries before it.
        pending: the commit as the last `rebase_onto` returned it.

    Returns:
        None if `pending` may commit after `concurrent`. The caller then calls `rebase_onto`.

    Raises:
        CorruptEntryError: the lineage or the key hashes of the concurrent commit are damaged.
    """
    for each in _CHECKS:
        verdict = each(concurrent, pending)
        if verdict is not None:
            return verdict
    return None


def _protocol(concurrent: ConcurrentCommit, pending: PendingCommit) -> Verdict:
    if concurrent.entry.protocol is None:
        if not (pending.replaces and replaces_table(concurrent)):
            return None
        reason = "another writer replaced the table"
        return conflict(concurrent, ProtocolChangedException, "CFL-4", reason)
    created = pending.read_version is None and pending.metadata is None
    changed = "the winning commit changed the protocol"
    reason = "another writer created the table" if created else changed
    return conflict(concurrent, ProtocolChangedException, "CFL-4", reason)


def replaces_table(concurrent: ConcurrentCommit) -> bool:
    """Return True if the concurrent commit replaced the table with another one (CFL-4)."""
    entry = concurrent.entry
    if entry.metadata is None or entry.basis.scope is not None:
        return False
    if entry.operation.cls is OperationClass.OVERWRITE:
        return True
    # A replacement whose source read the table is an UPDATE without a condition. No file stays.
    added = 0 if entry.add is None else len(entry.add)
    replaced = entry.basis.predicate is None and bool(entry.remove)
    update = entry.operation.cls is OperationClass.UPDATE
    return update and replaced and entry.totals.files == added


def _metadata(concurrent: ConcurrentCommit, pending: PendingCommit) -> Verdict:
    if concurrent.entry.metadata is None:
        return None
    before = None if pending.defines or pending.replaces else pending.metadata
    alters = concurrent.entry.operation.cls is OperationClass.METADATA
    if alters and before is not None and is_tagging(before, concurrent.entry.metadata):
        # Only tags changed, and they concern no row (CFL-5). An entry of another class may have
        # replaced the rows under the same definition.
        return None
    if pending.floating and pending.metadata is not None:
        misfit = misfit_of(pending.metadata, concurrent.entry.metadata)
        if misfit is None:
            return None
        return conflict(concurrent, MetadataChangedException, "CFL-5", misfit)
    reason = "the winning commit changed schema, properties or partitioning"
    return conflict(concurrent, MetadataChangedException, "CFL-5", reason)


def _application(concurrent: ConcurrentCommit, pending: PendingCommit) -> Verdict:
    theirs, own = concurrent.entry.application, pending.application
    if theirs is None or own is None or theirs.id != own.id:
        return None
    if theirs.version == own.version and not differ(theirs.digest, own.digest):
        return AlreadyApplied(concurrent.entry.version)
    reason = (
        f"the winning commit used the same application id {own.id!r}, at version {theirs.version}"
    )
    evidence = {"theirs": theirs.version, "mine": own.version}
    return conflict(concurrent, ConcurrentTransactionException, "CFL-6", reason, evidence=evidence)


def _cursor(concurrent: ConcurrentCommit, pending: PendingCommit) -> Verdict:
    own = pending.derived_from
    if own is None:
        return None
    derived = concurrent.entry.derived_from
    keys: dict[tuple[str, str], int | None] = {b.key: b.to for b in concurrent.entry.cursors}
    if derived is not None:
        keys[derived.key] = derived.to
    if own.key not in keys:
        return None
    evidence = {"source": own.source, "name": own.name, "theirs": keys[own.key], "mine": own.start}
    reason = "the winning commit moved the cursor of this source"
    error = ConcurrentTransactionException
    return replace(
        conflict(concurrent, error, "CFL-24", reason, evidence=evidence), advice=RUN_AGAIN
    )


def _added_constraints(concurrent: ConcurrentCommit, pending: PendingCommit) -> Verdict:
    """Check CFL-12: an added constraint covers every row, so it reads the whole table."""
    if not pending.adds_constraints or conflict_kind(concurrent) is None:
        return None
    new = new_files(concurrent)
    if not new.any():
        return None
    evidence = of_added(concurrent, new, pending.metadata)
    reason = "the winning commit added rows that were not checked against the new constraint"
    return conflict(concurrent, ConcurrentAppendException, "CFL-12", reason, None, evidence)


def _rows(concurrent: ConcurrentCommit, pending: PendingCommit) -> Verdict:
    cell = rule_text(concurrent, pending)
    if cell is None:
        return None
    rule = _by_scope if pending.granularity == "transaction" else _by_cell
    return rule(concurrent, pending, cell)


_CHECKS: tuple[Callable[[ConcurrentCommit, PendingCommit], Verdict], ...] = (
    _protocol,
    _metadata,
    _application,
    _cursor,
    _added_constraints,
    _rows,
)


def _by_scope(concurrent: ConcurrentCommit, pending: PendingCommit, cell: str) -> Conflict | None:
    """Check the scopes (CFL-2)."""
    earlier, later = concurrent.entry.operation.cls, pending.cls
    if transaction_rule(earlier, later) is not TransactionRule.FAIL:
        return _out_of_reach(concurrent, pending, cell)
    partitions = shared_partitions(concurrent.entry.basis.scope, pending.scope, pending.metadata)
    if partitions is not None and not partitions:
        return None
    evidence = of_partitions(partitions) if partitions is not None else {}
    reason = f"{later.value} may not follow {earlier.value} in the same scope"
    return conflict(concurrent, ConcurrentWriteException, "CFL-2", reason, cell, evidence)


def _out_of_reach(
    concurrent: ConcurrentCommit, pending: PendingCommit, cell: str
) -> Conflict | None:
    """Return the conflict of a passing matrix rule that metadata alone cannot satisfy, if any."""
    if concurrent.entry.operation.cls not in NOT_LOGICAL:
        return None
    if pending.cls in NOT_LOGICAL:
        files = cannot_take_over(concurrent, pending)
        if not files:
            return None
        reason = "the winning commit compacted files of this compaction together with others"
        return _both_remove(concurrent, "CFL-16", reason, cell, of_files(files))
    if not reorders(concurrent):
        return None
    taken = overlap_with_removals(concurrent, pending, by_row=False)
    if not taken:
        return None
    reason = "the winning commit reordered rows that this operation removes"
    if any(len(shared(sorted(taken.files), read.files)) for read in pending.reads):
        error = ConcurrentDeleteReadException
        return conflict(concurrent, error, "CFL-10", reason, cell, taken.evidence())
    return _both_remove(concurrent, "CFL-11", reason, cell, taken.evidence())


def _both_remove(
    concurrent: ConcurrentCommit, rule: str, reason: str, cell: str, evidence: Evidence
) -> Conflict:
    return conflict(concurrent, ConcurrentDeleteDeleteException, rule, reason, cell, evidence)


def _by_cell(concurrent: ConcurrentCommit, pending: PendingCommit, cell: str) -> Conflict | None:
    """Check what the matrix rule requires (CFL-3), in the order of the exceptions."""
    rule = rule_for(concurrent, pending)
    if rule in ALWAYS_COMMIT:
        return None
    if rule is not Rule.SAME:
        appended = _appended(concurrent, pending, cell)
        if appended is not None:
            return appended
    return None if rule is Rule.APPENDED else _removed(concurrent, pending, cell)


def _appended(concurrent: ConcurrentCommit, pending: PendingCommit, cell: str) -> Conflict | None:
    for read in pending.reads:
        mask = may_have_read(concurrent, pending, read)
        if mask.any():
            evidence: Evidence = of_added(concurrent, mask, pending.metadata)
            reason = "the winning commit added rows that this operation would have read"
            return conflict(concurrent, ConcurrentAppendException, "CFL-8", reason, cell, evidence)
    if pending.skipped is None or not _may_have_seen(concurrent, pending, pending.skipped):
        return None
    reason = (
        f"the winning commit may have read the rows that version {pending.skipped} inserted, "
        "but this operation did not see them"
    )
    passed = {"skipped": pending.skipped, "read_version": concurrent.entry.basis.read_version}
    return conflict(concurrent, ConcurrentAppendException, "CFL-9", reason, cell, passed)


def _may_have_seen(concurrent: ConcurrentCommit, pending: PendingCommit, blind: int) -> bool:
    """Check CFL-9: return True if a non-blind commit may depend on the rows of a blind one."""
    entry = concurrent.entry
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


def _removed(concurrent: ConcurrentCommit, pending: PendingCommit, cell: str) -> Conflict | None:
    """Check for removed files and deleted rows (CFL-10, CFL-11)."""
    if pending.cls in NOT_LOGICAL:
        taken = overlap_with_inputs(concurrent, pending)
        reason = "the winning commit changed or removed files that this operation rewrites"
        return _both_remove(concurrent, "CFL-11", reason, cell, taken.evidence()) if taken else None
    by_row = matrix_of(pending.granularity, pending.delete_mode) == ROW
    for read in pending.reads:
        taken = overlap_with_read(concurrent, read, by_row)
        if taken:
            reason = f"the winning commit removed {taken.what} that this operation read"
            error = ConcurrentDeleteReadException
            return conflict(concurrent, error, "CFL-10", reason, cell, taken.evidence())
    taken = overlap_with_removals(concurrent, pending, by_row)
    if not taken:
        return None
    reason = f"the winning commit removed {taken.what} that this operation removes"
    return _both_remove(concurrent, "CFL-11", reason, cell, taken.evidence())


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
    numbered = {each.field.id: each.text for each in identity_columns(written)}
    for each in identity_columns(now):
        if numbered.get(each.field.id) != each.text:
            return f"the winning commit changed the identity column {each.field.name!r}"
    held = list(written.constraints.values())
    for name, condition in now.constraints.items():
        if condition not in held:
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
