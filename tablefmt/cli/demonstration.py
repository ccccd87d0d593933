"""Command `demo`: the main job on real input."""

from __future__ import annotations

import os
import tempfile
import time
import warnings

import click

from tablefmt.cli.arguments import debug_option, storage_option
from tablefmt.cli.log_dump import dump
from tablefmt.cli.output import Json, progress
from tablefmt.demo.story import run
from tablefmt.printable import printable


@click.command()
@click.option("--uri", help="Folder in any store; by default a new temporary one.")
@click.option("--master", default="local[2]", show_default=True, help="Spark's master.")
@click.option(
    "--rows", type=click.IntRange(min=1000), help="Number of flights instead of all 336,776."
)
@storage_option
@debug_option
def demo(uri: str | None, master: str, rows: int | None, options: Json) -> None:
    """Load flights from PySpark, overwrite, copy increments, travel back, and check every result.

    Every line that begins with `ok` or `WRONG` is a comparison with pandas. The tables stay.
    """
    # Without it, Spark warns about the machine's name. No other machine needs to reach this
    # session.
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    warnings.filterwarnings("ignore", category=FutureWarning, module="pyspark")
    began = time.monotonic()
    place = uri or tempfile.mkdtemp(prefix="tablefmt-demo-")
    with progress("demo") as show:
        outcome = run(
            place,
            storage_options=options,
            master=master,
            rows=rows,
            say=lambda line: click.echo(printable(line)),
            progress=show,
        )
    click.echo("\nLog of the loaded table: tablefmt log " + outcome.source.uri)
    dump(outcome.source)
    seconds = time.monotonic() - began
    click.echo(f"\n{outcome.checks} checks, {outcome.wrong} wrong, {seconds:.0f} s; see {place}")
    if outcome.wrong:
        click.get_current_context().exit(1)
