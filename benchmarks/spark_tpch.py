"""Run the 22 queries of TPC-H on our tables and on plain Parquet with equal rows and file counts.

python -m benchmarks.spark_tpch [--scale 1] [--rounds 5] [--warm-up 2] [--queries q01,q06]
                                 [--ways catalog] [--cache FOLDER]

tpchgen-cli generates the rows once per scale and cache folder. Every result is compared.
"""

from __future__ import annotations

import argparse
import math
import shutil
import statistics
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tablefmt.spark
from benchmarks.harness import (
    CACHE,
    run_alternating,
    save,
    spark_clock,
    summary,
    tpch_rows,
    with_processor_time,
)
from benchmarks.tpch import TABLES, queries

PLAIN, OURS = "parquet", "tablefmt"


def write_both(spark: Any, source: Path, work: str) -> dict[str, dict[str, int]]:
    """Write both forms of every table; return the number of files of each."""
    counts = {}
    for name in TABLES:
        frame = spark.read.parquet(str(source / f"{name}.parquet"))
        plain, ours = f"{work}/{PLAIN}/{name}", f"{work}/{OURS}/{name}"
        frame.write.option("compression", "zstd").parquet(plain)
        tablefmt.spark.write(frame, ours)
        counts[name] = {PLAIN: files_below(plain), OURS: files_below(ours)}
        assert counts[name][PLAIN] == counts[name][OURS], (name, counts[name])
    return counts


def files_below(folder: str) -> int:
    return sum(1 for _ in Path(folder).rglob("*.parquet"))


def sessions(spark: Any, work: str) -> dict[str, Any]:
    """Return a session for each way, each with all tables under their plain names."""
    made = {name: spark.newSession() for name in ("parquet by path", "tablefmt by path")}
    for table in TABLES:
        plain, ours = f"{work}/{PLAIN}/{table}", f"{work}/{OURS}/{table}"
        session = made["parquet by path"]
        session.read.parquet(plain).createOrReplaceTempView(table)
        session = made["tablefmt by path"]
        tablefmt.spark.read(session, ours).createOrReplaceTempView(table)
    if hasattr(tablefmt.spark, "register"):
        for kind in (PLAIN, OURS):
            session = spark.newSession()
            tablefmt.spark.register(session)
            session.sql(f"CREATE DATABASE of_{kind}")
            session.sql(f"USE of_{kind}")
            for table in TABLES:
                path = f"{work}/{kind}/{table}"
                session.sql(f"CREATE TABLE {table} USING {kind} OPTIONS (path '{path}')")
            made[f"{kind} in the catalog"] = session
    return made


Seconds = dict[str, list[float]]
"""One figure a round, by the way."""


def run_query(
    ways: dict[str, Any], text: str, rounds: int, warm_up: int, clock: Callable[[], float]
) -> tuple[Seconds, Seconds]:
    """Return the seconds from text to rows, and those of the processor, alternating; check that all
    rows are equal.
    """
    answers: dict[str, list[str]] = {}

    def asking(name: str, session: Any) -> Callable[[], None]:
        def ask() -> None:
            answers[name] = [repr(row) for row in session.sql(text).collect()]

        return ask

    cases = {name: asking(name, session) for name, session in ways.items()}
    measured, spent = with_processor_time(cases, clock)
    figures = run_alternating(measured, rounds, warm_up)
    expected = sorted(next(answers[name] for name in ways if name.startswith(PLAIN)))
    for name, found in answers.items():
        assert sorted(found) == expected, f"{name} answers otherwise"
    return figures, {name: values[warm_up:] for name, values in spent.items()}


def compared(figures: dict[str, Seconds], ours: str, plain: str) -> dict[str, Any]:
    """Return ratios of the minima and medians by query, with their geometric means."""
    result: dict[str, Any] = {}
    for name, of in (("min", min), ("median", statistics.median)):
        ratios = {query: of(f[ours]) / of(f[plain]) for query, f in figures.items()}
        mean = math.exp(sum(map(math.log, ratios.values())) / len(ratios))
        seconds = [sum(of(f[way]) for f in figures.values()) for way in (ours, plain)]
        result[name] = {"geometric_mean": mean, "seconds": seconds, "by_query": ratios}
    return result


def main() -> None:
    """Run and save the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", default="1", help="GB, as tpchgen-cli takes it; 0.1 will do")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--warm-up", type=int, default=2, help="rounds that do not count")
    parser.add_argument("--queries", default="", help="names, commas between; all of them")
    parser.add_argument("--ways", choices=("path", "catalog"), help="one of them; both")
    parser.add_argument("--cache", type=Path, default=CACHE, help="keeps the generated rows")
    given = parser.parse_args()
    source = tpch_rows(given.cache / f"tpch-{given.scale}", given.scale)
    wanted = {n: t for n, t in queries().items() if not given.queries or n in given.queries}
    work = tempfile.mkdtemp(prefix="spark_tpch")
    settings = {
        "spark.driver.memory": "6g",
        "spark.sql.shuffle.partitions": "4",
        "spark.sql.warehouse.dir": f"{work}/warehouse",
    }
    spark = tablefmt.spark.session("benchmark", master="local[2]", **settings)
    spark.sparkContext.setLogLevel("ERROR")
    try:
        files = write_both(spark, source, work)
        ways = {
            way: session
            for way, session in sessions(spark, work).items()
            if way.endswith(given.ways or "")
        }
        figures: dict[str, Seconds] = {}
        processor: dict[str, Seconds] = {}
        clock = spark_clock(spark)
        for name, text in wanted.items():
            print(name, flush=True)
            figures[name], processor[name] = run_query(
                ways, text, given.rounds, given.warm_up, clock
            )
        pairs = [(way, way.replace(OURS, PLAIN, 1)) for way in ways if way.startswith(OURS)]

        def with_total(found: dict[str, Seconds]) -> dict[str, Any]:
            """Return summaries by query, and of all queries together if all ran."""
            total = {}
            if len(wanted) == len(queries()):
                rounds = {way: zip(*(f[way] for f in found.values()), strict=True) for way in ways}
                total["total"] = {way: [sum(each) for each in of] for way, of in rounds.items()}
            return {name: summary(each) for name, each in {**found, **total}.items()}

        payload = {
            "scale": given.scale,
            "files": files,
            "ratios": {f"{a} / {b}": compared(figures, a, b) for a, b in pairs},
            "target_geometric_mean": 1.05,
            "processor_ratios": {f"{a} / {b}": compared(processor, a, b) for a, b in pairs},
            "seconds": with_total(figures),
            "processor_seconds": with_total(processor),
        }
        save("spark_tpch", payload)
    finally:
        spark.stop()
        shutil.rmtree(work)


if __name__ == "__main__":
    main()
