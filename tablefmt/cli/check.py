"""Commands `verify`, `checkpoint` and `maintain`."""

from __future__ import annotations

from dataclasses import asdict

import click

from tablefmt.cli.arguments import on_table, open_table, store_at
from tablefmt.cli.output import Json, exit_unless, print_report, progress, status
from tablefmt.maintenance.maintain import SECONDS
from tablefmt.maintenance.maintain import maintain as run_maintenance
from tablefmt.maintenance.verify import verify as verify_store


@click.command()
@on_table
@click.option("--deep", is_flag=True, help="Read every page of every live file.")
def verify(uri: str, as_json: bool, options: Json, deep: bool) -> None:
    """Check the log, and that every live file exists. Exits with 1 if there is a problem."""
    with progress("checking files") as show:
        report = verify_store(store_at(uri, options), deep=deep, progress=show)
    print_report(report, {**asdict(report), "ok": report.ok}, as_json)
    exit_unless(report.ok)


@click.command()
@on_table
def checkpoint(uri: str, as_json: bool, options: Json) -> None:
    """Write a checkpoint of the newest version, so that a long log opens fast."""
    report = open_table(uri, options).checkpoint()
    print_report(report, asdict(report), as_json)


@click.command()
@on_table
@click.option(
    "--seconds",
    type=float,
    default=SECONDS,
    show_default=True,
    help="Begin no new task after this time.",
)
@click.option("--dry-run", is_flag=True, help="Print the tasks that are due, with reasons.")
def maintain(uri: str, as_json: bool, options: Json, seconds: float, dry_run: bool) -> None:
    """Run the maintenance that is due: compact, checkpoint, vacuum, expire the log.

    Suitable for cron. Exits with 1 if a task failed.
    """
    context = open_table(uri, options).context
    with status() as show:
        report = run_maintenance(context, dry_run=dry_run, seconds=seconds, progress=show)
    print_report(report, {**asdict(report), "ok": report.ok}, as_json)
    exit_unless(report.ok)
