"""Numbers of DELETE and UPDATE beside Spark's code: the same rows, and no further compilation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import tablefmt

pytestmark = pytest.mark.usefixtures("catalog")

_COLUMNS = (
    "id BIGINT, b TINYINT, h SMALLINT, i INT, f FLOAT, d DOUBLE, day DATE, at TIMESTAMP, "
    "wall TIMESTAMP_NTZ, price DECIMAL(9, 2), s STRING, parts ARRAY<INT>"
)


@pytest.fixture
def t(spark: Any, uri: str) -> str:
    """Rows 0 to 39 of columns of many types in two files, known as `t`; row 39 is NULL but `id`."""
    spark.sql(f"CREATE TABLE t ({_COLUMNS}) USING tablefmt OPTIONS (path '{uri}')")
    spark.range(0, 39, 1, 2).selectExpr(
        "id", "cast(id - 20 as tinyint) b", "cast(id * 100 as smallint) h", "cast(id as int) i",
        "cast(if(id = 3, 'NaN', id / 2) as float) f",
        "cast(if(id = 4, 'NaN', if(id = 0, -0.0D, id / 4)) as double) d",
        "date_add(date'1969-12-20', cast(id as int)) day",
        "timestamp'2024-11-03 00:00:00' + make_interval(0, 0, 0, 0, cast(id as int)) at",
        "timestamp_ntz'2024-01-01 00:00:00' + make_interval(0, 0, 0, 0, cast(id as int)) wall",
        "cast(id / 4 as decimal(9, 2)) price", "concat('s', id) s",
        "array(cast(id as int), 7) parts",
    ).writeTo("t").append()  # fmt: skip
    spark.sql("INSERT INTO t (id) VALUES (39)")
    return uri


def rows(spark: Any) -> list[tuple[Any, ...]]:
    """Return all rows, NaN as text, in the order of the ids."""
    return sorted(map(tuple, spark.sql("SELECT id, b, h, i, s FROM t").collect()))


CONDITIONS = [
    "b = -7", "b + 1 > 15", "h >= 3800 OR h < 100", "i % 7 = 3", "i IN (1, 5, -3, 38)",
    "i NOT IN (1, 2)", "f > 17.5", "f = float('NaN')", "d >= double('NaN')", "d = 0.0D",
    "d <=> NULL", "day < date'1970-01-01'", "day + 1 = date'1969-12-31'",
    "at > timestamp'2024-11-03 03:00:00'", "wall = timestamp_ntz'2024-01-01 05:00:00'",
    "price BETWEEN 1.25 AND 2.5", "price * 2 = 3.00", "s > 's30'", "parts[0] = 9",
    "id * 2 - 6 = 4 * i - 2 * i", "NOT (i > 4 AND id % 3 <> 0)", "-i = -12", "id / 8 = 2",
    "case when id > 30 then i = 33 else i < 2 end", "coalesce(i, 100) = 100", "id & 5 = 5",
    "shiftleft(i, 2) = 16", "i = 5 AND true", "pmod(i, 5) = 4 AND b < 10 AND f > 1",
    "named_struct('a', i, 'b', b) = named_struct('a', 21, 'b', 1Y)",
    "i BETWEEN 3 AND 9 AND id IN (SELECT max(id) - 31 FROM t)",
]  # fmt: skip


@pytest.mark.share(11)
@pytest.mark.parametrize("where", CONDITIONS)
def test_a_delete_takes_the_rows_that_a_query_finds(spark: Any, t: str, where: str) -> None:
    """Spark's own query of the condition has its numbers in the code."""
    gone = {row[0] for row in spark.sql(f"SELECT id FROM t WHERE {where}").collect()}
    kept = [row for row in rows(spark) if row[0] not in gone]
    spark.sql(f"DELETE FROM t WHERE {where}")
    assert rows(spark) == kept
    assert tablefmt.open(t).scan().count() == len(kept)


def test_an_update_gives_the_values_that_a_query_gives(spark: Any, t: str) -> None:
    """The numbers of new values, and of rows that an earlier statement took out."""
    spark.sql("DELETE FROM t WHERE i % 5 = 1")
    new = "i + 1000, b * 2 - 1, case when i > 20 then 7 else h end"
    expected = spark.sql(f"SELECT id, {new} FROM t WHERE i % 2 = 0 ORDER BY id").collect()
    others = spark.sql("SELECT id, i, b, h FROM t WHERE NOT i % 2 <=> 0").collect()
    spark.sql(
        "UPDATE t SET i = i + 1000, b = cast(b * 2 - 1 AS TINYINT), "
        "h = case when i > 20 then 7S else h end WHERE i % 2 = 0"
    )
    found = {row[0]: tuple(row) for row in spark.sql("SELECT id, i, b, h FROM t").collect()}
    assert found == {row[0]: tuple(row) for row in [*expected, *others]}


@pytest.fixture
def compilations(spark: Any) -> Callable[[], int]:
    """Return a function for the number of pieces of code that this JVM has compiled."""
    metrics = spark._jvm.org.apache.spark.metrics.source.CodegenMetrics
    return lambda: int(metrics.METRIC_COMPILATION_TIME().getCount())


@pytest.mark.share(4)
@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM t WHERE id % 100 = {}",
        "DELETE FROM t WHERE id = {}",
        "DELETE FROM t WHERE i IN ({}, 77) AND d < 9.5D",
        "UPDATE t SET i = i + {0} WHERE id = {0}",
    ],
)
def test_the_next_statement_with_other_numbers_compiles_nothing(
    spark: Any, t: str, compilations: Callable[[], int], statement: str
) -> None:
    """The first statements compile the code. From the second one on there are deleted rows."""
    for number in (1, 2, 3):
        spark.sql(statement.format(number))
    before = compilations()
    for number in (4, 5):
        spark.sql(statement.format(number))
    assert compilations() == before
