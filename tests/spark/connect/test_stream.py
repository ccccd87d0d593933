"""STR-1 .. STR-5 over Spark Connect: batches are read by Arrow."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import tablefmt
from tablefmt.errors import (
    InvalidRangeError,
    SchemaMismatchError,
    TablefmtError,
    UnsupportedFeatureError,
)
from tablefmt.spark.entry.python_source import KNOWS_LIMITS


def drained(
    connect: Any, uri: str, folder: Path, stream: Any = None, **options: Any
) -> list[tuple[Any, ...]]:
    """Run a query over a checkpoint. Return the number of batches, then all rows so far, sorted."""
    if stream is None:
        stream = connect.readStream.format("tablefmt").options(**options).load(uri)
    writer = stream.writeStream.format("parquet").option("path", str(folder / "rows"))
    writer = writer.option("checkpointLocation", str(folder / "checkpoint"))
    query = writer.trigger(availableNow=True).start()
    try:
        assert query.awaitTermination(60)
        problem = query.exception()
        if problem is not None:
            raise problem
        batches = len([each for each in query.recentProgress if "addBatch" in each["durationMs"]])
    finally:
        query.stop()
    rows = connect.read.parquet(str(folder / "rows")).collect()
    return [(batches,), *sorted(map(tuple, rows), key=repr)]


def test_a_stream_gives_what_is_there_then_what_comes_and_changes_when_asked(
    connect: Any, uri: str, tmp_path: Path
) -> None:
    table = tablefmt.create(uri, "id BIGINT NOT NULL, v STRING")
    for at in range(3):
        table.append({"id": [at], "v": ["a"]})
    one = {"maxFilesPerTrigger": "1"} if KNOWS_LIMITS else {}

    found = drained(connect, uri, tmp_path / "a", **one)
    assert found == [(3 if KNOWS_LIMITS else 1,), (0, "a"), (1, "a"), (2, "a")]
    if not KNOWS_LIMITS:
        with pytest.raises(UnsupportedFeatureError, match="maxFilesPerTrigger"):
            drained(connect, uri, tmp_path / "limited", maxFilesPerTrigger="1")
    table.compact("major")
    table.append({"id": [3], "v": [None]})
    assert drained(connect, uri, tmp_path / "a", **one)[1:] == [
        (0, "a"), (1, "a"), (2, "a"), (3, None)
    ]  # fmt: skip
    table.delete("id = 3")
    with pytest.raises(Exception, match="readChangeFeed=true") as stopped:
        drained(connect, uri, tmp_path / "a", **one)
    assert isinstance(stopped.value, TablefmtError) or "version 6" in str(stopped.value)
    feed = drained(connect, uri, tmp_path / "b", readChangeFeed="true", startingVersion="5")
    assert [row[:4] for row in feed[1:]] == [(3, None, "delete", 6), (3, None, "insert", 5)]


def test_bad_input_is_refused_by_name(connect: Any, uri: str, tmp_path: Path) -> None:
    tablefmt.create(uri, "id BIGINT")
    for options, error, words in (
        ({"failOnDataLoss": "false"}, UnsupportedFeatureError, "(?i)failOnDataLoss"),
        ({"maxFilesPerTrigger": "0"}, InvalidRangeError, "from 1"),
        ({"startingVersion": "latest", "skipChangeCommits": "maybe"}, InvalidRangeError, "true or"),
    ):
        with pytest.raises(error, match=words):
            connect.readStream.format("tablefmt").options(**options).load(uri).printSchema()


@pytest.mark.soak
def test_null_where_none_was_allowed_stops_no_stream(
    connect: Any, uri: str, tmp_path: Path
) -> None:
    """STR-1, STR-5: columns are nullable from the start; a batch read knows one version better."""
    table = tablefmt.create(uri, "id BIGINT NOT NULL, v STRING NOT NULL")
    table.append({"id": [1], "v": ["a"]})
    stream = connect.readStream.format("tablefmt").load(uri)
    feed = connect.readStream.format("tablefmt").option("readChangeFeed", "true").load(uri)
    assert [f.nullable for f in stream.schema] == [True, True]
    assert [f.nullable for f in feed.schema] == [True, True, False, False, False]
    assert not connect.read.format("tablefmt").load(uri).schema["id"].nullable
    assert drained(connect, uri, tmp_path, stream=stream)[1:] == [(1, "a")]
    table.alter.drop_not_null("id")
    table.append({"id": [None], "v": ["b"]})
    assert drained(connect, uri, tmp_path, stream=stream)[1:] == [(1, "a"), (None, "b")]
    table.append({"id": [3], "v": ["c"]})
    table.delete("id = 3")
    found = drained(connect, uri, tmp_path / "feed", stream=feed)
    assert [row[:4] for row in found[1:]] == [(1, "a", "insert", 5), (None, "b", "insert", 5)]


@pytest.mark.soak
def test_null_where_a_stream_was_told_of_none_is_an_error(
    connect: Any, uri: str, tmp_path: Path
) -> None:
    """STR-5: the user has set NOT NULL with schema()."""
    tablefmt.create(uri, "id BIGINT").append({"id": [None]})
    told = connect.readStream.format("tablefmt").schema("id BIGINT NOT NULL").load(uri)
    with pytest.raises(SchemaMismatchError, match="leave schema"):
        drained(connect, uri, tmp_path, stream=told)
