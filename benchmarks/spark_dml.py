"""Measure MERGE, UPDATE, DELETE and a scan afterwards in SQL: tablefmt, Iceberg v3 and Delta.

python -m benchmarks.spark_dml --jars FOLDER [--rows 8000000] [--times 3] [--rounds 2]
                               [--formats tablefmt,iceberg,delta]

The table has six columns in eight files. The statements are:

- a MERGE of 100,000 rows, of which half match, spread over the table
- an UPDATE of 1 % and a DELETE of 1 %, each spread over all files
- count and sum of the remaining rows

Every repetition uses other rows of the same table. Then a DELETE removes one row of a small table,
repeatedly.

Each format has a separate JVM, and the JVMs run in turn for several rounds. Iceberg 1.12 uses
format version 3 and merge-on-read, Delta uses deletion vectors. README.md in this folder says how
to get the jars.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tablefmt
import tablefmt.spark
from benchmarks.harness import formats_in_turn, save, summary
from benchmarks.spark_peers import settings

FORMATS = ("tablefmt", "iceberg", "delta")

TARGET = 1.5
"""Iceberg's seconds over ours, at least."""

SMALL_ROWS = 1000

_ICEBERG = {
    "format-version": "3",
    "write.delete.mode": "merge-on-read",
    "write.update.mode": "merge-on-read",
    "write.merge.mode": "merge-on-read",
    # As the session has it for Spark's own scans.
    "read.split.open-file-cost": "262144",
}
_MERGED = 100_000


class Tables:
    """Tables of one format, by name in SQL."""

    def __init__(self, kind: str, spark: Any, work: str) -> None:
        self.kind, self.spark, self.work = kind, spark, work
        if kind == "tablefmt":
            tablefmt.spark.register(spark)

    def name(self, table: str) -> str:
        """Return the name of a table in SQL."""
        if self.kind == "delta":
            return f"delta.`{self.place(table)}`"
        return f"ice.db.{table}" if self.kind == "iceberg" else table

    def place(self, table: str) -> str:
        """Return the folder of a table's files."""
        return f"{self.work}/db/{table}" if self.kind == "iceberg" else f"{self.work}/{table}"

    def create(self, table: str, frame: Any) -> None:
        """Create a table with these rows."""
        if self.kind == "iceberg":
            writer = frame.writeTo(self.name(table)).using("iceberg")
            for name, value in _ICEBERG.items():
                writer = writer.tableProperty(name, value)
            writer.create()
        elif self.kind == "delta":
            writer = frame.write.format("delta").option("delta.enableDeletionVectors", "true")
            writer.save(self.place(table))
        else:
            frame.write.format("tablefmt").mode("append").save(self.place(table))
            self.spark.sql(
                f"CREATE TABLE {table} USING tablefmt OPTIONS (path '{self.place(table)}')"
            )

    def run(self, text: str, table: str) -> None:
        """Run one statement; `{t}` in it is replaced by the table."""
        self.spark.sql(text.replace("{t}", self.name(table))).collect()

    def total(self, table: str) -> tuple[int, float]:
        """Return the number of rows, and the sum of `v`."""
        row = self.spark.table(self.name(table)).selectExpr("count(*)", "sum(v)").collect()[0]
        return row[0], row[1]

    def bytes(self, table: str) -> tuple[int, int]:
        """Return the bytes of all its data files, and of all its files."""
        data = every = 0
        for folder, _, names in os.walk(self.place(table)):
            for name in names:
                size = 0 if name.endswith(".crc") else os.path.getsize(f"{folder}/{name}")
                every += size
                data += size if name.endswith(".parquet") and "_log" not in folder else 0
        return data, every


def rows(spark: Any, first: int, last: int, files: int) -> Any:
    """Return rows of six columns of several types."""
    return spark.range(first, last, 1, files).selectExpr(
        "id",
        "cast(id % 1000 as int) AS k",
        "id * 1.5D AS v",
        "concat('user_', lpad(id % 1000000, 7, '0')) AS s",
        "date_add(date'2024-01-01', cast(id % 365 as int)) AS d",
        "id % 2 = 0 AS flag",
    )


def merge(tables: Tables, table: str, count: int, turn: int) -> None:
    """Run a MERGE of 100,000 rows: half match, spread over the table, and half are new."""
    half = _MERGED // 2
    chosen = f"if(id < {half}, id * {count // half} + {turn}, {count} + {turn} * {half} + id)"
    source = tables.spark.range(0, _MERGED, 1, 2).selectExpr(f"{chosen} AS id")
    source.selectExpr(
        "id",
        "cast(id % 1000 as int) AS k",
        "id * 2.0D AS v",
        "'merged' AS s",
        "date'2025-01-01' AS d",
        "true AS flag",
    ).createOrReplaceTempView("src")
    tables.run(
        "MERGE INTO {t} t USING src s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *",
        table,
    )


def seconds(action: Callable[[int], Any], times: int) -> list[float]:
    """Return the seconds of each run."""
    found = []
    for turn in range(times):
        start = time.perf_counter()
        action(turn)
        found.append(time.perf_counter() - start)
    return found


def statements(tables: Tables, table: str, count: int, times: int) -> dict[str, list[float]]:
    """Run the statements in order, then the scan."""
    return {
        "merge": seconds(lambda i: merge(tables, table, count, i), times),
        "update": seconds(
            lambda i: tables.run(f"UPDATE {{t}} SET v = v + 1 WHERE id % 100 = {20 + i}", table),
            times,
        ),
        "delete": seconds(
            lambda i: tables.run(f"DELETE FROM {{t}} WHERE id % 100 = {7 + i}", table), times
        ),
        "scan": seconds(lambda _: tables.total(table), times + 2),
    }


def expected(count: int, times: int) -> int:
    """Return the expected rows of the table; deleted rows include merged ones."""
    ids = set()
    half, step = _MERGED // 2, count // (_MERGED // 2)
    new = [count + turn * half + n for turn in range(times) for n in range(half, 2 * half)]
    ids.update(new)
    gone = {7 + i for i in range(times)}
    assert step > times, "the rows that match are different every time"
    left = sum(1 for n in ids if n % 100 not in gone)
    return left + count - sum((count - r + 99) // 100 for r in gone)


def one(kind: str, jars: Path, count: int, times: int) -> dict[str, Any]:
    """Run all measurements of one format in this process."""
    work = tempfile.mkdtemp(prefix="spark_dml")
    spark = tablefmt.spark.session("benchmark", master="local[2]", **settings(kind, jars, work))
    spark.sparkContext.setLogLevel("ERROR")
    try:
        tables = Tables(kind, spark, work)
        tables.create("warm", rows(spark, 0, _MERGED * 2, 4))
        statements(tables, "warm", _MERGED * 2, 1)
        tables.create("big", rows(spark, 0, count, 8))
        clean = seconds(lambda _: tables.total("big"), 5)
        found: dict[str, Any] = {"clean scan": clean}
        found |= statements(tables, "big", count, times)
        assert tables.total("big")[0] == expected(count, times), (kind, tables.total("big"))
        tables.create("other", rows(spark, 0, count, 8))
        before = tables.bytes("other")
        tables.run("UPDATE {t} SET v = v + 1 WHERE id % 100 = 5", "other")
        after = tables.bytes("other")
        # Bytes of 1 % of the rows, as they were written first.
        changed = before[0] / 100
        found["update amplification"] = [(after[0] - before[0]) / changed]
        found["update amplification with metadata"] = [(after[1] - before[1]) / changed]
        tables.create("small", rows(spark, 0, SMALL_ROWS, 2))
        found["small delete"] = seconds(
            lambda i: tables.run(f"DELETE FROM {{t}} WHERE id = {i}", "small"), 20
        )[2:]
        return found
    finally:
        spark.stop()
        shutil.rmtree(work)


def in_turn(given: argparse.Namespace) -> None:
    """Run a process per format, alternating for several rounds; save the results."""
    kinds = [k for k in FORMATS if not given.formats or k in given.formats.split(",")]
    arguments = ("--jars", given.jars, "--rows", given.rows, "--times", given.times)
    _, joined = formats_in_turn("spark_dml", kinds, given.rounds, *arguments)
    ours, theirs = joined.get("tablefmt"), joined.get("iceberg")
    ahead = {}
    if ours and theirs:
        names = ("merge", "update", "delete", "scan")
        ahead = {name: min(theirs[name]) / min(ours[name]) for name in names}
    payload = {
        "rows": given.rows,
        "rounds": given.rounds,
        "seconds": {kind: summary(found) for kind, found in joined.items()},
        "iceberg_over_tablefmt": ahead,
        "target": TARGET,
    }
    save("spark_dml", payload)


def main() -> None:
    """Run and save the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jars", type=Path, default=Path())
    parser.add_argument("--rows", type=int, default=8_000_000)
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--formats", default="", help=f"some of {','.join(FORMATS)}")
    parser.add_argument("--one", choices=FORMATS, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        print(json.dumps(one(given.one, given.jars, given.rows, given.times)))
    else:
        in_turn(given)


if __name__ == "__main__":
    main()
