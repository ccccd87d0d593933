"""`restore`: older versions, and what is kept of them."""

from __future__ import annotations

import click

from tablefmt.cli.arguments import on_table, open_table
from tablefmt.cli.output import Json, print_document, print_pairs
from tablefmt.model.times import show_time, to_micros
from tablefmt.session.receipt import Commit


@click.command()
@on_table
@click.option("--version", type=int, help="The version to bring back.")
@click.option("--timestamp", help="The version as of a time, in place of it (UTC without a zone).")
def restore(
    uri: str, as_json: bool, options: Json, version: int | None, timestamp: str | None
) -> None:
    """Make an older version the newest one, by a commit on top: history stays."""
    table = open_table(uri, options)
    print_commit(table.restore(version=version, timestamp=timestamp), as_json)


def print_commit(commit: Commit, as_json: bool) -> None:
    """What became of an operation."""
    record = {
        "version": commit.version,
        "timestamp": show_time(to_micros(commit.timestamp)),
        "operation": commit.operation,
        "no_op": commit.no_op,
        "metrics": dict(commit.metrics),
    }
    if as_json:
        print_document(record)
    else:
        print_pairs(record)
