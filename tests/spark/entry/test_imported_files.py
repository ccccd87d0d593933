"""Imported files in Spark: natively where names agree, else through Arrow (IMP-4, DAT-7, DAT-8)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tablefmt
import tablefmt.spark
from tablefmt.errors import (
    InvalidArgumentError,
    TableExistsError,
    TableNotFoundError,
)
from tests.imports.sources import alike, hive, write
from tests.imports.test_iceberg_tables import made


def rows(source: Any) -> list[tuple[Any, ...]]:
    """Return the rows of a DataFrame or a table, sorted by their text."""
    found = source.toArrow() if hasattr(source, "toArrow") else source.to_arrow()
    return sorted((tuple(row.values()) for row in found.to_pylist()), key=repr)


def test_hive_folders_are_read_and_changed_natively(spark: Any, tmp_path: Path) -> None:
    """IMP-4, DAT-8: partition values of the log, encoded paths, conditions, a SQL DELETE."""
    tablefmt.spark.register(spark)
    path = tmp_path / "t"
    rows = hive(path)
    table = tablefmt.import_table(path)
    frame = spark.read.format("tablefmt").load(str(path))
    assert alike(frame.toArrow().cast(table.to_arrow().schema)) == alike(rows)
    assert frame.where("region is null and n = 1").count() == 4
    spark.sql(f"DELETE FROM tablefmt.`{path}` WHERE id = 10 OR region = 'a b/c=d%2F'")
    assert tablefmt.open(path).count() == 60 - 12 - 1


def test_names_of_their_own_are_read_through_arrow(spark: Any, tmp_path: Path) -> None:
    """IMP-4: by path, by name, in joins, subqueries, views, streams, of old versions; and DML."""
    tablefmt.spark.register(spark)
    path = tmp_path / "t"
    write(path / "a.parquet", {"A": pa.array([1, 2], pa.int32()), "s": ["x", "y"]})
    write(path / "b.parquet", {"a": [1.5, None], "s": ["x", None]})
    tablefmt.import_table(path)
    table = tablefmt.spark.open(spark, str(path))
    assert sorted(row.A for row in table.to_df().where("A > 0").collect()) == [1.0, 1.5, 2.0]
    frame = spark.read.format("tablefmt").load(str(path))
    assert frame.columns == ["A", "s"]
    expected = [(1.0, "x"), (1.5, "x"), (2.0, "y"), (None, None)]
    assert rows(frame) == rows(table.to_df()) == sorted(expected, key=repr)
    stream = spark.readStream.format("tablefmt").load(str(path)).writeStream.format("memory")
    stream.queryName("streamed").trigger(availableNow=True).start().awaitTermination()
    assert rows(spark.table("streamed")) == sorted(expected, key=repr)
    name = f"tablefmt.`{path}`"
    assert rows(spark.sql(f"SELECT s, A + 1 AS b FROM {name} WHERE A > 1 AND s = 'x'")) == [
        ("x", 2.5)
    ]
    counted = spark.sql(f"SELECT s, count(*) n, max(A) m FROM {name} GROUP BY s")
    assert rows(counted) == sorted([("x", 2, 1.5), ("y", 1, 2.0), (None, 1, None)], key=repr)
    joined = f"SELECT l.A, r.A AS B FROM {name} l JOIN {name} r ON l.s = r.s AND l.A < r.A"
    assert rows(spark.sql(joined)) == [(1.0, 1.5)]
    inside = f"SELECT count(*) FROM range(3) WHERE id IN (SELECT A FROM {name})"
    assert spark.sql(inside).first()[0] == 2
    spark.sql(f"CREATE OR REPLACE TEMP VIEW imported AS SELECT * FROM {name} VERSION AS OF 1")
    spark.sql(f"DELETE FROM {name} WHERE A = 1.5")
    spark.sql(f"UPDATE {name} SET s = 'z' WHERE A = 2")
    spark.sql(f"INSERT INTO {name} VALUES (7, 'new')")
    assert rows(spark.table("imported")) == sorted(expected, key=repr)
    now = [(1.0, "x"), (2.0, "z"), (7.0, "new"), (None, None)]
    assert rows(spark.sql(f"SELECT * FROM {name}")) == sorted(now, key=repr)
    assert rows(tablefmt.open(path)) == sorted(now, key=repr)
    table.compact("major")
    assert rows(spark.read.format("tablefmt").load(str(path))) == sorted(now, key=repr)


def test_import_and_export_of_a_session(spark: Any, tmp_path: Path) -> None:
    """The verbs of Python, on a SparkTable: rows as the source, and as delta-rs reads the copy."""
    deltalake = pytest.importorskip("deltalake")
    path = tmp_path / "t"
    rows = hive(path)
    with pytest.raises(InvalidArgumentError, match="adopt"):
        tablefmt.spark.import_table(spark, str(path), into=str(tmp_path / "new"), adopt=True)
    with pytest.raises(TableNotFoundError):
        tablefmt.spark.import_table(spark, str(path), "delta")
    table = tablefmt.spark.import_table(spark, str(path), "parquet", adopt=True)
    found = tablefmt.open(str(path))
    assert alike(table.to_df().toArrow().cast(found.to_arrow().schema)) == alike(rows)
    assert [one.adopt for one in found.context.view.head.metadata.imports.values()] == [True]
    table.delete("id < 50")
    assert table.export("delta", start=1).exported == 2
    copies = [deltalake.DeltaTable(str(path), version=at) for at in (1, 2)]
    assert [pa.table(copy.scan()).num_rows for copy in copies] == [60, 10]
    assert alike(pa.table(copies[1].scan())) == alike(rows.slice(50))
    with pytest.raises(InvalidArgumentError, match="oracle"):
        table.export("oracle")  # type: ignore[arg-type]


def test_an_import_to_another_place_of_a_session(spark: Any, tmp_path: Path) -> None:
    """IMP-4: the handle reads the source's folder."""
    rows = hive(tmp_path / "t")
    to = str(tmp_path / "new")
    table = tablefmt.spark.import_table(spark, str(tmp_path / "t"), into=to)
    assert table.table.uri == to
    schema = table.table.to_arrow().schema
    assert alike(table.to_df().toArrow().cast(schema)) == alike(rows)


def test_convert_in_sql(spark: Any, tmp_path: Path) -> None:
    """CONVERT TO tablefmt imports in place, each format; reading the statement does nothing."""
    from pyspark.errors import ParseException

    deltalake = pytest.importorskip("deltalake")
    tablefmt.spark.register(spark)
    folder, delta = tmp_path / "it`s", tmp_path / "d"
    rows = hive(folder)
    deltalake.write_deltalake(str(delta), rows.select(["id", "n"]))
    quoted = str(folder).replace("`", "``")
    text = f"CONVERT TO tablefmt parquet.`{quoted}`"
    spark._jsparkSession.sessionState().sqlParser().parsePlan(text)
    assert not tablefmt.exists(str(folder))
    (row,) = spark.sql(text).collect()
    files = len(list(folder.rglob("*.parquet")))
    assert row.asDict() == {"path": str(folder), "version": 1, "numFiles": files}
    assert alike(tablefmt.open(str(folder)).to_arrow()) == alike(rows)
    assert spark.sql(f"SELECT id FROM tablefmt.`{quoted}`").count() == 60
    with pytest.raises(TableExistsError):
        spark.sql(text)
    with pytest.raises(TableNotFoundError, match="iceberg"):
        spark.sql(f"CONVERT TO tablefmt iceberg.`{delta}`")
    assert spark.sql(f"CONVERT TO tablefmt delta.`{delta}`").first().numFiles == 1
    assert alike(tablefmt.open(str(delta)).to_arrow()) == alike(rows.select(["id", "n"]))
    pytest.importorskip("pyiceberg.catalog.sql")
    ice = made(tmp_path / "i", rows.select(["id", "n"]))
    assert spark.sql(f"CONVERT TO tablefmt iceberg.`{ice.metadata_location}`").first().version == 1
    found = spark.sql(f"SELECT * FROM tablefmt.`{tmp_path / 'i' / 'db' / 't'}`")
    assert alike(found.toArrow().cast(pa.schema({"id": pa.int64(), "n": pa.int64()}))) == alike(
        rows.select(["id", "n"])
    )
    with pytest.raises(ParseException):
        spark.sql(f"CONVERT TO DELTA parquet.`{delta}`")
