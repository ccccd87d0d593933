"""A predicate as a pyarrow expression that passes exactly the rows Spark's would. Pure.

Arrow's floats are unordered and its Parquet statistics leave NaN out, so nothing here relies on a
negated or unequal comparison of floats alone: whatever must keep NaN says so. Spec: PRN-10.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tablefmt.model.arrow_types import arrow_type
from tablefmt.model.predicate import (
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
from tablefmt.model.schema import Field, Schema, is_float


def to_arrow_expression(predicate: Predicate, schema: Schema) -> pc.Expression:
    """A filter over columns called by their logical names, with the types of `arrow_type`.

    It is TRUE for exactly the rows for which the predicate is TRUE; for others it may be false or
    null. It may be pushed into a Parquet scan. Columns are found in `schema` by field id; KeyError
    if one is not there. Spec: PRN-10.
    """
    return _expression(normalise(predicate), schema)


def _expression(predicate: Predicate, schema: Schema) -> pc.Expression:
    if isinstance(predicate, And | Or):
        # Pairwise, so that thousands of items do not nest thousands deep.
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
    """The column, and the type to compare it in: float columns as double only if they must."""
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
    # Arrow looks values up by their bits, and the two zeros differ in theirs.
    numbers += [-v for v in numbers if is_float(field.type) and v == 0]
    found = pc.scalar(False)
    if numbers:
        typed, kind = _typed(field, column, numbers)
        found = pc.is_in(typed, value_set=pa.array(numbers, kind))
    if not is_float(field.type):
        return column.is_valid() & ~found if negated else found
    if not negated:
        return found | _is_nan(column) if has_nan else found
    if has_nan:
        return column.is_valid() & ~_is_nan(column) & ~found
    return _is_nan(column) | (column.is_valid() & ~found)
