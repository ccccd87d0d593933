"""Conditions on computed values that follow from conditions on their columns. Pure.

`ts >= TIMESTAMP '2026-01-05 12:00:00'` implies `day >= DATE '2026-01-05'` for a column
`day` that is `CAST(ts AS DATE)`. So a condition on `ts` skips partitions by day. Only expressions
that rise with their one source are in the table below. Hidden partition fields follow HID-4.
Spec: GEN-6 (spec/generated.md).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sqlglot import exp

from tablefmt.errors import InvalidPredicateError, UnsupportedFeatureError
from tablefmt.expressions.generated_columns import GeneratedColumn, engine_text, generated_columns
from tablefmt.expressions.partition_conditions import RISING, HiddenRule, hidden_rules
from tablefmt.expressions.predicate import (
    And,
    Comparison,
    In,
    IsNull,
    Like,
    Or,
    Predicate,
    all_of,
    any_of,
    normalise,
)
from tablefmt.expressions.sql_parser import parse_tree
from tablefmt.model.log_entry import Metadata
from tablefmt.model.schema import Field

Rising = Callable[[Any], Any]
"""Function of a value, in the form of `predicate`. A larger value never has a smaller result."""


@dataclass(frozen=True, slots=True)
class _Rule:
    """A generated column that rises with its one source, and is NULL where the source is."""

    column: Field
    source: int
    value: Rising

    def followed(self, leaf: Predicate) -> Predicate | None:
        """Return the condition that follows from a condition on the source; None if none does."""
        if isinstance(leaf, IsNull):
            return IsNull(self.column)
        if isinstance(leaf, In):
            known = dict.fromkeys(self.value(value) for value in leaf.values if value is not None)
            return In(self.column, tuple(known)) if known else None
        op = RISING.get(leaf.op) if isinstance(leaf, Comparison) else None
        if op is None or not isinstance(leaf, Comparison):
            return None
        return Comparison(self.column, op, self.value(leaf.value))


def implied(predicate: Predicate, metadata: Metadata) -> Predicate:
    """Return a predicate that is TRUE for the same rows, with what follows for generated columns.

    The predicate itself is returned if nothing follows.

    Args:
        predicate: over top-level columns of the table.
        metadata: of the version whose rows it selects. They satisfy its constraints.
    """
    columns, hidden = generated_columns(metadata), hidden_rules(metadata)
    if not columns and not hidden:
        return predicate
    rules: list[_Rule | HiddenRule] = [*hidden]
    for each in columns:
        rules += _rule(each, metadata)
    return _with(normalise(predicate), rules) if rules else predicate


def _with(predicate: Predicate, rules: Sequence[_Rule | HiddenRule]) -> Predicate:
    if isinstance(predicate, And | Or):
        items = [_with(item, rules) for item in predicate.items]
        return all_of(items) if isinstance(predicate, And) else any_of(items)
    if not isinstance(predicate, Comparison | In | IsNull | Like):
        return predicate
    found = [rule.followed(predicate) for rule in rules if rule.source == predicate.field.id]
    return all_of([predicate, *(each for each in found if each is not None)])


def _rule(column: GeneratedColumn, metadata: Metadata) -> list[_Rule]:
    if len(column.sources) != 1:
        return []
    (source,) = column.sources
    given = next((f for f in metadata.schema.fields if f.id == source), None)
    try:
        tree = parse_tree(engine_text(column, metadata))
    except (InvalidPredicateError, UnsupportedFeatureError):
        return []
    if given is None:
        return []
    for kind, rising in _RISING.items():
        if isinstance(tree, kind):
            value = rising(tree, str(given.type), str(column.field.type))
            return [] if value is None else [_Rule(column.field, source, value)]
    return []


_DAY_US = 86_400_000_000
_INTEGERS = frozenset({"byte", "short", "integer", "long"})
_TO_DAYS: Mapping[str, Rising] = {
    "date": lambda value: value,
    "timestamp": lambda value: value // _DAY_US,
    "timestamp_ntz": lambda value: value // _DAY_US,
}
"""Days since 1970 of a date or a time, by type. A time is in UTC (GEN-3)."""


def _same(tree: exp.Expression, source: str, target: str) -> Rising | None:
    return (lambda value: value) if source == target else None


def _day(tree: exp.Expression, source: str, target: str) -> Rising | None:
    """Return the function of a cast to DATE."""
    whole = isinstance(tree.this, exp.Column) and tree.args.get("format") is None
    to = tree.args.get("to")
    is_date = to is None or to.this == exp.DataType.Type.DATE
    return _TO_DAYS.get(source) if whole and is_date and target == "date" else None


def _year(tree: exp.Expression, source: str, target: str) -> Rising | None:
    inner = tree.this.this if isinstance(tree.this, exp.TsOrDsToDate) else tree.this
    days = _TO_DAYS.get(source)
    if not isinstance(inner, exp.Column) or days is None or target not in _INTEGERS:
        return None
    return lambda value: int(np.datetime64(days(value), "D").astype("M8[Y]").astype(int)) + 1970


def _start(tree: exp.Expression, source: str, target: str) -> Rising | None:
    """Return the function of the first characters of a text."""
    if isinstance(tree, exp.Substring):
        begin, length = tree.args.get("start"), tree.args.get("length")
        first = begin is not None and _number(begin) == 1
    else:
        first, length = True, tree.args.get("expression")
    count = None if length is None else _number(length)
    if not (isinstance(tree.this, exp.Column) and first and source == target == "string"):
        return None
    return None if count is None else lambda value: value[:count]


def _divided(tree: exp.Expression, source: str, target: str) -> Rising | None:
    """Return the function of an integer division by a positive number, which cuts off."""
    by = _number(tree.args["expression"])
    plain = isinstance(tree.this, exp.Column) and source in _INTEGERS and target in _INTEGERS
    if not plain or not by:
        return None
    return lambda value: value // by if value >= 0 else -(-value // by)


def _number(tree: exp.Expression) -> int | None:
    """Return a whole number from 0 of the text; None for another expression."""
    is_whole = isinstance(tree, exp.Literal) and not tree.is_string and tree.this.isdigit()
    return int(tree.this) if is_whole else None


_RISING: Mapping[type, Callable[[Any, str, str], Rising | None]] = {
    exp.Column: _same,
    exp.Cast: _day,
    exp.TsOrDsToDate: _day,
    exp.Year: _year,
    exp.Substring: _start,
    exp.Left: _start,
    exp.IntDiv: _divided,
}
"""Expressions that rise with their source, by the class of the parsed text (TryCast is a Cast).

Each function takes the tree and the types of the source and of the column. It returns None for a
form that does not rise.
"""
