"""Operands, conditions, casts and branches from Spark's dialect to DuckDB's. Pure.

They are typed as Spark types them. Operands of functions are read here too, with errors for those
that are not supported. Spec: SQL-1, SQL-2.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from sqlglot import exp

from tablefmt.errors import InvalidPredicateError, UnsupportedFeatureError
from tablefmt.expressions import arrow_values, duckdb_types
from tablefmt.expressions.arrow_values import null_of
from tablefmt.expressions.constant_values import cast_target
from tablefmt.expressions.duckdb_types import BOOLEAN, STRING, Typed
from tablefmt.expressions.expression_analysis import Kind, kind_of
from tablefmt.expressions.literals import like_pattern
from tablefmt.expressions.sql_vocabulary import PURE_FUNCTIONS
from tablefmt.model.name_matching import near_name
from tablefmt.model.schema import Type, is_float, is_nested, is_variant

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


def _logic(word: str) -> Write:
    def write(node: exp.Expression, read: Read) -> Typed:
        items, pending = [], [node]
        while pending:
            part = pending.pop()
            if type(part) is type(node):
                pending += (part.expression, part.this)
            else:
                items.append(truth(part, read))
        whole = arrow_values.all_true if word == "AND" else arrow_values.any_true
        sql = "(" + f" {word} ".join(item.sql for item in items) + ")"
        return Typed(sql, BOOLEAN, arrow=whole([item.arrow for item in items]))

    return write


def negated(value: Typed) -> Typed:
    """Return NOT of a truth value."""
    return Typed(f"(NOT {value.sql})", BOOLEAN, arrow=arrow_values.call("invert", value.arrow))


def _not(node: exp.Not, read: Read) -> Typed:
    return negated(truth(node.this, read))


def _compared(one: Typed, op: str, two: Typed, node: exp.Expression) -> Typed:
    for side in (one.type, two.type):
        if side is not None and is_variant(side):
            raise _not_compared(node, side)
    kind = duckdb_types.common_type(one, two, shown(node))
    if kind is None:
        return UNKNOWN if "DISTINCT" not in op else Typed(str("NOT" in op).upper(), BOOLEAN)
    if is_nested(kind):
        raise _not_compared(node, kind)
    left, right = (duckdb_types.cast(side, kind) for side in (one, two))
    arrow = arrow_values.compared(left.arrow, op, right.arrow, kind)
    if duckdb_types.is_integer(one.type) and duckdb_types.is_integer(two.type):
        left, right = one, two
    return Typed(f"({left.sql} {op} {right.sql})", BOOLEAN, arrow=arrow)


def _not_compared(node: exp.Expression, kind: Type) -> UnsupportedFeatureError:
    names = ", ".join(repr(column.name) for column in node.find_all(exp.Column))
    return UnsupportedFeatureError(
        f"{shown(node)} compares {kind} ({names}), which is not supported here",
        ["sql:nested-comparison"],
    )


def _comparison(op: str) -> Write:
    def write(node: exp.Expression, read: Read) -> Typed:
        return _compared(read(node.this), op, read(node.expression), node)

    return write


def _between(node: exp.Between, read: Read) -> Typed:
    if node.args.get("symmetric"):
        raise UnsupportedFeatureError("BETWEEN SYMMETRIC", ["sql:between-symmetric"])
    value = read(node.this)
    low, high = read(node.args["low"]), read(node.args["high"])
    above, below = _compared(value, ">=", low, node), _compared(value, "<=", high, node)
    arrow = arrow_values.all_true([above.arrow, below.arrow])
    return Typed(f"({above.sql} AND {below.sql})", BOOLEAN, arrow=arrow)


def _in(node: exp.In, read: Read) -> Typed:
    if node.args.get("query") or node.args.get("unnest") or node.args.get("field"):
        raise UnsupportedFeatureError(f"{shown(node)}: IN with a sub-query", ["sql:subquery"])
    if not node.expressions:
        raise InvalidPredicateError("IN needs at least one value")
    value = read(node.this)
    items = [read(item) for item in node.expressions]
    kind = duckdb_types.common_of([value, *items], shown(node))
    if kind is None:
        return UNKNOWN
    if is_nested(kind):
        raise _not_compared(node, kind)
    first, *rest = (duckdb_types.cast(item, kind) for item in (value, *items))
    arrow = arrow_values.among(first.arrow, [item.arrow for item in rest], kind)
    return Typed(f"({first.sql} IN ({', '.join(i.sql for i in rest)}))", BOOLEAN, arrow=arrow)


def _is(node: exp.Is, read: Read) -> Typed:
    value = read(node.this)
    if isinstance(node.expression, exp.Null):
        arrow = arrow_values.call("is_null", value.arrow)
        return Typed(f"({value.sql} IS NULL)", BOOLEAN, arrow=arrow)
    if isinstance(node.expression, exp.Boolean) and value.type in (None, BOOLEAN):
        word = "TRUE" if node.expression.this else "FALSE"
        return Typed(f"({value.sql} IS NOT DISTINCT FROM {word})", BOOLEAN)
    raise not_carried_out(node)


def _is_nan(node: exp.IsNan, read: Read) -> Typed:
    value = read(node.this)
    if not duckdb_types.is_number(value.type):
        raise InvalidPredicateError(f"{shown(node)}: isnan needs a number")
    assert value.type is not None
    held = value.sql if is_float(value.type) else "CAST(0 AS DOUBLE)"
    return Typed(f"coalesce(isnan({held}), FALSE)", BOOLEAN)


def _like(node: exp.Like, read: Read, escape: str = "\\") -> Typed:
    pattern = read(node.expression)
    if pattern.text is None:
        raise UnsupportedFeatureError(f"{shown(node)}: a pattern that varies", ["sql:like"])
    (value,) = texts(node, read, node.this)
    return Typed(
        f"({value} LIKE {text_literal(like_pattern(pattern.text, escape))} ESCAPE '\\')", BOOLEAN
    )


def _ilike(node: exp.ILike, read: Read) -> Typed:
    """Translate ILIKE as LIKE of both sides in lower case, as Spark does."""
    pattern = read(node.expression)
    if pattern.text is None or not pattern.text.isascii():
        raise UnsupportedFeatureError(
            f"{shown(node)}: a pattern that varies, or is beyond ASCII", ["sql:ilike"]
        )
    lowered = read(exp.Lower(this=node.this))
    small = text_literal(like_pattern(pattern.text.lower(), "\\"))
    return Typed(f"({lowered.sql} LIKE {small} ESCAPE '\\')", BOOLEAN)


def _escape(node: exp.Escape, read: Read) -> Typed:
    mark = read(node.expression).text
    if not isinstance(node.this, exp.Like) or mark is None or len(mark) != 1:
        raise not_carried_out(node)
    match = _like(node.this, read, mark)
    return Typed(f"(NOT {match.sql})", BOOLEAN) if node.this.args.get("negate") else match


def _match(function: str) -> Write:
    def write(node: exp.Expression, read: Read) -> Typed:
        one, two = texts(node, read, node.this, node.expression)
        return Typed(f"{function}({one}, {two})", BOOLEAN)

    return write


# --- casts and branches --------------------------------------------------------------------------


def _cast(node: exp.Cast, read: Read) -> Typed:
    if node.args.get("safe"):
        raise UnsupportedFeatureError(f"{shown(node)}: TRY_CAST", ["sql:try_cast"])
    target = cast_target(node.to)
    if target is None:
        raise UnsupportedFeatureError(f"{shown(node)} (cast)", ["sql:cast"])
    value = read(node.this)
    return duckdb_types.cast(value, target)


def _branches(values: list[Typed], node: exp.Expression) -> tuple[list[Typed], Type | None]:
    """Return each value cast to their common type."""
    kind = duckdb_types.common_of(values, shown(node))
    if kind is None:
        return values, None
    return [duckdb_types.cast(value, kind) for value in values], kind


def _choice(tests: list[Typed], values: list[Typed], node: exp.Expression) -> Typed:
    """Return the value of the first test that is TRUE; else the last value."""
    branches, kind = _branches(values, node)
    pairs = " ".join(f"WHEN {t.sql} THEN {v.sql}" for t, v in zip(tests, branches, strict=False))
    arrows = [branch.arrow for branch in branches]
    return Typed(
        f"(CASE {pairs} ELSE {branches[-1].sql} END)",
        kind,
        arrow=arrow_values.chosen([test.arrow for test in tests], arrows[:-1], arrows[-1]),
    )


def _case(node: exp.Case, read: Read) -> Typed:
    subject = read(node.this) if node.this is not None else None
    tests = []
    for part in node.args["ifs"]:
        if subject is None:
            tests.append(truth(part.this, read))
        else:
            tests.append(_compared(subject, "=", read(part.this), part.this))
    values = [read(part.args["true"]) for part in node.args["ifs"]]
    default = node.args.get("default")
    values.append(Typed("NULL", None) if default is None else read(default))
    return _choice(tests, values, node)


def _if(node: exp.If, read: Read) -> Typed:
    test = truth(node.this, read)
    other = node.args.get("false")
    values = [read(node.args["true"])]
    values.append(Typed("NULL", None) if other is None else read(other))
    return _choice([test], values, node)


def _coalesce(node: exp.Coalesce, read: Read) -> Typed:
    values = [read(part) for part in (node.this, *node.expressions)]
    branches, kind = _branches(values, node)
    arrow = arrow_values.call("coalesce", *(branch.arrow for branch in branches))
    return Typed(f"coalesce({', '.join(b.sql for b in branches)})", kind, arrow=arrow)


def _nullif(node: exp.Nullif, read: Read) -> Typed:
    one, two = read(node.this), read(node.expression)
    same = _compared(one, "=", two, node)
    nothing = None if one.type is None else arrow_values.null_of(one.type)
    arrow = arrow_values.chosen([same.arrow], [nothing], one.arrow)
    return Typed(f"(CASE WHEN {same.sql} THEN NULL ELSE {one.sql} END)", one.type, arrow=arrow)


CONDITIONS: Mapping[type[exp.Expression], Write] = {
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
    exp.ILike: _ilike,
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
"""Translators by construct."""
