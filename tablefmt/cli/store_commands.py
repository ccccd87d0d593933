"""Commands about a store, not about a table in it."""

from __future__ import annotations

import click

from tablefmt.cli.command_options import on_table, store_at
from tablefmt.cli.output import Json, exit_unless, print_report, progress
from tablefmt.inspection.store_check import check_opened


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
