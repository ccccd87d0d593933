"""The facts of a table's report: its commits, files, partitions, upkeep and copies.

Each part is read by itself, so damage in one part leaves the others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tablefmt.errors import TablefmtError
from tablefmt.export.table_export import copies_of
from tablefmt.inspection.rebased_commits import rebased_pairs, refused_commits, versions_of
from tablefmt.log.compacted_log import read_entries
from tablefmt.log.log_reader import kept_from
from tablefmt.maintenance.maintain import due
from tablefmt.maintenance.retention import whole_log
from tablefmt.maintenance.stored_objects import bytes_of
from tablefmt.maintenance.vacuum import plan_vacuum
from tablefmt.model.clustering_columns import clustering_of
from tablefmt.model.log_entry import StoredEntry
from tablefmt.model.properties import duration_text, plain_properties
from tablefmt.model.times import show_time
from tablefmt.operations.metadata_tables import tags
from tablefmt.pipes.replication_lag import lag
from tablefmt.session.table_context import TableContext
from tablefmt.session.table_scan import partition_listing
from tablefmt.snapshot.log_view import LogView
from tablefmt.snapshot.table_state import Snapshot

Part = TypeVar("Part")

LARGEST = 10
"""Number of partitions that the report names."""
NEWEST = 50
"""Number of commits that the report lists."""


@dataclass(frozen=True, slots=True)
class Columns:
    """Rows of text and numbers under names, for one table of the page."""

    names: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]


@dataclass(frozen=True, slots=True)
class Files:
    """The live files of the newest version."""

    count: int
    rows: int
    """Without deleted rows."""
    bytes: int
    deleted: int
    """Deleted rows that compaction would remove."""
    with_deleted: int
    """Files with deleted rows."""
    by_size: tuple[tuple[int, int], ...]
    """Number of files by size: the smallest size of the group, a power of 2, and the files."""
    largest: Columns
    """The partitions with the most bytes."""
    smallest: Columns
    """The partitions with the smallest files, of those with more than one file."""


@dataclass(frozen=True, slots=True)
class ReportFacts:
    """All that a report shows. A part that could not be read is None, and `problems` has why."""

    uri: str
    table: str
    version: int
    read_at: str
    about: Mapping[str, Any]
    """Names and values about the table."""
    schema: Columns
    versions: pa.Table | None = None
    """Columns of `rebased_commits.VERSIONS`."""
    rebased: Columns | None = None
    """Commits that met concurrent ones, by pair of operations."""
    refused: Columns | None = None
    """Commits that were refused, as later entries report them."""
    files: Files | None = None
    upkeep: Columns | None = None
    """Maintenance that is due."""
    retention: Mapping[str, Any] | None = None
    sources: Columns | None = None
    """Streams and pipes into the table."""
    tags: Columns | None = None
    exports: Columns | None = None
    problems: Mapping[str, str] = field(default_factory=dict)
    """The reason by part for each part that could not be read."""


def report_facts(context: TableContext) -> ReportFacts:
    """Read the facts about the newest version, and about the versions of the log.

    Raises:
        CorruptTableError, StoreError: the newest version cannot be read.
    """
    context.view.refresh()
    head, snapshot = context.view.head, context.view.snapshot()
    problems: dict[str, str] = {}

    def part(name: str, read: Callable[[], Part]) -> Part | None:
        try:
            return read()
        except TablefmtError as error:
            problems[name] = str(error)
            return None

    log = part("commits", lambda: whole_log(context.store))
    view = None if log is None else log[0]
    entries = None if log is None else part("commits", lambda: _entries(*log))
    versions = None if entries is None else versions_of(entries)
    return ReportFacts(
        uri=context.store.uri,
        table=head.table,
        version=head.version,
        read_at=show_time(context.environment.now_us()),
        about=_about(context, snapshot),
        schema=_schema(snapshot),
        versions=versions,
        rebased=None if versions is None else _rebased(versions),
        refused=None if entries is None else _refused(entries),
        files=part("files", lambda: _files(snapshot)),
        upkeep=part("maintenance", lambda: _upkeep(context)),
        retention=part("retention", lambda: _retention(context, view)),
        sources=part("sources", lambda: _sources(context)),
        tags=part("tags", lambda: _tags(context)),
        exports=part("exports", lambda: _exports(context)),
        problems=problems,
    )


def _about(context: TableContext, snapshot: Snapshot) -> dict[str, Any]:
    head, metadata = context.view.head, snapshot.metadata
    features = sorted({*head.protocol.reader, *head.protocol.writer})
    said = {
        "description": metadata.comment,
        "created": show_time(context.view.created),
        "last commit": show_time(snapshot.timestamp),
        "partitioned by": ", ".join(metadata.partition_names),
        "clustered by": ", ".join(each.name for each in clustering_of(metadata)),
        "features": ", ".join(features),
    }
    said |= {f"property {name}": v for name, v in sorted(plain_properties(metadata).items())}
    said |= {f"constraint {name}": c.condition for name, c in sorted(metadata.constraints.items())}
    return {name: value for name, value in said.items() if value}


def _schema(snapshot: Snapshot) -> Columns:
    parts = snapshot.partition_ids
    rows = [
        (each.name, each.text or str(each.type), "" if each.nullable else "NOT NULL",
         "partition" if each.id in parts else "", each.comment or "")
        for each in snapshot.schema.fields
    ]  # fmt: skip
    return Columns(("column", "type", "nullable", "use", "comment"), tuple(rows))


def _rebased(versions: pa.Table) -> Columns:
    pairs = rebased_pairs(versions).to_pylist()
    rows = [(each["operation"], each["rebased_onto"], each["commits"], each["times"])
            for each in pairs]  # fmt: skip
    return Columns(("commit", "rebased onto", "commits", "times"), tuple(rows))


def _refused(entries: Sequence[StoredEntry]) -> Columns:
    found = refused_commits(entries).to_pylist()
    names = ("operation", "refused_by", "rule", "cell", "times", "last_winner")
    heads = ("commit", "refused by", "rule", "cell", "times", "last by version")
    return Columns(heads, tuple(tuple(each[name] for name in names) for each in found))


def _files(snapshot: Snapshot) -> Files:
    files = snapshot.files_with(("size", "rows"))
    count, rows, size = snapshot.totals
    sizes: NDArray[np.int64] = files["size"].to_numpy()
    groups, counts = np.unique(np.frexp(np.maximum(sizes, 1))[1] - 1, return_counts=True)
    deleted = files["deleted"].to_numpy()
    listed = partition_listing(files, snapshot)
    partitioned = bool(snapshot.metadata.all_partition_ids)
    listed = listed if partitioned else listed.slice(0, 0)
    average = pc.divide(pc.cast(listed["bytes"], pa.float64()), listed["files"])
    listed = listed.append_column("average", average)
    several = listed.filter(pc.greater(listed["files"], 1))
    return Files(
        count=count,
        rows=rows,
        bytes=size,
        deleted=int(deleted.sum()),
        with_deleted=int(np.count_nonzero(deleted)),
        by_size=tuple((1 << int(g), int(n)) for g, n in zip(groups, counts, strict=True)),
        largest=_partitions(listed, "bytes", "descending"),
        smallest=_partitions(several, "average", "ascending"),
    )


def _partitions(listed: pa.Table, by: str, order: str) -> Columns:
    names = ("partition", "files", "rows", "bytes")
    rows = []
    for each in listed.sort_by([(by, order)]).slice(0, LARGEST).to_pylist():
        values = ", ".join(f"{name} = {_value(v)}" for name, v in each["partition"].items())
        if "partitioned_by" in each:
            values += f" (partitioned by {each['partitioned_by'] or 'nothing'})"
        rows.append((values, each["files"], each["rows"], each["bytes"]))
    return Columns(names, tuple(rows))


def _value(value: Any) -> str:
    return "NULL" if value is None else repr(value) if isinstance(value, str) else str(value)


def _upkeep(context: TableContext) -> Columns:
    return Columns(("task", "why"), tuple((one.work, one.reason) for one in due(context)))


def _entries(view: LogView, entries: Sequence[StoredEntry]) -> Sequence[StoredEntry]:
    """Return all entries of the table in the log: those that the view was made of, and older ones
    that an expiry left.
    """
    own = [each for each in entries if each.entry.table == view.head.table]
    if view.base.version < 0:
        return own
    first = kept_from(view.store, view.base.version)
    return [*read_entries(view.store, first, view.base.version, view.base.version), *own]


def _retention(context: TableContext, view: LogView | None) -> dict[str, Any]:
    plan = plan_vacuum(context, view=view)
    return {
        "oldest version that can be read": plan.view.head.totals.oldest,
        "oldest version after the next vacuum": plan.oldest,
        "deletedFileRetentionDuration": duration_text(plan.seconds),
        "files that the next vacuum would remove": plan.files.num_rows,
        "bytes that it would free": bytes_of(plan.files),
        "objects below the table": plan.listing.num_rows,
    }


def _sources(context: TableContext) -> Columns:
    rows: list[tuple[Any, ...]] = [
        ("pipe", one.name, one.location or one.source, one.taken, one.moved_at)
        for one in lag(context).sources
    ]
    applications = context.view.read_head.applications
    rows += [
        ("stream or application", name, "", one.version, at)
        for name, (one, at) in sorted(applications.items())
    ]
    return Columns(("kind", "name", "source", "taken up to", "in version"), tuple(rows))


def _tags(context: TableContext) -> Columns:
    rows = [
        (one["name"], one["version"], one["retain_until"], "yes" if one["can_be_read"] else "no")
        for one in tags(context).to_pylist()
    ]
    return Columns(("tag", "version", "kept until", "can be read"), tuple(rows))


def _exports(context: TableContext) -> Columns:
    rows = [
        (name, ", ".join(f"{key} {value}" for key, value in each.items()))
        for name, each in copies_of(context.store, context.view).items()
    ]
    return Columns(("copy for", "where it stands"), tuple(rows))
