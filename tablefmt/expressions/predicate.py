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

Spec: PRN-1, PRN-2 (spec/pruning.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Union

from tablefmt.expressions.literals import literal_sql
from tablefmt.model.schema import Field

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
