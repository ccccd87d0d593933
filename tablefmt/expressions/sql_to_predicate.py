"""Conversion of SQL condition text in Spark's dialect to a predicate. Pure.

Supported conditions are converted exactly. All others are refused by name, so that a caller can
read everything instead. Spec: PRN-3 (spec/pruning.md).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlglot import exp

from tablefmt.errors import InvalidPredicateError, UnsupportedFeatureError
from tablefmt.expressions import ansi_comparisons
from tablefmt.expressions.ansi_comparisons import INTEGERS, Literal
from tablefmt.expressions.constant_values import constant_value, exact_column_cast
from tablefmt.expressions.literals import exact_pattern, like_pattern
from tablefmt.expressions.predicate import (
    FALSE,
    NULL,
    TRUE,
    And,
    Comparison,
    Constant,
    IsNaN,
    IsNull,
    Like,
    Not,
    Or,
    Predicate,
)
from tablefmt.expressions.sql_parser import (
    conjuncts_of,
    function_named,
    no_column,
    operands_of,
    parse_tree,
    too_deep,
)
from tablefmt.model.name_matching import folded
from tablefmt.model.schema import Field, Schema, is_float, is_nested, kind_name

_COMPARISONS: dict[type[exp.Expression], str] = {
    exp.EQ: "=",
    exp.NEQ: "!=",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.NullSafeEQ: "<=>",
    exp.EqualNull: "<=>",
    exp.NullSafeNEQ: "<=>",
}
_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


def parse_predicate(text: str, schema: Schema, time_zone: str = "UTC") -> Predicate:
    """Return the condition `text` over the columns of `schema`.

    Args:
        text: Spark SQL, at most `TEXT_MAX` characters. Names match ignoring case.
        schema: Columns and their types.
        time_zone: Spark's session zone, for timestamps without a zone of their own.

    Raises:
        InvalidPredicateError: it is not a condition, names an unknown column, or compares values
            that cannot be compared.
        UnsupportedFeatureError: it is more than comparisons of one column with constants.
    """
    tree = parse_tree(text)
    try:
        _check_columns(tree, schema)
        return _Reader(schema, time_zone, None).predicate(tree)
    except RecursionError:
        raise too_deep() from None


def parse_conjuncts(
    text: str, schema: Schema, time_zone: str = "UTC"
) -> tuple[list[Predicate], int]:
    """Return the supported AND-ed parts of `text`, and the number of others. For pruning only.

    The content of the text never causes an error: an invalid part counts as unsupported. Spec:
    PRN-3.
    """
    understood: list[Predicate] = []
    unknown = 0
    try:
        parts = list(conjuncts_of(parse_tree(text)))
    except (InvalidPredicateError, RecursionError):
        return [], 1
    reader = _Reader(schema, time_zone, None)
    for part in parts:
        try:
            understood.append(reader.predicate(part))
        except (InvalidPredicateError, UnsupportedFeatureError, RecursionError):
            unknown += 1
    return understood, unknown


def predicate_of(
    node: exp.Expression, schema: Schema, time_zone: str = "UTC", alias: str | None = None
) -> Predicate:
    """Return the predicate of a part of a parsed condition. Raises as `parse_predicate`.

    `alias` is the table's name in the statement: the only qualifier of a column (SQL-7).
    """
    return _Reader(schema, time_zone, alias).predicate(node)


def _check_columns(tree: exp.Expression, schema: Schema) -> None:
    """Refuse unknown names, even inside unsupported parts."""
    if tree.find(exp.Query, exp.Lambda) is None:
        for column in tree.find_all(exp.Column):
            if not _is_call(column, schema):
                _resolve(column, schema, None)


def _is_call(column: exp.Column, schema: Schema) -> bool:
    """Return True for a function without parentheses, such as CURRENT_DATE. A column takes
    precedence.
    """
    return function_named(column) is not None and schema.find(column.name) is None


def _resolve(column: exp.Column, schema: Schema, alias: str | None) -> Field:
    parts = [part.name for part in column.parts]
    if len(parts) > 1 and alias is not None and folded(parts[0]) == folded(alias):
        parts = parts[1:]
    field = None if isinstance(column.this, exp.Star) else schema.find(parts[0])
    if field is not None and len(parts) > 1 and is_nested(field.type):
        raise UnsupportedFeatureError(
            f"{column.sql('spark')} is a part of column {field.name!r}; "
            "conditions support only top-level columns",
            ["sql:nested-field"],
        )
    if field is None or len(parts) > 1:
        raise no_column(parts, schema.names)
    return field


class _Reader:
    """Converter of trees for one schema and zone."""

    def __init__(self, schema: Schema, time_zone: str, alias: str | None) -> None:
        self.schema = schema
        self.time_zone = time_zone
        self.alias = alias

    def predicate(self, node: exp.Expression) -> Predicate:
        """Return the truth value `node` as a predicate."""
        if isinstance(node, exp.Paren):
            return self.predicate(node.this)
        if isinstance(node, exp.And | exp.Or):
            is_and = isinstance(node, exp.And)
            items = tuple(map(self.predicate, operands_of(node, type(node))))
            return And(items) if is_and else Or(items)
        if isinstance(node, exp.Not):
            return Not(self.predicate(node.this))
        if isinstance(node, exp.Boolean | exp.Null):
            return self._constant(constant_value(node, self.time_zone))
        if isinstance(node, exp.Column) and not _is_call(node, self.schema):
            return self._boolean_column(node)
        if type(node) in _COMPARISONS:
            result = self._comparison(node, _COMPARISONS[type(node)])
            return Not(result) if isinstance(node, exp.NullSafeNEQ) else result
        reader = _READERS.get(type(node))
        if reader is None:
            literal = constant_value(node, self.time_zone)
            if literal is not None:
                return self._constant(literal)
            raise _unsupported(node)
        result = reader(self, node)
        return Not(result) if node.args.get("negate") else result

    @staticmethod
    def _constant(literal: Literal | None) -> Constant:
        if literal is None or literal.kind not in ("null", "boolean"):
            raise InvalidPredicateError("a number or a text alone is not a condition")
        return {True: TRUE, False: FALSE, None: NULL}[literal.value]

    def _boolean_column(self, node: exp.Column) -> Predicate:
        field = _resolve(node, self.schema, self.alias)
        if str(field.type) != "boolean":
            raise InvalidPredicateError(
                f"column {field.name!r} is {field.type}, not a condition by itself; compare it "
                "with a value"
            )
        return Comparison(field, "=", True)

    def _comparison(self, node: exp.Expression, op: str) -> Predicate:
        left, right = node.this, node.expression
        column, literal = self._column(left), constant_value(right, self.time_zone)
        if column is None or literal is None:
            column, literal = self._column(right), constant_value(left, self.time_zone)
            op = _MIRRORED.get(op, op)
        if column is not None and literal is not None:
            field, as_double = column
            return ansi_comparisons.compare(field, op, literal, self.time_zone, as_double=as_double)
        if column is not None and self._column(left) is not None:
            raise UnsupportedFeatureError(
                f"{node.sql('spark')[:200]} compares two columns", ["sql:column-comparison"]
            )
        return self._constants(node, op)

    def _constants(self, node: exp.Expression, op: str) -> Predicate:
        # The caller mirrored `op`, so swap the sides too.
        left = constant_value(node.expression, self.time_zone)
        right = constant_value(node.this, self.time_zone)
        if left is not None and right is not None:
            result = ansi_comparisons.constant(op, left, right)
            if result is not None:
                return result
        for side in (node.this, node.expression):
            if constant_value(side, self.time_zone) is None and self._column(side) is None:
                raise _unsupported(side)
        raise _unsupported(node)

    def _column(self, node: exp.Expression) -> tuple[Field, bool] | None:
        """Return the column that `node` is, and True if it is cast to DOUBLE; None if it is not a
        column.
        """
        if isinstance(node, exp.Paren):
            return self._column(node.this)
        if isinstance(node, exp.Column):
            called = _is_call(node, self.schema)
            return None if called else (_resolve(node, self.schema, self.alias), False)
        if isinstance(node, exp.Cast) and not node.args.get("safe"):
            inner = self._column(node.this)
            return None if inner is None else exact_column_cast(*inner, node)
        return None

    def _plain_column(self, node: exp.Expression) -> Field:
        column = self._column(node)
        if column is None or column[1]:
            raise _unsupported(node)
        return column[0]

    def _in(self, node: exp.In) -> Predicate:
        if node.args.get("query") or node.args.get("unnest") or node.args.get("field"):
            raise UnsupportedFeatureError("IN with a sub-query", ["sql:subquery"])
        if not node.expressions:
            raise InvalidPredicateError("IN needs at least one value")
        column = self._column(node.this)
        if column is None:
            raise _unsupported(node.this)
        values = []
        for item in node.expressions:
            value = constant_value(item, self.time_zone)
            if value is None:
                raise _unsupported(item)
            values.append(value)
        return ansi_comparisons.contained(column[0], values, self.time_zone, as_double=column[1])

    def _between(self, node: exp.Between) -> Predicate:
        if node.args.get("symmetric"):
            raise UnsupportedFeatureError("BETWEEN SYMMETRIC", ["sql:between-symmetric"])
        parts = []
        for op, side in ((">=", "low"), ("<=", "high")):
            literal = constant_value(node.args[side], self.time_zone)
            if literal is None:
                raise _unsupported(node.args[side])
            column = self._column(node.this)
            if column is None:
                raise _unsupported(node.this)
            parts.append(
                ansi_comparisons.compare(
                    column[0], op, literal, self.time_zone, as_double=column[1]
                )
            )
        return And(tuple(parts))

    def _is(self, node: exp.Is) -> Predicate:
        if isinstance(node.expression, exp.Null):
            return IsNull(self._plain_column(node.this))
        field = self._plain_column(node.this)
        if not isinstance(node.expression, exp.Boolean) or str(field.type) != "boolean":
            raise _unsupported(node)
        return Comparison(field, "<=>", bool(node.expression.this))

    def _is_nan(self, node: exp.IsNan) -> Predicate:
        field = self._plain_column(node.this)
        if is_float(field.type):
            return IsNaN(field)
        if kind_name(field.type) in (*INTEGERS, "decimal"):
            return FALSE
        raise InvalidPredicateError(f"isnan needs a number; column {field.name!r} is {field.type}")

    def _named(self, node: exp.Anonymous) -> Predicate:
        name = str(node.this).lower()
        if name not in ("isnull", "isnotnull") or len(node.expressions) != 1:
            raise _unsupported(node)
        is_null = IsNull(self._plain_column(node.expressions[0]))
        return is_null if name == "isnull" else Not(is_null)

    def _like(self, node: exp.Like, escape: str = "\\") -> Predicate:
        field, pattern = self._text_match(node)
        return Like(field, like_pattern(pattern, escape))

    def _escape(self, node: exp.Escape) -> Predicate:
        escape = constant_value(node.expression, self.time_zone)
        like = node.this
        if not isinstance(like, exp.Like) or escape is None or len(str(escape.value)) != 1:
            raise _unsupported(node)
        result = self._like(like, escape.value)
        return Not(result) if like.args.get("negate") else result

    def _text_match(self, node: exp.Expression) -> tuple[Field, str]:
        field = self._plain_column(node.this)
        literal = constant_value(node.expression, self.time_zone)
        if literal is None or literal.kind != "string" or str(field.type) != "string":
            raise _unsupported(node)
        return field, literal.value

    def _starts(self, node: exp.Expression) -> Predicate:
        field, text = self._text_match(node)
        return Like(field, exact_pattern(text) + "%")

    def _ends(self, node: exp.Expression) -> Predicate:
        field, text = self._text_match(node)
        return Like(field, "%" + exact_pattern(text))

    def _contains(self, node: exp.Expression) -> Predicate:
        field, text = self._text_match(node)
        return Like(field, "%" + exact_pattern(text) + "%")


_READERS: dict[type[exp.Expression], Callable[[_Reader, Any], Predicate]] = {
    exp.In: _Reader._in,
    exp.Between: _Reader._between,
    exp.Is: _Reader._is,
    exp.IsNan: _Reader._is_nan,
    exp.Anonymous: _Reader._named,
    exp.Like: _Reader._like,
    exp.Escape: _Reader._escape,
    exp.StartsWith: _Reader._starts,
    exp.EndsWith: _Reader._ends,
    exp.Contains: _Reader._contains,
}


def _unsupported(node: exp.Expression) -> UnsupportedFeatureError:
    """Return the error that names the unsupported construct."""
    while isinstance(node, exp.Paren):
        node = node.this
    if isinstance(node, exp.Query | exp.Subquery | exp.Exists):
        construct = "subquery"
    elif isinstance(node, exp.Bracket | exp.Dot):
        construct = "nested-field"
    elif isinstance(node, exp.Cast):
        construct = "cast"
    elif isinstance(node, exp.Func):
        construct = "function"
    elif isinstance(node, exp.Neg | exp.Add | exp.Sub | exp.Mul | exp.Div | exp.Mod | exp.IntDiv):
        construct = "arithmetic"
    else:
        construct = node.key
    text = node.sql("spark")[:200]
    return UnsupportedFeatureError(
        f"{text} ({construct}) is not supported here; compare columns with constants",
        [f"sql:{construct}"],
    )
