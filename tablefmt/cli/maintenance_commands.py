"""Commands that maintain a table: verify, checkpoint, maintain, compact, cluster, restore, vacuum,
expire-log and check-store.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any, TypeVar

import click

from tablefmt.cli.command_options import STATE, Point, bound_of, on_table, open_table, store_at
from tablefmt.cli.output import (
    Json,
    exit_unless,
    print_document,
    print_own_lines,
    print_pairs,
    print_report,
    progress,
    records,
    status,
)
from tablefmt.data.clustering_order import CURVES, Curve
from tablefmt.errors import SchemaMismatchError
from tablefmt.export.export_check import copy_problems
from tablefmt.export.table_export import TARGETS, Start, TargetName
from tablefmt.imports.clone import clone as clone_table
from tablefmt.imports.clone import clone_store
from tablefmt.imports.source import FORMATS, Format
from tablefmt.inspection.store_check import check_opened
from tablefmt.maintenance.log_expiry import expire_log as run_expiry
from tablefmt.maintenance.maintain import SECONDS
from tablefmt.maintenance.maintain import maintain as run_maintenance
from tablefmt.maintenance.repair import repair as run_repair
from tablefmt.maintenance.vacuum import vacuum as run_vacuum
from tablefmt.maintenance.verify import verify as verify_store
from tablefmt.model.properties import split_names
from tablefmt.model.times import show_time, to_micros
from tablefmt.operations.compact import plan_of
from tablefmt.operations.compact_plan import KINDS, MINOR, Kind, LayoutPlan
from tablefmt.operations.repartition import Repartition, rewrite_here
from tablefmt.operations.repartition import repartition as run_repartition
from tablefmt.printable import number_of
from tablefmt.session.commit_options import CommitOptions
from tablefmt.session.commit_result import Commit
from tablefmt.table import import_table

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
@click.option("--as-of", type=STATE, help="Version, tag or time to restore (UTC without a zone).")
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
    table = open_table(uri, options)
    given: Json = {"version": version, "timestamp": timestamp}
    if as_of is not None:
        given = bound_of(table, as_of)
    print_commit(table.restore(**given), as_json)


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
    """Print unneeded files; --delete removes them.

    No kept version needs these files. The output has the reason for each file.

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
    """Print expired log entries; --delete removes them.

    Exits with 1 if an entry could not be removed.
    """
    report = run_expiry(open_table(uri, options).context, dry_run=not deletes, **more)
    names = ("oldest", "log_start", "retention_seconds", "deleted")
    _print_removal(report, "entries", names, as_json)


def _of_layout(command: Command) -> Command:
    """Add the options that both commands share."""
    decorators = (
        click.option(
            "--where",
            help="Rewrite only files that may hold rows for which this SQL condition is true.",
        ),
        click.option(
            "--target-file-size",
            type=int,
            metavar="BYTES",
            help="Desired file size; by default the property targetFileSize.",
        ),
        click.option(
            "--commit-every", type=int, metavar="N", help="Commit after every N groups of files."
        ),
        click.option(
            "--dry-run", is_flag=True, help="Print the plan with reasons, and write nothing."
        ),
    )
    for decorator in reversed(decorators):
        command = decorator(command)
    return command


@click.command()
@on_table
@click.option("--kind", type=click.Choice(KINDS), default=MINOR, show_default=True)
@_of_layout
def compact(uri: str, as_json: bool, options: Json, kind: Kind, dry_run: bool, **more: Any) -> None:
    """Compact small files, and drop deleted rows. No query result changes.

    minor selects small files and files with many deleted rows. major selects all files of
    partitions that need work.
    """
    table = open_table(uri, options)
    if dry_run:
        _print_plan(table.compact(kind, dry_run=True, **more), as_json)
        return
    with progress("compacting") as show:
        commit = table.compact(kind, progress=show, **more)
    print_commit(commit, as_json)


@click.command()
@on_table
@click.option("--by", help="Column names, separated by commas; by default the table's order.")
@click.option(
    "--curve", type=click.Choice(CURVES), help="By default zorder with --by, else hilbert."
)
@_of_layout
def cluster(
    uri: str,
    as_json: bool,
    options: Json,
    by: str | None,
    curve: Curve | None,
    dry_run: bool,
    **more: Any,
) -> None:
    """Sort the rows of each partition.

    Selective queries then open fewer files.

    Without --by, sort the files that need it in the clustering order of the table.
    """
    table, names = open_table(uri, options), None if by is None else split_names(by)
    try:
        if dry_run:
            _print_plan(table.cluster(names, curve=curve, dry_run=True, **more), as_json)
            return
        with progress("clustering") as show:
            commit = table.cluster(names, curve=curve, progress=show, **more)
    except SchemaMismatchError as error:
        raise click.BadParameter(str(error), param_hint="'--by'") from None
    print_commit(commit, as_json)


@click.command()
@on_table
@click.option("--commit-every", type=int, metavar="N", help="Commit after every N groups of files.")
@click.option("--dry-run", is_flag=True, help="Print the plan with reasons, and write nothing.")
def repartition(
    uri: str, as_json: bool, options: Json, commit_every: int | None, dry_run: bool
) -> None:
    """Rewrite files of older partitionings.

    No query result changes. Files with the current partitioning stay.
    """
    context = open_table(uri, options).context
    if dry_run:
        _print_plan(plan_of(context, Repartition(rewrite_here()).plan), as_json)
        return
    with progress("repartitioning") as show:
        commit = run_repartition(
            context, Repartition(rewrite_here(show)), CommitOptions(), commit_every=commit_every
        )
    print_commit(commit, as_json)


def _print_plan(plan: LayoutPlan, as_json: bool) -> None:
    record = {name: getattr(plan, name) for name in ("version", "operation", "target")}
    groups = [{"files": g.files.tolist(), "outputs": g.outputs} for g in plan.groups]
    print_report(plan, {**record, "groups": groups, "files": records(plan.files)}, as_json)


@click.command()
@on_table
@click.option(
    "--deep", is_flag=True, help="Read every entry, checkpoint and page, and check bounds."
)
@click.option(
    "--repair",
    "repairs",
    is_flag=True,
    help="Write derived objects again: hint, checkpoints, log segments, entries in them.",
)
@click.option("--dry-run", is_flag=True, help="With --repair, only print the steps.")
@click.option(
    "--accept-loss",
    multiple=True,
    metavar="FILE",
    help="With --repair, remove this damaged file and its rows from the table. Repeatable.",
)
def verify(
    uri: str,
    as_json: bool,
    options: Json,
    deep: bool,
    repairs: bool,
    dry_run: bool,
    accept_loss: Sequence[str],
) -> None:
    """Check the log, and everything that it names.

    The output has a remedy for each finding, and the versions that can still be read.

    Exits with 1 if there is a problem.
    """
    if (dry_run or accept_loss) and not repairs:
        raise click.UsageError("--dry-run and --accept-loss need --repair")
    store = store_at(uri, options)
    with progress("checking files") as show:
        if repairs:
            report: Any = run_repair(
                store, dry_run=dry_run, accept_loss=accept_loss, deep=deep, progress=show
            )
        else:
            report = verify_store(store, deep=deep, progress=show)
    print_report(report, report.record(), as_json)
    exit_unless(report.ok)


@click.command("import")
@on_table
@click.option(
    "--format",
    "format_name",
    type=click.Choice(FORMATS),
    help="Format of the source; by default detected.",
)
@click.option("--into", help="Place of the new table; by default the source's folder.")
@click.option("--adopt", is_flag=True, help="Let vacuum and drop remove the source's files.")
def import_(
    uri: str,
    as_json: bool,
    options: Json,
    format_name: Format | None,
    into: str | None,
    adopt: bool,
) -> None:
    """Import a Parquet folder, a Delta or an Iceberg table.

    Nothing is copied or deleted, and the source stays readable.
    """
    table = import_table(uri, format_name, into=into, adopt=adopt, storage_options=options)
    files, rows, size = table.context.view.snapshot().totals
    report = {"uri": table.uri, "version": table.version, "files": files, "rows": rows}
    text = f"{table.uri}: imported {number_of(files, 'file')} with {number_of(rows, 'row')}"
    text += f", {size} bytes"
    print_report(text, {**report, "bytes": size}, as_json)


@click.command("clone")
@on_table
@click.argument("into")
@click.option("--deep", is_flag=True, help="Copy the data files. Without it, they are shared.")
@click.option("--as-of", type=STATE, help="Version, tag or time to clone; by default the newest.")
@click.option(
    "--hold", is_flag=True, help="Set a tag in the source, so that vacuum keeps this version."
)
@click.option(
    "--replace", is_flag=True, help="Replace the table at INTO. --deep copies only new files."
)
def clone(
    uri: str, as_json: bool, options: Json, into: str, deep: bool, as_of: Point, **more: Any
) -> None:
    """Clone one version of a table to a new table at INTO.

    Without --deep, the clone reads the data files of the source. Open it with --storage-option
    import_roots=URI.
    """
    table = open_table(uri, options)
    point = {} if as_of is None else bound_of(table, as_of)
    with progress("copying files") as show:
        made = clone_table(
            table.context,
            clone_store(table.context.store, into, options or None),
            shallow=not deep,
            **more,
            **point,
            progress=show,
        )
    files, rows, size = made.view.snapshot().totals
    record = {"uri": made.store.uri, "version": made.version, "files": files, "rows": rows}
    how = "copied" if deep else "shared"
    text = f"{made.store.uri}: {number_of(files, how + ' file')} with {number_of(rows, 'row')}"
    text += f", {size} bytes"
    print_report(text, {**record, "bytes": size}, as_json)


@click.command()
@on_table
def checkpoint(uri: str, as_json: bool, options: Json) -> None:
    """Write a checkpoint of the newest version.

    A table with a long log then opens faster.
    """
    report = open_table(uri, options).checkpoint()
    print_report(report, asdict(report), as_json)


@click.command("export")
@on_table
@click.option("--to", type=click.Choice(tuple(TARGETS)), required=True, help="The format.")
@click.option(
    "--from",
    "start",
    type=int,
    metavar="V",
    help="First version of a new copy; by default the newest.",
)
@click.option("--check", is_flag=True, help="Write nothing; compare an existing copy with the log.")
@click.option("--catalog", metavar="NAME", help="Register the copy with this Iceberg catalog.")
@click.option("--table", metavar="NS.TABLE", help="Name of the copy in the catalog.")
def export_command(
    uri: str,
    as_json: bool,
    options: Json,
    to: TargetName,
    start: int | None,
    check: bool,
    catalog: str | None,
    table: str | None,
) -> None:
    """Write metadata for readers of Delta or Iceberg.

    This copy of the metadata refers to the same data files.

    With --check, exits with 1 if the copy differs from the log.
    """
    source = open_table(uri, options)
    if check:
        problems = [str(problem) for problem in copy_problems(source.context.view, (to,))]
        if as_json:
            print_document({"uri": source.uri, "to": to, "ok": not problems, "problems": problems})
        else:
            print_own_lines(problems or [f"{source.uri}: the {to} copy is sound"])
        exit_unless(not problems)
        return
    first: Start = "head" if start is None else start
    report = source.export(to, start=first, catalog=catalog, table=table)
    print_report(report, asdict(report), as_json)


@click.command()
@on_table
@click.option(
    "--seconds",
    type=float,
    default=SECONDS,
    show_default=True,
    help="Begin no new task after so many seconds.",
)
@click.option("--dry-run", is_flag=True, help="Print the tasks that are due, with reasons.")
def maintain(uri: str, as_json: bool, options: Json, seconds: float, dry_run: bool) -> None:
    """Run the maintenance that is due.

    The tasks are compact, checkpoint, vacuum and expire-log.

    Suitable for cron. Exits with 1 if a task failed.
    """
    context = open_table(uri, options).context
    with status() as show:
        report = run_maintenance(context, dry_run=dry_run, seconds=seconds, progress=show)
    print_report(report, {**asdict(report), "ok": report.ok}, as_json)
    exit_unless(report.ok)


@click.command("check-store")
@on_table
def check_store_command(uri: str, as_json: bool, options: Json) -> None:
    """Check whether tables are safe at an address.

    Several processes race to create the same objects. The check also reads, lists, deletes,
    interrupts uploads and compares clocks. It removes its objects at the end.

    Exits with 1 unless the store is safe.
    """
    with progress("checking the store") as show:
        report = check_opened(store_at(uri, options), progress=show)
    print_report(report, report.record(), as_json)
    exit_unless(report.ok)
