"""Commands `log`, `show` and `history`: print the log, up to damage if there is any."""

from __future__ import annotations

import gc
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import click

from tablefmt.changes.version_range import poll_seconds
from tablefmt.cli.command_options import (
    POINT,
    STATE,
    Point,
    check_endless,
    follow_options,
    landing,
    on_table,
    open_at,
    open_table,
    store_at,
    until_stopped,
    version_of,
)
from tablefmt.cli.log_records import (
    Read,
    change_sums,
    checked_entries,
    entry_records,
    whole_entry,
)
from tablefmt.cli.output import Json, print_document, print_lines, print_pairs, print_table, records
from tablefmt.commit.environment import SYSTEM
from tablefmt.errors import CorruptTableError, InvalidRangeError, VersionNotFoundError
from tablefmt.model.log_entry import Entry
from tablefmt.model.times import show_time, to_micros
from tablefmt.snapshot.log_view import LogView
from tablefmt.store.object_store import Store

FILE_COLUMNS = ("id", "path", "size", "rows", "partition")
DELETE_COLUMNS = ("id", "deleted", "updated")
LINEAGE_COLUMNS = ("output", "input", "start", "rows", "dropped")
LOG_COLUMNS = ("version", "timestamp", "operation", "files", "rows", "bytes", "total rows")


@click.command()
@on_table
@click.option("--since", type=POINT, help="Print entries from this version or time on, inclusive.")
@click.option("--until", type=POINT, help="Print entries up to this version or time, inclusive.")
@click.option(
    "--limit", type=click.IntRange(min=0), help="Print only the newest N of these entries."
)
@follow_options
def log(
    uri: str,
    as_json: bool,
    options: Json,
    since: Point,
    until: Point,
    limit: int | None,
    follow: bool,
    poll: float,
) -> None:
    """Print the log, oldest entry first. With --json, print one complete entry a line.

    A damaged log is printed up to the damage, and the command exits with 1. With --follow, later
    commits are printed as they land.
    """
    check_endless(follow, until)
    store, pause = store_at(uri, options), poll_seconds(poll)
    with until_stopped():
        with without_collections():
            newest = dump(store, as_json=as_json, since=since, until=until, limit=limit)
        if follow:
            # If the table is dropped meanwhile, print that entry too.
            view = LogView.open(store, ended=True)
            for landed in landing(view, newest, pause, SYSTEM.sleep):
                pairs = ((each.entry, view.metadata_at(each.version)) for each in landed)
                chosen = (pair for pair in pairs if _is_at_or_after(pair[0], since))
                _print(store, chosen, as_json, head=False)


@contextmanager
def without_collections() -> Iterator[None]:
    """Pause the collection of cycles. Records have none, and there are millions of objects."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def dump(
    store: Store,
    *,
    as_json: bool = False,
    since: Point = None,
    until: Point = None,
    limit: int | None = None,
) -> int:
    """Print the entries of a range, both ends included. Return the newest version.

    Raises:
        InvalidRangeError: the range ends before it begins.
        VersionNotFoundError: a bound is a version that is not in the log. Records of a longer log
            are printed before it.
        CorruptTableError: raised after the entries before the damage are printed.
    """
    _check_order(since, until)
    newest = -1

    def chosen(shows: bool) -> Iterator[Read]:
        nonlocal newest
        for entry, metadata in checked_entries(store, shows=shows):
            newest = entry.version
            if _is_at_or_after(entry, since) and _is_at_or_before(entry, until):
                yield entry, metadata

    # Records are printed at once, so that a long log is not in memory. Columns of a table are as
    # wide as the widest line, so lines wait. With a limit entries wait: a line may need a request.
    shown: deque[Any] = deque(maxlen=limit)
    damage: CorruptTableError | None = None
    try:
        if limit is not None:
            shown.extend(chosen(shows=True))
        elif as_json:
            print_lines(entry_records(store, chosen(shows=False)))
        else:
            shown.extend(_line(store, entry) for entry, _ in chosen(shows=True))
    except CorruptTableError as error:
        damage = error
    if damage is None:
        for point in (since, until):
            if isinstance(point, int) and point > newest:
                raise VersionNotFoundError(f"version {point}", 0, newest)
    if limit is not None:
        _print(store, shown, as_json)
    elif not as_json:
        print_table(LOG_COLUMNS, shown)
    if damage is not None:
        raise damage
    return newest


def _print(store: Store, entries: Iterable[Read], as_json: bool, *, head: bool = True) -> None:
    if as_json:
        print_lines(entry_records(store, entries))
    else:
        print_table(LOG_COLUMNS, [_line(store, entry) for entry, _ in entries], head=head)


def _check_order(since: Point, until: Point) -> None:
    same_kind = type(since) is type(until) and since is not None
    if not same_kind:
        return
    begin, end = (to_micros(p) if isinstance(p, str) else p for p in (since, until))
    if begin is not None and end is not None and begin > end:
        raise InvalidRangeError(f"--since {since} is after --until {until}. Swap them.")


def _is_at_or_after(entry: Entry, point: Point) -> bool:
    if isinstance(point, str):
        return entry.time_version >= to_micros(point, up=True)
    return point is None or entry.version >= point


def _is_at_or_before(entry: Entry, point: Point) -> bool:
    if isinstance(point, str):
        return entry.time_version <= to_micros(point)
    return point is None or entry.version <= point


def _line(store: Store, entry: Entry) -> list[Any]:
    """Return one line of the log. It needs no records of files, of which there may be many."""
    sums = change_sums(store, entry)
    changed = f"+{sums.rows} -{sums.deleted}" if sums.deleted else f"+{sums.rows}"
    head = [entry.version, show_time(entry.timestamp), entry.operation.name]
    files = f"+{sums.files} -{len(entry.remove)}"
    left = entry.totals.rows - entry.totals.deleted
    return [*head, files, changed, f"+{sums.bytes}", left]


@click.command()
@on_table
@click.argument("version", type=STATE)
def show(uri: str, as_json: bool, options: Json, version: Point) -> None:
    """Print the complete log entry of a version, a tag, or a time.

    The output includes the files that the entry removed.
    """
    store = store_at(uri, options)
    number = version if isinstance(version, int) else version_of(open_at(store), version)
    record = whole_entry(store, number)
    if as_json:
        print_document(record)
    else:
        print_entry(record)


def print_entry(record: Json) -> None:
    """Print an entry as text: its operation, read version and files."""
    tables = ("added", "removed", "removed_ids", "deletes", "lineage")
    plain = {k: v for k, v in record.items() if k not in tables}
    flat: Json = {}
    for name, value in plain.items():
        if isinstance(value, dict) and name in ("basis", "totals"):
            flat.update({f"{name}.{key}": inner for key, inner in value.items()})
        elif value not in ({}, None):
            flat[name] = value
    print_pairs(flat)
    for title in ("added", "removed"):
        files = record[title]
        if files:
            click.echo(f"{title} {len(files)} files")
            print_table(FILE_COLUMNS, [[f[c] for c in FILE_COLUMNS] for f in files])
    for title, columns in (("deletes", DELETE_COLUMNS), ("lineage", LINEAGE_COLUMNS)):
        if record.get(title):
            click.echo(title)
            print_table(columns, [[line[c] for c in columns] for line in record[title]])


@click.command()
@on_table
def tags(uri: str, as_json: bool, options: Json) -> None:
    """Print the tags: names of versions that stay readable."""
    rows = records(open_table(uri, options).tags())
    if as_json:
        print_document(rows)
    else:
        names = ("name", "version", "retain_until", "can_be_read")
        print_table(names, [[row[name] for name in names] for row in rows])


@click.command()
@on_table
@click.option("--limit", type=click.IntRange(min=0), help="Print only the newest N versions.")
def history(uri: str, as_json: bool, options: Json, limit: int | None) -> None:
    """Print the commits, newest first, with Delta's column names."""
    rows = records(open_table(uri, options).history(limit))
    for row in rows:
        for name in ("operationParameters", "operationMetrics"):
            row[name] = dict(row[name] or [])
    if as_json:
        print_document(rows)
    else:
        names = ["version", "timestamp", "operation", "operationMetrics"]
        if any(row["userMetadata"] is not None for row in rows):
            names.append("userMetadata")
        for row in rows:
            row["operationMetrics"] = _counted(row["operationMetrics"])
        print_table(names, [[row[name] for name in names] for row in rows])


def _counted(metrics: Mapping[str, str]) -> str:
    """Return the metrics that are not 0, as text that a terminal can fold."""
    return ", ".join(f"{name}={value}" for name, value in metrics.items() if value != "0")
