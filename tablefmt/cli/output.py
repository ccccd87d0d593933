"""Output: Arrow values and records as exact JSON or as text, and progress bars.

A terminal gets colours and folded cells. A pipe gets neither, and no cell is cut. In JSON, integers
and booleans stay as they are. Times become ISO text with µs, with Z for a timestamp with a zone.
Decimals become text, bytes base64, NaN and infinities text, and maps lists of pairs.
"""

from __future__ import annotations

import base64
import math
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Any

import click
import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
from rich.cells import cell_len
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table as RichTable
from rich.text import Text

from tablefmt.printable import printable, printable_json, printable_lines


def plain(array: pa.Array) -> list[Any]:
    """Return the elements of `array`, nulls as None."""
    kind = array.type
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        return _times(array, "Z" if getattr(kind, "tz", None) else "")
    if pa.types.is_struct(kind):
        return _structs(array)
    if pa.types.is_map(kind):
        pairs = list(map(list, zip(plain(array.keys), plain(array.items), strict=True)))
        return _slices(array, pairs)
    if pa.types.is_list(kind):
        return _slices(array, plain(array.values))
    values: list[Any] = array.to_pylist()
    if pa.types.is_floating(kind):
        return [_float(value) for value in values]
    if pa.types.is_decimal(kind):
        return [None if value is None else format(value, "f") for value in values]
    if pa.types.is_binary(kind):
        return [None if v is None else base64.b64encode(v).decode("ascii") for v in values]
    return values


def records(table: pa.Table | pa.RecordBatch) -> list[dict[str, Any]]:
    """Return the rows as dicts, columns in order. Of two columns with one name, the last one
    counts.
    """
    columns = [plain_column(column) for column in table.columns]
    names = table.schema.names
    if not columns:
        return [{} for _ in range(table.num_rows)]
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def plain_column(column: pa.ChunkedArray | pa.Array) -> list[Any]:
    """Return `plain` of all chunks."""
    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    return [value for chunk in chunks for value in plain(chunk)]


def _times(array: pa.Array, suffix: str) -> list[Any]:
    """Format times with numpy: Python's datetime ends at year 9999, Spark's does not."""
    unit = "D" if pa.types.is_date32(array.type) else "us"
    if unit == "D":
        whole = pc.fill_null(array.view(pa.int32()), 0).cast(pa.int64())
    else:
        whole = pc.fill_null(array.cast(pa.timestamp("us", array.type.tz)).view(pa.int64()), 0)
    texts = np.datetime_as_string(whole.to_numpy(zero_copy_only=False).view(f"M8[{unit}]"))
    valid = array.is_valid().to_pylist()
    return [str(t) + suffix if known else None for t, known in zip(texts, valid, strict=True)]


def _structs(array: pa.StructArray) -> list[Any]:
    names = [array.type.field(i).name for i in range(array.type.num_fields)]
    columns = [plain(column) for column in array.flatten()]
    valid = array.is_valid().to_pylist()
    return [
        {name: column[at] for name, column in zip(names, columns, strict=True)} if known else None
        for at, known in enumerate(valid)
    ]


def _slices(array: pa.ListArray | pa.MapArray, elements: list[Any]) -> list[Any]:
    offsets, valid = array.offsets.to_pylist(), array.is_valid().to_pylist()
    return [
        elements[offsets[at] : offsets[at + 1]] if known else None for at, known in enumerate(valid)
    ]


def _float(value: float | None) -> Any:
    if value is None or math.isfinite(value):
        return value
    if math.isnan(value):
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"


Json = dict[str, Any]

WRONG = 1
"""Exit code for a problem that was found, or a request that failed."""


def json_text(value: Any, *, indent: bool = False) -> str:
    """Return JSON in one line, or indented by two. Unprintable characters are escaped (SEC-1)."""
    body = orjson.dumps(value, option=orjson.OPT_INDENT_2 if indent else None)
    # Of ASCII, serialized JSON has no character that does not print, except DEL.
    is_printable = body.isascii() and b"\x7f" not in body
    return body.decode() if is_printable else printable_json(body.decode())


def print_document(value: Any) -> None:
    """Print one JSON document."""
    click.echo(json_text(value, indent=True))


def print_text(text: str) -> None:
    """Print text, with unprintable characters escaped, except for ends of lines."""
    print_own_lines(text.splitlines())


def print_own_lines(lines: Iterable[str]) -> None:
    """Print lines, with unprintable characters escaped: no part of a line starts another."""
    click.echo(printable_lines(lines))


def print_report(report: Any, record: Mapping[str, Any], as_json: bool) -> None:
    """Print a report as text, or its record as JSON."""
    if as_json:
        print_document(record)
    else:
        # A report writes its lines itself. Other text is one line.
        lines = [report] if isinstance(report, str) else str(report).splitlines()
        print_own_lines(lines)


def exit_unless(ok: bool) -> None:
    """Exit with WRONG if `ok` is false."""
    if not ok:
        click.get_current_context().exit(WRONG)


def print_lines(values: Iterable[Any]) -> None:
    """Print one JSON object a line. If reading a value raises, print those before it."""
    waiting: list[str] = []
    size = 0
    try:
        for value in values:
            waiting.append(json_text(value))
            size += len(waiting[-1])
            if size >= CHARACTERS_AT_ONCE:
                click.echo("\n".join(waiting))
                waiting, size = [], 0
    finally:
        if waiting:
            click.echo("\n".join(waiting))


CHARACTERS_AT_ONCE = 1 << 18
"""Characters of JSON that are printed together: each call flushes the output."""


READABLE = 50
"""Width of a column in characters that is readable, even if it cuts words such as long paths."""

GAP = 2
"""Characters between two columns."""


def print_pairs(pairs: Mapping[str, Any]) -> None:
    """Print one name and value a line. On a terminal, long values are folded, and mappings expanded
    to one item a line."""
    width = max((_width(printable(name)) for name in pairs), default=0) + GAP
    console = Console(file=sys.stdout) if sys.stdout.isatty() else None
    for name, value in pairs.items():
        lines = [cell(value)]
        if console is not None:
            text, left = Text(_expanded(value)), max(READABLE, console.width - width)
            lines = [line.plain for line in text.wrap(console, left, overflow="fold")]
        for number, line in enumerate(lines):
            head = _padded("" if number else printable(name), width)
            click.echo(f"{head}{line}".rstrip())


def _padded(text: str, width: int) -> str:
    return text + " " * (width - _width(text))


def print_table(
    columns: Sequence[str], rows: Sequence[Sequence[Any]], *, head: bool = True
) -> None:
    """Print rows under column names, with numbers aligned to the right."""
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
    cells = [
        _aligned([*([printable(name)] if head else []), *(cell(row[at]) for row in rows)], to_right)
        for at, (name, to_right) in enumerate(zip(columns, right, strict=True))
    ]
    texts = zip(*cells, strict=True) if cells else (() for _ in range(len(rows) + head))
    shown = ((" " * GAP).join(line).rstrip() for line in texts)
    # Each call flushes the output, so lines go out together.
    while some := list(islice(shown, LINES_AT_ONCE)):
        click.echo("\n".join(some))


LINES_AT_ONCE = 500


def _width(text: str) -> int:
    """Return the columns that a text takes. Almost every text is ASCII, with one for each."""
    return len(text) if text.isascii() else cell_len(text)


def _aligned(texts: list[str], to_right: bool) -> list[str]:
    """Return the texts of a column, all of one width."""
    if all(map(str.isascii, texts)):
        width = max(map(len, texts), default=0)
        return [text.rjust(width) if to_right else text.ljust(width) for text in texts]
    width = max(map(_width, texts))
    return [
        " " * (width - _width(text)) + text if to_right else _padded(text, width) for text in texts
    ]


def _expanded(value: Any) -> str:
    """Return a value as text. A mapping or a list of mappings has a line for each item."""
    if isinstance(value, dict) and value:
        return "\n".join(f"{printable(name)} = {cell(item)}" for name, item in value.items())
    if isinstance(value, list) and value and all(isinstance(item, dict) for item in value):
        return "\n".join(map(_expanded, value))
    return cell(value)


def _is_wide(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> bool:
    """Return whether the columns, side by side in this terminal, would be too narrow to read.

    A cell is folded between words.
    """
    needed = GAP * (len(columns) - 1)
    for at, name in enumerate(columns):
        words = (printable(name), *(word for row in rows for word in cell(row[at]).split()))
        needed += min(READABLE, max(map(_width, words)))
    return needed > Console(file=sys.stdout).width


def _print_records(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Print each row as a block with one column a line."""
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


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def cell(value: Any) -> str:
    """Return a value as text.

    Text with control characters, or that looks empty or NULL, is quoted.
    """
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
    """Yield a callback for done and total that shows a bar on stderr; None without a terminal."""
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
    """Yield a callback that shows the current task on stderr; None without a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    with Console(stderr=True).status("") as line:
        yield line.update
