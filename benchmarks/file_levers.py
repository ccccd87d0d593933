"""Measure each way to write TPC-H's lineitem as Parquet: the figures of decisions 0021 and 0024.

    python -m benchmarks.file_levers [--scale 1] [--files 16] [--rounds 4] [--only LEVER,…]
        [--columns 1000000]

Each lever is the previous one with one more setting, from Arrow's defaults to tablefmt's files;
further levers have other codecs and row groups. The figures of a lever are:

- bytes
- processor seconds to write (by pyarrow's writer, into memory and then to a file)
- processor seconds and seconds (the minimum of the rounds) to read all rows, two columns, 0.7 % of
  the rows, and one key of a sorted column

Readers are pyarrow's dataset with page checksums, and DuckDB.

For the first rows (`--columns`, 0 for none) the program also prints the bytes of each column in
each encoding and codec.
"""

from __future__ import annotations

import argparse
import io
import shutil
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from benchmarks.arrow_dml import lineitem
from benchmarks.arrow_scan import Query, expression, queries
from benchmarks.harness import CACHE, save
from tablefmt.data import parquet_writer
from tablefmt.model.arrow_types import from_arrow
from tablefmt.store.local_store import LocalStore

CODECS = ("none", "snappy", "lz4", "zstd")
READS = ("full", "2 columns", "filter", "sorted key")


@dataclass(frozen=True)
class Lever:
    """A way to write: by Arrow's writer with these settings, or by ours where there are none."""

    settings: dict[str, Any] = field(default_factory=dict)
    group_rows: int = 128 << 10
    codec: str = "zstd"


BEFORE = {"store_schema": False, "write_page_checksum": True}
INTEGERS = {**BEFORE, "store_decimal_as_integer": True}
SMALL_DICTIONARIES = {**INTEGERS, "dictionary_pagesize_limit": 128 << 10}
LEVERS = {
    "before": Lever(BEFORE, 1 << 20),
    "decimals as integers": Lever(INTEGERS, 1 << 20),
    "128k rows a group": Lever(INTEGERS),
    "dictionaries of 128 KiB": Lever(SMALL_DICTIONARIES),
    "page index": Lever({**SMALL_DICTIONARIES, "write_page_index": True}),
    "encodings from a sample": Lever(),
    "snappy": Lever(codec="snappy"),
    "lz4": Lever(codec="lz4"),
    "64k rows a group": Lever(group_rows=64 << 10),
    "256k rows a group": Lever(group_rows=256 << 10),
}


def write(rows: pa.Table, folder: Path, files: int, lever: Lever) -> float:
    """Return the processor seconds to write the files."""
    step = -(-rows.num_rows // files)
    store = LocalStore(str(folder))
    schema = from_arrow(rows.schema)
    bound = parquet_writer.GROUP_ROWS
    parquet_writer.GROUP_ROWS = lever.group_rows
    begun = time.process_time()
    for at, start in enumerate(range(0, rows.num_rows, step)):
        part = rows.slice(start, step)
        if lever.settings:
            body = io.BytesIO()
            with pq.ParquetWriter(
                body, part.schema, compression=lever.codec, **lever.settings
            ) as writer:
                writer.write_table(part, lever.group_rows)
            (folder / f"{at}.parquet").write_bytes(body.getbuffer())
        else:
            parquet_writer.write_file(store, f"{at}.parquet", part, schema, (), lever.codec)
    parquet_writer.GROUP_ROWS = bound
    return time.process_time() - begun


def by_arrow(paths: list[str], query: Query) -> None:
    """Read with a pyarrow dataset that verifies page checksums."""
    columns, condition, _ = query
    options = ds.ParquetFragmentScanOptions(page_checksum_verification=True)
    kind = ds.ParquetFileFormat(default_fragment_scan_options=options)
    dataset = ds.dataset(paths, format=kind)
    dataset.to_table(columns=columns, filter=expression(condition))


def by_duckdb(paths: list[str], query: Query) -> None:
    """Read with DuckDB into an Arrow table."""
    columns, condition, _ = query
    text = f"SELECT {', '.join(columns or ['*'])} FROM read_parquet({paths!r})"
    found = duckdb.sql(text + ("" if condition is None else f" WHERE {condition}"))
    assert found is not None
    found.to_arrow_table()


def least(read: Callable[[], None], rounds: int) -> dict[str, float]:
    """Return the minimum seconds and processor seconds."""
    seconds, processor = [], []
    for _ in range(rounds):
        begun, start = time.process_time(), time.perf_counter()
        read()
        seconds.append(time.perf_counter() - start)
        processor.append(time.process_time() - begun)
    return {"seconds": min(seconds), "processor": min(processor)}


def measured(rows: pa.Table, files: int, lever: Lever, rounds: int, root: Path) -> dict[str, Any]:
    """Return all figures of one lever."""
    written = []
    for _ in range(min(rounds, 3)):
        shutil.rmtree(root, ignore_errors=True)
        root.mkdir()
        written.append(write(rows, root, files, lever))
    paths = sorted(map(str, root.glob("*.parquet")))
    asked = queries(rows["l_orderkey"][rows.num_rows // 2].as_py(), "l_extendedprice")
    result: dict[str, Any] = {
        "bytes": sum(Path(path).stat().st_size for path in paths),
        "written_processor": min(written),
    }
    for engine, read in (("arrow", by_arrow), ("duckdb", by_duckdb)):
        for name in READS:
            result[f"{engine} {name}"] = least(partial(read, paths, asked[name]), rounds)
    return result


def encodings_of(kind: pa.DataType) -> dict[str, dict[str, Any]]:
    """Return the writer's settings for one column, by name."""
    ways: dict[str, dict[str, Any]] = {
        "dictionary": {"use_dictionary": True},
        "plain": {"use_dictionary": False},
    }
    others = ["DELTA_BINARY_PACKED", "BYTE_STREAM_SPLIT"]
    if pa.types.is_string(kind):
        others = ["DELTA_LENGTH_BYTE_ARRAY", "DELTA_BYTE_ARRAY"]
    for name in others:
        ways[name] = {"use_dictionary": False, "column_encoding": name}
    return ways


def column_sizes(rows: pa.Table) -> dict[str, dict[str, int]]:
    """Return the bytes of each column by encoding and codec."""
    sizes: dict[str, dict[str, int]] = {}
    for name in rows.schema.names:
        column = rows.select([name])
        sizes[name] = {}
        for way, told in encodings_of(column.schema.field(0).type).items():
            for codec in CODECS:
                body = io.BytesIO()
                pq.write_table(
                    column,
                    body,
                    row_group_size=parquet_writer.GROUP_ROWS,
                    compression=codec,
                    dictionary_pagesize_limit=parquet_writer.DICTIONARY_BYTES,
                    store_decimal_as_integer=True,
                    store_schema=False,
                    **told,
                )
                sizes[name][f"{way} {codec}"] = body.tell()
    return sizes


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--scale", default="1")
    parser.add_argument("--files", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--only", default=",".join(LEVERS))
    parser.add_argument("--columns", type=int, default=1_000_000)
    parser.add_argument("--cache", type=Path, default=CACHE)
    given = parser.parse_args()
    rows = lineitem(given.cache, given.scale)
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="tablefmt-levers-") as folder:
        for name in filter(None, given.only.split(",")):
            root = Path(folder) / "files"
            found[name] = measured(rows, given.files, LEVERS[name], given.rounds, root)
            print(name, found[name], flush=True)
    sizes = column_sizes(rows.slice(0, given.columns)) if given.columns else {}
    payload = {"rows": rows.num_rows, "files": given.files, "levers": found}
    save("file_levers", {**payload, "column_rows": given.columns, "column_bytes": sizes})


if __name__ == "__main__":
    main()
