"""Command `lag`: replication lag of a table behind the sources of its pipes."""

from __future__ import annotations

from dataclasses import asdict

import click

from tablefmt.cli.arguments import on_table, open_table
from tablefmt.cli.output import Json, exit_unless, print_report


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
    """Print how far a table lags behind its sources: missing versions, and their age.

    Exits with 1 if a source was not named or cannot be read, or if a pipe would fail.
    """
    report = open_table(uri, options).lag(sources, storage_options=options)
    print_report(report, {**asdict(report), "ok": report.ok}, as_json)
    exit_unless(report.ok)
