"""Replication lag of a table behind the sources of its pipes.

Spec: PIP-8.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, TypeAlias

import pyarrow as pa

from tablefmt.data.arrow_results import ArrowReport
from tablefmt.errors import InvalidArgumentError, TablefmtError
from tablefmt.pipes.pipe_batch import pipe_cursor_of
from tablefmt.printable import number_of, printable_lines
from tablefmt.session.table_context import TableContext
from tablefmt.session.table_scan import ReadableTable
from tablefmt.snapshot.cursors import Cursor, Cursors, Key
from tablefmt.snapshot.log_view import LogView
from tablefmt.store.location import Uri, open_store, scheme_of
from tablefmt.store.store_wrappers import ReadOnlyStore

Source: TypeAlias = "Uri | ReadableTable"
"""A source of a pipe: its address, or an open table."""

_MICROS = 1_000_000


@dataclass(frozen=True, slots=True)
class SourceLag:
    """Replication lag of one pipe into a table. Values are None if the source cannot be read."""

    source: str
    """The id of the source."""
    name: str
    """Name of the pipe."""
    location: str | None
    """Address at which the source was opened; else the address in the log, which was not opened."""
    taken: int | None
    """The last version of the source that is in the table; None if there is none."""
    moved_at: int
    """The version of the table that last moved the cursor."""
    newest: int | None = None
    """The newest version of the source."""
    versions: int | None = None
    """Number of missing versions of the source."""
    seconds: float | None = None
    """Age of the first missing version in seconds; 0 if none is missing. None if its entry is no
    longer kept.
    """
    problem: str | None = None
    """The reason why the next run of the pipe would fail, or why the replication lag is unknown."""


@dataclass(frozen=True, slots=True)
class LagReport(ArrowReport):
    """`print` shows the replication lag of each pipe; `to_arrow` has a row for each."""

    uri: str
    version: int
    sources: tuple[SourceLag, ...]

    @property
    def ok(self) -> bool:
        """True if all sources can be read, and the next run of each pipe can work."""
        return all(one.problem is None for one in self.sources)

    def to_arrow(self) -> pa.Table:
        """Return a row for each pipe, with the fields of SourceLag."""
        return pa.Table.from_pylist([asdict(one) for one in self.sources], _SCHEMA)

    def __str__(self) -> str:
        head = f"{self.uri}: version {self.version}, {number_of(len(self.sources), 'pipe')}"
        return printable_lines([head, *(f"  {_line(one)}" for one in self.sources)])


_SCHEMA = pa.schema(
    [
        ("source", pa.string()),
        ("name", pa.string()),
        ("location", pa.string()),
        ("taken", pa.int64()),
        ("moved_at", pa.int64()),
        ("newest", pa.int64()),
        ("versions", pa.int64()),
        ("seconds", pa.float64()),
        ("problem", pa.string()),
    ]
)


def lag(
    context: TableContext,
    sources: Source | Iterable[Source] = (),
    storage_options: Mapping[str, Any] | None = None,
) -> LagReport:
    """Open the sources that the caller names, and return how far the table lags behind them.

    Nothing is written to the sources. An address in the log is shown but never opened (SEC-2).

    Args:
        context: the table.
        sources: a source as its address or an open table, or several.
        storage_options: options for sources whose addresses have the scheme of this table.

    Raises:
        InvalidArgumentError: one of `sources` is not a source of this table. Also the errors of
            opening a source.
        CorruptTableError: the table's own log is damaged.
    """
    context.view.refresh()
    head = context.view.read_head
    options = dict(storage_options or {})
    views: dict[str, LogView] = {}
    known = {table for table, _ in head.cursors}
    if isinstance(sources, str) or not isinstance(sources, Iterable):
        sources = [sources]
    for source in sources:
        view = _opened(source, context.store.uri, options)
        if view.head.table not in known:
            raise InvalidArgumentError(
                f"{view.store.uri} is not a source of this table. Pass the address of a source."
            )
        views[view.head.table] = view
    found = [
        _replication_lag_of(context, head.cursors, key, cursor, views)
        for key, cursor in sorted(head.cursors.items())
    ]
    return LagReport(context.store.uri, head.version, tuple(found))


_UNNAMED = (
    "not opened: the address comes from the log and is not trusted. If it is right, name it "
    "with lag(sources=[…]), or with --source on the command line"
)
"""Problem of a source that the caller did not name (SEC-2)."""


def _now_of(context: TableContext, view: LogView) -> int:
    """Return the store's clock, or this machine's, in µs since 1970 UTC; never before the head."""
    clock_us = context.store.server_time_us() or context.environment.now_us()
    return max(clock_us, view.head.timestamp)


def _replication_lag_of(
    context: TableContext,
    cursors: Cursors,
    key: Key,
    cursor: Cursor,
    views: dict[str, LogView],
) -> SourceLag:
    table, name = key
    one = SourceLag(table, name, cursor.location, cursor.to, cursor.at)
    view = views.get(table)
    try:
        if view is None:
            return replace(one, problem=_UNNAMED)
        one = replace(one, location=view.store.uri)
        return _behind(one, context, view, cursors)
    except TablefmtError as error:
        return replace(one, problem=" ".join(str(error).split()))


def _behind(one: SourceLag, context: TableContext, view: LogView, cursors: Cursors) -> SourceLag:
    """Fill in the replication lag from the source's log."""
    head = view.head
    first = 0 if one.taken is None else one.taken + 1
    one = replace(one, newest=head.version, versions=max(0, head.version + 1 - first))
    if one.taken is not None and one.taken == head.version:
        one = replace(one, seconds=0.0)
    problem = None
    try:
        pipe_cursor_of(view, cursors, one.name)
    except TablefmtError as error:
        problem = " ".join(str(error).split())
    if one.seconds is None and first <= head.version and problem is None:
        since = view.timestamp_at(max(first, head.totals.oldest))
        one = replace(one, seconds=max(0.0, (_now_of(context, view) - since) / _MICROS))
    return replace(one, problem=problem)


def _opened(source: Source, beside: str, options: Mapping[str, Any]) -> LogView:
    if isinstance(source, ReadableTable):
        return LogView.open(ReadOnlyStore(source.context.store))
    mine = scheme_of(source) == scheme_of(beside)
    return LogView.open(ReadOnlyStore(open_store(source, options if mine else None)))


def _line(one: SourceLag) -> str:
    where = one.location or one.source
    pipe = f"{where} ({one.name})" if one.name else where
    if one.problem is not None:
        return f"{pipe}: {one.problem}"
    if not one.versions:
        return f"{pipe}: up to date, at version {one.newest}"
    old = "" if one.seconds is None else f", the oldest {one.seconds:.0f} s old"
    return f"{pipe}: {number_of(one.versions, 'version')} behind version {one.newest}{old}"
