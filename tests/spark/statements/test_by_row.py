"""SQL-2: an expression without a value for a single row is refused by the name of its clause."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pyspark.sql.functions as F
import pytest
from pyspark.sql import Window

import tablefmt
import tablefmt.spark
from tablefmt.errors import TablefmtError

ROWS = [{"id": 1, "x": 10}, {"id": 2, "x": 20}]
RANK = "row_number() OVER (ORDER BY {}id)"
USING = "MERGE INTO t USING (SELECT 1 AS id, 5 AS x) s ON"
TWO = "(SELECT col1 FROM VALUES (1), (2))"


@pytest.fixture
def t(spark: Any, uri: str) -> Iterator[str]:
    tablefmt.spark.register(spark)
    rows = pa.Table.from_pylist(ROWS)
    tablefmt.create(uri, rows.schema).append(rows)
    spark.sql(f"CREATE TABLE t USING tablefmt OPTIONS (path '{uri}')")
    yield uri
    spark.sql("DROP TABLE IF EXISTS t")


def refused(uri: str, statement: Callable[[], Any], words: str) -> None:
    with pytest.raises(TablefmtError, match=words):
        statement()
    assert tablefmt.open(uri).to_arrow().to_pylist() == ROWS


SQL = {
    f"UPDATE t SET x = {RANK.format('')}": "^SET: row_number",
    "UPDATE t SET x = max(x)": "^SET: max",
    f"UPDATE t SET x = 1 WHERE {RANK.format('')} = 1": "^WHERE: row_number",
    "DELETE FROM t WHERE max(x) = 10": "^WHERE: max",
    "DELETE FROM t WHERE grouping(x) = 1": "^WHERE: grouping",
    f"{USING} t.id = max(s.id) WHEN MATCHED THEN DELETE": "^ON: max",
    f"{USING} t.id = s.id WHEN MATCHED AND {RANK.format('s.')} = 1 THEN DELETE": "^WHEN MATCHED:",
    f"{USING} t.id = s.id WHEN MATCHED THEN UPDATE SET x = {RANK.format('s.')}": (
        "^WHEN MATCHED THEN UPDATE SET: row_number"
    ),
    f"{USING} t.id = 7 WHEN NOT MATCHED THEN INSERT (id, x) VALUES (1, max(s.x))": (
        "^WHEN NOT MATCHED THEN INSERT: max"
    ),
    f"{USING} t.id = 7 WHEN NOT MATCHED BY SOURCE AND sum(t.x) = 1 THEN DELETE": (
        "^WHEN NOT MATCHED BY SOURCE: sum"
    ),
    f"UPDATE t SET x = {TWO}": "several rows",
    f"DELETE FROM t WHERE x = {TWO}": "several rows",
    f"{USING} t.id = s.id WHEN MATCHED AND t.x > {TWO} THEN DELETE": "several rows",
}


def test_windows_and_aggregates_in_sql(spark: Any, t: str) -> None:
    """SQL-2: every clause refuses it, for any rows. Sub-queries of several rows are refused too."""
    for text, words in SQL.items():
        refused(t, lambda text=text: spark.sql(text), words)
    for text in ("UPDATE t SET x = explode(array(1, 2))", "DELETE FROM t WHERE explode(array(1))"):
        with pytest.raises(Exception, match="UNSUPPORTED_GENERATOR"):
            spark.sql(text)
    spark.sql("UPDATE t SET x = (SELECT max(col1) FROM VALUES (1), (2))")
    assert tablefmt.open(t).to_arrow()["x"].to_pylist() == [2, 2]


def test_windows_and_aggregates_by_spark_table(spark: Any, t: str) -> None:
    """SQL-2: text and Columns."""
    table = tablefmt.spark.open(spark, t)
    merge = table.merge(spark.sql("SELECT 1 AS id, 5 AS x"), "t.id = s.id")
    other = table.merge(spark.sql("SELECT 1 AS id, 5 AS x"), "t.id = 7")
    rank = RANK.format("s.")
    for statement, words in (
        (lambda: table.update({"x": RANK.format("")}), "^SET x: row_number"),
        (lambda: table.update({"x": "explode(array(1, 2))"}), "^SET x: explode"),
        (lambda: table.update({"x": F.row_number().over(Window.orderBy("id"))}), "^SET x: "),
        (lambda: table.delete("max(x) = 1"), "WHERE"),
        (lambda: merge.when_matched_delete("max(s.id) = 1").execute(), "^WHEN MATCHED: max"),
        (
            lambda: merge.when_matched_update({"x": rank}).execute(),
            "^WHEN MATCHED THEN UPDATE x: row_number",
        ),
        (
            lambda: other.when_not_matched_insert({"id": "1", "x": "max(s.x)"}).execute(),
            "^WHEN NOT MATCHED THEN INSERT x: max",
        ),
        (
            lambda: other.when_not_matched_by_source_update({"x": "max(t.x)"}).execute(),
            "^WHEN NOT MATCHED BY SOURCE THEN UPDATE x: max",
        ),
        (
            lambda: (
                table.merge(spark.sql("SELECT 1 AS id"), "t.id = max(s.id)")
                .when_matched_delete()
                .execute()
            ),
            "^ON: ",
        ),
        (
            lambda: table.overwrite(spark.sql("SELECT 1L AS id, 5L AS x"), where="max(x) = 1"),
            "Spark rejects",
        ),
        (lambda: table.update({"x": TWO}), "several rows"),
        (lambda: table.delete(f"x = {TWO}"), "several rows"),
    ):
        refused(t, statement, words)
    table.update({"x": "rand() * 0 + id"})
    assert tablefmt.open(t).to_arrow()["x"].to_pylist() == [1, 2]


def test_windows_and_aggregates_without_spark(t: str) -> None:
    """SQL-2."""
    table = tablefmt.open(t)
    source = pa.table({"id": [1], "x": [5]})
    merge = table.merge(source, "t.id = s.id")
    for statement, words in (
        (lambda: table.update({"x": "max(x)"}), "^the value of 'x': MAX"),
        (lambda: table.update({"x": RANK.format("")}), "^the value of 'x': ROW_NUMBER"),
        (lambda: table.delete("max(x) = 1"), "MAX"),
        (
            lambda: table.merge(source, "t.id = max(s.id)").when_matched_delete().execute(),
            "^ON: MAX",
        ),
        (lambda: merge.when_matched_delete("max(s.id) = 1").execute(), "^WHEN MATCHED: MAX"),
        (
            lambda: merge.when_not_matched_insert({"id": "1", "x": "sum(s.x)"}).execute(),
            "^the value of 'x': SUM",
        ),
    ):
        refused(t, statement, words)


def test_a_view_is_refused_with_the_name_of_its_table(spark: Any, t: str) -> None:
    """SQL-2: a view's rows and columns are others than the table's."""
    using = "MERGE INTO seen USING (SELECT 1 AS i) s ON seen.i = s.i WHEN MATCHED THEN DELETE"
    statements = ("UPDATE seen SET y = 1 WHERE i = 1", "DELETE FROM seen WHERE i = 1", using)
    for view in ("SELECT id AS i, x AS y FROM t", "SELECT id AS i, x + 1 AS y FROM t WHERE id = 1"):
        spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW seen AS {view}")
        for text in statements:
            refused(t, lambda text=text: spark.sql(text), r"use `spark_catalog`\.`default`\.`t`")
    spark.read.format("tablefmt").load(t).selectExpr("id AS i", "x AS y").createOrReplaceTempView(
        "seen"
    )
    for text in statements:
        refused(t, lambda text=text: spark.sql(text), "the table's own name")
    spark.catalog.dropTempView("seen")
