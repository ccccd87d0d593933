"""Streams in a process that kills itself: python -m tests.spark.streams.killed_job FOLDER BATCHES
SECONDS.

SECONDS after a query has done BATCHES batches, the whole group of processes gets SIGKILL. With 0
BATCHES the queries do what is left, and the process ends.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

import tablefmt.spark
from tests.spark.streams.queries import DDL

PATIENCE_SECONDS = 240


def queries(spark: Any, folder: Path) -> list[Any]:
    """Appended, counted, merged: streams of all files; and what is appended, copied."""
    files = spark.readStream.schema(DDL).option("maxFilesPerTrigger", 1)
    target = tablefmt.spark.open(spark, str(folder / "merged"))

    def stream() -> Any:
        return files.parquet(str(folder / "source"))

    def merge(batch: Any, number: int) -> None:
        query = batch.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId")
        new = batch.groupBy("p").count()
        pairs = target.merge(new, "t.p = s.p").when_matched_update({"count": "t.count + s.count"})
        pairs.when_not_matched_insert_all().execute(application=(query, number))

    appended = stream().writeStream.format("tablefmt").option("path", str(folder / "appended"))
    counted = stream().groupBy("p").count().writeStream.format("tablefmt").outputMode("complete")
    counted = counted.option("path", str(folder / "counted"))
    merged = stream().writeStream.foreachBatch(merge)
    of_table = spark.readStream.format("tablefmt").option("maxFilesPerTrigger", 1)
    copied = of_table.load(str(folder / "appended")).writeStream.format("tablefmt")
    copied = copied.option("path", str(folder / "copied"))
    writers = {"appended": appended, "counted": counted, "merged": merged, "copied": copied}
    return [
        writer.option("checkpointLocation", str(folder / f"checkpoint of {name}"))
        for name, writer in writers.items()
    ]


def kill_after(running: list[Any], batches: int, seconds: float) -> None:
    """Wait for the batches of any of the queries."""
    until = time.monotonic() + PATIENCE_SECONDS
    while not any(len(query.recentProgress) >= batches for query in running):
        if time.monotonic() > until or any(query.exception() for query in running):
            return
        time.sleep(0.005)
    time.sleep(seconds)
    os.killpg(0, signal.SIGKILL)


def main(folder: Path, batches: int, seconds: float) -> None:
    """Run the queries."""
    settings = {"spark.driver.memory": "1g", "spark.sql.shuffle.partitions": "1"}
    spark = tablefmt.spark.session("killed", master="local[2]", **settings)
    spark.sparkContext.setLogLevel("ERROR")
    tablefmt.spark.register(spark)
    writers = queries(spark, folder)
    if not batches:
        # The last one reads what the first one writes.
        for writer in writers:
            writer.trigger(availableNow=True).start().awaitTermination()
        return
    running = [writer.trigger(processingTime="0 seconds").start() for writer in writers]
    killer = threading.Thread(target=kill_after, args=(running, batches, seconds))
    killer.start()
    killer.join()
    for query in running:
        # It is only by an error that anybody comes here.
        query.stop()
        if query.exception():
            raise query.exception()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]))
