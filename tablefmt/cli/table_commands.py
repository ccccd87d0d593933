"""Commands that read a table: describe, schema, files, partitions, changes, diff and `lag`.

The first four show one version, `changes` and `diff` the differences between two points, and `lag`
the replication lag of a table behind the sources of its pipes.
"""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

import click
import pyarrow.compute as pc

from tablefmt.changes.change_reader import Changes
from tablefmt.changes.feed_plan import CONTENTS
from tablefmt.changes.version_range import EXPIRED
from tablefmt.cli.command_options import (
    STATE,
    Point,
    as_of_option,
    bound_of,
    check_endless,
    follow_options,
    on_table,
    open_table,
    until_stopped,
    version_of,
)
from tablefmt.cli.log_records import file_records
from tablefmt.cli.output import (
    Json,
    exit_unless,
    json_text,
    plain_column,
    print_document,
    print_pairs,
    print_report,
    print_table,
    records,
)
from tablefmt.export.table_export import copies_of
from tablefmt.expressions.ddl import CURRENT_DEFAULT, say_values, to_ddl, to_spark_json
from tablefmt.expressions.generated_columns import (
    check_conditions,
    declared_schema,
    generated_expressions,
)
from tablefmt.maintenance.maintain import due
from tablefmt.model.clustering_columns import clustering_of
from tablefmt.model.identity_columns import identity_texts
from tablefmt.model.log_entry import Metadata
from tablefmt.model.properties import plain_properties
from tablefmt.model.schema import Field
from tablefmt.model.times import show_time
from tablefmt.session.table_scan import partition_listing
from tablefmt.snapshot.file_columns import typed_bounds
from tablefmt.snapshot.log_view import cursors_at
from tablefmt.snapshot.table_state import Snapshot
from tablefmt.table import Table


def snapshot_of(table: Table, as_of: Point) -> Snapshot:
    """Return the snapshot that `--as-of` asks for; by default the newest."""
    return table.context.view.snapshot(version_of(table, as_of))


@click.command()
@on_table
@as_of_option
def describe(uri: str, as_json: bool, options: Json, as_of: Point) -> None:
    """Print size, properties, schema and due maintenance of a table.

    Where Delta has the same fact, the name is that of Delta.
    """
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
        "clusteringColumns": [field.name for field in clustering_of(snapshot.metadata)],
        "properties": plain_properties(snapshot.metadata),
        "constraints": check_conditions(snapshot.metadata),
        "readerFeatures": list(head.protocol.reader),
        "writerFeatures": list(head.protocol.writer),
        "schema": to_ddl(declared_schema(snapshot.metadata)),
    }
    derived = [
        {"source": source, "name": name, "location": c.location, "taken": c.to, "at": c.at}
        for (source, name), c in sorted(cursors_at(table.context.view, snapshot.version).items())
    ]
    if derived:
        shown["derivedFrom"] = derived
    copies = copies_of(table.context.store, table.context.view)
    if copies:
        shown["exports"] = copies
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
        described = to_spark_json(declared_schema(snapshot.metadata))
        print_document(say_values(described, snapshot.schema, CURRENT_DEFAULT))
        return
    partitioned = snapshot.partition_ids
    fields = snapshot.schema.fields
    names = ["id", "column", "type", "nullable", "partition", "default"]
    rows = [
        [f.id, f.name, f.text or str(f.type), f.nullable, f.id in partitioned, f.default]
        for f in fields
    ]
    generated = {
        **generated_expressions(snapshot.metadata),
        **identity_texts(snapshot.metadata),
    }
    if generated:
        names.append("generated")
        rows = [[*row, generated.get(f.name)] for row, f in zip(rows, fields, strict=True)]
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
    names = ["id", "path", "size", "rows", "deleted", "version", "partition"]
    if snapshot.metadata.is_evolved:
        names.append("partitioned_by")
    print_table(names, [[record[name] for name in names] for record in records])


@click.command()
@on_table
@as_of_option
def partitions(uri: str, as_json: bool, options: Json, as_of: Point) -> None:
    """Print the partitions that have live files.

    They are ordered by their values, NULL last.
    """
    snapshot = snapshot_of(open_table(uri, options), as_of)
    records = partition_records(snapshot)
    if as_json:
        print_document(records)
        return
    names = [field.name for field in snapshot.metadata.all_partition_fields]
    sums = ["files", "rows", "bytes"]
    if snapshot.metadata.is_evolved:
        sums.append("partitioned_by")
    rows = [[*(r["values"][n] for n in names), *(r[s] for s in sums)] for r in records]
    print_table([*names, *sums], rows)


def partition_records(snapshot: Snapshot) -> list[Json]:
    """Return values by name, files, rows and bytes of each partition; one record if
    unpartitioned.
    """
    found = partition_listing(snapshot.files, snapshot)
    values = plain_column(found["partition"]) if "partition" in found.column_names else None
    sums = found.drop_columns(["partition"] if values is not None else []).to_pylist()
    return [{"values": values[at] if values else {}, **each} for at, each in enumerate(sums)]


ROWS_AT_ONCE = 1000
"""Rows of text that are aligned with each other. The result is never held in memory as a whole."""


@click.command()
@on_table
@click.option("--after", type=STATE, help="Read changes after this version, tag or time.")
@click.option("--since", type=STATE, help="Read changes from this version, tag or time on.")
@click.option("--until", type=STATE, help="Read changes up to and with this version, tag or time.")
@click.option(
    "--content",
    type=click.Choice(CONTENTS),
    default="changes",
    help="changes: every change. net: the difference between both ends. append: "
    "the rows that this difference adds.",
)
@click.option(
    "--expired",
    type=click.Choice(EXPIRED),
    default="error",
    help="If changes of the range have expired: fail, or print all rows at its end.",
)
@follow_options
def changes(
    uri: str,
    as_json: bool,
    options: Json,
    after: Point,
    since: Point,
    until: Point,
    content: str,
    follow: bool,
    expired: str,
    poll: float,
) -> None:
    """Print the rows that a range of versions removed and added.

    To read every change exactly once, pass the last printed version as the next --after.
    """
    if (after is None) == (since is None):
        raise click.UsageError("expected exactly one of --after and --since")
    check_endless(follow, until)
    table = open_table(uri, options)
    bounds: Json = {"content": content, "expired": expired}
    for name, point in (("after", after), ("starting", since), ("ending", until)):
        if point is not None:
            ((kind, bound),) = bound_of(table, point).items()
            bounds[f"{name}_{kind}"] = bound
    row_changes = table.changes(**bounds)
    if follow:
        with until_stopped():
            _print_followed(row_changes, poll, as_json)
        return
    covered = {
        "first_version": row_changes.first_version,
        "last_version": row_changes.last_version,
        "settled": row_changes.settled,
    }
    if row_changes.is_snapshot:
        covered["snapshot"] = row_changes.last_version
    names = row_changes.schema.names
    if not as_json:
        print_pairs(covered)
        _print_rows(row_changes, names)
        return
    click.echo(json_text(covered)[:-1] + ',"changes":[', nl=False)
    between = "\n"
    for batch in row_changes.to_batches():
        for row in records(batch):
            click.echo(between + json_text(row), nl=False)
            between = ",\n"
    click.echo("]}")


def _print_followed(row_changes: Changes, poll: float, as_json: bool) -> None:
    """Print batches as they land, until interrupted."""
    names: list[str] = []
    snapshot: int | None = None
    for pair in row_changes.follow(poll):
        batch, last_version = pair
        if as_json:
            line = {"last_version": last_version, "changes": list(records(batch))}
            if pair.snapshot is not None:
                line["snapshot"] = pair.snapshot
            click.echo(json_text(line))
            continue
        if pair.snapshot not in (None, snapshot):
            click.echo(f"all rows at version {pair.snapshot}, replacing the rows printed before:")
        snapshot = pair.snapshot
        head = names != batch.schema.names
        names = batch.schema.names
        rows = [list(row.values()) for row in records(batch)]
        print_table(names, rows, head=head)


def _print_rows(row_changes: Changes, names: list[str]) -> None:
    """Print rows as text, in aligned blocks of ROWS_AT_ONCE."""
    waiting: list[list[Any]] = []
    head = True
    for batch in row_changes.to_batches():
        waiting += [list(row.values()) for row in records(batch)]
        while len(waiting) >= ROWS_AT_ONCE:
            print_table(names, waiting[:ROWS_AT_ONCE], head=head)
            waiting, head = waiting[ROWS_AT_ONCE:], False
    if waiting or head:
        print_table(names, waiting, head=head)


@click.command()
@on_table
@click.argument("a", type=STATE)
@click.argument("b", type=STATE)
def diff(uri: str, as_json: bool, options: Json, a: Point, b: Point) -> None:
    """Print the differences between A and B: versions, tags or times."""
    table = open_table(uri, options)
    view = table.context.view
    versions = [version_of(table, point) for point in (a, b)]
    before, after = (view.snapshot(version) for version in versions)
    differences = difference(before, after)
    if as_json:
        print_document(differences)
    else:
        _print_difference(differences)


def difference(before: Snapshot, after: Snapshot) -> Json:
    """Return the files that only one of two states of a table has, and their metadata
    differences.
    """
    later = max(before, after, key=lambda snapshot: snapshot.version).metadata
    was, now = (typed_bounds(s.files, later.schema.fields) for s in (before, after))
    stays = pc.is_in(was["id"], now["id"])
    stayed = pc.is_in(now["id"], was["id"])
    came = file_records(now.filter(pc.invert(stayed)), _named_as(later, after.metadata))
    went = file_records(was.filter(pc.invert(stays)), _named_as(later, before.metadata))
    # For files in both states, the count is positive if B has fewer rows.
    deleted_now, deleted = (
        files["deleted"].filter(mask).to_numpy() for files, mask in ((now, stayed), (was, stays))
    )
    fewer = deleted_now - deleted
    return {
        "from": _summary(before),
        "to": _summary(after),
        "files_added": came,
        "files_removed": went,
        "rows_added": _rows(came) + int(-fewer[fewer < 0].sum()),
        "rows_removed": _rows(went) + int(fewer[fewer > 0].sum()),
        "columns": _columns(before, after),
        "properties": _properties(before, after),
        "partition_by": _partitioning(before, after),
    }


def _named_as(later: Metadata, metadata: Metadata) -> Metadata:
    """Return metadata whose columns have the names of a later version, if it has them."""
    known, schema = {field.id: field for field in later.schema.with_hidden}, metadata.schema
    columns, hidden = (
        tuple(known.get(field.id, field) for field in group)
        for group in (schema.fields, schema.hidden)
    )
    return replace(metadata, schema=replace(schema, fields=columns, hidden=hidden))


def _rows(files: list[Json]) -> int:
    return sum(file["rows"] - file["deleted"] for file in files)


def _summary(snapshot: Snapshot) -> Json:
    files, rows, size = snapshot.totals
    when = show_time(snapshot.timestamp)
    return {
        "version": snapshot.version,
        "timestamp": when,
        "files": files,
        "rows": rows,
        "bytes": size,
    }


def _columns(before: Snapshot, after: Snapshot) -> list[Json]:
    """Return a record for each column that differs, matched by field id, so renames are renames."""
    old, new = ({f.id: f for f in s.schema.fields} for s in (before, after))
    return [
        {"id": i, "from": _column(old.get(i)), "to": _column(new.get(i))}
        for i in sorted(old.keys() | new.keys())
        if old.get(i) != new.get(i)
    ]


def _column(field: Field | None) -> Json | None:
    if field is None:
        return None
    return {"name": field.name, "type": str(field.type), "nullable": field.nullable}


def _properties(before: Snapshot, after: Snapshot) -> Json:
    old, new = before.metadata.properties, after.metadata.properties
    return {
        name: {"from": old.get(name), "to": new.get(name)}
        for name in sorted(old.keys() | new.keys())
        if old.get(name) != new.get(name)
    }


def _partitioning(before: Snapshot, after: Snapshot) -> Json | None:
    old, new = before.metadata, after.metadata
    if old.partition_by == new.partition_by:
        return None
    return {"from": old.partition_names, "to": new.partition_names}


def _print_difference(differences: Json) -> None:
    names = ("version", "timestamp", "files", "rows", "bytes")
    ends = [[end, *(differences[end][name] for name in names)] for end in ("from", "to")]
    print_table(("", *names), ends)
    sums = {
        "rows added": differences["rows_added"],
        "rows removed": differences["rows_removed"],
        "columns": differences["columns"] or "unchanged",
        "properties": differences["properties"] or "unchanged",
        "partitioning": differences["partition_by"] or "unchanged",
    }
    print_pairs(sums)
    for sign, title in (("+", "files_added"), ("-", "files_removed")):
        rows = [[sign, f["path"], f["rows"], f["size"], f["partition"]] for f in differences[title]]
        if rows:
            print_table(("", "path", "rows", "bytes", "partition"), rows)


@click.command()
@on_table
@click.option(
    "--source",
    "sources",
    multiple=True,
    metavar="URI",
    help="Address of a source. Repeatable. Other sources are not opened.",
)
def lag(uri: str, as_json: bool, options: Json, sources: tuple[str, ...]) -> None:
    """Print how far a table lags behind its sources.

    This replication lag is the number of missing versions, and their age.
    Exits with 1 if a source was not named or cannot be read, or if a pipe would fail.
    """
    report = open_table(uri, options).lag(sources, storage_options=options)
    print_report(report, {**asdict(report), "ok": report.ok}, as_json)
    exit_unless(report.ok)
