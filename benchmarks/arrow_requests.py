"""Count requests and bytes of scans of lineitem on S3, against deltalake, DuckDB, polars, pyarrow.

    python -m benchmarks.arrow_requests [--scale 1] [--files 4] [--only CASE,…]

The server is moto in this process, without latency, so seconds would be meaningless. Each case
opens the table again. Requests for our log are counted separately. deltalake reads files of its own
writer with the same rows. pyarrow and DuckDB (through s3fs), and polars, read our files by their
paths ("bare"). The queries are: all rows, two columns, a
condition on two columns that 0.7 % of the rows pass, and one key of a sorted column.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import deltalake
import duckdb
import polars
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.fs
import s3fs

import tablefmt
import tablefmt.duckdb
import tablefmt.polars
from benchmarks.arrow_dml import lineitem
from benchmarks.arrow_scan import Query, by_arrow, queries
from benchmarks.harness import CACHE, save
from tests.s3server import S3Server


class Counted:
    """Count the server's requests while open, and the bytes of the response bodies."""

    def __init__(self, server: S3Server) -> None:
        self._http = server._server
        self.log = self.data = self.whole = self.bytes = 0

    @contextmanager
    def counting(self) -> Iterator[None]:
        """Count the requests inside the block."""
        inner: Any = self._http.app

        def counted(environ: dict[str, Any], start: Any) -> Iterable[bytes]:
            path, method = environ["PATH_INFO"], environ["REQUEST_METHOD"]
            if not path.endswith(".parquet"):
                self.log += 1
            else:
                self.data += 1
                self.whole += method == "GET" and not environ.get("HTTP_RANGE")
                return self._sized(inner(environ, start))
            answer: Iterable[bytes] = inner(environ, start)
            return answer

        self._http.app = counted
        try:
            yield
        finally:
            self._http.app = inner

    def _sized(self, body: Iterable[bytes]) -> Iterator[bytes]:
        for piece in body:
            self.bytes += len(piece)
            yield piece


def ours(uri: str, options: dict[str, Any], query: Query) -> None:
    """Read with `Table.scan`."""
    columns, condition, _ = query
    tablefmt.open(uri, storage_options=options).to_arrow(columns=columns, where=condition)


def ours_by_duckdb(uri: str, options: dict[str, Any], query: Query) -> None:
    """Read through a view; DuckDB evaluates the condition."""
    columns, condition, _ = query
    with duckdb.connect() as connection:
        tablefmt.duckdb.attach(connection, "t", uri, storage_options=options)
        where = "" if condition is None else f" WHERE {condition}"
        connection.sql(f"SELECT {', '.join(columns or ['*'])} FROM t{where}").to_arrow_table()


def ours_by_polars(uri: str, options: dict[str, Any], query: Query) -> None:
    """Read through a LazyFrame."""
    columns, condition, _ = query
    rows = tablefmt.polars.scan(uri, storage_options=options)
    if condition is not None:
        rows = rows.filter(polars.sql_expr(condition))
    (rows if columns is None else rows.select(columns)).collect()


def bare_by_duckdb(paths: list[str], files: s3fs.S3FileSystem, query: Query) -> None:
    """Read our files by their paths through s3fs."""
    columns, condition, _ = query
    files.invalidate_cache()
    with duckdb.connect() as connection:
        connection.register_filesystem(files)
        where = "" if condition is None else f" WHERE {condition}"
        text = f"SELECT {', '.join(columns or ['*'])} FROM read_parquet({paths!r}){where}"
        connection.sql(text).to_arrow_table()


def bare_by_polars(paths: list[str], options: dict[str, str], query: Query) -> None:
    """Read our files by their paths with polars."""
    columns, condition, _ = query
    rows = polars.scan_parquet(paths, storage_options=options)
    if condition is not None:
        rows = rows.filter(polars.sql_expr(condition))
    (rows if columns is None else rows.select(columns)).collect()


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--scale", default="1")
    parser.add_argument("--files", type=int, default=4)
    parser.add_argument("--only", default="")
    parser.add_argument("--cache", type=Path, default=CACHE)
    given = parser.parse_args()
    rows = lineitem(given.cache, given.scale)
    server = S3Server()
    bucket, options = server.new_bucket(), server.options
    theirs = {
        "AWS_ENDPOINT_URL": server.endpoint,
        "AWS_ACCESS_KEY_ID": server.key,
        "AWS_SECRET_ACCESS_KEY": server.secret,
        "AWS_REGION": "us-east-1",
        "AWS_ALLOW_HTTP": "true",
    }
    uri, delta = f"s3://{bucket}/table", f"s3://{bucket}/delta"
    table = tablefmt.create(uri, rows.schema, storage_options=options)
    step = -(-rows.num_rows // given.files)
    for start in range(0, rows.num_rows, step):
        part = rows.slice(start, step)
        table.append(part)
        deltalake.write_deltalake(delta, part, mode="append", storage_options=theirs)
    files = s3fs.S3FileSystem(**options, skip_instance_cache=True)
    # DuckDB names the ranges that it needs. It has a cache of its own.
    exact = s3fs.S3FileSystem(**options, skip_instance_cache=True, default_cache_type="none")
    paths = [f"{bucket}/table/{path}" for path in table.scan().files()["path"].to_pylist()]
    bare = [f"s3://{path}" for path in paths]

    def their_dataset() -> ds.Dataset:
        return deltalake.DeltaTable(delta, storage_options=theirs).to_pyarrow_dataset()

    def bare_dataset() -> ds.Dataset:
        files.invalidate_cache()
        return ds.dataset(paths, filesystem=pa.fs.PyFileSystem(pa.fs.FSSpecHandler(files)))

    readers: dict[str, Callable[[Query], None]] = {
        "tablefmt": partial(ours, uri, options),
        "tablefmt.duckdb": partial(ours_by_duckdb, uri, options),
        "tablefmt.polars": partial(ours_by_polars, uri, options),
        "deltalake": lambda query: by_arrow(their_dataset, query),
        "pyarrow, bare, s3fs": lambda query: by_arrow(bare_dataset, query),
        "duckdb, bare, s3fs": partial(bare_by_duckdb, bare, exact),
        "polars, bare": partial(bare_by_polars, bare, theirs),
    }
    key = rows["l_orderkey"][rows.num_rows // 2].as_py()
    found: dict[str, dict[str, int]] = {}
    for name, query in queries(key, "l_extendedprice").items():
        if name not in (given.only or "full,2 columns,filter,sorted key").split(","):
            continue
        for reader, read in readers.items():
            counted = Counted(server)
            with counted.counting():
                read(query)
            found[f"{name}: {reader}"] = {
                "of_log": counted.log,
                "of_data": counted.data,
                "of_data_whole": counted.whole,
                "data_bytes": counted.bytes,
            }
            print(f"{name}: {reader}", found[f"{name}: {reader}"], flush=True)
    server.stop()
    held = table.scan().files()["size"].to_pylist()
    save("arrow_requests", {"rows": rows.num_rows, "file_bytes": held, "requests": found})


if __name__ == "__main__":
    main()
