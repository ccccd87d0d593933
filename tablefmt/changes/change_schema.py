"""Schema of a range's rows: its columns, their types, and the change columns.

The change columns are the kind, version and time of a row's change. Spec: INC-3, INC-4.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from tablefmt.changes.commit_rows import FileChanges
from tablefmt.changes.version_range import Covered
from tablefmt.errors import (
    InvalidArgumentError,
    InvalidRangeError,
    SchemaMismatchError,
    UnsupportedFeatureError,
)
from tablefmt.model.name_matching import folded
from tablefmt.model.schema import Field, Schema, id_places, nullable
from tablefmt.model.schema_rules import OWN_PREFIX
from tablefmt.model.type_widening import Era, Place, common_types, described, leaves, parts, splits
from tablefmt.snapshot.log_view import LogView

CHANGE_COLUMNS = pa.schema(
    [
        pa.field("_change_type", pa.string(), nullable=False),
        pa.field("_commit_version", pa.int64(), nullable=False),
        pa.field("_commit_timestamp", pa.timestamp("us", tz="UTC"), nullable=False),
    ]
)

APPEND_COLUMNS = pa.schema(list(CHANGE_COLUMNS)[1:])
"""Change columns of rows that are all inserts."""

KIND = f"{OWN_PREFIX}change_type"
"""Internal name for `_change_type` that no table column can have."""

KINDS = pa.schema([CHANGE_COLUMNS.field(0).with_name(KIND)])
"""Change columns that distinguish deletes from inserts only."""


def check_names(names: Iterable[str], marks: pa.Schema, advice: str) -> None:
    """Refuse table columns that have the name of a change column.

    Raises:
        SchemaMismatchError: it ends with the advice.
    """
    clash = [name for name in names if folded(name) in marks.names]
    if clash:
        raise SchemaMismatchError(
            f"the table's own columns {', '.join(map(repr, clash))} have the names of change "
            f"columns; {advice}",
            clash,
        )


ENDS = ("end", "start")

DROPPED_FIELD = "changes:dropped-field"
"""Feature name in the error for a struct field that had been dropped for some versions."""


PlanChanges = Callable[[Schema], Sequence[FileChanges]]
"""Function that returns the changes to read for a result with some columns."""


def schema_of_range(view: LogView, range_: Covered, end: str, plan: PlanChanges) -> Schema:
    """Return the columns of one end of the range, with types that hold the values of all its rows.

    Args:
        view: the log.
        range_: the versions.
        end: one of ENDS; the start is the version before the first.
        plan: called only if a restore led to two incompatible types.

    Raises:
        InvalidArgumentError: `end` is not one of ENDS.
        InvalidRangeError: no type holds all values of a column.
        As `plan`.
    """
    if end not in ENDS:
        raise InvalidArgumentError(f"schema is {end!r}; expected 'end' or 'start'")
    version = range_.last if end == "end" else range_.before
    return widened(view, range_, view.metadata_at(max(0, version)).schema, plan)


def widened(view: LogView, range_: Covered, schema: Schema, plan: PlanChanges) -> Schema:
    """Return a schema's columns with the narrowest types that hold the values of a range's rows.

    Takes the arguments of `schema_of_range`, and raises the same errors.
    """
    eras = eras_of(view, range_)
    joined, none = common_types(schema, (era.schema for era in eras))
    if none:
        # Only types whose values may be in the files to read matter.
        versions = _written(plan(nullable(schema)), view.timeline.oldest)
        joined, none = common_types(schema, (view.metadata_at(v).schema for v in versions))
    if none:
        raise InvalidRangeError(_no_type(schema, none, eras, range_))
    return nullable(joined)


def _written(changes: Iterable[FileChanges], oldest: int) -> list[int]:
    """Return the versions under whose metadata the files were written (ADD-9), from `oldest` on.

    An older file is live at the oldest kept version, so that version's type holds its values.
    """
    arrays = [np.zeros(0, np.int64), *(c.files["written"].to_numpy() for c in changes)]
    return [max(int(version), oldest) for version in np.unique(np.concatenate(arrays))]


def eras_of(view: LogView, range_: Covered) -> list[Era]:
    """Return the schemas in force in a range and just before it, in order."""
    last = max(0, range_.last)
    # For an expired range, only the rows at its end are read (INC-7).
    first = max(0, range_.before) if range_.is_kept else last
    eras = []
    while True:
        changed = max(first, view.metadata_version_at(last))
        eras.append(Era(changed, last, view.metadata_at(last).schema))
        if changed <= first:
            return eras[::-1]
        last = changed - 1


def _no_type(schema: Schema, places: Sequence[Place], eras: Sequence[Era], range_: Covered) -> str:
    """Return the error text for a column without a common type."""
    name = leaves(schema)[places[0]].name
    message = [
        f"column {name!r} was {described(places[0], eras)}, and no type can hold all of these "
        "values (INC-4)"
    ]
    reads, refused = [], []
    for after, ending in parts(range_.before, range_.last, splits(places, eras)):
        own = [era for era in eras if era.last >= after and era.first <= ending]
        if common_types(own[-1].schema, (era.schema for era in own))[1]:
            refused.append(ending)
        elif after < 0:
            reads.append(f"changes(starting_version=0, ending_version={ending})")
        else:
            reads.append(f"changes(after_version={after}, ending_version={ending})")
    if reads:
        message.append(f"Read the range in parts: {', then '.join(reads)}")
    for version in refused:
        message.append(
            f"Version {version} must be read separately. That read fails too if the version "
            "deleted rows of one type and added rows of the other: read the table at that version "
            "instead"
        )
    return ". ".join(message)


def lost_columns(view: LogView, range_: Covered, schema: Schema, *, ends: bool = False) -> bool:
    """Return True if the range, or the version before it, had dropped a column of the schema.

    Args:
        view: the log.
        range_: the versions.
        schema: the schema of the result.
        ends: only rows of the last version, and of the one before the range, are read.

    Raises:
        UnsupportedFeatureError: a version whose rows are read had dropped a field in a struct.
            Files may still hold its values.
    """
    lost = False
    known_schemas = [era.schema for era in eras_of(view, range_)]
    for at, then in enumerate(known_schemas):
        asked = not ends or at in (0, len(known_schemas) - 1)
        dropped = dropped_columns(schema, then)
        # No row has the value of a hidden partition field, which a restore may bring back.
        kept = tuple(field for field in schema.fields if field.id not in dropped)
        stay = replace(schema, fields=kept, hidden=())
        known = id_places(then)
        parts = any(i <= then.last_id and i not in known for i in id_places(stay))
        if parts and asked:
            raise UnsupportedFeatureError(
                "the range holds versions that had dropped a struct field of the result; "
                "read the versions before and after these separately",
                [DROPPED_FIELD],
            )
        lost = lost or parts or bool(dropped)
    return lost


def dropped_columns(schema: Schema, then: Schema) -> frozenset[int]:
    """Return the ids of columns that an earlier schema had dropped, without columns added later."""
    here = {field.id for field in then.fields}
    ids = (field.id for field in schema.fields)
    return frozenset(i for i in ids if i <= then.last_id and i not in here)


def without_columns(change: FileChanges, ids: frozenset[int]) -> FileChanges:
    """Return the same rows with NULL in columns that had been dropped, even if files hold values.

    Statistics of these columns describe the files, not these rows, so they are removed.
    """
    if not ids:
        return change
    kept = [n for n in change.files.column_names if not any(n.endswith(f".{i}") for i in ids)]
    return replace(
        change,
        files=change.files.select(kept),
        partition_ids=change.partition_ids - ids,
        lost=change.lost | ids,
    )


def schema_of_files(schema: Schema, lost: frozenset[int]) -> Schema:
    """Return a schema to read data files with: it reads NULL for the columns `lost`."""
    if not lost:
        return schema
    taken = {folded(f.physical) for f in schema.fields} | {folded(n) for n in schema.dropped}

    def read(field: Field) -> Field:
        if field.id not in lost:
            return field
        # SCH-11 reserves this prefix, so normally no table has the name.
        name = f"{OWN_PREFIX}dropped_{field.id}"
        while name in taken:
            name += "_"
        return replace(field, physical=name, initial=None)

    return replace(schema, fields=tuple(map(read, schema.fields)))
