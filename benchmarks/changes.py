"""Measure reading row changes: ten UPDATEs and ten appends on Spark, an UPDATE of 1 % by Arrow.

python -m benchmarks.changes [--rows 8000000] [--rounds 5] [--only spark|arrow|history]

- Spark: a table of six columns in eight files, with UPDATEs of 10,000 rows each (spread over all
  files, or consecutive) and appends of 10,000 rows. The change feed over all ten is read as counts
  and sums by kind, and as every column of every row, alternating with a scan of the table.
- Arrow: an UPDATE of 1 % of 6M rows, spread over all files. The figure is the bytes that the feed
  reads from disk, over the bytes of its columns in the files that the UPDATE touched and wrote.
- History: ten commits of a history of 10,000 small commits, at its end and elsewhere.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import tablefmt
import tablefmt.spark
from benchmarks.harness import ratio, run_alternating, save, summary

COMMITS, EACH = 10, 10_000

TARGETS = {"updates": 0.5, "appends": 0.15, "bytes": 3.0, "history": 2.0}
"""Seconds, seconds, times, times."""


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=8_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--arrow-rows", type=int, default=6_000_000)
    parser.add_argument("--commits", type=int, default=10_000)
    parser.add_argument("--only", choices=("spark", "arrow", "history"))
    given = parser.parse_args()
    work = Path(tempfile.mkdtemp(prefix="tablefmt-changes-"))
    try:
        asked = {given.only} if given.only else {"spark", "arrow", "history"}
        by_arrow = arrow(work, given.arrow_rows) if "arrow" in asked else {}
        figures = spark(work, given.rows, given.rounds) if "spark" in asked else {}
        places = history(work, given.commits, given.rounds) if "history" in asked else {}
    finally:
        shutil.rmtree(work, ignore_errors=True)
    ratios = {
        f"{name} over a scan": ratio(figures, name, "scan")
        for name in figures
        if name not in ("scan", "ten updates")
    }
    save(
        "changes",
        {
            "rows": given.rows,
            "targets": TARGETS,
            "seconds": summary(figures),
            "ratios": ratios,
            "arrow": by_arrow,
            "history": {name: ratio(places, name, "end") for name in places},
        },
    )


def spark(work: Path, rows: int, rounds: int) -> dict[str, list[float]]:
    """Return the seconds of each read."""
    session = tablefmt.spark.session(master="local[2]")
    session.sparkContext.setLogLevel("ERROR")
    frame = session.range(0, rows, 1, 8).selectExpr(
        "id",
        "id % 1000 AS customer",
        "rand(7) * 1000 AS amount",
        "concat('item ', id % 5000) AS item",
        "date_add(date'2024-01-01', int(id % 365)) AS day",
        "int(id % 7) AS kind",
    )
    changes: dict[str, Callable[[], Any]] = {}
    seconds: dict[str, list[float]] = {}
    for name, where in (
        ("spread", "id % {step} = {at}"),
        ("together", "id >= {first} AND id < {last}"),
    ):
        uri = str(work / name)
        tablefmt.spark.write(frame, uri)
        table = tablefmt.spark.open(session, uri)

        made = run_alternating({"ten updates": partial(_update, table, where, rows)}, 1)
        seconds.setdefault("ten updates", []).extend(made["ten updates"])
        changes[f"updates {name}"] = partial(table.changes, after_version=1)
    uri = str(work / "appended")
    tablefmt.spark.write(frame, uri)
    table = tablefmt.spark.open(session, uri)
    for at in range(COMMITS):
        table.append(frame.where(f"id >= {at * EACH} AND id < {(at + 1) * EACH}").coalesce(1))
    changes["appends"] = partial(table.changes, after_version=1)
    cases: dict[str, Callable[[], Any]] = {
        "scan": partial(_all, partial(tablefmt.spark.read, session, uri, version=1))
    }
    for name, read in changes.items():
        cases[name] = partial(_counted, read)
        cases[f"{name}, all columns"] = partial(_all, read)
    for name in changes:
        _check(name, changes[name]())
    seconds.update(run_alternating(cases, rounds, warm_up=2))
    session.stop()
    return seconds


def _update(table: Any, where: str, rows: int) -> None:
    for at in range(COMMITS):
        first = at * (rows // COMMITS)
        names = {"step": rows // EACH, "at": at, "first": first, "last": first + EACH}
        table.update({"amount": "amount + 1"}, where.format(**names))


def _counted(read: Callable[[], Any]) -> None:
    read().groupBy("_change_type").agg({"id": "sum", "*": "count"}).collect()


def _all(read: Callable[[], Any]) -> None:
    read().write.format("noop").mode("overwrite").save()


def _check(name: str, frame: Any) -> None:
    """Fail if a result is wrong."""
    found = {row[0]: row[1] for row in frame.groupBy("_change_type").count().collect()}
    kinds = ("insert",) if name == "appends" else ("update_preimage", "update_postimage")
    assert found == dict.fromkeys(kinds, COMMITS * EACH), (name, found)


def arrow(work: Path, rows: int) -> dict[str, Any]:
    """Return the bytes that the feed reads, over those of its columns in the changed files."""
    uri = str(work / "arrow")
    table = tablefmt.create(uri, "id BIGINT, a DOUBLE, b STRING, c INT, d DOUBLE, e BIGINT")
    each = rows // 8
    for part in range(8):
        ids = np.arange(part * each, (part + 1) * each)
        chance = np.random.default_rng(part)
        columns = {
            "id": ids,
            "a": chance.random(each),
            "b": pa.array(ids % 5000).cast(pa.string()),
            "c": (ids % 7).astype(np.int32),
            "d": chance.random(each),
            "e": ids % 1000,
        }
        table.append(pa.table(columns))
    table.update({"a": "a + 1"}, "id % 100 = 0")
    wanted = ["id", "a"]
    # Both images: the files that rows went out of, and those of their new versions.
    paths = [f"{uri}/{path}" for path in table.refresh().scan().files()["path"].to_pylist()]
    needed = sum(_column_bytes(path, wanted) for path in paths)
    before = _read_bytes()
    changed = table.changes(after_version=8, columns=wanted).to_arrow()
    read = _read_bytes() - before
    assert changed.num_rows == 2 * rows // 100
    return {"needed_bytes": needed, "read_bytes": read, "times": read / needed}


def history(work: Path, commits: int, rounds: int) -> dict[str, list[float]]:
    """Return seconds to read ten commits by position, with a fresh and with a warm handle."""
    uri = str(work / "history")
    table = tablefmt.create(uri, "id BIGINT, v INT")
    for n in range(commits):
        if n % 10 == 9:
            table.delete(f"id = {n - 5}")
        else:
            table.append(pa.table({"id": [n], "v": pa.array([n % 7], pa.int32())}))
    warm = tablefmt.open(uri)
    places = {"end": commits - 10, "middle": commits // 2, "early": commits // 100}
    cases: dict[str, Callable[[], Any]] = {}
    for name, at in places.items():
        cases[name] = partial(_ten, lambda: tablefmt.open(uri), at)
        cases[f"{name}, warm"] = partial(_ten, lambda: warm, at)
    return run_alternating(cases, rounds, warm_up=1)


def _ten(table: Callable[[], tablefmt.Table], at: int) -> None:
    rows = table().changes(after_version=at, ending_version=at + COMMITS).to_arrow()
    assert rows.num_rows == COMMITS, rows.num_rows


def _column_bytes(path: str, names: list[str]) -> int:
    footer = pq.read_metadata(path)
    groups = (footer.row_group(at) for at in range(footer.num_row_groups))
    chunks = (group.column(at) for group in groups for at in range(group.num_columns))
    return sum(c.total_compressed_size for c in chunks if c.path_in_schema in names)


def _read_bytes() -> int:
    """Return the bytes that this process has read so far, including the system's cache."""
    lines = Path("/proc/self/io").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("rchar")).split()[1])


if __name__ == "__main__":
    main()
