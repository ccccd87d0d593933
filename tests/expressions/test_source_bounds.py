"""Conditions from the values of a source: they pass every row that can match."""

from __future__ import annotations

import datetime as dt
import math
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tablefmt.expressions.merge_statement import (
    VALUES_MAX,
    Equated,
    SourceValues,
    predicate_of_source,
    values_of,
)
from tablefmt.expressions.predicate import FALSE, TRUE, to_arrow_expression, to_sql
from tablefmt.model.schema import Field, Primitive, Schema

NAN = float("nan")


def field(kind: str) -> Field:
    return Field(1, "c", "c", Primitive(kind))


def passed(kind: str, source: pa.Array, target: pa.Array, null_safe: bool) -> list[bool]:
    """Return for each target value if the derived condition is TRUE."""
    column = field(kind)
    predicate = predicate_of_source([Equated(column, values_of(source, column), null_safe)])
    rows = pa.table({"c": target, "at": range(len(target))})
    kept = set(rows.filter(to_arrow_expression(predicate, Schema((column,), 1)))["at"].to_pylist())
    return [at in kept for at in range(len(target))]


NUMBERS = st.one_of(st.none(), st.sampled_from([0.0, -0.0, NAN, math.inf]), st.floats())


@given(
    source=st.lists(NUMBERS, max_size=6),
    target=st.lists(NUMBERS, max_size=6),
    null_safe=st.booleans(),
    many=st.booleans(),
)
def test_floats_that_are_equal_pass(
    source: list[Any], target: list[Any], null_safe: bool, many: bool
) -> None:
    """MRG-3, PRN-2: NaN equals NaN, both zeros are one, NULL only equals under <=>."""
    if many and source:
        source = [*source, *(1e300 + i * 1e290 for i in range(VALUES_MAX + 1))]
    source_values, target_values = (pa.array(v, pa.float64()) for v in (source, target))
    for value, goes in zip(
        target, passed("double", source_values, target_values, null_safe), strict=True
    ):
        same = any(
            (a is None and value is None and null_safe)
            or (a is not None and value is not None and (a == value or (a != a and value != value)))
            for a in source
        )
        assert goes or not same
        if not many:
            assert goes == same


@pytest.mark.parametrize(
    ("kind", "values", "text"),
    [
        ("long", [3, 1, 3, None], "`c` IN (3, 1)"),
        ("string", ["b'", "a"], "`c` IN ('b\\'', 'a')"),
        ("date", [dt.date(1970, 1, 2)], "`c` IN (DATE '1970-01-02')"),
        ("boolean", [True], "`c` IN (TRUE)"),
    ],
)
def test_few_values_are_listed(kind: str, values: list[Any], text: str) -> None:
    column = field(kind)
    known = values_of(pa.array(values), column)
    assert to_sql(predicate_of_source([Equated(column, known)])) == text


def test_many_values_are_bounded_and_none_match_nothing() -> None:
    column = field("long")
    known = values_of(pa.chunked_array([range(2000), [None]], pa.int64()), column)
    assert known == SourceValues(lower=0, upper=1999)
    assert to_sql(predicate_of_source([Equated(column, known)])) == "`c` >= 0 AND `c` <= 1999"
    said = to_sql(predicate_of_source([Equated(column, known, null_safe=True)]))
    assert said == "`c` IS NULL OR (`c` >= 0 AND `c` <= 1999)"
    nothing = values_of(pa.array([None], pa.int64()), column)
    assert predicate_of_source([Equated(column, nothing)]) == FALSE
    assert to_sql(predicate_of_source([Equated(column, nothing, null_safe=True)])) == "`c` IS NULL"
    assert predicate_of_source([Equated(column, SourceValues())]) == TRUE
    assert predicate_of_source([]) == TRUE
