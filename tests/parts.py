"""Values of a struct after its parts are set, over plain Python values.

`tablefmt.testing.reference_model` computes the changed rows and the table. It sets whole columns.
`whole_columns` computes their values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tablefmt.testing.reference_model import Term, Values

Row = dict[str, Any]

DDL = "id BIGINT, v INT, s STRUCT<a: INT, c: STRUCT<d: STRING, e: DATE>, b: STRING>"
SHAPE: dict[str, Any] = {"a": None, "c": {"d": None, "e": None}, "b": None}
"""The fields of `s`, with the fields of nested structs."""


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
    """Return the whole columns whose parts are set, as a SET of the reference model."""

    def whole(column: str) -> Term:
        def value(t: Values, s: Values) -> Any:
            values = {path: term.of(t, s) for path, term in parts.items() if path[0] == column}
            return with_parts(t, values)[column]

        return Term(column, value)

    return {column: whole(column) for column in {path[0] for path in parts}}
