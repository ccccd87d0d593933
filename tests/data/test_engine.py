"""The engine for expressions: it reads only the given rows, and no caller shares it."""

from __future__ import annotations

import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest

import tablefmt
from tablefmt.data.sql_evaluation import Engine
from tablefmt.errors import InvalidPredicateError
from tests.tables import memory

ROWS = pa.table({"k": pa.array(range(1000), pa.int32())})

OUTSIDE = {
    "SELECT * FROM read_csv('{file}')": "Permission",
    "SELECT * FROM '{file}'": "Permission",
    "SELECT * FROM read_text('{file}')": "Permission",
    "SELECT * FROM glob('/*')": "Permission",
    "COPY (SELECT 1) TO '{folder}/out.csv'": "Permission",
    "EXPORT DATABASE '{folder}/out'": "Permission",
    "ATTACH '{folder}/other.db' AS other": "Permission",
    "INSTALL httpfs": "Permission",
    "LOAD httpfs": "Permission",
    "LOAD '{file}'": "Permission",
    "SET enable_external_access = true": "Cannot change configuration",
    "SET lock_configuration = false": "Cannot change configuration",
    "RESET lock_configuration": "Cannot change configuration",
    "SET memory_limit = '100GB'": "Cannot change configuration",
    "SET temp_directory = '{folder}'": "Cannot change configuration",
    "SET allowed_directories = ['/']": "Cannot change configuration",
    "SET python_enable_replacements = true": "Cannot change configuration",
    "SELECT * FROM ROWS": "does not exist",
    "SELECT * FROM engine": "does not exist",
}


def test_no_text_reaches_files_extensions_or_settings(tmp_path: Path) -> None:
    """SQL-6: asked through the very connection that evaluates conditions."""
    file = tmp_path / "there.csv"
    file.write_text("a\n1\n")
    engine = Engine()
    for text, why in OUTSIDE.items():
        with pytest.raises(InvalidPredicateError, match=why):
            engine.query(text.format(file=file, folder=tmp_path))
    assert [path.name for path in tmp_path.iterdir()] == ["there.csv"]
    assert engine.query("SELECT sum(k) AS s FROM rows", rows=ROWS)["s"].to_pylist() == [499500]


@pytest.mark.slow
def test_rows_beyond_memory_go_to_disk() -> None:
    """The folder for them is not among what is closed."""
    engine = Engine(64 << 20)
    many = pa.table({"k": pa.array(range(2_000_000), pa.int64())})
    text = "SELECT k, repeat('x', 60) || k AS t FROM rows ORDER BY t"
    peak: list[int] = []
    done = threading.Event()

    def watch() -> None:
        # A file of what went to disk, while it is there.
        while not done.wait(0.005) and not peak:
            sizes = other.query("SELECT size FROM duckdb_temporary_files()")["size"]
            peak.extend(size for size in sizes.to_pylist() if size)

    other = Engine(64 << 20)
    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        found = engine.query(f"SELECT count(*) AS n, max(t) AS m FROM ({text})", rows=many)
    finally:
        done.set()
        watcher.join()
    assert found.to_pylist() == [{"n": 2_000_000, "m": "x" * 60 + "999999"}]
    assert peak


def test_one_scan_by_many_threads() -> None:
    """SQL-1: a condition for the engine, as any other."""
    table = tablefmt.create(memory().uri, "k INT")
    for _ in range(3):
        table.append(ROWS)
    scan = table.scan(where="k + 1 > 500")
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: sorted(scan.to_arrow()["k"].to_pylist()), range(32)))
    assert found == [sorted([*range(500, 1000)] * 3)] * 32


AT_EXIT = """
import builtins, sys, threading
import pyarrow as pa
import tablefmt

table = tablefmt.create("memory://at-exit/t", "k INT")
for _ in range(2):
    table.append(pa.table({"k": pa.array(range(10), pa.int32())}))
scan = table.scan(where="k + 1 > 5")
assert scan.to_arrow().num_rows == 10
started = threading.Event()

def kept():
    batches = iter(table.scan(where="k + 2 > 5").to_batches())
    next(batches)
    started.set()
    threading.Event().wait()

threading.Thread(target=kept, daemon=True).start()
assert started.wait(60)
builtins.kept = iter(table.scan(where="k + 3 > 5").to_batches())
next(builtins.kept)
"""


@pytest.mark.slow
def test_nothing_is_said_at_exit() -> None:
    """An engine that a thread, a module or C code still holds at exit is not reported."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", AT_EXIT], capture_output=True, text=True, timeout=120
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
