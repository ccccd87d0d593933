"""A little of everything that goes through Spark's internals, for `.ci/recipes smoke`.

Its name keeps it out of other runs: on the newest PySpark other tests do the same.
"""

from __future__ import annotations

from typing import Any

import pytest

import tablefmt
import tablefmt.spark
from tablefmt.spark.backends.backend_choice import choose
from tablefmt.spark.jvm import java_classes, spark_internals
from tablefmt.store.location import open_store
from tests.spark.looking import scanned_files, selected

pytestmark = pytest.mark.usefixtures("catalog")


def test_the_session_reads_and_writes_the_files_itself(spark: Any, uri: str) -> None:
    assert java_classes.problem(spark) is None
    assert choose(spark, open_store(uri)).name == "native"
    check = java_classes.new_instance(spark, "SparkInternals")
    assert check.missing(spark_internals.as_lines()) == ""


def test_statements_writes_and_scans_give_the_rows_of_the_table(spark: Any, uri: str) -> None:
    """DELETE, UPDATE, MERGE with evolution, overwrites, pruning, statements, time travel."""
    spark.sql(
        "CREATE TABLE t (id BIGINT, p STRING DEFAULT 'd', at TIMESTAMP) USING tablefmt "
        f"PARTITIONED BY (p) OPTIONS (path '{uri}')"
    )
    spark.sql(
        "INSERT INTO t SELECT /*+ COALESCE(1) */ id, if(id % 2 = 0, 'a', 'b'), "
        "timestamp_seconds(id) FROM range(10)"
    )
    spark.sql("DELETE FROM t WHERE id = 3")
    spark.sql("UPDATE t SET id = id + 100 WHERE id IN (4, 5) AND at > TIMESTAMP '1969-01-01'")
    spark.sql(
        "MERGE WITH SCHEMA EVOLUTION INTO t USING (SELECT 6L AS id, 'a' AS p, 1 AS more) s "
        "ON t.id = s.id WHEN MATCHED THEN UPDATE SET more = s.more"
    )
    spark.sql("ALTER TABLE t ADD COLUMN added INT DEFAULT 7")
    spark.sql("INSERT INTO t (id, p) VALUES (50, 'c')")
    spark.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
    try:
        spark.sql("INSERT OVERWRITE t (id, p) VALUES (51, 'c')")
    finally:
        spark.conf.unset("spark.sql.sources.partitionOverwriteMode")
    left = [(n, "ab"[n % 2]) for n in (0, 1, 2, 6, 7, 8, 9)] + [(104, "a"), (105, "b"), (51, "c")]
    assert selected(spark, "SELECT id, p FROM t") == sorted(left, key=repr)
    assert selected(spark, "SELECT id, more, added FROM t WHERE id IN (6, 51)") == [
        (51, None, 7),
        (6, 1, 7),
    ]
    assert sorted(tablefmt.open(uri).to_arrow()["id"].to_pylist()) == sorted(n for n, _ in left)
    assert scanned_files(spark.sql("SELECT * FROM t WHERE p = 'c'")) == 1
    spark.sql("OPTIMIZE t")
    assert selected(spark, "SELECT count(*) FROM t VERSION AS OF 1") == [(10,)]
    assert selected(spark, "SELECT id, p FROM t") == sorted(left, key=repr)


def test_changes_are_read_by_path_and_by_name(spark: Any, uri: str) -> None:
    spark.sql(f"CREATE TABLE t (id BIGINT) USING tablefmt OPTIONS (path '{uri}')")
    spark.sql("INSERT INTO t SELECT /*+ COALESCE(1) */ id FROM range(5)")
    for row in (1, 3):
        spark.sql(f"DELETE FROM t WHERE id = {row}")
    options = {"readChangeFeed": "true", "startingVersion": "2"}
    deleted = [(1, "delete"), (3, "delete")]
    for frame in (
        spark.read.format("tablefmt").options(**options).load(uri),
        spark.read.options(**options).table("t"),
    ):
        assert sorted(map(tuple, frame.select("id", "_change_type").collect())) == deleted


def test_metadata_is_read_in_sql(spark: Any, uri: str) -> None:
    """Metadata tables, `table_changes` with folded arguments, and `_metadata` by name."""
    spark.sql(f"CREATE TABLE t (id BIGINT) USING tablefmt OPTIONS (path '{uri}')")
    spark.sql("INSERT INTO t SELECT /*+ COALESCE(1) */ id FROM range(5)")
    spark.sql("DELETE FROM t WHERE id = 1")
    assert selected(spark, "SELECT rows, deleted FROM t.files") == [(5, 1)]
    old = "SELECT deleted FROM default.t.files TIMESTAMP AS OF current_timestamp()"
    assert selected(spark, old) == [(1,)]
    assert selected(spark, f"SELECT max(version) FROM tablefmt.`{uri}`.history") == [(2,)]
    assert selected(spark, "SELECT id FROM table_changes('t', 1 + 1) c") == [(1,)]
    assert selected(spark, "SELECT _metadata.row_index, id FROM t") == [
        (at, at) for at in (0, 2, 3, 4)
    ]
