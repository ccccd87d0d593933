"""Requests for a few columns of large files on S3, by our scan, by DuckDB and by polars.

Every request on the wire is compared, to the byte.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import duckdb
import numpy as np
import polars
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tablefmt
import tablefmt.duckdb
import tablefmt.polars
from tablefmt.data.file_checksum import END_BYTES
from tests.s3server import S3Server
from tests.system.requests.test_requests import Wire

ROWS, GROUP_ROWS, COLUMNS = 24_000, 6_000, 24

Asked = list[tuple[str, int, int]]
"""Path, first byte and length of GETs, sorted."""


class Far(NamedTuple):
    """A table on S3 in two files of four row groups and about 2.5 MB each, and what is in it."""

    table: tablefmt.Table
    rows: pa.Table
    options: dict[str, Any]
    wire: Wire
    footers: dict[str, pq.FileMetaData]
    sizes: dict[str, int]

    def ends(self, paths: Sequence[str] | None = None) -> Asked:
        """The GETs that check the ends of files; of all of them for None."""
        chosen = self.sizes if paths is None else {path: self.sizes[path] for path in paths}
        return sorted((path, size - END_BYTES, END_BYTES + 1) for path, size in chosen.items())

    def chunks(
        self,
        columns: Sequence[str],
        groups: Sequence[int] = range(4),
        paths: Sequence[str] | None = None,
    ) -> Asked:
        """A GET for each column in each of these row groups."""
        found = []
        for path in paths or self.footers:
            for group in groups:
                described = self.footers[path].row_group(group)
                for column in columns:
                    chunk = described.column(self.rows.schema.names.index(column))
                    start = chunk.dictionary_page_offset or chunk.data_page_offset
                    found.append((path, start, chunk.total_compressed_size))
        return sorted(found)

    def asked(self) -> Asked:
        """Return the GETs of data since the last call.

        Each is a range. All others are of the log.
        """
        data = [each for each in self.wire.ranges if each[0].startswith("data/")]
        of_log = [each for each in self.wire.seen if "_log/" in each[1] or "?list" in each[1]]
        others = [each for each in self.wire.seen if each not in of_log]
        assert sorted(others) == sorted(("GET", path) for path, _ in data)
        self.wire.seen.clear()
        self.wire.ranges.clear()
        spans = [(path, *told.split("-")) for path, told in data]
        return sorted((path, int(a), int(b) + 1 - int(a)) for path, a, b in spans)


@pytest.fixture
def far(s3_uri: str, s3_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[Far]:
    monkeypatch.setattr("tablefmt.data.parquet_writer.GROUP_ROWS", GROUP_ROWS)
    monkeypatch.setattr("tablefmt.data.file_prefetch.GAP_BYTES", 0)
    chance = np.random.default_rng(24)
    values = {f"c{at}": chance.integers(0, 1 << 60, 2 * ROWS) for at in range(COLUMNS)}
    rows = pa.table({"id": np.arange(2 * ROWS), **values})
    table = tablefmt.create(s3_uri, rows.schema, storage_options=s3_server.options)
    for half in (rows.slice(0, ROWS), rows.slice(ROWS)):
        table.append(half)
    with Wire(s3_server) as wire:
        files = table.scan().files().to_pylist()
        store = table.context.store
        footers = {
            file["path"]: pq.ParquetFile(pa.BufferReader(store.get(file["path"]))).metadata
            for file in files
        }
        sizes = {file["path"]: file["size"] for file in files}
        assert min(sizes.values()) > 2 * (1 << 20)
        wire.seen.clear()
        wire.ranges.clear()
        yield Far(table, rows, s3_server.options, wire, footers, sizes)


@pytest.fixture
def connection() -> Iterator[Any]:
    with duckdb.connect() as opened:
        yield opened


@pytest.mark.slow
def test_our_scan_asks_for_ends_and_for_the_chunks_of_columns(far: Far) -> None:
    """ADD-7, DAT-4: it requests the chunks of every row group, or of those that can match."""
    assert far.table.to_arrow(columns=["c20", "c3"]) == far.rows.select(["c20", "c3"])
    assert far.asked() == sorted(far.ends() + far.chunks(["c20", "c3"]))
    found = far.table.to_arrow(columns=["c5"], where=f"id = {ROWS + 7_000}")
    assert found == far.rows.select(["c5"]).slice(ROWS + 7_000, 1)
    second = list(far.sizes)[1:]
    assert far.asked() == sorted(far.ends(second) + far.chunks(["id", "c5"], [1], second))
    assert far.table.count() == 2 * ROWS
    assert far.asked() == []


@pytest.mark.slow
@pytest.mark.parametrize("gone", [False, True])
def test_duckdb_asks_for_ends_once_and_then_for_chunks(
    far: Far, gone: bool, connection: Any
) -> None:
    """A view has looked at every end: to open a file again asks for nothing."""
    rows = far.rows
    if gone:
        far.table.delete("id = 5")
        rows = rows.filter(pa.compute.field("id") != 5)
        far.asked()
    tablefmt.duckdb.attach(connection, "v", far.table.uri, storage_options=far.options)
    assert far.asked() == far.ends()
    assert connection.execute("SELECT count(*) FROM v").fetchall() == [(rows.num_rows,)]
    # If rows are deleted, DuckDB counts the others.
    assert far.asked() == (far.chunks(["id"]) if gone else [])
    for _ in range(2):
        found = connection.sql("SELECT c20, c3 FROM v").to_arrow_table()
        assert found.sort_by("c20") == rows.select(["c20", "c3"]).sort_by("c20")
        assert far.asked() == far.chunks(["c20", "c3"])
    found = connection.execute(f"SELECT c5 FROM v WHERE id = {ROWS + 7_000}").fetchall()
    assert found == [(far.rows["c5"][ROWS + 7_000].as_py(),)]
    second = list(far.sizes)[1:]
    assert far.asked() == far.chunks(["id", "c5"], [1], second)


@pytest.mark.slow
def test_a_relation_of_duckdb_leaves_out_files_by_the_log(far: Far, connection: Any) -> None:
    """It does not request files that a condition rules out."""
    made = tablefmt.duckdb.relation(
        far.table.uri,
        connection=connection,
        storage_options=far.options,
        columns=["c5"],
        where=[("id", "=", ROWS + 7_000)],
    )
    second = list(far.sizes)[1:]
    assert far.asked() == far.ends(second)
    assert made.fetchall() == [(far.rows["c5"][ROWS + 7_000].as_py(),)]
    assert far.asked() == far.chunks(["id", "c5"], [1], second)


@pytest.mark.slow
def test_polars_asks_as_our_scan_does(far: Far) -> None:
    """Columns, conditions and limits reach the files; a plan by itself asks for nothing of them."""
    lazy = tablefmt.polars.scan(far.table.uri, storage_options=far.options)
    assert far.asked() == []
    found = lazy.select("c20", "c3").collect()
    assert found.to_arrow().cast(far.rows.select(["c20", "c3"]).schema) == far.rows.select(
        ["c20", "c3"]
    )
    assert far.asked() == sorted(far.ends() + far.chunks(["c20", "c3"]))
    second = list(far.sizes)[1:]
    one = lazy.filter(polars.col("id") == ROWS + 7_000).select("c5").collect()
    assert one.rows() == [(far.rows["c5"][ROWS + 7_000].as_py(),)]
    assert far.asked() == sorted(far.ends(second) + far.chunks(["id", "c5"], [1], second))
    first = list(far.sizes)[:1]
    assert lazy.select("c5").head(10).collect()["c5"].to_list() == (
        far.rows["c5"].slice(0, 10).to_pylist()
    )
    assert far.asked() == sorted(far.ends(first) + far.chunks(["c5"], [0], first))


@pytest.mark.slow
def test_near_ranges_of_a_file_are_one_request(far: Far, monkeypatch: pytest.MonkeyPatch) -> None:
    """A round trip takes longer than the bytes between."""
    monkeypatch.setattr("tablefmt.data.file_prefetch.GAP_BYTES", 50_000)
    assert far.table.to_arrow(columns=["c2", "c4"]) == far.rows.select(["c2", "c4"])
    chunks = far.chunks(["c2", "c4"])
    joined = [
        (path, start, at + length - start)
        for (path, start, _), (_, at, length) in zip(chunks[::2], chunks[1::2], strict=True)
    ]
    assert far.asked() == sorted(far.ends() + joined)
