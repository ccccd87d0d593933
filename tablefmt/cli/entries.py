"""Log entries as records: every field of an entry, with times as text and files row by row. Pure
but for side files.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from tablefmt.cli.output import Json
from tablefmt.cli.values import plain_column
from tablefmt.log.side import read_side
from tablefmt.model.entry import Entry, Metadata, PartitionScope, PredicateScope, Scope, SideFile
from tablefmt.model.schema import schema_to_json
from tablefmt.model.times import show_time
from tablefmt.snapshot.files import added_table
from tablefmt.store.protocol import Store


def entry_record(store: Store, entry: Entry, metadata: Metadata) -> Json:
    """One entry whole.

    Args:
        store: for the side file, if it has one.
        entry: the entry.
        metadata: in force at its version.

    Raises:
        CorruptTableError: ADD-6, KEY-2, VAL-1.
    """
    operation, basis = entry.operation, entry.basis
    record: Json = {
        "version": entry.version,
        "timestamp": show_time(entry.timestamp),
        "time_version": show_time(entry.time_version),
        "operation": operation.name,
        "class": operation.cls.value,
        "parameters": dict(operation.parameters),
        "metrics": dict(operation.metrics),
        "basis": {
            "read_version": basis.read_version,
            "isolation": basis.isolation,
            "granularity": basis.granularity,
            "blind": basis.blind,
            "scope": _scope(basis.scope),
        },
        "added": added_files(store, entry, metadata),
        "removed_ids": list(entry.remove),
        "totals": {
            "files": entry.totals.files,
            "rows": entry.totals.rows,
            "bytes": entry.totals.bytes,
            "next_id": entry.totals.next_id,
            "metadata_version": entry.totals.metadata_version,
        },
        "table": entry.table,
        "transaction": entry.transaction,
        "previous": entry.previous,
        "user_metadata": dict(entry.user_metadata),
    }
    if entry.application is not None:
        mine = entry.application
        record["application"] = {"id": mine.id, "version": mine.version, "digest": mine.digest}
    if entry.protocol is not None:
        features = {"reader": list(entry.protocol.reader), "writer": list(entry.protocol.writer)}
        record["protocol"] = features
    if entry.metadata is not None:
        record["metadata"] = {
            "schema": schema_to_json(entry.metadata.schema),
            "partition_by": entry.metadata.partition_names,
            "properties": dict(entry.metadata.properties),
        }
    if entry.unknown:
        record["unknown"] = dict(entry.unknown)
    return record


def added_files(store: Store, entry: Entry, metadata: Metadata) -> list[Json]:
    """The files an entry adds, in the order of their ids."""
    if entry.add is None:
        return []
    if isinstance(entry.add, SideFile):
        columns = read_side(store, entry.add)
    else:
        columns = added_table(entry.add, metadata)
    first = entry.totals.next_id - columns.num_rows
    ids = pa.array(range(first, entry.totals.next_id), pa.int64())
    return file_records(columns.append_column("id", ids), metadata, bounds=True)


def file_records(files: pa.Table, metadata: Metadata, *, bounds: bool = False) -> list[Json]:
    """Files as records: id, path, size, rows, partition by name; with `bounds` those too."""
    names = {f.id: f.name for f in metadata.schema.fields}
    rows = [
        {"id": i, "path": p, "size": s, "rows": r, "partition": {}}
        for i, p, s, r in zip(
            *(files[name].to_pylist() for name in ("id", "path", "size", "rows")), strict=True
        )
    ]
    for name in files.column_names:
        group, dot, field_id = name.partition(".")
        if not dot or int(field_id) not in names or not (bounds or group == "partition"):
            continue
        _spread(rows, group, names[int(field_id)], plain_column(files[name]))
    return rows


def _spread(rows: list[Json], group: str, name: str, values: list[Any]) -> None:
    """A column into the records: an unknown bound is left out, a NULL partition value is not."""
    for row, value in zip(rows, values, strict=True):
        if group == "partition" or value is not None:
            row.setdefault(group, {})[name] = value


def _scope(scope: Scope) -> Json | None:
    if isinstance(scope, PartitionScope):
        return {"partitions": [list(values) for values in scope.values]}
    if isinstance(scope, PredicateScope):
        return {"predicate": scope.predicate}
    return None
