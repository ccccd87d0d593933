"""Predicates: conditions on one row, a small tree with exactly Spark's three-valued meaning. Pure.

A condition is TRUE, FALSE or NULL for a row, and selects the row if it is TRUE. Floats are totally
ordered as in Spark: NaN equals itself and is above everything, and -0.0 equals 0.0.

Values are Python values of the column's own type:

  ====================================  ============================================================
  boolean                               bool
  byte, short, integer, long            int within the type's range
  float, double                         float; a float column is compared as double
  decimal                               decimal.Decimal that fits precision and scale
  string, binary                        str without surrogates, bytes
  date                                  int, days since 1970-01-01
  timestamp, timestamp_ntz              int, µs since 1970-01-01 00:00:00 (UTC, wall clock)
  ====================================  ============================================================

Predicates convert to pyarrow expressions. Arrow's floats are unordered, and its Parquet statistics
ignore NaN. A scan treats a row group of one number and NaN as a constant, so even `is_nan` loses
rows there. Hence two forms: an exact one for rows in memory, and a wider one for scans.

Spec: PRN-1, PRN-2, PRN-10 (spec/pruning.md).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, Union

import pyarrow as pa
import pyarrow.compute as pc

from tablefmt.expressions.literals import literal_sql
from tablefmt.model.arrow_types import arrow_type
from tablefmt.model.schema import Field, Schema, is_float

OPERATORS = ("=", "!=", "<", "<=", ">", ">=", "<=>")
"""Comparison operators. `<=>` is equality that is never NULL: NULL differs from every value."""

_OPPOSITE = {"=": "!=", "!=": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}


@dataclass(frozen=True, slots=True)
class Constant:
    """TRUE, FALSE, or NULL (None) for every row."""

    value: bool | None


@dataclass(frozen=True, slots=True)
class Comparison:
    """Comparison `field op value` with one of `OPERATORS`. The value is never None."""

    field: Field
    op: str
    value: Any


@dataclass(frozen=True, slots=True)
class In:
    """Membership `field IN (values)` with at least one value; None means NULL."""

    field: Field
    values: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class IsNull:
    """Test `field IS NULL`. Never NULL itself."""

    field: Field


@dataclass(frozen=True, slots=True)
class IsNaN:
    """Test `isnan(field)` of a float or double column; FALSE for a null."""

    field: Field


@dataclass(frozen=True, slots=True)
class Like:
    r"""Test `field LIKE pattern` of a string column: `%` any text, `_` one code point, `\`
    escapes.
    """

    field: Field
    pattern: str


@dataclass(frozen=True, slots=True)
class And:
    """Conjunction of `items`, at least two."""

    items: tuple[Predicate, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """Disjunction of `items`, at least two."""

    items: tuple[Predicate, ...]


@dataclass(frozen=True, slots=True)
class Not:
    """Negation: TRUE for FALSE, FALSE for TRUE, NULL for NULL."""

    item: Predicate


Leaf = Union[Constant, Comparison, In, IsNull, IsNaN, Like]  # noqa: UP007 - evaluated in 3.10
Predicate = Union[Leaf, And, Or, Not]  # noqa: UP007 - evaluated at run time in 3.10

TRUE = Constant(True)
FALSE = Constant(False)
NULL = Constant(None)


def all_of(items: Sequence[Predicate]) -> Predicate:
    """Return the conjunction of the items; TRUE if there are none."""
    if not items:
        return TRUE
    return items[0] if len(items) == 1 else And(tuple(items))


def any_of(items: Sequence[Predicate]) -> Predicate:
    """Return the disjunction of the items; FALSE if there are none."""
    if not items:
        return FALSE
    return items[0] if len(items) == 1 else Or(tuple(items))


def normalise(predicate: Predicate) -> Predicate:
    """Return the condition with negation only directly above In, IsNull, IsNaN and Like. Spec:
    PRN-2.

    The meaning is the same for every row, including NULL. Nested And/Or of one kind are flattened.
    """
    return _normal(predicate, False)


def _normal(predicate: Predicate, negated: bool) -> Predicate:
    if isinstance(predicate, Not):
        return _normal(predicate.item, not negated)
    if isinstance(predicate, And | Or):
        is_and = isinstance(predicate, And) != negated
        kind = And if is_and else Or
        items: list[Predicate] = []
        for item in predicate.items:
            normal = _normal(item, negated)
            items.extend(normal.items if isinstance(normal, kind) else (normal,))
        return kind(tuple(items))
    if not negated:
        return predicate
    if isinstance(predicate, Constant):
        return NULL if predicate.value is None else Constant(not predicate.value)
    if isinstance(predicate, Comparison):
        field, value = predicate.field, predicate.value
        if predicate.op == "<=>":
            return Or((IsNull(field), Comparison(field, "!=", value)))
        return Comparison(field, _OPPOSITE[predicate.op], value)
    return Not(predicate)


def fields(predicate: Predicate) -> set[int]:
    """Return the ids of the columns that it uses."""
    if isinstance(predicate, And | Or):
        return set().union(*(fields(item) for item in predicate.items))
    if isinstance(predicate, Not):
        return fields(predicate.item)
    return set() if isinstance(predicate, Constant) else {predicate.field.id}


def over_columns(predicate: Predicate, columns: frozenset[int]) -> Predicate:
    """Return a condition over these columns alone that is TRUE wherever `predicate` is."""
    return _over(normalise(predicate), columns)


def _over(predicate: Predicate, columns: frozenset[int]) -> Predicate:
    if isinstance(predicate, And):
        items = [_over(item, columns) for item in predicate.items]
        return all_of([item for item in items if item != TRUE])
    if isinstance(predicate, Or):
        items = [_over(item, columns) for item in predicate.items]
        return TRUE if TRUE in items else any_of(items)
    return predicate if fields(predicate) <= columns else TRUE


def to_sql(predicate: Predicate) -> str:
    """Return Spark SQL text that `parse_predicate` reads back as the same tree, in any time zone.

    Every literal is quoted for Spark with default settings, so no value can end its literal.
    """
    if isinstance(predicate, And | Or):
        word = " AND " if isinstance(predicate, And) else " OR "
        return word.join(_operand(item) for item in predicate.items)
    if isinstance(predicate, Not):
        return f"NOT {_operand(predicate.item)}"
    if isinstance(predicate, Constant):
        return {True: "TRUE", False: "FALSE", None: "NULL"}[predicate.value]
    name = quote_name(predicate.field.name)
    if isinstance(predicate, IsNull):
        return f"{name} IS NULL"
    if isinstance(predicate, IsNaN):
        return f"isnan({name})"
    if isinstance(predicate, Like):
        return f"{name} LIKE {literal_sql(predicate.pattern, 'string')}"
    kind = str(predicate.field.type)
    if isinstance(predicate, In):
        values = ("NULL" if v is None else literal_sql(v, kind) for v in predicate.values)
        return f"{name} IN ({', '.join(values)})"
    return f"{name} {predicate.op} {literal_sql(predicate.value, kind)}"


def _operand(predicate: Predicate) -> str:
    text = to_sql(predicate)
    return f"({text})" if isinstance(predicate, And | Or | Not) else text


def quote_name(name: str) -> str:
    """Return a column name in backticks."""
    return "`" + name.replace("`", "``") + "`"


def quoted_path(*parts: str) -> str:
    """Return the text of a path as `path_of` reads it. A plain name of a column stays as it is."""
    if len(parts) == 1 and not {".", "`"} & {*parts[0]}:
        return parts[0]
    return ".".join(map(quote_name, parts))


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


COMPARE: dict[str, Callable[[Any, Any], pa.BooleanArray]] = {
    "=": pc.equal,
    "<=>": pc.equal,
    "!=": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}
"""Arrow's function for each operator. Callers decide NULL <=> NULL."""


def to_comparisons(
    predicate: Predicate, schema: Schema
) -> Callable[[pa.RecordBatch], pa.BooleanArray] | None:
    """Return a function that evaluates a conjunction of comparisons on rows. Its result may be
    NULL. None: the predicate is something else, or compares floats.

    It costs less per batch than an expression, which starts an execution plan.
    """
    wanted = normalise(predicate)
    leaves = wanted.items if isinstance(wanted, And) else (wanted,)
    compared: list[tuple[str, Callable[[Any, Any], pa.BooleanArray], pa.Scalar]] = []
    for leaf in leaves:
        if not isinstance(leaf, Comparison):
            return None
        field = schema.by_id(leaf.field.id)
        if is_float(field.type) or str(field.type) == "boolean":
            return None
        value = pa.scalar(leaf.value, arrow_type(field.type))
        compared.append((field.name, COMPARE[leaf.op], value))

    def test(rows: pa.RecordBatch) -> pa.BooleanArray:
        found = [kernel(rows.column(name), value) for name, kernel, value in compared]
        return reduce(pc.and_kleene, found)

    return test


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
