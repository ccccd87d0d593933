"""Measure the import of a hive folder of Parquet files: seconds, processor seconds, bytes of log.

    python -m benchmarks.imports [--files 10000] [--rounds 3]

Each file has 20 rows of six columns with bounds. There are 100 partitions.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

import tablefmt

PARTITIONS = 100
ROWS = 20


def make(folder: Path, files: int) -> None:
    """Write the files."""
    for number in range(files):
        first = number * ROWS
        ids = pa.array(range(first, first + ROWS), pa.int64())
        columns = {"id": ids, "day": pa.array([number % 365] * ROWS, pa.date32())}
        columns |= {name: pa.array([1.5] * ROWS) for name in ("a", "b", "c")}
        columns["text"] = pa.array(["text"] * ROWS)
        path = folder / f"p={number % PARTITIONS}" / f"{number}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table(columns), path)


def main() -> None:
    """Print a line for each round."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    folder = Path(tempfile.mkdtemp())
    try:
        make(folder, given.files)
        for _ in range(given.rounds):
            shutil.rmtree(folder / "_log", ignore_errors=True)
            start, processor = time.perf_counter(), time.process_time()
            table = tablefmt.import_table(folder)
            seconds, used = time.perf_counter() - start, time.process_time() - processor
            # A checkpoint may follow at any time, and is no part of the import.
            found = [p for p in (folder / "_log").rglob("*") if "checkpoints" not in p.parts]
            log = sum(p.stat().st_size for p in found if p.is_file())
            rows = table.count()
            print(
                f"{given.files} files: {seconds:.2f} s, {used:.2f} s CPU, {log} bytes, {rows} rows"
            )
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
