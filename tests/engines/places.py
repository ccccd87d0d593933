"""The golden tables, and a table that was changed in every way, for readers of other engines."""

from __future__ import annotations

import json
import math
import shutil
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa

import tablefmt
from tests.places import GOLDEN

EXPECTED: dict[str, dict[str, Any]] = {
    folder.name: json.loads((folder / "expected.json").read_text(encoding="utf-8"))
    for folder in sorted(GOLDEN.iterdir())
    if folder.is_dir()
}
GOOD = [name for name, expected in EXPECTED.items() if "error" not in expected]
BROKEN = [
    name for name, expected in EXPECTED.items() if "error" in expected and name != "data-page"
]
"""Broken tables, without the one whose damage only a page's checksum shows."""

BEYOND_DUCKDB = {"encodings", "imported", "levels", "names-apart"}
"""Golden tables that DuckDB cannot take: an encoding of files, imported names, deep columns, names
that fold to one by another version of Unicode."""
BEYOND_POLARS = {"encodings"}

ODD = 'od\'d "name" [*]; --'
"""A name for columns and folders."""


def golden(name: str, folder: Path) -> str:
    """A copy of a golden table."""
    shutil.copytree(GOLDEN / name / "table", folder / "table")
    return str(folder / "table")


def changed_table(uri: str, **options: Any) -> tuple[tablefmt.Table, list[dict[str, Any]]]:
    """Return a table with files of two schemas and some deleted rows, and its rows by a model."""
    kinds = f"id BIGINT, n INT, day DATE, `{ODD}` STRING, gone STRING, f DOUBLE, b BINARY"
    nested = "s STRUCT<a: INT, l: ARRAY<STRUCT<x: INT>>>, m MAP<STRING, STRUCT<q: INT>>"
    table = tablefmt.create(uri, f"{kinds}, {nested}", **options)
    ids = range(100)
    old = [
        {
            "id": i,
            "n": i * 2,
            "day": date.fromordinal(719_163 + i),
            ODD: f"t'{i}",
            "gone": "x",
            "f": number(i),
            "b": bytes([i, 0, 255]),
            "s": None if i % 5 == 0 else {"a": i, "l": [{"x": i}, None]},
            "m": [("k", {"q": i})] if i % 3 else [],
        }
        for i in ids
    ]
    table.append(pa.Table.from_pylist(old, schema=table.schema))
    table.delete("id % 10 = 3")
    table.alter.rename_column(ODD, f"{ODD}2")
    table.alter.rename_column("s.l", "list")
    table.alter.rename_column("s.list.element.x", "y")
    table.alter.drop_column("gone")
    table.alter.add_column("gone", "BIGINT", default=7)
    table.alter.widen_column("n", "DECIMAL(20,2)")
    table.alter.widen_column("day", "TIMESTAMP_NTZ")
    table.alter.add_column("m.value.r", "STRING")
    model = [
        {
            "id": i,
            "n": Decimal(i * 2),
            "day": datetime.fromordinal(719_163 + i),
            f"{ODD}2": f"t'{i}",
            "f": number(i),
            "b": bytes([i, 0, 255]),
            "s": None if i % 5 == 0 else {"a": i, "list": [{"y": i}, None]},
            "m": [("k", {"q": i, "r": None})] if i % 3 else [],
            "gone": 7,
        }
        for i in ids
        if i % 10 != 3
    ]
    new = [{**row, "id": 1000 + at, "gone": None} for at, row in enumerate(model[:20])]
    table.append(pa.Table.from_pylist(new, schema=table.schema))
    return table, model + new


def number(i: int) -> float:
    """NaN and the zeros among others."""
    return math.nan if i % 7 == 0 else -0.0 if i % 7 == 1 else i / 4


def plain(rows: pa.Table) -> list[str]:
    """Return the rows as exact text, in the order of the first column."""
    return shown(rows.to_pylist())


def shown(rows: list[dict[str, Any]]) -> list[str]:
    """The same of a model."""
    first = next(iter(rows[0])) if rows else ""
    return [repr(_plain(row)) for row in sorted(rows, key=lambda row: row[first])]


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    if isinstance(value, Decimal):
        return value.normalize()
    if isinstance(value, datetime):
        return value.isoformat()
    return value
