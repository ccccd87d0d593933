"""Job for a PySpark that Delta and Iceberg exist for: reads copies, tries to harm them, and makes
sources. It imports nothing of this project. Arguments: a folder of jars, and a file with the work.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

DELTA_SOURCES = (
    "CREATE TABLE delta.`{0}/delta` (id BIGINT, region STRING, v INT, gone STRING) USING delta "
    "PARTITIONED BY (region) TBLPROPERTIES ('delta.enableDeletionVectors'='true', "
    "'delta.columnMapping.mode'='name', 'delta.enableTypeWidening'='true')",
    "INSERT INTO delta.`{0}/delta` SELECT id, CASE id % 3 WHEN 0 THEN 'a b/c=d%2F' WHEN 1 THEN "
    "NULL ELSE 'ü' END, CAST(id AS INT), 'old' FROM range(0, 200, 1, 2)",
    "DELETE FROM delta.`{0}/delta` WHERE id % 7 = 3",
    "ALTER TABLE delta.`{0}/delta` RENAME COLUMN v TO w",
    "ALTER TABLE delta.`{0}/delta` DROP COLUMN gone",
    "ALTER TABLE delta.`{0}/delta` ADD COLUMN (gone BIGINT)",
    "ALTER TABLE delta.`{0}/delta` ALTER COLUMN w TYPE BIGINT",
    "INSERT INTO delta.`{0}/delta` VALUES (1000, 'x', 1099511627776, 5)",
    "UPDATE delta.`{0}/delta` SET w = w + 1 WHERE id % 11 = 0",
)
ICEBERG_SOURCES = (
    "CREATE TABLE h.sources.v{1} (id BIGINT, region STRING, v INT, gone STRING) USING iceberg "
    "PARTITIONED BY (region, bucket(4, id)) TBLPROPERTIES ('format-version'='{1}', "
    "'write.delete.mode'='merge-on-read', 'write.update.mode'='merge-on-read')",
    "INSERT INTO h.sources.v{1} SELECT id, CASE id % 3 WHEN 0 THEN 'a b' WHEN 1 THEN NULL ELSE 'z' "
    "END, CAST(id AS INT), 'old' FROM range(0, 200, 1, 2)",
    "DELETE FROM h.sources.v{1} WHERE id % 7 = 3",
    "ALTER TABLE h.sources.v{1} RENAME COLUMN v TO w",
    "ALTER TABLE h.sources.v{1} DROP COLUMN gone",
    "ALTER TABLE h.sources.v{1} ADD COLUMN gone BIGINT",
    "ALTER TABLE h.sources.v{1} ALTER COLUMN w TYPE BIGINT",
    "INSERT INTO h.sources.v{1} VALUES (1000, 'x', 1099511627776, 5)",
    "UPDATE h.sources.v{1} SET w = w + 1 WHERE id % 11 = 0",
)


def session(jars: str, warehouse: str) -> SparkSession:
    """Return a session with both formats, and a Hadoop catalog `h` of Iceberg."""
    names = ",".join(str(path) for path in Path(jars).glob("*.jar"))
    settings = {
        "spark.jars": names,
        "spark.ui.enabled": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.databricks.delta.snapshotPartitions": "2",
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension,"
        "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.catalog.h": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.h.type": "hadoop",
        "spark.sql.catalog.h.warehouse": f"file://{warehouse}",
        "spark.sql.parquet.outputTimestampType": "INT96",
    }
    builder = SparkSession.builder.master("local[2]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def save(rows: pa.Table, out: str) -> None:
    """Write rows as an Arrow file."""
    with pa.OSFile(out, "wb") as file, pa.ipc.new_file(file, rows.schema) as writer:
        writer.write_table(rows)


def read(spark: SparkSession, one: dict[str, Any]) -> str:
    """Read one version of a copy into a file. Return the error, or ""."""
    # Snapshot n + 1 of Iceberg is version n.
    version = one["version"] + (one["to"] == "iceberg")
    try:
        frame = spark.read.format(one["to"]).option("versionAsOf", version).load(one["path"])
        save(frame.toArrow(), one["out"])
    except Exception as error:
        return str(error)[:2000] or repr(error)
    return ""


def refused(spark: SparkSession, sql: str) -> str:
    """Return the error of a statement; "" if it did something."""
    try:
        spark.sql(sql).collect()
    except Exception as error:
        return str(error)[:2000] or repr(error)
    return ""


def make_sources(spark: SparkSession, folder: str) -> None:
    """Make tables of both formats, and their rows as Arrow files beside them."""
    for sql in DELTA_SOURCES:
        spark.sql(sql.format(folder))
    save(spark.read.format("delta").load(f"{folder}/delta").toArrow(), f"{folder}/delta.arrow")
    for version in (2, 3):
        for sql in ICEBERG_SOURCES:
            spark.sql(sql.format(folder, version))
        save(spark.table(f"h.sources.v{version}").toArrow(), f"{folder}/v{version}.arrow")
    rows = spark.range(50).selectExpr(
        "id", "timestamp_micros(id * 86400000000 * 400) AS ts", "id % 3 AS p", "id % 2 = 0 AS q"
    )
    rows.write.partitionBy("p").parquet(f"{folder}/int96")
    save(spark.read.parquet(f"{folder}/int96").toArrow(), f"{folder}/int96.arrow")


def main() -> None:
    """Do the work, and print the answers as the last line."""
    work = json.loads(Path(sys.argv[2]).read_text(encoding="utf-8"))
    spark = session(sys.argv[1], work["warehouse"])
    reads = [read(spark, one) for one in work["reads"]]
    answers = {"reads": reads, "harm": [refused(spark, sql) for sql in work["harm"]]}
    make_sources(spark, f"{work['warehouse']}/sources")
    print(json.dumps(answers))
    spark.stop()


if __name__ == "__main__":
    main()
