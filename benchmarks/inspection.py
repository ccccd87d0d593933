"""Measure the tools for people: report, log, history, conflicts, verify, blame and why.

The table has 10,000 commits of 10 files. Every 50th one deletes rows, every 10th was rebased.
The files are copies of one small file, so their footers are sound. The log has compacted segments
and a checkpoint. Figures are seconds: by the clock, and of the processor. Each report has its own
process, whose imports are measured apart.

python -m benchmarks.inspection [--commits 10000] [--files 100000] [--rounds 3] [--only NAME ...]
"""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import redirect_stdout
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyroaring import BitMap64

import tablefmt
from benchmarks.harness import machine, save
from benchmarks.state import following
from tablefmt.commit.environment import SYSTEM
from tablefmt.data.file_checksum import footer_checksum
from tablefmt.log.codec import decode
from tablefmt.log.compacted_log import write_log_segments
from tablefmt.log.object_names import entry_key
from tablefmt.model.log_entry import AddedFiles, Basis, Operation, OperationClass, RowDeletes
from tablefmt.model.positions import encode_positions
from tablefmt.operations.create import create
from tablefmt.store.location import open_store

SCHEMA = "id BIGINT, amount DOUBLE, name STRING, at TIMESTAMP, region INT"
ROWS = 1000
"""Rows that the log gives each file."""
REGIONS = 200
STEP = 600_000_000
"""Between two commits: ten minutes, in µs."""


def build(folder: Path, commits: int, files: int) -> None:
    """Write the entries, the data files, the compacted log and a checkpoint. Deterministic."""
    store = open_store(str(folder), {})
    # The newest commit is of now.
    begin = SYSTEM.now_us() - commits * STEP
    early = replace(SYSTEM, now_us=lambda: begin)
    create(store, SCHEMA, partition_by=["region"], environment=early)
    body, checksum = _data_file()
    stored = decode(store.get(entry_key(0)), 0)
    each, chance = files // commits, np.random.default_rng(1)
    known = deleted = 0
    for version in range(1, commits + 1):
        nonce = hashlib.sha256(str(version).encode()).hexdigest()[:32]
        (folder / "data" / nonce).mkdir(parents=True)
        parts = chance.integers(1 << 60, 1 << 62, each).tolist()
        paths = [f"data/{nonce}/{part:016x}.parquet" for part in parts]
        for path in paths:
            (folder / path).write_bytes(body)
        add = _added(paths, known, len(body), checksum, chance)
        is_delete = version % 50 == 0
        delete = None
        if is_delete:
            gone = encode_positions(BitMap64(range(10)))
            delete = RowDeletes([known - 5 * each], [10], [gone], [None])
            deleted += 10
        known += each
        before = stored.entry
        totals = replace(
            before.totals,
            files=known,
            rows=known * ROWS,
            bytes=known * len(body),
            next_id=known + 1,
            deleted=deleted,
        )
        at = before.timestamp + STEP
        read = version - 1 if version % 10 or version < 10 else version - 3
        stored = following(
            store,
            stored,
            add=add,
            delete=delete,
            transaction=nonce,
            totals=totals,
            timestamp=at,
            time_version=at,
            operation=_operation(is_delete, each),
            basis=Basis(
                read_version=read,
                isolation="WriteSerializable",
                granularity="row",
                blind=not is_delete,
                predicate="amount < 3" if is_delete else None,
            ),
        )
    write_log_segments(store, 0, commits)
    tablefmt.open(folder).checkpoint()


def _operation(is_delete: bool, files: int) -> Operation:
    if is_delete:
        metrics = {"numDeletedRows": 10, "numAddedFiles": files, "executionTimeMs": 12}
        return Operation(name="DELETE", cls=OperationClass.UPDATE, metrics=metrics)
    metrics = {"numOutputRows": files * ROWS, "numFiles": files, "numOutputBytes": files * 900}
    return Operation(
        name="WRITE", cls=OperationClass.INSERT, parameters={"mode": "Append"}, metrics=metrics
    )


def _data_file() -> tuple[bytes, int]:
    """Return the bytes of a small Parquet file, and the checksum of its footer."""
    sink = io.BytesIO()
    pq.write_table(pa.table({"id": pa.array(range(10), pa.int64())}), sink)
    body = sink.getvalue()
    checksum = footer_checksum(body)
    assert checksum is not None
    return body, checksum


def _added(paths: list[str], first: int, size: int, footer: int, chance: Any) -> AddedFiles:
    count = len(paths)
    ids = np.arange(first, first + count)
    columns: dict[str, list[Any]] = {
        "path": paths,
        "size": [size] * count,
        "rows": [ROWS] * count,
        "footer": [footer] * count,
        "partition.5": (ids * 7 % REGIONS).tolist(),
        "lower.1": (ids * ROWS).tolist(),
        "upper.1": (ids * ROWS + ROWS - 1).tolist(),
        "lower.2": chance.random(count).round(3).tolist(),
        "upper.2": (chance.random(count) + 1000).round(3).tolist(),
        "lower.3": [f"n{i:08d}" for i in ids.tolist()],
        "upper.3": [f"n{i:08d}z" for i in ids.tolist()],
        "lower.4": (1_700_000_000_000_000 + ids * 1_000_000).tolist(),
        "upper.4": (1_700_000_000_500_000 + ids * 1_000_000).tolist(),
    }
    columns |= {f"nulls.{field}": [0] * count for field in (1, 2, 3, 4)}
    return AddedFiles(columns)


def _command(*arguments: str) -> int:
    """Run the command line in this process. Return the number of characters that it prints."""
    from click.testing import CliRunner

    from tablefmt.cli.main import main as cli

    done = CliRunner().invoke(cli, list(arguments), catch_exceptions=False)
    assert done.exit_code == 0, done.output[-2000:]
    return len(done.output)


def report(uri: str) -> int:
    """Write the report to a file. Return its bytes."""
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "report.html"
        tablefmt.open(uri).report(target)
        return target.stat().st_size


def blame(uri: str) -> int:
    """Search the commits of one file of the middle."""
    table = tablefmt.open(uri)
    files = table.scan(where="id = 50000500").files()
    found: pa.Table = table.blame(file=files["path"][0].as_py()).to_arrow()
    rows: int = found.num_rows
    return rows


def verify(uri: str) -> int:
    """Check the table by lengths and footers."""
    found = tablefmt.open(uri).verify()
    assert found.ok, str(found)[:2000]
    return found.files


CASES: dict[str, Any] = {
    "report": report,
    "log": lambda uri: _command("log", uri),
    "log --json": lambda uri: _command("log", uri, "--json"),
    "log --limit 20": lambda uri: _command("log", uri, "--limit", "20"),
    "history": lambda uri: _command("history", uri),
    "conflicts": lambda uri: _command("conflicts", uri),
    "verify": verify,
    "blame of a file": blame,
    "blame of a partition": lambda uri: _command("blame", uri, "--where", "region = 7"),
    "why of a condition": lambda uri: _command("why", uri, "--where", "id = 50000500"),
    "why of a vacuum": lambda uri: _command("why", uri, "--vacuum"),
}
"""Reports by name. Each returns a size: bytes, characters, rows or files."""


def one(name: str, uri: str) -> dict[str, float]:
    """Measure a report in this process."""
    import tablefmt.cli.main  # noqa: F401 - its import is no part of a report

    clock, used = time.perf_counter(), time.process_time()
    with redirect_stdout(io.StringIO()):
        size = CASES[name](uri)
    return {
        "wall": time.perf_counter() - clock,
        "processor": time.process_time() - used,
        "size": float(size),
    }


def run(uri: str, names: list[str], rounds: int) -> dict[str, dict[str, float]]:
    """Return the least of all rounds by report, each in a process of its own."""
    figures: dict[str, dict[str, float]] = {}
    for _ in range(rounds):
        for name in names:
            code = "import json,sys; from benchmarks.inspection import one; "
            code += "print(json.dumps(one(*sys.argv[1:])))"
            done = subprocess.run(
                [sys.executable, "-c", code, name, uri], check=True, capture_output=True, text=True
            )
            found = json.loads(done.stdout.splitlines()[-1])
            best = figures.setdefault(name, found)
            figures[name] = {key: min(best[key], found[key]) for key in found}
            print(name, {key: round(value, 3) for key, value in found.items()}, flush=True)
    return figures


def main() -> None:
    """Build the table, run all rounds, and save the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--commits", type=int, default=10_000)
    parser.add_argument("--files", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", nargs="*", choices=list(CASES), default=list(CASES))
    parser.add_argument("--table", type=Path, help="keep the table here, and use it if it exists")
    given = parser.parse_args()
    folder = given.table or Path(tempfile.mkdtemp(dir=os.environ.get("TMPDIR"))) / "t"
    try:
        if not (folder / "_log").exists():
            began = time.perf_counter()
            build(folder, given.commits, given.files)
            print(f"built in {time.perf_counter() - began:.1f} s")
        figures = run(str(folder), given.only, given.rounds)
    finally:
        if given.table is None:
            shutil.rmtree(folder.parent)
    sizes = {"commits": given.commits, "files": given.files}
    save("inspection", {"machine": machine(), **sizes, "figures": figures})


if __name__ == "__main__":
    main()
