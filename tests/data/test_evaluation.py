"""Expressions by Arrow's own functions: what comes of them is what the engine makes of them."""

from __future__ import annotations

import datetime
import decimal
import subprocess
import sys
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
from tablefmt.model.arrow_types import arrow_type
from tablefmt.model.schema import Decimal, Field, Primitive, Schema, Type

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


@settings(max_examples=100)
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
