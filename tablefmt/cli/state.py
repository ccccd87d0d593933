"""Commands `describe`, `schema`, `files` and `partitions`: one version of a table."""

from __future__ import annotations

from typing import Any

import click
import pyarrow as pa
import pyarrow.compute as pc

from tablefmt.cli.arguments import Point, as_of_option, on_table, open_table, version_of
from tablefmt.cli.entries import file_records
from tablefmt.cli.output import Json, json_text, print_document, print_pairs, print_table
from tablefmt.cli.values import plain_column
from tablefmt.expressions.ddl import to_ddl, to_spark_json
from tablefmt.expressions.default_text import CURRENT_DEFAULT, say_values
from tablefmt.maintenance.due import due
from tablefmt.model.times import show_time
from tablefmt.snapshot.cursors_of import cursors_at
from tablefmt.snapshot.state import Snapshot
from tablefmt.table import Table


def snapshot_of(table: Table, as_of: Point) -> Snapshot:
    """Return the snapshot that `--as-of` asks for; by default the newest."""
    return table.context.view.snapshot(version_of(table, as_of))


@click.command()
@on_table
@as_of_option
def describe(uri: str, as_json: bool, options: Json, as_of: Point) -> None:
    """Print the properties of a table, under Delta's names where Delta has them."""
    table = open_table(uri, options)
    snapshot = snapshot_of(table, as_of)
    files, rows, size = snapshot.totals
    head = table.context.view.head
    shown: Json = {
        "format": "tablefmt",
        "id": table.id,
        "location": table.uri,
        "createdAt": show_time(table.context.view.created),
        "version": snapshot.version,
        "oldestVersion": head.totals.oldest,
        "lastModified": show_time(snapshot.timestamp),
        "timeVersion": show_time(snapshot.time_version),
        "numFiles": files,
        "numRows": rows,
        "sizeInBytes": size,
        "description": snapshot.metadata.comment,
        "partitionColumns": snapshot.metadata.partition_names,
        "properties": dict(snapshot.metadata.properties),
        "constraints": {n: c.condition for n, c in snapshot.metadata.constraints.items()},
        "readerFeatures": list(head.protocol.reader),
        "writerFeatures": list(head.protocol.writer),
        "schema": to_ddl(snapshot.schema),
    }
    derived = [
        {"source": source, "name": name, "location": c.location, "taken": c.to, "at": c.at}
        for (source, name), c in sorted(cursors_at(table.context.view, snapshot.version).items())
    ]
    if derived:
        shown["derivedFrom"] = derived
    if as_of is None:
        waiting = {one.work: one.reason for one in due(table.context)}
        shown["maintenance"] = waiting if as_json or waiting else "nothing is due"
    (print_document if as_json else print_pairs)(shown)


@click.command()
@on_table
@as_of_option
def schema(uri: str, as_json: bool, options: Json, as_of: Point) -> None:
    """Print the columns. With --json, print the schema in Spark's JSON form."""
    snapshot = snapshot_of(open_table(uri, options), as_of)
    if as_json:
        described = to_spark_json(snapshot.schema)
        print_document(say_values(described, snapshot.schema, CURRENT_DEFAULT))
        return
    partitioned = snapshot.partition_ids
    fields = snapshot.schema.fields
    names = ["id", "column", "type", "nullable", "partition", "default"]
    rows = [
        [f.id, f.name, f.text or str(f.type), f.nullable, f.id in partitioned, f.default]
        for f in fields
    ]
    if any(f.comment is not None for f in fields):
        names.append("comment")
        rows = [[*row, f.comment] for row, f in zip(rows, fields, strict=True)]
    print_table(names, rows)


@click.command()
@on_table
@as_of_option
@click.option(
    "--where", help="Print only files that may hold rows for which this SQL condition is true."
)
def files(uri: str, as_json: bool, options: Json, as_of: Point, where: str | None) -> None:
    """Print the live files, in the order in which they were added."""
    table = open_table(uri, options)
    snapshot = snapshot_of(table, as_of)
    scan = table.scan(version=snapshot.version, where=where)
    records = file_records(scan.survivors, snapshot.metadata)
    for record, version in zip(records, scan.survivors["added"].to_pylist(), strict=True):
        record["version"] = version
    if as_json:
        print_document(records)
        return
    names = ("id", "path", "size", "rows", "deleted", "version", "partition")
    print_table(names, [[record[name] for name in names] for record in records])


@click.command()
@on_table
@as_of_option
def partitions(uri: str, as_json: bool, options: Json, as_of: Point) -> None:
    """Print the partitions that have live files, ordered by their values, NULL last."""
    snapshot = snapshot_of(open_table(uri, options), as_of)
    records = partition_records(snapshot)
    if as_json:
        print_document(records)
        return
    names = snapshot.metadata.partition_names
    sums = ("files", "rows", "bytes")
    rows = [[*(r["values"][n] for n in names), *(r[s] for s in sums)] for r in records]
    print_table([*names, *sums], rows)


def partition_records(snapshot: Snapshot) -> list[Json]:
    """Return values by name, files, rows and bytes of each partition; one record if
    unpartitioned.
    """
    keys = [f"partition.{i}" for i in snapshot.metadata.partition_by]
    live = snapshot.files.select([*keys, "rows", "deleted", "size"])
    if keys:
        live = live.sort_by([(key, "ascending") for key in keys])
    return _summed(live, keys, snapshot.metadata.partition_names)


def _summed(live: pa.Table, keys: list[str], names: list[str]) -> list[Json]:
    by_values: dict[str, Any] = {}
    columns = [plain_column(live[key]) for key in keys]
    rows = pc.subtract(live["rows"], live["deleted"]).to_pylist()
    sizes = live["size"].to_pylist()
    for at in range(live.num_rows):
        values = {name: column[at] for name, column in zip(names, columns, strict=True)}
        record = by_values.setdefault(
            json_text(values), {"values": values, "files": 0, "rows": 0, "bytes": 0}
        )
        record["files"] += 1
        record["rows"] += rows[at]
        record["bytes"] += sizes[at]
    return list(by_values.values())
