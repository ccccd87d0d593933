"""Measure compaction of many small files, and clustering, against deltalake and its Z-order.

    python -m benchmarks.compaction [--files 2000] [--rows 5000] [--rounds 3] [--only compact]

Each contestant compacts the same rows in the same number of files, on a fresh copy each round.
deltalake runs with its default (zstd at level 4) and with our level (1). The figures are rows per
second of the best round, processor seconds (other work on the machine affects the former), and the
peak memory of a process that does nothing else, above its starting value.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

import deltalake
import numpy as np
import pyarrow as pa

import tablefmt
from benchmarks.harness import CACHE, in_own_process, peak_mb, ratio, run_alternating, save, summary

WHO = ("tablefmt", "deltalake", "deltalake, level 1")
TARGET = 128 << 20
WRITER = deltalake.WriterProperties(compression="ZSTD", compression_level=1)


ORDERS: dict[str, tuple[str, ...]] = {"compact": (), "order": ("amount", "day")}


def rows_of(number: int, rows: int) -> pa.Table:
    """Return a small file's rows: ascending keys, amounts, one of few names, a unique note."""
    random = np.random.default_rng(number)
    first = number * rows
    return pa.table(
        {
            "id": np.arange(first, first + rows),
            "amount": random.integers(0, 10_000_000, rows) / 100,
            "day": pa.array(random.integers(18_000, 20_000, rows).astype(np.int32), pa.date32()),
            "name": pa.array([f"name {n}" for n in random.integers(0, 500, rows)]),
            "note": pa.array([f"{n:016x}" for n in random.integers(0, 1 << 62, rows)]),
        }
    )


def make(root: Path, files: int, rows: int) -> None:
    """Create both tables: ours with a commit per file, theirs with one commit."""
    table = tablefmt.create(root / "ours", rows_of(0, 1).schema)
    for first in range(0, files, 200):
        txn = table.transaction()
        for number in range(first, min(files, first + 200)):
            txn.append(rows_of(number, rows))
        txn.commit()
    for number in range(files):
        deltalake.write_deltalake(
            str(root / "theirs"),
            rows_of(number, rows),
            mode="append",
            writer_properties=WRITER,
        )


def compact(root: Path, who: str, by: tuple[str, ...] = ()) -> tuple[int, int]:
    """Compact a table; return the number of files before and after."""
    if who == "tablefmt":
        table = tablefmt.open(root / "ours")
        before = table.scan().files().num_rows
        commit = table.cluster(by) if by else table.compact()
        assert not commit.no_op
        return before, table.scan().files().num_rows
    delta = deltalake.DeltaTable(str(root / "theirs"))
    before = len(delta.file_uris())
    settings: dict[str, Any] = {"target_size": TARGET}
    if who != "deltalake":
        settings["writer_properties"] = WRITER
    if by:
        delta.optimize.z_order(list(by), **settings)
    else:
        delta.optimize.compact(**settings)
    return before, len(delta.file_uris())


def compared(
    root: Path, rounds: int, rows: int, by: tuple[str, ...], processor: dict[str, list[float]]
) -> dict[str, Any]:
    """Measure rows per second of each contestant, alternating, on fresh copies."""
    counts: dict[str, tuple[int, int]] = {}

    def run(name: str) -> float:
        copy = root.with_name("copy")
        shutil.copytree(root, copy)
        begun, start = time.process_time(), time.perf_counter()
        counts[name] = compact(copy, name, by)
        seconds = time.perf_counter() - start
        processor.setdefault(name, []).append(time.process_time() - begun)
        shutil.rmtree(copy)
        return seconds

    figures = run_alternating({name: partial(run, name) for name in WHO}, rounds)
    return {
        "seconds": summary(figures),
        "processor": summary(processor),
        "rows_a_second": {name: round(rows / min(each)) for name, each in figures.items()},
        "files": counts,
        "times_as_fast": {who: ratio(figures, who, "tablefmt") for who in WHO[1:]},
        "times_as_little_processor": {who: ratio(processor, who, "tablefmt") for who in WHO[1:]},
    }


def peak(who: str, root: Path) -> dict[str, float]:
    """Return the MB of memory above the start while all files are compacted."""
    return {"peak_mb": peak_mb(lambda: compact(root, who))}


def main() -> None:
    """Run all cases and save the results; in a child process, report one peak."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=2000)
    parser.add_argument("--rows", type=int, default=5000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", choices=ORDERS)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--one", choices=WHO)
    given = parser.parse_args()
    if given.one:
        print(json.dumps(peak(given.one, given.folder)))
        return
    made = CACHE / f"compaction-{given.files}-{given.rows}"
    if not made.exists():
        unfinished = made.with_suffix(".unfinished")
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(parents=True)
        make(unfinished, given.files, given.rows)
        unfinished.rename(made)
    root = Path(tempfile.mkdtemp(prefix="tablefmt-bench-"))
    rows = given.files * given.rows
    payload: dict[str, Any] = {"files": given.files, "rows_a_file": given.rows}
    try:
        shutil.copytree(made, root / "made")
        for name, by in ORDERS.items():
            if given.only in (None, name):
                payload[name] = compared(root / "made", given.rounds, rows, by, {})
        payload["memory"] = {}
        for who in WHO[:2]:
            shutil.copytree(root / "made", root / who)
            payload["memory"][who] = in_own_process("compaction", who, "--folder", root / who)
    finally:
        shutil.rmtree(root)
    save("compaction", payload)


if __name__ == "__main__":
    main()
