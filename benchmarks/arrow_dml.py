"""Measure DELETE, UPDATE and MERGE on TPC-H's lineitem without Spark, against deltalake.

    python -m benchmarks.arrow_dml [--scale 1] [--files 32] [--rounds 5] [--only delete_1%,merge_1%]

Every statement runs on a fresh copy of the same table (files are linked, not copied), and the peers
alternate. The program also prints:

- the bytes written for each byte of changed rows
- a scan before and after 10 % of the rows are deleted
- the peak memory of a MERGE of 1,000 rows
- 16 pairs of concurrent MERGEs of different rows
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import tablefmt
from benchmarks.harness import CACHE, ratio, run_alternating, save, summary, tpch_rows
from tablefmt.errors import ConcurrentModificationException

OURS, THEIRS = "tablefmt", "deltalake"
ON = "t.l_orderkey = s.l_orderkey AND t.l_linenumber = s.l_linenumber"
FAR = 1_000_000_000
"""Added to a key to get a key that no row has."""

DELETES = {"delete_0.01%": 10_000, "delete_1%": 100, "delete_10%": 10}
UPDATES = {"update_0.1%": 1_000, "update_1%": 100}
MERGE = "merge_1%"


def lineitem(cache: Path, scale: str) -> pa.Table:
    """Return the rows, generated once per scale."""
    folder = tpch_rows(cache / f"lineitem-{scale}", scale, "-T", "lineitem")
    rows = pq.read_table(next(folder.glob("**/*.parquet")))
    plain = [pa.string() if pa.types.is_string_view(f.type) else f.type for f in rows.schema]
    return rows.cast(pa.schema(list(zip(rows.schema.names, plain, strict=True))))


def write_both(rows: pa.Table, root: Path, files: int) -> None:
    """Write the rows as a table of each peer, in `files` files."""
    import deltalake

    step = -(-rows.num_rows // files)
    parts = [rows.slice(start, step) for start in range(0, rows.num_rows, step)]
    ours = tablefmt.create(root / OURS, rows.schema)
    with ours.transaction() as txn:
        for part in parts:
            txn.append(part)
    for part in parts:
        deltalake.write_deltalake(str(root / THEIRS), part, mode="append")


class Tables:
    """Fresh copies of the tables for statements to change."""

    def __init__(self, root: Path) -> None:
        self.root, self.made = root, 0

    def copy(self, which: str) -> str:
        """Copy a table by linking its files."""
        self.made += 1
        target = self.root / f"copy{self.made}"
        shutil.copytree(self.root / which, target, copy_function=os.link)
        return str(target)


def timed(tables: Tables, which: str, work: Callable[[Any], Any]) -> float:
    """Return the seconds of the work on an open table of a fresh copy."""
    folder = tables.copy(which)
    table = opened(which, folder)
    start = time.perf_counter()
    work(table)
    seconds = time.perf_counter() - start
    shutil.rmtree(folder)
    return seconds


def opened(which: str, folder: str) -> Any:
    """Open a table of either peer."""
    import deltalake

    return tablefmt.open(folder) if which == OURS else deltalake.DeltaTable(folder)


def delete(every: int) -> Callable[[Any], Any]:
    """Delete one of `every` keys."""
    return lambda table: table.delete(f"l_orderkey % {every} = 7")


def update(every: int) -> Callable[[Any], Any]:
    """Update a number and a text of one of `every` keys."""
    values = {"l_quantity": "l_quantity + 1", "l_comment": "'changed'"}

    def run(table: Any) -> None:
        where = f"l_orderkey % {every} = 7"
        if isinstance(table, tablefmt.Table):
            table.update(values, where)
        else:
            table.update(updates=values, predicate=where)

    return run


def merge(source: pa.Table) -> Callable[[Any], Any]:
    """Return a MERGE: matching rows get the source's values, others are inserted."""

    def run(table: Any) -> None:
        if isinstance(table, tablefmt.Table):
            builder = table.merge(source, ON)
            builder.when_matched_update_all().when_not_matched_insert_all().execute()
        else:
            builder = table.merge(source, ON, source_alias="s", target_alias="t")
            builder.when_matched_update_all().when_not_matched_insert_all().execute()

    return run


def source_of(rows: pa.Table, every: int, limit: int | None = None) -> pa.Table:
    """Return rows spread over the table, half of them with keys that it lacks."""
    keys = rows["l_orderkey"]
    remainder = pc.subtract(keys, pc.multiply(pc.divide(keys, every), every))
    found = rows.filter(pc.equal(remainder, 1))
    if limit is not None:
        step = max(1, found.num_rows // limit)
        found = found.take(pa.array(range(0, found.num_rows, step), pa.int64()))
        found = found.slice(0, limit)
    at = found.schema.get_field_index("l_orderkey")
    half = pa.array([FAR * (i % 2) for i in range(found.num_rows)], pa.int64())
    return found.set_column(at, "l_orderkey", pc.add(found["l_orderkey"], half))


def amplification(tables: Tables, rows: pa.Table) -> dict[str, float]:
    """Return the bytes that an UPDATE of 1 % writes for each byte of its rows in their own file."""
    folder = tables.copy(OURS)
    before = {p: p.stat().st_size for p in Path(folder).rglob("*") if p.is_file()}
    update(100)(tablefmt.open(folder))
    written = sum(
        p.stat().st_size for p in Path(folder).rglob("*") if p.is_file() and p not in before
    )
    changed = tablefmt.open(folder).to_arrow(where="l_comment = 'changed'")
    sink = pa.BufferOutputStream()
    pq.write_table(changed, sink, compression="zstd")
    shutil.rmtree(folder)
    size = sink.getvalue().size
    return {"written": written, "rows": size, "factor": written / size}


def scans(tables: Tables, rounds: int) -> dict[str, list[float]]:
    """Return seconds of a scan of all columns, before and after 10 % of the rows are deleted."""
    folder = tables.copy(OURS)
    clean = tablefmt.open(str(tables.root / OURS))
    gone = tablefmt.open(folder)
    delete(10)(gone)

    def scan(table: tablefmt.Table) -> Callable[[], None]:
        def run() -> None:
            for _ in table.scan().to_batches():
                pass

        return run

    found = run_alternating({"clean": scan(clean), "after": scan(gone)}, rounds, warm_up=1)
    shutil.rmtree(folder)
    return found


PEAK = """
import sys
import pyarrow.parquet as pq
import tablefmt
table, source = tablefmt.open(sys.argv[1]), pq.read_table(sys.argv[2])
builder = table.merge(source, sys.argv[3])
builder.when_matched_update_all().when_not_matched_insert_all().execute()
# Not ru_maxrss: it begins with that of the process that started this one.
status = open("/proc/self/status").read()
print(int(status.split("VmHWM:")[1].split()[0]) // 1024)
"""


def peak_of_merge(tables: Tables, source: pa.Table) -> int:
    """Return the peak MB of a separate process for a MERGE, including the interpreter."""
    folder = tables.copy(OURS)
    file = tables.root / "source.parquet"
    pq.write_table(source, file)
    told = subprocess.run(
        [sys.executable, "-c", PEAK, folder, str(file), ON],
        capture_output=True,
        text=True,
        check=True,
    )
    shutil.rmtree(folder)
    return int(told.stdout)


def at_once(tables: Tables, rows: pa.Table, pairs: int) -> dict[str, int]:
    """Run pairs of concurrent MERGEs of different rows; return how many failed."""
    folder = tables.copy(OURS)
    failed = []

    def work(source: pa.Table, start: threading.Barrier) -> None:
        table = tablefmt.open(folder)
        start.wait()
        try:
            merge(source)(table)
        except ConcurrentModificationException as error:
            failed.append(error)

    for turn in range(pairs):
        start = threading.Barrier(2)
        found = source_of(rows, 300 + turn, 400)
        sides = (pa.array(range(side, found.num_rows, 2), pa.int64()) for side in (0, 1))
        halves = [found.take(side) for side in sides]
        threads = [threading.Thread(target=work, args=(half, start)) for half in halves]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    shutil.rmtree(folder)
    return {"merges": 2 * pairs, "failed": len(failed)}


def main() -> None:
    """Run and save the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", default="1", help="GB, as tpchgen-cli takes it; 0.1 will do")
    parser.add_argument("--files", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="", help="statements, commas between; all of them")
    parser.add_argument("--cache", type=Path, default=CACHE, help="keeps the generated rows")
    given = parser.parse_args()
    rows = lineitem(given.cache, given.scale)
    root = Path(tempfile.mkdtemp(prefix="arrow_dml"))
    write_both(rows, root, given.files)
    tables = Tables(root)
    statements = {name: delete(every) for name, every in DELETES.items()}
    statements |= {name: update(every) for name, every in UPDATES.items()}
    statements[MERGE] = merge(source_of(rows, 100))
    chosen = given.only.split(",") if given.only else list(statements)
    figures: dict[str, Any] = {}
    for name in chosen:
        cases = {
            f"{name} {which}": lambda which=which, name=name: timed(tables, which, statements[name])
            for which in (OURS, THEIRS)
        }
        figures |= run_alternating(cases, given.rounds, warm_up=1)
    found = {
        "rows": rows.num_rows,
        "files": given.files,
        "seconds": summary(figures),
        "ratios": {n: ratio(figures, f"{n} {OURS}", f"{n} {THEIRS}") for n in chosen},
        "update_1%_bytes": amplification(tables, rows),
        "scan_seconds": summary(scans(tables, given.rounds)),
        "merge_1000_peak_mb": peak_of_merge(tables, source_of(rows, 100, 1000)),
        "two_merges_at_once": at_once(tables, rows, 16),
    }
    shutil.rmtree(root)
    save("arrow_dml", found)


if __name__ == "__main__":
    main()
