"""Usage: catalog_job.py KIND JARS FOLDER. A session with Delta's or Iceberg's own session catalog.

Prints "passed". JARS is the folder of benchmarks/running.md.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import tablefmt
import tablefmt.spark
from tests.spark.entry.test_other_catalogs import statements_work
from tests.tables import sorted_rows

CATALOG = "spark.sql.catalog.spark_catalog"


def settings(kind: str, jars: str, folder: str) -> dict[str, str]:
    found = [str(p) for p in Path(jars).glob("*.jar") if ("iceberg" in p.name) == (kind != "delta")]
    common = {"spark.jars": ",".join(found)}
    if kind == "delta":
        return {
            **common,
            "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
            CATALOG: "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        }
    return {
        **common,
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        CATALOG: "org.apache.iceberg.spark.SparkSessionCatalog",
        f"{CATALOG}.type": "hadoop",
        f"{CATALOG}.warehouse": f"{folder}/iceberg",
    }


def theirs_work(spark: Any, kind: str) -> None:
    """Their table holds 0, 1 and 2."""
    spark.sql("INSERT INTO theirs VALUES (9)")
    spark.sql("DELETE FROM theirs WHERE id = 1")
    assert sorted_rows(spark.table("theirs")) == [(0,), (2,), (9,)]
    if kind == "delta":
        done = [row.operation for row in spark.sql("DESCRIBE HISTORY theirs").collect()]
        assert done == ["DELETE", "WRITE", "CREATE TABLE AS SELECT"]
        spark.sql("OPTIMIZE theirs").collect()
    assert sorted_rows(spark.table("theirs")) == [(0,), (2,), (9,)]


def ours_work(spark: Any, folder: str) -> None:
    by_path, named = f"{folder}/by path", f"{folder}/named"
    tablefmt.spark.write(spark.range(5).selectExpr("id", "'a' AS v"), by_path)
    statements_work(spark, f"tablefmt.`{by_path}`", by_path)
    spark.sql(f"CREATE TABLE mine (id BIGINT, v STRING) USING tablefmt LOCATION '{named}'")
    spark.sql("INSERT INTO mine SELECT id, 'a' FROM range(5)")
    statements_work(spark, "mine", named)
    spark.sql("CREATE TABLE kept USING tablefmt AS SELECT id FROM range(3)")
    assert sorted_rows(spark.table("kept")) == [(0,), (1,), (2,)]
    spark.range(2).write.format("tablefmt").saveAsTable("saved")
    spark.sql("INSERT OVERWRITE saved SELECT 7L")
    assert sorted_rows(spark.table("saved")) == [(7,)]


def main(kind: str, jars: str, folder: str) -> None:
    spark = tablefmt.spark.session(
        "catalogs",
        master="local[1]",
        **{
            "spark.driver.memory": "1g",
            "spark.sql.shuffle.partitions": "2",
            "spark.sql.warehouse.dir": f"{folder}/warehouse",
            **settings(kind, jars, folder),
        },
    )
    spark.sparkContext.setLogLevel("OFF")
    spark.sql(f"CREATE TABLE theirs USING {kind} AS SELECT id FROM range(3)")
    tablefmt.spark.register(spark)
    ours_work(spark, folder)
    theirs_work(spark, kind)
    spark.stop()
    print("passed")


if __name__ == "__main__":
    main(*sys.argv[1:])
