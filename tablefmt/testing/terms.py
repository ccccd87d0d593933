"""Conditions and values in two forms: SQL text, and their meaning in plain Python.

A term refers to a row of the table, named `t`, and to a row of a source, named `s`. NULL is None,
and conditions have SQL's three truth values.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

Values = dict[str, Any]
"""A row by column name."""


@dataclass(frozen=True)
class Term:
    """SQL text, and its value for a row of the table and a row of the source."""

    sql: str
    of: Callable[[Values, Values], Any]
    arrow: Any = None
    """The same as a pyarrow expression, if there is one."""


def quoted(name: str, alias: str = "") -> str:
    """Quote a name in SQL, whatever characters it has."""
    return (alias + "." if alias else "") + "`" + name.replace("`", "``") + "`"


def literal(value: Any) -> str:
    """Return a value in SQL: text, number or NULL."""
    if value is None:
        return "NULL"
    if isinstance(value, str):
        return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
    return f"{value}D" if isinstance(value, float) else str(value)


def column(name: str, alias: str = "") -> Term:
    """Return a column of the table, or of the source with the alias `s`."""
    if alias == "s":
        return Term(quoted(name, alias), lambda t, s: s[name])
    return Term(quoted(name, alias), lambda t, s: t[name])


def constant(value: Any) -> Term:
    """Return a literal."""
    return Term(literal(value), lambda t, s: value)


_TESTS: dict[str, Callable[[Any, Any], bool]] = {
    "=": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<>": lambda a, b: a != b,
    "<": lambda a, b: _key(a) < _key(b),
    ">": lambda a, b: _key(a) > _key(b),
    ">=": lambda a, b: _key(a) >= _key(b),
}
OPERATORS = ("=", "<>", "<", ">=", "<=>")


def _key(value: Any) -> tuple[bool, Any]:
    """Return a sort key in which NaN is above every number."""
    is_nan = isinstance(value, float) and math.isnan(value)
    return is_nan, 0.0 if is_nan else value


def compared(one: Term, operator: str, two: Term) -> Term:
    """Return `one operator two`."""

    def value(t: Values, s: Values) -> bool | None:
        a, b = one.of(t, s), two.of(t, s)
        if operator == "<=>":
            return bool(a == b)
        return None if a is None or b is None else _TESTS[operator](a, b)

    return Term(f"{one.sql} {operator} {two.sql}", value)


def is_null(one: Term) -> Term:
    """Return IS NULL."""
    return Term(f"{one.sql} IS NULL", lambda t, s: one.of(t, s) is None)


def is_in(one: Term, several: Sequence[Any]) -> Term:
    """Return IN with a list of literals."""

    def value(t: Values, s: Values) -> bool | None:
        left = one.of(t, s)
        if left is None:
            return None
        return True if left in several else (None if None in several else False)

    return Term(f"{one.sql} IN ({', '.join(map(literal, several))})", value)


def both(one: Term, two: Term) -> Term:
    """Return AND."""

    def value(t: Values, s: Values) -> bool | None:
        parts = (one.of(t, s), two.of(t, s))
        return False if False in parts else (None if None in parts else True)

    return Term(f"({one.sql}) AND ({two.sql})", value)


def either(one: Term, two: Term) -> Term:
    """Return OR."""

    def value(t: Values, s: Values) -> bool | None:
        parts = (one.of(t, s), two.of(t, s))
        return True if True in parts else (None if None in parts else False)

    return Term(f"({one.sql}) OR ({two.sql})", value)


def opposite(one: Term) -> Term:
    """Return NOT."""

    def value(t: Values, s: Values) -> bool | None:
        known = one.of(t, s)
        return None if known is None else not known

    return Term(f"NOT ({one.sql})", value)


def plus(one: Term, two: Term) -> Term:
    """Return the sum of numbers."""

    def value(t: Values, s: Values) -> Any:
        a, b = one.of(t, s), two.of(t, s)
        return None if a is None or b is None else a + b

    return Term(f"{one.sql} + {two.sql}", value)
