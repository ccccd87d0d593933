"""Measure DuckDB and polars over tables of lineitem, against the same engines over the bare files.

    python -m benchmarks.python_engines [--scale 1] [--files 16] [--small 2000] [--rounds 5]
        [--only deleted,evolved,small] [--engines duckdb,polars]

- `deleted`: 1 % of the rows of every file are deleted
- `evolved`: `deleted`, with a renamed column, a widened column, and a column that no file has
- `small`: 200,000 rows in many files, without deleted rows

The queries on each are: a full scan, two columns, a range of 0.7 % of the rows, and one key of a
sorted column. The bare files are all files of the table, with deleted rows. `relation` was created
before the measurement, like a view. `new` opens the table and creates the relation each time, with
the condition. A LazyFrame of polars has the condition in both.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from collections.abc import Callable
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import polars
import pyarrow as pa

import tablefmt
import tablefmt.duckdb
import tablefmt.polars
from benchmarks.arrow_dml import lineitem
from benchmarks.harness import CACHE, ratio, run_alternating, save, summary

DAYS = (date(1994, 3, 1), date(1994, 3, 17))
KINDS = ("deleted", "evolved", "small")


def make(rows: pa.Table, root: Path, kind: str, files: int) -> tablefmt.Table:
    """Write a table with many files in one transaction."""
    step = -(-rows.num_rows // files)
    table = tablefmt.create(root / kind, rows.schema)
    with table.transaction() as transaction:
        for start in range(0, rows.num_rows, step):
            transaction.append(rows.slice(start, step))
    if kind in ("deleted", "evolved"):
        table.delete("l_orderkey % 100 = 7")
    if kind == "evolved":
        table.alter.rename_column("l_extendedprice", "price")
        table.alter.widen_column("l_linenumber", "BIGINT")
        table.alter.add_column("l_note", "STRING", default="-")
    return table


def queries(key: int, price: str) -> dict[str, tuple[str, str | None]]:
    """Return the columns and the condition of each query, as SQL."""
    between = f"l_shipdate BETWEEN DATE '{DAYS[0]}' AND DATE '{DAYS[1]}'"
    return {
        "full": ("*", None),
        "2 columns": (f"l_orderkey, {price}", None),
        "0.7 %": (f"l_orderkey, {price}", between),
        "one key": ("*", f"l_orderkey = {key}"),
    }


def duckdb_cases(table: tablefmt.Table, key: int, price: str) -> dict[str, Callable[[], Any]]:
    """Return DuckDB's measured cases by name."""
    connection = duckdb.connect()
    tablefmt.duckdb.attach(connection, "ours", table.uri)
    paths = [f"{table.uri}/{path}" for path in table.scan().files()["path"].to_pylist()]
    connection.execute(f"CREATE VIEW bare AS FROM read_parquet({paths!r})")

    def run(query: str) -> None:
        connection.sql(query).to_arrow_table()

    def new(columns: str, condition: str | None) -> None:
        names = None if columns == "*" else columns.split(", ")
        made = tablefmt.duckdb.relation(
            table.uri, connection=connection, columns=names, where=condition
        )
        made.to_arrow_table()

    cases: dict[str, Callable[[], Any]] = {}
    bare = queries(key, "l_extendedprice")
    for name, (columns, condition) in queries(key, price).items():
        where = "" if condition is None else f" WHERE {condition}"
        cases |= {
            f"duckdb {name} bare": partial(run, f"SELECT {bare[name][0]} FROM bare{where}"),
            f"duckdb {name} relation": partial(run, f"SELECT {columns} FROM ours{where}"),
            f"duckdb {name} new": partial(new, columns, condition),
        }
    return cases


def polars_cases(table: tablefmt.Table, key: int, price: str) -> dict[str, Callable[[], Any]]:
    """Return polars' measured cases by name."""
    column = polars.col
    paths = [f"{table.uri}/{path}" for path in table.scan().files()["path"].to_pylist()]
    conditions = {
        "0.7 %": column("l_shipdate").is_between(*DAYS),
        "one key": column("l_orderkey") == key,
    }

    def run(scan: Callable[[], polars.LazyFrame], name: str, price: str) -> None:
        rows = scan()
        if name in conditions:
            rows = rows.filter(conditions[name])
        if name in ("2 columns", "0.7 %"):
            rows = rows.select("l_orderkey", price)
        rows.collect(engine="streaming")

    made = tablefmt.polars.scan(table.uri)
    cases: dict[str, Callable[[], Any]] = {}
    for name in queries(key, price):
        cases |= {
            f"polars {name} bare": partial(
                run, partial(polars.scan_parquet, paths), name, "l_extendedprice"
            ),
            f"polars {name} relation": partial(run, made.lazy, name, price),
            f"polars {name} new": partial(
                run, partial(tablefmt.polars.scan, table.uri), name, price
            ),
        }
    return cases


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--scale", default="1")
    parser.add_argument("--files", type=int, default=16)
    parser.add_argument("--small", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default=",".join(KINDS))
    parser.add_argument("--engines", default="duckdb,polars")
    parser.add_argument("--cache", type=Path, default=CACHE)
    given = parser.parse_args()
    rows = lineitem(given.cache, given.scale)
    root = Path(tempfile.mkdtemp(prefix="tablefmt-engines-"))
    figures: dict[str, list[float]] = {}
    for kind in given.only.split(","):
        part = rows.slice(0, 200_000) if kind == "small" else rows
        table = make(part, root, kind, given.small if kind == "small" else given.files)
        key = part["l_orderkey"][part.num_rows // 2].as_py()
        price = "price" if kind == "evolved" else "l_extendedprice"
        cases: dict[str, Callable[[], Any]] = {}
        if "duckdb" in given.engines:
            cases |= duckdb_cases(table, key, price)
        if "polars" in given.engines:
            cases |= polars_cases(table, key, price)
        named = {f"{kind} {name}": case for name, case in cases.items()}
        figures |= run_alternating(named, given.rounds, warm_up=1)
        shutil.rmtree(root / kind)
    ratios = {
        name: ratio(figures, name, name.rsplit(" ", 1)[0] + " bare")
        for name in figures
        if not name.endswith(" bare")
    }
    payload = {"rows": rows.num_rows, "files": given.files, "small_files": given.small}
    save("python_engines", {**payload, "seconds": summary(figures), "ratios": ratios})


if __name__ == "__main__":
    main()
