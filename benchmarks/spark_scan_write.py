"""8M rows x 6 columns on local[2]: our write and scans beside plain Parquet by the same Spark.

python -m benchmarks.spark_scan_write [--rows 8000000] [--rounds 5]

Like for like: plain Parquet writes timestamps as int64 micros too, and reads with the schema
given, so that no footer is read to infer one. What stays different is in our disfavour: tablefmt
fsyncs its files and verifies page checksums.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tablefmt.spark
from benchmarks.harness import ratio, run_alternating, save, summary


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


def run(rows: int, rounds: int) -> None:
    work = tempfile.mkdtemp(prefix="spark_scan_write")
    settings = {
        "spark.driver.memory": "4g",
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    }
    spark = tablefmt.spark.session("benchmark", master="local[2]", **settings)
    spark.sparkContext.setLogLevel("ERROR")
    frame = source(spark, rows)
    ours, zstd, snappy = (f"{work}/{name}" for name in ("ours", "zstd", "snappy"))

    def write_ours() -> None:
        shutil.rmtree(ours, ignore_errors=True)
        tablefmt.spark.write(frame, ours)

    def write_plain(path: str, codec: str) -> Callable[[], None]:
        def write() -> None:
            shutil.rmtree(path, ignore_errors=True)
            frame.write.option("compression", codec).parquet(path)

        return write

    writes = run_alternating(
        {
            "write tablefmt": write_ours,
            "write parquet zstd": write_plain(zstd, "zstd"),
            "write parquet snappy (Spark's default)": write_plain(snappy, "snappy"),
        },
        rounds,
        warm_up=1,
    )
    readers = {
        "tablefmt": lambda: tablefmt.spark.read(spark, ours),
        "parquet zstd": lambda: spark.read.schema(frame.schema).parquet(zstd),
        "parquet snappy": lambda: spark.read.schema(frame.schema).parquet(snappy),
    }

    def scan(reader: Callable[[], Any]) -> Callable[[], None]:
        return lambda: reader().write.format("noop").mode("overwrite").save()

    def aggregate(reader: Callable[[], Any]) -> Callable[[], None]:
        def run_it() -> None:
            reader().selectExpr("sum(v)").collect()

        return run_it

    cases: dict[str, Callable[[], None]] = {}
    for name, reader in readers.items():
        cases[f"scan {name}"] = scan(reader)
        cases[f"aggregate {name}"] = aggregate(reader)
    reads = run_alternating(cases, rounds, warm_up=2)
    save(
        "spark_scan_write",
        {
            "rows": rows,
            "master": "local[2]",
            "seconds": summary(writes | reads),
            "ratios": {
                "write / zstd": ratio(writes, "write tablefmt", "write parquet zstd"),
                "write / snappy": ratio(
                    writes, "write tablefmt", "write parquet snappy (Spark's default)"
                ),
                "scan / zstd": ratio(reads, "scan tablefmt", "scan parquet zstd"),
                "scan / snappy": ratio(reads, "scan tablefmt", "scan parquet snappy"),
                "aggregate / zstd": ratio(reads, "aggregate tablefmt", "aggregate parquet zstd"),
                "aggregate / snappy": ratio(
                    reads, "aggregate tablefmt", "aggregate parquet snappy"
                ),
            },
            "target": 1.15,
            "bytes": {"tablefmt": size_of(ours), "zstd": size_of(zstd), "snappy": size_of(snappy)},
        },
    )
    spark.stop()
    shutil.rmtree(work)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=8_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    run(arguments.rows, arguments.rounds)
