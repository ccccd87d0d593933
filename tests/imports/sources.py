"""Sources of other writers for the tests of imports, and rows that can be compared."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

ODD = ["EU", None, "a b/c=d%2F", "ü😀", "x\ny"]
"""Partition values that paths must encode, and NULL."""


def odd_rows() -> pa.Table:
    """Return 60 rows with odd partition values, NULL, times and nested values."""
    return pa.table(
        {
            "id": pa.array(range(60), pa.int64()),
            "region": [ODD[i % 5] for i in range(60)],
            "n": pa.array([i % 3 for i in range(60)], pa.int64()),
            "v": [None if i % 7 == 0 else i / 2 for i in range(60)],
            "ts": pa.array([i * 10**14 for i in range(60)], pa.timestamp("us", "UTC")),
            "st": [{"a": i, "l": [i, None]} for i in range(60)],
        }
    )


def hive(folder: Path, rows: pa.Table | None = None) -> pa.Table:
    """Write a folder of Parquet files in hive folders by pyarrow; return its rows."""
    rows = odd_rows() if rows is None else rows
    schema = pa.schema([("region", pa.string()), ("n", pa.int64())])
    partitioning = ds.partitioning(schema, flavor="hive")
    ds.write_dataset(rows, folder, format="parquet", partitioning=partitioning)
    return rows


def write(path: Path, rows: dict[str, Any] | pa.Table, **options: Any) -> None:
    """Write one Parquet file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(rows if isinstance(rows, pa.Table) else pa.table(rows), path, **options)


def alike(rows: Any) -> list[str]:
    """Return rows in a form that can be compared, columns and rows in any order."""
    table = pa.table(rows)
    return sorted(map(repr, table.select(sorted(table.column_names)).to_pylist()))


def contents(folder: Path) -> dict[str, bytes]:
    """Return the bytes of all files of a source, without the log of the new table."""
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    names = ((path.relative_to(folder).as_posix(), path) for path in files)
    own = ("_log/", "deletes/")
    return {name: path.read_bytes() for name, path in names if not name.startswith(own)}
