"""Expressions by DuckDB beside Spark's own answers in ANSI mode: values, types, errors."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tablefmt.data.assigned_values import computed, new_values
from tablefmt.data.sql_evaluation import Engine
from tablefmt.errors import InvalidPredicateError, SchemaMismatchError, UnsupportedFeatureError
from tablefmt.expressions.ddl import schema_from
from tablefmt.expressions.sql_parser import Relation
from tablefmt.expressions.sql_to_duckdb import Translated, translate
from tablefmt.model.arrow_types import from_arrow, from_arrow_field
from tablefmt.model.schema import Field

NAN, INF = float("nan"), float("inf")

COLUMNS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "o": (pa.bool_(), [True, False, None, True, False, None, True]),
    "y": (pa.int8(), [-7, 0, None, 7, 5, 3, 1]),
    "i": (pa.int32(), [-7, 0, None, 7, 100, -(1 << 30), 3]),
    "j": (pa.int32(), [2, 3, 4, None, -3, 7, 100]),
    "l": (pa.int64(), [-7, 1 << 40, None, 7, -(1 << 40), 12345678901234567, 0]),
    "f": (pa.float32(), [0.1, -0.0, None, NAN, -2.5, 1e10, INF]),
    "d": (pa.float64(), [0.1, -0.0, None, NAN, -2.675, 1e10, INF]),
    "g": (pa.float64(), [2.5, 0.5, 4.0, None, -2.675, NAN, 1e-7]),
    "e": (pa.decimal128(10, 2), [*map(Decimal, ("1.25", "0.00", "-99.99")), None,
                                 *map(Decimal, ("12345678.90", "-0.05", "2.00"))]),
    "x": (pa.decimal128(20, 4), [*map(Decimal, ("1.2500", "3.0001", "-1.0000")), None,
                                 *map(Decimal, ("1234567890123456.7891", "0.0001", "2.0000"))]),
    "s": (pa.string(), ["a", "", None, "Zz", "x%y_z", "10", "héllo \U0001f600"]),
    "u": (pa.string(), ["a", "b", "", None, "x%", " 7 ", "é"]),
    "n": (pa.string(), ["1", "-20", " 3 ", None, "+4", "0", "7"]),
    "q": (pa.date32(), [dt.date(2024, 2, 29), dt.date(1969, 12, 31), None, dt.date(1, 1, 1),
                        dt.date(9999, 12, 31), dt.date(2024, 3, 1), dt.date(1582, 10, 15)]),
    "z": (pa.date32(), [dt.date(2024, 3, 1), None, dt.date(2000, 1, 1), dt.date(2, 2, 2),
                        dt.date(2024, 1, 1), dt.date(2024, 3, 1), dt.date(1970, 1, 1)]),
    "t": (pa.timestamp("us", "UTC"), [
        dt.datetime(2024, 3, 1, tzinfo=dt.timezone.utc), None,
        dt.datetime(1969, 12, 31, 23, 59, 59, 999999, dt.timezone.utc),
        dt.datetime(2024, 2, 29, 12, 0, 0, 1, dt.timezone.utc),
        dt.datetime(1, 1, 1, tzinfo=dt.timezone.utc),
        dt.datetime(2024, 3, 10, 7, 30, tzinfo=dt.timezone.utc),
        dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)]),
    "a b": (pa.int32(), [1, 2, 3, 4, 5, 6, 7]),
    "c.`d": (pa.int32(), [7, 6, 5, 4, 3, 2, 1]),
    "r": (pa.struct([("k", pa.int32()), ("W x", pa.string())]),
          [{"k": 1, "W x": "a"}, {"k": None, "W x": "b"}, None] + [{"k": 5, "W x": None}] * 4),
}  # fmt: skip

SAME = [
    # Arithmetic: widths, signs, NULL, NaN, decimals that grow.
    "i + j", "y + j", "i - l", "y * y", "i * 1.5", "i / j", "l / 2", "f / 2", "d / g", "i % j",
    "l % 7", "-i % 3", "g % 2", "mod(i, j)", "i DIV j", "l DIV 1000", "-i", "-e",
    "abs(i)", "abs(d)",
    "e + x", "e - 1", "e * 2", "e * e", "e * 1.333", "x + l", "e + d", "i + 1.5D", "i + f", "f + g",
    "e % 3", "e % 0.7", "-128Y + 1", "2147483647 + 1L", "1.5BD * i", "1e2 * i",
    # Comparisons, three values, NaN above all, both zeros one.
    "i < j", "d > g", "d = g", "d = 0.0", "f = d", "f = 0.1", "d >= CAST('NaN' AS DOUBLE)", "e < x",
    "e = 1.25", "x > l", "s = u", "s < u", "o AND i > 0", "o OR i > 0", "NOT o", "i <=> j",
    "s <=> NULL", "o <=> (i > 0)", "NULL = 1", "i IN (7, 0, NULL)", "i NOT IN (7, 0)",
    "s IN ('a', u)", "i BETWEEN -7 AND j", "i NOT BETWEEN 0 AND 5", "d IN (0.1D, 0.0D)",
    "i IS NULL", "i IS NOT NULL", "o IS TRUE", "isnull(s)", "isnotnull(s)", "isnan(d)", "isnan(i)",
    "q < z", "q < t", "q = DATE'2024-02-29'", "t >= TIMESTAMP'2024-02-29 12:00:00'",
    "q = '2024-03-01'", "t < '2024-03-01 00:00:00'", "i = '7'", "n > 2",
    "s LIKE 'x\\\\%%'", "s LIKE '%l_o%'", "u NOT LIKE '_%'", "s LIKE 'x|%%' ESCAPE '|'",
    "concat('Ab%', CAST(i AS STRING)) ILIKE 'aB\\\\%%'", "left(s, 1) ILIKE 'X'",
    "concat('K', CAST(i AS STRING)) ILIKE 'k7'",
    "concat('K', CAST(i AS STRING)) NOT ILIKE 'k_'",
    "startswith(s, 'x%')", "endswith(s, 'z')", "contains(s, 'é')",
    # Branches and NULLs.
    "CASE WHEN i > 0 THEN 'p' WHEN i < 0 THEN 'n' END", "CASE i WHEN 7 THEN 1 WHEN 0 THEN 2.5 END",
    "IF(o, i, l)", "IF(o, e, x)", "IF(o, i, d)", "coalesce(i, j)", "coalesce(y, l, 0)",
    "coalesce(e, 0)", "nvl(s, u)", "ifnull(s, 'none')", "nullif(i, 7)", "nullif(s, u)",
    "nvl2(i, j, 0)", "greatest(i, j)", "least(d, g)", "greatest(d, g)", "greatest(e, x, 1)",
    # Texts.
    "concat(s, u)", "s || '-' || i", "concat(s, e, q, o)", "length(s)", "trim(u)", "ltrim(u)",
    "rtrim(u)", "substring(s, 2, 3)", "substr(s, 2)", "left(s, 2)", "right(s, 2)",
    "replace(s, 'l', 'L')", "replace(s, '', 'L')",
    "md5(s)", "md5(concat(u, ''))", "md5(NULL)", "upper(left(s, 1) || 'b')",
    # Casts.
    "CAST(nvl2(g, 2.9D, -2.9D) AS INT)", "CAST(e AS INT)", "CAST(-2.675D AS BIGINT)",
    "CAST(i AS DOUBLE)",
    "CAST(l AS FLOAT)", "CAST(x AS DOUBLE)", "CAST(x AS FLOAT)", "CAST(g AS FLOAT)",
    "CAST(1e39 AS FLOAT)", "CAST(e AS DECIMAL(9, 1))", "CAST(2.675D AS DECIMAL(10, 2))",
    "CAST(i AS DECIMAL(20, 3))", "CAST(o AS INT)", "CAST(i AS BOOLEAN)", "CAST(n AS INT)",
    "CAST(n AS DOUBLE)", "CAST(n AS DECIMAL(10, 2))", "CAST(i AS STRING)", "CAST(e AS STRING)",
    "CAST(0.07BD AS STRING)", "CAST(-0.50BD AS STRING)", "s || 0.125",
    "CAST(o AS STRING)", "CAST(q AS TIMESTAMP)", "CAST(t AS DATE)", "CAST('2024-02-03' AS DATE)",
    "CAST(y AS BIGINT)", "CAST('yes' AS BOOLEAN)", "CAST(NULL AS INT)", "i::BIGINT", "'12'::INT",
    # Days, rounding.
    "CAST(date_add(q, 999999) AS STRING)", "'a' || date_add(q, -999999)",
    "CAST(date_add(DATE'1970-01-01', IF(o, 2147483647, -2147483647)) AS STRING)",
    "year(date_add(DATE'1970-01-01', IF(o, 2147483647, -2147483647)))",
    "day(date_add(DATE'1970-01-01', IF(o, 2147483647, -2147483647)))",
    "year(q)", "month(t)", "day(q)", "hour(t)", "hour(CAST(q AS TIMESTAMP))",
    "date_add(z, -1)", "datediff(t, z)", "to_date(t)",
    "round(e, 1)", "round(g, 2)", "round(2.675D, 2)", "round(-0.5D)", "floor(e * 1D)", "ceil(i)",
    # Names.
    "`a b` + `c.``d`", "r.k", "r.`W x`", "r.k > 0", "T.i + 0",
]  # fmt: skip

ERRORS = [
    "l * 9223372036854775807", "y * CAST(100 AS TINYINT)", "i / 0", "i % 0", "g % 0", "1 DIV 0",
    "CAST(d AS INT)", "CAST(l AS INT)", "CAST(s AS INT)", "CAST('1.5' AS INT)", "CAST(s AS DATE)",
    "CAST(e AS DECIMAL(4, 2))", "s = 1", "CAST(s AS BOOLEAN)", "-(CAST(-128 AS TINYINT))",
]  # fmt: skip

REFUSED = {
    "rand()": "sql:non-deterministic",
    "uuid()": "sql:non-deterministic",
    "i = (SELECT 1)": "sql:subquery",
    "i IN (SELECT 1)": "sql:subquery",
    "EXISTS (SELECT 1)": "sql:subquery",
    "sum(i)": "sql:aggregate",
    "row_number() OVER (ORDER BY i)": "sql:aggregate",
    "e / 3": "sql:decimal-division",
    "CAST(d AS STRING)": "sql:cast",
    "CAST(t AS STRING)": "sql:cast",
    "s RLIKE 'a'": "sql:regexplike",
    "hash(i)": "sql:hash",
    "s ILIKE u": "sql:ilike",
    "s ILIKE 'É'": "sql:ilike",
    "try_cast(s AS INT)": "sql:try_cast",
    "r = r": "sql:nested-comparison",
    "x * CAST(l AS DECIMAL(20, 0))": "sql:decimal-digits",
}
"""Spark can do most of these; here they are not done in another way than Spark's."""

WRONG = ["nothing + 1", "i +", "1; DROP TABLE x", "i AND TRUE", "o < 1", "o + 1"]


@pytest.fixture(scope="module")
def frame(spark: Any) -> Iterator[Any]:
    """The rows in Spark, in order, read from Arrow."""
    before = {
        k: spark.conf.get(k) for k in ("spark.sql.session.timeZone", "spark.sql.ansi.enabled")
    }
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    spark.conf.set("spark.sql.ansi.enabled", "true")
    made = spark.createDataFrame(rows()).coalesce(1)
    made.createOrReplaceTempView("T")
    yield spark.table("T")
    spark.catalog.dropTempView("T")
    for key, value in before.items():
        spark.conf.set(key, value)


def rows() -> pa.Table:
    """The columns of COLUMNS."""
    return pa.table({name: pa.array(values, kind) for name, (kind, values) in COLUMNS.items()})


def relation() -> Relation:
    return Relation(from_arrow(rows().schema), alias="t")


def by_us(texts: list[str]) -> tuple[list[Translated], list[list[Any]]]:
    """Types and values."""
    made = [translate(text, (relation(),)) for text in texts]
    given = rows().rename_columns([f"t{at}" for at in range(len(COLUMNS))])
    found = Engine().evaluate(given, [m for m in made if m.type is not None])
    return made, [column.to_pylist() for column in found]


def plain(values: list[Any]) -> list[Any]:
    """NaN equals itself, and the sign of zero does not count."""
    return ["NaN" if v != v else v + 0.0 if isinstance(v, float) else v for v in values]


def test_expressions_mean_what_they_mean_in_spark(frame: Any) -> None:
    """SQL-1: the type and the value for every row."""
    answer = frame.selectExpr(*(f"{text} AS e{at}" for at, text in enumerate(SAME)))
    answer = answer.toArrow()
    made, values = by_us(SAME)
    different = []
    for at, text in enumerate(SAME):
        theirs, column = from_arrow_field(answer.schema.field(at)).type, answer.column(at)
        if (str(made[at].type), plain(values[at])) != (str(theirs), plain(column.to_pylist())):
            different.append((text, made[at].type, values[at], theirs, column.to_pylist()))
    assert different == []


@pytest.mark.share(4)
@pytest.mark.parametrize("text", ERRORS)
def test_what_is_an_error_in_spark_is_one_here(frame: Any, text: str) -> None:
    """SQL-1: overflow, division by zero, texts that are none of the type."""
    with pytest.raises(Exception, match=r"CAST_INVALID_INPUT|OVERFLOW|BY_ZERO|OUT_OF_RANGE"):
        frame.selectExpr(text).toArrow()
    with pytest.raises(InvalidPredicateError):
        by_us([text])


@pytest.mark.parametrize("text", list(REFUSED))
def test_what_is_not_done_as_in_spark_is_refused_by_name(text: str) -> None:
    """SQL-2."""
    with pytest.raises(UnsupportedFeatureError) as caught:
        by_us([text])
    assert caught.value.features == [REFUSED[text]]


@pytest.mark.parametrize("text", WRONG)
def test_what_makes_no_sense_is_refused_as_spark_does(frame: Any, text: str) -> None:
    """SQL-2: unknown names, no expression, types without anything in common."""
    with pytest.raises(Exception, match=r"UNRESOLVED_COLUMN|PARSE_SYNTAX|DATATYPE_MISMATCH"):
        frame.selectExpr(text).toArrow()
    with pytest.raises(InvalidPredicateError):
        by_us([text])


STORED = [
    ("INT", "l % 100"), ("INT", "IF(isnan(g), 0D, g)"), ("INT", "e"), ("BIGINT", "i"),
    ("DECIMAL(5,1)", "e % 10"),
    ("DECIMAL(20,4)", "0.1D + i"), ("FLOAT", "g"), ("DOUBLE", "e"), ("STRING", "i"),
    ("STRING", "q"),
    ("DATE", "t"), ("TIMESTAMP", "q"), ("TINYINT", "NULL"), ("STRING", "o"),
]  # fmt: skip

NOT_STORED = [("INT", "s"), ("DATE", "'2024-01-01'"), ("BOOLEAN", "i"), ("INT", "o"), ("INT", "q")]

TOO_LARGE = [("TINYINT", "l"), ("INT", "d"), ("DECIMAL(3,1)", "e")]


def stored(kind: str, text: str) -> list[Any]:
    """Return the values of a text in a column of that type."""
    field = Field(99, "c", "c", from_ddl(kind))
    made = new_values([(field, text)], (relation(),), 0)
    given = rows().rename_columns([f"t{at}" for at in range(len(COLUMNS))])
    values: list[Any] = computed(Engine, given, made)[99].to_pylist()
    return values


def from_ddl(kind: str) -> Any:
    return schema_from(f"c {kind}").fields[0].type


Pairs = Sequence[tuple[str, str]]
"""Types of columns, and what is put into them."""


@pytest.fixture
def taker(spark: Any, frame: Any, tmp_path: Path) -> Iterator[Any]:
    """Inserts expressions into a Parquet table, and reads it back."""

    def take(pairs: Pairs) -> pa.Table:
        columns = ", ".join(f"c{at} {kind}" for at, (kind, _) in enumerate(pairs))
        spark.sql(f"CREATE TABLE stored_as ({columns}) USING parquet LOCATION '{tmp_path}/t'")
        spark.sql(f"INSERT INTO stored_as SELECT {', '.join(text for _, text in pairs)} FROM T")
        return spark.table("stored_as").toArrow()

    yield take
    spark.sql("DROP TABLE IF EXISTS stored_as")


def test_columns_take_what_spark_would_store(taker: Any) -> None:
    """SQL-3: ANSI store assignment, value by value."""
    theirs = taker(STORED)
    assert {pair: plain(stored(*pair)) for pair in STORED} == {
        pair: plain(theirs.column(at).to_pylist()) for at, pair in enumerate(STORED)
    }


@pytest.mark.parametrize(("kind", "text"), NOT_STORED)
def test_columns_refuse_types_that_spark_would_not_store(taker: Any, kind: str, text: str) -> None:
    """SQL-3."""
    with pytest.raises(Exception, match="CANNOT_SAFELY_CAST"):
        taker([(kind, text)])
    with pytest.raises(SchemaMismatchError, match="column 'c'"):
        stored(kind, text)


@pytest.mark.parametrize(("kind", "text"), TOO_LARGE)
def test_columns_refuse_values_that_do_not_fit(taker: Any, kind: str, text: str) -> None:
    """SQL-3."""
    with pytest.raises(Exception, match=r"OVERFLOW|OUT_OF_RANGE"):
        taker([(kind, text)])
    with pytest.raises(SchemaMismatchError, match="column 'c'"):
        stored(kind, text)
