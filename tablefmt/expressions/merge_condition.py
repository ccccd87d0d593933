"""What the conditions of a MERGE say of the target, and what ON equates with the source. Pure.

Never refuses what an engine may understand that works it out itself. Spec: MRG-3.
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
    """What is understood of a condition, as far as it is about the target's rows."""

    predicate: Predicate | None
    """TRUE for every target row for which the condition can be; None: nothing is known."""
    columns: frozenset[int] | None
    """Ids of the target's columns by which it goes; None if nothing can be reasoned about it."""


@dataclass(frozen=True, slots=True)
class Equality:
    """`column of the target = expression over the source`, one of the AND-ed parts of ON."""

    field: Field
    value: Translated
    source: Field | None
    """The source's column, if the expression is one as it stands."""
    null_safe: bool
    """The operator is `<=>`."""


@dataclass(frozen=True, slots=True)
class MergeCondition:
    """What is understood of ON."""

    target: TargetCondition
    equalities: tuple[Equality, ...]
    complete: bool
    """There is no other part."""


def analyze_merge_condition(
    text: str, target: Relation, source: Relation, time_zone: str = "UTC", now_us: int = 0
) -> MergeCondition:
    """The parts of ON.

    Args:
        text: over both relations.
        target: prefix and alias differ from the source's.
        source: likewise.
        time_zone: of times without one.
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
    """A condition over the target alone. Arguments and errors as `analyze_merge_condition`."""
    tree = parse_tree(text)
    predicates = [p for part in conjuncts_of(tree) for p in _predicates(part, target, time_zone)]
    return _condition(predicates, _columns(analyze_tree(tree, target), target))


def _condition(predicates: Sequence[Predicate], columns: frozenset[int] | None) -> TargetCondition:
    return TargetCondition(all_of(list(predicates)) if predicates else None, columns)


def _columns(analysis: Analysis, target: Relation) -> frozenset[int] | None:
    """Ids of the target's columns in it; None if it does not follow from these alone.

    What is nested in the source is no obstacle: for the statement the source is what it is.
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
    """The relation's column that an expression is as it stands, where `other` may be meant too."""
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
