"""Measure exports of metadata: many files at once, the next commit, and a copy that begins late.

The table has N files in one commit, 10 columns with bounds, and one partition column. The files
have no data. Then a writer appends one row at a time. Figures without a unit are in seconds.

python -m benchmarks.exports [--files 10000] [--commits 50] [--rounds 3] [--to delta]
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import tablefmt
from benchmarks.checkpoints import build
from benchmarks.harness import machine, save
from tablefmt.commit.environment import SYSTEM
from tablefmt.export.export_run import Exporter
from tablefmt.export.table_export import TargetName, target_of
from tablefmt.store.object_store import Request


def run(to: TargetName, files: int, commits: int) -> dict[str, float]:
    """Build a table, export it step by step, and return the figures of one round."""
    folder = Path(tempfile.mkdtemp())
    try:
        build(str(folder / "t"), files)
        table = tablefmt.open(folder / "t")
        table.append([{"c1": 1, "p": 1}])
        context = table.context
        exporter = Exporter(context.store, target_of(to), SYSTEM.sleep)
        exporter.run(context.view, start=0, until=lambda: True)
        began, processor = time.perf_counter(), time.process_time()
        first = exporter.run(context.view, until=lambda: True)
        figures = {
            "files at once": time.perf_counter() - began,
            "files at once, processor": time.process_time() - processor,
            "files at once, bytes": float(first.bytes),
        }
        exporter.run(context.view)
        figures |= _commits(table, exporter, commits)
        late = tablefmt.open(folder / "t")
        for copy in ("_delta_log", "metadata"):
            shutil.rmtree(folder / "t" / copy, ignore_errors=True)
        began = time.perf_counter()
        late.export(to)
        figures["begin at the head"] = time.perf_counter() - began
        return figures
    finally:
        shutil.rmtree(folder)


def _commits(table: tablefmt.Table, exporter: Exporter, commits: int) -> dict[str, float]:
    times, processor, puts = [], [], []
    for number in range(commits):
        table.append([{"c1": number, "p": 1}])
        before = table.context.store.tally.sums()[Request.PUT]
        began, used = time.perf_counter(), time.process_time()
        done = exporter.run(table.context.view)
        times.append(time.perf_counter() - began)
        processor.append(time.process_time() - used)
        puts.append(table.context.store.tally.sums()[Request.PUT] - before)
        assert done.written == 1
    return {
        "next commit": statistics.median(times),
        "next commit, processor": statistics.median(processor),
        "next commit, puts": statistics.median(puts),
    }


def main() -> None:
    """Run all rounds and save the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=10_000)
    parser.add_argument("--commits", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--to", default="delta")
    given = parser.parse_args()
    rounds = [run(given.to, given.files, given.commits) for _ in range(given.rounds)]
    figures: dict[str, Any] = {
        name: {
            "least": min(one[name] for one in rounds),
            "median": statistics.median(one[name] for one in rounds),
        }
        for name in rounds[0]
    }
    payload = {"machine": machine(), "files": given.files, "to": given.to, "figures": figures}
    save(f"exports_{given.to}", payload)
    print(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()
