"""In which columns the rows of a range come. Spec: INC-4."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tablefmt.changes.commit_rows import FileChanges
from tablefmt.changes.range import Covered
from tablefmt.errors import InvalidRangeError, UnsupportedFeatureError
from tablefmt.model.entry import Metadata
from tablefmt.model.given_names import OWN_PREFIX
from tablefmt.model.schema import Field, Schema, id_places
from tablefmt.model.schema_views import nullable
from tablefmt.model.widening import widest
from tablefmt.snapshot.load import LogView

ENDS = ("end", "start")

DROPPED_FIELD = "changes:dropped-field"
"""What an error names if a struct has a field that it had not for some time."""


def schema_of_range(view: LogView, range_: Covered, end: str) -> Schema:
    """The columns of one end of a range, with types that hold what there was in between.

    Args:
        view: the log.
        range_: the versions.
        end: one of ENDS; the start is the version before the first.

    Raises:
        InvalidRangeError: another word.
    """
    if end not in ENDS:
        raise InvalidRangeError(f"schema {end!r} is neither 'end' nor 'start'")
    version = range_.last if end == "end" else range_.before
    return widened(view, range_, view.metadata_at(max(0, version)).schema)


def widened(view: LogView, range_: Covered, schema: Schema) -> Schema:
    """The columns of a schema, with types that hold what there was in a range, or just before."""
    known = (metadata.schema for metadata in _definitions(view, range_))
    return nullable(widest(schema, known))


def _definitions(view: LogView, range_: Covered) -> Iterator[Metadata]:
    """Those in force in the range, the newest first, and before it."""
    first, version = max(0, range_.before), max(0, range_.last)
    yield view.metadata_at(version)
    while (changed := view.metadata_version_at(version)) > first:
        version = changed - 1
        yield view.metadata_at(version)


def lost_columns(view: LogView, range_: Covered, schema: Schema, *, ends: bool = False) -> bool:
    """Whether a version of the range, or the one before, had dropped a column of the schema.

    Args:
        view: the log.
        range_: the versions.
        schema: of the answer.
        ends: no rows are asked for but those of the last version and of the one before the range.

    Raises:
        UnsupportedFeatureError: one of whose rows are asked for had dropped a field in a struct:
            files may still hold values.
    """
    lost = False
    known_schemas = [metadata.schema for metadata in _definitions(view, range_)]
    for at, then in enumerate(known_schemas):
        asked = not ends or at in (0, len(known_schemas) - 1)
        dropped = dropped_columns(schema, then)
        stay = replace(schema, fields=tuple(f for f in schema.fields if f.id not in dropped))
        known = id_places(then)
        parts = any(i <= then.last_id and i not in known for i in id_places(stay))
        if parts and asked:
            raise UnsupportedFeatureError(
                "the range holds versions that had dropped a field of a struct which the answer "
                "has; ask for the versions before and after that apart",
                [DROPPED_FIELD],
            )
        lost = lost or parts or bool(dropped)
    return lost


def dropped_columns(schema: Schema, then: Schema) -> frozenset[int]:
    """Ids of columns that an earlier schema had dropped; not of those that were yet to come."""
    here = {field.id for field in then.fields}
    ids = (field.id for field in schema.fields)
    return frozenset(i for i in ids if i <= then.last_id and i not in here)


def without_columns(change: FileChanges, ids: frozenset[int]) -> FileChanges:
    """The same rows with NULL in columns that had been dropped, whatever their files still hold.

    What the log says of these columns is of the files, and says nothing of the rows.
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
    """What data files are read by, so that they hold nothing of these columns, which are NULL."""
    if not lost:
        return schema
    taken = {f.physical.casefold() for f in schema.fields} | {n.casefold() for n in schema.dropped}

    def read(field: Field) -> Field:
        if field.id not in lost:
            return field
        # No table that obeys SCH-11 has such a name.
        name = f"{OWN_PREFIX}dropped_{field.id}"
        while name in taken:
            name += "_"
        return replace(field, physical=name, initial=None)

    return replace(schema, fields=tuple(map(read, schema.fields)))
