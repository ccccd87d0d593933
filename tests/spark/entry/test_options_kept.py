"""Options in every kind of write, missing formats, and settings of Delta."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import tablefmt
import tablefmt.spark
from tablefmt.errors import (
    ConstraintViolationError,
    SchemaMismatchError,
    UnsupportedFeatureError,
)
from tablefmt.spark.entry import iceberg_settings
from tablefmt.spark.entry.delta_settings import IDLE, PREFIX, SETTINGS, remark_on
from tests.spark.looking import place_of, selected

pytestmark = pytest.mark.usefixtures("catalog")

DDL = "id BIGINT, p STRING"


@pytest.fixture
def t(spark: Any, uri: str) -> str:
    """A table known as `t`, with one row; its place."""
    tablefmt.create(uri, DDL).append([{"id": 1, "p": "a"}])
    spark.sql(f"CREATE TABLE t USING tablefmt OPTIONS (path '{uri}')")
    return uri


@pytest.fixture
def conf(spark: Any) -> Iterator[Callable[[str, str], None]]:
    """Sets one of Delta's settings until the test ends."""
    told = []

    def set_(name: str, value: str) -> None:
        spark.conf.set(PREFIX + name, value)
        told.append(PREFIX + name)

    yield set_
    for name in told:
        spark.conf.unset(name)


def frame(spark: Any, number: int) -> Any:
    return spark.createDataFrame([(number, "b")], DDL)


def said(uri: str) -> str:
    return str(tablefmt.open(uri).history(1)["userMetadata"][0].as_py())


def test_an_option_of_a_write_is_obeyed_at_every_door(spark: Any, t: str) -> None:
    """This holds by path and by name.

    A new table's entry in the catalog keeps none of the options.
    """
    doors: list[Callable[[Any, dict[str, str]], Any]] = [
        lambda df, o: df.write.format("tablefmt").mode("append").options(**o).save(t),
        lambda df, o: df.write.mode("append").options(**o).saveAsTable("t"),
        lambda df, o: df.write.options(**o).insertInto("t"),
        lambda df, o: df.writeTo("t").options(**o).append(),
        lambda df, o: spark.sql(f"INSERT INTO t WITH (userMetadata '{o['userMetadata']}') TABLE g"),
        lambda df, o: tablefmt.spark.open(spark, "t").append(df, userMetadata=o["userMetadata"]),
    ]
    for number, door in enumerate(doors, 2):
        given = frame(spark, number)
        given.createOrReplaceTempView("g")
        door(given, {"userMetadata": f"door {number}"})
        assert f"door {number}" in said(t)
    ids = [(1, "a"), *((number, "b") for number in range(2, 2 + len(doors)))]
    assert selected(spark, "SELECT * FROM t") == ids
    spark.sql(
        "CREATE TABLE made USING tablefmt OPTIONS (userMetadata 'of making') AS SELECT 1L AS id"
    )
    assert "of making" in said(place_of(spark, "made"))
    assert selected(spark, "SELECT * FROM made") == [(1,)]
    with pytest.raises(UnsupportedFeatureError, match="does not take option 'userMetadata'"):
        spark.sql("CREATE TABLE other (id INT) USING tablefmt OPTIONS (userMetadata 'x')")
    assert not spark.catalog.tableExists("other")


def test_a_path_that_is_not_the_tables_is_refused(spark: Any, t: str, tmp_path: Path) -> None:
    """TIM-6: writes are refused in the same way as reads."""
    other = str(tmp_path / "other")
    for door in (
        lambda: frame(spark, 2).write.mode("append").option("path", other).saveAsTable("t"),
        lambda: frame(spark, 2).write.option("path", other).insertInto("t"),
        lambda: frame(spark, 2).writeTo("t").option("path", other).append(),
        lambda: spark.sql(f"INSERT INTO t WITH (path '{other}') VALUES (2, 'b')"),
        lambda: spark.readStream.option("path", other).table("t"),
    ):
        with pytest.raises(UnsupportedFeatureError, match="option path"):
            door()
    frame(spark, 2).write.option("path", t).insertInto("t")
    assert selected(spark, "SELECT * FROM t") == [(1, "a"), (2, "b")]
    assert not Path(other).exists()


def test_a_write_by_name_without_a_format_takes_that_of_the_table(spark: Any, t: str) -> None:
    """Spark's default, Parquet, would take the table's place."""
    frame(spark, 2).write.mode("overwrite").saveAsTable("t")
    frame(spark, 3).write.saveAsTable("t", mode="append")
    assert selected(spark, "SELECT * FROM t") == [(2, "b"), (3, "b")]
    assert [r["operation"] for r in tablefmt.open(t).history(2).to_pylist()] == [
        "WRITE",
        "OVERWRITE",
    ]
    frame(spark, 4).write.format("parquet").mode("overwrite").saveAsTable("t")
    assert tablefmt.open(t).version == 3
    frame(spark, 5).write.saveAsTable("plain")
    described = {row[0]: row[1] for row in spark.sql("DESCRIBE EXTENDED plain").collect()}
    assert described["Provider"] == "parquet"


def test_properties_show_the_checks(spark: Any, t: str) -> None:
    spark.sql("ALTER TABLE t ADD CONSTRAINT positive CHECK (id > 0)")
    spark.sql("ALTER TABLE t SET TBLPROPERTIES (checkpointInterval = 50)")
    shown = [("checkpointInterval", "50"), ("constraints.positive", "id > 0")]
    assert selected(spark, "SHOW TBLPROPERTIES t") == shown
    assert selected(spark, "SHOW TBLPROPERTIES t ('constraints.positive')") == shown[1:]
    made = spark.sql("SHOW CREATE TABLE t").first()[0]
    assert "constraints.positive" not in made
    with pytest.raises(SchemaMismatchError, match=r"do not have Delta's property delta\.apendOnly"):
        spark.sql("ALTER TABLE t SET TBLPROPERTIES ('delta.apendOnly' = 'true')")


WRITES: list[Callable[[Any, str], Any]] = [
    lambda spark, uri: frame(spark, 2).write.format("tablefmt").mode("append").save(uri),
    lambda spark, uri: spark.sql("INSERT INTO t VALUES (2, 'b')"),
    lambda spark, uri: spark.sql("DELETE FROM t WHERE id = 1"),
    lambda spark, uri: tablefmt.spark.open(spark, uri).append(frame(spark, 2)),
    lambda spark, uri: tablefmt.spark.open(spark, uri).update({"p": "'c'"}),
]


REFUSED = {
    "write.txnVersion.autoReset.enabled": "true",
    "dynamicPartitionOverwrite.enabled": "false",
    "updateAndMergeCastingFollowsAnsiEnabledFlag": "true",
    "typeWidening.allowAutomaticWidening": "never",
    "merge.preserveNullSourceStructs": "false",
    "insert.preserveNullSourceStructs": "false",
}
"""A refused value of each setting that may be refused."""


@pytest.mark.parametrize("name", [name for name, each in SETTINGS.items() if each.refused])
def test_a_setting_that_would_change_a_write_is_refused_by_name(
    spark: Any, t: str, conf: Any, name: str
) -> None:
    conf(name, REFUSED[name])
    for write in WRITES:
        with pytest.raises(UnsupportedFeatureError, match=name):
            write(spark, t)
    assert tablefmt.open(t).version == 1


def test_a_setting_that_would_change_a_read_is_refused_by_name(
    spark: Any, t: str, conf: Any
) -> None:
    feed = spark.read.option("readChangeFeed", "true").option("startingVersion", 1)
    conf("changeDataFeed.defaultSchemaModeForColumnMappingTable", "latest")
    for read in (
        lambda: feed.format("tablefmt").load(t).collect(),
        lambda: feed.table("t").collect(),
        lambda: spark.sql("SELECT * FROM table_changes('t', 1)").collect(),
        lambda: spark.readStream.format("tablefmt").load(t),
    ):
        with pytest.raises(UnsupportedFeatureError, match=r"ColumnMappingTable.*changeSchema"):
            read()
    conf("changeDataFeed.defaultSchemaModeForColumnMappingTable", "endVersion")
    assert feed.table("t").count() == 1
    conf("withEventTimeOrder.enabled", "true")
    with pytest.raises(UnsupportedFeatureError, match=r"withEventTimeOrder.*start the stream at"):
        spark.readStream.table("t")
    assert selected(spark, "SELECT * FROM t") == [(1, "a")]


NAMES = Path(__file__).with_name("delta_setting_names.txt")
"""Settings in DeltaSQLConf.scala at bb1057f, and others that Delta's documentation names."""


@pytest.mark.parametrize("name", NAMES.read_text(encoding="utf-8").split())
def test_every_setting_of_delta_is_known(name: str) -> None:
    assert "do not know it" not in remark_on(name)


def test_a_wrong_name_is_no_setting_that_is_known() -> None:
    for wrong, right in (
        ("schema.autoMerg.enabled", "schema.autoMerge.enabled"),
        ("schema.automerge.enable", "schema.autoMerge.enabled"),
        ("write.txnAppID", "write.txnAppId"),
        ("replaceWhere.constraintsCheck.enabled", "replaceWhere.constraintCheck.enabled"),
        ("retentionDurationCheck.enable", "retentionDurationCheck.enabled"),
    ):
        assert remark_on(wrong).endswith(f"did you mean {right!r}?")


def test_metadata_of_every_snapshot_is_in_every_commit(spark: Any, t: str) -> None:
    name = f"{iceberg_settings.SNAPSHOT_PROPERTY}team"
    spark.conf.set(name, "blue")
    try:
        for write in WRITES:
            write(spark, t)
            assert said(t) == '{"team":"blue"}'
        frame(spark, 9).writeTo("t").option("userMetadata", "mine").append()
        assert "mine" in said(t)
    finally:
        spark.conf.unset(name)


def test_replace_where_goes_by_the_settings_of_delta(spark: Any, t: str, conf: Any) -> None:
    """Rows that do not match; conditions on columns that do not partition the table."""
    rows = spark.sql("SELECT * FROM VALUES (2L, 'b'), (3L, 'c') AS s (id, p)")
    writer = rows.write.format("tablefmt").mode("overwrite")
    with pytest.raises(ConstraintViolationError):
        writer.option("replaceWhere", "id = 2").save(t)
    conf("replaceWhere.constraintCheck.enabled", "false")
    writer.option("replaceWhere", "id = 1").save(t)
    assert selected(spark, "SELECT * FROM t") == [(2, "b"), (3, "c")]
    spark.sql("INSERT INTO t REPLACE WHERE id = 3 SELECT 4L, 'd'")
    tablefmt.spark.open(spark, t).overwrite(frame(spark, 5), where="id = 4")
    assert selected(spark, "SELECT id FROM t") == [(2,), (5,)]
    conf("replaceWhere.constraintCheck.enabled", "true")
    conf("replaceWhere.dataColumns.enabled", "false")
    with pytest.raises(UnsupportedFeatureError, match=r"dataColumns\.enabled is false.*'id = 2'"):
        frame(spark, 2).write.format("tablefmt").mode("overwrite").option(
            "replaceWhere", "id = 2"
        ).save(t)
    assert selected(spark, "SELECT id FROM t") == [(2,), (5,)]


@pytest.mark.parametrize("name", sorted(iceberg_settings.REFUSED))
def test_a_write_to_a_branch_of_the_session_is_refused_by_name(
    spark: Any, t: str, name: str
) -> None:
    spark.conf.set(name, "audit")
    try:
        for write in WRITES:
            with pytest.raises(UnsupportedFeatureError, match=f"{name}.*one line of versions"):
                write(spark, t)
    finally:
        spark.conf.unset(name)
    assert tablefmt.open(t).version == 1


def test_settings_of_iceberg_are_obeyed_or_named_once(
    spark: Any, t: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "tablefmt.spark")
    given = {
        iceberg_settings.MERGE_SCHEMA: "true",
        "spark.sql.iceberg.report-column-stats": "true",
        "spark.sql.iceberg.nosuch": "1",
    }
    for name, value in given.items():
        spark.conf.set(name, value)
    try:
        for number in (2, 3):
            row = spark.sql(f"SELECT {number}L AS id, 'b' AS p, 1 AS n{number}")
            row.write.format("tablefmt").mode("append").save(t)
        tablefmt.spark.sync(spark, "t")
        spark.sql("INSERT INTO t BY NAME SELECT 4L AS id, 'c' AS p, 1 AS n4")
    finally:
        for name in given:
            spark.conf.unset(name)
    assert tablefmt.open(t).schema.names == ["id", "p", "n2", "n3", "n4"]
    found = [r.getMessage() for r in caplog.records if "spark.sql.iceberg" in r.getMessage()]
    assert sorted(found) == sorted(
        iceberg_settings.remark_on(f"spark.sql.iceberg.{name}")
        for name in ("report-column-stats", "nosuch")
    )
    assert iceberg_settings.remark_on(iceberg_settings.MERGE_SCHEMA) == ""


def test_a_setting_without_an_effect_is_named_once(
    spark: Any, t: str, conf: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """Decision 0036: known ones with the reason, unknown ones as a warning; obeyed ones never."""
    caplog.set_level(logging.INFO, "tablefmt.spark")
    conf("stalenessLimit", "1h")
    conf("nosuch.thing", "1")
    conf("schema.autoMerge.enabled", "true")
    for write in (WRITES[0], WRITES[3], WRITES[4]):
        write(spark, t)
    found = {(r.levelname, r.getMessage()) for r in caplog.records if PREFIX in r.getMessage()}
    assert found == {
        ("INFO", remark_on("stalenessLimit")),
        ("WARNING", remark_on("nosuch.thing")),
    }
    assert len([r for r in caplog.records if PREFIX in r.getMessage()]) == 2
    assert "newest version" in remark_on("stalenessLimit")
    assert not {*IDLE} & {*SETTINGS}


def test_columns_come_with_the_rows_where_the_session_says_so(
    spark: Any, t: str, conf: Any
) -> None:
    """`schema.autoMerge.enabled`: writes, INSERT and MERGE, by path, by name and by function."""
    conf("schema.autoMerge.enabled", "true")
    spark.sql("SELECT 2L AS id, 'b' AS p, 20 AS n").write.format("tablefmt").mode("append").save(t)
    tablefmt.spark.sync(spark, "t")
    spark.sql("INSERT INTO t BY NAME SELECT 3L AS id, 'c' AS p, 30 AS m")
    spark.sql(
        "MERGE INTO t USING (SELECT 1L AS id, 'd' AS p, 40 AS k) s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET *"
    )
    source = spark.sql("SELECT 4L AS id, 50 AS j")
    merge = tablefmt.spark.open(spark, "t").merge(source, "t.id = s.id")
    merge.when_not_matched_insert_all().execute()
    rows = sorted(tablefmt.open(t).to_arrow().to_pylist(), key=lambda row: row["id"])
    empty = {"p": None, "n": None, "m": None, "k": None, "j": None}
    assert rows == [
        {**empty, "id": 1, "p": "d", "k": 40},
        {**empty, "id": 2, "p": "b", "n": 20},
        {**empty, "id": 3, "p": "c", "m": 30},
        {**empty, "id": 4, "j": 50},
    ]


def test_new_tables_have_the_properties_that_the_session_says(
    spark: Any, conf: Any, tmp_path: Path
) -> None:
    conf("properties.defaults.checkpointInterval", "7")
    conf("properties.defaults.enableChangeDataFeed", "true")
    conf("properties.defaults.enableDeletionVectors", "false")
    places = [str(tmp_path / name) for name in ("sql", "select", "save", "function")]
    spark.sql(f"CREATE TABLE a (id INT) USING tablefmt OPTIONS (path '{places[0]}')")
    spark.sql(f"CREATE TABLE b USING tablefmt OPTIONS (path '{places[1]}') AS SELECT 1 AS id")
    spark.range(1).write.format("tablefmt").save(places[2])
    tablefmt.spark.create(spark, places[3], DDL, properties={"appendOnly": True})
    found = [dict(tablefmt.open(place).properties) for place in places]
    session = {"checkpointInterval": "7", "deleteMode": "copy-on-write"}
    assert found == [session] * 3 + [{**session, "appendOnly": "true"}]
    conf("properties.defaults.dataSkippingNumIndexedCols", "3")
    with pytest.raises(UnsupportedFeatureError, match="dataSkippingNumIndexedCols"):
        spark.sql("CREATE TABLE c (id INT) USING tablefmt")
    assert not spark.catalog.tableExists("c")


def test_vacuum_goes_below_the_retention_where_the_session_says_so(
    spark: Any, t: str, conf: Any
) -> None:
    tablefmt.open(t).delete()
    conf("retentionDurationCheck.enabled", "false")
    removed = spark.sql("VACUUM t RETAIN 0 HOURS").collect()
    assert [row.path.partition("/")[0] for row in removed if row.path.endswith("parquet")] == [
        "data"
    ]
