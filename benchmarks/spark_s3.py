"""Measure MB/s of writes and scans on S3 from Spark: both backends, and plain Parquet through s3a.

python -m benchmarks.spark_s3 [--rows 2000000] [--rounds 3] [--jars FOLDER]

The server is moto in a separate process on this machine, without latency. The figures therefore
show the processor cost of a backend, and not the speed of S3. A Spark without the jars uses the
Arrow backend, so each backend has a separate JVM; they run in turn. MB are those of the table's
Parquet files.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable
from typing import Any

import tablefmt.spark
from benchmarks.harness import in_own_process, save, summary
from benchmarks.spark_scan_write import source
from tablefmt.spark.backends.native import s3a
from tests.s3server import S3Server

WAYS = ("tablefmt native", "tablefmt arrow", "parquet s3a")


def timed(action: Callable[[], Any], times: int) -> list[float]:
    """Return the seconds of each run, after one that is not counted."""
    found = []
    for _ in range(times + 1):
        start = time.perf_counter()
        action()
        found.append(time.perf_counter() - start)
    return found[1:]


def parquet_settings(options: dict[str, Any]) -> dict[str, str]:
    """Return the settings for plain Parquet: the server, and the committers that this package uses.

    Hadoop's older committer renames, and S3 has no rename: against moto it comes to no end.
    """
    committers = {f"spark.hadoop.{name}": value for name, value in s3a.WRITE_OPTIONS.items()}
    return {
        **s3a.SESSION_CONF,
        **committers,
        "spark.hadoop.mapreduce.outputcommitter.factory.scheme.s3a": (
            "org.apache.hadoop.fs.s3a.commit.S3ACommitterFactory"
        ),
        "spark.hadoop.fs.s3a.endpoint": options["endpoint_url"],
        "spark.hadoop.fs.s3a.endpoint.region": "us-east-1",
        "spark.hadoop.fs.s3a.path.style.access": "true",
        "spark.hadoop.fs.s3a.connection.ssl.enabled": "false",
        "spark.hadoop.fs.s3a.access.key": options["key"],
        "spark.hadoop.fs.s3a.secret.key": options["secret"],
    }


def one(way: str, bucket: str, options: dict[str, Any], given: argparse.Namespace) -> Any:
    """Measure one way in this process, and the bytes of its last table."""
    conf = {
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
        # moto never says "100 Continue", and S3A would wait seconds for it at every PUT.
        "spark.hadoop.fs.s3a.connection.expect.continue": "false",
    }
    conf |= parquet_settings(options) if way == "parquet s3a" else {}
    jars = False if way == "tablefmt arrow" else given.jars or True
    spark = tablefmt.spark.session("benchmark", master="local[2]", s3=jars, **conf)
    spark.sparkContext.setLogLevel("ERROR")
    frame = source(spark, given.rows)
    place = f"{bucket}/{way.replace(' ', '-')}-{time.time_ns()}"
    tables: list[str] = []

    def write() -> None:
        tables.append(f"{place}-{len(tables)}")
        if way == "parquet s3a":
            frame.write.option("compression", "zstd").parquet(f"s3a://{tables[-1]}")
        else:
            tablefmt.spark.write(frame, f"s3://{tables[-1]}", storageOptions=options)

    def read() -> Any:
        if way == "parquet s3a":
            return spark.read.schema(frame.schema).parquet(f"s3a://{tables[-1]}")
        return tablefmt.spark.read(spark, f"s3://{tables[-1]}", storage_options=options)

    try:
        found = {
            "write": timed(write, 2),
            "scan": timed(lambda: read().write.format("noop").mode("overwrite").save(), 3),
            "aggregate": timed(lambda: read().selectExpr("sum(v)").collect(), 3),
        }
        assert read().count() == given.rows
        return {"seconds": found, "table": tables[-1]}
    finally:
        spark.stop()


def size_of(server: S3Server, table: str) -> int:
    """Return the bytes of a table's Parquet files."""
    bucket, _, prefix = table.partition("/")
    pages = server.client().get_paginator("list_objects_v2")
    return sum(
        found["Size"]
        for page in pages.paginate(Bucket=bucket, Prefix=f"{prefix}/")
        for found in page.get("Contents", ())
        if found["Key"].endswith(".parquet")
    )


def in_turn(given: argparse.Namespace) -> None:
    """Run a process per way, alternating for several rounds; save the results."""
    server = S3Server()
    seconds: dict[str, dict[str, list[float]]] = {way: {} for way in WAYS}
    megabytes: dict[str, float] = {}
    try:
        bucket = server.new_bucket()
        for _ in range(given.rounds):
            for way in WAYS:
                asked = json.dumps([bucket, server.options])
                answer = in_own_process(
                    "spark_s3",
                    way,
                    *("--rows", given.rows, "--jars", given.jars),
                    environment={"TABLEFMT_BENCHMARK": asked},
                )
                megabytes[way] = size_of(server, answer["table"]) / 1e6
                for what, found in answer["seconds"].items():
                    seconds[way].setdefault(what, []).extend(found)
                print(way, answer["seconds"], flush=True)
    finally:
        server.stop()
    rates = {
        way: {what: megabytes[way] / min(s) for what, s in found.items() if what != "aggregate"}
        for way, found in seconds.items()
    }
    payload = {
        "rows": given.rows,
        "megabytes": megabytes,
        "best_mb_per_s": rates,
        "seconds": {way: summary(found) for way, found in seconds.items()},
    }
    save("spark_s3", payload)


def main() -> None:
    """Run and save the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--jars", default="", help="a folder with the jars; else Maven Central")
    parser.add_argument("--one", choices=WAYS, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        bucket, options = json.loads(os.environ["TABLEFMT_BENCHMARK"])
        print(json.dumps(one(given.one, bucket, options, given)))
    else:
        in_turn(given)


if __name__ == "__main__":
    main()
