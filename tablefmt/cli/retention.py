"""`restore`, `vacuum`, `expire-log`: older versions, and what is kept of them."""

from __future__ import annotations

import click

from tablefmt.cli.arguments import on_table, open_table
from tablefmt.cli.output import Json, escape_controls, print_document, print_pairs, progress
from tablefmt.cli.values import records
from tablefmt.maintenance.expire import expire_log as run_expiry
from tablefmt.maintenance.vacuum import vacuum as run_vacuum
from tablefmt.model.times import show_time, to_micros
from tablefmt.session.receipt import Commit

FAILED = 1
"""Exit code when something that was asked for could not be done."""


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


@click.command()
@on_table
@click.option("--retention", help="How long versions stay, such as '7 days'; else the property.")
@click.option("--delete", "deletes", is_flag=True, help="Remove the files; else a dry run.")
@click.option(
    "--breaks-running-transactions",
    is_flag=True,
    help="Allow a retention shorter than the table's own.",
)
def vacuum(
    uri: str,
    as_json: bool,
    options: Json,
    retention: str | None,
    deletes: bool,
    breaks_running_transactions: bool,
) -> None:
    """Say which files no kept version needs, and why; with --delete remove them.

    The exit code is 1 if one of them could not be removed.
    """
    context = open_table(uri, options).context
    with progress("removing files") as show:
        report = run_vacuum(
            context,
            retention,
            dry_run=not deletes,
            breaks_running_transactions=breaks_running_transactions,
            progress=show,
        )
    if as_json:
        names = ("uri", "dry_run", "version", "oldest", "retention_seconds", "listed", "deleted")
        record = {name: getattr(report, name) for name in names}
        print_document(
            {**record, "files": records(report.files), "failures": dict(report.failures)}
        )
    else:
        click.echo("\n".join(map(escape_controls, str(report).splitlines())))
    if report.failures:
        click.get_current_context().exit(FAILED)


@click.command("expire-log")
@on_table
@click.option("--retention", help="How long entries stay, such as '30 days'; else the property.")
@click.option("--delete", "deletes", is_flag=True, help="Remove the entries; else a dry run.")
@click.option(
    "--breaks-running-transactions",
    is_flag=True,
    help="Allow a retention shorter than the table's own.",
)
def expire_log(
    uri: str,
    as_json: bool,
    options: Json,
    retention: str | None,
    deletes: bool,
    breaks_running_transactions: bool,
) -> None:
    """Say which entries of the log are old enough to go; with --delete remove them.

    The exit code is 1 if one of them could not be removed.
    """
    report = run_expiry(
        open_table(uri, options).context,
        retention,
        dry_run=not deletes,
        breaks_running_transactions=breaks_running_transactions,
    )
    if as_json:
        names = ("uri", "dry_run", "version", "oldest", "log_start", "retention_seconds", "deleted")
        record = {name: getattr(report, name) for name in names}
        entries = {"entries": records(report.entries), "failures": dict(report.failures)}
        print_document({**record, **entries})
    else:
        click.echo("\n".join(map(escape_controls, str(report).splitlines())))
    if report.failures:
        click.get_current_context().exit(FAILED)
