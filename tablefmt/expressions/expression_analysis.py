"""Analysis of an expression's syntax tree: the columns it uses, and what else its value depends on.
Pure.

The tables here are closed. A construct in none of them may do anything, so callers must assume the
worst. The tables apply to SQL text. For a condition that Spark has resolved, Spark's classes
decide.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import dataclass, field

from sqlglot import exp

from tablefmt.errors import InvalidPredicateError
from tablefmt.expressions.predicate import to_sql
from tablefmt.expressions.sql_parser import Relation, function_named, parse_tree, resolve
from tablefmt.expressions.sql_to_predicate import predicate_of
from tablefmt.expressions.sql_vocabulary import CHANCE_FUNCTIONS, CLOCK_FUNCTIONS, SESSION_FUNCTIONS
from tablefmt.model.name_matching import folded
from tablefmt.model.schema import Schema, is_nested


class Kind(enum.Enum):
    """Dependency of a value on one construct, without its operands."""

    ROW = "one row alone, the same for the same row"
    SUBQUERY = "other rows, by a query"
    SEVERAL_ROWS = "other rows, or it makes several: aggregates, windows, generators"
    CHANCE = "chance: another value each time"
    CLOCK = "the time of the statement"
    SESSION = "the session: its user, its catalog"
    UNKNOWN = "anything"


_GRAMMAR: frozenset[type[exp.Expression]] = frozenset(
    {
        *(exp.Column, exp.Identifier, exp.Dot, exp.Paren, exp.DataType, exp.DataTypeParam, exp.Var),
        *(exp.Literal, exp.RawString, exp.HexString, exp.Boolean, exp.Null),
        *(exp.And, exp.Or, exp.Not, exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE),
        *(exp.NullSafeEQ, exp.NullSafeNEQ, exp.Between, exp.In, exp.Is, exp.Like, exp.ILike),
        exp.Escape,
        *(exp.Cast, exp.TryCast, exp.Case, exp.If),
        *(exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod, exp.IntDiv, exp.Neg, exp.DPipe),
    }
)
_FUNCTIONS: frozenset[type[exp.Expression]] = frozenset(
    {
        *(exp.EqualNull, exp.IsNan, exp.StartsWith, exp.EndsWith, exp.Contains),
        *(exp.Coalesce, exp.Nullif, exp.Nvl2, exp.Greatest, exp.Least),
        *(exp.Abs, exp.Floor, exp.Ceil, exp.Round),
        *(exp.Concat, exp.Upper, exp.Lower, exp.Trim, exp.Length, exp.Substring),
        *(exp.Left, exp.Right, exp.Replace, exp.MD5),
        *(exp.TsOrDsToDate, exp.Year, exp.Month, exp.Day, exp.Hour),
        *(exp.TsOrDsAdd, exp.DateDiff),
    }
)
"""Functions of one row, as in Spark. Tests compare the engine with Spark for both tables."""

_OF_ONE_ROW = _GRAMMAR | _FUNCTIONS

_NAMED_OF_ONE_ROW = frozenset({"isnull", "isnotnull"})
"""Functions of one row without a class in the parser."""

_QUERIES = (exp.Query, exp.Subquery, exp.Exists)
_SEVERAL = (exp.AggFunc, exp.Window, exp.UDTF, exp.Star)
_BY_NAME = {
    **dict.fromkeys(_NAMED_OF_ONE_ROW, Kind.ROW),
    **dict.fromkeys(CHANCE_FUNCTIONS, Kind.CHANCE),
    **dict.fromkeys(CLOCK_FUNCTIONS, Kind.CLOCK),
    **dict.fromkeys(SESSION_FUNCTIONS, Kind.SESSION),
}


def kind_of(node: exp.Expression) -> Kind:
    """Return the dependency that a construct itself adds."""
    if type(node) in _OF_ONE_ROW:
        return Kind.ROW
    if isinstance(node, _QUERIES):
        return Kind.SUBQUERY
    if isinstance(node, _SEVERAL):
        return Kind.SEVERAL_ROWS
    return next((_BY_NAME[name] for name in names_of(node) if name in _BY_NAME), Kind.UNKNOWN)


def names_of(node: exp.Expression) -> list[str]:
    """Return names that may call a function in text, in lower case; empty if it is not a
    function.
    """
    if isinstance(node, exp.Anonymous):
        return [str(node.this).lower()]
    if isinstance(node, exp.Func):
        return [node.key, *(name.lower() for name in type(node).sql_names())]
    return []


@dataclass(frozen=True, slots=True)
class Analysis:
    """Facts about one expression."""

    columns: tuple[frozenset[int], ...]
    """Ids of the named top-level columns, by relation."""
    looks_inside: bool
    """True if one of them is nested."""
    unresolved: tuple[tuple[str, ...], ...]
    """Names, part by part, that match no column or several. Parameters of lambdas are excluded."""
    kinds: frozenset[Kind]
    """Dependencies of all constructs except those in sub-queries."""
    calls: bool
    """True if it calls a function by name. A session may have registered its own function of that
    name.
    """

    @property
    def follows_from_columns(self) -> bool:
        """Return True if rows with equal values in `columns` have equal results within one
        statement.

        Only then do the conflict rules compare rows (CFL-21).
        """
        if self.looks_inside or self.unresolved:
            return False
        return self.is_plain

    @property
    def is_plain(self) -> bool:
        """Return True if it is known to have one value per row and to use nothing but the row and
        the clock.
        """
        return self.kinds <= {Kind.ROW, Kind.CLOCK}

    @property
    def may_query(self) -> bool:
        """Return True if it may contain a sub-query."""
        return not self.kinds.isdisjoint({Kind.SUBQUERY, Kind.UNKNOWN})

    @property
    def may_be_chance(self) -> bool:
        """Return True if its value may differ between two evaluations."""
        return not self.kinds.isdisjoint({Kind.CHANCE, Kind.SUBQUERY, Kind.UNKNOWN})


def unknown(relations: int = 1) -> Analysis:
    """Return the analysis of an expression that cannot be read."""
    return Analysis((frozenset(),) * relations, True, (), frozenset({Kind.UNKNOWN}), True)


def analyze(text: str, *relations: Relation) -> Analysis:
    """Return the analysis of an expression over relations; `unknown` for text that cannot be
    parsed.
    """
    try:
        return analyze_tree(parse_tree(text), *relations)
    except InvalidPredicateError:
        return unknown(len(relations))


def analyze_tree(tree: exp.Expression, *relations: Relation) -> Analysis:
    """Return the analysis of a tree from `parse_tree`, or of a part of it."""
    findings = _Found(relations, [set() for _ in relations])
    for node in _without_queries(tree):
        findings.take(node)
    return Analysis(
        tuple(map(frozenset, findings.columns)),
        findings.looks_inside,
        tuple(n for n in findings.unresolved if folded(n[0]) not in findings.parameters),
        frozenset(findings.kinds),
        findings.calls,
    )


@dataclass(slots=True)
class _Found:
    relations: tuple[Relation, ...]
    columns: list[set[int]]
    looks_inside: bool = False
    unresolved: list[tuple[str, ...]] = field(default_factory=list)
    parameters: set[str] = field(default_factory=set)
    kinds: set[Kind] = field(default_factory=set)
    calls: bool = False

    def take(self, node: exp.Expression) -> None:
        self.kinds.add(kind_of(node))
        self.calls |= type(node) not in _GRAMMAR
        if isinstance(node, exp.Column):
            self._name(node)
        elif isinstance(node, exp.Lambda):
            self.parameters.update(folded(each.name) for each in node.expressions)

    def _name(self, column: exp.Column) -> None:
        meant = resolve(column, self.relations)
        function = None if meant else function_named(column)
        if function is not None:
            self.take(function)
            return
        if len(meant) != 1:
            self.unresolved.append(tuple(part.name for part in column.parts))
            return
        self.looks_inside |= is_nested(meant[0].field.type)
        self.columns[self.relations.index(meant[0].relation)].add(meant[0].field.id)


def _without_queries(tree: exp.Expression) -> Iterator[exp.Expression]:
    """Yield the nodes of a tree. A sub-query is yielded without its nodes, whose names refer to
    other rows.
    """
    pending = [tree]
    while pending:
        node = pending.pop()
        yield node
        if isinstance(node, exp.Column):
            # The parts of a column are names. A star reads all columns.
            pending += [node.this] if isinstance(node.this, exp.Star) else []
        elif not isinstance(node, _QUERIES):
            pending += node.iter_expressions()


_FAR_ZONES = ("UTC", "Etc/GMT+12", "Etc/GMT-14")
"""Time zones in which midnight of a day is after, and before, midnight in UTC."""


def depends_on_zone(text: str, schema: Schema) -> bool:
    """Return True if the meaning of a condition depends on the session's time zone. Spec: SQL-4.

    Args:
        text: a condition that `parse_predicate` understands.
        schema: the columns.

    Raises:
        InvalidPredicateError, UnsupportedFeatureError: as `parse_predicate`.
    """
    tree = parse_tree(text)
    return len({to_sql(predicate_of(tree, schema, zone)) for zone in _FAR_ZONES}) > 1
