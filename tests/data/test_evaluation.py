"""Expressions by Arrow's own functions: what comes of them is what the engine makes of them."""

from __future__ import annotations

import datetime
import decimal
import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tablefmt.data.sql_evaluation import LazyEngine, by_arrow, evaluate
from tablefmt.errors import InvalidPredicateError, UnsupportedFeatureError
from tablefmt.expressions.sql_parser import Relation
from tablefmt.expressions.sql_to_duckdb import translate
from tablefmt.model.arrow_types import arrow_type, from_arrow
from tablefmt.model.schema import Decimal, Field, Primitive, Schema, Type
from tests.scheduling import examples

NAN, INF = float("nan"), float("inf")
DAY = datetime.date(1970, 1, 1)
MOMENT = datetime.datetime(2024, 2, 29, 12, 30, 1, 5)
WHOLE = {"byte": 7, "short": 15, "integer": 31, "long": 63}


def _whole(bits: int) -> list[int]:
    end = 1 << bits
    return [-end, 1 - end, -7, -2, -1, 0, 1, 2, 3, 7, 100, end - 2, end - 1]


REALS = [-INF, -1.5e308, -3.5e38, -2.5, -1.0, -0.0, 0.0, 1e-320, 0.1, 1.0, 7.0, 2.0**63, INF, NAN]
VALUES: dict[str, tuple[Type, list[Any]]] = {
    **{name[0]: (Primitive(name), _whole(bits)) for name, bits in WHOLE.items()},
    "m": (Primitive("long"), _whole(53)),
    "f": (Primitive("float"), [np.float32(v) for v in REALS if abs(v) < 3e38 or abs(v) == INF]),
    "d": (Primitive("double"), REALS),
    "t": (Primitive("string"), ["", "a", "A", "b", " 7", "7", "é", "\U0001f600", "zz"]),
    "u": (Primitive("string"), ["", "a", "é", "true"]),
    "o": (Primitive("boolean"), [True, False]),
    "q": (Primitive("boolean"), [True, False]),
    "y": (Primitive("date"), [DAY, DAY.replace(year=1), datetime.date(9999, 12, 31)]),
    "z": (Primitive("date"), [DAY, datetime.date(2024, 2, 29)]),
    "w": (Primitive("timestamp"), [MOMENT, MOMENT.replace(year=1968)]),
    "x": (Primitive("timestamp"), [MOMENT, MOMENT.replace(microsecond=6)]),
    "p": (Decimal(5, 2), [decimal.Decimal(v) for v in ("-999.99", "0", "0.01", "7.00", "999.99")]),
    "r": (Decimal(18, 3), [decimal.Decimal(v) for v in ("-999999999999999.999", "0.001", "7.125")]),
    "v": (Decimal(38, 2), [decimal.Decimal(v) for v in ("-7.25", "9" * 36 + ".99", "0.00")]),
}
SCHEMA = Schema(
    tuple(
        Field(id=at + 1, name=name, physical=name, type=kind)
        for at, (name, (kind, _)) in enumerate(VALUES.items())
    ),
    len(VALUES),
)
RELATION = Relation(SCHEMA)

WRITTEN = ["0", "1", "-1", "2", "7", "100", "127", "32768", "1.5", "0.1", "100.00", "1e0", "2.5e3"]
WRITTEN += ["2147483647", "2147483648", "9223372036854775807", "7L", "3Y"]
NUMBERS = st.sampled_from([*"bsilmfdprv", *WRITTEN])
TEXTS = st.sampled_from(["t", "u", "'a'", "''", "'é'"])
TRUTHS = st.sampled_from(["o", "q", "TRUE", "FALSE", "NULL"])
TIMES = st.sampled_from(["y", "z", "w", "x"])


def _numbers(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(
        st.tuples(inner, st.sampled_from(["+", "-", "*", "/", "%", "DIV"]), inner).map(
            lambda each: f"({each[0]} {each[1]} {each[2]})"
        ),
        inner.map(lambda each: f"(- {each})"),
        inner.map(lambda each: f"abs({each})"),
        st.tuples(
            inner, st.sampled_from(["TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE"])
        ).map(lambda each: f"CAST({each[0]} AS {each[1]})"),
        st.tuples(inner, st.sampled_from(["DECIMAL(10,2)", "DECIMAL(38,6)"])).map(
            lambda each: f"CAST({each[0]} AS {each[1]})"
        ),
        st.tuples(inner, inner).map(lambda each: f"coalesce({each[0]}, {each[1]})"),
        st.tuples(inner, inner).map(lambda each: f"nullif({each[0]}, {each[1]})"),
        st.tuples(inner, inner, inner, inner).map(
            lambda each: f"CASE WHEN {each[0]} < {each[1]} THEN {each[2]} ELSE {each[3]} END"
        ),
    )


NUMBER = st.recursive(NUMBERS, _numbers, max_leaves=6)
COMPARISON = st.sampled_from(["=", "<>", "<", "<=", ">", ">=", "<=>"])


def _compared(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.tuples(inner, COMPARISON, inner).map(lambda each: f"({' '.join(each)})")


ATOM = st.one_of(
    TRUTHS,
    *(_compared(inner) for inner in (NUMBER, TEXTS, TIMES, TRUTHS)),
    st.tuples(NUMBER, NUMBER, NUMBER).map(lambda e: f"({e[0]} BETWEEN {e[1]} AND {e[2]})"),
    st.tuples(NUMBERS, st.lists(NUMBERS, min_size=1, max_size=4)).map(
        lambda each: f"({each[0]} IN ({', '.join(each[1])}))"
    ),
    st.tuples(TEXTS, st.lists(TEXTS, min_size=1, max_size=3)).map(
        lambda each: f"({each[0]} NOT IN ({', '.join(each[1])}))"
    ),
    NUMBER.map(lambda each: f"({each} IS NOT NULL)"),
    TEXTS.map(lambda each: f"isnull({each})"),
)
CONDITION = st.recursive(
    ATOM,
    lambda inner: st.one_of(
        st.lists(inner, min_size=2, max_size=4).map(lambda each: f"({' AND '.join(each)})"),
        st.lists(inner, min_size=2, max_size=4).map(lambda each: f"({' OR '.join(each)})"),
        inner.map(lambda each: f"(NOT {each})"),
    ),
    max_leaves=4,
)
TEXT = st.one_of(
    NUMBERS.map(lambda each: f"CAST({each} AS STRING)"),
    st.tuples(TRUTHS, TEXTS, TEXTS).map(lambda e: f"CASE WHEN {e[0]} THEN {e[1]} ELSE {e[2]} END"),
    st.tuples(CONDITION, TEXTS).map(lambda each: f"if({each[0]}, {each[1]}, NULL)"),
)
ROW = st.fixed_dictionaries(
    {name: st.one_of(st.none(), st.sampled_from(values)) for name, (_, values) in VALUES.items()}
)


def rows_of(rows: list[dict[str, Any]]) -> pa.Table:
    """Rows as an expression sees them."""
    shape = pa.schema(
        [pa.field(RELATION.handle(at), arrow_type(f.type)) for at, f in enumerate(SCHEMA.fields)]
    )
    handles = dict(zip(VALUES, shape.names, strict=True))
    listed = [{handles[name]: value for name, value in row.items()} for row in rows]
    return pa.Table.from_pylist(listed, schema=shape)


def as_values(column: pa.ChunkedArray) -> list[str]:
    """Values that compare as they should: -0.0 is not 0.0, and NaN is NaN."""
    return [repr(value) for value in column.to_pylist()]


ENGINE = LazyEngine()


def check_same(text: str, rows: list[dict[str, Any]]) -> str:
    """Check that Arrow and the engine agree on an expression. Return how it was evaluated."""
    try:
        translated = translate(text, (RELATION,))
    except (InvalidPredicateError, UnsupportedFeatureError):
        return "refused"
    if translated.arrow is None or translated.type is None:
        return "engine"
    table = rows_of(rows)
    short_cut = by_arrow(table, [translated])
    if short_cut is None:
        return "asked again"
    (expected,) = ENGINE().evaluate(table, [translated])
    assert as_values(short_cut[0]) == as_values(expected), (text, rows)
    assert short_cut[0].type == expected.type
    return "same"


@examples(100)
@given(text=st.one_of(NUMBER, CONDITION, TEXT), rows=st.lists(ROW, min_size=1, max_size=3))
def test_what_arrow_makes_of_it_the_engine_makes_of_it(text: str, rows: list[Any]) -> None:
    """SQL-1: random expressions over values at the ends of every type."""
    check_same(text, rows)


@pytest.mark.soak
@settings(max_examples=20_000)
@given(text=st.one_of(NUMBER, CONDITION, TEXT), rows=st.lists(ROW, min_size=1, max_size=3))
def test_what_arrow_makes_of_it_the_engine_makes_of_it_often(text: str, rows: list[Any]) -> None:
    """SQL-1: the test above with many random expressions."""
    check_same(text, rows)


BY_ARROW = [
    "l + 1",
    "l % 100 = 7",
    "i * s - b",
    "d * 1.5e0",
    "d / 2",
    "l DIV 3",
    "-i",
    "abs(d)",
    "coalesce(l, 0)",
    "CASE WHEN i > 0 THEN 'a' WHEN i < 0 THEN t ELSE NULL END",
    "if(o, l, i)",
    "nullif(t, 'a')",
    "CAST(i AS STRING)",
    "CAST(l AS DOUBLE)",
    "CAST(l AS INT)",
    "p + 1.25",
    "p * 2",
    "t IN ('a', 'b') AND NOT (l BETWEEN 1 AND 7 OR y = z)",
    "t IS NULL OR w < x",
    "7",
]


@pytest.mark.parametrize("text", BY_ARROW)
def test_simple_expressions_need_no_engine(text: str) -> None:
    """Both ways give the same result."""
    plain: dict[str, Any] = {name: values[len(values) // 2] for name, (_, values) in VALUES.items()}
    small = {"b": 3, "s": 5, "i": -4, "l": 1007, "m": 8}

    assert check_same(text, [plain | small, dict.fromkeys(plain)]) == "same"


FAILING = ["l + 1", "l * l", "-l", "i DIV b", "1 / b", "i % b", "CAST(l AS INT)", "b + b"]


@pytest.mark.parametrize("text", FAILING)
def test_what_has_no_result_is_the_engines_error(text: str) -> None:
    """SQL-1: overflow and division by zero are refused by both engines."""
    ends = {"l": -(1 << 63) if text == "-l" else (1 << 63) - 1, "i": 7, "b": 0}
    ends |= {"b": 127} if text == "b + b" else {}
    rows = rows_of([dict.fromkeys(VALUES) | ends])

    with pytest.raises(InvalidPredicateError, match="cannot be evaluated"):
        evaluate(ENGINE, rows, [translate(text, (RELATION,))])


def test_a_branch_that_is_not_taken_has_no_error() -> None:
    """SQL-1: Arrow computes both, and would divide by zero; the engine has the last word."""
    rows = rows_of([dict.fromkeys(VALUES) | {"i": i} for i in (0, 4, None)])
    text = translate("CASE WHEN i = 0 THEN 0 ELSE 12 DIV i END", (RELATION,))

    assert by_arrow(rows, [text]) is None
    (column,) = evaluate(ENGINE, rows, [text])
    assert column.to_pylist() == [0, 3, None]


DAYS = [
    2**31 - 1,
    2**31 - 2,
    -(2**31),
    1 - 2**31,
    2 - 2**31,
    0,
    -1,
    -719163,
    -719529,
    2932897,
    None,
]
MICROSECONDS = [
    2**63 - 1,
    2**63 - 2,
    -(2**63),
    1 - 2**63,
    2 - 2**63,
    0,
    -1,
    10**17,
    -(10**17),
    5,
    None,
]
US_OF_DAY = 86_400_000_000
FIRST_DAY, LAST_DAY = "DATE '-5877641-06-24'", "DATE '+5881580-07-11'"
LAST_US = "TIMESTAMP '+294247-01-10 04:00:54.775807'"


def civil(days: int) -> tuple[int, int, int]:
    """Return year, month and day of the proleptic Gregorian calendar, for any number of days."""
    cycles, within = divmod(days + 719162, 146097)
    date = datetime.date.fromordinal(within + 1)
    return date.year + 400 * cycles, date.month, date.day


def date_text(days: int) -> str:
    """Return the text of a date as Java writes it."""
    year, month, day = civil(days)
    sign = "+" if year > 9999 else "-" if year < 0 else ""
    return f"{sign}{abs(year):04}-{month:02}-{day:02}"


def within(value: int, bits: int) -> int:
    if not -(1 << bits) <= value < 1 << bits:
        raise OverflowError
    return value


ENDS: dict[str, Callable[[int, int], Any]] = {
    f"d = {LAST_DAY}": lambda d, t: d == 2**31 - 1,
    f"d < {LAST_DAY}": lambda d, t: d < 2**31 - 1,
    f"d BETWEEN {FIRST_DAY} AND DATE '+5881580-07-10'": lambda d, t: 1 - 2**31 <= d < 2**31 - 1,
    "d > DATE '-5877641-06-23'": lambda d, t: d > -(2**31),
    f"d IN ({LAST_DAY}, DATE '1970-01-01')": lambda d, t: d in (2**31 - 1, 0),
    f"t = {LAST_US}": lambda d, t: t == 2**63 - 1,
    f"t < {LAST_US}": lambda d, t: t < 2**63 - 1,
    "n > TIMESTAMP_NTZ '-290308-12-21 19:59:05.224193'": lambda d, t: t > 1 - 2**63,
    "d < t": lambda d, t: within(d * US_OF_DAY, 63) < t,
    "t = n": lambda d, t: True,
    "year(d)": lambda d, t: civil(d)[0],
    "month(d)": lambda d, t: civil(d)[1],
    "day(d)": lambda d, t: civil(d)[2],
    "year(t)": lambda d, t: civil(t // US_OF_DAY)[0],
    "hour(t)": lambda d, t: t // 3_600_000_000 % 24,
    "hour(n)": lambda d, t: t // 3_600_000_000 % 24,
    "day(n)": lambda d, t: civil(t // US_OF_DAY)[2],
    "datediff(date_add(d, 1), DATE '1970-01-01')": lambda d, t: within(d + 1, 31),
    "datediff(date_sub(d, 1), DATE '1970-01-01')": lambda d, t: within(d - 1, 31),
    "datediff(date_add(d, 2147483647), DATE '1970-01-01')": lambda d, t: within(d + 2**31 - 1, 31),
    "datediff(d, t)": lambda d, t: within(d - t // US_OF_DAY, 31),
    "CAST(d AS STRING)": lambda d, t: date_text(d),
    "concat('<', to_date(n), '>')": lambda d, t: f"<{date_text(t // US_OF_DAY)}>",
    "CAST(d AS TIMESTAMP) <= t": lambda d, t: within(d * US_OF_DAY, 63) <= t,
    "greatest(d, DATE '1970-01-01') = d": lambda d, t: d >= 0,
    f"nullif(d, {LAST_DAY}) IS NULL": lambda d, t: d == 2**31 - 1,
}


@pytest.mark.parametrize("text", ENDS)
def test_the_first_and_last_days_are_days_like_others(text: str) -> None:
    """SQL-1: DuckDB reads them as infinity. Each row is compared with Python's numbers."""
    days = pa.array(DAYS, pa.int32()).view(pa.date32())
    moments = pa.array(MICROSECONDS, pa.int64()).view(pa.timestamp("us", "UTC"))
    rows = pa.table({"d": days, "t": moments, "n": moments.cast(pa.timestamp("us"))})
    relation = Relation(from_arrow(rows.schema))
    translated = translate(text, (relation,))
    rows = rows.rename_columns(["t0", "t1", "t2"])
    found: list[Any] = []
    expected: list[Any] = []
    for at, (day, moment) in enumerate(zip(DAYS, MICROSECONDS, strict=True)):
        try:
            (column,) = evaluate(ENGINE, rows.slice(at, 1), [translated])
            found.append(column[0].as_py())
        except InvalidPredicateError:
            found.append("error")
        if day is None or moment is None:
            expected.append(True if "IS NULL" in text else None)
            continue
        try:
            expected.append(ENDS[text](day, moment))
        except OverflowError:
            expected.append("error")
    assert found == expected


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [
        "lower(" * 7 + "t" + ")" * 7,
        "CAST(to_date(" * 9 + "t" + ") AS STRING)" * 9,
        " AND ".join(["lower(lower(lower(lower(lower(lower(t)))))) = 'a'"] * 250),
    ],
)
def test_an_expression_that_grows_without_end_is_refused(text: str) -> None:
    """SQL-6: nested functions would multiply the text, and the memory of the engine."""
    tracemalloc.start()
    with pytest.raises(UnsupportedFeatureError, match="nest too deeply") as caught:
        translate(text, (RELATION,))
    assert caught.value.features == ["sql:size"]
    assert tracemalloc.get_traced_memory()[1] < 128 << 20
    tracemalloc.stop()


SIMPLE = """
import sys
import pyarrow as pa
import tablefmt
rows = pa.table({"id": [1, 2, 3], "v": [5, 6, 7]})
table = tablefmt.create(sys.argv[1], rows.schema)
table.append(rows)
table.update({"v": "v + 1"}, "id % 2 = 1")
merge = table.merge(pa.table({"id": [3, 4], "v": [1, 2]}), "t.id = s.id")
merge.when_matched_update({"v": "t.v + s.v"}).when_not_matched_insert_all().execute()
table.delete("v - 1 = 5 AND id < 9")
print(sorted(table.to_arrow()["v"].to_pylist()), "duckdb" in sys.modules)
"""


@pytest.mark.slow
def test_simple_statements_load_no_engine(tmp_path: Path) -> None:
    """SQL-1: a process that updates, deletes and merges by them never imports DuckDB."""
    run = subprocess.run(
        [sys.executable, "-c", SIMPLE, str(tmp_path / "table")],
        capture_output=True,
        text=True,
        check=True,
    )

    assert run.stdout == "[2, 9] False\n"
