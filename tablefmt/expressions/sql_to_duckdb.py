"""Expressions of UPDATE, MERGE and conditions, from Spark's dialect to DuckDB's. Pure.

They are typed as in Spark. Supported expressions have exactly the same meaning; all others are
refused by name. Spec: SQL-1, SQL-2.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlglot import exp

from tablefmt.errors import InvalidPredicateError, UnsupportedFeatureError
from tablefmt.expressions import duckdb_types
from tablefmt.expressions.arrow_values import ColumnValue, ConstantValue, Value
from tablefmt.expressions.duckdb_functions import FUNCTIONS
from tablefmt.expressions.duckdb_operators import (
    CONDITIONS,
    UNKNOWN,
    negated,
    not_carried_out,
    shown,
    text_literal,
)
from tablefmt.expressions.duckdb_types import BOOLEAN, DATE, STRING, TIMESTAMP, Typed
from tablefmt.expressions.expression_analysis import Kind, kind_of
from tablefmt.expressions.sql_parser import (
    Relation,
    Resolved,
    function_named,
    no_column,
    parse_tree,
    resolve,
)
from tablefmt.model.name_matching import folded, there_are
from tablefmt.model.schema import Primitive, Struct, Type


@dataclass(frozen=True, slots=True)
class Translated:
    """Expression for DuckDB."""

    sql: str
    type: Type | None
    """Spark type; None: NULL."""
    columns: frozenset[str]
    """Handles of the columns that it uses."""
    column: str | None = None
    """Handle, if it is a plain column."""
    arrow: Value | None = None
    """Arrow form of the same expression, if Arrow's functions suffice."""


@dataclass(slots=True)
class Scope:
    """Meaning of names in an expression."""

    relations: tuple[Relation, ...]
    now_us: int = 0
    """Statement time, µs UTC."""
    used: set[str] = field(default_factory=set)
    written: int = 0
    """Characters of DuckDB text written so far, with those of parts of it."""


SQL_MAX = 1 << 19
"""Most characters of DuckDB text of an expression. A text uses an operand several times, so nested
functions multiply its length, and DuckDB takes about 1 KB of memory for each character.
"""
_WRITTEN_MAX = 64 * SQL_MAX


def translate(text: str, relations: tuple[Relation, ...], now_us: int = 0) -> Translated:
    """Return an expression over the columns of relations.

    Raises:
        InvalidPredicateError: it cannot be parsed, names an unknown or ambiguous column, or Spark
            refuses its types.
        UnsupportedFeatureError: it cannot be evaluated exactly; `features` names the construct.
    """
    if not isinstance(text, str):
        try:
            said = f"{text!r:.100}"
        except OverflowError:
            # Python cannot print Arrow's dates beyond the year 9999.
            said = "the value"
        raise InvalidPredicateError(
            f"{said} is not an expression: expected SQL text, got {type(text).__name__}"
        )
    return translate_tree(parse_tree(text), relations, now_us)


def translate_tree(
    tree: exp.Expression, relations: tuple[Relation, ...], now_us: int = 0
) -> Translated:
    """Return an expression from a tree of `parse_tree`, or from a part of it."""
    scope = Scope(relations, now_us)
    try:
        expression = _read(tree, scope)
    except RecursionError:
        raise InvalidPredicateError("the expression nests too deeply") from None
    while isinstance(tree, exp.Paren):
        tree = tree.this
    whole = (
        expression.sql if isinstance(tree, exp.Column) and expression.sql in scope.used else None
    )
    used = frozenset(scope.used)
    return Translated(expression.sql, expression.type, used, whole, expression.arrow)


def translate_condition(text: str, relations: tuple[Relation, ...], now_us: int = 0) -> Translated:
    """Return a truth value. Raises as `translate`, and InvalidPredicateError for any other type."""
    expression = translate(text, relations, now_us)
    if expression.type not in (None, BOOLEAN):
        raise InvalidPredicateError(f"{text[:200]!r} is {expression.type}, not a condition")
    sql = expression.sql if expression.type is not None else UNKNOWN.sql
    return Translated(sql, BOOLEAN, expression.columns, arrow=expression.arrow)


def _read(node: exp.Expression, scope: Scope) -> Typed:
    expression = _made(node, scope)
    scope.written += len(expression.sql)
    if len(expression.sql) > SQL_MAX or scope.written > _WRITTEN_MAX:
        raise UnsupportedFeatureError(
            f"{shown(node)}: the functions nest too deeply here; compute the value in several "
            "steps, or run it on Spark",
            ["sql:size"],
        )
    if not node.args.get("negate"):
        return expression
    return negated(expression)


def _made(node: exp.Expression, scope: Scope) -> Typed:
    reader = _READERS.get(type(node))
    if reader is not None:
        return reader(node, scope)
    if isinstance(node, exp.Anonymous) and str(node.this).lower() == "now":
        return _now(node, scope)
    function = _BY_OPERANDS.get(type(node))
    if function is None or kind_of(node) is Kind.CHANCE:
        raise not_carried_out(node)
    return function(node, lambda operand: _read(operand, scope))


# --- names and constants -------------------------------------------------------------------------


def _ambiguous(node: exp.Column, meanings: Sequence[Resolved]) -> InvalidPredicateError:
    """Return the error for a name with several meanings; it says how to write each of them."""
    said = f"{shown(node)} is ambiguous"
    names = [meaning.relation.alias for meaning in meanings]
    if None in names:
        return InvalidPredicateError(f"{said}: qualify it with the table's name")
    columns = [f"{name}.{shown(node)}" for name in names]
    return InvalidPredicateError(
        f"{said}: write {' or '.join(columns)}, or compare them: {' = '.join(columns)}"
    )


def _column(node: exp.Column, scope: Scope) -> Typed:
    if isinstance(node.this, exp.Star):
        raise not_carried_out(node.this)
    meanings = resolve(node, scope.relations)
    if len(meanings) > 1:
        raise _ambiguous(node, meanings)
    function = None if meanings else function_named(node)
    if function is not None:
        return _read(function, scope)
    if not meanings:
        raise no_column([part.name for part in node.parts], _names(scope))
    relation, at, fields = meanings[0].relation, meanings[0].at, meanings[0].path
    column = relation.schema.fields[at]
    scope.used.add(relation.handle(at))
    handle = relation.handle(at)
    value = Typed(handle, column.type, arrow=ColumnValue(handle))
    for name in fields:
        value = _part(value, name, node, scope)
    return value


def _names(scope: Scope) -> list[str]:
    return [
        name if relation.alias is None else f"{relation.alias}.{name}"
        for relation in scope.relations
        for name in relation.schema.names
    ]


def _part(whole: Typed, name: str, node: exp.Expression, scope: Scope) -> Typed:
    if not isinstance(whole.type, Struct):
        raise UnsupportedFeatureError(
            f"{shown(node)} accesses a part of {whole.type}, which is not supported here",
            ["sql:nested-field"],
        )
    inner = next((f for f in whole.type.fields if folded(f.name) == folded(name)), None)
    if inner is None:
        names = [f.name for f in whole.type.fields]
        raise InvalidPredicateError(f"{shown(node)}: no field {name!r}; {there_are(name, names)}")
    if isinstance(inner.type, Primitive) and inner.type.name == "timestamp":
        raise UnsupportedFeatureError(
            f"{shown(node)} is a timestamp in a struct, which is not supported here",
            ["sql:nested-timestamp"],
        )
    return Typed(f"struct_extract({whole.sql}, {text_literal(inner.name)})", inner.type)


def _dot(node: exp.Dot, scope: Scope) -> Typed:
    return _part(_read(node.this, scope), node.expression.name, node, scope)


def _text(node: exp.Literal | exp.RawString, scope: Scope) -> Typed:
    value = ConstantValue(node.this, STRING)
    return Typed(text_literal(node.this), STRING, text=node.this, arrow=value)


def _literal(node: exp.Literal, scope: Scope) -> Typed:
    if node.is_string:
        return _text(node, scope)
    return duckdb_types.number_literal(node.this)


def _constant(sql: str, kind: Type | None) -> Callable[[Any, Scope], Typed]:
    return lambda node, scope: Typed(sql, kind)


def _boolean(node: exp.Boolean, scope: Scope) -> Typed:
    truth = bool(node.this)
    return Typed("TRUE" if truth else "FALSE", BOOLEAN, arrow=ConstantValue(truth, BOOLEAN))


def _now(node: exp.Expression, scope: Scope) -> Typed:
    return Typed(f"make_timestamp({scope.now_us})", TIMESTAMP)


def _today(node: exp.Expression, scope: Scope) -> Typed:
    return Typed(f"CAST(make_timestamp({scope.now_us}) AS DATE)", DATE)


def _paren(node: exp.Paren, scope: Scope) -> Typed:
    return _read(node.this, scope)


Reader = Callable[[Any, Scope], Typed]

_READERS: dict[type[exp.Expression], Reader] = {
    exp.Column: _column,
    exp.Dot: _dot,
    exp.Literal: _literal,
    exp.RawString: _text,
    exp.Boolean: _boolean,
    exp.Null: _constant("NULL", None),
    exp.CurrentTimestamp: _now,
    exp.CurrentDate: _today,
    exp.Paren: _paren,
}
"""Translators of names and constants."""

_BY_OPERANDS = {**CONDITIONS, **FUNCTIONS}
"""Translators that need only operands."""

assert {kind_of(made()) for made in {*_READERS, *_BY_OPERANDS} - {exp.Anonymous}} == {
    Kind.ROW,
    Kind.CLOCK,
}, "supported expressions depend only on the row and on the statement's time"
