"""Parse SQL text without variable substitution. Spec: SEC-4.

A session's parser replaces `${…}` by settings and environment variables before it parses a text,
also in names and literals. SQL text of tablefmt contains names, values and conditions from the log,
and a caller's condition must mean the same with and without Spark. So variables are never replaced.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tablefmt.errors import UnsupportedFeatureError
from tablefmt.spark.pyspark_objects import (
    Functions,
    JavaObject,
    column_from,
    functions_of,
    java_class,
)

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_OPENING = "${"
_NAME = re.compile(r"(`(?:[^`]|``)+`)(?: AS `((?:[^`]|``)+)`)?")
"""A column, perhaps with an alias. Spark Connect takes these without its parser."""

_FEATURE = "spark:variables"


def parsed(functions: Functions, text: str) -> Column:
    """Return SQL text as a Column.

    Args:
        functions: Spark's functions for the kind of session.
        text: an expression.

    Raises:
        UnsupportedFeatureError: the text has `${`, and the session is one of Spark Connect.
    """
    if _OPENING not in text:
        return functions.expr(text)
    if functions.__name__.startswith("pyspark.sql.connect"):
        name = _NAME.fullmatch(text)
        if name is not None:
            column = functions.col(name[1])
            return column.alias(name[2].replace("``", "`")) if name[2] else column
        _check_connect(text)
        return functions.expr(text)
    return column_of(parser().parseExpression(text))


def selected(frame: DataFrame, *texts: str) -> DataFrame:
    """Return a DataFrame of SQL expressions, as `DataFrame.selectExpr`. Raises as `parsed`."""
    if not any(_OPENING in text for text in texts):
        return frame.selectExpr(*texts)
    functions = functions_of(frame)
    return frame.select(*(parsed(functions, text) for text in texts))


def parser() -> JavaObject:
    """Return the JVM's parser without variable substitution. It uses the thread's settings."""
    return getattr(java_class("org.apache.spark.sql.catalyst.parser.CatalystSqlParser$"), "MODULE$")


def column_of(expression: JavaObject) -> Column:
    """Return a Column of an expression of the JVM."""
    return column_from(
        java_class("org.apache.spark.sql.classic.ExpressionUtils").column(expression)
    )


def _check_connect(text: str) -> None:
    """Check that a Connect session does not replace variables. Raises UnsupportedFeatureError."""
    from pyspark.sql.connect.session import SparkSession

    spark = SparkSession.getActiveSession()
    if spark is not None and spark.conf.get("spark.sql.variable.substitute", "true") == "false":
        return
    raise UnsupportedFeatureError(
        f"{text[:200]!r} has `${{`, and a Spark Connect server would replace it by a setting; set "
        "spark.sql.variable.substitute to false in this session, or use a classic session",
        [_FEATURE],
    )
