"""Statements whose query reads the table that they change: what it read has to be so still.

CFL-22, CFL-8, CFL-10: class UPDATE, and a look at the whole table at the version of the query.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pyspark.sql.functions import col

import tablefmt
import tablefmt.spark
from tests.races import race
from tests.system.transactions.test_row_level import Rows, rows_of, source

LEVELS = ["WriteSerializable", "Serializable"]


@pytest.fixture
def t(spark: Any, uri: str) -> Iterator[str]:
    """A table `t` of two files, keys 0-9 and 10-19."""
    tablefmt.spark.register(spark)
    table = tablefmt.create(uri, "k BIGINT, v BIGINT")
    for first in (0, 10):
        table.append(source({k: k for k in range(first, first + 10)}))
    spark.sql(f"CREATE TABLE t USING tablefmt OPTIONS (path '{uri}')")
    yield uri
    spark.sql("DROP TABLE t")


def count_in(spark: Any) -> Any:
    """Insert a row with the number of rows."""
    return spark.sql("INSERT INTO t SELECT 100 + count(*) AS k, sum(v) AS v FROM t").collect()


def kind_of_last(uri: str) -> str:
    """The class of the newest commit."""
    view = tablefmt.open(uri).context.view
    return view.entries_after(view.head.version - 1)[0].entry.operation.cls.value


QUERIES: dict[str, Callable[[Any], Any]] = {
    "INSERT": count_in,
    "DataFrame": lambda s: s.table("t").selectExpr("k + 50 AS k", "v").writeTo("t").append(),
    "INSERT OVERWRITE": lambda s: s.sql("INSERT OVERWRITE t SELECT k, v + 1 FROM t").collect(),
    "DELETE": lambda s: s.sql(
        "DELETE FROM t WHERE k = 1 AND v < (SELECT max(v) FROM t WHERE k > 10)"
    ).collect(),
    "UPDATE": lambda s: s.sql(
        "UPDATE t SET v = 7 WHERE k = 1 AND EXISTS (SELECT 1 FROM t o WHERE o.k = 19)"
    ).collect(),
    "MERGE": lambda s: s.sql(
        "MERGE INTO t USING (SELECT k - 10 AS k, v FROM t WHERE k = 19) s ON t.k = s.k "
        "WHEN MATCHED THEN UPDATE SET v = s.v"
    ).collect(),
}


@pytest.mark.share(3)
@pytest.mark.parametrize("name", QUERIES)
def test_a_query_of_rows_vacuumed_since_is_refused(spark: Any, t: str, name: str) -> None:
    """CFL-10: the row is in another file than those that the statement changes."""
    table = tablefmt.open(t)
    ended = race(lambda: table.delete("k = 19"), lambda: QUERIES[name](spark))
    assert ended[0].error is None
    assert ended[1].conflict == "ConcurrentDeleteReadException", ended[1].error
    assert rows_of(t) == {k: k for k in range(19)}


@pytest.mark.parametrize("level", LEVELS)
def test_of_two_that_count_and_write_the_count_one_is_refused(
    spark: Any, t: str, level: str
) -> None:
    """CFL-8: neither INSERT is blind."""
    table = tablefmt.open(t)
    table.alter.set_properties({"isolationLevel": level})
    other = spark.newSession()
    tablefmt.spark.register(other)
    ended = race(lambda: count_in(spark), lambda: count_in(other))
    assert [each.conflict for each in ended] == [None, "ConcurrentAppendException"]
    assert rows_of(t) == {k: k for k in range(20)} | {120: 190}


def test_alone_they_do_what_they_say_and_are_updates(spark: Any, t: str) -> None:
    """CFL-1, ENT-5."""
    rows: Rows = rows_of(t)
    count_in(spark)
    rows[120] = 190
    assert (rows_of(t), kind_of_last(t)) == (rows, "UPDATE")
    QUERIES["INSERT OVERWRITE"](spark)
    rows = {k: v + 1 for k, v in rows.items()}
    assert (rows_of(t), kind_of_last(t)) == (rows, "UPDATE")
    QUERIES["DELETE"](spark)
    del rows[1]
    assert (rows_of(t), kind_of_last(t)) == (rows, "UPDATE")
    spark.sql("INSERT INTO t VALUES (1, 1)")
    assert kind_of_last(t) == "INSERT"
    spark.sql("INSERT OVERWRITE t SELECT * FROM t WHERE k < 0")
    assert rows_of(t) == {}


def test_what_a_cached_query_has_read_counts_too(spark: Any, t: str) -> None:
    frame = spark.table("t").where("k >= 10").cache()
    assert frame.count() == 10
    try:
        tablefmt.open(t).delete("k = 19")
        with pytest.raises(tablefmt.errors.ConcurrentDeleteReadException):
            tablefmt.spark.open(spark, t).append(frame.selectExpr("k + 50 AS k", "v"))
    finally:
        frame.unpersist()
    assert rows_of(t) == {k: k for k in range(19)}


@pytest.mark.parametrize("by", ["SQL", "read"])
def test_a_version_that_was_asked_for_is_a_constant(spark: Any, t: str, by: str) -> None:
    """Its rows never change, after any commit."""

    def restore() -> Any:
        old = (
            spark.sql("SELECT k + 50 AS k, v FROM t VERSION AS OF 1")
            if by == "SQL"
            else tablefmt.spark.read(spark, t, version=1).selectExpr("k + 50 AS k", "v")
        )
        return tablefmt.spark.open(spark, t).append(old)

    table = tablefmt.open(t)
    ended = race(lambda: table.delete("k = 1"), restore)
    assert [each.conflict for each in ended] == [None, None], ended[1].error
    assert kind_of_last(t) == "INSERT"
    assert rows_of(t) == {k: k for k in range(20) if k != 1} | {k + 50: k for k in range(10)}


def test_a_condition_of_rows_to_replace_reads_the_table_too(spark: Any, t: str) -> None:
    """CFL-10, CFL-22: `replaceWhere` with a sub-query."""
    frame = spark.createDataFrame([(1, 1)], "k BIGINT, v BIGINT")
    where = "k = 1 AND v < (SELECT max(v) FROM t WHERE k > 10)"

    def replace() -> Any:
        return tablefmt.spark.write(frame, t, mode="overwrite", replaceWhere=where)

    table = tablefmt.open(t)
    ended = race(lambda: table.delete("k = 19"), replace)
    assert ended[0].error is None
    assert ended[1].conflict == "ConcurrentDeleteReadException", ended[1].error
    assert rows_of(t) == {k: k for k in range(19)}


def older_and_newer(spark: Any, uri: str) -> tuple[Any, Any]:
    """Return DataFrames of the table before and after a blind INSERT."""
    older = spark.table("t")
    tablefmt.open(uri).append(source({200: 999}))
    return older, spark.table("t")


TWO_VERSIONS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "INSERT": lambda t, older, newer: t.append(
        older.selectExpr("k + 50 AS k", "v").union(newer.selectExpr("k + 500 AS k", "v"))
    ),
    "DELETE": lambda t, older, newer: t.delete(
        (col("k") < older.selectExpr("max(k)").scalar())
        & (col("k") < newer.selectExpr("max(k)").scalar())
    ),
    "UPDATE": lambda t, older, newer: t.update(
        {"v": newer.selectExpr("max(v)").scalar()},
        col("k") == older.selectExpr("max(k)").scalar(),
    ),
    "MERGE": lambda t, older, newer: (
        t.merge(older, "s.k = t.k").when_matched_update({"v": "(SELECT max(v) FROM t)"}).execute()
    ),
    "MERGE from the newer": lambda t, older, newer: (
        t.merge(newer, "s.k = t.k")
        .when_matched_update({"v": older.selectExpr("max(v)").scalar()})
        .execute()
    ),
    "MERGE from both": lambda t, older, newer: (
        t.merge(older.union(newer).groupBy("k").max("v"), "s.k = t.k")
        .when_matched_update({"v": "s.`max(v)` + 1"})
        .execute()
    ),
}


@pytest.mark.parametrize("name", TWO_VERSIONS)
def test_a_statement_that_reads_two_versions_is_refused_if_rows_were_added_between(
    spark: Any, t: str, name: str
) -> None:
    """CFL-22: the commits between the two versions are judged as at Serializable."""
    older, newer = older_and_newer(spark, t)
    rows = rows_of(t)
    with pytest.raises(tablefmt.errors.ConcurrentAppendException):
        TWO_VERSIONS[name](tablefmt.spark.open(spark, t), older, newer)
    assert rows_of(t) == rows


def test_a_statement_that_reads_two_versions_commits_if_only_files_changed_between(
    spark: Any, t: str
) -> None:
    """CFL-22: a compaction between the two versions conflicts with no read."""
    older = spark.table("t").where("k < 5")
    tablefmt.open(t).compact()
    newer = spark.table("t").where("k >= 15")
    union = older.union(newer).selectExpr("k + 50 AS k", "v")
    tablefmt.spark.open(spark, t).append(union)
    added = {k + 50: k for k in [*range(5), *range(15, 20)]}
    assert rows_of(t) == {k: k for k in range(20)} | added
