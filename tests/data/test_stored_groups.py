"""Compactions that copy stored pages: the rows, bounds and layout are those of decoded rows."""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import polars
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tablefmt
from tablefmt.data import mixed_files
from tablefmt.data.stored_groups import MixedGroup
from tablefmt.errors import CorruptDataError
from tablefmt.log.page_files import ENCODINGS
from tablefmt.log.thrift_writing import signed
from tablefmt.model.log_entry import AddedFiles
from tests.tables import assert_sound, handle

ROWS = 4200
"""Rows of a small file: enough for an encoding that a sample of its values decides."""

MODULES = (
    "tablefmt.data.parquet_writer",
    "tablefmt.data.stored_groups",
    "tablefmt.data.file_rewrite",
)


@pytest.fixture
def short_groups(monkeypatch: pytest.MonkeyPatch) -> int:
    """Return the most rows of a row group, which is lowered to two and a half files."""
    for module in MODULES:
        monkeypatch.setattr(f"{module}.GROUP_ROWS", 5 * ROWS // 2)
    return 5 * ROWS // 2


@pytest.fixture
def copied(monkeypatch: pytest.MonkeyPatch) -> list[frozenset[str]]:
    """Return the copied columns of each row group, which are noted when it is written."""
    groups: list[frozenset[str]] = []
    put = mixed_files._put

    def noted(sink: Any, group: MixedGroup, *rest: Any) -> bytes:
        groups.append(frozenset(group.copied))
        return put(sink, group, *rest)

    monkeypatch.setattr(mixed_files, "_put", noted)
    return groups


def _some(random: np.random.Generator, values: list[Any]) -> list[Any]:
    return [None if gone else v for gone, v in zip(random.random(ROWS) < 0.1, values, strict=True)]


def rows_of(number: int, nan: bool = False) -> pa.Table:
    """Return rows with a column of each flat type, of many values and of few."""
    random = np.random.default_rng(number)
    first = number * ROWS
    whole = random.integers(-(1 << 62), 1 << 62, ROWS).tolist()
    floats = random.normal(0, 1e6, ROWS)
    floats[::7] = -0.0 if number % 2 else 0.0
    if nan:
        floats[3] = np.nan
    day = datetime.date(2024, 1, 1)
    cents = [decimal.Decimal(v % 10**12).scaleb(-2) for v in whole]
    return pa.table(
        {
            "id": pa.array(range(first, first + ROWS), pa.int64()),
            "any": pa.array(_some(random, whole), pa.int64()),
            "short": pa.array(random.integers(-30000, 30000, ROWS).astype(np.int16)),
            "few": pa.array(_some(random, [v % 7 for v in whole]), pa.int32()),
            "double": pa.array(floats),
            "float": pa.array(_some(random, floats.tolist()), pa.float32()),
            "flag": pa.array(_some(random, [v % 2 == 0 for v in whole]), pa.bool_()),
            "text": pa.array(_some(random, [f"{v:x}é" for v in whole])),
            "name": pa.array(_some(random, [f"name {v % 50}" for v in whole])),
            "bytes": pa.array(_some(random, [v.to_bytes(9, "big", signed=True) for v in whole])),
            "day": pa.array([day + datetime.timedelta(v % 3000) for v in whole]),
            "at": pa.array([v >> 12 for v in whole], pa.timestamp("us", "UTC")),
            "cents": pa.array(cents, pa.decimal128(12, 2)),
            "long": pa.array(cents, pa.decimal128(30, 2)),
            "none": pa.nulls(ROWS, pa.string()),
            "a.b": pa.array(whole, pa.int64()),
        }
    )


def of_files(folder: Path, files: int, nan: frozenset[int] = frozenset()) -> tablefmt.Table:
    """Return a table with that many small files, some of which hold NaN."""
    table = tablefmt.create(folder, rows_of(0).schema)
    with table.transaction() as txn:
        for number in range(files):
            txn.append(rows_of(number, nan=number in nan))
    return table


def only_file(table: tablefmt.Table, folder: Path) -> Path:
    """Return the one file of a table."""
    (path,) = table.scan().files()["path"].to_pylist()
    return folder / path


def bits(rows: pa.Table) -> list[Any]:
    """Return the columns with floats as integers of the same bits, so that a NaN equals itself."""
    found = []
    for name, column in zip(rows.column_names, rows.columns, strict=True):
        whole = column.combine_chunks()
        if pa.types.is_floating(whole.type):
            whole = whole.view(pa.int64() if whole.type == pa.float64() else pa.int32())
        found.append((name, whole.to_pylist()))
    return found


def layout_of(path: Path) -> list[Any]:
    """Return encodings, codec and statistics of every column of a file, over all row groups."""
    footer = pq.read_metadata(path)
    groups = [footer.row_group(at) for at in range(footer.num_row_groups)]
    found: list[Any] = []
    for at in range(footer.num_columns):
        chunks = [group.column(at) for group in groups]
        stats = [chunk.statistics for chunk in chunks]
        ends = [(s.min_raw, s.max_raw) for s in stats if s is not None and s.has_min_max]
        found.append(
            {
                "path": chunks[0].path_in_schema,
                "encodings": {frozenset(chunk.encodings) for chunk in chunks},
                "codecs": {chunk.compression for chunk in chunks},
                "low": min((low for low, _ in ends), default=None),
                "high": max((high for _, high in ends), default=None),
                "known": {s is not None for s in stats},
                "nulls": sum(s.null_count for s in stats if s is not None),
            }
        )
    return found


@pytest.mark.parametrize("nan", [frozenset(), frozenset({3})], ids=["no-nan", "nan"])
def test_copies_are_what_decoding_gives(
    nan: frozenset[int],
    tmp_path: Path,
    short_groups: int,
    copied: list[frozenset[str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """DAT-5, DAT-9, DAT-17, ADD-7, PRN-12: rows, layout, bounds, NaN counts, other readers."""
    table = of_files(tmp_path / "copied", 9, nan)
    before = table.to_arrow()
    table.compact()
    first, *rest = copied
    assert first == frozenset()
    kept = {"id", "any", "short", "text", "bytes", "at", "cents", "float", "double"}
    assert set(rest) == {frozenset(kept - {"float", "double"} if nan else kept)}
    assert len(rest) == 4
    assert bits(table.to_arrow()) == bits(before)
    assert_sound(table.context.store)

    other = of_files(tmp_path / "decoded", 9, nan)
    monkeypatch.setattr("tablefmt.data.file_rewrite.suits_copies", lambda *_: False)
    other.compact()
    assert len(copied) == 5
    path = only_file(table, tmp_path / "copied")
    assert layout_of(path) == layout_of(only_file(other, tmp_path / "decoded"))
    footer = pq.read_metadata(path)
    lengths = [footer.row_group(at).num_rows for at in range(footer.num_row_groups)]
    assert lengths == [2 * ROWS] * 4 + [ROWS]
    known = [handle(t.context.store).context.view.snapshot().files for t in (table, other)]
    names = [n for n in known[0].column_names if n not in ("path", "size", "footer", "id")]
    assert str(known[0].select(names).to_pylist()) == str(known[1].select(names).to_pylist())

    checked = pq.ParquetFile(path, page_checksum_verification=True).read()
    assert bits(checked.cast(before.schema)) == bits(before)
    read = polars.read_parquet(path).to_arrow().cast(before.schema)
    assert bits(read) == bits(before)
    text = f'SELECT count(*), min(text), max("any"), sum(cents), max("at") FROM \'{path}\''
    expected = duckdb.sql(text.replace(f"'{path}'", "before")).fetchall()
    assert duckdb.sql(text).fetchall() == expected


def test_files_that_do_not_suit_are_decoded_between_others(
    tmp_path: Path, short_groups: int, copied: list[frozenset[str]]
) -> None:
    """DAT-4, DAT-12, DEL-4: narrower columns, absent columns, deleted rows, small files."""
    table = tablefmt.create(tmp_path, rows_of(0).schema)
    for number in range(3):
        table.append(rows_of(number))
    table.alter.widen_column("few", "BIGINT")
    table.alter.add_column("new", "STRING", default="-")
    for number in range(3, 12):
        rows = rows_of(number)
        few = rows.column("few").cast(pa.int64())
        rows = rows.set_column(rows.schema.get_field_index("few"), "few", few)
        rows = rows.append_column("new", pa.nulls(ROWS, pa.string()))
        table.append(rows.slice(0, 7) if number == 6 else rows)
    table.delete(f"id IN (5, {8 * ROWS + 1}, {8 * ROWS + 4199})")
    before = table.to_arrow()
    table.compact()
    assert bits(table.to_arrow()) == bits(before)
    assert_sound(table.context.store)
    footer = pq.read_metadata(only_file(table, tmp_path))
    lengths = [footer.row_group(at).num_rows for at in range(footer.num_row_groups)]
    assert max(lengths) <= short_groups
    assert sum(lengths) == before.num_rows
    assert [bool(group) for group in copied].count(True) >= 2


def test_statistics_of_an_unchecked_footer_are_not_copied(
    tmp_path: Path,
    short_groups: int,
    copied: list[frozenset[str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """ADD-7: a wrong maximum in a footer, of which the log has no checksum, is computed again."""
    entries = AddedFiles.__init__

    def unchecked(self: AddedFiles, columns: dict[str, Any]) -> None:
        entries(self, {**columns, "footer": [None] * len(columns["path"])})

    with monkeypatch.context() as patched:
        patched.setattr(AddedFiles, "__init__", unchecked)
        table = of_files(tmp_path, 6)
    before = table.to_arrow()
    assert table.scan().survivors["footer"].null_count == 6
    path = tmp_path / table.scan().files()["path"].to_pylist()[4]
    body = path.read_bytes()
    most = (5 * ROWS - 1).to_bytes(8, "little")
    footer = len(body) - 8 - int.from_bytes(body[-8:-4], "little")
    assert most in body[footer:]
    path.chmod(0o644)
    path.write_bytes(body[:footer] + body[footer:].replace(most, (9).to_bytes(8, "little")))
    table.compact()
    assert copied == [frozenset()] * len(copied)
    assert bits(table.to_arrow()) == bits(before)
    written = pq.read_metadata(only_file(table, tmp_path))
    groups = [written.row_group(at) for at in range(written.num_row_groups)]
    ends = np.cumsum([group.num_rows for group in groups]) - 1
    assert [group.column(0).statistics.max for group in groups] == ends.tolist()


def test_a_table_that_is_only_partly_in_one_partition_keeps_its_values(
    tmp_path: Path, short_groups: int, copied: list[frozenset[str]]
) -> None:
    """CMP-1: each partition becomes a file of its own."""
    table = tablefmt.create(tmp_path, rows_of(0).schema, partition_by=["few"])
    one = pa.scalar(1, pa.int32())
    for number in range(6):
        rows = rows_of(number)
        at = rows.schema.get_field_index("few")
        table.append(rows.set_column(at, "few", pa.repeat(one, ROWS)))
    before = table.to_arrow()
    table.compact()
    assert len(copied) == 3
    assert "text" in copied[-1]
    assert table.to_arrow().equals(before)
    assert table.scan(where="few = 1").to_arrow().num_rows == 6 * ROWS
    assert_sound(table.context.store)


def pages_at(path: Path, column: str) -> tuple[int, int]:
    """Return the first byte of a column's only chunk, and of the values of its first page."""
    footer = pq.read_metadata(path)
    place = footer.schema.names.index(column)
    start = footer.row_group(0).column(place).data_page_offset
    body = path.read_bytes()
    # The header ends with the encodings, perhaps statistics, and two ends of structs.
    number = signed(ENCODINGS["DELTA_LENGTH_BYTE_ARRAY"])
    found = body.index(b"\x15" + number + b"\x15\x06\x15\x06", start)
    return start, found + 6


def damaged(path: Path, at: int, change: Callable[[int], int]) -> None:
    """Change one byte of a file."""
    body = bytearray(path.read_bytes())
    body[at] = change(body[at])
    path.chmod(0o644)
    path.write_bytes(bytes(body))


def _refused(table: tablefmt.Table, path: str) -> bool:
    """Compact; return whether this file was refused."""
    try:
        table.compact()
    except CorruptDataError as error:
        if error.key != path:
            raise
        return True
    return False


def test_damaged_pages_are_not_copied(
    tmp_path: Path, short_groups: int, copied: list[frozenset[str]]
) -> None:
    """DAT-5: the damaged file is named, and the table stays as it was."""
    table = of_files(tmp_path, 6)
    path = table.scan().files()["path"].to_pylist()[4]
    _, first = pages_at(tmp_path / path, "text")
    damaged(tmp_path / path, first + 3000, lambda byte: byte ^ 8)
    with pytest.raises(CorruptDataError) as caught:
        table.compact()
    assert caught.value.key == path
    assert caught.value.rule == "DAT-5"
    assert table.refresh().version == 1
    assert len(list((tmp_path / "data").rglob("*.parquet"))) == 6


def test_flipped_bits_of_page_headers_are_refused_or_change_nothing(
    tmp_path: Path, short_groups: int, copied: list[frozenset[str]]
) -> None:
    """DAT-5: no checksum covers a header, so the footer confirms each number in it."""
    table = of_files(tmp_path, 6)
    before = table.to_arrow()
    path = table.scan().files()["path"].to_pylist()[4]
    start, first = pages_at(tmp_path / path, "text")
    size = (tmp_path / path).stat().st_size
    # ADD-7 covers the last bytes. The header must lie before them.
    assert first < size - (64 << 10)
    refused = same = 0
    for at in range(start, first):
        flipped = 1 << at % 8
        damaged(tmp_path / path, at, lambda byte, flipped=flipped: byte ^ flipped)
        if _refused(table, path):
            refused += 1
        else:
            same += 1
            assert table.to_arrow().equals(before)
            table.restore(1)
        damaged(tmp_path / path, at, lambda byte, flipped=flipped: byte ^ flipped)
    assert refused
    assert same
    table.compact()
    assert table.to_arrow().equals(before)
