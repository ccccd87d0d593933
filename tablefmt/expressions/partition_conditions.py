"""Conditions on hidden partition fields that follow from conditions on their columns. Pure.

`ts >= TIMESTAMP '2026-01-05 12:00:00'` implies `ts_day >= DATE '2026-01-05'` where `days(ts)`
partitions the table. Some conditions also say exactly which partitions they select as a whole.
Spec: HID-4, HID-5 (spec/hidden.md).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from tablefmt.errors import ConstraintViolationError
from tablefmt.expressions.file_pruning import like_prefix
from tablefmt.expressions.predicate import (
    And,
    Comparison,
    In,
    IsNull,
    Like,
    Not,
    Or,
    Predicate,
    all_of,
    any_of,
    normalise,
)
from tablefmt.model.arrow_types import arrow_type
from tablefmt.model.log_entry import Metadata
from tablefmt.model.partition_transforms import PartitionTransform, transform_of
from tablefmt.model.schema import Field, Type, kind_name

RISING: Mapping[str, str] = {
    "=": "=",
    "<=>": "=",
    "<": "<=",
    "<=": "<=",
    ">": ">=",
    ">=": ">=",
}
"""Comparison of a column, and the one that follows for a value that rises with it."""

_EQUAL = {"=": "=", "<=>": "="}


@dataclass(frozen=True, slots=True)
class HiddenRule:
    """A hidden partition field, and what conditions on its column say about it."""

    field: Field
    transform: PartitionTransform

    @property
    def source(self) -> int:
        """Return the id of the column."""
        return self.transform.column.id

    @property
    def operators(self) -> Mapping[str, str]:
        """Return the comparisons that follow. Nothing follows from an order for a bucket."""
        return _EQUAL if self.transform.kind == "bucket" else RISING

    def value(self, value: Any) -> Any:
        """Return the partition value of a value, in the form of `predicate`; None if there is
        none.
        """
        given = pa.array([value], arrow_type(self.transform.column.type))
        try:
            return _plain(self.transform.values(given), self.field.type)
        except ConstraintViolationError:
            return None

    def followed(self, leaf: Predicate) -> Predicate | None:
        """Return the condition that follows from a condition on the column; None if none does."""
        if isinstance(leaf, IsNull):
            return IsNull(self.field)
        if isinstance(leaf, In):
            known = dict.fromkeys(self.value(value) for value in leaf.values if value is not None)
            return In(self.field, tuple(known)) if known and None not in known else None
        if isinstance(leaf, Like):
            return self._start(leaf)
        if not isinstance(leaf, Comparison):
            return None
        op = self.operators.get(leaf.op)
        value = None if op is None else self.value(leaf.value)
        return None if op is None or value is None else Comparison(self.field, op, value)

    def _start(self, leaf: Like) -> Predicate | None:
        """Return what follows for the first characters of a text."""
        prefix = like_prefix(leaf.pattern)[0]
        if self.transform.kind != "truncate" or not prefix:
            return None
        width = self.transform.number
        if len(prefix) >= width:
            return Comparison(self.field, "=", prefix[:width])
        return Like(self.field, f"{_escaped(prefix)}%")

    def same(self, leaf: Predicate) -> Predicate | None:
        """Return the condition on the field that is TRUE for exactly the same rows; else None."""
        if isinstance(leaf, IsNull):
            return IsNull(self.field)
        if isinstance(leaf, Not) and isinstance(leaf.item, IsNull):
            return Not(IsNull(self.field))
        if isinstance(leaf, In):
            sure = all(v is not None and self._alone(v) for v in leaf.values)
            return self.followed(leaf) if sure else None
        if isinstance(leaf, Like):
            prefix = like_prefix(leaf.pattern)[0]
            whole = leaf.pattern == f"{_escaped(prefix)}%"
            return self._start(leaf) if whole and len(prefix) <= self.transform.number else None
        return self._compared(leaf) if isinstance(leaf, Comparison) else None

    def _compared(self, leaf: Comparison) -> Predicate | None:
        op, value = leaf.op, leaf.value
        if op in _EQUAL:
            return self.followed(leaf) if self._alone(value) else None
        if self.transform.kind == "bucket" or not _is_discrete(self.transform.column.type):
            return None
        # `<=` and `>` a value are `<` and `>=` the next one.
        bound = value + 1 if op in ("<=", ">") else value
        before, at = self._beside(bound - 1), self._beside(bound)
        if op == "!=" or at is None or before is None or before == at:
            return None
        return Comparison(self.field, "<" if op in ("<", "<=") else ">=", at)

    def _alone(self, value: Any) -> bool:
        """Return whether no other value of the column has the same partition value."""
        kind, width = self.transform.kind, self.transform.number
        if kind == "bucket":
            return False
        if kind == "truncate" and kind_name(self.transform.column.type) in ("string", "binary"):
            return len(value) < width
        if not _is_discrete(self.transform.column.type):
            return False
        beside = [self._beside(value - 1), self._beside(value), self._beside(value + 1)]
        return None not in beside and len(set(beside)) == 3

    def _beside(self, value: int) -> Any:
        try:
            return self.value(value)
        except (pa.ArrowException, OverflowError):
            return None


def hidden_rules(metadata: Metadata) -> list[HiddenRule]:
    """Return the rules of the hidden partition fields of a table."""
    schema = metadata.schema
    return [HiddenRule(field, transform_of(field, schema)) for field in schema.hidden]


def over_partitions(predicate: Predicate, metadata: Metadata) -> Predicate:
    """Return a condition that is TRUE for the same rows, over hidden partition fields if possible.

    `ts >= TIMESTAMP '2026-01-05'` is the same as `ts_day >= DATE '2026-01-05'`. Other conditions
    on columns stay. Spec: HID-5.
    """
    own = metadata.partition_ids
    # A field of some partitionings alone decides nothing (EVO-3).
    rules = [rule for rule in hidden_rules(metadata) if rule.field.id in own]
    return _exact(normalise(predicate), rules, own) if rules else predicate


def _exact(predicate: Predicate, rules: list[HiddenRule], own: frozenset[int]) -> Predicate:
    if isinstance(predicate, And | Or):
        items = [_exact(item, rules, own) for item in predicate.items]
        return all_of(items) if isinstance(predicate, And) else any_of(items)
    leaf = predicate.item if isinstance(predicate, Not) else predicate
    column = getattr(leaf, "field", None)
    if column is None or column.id in own:
        return predicate
    of_column = (rule for rule in rules if rule.source == column.id)
    found = (same for rule in of_column if (same := rule.same(predicate)) is not None)
    return next(found, predicate)


def _is_discrete(kind: Type) -> bool:
    return kind_name(kind) in _DISCRETE


_DISCRETE = frozenset({"byte", "short", "integer", "long", "date", "timestamp", "timestamp_ntz"})
"""Types whose values are whole numbers in `predicate`."""

_COUNTS: Mapping[str, Callable[[pa.Array], pa.Array]] = {
    "date": lambda values: values.view(pa.int32()),
    "timestamp": lambda values: values.view(pa.int64()),
    "timestamp_ntz": lambda values: values.view(pa.int64()),
}
"""Numbers of times and days, which `predicate` uses in place of Python's."""


def _plain(values: pa.Array, kind: Type) -> Any:
    counted = _COUNTS.get(kind_name(kind))
    return (values if counted is None else counted(values))[0].as_py()


def _escaped(text: str) -> str:
    return "".join(f"\\{c}" if c in "\\%_" else c for c in text)
