"""The metadata tables of a table, as Arrow rows: `t.history`, `t.files` and so on in Spark's SQL.

Each has the rows of a method of `Table` or `Scan`. One table lists them for every interface.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from tablefmt.errors import InvalidRangeError, UnsupportedFeatureError
from tablefmt.model.name_matching import folded
from tablefmt.model.tags import tags_of
from tablefmt.model.times import Time
from tablefmt.operations.describe import history, snapshot_rows
from tablefmt.session.table_context import TableContext
from tablefmt.session.table_scan import file_listing, partition_listing
from tablefmt.snapshot.table_state import Snapshot

TAGS_SCHEMA = pa.schema(
    [
        pa.field("name", pa.string(), nullable=False),
        pa.field("version", pa.int64(), nullable=False),
        pa.field("retain_until", pa.timestamp("us", "UTC")),
        pa.field("can_be_read", pa.bool_(), nullable=False),
    ]
)
"""Columns of `Table.tags`. `retain_until` is NULL for a version that stays with its tag."""


def tags(context: TableContext) -> pa.Table:
    """Return one row for each tag of the newest version, in the order of names."""
    context.view.refresh()
    head = context.view.head
    rows = [
        {
            "name": name,
            "version": tag.version,
            "retain_until": tag.until,
            "can_be_read": tag.version >= head.totals.oldest,
        }
        for name, tag in tags_of(head.metadata).items()
    ]
    return pa.Table.from_pylist(rows, TAGS_SCHEMA)


def snapshots(context: TableContext) -> pa.Table:
    """Return `snapshot_rows` of the newest version."""
    return snapshot_rows(history(context))


REFS_SCHEMA = pa.schema(
    [
        pa.field("name", pa.string(), nullable=False),
        pa.field("type", pa.string(), nullable=False),
        pa.field("snapshot_id", pa.int64(), nullable=False),
        pa.field("max_reference_age_in_ms", pa.int64()),
        pa.field("min_snapshots_to_keep", pa.int32()),
        pa.field("max_snapshot_age_in_ms", pa.int64()),
    ]
)
"""Columns of Iceberg's table of references. Ages are NULL: see `retain_until` of `tags`."""


def refs(context: TableContext) -> pa.Table:
    """Return the newest version as the branch `main`, and the tags, with Iceberg's columns."""
    context.view.refresh()
    head = context.view.head
    named = [("main", "BRANCH", head.version)]
    named += [(name, "TAG", tag.version) for name, tag in tags_of(head.metadata).items()]
    rows = [{"name": n, "type": kind, "snapshot_id": version} for n, kind, version in named]
    return pa.Table.from_pylist(rows, REFS_SCHEMA)


def _files(snapshot: Snapshot) -> pa.Table:
    return file_listing(snapshot.files_with(("path", "size", "rows")), snapshot)


def _partitions(snapshot: Snapshot) -> pa.Table:
    return partition_listing(snapshot.files_with(("size", "rows")), snapshot)


def _history(context: TableContext) -> pa.Table:
    """Return the history, with Iceberg's columns after its own."""
    rows = history(context)
    version = rows["version"]
    made = {
        "made_current_at": rows["timestamp"],
        "snapshot_id": version,
        "parent_id": pc.if_else(pc.equal(version, 0), None, pc.subtract(version, 1)),
        "is_current_ancestor": pc.fill_null(pc.is_valid(version), True),
    }
    for name, column in made.items():
        rows = rows.append_column(name, column)
    return rows


OF_A_TABLE: Mapping[str, Callable[[TableContext], pa.Table]] = {
    "history": _history,
    "snapshots": snapshots,
    "tags": tags,
    "refs": refs,
}
"""Metadata tables about all versions."""

OF_A_VERSION: Mapping[str, Callable[[Snapshot], pa.Table]] = {
    "files": _files,
    "partitions": _partitions,
}
"""Metadata tables about one version."""

NAMES = (*OF_A_TABLE, *OF_A_VERSION)
"""Names of the metadata tables."""

REFUSED: Mapping[str, str] = {
    "data_files": "use files",
    "all_files": "use files, with VERSION AS OF for older versions",
    "all_data_files": "use files, with VERSION AS OF for older versions",
    "delete_files": "files has the number of deleted rows of each file",
    "all_delete_files": "files has the number of deleted rows of each file",
    "position_deletes": "files has the number of deleted rows of each file",
    "manifests": "the log has no manifests; use files",
    "all_manifests": "the log has no manifests; use files",
    "entries": "use files, or table_changes for the rows of a commit",
    "all_entries": "use files, or table_changes for the rows of a commit",
    "metadata_log_entries": "use history",
    "changes": "use table_changes('t', first_version)",
}
"""Metadata tables of Iceberg without a counterpart, and what to use."""

KNOWN_NAMES = (*NAMES, *REFUSED)

_MARK = "#"


@dataclass(frozen=True, slots=True)
class MetadataName:
    """The name of a metadata table."""

    table: tuple[str, ...]
    """The parts of the table's own name."""
    kind: str
    """One of `KNOWN_NAMES`."""


def metadata_name(words: tuple[str, ...]) -> MetadataName | None:
    """Return the metadata table that a name may stand for. None if it has no such ending. Pure.

    Args:
        words: the parts of a name in SQL, without quotes: `t.files`, or `tablefmt` and a path,
            which may end in `#files`.
    """
    *first, last = words
    if first and folded(last) in KNOWN_NAMES:
        return MetadataName(tuple(first), folded(last))
    path = metadata_path(last) if len(first) == 1 and folded(first[0]) == "tablefmt" else None
    return None if path is None else MetadataName((first[0], path[0]), path[1])


def metadata_path(path: str) -> tuple[str, str] | None:
    """Return the path of the table and the kind for a path such as `/t#files`. Else None. Pure."""
    table, _, kind = path.rpartition(_MARK)
    return (table, folded(kind)) if table and folded(kind) in KNOWN_NAMES else None


def metadata_rows(
    context: TableContext,
    kind: str,
    version: int | str | None = None,
    timestamp: Time | None = None,
) -> pa.Table:
    """Return the rows of a metadata table.

    Args:
        context: the table, at its newest version.
        kind: one of `KNOWN_NAMES`.
        version: the version or tag of `files` and `partitions`. Default: the newest version.
        timestamp: alternative to `version`: a time (TIM-4).

    Raises:
        VersionNotFoundError, InvalidRangeError: as `resolve_point`.
        InvalidRangeError: a version of a metadata table about all versions.
        UnsupportedFeatureError: one of `REFUSED`.
    """
    if kind in REFUSED:
        raise UnsupportedFeatureError(
            f"there is no metadata table {kind}; {REFUSED[kind]}. The metadata tables are "
            f"{', '.join(NAMES)}",
            [f"sql:{kind}"],
        )
    if kind in OF_A_VERSION:
        point = context.resolve_point(version, timestamp)
        return OF_A_VERSION[kind](context.view.snapshot(point))
    if version is not None or timestamp is not None:
        raise InvalidRangeError(
            f"{kind} covers all versions of the table, so it cannot be read at one version. Leave "
            f"the version out, and filter the rows. Only {' and '.join(OF_A_VERSION)} take a "
            "version"
        )
    return OF_A_TABLE[kind](context)
