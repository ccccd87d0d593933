"""Makes the archive of loaded classes that tests/jvms.py is about: python -m
tests.spark.class_archive
"""

from __future__ import annotations

import os
from pathlib import Path
from tempfile import TemporaryDirectory

import tablefmt.spark
from tablefmt.spark.backends.backend_choice import SETTING
from tests import jvms


def use(folder: Path) -> None:
    """Run what most tests do, so that their classes are loaded when the JVM ends."""
    spark = tablefmt.spark.session("archive", master="local[2]")
    spark.sparkContext.setLogLevel("OFF")
    tablefmt.spark.register(spark)
    name = f"tablefmt.`{folder / 'table'}`"
    rows = spark.range(20).selectExpr("id", "id % 3 AS p", "CAST(id AS STRING) AS text")
    rows.write.format("tablefmt").partitionBy("p").save(str(folder / "table"))
    for statement in (
        f"INSERT INTO {name} VALUES (20, 2, 'x')",
        f"UPDATE {name} SET text = 'y' WHERE id = 3",
        f"DELETE FROM {name} WHERE id = 4",
        f"MERGE INTO {name} t USING (SELECT 5L AS id) s ON t.id = s.id WHEN MATCHED THEN DELETE",
        f"SELECT p, count(*), sum(id) FROM {name} WHERE id > 2 GROUP BY p ORDER BY p",
    ):
        spark.sql(statement).collect()
    for files in ("arrow", "native"):
        spark.conf.set(SETTING, files)
        spark.read.format("tablefmt").load(str(folder / "table")).where("p = 1").collect()
    stream = spark.readStream.format("tablefmt").load(str(folder / "table")).writeStream
    stream = stream.option("checkpointLocation", str(folder / "checkpoint"))
    stream = stream.format("tablefmt").trigger(availableNow=True)
    stream.start(str(folder / "copy")).awaitTermination()
    spark.stop()


if __name__ == "__main__":
    os.environ["SPARK_SUBMIT_OPTS"] = f"{jvms.QUICK} -XX:ArchiveClassesAtExit={jvms.ARCHIVE}"
    with TemporaryDirectory() as temporary:
        use(Path(temporary))
