"""Filter tuples mean what pyarrow means by them, as predicates that SQL text reads back."""

from __future__ import annotations

import datetime as dt
import math
import uuid
from decimal import Decimal as D
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tablefmt.errors import InvalidPredicateError, UnsupportedFeatureError
from tablefmt.expressions.filter_tuples import filters_to_predicate
from tablefmt.expressions.predicate import TRUE, Predicate, to_arrow_expression, to_sql
from tablefmt.expressions.sql_to_predicate import parse_predicate
from tablefmt.model.arrow_types import from_arrow
from tablefmt.model.schema import Field, Schema, is_float
from tablefmt.testing.random_conditions import evaluate, schemas, to_array, values
from tests.scheduling import without_address

NAN = math.nan
UTC = dt.timezone.utc
EAST = dt.timezone(dt.timedelta(hours=1))

TABLE = pa.table({
    "i": pa.array([1, 2, None, 4], pa.int32()),
    "f": pa.array([1.5, NAN, None, -0.0]),
    "g": pa.array([0.1, NAN, None, math.inf], pa.float32()),
    "s": ["a", "b", None, "d"],
    "b": [True, False, None, True],
    "d": pa.array([dt.date(2020, 1, 1), dt.date(2020, 1, 2), None, dt.date(1969, 1, 1)]),
    "ts": pa.array(
        [dt.datetime(2020, 1, 1), dt.datetime(2020, 1, 2, 3), None, dt.datetime(1969, 1, 1)],
        pa.timestamp("us", "UTC"),
    ),
    "n": pa.array(
        [dt.datetime(2020, 1, 1), dt.datetime(2020, 1, 2, 3), None, dt.datetime(1969, 1, 1)],
        pa.timestamp("us"),
    ),
    "dec": pa.array([D("1.50"), D("2.00"), None, D("-3.00")], pa.decimal128(9, 2)),
    "x": [b"a", b"\xff", None, b""],
    "a.b `c`": [1, 2, 3, None],
})  # fmt: skip

SAME_AS_PYARROW: list[Any] = [
    *([("i", op, 2)] for op in ("=", "==", "!=", "<", "<=", ">", ">=")),
    *([("f", op, value)] for op in ("=", "!=", "<", "<=", ">", ">=") for value in (1, 1.5, NAN)),
    *([("i", op, value)] for op in ("=", "!=", "<", ">=") for value in (1.0, 1.5, 2**40, NAN)),
    *([("g", op, 0.1)] for op in ("=", "!=", "<", ">")),
    *([("i", op, None)] for op in ("=", "!=", "<", ">=")),
    *([("i", op, members)] for op in ("in", "not in") for members in (
        [], [1], [1, None], [None], {1, 2}, (1, 4), range(3), np.array([1, 2]), pa.array([1, 4]),
        pd.Series([1, 2]), [2**40, 1], [1.5, 2], [1.0, 2.0], frozenset([4]), {4: 0}.keys(),
    )),
    *([("f", op, members)] for op in ("in", "not in") for members in ([NAN], [1.5, NAN], [1.5])),
    *([("s", op, members)] for op in ("in", "not in") for members in (["a", None], ["z"])),
    [("b", "=", True)], [("b", "!=", True)], [("b", "in", [False, None])],
    [("s", ">", "a")], [("s", "=", b"a")], [("x", "=", b"a")], [("x", ">", "a")],
    [("x", "in", [b"\xff", b""])],
    *([("d", op, dt.date(2020, 1, 1))] for op in ("=", "!=", "<", ">=")),
    *([("d", op, dt.datetime(2020, 1, 1, 5))] for op in ("=", "!=", "<", ">=")),
    [("d", "=", dt.datetime(2020, 1, 1, tzinfo=UTC))],
    *([("ts", op, dt.datetime(2020, 1, 1, 1, tzinfo=EAST))] for op in ("=", "!=", "<", ">=")),
    [("ts", ">", dt.date(2020, 1, 1))], [("ts", "=", pd.Timestamp("2020-01-01", tz="UTC"))],
    [("ts", "in", [dt.datetime(2020, 1, 1, tzinfo=UTC)])],
    [("n", "=", dt.datetime(2020, 1, 1))], [("n", "<", dt.date(2020, 1, 1))],
    [("n", "in", [pd.Timestamp("2020-01-01")])],
    *([("dec", op, D("1.5"))] for op in ("=", "!=", "<", ">=")),
    [("dec", "=", D("1.555"))], [("dec", "<", D("1.555"))], [("dec", "=", 1.5)],
    [("dec", "in", [D("1.5"), None])],
    [("a.b `c`", ">", 1)],
    [("i", "=", np.int64(1))], [("i", "=", np.float64(1.0))], [("g", "=", np.float32(0.1))],
    [("b", "=", np.bool_(True))], [("s", "=", np.str_("a"))], [("i", "=", pa.scalar(1))],
    [["i", "=", 1]], (("i", ">", 1),),
    [("i", ">", 1), ("s", "=", "b")],
    [[("i", ">", 1), ("i", "<", 4)], [("s", "=", "a")]],
    [[("i", "=", 1)], [("f", "!=", NAN)], [("i", "in", [None])]],
]  # fmt: skip


@pytest.mark.parametrize("filters", SAME_AS_PYARROW, ids=without_address)
def test_the_rows_are_those_of_pyarrow(filters: Any, tmp_path: Path) -> None:
    pq.write_table(TABLE, tmp_path / "f.parquet")
    expected = pq.read_table(tmp_path / "f.parquet", filters=filters)

    predicate = filters_to_predicate(filters, from_arrow(TABLE.schema))
    kept = TABLE.filter(to_arrow_expression(predicate, from_arrow(TABLE.schema)))

    assert repr(kept.to_pylist()) == repr(expected.to_pylist())


def kept(filters: Any) -> list[int | None]:
    schema = from_arrow(TABLE.schema)
    expression = to_arrow_expression(filters_to_predicate(filters, schema), schema)
    rows: list[int | None] = TABLE.filter(expression)["i"].to_pylist()
    return rows


def test_what_pyarrow_refuses_or_mistakes() -> None:
    """Naive times are UTC, as everywhere; whole numbers are decimals; there is one zero."""
    midnight = dt.datetime(2020, 1, 1)
    assert kept([("ts", "=", midnight)]) == [1]
    assert kept([("ts", "in", [midnight])]) == [1]
    assert kept([("ts", "=", np.datetime64("2020-01-01"))]) == [1]
    assert kept([("n", "=", midnight.replace(tzinfo=UTC))]) == [1]
    assert kept([("dec", ">=", 2)]) == [2]
    assert kept([("dec", "in", [2])]) == [2]
    assert kept([("f", "in", [0.0])]) == kept([("f", "=", 0.0)]) == [4]
    assert kept([("i", "<", 10**30)]) == [1, 2, 4]
    assert kept([("I", "=", 1)]) == [1]
    assert kept([("ts", "=", pd.NaT)]) == []


REFUSED: list[tuple[Any, str]] = [
    ([], "an empty list; give None for all rows"),
    ((), "an empty list"),
    ([[]], "instead of a list of tuples"),
    ([[("i", "=", 1)], []], "instead of a list of tuples"),
    ([[], [("i", "=", 1)]], "instead of a list of tuples"),
    (("i", "=", 1), "put the tuple into a list"),
    (["i = 1"], "put the tuple into a list"),
    ([("i", "=", 1), [("i", "=", 2)]], "instead of (column, operator, value)"),
    ([("i", "=")], "instead of (column, operator, value)"),
    ([[("i", "=", 1, 2)]], "instead of (column, operator, value)"),
    ([[(1, "=", 1)]], "column's name"),
    ([1], "instead of a list of tuples"),
    ([None], "instead of a list of tuples"),
    ([("i", "~", 1)], "the operator '~'"),
    ([("i", "IN", [1])], "the operator 'IN'"),
    ([("i", "is", None)], "the operator 'is'"),
    ([("i", ["="], 1)], "the operator ['=']"),
    ([("zz", "=", 1)], "no column 'zz'"),
    ([("i", "in", 1)], "expected a list"),
    ([("s", "in", "ab")], "expected a list"),
    ([("i", "in", iter([1]))], "expected a list"),
    ([("i", "in", {1: 2})], "expected a list"),
    ([("i", "=", "1")], "is integer and cannot be compared with the str '1'"),
    ([("i", "in", ["1"])], "compared with the str '1'"),
    ([("i", "=", True)], "compared with the bool True"),
    ([("i", "=", [1])], "compared with the list"),
    ([("b", "=", 1)], "is boolean"),
    ([("s", "=", 1)], "is string"),
    ([("s", "=", "\ud800")], "is string"),
    ([("s", "=", b"\xff")], "is string"),
    ([("s", "=", uuid.UUID(int=0))], "compared with the UUID"),
    ([("d", "=", "2020-01-01")], "pass a number, a date or a datetime"),
    ([("n", "=", dt.time(1))], "compared with the time"),
    ([("n", "=", pd.Timestamp(1))], "compared with the Timestamp"),
    ([("n", "=", np.datetime64(1, "ns"))], "compared with the datetime64"),
    ([("dec", "=", D("NaN"))], "compared with the Decimal"),
    ([("dec", "=", D("1e99999"))], "compared with the Decimal"),
    ([("f", "=", 10**400)], "compared with the int"),
    ([("x", "=", 1)], "is binary"),
]


@pytest.mark.parametrize(("filters", "text"), REFUSED, ids=without_address)
def test_what_makes_no_sense_is_refused_by_name(filters: Any, text: str) -> None:
    with pytest.raises(InvalidPredicateError) as caught:
        filters_to_predicate(filters, from_arrow(TABLE.schema))
    assert text in str(caught.value)


def test_nested_columns_are_refused() -> None:
    schema = from_arrow(pa.schema([("st", pa.struct([("i", pa.int32())]))]))
    for name in ("st", "st.i"):
        with pytest.raises((UnsupportedFeatureError, InvalidPredicateError)):
            filters_to_predicate([(name, "=", 1)], schema)


def plain(field: Field) -> st.SearchStrategy[Any]:
    """Values of a column as Python has them; those beyond its calendar are not asked for."""

    def as_python(value: Any) -> Any:
        try:
            return to_array([value], field.type)[0].as_py()
        except (ValueError, OverflowError):
            return None

    return values(field.type).map(as_python)


@st.composite
def cases(draw: st.DrawFn) -> tuple[Schema, list[dict[int, Any]], Any]:
    """Columns, rows, and filters over them."""
    schema = draw(schemas())
    row = st.fixed_dictionaries({f.id: st.none() | values(f.type) for f in schema.fields})
    rows = draw(st.lists(row, max_size=6))

    def tuples() -> st.SearchStrategy[Any]:
        return st.sampled_from(schema.fields).flatmap(
            lambda f: (
                st.tuples(
                    st.just(f.name),
                    st.sampled_from(("=", "==", "!=", "<", "<=", ">", ">=")),
                    plain(f),
                )
                | st.tuples(
                    st.just(f.name),
                    st.sampled_from(("in", "not in")),
                    st.lists(plain(f).filter(lambda v: v != 0 or not is_float(f.type)), max_size=3)
                    if is_float(f.type)
                    else st.lists(plain(f), max_size=3),
                )
            )
        )

    group = st.lists(tuples(), min_size=1, max_size=3)
    return schema, rows, draw(group | st.lists(group, min_size=1, max_size=3))


def oracle(schema: Schema, rows: list[dict[int, Any]], filters: Any) -> list[int]:
    columns = {f.name: to_array([row[f.id] for row in rows], f.type) for f in schema.fields}
    table = pa.table(columns).append_column("place of it", pa.array(range(len(rows)), pa.int64()))
    try:
        found = table.filter(pq.filters_to_expression(filters))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError):
        assume(False)
    places: list[int] = found["place of it"].to_pylist()
    return places


@pytest.mark.slow
@given(cases())
def test_any_filters_are_what_pyarrow_makes_of_them(case: Any) -> None:
    """The log can hold the predicate as text."""
    schema, rows, filters = case
    expected = oracle(schema, rows, filters)

    predicate = filters_to_predicate(filters, schema)

    assert [at for at, row in enumerate(rows) if evaluate(predicate, row) is True] == expected
    again: Predicate = parse_predicate(to_sql(predicate), schema)
    assert [at for at, row in enumerate(rows) if evaluate(again, row) is True] == expected


def test_an_empty_set_is_no_condition_on_its_column() -> None:
    """Everything is outside of it."""
    assert filters_to_predicate([("i", "not in", [])], from_arrow(TABLE.schema)) == TRUE
