"""Programs of Delta's Python library, with another import: they run, or say what to use."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql.functions import col, expr, lit
from pyspark.sql.types import IntegerType, StringType, StructField, StructType

import tablefmt
import tablefmt.spark
from tablefmt import errors
from tablefmt.compat import CompatibilityWarning
from tablefmt.compat.delta.tables import DeltaTable
from tests.tables import sorted_rows

pytestmark = pytest.mark.usefixtures("catalog")


@pytest.fixture
def place(spark: Any, tmp_path: Path) -> str:
    spark.range(5).write.format("tablefmt").save(str(tmp_path / "t"))
    return str(tmp_path / "t")


def test_quickstart_update_delete_upsert_and_history(spark: Any, place: str) -> None:
    table = DeltaTable.forPath(spark, place)
    table.update(condition=expr("id % 2 == 0"), set={"id": expr("id + 100")})
    table.delete(condition=expr("id % 2 == 0"))
    new = spark.range(0, 4)
    done = (
        table.alias("old")
        .merge(new.alias("new"), "old.id = new.id")
        .whenMatchedUpdate(set={"id": col("new.id")})
        .whenNotMatchedInsert(values={"id": col("new.id")})
        .execute()
    )
    assert done.first().asDict() == {
        "num_affected_rows": 4,
        "num_updated_rows": 2,
        "num_deleted_rows": 0,
        "num_inserted_rows": 2,
    }
    assert sorted_rows(table.toDF()) == [(0,), (1,), (2,), (3,)]
    operations = [row.operation for row in table.history().collect()]
    assert operations == ["MERGE", "DELETE", "UPDATE", "WRITE", "CREATE TABLE"]
    assert table.history(1).count() == 1


def test_every_clause_with_conditions_and_schema_evolution(spark: Any, tmp_path: Path) -> None:
    place = str(tmp_path / "t")
    target = [(1, "a"), (2, "b"), (3, "c"), (4, "d"), (5, "e")]
    spark.createDataFrame(target, "id INT, v STRING").write.format("tablefmt").save(place)
    source = spark.createDataFrame(
        [(1, "A", 9), (2, "B", 9), (7, "G", 9), (8, "no", 9)], "id INT, v STRING, extra INT"
    )
    table = DeltaTable.forPath(spark, place)
    (
        table.alias("events")
        .merge(source.alias("updates"), "events.id = updates.id")
        .withSchemaEvolution()
        .whenMatchedDelete(condition="updates.id = 1")
        .whenMatchedUpdateAll()
        .whenNotMatchedInsertAll("updates.v <> 'no'")
        .whenNotMatchedBySourceDelete(condition=col("events.id") == lit(3))
        .whenNotMatchedBySourceUpdate(condition="events.id = 4", set={"events.v": "'left'"})
        .execute()
    )
    assert sorted_rows(table.toDF()) == [
        (2, "B", 9), (4, "left", None), (5, "e", None), (7, "G", 9),
    ]  # fmt: skip


def test_sides_without_aliases(spark: Any, place: str) -> None:
    table = DeltaTable.forPath(spark, place)
    source = spark.createDataFrame([(3,), (9,)], "other BIGINT")
    merge = table.merge(source, "id = other").whenMatchedDelete()
    merge.whenNotMatchedInsert(values={"id": "other"}).execute()
    assert sorted_rows(table.toDF()) == [(0,), (1,), (2,), (4,), (9,)]
    with pytest.raises(errors.InvalidArgumentError, match="whenMatchedUpdate needs"):
        table.merge(source, "id = other").whenMatchedUpdate("id = 1")


NOTE = "it's a \\ and a ${spark.app.name}"
"""Text that Spark's parser changes unless it is escaped."""


def test_tables_are_built_by_name(spark: Any, catalog: None, tmp_path: Path) -> None:
    def build(builder: Any) -> DeltaTable:
        made: DeltaTable = (
            builder.tableName("people")
            .addColumn("id", "INT", nullable=False, comment="the key's value")
            .addColumn("first name", StringType())
            .addColumns([StructField("born", IntegerType())])
            .partitionedBy("born")
            .comment("all of them")
            .property("delta.appendOnly", "false")
            .property("delta.enableChangeDataFeed", "true")
            .property("user.note", NOTE)
            .execute()
        )
        return made

    table = build(DeltaTable.create(spark))
    found = table.table.table
    assert (found.schema.names, found.partition_by) == (["id", "first name", "born"], ["born"])
    assert found.schema.field("id").metadata == {b"comment": b"the key's value"}
    assert found.comment == "all of them"
    assert found.properties == {"appendOnly": "false", "user.note": NOTE}
    assert not found.schema.field("id").nullable
    spark.sql("INSERT INTO people VALUES (1, 'Ada', 1815)")
    assert build(DeltaTable.createIfNotExists(spark)).toDF().count() == 1
    assert build(DeltaTable.createOrReplace(spark)).toDF().count() == 0
    assert build(DeltaTable.replace(spark)).toDF().count() == 0
    assert DeltaTable.forName(spark, "people").toDF().columns == ["id", "first name", "born"]
    with pytest.raises(errors.TableNotFoundError):
        DeltaTable.forName(spark, "nothing")
    with pytest.raises(errors.SchemaMismatchError, match="statsColumns"):
        DeltaTable.create(spark).property("delta.dataSkippingNumIndexedCols", "3")
    with pytest.raises(errors.UnsupportedFeatureError, match="generatedByDefaultAs"):
        DeltaTable.create(spark).addColumn("d", "DATE", generatedByDefaultAs="cast(ts AS DATE)")


def test_tables_are_built_by_place(spark: Any, tmp_path: Path) -> None:
    place = str(tmp_path / "made")
    columns = StructType([StructField("id", IntegerType()), StructField("s", StringType())])

    def build(builder: Any) -> DeltaTable:
        made: DeltaTable = builder.location(place).addColumns(columns).comment("c").execute()
        return made

    table = build(DeltaTable.createOrReplace(spark))
    assert (table.toDF().columns, table.table.table.comment) == (["id", "s"], "c")
    assert DeltaTable.isDeltaTable(spark, place)
    assert DeltaTable.isDeltaTable(spark, f"delta.`{place}`")
    assert DeltaTable.forName(spark, f"delta.`{place}`").toDF().count() == 0
    with pytest.raises(errors.TableExistsError):
        build(DeltaTable.create(spark))
    with pytest.raises(errors.UnsupportedFeatureError, match="tableName"):
        build(DeltaTable.replace(spark))
    with pytest.raises(errors.InvalidArgumentError, match="tableName or a location"):
        DeltaTable.create(spark).addColumns(columns).execute()


def test_maintenance_and_restore(spark: Any, place: str) -> None:
    spark.range(5, 6).write.format("tablefmt").mode("append").save(place)
    table = DeltaTable.forPath(spark, place)
    counts = table.optimize().executeCompaction().first()
    assert counts.path == tablefmt.open(place).uri
    assert counts.metrics.numFilesAdded == 1
    assert table.optimize().where("id > 2").executeZOrderBy("id").count() == 1
    assert table.restoreToVersion(1).first().num_restored_files >= 1
    assert sorted_rows(table.toDF()) == [(i,) for i in range(5)]
    with pytest.raises(errors.InvalidArgumentError, match="first write is version 1"):
        table.restoreToVersion(0)
    assert table.vacuum(168).columns == ["path"]
    with pytest.raises(errors.InvalidRangeError):
        table.vacuum(0)
    found = table.detail().first()
    assert (found.format, found.numFiles) == (
        "tablefmt",
        tablefmt.open(place).scan().files().num_rows,
    )


def test_features_and_refusals(spark: Any, place: str) -> None:
    table = DeltaTable.forPath(spark, place)
    with pytest.warns(CompatibilityWarning, match="upgradeTableProtocol") as found:
        table.upgradeTableProtocol(3, 7)
    assert found[0].filename == __file__
    with pytest.warns(CompatibilityWarning, match="every table has the feature"):
        table.addFeatureSupport("deletionVectors")
    with pytest.raises(errors.UnsupportedFeatureError, match="identityColumns"):
        table.addFeatureSupport("identityColumns")
    for name in ("generate", "dropFeatureSupport"):
        with pytest.raises(errors.UnsupportedFeatureError, match=name):
            getattr(table, name)
    with pytest.raises(errors.UnsupportedFeatureError, match=r"fs\.azure"):
        DeltaTable.forPath(spark, place, {"fs.azure.account.key": "x"})
    with pytest.raises(errors.InvalidArgumentError, match="newer"):
        table.vacuum(newer=True)  # type: ignore[call-arg]


def test_clones(spark: Any, catalog: None, place: str, tmp_path: Path) -> None:
    """CLN-1: at a path, under a name, at a version or a time, and in place of a table."""
    table = DeltaTable.forPath(spark, place)
    expected = sorted(table.toDF().collect())
    first = table.history().orderBy("version").collect()[1]
    old = sorted(spark.read.format("tablefmt").option("versionAsOf", 1).load(place).collect())
    shallow = table.clone(f"{tmp_path}/shallow", isShallow=True)
    assert sorted(shallow.toDF().collect()) == expected
    deep = table.cloneAtVersion(
        1, f"{tmp_path}/deep", False, properties={"delta.appendOnly": "false"}
    )
    assert sorted(deep.toDF().collect()) == old
    assert tablefmt.open(f"{tmp_path}/deep").properties == {"appendOnly": "false"}
    named = table.clone("named", True)
    assert sorted(named.toDF().collect()) == sorted(spark.table("named").collect()) == expected
    again = table.cloneAtTimestamp(str(first.timestamp), "named", False, True, {"user.x": "it's"})
    assert sorted(again.toDF().collect()) == sorted(spark.table("named").collect()) == old
    assert again.table.table.properties == {"user.x": "it's"}
    again.delete()
    again.restoreToVersion(0)
    assert sorted(again.toDF().collect()) == expected
    with pytest.raises(errors.TableExistsError):
        table.clone(f"delta.`{tmp_path}/deep`", False)


def test_folders_of_parquet_become_tables(spark: Any, tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": [1, 2]}), tmp_path / "a.parquet")
    assert DeltaTable.convertToDelta(spark, f"parquet.`{tmp_path}`").toDF().count() == 2
    with pytest.raises(errors.InvalidArgumentError, match="parquet"):
        DeltaTable.convertToDelta(spark, "db.table")


def test_deltas_properties_in_sql(spark: Any, catalog: None) -> None:
    spark.sql(
        "CREATE TABLE t (id INT) USING tablefmt TBLPROPERTIES "
        "('delta.enableDeletionVectors' = 'false', 'delta.columnMapping.mode' = 'name')"
    )
    table = DeltaTable.forName(spark, "t").table.table
    assert table.properties == {"deleteMode": "copy-on-write"}
    spark.sql("ALTER TABLE t SET TBLPROPERTIES ('delta.logRetentionDuration' = 'interval 9 days')")
    spark.sql("ALTER TABLE t SET TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')")
    assert table.refresh().properties == {
        "deleteMode": "copy-on-write",
        "logRetentionDuration": "interval 9 days",
    }
    with pytest.raises(errors.SchemaMismatchError, match="option compression"):
        spark.sql("ALTER TABLE t SET TBLPROPERTIES ('delta.parquet.compression.codec' = 'gzip')")


def test_upserts_of_a_stream_in_foreach_batch(spark: Any, tmp_path: Path) -> None:
    source, place = str(tmp_path / "source"), str(tmp_path / "t")
    spark.createDataFrame([(1, "a"), (2, "b")], "key INT, v STRING").write.format("tablefmt").save(
        place
    )
    spark.createDataFrame([(2, "B"), (3, "C")], "key INT, v STRING").write.format("tablefmt").save(
        source
    )
    table = DeltaTable.forPath(spark, place)

    def upsert(batch: Any, _: int) -> None:
        (
            table.alias("t")
            .merge(batch.alias("s"), "s.key = t.key")
            .whenMatchedUpdateAll()
            .whenNotMatchedInsertAll()
            .execute()
        )

    stream = spark.readStream.format("tablefmt").load(source)
    query = stream.writeStream.foreachBatch(upsert).outputMode("append").trigger(availableNow=True)
    query.option("checkpointLocation", str(tmp_path / "c")).start().awaitTermination()
    assert sorted_rows(table.toDF()) == [(1, "a"), (2, "B"), (3, "C")]


def test_an_alias_is_for_merge_and_frames_only(spark: Any, place: str) -> None:
    table = DeltaTable.forPath(spark, place).alias("t")
    with pytest.raises(errors.InvalidPredicateError, match=r"no column 't\.id'; there are 'id'"):
        table.delete("t.id = 1")
    assert table.toDF().where("t.id = 1").count() == 1


def test_a_table_property_as_an_option_of_a_write_is_refused(spark: Any, tmp_path: Path) -> None:
    writer = spark.range(1).write.format("tablefmt").option("delta.appendOnly", "true")
    with pytest.raises(errors.UnsupportedFeatureError, match="TBLPROPERTIES"):
        writer.save(str(tmp_path / "t"))
    assert not (tmp_path / "t").exists()


def test_conditions_take_names_of_the_catalog(spark: Any, catalog: None) -> None:
    """Delta qualifies columns by the names of tables where there is no alias."""
    spark.sql("CREATE TABLE people (id BIGINT, s STRING) USING tablefmt")
    spark.sql("CREATE TABLE news (id BIGINT, s STRING) USING tablefmt")
    spark.sql("INSERT INTO people VALUES (1, 'a'), (2, 'b')")
    spark.sql("INSERT INTO news VALUES (2, 'c'), (3, 'd')")
    table = DeltaTable.forName(spark, "spark_catalog.default.`people`")
    merge = table.merge(spark.table("news"), "people.id = news.id")
    merge = merge.whenMatchedUpdate(set={"people.s": "news.s"})
    merge.whenNotMatchedInsert(values={"id": "news.id", "s": "news.s"}).execute()
    assert sorted(map(tuple, table.toDF().collect())) == [(1, "a"), (2, "c"), (3, "d")]
    again = table.merge(spark.table("people").where("id > 2"), "target.id = people.id")
    again.whenMatchedDelete().execute()
    assert sorted(row.id for row in table.toDF().collect()) == [1, 2]


def test_results_have_the_columns_of_delta(spark: Any, catalog: None) -> None:
    spark.sql("CREATE TABLE people (id BIGINT) USING tablefmt")
    spark.sql("INSERT INTO people VALUES (1), (2)")
    table = DeltaTable.forName(spark, "people")
    table.delete("id = 1")
    done = table.restoreToVersion(1)
    names = ["table_size_after_restore", "num_of_files_after_restore", "num_removed_files"]
    names += ["num_restored_files", "removed_files_size", "restored_files_size"]
    assert done.columns == names
    same = spark.sql("RESTORE people TO VERSION AS OF 1")
    assert same.columns == names
    (one,), (other,) = done.collect(), same.collect()
    assert other[:2] == one[:2] != (0, 0)
    assert other[2:] == (0, 0, 0, 0)
    history = table.history(1).select("userId", "job.jobId", "notebook", "clusterId", "engineInfo")
    assert [tuple(row) for row in history.collect()] == [(None,) * 5]
    assert table.detail().select("name").collect() == [("people",)]
    (row,) = spark.sql("DESCRIBE DETAIL people").select("name").collect()
    assert row["name"] == "spark_catalog.default.people"
