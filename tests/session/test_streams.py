"""Scans, changes and tables as sources of rows for other engines.

The Arrow stream protocol, readers and frames are covered. Plain Python computes the expected rows.
"""

from __future__ import annotations

import itertools
import os
import random
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import polars
import pyarrow as pa
import pytest

import tablefmt
from tablefmt.errors import CorruptDataError, SchemaMismatchError
from tablefmt.store.memory_store import MemoryStore
from tablefmt.store.store_wrappers import CountingStore
from tablefmt.table import open_at
from tests.tables import tuples

_numbers = itertools.count()

Row = tuple[int, str, float | None]

ROWS: list[Row] = [(i, f"text {i % 7}", None if i % 5 == 0 else i / 4) for i in range(3000)]
SCHEMA = pa.schema([("id", pa.int64()), ("odd name.s", pa.string()), ("f", pa.float64())])


def made(uri: str = "") -> tablefmt.Table:
    """Return a table with ROWS in six files, some of them deleted."""
    table = tablefmt.create(uri or f"memory://streams-{next(_numbers)}", SCHEMA)
    for start in range(0, 3000, 500):
        columns = zip(*ROWS[start : start + 500], strict=True)
        table.append(pa.table(dict(zip(SCHEMA.names, columns, strict=True)), SCHEMA))
    table.delete("id % 10 = 3")
    return table


LIVE = [row for row in ROWS if row[0] % 10 != 3]


def by_duckdb(rows: Any) -> list[Any]:
    """Return the rows in the order of the first column. DuckDB finds `rows` by its name."""
    assert rows is not None
    return tuples(duckdb.sql("SELECT * FROM rows ORDER BY 1").to_arrow_table())


READERS: dict[str, Callable[[Any], list[Any]]] = {
    "pyarrow": lambda rows: tuples(pa.table(rows)),
    "reader": lambda rows: tuples(rows.to_reader().read_all()),
    "from_stream": lambda rows: tuples(pa.RecordBatchReader.from_stream(rows).read_all()),
    "duckdb": by_duckdb,
    "polars": lambda rows: polars.DataFrame(rows).rows(),
    "to_polars": lambda rows: rows.to_polars().rows(),
    "pandas": lambda rows: frame_rows(pd.DataFrame.from_arrow(rows)),
    "to_pandas": lambda rows: frame_rows(rows.to_pandas()),
}


def frame_rows(frame: pd.DataFrame) -> list[Any]:
    plain = frame.astype(object).where(frame.notna(), None)
    return list(plain.itertuples(index=False, name=None))


@pytest.mark.parametrize("reader", READERS)
def test_every_engine_sees_the_rows(reader: str) -> None:
    table, read = made(), READERS[reader]
    scan = table.scan(columns=["f", "id"], where="id >= 2600")

    assert read(table) == LIVE
    assert sorted(read(scan), key=lambda row: row[1]) == [(r[2], r[0]) for r in LIVE[2340:]]
    assert read(table.scan(limit=7)) == LIVE[:7]
    assert read(table.scan(version=0)) == []
    # A second time too: nothing is used up.
    assert read(table) == LIVE


@pytest.mark.parametrize("reader", READERS)
def test_every_engine_sees_changes(reader: str) -> None:
    table = made()
    changes = table.changes(after_version=0, ending_version=2, columns=["id"], where="id < 600")
    commits = {version: table.context.view.timestamp_at(version) for version in (1, 2)}

    seen = READERS[reader](changes)
    assert [row[:3] for row in sorted(seen)] == [(i, "insert", 1 + i // 500) for i in range(600)]
    stamps = {row[2]: row[3] for row in seen}
    micros = {v: round(stamp.timestamp() * 1e6) for v, stamp in stamps.items()}
    assert micros == commits


def test_a_reader_reads_nothing_before_it_is_asked() -> None:
    """Reading the schema does not read either. The protocol begins with the first batch."""
    memory = MemoryStore(f"streams-{next(_numbers)}")
    tablefmt.create(memory.uri, SCHEMA)
    store = CountingStore(memory)
    table = open_at(store)
    columns = zip(*ROWS, strict=True)
    table.append(pa.table(dict(zip(SCHEMA.names, columns, strict=True)), SCHEMA))
    changes = table.changes(after_version=0)
    store.reset()

    readers = [table.to_reader(where="id > 5"), changes.to_reader(), table.scan().to_reader()]
    assert pa.schema(table) == pa.schema(table.scan()) == SCHEMA
    assert pa.schema(changes) == changes.schema
    with pytest.raises(SchemaMismatchError):
        pa.table(table, schema=SCHEMA.remove(0))
    assert store.requests == []
    for reader in readers:
        reader.read_next_batch()
        assert store.requests != []
        store.reset()


def test_half_a_reader_leaves_nothing_behind(tmp_path: Path) -> None:
    """A half-read stream leaves nothing: files are closed, and no Python thread continues."""
    table = made(str(tmp_path / "t"))

    def begin(number: int) -> None:
        for _ in range(number):
            for reader in (table.to_reader(), pa.RecordBatchReader.from_stream(table)):
                assert reader.read_next_batch().num_rows
                del reader
            next(polars.DataFrame(table.scan(limit=1)).iter_rows())

    def is_open() -> int:
        names = (os.path.realpath(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd"))
        return sum(name.endswith(".parquet") for name in names)

    before = threading.active_count()
    begin(10)
    for _ in range(100):
        if is_open() == 0:
            break
        time.sleep(0.05)
    assert is_open() == 0
    assert threading.active_count() == before


def test_any_thread_may_read() -> None:
    reader = made().to_reader()
    first, rest = tuples(pa.table(reader.read_next_batch())), []
    other = threading.Thread(target=lambda: rest.extend(tuples(reader.read_all())))
    other.start()
    other.join()

    assert first + rest == LIVE


def files_of(table: tablefmt.Table) -> list[Path]:
    return [
        Path(table.uri.removeprefix("file://")) / p
        for p in table.scan().files()["path"].to_pylist()
    ]


@pytest.mark.broken_tables
@pytest.mark.parametrize("reader", READERS)
def test_a_missing_file_is_an_error_of_ours(reader: str, tmp_path: Path) -> None:
    """The error comes before any row. DuckDB has one exception for all errors of streams."""
    table = made(str(tmp_path / "t"))
    files_of(table)[3].unlink()

    refused = duckdb.Error if reader == "duckdb" else CorruptDataError
    with pytest.raises(refused, match="it is missing"):
        READERS[reader](table)


OURS = ("reader", "to_polars", "to_pandas")


@pytest.mark.parametrize("reader", READERS)
def test_damage_found_halfway_is_told_in_our_words(reader: str, tmp_path: Path) -> None:
    """Through the protocol only the text comes, so the exception is the reader's own."""
    table = tablefmt.create(str(tmp_path / "t"), SCHEMA)
    chance = random.Random(4)
    for _ in range(4):
        # The damage must be before the bytes that ADD-7 covers.
        ids = pa.array([chance.getrandbits(62) for _ in range(100_000)], pa.int64())
        table.append(pa.table({"id": ids}))
    last = files_of(table)[-1]
    body = bytearray(last.read_bytes())
    # A page's header alone may bear a flipped bit that changes nothing.
    middle = slice(len(body) // 2, len(body) // 2 + 200)
    body[middle] = bytes(byte ^ 0xFF for byte in body[middle])
    last.write_bytes(body)

    with pytest.raises(CorruptDataError if reader in OURS else Exception) as caught:
        READERS[reader](table)
    assert last.name in str(caught.value)
    assert "it cannot be read" in str(caught.value)


def test_a_requested_schema_is_what_comes() -> None:
    """Values are cast where all of them fit; other columns are refused."""
    table = made()
    wide = pa.schema([("id", pa.int32()), ("odd name.s", pa.large_string()), ("f", pa.float32())])

    read = pa.table(table, schema=wide)
    assert read.schema == wide
    assert tuples(read) == [(i, s, f) for i, s, f in LIVE]
    for refused in (wide.remove(1), wide.set(0, pa.field("ID", pa.int64()))):
        with pytest.raises(SchemaMismatchError, match="requested schema"):
            pa.table(table, schema=refused)
    with pytest.raises(pa.ArrowInvalid, match="not in range"):
        pa.table(table, schema=wide.set(0, pa.field("id", pa.int8())))


def test_no_columns_and_no_rows() -> None:
    table = made()
    assert pa.table(table.scan(columns=[], where="id < 10")).num_rows == 9
    empty = tablefmt.create(f"memory://streams-{next(_numbers)}", SCHEMA)
    assert pa.table(empty) == SCHEMA.empty_table()
    assert empty.to_polars().shape == (0, 3)
    assert list(empty.to_pandas()) == SCHEMA.names


def test_the_short_forms_are_those_of_a_scan() -> None:
    table = made()
    how: dict[str, Any] = {"columns": ["id"], "where": "id > 2990"}
    expected = [(r[0],) for r in LIVE if r[0] > 2990]

    assert tuples(table.to_arrow(**how)) == expected
    assert tuples(table.to_reader(**how).read_all()) == expected
    assert frame_rows(table.to_pandas(**how)) == expected
    assert table.to_polars(**how).rows() == expected
    assert table.count() == len(LIVE)
    assert table.count(where="id > 2990", version=3) == 0
    assert table.count(version=6) == 3000
    assert tuples(table.head()) == LIVE[:5]
    assert tuples(table.head(3, **how)) == expected[:3]
    assert tuples(table.head(n=10_000)) == LIVE
    for wrong in ({"colums": []}, {"limit": 3}):
        with pytest.raises(TypeError):
            table.head(2, **wrong)


def test_a_table_as_a_source_is_a_scan_of_it() -> None:
    """CFL-8: the commit knows the reads of the table itself, and all rows come."""
    table, other = made(), made()
    table.append(other)
    table.append(table)
    first = table.changes(starting_version=1, ending_version=1)
    table.append(first.to_arrow().select(SCHEMA.names))

    blind = table.history(3)["isBlindAppend"].to_pylist()
    assert blind == [True, False, True]
    rows = tuples(table.to_arrow())
    assert sorted(map(str, rows)) == sorted(map(str, LIVE * 4 + ROWS[:500]))


@pytest.mark.broken_tables
def test_damage_in_a_source_keeps_its_class(tmp_path: Path) -> None:
    """Tables and changes as sources raise the same errors as their scans."""
    broken, table = made(str(tmp_path / "t")), made()
    files_of(broken)[3].unlink()
    source = broken.changes(after_version=0, ending_version=6)
    for verb in (table.append, table.overwrite):
        for each in (broken, source):
            with pytest.raises((CorruptDataError, SchemaMismatchError)) as caught:
                verb(each)
            assert isinstance(caught.value, CorruptDataError) == (each is broken)
    with pytest.raises(CorruptDataError):
        table.merge(broken, "t.id = s.id").when_not_matched_insert_all().execute()
