"""Measure 8M rows x 6 columns against plain Parquet: write, scan, aggregate, 0.1 % filter.

python -m benchmarks.spark_scan_write [--rows 8000000] [--rounds 5]

The table is used by functions, by format("tablefmt"), and by SQL on a catalog table. Each is
compared with plain Parquet used in the same way. Plain Parquet by path gets its columns, so Spark
infers no schema.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tablefmt.spark
from benchmarks.harness import (
    ratio,
    run_alternating,
    save,
    spark_clock,
    summary,
    with_processor_time,
)

Case = Callable[[], None]

TARGETS = {"write": 1.15, "scan": 1.1, "aggregate": 1.15, "filter": 1.0}


def source(spark: Any, rows: int) -> Any:
    return spark.range(0, rows, numPartitions=8).selectExpr(
        "id",
        "cast(id % 1000 as int) as k",
        "rand(1) as v",
        "concat('s', id % 100000) as s",
        "timestamp_micros(1700000000000000 + id * 1000) as t",
        "cast(id as decimal(18,2)) as d",
    )


def size_of(folder: str) -> int:
    return sum(p.stat().st_size for p in Path(folder).rglob("*.parquet"))


class Ways:
    """The ways to write and read below one folder; a way of ours has a plain one of its kind."""

    def __init__(self, spark: Any, rows: int, work: str) -> None:
        self.spark, self.rows, self.work = spark, rows, work
        self.frame = source(spark, rows)
        self.frame.createOrReplaceTempView("source")
        self.registered = hasattr(tablefmt.spark, "register")
        if self.registered:
            tablefmt.spark.register(spark)

    def path(self, name: str) -> str:
        """Return the folder of one way."""
        return f"{self.work}/{name}"

    def pairs(self) -> dict[str, str]:
        """Return our ways, each with the plain way to compare it with."""
        if not self.registered:
            return {"tablefmt functions": "parquet zstd"}
        return {
            "tablefmt functions": "parquet zstd",
            "tablefmt format": "parquet zstd",
            "tablefmt sql": "parquet sql",
        }

    def _anew(self, name: str, write: Callable[[str], Any]) -> Case:
        def run() -> None:
            shutil.rmtree(self.path(name), ignore_errors=True)
            write(self.path(name))

        return run

    def _create_as(self, name: str, using: str, option: str = "") -> Case:
        table = name.replace(" ", "_")

        def write(path: str) -> None:
            self.spark.sql(f"DROP TABLE IF EXISTS {table}")
            shutil.rmtree(path, ignore_errors=True)
            self.spark.sql(
                f"CREATE TABLE {table} USING {using} OPTIONS (path '{path}'{option}) "
                "AS SELECT * FROM source"
            )

        return lambda: write(self.path(name))

    def writes(self) -> dict[str, Case]:
        """Return a first write for each way; in SQL it is CREATE TABLE … AS SELECT."""
        frame = self.frame

        def plain(codec: str) -> Callable[[str], Any]:
            return lambda path: frame.write.option("compression", codec).parquet(path)

        cases = {
            "tablefmt functions": self._anew(
                "tablefmt functions", lambda path: tablefmt.spark.write(frame, path)
            ),
            "parquet zstd": self._anew("parquet zstd", plain("zstd")),
            "parquet snappy": self._anew("parquet snappy", plain("snappy")),
        }
        if self.registered:
            cases["tablefmt format"] = self._anew(
                "tablefmt format",
                lambda path: frame.write.format("tablefmt").mode("append").save(path),
            )
            cases["tablefmt sql"] = self._create_as("tablefmt sql", "tablefmt")
            cases["parquet sql"] = self._create_as("parquet sql", "parquet", ", compression 'zstd'")
        return cases

    def readers(self) -> dict[str, Callable[[], Any]]:
        """Return functions that create a new DataFrame of the whole table."""
        spark = self.spark

        def plain(name: str) -> Callable[[], Any]:
            return lambda: spark.read.schema(self.frame.schema).parquet(self.path(name))

        readers = {
            "tablefmt functions": lambda: tablefmt.spark.read(
                spark, self.path("tablefmt functions")
            ),
            "parquet zstd": plain("parquet zstd"),
            "parquet snappy": plain("parquet snappy"),
        }
        if self.registered:
            readers["tablefmt format"] = lambda: spark.read.format("tablefmt").load(
                self.path("tablefmt format")
            )
            readers["tablefmt sql"] = lambda: spark.sql("SELECT * FROM tablefmt_sql")
            readers["parquet sql"] = lambda: spark.sql("SELECT * FROM parquet_sql")
        return readers

    def reads(self) -> dict[str, dict[str, Case]]:
        """Return the readers' cases by kind of query; results are checked."""
        low = self.rows // 2
        high = low + self.rows // 1000 - 1

        def scan(reader: Callable[[], Any]) -> Case:
            return lambda: reader().write.format("noop").mode("overwrite").save()

        def aggregate(reader: Callable[[], Any]) -> Case:
            def run() -> None:
                reader().selectExpr("sum(v)").collect()

            return run

        def few(reader: Callable[[], Any]) -> Case:
            def run() -> None:
                rows = reader().where(f"id BETWEEN {low} AND {high}")
                found = rows.selectExpr("count(*)", "sum(v)").collect()
                assert found[0][0] == high - low + 1, found

            return run

        return {
            kind: {name: make(reader) for name, reader in self.readers().items()}
            for kind, make in (("scan", scan), ("aggregate", aggregate), ("filter", few))
        }


def run(rows: int, rounds: int) -> None:
    work = tempfile.mkdtemp(prefix="spark_scan_write")
    settings = {
        "spark.driver.memory": "6g",
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
        "spark.sql.warehouse.dir": f"{work}/warehouse",
    }
    spark = tablefmt.spark.session("benchmark", master="local[2]", **settings)
    spark.sparkContext.setLogLevel("ERROR")
    try:
        ways = Ways(spark, rows, work)
        figures: dict[str, dict[str, list[float]]] = {}
        processor: dict[str, dict[str, list[float]]] = {}
        clock = spark_clock(spark)

        def measure(kind: str, cases: dict[str, Case], count: int, warm_up: int) -> None:
            print(kind, flush=True)
            measured, spent = with_processor_time(cases, clock)
            figures[kind] = run_alternating(measured, count, warm_up)
            processor[kind] = {name: values[warm_up:] for name, values in spent.items()}

        measure("write", ways.writes(), rounds, 1)
        for kind, cases in ways.reads().items():
            measure(kind, cases, 2 * rounds, 2)

        def ratios(of: dict[str, dict[str, list[float]]]) -> dict[str, dict[str, float]]:
            pairs = [*ways.pairs().items(), ("tablefmt functions", "parquet snappy")]
            return {
                f"{kind}: {ours} / {plain}": ratio(found, ours, plain)
                for kind, found in of.items()
                for ours, plain in pairs
            }

        payload = {
            "rows": rows,
            "master": "local[2]",
            "ratios": ratios(figures),
            "processor_ratios": ratios(processor),
            "targets": TARGETS,
            "bytes": {name: size_of(ways.path(name)) for name in ways.writes()},
            "seconds": {kind: summary(found) for kind, found in figures.items()},
            "processor_seconds": {kind: summary(found) for kind, found in processor.items()},
        }
        save("spark_scan_write", payload)
    finally:
        spark.stop()
        shutil.rmtree(work)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=8_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    run(arguments.rows, arguments.rounds)
