"""Each decision of SparkCallers.java, by what a user sees of it. Runs on every supported Spark."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import tablefmt
import tablefmt.spark
from tablefmt.spark.jvm import java_classes
from tests.log.test_horizon import raise_horizon
from tests.spark.looking import selected
from tests.spark.streams.draining import drain
from tests.spark.streams.queries import Feed, ended, storage_options_of_sinks

pytestmark = pytest.mark.usefixtures("catalog")


@pytest.fixture
def t(spark: Any, uri: str) -> str:
    """A table `t` with a property, a CHECK, a partition column and one row."""
    spark.sql(
        "CREATE TABLE t (id BIGINT, p STRING, CONSTRAINT positive CHECK (id > 0)) USING tablefmt "
        f"PARTITIONED BY (p) OPTIONS (path '{uri}') TBLPROPERTIES (checkpointInterval = 50)"
    )
    spark.sql("INSERT INTO t VALUES (1, 'a')")
    return uri


def properties(uri: str) -> tuple[dict[str, str], list[str]]:
    """Properties and names of CHECKs of a table."""
    metadata = tablefmt.open(uri).context.view.head.metadata
    return dict(metadata.properties), sorted(metadata.constraints)


def test_save_as_table_keeps_what_replace_table_replaces(spark: Any, t: str) -> None:
    """`isSave`"""
    before = properties(t)
    assert before[1] == ["positive"]
    rows = spark.sql("SELECT 2L AS id, 'b' AS p")
    rows.write.format("tablefmt").mode("overwrite").saveAsTable("t")
    assert properties(t) == before
    spark.sql("REPLACE TABLE t USING tablefmt AS SELECT 3L AS id, 'c' AS p")
    assert properties(t)[1] == []
    assert selected(spark, "SELECT * FROM t") == [(3, "c")]


def test_insert_into_a_view_of_a_partitioned_table_is_a_commit(spark: Any, t: str) -> None:
    """`isInsertion`"""
    spark.sql(f"CREATE TEMPORARY VIEW looked USING tablefmt OPTIONS (path '{t}')")
    spark.sql("INSERT INTO looked VALUES (2, 'b')")
    assert tablefmt.open(t).to_arrow().sort_by("id").to_pylist() == [
        {"id": 1, "p": "a"},
        {"id": 2, "p": "b"},
    ]
    assert tablefmt.open(t).version == 2


def test_checks_are_shown_where_they_are_asked_for_alone(spark: Any, t: str) -> None:
    """`showsProperties` and `showsConstraints`"""
    kept = ("checkpointInterval", "50")
    check = ("constraints.positive", "id > 0")
    assert [row for row in selected(spark, "SHOW TBLPROPERTIES t") if row in (kept, check)] == [
        kept,
        check,
    ]
    made = spark.sql("SHOW CREATE TABLE t").first()[0]
    assert "constraints.positive" not in made
    assert re.search(r"CONSTRAINT `?positive`? CHECK \(id > 0\)", made)
    described = [tuple(row) for row in spark.sql("DESCRIBE EXTENDED t").collect()]
    (constraint,) = [row for row in described if row[0] == "positive"]
    assert "id > 0" in constraint[1]


def test_generated_columns_are_shown(spark: Any, catalog: None) -> None:
    """`showsGenerated`"""
    spark.sql(
        "CREATE TABLE g (id BIGINT, twice BIGINT NOT NULL GENERATED ALWAYS AS (id * 2)) "
        "USING tablefmt"
    )
    shown = ("generated.twice", "id * 2")
    assert shown in selected(spark, "SHOW TBLPROPERTIES g")
    made = spark.sql("SHOW CREATE TABLE g").first()[0]
    assert "twice BIGINT NOT NULL" in made
    assert "'generated.twice' = 'id * 2'" in made
    described = [tuple(row)[:2] for row in spark.sql("DESCRIBE EXTENDED g").collect()]
    assert any(row[0] == "Table Properties" and "generated.twice" in row[1] for row in described)


def test_a_stream_into_a_table_of_the_catalog_has_the_options_of_its_storage(
    spark: Any, uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`isStreamWriter` and `isStreamToTable`"""
    spark.sql(
        "CREATE TABLE t (id BIGINT, p STRING) USING tablefmt "
        f"OPTIONS (path '{uri}', storage.unsafe_single_writer 'true')"
    )
    told = storage_options_of_sinks(monkeypatch)
    feed = Feed(spark, tmp_path / "feed")
    feed.put(1)
    ended(lambda: feed.writer().toTable("t"))
    feed.put(2)
    ended(lambda: feed.writer().start(uri))
    assert (told[0], told[-1]) == ({"storage.unsafe_single_writer"}, set())
    assert selected(spark, "SELECT * FROM t ORDER BY id") == feed.rows


def test_a_stream_that_starts_again_does_not_read_its_last_batch(
    spark: Any, uri: str, tmp_path: Path
) -> None:
    """`isRecovery`: STR-5."""
    table = tablefmt.create(uri, "id BIGINT")
    table.append({"id": [1]})
    table.append({"id": [2]})
    options = {"startingVersion": 2, "readChangeFeed": "true"}

    def load() -> Any:
        return spark.readStream.format("tablefmt").options(**options).load(uri).select("id")

    assert drain(load(), tmp_path / "c") == [[(2,)]]
    raise_horizon(table.context.store, 2)
    table.append({"id": [9]})
    assert drain(load(), tmp_path / "c") == [[(9,)]]


def test_every_decision_is_in_one_class_and_has_a_test_here() -> None:
    sources = java_classes._sources()
    looking = [n for n, text in sources.items() if "getStackTrace" in text or "isCalledBy" in text]
    assert looking == ["SparkCallers"]
    decisions = re.findall(r"^  static boolean (\w+)\(", sources["SparkCallers"], re.MULTILINE)
    here = Path(__file__).read_text("utf-8")
    assert [name for name in decisions if f"`{name}`" not in here] == []
