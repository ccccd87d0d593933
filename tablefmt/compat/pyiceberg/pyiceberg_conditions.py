"""Expressions of PyIceberg as conditions of tablefmt.

Users keep their imports from `pyiceberg.expressions`. The objects are read by the names of their
classes, so that PyIceberg is not needed here.
"""

from __future__ import annotations

from typing import Any

from tablefmt.compat.deltalake.deltalake_arguments import sql_of
from tablefmt.compat.standard_sql import is_in, is_nan, spark_condition
from tablefmt.errors import InvalidPredicateError
from tablefmt.expressions.literals import literal_sql
from tablefmt.expressions.predicate import quote_name

COMPARISONS = {
    "EqualTo": "=",
    "NotEqualTo": "<>",
    "LessThan": "<",
    "LessThanOrEqual": "<=",
    "GreaterThan": ">",
    "GreaterThanOrEqual": ">=",
}
"""SQL operators by the class of an expression."""

NULLS = {"IsNull": "{} IS NULL", "NotNull": "{} IS NOT NULL"}
"""SQL of a test by the class of an expression."""


LITERALS = {
    "DateLiteral": "date",
    "TimestampLiteral": "timestamp",
    "BinaryLiteral": "binary",
    "FixedLiteral": "binary",
}
"""Our type by the class of a literal whose value is a number of days or µs, or bytes."""


def where_of(given: Any) -> Any:
    """Return a condition for `Table.scan`: of a text in PyIceberg's grammar, or an expression.

    None selects all rows.

    Raises:
        InvalidPredicateError: an expression that has no counterpart.
    """
    if isinstance(given, str):
        return spark_condition(given)
    if given is None or not _is_expression(given):
        return given
    return None if type(given).__name__ == "AlwaysTrue" else _sql(given)


def _is_expression(given: Any) -> bool:
    return type(given).__module__.startswith("pyiceberg.")


def _sql(given: Any) -> str:
    kind = type(given).__name__
    if kind in ("AlwaysTrue", "AlwaysFalse"):
        return "TRUE" if kind == "AlwaysTrue" else "FALSE"
    if kind in ("And", "Or"):
        return f"({_sql(given.left)} {kind.upper()} {_sql(given.right)})"
    if kind == "Not":
        return f"(NOT {_sql(given.child)})"
    name = getattr(getattr(given, "term", None), "name", None)
    if name is not None:
        column = ".".join(map(quote_name, name.split(".")))
        if kind in COMPARISONS:
            return f"({column} {COMPARISONS[kind]} {_literal(given.literal, name)})"
        if kind in NULLS:
            return f"({NULLS[kind].format(column)})"
        if kind in ("IsNaN", "NotNaN"):
            return is_nan(column, negated=kind == "NotNaN")
        if kind in ("In", "NotIn"):
            values = sorted(_literal(each, name) for each in given.literals)
            return is_in(column, ", ".join(values), negated=kind == "NotIn")
        if kind in ("StartsWith", "NotStartsWith"):
            test = f"startswith({column}, {_literal(given.literal, name)})"
            return test if kind == "StartsWith" else f"(NOT {test})"
    raise InvalidPredicateError(
        f"pyiceberg: the expression {given!r:.200} has no counterpart; use SQL text"
    )


def _literal(given: Any, column: str) -> str:
    value, kind = getattr(given, "value", given), LITERALS.get(type(given).__name__)
    return sql_of(value, column) if kind is None else literal_sql(value, kind)
