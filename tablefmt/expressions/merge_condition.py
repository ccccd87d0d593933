"""What the ON of a MERGE says of the target alone, and what it equates with the source. Pure.

Spec: MRG-3.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sqlglot import exp

from tablefmt.errors import InvalidPredicateError, UnsupportedFeatureError
from tablefmt.expressions.names import Relation
from tablefmt.expressions.parse import parse_tree
from tablefmt.expressions.predicate import Predicate, all_of, any_of
from tablefmt.expressions.sql_to_duckdb import Translated, translate_condition, translate_tree
from tablefmt.expressions.sql_to_predicate import predicate_of
from tablefmt.model.schema import Field


@dataclass(frozen=True, slots=True)
class EquatedWith:
    """`column of the target = expression over the source`, one of the AND-ed parts of ON."""

    field: Field
    value: Translated
    null_safe: bool
    """The operator is `<=>`."""


@dataclass(frozen=True, slots=True)
class MergeCondition:
    """The condition of a MERGE."""

    whole: Translated
    target: Predicate
    """TRUE for every target row that can match at all, whatever the source holds."""
    equated: tuple[EquatedWith, ...]


def analyze_merge_condition(
    text: str, target: Relation, source: Relation, now_us: int = 0
) -> MergeCondition:
    """The parts of ON.

    Args:
        text: over both relations.
        target: prefix and alias differ from the source's.
        source: likewise.
        now_us: the statement's time.

    Raises:
        InvalidPredicateError, UnsupportedFeatureError: as `translate`.
    """
    both = (target, source)
    whole = translate_condition(text, both, now_us)
    known: list[Predicate] = []
    equated: list[EquatedWith] = []
    for part in and_ed(parse_tree(text)):
        made = translate_tree(part, both, now_us)
        if made.columns and not _uses(made, source):
            known += _understood(part, target)
        elif isinstance(part, exp.EQ | exp.NullSafeEQ):
            equated += _equated(part, target, source, now_us)
    return MergeCondition(whole, all_of(known), tuple(equated))


@dataclass(frozen=True, slots=True)
class OnParts:
    """As much of ON as can be understood, for an engine that works it out itself."""

    known: tuple[Predicate, ...]
    """Parts over the target alone."""
    equated: tuple[tuple[Field, Field, bool], ...]
    """Columns of target and source that are equal where ON holds; true for `<=>`."""
    columns: frozenset[str] | None
    """Handles of the columns by which it goes; None if it cannot be reasoned about (CFL-21)."""


def parts_of(text: str, target: Relation, source: Relation, time_zone: str) -> OnParts:
    """What is understood of ON; never refuses what another engine may understand.

    Args:
        text: over both relations.
        target: prefix and alias differ from the source's.
        source: likewise.
        time_zone: of times without one.

    Raises:
        InvalidPredicateError: it cannot be parsed.
    """
    both = (target, source)
    known: list[Predicate] = []
    equated: list[tuple[Field, Field, bool]] = []
    for part in and_ed(parse_tree(text)):
        made = _tried(part, both)
        if made is not None and made.columns and not _uses(made, source):
            known += _understood(part, target, time_zone)
        elif isinstance(part, exp.EQ | exp.NullSafeEQ):
            equated += _equal_columns(part, target, source)
    whole = _tried(parse_tree(text), both)
    plain = whole is not None and not whole.nested
    return OnParts(
        tuple(known), tuple(equated), whole.columns if whole is not None and plain else None
    )


def _tried(part: exp.Expression, both: tuple[Relation, Relation]) -> Translated | None:
    try:
        return translate_tree(part, both)
    except (InvalidPredicateError, UnsupportedFeatureError, RecursionError):
        return None


def _equal_columns(
    part: exp.Expression, target: Relation, source: Relation
) -> Iterator[tuple[Field, Field, bool]]:
    sides = [_tried(side, (target, source)) for side in (part.this, part.expression)]
    for mine, other in (sides, sides[::-1]):
        if mine is None or other is None or mine.column is None or other.column is None:
            continue
        if _uses(mine, target) and _uses(other, source):
            ours = target.schema.fields[int(mine.column.removeprefix(target.prefix))]
            theirs = source.schema.fields[int(other.column.removeprefix(source.prefix))]
            yield ours, theirs, isinstance(part, exp.NullSafeEQ)
            return


def bound_of(conditions: Sequence[str | None], target: Relation) -> Predicate | None:
    """TRUE for every row for which one of the conditions on the target can be; None: for all."""
    bounds = []
    for text in conditions:
        if text is None:
            return None
        known = [p for part in and_ed(parse_tree(text)) for p in _understood(part, target)]
        if not known:
            return None
        bounds.append(all_of(known))
    return any_of(bounds)


def _equated(
    part: exp.Expression, target: Relation, source: Relation, now_us: int
) -> Iterator[EquatedWith]:
    sides = [
        translate_tree(side, (target, source), now_us) for side in (part.this, part.expression)
    ]
    for mine, other in (sides, sides[::-1]):
        if mine.column is None or not _uses(mine, target) or _uses(other, target):
            continue
        field = target.schema.fields[int(mine.column.removeprefix(target.prefix))]
        yield EquatedWith(field, other, isinstance(part, exp.NullSafeEQ))
        return


def _understood(part: exp.Expression, target: Relation, time_zone: str = "UTC") -> list[Predicate]:
    try:
        return [predicate_of(part, target.schema, time_zone, target.alias)]
    except (InvalidPredicateError, UnsupportedFeatureError, RecursionError):
        return []


def _uses(made: Translated, relation: Relation) -> bool:
    return any(handle.startswith(relation.prefix) for handle in made.columns)


def and_ed(tree: exp.Expression) -> Iterator[exp.Expression]:
    """The AND-ed parts of a condition, in order."""
    pending = [tree]
    while pending:
        node = pending.pop()
        if isinstance(node, exp.And):
            pending += (node.expression, node.this)
        elif isinstance(node, exp.Paren):
            pending.append(node.this)
        else:
            yield node
