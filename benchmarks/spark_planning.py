"""Measure seconds from `read` to the first task for 20,000 files, against plain Parquet by path.

python -m benchmarks.spark_planning [--files 20000] [--rounds 5] [--plain-files 2000]
"""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
import time
from typing import Any

import pyarrow as pa

import tablefmt.spark
from benchmarks.harness import run_alternating, save, summary
from tablefmt.data.column_bounds import stats_columns
from tablefmt.data.data_writer import write_data
from tablefmt.data.file_descriptions import describe_files
from tablefmt.model.log_entry import AddedFiles
from tablefmt.operations.append import append_files
from tablefmt.session.commit_options import CommitOptions
from tablefmt.session.staging import commit_staged

ROWS = 100


def build(uri: str, files: int) -> tablefmt.Table:
    """Commit many copies of one small file, with invented ascending bounds."""
    given = pa.table({"id": list(range(ROWS)), "v": [i / 2 for i in range(ROWS)]})
    table = tablefmt.create(uri, given.schema)
    context = table.context
    metadata = context.view.head.metadata
    transaction = context.environment.nonce()
    stats = stats_columns(metadata.schema)
    first = write_data(context.store, transaction, given.to_reader(), metadata, stats)
    assert first is not None
    (path,) = first.columns["path"]
    folder = os.path.dirname(path)
    described = describe_files(context.store, [(path, first.columns["size"][0])], metadata, stats)
    assert described is not None
    columns = {name: list(values) * files for name, values in described.columns.items()}
    columns["path"] = [f"{folder}/copy-{i:06d}.parquet" for i in range(files)]
    columns["lower.1"] = [i * ROWS for i in range(files)]
    columns["upper.1"] = [i * ROWS + ROWS - 1 for i in range(files)]
    for name in columns["path"]:
        shutil.copyfile(f"{uri}/{path}", f"{uri}/{name}")
    os.unlink(f"{uri}/{path}")
    version = context.view.head.version
    staged = append_files(transaction, AddedFiles(columns), metadata, read_version=version)
    commit_staged(context, staged, CommitOptions())
    return table


class Launches:
    """Launch times of first tasks, by Spark's clock (milliseconds since 1970)."""

    def __init__(self, spark: Any) -> None:
        self.spark = spark
        self.store = spark._jsparkSession.sparkContext().statusStore()

    def first_after(self, moment: float) -> float:
        """Return the first launch (time.time) of a stage submitted after `moment`."""
        self.spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()
        jvm, gateway = self.spark._jvm, self.spark.sparkContext._gateway
        stages = self.store.stageList(
            None, False, False, gateway.new_array(jvm.double, 0), jvm.java.util.ArrayList()
        )
        first = min(
            stages.apply(i).firstTaskLaunchedTime().get().getTime()
            for i in range(stages.size())
            if stages.apply(i).submissionTime().isDefined()
            and stages.apply(i).submissionTime().get().getTime() >= moment * 1000 - 1
            and stages.apply(i).firstTaskLaunchedTime().isDefined()
        )
        return float(first / 1000)


def run(files: int, rounds: int, plain_files: int) -> None:
    work = tempfile.mkdtemp(prefix="spark_planning")
    spark = tablefmt.spark.session("benchmark", master="local[2]", **{"spark.driver.memory": "4g"})
    spark.sparkContext.setLogLevel("ERROR")
    launches = Launches(spark)
    table = build(f"{work}/table", files)
    paths = [
        f"{work}/table/{path}"
        for path in table.refresh().context.view.snapshot().files["path"].to_pylist()
    ]

    def first_task(reader: Any, condition: str | None = None) -> Any:
        def measure() -> float:
            start = time.time()
            frame = reader()
            # Plain Parquet runs jobs of its own to list files; it is the scan that counts.
            listed = time.time()
            if condition is not None:
                frame = frame.where(condition)
            frame.select("v").limit(1).write.format("noop").mode("overwrite").save()
            return launches.first_after(listed) - start

        return measure

    figures = run_alternating(
        {
            "all files": first_task(lambda: tablefmt.spark.read(spark, f"{work}/table")),
            "one file, filtered": first_task(
                lambda: tablefmt.spark.read(spark, f"{work}/table"), f"id = {files * ROWS // 2}"
            ),
        },
        rounds,
        warm_up=1,
    )
    plain = run_alternating(
        {
            f"plain parquet, {plain_files} files": first_task(
                lambda: spark.read.parquet(*paths[:plain_files])
            )
        },
        rounds=1,
    )
    save(
        "spark_planning",
        {
            "files": files,
            "measured": "from read (with an uncached log) to the launch of the first task",
            "seconds": summary(figures | plain),
            "target_seconds": 1.0,
            "plain": f"spark.read.parquet(*paths) of {plain_files} files, once",
        },
    )
    spark.stop()
    shutil.rmtree(work)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--files", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--plain-files", type=int, default=20_000)
    arguments = parser.parse_args()
    run(arguments.files, arguments.rounds, arguments.plain_files)
