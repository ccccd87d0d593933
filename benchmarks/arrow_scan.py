"""Measure scans of TPC-H's lineitem into Arrow without Spark, against four peers.

    python -m benchmarks.arrow_scan [--scale 1] [--files 16] [--small 2000] [--rounds 5]
        [--only whole,deleted,evolved,one,small]

The peers are deltalake, pyarrow, DuckDB and polars. The tables are:

- `whole`: as written
- `deleted`: 1 % of the rows of every file are deleted, in deltalake's table too
- `evolved`: `deleted`, with a renamed column, a widened column, and a column that no file has
- `one`: all rows in one file
- `small`: 200,000 rows in many files

The queries on each are:

- all rows, and two columns of them
- a condition on two columns that 0.6 % of all rows pass and that prunes no file
- one key of a sorted column, and one value of an unsorted column
- the first 10 rows

pyarrow and the engines read the bare files of our table, and files that pyarrow writes with its
defaults ("plain"). They verify no page checksums, and return deleted rows too. The program prints
the ratios of wall and processor time to each peer, and to the better of DuckDB and polars over the
bare files. The case `polars into Arrow` also converts the text of polars to that of our result.
The queries `to polars` return a data frame of polars, by `Table.to_polars` and by polars over the
bare files. The program also prints the peak memory of two processes that read all rows batch by
batch: one without polars, and one that has imported it.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import deltalake
import duckdb
import polars
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq

import tablefmt
from benchmarks.arrow_dml import lineitem
from benchmarks.harness import CACHE, run_alternating, save, summary
from benchmarks.python_engines import make

KINDS = ("whole", "deleted", "evolved", "one", "small")
MONTH = (date(1994, 1, 1), date(1994, 2, 1))

BATCHES = """
import sys, tablefmt
if len(sys.argv) > 2:
    import polars
rows = sum(batch.num_rows for batch in tablefmt.open(sys.argv[1]).scan().to_batches())
# What the kernel says of a process's resources begins before this program did.
told = dict(line.split(":") for line in open("/proc/self/status"))
print(int(told["VmHWM"].split()[0]) >> 10)
"""

Query = tuple[list[str] | None, str | None, int | None]
"""Columns, condition, limit."""


def queries(key: int, price: str) -> dict[str, Query]:
    """Return the queries by name."""
    some = ["l_orderkey", price]
    month = (
        f"l_shipdate >= DATE '{MONTH[0]}' AND l_shipdate < DATE '{MONTH[1]}' AND l_quantity < 24"
    )
    return {
        "full": (None, None, None),
        "2 columns": (some, None, None),
        "filter": (some, month, None),
        "sorted key": (None, f"l_orderkey = {key}", None),
        "unsorted key": (None, "l_partkey = 3001", None),
        "limit": (None, None, 10),
    }


def expression(condition: str | None) -> pc.Expression | None:
    """Return the condition for a pyarrow dataset."""
    if condition is None:
        return None
    if "shipdate" in condition:
        shipped, quantity = pc.field("l_shipdate"), pc.field("l_quantity")
        return (shipped >= MONTH[0]) & (shipped < MONTH[1]) & (quantity < Decimal(24))
    name, key = condition.split(" = ")
    return pc.field(name) == int(key)


def by_arrow(make_dataset: Callable[[], ds.Dataset], query: Query) -> None:
    """Read with a new pyarrow dataset."""
    columns, condition, limit = query
    how = {"columns": columns, "filter": expression(condition)}
    dataset = make_dataset()
    if limit is None:
        dataset.to_table(**how)
    else:
        dataset.head(limit, **how)


def by_duckdb(paths: Sequence[str], query: Query) -> None:
    """Read with DuckDB into an Arrow table."""
    columns, condition, limit = query
    text = f"SELECT {', '.join(columns or ['*'])} FROM read_parquet({list(paths)!r})"
    text += "" if condition is None else f" WHERE {condition}"
    found = duckdb.sql(text + ("" if limit is None else f" LIMIT {limit}"))
    assert found is not None
    found.to_arrow_table()


def by_polars(paths: Sequence[str], query: Query, into_arrow: bool = False) -> None:
    """Read with polars into its own frame, and perhaps on into an Arrow table of plain text."""
    columns, condition, limit = query
    rows = polars.scan_parquet(list(paths))
    if condition is not None:
        rows = rows.filter(polars.sql_expr(condition))
    if columns is not None:
        rows = rows.select(columns)
    frame = (rows if limit is None else rows.head(limit)).collect()
    if into_arrow:
        frame.to_arrow(compat_level=polars.CompatLevel.oldest())


def by_us(uri: str, query: Query) -> None:
    """Open our table and scan it."""
    columns, condition, limit = query
    tablefmt.open(uri).to_arrow(columns=columns, where=condition, limit=limit)


def into_polars(uri: str, query: Query) -> None:
    """Open our table and read it into a data frame of polars."""
    columns, condition, limit = query
    tablefmt.open(uri).to_polars(columns=columns, where=condition, limit=limit)


def theirs(rows: pa.Table, root: Path, files: int, deleted: bool) -> str:
    """Write the rows as a deltalake table."""
    uri = str(root / "delta")
    step = -(-rows.num_rows // files)
    for start in range(0, rows.num_rows, step):
        deltalake.write_deltalake(uri, rows.slice(start, step), mode="append")
    if deleted:
        deltalake.DeltaTable(uri).delete("l_orderkey % 100 = 7")
    return uri


def plain(rows: pa.Table, root: Path, files: int) -> list[str]:
    """Write the rows with pyarrow's defaults."""
    step = -(-rows.num_rows // files)
    (root / "plain").mkdir()
    paths = [str(root / "plain" / f"{at}.parquet") for at in range(files)]
    for path, start in zip(paths, range(0, rows.num_rows, step), strict=True):
        pq.write_table(rows.slice(start, step), path)
    return paths


def cases_of(kind: str, rows: pa.Table, root: Path, files: int) -> dict[str, Callable[[], Any]]:
    """Return the measured cases by name."""
    table = make(rows, root, kind, files)
    uri, paths = table.uri, table.scan().files()["path"].to_pylist()
    bare = [f"{uri}/{path}" for path in paths]
    key = rows["l_orderkey"][rows.num_rows // 2].as_py()
    delta = theirs(rows, root, files, kind in ("deleted", "evolved"))
    by_pyarrow = plain(rows, root, files)
    ours = queries(key, "price" if kind == "evolved" else "l_extendedprice")
    cases: dict[str, Callable[[], Any]] = {}
    for name, query in queries(key, "l_extendedprice").items():
        cases |= {
            f"{kind} {name}: tablefmt": partial(by_us, uri, ours[name]),
            f"{kind} {name}: deltalake": partial(
                by_arrow, lambda: deltalake.DeltaTable(delta).to_pyarrow_dataset(), query
            ),
            f"{kind} {name}: pyarrow": partial(by_arrow, partial(ds.dataset, bare), query),
            f"{kind} {name}: duckdb": partial(by_duckdb, bare, query),
            f"{kind} {name}: polars": partial(by_polars, bare, query),
            f"{kind} {name}: polars into Arrow": partial(by_polars, bare, query, into_arrow=True),
            f"{kind} {name}: pyarrow plain": partial(
                by_arrow, partial(ds.dataset, by_pyarrow), query
            ),
            f"{kind} {name}: duckdb plain": partial(by_duckdb, by_pyarrow, query),
            f"{kind} {name} to polars: tablefmt": partial(into_polars, uri, ours[name]),
            f"{kind} {name} to polars: polars": partial(by_polars, bare, query),
        }
    return cases


def query_of(case: str, kind: str) -> str:
    """Return the name of the query of a case."""
    return case.partition(": ")[0].removeprefix(f"{kind} ").removesuffix(" to polars")


def settle() -> None:
    """Wait until the threads of another contestant are idle. DuckDB's still read after a LIMIT."""
    spent = -1.0
    while time.process_time() - spent > 0.001:
        spent = time.process_time()
        time.sleep(0.02)


def again(case: Callable[[], Any], processor: list[float]) -> float:
    """Return the seconds of the second of two runs, so that it reuses its own memory and not that
    of another contestant. Its processor seconds are appended."""
    settle()
    case()
    start, before = time.perf_counter(), time.process_time()
    case()
    seconds = time.perf_counter() - start
    processor.append(time.process_time() - before)
    return seconds


def over_peers(least: Mapping[str, float]) -> dict[str, float]:
    """Return our figure over that of each peer, by the peer's case."""
    return {
        name: least[name.split(": ")[0] + ": tablefmt"] / figure
        for name, figure in least.items()
        if not name.endswith(": tablefmt")
    }


def over_the_better(least: Mapping[str, float]) -> dict[str, float]:
    """Return our figure over the better of DuckDB and polars over the bare files, by query."""
    found = {}
    for query in (name.removesuffix(": tablefmt") for name in least if name.endswith("tablefmt")):
        peers = (f"{query}: duckdb", f"{query}: polars")
        better = min(least[peer] for peer in peers if peer in least)
        found[query] = least[f"{query}: tablefmt"] / better
    return found


def peak_memory(uri: str, *imported: str) -> int:
    """Return the peak MiB of a process that reads all rows as batches."""
    run = [sys.executable, "-c", BATCHES, uri, *imported]
    return int(subprocess.run(run, stdout=subprocess.PIPE, text=True, check=True).stdout)


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--scale", default="1")
    parser.add_argument("--files", type=int, default=16)
    parser.add_argument("--small", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default=",".join(KINDS))
    parser.add_argument("--queries", default="", help="names, commas between; all of them")
    parser.add_argument("--cache", type=Path, default=CACHE)
    given = parser.parse_args()
    rows = lineitem(given.cache, given.scale)
    numbers = {"one": 1, "small": given.small}
    figures: dict[str, list[float]] = {}
    processor: dict[str, list[float]] = {}
    memory: dict[str, int] = {}
    for kind in given.only.split(","):
        root = Path(tempfile.mkdtemp(prefix="tablefmt-scan-"))
        try:
            part = rows.slice(0, 200_000) if kind == "small" else rows
            cases = cases_of(kind, part, root, numbers.get(kind, given.files))
            if given.queries:
                cases = {
                    n: c for n, c in cases.items() if query_of(n, kind) in given.queries.split(",")
                }
            processor |= {name: [] for name in cases}
            twice = {name: partial(again, case, processor[name]) for name, case in cases.items()}
            figures |= run_alternating(twice, given.rounds)
            memory[kind] = peak_memory(str(root / kind))
            memory[f"{kind}, polars imported"] = peak_memory(str(root / kind), "polars")
        finally:
            shutil.rmtree(root)
    wall, spent = ({n: min(v) for n, v in each.items()} for each in (figures, processor))
    walls, spents = over_the_better(wall), over_the_better(spent)
    print("over the better of DuckDB and polars: wall, processor time")
    for query in walls:
        print(f"{query:24} {walls[query]:5.2f} {spents[query]:5.2f}")
    save(
        "arrow_scan",
        {
            "rows": rows.num_rows,
            "files": given.files,
            "small_files": given.small,
            "seconds": summary(figures),
            "processor_seconds": summary(processor),
            "tablefmt_over": over_peers(wall),
            "tablefmt_over_processor": over_peers(spent),
            "over_the_better": {"wall": walls, "processor": spents},
            "peak_memory_mib": memory,
        },
    )


if __name__ == "__main__":
    main()
