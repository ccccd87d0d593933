"""Commands that explain a table: report, conflicts, blame and why.

The schema of their JSON is spec/schemas/inspection.schema.json.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import click

from tablefmt.cli.command_options import STATE, Point, on_table, open_table, version_of
from tablefmt.cli.output import (
    Json,
    print_document,
    print_own_lines,
    print_report,
    print_table,
    print_text,
    records,
)
from tablefmt.inspection.pruning_reasons import PruningReport
from tablefmt.inspection.removal_reasons import RemovalReport
from tablefmt.table import Table


@click.command()
@on_table
@click.option(
    "-o", "--output", "path", required=True, type=click.Path(), help="The HTML file to write."
)
def report(uri: str, as_json: bool, options: Json, path: str) -> None:
    """Write an HTML page about commits, files and health."""
    size = len(open_table(uri, options).report(path).encode())
    if as_json:
        print_document({"path": path, "bytes": size})
    else:
        print_text(f"{path}: {size} bytes")


@click.command("conflicts")
@on_table
@click.option("--since", type=STATE, help="The first version, inclusive. Default: all in the log.")
@click.option("--until", type=STATE, help="The last version, inclusive. Default: the newest.")
def conflicts_command(uri: str, as_json: bool, options: Json, since: Point, until: Point) -> None:
    """Print which commits met concurrent ones, rebased or refused."""
    table = open_table(uri, options)
    first, last = (None if each is None else version_of(table, each) for each in (since, until))
    found = table.conflicts(starting_version=first, ending_version=last)
    record = {"uri": found.uri, "first": found.first, "last": found.last}
    record |= {"commits": found.commits, "pairs": found.pairs.to_pylist()}
    record |= {"refusals": found.refusals, "refused": found.refused.to_pylist()}
    print_report(found, record, as_json)


file_option = click.option("--file", metavar="PATH|ID", help="A data file, by path or id.")


def _file(text: str | None) -> int | str | None:
    """Return an id as a number, and a path as it is."""
    return int(text) if text is not None and text.isdecimal() and text.isascii() else text


def _partition(values: tuple[str, ...]) -> dict[str, str | None] | None:
    """Return `COLUMN=VALUE` texts by column. The text NULL is None."""
    given: dict[str, str | None] = {}
    for text in values:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise click.BadParameter(f"expected COLUMN=VALUE, got {text!r:.200}")
        given[name] = None if value == "NULL" else value
    return given or None


@click.command("blame")
@on_table
@file_option
@click.option(
    "--partition",
    multiple=True,
    metavar="COLUMN=VALUE",
    help="A partition. Repeatable, for several partition columns. The value NULL selects NULL.",
)
@click.option("--where", help="A SQL condition.")
@click.option("--since", type=STATE, help="The first version, inclusive. Default: all in the log.")
@click.option("--until", type=STATE, help="The last version, inclusive. Default: the newest.")
def blame_command(
    uri: str,
    as_json: bool,
    options: Json,
    file: str | None,
    partition: tuple[str, ...],
    where: str | None,
    since: Point,
    until: Point,
) -> None:
    """Print which commits inserted or deleted some rows.

    The rows are those of a file, a partition or a condition.
    """
    given = _partition(partition)
    if sum(each is not None for each in (file, given, where)) != 1:
        raise click.UsageError("expected exactly one of --file, --partition and --where")
    table = open_table(uri, options)
    first, last = (None if each is None else version_of(table, each) for each in (since, until))
    found = table.blame(
        file=_file(file),
        partition=given,
        where=where,
        starting_version=first,
        ending_version=last,
    )
    commits = records(found.commits)
    if as_json:
        names = ("uri", "target", "first_version", "last_version", "complete", "expired")
        head = {name: getattr(found, name) for name in names}
        print_document({**head, "traced": list(found.traced), "commits": commits})
        return
    print_own_lines(found.summary())
    for row in commits:
        row["rows"] = f"at most {row['rows_max']}" if row["rows"] is None else row["rows"]
    columns = ["version", "timestamp", "operation", "change", "files", "rows"]
    optional = ("condition", "application", "user_metadata", "derived_from")
    columns += [name for name in optional if any(row[name] is not None for row in commits)]
    print_table(columns, [[row[name] for name in columns] for row in commits])


@click.command("why")
@on_table
@file_option
@click.option("--where", help="Explain which files a scan with this SQL condition reads.")
@click.option("--vacuum", is_flag=True, help="Explain what a vacuum would remove or keep.")
@click.option(
    "--version",
    "--as-of",
    "version",
    type=STATE,
    help="Explain if a version, tag or time can be read. With --where, the state to scan.",
)
def why_command(
    uri: str,
    as_json: bool,
    options: Json,
    file: str | None,
    where: str | None,
    vacuum: bool,
    version: Point,
) -> None:
    """Print why a file is read or kept, or a version expired.

    Ask one question: --where, --vacuum or --file, or --version alone.
    """
    kinds = (where is not None, vacuum or (file is not None and where is None))
    if sum(kinds) + (version is not None and where is None) != 1:
        raise click.UsageError(
            "expected one question: --where (perhaps with --file and --version), --vacuum or "
            "--file, or --version alone"
        )
    table = open_table(uri, options)
    if where is not None:
        at = None if version is None else version_of(table, version)
        _print_pruning(table.why(where=where, file=_file(file), version=at), as_json)
    elif version is None:
        _print_removal(table.why(file=_file(file), vacuum=True), as_json)
    else:
        found = table.why(version=_number_of(table, version))
        print_report(found, {"readable": found.readable, **asdict(found)}, as_json)


def _number_of(table: Table, version: Point) -> int | str:
    """Return a version as it was given, because it need not exist."""
    assert version is not None
    return version if isinstance(version, int) else version_of(table, version)


def _print_pruning(found: PruningReport, as_json: bool) -> None:
    rows = records(found.files)
    if as_json:
        document: dict[str, Any] = {
            "uri": found.uri,
            "version": found.version,
            "condition": found.condition,
            "files_read": found.read,
            "files_left_out": found.files.num_rows - found.read,
            "left_out": found.left_out,
            "files": rows,
        }
        print_document(document)
        return
    print_own_lines(found.summary())
    columns = ("path", "read", "decided_by", "bounds", "reason")
    print_table(columns, [[row[name] for name in columns] for row in rows])


def _print_removal(found: RemovalReport, as_json: bool) -> None:
    if as_json:
        names = ("uri", "version", "oldest", "retention_seconds", "listed", "removed", "kept")
        document = {name: getattr(found, name) for name in names}
        print_document({**document, "objects": records(found.objects)})
        return
    print_own_lines(found.summary())
    rows = records(found.notable())
    columns = ("path", "size", "goes", "kept_by", "can_go", "reason")
    print_table(columns, [[row[name] for name in columns] for row in rows])
