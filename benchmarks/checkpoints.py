"""Measure tables of many files that are opened at a checkpoint, against deltalake.

The tables have N files, 1,000 partitions, 10 columns with bounds, and no data.

All figures except bytes and MB are in seconds. The fit is t = a + b * N over the given sizes, with
equal weight for each size's relative error. After a run with 10 million files, it is extrapolated
to 100 million.

python -m benchmarks.checkpoints [--files 10000 100000 1000000] [--rounds 3] [--no-deltalake]
"""

from __future__ import annotations

import argparse
import gc
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import tablefmt
from benchmarks.harness import peak_mb, save
from benchmarks.state import following, seconds
from tablefmt.commit.environment import SYSTEM
from tablefmt.log.codec import decode
from tablefmt.log.object_names import entry_key
from tablefmt.log.overflow_metadata import write_overflow
from tablefmt.operations.create import create
from tablefmt.store.location import open_store

COLUMNS = 10
PARTITIONS = 1000
EACH = 62_500
"""Files of a commit."""

DELTALAKE_MAX = 1_000_000
"""Most files for deltalake. More take its writer too long."""

FITTED = 100_000_000
"""Number of files to which the fit is extrapolated."""


def build(uri: str, files: int) -> None:
    """Write entries with overflow metadata files; bounds of the first column follow file order."""
    names = [f"c{i} BIGINT" for i in range(1, COLUMNS + 1)]
    store = open_store(uri, {})
    create(store, ", ".join([*names, "p INT"]), partition_by=["p"], environment=SYSTEM)
    stored = decode(store.get(entry_key(0)), 0)
    chance = np.random.default_rng(1)
    known = version = 0
    while known < files:
        count = min(EACH, files - known)
        version += 1
        ids = np.arange(known, known + count)
        side = write_overflow(store, f"{version:032x}", described(ids, version, files, chance))
        known += count
        totals = replace(
            stored.entry.totals,
            files=known,
            rows=known * 1000,
            bytes=known * 40_000,
            next_id=known + 1,
        )
        stored = following(store, stored, add=side, totals=totals)


def described(ids: Any, version: int, files: int, chance: Any) -> pa.Table:
    """Return the file columns of an entry: paths with a 32-digit transaction and a random part."""
    nonce = f"{version:032x}"
    parts = chance.integers(0, 1 << 62, len(ids)).tolist()
    columns: dict[str, Any] = {
        "path": [f"data/{nonce}/{part:016x}.parquet" for part in parts],
        "size": chance.integers(1 << 20, 1 << 27, len(ids)) * 0 + 40_000,
        "rows": np.full(len(ids), 1000),
        f"partition.{COLUMNS + 1}": pa.array(ids * PARTITIONS // max(files, 1), pa.int32()),
    }
    for column in range(1, COLUMNS + 1):
        lower = ids * 1000 if column == 1 else chance.integers(0, 1 << 40, len(ids))
        columns[f"lower.{column}"] = lower
        columns[f"upper.{column}"] = lower + 999
        columns[f"nulls.{column}"] = np.zeros(len(ids), np.int64)
    return pa.table(columns)


def resident() -> int:
    """Return the resident bytes of this process."""
    gc.collect()
    pa.default_memory_pool().release_unused()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096


def plans(files: int) -> dict[str, str]:
    """Return conditions by the files that they keep."""
    middle = files // 2 * 1000
    return {
        "point, clustered": f"c1 = {middle}",
        "partition": f"p = {PARTITIONS // 2}",
        "range, not clustered": "c2 < 1000000000",
    }


def planned(table: tablefmt.Table, where: str) -> pa.Table:
    """Return the files that a condition keeps."""
    return table.scan(where=where).files()


def opened(uri: str, where: str) -> pa.Table:
    """Open the table, and return the files that a condition keeps."""
    return planned(tablefmt.open(uri), where)


def one(uri: str, files: int) -> dict[str, float]:
    """Measure in a process that has not opened the table before."""
    found: dict[str, float] = {}
    warm = tablefmt.open(uri)
    warm.refresh()
    before = resident()
    start = time.perf_counter()
    table = tablefmt.open(uri)
    snapshot = table.context.view.snapshot()
    core = ["id", "added", "size", "rows", f"partition.{COLUMNS + 1}"]
    for segment in snapshot.history.segments:
        segment.files.columns(core)
    found["open and core columns"] = time.perf_counter() - start
    found["memory of core columns, bytes per file"] = (resident() - before) / files
    found |= both("open", partial(tablefmt.open, uri), 5)
    for name, where in plans(files).items():
        fresh = map(partial(planned, where=where), [tablefmt.open(uri) for _ in range(3)])
        found |= both(f"plan, {name}: cold", partial(next, fresh), 3)
        known = tablefmt.open(uri)
        planned(known, where)
        found |= both(f"plan, {name}: warm", partial(planned, known, where), 3)
        found |= both(f"open and plan, {name}", partial(opened, uri, where), 3)
    return found


def both(name: str, work: Callable[[], Any], rounds: int) -> dict[str, float]:
    """Return the minimum of the rounds, by the clock and of processor time."""
    clock, processor = [], []
    for _ in range(rounds):
        start, spent = time.perf_counter(), time.process_time()
        work()
        processor.append(time.process_time() - spent)
        clock.append(time.perf_counter() - start)
    return {name: min(clock), f"{name}, processor": min(processor)}


def memory_of(uri: str, where: str) -> dict[str, float]:
    """Measure the memory of opening the table and one plan, in a process that did neither."""
    warm = tablefmt.create("memory://warm-up", "c1 BIGINT")
    warm.append(pa.table({"c1": [1]}))
    planned(warm, "c1 = 1")
    return {"MB": peak_mb(partial(opened, uri, where))}


def in_process(work: str, *arguments: object) -> dict[str, float]:
    """Run a function of this module in a separate process."""
    code = f"import json,sys; from benchmarks.checkpoints import {work}; "
    code += f"print(json.dumps({work}(*json.loads(sys.argv[1]))))"
    done = subprocess.run(
        [sys.executable, "-c", code, json.dumps(arguments)], check=True, capture_output=True
    )
    result: dict[str, float] = json.loads(done.stdout)
    return result


def run(files: int, rounds: int, deltalake: bool) -> dict[str, float]:
    """Return all figures of one size, each the minimum of the rounds."""
    folder = tempfile.mkdtemp(prefix="checkpoints-")
    try:
        uri = f"{folder}/t"
        build(uri, files)
        found: dict[str, float] = {}
        table = tablefmt.open(uri)
        found["replay"] = seconds(table.context.view.snapshot)
        report = table.checkpoint()
        found["first write"] = report.seconds
        found["bytes per file"] = report.written_bytes / files
        found["write, again: nothing changed"] = table.checkpoint().seconds
        found |= changed(table, files)
        rest = [in_process("one", uri, files) for _ in range(rounds)]
        found |= {name: min(each[name] for each in rest) for name in rest[0]}
        for name, where in plans(files).items():
            used = in_process("memory_of", uri, where)["MB"]
            found[f"memory of open and plan, {name}, MB"] = used
        found |= refreshed(uri)
        if deltalake and files <= DELTALAKE_MAX:
            found |= beside(f"{folder}/delta", files, rounds)
        return found
    finally:
        shutil.rmtree(folder)


def changed(table: Any, files: int) -> dict[str, float]:
    """Remove one hundredth of the files and add as many."""
    store, view = table.context.store, table.context.view
    view.refresh()
    stored = view.entries_after(view.head.version - 1)[0]
    totals = stored.entry.totals
    removed = list(range(50, totals.next_id, 100))
    count = len(removed)
    ids = np.arange(totals.next_id - 1, totals.next_id - 1 + count)
    version = view.head.version + 1
    columns = described(ids % files, version, files, np.random.default_rng(version))
    side = write_overflow(store, f"{version:032x}", columns)
    after = replace(totals, next_id=totals.next_id + count)
    following(store, stored, add=side, remove=removed, totals=after)
    table.refresh()
    view.snapshot()
    report = table.checkpoint()
    return {
        "write, after a change of 1 %": report.seconds,
        "bytes written after it, per added file": report.written_bytes / count,
    }


def refreshed(uri: str) -> dict[str, float]:
    """Measure the refresh of a handle 100 commits behind, and its next plan."""
    table, behind = tablefmt.open(uri), tablefmt.open(uri)
    where = f"p = {PARTITIONS // 2}"
    behind.scan(where=where).files()
    values = {f"c{i}": [1] for i in range(1, COLUMNS + 1)}
    data = pa.table({**values, "p": pa.array([PARTITIONS // 2], pa.int32())})
    for _ in range(100):
        table.append(data)
    found = {"refresh of 100 commits": seconds(behind.refresh)}
    found["plan after the refresh"] = seconds(lambda: behind.scan(where=where).files())
    return found


def beside(uri: str, files: int, rounds: int) -> dict[str, float]:
    """Measure deltalake with equal numbers of files and columns, at a checkpoint."""
    import deltalake

    names = [f"c{i}" for i in range(1, COLUMNS + 1)]
    fields = [deltalake.Field(name, deltalake.schema.PrimitiveType("long")) for name in names]
    fields.append(deltalake.Field("p", deltalake.schema.PrimitiveType("integer")))
    schema = deltalake.Schema(fields)
    chance = np.random.default_rng(1)
    lower = chance.integers(0, 1 << 40, (files, COLUMNS))
    lower[:, 0] = np.arange(files) * 1000
    parts = chance.integers(0, 1 << 62, files).tolist()
    empty = dict.fromkeys(names, 0)
    actions = []
    for at in range(files):
        low = dict(zip(names, lower[at].tolist(), strict=True))
        stats = {
            "numRecords": 1000,
            "minValues": low,
            "maxValues": {name: value + 999 for name, value in low.items()},
            "nullCount": empty,
        }
        p = str(at * PARTITIONS // files)
        path = f"p={p}/{parts[at]:016x}.parquet"
        add = deltalake.transaction.AddAction(path, 40_000, {"p": p}, 0, True, json.dumps(stats))
        actions.append(add)
    deltalake.transaction.create_table_with_add_actions(
        uri, schema, actions, mode="error", partition_by=["p"]
    )
    del actions
    deltalake.DeltaTable(uri).create_checkpoint()
    size = sum(path.stat().st_size for path in Path(uri, "_delta_log").glob("*.parquet"))
    found = {"deltalake: bytes per file": size / files}
    found["deltalake: open"] = seconds(lambda: deltalake.DeltaTable(uri), rounds)
    table = deltalake.DeltaTable(uri)
    where = f"p = {PARTITIONS // 2}"
    found["deltalake: plan, partition"] = seconds(
        lambda: table.file_uris(file_pruning_predicate=where), rounds
    )
    return found


def fit(sizes: list[int], values: list[float]) -> tuple[float, float]:
    """Return a and b of t = a + b * N, with the least relative errors. Nothing shrinks with N."""
    weights = 1 / np.maximum(values, 1e-9)
    b, a = np.polyfit(sizes, values, 1, w=weights)
    if b < 0:
        return float(np.average(values, weights=weights**2)), 0.0
    return float(a), float(b)


def main() -> None:
    """Print the figures, and save them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, nargs="+", default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--no-deltalake", action="store_true")
    given = parser.parse_args()
    results = {n: run(n, given.rounds, not given.no_deltalake) for n in given.files}
    names = list(results[given.files[0]])
    document: dict[str, Any] = {
        name: {str(n): round(each[name], 6) for n, each in results.items() if name in each}
        for name in names
    }
    for name, figures in document.items():
        if len(figures) > 1 and "per" not in name.split():
            a, b = fit(list(map(int, figures)), list(figures.values()))
            figures |= {"a": round(a, 5), "b, µs per file": round(b * 1e6, 5)}
            if max(given.files) * 10 >= FITTED:
                figures[f"{FITTED} by the fit"] = round(a + b * FITTED, 4)
    save("checkpoints", {"figures": document})


if __name__ == "__main__":
    main()
