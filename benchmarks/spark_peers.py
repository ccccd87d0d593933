"""Measure tablefmt, Delta, Iceberg and plain Parquet on one Spark: write, scans, small appends.

python -m benchmarks.spark_peers --jars FOLDER [--rows 8000000] [--appends 50] [--rounds 3]
                                 [--formats parquet,tablefmt,delta,iceberg]

The peers need a PySpark that they support (4.1 for both). README.md in this folder says how to get
their jars. Each format has a separate JVM, because their session extensions are incompatible. The
JVMs run in turn for several rounds. All formats write zstd. Delta also runs with its state in two
partitions (`delta tuned`) instead of 50, which suits a small machine.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tablefmt.spark
from benchmarks.harness import formats_in_turn, save, summary
from benchmarks.spark_appends import block, shape
from benchmarks.spark_scan_write import source

FORMATS = ("parquet", "tablefmt", "delta", "delta tuned", "iceberg")


def settings(kind: str, jars: Path, work: str) -> dict[str, str]:
    """Return Spark's settings for one format."""
    common = {
        "spark.driver.memory": "6g",
        "spark.sql.shuffle.partitions": "4",
        "spark.sql.parquet.compression.codec": "zstd",
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
        "spark.sql.warehouse.dir": f"{work}/warehouse",
    }
    if kind in ("parquet", "tablefmt"):
        return common
    peer = kind.split()[0]
    found = [
        str(p) for p in sorted(jars.glob("*.jar")) if ("iceberg" in p.name) == (kind[0] == "i")
    ]
    if not found:
        raise SystemExit(f"no jars for {kind} in {jars}; see benchmarks/running.md")
    common["spark.jars"] = ",".join(found)
    if peer == "iceberg":
        catalog = "spark.sql.catalog.ice"
        return common | {
            "spark.sql.extensions": (
                "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"
            ),
            catalog: "org.apache.iceberg.spark.SparkCatalog",
            f"{catalog}.type": "hadoop",
            f"{catalog}.warehouse": work,
        }
    tuned = {"spark.databricks.delta.snapshotPartitions": "2"} if kind == "delta tuned" else {}
    return (
        common
        | tuned
        | {
            "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
            "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        }
    )


class Peer:
    """Create, append, read and drop tables of one format."""

    def __init__(self, kind: str, spark: Any, work: str) -> None:
        self.kind, self.spark, self.work = kind.split()[0], spark, work
        self.format = self.kind
        if self.kind == "tablefmt" and hasattr(tablefmt.spark, "register"):
            tablefmt.spark.register(spark)
        elif self.kind == "tablefmt":
            self.format = ""

    def create(self, name: str, frame: Any) -> None:
        """Create a table with these rows."""
        if self.kind == "iceberg":
            frame.writeTo(f"ice.db.{name}").using("iceberg").create()
        else:
            self.append(name, frame)

    def append(self, name: str, frame: Any) -> None:
        """Append rows."""
        if self.kind == "iceberg":
            frame.writeTo(f"ice.db.{name}").append()
        elif not self.format:
            tablefmt.spark.write(frame, f"{self.work}/{name}")
        else:
            frame.write.format(self.format).mode("append").save(f"{self.work}/{name}")

    def read(self, name: str) -> Any:
        """Return the whole table as a DataFrame."""
        if self.kind == "iceberg":
            return self.spark.table(f"ice.db.{name}")
        if not self.format:
            return tablefmt.spark.read(self.spark, f"{self.work}/{name}")
        return self.spark.read.format(self.format).load(f"{self.work}/{name}")

    def drop(self, name: str) -> None:
        """Drop a table and its files."""
        if self.kind == "iceberg":
            self.spark.sql(f"DROP TABLE IF EXISTS ice.db.{name} PURGE")
        shutil.rmtree(f"{self.work}/{name}", ignore_errors=True)


def timed(action: Callable[[], Any], times: int, before: Callable[[], Any] | None = None) -> Any:
    """Return the seconds of each run, after one that is not counted."""
    found = []
    for _ in range(times + 1):
        if before is not None:
            before()
        start = time.perf_counter()
        action()
        found.append(time.perf_counter() - start)
    return found[1:]


def one(kind: str, jars: Path, rows: int, appends: int) -> dict[str, list[float]]:
    """Run all measurements of one format in this process."""
    work = tempfile.mkdtemp(prefix="spark_peers")
    spark = tablefmt.spark.session("benchmark", master="local[2]", **settings(kind, jars, work))
    spark.sparkContext.setLogLevel("ERROR")
    try:
        peer = Peer(kind, spark, work)
        frame = source(spark, rows)
        found = {
            "write": timed(lambda: peer.create("big", frame), 3, lambda: peer.drop("big")),
            "scan": timed(
                lambda: peer.read("big").write.format("noop").mode("overwrite").save(), 5
            ),
            "aggregate": timed(lambda: peer.read("big").selectExpr("sum(v)").collect(), 7),
        }
        few = f"id BETWEEN {rows // 2} AND {rows // 2 + rows // 1000 - 1}"
        count = [0]

        def filtered() -> None:
            picked = peer.read("big").where(few).selectExpr("count(*)", "sum(v)")
            count[0] = picked.collect()[0][0]

        found["filter"] = timed(filtered, 7)
        assert count[0] == rows // 1000, (kind, count)
        peer.create("small", block(spark, 0, 1000))
        numbers = iter(range(1, appends + 2))
        found["append"] = timed(
            lambda: peer.append("small", block(spark, next(numbers), 1000)), appends
        )
        assert peer.read("small").distinct().count() == (appends + 2) * 1000, kind
        return found
    finally:
        spark.stop()
        shutil.rmtree(work)


def in_turn(given: argparse.Namespace) -> None:
    """Run a process per format, alternating for several rounds; save the results."""
    kinds = [k for k in FORMATS if not given.formats or k in given.formats.split(",")]
    arguments = ("--jars", given.jars, "--rows", given.rows, "--appends", given.appends)
    rounds, joined = formats_in_turn("spark_peers", kinds, given.rounds, *arguments)
    plain = joined.get("parquet", {})
    payload = {
        "rows": given.rows,
        "rounds": given.rounds,
        "seconds": {kind: summary(found) for kind, found in joined.items()},
        "min_over_parquet": {
            kind: {what: min(s) / min(plain[what]) for what, s in found.items() if what in plain}
            for kind, found in joined.items()
        },
        "appends": {kind: [shape(r["append"]) for r in found] for kind, found in rounds.items()},
    }
    save("spark_peers", payload)


def main() -> None:
    """Run and save the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jars", type=Path, default=Path())
    parser.add_argument("--rows", type=int, default=8_000_000)
    parser.add_argument("--appends", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--formats", default="", help=f"some of {','.join(FORMATS)}")
    parser.add_argument("--one", choices=FORMATS, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        print(json.dumps(one(given.one, given.jars, given.rows, given.appends)))
    else:
        in_turn(given)


if __name__ == "__main__":
    main()
