"""Streams into tables of the catalog, and MERGE of each batch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException

import tablefmt
import tablefmt.spark
from tablefmt.errors import InvalidRangeError, SchemaMismatchError, UnsupportedFeatureError
from tests.spark.looking import everything, place_of, selected
from tests.spark.streams.queries import Feed, ended, storage_options_of_sinks


@pytest.fixture
def feed(catalog: None, spark: Any, tmp_path: Path) -> Feed:
    return Feed(spark, tmp_path / "feed")


@pytest.mark.share(2)
@pytest.mark.parametrize("there", [True, False])
def test_to_table_writes_a_table_of_the_catalog(feed: Feed, spark: Any, there: bool) -> None:
    """STR-10: one that is there, or one that Spark makes with the columns of the query."""
    if there:
        spark.sql("CREATE TABLE t (id BIGINT, p STRING) USING tablefmt PARTITIONED BY (p)")
    feed.put(1, 2)
    feed.put(3)
    ended(lambda: feed.writer(partitionBy="p" if there else "").toTable("t"))
    feed.put(4)
    ended(lambda: feed.writer().toTable("t"))
    assert selected(spark, "SELECT * FROM t ORDER BY id") == feed.rows
    table = tablefmt.open(place_of(spark, "t"))
    assert table.version == 3
    assert table.partition_by == (["p"] if there else [])
    (application,) = table.context.view.head.applications.values()
    assert application[0].version == 2


def test_to_table_makes_partitions_where_it_is_told(feed: Feed, spark: Any, tmp_path: Path) -> None:
    feed.put(1, 2)
    uri = str(tmp_path / "made")
    ended(lambda: feed.writer().partitionBy("p").option("path", uri).toTable("t"))
    assert selected(spark, "SELECT * FROM t ORDER BY id") == feed.rows
    assert tablefmt.open(uri).partition_by == ["p"]


def test_what_no_table_of_the_catalog_takes(feed: Feed, spark: Any, uri: str) -> None:
    tablefmt.create(uri, "id BIGINT, p STRING")
    feed.put(1)
    with pytest.raises(UnsupportedFeatureError, match=r"pass the path to start\(\)"):
        feed.writer().toTable(f"tablefmt.`{uri}`")
    spark.sql("CREATE TABLE t (id BIGINT, q STRING) USING tablefmt")
    before = everything(place_of(spark, "t"))
    with pytest.raises(SchemaMismatchError, match="'p'"):
        ended(lambda: feed.writer().toTable("t"))
    with pytest.raises(InvalidRangeError, match="append replaces nothing"):
        feed.writer(replaceWhere="id = 1").toTable("t")
    assert everything(place_of(spark, "t")) == before


def test_a_table_that_spark_refused_leaves_nothing_to_a_stream_by_path(
    feed: Feed, spark: Any, uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """STR-10: the options of a catalog's table are for streams into that table."""
    spark.sql(
        "CREATE TABLE t (id BIGINT, p STRING) USING tablefmt "
        f"OPTIONS (path '{uri}', storage.unsafe_single_writer 'true')"
    )
    told = storage_options_of_sinks(monkeypatch)
    feed.put(1)
    ended(lambda: feed.writer().toTable("t"))
    with pytest.raises(AnalysisException, match="parquet"):
        feed.writer().format("parquet").toTable("t")
    feed.put(2)
    described = {row[0]: row[1] for row in spark.sql("DESCRIBE EXTENDED t").collect()}
    ended(lambda: feed.writer().start(described["Location"]))
    assert told == [{"storage.unsafe_single_writer"}] * 2 + [set()] * 2
    assert selected(spark, "SELECT * FROM t ORDER BY id") == feed.rows


def test_other_tables_take_streams_as_ever(feed: Feed, spark: Any) -> None:
    """Spark's own ones, in a session whose catalog is ours."""
    feed.put(1, 2)
    ended(lambda: feed.writer().format("parquet").toTable("plain"))
    assert selected(spark, "SELECT * FROM plain ORDER BY id") == feed.rows
    feed.put(3)
    stream = feed.batches().writeStream.format("noop").trigger(availableNow=True)
    ended(lambda: stream.option("checkpointLocation", str(feed.source / "_other")).start())


def test_a_merge_of_each_batch_is_there_once(feed: Feed, spark: Any, uri: str) -> None:
    """STR-11: `foreachBatch` under the id of the query and the number of the batch."""
    target = tablefmt.spark.create(spark, uri, "id BIGINT, p STRING, n BIGINT")
    done = []

    def upsert(batch: Any, number: int) -> None:
        query = batch.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId")
        merge = target.merge(batch.selectExpr("id", "p", "1 AS n"), "t.id = s.id")
        merge = merge.when_matched_update({"n": "t.n + s.n"}).when_not_matched_insert_all()
        done.append(merge.execute(application=(query, number)).already_applied)

    def run() -> Any:
        return ended(lambda: feed.writer().format("console").foreachBatch(upsert).start())

    feed.put(1, 2)
    feed.put(2, 3)
    query = run()
    feed.forget(1)
    feed.put(3)
    feed.put()
    run()
    found = target.to_df().orderBy("id").collect()
    assert [tuple(row) for row in found] == [(1, "b", 1), (2, "a", 2), (3, "b", 2)]
    assert done == [False, False, True, False, False]
    known = tablefmt.open(uri).context.view.head.applications
    assert {name: each.version for name, (each, _) in known.items()} == {query.id: 3}
