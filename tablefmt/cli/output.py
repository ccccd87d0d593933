"""Printing: the same records as JSON, or as text for people; and progress bars.

A terminal gets colours and folded cells. A pipe gets neither, and nothing is cut.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import click
import orjson
from rich.cells import cell_len
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table as RichTable
from rich.text import Text

from tablefmt.printable import printable, printable_json, printable_lines

Json = dict[str, Any]

WRONG = 1
"""Exit code when something is wrong, or something that was asked for could not be done."""


def json_text(value: Any, *, indent: bool = False) -> str:
    """JSON in one line, or indented by two; what does not print is an escape (SEC-1)."""
    text = orjson.dumps(value, option=orjson.OPT_INDENT_2 if indent else None).decode()
    return printable_json(text)


def print_document(value: Any) -> None:
    """One JSON document."""
    click.echo(json_text(value, indent=True))


def print_text(text: str) -> None:
    """Lines for people."""
    click.echo(printable_lines(text.splitlines()))


def print_report(report: Any, record: Mapping[str, Any], as_json: bool) -> None:
    """What a piece of work says of itself: its text, or its record."""
    if as_json:
        print_document(record)
    else:
        print_text(str(report))


def exit_unless(ok: bool) -> None:
    """End with WRONG where something was found wrong, or could not be done."""
    if not ok:
        click.get_current_context().exit(WRONG)


def print_lines(values: Iterable[Any]) -> None:
    """One JSON object a line."""
    for value in values:
        click.echo(json_text(value))


def print_pairs(pairs: Mapping[str, Any]) -> None:
    """A name and its value a line."""
    width = max((len(printable(name)) for name in pairs), default=0)
    for name, value in pairs.items():
        click.echo(f"{printable(name).ljust(width)}  {cell(value)}".rstrip())


def print_table(
    columns: Sequence[str], rows: Sequence[Sequence[Any]], *, head: bool = True
) -> None:
    """Rows under column names; numbers to the right."""
    right = [
        any(_is_number(row[at]) for row in rows)
        and all(_is_number(row[at]) or row[at] is None for row in rows)
        for at in range(len(columns))
    ]
    if sys.stdout.isatty():
        if _is_wide(columns, rows):
            _print_records(columns, rows)
        else:
            _print_rich(columns, rows, right, head)
        return
    texts = [[cell(value) for value in row] for row in rows]
    lines = [[printable(name) for name in columns], *texts] if head else texts
    widths = [max((cell_len(line[at]) for line in lines), default=0) for at in range(len(columns))]
    for line in lines:
        parts = [
            " " * (width - cell_len(text)) + text if to_right else _padded(text, width)
            for text, width, to_right in zip(line, widths, right, strict=True)
        ]
        click.echo("  ".join(parts).rstrip())


READABLE = 10
"""Characters of a column, or as many as its values take, below which a table is not readable."""

GAP = 2
"""Characters between two columns."""


def _is_wide(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> bool:
    """Whether the columns, side by side in this terminal, would be too narrow to read."""
    needed = GAP * (len(columns) - 1)
    for at, name in enumerate(columns):
        texts = (printable(name), *(cell(row[at]) for row in rows))
        needed += min(READABLE, max(map(cell_len, texts)))
    return needed > Console(file=sys.stdout).width


def _print_records(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Each row as a block, a column a line."""
    for number, row in enumerate(rows, 1):
        click.echo(f"-- row {number} of {len(rows)}")
        print_pairs(dict(zip(columns, row, strict=True)))
    if not rows:
        click.echo(f"no rows; the columns are {', '.join(map(printable, columns))}")


def _print_rich(
    columns: Sequence[str], rows: Sequence[Sequence[Any]], right: Sequence[bool], head: bool
) -> None:
    table = RichTable(box=None, pad_edge=False, show_header=head)
    for name, to_right in zip(columns, right, strict=True):
        table.add_column(
            Text(printable(name)), justify="right" if to_right else "left", overflow="fold"
        )
    for row in rows:
        table.add_row(*(Text(cell(value)) for value in row))
    Console(file=sys.stdout).print(table)


def _padded(text: str, width: int) -> str:
    return text + " " * (width - cell_len(text))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def cell(value: Any) -> str:
    """A value for people. What would move the cursor, or could be taken for nothing, is quoted."""
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        plain = value.isprintable() and value == value.strip() and value not in ("", "NULL")
        return value if plain else json_text(value)
    if isinstance(value, dict | list):
        return json_text(value)
    return str(value)


@contextmanager
def progress(title: str) -> Iterator[Callable[[int, int], None] | None]:
    """A callback that takes done and total, shown as a bar on stderr; None without a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(title, total=None)

        def show(done: int, total: int) -> None:
            bar.update(task, completed=done, total=total)

        yield show


@contextmanager
def status() -> Iterator[Callable[[str], None] | None]:
    """A callback that takes what is being done, shown on stderr; None without a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    with Console(stderr=True).status("") as line:
        yield line.update
