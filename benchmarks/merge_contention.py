"""Count failures of two concurrent MERGEs, or UPDATEs, of different rows of one table.

python -m benchmarks.merge_contention [--tries 16] [--rows 10000] [--jars FOLDER]
                                      [--kinds arrow,deltalake,tablefmt,iceberg,delta]

Each of 16 attempts starts with a table of one file and two writers that start at the same moment.
One changes every tenth of the even keys, the other every tenth of the odd keys. A MERGE also
inserts its own keys. The bounds of their changes therefore overlap.

On Arrow the writers are two processes, with deltalake as the peer. On Spark they are two sessions
of one local[2], in threads. Iceberg 1.12 with version 3 and merge-on-read, and Delta with deletion
vectors, run if --jars names their jars (README.md). After each attempt the program checks that no
successful change is lost. Seconds are those of both writers together.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import shutil
import statistics
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

import tablefmt
from benchmarks.harness import in_own_process, save

ON_ARROW = ("arrow", "deltalake")
ON_SPARK = ("tablefmt", "iceberg", "delta")
STATEMENTS = ("merge", "update")
STEP = 20
"""A writer changes every so manieth row; the two begin beside each other."""
NEW = 50
"""Rows that a MERGE inserts."""

Result = dict[str, Any]


def table_rows(count: int) -> pa.Table:
    """Return keys from 0, each with the value 0."""
    return pa.table(
        {"k": pa.array(range(count), pa.int64()), "v": pa.array([0] * count, pa.int64())}
    )


def source_rows(writer: int, count: int) -> pa.Table:
    """Return the rows that one writer changes, and new rows; both alternate with the other's."""
    keys = [*range(writer, count, STEP), *range(count + writer, count + 2 * NEW, 2)]
    return pa.table(
        {"k": pa.array(keys, pa.int64()), "v": pa.array([writer + 1] * len(keys), pa.int64())}
    )


def changed(statement: str, count: int) -> int:
    """Return the number of rows with a writer's value after its statement."""
    return len(range(0, count, STEP)) + (NEW if statement == "merge" else 0)


def run_arrow(kind: str, statement: str, folder: str, writer: int, count: int) -> None:
    """Run one statement of one writer."""
    where = f"k % {STEP} = {writer}"
    if kind == "arrow":
        table = tablefmt.open(folder)
        if statement == "update":
            table.update({"v": str(writer + 1)}, where)
            return
        merge = table.merge(source_rows(writer, count), "t.k = s.k").when_matched_update(
            {"v": "s.v"}
        )
        merge.when_not_matched_insert_all().execute()
        return
    from deltalake import DeltaTable

    delta = DeltaTable(folder)
    if statement == "update":
        delta.update(updates={"v": str(writer + 1)}, predicate=where)
        return
    source = source_rows(writer, count)
    work = delta.merge(source, "t.k = s.k", source_alias="s", target_alias="t")
    work.when_matched_update({"v": "s.v"}).when_not_matched_insert_all().execute()


def worker(kind: str, count: int, writer: int, start: Any, tasks: Any, results: Any) -> None:
    """Run a statement for each given folder, at the same moment as the other process."""
    while (task := tasks.get()) is not None:
        statement, folder = task
        start.wait()
        begun, error = time.perf_counter(), None
        try:
            run_arrow(kind, statement, folder, writer, count)
        except Exception as refused:
            error = f"{type(refused).__name__}: {refused}"[:200]
        results.put((error, begun, time.perf_counter()))


def arrow_values(kind: str, folder: str) -> list[int]:
    """Return the column `v`."""
    if kind == "arrow":
        found: list[int] = tablefmt.open(folder).to_arrow()["v"].to_pylist()
        return found
    from deltalake import DeltaTable

    values: list[int] = pa.table(DeltaTable(folder).to_pyarrow_table())["v"].to_pylist()
    return values


def new_arrow(kind: str, folder: str, count: int) -> None:
    """Create a table of one file."""
    if kind == "arrow":
        tablefmt.create(folder, "k BIGINT, v BIGINT").append(table_rows(count))
        return
    from deltalake import write_deltalake

    write_deltalake(folder, table_rows(count))


def of_arrow(kind: str, count: int, tries: int, root: str) -> dict[str, Result]:
    """Run all statements of one format on Arrow, with two processes."""
    context = multiprocessing.get_context("spawn")
    start, results = context.Barrier(2), context.Queue()
    queues = [context.Queue() for _ in range(2)]
    workers = [
        context.Process(target=worker, args=(kind, count, n, start, queues[n], results))
        for n in range(2)
    ]
    for process in workers:
        process.start()

    def both(statement: str, folder: str) -> tuple[list[str | None], float]:
        for queue in queues:
            queue.put((statement, folder))
        said = [results.get(timeout=300) for _ in workers]
        return [error for error, _, _ in said], max(s[2] for s in said) - min(s[1] for s in said)

    try:
        return {
            statement: contest(
                statement,
                count,
                tries,
                lambda place: new_arrow(kind, place, count),
                both,
                lambda place: arrow_values(kind, place),
                f"{root}/{kind}_{statement}",
            )
            for statement in STATEMENTS
        }
    finally:
        for queue in queues:
            queue.put(None)
        for process in workers:
            process.join(30)


def contest(
    statement: str,
    count: int,
    tries: int,
    create: Callable[[str], None],
    both: Callable[[str, str], tuple[list[str | None], float]],
    values: Callable[[str], list[int]],
    place: str,
) -> Result:
    """Run the attempts after one that is not counted, with a table for each."""
    errors: list[str] = []
    seconds, failed = [], 0
    for at in range(tries + 1):
        name = f"{place}_{at}"
        create(name)
        said, took = both(statement, name)
        refused = [error for error in said if error is not None]
        found = values(name)
        kept = (2 - len(refused)) * changed(statement, count)
        if sum(1 for v in found if v) != kept or len(refused) == 2:
            raise SystemExit(f"{place}: a change was lost, or both failed: {refused}")
        if at:
            seconds.append(took)
            failed += bool(refused)
            errors += refused
    return {
        "tries": tries,
        "failed": failed,
        "seconds": {"min": min(seconds), "median": statistics.median(seconds)},
        "errors": sorted({error.split("(")[0].split(":")[0] for error in errors}),
        "first_error": errors[0] if errors else None,
    }


def of_spark(kind: str, jars: Path, count: int, tries: int) -> dict[str, Result]:
    """Run all statements of one format in this process, in two threads with a session each."""
    import tablefmt.spark
    from benchmarks.spark_dml import Tables
    from benchmarks.spark_peers import settings

    work = tempfile.mkdtemp(prefix="merge_contention")
    spark = tablefmt.spark.session("benchmark", master="local[2]", **settings(kind, jars, work))
    spark.sparkContext.setLogLevel("OFF")
    try:
        tables = [Tables(kind, s, work) for s in (spark, spark.newSession())]
        for writer, each in enumerate(tables):
            rows = each.spark.createDataFrame(source_rows(writer, count))
            rows.createOrReplaceTempView("source")

        def create(name: str) -> None:
            tables[0].create(name, spark.createDataFrame(table_rows(count)).coalesce(1))

        def both(statement: str, name: str) -> tuple[list[str | None], float]:
            return at_once(tables, statement, name)

        def values(name: str) -> list[int]:
            shown = tables[0].spark.table(tables[0].name(name)).toArrow()
            found: list[int] = pc.fill_null(shown["v"], 0).to_pylist()
            return found

        return {
            statement: contest(statement, count, tries, create, both, values, statement)
            for statement in STATEMENTS
        }
    finally:
        spark.stop()
        shutil.rmtree(work)


def at_once(tables: list[Any], statement: str, name: str) -> tuple[list[str | None], float]:
    """Run the statement of both writers in threads; return the errors and the seconds."""
    start = threading.Barrier(2)
    said: list[str | None] = [None, None]
    begun, ended = [0.0, 0.0], [0.0, 0.0]

    def run(writer: int) -> None:
        text = f"UPDATE {{t}} SET v = {writer + 1} WHERE k % {STEP} = {writer}"
        if statement == "merge":
            text = (
                "MERGE INTO {t} t USING source s ON t.k = s.k "
                "WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED THEN INSERT *"
            )
        start.wait()
        begun[writer] = time.perf_counter()
        try:
            tables[writer].run(text, name)
        except Exception as refused:
            said[writer] = f"{type(refused).__name__}: {refused}"[:200]
        ended[writer] = time.perf_counter()

    threads = [threading.Thread(target=run, args=(n,)) for n in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return said, max(ended) - min(begun)


def main() -> None:
    """Run and save the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tries", type=int, default=16)
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--jars", type=Path)
    parser.add_argument("--kinds", default="")
    parser.add_argument("--one", choices=ON_SPARK, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        print(json.dumps(of_spark(given.one, given.jars or Path(), given.rows, given.tries)))
        return
    kinds = given.kinds.split(",") if given.kinds else [*ON_ARROW, "tablefmt"]
    if given.jars and not given.kinds:
        kinds += ["iceberg", "delta"]
    found: dict[str, dict[str, Result]] = {}
    with tempfile.TemporaryDirectory(prefix="merge_contention") as root:
        for kind in kinds:
            if kind in ON_ARROW:
                found[f"{kind}, two processes"] = of_arrow(kind, given.rows, given.tries, root)
                continue
            said = in_own_process(
                "merge_contention",
                kind,
                *("--rows", given.rows, "--tries", given.tries),
                *("--jars", given.jars or Path()),
            )
            found[f"{kind} on Spark, two sessions"] = said
            print(kind, said, flush=True)
    save("merge_contention", {"rows": given.rows, "contests": found})


if __name__ == "__main__":
    main()
