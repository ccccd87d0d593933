"""A stream into a table over Spark Connect, where Spark names no query to the sink."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

import tablefmt
from tablefmt.errors import (
    InvalidRangeError,
    SchemaMismatchError,
    TableNotFoundError,
    TableReplacedError,
    UnsupportedFeatureError,
)
from tests.spark.looking import assert_no_other_files
from tests.spark.streams.queries import Feed, ended
from tests.tables import sorted_rows


@pytest.fixture
def feed(connect: Any, tmp_path: Path) -> Feed:
    return Feed(connect, tmp_path / "feed")


def applied(uri: str) -> dict[str, int]:
    known = tablefmt.open(uri).context.view.head.applications
    return {name: each.version for name, (each, _) in known.items()}


def test_batches_are_there_once_under_the_id_that_is_given(feed: Feed, uri: str) -> None:
    """STR-11, STR-13: the first batch creates the table.

    A batch without rows records its number.
    """
    feed.put(1, 2, 3)
    feed.run(uri, txnAppId="orders", partitionBy="p")
    feed.put()
    feed.put(4)
    feed.run(uri, txnAppId="orders")
    assert tablefmt.open(uri).partition_by == ["p"]
    assert sorted_rows(uri) == feed.rows
    assert applied(uri) == {"orders": 2}
    feed.forget(2)
    feed.run(uri, txnAppId="orders")
    assert sorted_rows(uri) == feed.rows
    assert tablefmt.open(uri).version == 3
    assert_no_other_files(uri)


@pytest.mark.soak
def test_complete_mode_gives_the_whole_table(feed: Feed, uri: str) -> None:
    """STR-13."""
    for ids in ((1, 2, 3), (4,)):
        feed.put(*ids)
        counts = feed.batches().groupBy("p").count()
        feed.run(uri, mode="complete", frame=counts, txnAppId="counts")
    assert sorted_rows(uri) == [("a", 2), ("b", 2)]
    assert applied(uri) == {"counts": 1}


@pytest.mark.soak
def test_what_cannot_be_is_refused(feed: Feed, uri: str) -> None:
    """STR-10, STR-11, STR-14."""
    feed.put(1)
    with pytest.raises(UnsupportedFeatureError, match="txnAppId"):
        feed.run(uri)
    with pytest.raises(InvalidRangeError, match="append replaces nothing"):
        feed.run(uri, txnAppId="a", replaceWhere="id = 1")
    assert not Path(uri).exists()
    feed.run(uri, txnAppId="a")
    feed.put(2)
    with pytest.raises(SchemaMismatchError, match="'q'"):
        feed.run(uri, frame=feed.batches().selectExpr("id", "p AS q"), txnAppId="a")
    with pytest.raises(TableReplacedError, match="has no batch"):
        feed.run(uri, txnAppId="b")
    assert sorted_rows(uri) == [(1, "b")]
    assert_no_other_files(uri)
    shutil.rmtree(uri)
    with pytest.raises(TableNotFoundError, match="batch 1"):
        feed.run(uri, txnAppId="a")


@pytest.mark.soak
def test_partitions_are_those_that_partition_by_says(feed: Feed, uri: str) -> None:
    """STR-10: Spark tells a Python data source neither of these."""
    feed.put(1, 2)
    writer = feed.writer(txnAppId="orders", partitionBy="id")
    ended(lambda: writer.partitionBy("p").start(uri))
    assert tablefmt.open(uri).partition_by == ["p"]
    feed.put(3)
    ended(lambda: feed.writer(txnAppId="orders").start(uri, partitionBy=["P"]))
    feed.put(4)
    with pytest.raises(SchemaMismatchError, match="partitioned by 'p'"):
        ended(lambda: feed.writer(txnAppId="orders").partitionBy("id").start(uri))
    with pytest.raises(UnsupportedFeatureError, match="clusterBy"):
        ended(lambda: feed.writer(txnAppId="orders").clusterBy("id").start(uri))
    feed.run(uri, txnAppId="orders")
    assert sorted_rows(uri) == feed.rows
    assert_no_other_files(uri)


@pytest.mark.soak
def test_a_name_with_a_comma_is_one_column(feed: Feed, uri: str) -> None:
    feed.put(1, 2)
    frame = feed.batches().selectExpr("id", "p AS `a, b`")
    ended(lambda: feed.writer(frame=frame, txnAppId="orders").partitionBy("a, b").start(uri))
    assert tablefmt.open(uri).partition_by == ["a, b"]
    assert sorted_rows(uri) == feed.rows


def test_no_table_of_the_catalog_is_meant(feed: Feed, connect: Any, uri: str) -> None:
    """STR-10: it would be an entry without a place, and no batch would go there."""
    feed.put(1, 2)
    with pytest.raises(UnsupportedFeatureError, match=r"path to start\(\)"):
        feed.writer(txnAppId="orders", path=uri).toTable("streamed")
    with pytest.raises(UnsupportedFeatureError, match=r"path to start\(\)"):
        feed.writer(txnAppId="orders").format("parquet").toTable("streamed", format="Tablefmt")
    assert not connect.catalog.tableExists("streamed")
    plain = feed.batches().writeStream.format("parquet").trigger(availableNow=True)
    plain = plain.option("checkpointLocation", str(feed.checkpoint / "plain")).partitionBy("p")
    try:
        ended(lambda: plain.toTable("streamed"))
        assert (
            sorted(map(tuple, connect.table("streamed").select("id", "p").collect())) == feed.rows
        )
    finally:
        connect.sql("DROP TABLE IF EXISTS streamed")
