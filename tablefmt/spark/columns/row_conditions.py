"""Conditions over rows of a table: Columns for Spark, and their analysis.

Spark evaluates every condition. A condition that tablefmt understands exactly (PRN-3) prunes files
and feeds the conflict rules. Any other condition counts as a read of whole files (CFL-21). The text
of a Column does not depend on the object, so that a retry of the statement is recognized.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, TypeGuard, cast, overload

from tablefmt.errors import InvalidPredicateError, UnsupportedFeatureError
from tablefmt.expressions.expression_analysis import analyze, depends_on_zone
from tablefmt.expressions.filter_tuples import Filters, filters_to_predicate, is_filters
from tablefmt.expressions.predicate import Predicate, all_of, to_sql
from tablefmt.expressions.sql_parser import Relation, check_qualifiers
from tablefmt.expressions.sql_to_predicate import parse_conjuncts, parse_predicate
from tablefmt.model.name_matching import folded
from tablefmt.model.schema import Schema, is_nested
from tablefmt.session.statement_scope import AnalyzedCondition, kept_text
from tablefmt.spark.pyspark_objects import (
    Functions,
    functions_of,
    has_rows,
    java_class,
    java_column,
    java_rows,
)
from tablefmt.spark.runtime.sql_text import column_of, parsed

if TYPE_CHECKING:
    from pyspark.errors import AnalysisException
    from pyspark.sql import Column, DataFrame, SparkSession

_PLACE_IN_MEMORY = re.compile(r"@[0-9a-f]+\b")
_VARIABLE = re.compile(r"\b([xyz])_[0-9]+\b")
"""Lambda variables in PySpark's text, which it numbers across the whole process."""


def text_of(column: Column, names: Collection[str]) -> str:
    """Return a Column as text, for messages and for the digest of a statement (CFL-23).

    Args:
        column: of a classic or a Connect session. A Column with its own seed, such as `rand()`,
            differs each time.
        names: the table's columns. A lambda variable with one of these names is not renamed.
    """
    text = _plain(column)
    if "->" not in text and "lambdafunction(" not in folded(text):
        return text
    seen = {folded(name) for name in names}
    numbers: dict[str, int] = {}

    def renamed(match: re.Match[str]) -> str:
        if match[0] in seen:
            return match[0]
        return f"<{match[1]}{numbers.setdefault(match[0], len(numbers) + 1)}>"

    return _VARIABLE.sub(renamed, text)


def _plain(column: Column) -> str:
    text = str(column).removeprefix("Column<'").removesuffix("'>")
    java = java_column(column)
    if java is None or _PLACE_IN_MEMORY.search(text) is None:
        return text
    from py4j.protocol import Py4JError

    # Spark shows bytes and Python functions by their address. Its SQL shows their content.
    converter = java_class("org.apache.spark.sql.classic.ColumnNodeToExpressionConverter$")
    try:
        return str(getattr(converter, "MODULE$").apply(java.node()).sql())
    except Py4JError:
        return text


_NONDETERMINISTIC = "AGGREGATE_FUNCTION_WITH_NONDETERMINISTIC_EXPRESSION"

_SEVERAL_ROWS = frozenset(
    {
        "NESTED_AGGREGATE_FUNCTION",
        "_LEGACY_ERROR_TEMP_1031",  # a window inside an aggregate; Spark has no other name for it
        "UNSUPPORTED_GENERATOR",
        "UNSUPPORTED_GROUPING_EXPRESSION",
    }
)
"""First parts of the conditions of Spark's errors."""


def as_column(functions: Functions, given: str | Column) -> Column:
    """Return a Column of SQL text or of a Column.

    Args:
        functions: Spark's functions for the kind of session.
        given: the caller's argument.

    Raises:
        InvalidPredicateError: it is neither.
    """
    from pyspark.sql import Column

    if isinstance(given, str):
        return parsed(functions, given)
    if not isinstance(given, Column):
        raise InvalidPredicateError(f"expected SQL text or a Column, got {given!r:.100}")
    return given


def is_plain(given: str | Column | None) -> bool:
    """Return whether an expression certainly depends on one row only, deterministically.

    False for a Column, and for text with function calls or queries: the session may have replaced
    Spark's functions, so only Spark can tell.
    """
    if not isinstance(given, str):
        return given is None
    analysis = analyze(given)
    return analysis.is_plain and not analysis.calls


@overload
def without_filters(where: str | Filters, schema: Schema) -> str: ...


@overload
def without_filters(where: str | Filters | Column, schema: Schema) -> str | Column: ...


@overload
def without_filters(
    where: str | Filters | Column | None, schema: Schema
) -> str | Column | None: ...


def without_filters(where: str | Filters | Column | None, schema: Schema) -> str | Column | None:
    """Return the condition with filter tuples as SQL text, which no time zone of a session affects.

    Raises:
        InvalidPredicateError, UnsupportedFeatureError: as `filters_to_predicate`.
    """
    if is_filters(where):
        return to_sql(filters_to_predicate(where, schema))
    if where is None or isinstance(where, str) or _is_column(where):
        return where
    raise InvalidPredicateError(
        f"where is {where!r:.100}: expected SQL text, filter tuples like "
        f'[("id", ">", 1)] or a Column, got {type(where).__name__}'
    )


def text_condition(where: str | Filters | Column | None, schema: Schema) -> str:
    """Return the condition as SQL text. `where` must not be None.

    Raises:
        InvalidPredicateError: a Column, or no condition. Other errors as `without_filters`.
    """
    text = without_filters(where, schema)
    if not isinstance(text, str):
        raise InvalidPredicateError(
            f"where is {where!r:.100}: expected SQL text or filter tuples, got a Column"
        )
    return text


def _is_column(given: object) -> TypeGuard[Column]:
    from pyspark.sql import Column

    return isinstance(given, Column)


def analyzed_text(text: str | None, schema: Schema, zone: str) -> AnalyzedCondition:
    """Return the analysis of a condition over the table, as SQL text.

    Args:
        text: the condition. None: every row.
        schema: the table's schema.
        zone: the session's time zone.

    Raises:
        InvalidPredicateError: a column qualified with another name (SQL-7). Spark raises all
            other errors.
    """
    if text is None:
        return AnalyzedCondition("TRUE", None, None, True)
    check_qualifiers(text, schema)
    try:
        predicate = parse_predicate(text, schema, zone)
    except (InvalidPredicateError, UnsupportedFeatureError):
        known, _ = parse_conjuncts(text, schema, zone)
    else:
        return AnalyzedCondition(to_sql(predicate), predicate, None, True)
    analysis = analyze(text, Relation(schema))
    follows = analysis.follows_from_columns
    return AnalyzedCondition(
        kept_text(text),
        all_of(known) if known else None,
        None,
        False,
        follows_from_columns=follows,
        columns=analysis.columns[0] if follows else None,
    )


def analyzed_parts(
    text: str, parts: Sequence[str], unknown: int, names: Sequence[str] | None, schema: Schema
) -> AnalyzedCondition:
    """Return the analysis of a condition that Spark has resolved.

    Args:
        text: the condition, for messages.
        parts: text of the AND-ed parts over the table alone, with times in UTC.
        unknown: the number of other parts.
        names: columns of the table that determine the condition. None: unknown.
        schema: the table's schema.
    """
    known: list[Predicate] = []
    for part in parts:
        try:
            known.append(parse_predicate(part, schema, "UTC"))
        except (InvalidPredicateError, UnsupportedFeatureError):
            some, _ = parse_conjuncts(part, schema, "UTC")
            known += some
            unknown += 1
    predicate = all_of(known) if known else None
    if unknown == 0 and predicate is not None:
        return AnalyzedCondition(to_sql(predicate), predicate, None, True)
    fields = [schema.find(name) for name in names or ()]
    plain = names is not None and all(f is not None and not is_nested(f.type) for f in fields)
    return AnalyzedCondition(
        kept_text(text),
        predicate,
        None,
        False,
        follows_from_columns=plain,
        columns=frozenset(f.id for f in fields if f is not None) if plain else None,
    )


def non_deterministic(text: str) -> InvalidPredicateError:
    """Return the error for a condition that is not deterministic."""
    return InvalidPredicateError(
        f"the condition {text[:200]} is not deterministic, so its result may differ for the same "
        "row; store such values in a column first"
    )


def check_deterministic(rows: DataFrame, condition: Column, text: str) -> None:
    """Check that a condition is deterministic. Runs no query.

    Args:
        rows: a DataFrame of a classic or a Connect session.
        condition: a Column over it.
        text: the condition, for messages.

    Raises:
        InvalidPredicateError.
    """
    from pyspark.errors import AnalysisException

    try:
        # A client learns it only from Spark's error: an aggregate rejects nondeterministic
        # arguments. Other errors of the condition are raised where it is used.
        rows.agg(functions_of(rows).max(condition)).schema  # noqa: B018
    except AnalysisException as error:
        if _condition(error) == _NONDETERMINISTIC:
            raise non_deterministic(text) from None


def several_rows_error(clause: str, text: str) -> InvalidPredicateError:
    """Return the error for an expression that does not have one value for a single row."""
    return InvalidPredicateError(
        f"{clause}: {text[:200]} uses or returns several rows (a window, an aggregate, a "
        "generator), but it is evaluated for each row alone; use a subquery, or a column of the "
        "source"
    )


def check_by_row(rows: DataFrame, given: Sequence[tuple[str, Column]]) -> None:
    """Check that expressions have one value for a single row. Runs no query.

    Args:
        rows: a DataFrame of a classic or a Connect session.
        given: clauses of a statement, as text for messages, with their Columns over `rows`.

    Raises:
        InvalidPredicateError: names the clause.
    """
    from pyspark.errors import AnalysisException

    count = functions_of(rows).count
    try:
        # As in `check_deterministic`: Spark rejects all of these inside an aggregate.
        rows.agg(*(count(column) for _, column in given)).schema  # noqa: B018
    except AnalysisException as error:
        if len(given) == 1:
            if _condition(error) in _SEVERAL_ROWS:
                raise several_rows_error(given[0][0], text_of(given[0][1], rows.columns)) from None
            return
        for each in given:
            check_by_row(rows, [each])


def _condition(error: AnalysisException) -> str:
    """Return the main condition of Spark's error, without its subcondition."""
    return (error.getCondition() or "").partition(".")[0]


def bound(rows: DataFrame, column: Column) -> Column:
    """Return an expression that resolves columns in `rows` only, wherever it is used later.

    A Connect session only checks that the expression needs no other columns.

    Raises: AnalysisException.
    """
    chosen = rows.select(column.alias("bound"))
    if not has_rows(chosen):
        chosen.schema  # noqa: B018
        return column
    expression = java_rows(chosen).queryExecution().analyzed().projectList().apply(0).child()
    return column_of(expression)


def check_zoned(text: str, schema: Schema) -> None:
    """Check that a condition does not depend on the time zone. Spec: SQL-4.

    Raises:
        UnsupportedFeatureError: it does. InvalidPredicateError: as `parse_predicate`.
    """
    if depends_on_zone(text, schema):
        raise UnsupportedFeatureError(
            f"the condition {text[:200]} has a time without a zone, and Spark does not pass the "
            "session's time zone here; write the zone (TIMESTAMP '2024-01-31 12:00:00Z'), or use "
            "tablefmt.spark.write",
            ["condition:zone"],
        )


def session_zone(spark: SparkSession) -> str:
    """Return the time zone in which a session reads times without one. Spec: SQL-4."""
    # PySpark's type allows None, which only a default may be.
    return cast("str", spark.conf.get("spark.sql.session.timeZone"))
