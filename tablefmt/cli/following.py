"""Option `--follow`: print commits as they land, until interrupted."""

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
    """Add the options of the commands that can follow a table."""
    decorators = (
        click.option(
            "--follow",
            is_flag=True,
            help="Continue with commits as they land. With --json, one line each.",
        ),
        click.option(
            "--poll",
            type=float,
            default=1.0,
            show_default=True,
            help="Seconds between two polls of --follow.",
        ),
    )
    for decorator in reversed(decorators):
        command = decorator(command)
    return command


def check_endless(follow: bool, until: object) -> None:
    """Refuse an upper bound together with --follow. Raises click.UsageError."""
    if follow and until is not None:
        raise click.UsageError(
            "--follow never ends, so it cannot be combined with --until. Remove one of them."
        )


@contextmanager
def until_stopped() -> Iterator[None]:
    """End the block normally on an interrupt, which is the only way to end --follow."""
    try:
        yield
    except KeyboardInterrupt:
        return


def landing(
    view: LogView, seen: int, pause: float, sleep: Callable[[float], None]
) -> Iterator[list[StoredEntry]]:
    """Yield entries after a version, in order, in groups, forever. An idle poll costs one GET.

    Args:
        view: the log, at least up to `seen`.
        seen: the last known version.
        pause: seconds between two polls.
        sleep: function that waits for some seconds.

    Raises:
        ChangesExpiredError: entries after the last one have expired.
        TableReplacedError: raised after the last entry: the table was dropped, or has another log.
        CorruptTableError, StoreError: a poll failed.
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
            # The entry that ended the table must be yielded too.
            end = error
