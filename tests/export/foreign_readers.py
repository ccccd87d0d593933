"""Readers of Delta by other projects."""

from __future__ import annotations

import pyarrow as pa

from tests.export.duckdb_process import DuckDBProcess


class DuckDBDelta(DuckDBProcess):
    """DuckDB's scan of a Delta table."""

    def read(self, path: str, version: int) -> pa.Table:
        """Return all rows of a version."""
        return self.query(f"SELECT * FROM delta_scan('{path}', version => {version})")


def delta_rs(path: str, version: int) -> pa.Table:
    """Return all rows of a version, by delta-rs."""
    from deltalake import DeltaTable

    return pa.table(DeltaTable(path, version=version).scan())
