"""`format("tablefmt")` on the native backend: reads and writes by path."""

from __future__ import annotations

import contextlib
import io
from typing import Any

import pytest

import tablefmt
import tablefmt.spark
from tablefmt.errors import (
    InvalidRangeError,
    SchemaMismatchError,
    TableExistsError,
    TableNotFoundError,
    UnsupportedFeatureError,
    VersionNotFoundError,
)
from tests.spark.looking import everything
from tests.tables import sorted_rows

pytestmark = pytest.mark.usefixtures("catalog")


def frame_of(spark: Any, ids: range, step: int = 1) -> Any:
    return spark.range(ids.start, ids.stop, step).selectExpr("id", "concat('p', id % 3) as p")


def wanted(ids: range) -> list[tuple[int, str]]:
    return [(i, f"p{i % 3}") for i in ids]


def plan_of(frame: Any, extended: bool = False) -> str:
    with contextlib.redirect_stdout(io.StringIO()) as text:
        frame.explain(extended)
    return text.getvalue()


def test_all_four_modes_and_partition_by(spark: Any, uri: str) -> None:
    frame_of(spark, range(9)).write.format("tablefmt").partitionBy("p").save(uri)
    assert tablefmt.open(uri).partition_by == ["p"]
    assert sorted_rows(spark.read.format("tablefmt").load(uri)) == wanted(range(9))
    with pytest.raises(TableExistsError):
        frame_of(spark, range(3)).write.format("tablefmt").save(uri)
    frame_of(spark, range(3)).write.format("tablefmt").mode("ignore").save(uri)
    assert tablefmt.open(uri).version == 1
    frame_of(spark, range(9, 12)).write.format("TableFmt").mode("append").save(uri)
    assert sorted_rows(spark.read.format("tablefmt").load(uri)) == wanted(range(12))
    frame_of(spark, range(2)).write.format("tablefmt").mode("overwrite").save(uri)
    assert sorted_rows(spark.read.format("tablefmt").load(uri)) == wanted(range(2))


def test_a_frame_stays_at_the_version_it_was_made_at(spark: Any, uri: str) -> None:
    tablefmt.spark.write(frame_of(spark, range(3)), uri)
    before = spark.read.format("tablefmt").load(uri)
    tablefmt.spark.write(frame_of(spark, range(3, 6)), uri)
    after = spark.read.format("tablefmt").load(uri)
    assert (sorted_rows(before), sorted_rows(after)) == (wanted(range(3)), wanted(range(6)))
    new = after.alias("a").join(before.alias("b"), "id", "left_anti")
    assert sorted_rows(new) == wanted(range(3, 6))
    cached = before.cache()
    assert sorted_rows(cached) == wanted(range(3))
    tablefmt.spark.write(frame_of(spark, range(6, 7)), uri)
    assert (sorted_rows(cached), sorted_rows(before)) == (wanted(range(3)), wanted(range(3)))
    cached.unpersist()


def test_versions_and_times_by_option(spark: Any, uri: str) -> None:
    first = tablefmt.spark.write(frame_of(spark, range(3)), uri)
    tablefmt.spark.write(frame_of(spark, range(3, 6)), uri)
    reader = spark.read.format("tablefmt")
    assert sorted_rows(reader.option("VERSIONASOF", 1).load(uri)) == wanted(range(3))
    at = first.timestamp.isoformat()
    assert sorted_rows(
        spark.read.format("tablefmt").option("timestampAsOf", at).load(uri)
    ) == wanted(range(3))
    with pytest.raises(VersionNotFoundError):
        spark.read.format("tablefmt").option("versionAsOf", 9).load(uri)
    with pytest.raises(InvalidRangeError, match="not both"):
        spark.read.format("tablefmt").options(versionAsOf=1, timestampAsOf=at).load(uri)


def test_explain_tells_version_files_and_why(spark: Any, uri: str) -> None:
    tablefmt.spark.write(frame_of(spark, range(3)).coalesce(1), uri)
    tablefmt.spark.write(frame_of(spark, range(3, 6)).coalesce(1), uri)
    frame = spark.read.format("tablefmt").load(uri)
    assert "version 2: 2 of 2 files" in plan_of(frame)
    assert "version 2: 1 of 2 files, pruned by" in plan_of(frame.where("id > 3").select("p"))
    assert "ReadSchema: struct<p:string>" in plan_of(frame.select("p"))
    assert sorted_rows(frame.where("id > 3")) == wanted(range(4, 6))
    assert len(frame.where("id > 3").inputFiles()) == 1


def test_small_tables_are_broadcast(spark: Any, uri: str) -> None:
    tablefmt.spark.write(frame_of(spark, range(3)), uri)
    small = spark.read.format("tablefmt").load(uri)
    large = spark.range(100).withColumnRenamed("id", "n")
    joined = large.join(small, large.n == small.id)
    assert "BroadcastHashJoin" in plan_of(joined)
    assert sorted(r.n for r in joined.collect()) == [0, 1, 2]


def test_metadata_columns_of_files_are_there(spark: Any, uri: str) -> None:
    tablefmt.spark.write(frame_of(spark, range(3)).coalesce(1), uri)
    found = spark.read.format("tablefmt").load(uri).select("id", "_metadata.row_index").collect()
    assert sorted(map(tuple, found)) == [(0, 0), (1, 1), (2, 2)]


@pytest.mark.parametrize(
    ("option", "error"),
    [
        ("bogus", UnsupportedFeatureError),
        ("readChangeFeed", InvalidRangeError),
        ("startingVersion", InvalidRangeError),
    ],
)
def test_options_of_a_read_are_refused_by_name(
    spark: Any, uri: str, option: str, error: type[Exception]
) -> None:
    tablefmt.spark.write(frame_of(spark, range(3)), uri)
    with pytest.raises(error, match=option) as caught:
        spark.read.format("tablefmt").option(option, "true").load(uri)
    assert "\tat " not in str(caught.value)


@pytest.mark.parametrize(
    ("option", "error"),
    [("bogus", UnsupportedFeatureError), ("overwriteSchema", InvalidRangeError)],
)
def test_options_of_a_write_are_refused_by_name(
    spark: Any, uri: str, option: str, error: type[Exception]
) -> None:
    with pytest.raises(error, match=option):
        frame_of(spark, range(3)).write.format("tablefmt").option(option, "true").save(uri)
    assert everything(uri) == []


def test_errors_are_those_of_the_package(spark: Any, uri: str) -> None:
    with pytest.raises(TableNotFoundError) as caught:
        spark.read.format("tablefmt").load(uri)
    assert caught.value.uri == uri
    assert caught.value.__cause__ is None
    with pytest.raises(InvalidRangeError, match="path"):
        spark.read.format("tablefmt").load()
    tablefmt.spark.write(frame_of(spark, range(3)), uri)
    with pytest.raises(SchemaMismatchError) as mismatch:
        spark.range(3).selectExpr("id", "id as extra").write.format("tablefmt").mode("append").save(
            uri
        )
    assert mismatch.value.columns == ["extra"]
    with pytest.raises(SchemaMismatchError):
        frame_of(spark, range(3)).write.format("tablefmt").partitionBy("nope").save(uri + "2")
    with pytest.raises(UnsupportedFeatureError, match="clusterBy"):
        frame_of(spark, range(3)).write.format("tablefmt").clusterBy("id").save(uri + "2")
    assert not tablefmt.exists(uri + "2")


def test_a_failing_query_is_sparks_own_error_and_leaves_nothing(spark: Any, uri: str) -> None:
    from pyspark.errors import PySparkException

    bad = spark.range(0, 3, 1, 1).selectExpr("if(id = 1, raise_error('no luck'), id) as id")
    with pytest.raises(PySparkException, match="no luck"):
        bad.write.format("tablefmt").save(uri)
    assert everything(uri) == []


def test_idempotent_writes_by_option(spark: Any, uri: str) -> None:
    """CFL-7."""
    for _ in range(2):
        frame_of(spark, range(3)).write.format("tablefmt").mode("append").options(
            txnAppId="job", txnVersion=1, userMetadata="nightly"
        ).save(uri)
    assert sorted_rows(spark.read.format("tablefmt").load(uri)) == wanted(range(3))


def test_insert_into_a_view_of_a_path_is_a_commit(spark: Any, uri: str) -> None:
    """Spark's own insert would add files beside the log, which no reader reads."""
    tablefmt.spark.write(frame_of(spark, range(3)), uri)
    spark.read.format("tablefmt").load(uri).createOrReplaceTempView("by_path")
    spark.sql("INSERT INTO by_path VALUES (3, 'p0')")
    assert sorted_rows(spark.read.format("tablefmt").load(uri)) == wanted(range(4))
    tablefmt.spark.read(spark, uri).createOrReplaceTempView("by_function")
    with pytest.raises(
        UnsupportedFeatureError, match="the target of the INSERT is not a tablefmt table"
    ):
        spark.sql("INSERT INTO by_function VALUES (4, 'p1')")
    assert tablefmt.open(uri).version == 2


def test_temporary_views_travel_in_time(spark: Any, uri: str) -> None:
    tablefmt.spark.write(frame_of(spark, range(3)), uri)
    tablefmt.spark.write(frame_of(spark, range(3, 6)), uri)
    spark.sql(
        "CREATE OR REPLACE TEMPORARY VIEW then USING tablefmt "
        f"OPTIONS (path '{uri}', versionAsOf '1')"
    )
    assert sorted_rows(spark.table("then")) == wanted(range(3))


def test_a_new_session_of_the_same_jvm_reads_paths(spark: Any, uri: str) -> None:
    tablefmt.spark.write(frame_of(spark, range(3)), uri)
    other = spark.newSession()
    assert sorted_rows(other.read.format("tablefmt").load(uri).where("id > 0")) == wanted(
        range(1, 3)
    )
    tablefmt.spark.register(other)
    assert sorted_rows(other.read.format("tablefmt").load(uri).where("id > 0")) == wanted(
        range(1, 3)
    )
