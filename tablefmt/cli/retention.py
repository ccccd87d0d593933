"""Commands `restore`, `vacuum` and `expire-log`: older versions and their retention."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click

from tablefmt.cli.arguments import Point, as_of_option, on_table, open_table
from tablefmt.cli.output import (
    Json,
    exit_unless,
    print_document,
    print_pairs,
    print_report,
    progress,
)
from tablefmt.cli.values import records
from tablefmt.maintenance.expire import expire_log as run_expiry
from tablefmt.maintenance.vacuum import vacuum as run_vacuum
from tablefmt.model.times import show_time, to_micros
from tablefmt.session.commit_result import Commit

Command = TypeVar("Command", bound=Callable[..., Any])


class RetentionType(click.ParamType):  # type: ignore[type-arg,unused-ignore]
    """`N days` and similar text; a plain number is seconds."""

    name = "DURATION"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float | str:
        """Return seconds, or the text unchanged."""
        try:
            return float(value)
        except ValueError:
            return str(value)


def _of_removal(command: Command) -> Command:
    """Add the options of the commands that remove old objects."""
    decorators = (
        click.option(
            "--retention",
            type=RetentionType(),
            help="Retention: '7 days', or seconds; by default the table's property.",
        ),
        click.option(
            "--delete",
            "deletes",
            is_flag=True,
            help="Remove the objects. Without it, only print them.",
        ),
        click.option(
            "--breaks-running-transactions",
            is_flag=True,
            help="Allow a retention shorter than the table's property.",
        ),
    )
    for decorator in reversed(decorators):
        command = decorator(command)
    return command


def _print_removal(report: Any, shown: str, names: Sequence[str], as_json: bool) -> None:
    """Print the removed objects or the candidates. Exit with 1 if a removal failed."""
    record = {name: getattr(report, name) for name in ("uri", "dry_run", "version", *names)}
    record |= {shown: records(report.to_arrow()), "failures": dict(report.failures)}
    print_report(report, record, as_json)
    exit_unless(not report.failures)


@click.command()
@on_table
@as_of_option
@click.option("--version", type=int, help="Version to restore; the same as --as-of V.")
@click.option("--timestamp", help="Time of the version to restore; the same as --as-of TIME.")
def restore(
    uri: str,
    as_json: bool,
    options: Json,
    as_of: Point,
    version: int | None,
    timestamp: str | None,
) -> None:
    """Restore an older version by a new commit. The history stays."""
    if as_of is not None and (version is not None or timestamp is not None):
        raise click.UsageError("expected one of --as-of, --version and --timestamp")
    if isinstance(as_of, int):
        version = as_of
    elif as_of is not None:
        timestamp = as_of
    table = open_table(uri, options)
    print_commit(table.restore(version=version, timestamp=timestamp), as_json)


def print_commit(commit: Commit, as_json: bool) -> None:
    """Print the result of an operation."""
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
@_of_removal
def vacuum(uri: str, as_json: bool, options: Json, deletes: bool, **more: Any) -> None:
    """Print the files that no kept version needs, with reasons; with --delete, remove them.

    Exits with 1 if a file could not be removed.
    """
    context = open_table(uri, options).context
    with progress("removing files") as show:
        report = run_vacuum(context, dry_run=not deletes, progress=show, **more)
    names = ("oldest", "retention_seconds", "listed", "deleted")
    _print_removal(report, "files", names, as_json)


@click.command("expire-log")
@on_table
@_of_removal
def expire_log(uri: str, as_json: bool, options: Json, deletes: bool, **more: Any) -> None:
    """Print the log entries that are old enough to go; with --delete, remove them.

    Exits with 1 if an entry could not be removed.
    """
    report = run_expiry(open_table(uri, options).context, dry_run=not deletes, **more)
    names = ("oldest", "log_start", "retention_seconds", "deleted")
    _print_removal(report, "entries", names, as_json)
