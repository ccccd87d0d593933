"""Scans decoded by polars: the rows, the order and the errors are those of Arrow's scanner."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import polars
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tablefmt
from tablefmt.data import matching_rows, polars_decoder, small_files
from tablefmt.data.polars_decoder import PolarsDecoder
from tablefmt.errors import CorruptDataError
from tablefmt.log.bounded_parquet import chunk_extent, pages_between

COUNT = 1_500
CONDITIONS = [
    "small < 3",
    "small >= 5 AND day < DATE '1970-03-01'",
    "number BETWEEN -1000000000000 AND 99 OR small IS NULL",
    "NOT (number > 7) AND price <> 1.25",
    "price <= -0.50",
    "day IS NOT NULL AND small IN (1, 2, 9)",
    "small NOT IN (1, 2, 3)",
    "text > 'a' AND text <= 'é'",
    "text = ''",
    "NOT (price = 2.75)",
    "number <=> 5",
    # polars does not decide these.
    "x > 0.5",
    "yes",
    "small IN (1, NULL)",
    "text LIKE 'b%'",
]


def rows_of(chance: random.Random) -> pa.Table:
    """Return rows of every kind of column, with NULLs, NaN and negative zeros."""

    def some(value: Any) -> list[Any]:
        return [None if chance.random() < 0.1 else value() for _ in range(COUNT)]

    day, money, number = pa.date32(), pa.decimal128(9, 2), (1 << 62, 7, 5, -(1 << 62), -3)
    return pa.table(
        {
            "small": pa.array(some(lambda: chance.randrange(-2, 12)), pa.int32()),
            "number": pa.array(some(lambda: chance.choice(number)), pa.int64()),
            "day": pa.array(some(lambda: chance.randrange(-90, 90)), pa.int32()).cast(day),
            "price": pa.array(some(lambda: Decimal(chance.randrange(-8, 16)) / 4), money),
            "wide": pa.array(some(lambda: Decimal(chance.randrange(10**30))), pa.decimal128(38, 2)),
            "text": some(lambda: chance.choice(["", "a", "bb", "é", "long " * 20])),
            "bytes": pa.array(some(lambda: chance.randbytes(3)), pa.binary()),
            "x": pa.array(some(lambda: chance.choice([0.0, -0.0, float("nan"), 0.7]))),
            "half": pa.array(some(chance.random), pa.float32()),
            "yes": pa.array(some(lambda: chance.random() < 0.5), pa.bool_()),
            "at": pa.array(some(lambda: chance.randrange(1 << 50)), pa.timestamp("us", "UTC")),
            "then": pa.array(some(lambda: -chance.randrange(1 << 50)), pa.timestamp("us")),
        }
    )


def bits(rows: pa.Table) -> list[list[Any]]:
    """Return the values of every column, floats by their bits."""
    found = []
    for column in rows.itercolumns():
        if pa.types.is_floating(column.type):
            nulls = column.is_null().to_pylist()
            values = column.fill_null(0.0).to_numpy().astype(np.float64).view(np.int64)
            found.append([None if n else v for n, v in zip(nulls, values.tolist(), strict=True)])
        else:
            found.append(column.to_pylist())
    return found


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Every scan with a condition goes to polars first; says of each piece if polars did it."""
    monkeypatch.setattr(matching_rows, "_can_decide", lambda *_: False)
    monkeypatch.setattr(matching_rows, "FEW_MATCH", 1.0)
    monkeypatch.setattr(matching_rows, "POLARS_BYTES", 50_000)
    monkeypatch.setattr(small_files, "LEAST", sys.maxsize)
    done: list[bool] = []
    real = PolarsDecoder.rows

    def told(self: PolarsDecoder, *given: Any) -> Any:
        found = real(self, *given)
        done.append(found is not None)
        return found

    monkeypatch.setattr(PolarsDecoder, "rows", told)
    return done


@contextmanager
def without_polars() -> Iterator[None]:
    """Let Arrow decode everything inside the block."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(polars_decoder, "is_loaded", lambda: False)
        patch.setattr(matching_rows, "is_loaded", lambda: False)
        yield


def same_rows(
    table: tablefmt.Table, where: str | None = None, columns: list[str] | None = None
) -> int:
    """Read with polars and without, compare, and return the number of rows."""
    ours = table.to_arrow(where=where, columns=columns)
    with without_polars():
        plain = table.to_arrow(where=where, columns=columns)
    assert ours.schema == plain.schema
    assert bits(ours) == bits(plain), where
    return ours.num_rows


def test_rows_are_those_of_arrow(tmp_path: Path, decoded: list[bool]) -> None:
    """DAT-4, DAT-12, DEL-1, PRN-10: with rows deleted, and columns added, renamed and widened."""
    chance = random.Random(30)
    table = tablefmt.create(tmp_path / "t", rows_of(chance).schema)
    for _ in range(3):
        table.append(rows_of(chance))
    counts = []
    for condition in CONDITIONS:
        before = len(decoded)
        counts.append(same_rows(table, condition))
        assert decoded[before:] == ([True] * 3 if condition in CONDITIONS[:11] else []), condition
    assert min(counts) > 0
    table.delete("number = 7 AND day < DATE '1970-01-20'")
    table.alter.rename_column("price", "cost")
    table.alter.widen_column("small", "BIGINT")
    table.alter.add_column("note", "STRING", default="-")
    table.append(table.to_arrow(where="small = 4", limit=50))
    decoded.clear()
    for condition in CONDITIONS[:11]:
        same_rows(table, condition.replace("price", "cost"))
    same_rows(table, "small < 3", ["note"])
    same_rows(table, "cost > 1 AND text = 'a'", ["note", "x"])
    assert {*decoded} == {True}
    # Values that the log has, and columns that a file lacks, are left to Arrow.
    decoded.clear()
    same_rows(table, "note = '-'")
    parted = tablefmt.create(tmp_path / "parted", rows_of(chance).schema, partition_by=["yes"])
    parted.append(rows_of(chance))
    assert same_rows(parted, "small < 3") > 0
    assert decoded == []
    assert same_rows(parted, "small < 3", ["number"]) > 0
    assert {*decoded} == {True}


def same_frame(
    table: tablefmt.Table, where: str | None = None, columns: list[str] | None = None
) -> int:
    """Compare `to_polars` with a frame of the rows that Arrow reads; return the number of rows."""
    ours = table.to_polars(where=where, columns=columns)
    with without_polars():
        plain = polars.from_arrow(table.to_arrow(where=where, columns=columns))
    assert isinstance(plain, polars.DataFrame)
    assert ours.schema == plain.schema
    assert bits(ours.to_arrow()) == bits(plain.to_arrow()), where
    return ours.height


def test_all_rows_are_those_of_arrow(
    tmp_path: Path, decoded: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    """DAT-4, DAT-12, DEL-1: tables of Arrow, and frames of polars without a copy of text."""
    monkeypatch.setattr(matching_rows, "ALL_ROWS_LEAST", 1)
    monkeypatch.setattr(matching_rows, "ALL_ROWS_BYTES", 50_000)
    monkeypatch.setattr(polars_decoder, "BATCH_ROWS", 100)
    monkeypatch.setattr("tablefmt.data.parquet_writer.GROUP_ROWS", 500)
    chance = random.Random(33)
    table = tablefmt.create(tmp_path / "t", rows_of(chance).schema)
    for _ in range(3):
        table.append(rows_of(chance))
    assert same_rows(table) == same_frame(table) == 3 * COUNT
    assert len(decoded) > 1
    assert {*decoded} == {True}
    batches = list(table.scan().to_batches())
    assert {batch.schema for batch in batches} == {table.scan().schema}
    assert sum(batch.num_rows for batch in batches) == 3 * COUNT
    for condition in (CONDITIONS[0], CONDITIONS[8]):
        assert same_frame(table, condition) > 0
    assert same_frame(table, columns=["text", "x"]) == 3 * COUNT
    table.delete("number = 7 AND day < DATE '1970-01-20'")
    table.delete("small = 5")
    table.alter.rename_column("text", "words")
    table.alter.widen_column("small", "BIGINT")
    table.alter.add_column("note", "STRING", default="-")
    table.append(table.to_arrow(where="small = 4", limit=50))
    decoded.clear()
    live = same_rows(table)
    assert same_frame(table) == same_frame(table, columns=["words"]) == live < 3 * COUNT
    assert same_frame(table, columns=["bytes", "note"]) == live
    # All rows of some row groups, and of some files, are deleted.
    table.delete("NOT (small <=> 4)")
    assert same_rows(table) == same_frame(table) > 50
    assert {*decoded} == {True}
    # Arrow decodes numbers as fast, and returns the first rows without threads of polars.
    decoded.clear()
    assert same_rows(table, columns=["number"]) == same_frame(table, columns=["x"])
    assert table.to_polars(limit=7).height == 7
    assert decoded == []
    # polars reads other stores through our scan.
    memory = tablefmt.create("memory://polars-decoder/all", rows_of(chance).schema)
    memory.append(rows_of(chance))
    assert same_frame(memory) == COUNT
    nested = tablefmt.create(tmp_path / "nested", pa.schema([("t", pa.string()), ("l", LIST)]))
    nested.append(pa.table({"t": ["a", None], "l": pa.array([[1], None], LIST)}))
    assert same_frame(nested) == 2
    assert same_frame(nested, columns=["t"]) == 2
    assert decoded == [True]


def test_arrow_decodes_all_rows_where_polars_returns_another_number(
    tmp_path: Path, decoded: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(matching_rows, "ALL_ROWS_LEAST", 1)
    rows = rows_of(random.Random(34))
    table = tablefmt.create(tmp_path / "t", rows.schema)
    table.append(rows)
    real = PolarsDecoder._shaped
    monkeypatch.setattr(PolarsDecoder, "_shaped", lambda *given: [b.slice(1) for b in real(*given)])
    assert bits(table.to_arrow()) == bits(rows)
    assert table.to_polars().height == COUNT
    assert decoded == [False, False]


LIST = pa.list_(pa.int64())


def test_conditions_and_names_that_polars_reads_otherwise_are_left_to_arrow(
    tmp_path: Path, decoded: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name such as ^a.*$ is a pattern of names there. A deep expression takes it seconds."""
    numbers = range(2000)
    rows = pa.table({"^a.*$": numbers, "ab": [1999 - n for n in numbers], "*": numbers})
    table = tablefmt.create(tmp_path / "t", rows.schema)
    table.append(rows)
    assert same_rows(table, "`^a.*$` > 1800", ["ab"]) == 199
    assert same_rows(table, "ab > 1800", ["^a.*$", "ab"]) == 199
    assert same_rows(table, "`*` > 1800", ["ab"]) == 199
    assert decoded == []
    assert same_rows(table, " OR ".join(f"ab = {n}" for n in range(32)), ["ab"]) == 32
    assert decoded == [True]
    assert same_rows(table, " OR ".join(f"ab = {n} AND ab <> 0" for n in range(32)), ["ab"]) == 31
    assert decoded == [True]
    monkeypatch.setitem(sys.modules, "polars", None)
    assert table.to_arrow(where="ab > 1800", columns=["ab"]).num_rows == 199
    assert decoded == [True]


def test_a_scan_chooses_polars_where_few_rows_match(
    tmp_path: Path, decoded: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    monkeypatch.setattr(small_files, "LEAST", sys.maxsize)
    monkeypatch.setattr(matching_rows, "WINDOW_ROWS", 100)
    seen: list[int] = []
    real = PolarsDecoder.rows

    def told(self: PolarsDecoder, run: Any, *given: Any) -> Any:
        seen.append(len(run))
        return real(self, run, *given)

    monkeypatch.setattr(PolarsDecoder, "rows", told)
    rows = pa.table({"id": range(4000), "key": [at % 50 for at in range(4000)]})
    table = tablefmt.create(tmp_path / "t", rows.schema)
    for start in range(0, 4000, 1000):
        table.append(rows.slice(start, 1000))
    expected = rows.filter(pa.array([at % 50 == 7 for at in range(4000)]))
    assert table.to_arrow(where="key = 7").to_pylist() == expected.to_pylist()
    assert seen == [3]
    # A scan of all rows, and one of the first, do not ask it. Nor does one that most rows pass.
    table.to_arrow()
    table.to_arrow(where="key = 7", limit=3)
    table.to_arrow(where="key > 7")
    # polars reads other stores through our scan, and its threads wait for it.
    memory = tablefmt.create("memory://polars-decoder/t", rows.schema)
    for start in range(0, 4000, 1000):
        memory.append(rows.slice(start, 1000))
    assert memory.to_arrow(where="key = 7").equals(table.to_arrow(where="key = 7"))
    assert seen == [3, 3]
    # Where the first row group has many matches, no look at the condition's columns comes first.
    monkeypatch.setattr(matching_rows, "PICKED_MOST", 19)
    assert table.to_arrow(where="key = 7").to_pylist() == expected.to_pylist()
    assert seen == [3, 3, 4]
    assert table.to_arrow(where="key > 7").num_rows == 3360
    assert seen == [3, 3, 4]


@pytest.mark.parametrize("statistics", [True, False])
def test_the_first_row_group_may_have_no_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, statistics: bool
) -> None:
    """Other writers leave such row groups. The first rows are looked at before all others."""
    monkeypatch.setattr(matching_rows, "WINDOW_ROWS", 100)
    monkeypatch.setattr(matching_rows, "PICKED_MOST", 9)
    rows = pa.table({"id": range(2000), "key": [at % 50 for at in range(2000)]})
    folder = tmp_path / "files"
    folder.mkdir()
    with pq.ParquetWriter(
        folder / "a.parquet", rows.schema, write_statistics=statistics, write_page_checksum=True
    ) as writer:
        for start, count in ((0, 0), (0, 1000), (0, 0), (1000, 1000)):
            writer.write_table(rows.slice(start, count))
    table = tablefmt.import_table(folder, "parquet", into=tmp_path / "t")
    for condition, count in (("key = 7", 40), ("key > 7", 1680), ("id = 1999", 1), ("id < 0", 0)):
        assert same_rows(table, condition) == count
        assert same_rows(table, condition, ["id"]) == count


def test_a_damaged_page_is_an_error_that_names_the_file(
    tmp_path: Path, decoded: list[bool]
) -> None:
    """DAT-5: polars verifies no checksum, so we do."""
    # The checksum in the log covers the last 64 KiB.
    numbers = np.random.default_rng(5).integers(0, 1 << 60, 40_000)
    rows = pa.table({"id": numbers, "key": numbers % 100})
    table = tablefmt.create(tmp_path / "t", rows.schema)
    table.append(rows)
    (path,) = table.scan().files()["path"].to_pylist()
    file = tmp_path / "t" / path
    chunk = pq.read_metadata(file).row_group(0).column(0)
    whole = file.read_bytes()
    body = bytearray(whole)
    body[chunk.data_page_offset + chunk.total_compressed_size * 7 // 10] ^= 1
    file.write_bytes(body)
    with pytest.raises(CorruptDataError, match=path):
        table.to_arrow(where="key = 7")
    assert decoded == [False]
    file.write_bytes(whole)
    assert table.to_arrow(where="key = 7").num_rows == np.count_nonzero(numbers % 100 == 7)
    assert decoded == [False, True]


def test_a_damaged_page_of_a_frame_is_an_error_that_names_the_file(
    tmp_path: Path, decoded: list[bool]
) -> None:
    """DAT-5: polars verifies no checksum, so we do, for all rows too."""
    texts = np.random.default_rng(6).integers(0, 1 << 60, 80_000).astype(str).tolist()
    rows = pa.table({"text": texts})
    table = tablefmt.create(tmp_path / "t", rows.schema)
    table.append(rows)
    assert table.to_polars()["text"].to_list() == texts
    assert decoded == [True]
    (path,) = table.scan().files()["path"].to_pylist()
    file = tmp_path / "t" / path
    chunk = pq.read_metadata(file).row_group(0).column(0)
    body = bytearray(file.read_bytes())
    body[chunk.data_page_offset + chunk.total_compressed_size * 7 // 10] ^= 1
    file.write_bytes(body)
    for read in (table.to_polars, table.to_arrow, table.to_pandas):
        with pytest.raises(CorruptDataError, match=path):
            read()
    assert decoded == [True, False, False, False]


@pytest.fixture
def pages(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Small pages, of which polars decodes those with a match; says how many row groups at once,
    and 0 if it did not.
    """
    real_writer, real = pq.ParquetWriter, PolarsDecoder.picked

    def small(*given: Any, **settings: Any) -> pq.ParquetWriter:
        return real_writer(*given, **settings, data_page_size=1, write_batch_size=25)

    found: list[int] = []

    def told(self: PolarsDecoder, some: Any) -> Any:
        rows = real(self, some)
        found.append(0 if rows is None else len(some))
        return rows

    monkeypatch.setattr(pq, "ParquetWriter", small)
    monkeypatch.setattr("tablefmt.data.parquet_writer.GROUP_ROWS", 500)
    monkeypatch.setattr(PolarsDecoder, "picked", told)
    return found


def test_rows_at_known_positions_are_those_of_arrow(
    tmp_path: Path, pages: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """DAT-4, DAT-12, DEL-1, PRN-10: with rows deleted, and columns added, renamed and widened."""
    chance = random.Random(31)
    table = tablefmt.create(tmp_path / "t", rows_of(chance).schema)
    for _ in range(3):
        table.append(rows_of(chance))
    conditions = [
        "number = 5 AND small = 7 AND day > DATE '1970-03-01'",
        "price = 3.25 AND small = 3",
        "day = DATE '1970-02-02'",
        "number = 7 AND day = DATE '1970-01-21' AND x > 0.5",
    ]
    counts = [same_rows(table, condition) for condition in conditions]
    assert min(counts) > 0
    assert len(pages) >= 3
    assert min(pages) > 0
    assert max(pages) > 3
    table.delete("day = DATE '1970-02-02' AND small < 5")
    table.alter.rename_column("price", "cost")
    table.alter.widen_column("small", "BIGINT")
    table.alter.add_column("note", "STRING", default="-")
    table.append(table.to_arrow(where="small = 4", limit=50))
    pages.clear()
    for condition in conditions:
        assert same_rows(table, condition.replace("price", "cost")) > 0
    assert same_rows(table, "day = DATE '1970-02-02'", ["note", "cost"]) < counts[2]
    assert min(pages) > 0
    # A deletion needs the positions of the rows that it reads.
    rest = table.to_arrow(
        where="NOT (number <=> 5 AND small <=> 7 AND NOT (day IS NULL OR day <= '1970-03-01'))"
    )
    table.delete(conditions[0])
    assert bits(table.to_arrow()) == bits(rest)


def test_arrow_decodes_pages_where_polars_finds_other_rows(
    tmp_path: Path, pages: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disagreement on the condition is no result: Arrow decodes the pages."""
    chance = random.Random(32)
    table = tablefmt.create(tmp_path / "t", rows_of(chance).schema)
    table.append(rows_of(chance))
    real = polars_decoder._expression
    monkeypatch.setattr(
        polars_decoder, "_expression", lambda *given: real(*given) & (polars.col("small") < 0)
    )
    assert same_rows(table, "day = DATE '1970-02-02'") > 0
    assert pages == [0]


def test_a_damaged_page_with_a_match_is_an_error_that_names_the_file(
    tmp_path: Path, pages: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """DAT-5: every picked page is verified before polars decodes it."""
    monkeypatch.setattr("tablefmt.data.parquet_writer.GROUP_ROWS", 40_000)
    numbers = np.random.default_rng(5).integers(0, 1 << 60, 40_000)
    rows = pa.table({"id": numbers, "key": np.arange(40_000) * 7919 % 40_009})
    table = tablefmt.create(tmp_path / "t", rows.schema)
    table.append(rows)
    (path,) = table.scan().files()["path"].to_pylist()
    file = tmp_path / "t" / path
    with file.open("rb") as source:
        extent = chunk_extent(pq.read_metadata(file).row_group(0).column(0))
        stored = [page for page in pages_between(source, *extent) if not page.is_dictionary]
    first_rows = np.cumsum([0, *(page.values for page in stored)])
    hit = stored[int(np.searchsorted(first_rows, 20_000, side="right")) - 1]
    where = f"key = {20_000 * 7919 % 40_009}"
    assert table.to_arrow(where=where)["id"].to_pylist() == [numbers[20_000]]
    assert pages == [1]
    body = bytearray(file.read_bytes())
    body[hit.start + hit.header + hit.packed // 2] ^= 1
    file.write_bytes(body)
    with pytest.raises(CorruptDataError, match=path):
        table.to_arrow(where=where)
    assert pages == [1]


FORK = """
import os, sys, pyarrow, polars, tablefmt
from tablefmt.data import polars_decoder
assert polars_decoder.is_loaded()
if (child := os.fork()) == 0:
    os._exit(1 if polars_decoder.is_loaded() else 0)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_a_forked_child_has_no_threads_of_polars() -> None:
    assert subprocess.run([sys.executable, "-W", "ignore", "-c", FORK]).returncode == 0


@pytest.fixture
def wholes(monkeypatch: pytest.MonkeyPatch) -> list[int | None]:
    """Says of each run of small files how many polars decoded at once; None: it failed."""
    done: list[int | None] = []
    real = PolarsDecoder.of_whole

    def told(self: PolarsDecoder, fragment: Any, bodies: list[bytes], live: Any) -> Any:
        found = real(self, fragment, bodies, live)
        done.append(None if found is None else len(bodies))
        return found

    monkeypatch.setattr(PolarsDecoder, "of_whole", told)
    return done


def test_rows_of_small_files_are_those_of_arrow(
    tmp_path: Path, wholes: list[int | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """ADD-7, DAT-12, DEL-1: all rows, conditions, deleted rows, and columns that change."""
    chance = random.Random(31)
    table = tablefmt.create(tmp_path / "t", rows_of(chance).schema)
    with table.transaction() as several:
        for _ in range(6):
            several.append(rows_of(chance).slice(0, 200))
    assert same_rows(table) == 1200
    assert same_rows(table, columns=["x", "text"]) == 1200
    assert wholes == [6, 6]
    counts = [same_rows(table, condition) for condition in CONDITIONS]
    assert min(counts) > 0
    assert wholes == [6] * (2 + 11)
    table.delete("number = 7 AND day < DATE '1970-01-20'")
    with monkeypatch.context() as patch:
        patch.setattr(small_files, "PIECE_BYTES", 1)
        wholes.clear()
        assert same_rows(table) < 1200
        assert wholes == [1] * 6
    table.alter.rename_column("price", "cost")
    table.alter.widen_column("small", "BIGINT")
    table.alter.add_column("note", "STRING", default="-")
    with table.transaction() as several:
        for _ in range(5):
            several.append(table.to_arrow(where="small = 4", limit=50))
    wholes.clear()
    for condition in (None, *CONDITIONS[:11]):
        same_rows(table, condition and condition.replace("price", "cost"))
        same_rows(table, condition and condition.replace("price", "cost"), ["note"])
    assert {*wholes} == {6, 5}
    # Arrow reads a condition on a column that some of the files lack.
    wholes.clear()
    assert same_rows(table, "note = '-'") > 0
    table.to_arrow(limit=3, where="small = 4")
    assert wholes == []
    # Arrow reads larger files.
    table.append(pa.concat_tables([rows_of(chance).drop(["price"])] * 20), merge_schema=True)
    assert table.scan().files()["size"].to_pylist()[-1] > 1 << 16
    assert same_rows(table) > 20_000
    assert wholes == [6, 5]
    monkeypatch.setattr(small_files, "STRETCHES", 1)
    assert same_rows(table) > 20_000
    assert wholes == [6, 5]


def test_small_files_of_many_partitions_are_left_to_arrow(
    tmp_path: Path, wholes: list[int | None]
) -> None:
    """DAT-8: the log's value of a partition column replaces the file's."""
    rows = pa.table({"id": range(40), "p": [at % 8 for at in range(40)]})
    table = tablefmt.create(tmp_path / "t", rows.schema, partition_by=["p"])
    table.append(rows)
    assert same_rows(table) == 40
    assert wholes == []
    one = tablefmt.create(tmp_path / "one", rows.schema, partition_by=["p"])
    with one.transaction() as several:
        for _ in range(4):
            several.append(rows.filter(pa.array([at % 8 == 3 for at in range(40)])))
    assert same_rows(one, columns=["id"]) == 20
    assert wholes == [4]
    assert same_rows(one) == 20
    assert wholes == [4]


def test_a_damaged_small_file_is_an_error_that_names_it(
    tmp_path: Path, wholes: list[int | None]
) -> None:
    """ADD-7, DAT-5: each byte is covered. Without a checksum in the log, Arrow reads the pages."""
    rows = pa.table({"id": range(100)})
    table = tablefmt.create(tmp_path / "t", rows.schema)
    with table.transaction() as several:
        for _ in range(4):
            several.append(rows)
    path = table.scan().files()["path"].to_pylist()[2]
    whole = (tmp_path / "t" / path).read_bytes()
    for at in range(4, len(whole), 97):
        body = bytearray(whole)
        body[at] ^= 1
        (tmp_path / "t" / path).write_bytes(body)
        with pytest.raises(CorruptDataError, match=path):
            table.to_arrow()
    (tmp_path / "t" / path).write_bytes(whole)
    assert wholes == []
    assert table.to_arrow().num_rows == 400
    assert wholes == [4]


def test_arrow_decodes_small_files_at_which_polars_fails(
    tmp_path: Path, wholes: list[int | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = pa.table({"id": range(100)})
    table = tablefmt.create(tmp_path / "t", rows.schema)
    with table.transaction() as several:
        for _ in range(4):
            several.append(rows)
    expected = table.to_arrow(where="id < 40")

    def fail(*_: Any, **__: Any) -> None:
        raise polars.exceptions.ComputeError("parquet: ?")

    monkeypatch.setattr(polars, "scan_parquet", fail)
    assert table.to_arrow(where="id < 40").equals(expected)
    assert table.to_arrow().num_rows == 400
    assert wholes == [4, None, None]
