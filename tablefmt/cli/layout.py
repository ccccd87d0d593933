"""Commands `compact` and `cluster`: rewrite files without changing rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from tablefmt.cli.arguments import on_table, open_table
from tablefmt.cli.output import Json, print_report, progress
from tablefmt.cli.retention import print_commit
from tablefmt.cli.values import records
from tablefmt.data.bounds import split_names
from tablefmt.data.row_order import CURVES, ZORDER
from tablefmt.errors import SchemaMismatchError
from tablefmt.operations.compact_plan import KINDS, MINOR, LayoutPlan

Command = TypeVar("Command", bound=Callable[..., Any])


def _of_layout(command: Command) -> Command:
    """Add the options that both commands share."""
    decorators = (
        click.option("--where", help="Rewrite only files that may hold rows of this condition."),
        click.option(
            "--target-file-size",
            type=int,
            metavar="BYTES",
            help="Desired file size; by default the property targetFileSize.",
        ),
        click.option("--commit-every", type=int, metavar="N", help="Commit after every N groups."),
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
def compact(uri: str, as_json: bool, options: Json, kind: str, dry_run: bool, **more: Any) -> None:
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
@click.option("--by", required=True, help="Column names, separated by commas.")
@click.option("--curve", type=click.Choice(CURVES), default=ZORDER, show_default=True)
@_of_layout
def cluster(
    uri: str, as_json: bool, options: Json, by: str, curve: str, dry_run: bool, **more: Any
) -> None:
    """Sort the rows of each partition, so that selective queries open fewer files."""
    table, names = open_table(uri, options), split_names(by)
    try:
        if dry_run:
            _print_plan(table.cluster(names, curve=curve, dry_run=True, **more), as_json)
            return
        with progress("clustering") as show:
            commit = table.cluster(names, curve=curve, progress=show, **more)
    except SchemaMismatchError as error:
        raise click.BadParameter(str(error), param_hint="'--by'") from None
    print_commit(commit, as_json)


def _print_plan(plan: LayoutPlan, as_json: bool) -> None:
    record = {name: getattr(plan, name) for name in ("version", "operation", "target")}
    groups = [{"files": g.files.tolist(), "outputs": g.outputs} for g in plan.groups]
    print_report(plan, {**record, "groups": groups, "files": records(plan.files)}, as_json)
