"""Conditions of a MERGE: restrictions on the target, and columns that ON equates. Pure.

The analysis never refuses a condition, because the engine may support it. Spec: MRG-3.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sqlglot import exp

from tablefmt.errors import InvalidPredicateError, UnsupportedFeatureError
from tablefmt.expressions.analysis import Analysis, analyze_tree
from tablefmt.expressions.names import Relation, resolve
from tablefmt.expressions.parse import conjuncts_of, parse_tree
from tablefmt.expressions.predicate import Predicate, all_of
from tablefmt.expressions.sql_to_duckdb import Translated, translate_tree
from tablefmt.expressions.sql_to_predicate import predicate_of
from tablefmt.model.schema import Field, is_nested


@dataclass(frozen=True, slots=True)
class TargetCondition:
    """Known part of a condition that concerns the target's rows."""

    predicate: Predicate | None
    """Predicate that is TRUE for every target row for which the condition can be. None: nothing is
    known.
    """
    columns: frozenset[int] | None
    """Ids of the target's columns that decide the condition; None if it cannot be analysed."""


@dataclass(frozen=True, slots=True)
class Equality:
    """`column of the target = expression over the source`, one of the AND-ed parts of ON."""

    field: Field
    value: Translated
    source: Field | None
    """Source column, if the expression is a plain column."""
    null_safe: bool
    """True if the operator is `<=>`."""


@dataclass(frozen=True, slots=True)
class MergeCondition:
    """Known parts of ON."""

    target: TargetCondition
    equalities: tuple[Equality, ...]
    complete: bool
    """True if there is no other part."""


def analyze_merge_condition(
    text: str, target: Relation, source: Relation, time_zone: str = "UTC", now_us: int = 0
) -> MergeCondition:
    """Return the known parts of ON.

    Args:
        text: over both relations.
        target: prefix and alias differ from the source's.
        source: its prefix and alias differ from the target's.
        time_zone: for times without a zone.
        now_us: the statement's time.

    Raises:
        InvalidPredicateError: it cannot be parsed.
    """
    tree = parse_tree(text)
    predicates: list[Predicate] = []
    equalities: list[Equality] = []
    parts = list(conjuncts_of(tree))
    for part in parts:
        analysis = analyze_tree(part, target, source)
        if analysis.unresolved:
            continue
        ours, theirs = analysis.columns
        if ours and not theirs:
            predicates += _predicates(part, target, time_zone)
        elif isinstance(part, exp.EQ | exp.NullSafeEQ):
            equalities += _equality(part, target, source, now_us)
    columns = _columns(analyze_tree(tree, target, source), target)
    complete = len(equalities) == len(parts)
    return MergeCondition(_condition(predicates, columns), tuple(equalities), complete)


def analyze_target_condition(
    text: str, target: Relation, time_zone: str = "UTC"
) -> TargetCondition:
    """Return the known part of a condition over the target alone.

    Takes the arguments of `analyze_merge_condition`, and raises the same errors.
    """
    tree = parse_tree(text)
    predicates = [p for part in conjuncts_of(tree) for p in _predicates(part, target, time_zone)]
    return _condition(predicates, _columns(analyze_tree(tree, target), target))


def _condition(predicates: Sequence[Predicate], columns: frozenset[int] | None) -> TargetCondition:
    return TargetCondition(all_of(list(predicates)) if predicates else None, columns)


def _columns(analysis: Analysis, target: Relation) -> frozenset[int] | None:
    """Return the ids of its target columns; None if it depends on anything else of the target.

    Nested source columns are allowed, because the source is fixed for the statement.
    """
    ours = analysis.columns[0]
    if analysis.unresolved or not analysis.is_plain:
        return None
    if any(is_nested(target.schema.by_id(each).type) for each in ours):
        return None
    return ours


def _equality(
    part: exp.EQ | exp.NullSafeEQ, target: Relation, source: Relation, now_us: int
) -> Iterator[Equality]:
    for ours, theirs in ((part.this, part.expression), (part.expression, part.this)):
        field = _column(ours, target, source)
        if field is None or analyze_tree(theirs, target, source).columns[0]:
            continue
        try:
            value = translate_tree(theirs, (target, source), now_us)
        except (InvalidPredicateError, UnsupportedFeatureError, RecursionError):
            continue
        null_safe = isinstance(part, exp.NullSafeEQ)
        yield Equality(field, value, _column(theirs, source, target), null_safe)
        return


def _column(node: exp.Expression, relation: Relation, other: Relation) -> Field | None:
    """Return the relation's column that an expression is, without change. `other` may be named
    too.
    """
    while isinstance(node, exp.Paren):
        node = node.this
    meant = resolve(node, (relation, other)) if isinstance(node, exp.Column) else []
    if len(meant) != 1 or meant[0].relation is not relation or meant[0].path:
        return None
    return meant[0].field


def _predicates(part: exp.Expression, target: Relation, time_zone: str) -> list[Predicate]:
    try:
        return [predicate_of(part, target.schema, time_zone, target.alias)]
    except (InvalidPredicateError, UnsupportedFeatureError, RecursionError):
        return []
