"""What Spark plans for a table of many files, none of which is opened: seconds to the splits.

N files at a checkpoint, 1,000 partitions, 10 columns with bounds; a filter keeps 100 of them. Cold:
the log is read from nothing, in a session that is warm. After an append: the same again when one
row was appended by another handle.

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
    """Seconds from `read` to the tasks of a query, and how many of these there are."""
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
        found: dict[str, list[float]] = {"a filter that keeps 100, cold": []}
        found |= {"the same again": [], "right after an append": [], "no filter": []}
        splits(spark, uri, keeps)
        for number in range(rounds):
            # Another address: of this one the session knows the log.
            unknown = shutil.copytree(uri, f"{work}/{number}")
            found["a filter that keeps 100, cold"].append(splits(spark, unknown, keeps)[0])
            found["the same again"].append(splits(spark, unknown, keeps)[0])
            splits(spark, uri, keeps)
            writer.append(data)
            found["right after an append"].append(splits(spark, uri, keeps)[0])
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
