"""Readers of Delta by other projects. A reader that is not installed skips its tests."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import IO

import pyarrow as pa
import pytest

DUCKDB = "TABLEFMT_TEST_DUCKDB"
"""Folder of a DuckDB that its extensions exist for, if the installed one is newer: `pip install
--target FOLDER duckdb==1.5.5 duckdb-extension-delta duckdb-extensions pyarrow`."""

_SERVE = """
import sys
if sys.argv[1]: sys.path.insert(0, sys.argv[1])
import duckdb, pyarrow as pa
from duckdb_extensions import import_extension
connection = duckdb.connect()
connection.execute("SET timezone = 'UTC'")
connection.execute("SET enable_progress_bar = false")
connection.execute(f"SET extension_directory = '{sys.argv[2]}'")
import_extension("delta", con=connection)
connection.execute("LOAD delta")
print("ready", flush=True)
for line in sys.stdin:
    out, _, sql = line.rstrip("\\n").partition("\\t")
    try:
        rows = connection.sql(sql).to_arrow_table()
        with pa.OSFile(out, "wb") as file, pa.ipc.new_file(file, rows.schema) as writer:
            writer.write_table(rows)
        print("done", flush=True)
    except Exception as error:
        print(repr(error).replace("\\n", " ")[:500], flush=True)
"""


class DuckDBDelta:
    """DuckDB with its extension for Delta, in a process of its own."""

    def __init__(self, folder: Path) -> None:
        self._out = folder / "rows.arrow"
        place = os.environ.get(DUCKDB, "")
        self._process = subprocess.Popen(
            [sys.executable, "-c", _SERVE, place, str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        if _file(self._process.stdout).readline() != "ready\n":
            self.close()
            pytest.skip(f"no DuckDB with its extension for Delta; set {DUCKDB}")

    def query(self, sql: str) -> pa.Table:
        """Return the rows of a query."""
        asked = _file(self._process.stdin)
        asked.write(f"{self._out}\t{' '.join(sql.split())}\n")
        asked.flush()
        answer = _file(self._process.stdout).readline()
        if answer != "done\n":
            raise RuntimeError(answer)
        with pa.OSFile(str(self._out)) as file:
            return pa.ipc.open_file(file).read_all()

    def read(self, path: str, version: int) -> pa.Table:
        """Return all rows of a version."""
        return self.query(f"SELECT * FROM delta_scan('{path}', version => {version})")

    def close(self) -> None:
        """End the process."""
        for stream in (self._process.stdin, self._process.stdout, self._process.stderr):
            _file(stream).close()
        self._process.wait()


def _file(stream: IO[str] | None) -> IO[str]:
    assert stream is not None
    return stream


def delta_rs(path: str, version: int) -> pa.Table:
    """Return all rows of a version, by delta-rs."""
    from deltalake import DeltaTable

    return pa.table(DeltaTable(path, version=version).scan())
