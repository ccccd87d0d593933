"""Command line. Exit codes: 0 fine, 1 problem found or failure, 2 usage, 3 not found.

An error is one line on stderr. Only --debug shows a traceback.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any

import click

import tablefmt
from tablefmt.cli.arguments import debug_option
from tablefmt.cli.changes import changes, diff
from tablefmt.cli.check import checkpoint, maintain, verify
from tablefmt.cli.demonstration import demo
from tablefmt.cli.lag import lag
from tablefmt.cli.layout import cluster, compact
from tablefmt.cli.log_dump import history, log, show
from tablefmt.cli.output import WRONG
from tablefmt.cli.retention import expire_log, restore, vacuum
from tablefmt.cli.state import describe, files, partitions, schema
from tablefmt.cli.wording import as_options
from tablefmt.errors import (
    ChangesExpiredError,
    InvalidPredicateError,
    InvalidRangeError,
    TableNotFoundError,
    UnsupportedFeatureError,
    VersionNotFoundError,
)
from tablefmt.printable import printable

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

    V|TIME: a whole number is a version; other text is an ISO 8601 time (UTC without a zone).
    """


for command in (
    demo,
    log,
    show,
    history,
    describe,
    schema,
    files,
    partitions,
    changes,
    diff,
    lag,
    verify,
    checkpoint,
    maintain,
    compact,
    cluster,
    restore,
    vacuum,
    expire_log,
):
    main.add_command(command)
