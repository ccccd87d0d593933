"""`--follow`: what lands is printed as it lands, until somebody stops it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import click

from tablefmt.errors import TableReplacedError
from tablefmt.model.entry import StoredEntry
from tablefmt.snapshot.load import LogView

Command = TypeVar("Command", bound=Callable[..., Any])


def follow_options(command: Command) -> Command:
    """What both take that go on with what lands."""
    decorators = (
        click.option(
            "--follow", is_flag=True, help="Go on with commits as they land; of JSON, a line each."
        ),
        click.option(
            "--poll",
            type=float,
            default=1.0,
            show_default=True,
            help="Seconds between two looks of --follow.",
        ),
    )
    for decorator in reversed(decorators):
        command = decorator(command)
    return command


def check_endless(follow: bool, until: object) -> None:
    """Refuse an end for what goes on for ever. Raises click.UsageError."""
    if follow and until is not None:
        raise click.UsageError("--follow goes on for ever: leave --until out")


@contextmanager
def until_stopped() -> Iterator[None]:
    """An interrupt ends the block, and well: nobody else ends what goes on for ever."""
    try:
        yield
    except KeyboardInterrupt:
        return


def landing(
    view: LogView, seen: int, pause: float, sleep: Callable[[float], None]
) -> Iterator[list[StoredEntry]]:
    """Entries after a version, in order, some at a time, for ever. A look that finds nothing is one
    small request.

    Args:
        view: the log, up to `seen` at least.
        seen: the last version that is known.
        pause: seconds between two looks.
        sleep: waits so many seconds.

    Raises:
        ChangesExpiredError: entries after the last one were given up.
        TableReplacedError: after its last entry: the table was dropped, or its log is another one.
            CorruptTableError, StoreError: what a look finds.
    """
    end: TableReplacedError | None = None
    while True:
        fresh = view.entries_after(seen)
        if fresh:
            yield fresh
            seen = fresh[-1].version
        if end is not None:
            raise end
        sleep(pause)
        try:
            view.refresh(waits=True)
        except TableReplacedError as error:
            # What ended it is an entry too.
            end = error
