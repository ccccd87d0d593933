"""Measure opening, listing, pruning and planning of a table of a million files without data.

All figures except bytes are in seconds.

python -m benchmarks.state [--files 1000000] [--commits 16] [--rounds 5]
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

import tablefmt
from tablefmt.log.codec import decode, digest, encode
from tablefmt.log.object_names import entry_key
from tablefmt.log.overflow_metadata import write_overflow
from tablefmt.model.log_entry import StoredEntry
from tablefmt.snapshot.log_view import LogView
from tablefmt.store.memory_store import MemoryStore

SCHEMA = "id BIGINT, price DOUBLE, name STRING, p INT"
CONDITIONS = {
    "one file": "id = {middle}",
    "one partition": "p = 7",
    "range": "id BETWEEN {middle} AND {later}",
    "no pruning": "price > 0.5",
}


def build(store: Any, files: int, commits: int) -> None:
    """Write entries with overflow metadata files, then one that removes 1 % of the files."""
    from tablefmt.commit.environment import SYSTEM
    from tablefmt.operations.create import create

    context = create(store, SCHEMA, partition_by=["p"], environment=SYSTEM)
    stored = decode(store.get(entry_key(0)), 0)
    each, known = files // commits, 0
    for version in range(1, commits + 1):
        ids = np.arange(known, known + each)
        rows = np.full(each, 1000)
        columns = {
            "path": pa.array([f"data/{version:032x}/{i:07d}.parquet" for i in ids.tolist()]),
            "size": rows * 40,
            "rows": rows,
            "partition.4": pa.array(ids % 100, pa.int32()),
            "lower.1": ids * 1000,
            "upper.1": ids * 1000 + 999,
            "lower.2": np.random.default_rng(version).random(each),
            "upper.2": pa.array(np.ones(each)),
            "lower.3": pa.array([f"n{i:08d}" for i in ids.tolist()]),
            "upper.3": pa.array([f"n{i:08d}z" for i in ids.tolist()]),
        }
        for field in (1, 2, 3):
            columns[f"nulls.{field}"] = np.zeros(each, np.int64)
        side = write_overflow(store, f"{version:032x}", pa.table(columns))
        known += each
        totals = replace(
            stored.entry.totals,
            files=known,
            rows=known * 1000,
            bytes=known * 40_000,
            next_id=known + 1,
        )
        stored = following(store, stored, add=side, totals=totals)
    removed = list(range(50, known, 100))
    totals = replace(
        stored.entry.totals,
        files=known - len(removed),
        rows=(known - len(removed)) * 1000,
        bytes=(known - len(removed)) * 40_000,
    )
    following(store, stored, remove=removed, totals=totals)
    assert context.version == 0


def following(store: Any, stored: StoredEntry, **changes: Any) -> StoredEntry:
    """Put the next entry into the store."""
    before = stored.entry
    at = before.timestamp + 1
    fields: dict[str, Any] = {
        "version": before.version + 1,
        "timestamp": at,
        "time_version": at,
        "transaction": f"{before.version + 1:032x}",
        "previous": stored.digest,
        "metadata": None,
        "protocol": None,
        "add": None,
        "remove": (),
    }
    entry = replace(before, **{**fields, **changes})
    body = encode(entry)
    store.put(entry_key(entry.version), body)
    return StoredEntry(entry, digest(body))


def seconds(work: Callable[[], Any], rounds: int = 1) -> float:
    """Return the minimum of the rounds."""
    best = float("inf")
    for _ in range(rounds):
        start = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - start)
    return best


def run(files: int, commits: int, rounds: int) -> dict[str, Any]:
    """Return all figures by name."""
    from tablefmt.expressions.sql_to_predicate import parse_conjuncts

    store = MemoryStore("state-benchmark")
    build(store, files, commits)
    table = tablefmt.open(store.uri)
    view = table.context.view
    found: dict[str, Any] = {"files": files}
    found["open the log"] = seconds(lambda: LogView.open(store), rounds)
    found["first snapshot"] = seconds(view.snapshot)
    snapshot = view.snapshot()
    middle = files // 2 * 1000
    cold: dict[str, float] = {}
    for name, text in CONDITIONS.items():
        (predicate,), _ = parse_conjuncts(
            text.format(middle=middle, later=middle + 100_000), snapshot.schema, "UTC"
        )
        cold[name] = seconds(partial(snapshot.matching, predicate))
        found[f"{name}: cold"] = cold[name]
        found[f"{name}: warm"] = seconds(partial(snapshot.matching, predicate), rounds)
    found["live files: cold"] = seconds(lambda: snapshot.files)
    again = replace(snapshot)
    found["live files: warm"] = seconds(lambda: again.files)
    table.append(pa.table({"id": [1], "price": [1.0], "name": ["x"], "p": pa.array([1], "int32")}))
    found["snapshot after one append"] = seconds(view.snapshot)
    found["older snapshot"] = seconds(lambda: view.snapshot(commits // 2).files)
    found["changes of the last append"] = seconds(
        lambda: table.changes(after_version=view.head.version - 1).to_arrow()
    )
    return found


def lines(files: int, commits: int) -> dict[str, Any]:
    """Measure the text for the JVM: seconds and bytes, for all files and for a condition."""
    from tablefmt.spark.backends.native.native_relation import Files, survivors

    snapshot = tablefmt.open("memory://state-benchmark").context.view.snapshot()
    told = survivors(Files("benchmark", snapshot.files, snapshot.schema, snapshot.partition_ids))
    found: dict[str, Any] = {}
    for name, text in {"all files": "", "one file": f"id = {files // 2 * 1000}"}.items():
        found[f"text of {name}"] = seconds(partial(told, text))
        found[f"bytes of {name}"] = len(told(text) or b"")
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--files", type=int, default=1_000_000)
    parser.add_argument("--commits", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    figures = run(arguments.files, arguments.commits, arguments.rounds)
    figures |= lines(arguments.files, arguments.commits)
    print(json.dumps({k: round(v, 4) for k, v in figures.items()}, indent=1))
