"""Jobs on executors in processes of their own. The tests start it, and it prints JSON lines.

python -m tests.spark.cluster.scenarios MASTER FOLDER SCENARIO …
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa

import tablefmt
import tablefmt.spark
from tablefmt.spark.backends import row_level_operations
from tests.places import ROOT
from tests.spark.looking import data_files, everything, strays
from tests.spark.statements.readings import KEYS, differing, model

ROWS = 20_000


def killed_merge(spark: Any, uri: str) -> dict[str, Any]:
    """The executor that has stored a part of a source dies while the rest is read."""
    folder = Path(f"{uri}.readings")
    folder.mkdir()
    tablefmt.spark.write(spark.range(0, KEYS, 1, 4).selectExpr("id", "'old' AS v"), uri)
    done = threading.Event()

    def kill_first() -> None:
        tracker = spark.sparkContext.statusTracker()
        while not done.wait(0.02):
            stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
            if any(info and info.numCompletedTasks == 1 for info in stages):
                os.kill(int((folder / "reading0").read_text()), signal.SIGKILL)
                break
        (folder / "go").touch()

    killer = threading.Thread(target=kill_first)
    merge = tablefmt.spark.open(spark, uri).merge(differing(spark, folder, waits=True), "id = s.k")
    merge = merge.when_matched_update({"v": "s.w"})
    merge = merge.when_not_matched_insert({"id": "s.k", "v": "s.w"})
    killer.start()
    try:
        merge.execute()
    finally:
        done.set()
        killer.join()
    columns = tablefmt.open(uri).to_arrow().select(["id", "v"]).to_pydict().values()
    rows = sorted(zip(*columns, strict=True))
    return {"read_twice": (folder / "reading1").exists(), "as_one": rows in [model(0), model(1)]}


def slow_attempt(spark: Any, uri: str) -> dict[str, Any]:
    """Append with a first attempt that hangs. A speculative attempt on another host wins."""

    def hanging(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import time

        from pyspark import TaskContext

        yield from batches
        if TaskContext.get().partitionId() == 3 and TaskContext.get().attemptNumber() == 0:
            time.sleep(120)

    started = time.monotonic()
    frame = spark.range(0, ROWS, 1, 4).selectExpr("id", "id % 3 as p")
    frame = frame.mapInArrow(hanging, "id long, p long")
    commit = tablefmt.spark.write(frame, uri, partition_by=["p"])
    won = time.monotonic() - started < 110
    return {"won": won, **content(uri), "said": dict(commit.metrics)}


TASKS = 200


def slow_identity(spark: Any, uri: str) -> dict[str, Any]:
    """Two appends of 200 tasks at once, where attempts hang after all their rows; others win."""

    def hanging(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import time

        from pyspark import TaskContext

        yield from batches
        context = TaskContext.get()
        if context.partitionId() == 7 and context.attemptNumber() == 0:
            time.sleep(120)

    tablefmt.spark.register(spark)
    tablefmt.create(uri, "id BIGINT GENERATED ALWAYS AS IDENTITY, v BIGINT")
    parts = [
        spark.range(n * ROWS, (n + 1) * ROWS, 1, TASKS)
        .withColumnRenamed("id", "v")
        .mapInArrow(hanging, "v long")
        for n in range(2)
    ]
    started = time.monotonic()
    writes: list[Callable[[], Any]] = [
        lambda: tablefmt.spark.open(spark, uri).append(parts[0]),
        lambda: parts[1].write.format("tablefmt").mode("append").save(uri),
    ]
    with ThreadPoolExecutor() as threads:
        for done in [threads.submit(write) for write in writes]:
            done.result()
    table = tablefmt.open(uri)
    rows, files = table.to_arrow(), table.scan().files()
    named = {f"{uri}/{path}" for path in files["path"].to_pylist()}
    return {
        "won": time.monotonic() - started < 110,
        "rows": rows.num_rows,
        "files": files.num_rows,
        "values": len(set(rows["v"].to_pylist())),
        "ids": len(set(rows["id"].to_pylist())),
        "least": min(rows["id"].to_pylist()),
        "strays": sorted(set(data_files(uri)) - named),
    }


def four_files(spark: Any, uri: str, **properties: Any) -> Any:
    """Ids from 0 in four files, with a zero each."""
    tablefmt.create(uri, "id BIGINT, n BIGINT", properties=properties)
    table = tablefmt.spark.open(spark, uri)
    table.append(spark.range(0, ROWS, 1, 4).selectExpr("id", "0L AS n"))
    return table


def changed(uri: str, before: list[str], expected: list[tuple[int, int]]) -> dict[str, Any]:
    """Return whether a table has exactly these rows, and the new files on disk and in the log."""
    table = tablefmt.open(uri)
    columns = table.to_arrow().select(["id", "n"]).to_pydict().values()
    named = {f"{uri}/{f}" for f in table.context.view.snapshot().files["path"].to_pylist()}
    new = set(data_files(uri)) - set(before)
    return {
        "same_rows": sorted(zip(*columns, strict=True)) == expected,
        "new_files": len(new),
        "strays": sorted(new - named),
        "missing": sorted(named - set(data_files(uri))),
    }


def slow_merge(spark: Any, uri: str) -> dict[str, Any]:
    """The first attempt at the rows of one file hangs within a new value; another one wins."""
    from pyspark.sql import functions

    table = four_files(spark, uri)
    before = data_files(uri)

    def hanging(value: int) -> int:
        import time

        from pyspark import TaskContext

        context = TaskContext.get()
        if value % 5000 == 4000 and context.partitionId() == 3 and context.attemptNumber() == 0:
            time.sleep(120)
        return value + 1

    spark.udf.register("hanging", functions.udf(hanging, "long"))
    source = spark.range(0, ROWS + 10, 2).withColumnRenamed("id", "k")
    started = time.monotonic()
    merge = table.merge(source, "t.id = s.k").when_matched_update({"n": "hanging(t.id)"})
    merge.when_not_matched_insert({"id": "s.k", "n": "-1"}).execute()
    won = time.monotonic() - started < 110
    expected = [(i, i + 1 if i % 2 == 0 else 0) for i in range(ROWS)]
    expected += [(i, -1) for i in range(ROWS, ROWS + 10, 2)]
    return {"won": won, **changed(uri, before, expected)}


class HangingCopy(row_level_operations.CopyRowsTask):
    """Hangs when the first attempt has written what stays of the last file."""

    __slots__ = ()

    def copy_rows(self, file: pa.Table, number: int) -> Any:
        import time

        from pyspark import TaskContext

        done = row_level_operations.CopyRowsTask.copy_rows(self, file, number)
        if number == 3 and TaskContext.get().attemptNumber() == 0:
            time.sleep(120)
        return done


def slow_delete(spark: Any, uri: str) -> dict[str, Any]:
    """Copy-on-write: the first attempt at one file hangs when its file is written already."""
    table = four_files(spark, uri, deleteMode="copy-on-write")
    before = data_files(uri)
    usual, row_level_operations.CopyRowsTask = row_level_operations.CopyRowsTask, HangingCopy
    started = time.monotonic()
    try:
        table.delete("id % 2 = 0")
    finally:
        row_level_operations.CopyRowsTask = usual
    won = time.monotonic() - started < 110
    return {"won": won, **changed(uri, before, [(i, 0) for i in range(1, ROWS, 2)])}


def stopped_session(spark: Any, uri: str) -> dict[str, Any]:
    """The session is stopped while a write runs. Comes last."""
    return stopped(spark, uri, lambda frame: tablefmt.spark.write(frame, uri))


def stopped_format(spark: Any, uri: str) -> dict[str, Any]:
    """The same through format(). Comes last."""
    tablefmt.spark.register(spark)
    return stopped(spark, uri, lambda f: f.write.format("tablefmt").mode("append").save(uri))


def stopped(spark: Any, uri: str, append: Callable[[Any], Any]) -> dict[str, Any]:
    """Return the outcome of an append whose session is stopped, and the state of the table."""
    tablefmt.spark.write(spark.range(5), uri)
    before = everything(uri)
    marker = uri + ".running"

    def slowly(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import time

        for batch in batches:
            yield batch
            Path(marker).touch()
            time.sleep(60)

    raised: list[BaseException] = []

    def write() -> None:
        try:
            append(spark.range(0, 400, 1, 4).mapInArrow(slowly, "id long"))
        except BaseException as error:
            raised.append(error)

    writer = threading.Thread(target=write)
    writer.start()
    deadline = time.monotonic() + 60
    while not Path(marker).exists() and time.monotonic() < deadline:
        time.sleep(0.1)
    spark.stop()
    writer.join(60)
    table = tablefmt.open(uri)
    return {
        "raised": [type(error).__name__ for error in raised],
        "said": [str(error).partition(". Nothing")[0] for error in raised],
        "alive": writer.is_alive(),
        "version": table.version,
        "rows": table.to_arrow().num_rows,
        "strays": strays(uri, before),
    }


def first_write(spark: Any, uri: str) -> dict[str, Any]:
    """One of several processes that all make the same table."""
    Path(f"{uri}.ready.{spark.sparkContext.applicationId}").touch()
    deadline = time.monotonic() + 60
    while len(list(Path(uri).parent.glob("*.ready.*"))) < 2 and time.monotonic() < deadline:
        time.sleep(0.02)
    versions = [tablefmt.spark.write(spark.range(10), uri).version for _ in range(5)]
    return {"versions": versions}


def content(uri: str) -> dict[str, Any]:
    """Return the content of a table of ids from 0, and whether disk and log agree."""
    table = tablefmt.open(uri)
    ids = sorted(table.to_arrow()["id"].to_pylist())
    named = sorted(f"{uri}/{f}" for f in table.context.view.snapshot().files["path"].to_pylist())
    return {
        "rows": len(ids),
        "one_copy_each": ids == list(range(ROWS)),
        "no_leftovers": data_files(uri) == named,
    }


SCENARIOS: dict[str, Callable[[Any, str], dict[str, Any]]] = {
    f.__name__: f
    for f in (
        killed_merge,
        slow_attempt,
        slow_identity,
        slow_merge,
        slow_delete,
        stopped_session,
        stopped_format,
        first_write,
    )
}


def main(master: str, folder: str, *names: str) -> None:
    """Run the scenarios in one session."""
    spark = tablefmt.spark.session(
        "cluster",
        master=master,
        **{
            "spark.driver.memory": "1g",
            "spark.executor.memory": "700m",
            # They live for seconds, as the driver of a test does (tests/conftest.py).
            "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
            # The workers run Python code of the package.
            "spark.executorEnv.PYTHONPATH": str(ROOT),
            "spark.sql.shuffle.partitions": "2",
            "spark.speculation": str(any(name.startswith("slow_") for name in names)).lower(),
            "spark.speculation.interval": "100ms",
            "spark.speculation.quantile": "0.5",
            "spark.speculation.minTaskRuntime": "1s",
        },
    )
    spark.sparkContext.setLogLevel("OFF")
    for name in names:
        print(json.dumps({name: SCENARIOS[name](spark, f"{folder}/{name}")}), flush=True)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
