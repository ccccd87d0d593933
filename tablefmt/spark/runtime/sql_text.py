"""The gate for SQL text that this package gives to Spark's parser. Spec: SEC-4.

The parser of a session puts settings and environment variables in place of `${…}`, in names and
literals too, before it reads a text. Names, values and conditions of a log stand in our texts, and
conditions of callers mean the same with and without Spark. So nothing is put in place here.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from tablefmt.errors import UnsupportedFeatureError
from tablefmt.spark.pyspark_objects import Functions, active_jvm, column_from, functions_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_OPENING = "${"
_NAME = re.compile(r"(`(?:[^`]|``)+`)(?: AS `((?:[^`]|``)+)`)?")
"""A column, with another name or not: Spark Connect takes these without its parser."""

_FEATURE = "spark:variables"


def parsed(functions: Functions, text: str) -> Column:
    """Return SQL text as a Column.

    Args:
        functions: Spark's, for the kind of session.
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
    jvm = active_jvm()
    expression = parser_of(jvm).parseExpression(text)
    return column_from(jvm.org.apache.spark.sql.classic.ExpressionUtils.column(expression))


def selected(frame: DataFrame, *texts: str) -> DataFrame:
    """Return what SQL texts give for each row, as `DataFrame.selectExpr`. Raises as `parsed`."""
    if not any(_OPENING in text for text in texts):
        return frame.selectExpr(*texts)
    functions = functions_of(frame)
    return frame.select(*(parsed(functions, text) for text in texts))


def parser_of(jvm: Any) -> Any:
    """Return the JVM's parser that puts nothing in place of `${…}`, under the thread's settings."""
    parser = getattr(jvm.org.apache.spark.sql.catalyst.parser, "CatalystSqlParser$")
    return getattr(parser, "MODULE$")


def _check_connect(text: str) -> None:
    """Let text through if the server leaves it as it is."""
    from pyspark.sql.connect.session import SparkSession

    spark = SparkSession.getActiveSession()
    if spark is not None and spark.conf.get("spark.sql.variable.substitute", "true") == "false":
        return
    raise UnsupportedFeatureError(
        f"{text[:200]!r} has `${{`, and a Spark Connect server would put a setting in its place; "
        "set spark.sql.variable.substitute to false in this session, or use a classic one",
        [_FEATURE],
    )
