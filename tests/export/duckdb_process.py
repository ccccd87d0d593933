"""DuckDB with its extensions for Delta and Iceberg, in a process of its own.

The registry has extensions for few versions of DuckDB, and the tests' environment has a newer one.
So the first test that needs them installs that version into a folder of the environment.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from pathlib import Path
from typing import IO

import pyarrow as pa

VERSION = "1.5.5"
PACKAGES = ("duckdb", *(f"duckdb-extension-{name}" for name in ("avro", "delta", "iceberg")))
FOLDER = Path(sys.prefix) / f"duckdb-{VERSION}"

_SERVE = """
import sys
place, folder, *names = sys.argv[1:]
sys.path.insert(0, place)
import duckdb, pyarrow as pa
from duckdb_extensions import import_extension
connection = duckdb.connect()
connection.execute("SET timezone = 'UTC'")
connection.execute("SET enable_progress_bar = false")
connection.execute(f"SET extension_directory = '{folder}'")
for name in names:
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


def install() -> Path:
    """Install DuckDB and its extensions once per environment, and return their folder."""
    with (FOLDER.parent / "duckdb.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not FOLDER.exists():
            making = FOLDER.with_name(f"{FOLDER.name}-{os.getpid()}")
            packages = [f"{name}=={VERSION}" for name in (*PACKAGES, "duckdb-extensions")]
            pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-input", "--no-deps"]
            command = [
                *pip,
                "--no-compile",
                "--disable-pip-version-check",
                "--target",
                str(making),
                *packages,
            ]
            subprocess.run(command, check=True, capture_output=True, timeout=280)
            making.rename(FOLDER)
    return FOLDER


class DuckDBProcess:
    """Answers queries one after the other."""

    def __init__(self, folder: Path, *extensions: str) -> None:
        self._out = folder / "rows.arrow"
        errors = folder / "errors.log"
        with errors.open("w") as said:
            self._process = subprocess.Popen(
                [sys.executable, "-c", _SERVE, str(install()), str(folder), *extensions],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=said,
                text=True,
            )
        if _file(self._process.stdout).readline() != "ready\n":
            self.close()
            raise RuntimeError(errors.read_text()[-2000:])

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

    def close(self) -> None:
        """End the process."""
        for stream in (self._process.stdin, self._process.stdout):
            _file(stream).close()
        self._process.wait()


def _file(stream: IO[str] | None) -> IO[str]:
    assert stream is not None
    return stream
