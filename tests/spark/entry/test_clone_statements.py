"""CREATE TABLE … CLONE in SQL, and clones by Spark's readers, streams and writers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import tablefmt
import tablefmt.spark
from tablefmt.errors import (
    SchemaMismatchError,
    TableExistsError,
    TableNotFoundError,
    UnsupportedFeatureError,
    VersionNotFoundError,
)

pytestmark = pytest.mark.usefixtures("catalog")


@pytest.fixture(scope="module")
def source(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A table `src`: a column added late, a tag of version 2, deleted rows."""
    uri = str(tmp_path_factory.mktemp("clones") / "src")
    table = tablefmt.create(uri, "id BIGINT, part STRING", partition_by="part")
    table.append([{"id": i, "part": "ab"[i % 2]} for i in range(10)])
    table.delete("id = 3")
    table.alter.set_tag("q", version=2)
    table.alter.add_column("v", "INT", default=7)
    table.append([{"id": 20, "part": "a", "v": 1}])
    return uri


@pytest.fixture
def src(spark: Any, source: str, catalog: None) -> str:
    spark.sql(f"CREATE TABLE src USING tablefmt OPTIONS (path '{source}')")
    return source


def rows(spark: Any, name: str) -> list[Any]:
    return sorted(spark.table(name).collect())


def test_by_name_shallow_and_deep(spark: Any, src: str, tmp_path: Path) -> None:
    """CLN-1 .. CLN-5: managed, with a location, replaced; DROP removes the clone alone."""
    expected = rows(spark, "src")
    (row,) = spark.sql("CREATE TABLE one SHALLOW CLONE src").collect()
    size = sum(f["size"] for f in tablefmt.open(src).scan().files().to_pylist())
    assert row.asDict() == {
        "source_table_size": size,
        "source_num_of_files": 3,
        "num_removed_files": 0,
        "num_copied_files": 0,
        "removed_files_size": 0,
        "copied_files_size": 0,
    }
    (row,) = spark.sql("create table spark_catalog.default.two deep clone src;").collect()
    assert (row.num_copied_files, row.copied_files_size) == (3, size)
    for name in ("one", "two"):
        assert rows(spark, name) == expected
        assert spark.table(name).schema == spark.table("src").schema
        assert spark.sql(f"SELECT sum(v) FROM {name} WHERE part = 'a'").first()[0] == 36
        spark.sql(f"DELETE FROM {name} WHERE id = 20")
        spark.sql(f"INSERT INTO {name} VALUES (21, 'b', 2)")
        spark.sql(f"UPDATE {name} SET v = 0 WHERE id = 4")
        changed = sorted((r.id, r.v) for r in spark.table(name).collect())
        assert changed == sorted(
            [(r.id, 0 if r.id == 4 else r.v) for r in expected if r.id != 20] + [(21, 2)]
        )
        operations = [r.operation for r in spark.sql(f"DESCRIBE HISTORY {name}").collect()]
        assert operations[-1] == "CLONE"
        assert spark.sql(f"SELECT count(*) FROM {name} VERSION AS OF 0").first()[0] == 10
    place = f"{tmp_path}/three"
    spark.sql(f"CREATE TABLE three CLONE src VERSION AS OF 'q' LOCATION '{place}'")
    old = sorted(spark.sql("SELECT * FROM src VERSION AS OF 2").collect())
    assert rows(spark, "three") == old
    assert tablefmt.open(place).count() == 9
    (row,) = spark.sql("CREATE OR REPLACE TABLE three SHALLOW CLONE src").collect()
    assert row.num_removed_files == 2
    assert rows(spark, "three") == expected
    assert sorted(spark.sql("SELECT * FROM three VERSION AS OF 0").collect()) == old
    spark.sql("REPLACE TABLE three CLONE one VERSION AS OF 0 TBLPROPERTIES ('user.x' = 'y')")
    assert rows(spark, "three") == expected
    assert tablefmt.open(place).properties == {"user.x": "y"}
    assert spark.sql("CREATE TABLE IF NOT EXISTS three CLONE src VERSION AS OF 1").collect() == []
    assert rows(spark, "three") == expected
    before = sorted(Path(src).rglob("*.parquet"))
    kept = spark.sql("DESCRIBE DETAIL two").first().location
    for name in ("one", "two", "three"):
        spark.sql(f"DROP TABLE {name}")
    assert not Path(kept).exists()
    assert sorted(Path(src).rglob("*.parquet")) == before
    assert rows(spark, "src") == expected


@pytest.mark.parametrize("how", ["SHALLOW", "DEEP"])
def test_clones_of_tables_that_spark_partitioned(spark: Any, how: str) -> None:
    """IMP-1: Spark's folders of partitions begin with an underscore."""
    spark.sql("CREATE TABLE src (id BIGINT, part STRING) USING tablefmt PARTITIONED BY (part)")
    spark.sql("INSERT INTO src SELECT id, id % 3 FROM range(9)")
    spark.sql(f"CREATE TABLE made {how} CLONE src")
    assert rows(spark, "made") == rows(spark, "src")
    spark.sql("DELETE FROM made WHERE id = 4")
    assert spark.table("made").where("part = '1'").count() == 2
    assert spark.table("src").count() == 9


def test_a_deep_clone_made_again_copies_what_is_new(spark: Any, catalog: None) -> None:
    spark.sql("CREATE TABLE src (id BIGINT) USING tablefmt")
    spark.sql("INSERT INTO src VALUES (1)")
    make = "CREATE OR REPLACE TABLE made DEEP CLONE src"
    (first,) = spark.sql(make).collect()
    spark.sql("INSERT INTO src VALUES (2)")
    (second,) = spark.sql(make).collect()
    assert (first.num_copied_files, first.source_num_of_files) == (1, 1)
    assert (second.num_copied_files, second.source_num_of_files) == (1, 2)
    assert 0 < second.copied_files_size < second.source_table_size
    assert rows(spark, "made") == rows(spark, "src")


def test_by_path(spark: Any, src: str, tmp_path: Path) -> None:
    """A path is in no catalog; a reader of a shallow clone names the folders."""
    expected = rows(spark, "src")
    deep, shallow = f"{tmp_path}/deep", f"{tmp_path}/shallow"
    spark.sql(f"CREATE TABLE tablefmt.`{deep}` CLONE tablefmt.`{src}`")
    assert rows(spark, f"tablefmt.`{deep}`") == expected
    spark.sql(f"CREATE TABLE tablefmt.`{shallow}` SHALLOW CLONE '{src}'")
    reader = spark.read.format("tablefmt").option("storage.import_roots", src)
    assert sorted(reader.load(shallow).collect()) == expected
    with pytest.raises(UnsupportedFeatureError, match="import_roots"):
        spark.table(f"tablefmt.`{shallow}`").collect()
    spark.sql(f"CREATE OR REPLACE TABLE tablefmt.`{deep}` CLONE src VERSION AS OF 1")
    assert spark.table(f"tablefmt.`{deep}`").count() == 10
    table = tablefmt.spark.open(spark, src)
    made = table.clone(f"{tmp_path}/python", version="q")
    assert made.to_df().count() == 9
    made.delete("id = 1")
    assert made.to_df().count() == 8


def test_times_are_in_the_session_zone(spark: Any, src: str) -> None:
    """TIM-5."""
    text = ""
    for row in spark.sql("DESCRIBE HISTORY src").collect():
        if row.version == 1:
            text = str(row.timestamp)
    spark.sql(f"CREATE TABLE then CLONE src TIMESTAMP AS OF '{text}'")
    assert spark.table("then").count() == 10


@pytest.mark.soak
def test_streams_read_clones(spark: Any, src: str, tmp_path: Path) -> None:
    """CLN-1, STR: rows that the source had deleted do not appear."""
    for shallow in (False, True):
        place = tablefmt.open(src).clone(f"{tmp_path}/{shallow}", shallow=shallow).uri
        for options in ({}, {"startingVersion": "0"}):
            reader = spark.readStream.format("tablefmt").option("storage.import_roots", src)
            stream = reader.options(**options).load(place).writeStream.format("memory")
            name = f"out{len(options)}{shallow}"
            stream.queryName(name).trigger(availableNow=True).start().awaitTermination()
            assert sorted(spark.table(name).collect()) == rows(spark, "src"), name


def test_what_is_refused(spark: Any, src: str, tmp_path: Path) -> None:
    """No entry of the catalog and no file is left."""
    spark.sql(f"CREATE TABLE there CLONE src LOCATION '{tmp_path}/there'")
    spark.sql("CREATE TEMPORARY VIEW seen AS SELECT 1")
    spark.sql("CREATE TABLE plain (id INT) USING parquet")
    cases = {
        "CREATE TABLE there CLONE src": TableExistsError,
        "CREATE TABLE new CLONE src VERSION AS OF 99": VersionNotFoundError,
        "CREATE TABLE new CLONE src VERSION AS OF 'none'": VersionNotFoundError,
        "CREATE TABLE new CLONE src TBLPROPERTIES ('apendOnly' = '1')": SchemaMismatchError,
        f"CREATE TABLE new CLONE src LOCATION '{tmp_path}/there'": TableExistsError,
        "REPLACE TABLE new CLONE src": TableNotFoundError,
        "CREATE TABLE plain CLONE src": UnsupportedFeatureError,
        "CREATE OR REPLACE TABLE plain CLONE src": UnsupportedFeatureError,
        f"CREATE OR REPLACE TABLE there CLONE src LOCATION '{tmp_path}/x'": UnsupportedFeatureError,
        f"CREATE TABLE tablefmt.`{tmp_path}/y` CLONE src LOCATION '/x'": UnsupportedFeatureError,
        f"REPLACE TABLE tablefmt.`{tmp_path}/y` CLONE src": TableNotFoundError,
        f"CREATE TABLE tablefmt.`{tmp_path}/there` CLONE src": TableExistsError,
        "CREATE TABLE nowhere.new CLONE src": Exception,
    }
    for text, error in cases.items():
        with pytest.raises(error):
            spark.sql(text)
        assert not spark.catalog.tableExists("new"), text
    assert not (tmp_path / "y").exists()
    with pytest.raises(UnsupportedFeatureError, match="parameters"):
        spark.sql("CREATE TABLE new CLONE src VERSION AS OF 1", args={"a": 1})
