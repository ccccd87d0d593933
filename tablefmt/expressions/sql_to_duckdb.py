"""Expressions of UPDATE, MERGE and conditions, from Spark's dialect to DuckDB's. Pure.

Typed as Spark types them; what is understood means exactly the same, all else is refused by name.
Spec: SQL-1, SQL-2.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from sqlglot import exp

from tablefmt.errors import InvalidPredicateError, UnsupportedFeatureError
from tablefmt.expressions import duckdb_types
from tablefmt.expressions.analysis import Kind, kind_of
from tablefmt.expressions.casts import cast_target
from tablefmt.expressions.duckdb_functions import FUNCTIONS
from tablefmt.expressions.duckdb_types import BOOLEAN, DATE, STRING, TIMESTAMP, Typed
from tablefmt.expressions.like_patterns import like_pattern
from tablefmt.expressions.names import Relation, no_column, resolve
from tablefmt.expressions.parse import parse_tree
from tablefmt.model.schema import Primitive, Struct, Type, is_float, is_nested, is_variant


@dataclass(frozen=True, slots=True)
class Translated:
    """An expression for DuckDB."""

    sql: str
    type: Type | None
    """Spark's type; None: NULL."""
    columns: frozenset[str]
    """Handles of the columns it looks at."""
    nested: bool
    """Whether it looks into a nested column: then nothing can be reasoned about it (CFL-21)."""
    column: str | None = None
    """The handle, if it is one column as it stands."""


@dataclass(slots=True)
class Scope:
    """What names mean."""

    relations: tuple[Relation, ...]
    now_us: int = 0
    """The statement's time, µs UTC."""
    used: set[str] = field(default_factory=set)
    nested: bool = False


def translate(text: str, relations: tuple[Relation, ...], now_us: int = 0) -> Translated:
    """An expression over the columns of relations.

    Raises:
        InvalidPredicateError: it cannot be parsed, names what is not there or is there twice, or
            Spark would refuse its types.
        UnsupportedFeatureError: it cannot be carried out exactly; `features` names what.
    """
    if not isinstance(text, str):
        raise InvalidPredicateError(f"{text!r:.100} is no expression; give SQL text")
    return translate_tree(parse_tree(text), relations, now_us)


def translate_tree(
    tree: exp.Expression, relations: tuple[Relation, ...], now_us: int = 0
) -> Translated:
    """The same for what `parse_tree` read, or a part of it."""
    scope = Scope(relations, now_us)
    try:
        made = _read(tree, scope)
    except RecursionError:
        raise InvalidPredicateError("the expression nests too deep") from None
    while isinstance(tree, exp.Paren):
        tree = tree.this
    whole = made.sql if isinstance(tree, exp.Column) and made.sql in scope.used else None
    return Translated(made.sql, made.type, frozenset(scope.used), scope.nested, whole)


def translate_condition(text: str, relations: tuple[Relation, ...], now_us: int = 0) -> Translated:
    """The same for a truth value. Raises InvalidPredicateError for anything else too."""
    made = translate(text, relations, now_us)
    if made.type not in (None, BOOLEAN):
        raise InvalidPredicateError(f"{text[:200]!r} is {made.type}, not a condition")
    sql = made.sql if made.type is not None else "CAST(NULL AS BOOLEAN)"
    return Translated(sql, BOOLEAN, made.columns, made.nested)


def _read(node: exp.Expression, scope: Scope) -> Typed:
    made = _made(node, scope)
    if not node.args.get("negate"):
        return made
    return Typed(f"(NOT {made.sql})", BOOLEAN)


def _made(node: exp.Expression, scope: Scope) -> Typed:
    reader = _READERS.get(type(node))
    if reader is not None:
        return reader(node, scope)
    if isinstance(node, exp.Anonymous) and str(node.this).lower() == "now":
        return _now(node, scope)
    function = FUNCTIONS.get(type(node))
    if function is None or kind_of(node) is Kind.CHANCE:
        raise _refused(node)
    return function(node, lambda operand: _read(operand, scope))


def _said(node: exp.Expression) -> str:
    return str(node.sql("spark"))[:200]


def _refused(node: exp.Expression) -> UnsupportedFeatureError:
    kind = kind_of(node)
    if kind is Kind.SUBQUERY:
        return UnsupportedFeatureError(
            f"{_said(node)}: sub-queries are not carried out here; compute their rows first",
            ["sql:subquery"],
        )
    if kind is Kind.CHANCE:
        return UnsupportedFeatureError(
            f"{_said(node)} gives another value each time", ["sql:non-deterministic"]
        )
    if kind is Kind.SEVERAL_ROWS:
        return UnsupportedFeatureError(f"{_said(node)} needs several rows", ["sql:aggregate"])
    name = str(node.this).lower() if isinstance(node, exp.Anonymous) else node.key
    return UnsupportedFeatureError(
        f"{_said(node)} ({name}) is not carried out here; with Spark it is", [f"sql:{name}"]
    )


# --- names and constants -------------------------------------------------------------------------


def _column(node: exp.Column, scope: Scope) -> Typed:
    if isinstance(node.this, exp.Star):
        raise _refused(node.this)
    found = resolve(node, scope.relations)
    if len(found) > 1:
        raise InvalidPredicateError(f"{_said(node)} is ambiguous: put the table's name before it")
    if not found:
        raise no_column([part.name for part in node.parts], _names(scope))
    relation, at, fields = found[0].relation, found[0].at, found[0].path
    column = relation.schema.fields[at]
    scope.used.add(relation.handle(at))
    made = Typed(relation.handle(at), column.type)
    for name in fields:
        made = _part(made, name, node, scope)
    scope.nested |= is_nested(column.type)
    return made


def _names(scope: Scope) -> list[str]:
    return [
        name if relation.alias is None else f"{relation.alias}.{name}"
        for relation in scope.relations
        for name in relation.schema.names
    ]


def _part(whole: Typed, name: str, node: exp.Expression, scope: Scope) -> Typed:
    if not isinstance(whole.type, Struct):
        raise UnsupportedFeatureError(
            f"{_said(node)} reaches into {whole.type}", ["sql:nested-field"]
        )
    inner = next((f for f in whole.type.fields if f.name.casefold() == name.casefold()), None)
    if inner is None:
        raise InvalidPredicateError(f"{_said(node)}: no field {name!r}")
    if isinstance(inner.type, Primitive) and inner.type.name == "timestamp":
        raise UnsupportedFeatureError(
            f"{_said(node)} is a timestamp in a struct", ["sql:nested-timestamp"]
        )
    scope.nested = True
    return Typed(f"struct_extract({whole.sql}, {_text(inner.name)})", inner.type)


def _dot(node: exp.Dot, scope: Scope) -> Typed:
    return _part(_read(node.this, scope), node.expression.name, node, scope)


def _literal(node: exp.Literal, scope: Scope) -> Typed:
    if node.is_string:
        return Typed(_text(node.this), STRING, text=node.this)
    return duckdb_types.number_literal(node.this)


def _text(value: str) -> str:
    if "\0" in value:
        raise UnsupportedFeatureError("a text with a NUL", ["sql:nul"])
    return "'" + value.replace("'", "''") + "'"


def _constant(sql: str, kind: Type | None) -> Callable[[Any, Scope], Typed]:
    return lambda node, scope: Typed(sql, kind)


def _boolean(node: exp.Boolean, scope: Scope) -> Typed:
    return Typed("TRUE" if node.this else "FALSE", BOOLEAN)


def _now(node: exp.Expression, scope: Scope) -> Typed:
    return Typed(f"make_timestamp({scope.now_us})", TIMESTAMP)


def _today(node: exp.Expression, scope: Scope) -> Typed:
    return Typed(f"CAST(make_timestamp({scope.now_us}) AS DATE)", DATE)


# --- conditions ----------------------------------------------------------------------------------


def _truth(node: exp.Expression, scope: Scope) -> str:
    made = _read(node, scope)
    if made.type not in (None, BOOLEAN):
        raise InvalidPredicateError(f"{_said(node)} is {made.type}, not a condition")
    return made.sql if made.type is not None else "CAST(NULL AS BOOLEAN)"


def _logic(word: str) -> Callable[[Any, Scope], Typed]:
    def read(node: exp.Expression, scope: Scope) -> Typed:
        items, pending = [], [node]
        while pending:
            part = pending.pop()
            if type(part) is type(node):
                pending += (part.expression, part.this)
            else:
                items.append(_truth(part, scope))
        return Typed("(" + f" {word} ".join(items) + ")", BOOLEAN)

    return read


def _not(node: exp.Not, scope: Scope) -> Typed:
    return Typed(f"(NOT {_truth(node.this, scope)})", BOOLEAN)


def _paren(node: exp.Paren, scope: Scope) -> Typed:
    return _read(node.this, scope)


def _compared(one: Typed, op: str, two: Typed, node: exp.Expression) -> str:
    for side in (one.type, two.type):
        if side is not None and is_variant(side):
            raise _not_compared(node, side)
    kind = duckdb_types.common_type(one, two, _said(node))
    if kind is None:
        return "CAST(NULL AS BOOLEAN)" if "DISTINCT" not in op else "TRUE"
    if is_nested(kind):
        raise _not_compared(node, kind)
    sides = [one.sql, two.sql]
    if not duckdb_types.is_integer(one.type) or not duckdb_types.is_integer(two.type):
        sides = [duckdb_types.cast(side, kind).sql for side in (one, two)]
    return f"({sides[0]} {op} {sides[1]})"


def _not_compared(node: exp.Expression, kind: Type) -> UnsupportedFeatureError:
    names = ", ".join(repr(column.name) for column in node.find_all(exp.Column))
    return UnsupportedFeatureError(
        f"{_said(node)} compares {kind} ({names}), which has no order here",
        ["sql:nested-comparison"],
    )


def _comparison(op: str) -> Callable[[Any, Scope], Typed]:
    def read(node: exp.Expression, scope: Scope) -> Typed:
        one, two = _read(node.this, scope), _read(node.expression, scope)
        return Typed(_compared(one, op, two, node), BOOLEAN)

    return read


def _between(node: exp.Between, scope: Scope) -> Typed:
    if node.args.get("symmetric"):
        raise UnsupportedFeatureError("BETWEEN SYMMETRIC", ["sql:between-symmetric"])
    value = _read(node.this, scope)
    low, high = _read(node.args["low"], scope), _read(node.args["high"], scope)
    parts = _compared(value, ">=", low, node), _compared(value, "<=", high, node)
    return Typed(f"({parts[0]} AND {parts[1]})", BOOLEAN)


def _in(node: exp.In, scope: Scope) -> Typed:
    if node.args.get("query") or node.args.get("unnest") or node.args.get("field"):
        raise UnsupportedFeatureError(f"{_said(node)}: IN with a sub-query", ["sql:subquery"])
    if not node.expressions:
        raise InvalidPredicateError("IN needs at least one value")
    value = _read(node.this, scope)
    items = [_read(item, scope) for item in node.expressions]
    kind = duckdb_types.common_of([value, *items], _said(node))
    if kind is None:
        return Typed("CAST(NULL AS BOOLEAN)", BOOLEAN)
    if is_nested(kind):
        raise _not_compared(node, kind)
    first, *rest = (duckdb_types.cast(item, kind).sql for item in (value, *items))
    return Typed(f"({first} IN ({', '.join(rest)}))", BOOLEAN)


def _is(node: exp.Is, scope: Scope) -> Typed:
    value = _read(node.this, scope)
    if isinstance(node.expression, exp.Null):
        return Typed(f"({value.sql} IS NULL)", BOOLEAN)
    if isinstance(node.expression, exp.Boolean) and value.type in (None, BOOLEAN):
        word = "TRUE" if node.expression.this else "FALSE"
        return Typed(f"({value.sql} IS NOT DISTINCT FROM {word})", BOOLEAN)
    raise _refused(node)


def _is_nan(node: exp.IsNan, scope: Scope) -> Typed:
    value = _read(node.this, scope)
    if not duckdb_types.is_number(value.type):
        raise InvalidPredicateError(f"{_said(node)}: isnan needs a number")
    assert value.type is not None
    held = value.sql if is_float(value.type) else "CAST(0 AS DOUBLE)"
    return Typed(f"coalesce(isnan({held}), FALSE)", BOOLEAN)


def _strings(node: exp.Expression, scope: Scope, *parts: exp.Expression) -> list[str]:
    made = [_read(part, scope) for part in parts]
    if any(part.type not in (None, STRING) for part in made):
        raise _refused(node)
    return [part.sql if part.type else "CAST(NULL AS VARCHAR)" for part in made]


def _like(node: exp.Like, scope: Scope, escape: str = "\\") -> Typed:
    pattern = _read(node.expression, scope)
    if pattern.text is None:
        raise UnsupportedFeatureError(f"{_said(node)}: a pattern that varies", ["sql:like"])
    (value,) = _strings(node, scope, node.this)
    return Typed(f"({value} LIKE {_text(like_pattern(pattern.text, escape))} ESCAPE '\\')", BOOLEAN)


def _escape(node: exp.Escape, scope: Scope) -> Typed:
    mark = _read(node.expression, scope).text
    if not isinstance(node.this, exp.Like) or mark is None or len(mark) != 1:
        raise _refused(node)
    made = _like(node.this, scope, mark)
    return Typed(f"(NOT {made.sql})", BOOLEAN) if node.this.args.get("negate") else made


def _match(function: str) -> Callable[[Any, Scope], Typed]:
    def read(node: exp.Expression, scope: Scope) -> Typed:
        one, two = _strings(node, scope, node.this, node.expression)
        return Typed(f"{function}({one}, {two})", BOOLEAN)

    return read


# --- casts and branches --------------------------------------------------------------------------


def _cast(node: exp.Cast, scope: Scope) -> Typed:
    if node.args.get("safe"):
        raise UnsupportedFeatureError(f"{_said(node)}: TRY_CAST", ["sql:try_cast"])
    target = cast_target(node.to)
    if target is None:
        raise UnsupportedFeatureError(f"{_said(node)} (cast)", ["sql:cast"])
    value = _read(node.this, scope)
    return duckdb_types.cast(value, target)


def _branches(values: list[Typed], node: exp.Expression) -> tuple[list[str], Type | None]:
    """The text of each in the type that all meet in."""
    kind = duckdb_types.common_of(values, _said(node))
    if kind is None:
        return [value.sql for value in values], None
    return [duckdb_types.cast(value, kind).sql for value in values], kind


def _case(node: exp.Case, scope: Scope) -> Typed:
    subject = _read(node.this, scope) if node.this is not None else None
    tests = []
    for part in node.args["ifs"]:
        if subject is None:
            tests.append(_truth(part.this, scope))
        else:
            tests.append(_compared(subject, "=", _read(part.this, scope), part.this))
    values = [_read(part.args["true"], scope) for part in node.args["ifs"]]
    default = node.args.get("default")
    values.append(Typed("NULL", None) if default is None else _read(default, scope))
    made, kind = _branches(values, node)
    pairs = " ".join(f"WHEN {t} THEN {v}" for t, v in zip(tests, made, strict=False))
    return Typed(f"(CASE {pairs} ELSE {made[-1]} END)", kind)


def _if(node: exp.If, scope: Scope) -> Typed:
    test = _truth(node.this, scope)
    other = node.args.get("false")
    values = [_read(node.args["true"], scope)]
    values.append(Typed("NULL", None) if other is None else _read(other, scope))
    made, kind = _branches(values, node)
    return Typed(f"(CASE WHEN {test} THEN {made[0]} ELSE {made[1]} END)", kind)


def _coalesce(node: exp.Coalesce, scope: Scope) -> Typed:
    values = [_read(part, scope) for part in (node.this, *node.expressions)]
    made, kind = _branches(values, node)
    return Typed(f"coalesce({', '.join(made)})", kind)


def _nullif(node: exp.Nullif, scope: Scope) -> Typed:
    one, two = _read(node.this, scope), _read(node.expression, scope)
    same = _compared(one, "=", two, node)
    return Typed(f"(CASE WHEN {same} THEN NULL ELSE {one.sql} END)", one.type)


Reader = Callable[[Any, Scope], Typed]

_READERS: dict[type[exp.Expression], Reader] = {
    exp.Column: _column,
    exp.Dot: _dot,
    exp.Literal: _literal,
    exp.RawString: lambda node, scope: Typed(_text(node.this), STRING, text=node.this),
    exp.Boolean: _boolean,
    exp.Null: _constant("NULL", None),
    exp.CurrentTimestamp: _now,
    exp.CurrentDate: _today,
    exp.Paren: _paren,
    exp.And: _logic("AND"),
    exp.Or: _logic("OR"),
    exp.Not: _not,
    exp.EQ: _comparison("="),
    exp.NEQ: _comparison("<>"),
    exp.LT: _comparison("<"),
    exp.LTE: _comparison("<="),
    exp.GT: _comparison(">"),
    exp.GTE: _comparison(">="),
    exp.NullSafeEQ: _comparison("IS NOT DISTINCT FROM"),
    exp.NullSafeNEQ: _comparison("IS DISTINCT FROM"),
    exp.Between: _between,
    exp.In: _in,
    exp.Is: _is,
    exp.IsNan: _is_nan,
    exp.Like: _like,
    exp.Escape: _escape,
    exp.StartsWith: _match("starts_with"),
    exp.EndsWith: _match("ends_with"),
    exp.Contains: _match("contains"),
    exp.Cast: _cast,
    exp.TryCast: _cast,
    exp.Case: _case,
    exp.If: _if,
    exp.Coalesce: _coalesce,
    exp.Nullif: _nullif,
}

assert all(
    kind_of(made()) in (Kind.ROW, Kind.CLOCK) for made in {*_READERS, *FUNCTIONS} - {exp.Anonymous}
), "what is carried out here is known to depend on the row and the statement's time alone"
