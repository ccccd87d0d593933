"""Measure streams of small commits: into a table, out of it, and their latency.

python -m benchmarks.spark_streams --jars FOLDER [--commits 1000] [--rows 100] [--latency 20]
                                   [--rounds 3] [--formats parquet,tablefmt,delta]

Each format has a separate JVM, and the JVMs run in turn. The measurements are:

- a stream of `--commits` batches of `--rows` rows into a new table
- a stream out of that table, one file per batch, into no sink
- `--latency` appends while a stream reads, each until the code of a `foreachBatch` has its rows

Seconds per batch are Spark's `triggerExecution` of the last nine tenths: in the first tenth the JVM
warms up. Delta needs a PySpark that it supports (4.1). README.md in this folder says how to get its
jars. Delta also runs with its state in two partitions (`delta tuned`) instead of 50, which suits a
small machine.
"""

from __future__ import annotations

import argparse
import json
import queue
import shutil
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import tablefmt.spark
from benchmarks.harness import in_own_process, save, summary
from benchmarks.spark_peers import settings

FORMATS = ("parquet", "tablefmt", "delta", "delta tuned")
DDL = "timestamp timestamp, value long"
PATIENCE_SECONDS = 600


def steady(query: Any) -> dict[str, float]:
    """Return the median seconds per batch, in total and by step, and last tenth over first."""
    batches = [p for p in query.recentProgress if p["durationMs"].get("addBatch") is not None]
    batches = batches[len(batches) // 10 :]
    steps = ("triggerExecution", "addBatch", "queryPlanning", "latestOffset", "walCommit")
    found = {
        step: statistics.median(p["durationMs"].get(step, 0) for p in batches) / 1000
        for step in steps
    }
    tenth = max(1, len(batches) // 10)
    first, last = (
        statistics.median(p["durationMs"]["triggerExecution"] for p in part)
        for part in (batches[:tenth], batches[-tenth:])
    )
    return {**found, "last_over_first": last / first}


def started(frame: Any, kind: str, work: str, name: str) -> Any:
    """Return a stream writer with a separate checkpoint."""
    return frame.writeStream.format(kind).option("checkpointLocation", f"{work}/checkpoint {name}")


def into(spark: Any, kind: str, work: str, commits: int, rows: int) -> dict[str, float]:
    """Measure batches into a table."""
    source = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", rows)
    source = source.option("numPartitions", 1).load()
    query = started(source, kind, work, "into").start(f"{work}/table")
    until = time.monotonic() + PATIENCE_SECONDS
    while len(query.recentProgress) < commits and time.monotonic() < until:
        if query.exception():
            raise query.exception()
        time.sleep(0.05)
    query.stop()
    return steady(query)


def reader(spark: Any, kind: str) -> Any:
    """Return a stream of a table."""
    source = spark.readStream.format(kind).option("maxFilesPerTrigger", 1)
    if kind == "parquet":
        return source.schema(DDL)
    return source.option("startingVersion", 0)


def out(spark: Any, kind: str, work: str) -> dict[str, float]:
    """Measure batches of one file out of the same table, into no sink."""
    frame = reader(spark, kind).load(f"{work}/table")
    query = started(frame, "noop", work, "out").trigger(availableNow=True).start()
    query.awaitTermination()
    return steady(query)


def latency(spark: Any, kind: str, work: str, times: int) -> list[float]:
    """Return the seconds from a finished append to its rows in the code of a running stream."""
    seen: queue.Queue[tuple[float, list[int]]] = queue.Queue()
    place = f"{work}/watched"

    def append(value: int) -> None:
        frame = spark.range(value, value + 1, 1, 1).selectExpr(
            "timestamp_seconds(0) AS timestamp", "id AS value"
        )
        frame.write.format(kind).mode("append").save(place)

    def watch(batch: Any, _: int) -> None:
        values = [row.value for row in batch.select("value").collect()]
        seen.put((time.perf_counter(), values))

    append(0)
    query = reader(spark, kind).load(place).writeStream.foreachBatch(watch)
    query = query.option("checkpointLocation", f"{work}/checkpoint watch").start()
    found: list[float] = []
    try:
        for value in range(times + 3):
            if value:
                append(value)
            done = time.perf_counter()
            at, values = seen.get(timeout=PATIENCE_SECONDS)
            while value not in values:
                at, values = seen.get(timeout=PATIENCE_SECONDS)
            found.append(at - done)
    finally:
        query.stop()
    return found[3:]


def one(given: argparse.Namespace) -> dict[str, Any]:
    """Run all measurements of one format in this process."""
    work = tempfile.mkdtemp(prefix="spark_streams")
    told = settings(given.one, given.jars, work)
    kind = given.one.split()[0]
    told["spark.sql.streaming.numRecentProgressUpdates"] = str(given.commits * 2 + 100)
    told["spark.driver.memory"] = "2g"
    spark = tablefmt.spark.session("benchmark", master="local[2]", **told)
    spark.sparkContext.setLogLevel("ERROR")
    try:
        if kind == "tablefmt":
            tablefmt.spark.register(spark)
        found: dict[str, Any] = {"into": into(spark, kind, work, given.commits, given.rows)}
        if not given.sink_only:
            found["out"] = out(spark, kind, work)
            found["latency"] = latency(spark, kind, work, given.latency)
        return found
    finally:
        spark.stop()
        shutil.rmtree(work)


def in_turn(given: argparse.Namespace) -> None:
    """Run a process per format, alternating for several rounds; save the results."""
    kinds = [kind for kind in FORMATS if not given.formats or kind in given.formats.split(",")]
    sizes = ("--jars", given.jars, "--commits", given.commits, "--rows", given.rows)
    sizes = (*sizes, "--latency", given.latency, *(["--sink-only"] if given.sink_only else []))
    rounds: dict[str, list[dict[str, Any]]] = {kind: [] for kind in kinds}
    for _ in range(given.rounds):
        for kind in kinds:
            rounds[kind].append(in_own_process("spark_streams", kind, *sizes))
            print(kind, json.dumps(rounds[kind][-1]), flush=True)
    payload: dict[str, Any] = {
        "commits": given.commits,
        "rows": given.rows,
        "rounds": rounds,
        "seconds_a_batch": {
            way: summary(
                {k: [f[way]["triggerExecution"] for f in found] for k, found in rounds.items()}
            )
            for way in ("into", "out")
            if all(way in f for found in rounds.values() for f in found)
        },
    }
    if not given.sink_only:
        payload["latency"] = summary(
            {k: [s for f in found for s in f["latency"]] for k, found in rounds.items()}
        )
    save("spark_streams", payload)


def main() -> None:
    """Run and save the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jars", type=Path, default=Path())
    parser.add_argument("--commits", type=int, default=1000)
    parser.add_argument("--rows", type=int, default=100)
    parser.add_argument("--latency", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--formats", default="", help=f"some of {','.join(FORMATS)}")
    parser.add_argument("--sink-only", action="store_true", help="only streams into tables")
    parser.add_argument("--one", choices=FORMATS, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        print(json.dumps(one(given)))
    else:
        in_turn(given)


if __name__ == "__main__":
    main()
