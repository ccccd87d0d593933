"""Imported files in Spark: natively where names agree, else through Arrow (IMP-4, DAT-7, DAT-8)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException

import tablefmt
import tablefmt.spark
from tablefmt.errors import UnsupportedFeatureError
from tests.imports.sources import alike, hive, write


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
    """IMP-4: Spark's own reader refuses these files by name; SparkTable maps them."""
    tablefmt.spark.register(spark)
    path = tmp_path / "t"
    write(path / "a.parquet", {"A": pa.array([1], pa.int32())})
    write(path / "b.parquet", {"a": [1.5]})
    tablefmt.import_table(path)
    table = tablefmt.spark.open(spark, str(path))
    assert sorted(row.A for row in table.to_df().collect()) == [1.0, 1.5]
    with pytest.raises((UnsupportedFeatureError, PySparkException), match="IMP-4"):
        spark.read.format("tablefmt").load(str(path)).collect()
    table.compact("major")
    assert spark.read.format("tablefmt").load(str(path)).count() == 2
