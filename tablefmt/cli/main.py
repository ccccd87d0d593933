"""Command line. Exit codes: 0 fine, 1 problem found or failure, 2 usage, 3 not found.

An error is one line on stderr, in which names of Python arguments become command line options. Only
--debug shows a traceback. The command `demo` runs the main job on real input.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
import time
import warnings
from collections.abc import Sequence
from typing import Any

import click

import tablefmt
from tablefmt.cli.command_options import debug_option, storage_option
from tablefmt.cli.inspection_commands import (
    blame_command,
    conflicts_command,
    report,
    why_command,
)
from tablefmt.cli.log_commands import dump, history, log, show, tags
from tablefmt.cli.maintenance_commands import (
    check_store_command,
    checkpoint,
    clone,
    cluster,
    compact,
    expire_log,
    export_command,
    import_,
    maintain,
    repartition,
    restore,
    vacuum,
    verify,
)
from tablefmt.cli.output import WRONG, Json, progress
from tablefmt.cli.table_commands import (
    changes,
    describe,
    diff,
    files,
    lag,
    partitions,
    schema,
)
from tablefmt.errors import (
    ChangesExpiredError,
    InvalidPredicateError,
    InvalidRangeError,
    TableNotFoundError,
    UnsupportedFeatureError,
    VersionNotFoundError,
)
from tablefmt.printable import printable

OPTIONS = {
    "breaks_running_transactions": "--breaks-running-transactions",
    "starting_version": "--since",
    "starting_timestamp": "--since",
    "starting_…": "--since",
    "after_version": "--after",
    "after_timestamp": "--after",
    "after_…": "--after",
    "ending_version": "--until",
    "ending_timestamp": "--until",
    "ending_…": "--until",
    "target_file_size": "--target-file-size",
    "commit_every": "--commit-every",
    "dry_run=False": "--delete",
    "dry_run": "--dry-run",
    "accept_loss": "--accept-loss",
    "storage_options": "--storage-option",
}
"""Argument -> option. No other argument has one of these names, and a column need not."""

# An argument name that is not part of an address.
_BEFORE, _AFTER = r"(?<![\w`'\"/.:-])", r"(?![\w/-]|\.\w)"
_ARGUMENT = re.compile(f"{_BEFORE}({'|'.join(map(re.escape, OPTIONS))})(=True)?{_AFTER}")
_TWICE = re.compile(r"(--[a-z-]+)((?:, | and | or )\1)+(?![\w-])")


def as_options(message: str) -> str:
    """Return a message with options in place of arguments, each named once."""
    named = _ARGUMENT.sub(lambda match: OPTIONS[match[1]], message)
    return _TWICE.sub(r"\1", named)


@click.command()
@click.option("--uri", help="Folder in any store; by default a new temporary one.")
@click.option("--master", default="local[2]", show_default=True, help="Spark's master.")
@click.option(
    "--rows", type=click.IntRange(min=1000), help="Number of flights instead of all 336,776."
)
@storage_option
@debug_option
def demo(uri: str | None, master: str, rows: int | None, options: Json) -> None:
    """Try the main features on real flights, from PySpark.

    It loads, overwrites, copies increments and reads older versions.

    Every line that begins with `ok` or `WRONG` is a comparison with pandas. The tables
    stay after the demo.
    """
    # Spark's part of the package takes a tenth of the time that other commands need to start.
    from tablefmt.demo.story import run

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


USAGE, NOT_FOUND, INTERRUPTED = 2, 3, 130

_NOT_FOUND = (TableNotFoundError, VersionNotFoundError, ChangesExpiredError)
_ASKED_FOR_HELP = getattr(click.exceptions, "NoArgsIsHelpError", ())
_USAGE = (InvalidRangeError, InvalidPredicateError)


class Commands(click.Group):
    """A click group that turns every error into one line and an exit code."""

    def main(self, *args: Any, standalone_mode: bool = True, **extra: Any) -> Any:
        """Run a command line and exit; `standalone_mode=False` returns the exit code."""
        _lenient(sys.stdout)
        _lenient(sys.stderr)
        code = self._code(*args, **extra)
        if not standalone_mode:
            return code
        sys.exit(code)

    def _code(self, *args: Any, **extra: Any) -> int:
        try:
            code = super().main(*args, **{**extra, "standalone_mode": False})
            sys.stdout.flush()
            return code if isinstance(code, int) else 0
        except click.ClickException as error:
            if isinstance(error, _ASKED_FOR_HELP):
                click.echo(error.format_message(), err=True)
            else:
                complain(error.format_message())
            return error.exit_code
        except (click.Abort, KeyboardInterrupt):
            complain("interrupted")
            return INTERRUPTED
        except BrokenPipeError:
            return _hush()

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command, and print its exception as one line."""
        try:
            return super().invoke(ctx)
        except (click.ClickException, click.exceptions.Exit, click.Abort):
            raise
        except BrokenPipeError:
            return ctx.exit(_hush())
        except Exception as error:
            if ctx.meta.get("debug"):
                raise
            complain(describe_error(error), ctx.meta.get("secrets", ()))
            return ctx.exit(exit_code(error))


def exit_code(error: Exception) -> int:
    """Return the exit code of an error."""
    if isinstance(error, _NOT_FOUND):
        return NOT_FOUND
    if isinstance(error, _USAGE):
        return USAGE
    if isinstance(error, UnsupportedFeatureError):
        return USAGE if any(f.startswith("scheme:") for f in error.features) else WRONG
    return WRONG


def describe_error(error: Exception) -> str:
    """Return an error as one line, with its class if it is not ours."""
    if isinstance(error, tablefmt.errors.TablefmtError):
        return str(error)
    return f"{type(error).__name__}: {error}"


def complain(message: str, secrets: Sequence[str] = ()) -> None:
    """Print one line on stderr, with option names, and without values of storage options."""
    line = " ".join(as_options(message).split())
    for secret in secrets:
        if len(secret) >= 4:
            line = line.replace(secret, "***")
    click.echo(f"tablefmt: {printable(line)}", err=True)


def _hush() -> int:
    """Redirect stdout after its reader closed it.

    Python would raise again when it flushes at exit.
    """
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def _lenient(stream: Any) -> None:
    """Escape characters that the stream's encoding lacks, instead of failing."""
    if hasattr(stream, "reconfigure"):
        stream.reconfigure(errors="backslashreplace")


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(tablefmt.__version__, prog_name="tablefmt")
@debug_option
def main() -> None:
    """Inspect, try out and maintain tables on object storage.

    V|TAG|TIME: a whole number is a version; other text is an ISO 8601 time (UTC without a zone),
    or else the name of a tag.
    """


for command in (
    demo,
    log,
    show,
    history,
    describe,
    schema,
    files,
    tags,
    partitions,
    changes,
    diff,
    blame_command,
    why_command,
    conflicts_command,
    lag,
    report,
    check_store_command,
    verify,
    checkpoint,
    import_,
    clone,
    maintain,
    compact,
    cluster,
    repartition,
    restore,
    vacuum,
    expire_log,
    export_command,
):
    main.add_command(command)
