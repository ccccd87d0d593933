"""What it comes to when parts of a struct are set, over plain Python values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Row = dict[str, Any]

DDL = "id BIGINT, v INT, s STRUCT<a: INT, c: STRUCT<d: STRING, e: DATE>, b: STRING>"
SHAPE: dict[str, Any] = {"a": None, "c": {"d": None, "e": None}, "b": None}
"""Fields of `s`; of those that are structs, theirs."""


def with_parts(row: Row, values: Mapping[Sequence[str], Any]) -> Row:
    """The row with new values; the first name of a path is the column."""
    new = dict(row)
    for (column, *path), value in values.items():
        new[column] = _put(new[column], path, value, SHAPE) if path else value
    return new


def _put(old: Row | None, path: Sequence[str], value: Any, shape: Mapping[str, Any]) -> Row:
    fields = dict.fromkeys(shape) if old is None else dict(old)
    name, *rest = path
    fields[name] = _put(fields[name], rest, value, shape[name]) if rest else value
    return fields
