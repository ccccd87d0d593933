"""A page of a data file that claims 2 GiB (SEC-5, DAT-5)."""

from __future__ import annotations

from pathlib import Path

import duckdb
import orjson
import polars
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tablefmt
import tablefmt.duckdb
import tablefmt.polars
from tablefmt.errors import CorruptDataError
from tablefmt.log.codec import seal
from tablefmt.log.object_names import entry_key
from tests.system.fuzzed_bytes import resident_bytes
from tests.system.page_headers import CHECKSUM, headers, struct_bytes

UNPACKED = 2
"""Id of the field that holds a page's decompressed length."""


def claiming(path: Path) -> str:
    """Return the key of a table's only data file, whose last page now claims 2 GiB."""
    rows = pa.table({"id": [1], "p": ["x" * 1000]})
    tablefmt.create(path, rows.schema).append(rows)
    (file,) = path.glob("data/**/*.parquet")
    plain = {"use_dictionary": False, "write_statistics": False}
    pq.write_table(rows, file, compression="zstd", write_page_checksum=True, **plain)
    body = file.read_bytes()
    begin, end, fields = headers(body)[-1]
    fields = [field for field in fields if field[0] != CHECKSUM]
    (unpacked,) = (field for field in fields if field[0] == UNPACKED)
    unpacked[2] = (1 << 31) - 1
    gap = end - begin - len(struct_bytes(fields)) - 2
    # A field that no reader knows fills the header.
    made = struct_bytes([*fields, [20, 8, b"-" * gap]])
    assert len(made) == end - begin
    put_unchecked(path, file, body[:begin] + made + body[end:])
    return str(file.relative_to(path))


def put_unchecked(table: Path, file: Path, body: bytes) -> None:
    """Replace a table's only data file, and have its entry check the length alone."""
    file.write_bytes(body)
    entry = orjson.loads((table / entry_key(1)).read_bytes())
    del entry["checksum"], entry["add"]["footer"]
    entry["add"]["size"] = [len(body)]
    entry["totals"]["bytes"] = len(body)
    (table / entry_key(1)).write_bytes(seal(entry))


@pytest.mark.broken_tables
def test_a_length_that_a_page_claims_costs_no_memory(tmp_path: Path) -> None:
    """SEC-5, DAT-5: each engine refuses it, and none fills 2 GiB."""
    key = claiming(tmp_path / "t")
    connection = duckdb.connect(config={"memory_limit": "200MB"})
    tablefmt.duckdb.attach(connection, "t", tmp_path / "t")
    before = resident_bytes()
    with pytest.raises(CorruptDataError, match="it cannot be read") as caught:
        tablefmt.open(tmp_path / "t").to_arrow()
    assert caught.value.key == key
    with pytest.raises(CorruptDataError, match="polars cannot read a page"):
        tablefmt.polars.scan(tmp_path / "t").collect()
    with pytest.raises(duckdb.Error):
        connection.sql("SELECT max(p) FROM t").fetchall()
    # polars 2.0, the last one for Python 3.10, allocates the length that the page claims.
    old = polars.__version__.startswith("2.0.")
    assert resident_bytes() - before < (5 << 29 if old else 512 << 20)
