"""A table's life on Spark. Run as a program with JSON: see test_spark_on_clouds.py.

A plain Python model says what each table holds.
"""

from __future__ import annotations

import io
import itertools
import json
import logging
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tablefmt
import tablefmt.spark
from tablefmt.spark.backends.backend_choice import choose
from tablefmt.store.location import open_store
from tests.spark.s3.leaks_job import by_path, explained, in_sql

DDL = "id BIGINT, part BIGINT, s STRING"
COLUMNS = ("id", "id % 3 AS part", "concat('s', id) AS s")

Row = tuple[int, int, str]


def made(*ids: int) -> dict[int, Row]:
    """Return what COLUMNS makes of ids, by id."""
    return {i: (i, i % 3, f"s{i}") for i in ids}


def passing(
    folder: str, slow: bool
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return a function for mapInArrow whose tasks go wrong, the first time, after they gave rows.

    Task 0 raises and task 1 kills its executor. Or task 2 is slow, so that Spark runs it a second
    time beside the first. Each attempt leaves a mark in the folder.
    """

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import os
        import signal
        import time
        from pathlib import Path

        from pyspark import TaskContext

        from tests.python_forks import executor

        context = TaskContext.get()
        assert context is not None
        task = context.partitionId()
        Path(folder, f"{task}-{context.taskAttemptId()}").touch()
        yield from batches
        try:
            os.close(os.open(Path(folder, f"first-{task}"), os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return
        if slow and task == 2:
            time.sleep(90)
        if not slow and task == 0:
            raise RuntimeError("once")
        if not slow and task == 1:
            os.kill(executor(), signal.SIGKILL)

    return run


class Job:
    """One application, and the place of its tables."""

    def __init__(self, given: dict[str, Any]) -> None:
        self.uri: str = given["uri"]
        self.options: dict[str, Any] = given["options"]
        self.plane: str = given["plane"]
        self.work = Path(given["work"])
        conf = {"spark.jars": ",".join(given["jars"])} if given["jars"] else {}
        events = self.work / "events"
        events.mkdir()
        self.spark = tablefmt.spark.session(
            "clouds",
            master=given["master"],
            **{
                **conf,
                "spark.eventLog.enabled": "true",
                "spark.eventLog.dir": events.as_uri(),
                "spark.executor.memory": "700m",
                "spark.executorEnv.PYTHONPATH": given["path"],
                "spark.sql.shuffle.partitions": "2",
                "spark.sql.warehouse.dir": str(self.work / "warehouse"),
                "spark.speculation": "true",
                "spark.speculation.interval": "100ms",
                "spark.speculation.quantile": "0.5",
                "spark.speculation.minTaskRuntime": "3s",
            },
        )
        self.spark.sparkContext.setLogLevel("INFO")
        tablefmt.spark.register(self.spark)

    def frame(self, ids: range) -> Any:
        return self.spark.range(ids.start, ids.stop, ids.step, 4).selectExpr(*COLUMNS)

    def open(self, below: str) -> Any:
        return tablefmt.open(self.uri + below, storage_options=self.options)

    def check(self, below: str, rows: dict[int, Row], version: int | None = None) -> None:
        """Compare a table with the model, as Spark reads it and without Spark."""
        expected = sorted(rows.values())
        frame = tablefmt.spark.read(
            self.spark, self.uri + below, version=version, storage_options=self.options
        )
        assert sorted(map(tuple, frame.collect())) == expected
        if version is None:
            some = frame.where("part = 1 AND id < 50").select("id").collect()
            wanted = [i for i, part, _ in expected if part == 1 and i < 50]
            assert sorted(row.id for row in some) == wanted
        found = self.open(below).to_arrow(version=version).to_pydict()
        assert sorted(zip(*found.values(), strict=True)) == expected

    def sound(self, below: str, late: int = 0) -> None:
        """Check that the table is sound, and that nothing else is in its folder.

        Args:
            below: what follows the root in the table's address.
            late: at most so many files of copies of slow tasks may be left to vacuum. Such a copy
                may still write when the transaction ends.
        """
        report = self.open(below).verify(deep=True)
        assert report.findings == (), report
        assert sum(one.files for one in report.unnamed) <= late, report


def life(job: Job) -> None:
    """Every kind of change, and every version afterwards."""
    uri, options = job.uri, job.options
    tablefmt.create(uri, DDL, partition_by=["part"], storage_options=options)
    table = tablefmt.spark.open(job.spark, uri, storage_options=options)
    versions: list[dict[int, Row]] = [{}]

    def then(rows: dict[int, Row]) -> None:
        versions.append(rows)
        assert table.table.refresh().version == len(versions) - 1
        job.check("", rows)

    tablefmt.spark.write(job.frame(range(100)), uri, storage_options=options)
    then(made(*range(100)))
    table.overwrite(job.frame(range(60)))
    then(made(*range(60)))
    table.overwrite(job.frame(range(100, 130, 3)), where="part = 1")
    rows = {i: row for i, row in versions[-1].items() if row[1] != 1}
    then(rows | made(*range(100, 130, 3)))
    source = job.frame(range(50, 70)).selectExpr("id", "part", "'merged' AS s")
    merge = table.merge(source, "t.id = s.id").when_matched_update_all()
    merge.when_not_matched_insert_all().execute()
    then(versions[-1] | {i: (i, i % 3, "merged") for i in range(50, 70)})
    table.update({"s": "concat(s, '!')", "part": "5"}, "id < 10")
    changed = {i: (i, 5, f"{r[2]}!") for i, r in versions[-1].items() if i < 10}
    then(versions[-1] | changed)
    table.delete("id % 2 = 0")
    then({i: row for i, row in versions[-1].items() if i % 2})
    table.compact()
    then(versions[-1])
    for version, rows in enumerate(versions):
        job.check("", rows, version)
    job.sound("")


def stream(job: Job) -> None:
    """A stream from one table into another."""
    source, sink = f"{job.uri}-source", f"{job.uri}-sink"
    options = {f"storage.{name}": value for name, value in job.options.items()}
    for at in range(2):
        ids = range(100 * at, 100 * at + 50)
        tablefmt.spark.write(job.frame(ids), source, storage_options=job.options)
        reader = job.spark.readStream.format("tablefmt").options(**options).load(source)
        writer = reader.writeStream.format("tablefmt").options(**options)
        writer = writer.option("checkpointLocation", str(job.work / "checkpoint"))
        writer.trigger(availableNow=True).start(sink).awaitTermination()
    job.check("-sink", made(*range(50), *range(100, 150)))
    job.sound("-sink")


def faults(job: Job) -> None:
    """Tasks that fail, die and run twice: every row once, and no other files."""
    for slow, partition_by in itertools.product((False, True), ([], ["part"])):
        below = f"-{'slow' if slow else 'dying'}{len(partition_by)}"
        folder = job.work / f"marks{below}"
        folder.mkdir()
        frame = job.frame(range(4000)).mapInArrow(
            passing(str(folder), slow), "id long, part long, s string"
        )
        tablefmt.spark.write(
            frame, job.uri + below, partition_by=partition_by, storage_options=job.options
        )
        marks = Counter(path.name.partition("-")[0] for path in folder.iterdir())
        assert all(marks[str(task)] >= 2 for task in ([2] if slow else [0, 1])), marks
        job.check(below, made(*range(4000)))
        job.sound(below, late=(3 if partition_by else 1) if slow else 0)


def failed(job: Job) -> None:
    """A job that fails for good leaves no version and no file."""
    uri = f"{job.uri}-failed"
    tablefmt.create(uri, DDL, partition_by=["part"], storage_options=job.options)
    bad = job.frame(range(1000)).selectExpr(
        "if(id = 999, raise_error('mine'), id) AS id", "part", "s"
    )
    with pytest.raises(Exception, match="mine"):
        tablefmt.spark.write(bad, uri, storage_options=job.options)
    assert job.open("-failed").version == 0
    job.sound("-failed")


def shown(job: Job) -> dict[str, str]:
    """Return what Spark shows of reads and writes."""
    uri = f"{job.uri}-shown"
    options = {f"storage.{name}": value for name, value in job.options.items()}
    texts = {**by_path(job.spark, uri, options)}
    texts |= in_sql(job.spark, uri, options, job.plane == "native")
    frame = tablefmt.spark.read(job.spark, uri, storage_options=job.options)
    texts["plans of a function"] = explained(frame)
    texts["settings"] = str(job.spark.sparkContext.getConf().getAll())
    hadoop = job.spark.sparkContext._jsc.hadoopConfiguration()
    texts["Hadoop's settings"] = str([str(entry) for entry in hadoop.iterator()])
    return texts


def main(given: dict[str, Any]) -> None:
    log = io.StringIO()
    logging.getLogger("tablefmt.spark").addHandler(logging.StreamHandler(log))
    job = Job(given)
    chosen = choose(job.spark, open_store(job.uri, job.options))
    assert chosen.name == job.plane, chosen
    for part in (life, stream, faults, failed):
        began = time.monotonic()
        part(job)
        print(part.__name__, f"{time.monotonic() - began:.0f} s", flush=True)
    texts = shown(job)
    job.spark.stop()
    texts["log"] = log.getvalue()
    for path in job.work.rglob("*"):
        if path.is_file():
            texts[str(path)] = path.read_bytes().decode("latin-1")
    found = [where for where, text in texts.items() if given["secret"] in text]
    assert found == [], found
    said = [line for line in log.getvalue().splitlines() if "goes through Arrow" in line]
    tables = {line.split(" goes through")[0] for line in said}
    assert len(said) == len(tables), said
    assert bool(said) == (job.plane == "arrow"), said
    print("passed")


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
