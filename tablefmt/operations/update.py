"""Update: rows for which a condition holds get new values (class UPDATE). Staged only, so far.

The new values come from a function over Arrow rows; whatever works out SQL expressions gives one.
Spec: DEL-1, ENT-9.
"""

from __future__ import annotations

from collections.abc import Sequence

from tablefmt.commit.plan import Plan
from tablefmt.data.selection import Condition
from tablefmt.operations.changed import Changed, changed_plan
from tablefmt.operations.pinned import Pinned, check_may_remove
from tablefmt.operations.rows import Change, change_rows, select
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
    check_may_remove(pinned.metadata)
    schema = pinned.metadata.schema
    target = target_of(where, schema)
    selected = select(pinned, target)
    written = change_rows(pinned, selected, change) if selected.rows else None
    fields = [schema.find(name) for name in columns or ()]
    set_ids = tuple(sorted(field.id for field in fields if field is not None))
    changed = Changed(
        target=target,
        files=selected.files,
        updated=selected.rows,
        updated_files=written,
        set_columns=None if columns is None else set_ids,
    )
    return changed_plan(pinned, NAME, changed)
