"""Spark reads nothing outside the table, for any content of a checkpoint."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import tablefmt
import tablefmt.spark
from tests.snapshot.forged import part_forgeries
from tests.tables import contents_of

SCHEMA = "id BIGINT, p STRING"


@pytest.mark.broken_tables
@pytest.mark.parametrize("change", ["path[0] is ..", "path[0] is absolute", "rows[0] is -1"])
def test_a_checkpoint_that_leads_out_of_the_table(
    spark: SparkSession, tmp_path: Path, change: str
) -> None:
    """KEY-2, CKP-6, CKP-9: it counts as damaged, and the rows are those of the entries."""
    table = tablefmt.create(str(tmp_path / "t"), SCHEMA)
    table.append({"id": [1, 2], "p": ["a", "b"]})
    table.append({"id": [3], "p": ["a"]})
    other = tablefmt.create(str(tmp_path / "o"), SCHEMA)
    other.append({"id": [8, 9], "p": ["a", "b"]})
    foreign = (tmp_path / "o" / other.scan().files()["path"].to_pylist()[0]).read_bytes()
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "x.parquet").write_bytes(foreign)
    table.checkpoint()
    bodies = contents_of(table.context.store)
    root = max(key for key in bodies if key.startswith("_log/checkpoints/0"))
    made = part_forgeries(bodies, root)
    next(f for f in made if f.name == f"segments[0] {change}").apply(table.context.store)
    uri = str(tmp_path / "t")
    tablefmt.spark.register(spark)
    rows = spark.read.format("tablefmt").load(uri).collect()
    assert sorted((row["id"], row["p"]) for row in rows) == [(1, "a"), (2, "b"), (3, "a")]
