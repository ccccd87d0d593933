"""A Spark that lacks a class which the native plane needs: the other plane, and one warning."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import tablefmt.spark
from tests.spark.looking import rows_of

# In a process of its own: the classes are compiled once a JVM.
PROGRAM = """
import json, logging, sys
import tablefmt, tablefmt.spark
from tablefmt.spark import java

uri, uri_of_function, gone = sys.argv[1:]
sources = java._sources()
assert any(gone in text for text in sources.values())
changed = {name: text.replace(gone, gone + "IsGone") for name, text in sources.items()}
java._sources = lambda: changed
warnings = []

class Kept(logging.Handler):
    def emit(self, record):
        if record.levelno >= logging.WARNING:
            warnings.append(record.getMessage())

logging.getLogger("tablefmt").addHandler(Kept())
spark = tablefmt.spark.session(
    "fallback", master="local[1]", **{"spark.sql.shuffle.partitions": "1"}
)
spark.sparkContext.setLogLevel("OFF")
tablefmt.spark.register(spark)
tablefmt.spark.register(spark)
tablefmt.spark.register(spark.newSession())
rows = spark.range(6).selectExpr("id", "concat('p', id % 2) as p")
rows.write.format("tablefmt").mode("append").option("partitionBy", "p").save(uri)
tablefmt.spark.write(rows, uri_of_function)
frames = {
    "format": spark.read.format("tablefmt").load(uri),
    "where": spark.read.format("tablefmt").load(uri).where("p = 'p1' and id > 2"),
    "function": tablefmt.spark.read(spark, uri_of_function),
}
spark.sql(f"CREATE TEMPORARY VIEW v USING tablefmt OPTIONS (path '{uri}')")
frames["view"] = spark.sql("SELECT p, sum(id) AS n FROM v GROUP BY p")
answers = {n: sorted(str(r.asDict()) for r in f.collect()) for n, f in frames.items()}
print(json.dumps({"answers": answers, "warnings": warnings}))
spark.stop()
"""


def answers_of(spark: Any, uri: str, other: str) -> dict[str, list[str]]:
    """The same program on the native plane."""
    rows = spark.range(6).selectExpr("id", "concat('p', id % 2) as p")
    rows.write.format("tablefmt").mode("append").option("partitionBy", "p").save(uri)
    tablefmt.spark.write(rows, other)
    frame = spark.read.format("tablefmt").load(uri)
    frames = {
        "format": frame,
        "where": frame.where("p = 'p1' and id > 2"),
        "function": tablefmt.spark.read(spark, other),
        "view": frame.groupBy("p").agg({"id": "sum"}).withColumnRenamed("sum(id)", "n"),
    }
    return {n: sorted(str(r.asDict()) for r in f.collect()) for n, f in frames.items()}


def test_a_lacking_class_means_the_other_plane_the_same_answers_and_one_warning(
    spark: Any, tmp_path: Path
) -> None:
    tablefmt.spark.register(spark)
    places = [str(tmp_path / name) for name in ("one", "two", "three", "four")]
    gone = "org.apache.spark.sql.execution.datasources.HadoopFsRelation"
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *places[:2], gone],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["answers"] == answers_of(spark, *places[2:])
    (warning,) = found["warnings"]
    assert warning.startswith("Arrow plane")
    assert "HadoopFsRelationIsGone" in warning
    for ours, theirs in zip(places[:2], places[2:], strict=True):
        assert rows_of(tablefmt.spark.read(spark, ours)) == rows_of(
            tablefmt.spark.read(spark, theirs)
        )
