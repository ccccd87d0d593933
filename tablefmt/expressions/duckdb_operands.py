"""How functions and operators of Spark read their operands and refuse what is not theirs. Pure."""

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
"""Reads an operand."""

Write = Callable[[Any, Read], Typed]
"""Makes the text of one construct, by what reads its operands."""

UNKNOWN = Typed("CAST(NULL AS BOOLEAN)", BOOLEAN, arrow=null_of(BOOLEAN))
"""NULL as a truth value."""


def shown(node: exp.Expression) -> str:
    """The construct in Spark's dialect, for people."""
    return str(node.sql("spark"))[:200]


def refused(node: exp.Expression, why: str, feature: str) -> UnsupportedFeatureError:
    """What cannot be carried out exactly; with Spark it is."""
    return UnsupportedFeatureError(
        f"{shown(node)}: {why} is not carried out here; with Spark it is", [f"sql:{feature}"]
    )


def unknown_function(node: exp.Expression, name: str) -> UnsupportedFeatureError:
    """The error of a function that has no text here; with the name that may have been meant."""
    near = None if name in PURE_FUNCTIONS else near_name(name, PURE_FUNCTIONS)
    if near is None:
        return refused(node, f"function {name}", name)
    return UnsupportedFeatureError(
        f"{shown(node)}: there is no function {name} here; did you mean {near}? With Spark a "
        "session may have one",
        [f"sql:{name}"],
    )


def not_carried_out(node: exp.Expression) -> UnsupportedFeatureError:
    """The error of a construct that has no text here, by what its value depends on."""
    kind = kind_of(node)
    if kind is Kind.SUBQUERY:
        return UnsupportedFeatureError(
            f"{shown(node)}: sub-queries are not carried out here; compute their rows first",
            ["sql:subquery"],
        )
    if kind is Kind.CHANCE:
        return UnsupportedFeatureError(
            f"{shown(node)} gives another value each time", ["sql:non-deterministic"]
        )
    if kind is Kind.SEVERAL_ROWS:
        return UnsupportedFeatureError(f"{shown(node)} needs several rows", ["sql:aggregate"])
    name = str(node.this).lower() if isinstance(node, exp.Anonymous) else node.key
    return UnsupportedFeatureError(
        f"{shown(node)} ({name}) is not carried out here; with Spark it is", [f"sql:{name}"]
    )


def text_literal(value: str) -> str:
    """A text as DuckDB reads it. Raises UnsupportedFeatureError for one with a NUL."""
    if "\0" in value:
        raise UnsupportedFeatureError("a text with a NUL", ["sql:nul"])
    return "'" + value.replace("'", "''") + "'"


def truth(node: exp.Expression, read: Read) -> Typed:
    """A truth value. Raises InvalidPredicateError for anything else."""
    value = read(node)
    if value.type not in (None, BOOLEAN):
        raise InvalidPredicateError(f"{shown(node)} is {value.type}, not a condition")
    return value if value.type is not None else UNKNOWN


def texts(node: exp.Expression, read: Read, *parts: Any) -> list[str]:
    """Operands that have to be texts, or NULL."""
    values = [read(part) for part in parts]
    for value in values:
        if value.type is not None and value.type != STRING:
            raise refused(node, f"{value.type} as a text", "text")
    return [value.sql if value.type else "CAST(NULL AS VARCHAR)" for value in values]


def small(node: Any) -> int | None:
    """A whole number written out, at most the largest INT; None if it is none."""
    if isinstance(node, exp.Literal) and not node.is_string and node.this.isdecimal():
        return min(int(node.this), 2**31 - 1)
    return None
