"""SQL on tables USING tablefmt, in Spark's session catalog."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import tablefmt
import tablefmt.spark
from tablefmt.errors import (
    SchemaMismatchError,
    TableExistsError,
    TableNotFoundError,
    UnsupportedFeatureError,
)
from tests.spark.looking import everything, selected

pytestmark = pytest.mark.usefixtures("catalog")


@pytest.fixture
def t(spark: Any, uri: str) -> str:
    """A table with columns id BIGINT, p STRING, partitioned by p, known as `t`; its place."""
    spark.sql(
        "CREATE TABLE t (id BIGINT, p STRING, n INT) USING tablefmt "
        f"OPTIONS (path '{uri}') PARTITIONED BY (p)"
    )
    spark.sql("INSERT INTO t VALUES (1, 'a', 10), (2, 'b', 20), (3, NULL, 30)")
    return uri


def test_an_empty_path_becomes_a_table(spark: Any, t: str) -> None:
    table = tablefmt.open(t)
    assert (table.version, table.partition_by) == (1, ["p"])
    assert selected(spark, "SELECT * FROM t") == [(1, "a", 10), (2, "b", 20), (3, None, 30)]


def test_insert_by_name_and_by_position(spark: Any, t: str) -> None:
    spark.sql("INSERT INTO t (p, id) VALUES ('c', 4)")
    spark.sql("INSERT INTO t BY NAME SELECT 'd' AS p, 50 AS n, 5L AS id")
    assert selected(spark, "SELECT * FROM t WHERE id > 3") == [(4, "c", None), (5, "d", 50)]


def test_insert_overwrite_whole_and_one_partition(spark: Any, t: str) -> None:
    spark.sql("INSERT OVERWRITE t PARTITION (p = 'a') VALUES (9, 90)")
    assert selected(spark, "SELECT * FROM t") == [(2, "b", 20), (3, None, 30), (9, "a", 90)]
    spark.sql("INSERT OVERWRITE t VALUES (7, 'z', 70)")
    assert selected(spark, "SELECT * FROM t") == [(7, "z", 70)]
    assert [r["operation"] for r in tablefmt.open(t).history().to_pylist()][:2] == [
        "OVERWRITE",
        "OVERWRITE",
    ]


def test_a_partition_of_another_type_is_overwritten_too(spark: Any, uri: str) -> None:
    spark.sql(
        f"CREATE TABLE t (id BIGINT, d DATE, k BIGINT) USING tablefmt OPTIONS (path '{uri}') "
        "PARTITIONED BY (d, k)"
    )
    spark.sql("INSERT INTO t VALUES (1, DATE'2020-01-01', 1), (2, DATE'2020-01-02', 1)")
    spark.sql("INSERT OVERWRITE t PARTITION (d = '2020-01-02', k = 1) VALUES (3)")
    assert selected(spark, "SELECT id FROM t") == [(1,), (3,)]


def test_a_table_that_is_there_is_taken_as_it_is(spark: Any, t: str) -> None:
    spark.sql(f"CREATE TABLE copy USING tablefmt OPTIONS (path '{t}')")
    assert selected(spark, "SELECT id FROM copy") == [(1,), (2,), (3,)]
    with pytest.raises(SchemaMismatchError, match="other columns"):
        spark.sql(f"CREATE TABLE made (x INT) USING tablefmt OPTIONS (path '{t}')")
    with pytest.raises(TableNotFoundError):
        spark.sql(f"CREATE TABLE made USING tablefmt OPTIONS (path '{t}-none')")
    assert not spark.catalog.tableExists("made")


def test_create_as_select_and_replace(spark: Any, t: str, tmp_path: Path) -> None:
    place = tmp_path / "made"
    spark.sql(
        f"CREATE TABLE made USING tablefmt OPTIONS (path '{place}') PARTITIONED BY (p) "
        "AS SELECT id, p FROM t WHERE id < 3"
    )
    assert selected(spark, "SELECT * FROM made") == [(1, "a"), (2, "b")]
    assert tablefmt.open(str(place)).partition_by == ["p"]
    with pytest.raises(Exception, match="ALREADY_EXISTS"):
        spark.sql("CREATE TABLE made USING tablefmt AS SELECT 1 AS id")
    with pytest.raises(TableExistsError):
        spark.sql(f"CREATE TABLE copy USING tablefmt OPTIONS (path '{place}') AS SELECT 1 AS id")
    assert not spark.catalog.tableExists("copy")
    spark.sql("CREATE OR REPLACE TABLE made USING tablefmt AS SELECT 7L AS id, 'q' AS p")
    assert selected(spark, "SELECT * FROM made") == [(7, "q")]
    assert selected(spark, "SELECT * FROM made VERSION AS OF 1") == [(1, "a"), (2, "b")]


def test_create_as_select_that_fails_leaves_no_table(spark: Any, tmp_path: Path) -> None:
    place = str(tmp_path / "made")
    with pytest.raises(Exception, match="no luck"):
        spark.sql(
            f"CREATE TABLE made USING tablefmt OPTIONS (path '{place}') "
            "AS SELECT if(id = 1, raise_error('no luck'), id) AS id FROM range(0, 3, 1, 1)"
        )
    assert not spark.catalog.tableExists("made")
    assert everything(place) == []


def test_data_frames_and_catalog_tables(spark: Any, t: str) -> None:
    frame = spark.sql("SELECT 5L AS id, 'e' AS p, 50 AS n")
    frame.write.insertInto("t")
    frame.writeTo("t").append()
    frame.select("n", "p", "id").write.format("tablefmt").mode("append").saveAsTable("t")
    assert selected(spark, "SELECT * FROM t WHERE id = 5") == [(5, "e", 50)] * 3
    frame.write.format("tablefmt").saveAsTable("managed")
    assert selected(spark, "SELECT * FROM managed") == [(5, "e", 50)]
    frame.write.format("tablefmt").mode("overwrite").saveAsTable("managed")
    assert selected(spark, "SELECT * FROM managed") == [(5, "e", 50)]
    assert selected(spark, "SELECT count(*) FROM managed VERSION AS OF 1") == [(1,)]


def test_sql_travels_in_time(spark: Any, t: str) -> None:
    table = tablefmt.open(t)
    then = table.timestamp.isoformat()
    spark.sql("INSERT INTO t VALUES (4, 'a', 40)")
    for query in (
        "SELECT id FROM t VERSION AS OF 1",
        f"SELECT id FROM t TIMESTAMP AS OF '{then}'",
        "SELECT id FROM t WITH ('versionAsOf' = '1')",
    ):
        assert selected(spark, query) == [(1,), (2,), (3,)]
    assert spark.read.option("versionAsOf", 1).table("t").count() == 3
    both = "SELECT a.id FROM t a LEFT ANTI JOIN t VERSION AS OF 1 b ON a.id = b.id"
    assert selected(spark, both) == [(4,)]
    with pytest.raises(UnsupportedFeatureError, match="bogus"):
        spark.sql("SELECT * FROM t WITH ('bogus' = '1')").collect()


def test_a_query_keeps_the_version_of_its_creation(spark: Any, t: str) -> None:
    frame = spark.table("t")
    spark.sql("INSERT INTO t VALUES (4, 'a', 40)")
    assert sorted(r.id for r in frame.collect()) == [1, 2, 3]
    assert sorted(r.id for r in spark.table("t").collect()) == [1, 2, 3, 4]


def test_plans_are_native_pruned_and_pushed_down(spark: Any, t: str) -> None:
    frame = spark.sql("SELECT id FROM t WHERE p = 'a' AND n > 5")
    plan = frame._jdf.queryExecution().executedPlan().toString()
    assert "FileScan parquet" in plan
    assert "version 1: 1 of 3 files" in plan
    assert re.search(r"PartitionFilters: \[isnotnull\(p#\d+\), \(p#\d+ = a\)\]", plan)
    assert "GreaterThan(n,5)" in plan
    assert "ReadSchema: struct<id:bigint,n:int>" in plan
    assert "BatchScan" not in plan


def test_sub_queries_caching_and_self_joins(spark: Any, t: str) -> None:
    query = "SELECT id FROM t WHERE n > (SELECT avg(n) FROM t) AND id IN (SELECT id FROM t)"
    assert selected(spark, query) == [(3,)]
    spark.sql("CACHE TABLE t")
    assert selected(spark, "SELECT a.id FROM t a JOIN t b ON a.id = b.id + 1") == [(2,), (3,)]
    spark.sql("INSERT INTO t VALUES (4, 'a', 40)")
    assert selected(spark, "SELECT id FROM t") == [(1,), (2,), (3,), (4,)]
    spark.sql("UNCACHE TABLE t")


def test_dynamic_partition_pruning_and_adaptive_plans_are_right(spark: Any, t: str) -> None:
    spark.range(2).selectExpr("element_at(array('a','b'), cast(id + 1 as int)) as k", "id as v")
    query = "SELECT t.id FROM t JOIN (SELECT 'a' AS k, rand() AS r) d ON t.p = d.k WHERE d.r >= 0"
    spark.conf.set("spark.sql.adaptive.enabled", "true")
    try:
        assert selected(spark, query) == [(1,)]
    finally:
        spark.conf.set("spark.sql.adaptive.enabled", "false")


def test_columns_that_only_the_catalog_has_are_an_error(spark: Any, t: str) -> None:
    catalog = spark._jsparkSession.sessionState().catalog()
    name = spark._jsparkSession.sessionState().sqlParser().parseTableIdentifier("t")
    known = catalog.getTableMetadata(name).schema()
    catalog.alterTableSchema(name, known.add("z", "int"))
    with pytest.raises(SchemaMismatchError, match=r"tablefmt\.spark\.sync"):
        spark.sql("SELECT * FROM t").collect()
    tablefmt.spark.sync(spark, "t")
    assert selected(spark, "SELECT id FROM t") == [(1,), (2,), (3,)]


def test_truncate_empties_the_table_in_a_new_version(spark: Any, t: str) -> None:
    spark.sql("TRUNCATE TABLE t")
    assert selected(spark, "SELECT * FROM t") == []
    assert selected(spark, "SELECT id FROM t VERSION AS OF 1") == [(1,), (2,), (3,)]


def test_other_formats_are_as_without_us(spark: Any, tmp_path: Path) -> None:
    spark.sql(f"CREATE TABLE made (x INT) USING parquet LOCATION '{tmp_path / 'plain'}'")
    spark.sql("INSERT INTO made VALUES (1)")
    assert selected(spark, "SELECT * FROM made") == [(1,)]
    spark.sql("CREATE TABLE copy USING parquet AS SELECT * FROM made")
    assert selected(spark, "SELECT * FROM copy") == [(1,)]
