"""The same table by its path and by its name, in every call: equal rows. Spec: TIM-5, TIM-6.

All of them read one table that Arrow wrote, and each writes to a table of its own. The expected
rows are constants of this module.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import tablefmt
import tablefmt.spark
from tablefmt.errors import (
    InvalidRangeError,
    TablefmtError,
    UnsupportedFeatureError,
    VersionNotFoundError,
)
from tablefmt.spark.spark_options import READ_OPTIONS
from tests.spark.looking import selected
from tests.spark.six_versions import (
    CHANGES,
    DDL,
    FEED,
    VERSIONS,
    found,
    in_functions,
    make,
    rows,
    wall,
    wanted,
)

DATABASE = "2nd_shop"
NAME = f"`{DATABASE}`.`1st_orders`"
TOKYO = "Asia/Tokyo"


@pytest.fixture(scope="module")
def shop(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A table of six versions, in a database that is not the current one; its place."""
    tablefmt.spark.register(spark)
    uri = str(tmp_path_factory.mktemp("shop") / "orders here")
    make(uri)
    spark.sql(f"CREATE DATABASE `{DATABASE}`")
    spark.sql(f"CREATE TABLE {NAME} USING tablefmt OPTIONS (path '{uri}')")
    yield uri
    spark.sql(f"DROP DATABASE `{DATABASE}` CASCADE")


@pytest.fixture(scope="module")
def elsewhere(spark: Any, shop: str) -> Any:
    """Another session, in another time zone, whose database is the table's."""
    session = spark.newSession()
    session.conf.set("spark.sql.session.timeZone", TOKYO)
    tablefmt.spark.register(session)
    session.sql(f"USE `{DATABASE}`")
    return session


Read = Callable[[Any, str, str, dict[str, str]], Any]


def by_path(spark: Any, uri: str, name: str, options: dict[str, str]) -> Any:
    return spark.read.format("tablefmt").options(**options).load(uri)


def by_name(spark: Any, uri: str, name: str, options: dict[str, str]) -> Any:
    return spark.read.options(**options).table(name)


def _with(options: dict[str, str]) -> str:
    return ", ".join(f"'{key}' = '{value}'" for key, value in options.items())


def by_sql_of_a_path(spark: Any, uri: str, name: str, options: dict[str, str]) -> Any:
    return spark.sql(f"SELECT * FROM tablefmt.`{uri}` WITH ({_with(options)})")


def by_sql_of_a_name(spark: Any, uri: str, name: str, options: dict[str, str]) -> Any:
    return spark.sql(f"SELECT * FROM {name} WITH ({_with(options)})")


def by_view(spark: Any, uri: str, name: str, options: dict[str, str]) -> Any:
    given = ", ".join(f"{key} '{value}'" for key, value in options.items())
    spark.sql(
        f"CREATE OR REPLACE TEMPORARY VIEW looked USING tablefmt OPTIONS (path '{uri}', {given})"
    )
    return spark.table("looked")


DOORS: list[Read] = [by_path, by_name, by_sql_of_a_path, by_sql_of_a_name, by_view]


def outcome(read: Read, spark: Any, uri: str, name: str, options: dict[str, str]) -> Any:
    """Rows, or the error's kind."""
    try:
        return found(read(spark, uri, name, options))
    except TablefmtError as error:
        return type(error)


def test_every_door_of_a_read_gives_the_same_rows(spark: Any, elsewhere: Any, shop: str) -> None:
    """Reads by version, by time in the session's zone, and of changes, in two sessions."""
    sessions = [(spark, NAME, "America/New_York"), (elsewhere, "`1st_orders`", TOKYO)]
    for session, name, zone in sessions:
        times = {
            "startingTimestamp": wall(shop, 2, zone),
            "endingTimestamp": wall(shop, 3, zone),
        }
        cases: list[tuple[dict[str, str], Any]] = [
            ({"TIMESTAMPASOF": wall(shop, 2, zone)}, VERSIONS[2]),
            (
                {"read_change_feed": "TRUE", **times},
                [change for change in CHANGES if change[3] in (2, 3)],
            ),
        ]
        if session is spark:
            # Versions are the same in every zone.
            cases += [({"versionAsOf": "3"}, VERSIONS[3]), (FEED, CHANGES)]
        for read in DOORS:
            for options, expected in cases:
                assert found(read(session, shop, name, options)) == wanted(expected), read


def test_sql_and_functions_travel_as_options_do(spark: Any, elsewhere: Any, shop: str) -> None:
    """TIM-5: `TIMESTAMP AS OF`, SparkTable by path and by name, `tablefmt.spark.read`."""
    for session, name, zone in [
        (spark, NAME, "America/New_York"),
        (elsewhere, "`1st_orders`", TOKYO),
    ]:
        then = wall(shop, 2, zone)
        for place in (f"tablefmt.`{shop}`", name):
            assert selected(session, f"SELECT * FROM {place} VERSION AS OF 4") == VERSIONS[4]
            query = f"SELECT * FROM {place} TIMESTAMP AS OF '{then}'"
            assert selected(session, query) == VERSIONS[2]
        assert found(tablefmt.spark.read(session, shop, timestamp=then)) == VERSIONS[2]
        for given in (shop, name):
            table = tablefmt.spark.open(session, given)
            assert found(table.to_df(version=4)) == VERSIONS[4]
            assert found(table.to_df(timestamp=then)) == VERSIONS[2]
            feed = table.changes(starting_timestamp=then, ending_timestamp=wall(shop, 3, zone))
            assert found(feed) == wanted([c for c in CHANGES if c[3] in (2, 3)])


def test_changes_by_name_stand_where_a_table_stands(spark: Any, shop: str) -> None:
    """TIM-6: views, sub-queries, self-joins, under the table's names."""
    given = f"{NAME} WITH (readChangeFeed 'true', startingVersion '3', endingVersion '4')"
    spark.sql(f"CREATE OR REPLACE VIEW `{DATABASE}`.changed AS SELECT * FROM {given}")
    expected = wanted([change for change in CHANGES if change[3] in (3, 4)])
    assert found(spark.table(f"`{DATABASE}`.changed")) == expected
    both = f"SELECT a.id, b._change_type FROM {given} a JOIN {given} b USING (id, _change_type)"
    assert selected(spark, both) == wanted([(c[0], c[2]) for c in expected])
    kept = f"SELECT id FROM {NAME} VERSION AS OF 1 WHERE id IN (SELECT id FROM {given})"
    assert selected(spark, kept) == [(1,), (3,)]
    named = f"SELECT `1st_orders`.id FROM {given} WHERE {NAME}._change_type = 'insert'"
    assert selected(spark, named) == [(4,)]


def test_streams_read_the_same_by_name(spark: Any, elsewhere: Any, shop: str) -> None:
    """STR-1: options, and a time in the session's zone."""
    for session, name, zone in [
        (spark, NAME, "America/New_York"),
        (elsewhere, "`1st_orders`", TOKYO),
    ]:
        reader = session.readStream.option("readChangeFeed", True)
        reader = reader.option("startingTimestamp", wall(shop, 3, zone))
        ours = reader.format("tablefmt")
        streams = [ours.load(shop), ours.load(name), reader.table(name)]
        for stream in streams:
            writer = stream.writeStream.format("memory").queryName("came")
            writer.trigger(availableNow=True).start().awaitTermination()
            assert found(session.table("came")) == wanted([c for c in CHANGES if c[3] >= 3])
            session.sql("DROP VIEW came")


VALUES = {
    "versionAsOf": ["1", " 02 ", "+3", "1.0", "1_0", "１", "", "latest", "-1", "9" * 30, "6"],
    "timestampAsOf": [
        "2999",
        "2999-1-1",
        "29990101",
        "1999-01-01",
        "",
        "now",
        "2999-01-01 0:00 UTC",
    ],
    "readChangeFeed": ["true", "false", "TRUE", "yes"],
    "readChangeData": ["true"],
    "path": ["/nowhere"],
    "storageOptions": ["{}"],
    "bogus": ["1"],
    "mergeSchema": ["true"],
    "maxFilesPerTrigger": ["1"],
}
WITH_FEED = {
    "startingVersion": ["2", "x"],
    "startingTimestamp": ["1999-01-01", "x"],
    "endingVersion": ["3", "1.5"],
    "endingTimestamp": ["2999", "x"],
    "startingBoundInclusive": ["false", "no"],
    "endingBoundInclusive": ["false"],
    "changeContent": ["net", "append", "x"],
    "changeSchema": ["start", "x"],
    "changeExpired": ["snapshot", "x"],
    "changeColumns": ["false", "x"],
}


def test_every_option_of_a_read_is_obeyed_or_refused_by_name(spark: Any, shop: str) -> None:
    """TIM-6: all options there are; by name the same rows as by path, or the same error."""
    assert {*VALUES, *WITH_FEED} >= set(READ_OPTIONS)
    cases = [{name: value} for name, values in VALUES.items() for value in values]
    cases += [{name: value} for name, values in WITH_FEED.items() for value in values[:1]]
    for name, values in WITH_FEED.items():
        begin = {} if name.startswith("starting") and "Bound" not in name else FEED
        cases += [{**begin, "readChangeFeed": "true", name: value} for value in values]
    for options in cases:
        if "path" in options:
            # The catalog says where a table is that has a name.
            for one in (options, {"storage.key": "x"}):
                with pytest.raises(UnsupportedFeatureError, match="the catalog has the location"):
                    by_name(spark, shop, NAME, one)
            continue
        same = outcome(by_path, spark, shop, NAME, options)
        assert outcome(by_name, spark, shop, NAME, options) == same, options


def test_views_are_given_no_options_in_silence(spark: Any, shop: str) -> None:
    """TIM-6: Spark would pass them over."""
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW looked AS SELECT * FROM {NAME}")
    spark.sql(f"CREATE OR REPLACE VIEW `{DATABASE}`.kept AS SELECT * FROM {NAME}")
    spark.readStream.format("tablefmt").load(shop).createOrReplaceTempView("streamed")
    for view in ("looked", f"`{DATABASE}`.kept"):
        with pytest.raises(UnsupportedFeatureError, match="is a view"):
            spark.read.options(**FEED).table(view)
        with pytest.raises(UnsupportedFeatureError, match="is a view"):
            spark.sql(f"SELECT * FROM {view} WITH ({_with(FEED)})")
    with pytest.raises(UnsupportedFeatureError, match="is a view"):
        spark.readStream.option("startingVersion", 1).table("streamed")
    spark.range(3).createOrReplaceTempView("foreign")
    assert spark.read.options(**FEED).table("foreign").count() == 3


def test_a_session_that_is_not_registered_reads_no_changes_by_name(
    spark: Any, elsewhere: Any, shop: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """TIM-6: the rule cannot be added. A version together with the option is refused too."""
    with pytest.raises(UnsupportedFeatureError, match="read the table by its path"):
        spark.sql(f"SELECT * FROM {NAME} VERSION AS OF 1 WITH ({_with(FEED)})").collect()


def in_sql(spark: Any, target: str, uri: str) -> Iterator[Callable[[], Any]]:
    yield lambda: spark.sql(f"INSERT INTO {target} VALUES (1, 'a'), (2, 'b'), (3, 'a')")
    yield lambda: spark.sql(f"DELETE FROM {target} WHERE id = 2")
    yield lambda: spark.sql(f"UPDATE {target} SET p = 'c' WHERE id = 1")
    yield lambda: spark.sql(
        f"MERGE INTO {target} t USING (SELECT * FROM VALUES (3L, 'm'), (4L, 'n') AS (id, p)) s "
        "ON t.id = s.id WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )
    yield lambda: spark.sql(f"INSERT OVERWRITE {target} VALUES (7, 'z')")


def in_frames(spark: Any, target: str, uri: str) -> Iterator[Callable[[], Any]]:
    """A DataFrame has no DELETE; the writer's verbs make the same rows."""

    def write(at: int, mode: str) -> Any:
        writer = spark.createDataFrame(VERSIONS[at], DDL).write.mode(mode)
        if target == uri:
            return writer.format("tablefmt").save(uri)
        return writer.saveAsTable(target)

    yield lambda: write(1, "append")
    for at in (2, 3, 4, 5):
        yield lambda at=at: write(at, "overwrite")


Script = Callable[[Any, str, str], Iterator[Callable[[], Any]]]


@pytest.mark.share(3)
@pytest.mark.parametrize("script", [in_sql, in_functions, in_frames])
@pytest.mark.parametrize("door", ["path", "name"])
def test_every_door_of_a_write_makes_the_same_versions(
    spark: Any, shop: str, tmp_path: Path, script: Script, door: str
) -> None:
    uri = str(tmp_path / "written here")
    tablefmt.create(uri, DDL)
    target = f"`{DATABASE}`.`0_{script.__name__}`"
    if door == "name":
        spark.sql(f"CREATE TABLE {target} USING tablefmt OPTIONS (path '{uri}')")
    elif script is in_sql:
        target = f"tablefmt.`{uri}`"
    else:
        target = uri
    for statement in script(spark, target, uri):
        statement()
    table = tablefmt.open(uri)
    made = [table.to_arrow(version=version).to_pylist() for version in range(table.version + 1)]
    assert [wanted([tuple(row.values()) for row in each]) for each in made] == VERSIONS
    if script is not in_frames:
        changes = table.changes(starting_version=1).to_arrow().drop(["_commit_timestamp"])
        assert wanted([tuple(row.values()) for row in changes.to_pylist()]) == wanted(CHANGES)


@pytest.mark.parametrize("door", ["path", "name"])
def test_streams_write_the_same_by_name(spark: Any, shop: str, tmp_path: Path, door: str) -> None:
    uri = str(tmp_path / "streamed here")
    tablefmt.create(uri, DDL)
    target = f"`{DATABASE}`.streamed_into"
    source = spark.readStream.format("tablefmt").option("skipChangeCommits", True)
    writer = source.option("startingVersion", 1).load(shop).writeStream
    writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
    writer = writer.trigger(availableNow=True)
    if door == "path":
        writer.format("tablefmt").start(uri).awaitTermination()
    else:
        # No format: it is the table's.
        spark.sql(f"CREATE TABLE {target} USING tablefmt OPTIONS (path '{uri}')")
        writer.toTable(target).awaitTermination()
    table = tablefmt.open(uri)
    assert wanted([tuple(r.values()) for r in table.to_arrow().to_pylist()]) == VERSIONS[1]
    (application,) = table.context.view.head.applications.values()
    assert application[0].version == 0


def test_restore_goes_by_the_zone_of_the_session(
    spark: Any, elsewhere: Any, shop: str, tmp_path: Path
) -> None:
    """TIM-5: this holds in SQL by path, and in SparkTable."""
    uri = str(tmp_path / "restored")
    table = tablefmt.create(uri, DDL)
    table.append(rows((1, "a")))
    table.append(rows((2, "b")))
    elsewhere.sql(f"RESTORE tablefmt.`{uri}` TO TIMESTAMP AS OF '{wall(uri, 1, TOKYO)}'")
    assert table.refresh().to_arrow()["id"].to_pylist() == [1]
    then = wall(uri, 2, "America/New_York")
    tablefmt.spark.open(spark, uri).restore(timestamp=then)
    assert sorted(table.refresh().to_arrow()["id"].to_pylist()) == [1, 2]
    with pytest.raises(VersionNotFoundError):
        tablefmt.spark.open(spark, uri).restore(timestamp="1999-01-01")


def test_a_name_that_a_folder_has_too_is_refused(
    spark: Any, catalog: None, uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    tablefmt.create(uri, DDL).append(rows((1, "catalog")))
    spark.sql(f"CREATE TABLE twice USING tablefmt OPTIONS (path '{uri}')")
    assert found(tablefmt.spark.open(spark, "twice").to_df()) == [(1, "catalog")]
    tablefmt.create("twice", DDL).append(rows((2, "folder")))
    with pytest.raises(InvalidRangeError, match=r"'\./twice' for the folder's"):
        tablefmt.spark.open(spark, "twice")
    assert found(tablefmt.spark.open(spark, "./twice").to_df()) == [(2, "folder")]
    assert found(tablefmt.spark.open(spark, "default.twice").to_df()) == [(1, "catalog")]
