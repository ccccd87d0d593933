"""Arguments and options that commands share, and their conversion from text.

With `--follow`, commits are printed as they land, until interrupted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar, Union

import click

from tablefmt.cli.output import progress
from tablefmt.commit.environment import SYSTEM
from tablefmt.errors import InvalidRangeError, StoreError, TableReplacedError
from tablefmt.model.log_entry import StoredEntry
from tablefmt.model.tags import tags_of
from tablefmt.model.times import to_micros
from tablefmt.session.table_context import TableContext
from tablefmt.snapshot.log_view import LogView
from tablefmt.store.location import add_text_option, open_store
from tablefmt.store.object_store import Store
from tablefmt.table import Table

Point = Union[int, str, None]  # noqa: UP007 - run time
"""A version, ISO text of a time, or None."""

Command = TypeVar("Command", bound=Callable[..., Any])

_WHOLE = re.compile(r"[0-9]+")


class PointType(click.ParamType):  # type: ignore[type-arg,unused-ignore]
    """`V|TIME`: a whole number is a version; other text is an ISO 8601 time, UTC without a zone."""

    name = "V|TIME"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> int | str:
        """Return the version, or the checked text."""
        text = str(value)
        if _WHOLE.fullmatch(text):
            return int(text)
        try:
            to_micros(text)
        except InvalidRangeError as error:
            self.fail(str(error), param, ctx)
        return text


POINT = PointType()


class StateType(PointType):
    """`V|TAG|TIME`: as `PointType`, and other text is the name of a tag (TAG-1)."""

    name = "V|TAG|TIME"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> int | str:
        """Return the version, or the text of a time or a tag."""
        text = str(value)
        return int(text) if _WHOLE.fullmatch(text) else text


STATE = StateType()


def on_table(command: Command) -> Command:
    """Add the argument and the options that every command on a table has."""
    decorators = (
        click.argument("uri"),
        click.option("--json", "as_json", is_flag=True, help="Print JSON."),
        storage_option,
        debug_option,
    )
    for decorator in reversed(decorators):
        command = decorator(command)
    return command


def storage_options(
    ctx: click.Context, param: click.Parameter, values: tuple[str, ...]
) -> dict[str, Any]:
    """Return `K=V` texts as nested options. No error shows a value."""
    options: dict[str, Any] = {}
    for number, text in enumerate(values, 1):
        path, equals, value = text.partition("=")
        if not equals or not all(path.split(".")):
            raise click.BadParameter(f"option number {number}: expected KEY=VALUE", ctx, param)
        try:
            add_text_option(options, path, value)
        except InvalidRangeError as error:
            raise click.BadParameter(str(error), ctx, param) from None
    ctx.meta["secrets"] = sorted({v for t in values if (v := t.partition("=")[2])}, key=len)[::-1]
    return options


def _debug(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    ctx.meta["debug"] = value or ctx.meta.get("debug", False)


storage_option = click.option(
    "--storage-option",
    "options",
    multiple=True,
    metavar="K=V",
    callback=storage_options,
    help="Option of the store. Dots separate levels: client_kwargs.region_name=eu-west-1. "
    "Repeatable.",
)

debug_option = click.option(
    "--debug",
    is_flag=True,
    expose_value=False,
    callback=_debug,
    help="Show the traceback of an error.",
)

as_of_option = click.option(
    "--as-of",
    type=STATE,
    help="Show the state at a version, a tag, or a time (UTC without a zone).",
)


def store_at(uri: str, options: dict[str, Any]) -> Store:
    """Return the store at an address.

    Raises:
        click.UsageError: the address or an option is invalid; no request was sent.
        UnsupportedFeatureError: the scheme is not supported.
    """
    try:
        return open_store(uri, options)
    except StoreError as error:
        raise click.UsageError(str(error)) from None


def open_table(uri: str, options: dict[str, Any]) -> Table:
    """Open the table, with a progress bar while a long log is read."""
    return open_at(store_at(uri, options))


def open_at(store: Store) -> Table:
    """Open the table at the root of a store, with a progress bar."""
    with progress("reading the log") as show:
        return Table(TableContext(store, LogView.open(store, show), SYSTEM))


def version_of(table: Table, point: Point) -> int:
    """Return the version that a point means: a version, a tag, or a time (TIM-4, TAG-1).

    Raises:
        VersionNotFoundError: the point is outside the history, or names no tag.
        click.UsageError: it is a time, and the name of a tag.
    """
    return table.context.resolve_point(**bound_of(table, point))


def bound_of(table: Table, point: Point) -> dict[str, Any]:
    """Return a point as an argument: `version` for a version or a tag, `timestamp` for a time.

    Raises:
        click.UsageError: it is a time, and the name of a tag.
    """
    if not isinstance(point, str):
        return {"version": point}
    try:
        to_micros(point)
    except InvalidRangeError:
        return {"version": point}
    tags = tags_of(table.context.view.head.metadata)
    if point in tags:
        raise click.UsageError(
            f"{point!r} is both a time and the name of a tag. For the tag, give its version, "
            f"{tags[point].version}. For the time, give more of its digits."
        )
    return {"timestamp": point}


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
