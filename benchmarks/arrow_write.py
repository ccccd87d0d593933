"""Measure writing TPC-H's lineitem without Spark, against pyarrow's writer, and its peak memory.

    python -m benchmarks.arrow_write [--scale 1] [--files 16] [--rounds 5]

One comparison makes an append for each of several parts, the other writes all rows in one append.
pyarrow's ParquetWriter uses the row groups, decimals and checksums of our files, and its own
encodings. Figures are seconds and processor seconds, because other work on the machine affects the
former. Peak memory is that of a separate process, above its starting value: for a stream that
generates its batches, and for a table in memory.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import tablefmt
from benchmarks.arrow_dml import lineitem
from benchmarks.harness import CACHE, in_own_process, peak_mb, ratio, run_alternating, save, summary
from tablefmt.data.parquet_writer import DICTIONARY_BYTES, GROUP_ROWS

BATCH_ROWS = 65_536


def ours(parts: list[pa.Table], folder: Path) -> None:
    """Make one append for each part."""
    table = tablefmt.create(str(folder), parts[0].schema)
    for part in parts:
        table.append(part)


def theirs(parts: list[pa.Table], folder: Path) -> None:
    """Write one file for each part, not durable, with Arrow's own encodings."""
    folder.mkdir()
    for number, part in enumerate(parts):
        with pq.ParquetWriter(
            str(folder / f"{number}.parquet"),
            part.schema,
            compression="zstd",
            dictionary_pagesize_limit=DICTIONARY_BYTES,
            store_decimal_as_integer=True,
            write_page_checksum=True,
            store_schema=False,
        ) as writer:
            writer.write_table(part, GROUP_ROWS)


def compared(rows: pa.Table, files: int, rounds: int, root: Path) -> dict[str, Any]:
    """Measure seconds and processor seconds of each case, alternating."""
    step = -(-rows.num_rows // files)
    parts = [rows.slice(start, step) for start in range(0, rows.num_rows, step)]
    cases: dict[str, Callable[[Path], None]] = {
        "tablefmt, one append per part": lambda folder: ours(parts, folder),
        "pyarrow, one append per part": lambda folder: theirs(parts, folder),
        "tablefmt, one append": lambda folder: ours([rows], folder),
        "pyarrow, one append": lambda folder: theirs([rows], folder),
    }
    processor: dict[str, list[float]] = {name: [] for name in cases}
    sizes: dict[str, int] = {}

    def run(name: str) -> float:
        folder = root / "written"
        begun, start = time.process_time(), time.perf_counter()
        cases[name](folder)
        seconds = time.perf_counter() - start
        processor[name].append(time.process_time() - begun)
        sizes[name] = sum(f.stat().st_size for f in folder.glob("**/*.parquet"))
        shutil.rmtree(folder)
        return seconds

    figures = run_alternating({name: partial(run, name) for name in cases}, rounds)
    ratios = {}
    for how in ("one append per part", "one append"):
        pair = f"tablefmt, {how}", f"pyarrow, {how}"
        ratios[how] = {"seconds": ratio(figures, *pair), "processor": ratio(processor, *pair)}
    return {
        "seconds": summary(figures),
        "processor": summary(processor),
        "bytes": sizes,
        "ratio": ratios,
    }


def grouped(scale: str) -> Path:
    """Write the rows as one file with our row groups, so that reading it takes little memory."""
    path = CACHE / f"lineitem-{scale}-grouped.parquet"
    if not path.exists():
        pq.write_table(lineitem(CACHE, scale), path.with_suffix(".tmp"), row_group_size=GROUP_ROWS)
        path.with_suffix(".tmp").rename(path)
    return path


def peak(kind: str, path: Path) -> dict[str, float]:
    """Return the MB of memory above the start while all rows are written."""
    file = pq.ParquetFile(path, pre_buffer=False)
    shape = file.schema_arrow
    folder = tempfile.mkdtemp(prefix="tablefmt-bench-")
    table = tablefmt.create(f"{folder}/t", shape)
    table.append(file.read_row_group(0).slice(0, 1000))
    batches = file.iter_batches(BATCH_ROWS, use_threads=False)
    stream = pa.RecordBatchReader.from_batches(shape, batches)
    source = pa.Table.from_batches(batches) if kind == "table" else stream
    most = peak_mb(lambda: table.append(source))
    shutil.rmtree(folder)
    return {"peak_mb": most}


def main() -> None:
    """Run all cases and save the results; in a child process, report one peak."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", default="1")
    parser.add_argument("--files", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--one", choices=("stream", "table"))
    given = parser.parse_args()
    if given.one:
        print(json.dumps(peak(given.one, grouped(given.scale))))
        return
    grouped(given.scale)
    rows = lineitem(CACHE, given.scale)
    root = Path(tempfile.mkdtemp(prefix="tablefmt-bench-"))
    try:
        payload = compared(rows, given.files, given.rounds, root)
    finally:
        shutil.rmtree(root)
    payload["memory"] = {
        kind: in_own_process("arrow_write", kind, "--scale", given.scale)
        for kind in ("stream", "table")
    }
    save("arrow_write", payload)


if __name__ == "__main__":
    main()
