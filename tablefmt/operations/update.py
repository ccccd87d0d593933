"""Update: rows for which a condition holds get new values (class UPDATE). Staged only, so far.

The new values come from a function over Arrow rows; whatever works out SQL expressions gives one.
Spec: DEL-1, ENT-9.
"""

from __future__ import annotations

from collections.abc import Sequence

from tablefmt.commit.plan import Plan
from tablefmt.data.selection import Condition
from tablefmt.model.entry import AddedFiles, Metadata, Operation, OperationClass, RowUpdate, Scope
from tablefmt.model.predicate import Predicate, any_of
from tablefmt.operations.overwrite import partitions_of
from tablefmt.operations.pinned import Pinned, check_may_remove, joined, scope_of
from tablefmt.operations.rows import Change, change_rows, flagged, select, take_out
from tablefmt.operations.target import target_of

NAME = "UPDATE"


def stage_update(
    pinned: Pinned, where: Condition, change: Change, columns: Sequence[str] | None
) -> Plan:
    """The update at the pinned version; with no such row, a plan that is empty.

    Args:
        pinned: the version, and where the files go.
        where: which rows; None for all.
        change: gives new rows for old ones, one for one.
        columns: names of the columns that `change` sets; None: any.

    Raises:
        ConstraintViolationError: the table is append-only, or NOT NULL is broken.
        InvalidPredicateError, SchemaMismatchError, UnsupportedFeatureError, CorruptDataError.
    """
    metadata = pinned.metadata
    check_may_remove(metadata)
    target = target_of(where, metadata.schema)
    selected = select(pinned, target)
    changed = None
    taken = take_out(pinned, selected, updated=True)
    if selected.rows:
        changed = change_rows(pinned, selected, change)
    carried = None if taken.added is None else flagged(taken.added, updated=False)
    metrics = {"numUpdatedRows": selected.count}
    if carried is not None:
        metrics["numCopiedRows"] = carried.rows
    fields = [metadata.schema.find(name) for name in columns or ()]
    set_ids = tuple(sorted(field.id for field in fields if field is not None))
    return Plan(
        transaction=pinned.transaction,
        operation=Operation(
            name=NAME,
            cls=OperationClass.UPDATE,
            parameters={"predicate": target.text},
            metrics=metrics,
        ),
        scope=written_scope(target.predicate, changed, metadata),
        predicate=target.text,
        written_under=metadata,
        read_version=pinned.version,
        add=joined([carried, changed]),
        reads=(target.read(selected.files, selected.rows),),
        removes=taken.removes,
        deletes=taken.deletes,
        carried=taken.carried,
        update=RowUpdate(None if columns is None else set_ids) if selected.rows else None,
    )


def written_scope(
    predicate: Predicate | None, added: AddedFiles | None, metadata: Metadata
) -> Scope:
    """The partitions read by a condition or written."""
    if predicate is None or added is None or not metadata.partition_by:
        return scope_of(predicate, metadata)
    return scope_of(any_of([predicate, partitions_of(added, metadata)]), metadata)
