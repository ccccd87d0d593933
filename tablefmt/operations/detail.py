"""What a table is, in one row, with Delta's column names where Delta has them."""

from __future__ import annotations

import pyarrow as pa

from tablefmt.session.context import TableContext

_TEXT_MAP = pa.map_(pa.string(), pa.string())
_TIME = pa.timestamp("us", "UTC")

SCHEMA = pa.schema(
    [
        ("format", pa.string()),
        ("id", pa.string()),
        ("description", pa.string()),
        ("location", pa.string()),
        ("createdAt", _TIME),
        ("lastModified", _TIME),
        ("partitionColumns", pa.list_(pa.string())),
        ("numFiles", pa.int64()),
        ("sizeInBytes", pa.int64()),
        ("properties", _TEXT_MAP),
        ("tableFeatures", pa.list_(pa.string())),
        ("numRows", pa.int64()),
        ("version", pa.int64()),
        ("oldestVersion", pa.int64()),
    ]
)


def detail(context: TableContext) -> pa.Table:
    """One row about the newest version: SCHEMA. `numRows` leaves out rows that are gone."""
    context.view.refresh()
    snapshot, head = context.view.snapshot(), context.view.head
    files, rows, size = snapshot.totals
    row = {
        "format": "tablefmt",
        "id": head.table,
        "description": snapshot.metadata.comment,
        "location": context.store.uri,
        "createdAt": context.view.created,
        "lastModified": snapshot.timestamp,
        "partitionColumns": snapshot.metadata.partition_names,
        "numFiles": files,
        "sizeInBytes": size,
        "properties": sorted(snapshot.metadata.properties.items()),
        "tableFeatures": sorted({*head.protocol.reader, *head.protocol.writer}),
        "numRows": rows,
        "version": snapshot.version,
        "oldestVersion": head.totals.oldest,
    }
    return pa.Table.from_pylist([row], SCHEMA)
