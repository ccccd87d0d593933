"""STR-1 .. STR-5: `spark.readStream` of a table, in a session with a JVM at hand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tablefmt
from tablefmt.errors import (
    ChangesExpiredError,
    InvalidRangeError,
    SchemaMismatchError,
    UnsupportedFeatureError,
)
from tests.changes.histories import History
from tests.log.test_horizon import raise_horizon
from tests.spark.streams.draining import drain

Load = Callable[..., Any]


@pytest.fixture
def table(uri: str) -> tablefmt.Table:
    """Versions 1 to 3 append two rows each."""
    table = tablefmt.create(uri, "id BIGINT, v STRING")
    for at in range(3):
        table.append({"id": [at, at + 10], "v": ["a", None]})
    return table


@pytest.fixture
def load(spark: Any, catalog: None, uri: str) -> Load:
    """A stream of the table, with options."""
    return lambda **options: spark.readStream.format("tablefmt").options(**options).load(uri)


def pair(at: int) -> list[tuple[Any, ...]]:
    return sorted([(at, "a"), (at + 10, None)], key=repr)


def test_a_stream_gives_what_is_there_and_then_what_comes(
    table: tablefmt.Table, load: Load, tmp_path: Path
) -> None:
    """It respects limits, and resumes where the previous query stopped.

    A compaction has no rows.
    """
    first = drain(load(maxFilesPerTrigger=2), tmp_path / "c")
    table.append({"id": [3, 13], "v": ["a", None]})
    table.compact("major")
    second = drain(load(), tmp_path / "c")
    table.compact("major")
    nothing = drain(load(), tmp_path / "c")

    assert first == [sorted(pair(0) + pair(1), key=repr), pair(2)]
    assert second == [pair(3)]
    assert nothing == []


@pytest.mark.share(3)
@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"startingVersion": 2, "maxFilesPerTrigger": 1}, [pair(1), pair(2)]),
        ({"startingVersion": "earliest", "maxBytesPerTrigger": "1b"}, [pair(0), pair(1), pair(2)]),
        ({"startingVersion": "latest"}, [[]]),
    ],
)
def test_a_stream_begins_where_it_is_told(
    table: tablefmt.Table, load: Load, tmp_path: Path, options: dict[str, Any], expected: Any
) -> None:
    assert drain(load(**options), tmp_path / "c") == expected


def test_a_commit_that_changes_rows_stops_a_stream_or_is_skipped_or_reported(
    table: tablefmt.Table, load: Load, tmp_path: Path
) -> None:
    table.delete("id = 0")
    table.append({"id": [3], "v": ["b"]})
    table.update({"v": "'c'"}, "id = 3")
    table.restore(version=3)
    whole = {"startingVersion": 3, "maxFilesPerTrigger": 1}

    with pytest.raises(UnsupportedFeatureError, match=r"version 4 .*readChangeFeed.*ignoreDelete"):
        drain(load(**whole), tmp_path / "c")
    with pytest.raises(UnsupportedFeatureError, match=r"version 6 \(UPDATE\).*skipChangeCommits"):
        drain(load(**whole, ignoreDeletes="true"), tmp_path / "c")
    assert drain(load(**whole, skipChangeCommits="true"), tmp_path / "c") == []
    assert drain(load(**whole, skipChangeCommits="true"), tmp_path / "d") == [pair(2), [(3, "b")]]
    told = drain(load(**whole, readChangeFeed="true").drop("_commit_timestamp"), tmp_path / "e")
    assert told == [
        [(*row, "insert", 3) for row in pair(2)],
        [(0, "a", "delete", 4)],
        [(3, "b", "insert", 5)],
        [(3, "b", "update_preimage", 6), (3, "c", "update_postimage", 6)],
        [(0, "a", "insert", 7), (3, "c", "delete", 7)],
    ]


def test_other_columns_stop_a_stream_until_it_is_loaded_again(
    table: tablefmt.Table, load: Load, tmp_path: Path
) -> None:
    before = load()
    table.append({"id": [3], "v": ["b"]})
    table.alter.add_column("w", "INT")
    table.append({"id": [4], "v": ["b"], "w": [1]})

    with pytest.raises(SchemaMismatchError, match="version 5 changed the columns") as stopped:
        drain(before, tmp_path / "c")
    assert stopped.value.columns == ["w"]
    with pytest.raises(SchemaMismatchError, match="Load the stream again"):
        drain(before, tmp_path / "c")
    assert drain(load(), tmp_path / "d") == [
        sorted([(*row, None) for at in range(3) for row in pair(at)]
               + [(3, "b", None), (4, "b", 1)], key=repr)
    ]  # fmt: skip


def test_a_stream_of_a_table_of_the_catalog_is_that_of_its_path(
    spark: Any, table: tablefmt.Table, load: Load, uri: str, tmp_path: Path
) -> None:
    spark.sql(f"CREATE TABLE t USING tablefmt OPTIONS (path '{uri}')")
    reader = spark.readStream.option("startingVersion", 2).option("maxFilesPerTrigger", 1)

    assert drain(reader.table("t"), tmp_path / "c") == [pair(1), pair(2)]
    hive = reader.option("serialization.format", "1").table("t")
    assert drain(hive, tmp_path / "d") == [pair(1), pair(2)]
    table.alter.add_column("w", "INT")
    with pytest.raises(SchemaMismatchError, match=r"sync\(spark, 'spark_catalog.default.t'\)"):
        reader.table("t")
    with pytest.raises(UnsupportedFeatureError, match="pass the path to"):
        spark.readStream.table(f"tablefmt.`{uri}`")


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"failOnDataLoss": "false"}, UnsupportedFeatureError, "option failOnDataLoss of Delta"),
        ({"versionAsOf": 1}, UnsupportedFeatureError, "no option 'versionAsOf'"),
        ({"ignoreChanges": "true"}, UnsupportedFeatureError, "use skipChangeCommits"),
        ({"schemaTrackingLocation": "/x"}, UnsupportedFeatureError, "load the stream again"),
        ({"maxFilesPerTrigger": 0}, InvalidRangeError, "maxFilesPerTrigger is '0'"),
        ({"maxBytesPerTrigger": "much"}, InvalidRangeError, "maxBytesPerTrigger is 'much'"),
        ({"startingVersion": "first"}, InvalidRangeError, "startingVersion is 'first'"),
        ({"startingTimestamp": "soon"}, InvalidRangeError, "soon"),
        (
            {"startingVersion": 1, "startingTimestamp": "2020-01-01"},
            InvalidRangeError,
            "not both",
        ),
        (
            {"readChangeFeed": "true", "skipChangeCommits": "true"},
            InvalidRangeError,
            "leave out skipChangeCommits",
        ),
    ],
)
def test_options_that_make_no_sense_are_refused_when_a_stream_is_loaded(
    table: tablefmt.Table, load: Load, options: dict[str, Any], error: type, words: str
) -> None:
    with pytest.raises(error, match=words):
        load(**options)


def test_a_query_that_ended_goes_on_though_what_it_read_has_expired(
    table: tablefmt.Table, load: Load, tmp_path: Path
) -> None:
    """STR-5: unread entries are kept. Spark asks again for the batch before them."""
    options = {"startingVersion": 2, "readChangeFeed": "true"}
    first = drain(load(**options).select("id"), tmp_path / "c")
    raise_horizon(table.context.store, 3)

    table.append({"id": [9], "v": ["b"]})

    assert list(map(sorted, first)) == [[(1,), (2,), (11,), (12,)]]
    assert drain(load(**options).select("id"), tmp_path / "c") == [[(9,)]]
    with pytest.raises(ChangesExpiredError, match="earliest that can still be read is 4"):
        drain(load(**options), tmp_path / "d")


def test_a_single_batch_and_a_query_that_runs_on_read_all_of_it(
    spark: Any, table: tablefmt.Table, load: Load, tmp_path: Path
) -> None:
    """STR-4: Trigger.Once heeds no limit. Aggregates over a stream have their state."""
    options = {"maxFilesPerTrigger": 1, "readChangeFeed": "true", "startingVersion": 1}
    once = drain(load(**options).select("id"), tmp_path / "c", once=True)
    assert [len(batch) for batch in once] == [6]
    table.delete("id = 1")
    table.restore(version=3)
    kinds = load(**options).groupBy("_change_type").count()
    query = kinds.writeStream.format("memory").queryName("kinds").outputMode("complete").start()
    try:
        query.processAllAvailable()
        table.append({"id": [9], "v": ["b"]})
        query.processAllAvailable()
        assert {row.numInputRows for row in query.recentProgress if row.numInputRows} == {1, 2}
    finally:
        query.stop()
    assert sorted(map(tuple, spark.table("kinds").collect())) == [("delete", 1), ("insert", 8)]


def test_a_stream_through_arrow_in_a_session_with_a_jvm(
    table: tablefmt.Table, load: Load, tmp_path: Path, use_backend: Any
) -> None:
    """STR-1, STR-3: the session's setting chooses Arrow, or Hadoop cannot open the location."""
    table.delete("id = 0")
    use_backend("arrow")
    assert [row for batch in drain(load(), tmp_path / "c") for row in batch] == sorted(
        [(10, None), *pair(1), *pair(2)], key=repr
    )


@pytest.mark.share(2)
@pytest.mark.parametrize("seed", [3, 8])
def test_a_feed_of_a_random_history_is_that_of_the_model(
    load: Load, tmp_path: Path, uri: str, seed: int
) -> None:
    """STR-3, INC-3 .. INC-6: renamed, dropped and wider columns, partitions, deletes, restores."""
    history = History(seed, uri).run(11)
    options = {"readChangeFeed": "true", "startingVersion": 0, "maxFilesPerTrigger": 4}
    found: dict[int, Counter[Any]] = {}
    for batch in drain(load(**options).drop("_commit_timestamp"), tmp_path / "c"):
        for *row, kind, version in batch:
            found.setdefault(version, Counter())[(kind, tuple(row))] += 1
    for each in history.changes(0, len(history.versions) - 1):
        each.check(found.pop(each.version, Counter()))
    assert found == {}


def test_columns_that_are_called_like_the_change_columns_are_the_tables_own(
    load: Load, tmp_path: Path, uri: str
) -> None:
    """STR-1: a table may keep what a feed gave; and odd names."""
    schema = "`_Change_Type` STRING, `a.b `` c` INT, `_commit_version` BIGINT, `größe` INT"
    table = tablefmt.create(uri, schema, partition_by=["größe"])
    table.append({"_Change_Type": ["delete"], "a.b ` c": [1], "_commit_version": [7], "größe": [2]})
    table.append({"_Change_Type": [None], "a.b ` c": [2], "_commit_version": [8], "größe": [None]})

    assert drain(load(), tmp_path / "c") == [[("delete", 1, 7, 2), (None, 2, 8, None)]]
    with pytest.raises(SchemaMismatchError, match="leave readChangeFeed out") as clash:
        load(readChangeFeed="true")
    assert clash.value.columns == ["_Change_Type", "_commit_version"]
