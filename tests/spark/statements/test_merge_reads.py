"""A MERGE whose conditions or values have a sub-query over its own table has read that table.

CFL-8, CFL-10: class UPDATE, and a look at the whole table at the version of the sub-query.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import tablefmt
import tablefmt.spark
from tests.races import race
from tests.system.transactions.test_row_level import Rows, rows_of, source

SUM = "(SELECT sum(v) FROM own)"
ROWS = {k: k for k in range(20)}


@pytest.fixture
def own(spark: Any, uri: str) -> Iterator[str]:
    """A table `own` of two files, keys 0-9 and 10-19."""
    tablefmt.spark.register(spark)
    table = tablefmt.create(uri, "k BIGINT, v BIGINT")
    for first in (0, 10):
        table.append(source({k: k for k in range(first, first + 10)}))
    spark.sql(f"CREATE TABLE own USING tablefmt OPTIONS (path '{uri}')")
    yield uri
    spark.catalog.dropTempView("own")
    spark.sql("DROP TABLE own")


def by_sql(spark: Any, key: int, clauses: str) -> Any:
    return spark.sql(
        f"MERGE INTO own USING (SELECT {key}L AS k, 0L AS v) s ON own.k = s.k {clauses}"
    ).collect()


def summed(spark: Any, uri: str, key: int, by: str) -> Any:
    """Sets the value of a key to the sum of all values."""
    if by == "SQL":
        return by_sql(spark, key, f"WHEN MATCHED THEN UPDATE SET v = {SUM}")
    one = spark.createDataFrame([(key, 0)], "k long, v long")
    merge = tablefmt.spark.open(spark, uri).merge(one, "t.k = s.k")
    return merge.when_matched_update({"v": SUM}).execute()


@pytest.mark.share(2)
@pytest.mark.parametrize(
    "by", ["SQL", pytest.param("verb", marks=pytest.mark.soak), "verb by Arrow"]
)
def test_two_that_each_write_what_the_other_has_read_have_an_order(
    spark: Any, own: str, use_backend: Callable[..., None], by: str
) -> None:
    """The one that comes later would have to see the other's value, and has not."""
    other = spark.newSession()
    tablefmt.spark.register(other)
    if by == "verb by Arrow":
        use_backend("arrow", spark, other)
        for session in (spark, other):
            tablefmt.spark.read(session, own).createOrReplaceTempView("own")
    ended = race(lambda: summed(spark, own, 1, by), lambda: summed(other, own, 11, by))
    assert ended[0].error is None
    assert rows_of(own) == ROWS | {1: 190}, "neither saw the other's value: no order does that"
    assert ended[1].conflict is not None
    assert ended[1].conflict.startswith("Concurrent"), ended[1].error


CLAUSES = {
    "condition": (1, f"WHEN MATCHED AND {SUM} = 190 THEN UPDATE SET v = 7", {1: 7}),
    "deleted": (1, f"WHEN MATCHED AND {SUM} = 190 THEN DELETE", {1: None}),
    "inserted": (50, f"WHEN NOT MATCHED THEN INSERT (k, v) VALUES (s.k, {SUM})", {50: 190}),
    "insert condition": (
        50, f"WHEN NOT MATCHED AND {SUM} = 190 THEN INSERT (k, v) VALUES (s.k, 7)", {50: 7},
    ),
    "by source": (
        1, f"WHEN NOT MATCHED BY SOURCE AND own.k = 2 AND {SUM} = 190 THEN DELETE", {2: None},
    ),
}  # fmt: skip


@pytest.mark.share(2)
@pytest.mark.parametrize(
    "name",
    [
        "condition",
        "inserted",
        "by source",
        pytest.param("deleted", marks=pytest.mark.soak),
        pytest.param("insert condition", marks=pytest.mark.soak),
    ],
)
def test_rows_that_a_clause_has_read_must_be_there_still(spark: Any, own: str, name: str) -> None:
    key, clause, _ = CLAUSES[name]
    table = tablefmt.open(own)
    ended = race(lambda: table.delete("k = 19"), lambda: by_sql(spark, key, clause))
    assert ended[0].error is None
    assert ended[1].conflict == "ConcurrentDeleteReadException", ended[1].error
    assert rows_of(own) == {k: k for k in range(19)}


def test_alone_each_does_what_it_says(spark: Any, own: str) -> None:
    for key, clause, change in CLAUSES.values():
        expected: Rows = {k: v for k, v in (rows_of(own) | change).items() if v is not None}  # type: ignore[operator]
        by_sql(spark, key, clause)
        assert rows_of(own) == expected
        tablefmt.open(own).overwrite(source(ROWS))


def test_what_reads_nothing_else_of_the_table_is_no_look_at_all_of_it(spark: Any, own: str) -> None:
    """CFL-10: only the rows of its keys."""
    table = tablefmt.open(own)
    clause = "WHEN MATCHED AND (SELECT max(id) FROM range(5)) = 4 THEN UPDATE SET v = s.v + 9"
    ended = race(lambda: table.delete("k = 19"), lambda: by_sql(spark, 1, clause))
    assert [each.conflict for each in ended] == [None, None], ended[1].error
    assert rows_of(own) == {k: k for k in range(19)} | {1: 9}
