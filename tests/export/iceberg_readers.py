"""Readers of Iceberg by other projects. A reader that is not installed skips its tests."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from pathlib import Path
from typing import IO

import pyarrow as pa
import pytest

DUCKDB = "TABLEFMT_TEST_DUCKDB"
"""Folder of a DuckDB that its extensions exist for, if the installed one is newer: `pip install
--target FOLDER duckdb==1.5.5 duckdb-extension-iceberg duckdb-extension-avro duckdb-extensions`."""

_SERVE = """
import sys
if sys.argv[1]: sys.path.insert(0, sys.argv[1])
import duckdb, pyarrow as pa
from duckdb_extensions import import_extension
connection = duckdb.connect()
connection.execute("SET timezone = 'UTC'")
connection.execute("SET enable_progress_bar = false")
connection.execute(f"SET extension_directory = '{sys.argv[2]}'")
for name in ("avro", "iceberg"):
    import_extension(name, con=connection)
    connection.execute(f"LOAD {name}")
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


def metadata_file(path: str, version: int) -> str:
    """Return the address of the metadata file of a version of a local table."""
    return f"file://{path}/metadata/v{version + 1}.metadata.json"


class DuckDBIceberg:
    """DuckDB with its extension for Iceberg, in a process of its own."""

    name = "duckdb"

    def __init__(self, folder: Path) -> None:
        self._out = folder / "rows.arrow"
        place = os.environ.get(DUCKDB, "")
        self._process = subprocess.Popen(
            [sys.executable, "-c", _SERVE, place, str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        if _file(self._process.stdout).readline() != "ready\n":
            self.close()
            pytest.skip(f"no DuckDB with its extension for Iceberg; set {DUCKDB}")

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
        return self.query(f"SELECT * FROM iceberg_scan('{metadata_file(path, version)}')")

    def close(self) -> None:
        """End the process."""
        for stream in (self._process.stdin, self._process.stdout):
            _file(stream).close()
        self._process.wait()


def _file(stream: IO[str] | None) -> IO[str]:
    assert stream is not None
    return stream


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
