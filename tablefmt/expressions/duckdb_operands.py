"""Operands of translated functions and operators: how to read them, and errors for others. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlglot import exp

from tablefmt.errors import InvalidPredicateError, UnsupportedFeatureError
from tablefmt.expressions.analysis import Kind, kind_of
from tablefmt.expressions.arrow_values import null_of
from tablefmt.expressions.duckdb_types import BOOLEAN, STRING, Typed
from tablefmt.expressions.functions import PURE_FUNCTIONS
from tablefmt.model.near_names import near_name

Read = Callable[[Any], Typed]
"""Function that translates an operand."""

Write = Callable[[Any, Read], Typed]
"""Function that translates one construct, with a function for its operands."""

UNKNOWN = Typed("CAST(NULL AS BOOLEAN)", BOOLEAN, arrow=null_of(BOOLEAN))
"""NULL as a truth value."""


def shown(node: exp.Expression) -> str:
    """Return the construct in Spark's dialect, for people."""
    return str(node.sql("spark"))[:200]


def refused(node: exp.Expression, why: str, feature: str) -> UnsupportedFeatureError:
    """Return the error for an expression that cannot be evaluated exactly. Spark can evaluate
    it.
    """
    return UnsupportedFeatureError(
        f"{shown(node)}: {why} is not supported here; run it on Spark", [f"sql:{feature}"]
    )


def unknown_function(node: exp.Expression, name: str) -> UnsupportedFeatureError:
    """Return the error for an unknown function, with a suggestion for a misspelled name."""
    near = None if name in PURE_FUNCTIONS else near_name(name, PURE_FUNCTIONS)
    if near is None:
        return refused(node, f"function {name}", name)
    return UnsupportedFeatureError(
        f"{shown(node)}: there is no function {name} here; did you mean {near}? A Spark session "
        "may have registered it",
        [f"sql:{name}"],
    )


def not_carried_out(node: exp.Expression) -> UnsupportedFeatureError:
    """Return the error for an unsupported construct, by the dependency of its value."""
    kind = kind_of(node)
    if kind is Kind.SUBQUERY:
        return UnsupportedFeatureError(
            f"{shown(node)}: sub-queries are not supported here; compute their rows first",
            ["sql:subquery"],
        )
    if kind is Kind.CHANCE:
        return UnsupportedFeatureError(
            f"{shown(node)} returns a different value each time", ["sql:non-deterministic"]
        )
    if kind is Kind.SEVERAL_ROWS:
        return UnsupportedFeatureError(f"{shown(node)} needs several rows", ["sql:aggregate"])
    name = str(node.this).lower() if isinstance(node, exp.Anonymous) else node.key
    return UnsupportedFeatureError(
        f"{shown(node)} ({name}) is not supported here; run it on Spark", [f"sql:{name}"]
    )


def text_literal(value: str) -> str:
    """Return a text as a DuckDB literal. Raises UnsupportedFeatureError for a text with a NUL."""
    if "\0" in value:
        raise UnsupportedFeatureError("a text with a NUL", ["sql:nul"])
    return "'" + value.replace("'", "''") + "'"


def truth(node: exp.Expression, read: Read) -> Typed:
    """Return a truth value. Raises InvalidPredicateError for any other type."""
    value = read(node)
    if value.type not in (None, BOOLEAN):
        raise InvalidPredicateError(f"{shown(node)} is {value.type}, not a condition")
    return value if value.type is not None else UNKNOWN


def texts(node: exp.Expression, read: Read, *parts: Any) -> list[str]:
    """Return operands that must be texts or NULL."""
    values = [read(part) for part in parts]
    for value in values:
        if value.type is not None and value.type != STRING:
            raise refused(node, f"{value.type} as a text", "text")
    return [value.sql if value.type else "CAST(NULL AS VARCHAR)" for value in values]


def small(node: Any) -> int | None:
    """Return a literal whole number, at most the largest INT; None for any other operand."""
    if isinstance(node, exp.Literal) and not node.is_string and node.this.isdecimal():
        return min(int(node.this), 2**31 - 1)
    return None
