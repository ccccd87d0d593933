"""In which columns the rows of a range come. Spec: INC-4."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import pyarrow as pa

from tablefmt.changes.commit_rows import FileChanges
from tablefmt.changes.range import Covered
from tablefmt.errors import InvalidRangeError, UnsupportedFeatureError
from tablefmt.model.arrow_types import arrow_type
from tablefmt.model.entry import Metadata
from tablefmt.model.schema import Field, Schema, id_places
from tablefmt.model.schema_views import nullable
from tablefmt.model.widening import widest
from tablefmt.snapshot.load import LogView

ENDS = ("end", "start")


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
    known = [metadata.schema for metadata in _definitions(view, range_)]
    return nullable(widest(known[0 if end == "end" else -1], known))


def _definitions(view: LogView, range_: Covered) -> Iterator[Metadata]:
    """Those in force in the range, the newest first, and before it."""
    first, version = max(0, range_.first - 1), max(0, range_.last)
    yield view.metadata_at(version)
    while (changed := view.metadata_version_at(version)) > first:
        version = changed - 1
        yield view.metadata_at(version)


def lost_columns(view: LogView, range_: Covered, schema: Schema) -> bool:
    """Whether a version of the range, or the one before, had dropped a column of the schema.

    Raises:
        UnsupportedFeatureError: it had dropped a field in a struct: files may still hold values.
    """
    lost = False
    for then in (metadata.schema for metadata in _definitions(view, range_)):
        gone = gone_columns(schema, then)
        stay = replace(schema, fields=tuple(f for f in schema.fields if f not in gone))
        known = id_places(then)
        if any(i <= then.last_id and i not in known for i in id_places(stay)):
            raise UnsupportedFeatureError(
                "the range holds versions that had dropped a field of a struct which the answer "
                "has; ask for the versions before and after that apart",
                ["changes:dropped-field"],
            )
        lost = lost or bool(gone)
    return lost


def gone_columns(schema: Schema, then: Schema) -> list[Field]:
    """Columns that an earlier schema had dropped; not those that were yet to come."""
    here = {field.id for field in then.fields}
    return [f for f in schema.fields if f.id <= then.last_id and f.id not in here]


def without_columns(change: FileChanges, gone: Sequence[Field]) -> FileChanges:
    """The same rows with NULL in columns that had been dropped, whatever their files still hold."""
    files = change.files
    for field in gone:
        name, nothing = f"partition.{field.id}", pa.nulls(files.num_rows, arrow_type(field.type))
        if name in files.column_names:
            files = files.drop_columns([name])
        files = files.append_column(name, nothing)
    ids = change.partition_ids.union(field.id for field in gone)
    return replace(change, files=files, partition_ids=ids, lost=frozenset(f.id for f in gone))
