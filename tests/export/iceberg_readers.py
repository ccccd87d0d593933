"""Readers of Iceberg by other projects."""

from __future__ import annotations

import warnings
from pathlib import Path

import pyarrow as pa
import pytest

from tests.export.duckdb_process import DuckDBProcess


def metadata_file(path: str, version: int) -> str:
    """Return the address of the metadata file of a version of a local table."""
    return f"file://{path}/metadata/v{version + 1}.metadata.json"


class DuckDBIceberg(DuckDBProcess):
    """DuckDB's scan of a metadata file."""

    name = "duckdb"

    def read(self, path: str, version: int) -> pa.Table:
        """Return all rows of a version."""
        return self.query(f"SELECT * FROM iceberg_scan('{metadata_file(path, version)}')")


class PyIceberg:
    """PyIceberg over the newest metadata file, by the id of the snapshot."""

    name = "pyiceberg"

    def read(self, path: str, version: int) -> pa.Table:
        """Return all rows of a version."""
        table = pytest.importorskip("pyiceberg.table").StaticTable
        newest = max(int(p.name[1:].split(".")[0]) for p in Path(path, "metadata").glob("v*.json"))
        opened = table.from_metadata(metadata_file(path, newest - 1))
        kept = {snapshot.snapshot_id for snapshot in opened.snapshots()}
        if version + 1 not in kept:
            opened = table.from_metadata(metadata_file(path, version))
        return opened.scan(snapshot_id=version + 1).to_arrow()


class Polars:
    """polars over the metadata file of a version."""

    name = "polars"

    def read(self, path: str, version: int) -> pa.Table:
        """Return all rows of a version."""
        pytest.importorskip("pyiceberg")
        import polars

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return polars.scan_iceberg(metadata_file(path, version)).collect().to_arrow()
