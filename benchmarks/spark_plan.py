"""Measure Spark's planning for a table of many files that are not opened: seconds to the splits.

The table has N files at a checkpoint, 1,000 partitions, and 10 columns with bounds. A filter keeps
100 files. Cold: the log is not cached, in a warm session. After an append: the same query after
another handle appended one row.

python -m benchmarks.spark_plan [--files 100000] [--rounds 5]
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from typing import Any

import pyarrow as pa

import tablefmt.spark
from benchmarks.checkpoints import COLUMNS, PARTITIONS, build
from benchmarks.harness import save, summary

KEPT = 100


def splits(spark: Any, uri: str, condition: str | None) -> tuple[float, int]:
    """Return the seconds from `read` to the tasks of a query, and the number of tasks."""
    start = time.perf_counter()
    frame = tablefmt.spark.read(spark, uri)
    if condition is not None:
        frame = frame.where(condition)
    tasks = frame.select("c2")._jdf.queryExecution().toRdd().getNumPartitions()
    return time.perf_counter() - start, tasks


def run(files: int, rounds: int) -> None:
    """Print and save the figures."""
    work = tempfile.mkdtemp(prefix="spark_plan")
    try:
        uri = f"{work}/t"
        build(uri, files)
        writer = tablefmt.open(uri)
        writer.checkpoint()
        spark = tablefmt.spark.session("plan", master="local[2]", **{"spark.driver.memory": "4g"})
        spark.sparkContext.setLogLevel("ERROR")
        low = files // 2 * 1000
        keeps = f"c1 >= {low} AND c1 < {low + KEPT * 1000}"
        row = {f"c{i}": [0] for i in range(1, COLUMNS + 1)}
        data = pa.table({**row, "p": pa.array([PARTITIONS // 2], pa.int32())})
        found: dict[str, list[float]] = {"filter that keeps 100 files, cold": []}
        found |= {"filter, second run": [], "filter, after an append": [], "no filter": []}
        splits(spark, uri, keeps)
        for number in range(rounds):
            # Another address: of this one the session knows the log.
            unknown = shutil.copytree(uri, f"{work}/{number}")
            found["filter that keeps 100 files, cold"].append(splits(spark, unknown, keeps)[0])
            found["filter, second run"].append(splits(spark, unknown, keeps)[0])
            splits(spark, uri, keeps)
            writer.append(data)
            found["filter, after an append"].append(splits(spark, uri, keeps)[0])
        for _ in range(min(2, rounds)):
            found["no filter"].append(splits(spark, uri, None)[0])
        save("spark_plan", {"files": files, "seconds": summary(found)})
        spark.stop()
    finally:
        shutil.rmtree(work)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    run(given.files, given.rounds)
