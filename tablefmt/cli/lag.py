"""`lag`: how far a table is behind the tables that pipes fill it from."""

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
    help="Where a source is. Repeatable. Other sources are not looked for.",
)
def lag(uri: str, as_json: bool, options: Json, sources: tuple[str, ...]) -> None:
    """Print how far a table is behind its sources: versions, and the age of what is missing.

    The exit code is 1 if a source was not named or cannot be read, or a pipe would be refused.
    """
    report = open_table(uri, options).lag(sources, storage_options=options)
    print_report(report, {**asdict(report), "ok": report.ok}, as_json)
    exit_unless(report.ok)
