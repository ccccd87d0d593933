"""What a struct comes to when parts of it are set, over plain Python values.

Of values alone: which rows a statement changes, and what becomes of a table, is worked out by
`tablefmt.testing.reference_model`, which sets whole columns; `whole_columns` says what to.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tablefmt.testing.reference_model import Term, Values

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


def whole_columns(parts: Mapping[Sequence[str], Term]) -> dict[str, Term]:
    """What the columns that parts of are set come to: a SET as the reference has it."""

    def whole(column: str) -> Term:
        def value(t: Values, s: Values) -> Any:
            values = {path: term.of(t, s) for path, term in parts.items() if path[0] == column}
            return with_parts(t, values)[column]

        return Term(column, value)

    return {column: whole(column) for column in {path[0] for path in parts}}
