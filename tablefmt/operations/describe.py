"""Description of a table in one row, and its history, newest first, with Delta's column names."""

from __future__ import annotations

from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from tablefmt.errors import VersionNotFoundError
from tablefmt.log.compacted_log import read_entries
from tablefmt.log.entry_json import derived_to_json
from tablefmt.log.log_reader import kept_from
from tablefmt.model.argument_checks import checked_limit
from tablefmt.model.clustering_columns import clustering_of
from tablefmt.model.log_entry import Entry, StoredEntry
from tablefmt.model.properties import plain_properties
from tablefmt.session.table_context import TableContext

_TEXT_MAP = pa.map_(pa.string(), pa.string())
_TIME = pa.timestamp("us", "UTC")

DETAIL_SCHEMA = pa.schema(
    [
        ("format", pa.string()),
        ("id", pa.string()),
        ("name", pa.string()),
        ("description", pa.string()),
        ("location", pa.string()),
        ("createdAt", _TIME),
        ("lastModified", _TIME),
        ("partitionColumns", pa.list_(pa.string())),
        ("clusteringColumns", pa.list_(pa.string())),
        ("numFiles", pa.int64()),
        ("sizeInBytes", pa.int64()),
        ("properties", _TEXT_MAP),
        ("tableFeatures", pa.list_(pa.string())),
        ("numRows", pa.int64()),
        ("version", pa.int64()),
        ("oldestVersion", pa.int64()),
    ]
)


def detail(context: TableContext, name: str | None = None) -> pa.Table:
    """Return one row about the newest version: DETAIL_SCHEMA.

    `numRows` does not count deleted rows.

    Args:
        context: the table.
        name: its name in a catalog. None: it was opened by its path.
    """
    context.view.refresh()
    snapshot, head = context.view.snapshot(), context.view.head
    files, rows, size = snapshot.totals
    row = {
        "format": "tablefmt",
        "id": head.table,
        "name": name,
        "description": snapshot.metadata.comment,
        "location": context.store.uri,
        "createdAt": context.view.created,
        "lastModified": snapshot.timestamp,
        "partitionColumns": snapshot.metadata.partition_names,
        "clusteringColumns": [field.name for field in clustering_of(snapshot.metadata)],
        "numFiles": files,
        "sizeInBytes": size,
        "properties": sorted(plain_properties(snapshot.metadata).items()),
        "tableFeatures": sorted({*head.protocol.reader, *head.protocol.writer}),
        "numRows": rows,
        "version": snapshot.version,
        "oldestVersion": head.totals.oldest,
    }
    return pa.Table.from_pylist([row], DETAIL_SCHEMA)


HISTORY_SCHEMA = pa.schema(
    [
        ("version", pa.int64()),
        ("timestamp", pa.timestamp("us", "UTC")),
        ("timeVersion", pa.timestamp("us", "UTC")),
        ("operation", pa.string()),
        ("operationParameters", _TEXT_MAP),
        ("readVersion", pa.int64()),
        ("isolationLevel", pa.string()),
        ("isBlindAppend", pa.bool_()),
        ("operationMetrics", _TEXT_MAP),
        ("userMetadata", pa.string()),
        ("derivedFrom", pa.string()),
        ("transaction", pa.string()),
        ("canBeRead", pa.bool_()),
    ]
)


def history(context: TableContext, limit: int | None = None) -> pa.Table:
    """Return one row for each version, newest first, of the newest state of the log.

    `canBeRead` is false for versions that were given up (ENT-13).

    Args:
        context: the table.
        limit: most rows; None for all.

    Raises:
        InvalidArgumentError: the limit is not a whole number of at least 0.
    """
    entries = kept_entries(context, checked_limit(limit))
    oldest = context.view.head.totals.oldest
    return pa.Table.from_pylist([_row(s.entry, oldest) for s in reversed(entries)], HISTORY_SCHEMA)


def kept_entries(context: TableContext, limit: int | None = None) -> list[StoredEntry]:
    """Return the newest entries of the log, oldest first: all that are kept, or `limit` of them."""
    context.view.refresh()
    last = context.view.head.version
    first = 0 if limit is None else max(0, last - limit + 1)
    # Entries from the oldest kept version on are all in the log (RET-9).
    if first < context.view.head.totals.oldest:
        # A compacted log segment may still hold entries that were removed from the log.
        first = max(first, kept_from(context.store, last))
    base = context.view.base.version
    try:
        return read_entries(context.store, first, last, base)
    except VersionNotFoundError:
        # An earlier table at this place was dropped, and the beginning of its log is missing.
        return read_entries(context.store, kept_from(context.store, last), last, base)


SNAPSHOT_SCHEMA = pa.schema(
    [
        ("committed_at", _TIME),
        ("snapshot_id", pa.int64()),
        ("parent_id", pa.int64()),
        ("operation", pa.string()),
        ("summary", _TEXT_MAP),
    ]
)
"""Columns of the versions that can be read, with Iceberg's names. An id is a version."""


def snapshot_rows(versions: pa.Table) -> pa.Table:
    """Return one row for each version that can be read, oldest first. Pure.

    Args:
        versions: rows of `history`.
    """
    kept = versions.filter(versions["canBeRead"]).sort_by("version")
    parent = pc.subtract(kept["version"], 1)
    columns = [
        kept["timestamp"],
        kept["version"],
        pc.if_else(pc.equal(kept["version"], 0), None, parent),
        kept["operation"],
        kept["operationMetrics"],
    ]
    return pa.Table.from_arrays(columns, schema=SNAPSHOT_SCHEMA)


def _row(entry: Entry, oldest: int) -> dict[str, Any]:
    derived = entry.derived_from
    return {
        "version": entry.version,
        "timestamp": entry.timestamp,
        "timeVersion": entry.time_version,
        "operation": entry.operation.name,
        "operationParameters": _texts(entry.operation.parameters),
        "readVersion": entry.basis.read_version,
        "isolationLevel": entry.basis.isolation,
        "isBlindAppend": entry.basis.blind,
        "operationMetrics": _texts(entry.operation.metrics),
        "userMetadata": _json(entry.user_metadata) if entry.user_metadata else None,
        "derivedFrom": None if derived is None else _json(derived_to_json(derived)),
        "transaction": entry.transaction,
        "canBeRead": entry.version >= oldest,
    }


def _texts(values: Any) -> list[tuple[str, str]]:
    return [(k, v if isinstance(v, str) else _json(v)) for k, v in sorted(values.items())]


def _json(value: Any) -> str:
    return orjson.dumps(value).decode()
