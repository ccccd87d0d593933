"""Two conditions are called disjoint only if no row makes both true."""

from __future__ import annotations

import decimal
import itertools
import math
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tablefmt.expressions.condition_overlap import COMBINATIONS_MAX, may_both_hold
from tablefmt.expressions.ddl import schema_from
from tablefmt.expressions.predicate import (
    And,
    Comparison,
    In,
    IsNaN,
    IsNull,
    Not,
    Or,
    Predicate,
    normalise,
)
from tablefmt.expressions.sql_to_predicate import parse_predicate
from tablefmt.model.schema import Field

SCHEMA = schema_from(
    "i INT, s STRING, b BOOLEAN, d DOUBLE, f FLOAT, n DECIMAL(4,1), t DATE, x BINARY"
)
FIELDS: dict[str, Field] = {f.name: f for f in SCHEMA.fields}
DOMAINS: dict[str, list[Any]] = {
    "i": [None, -(2**31), -2, -1, 0, 1, 2, 2**31 - 1],
    "s": [None, "", "\0", "a", "a\0", "a\0\0", "aa", "b", "é"],
    "b": [None, False, True],
    "d": [None, -math.inf, -1.5, -0.0, 0.0, 5e-324, 1.5, math.inf, math.nan],
    "n": [None, *map(decimal.Decimal, ("-999.9", "-0.1", "0.0", "0.1", "0.2", "999.9"))],
    "t": [None, -1, 0, 1, 2, 3],
    "x": [None, b"", b"\0", b"a", b"a\0", b"b"],
}


def key(value: Any) -> Any:
    """Spark's order: NaN above all."""
    return (1, 0) if value != value else (0, value)


def holds(p: Predicate, row: dict[str, Any]) -> bool | None:
    """Three-valued, row by row."""
    if isinstance(p, And | Or):
        found = [holds(item, row) for item in p.items]
        absorbing = isinstance(p, Or)
        if absorbing in found:
            return absorbing
        return None if None in found else not absorbing
    if isinstance(p, Not):
        inner = holds(p.item, row)
        return None if inner is None else not inner
    value = row[p.field.name]
    if isinstance(p, IsNull):
        return value is None
    if isinstance(p, IsNaN):
        return value is not None and value != value
    if isinstance(p, In):
        if value is None:
            return None
        if any(v is not None and key(v) == key(value) for v in p.values):
            return True
        return None if None in p.values else False
    assert isinstance(p, Comparison)
    if p.op == "<=>":
        return value is not None and key(value) == key(p.value)
    if value is None:
        return None
    a, b = key(value), key(p.value)
    results = {"=": a == b, "!=": a != b, "<": a < b, "<=": a <= b, ">": a > b, ">=": a >= b}
    return results[p.op]


@st.composite
def conditions(draw: st.DrawFn, names: Sequence[str], depth: int = 2) -> Predicate:
    kind = draw(st.sampled_from(["leaf", "leaf", "and", "or", "not"] if depth else ["leaf"]))
    deeper = conditions(names, depth - 1)
    if kind == "not":
        return Not(draw(deeper))
    if kind in ("and", "or"):
        return (And if kind == "and" else Or)((draw(deeper), draw(deeper)))
    name = draw(st.sampled_from(names))
    values = [v for v in DOMAINS[name] if v is not None]
    leaf = draw(st.sampled_from(["compare", "compare", "in", "null"]))
    if leaf == "null":
        return IsNull(FIELDS[name])
    if leaf == "in":
        chosen = draw(st.lists(st.sampled_from(DOMAINS[name]), min_size=1, max_size=3))
        return In(FIELDS[name], tuple(chosen))
    op = draw(st.sampled_from(["=", "!=", "<", "<=", ">", ">=", "<=>"]))
    return Comparison(FIELDS[name], op, draw(st.sampled_from(values)))


def some_row(one: Predicate, other: Predicate, names: Sequence[str]) -> bool:
    rows = itertools.product(*(DOMAINS[n] for n in names))
    pairs = (dict(zip(names, values, strict=True)) for values in rows)
    return any(holds(one, row) is True and holds(other, row) is True for row in pairs)


@pytest.mark.share(2)
@pytest.mark.parametrize("names", [("i",), ("s",), ("b",), ("d",), ("n",), ("t",), ("x",)])
@given(st.data())
def test_what_a_row_makes_true_is_never_called_disjoint(
    names: tuple[str, ...], data: st.DataObject
) -> None:
    """CFL-19: column by column, against all values of a small domain."""
    one, other = data.draw(conditions(names)), data.draw(conditions(names))
    if some_row(one, other, names):
        assert may_both_hold(one, other)


@given(st.data())
def test_two_columns_are_looked_at_together(data: st.DataObject) -> None:
    """CFL-19."""
    names = ("i", "b")
    one, other = data.draw(conditions(names)), data.draw(conditions(names))
    if some_row(one, other, names):
        assert may_both_hold(one, other)


CASES = [
    ("i < 5", "i >= 5", False),
    ("i <= 5", "i >= 5", True),
    ("i > 4 AND i < 6", "i != 5", False),
    ("i > 4 AND i < 7", "i != 5", True),
    ("i IS NULL", "i = 1", False),
    ("i IS NULL", "i <=> 1", False),
    ("s >= 'b'", "s < 'b'", False),
    ("s > 'a'", "s < 'b'", True),
    ("t = DATE '2026-01-01'", "t = DATE '2026-01-02'", False),
    ("t >= DATE '2026-01-01'", "t < DATE '2026-01-01'", False),
    ("b", "NOT b", False),
    ("i = 1 AND s = 'x'", "i = 1 AND s = 'y'", False),
    ("i = 1 OR s = 'x'", "i = 2 AND s = 'y'", False),
    ("s LIKE 'a%'", "s = 'b'", True),
    ("d > 1.5", "d <= 1.5", False),
    ("f > 0.1", "f < 0.1", False),
    ("n > 0.1", "n < 0.2", False),
    ("isnan(d)", "d < 3", False),
    ("x = X'00'", "x != X'00'", False),
]


@pytest.mark.parametrize(("one", "other", "may"), CASES)
def test_disjoint_conditions_are_told_from_overlapping_ones(
    one: str, other: str, may: bool
) -> None:
    """CFL-19: exact but for LIKE, in both directions."""
    first, second = parse_predicate(one, SCHEMA), parse_predicate(other, SCHEMA)
    assert may_both_hold(first, second) is may
    assert may_both_hold(normalise(second), normalise(first)) is may


def test_many_columns_are_decided_one_by_one() -> None:
    """CFL-19: more combinations than are tried; a column that never holds still decides."""
    wide = schema_from(", ".join(f"c{i} INT" for i in range(8)))
    each = [In(f, tuple(range(10))) for f in wide.fields]
    assert 10 ** len(each) > COMBINATIONS_MAX
    one = And(tuple(each))
    assert may_both_hold(one, one)
    assert not may_both_hold(one, Comparison(wide.fields[3], ">", 10))
