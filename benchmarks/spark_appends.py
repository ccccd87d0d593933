"""Measure 100 appends of 1,000 rows from Spark against plain Parquet: seconds, spread and drift.

python -m benchmarks.spark_appends [--appends 100] [--rows 1000]
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import tempfile
from collections.abc import Callable
from typing import Any

import tablefmt.spark
from benchmarks.harness import ratio, run_alternating, save


def block(spark: Any, number: int, rows: int) -> Any:
    """Return one append's rows, in one file."""
    first = number * rows
    return spark.range(first, first + rows, numPartitions=1).selectExpr(
        "id", "cast(id % 1000 as int) as k", "id * 1.5D as v", "concat('user_', id) as s"
    )


def shape(seconds: list[float]) -> dict[str, Any]:
    """Return the first ten, the last ten, the slowest, and the slowest relative to the median."""
    first, last = seconds[:10], seconds[-10:]
    median = statistics.median(seconds)
    spread = {
        name: {"min": min(part), "median": statistics.median(part), "max": max(part)}
        for name, part in (("first_10", first), ("last_10", last), ("all", seconds))
    }
    return {
        **spread,
        "last_over_first": statistics.median(last) / statistics.median(first),
        "slowest_over_median": max(seconds) / median,
        "slowest_at": seconds.index(max(seconds)),
        "seconds": seconds,
    }


def run(appends: int, rows: int) -> None:
    work = tempfile.mkdtemp(prefix="spark_appends")
    settings = {"spark.driver.memory": "4g", "spark.sql.warehouse.dir": f"{work}/warehouse"}
    spark = tablefmt.spark.session("benchmark", master="local[2]", **settings)
    spark.sparkContext.setLogLevel("ERROR")
    done: dict[str, int] = {}
    writers: dict[str, Callable[[Any, str], Any]] = {
        "parquet": lambda df, path: (
            df.write.mode("append").option("compression", "zstd").parquet(path)
        ),
        "tablefmt functions": lambda df, path: tablefmt.spark.write(df, path),
    }
    if hasattr(tablefmt.spark, "register"):
        tablefmt.spark.register(spark)
        writers["tablefmt format"] = lambda df, path: (
            df.write.format("tablefmt").mode("append").save(path)
        )

    def appending(name: str) -> Callable[[], None]:
        def append() -> None:
            number = done.get(name, 0)
            writers[name](block(spark, number, rows), f"{work}/{name}")
            done[name] = number + 1

        return append

    try:
        warm_up = 5
        figures = run_alternating({n: appending(n) for n in writers}, appends, warm_up=warm_up)
        for name in writers:
            if name == "parquet":
                found = spark.read.parquet(f"{work}/{name}")
            else:
                found = tablefmt.spark.read(spark, f"{work}/{name}")
            assert found.distinct().count() == (appends + warm_up) * rows, name
        save(
            "spark_appends",
            {
                "appends": appends,
                "rows_each": rows,
                "ratios": {n: ratio(figures, n, "parquet") for n in writers if n != "parquet"},
                "target_ratio": 1.3,
                "shape": {name: shape(seconds) for name, seconds in figures.items()},
            },
        )
    finally:
        spark.stop()
        shutil.rmtree(work)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--appends", type=int, default=100)
    parser.add_argument("--rows", type=int, default=1_000)
    arguments = parser.parse_args()
    run(arguments.appends, arguments.rows)
