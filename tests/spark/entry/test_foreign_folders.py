"""Spark makes no table in a folder that holds files of others. Spec: STO-23."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tablefmt.spark
from tablefmt.errors import ForeignTableError, TableNotFoundError

pytestmark = pytest.mark.usefixtures("catalog")


def rows(spark: Any) -> Any:
    return spark.range(3)


def streamed(spark: Any, uri: str) -> None:
    """The query is refused as it is started, not in its first batch."""
    query = (
        spark.readStream.format("rate-micro-batch")
        .option("rowsPerBatch", 1)
        .load()
        .writeStream.format("tablefmt")
        .option("checkpointLocation", f"{uri}-checkpoint")
        .trigger(availableNow=True)
        .start(uri)
    )
    query.stop()
    raise AssertionError("the query was started")


MADE: dict[str, Callable[[Any, str], Any]] = {
    "create": lambda spark, uri: tablefmt.spark.create(spark, uri, "id BIGINT"),
    "write": lambda spark, uri: tablefmt.spark.write(rows(spark), uri),
    "save": lambda spark, uri: rows(spark).write.format("tablefmt").mode("append").save(uri),
    "overwrite": lambda spark, uri: (
        rows(spark).write.format("tablefmt").mode("overwrite").save(uri)
    ),
    "saveAsTable": lambda spark, uri: (
        rows(spark).write.format("tablefmt").option("path", uri).saveAsTable("t")
    ),
    "CREATE TABLE": lambda spark, uri: spark.sql(
        f"CREATE TABLE t (id BIGINT) USING tablefmt OPTIONS (path '{uri}')"
    ),
    "CREATE TABLE AS": lambda spark, uri: spark.sql(
        f"CREATE TABLE t USING tablefmt LOCATION '{uri}' AS SELECT 1L AS id"
    ),
    "a stream": streamed,
}


def tree(root: Path) -> set[str]:
    return {str(path.relative_to(root)) for path in root.rglob("*")}


@pytest.mark.parametrize("verb", MADE)
def test_a_table_is_not_made_among_files_of_others(spark: Any, tmp_path: Path, verb: str) -> None:
    (tmp_path / "lake" / "_delta_log").mkdir(parents=True)
    (tmp_path / "lake" / "_delta_log" / "00000000000000000000.json").write_text("{}")
    before, known = tree(tmp_path / "lake"), spark.catalog.listTables()
    with pytest.raises(ForeignTableError, match="a Delta table is there"):
        MADE[verb](spark, str(tmp_path / "lake"))
    assert tree(tmp_path / "lake") == before
    assert spark.catalog.listTables() == known


def test_a_folder_that_spark_wrote_is_no_table(spark: Any, tmp_path: Path) -> None:
    place = str(tmp_path / "plain")
    rows(spark).write.csv(place)
    with pytest.raises(ForeignTableError, match="data files are there"):
        tablefmt.spark.write(rows(spark), place)
    with pytest.raises(TableNotFoundError, match="data files are there"):
        tablefmt.spark.open(spark, place)
    with pytest.raises(TableNotFoundError, match="data files are there"):
        spark.read.format("tablefmt").load(place).collect()
    with pytest.raises(ForeignTableError, match="data files are there"):
        spark.sql(f"CREATE TABLE t USING tablefmt OPTIONS (path '{place}') AS SELECT 1 AS id")
