"""Hidden partitioning in Spark SQL and by writeTo (spec/hidden.md)."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import functions as F

import tablefmt
import tablefmt.spark
from tablefmt.errors import SchemaMismatchError, UnsupportedFeatureError
from tests.oracle import assert_agrees

pytestmark = pytest.mark.usefixtures("catalog")
ROWS = "(1, 'abc', {0}-01-01 23:00:00'), (2, 'abd', {0}-01-02 12:00:00'), (NULL, NULL, NULL)"
VALUES = ROWS.format("TIMESTAMP'2026")


def partitions(path: Path) -> dict[tuple[Any, ...], int]:
    found = tablefmt.open(str(path)).scan().partitions().to_pylist()
    return {tuple(each["partition"].values()): each["rows"] for each in found}


def refused(spark: Any, statement: str) -> str:
    with pytest.raises(Exception) as error:
        spark.sql(statement)
    return str(error.value)


def test_partitions_by_transforms(spark: Any, tmp_path: Path) -> None:
    """HID-1 to HID-6, by name and by path."""
    path, day = tmp_path / "t", dt.date
    spark.sql(
        "CREATE TABLE hidden_t (id BIGINT, s STRING, ts TIMESTAMP) USING tablefmt "
        f"PARTITIONED BY (days(ts), bucket(4, id), truncate(2, s)) LOCATION '{path}'"
    )
    try:
        zone = spark.conf.get("spark.sql.session.timeZone")
        spark.conf.set("spark.sql.session.timeZone", "UTC")
        spark.sql(f"INSERT INTO hidden_t VALUES {VALUES}")
        assert spark.table("hidden_t").columns == ["id", "s", "ts"]
        assert partitions(path) == {
            (day(2026, 1, 1), 0, "ab"): 1,
            (day(2026, 1, 2), 0, "ab"): 1,
            (None, None, None): 1,
        }
        spark.sql("UPDATE hidden_t SET ts = ts + INTERVAL 1 DAY WHERE id = 1")
        spark.sql(
            "MERGE INTO hidden_t t USING "
            "(SELECT * FROM VALUES (2L, 'zz'), (9L, 'new') AS v(id, s)) u "
            "ON t.id = u.id WHEN MATCHED THEN UPDATE SET s = u.s "
            "WHEN NOT MATCHED THEN INSERT (id, s) VALUES (u.id, u.s)"
        )
        spark.sql(f"DELETE FROM tablefmt.`{path}` WHERE id IS NULL")
        assert partitions(path) == {
            (day(2026, 1, 2), 0, "ab"): 1,
            (day(2026, 1, 2), 0, "zz"): 1,
            (None, 3, "ne"): 1,
        }
        chosen = spark.sql("SELECT id FROM hidden_t WHERE ts < TIMESTAMP'2026-01-02 13:00:00'")
        assert [tuple(each) for each in chosen.collect()] == [(2,)]
        shown = [each[0] for each in spark.sql("SHOW PARTITIONS hidden_t").collect()]
        assert shown == [
            "ts_day=2026-01-02/id_bucket=0/s_trunc=ab",
            "ts_day=2026-01-02/id_bucket=0/s_trunc=zz",
            "ts_day=null/id_bucket=3/s_trunc=ne",
        ]
        shown = spark.sql("SHOW CREATE TABLE hidden_t").first()[0]
        assert "PARTITIONED BY (days(ts), bucket(4, id), truncate(2, s))" in shown
        assert "partitioned by days(ts)" in refused(spark, "ALTER TABLE hidden_t DROP COLUMN ts")
        name = refused(spark, "ALTER TABLE hidden_t ADD COLUMN ts_day DATE")
        assert "partition field of days(ts)" in name
        start = "CREATE TABLE hidden_x (id BIGINT, s STRING) USING tablefmt PARTITIONED BY"
        assert "column 's' is string" in refused(spark, f"{start} (days(s))")
        assert "0 is not a number from 1" in refused(spark, f"{start} (bucket(0, id))")
        spark.sql("DELETE FROM hidden_t WHERE ts IS NULL")
        one = "PARTITION (ts_day='2026-01-02', id_bucket=0, s_trunc='zz')"
        assert "once it has a row" in refused(
            spark, f"ALTER TABLE hidden_t ADD {one.replace('zz', 'yy')}"
        )
        spark.sql(f"ALTER TABLE hidden_t DROP {one}")
        assert partitions(path) == {(day(2026, 1, 2), 0, "ab"): 1}
        assert_agrees(tablefmt.open(str(path)))
    finally:
        spark.conf.set("spark.sql.session.timeZone", zone)
        spark.sql("DROP TABLE IF EXISTS hidden_t")


def test_new_tables_of_rows(spark: Any, tmp_path: Path) -> None:
    """HID-1: writeTo, CTAS, REPLACE, LIKE, and overwrites by partition."""
    times = F.timestamp_seconds(F.col("id") * 86400).alias("ts")
    rows = spark.range(6).select("id", times)
    names = ("hidden_w", "hidden_c", "hidden_l")
    try:
        writer = (
            rows.writeTo("hidden_w")
            .using("tablefmt")
            .partitionedBy(F.partitioning.days("ts"), F.partitioning.bucket(3, "id"))
        )
        writer.createOrReplace()
        rows.where("id < 2").writeTo("hidden_w").overwritePartitions()
        assert spark.table("hidden_w").count() == 6
        spark.sql("CREATE TABLE hidden_c USING tablefmt AS SELECT * FROM hidden_w")
        spark.sql(
            "CREATE OR REPLACE TABLE hidden_c USING tablefmt PARTITIONED BY (months(ts), id) "
            "AS SELECT *, 1 AS x FROM hidden_w"
        )
        spark.sql("CREATE TABLE hidden_l LIKE hidden_c")
        for name, by in (("hidden_w", "days(ts), bucket(3, id)"), ("hidden_l", "months(ts)")):
            assert by in spark.sql(f"SHOW CREATE TABLE {name}").first()[0]
        listed = spark.sql("SELECT sum(rows), count(*) FROM hidden_c.partitions").first()
        assert tuple(listed) == (6, 6)
        path = str(tmp_path / "p")
        tablefmt.spark.write(rows, path)
        tablefmt.spark.write(
            rows, path, mode="overwrite", overwriteSchema=True, partition_by=["days(ts)"]
        )
        where = "ts < TIMESTAMP'1970-01-03 00:00:00Z'"
        tablefmt.spark.write(rows.where("id < 1"), path, mode="overwrite", replaceWhere=where)
        table = tablefmt.open(path)
        assert (table.partition_by, table.count()) == (["days(ts)"], 5)
        assert_agrees(table)
    finally:
        for name in names:
            spark.sql(f"DROP TABLE IF EXISTS {name}")


def test_show_create_table_makes_an_equal_table(spark: Any) -> None:
    """All that a definition may say, and UTF8_BINARY, which Spark writes for text."""
    spark.sql(
        "CREATE TABLE whole (id BIGINT GENERATED BY DEFAULT AS IDENTITY (START WITH 5 INCREMENT BY "
        "-2), s STRING NOT NULL COMMENT 'it''s', ts TIMESTAMP, d DATE GENERATED ALWAYS AS "
        "(CAST(ts AS DATE)), n INT DEFAULT 7, a ARRAY<STRING>, st STRUCT<x: STRING, y: INT>, "
        "v VARCHAR(5), `odd ``name` STRING DEFAULT 'q''', CONSTRAINT pos CHECK (n > 0)) "
        "USING tablefmt PARTITIONED BY (days(ts), bucket(4, `odd ``name`)) COMMENT 'a table' "
        "TBLPROPERTIES ('user.k'='v''w', 'appendOnly'='true')"
    )
    spark.sql("ALTER TABLE whole CLUSTER BY (s, n)")
    shown = spark.sql("SHOW CREATE TABLE whole").first()[0]
    spark.sql(shown.replace(".whole (", ".again ("))
    both = [tablefmt.spark.open(spark, name).table for name in ("whole", "again")]
    first, second = (table.context.view.head.metadata for table in both)
    assert first == second


def test_transforms_in_partition_by(spark: Any, tmp_path: Path) -> None:
    """HID-1: both writers take transforms by path, and refuse them by name."""
    rows = spark.sql("SELECT id, timestamp_seconds(id * 100000) ts FROM range(3)")
    by, path = ["days(ts)", "bucket(2, id)"], str(tmp_path / "t")
    writer = rows.write.format("tablefmt").partitionBy(*by)
    writer.save(path)
    writer.mode("append").save(path)
    assert (tablefmt.open(path).partition_by, tablefmt.open(path).count()) == (by, 6)
    streamed = str(tmp_path / "s")
    source = spark.readStream.format("tablefmt").load(path)
    stream = source.writeStream.format("tablefmt").partitionBy(by).trigger(availableNow=True)
    stream = stream.option("checkpointLocation", str(tmp_path / "c"))
    stream.start(streamed).awaitTermination(60)
    assert partitions(Path(streamed)) == partitions(Path(path))
    with pytest.raises(UnsupportedFeatureError, match=r"PARTITIONED BY \(days\(ts\)\)"):
        rows.write.format("tablefmt").partitionBy("days(ts)").saveAsTable("by_name")
    with pytest.raises(SchemaMismatchError, match="not by 'hours"):
        writer.partitionBy("hours(ts)").save(path)
