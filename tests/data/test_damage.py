"""A data file that is not what was written is never read as rows."""

from __future__ import annotations

import math
import os
import random
import stat
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyroaring import BitMap64

import tablefmt
from tablefmt.data.file_checksum import END_BYTES, footer_checksum, read_ends
from tablefmt.data.file_verification import alike_files, check_masks
from tablefmt.data.row_reader import count_rows, locate_rows, read_files
from tablefmt.data.selection import filter_of
from tablefmt.errors import CorruptDataError
from tablefmt.expressions.sql_to_predicate import parse_predicate
from tablefmt.model.positions import pack_positions
from tablefmt.session.table_scan import Scan
from tablefmt.store.memory_store import MemoryStore
from tablefmt.store.object_store import Store
from tests.system.requests.test_scans import Far

ROWS = pa.table(
    {
        "id": range(60),
        "name": [f"name {i % 7}" if i % 5 else None for i in range(60)],
        "d": [math.nan if i % 9 == 0 else i / 2 for i in range(60)],
        "l": [[i, None] * (i % 3) for i in range(60)],
    }
)


def made(root: Path) -> tuple[tablefmt.Table, list[Path]]:
    """A table of three files in folders of their own, and their places in the order of ids."""
    table = tablefmt.create(root / "table", ROWS.schema)
    for start in (0, 20, 40):
        tablefmt.open(table.uri).append(ROWS.slice(start, 20))
    table.refresh()
    return table, [root / "table" / p for p in table.scan().files()["path"].to_pylist()]


def replaced_whole(path: Path, body: bytes, other: bytes) -> None:
    path.write_bytes(other)


def same_shape(path: Path, body: bytes, other: bytes) -> None:
    """A sound Parquet file of the same rows and length, but of other values."""
    table = pq.read_table(path)
    at = table.schema.get_field_index("id")
    changed = table.set_column(at, table.schema.field(at), pa.array([7] * 20))
    pq.write_table(changed, path, compression="none")
    size = path.stat().st_size
    path.write_bytes((path.read_bytes() + bytes(max(0, len(body) - size)))[: len(body)])


def linked(path: Path, body: bytes, other: bytes) -> None:
    """To the very bytes, elsewhere."""
    elsewhere = path.parents[3] / "elsewhere"
    path.rename(elsewhere)
    path.symlink_to(elsewhere)


def in_a_linked_folder(path: Path, body: bytes, other: bytes) -> None:
    elsewhere = path.parents[3] / "folder"
    path.parent.rename(elsewhere)
    path.parent.symlink_to(elsewhere)


def a_pipe(path: Path, body: bytes, other: bytes) -> None:
    path.unlink()
    os.mkfifo(path)


def a_socket(path: Path, body: bytes, other: bytes) -> None:
    path.unlink()
    os.mknod(path, stat.S_IFSOCK | 0o600)


def a_folder(path: Path, body: bytes, other: bytes) -> None:
    path.unlink()
    path.mkdir()


DAMAGES: dict[str, Callable[[Path, bytes, bytes], Any]] = {
    "missing": lambda path, body, other: path.unlink(),
    "no bytes": lambda path, body, other: path.write_bytes(b""),
    "cut by one": lambda path, body, other: path.write_bytes(body[:-1]),
    "cut to half": lambda path, body, other: path.write_bytes(body[: len(body) // 2]),
    "longer": lambda path, body, other: path.write_bytes(body + b"x"),
    "zeroes": lambda path, body, other: path.write_bytes(bytes(len(body))),
    "no Parquet": lambda path, body, other: path.write_bytes(b"hello" * 5),
    "another file": replaced_whole,
    "same shape": same_shape,
    "first page": lambda path, body, other: path.write_bytes(
        body[:60] + bytes([body[60] ^ 16]) + body[61:]
    ),
    "a link": linked,
    "in a linked folder": in_a_linked_folder,
    "a pipe": a_pipe,
    "a socket": a_socket,
    "a folder": a_folder,
}


@pytest.mark.broken_tables
@pytest.mark.parametrize("name", DAMAGES)
@pytest.mark.parametrize("columns", [None, ["id"]])
def test_a_damaged_file_is_refused_by_name(
    name: str, columns: list[str] | None, tmp_path: Path
) -> None:
    """DAT-5, ADD-7: scan, filtered count and changes; a count from metadata does not need it."""
    table, paths = made(tmp_path)
    bodies = [p.read_bytes() for p in paths]
    DAMAGES[name](paths[1], bodies[1], bodies[2] + b"0")
    key = str(paths[1].relative_to(tmp_path / "table"))
    reads: list[Callable[[], object]] = [
        lambda: table.scan(columns=columns).to_arrow(),
        lambda: table.scan(columns=columns, where="id >= 0").to_arrow(),
        lambda: table.scan(where="name = 'name 1'").count(),
        lambda: table.changes(starting_version=0, columns=columns).to_arrow(),
        lambda: tablefmt.open(table.uri).to_arrow(),
    ]
    for read in reads if name != "first page" else reads[:1]:
        with pytest.raises(CorruptDataError) as caught:
            read()
        assert (caught.value.key, caught.value.rule) == (key, "DAT-5")
    assert table.scan().count() == 60
    assert table.scan(where="id < 20").to_arrow().num_rows == 20
    assert not table.verify(deep=True).ok


@pytest.mark.slow
@pytest.mark.broken_tables
@pytest.mark.parametrize("bits", [200, pytest.param(600, marks=pytest.mark.soak)])
def test_no_flipped_bit_is_read_as_rows(tmp_path: Path, bits: int) -> None:
    """ADD-7, DAT-5: random single bits of a small file, in pages, their headers, the footer."""
    table, paths = made(tmp_path)
    path, body = paths[0], paths[0].read_bytes()
    random.seed(20_000)
    for bit in random.sample(range(len(body) * 8), bits):
        damaged = bytearray(body)
        damaged[bit // 8] ^= 1 << bit % 8
        path.write_bytes(damaged)
        with pytest.raises(CorruptDataError) as caught:
            table.to_arrow()
        key = str(path.relative_to(tmp_path / "table"))
        assert caught.value.key == key
        assert [f.object for f in table.verify().findings] == [key]


@pytest.mark.slow
@pytest.mark.broken_tables
def test_flipped_bits_of_a_large_file_are_errors_or_change_nothing(tmp_path: Path) -> None:
    """ADD-7, DAT-5: pages have checksums of their own; the end of the file has this one."""
    chance = random.Random(6)
    rows = pa.table(
        {
            "id": range(60_000),
            "name": [f"{i * 7919 % 10_007} é" for i in range(60_000)],
            "noise": [chance.getrandbits(62) for _ in range(60_000)],
        }
    )
    table = tablefmt.create(tmp_path / "t", rows.schema)
    table.append(rows)
    path = tmp_path / "t" / table.scan().files()["path"][0].as_py()
    body = path.read_bytes()
    assert len(body) > 3 * END_BYTES
    random.seed(20_001)
    pages, end = (
        range((len(body) - END_BYTES) * 8),
        range((len(body) - END_BYTES) * 8, len(body) * 8),
    )
    found = 0
    for bit in [
        *random.sample(pages, 100),
        *random.sample(range(8_000), 50),
        *random.sample(end, 50),
    ]:
        damaged = bytearray(body)
        damaged[bit // 8] ^= 1 << bit % 8
        path.write_bytes(damaged)
        try:
            same = table.to_arrow().equals(rows)
        except CorruptDataError as error:
            same = error.key == str(path.relative_to(tmp_path / "t"))
            found += 1
        else:
            same = same and bit in pages
        assert same, bit
    assert found >= 150


def test_the_checksum_is_of_the_last_bytes_and_of_the_whole_footer() -> None:
    """ADD-7: a longer piece of the file gives the same checksum.

    A piece that is too short gives none.
    """
    end = b"meta" + (4).to_bytes(4, "little") + b"PAR1"
    assert footer_checksum(end) == zlib.crc32(end)
    assert footer_checksum(b"pages" + end) == zlib.crc32(b"pages" + end)
    covered = bytes(END_BYTES - len(end)) + end
    assert footer_checksum(b"more" + covered) == zlib.crc32(covered)
    long = b"m" * END_BYTES + END_BYTES.to_bytes(4, "little") + b"PAR1"
    assert footer_checksum(b"pages" + long) == zlib.crc32(long)
    assert [footer_checksum(piece) for piece in (long[1:], end[1:], end[5:], bytes(8), b"")] == [
        None
    ] * 5


@pytest.mark.slow
def test_a_footer_longer_than_one_read_is_checked_too(tmp_path: Path) -> None:
    """ADD-7: thousands of columns have a footer of hundreds of kB."""
    wide = pa.table({f"column {i}": [i] for i in range(1_500)})
    table = tablefmt.create(tmp_path / "t", wide.schema)
    table.append(wide)
    path = tmp_path / "t" / table.scan().files()["path"][0].as_py()
    length = int.from_bytes(path.read_bytes()[-8:-4], "little")
    assert length > 64 << 10
    assert table.to_arrow().equals(wide)
    store = table.context.store
    logged = orjson.loads(store.get("_log/00000000000000000001.json"))["add"]["footer"]
    key = str(path.relative_to(tmp_path / "t"))
    (end,) = read_ends(store, [(key, path.stat().st_size)])
    assert end is not None
    assert logged == [footer_checksum(end.body)]


def test_files_without_a_checksum_are_read() -> None:
    """ADD-7: unknown is not wrong."""
    table = tablefmt.create("memory://no-checksums", ROWS.schema)
    table.append(ROWS)
    store = MemoryStore("no-checksums")
    files = table.scan().survivors
    columns = list(table.scan().columns)
    schema = table.scan().snapshot.schema
    unknown = pa.nulls(1, pa.int64())
    for known in (
        files.drop_columns(["footer"]),
        files.set_column(files.schema.get_field_index("footer"), "footer", unknown),
    ):
        got = pa.Table.from_batches(read_files(store, known, schema, columns))
        assert repr(got.to_pylist()) == repr(ROWS.to_pylist())
    wrong = files.set_column(
        files.schema.get_field_index("footer"), "footer", pa.array([5], pa.int64())
    )
    with pytest.raises(
        CorruptDataError, match="its footer bytes do not match the checksum in the log"
    ):
        list(read_files(store, wrong, schema, columns))


def counted_reads(store: Store, files: pa.Table, scan: Scan) -> list[Callable[[], Any]]:
    """Every way to read these files of a table of two, rows with ids from 0 on."""
    schema, columns = scan.snapshot.schema, scan.columns
    all_of_them = filter_of(parse_predicate("id >= 0", schema), schema)
    none = filter_of(parse_predicate("id < -5", schema), schema)
    gone = pa.array([None, pack_positions(BitMap64([1]))], pa.large_binary())
    return [
        lambda: list(read_files(store, files, schema, columns)),
        lambda: list(read_files(store, files, schema, columns[:1], all_of_them)),
        lambda: list(read_files(store, files, schema, [], none)),
        lambda: list(read_files(store, files.append_column("vector", gone), schema, [])),
        lambda: list(locate_rows(store, files, schema, columns)),
        lambda: list(locate_rows(store, files, schema, [], none)),
        lambda: count_rows(store, files, schema, all_of_them),
        lambda: count_rows(store, files, schema, none),
    ]


@pytest.mark.broken_tables
@pytest.mark.parametrize("size", [3, 40_000])
@pytest.mark.parametrize("known", [True, False])
def test_a_file_with_other_rows_than_the_log_says_is_damage(
    size: int, known: bool, tmp_path: Path
) -> None:
    """DAT-5: more or fewer rows, for every query, with and without a checksum in the log."""
    rows = pa.table({"id": range(size), "name": [f"{i * 7919 % 10_007}" for i in range(size)]})
    table = tablefmt.create(tmp_path / "t", rows.schema)
    for start in (0, size):
        table.append(rows.set_column(0, "id", pa.array(range(start, start + size))))
    scan = table.scan()
    files = scan.survivors if known else scan.survivors.drop_columns(["footer"])
    at = files.schema.get_field_index("rows")
    for said in (0, size - 1, size + 1):
        wrong = files.set_column(at, "rows", pa.array([said, size]))
        for store in (table.context.store, Far(table.context.store)):
            for read in counted_reads(store, wrong, scan):
                with pytest.raises(
                    CorruptDataError, match=f"{size} rows, .* says {said}"
                ) as caught:
                    read()
                assert caught.value.key == files["path"][0].as_py()


def test_no_mask_is_made_of_rows_that_a_file_cannot_have(tmp_path: Path) -> None:
    """STO-25, DEL-1: the mask would have a byte for each of the 2**35 rows in the entry."""
    table, _ = made(tmp_path)
    files = table.scan().files().select(["path", "size", "rows"])
    gone = pa.array([pack_positions(BitMap64([1])), None, None], pa.large_binary())
    many = pa.array([1 << 35] * 3, pa.int64())
    told = files.set_column(2, "rows", many).append_column("vector", gone)
    store, schema = table.context.store, table.scan().snapshot.schema
    for read in (
        lambda: list(read_files(store, told, schema, schema.fields)),
        lambda: alike_files(store, told, schema.fields),
    ):
        with pytest.raises(CorruptDataError, match="too many for its") as caught:
            read()
        assert (caught.value.rule, caught.value.key) == ("DEL-1", files["path"][0].as_py())
    whole = told.set_column(3, "vector", pa.nulls(3, pa.large_binary()))
    fair = told.set_column(2, "rows", pa.array([128 << 20] * 3, pa.int64()))
    for sound in (whole, fair, files):
        check_masks(sound)
