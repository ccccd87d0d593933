"""Conversion of a predicate to pyarrow expressions. Pure.

Arrow's floats are unordered, and its Parquet statistics ignore NaN. A scan treats a row group of
one number and NaN as a constant, so even `is_nan` loses rows there. Hence two forms: an exact one
for rows in memory, and a wider one for scans. Spec: PRN-10.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tablefmt.expressions.predicate import (
    TRUE,
    And,
    Comparison,
    Constant,
    In,
    IsNaN,
    IsNull,
    Like,
    Not,
    Or,
    Predicate,
    normalise,
)
from tablefmt.model.arrow_types import arrow_type
from tablefmt.model.schema import Field, Schema, is_float


def to_arrow_expression(predicate: Predicate, schema: Schema) -> pc.Expression:
    """Return a filter for tables and batches in memory. For a Parquet scan, use
    `to_scan_expression`.

    It is TRUE for exactly the rows for which the predicate is TRUE. For other rows it may be false
    or null. Columns have their logical names and the types of `arrow_type`. They are found in
    `schema` by field id. Raises KeyError if one is missing. Spec: PRN-10.
    """
    return _expression(normalise(predicate), schema)


def to_scan_expression(predicate: Predicate, schema: Schema) -> pc.Expression:
    """Return a filter that a Parquet scan may push down to row groups. Apply the exact one
    afterwards.

    It passes every row that `to_arrow_expression` passes. It passes more only if a condition on a
    float column is TRUE for NaN. Columns and errors are the same. Spec: PRN-10.
    """
    return _expression(_without_nan_conditions(normalise(predicate)), schema)


def _without_nan_conditions(predicate: Predicate) -> Predicate:
    """Return the predicate with TRUE in place of every leaf that NaN makes TRUE."""
    if isinstance(predicate, And | Or):
        return type(predicate)(tuple(map(_without_nan_conditions, predicate.items)))
    return TRUE if _true_for_nan(predicate) else predicate


def _true_for_nan(leaf: Predicate) -> bool:
    negated = isinstance(leaf, Not)
    if isinstance(leaf, Not):
        leaf = leaf.item
    if isinstance(leaf, IsNaN):
        return not negated
    if isinstance(leaf, Comparison) and is_float(leaf.field.type):
        is_nan = leaf.value != leaf.value
        return leaf.op in (("=", "<=>", "<=", ">=") if is_nan else (">", ">=", "!="))
    if isinstance(leaf, In) and is_float(leaf.field.type):
        return any(v is not None and v != v for v in leaf.values) != negated
    return False


def _expression(predicate: Predicate, schema: Schema) -> pc.Expression:
    if isinstance(predicate, And | Or):
        # Combine in pairs, so that thousands of items do not nest thousands deep.
        items = [_expression(item, schema) for item in predicate.items]
        is_and = isinstance(predicate, And)
        while len(items) > 1:
            pairs = zip(items[::2], items[1::2], strict=False)
            odd = items[len(items) - len(items) % 2 :]
            items = [a & b if is_and else a | b for a, b in pairs] + odd
        return items[0]
    if isinstance(predicate, Constant):
        return pc.scalar(predicate.value is True)
    if isinstance(predicate, Not):
        return _leaf(predicate.item, True, schema)
    return _leaf(predicate, False, schema)


def _leaf(leaf: Predicate, negated: bool, schema: Schema) -> pc.Expression:
    assert not isinstance(leaf, Constant | And | Or | Not)
    field = schema.by_id(leaf.field.id)
    column = pc.field(field.name)
    if isinstance(leaf, IsNull):
        return column.is_valid() if negated else column.is_null()
    if isinstance(leaf, IsNaN):
        return column.is_null() | ~_is_nan(column) if negated else _is_nan(column)
    if isinstance(leaf, Comparison):
        return _comparison(field, column, leaf.op, leaf.value)
    if isinstance(leaf, In):
        return _membership(field, column, leaf.values, negated)
    assert isinstance(leaf, Like)
    match = pc.match_like(column, leaf.pattern)
    return ~match if negated else match


def _is_nan(column: pc.Expression) -> pc.Expression:
    return pc.is_nan(column)


def _typed(field: Field, column: pc.Expression, values: list[Any]) -> tuple[Any, pa.DataType]:
    """Return the column, and the type to compare it in: double for a float column only if
    necessary.
    """
    kind = arrow_type(field.type)
    if str(field.type) == "float" and any(pa.scalar(v, kind).as_py() != v for v in values):
        return column.cast(pa.float64()), pa.float64()
    return column, kind


def _comparison(field: Field, column: pc.Expression, op: str, value: Any) -> pc.Expression:
    if is_float(field.type):
        if value != value:
            if op == ">":
                return pc.scalar(False)
            if op in ("=", "<=>", ">="):
                return _is_nan(column)
            return column.is_valid() if op == "<=" else column.is_valid() & ~_is_nan(column)
        typed, kind = _typed(field, column, [value])
        plain = _compare(typed, op, pc.scalar(pa.scalar(value, kind)))
        # NaN is above every number and different from it.
        return _is_nan(column) | plain if op in (">", ">=", "!=") else plain
    return _compare(column, op, pc.scalar(pa.scalar(value, arrow_type(field.type))))


def _compare(left: pc.Expression, op: str, right: pc.Expression) -> pc.Expression:
    if op in ("=", "<=>"):
        return left == right
    if op == "!=":
        return left != right
    if op in ("<", "<="):
        return left < right if op == "<" else left <= right
    return left > right if op == ">" else left >= right


def _membership(
    field: Field, column: pc.Expression, values: tuple[Any, ...], negated: bool
) -> pc.Expression:
    if negated and None in values:
        return pc.scalar(False)
    known = [v for v in values if v is not None]
    numbers = [v for v in known if v == v]
    has_nan = len(numbers) < len(known)
    # Arrow compares the bits of values, and 0.0 and -0.0 have different bits.
    numbers += [-v for v in numbers if is_float(field.type) and v == 0]
    listed = pc.scalar(False)
    if numbers:
        typed, kind = _typed(field, column, numbers)
        listed = pc.is_in(typed, value_set=pa.array(numbers, kind))
    if not is_float(field.type):
        return column.is_valid() & ~listed if negated else listed
    if not negated:
        return listed | _is_nan(column) if has_nan else listed
    if has_nan:
        return column.is_valid() & ~_is_nan(column) & ~listed
    return _is_nan(column) | (column.is_valid() & ~listed)
