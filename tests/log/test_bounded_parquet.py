"""Parquet of a few bytes that would take much memory is refused before it does. Spec: STO-25."""

from __future__ import annotations

import io
import random
import re
import struct
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tablefmt.errors import CorruptTableError, UnsupportedFeatureError
from tablefmt.log import bounded_parquet, overflow_metadata, parquet_footer
from tablefmt.log.bounded_parquet import footer_of, read_bounded, rows_are
from tablefmt.log.codec import digest
from tablefmt.log.object_names import overflow_key
from tablefmt.log.overflow_metadata import (
    read_deletes,
    read_overflow,
    write_deletes,
    write_overflow,
)
from tablefmt.model.log_entry import OverflowFile, RowDeletes
from tests.tables import memory

NONCE = "ab" * 16
MIB = 1 << 20


@pytest.fixture
def low_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded_parquet, "EXPANDED_FREE", 8 * MIB)
    monkeypatch.setattr(bounded_parquet, "BATCH_BYTES", 8 * MIB)
    monkeypatch.setattr(bounded_parquet, "EXPANSION_MAX", 64)


def packed(columns: pa.Table, **options: Any) -> bytes:
    sink = io.BytesIO()
    given = {"compression": "zstd", "write_page_checksum": True, **options}
    pq.write_table(columns, sink, **given)
    return sink.getvalue()


def read(body: bytes) -> pa.Table:
    footer = footer_of(body)
    return read_bounded(pa.BufferReader(body), footer, footer.schema.to_arrow_schema().names)


FLAT = pa.table(
    {
        "path": [f"data/{NONCE}/{number}.parquet" for number in range(70_000)],
        "rows": pa.array(range(70_000), pa.int64()),
        "lower.1": pa.array([None, "ä", "b" * 30, ""] * 17_500),
        "nulls.1": pa.array([0] * 70_000),
        "updated": pa.array([True, None] * 35_000),
        "partition.2": pa.array([b"x", None] * 35_000, pa.large_binary()),
    }
)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"use_dictionary": False},
        {"use_dictionary": False, "column_encoding": {"path": "DELTA_BYTE_ARRAY"}},
        {"row_group_size": 1000, "data_page_version": "2.0"},
        {"compression": "none", "data_page_size": 100},
    ],
)
def test_what_is_within_the_bounds_is_read_as_it_was_written(options: Any) -> None:
    """STO-25: any encoding, any pages, any row groups."""
    found = read(packed(FLAT, **options))
    assert found.equals(FLAT)
    assert all(column.num_chunks == 1 for column in found.columns)
    body = packed(FLAT, **options)
    footer = footer_of(body)
    last = footer.num_row_groups - 1
    some = read_bounded(pa.BufferReader(body), footer, ["rows", "path"], [last])
    assert some.equals(FLAT.select(["rows", "path"]).slice(70_000 - some.num_rows))
    assert footer.equals(pq.read_metadata(pa.BufferReader(body)))
    assert rows_are(footer, 70_000)
    assert not rows_are(footer, 69_999)


WIDE = {f"x{number}": ["b" * MIB] * 7 for number in range(5)}
CODED = pa.table({"x": pa.array(["b" * MIB]).dictionary_encode().take(pa.array([0] * 200))})
BOMBS = {
    "one long text": lambda: packed(pa.table({"x": ["a" * (20 * MIB)]})),
    "a text on every line": lambda: packed(CODED, store_schema=False),
    "a text on every line of many columns": lambda: packed(pa.table(WIDE)),
    "prefixes": lambda: packed(
        pa.table({"x": ["c" * MIB] * 40}),
        use_dictionary=False,
        column_encoding={"x": "DELTA_BYTE_ARRAY"},
    ),
    "numbers": lambda: packed(pa.table({"x": pa.repeat(7, 6 * MIB)})),
    "NULLs": lambda: packed(pa.table({"x": pa.nulls(6 * MIB, pa.int64())})),
}


@pytest.mark.parametrize("kind", BOMBS)
def test_a_bomb_is_refused_before_it_is_unpacked(kind: str, low_bounds: None) -> None:
    """STO-25: megabytes in a few kilobytes; the bounds are lower here, to be quick."""
    body = BOMBS[kind]()
    assert len(body) < 40_000
    with pytest.raises(ValueError, match="bytes of memory or more"):
        read(body)


def test_a_page_that_denies_its_length_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """STO-25: the header of the page counts, not the footer's claim about the chunk."""
    body = packed(pa.table({"x": ["d" * (2 * MIB)]}), use_dictionary=False, write_statistics=False)
    monkeypatch.setattr(bounded_parquet, "EXPANDED_FREE", 1 << 10)
    monkeypatch.setattr(bounded_parquet, "EXPANSION_MAX", 2)
    with pytest.raises(ValueError, match="bytes of memory"):
        read(body)
    # The page says less than it is: Arrow's unpacking finds that.
    at = body.index(b"\x15\x00\x15") + 3
    assert parquet_footer.varint(body, at)[0] > 4 * MIB
    liar = body[:at] + b"\x90\x80\x80\x00" + body[at + 4 :]
    assert parquet_footer.varint(liar, at)[0] == 16
    with pytest.raises((ValueError, OSError)):
        read(liar)


def test_lists_are_refused() -> None:
    """STO-25: columns of parts and overflow files are flat."""
    for column in ([[1, 2]], [{"a": [1]}]):
        with pytest.raises(ValueError, match="a column of lists"):
            read(packed(pa.table({"x": column})))


def test_a_dictionary_is_refused() -> None:
    """STO-25: a dictionary is short to read, but a cast would expand all of its texts."""
    with pytest.raises(ValueError, match="of dictionary type"):
        read(packed(CODED))


def thrift_list(count: int) -> bytes:
    """A footer whose list of columns claims so many."""
    number, left = b"", count
    while left > 0x7F:
        number, left = number + bytes([left & 0x7F | 0x80]), left >> 7
    body = b"\x15\x02\x19\xfc" + number + bytes([left]) + b"\x00" * 40
    return b"PAR1" + body + struct.pack("<I", len(body)) + b"PAR1"


def test_a_list_in_a_footer_is_no_longer_than_the_footer() -> None:
    """STO-25: Arrow allocates memory for the list before it reads the first element."""
    with pytest.raises((OSError, ValueError), match=r"Exceeded size limit|footer"):
        footer_of(thrift_list(900_000))
    with pytest.raises(ValueError, match="footer is longer"):
        footer_of(struct.pack("<I", bounded_parquet.FOOTER_BYTES_MAX - 7) + b"PAR1")


def test_a_file_may_be_longer_than_a_footer(monkeypatch: pytest.MonkeyPatch) -> None:
    """STO-24, STO-25: an overflow metadata file has 2 GiB at most, and its footer 256 MiB."""
    body = packed(FLAT, compression="none")
    monkeypatch.setattr(bounded_parquet, "FOOTER_BYTES_MAX", len(body) // 2)
    assert read(body).equals(FLAT)


def test_a_footer_of_many_columns_is_read() -> None:
    """STO-25: 3,000 columns with names of one or two letters, and no rows, keep to the bounds."""
    wide = pa.table({f"{number:x}": pa.array([], pa.int8()) for number in range(3000)})
    body = packed(wide, store_schema=False)
    assert footer_of(body).num_columns == 3000


@pytest.mark.parametrize("kind", ["add", "delete"])
def test_an_overflow_file_that_is_a_bomb_is_damage(kind: str, low_bounds: None) -> None:
    """STO-25, ADD-6, DEL-3: 126 KB that took 1.6 GB."""
    store = memory()
    columns = {
        "add": {"path": ["data/x"], "size": [1], "rows": [1], "keys": [b"k" * (20 * MIB)]},
        "delete": {"file": [1], "rows": [1], "deleted": [b"k" * (20 * MIB)], "updated": [None]},
    }[kind]
    body = packed(pa.table(columns))
    store.put(overflow_key(NONCE), body)
    overflow = OverflowFile(overflow_key(NONCE), 1, len(body), digest(body))
    with pytest.raises(CorruptTableError, match="would take") as caught:
        (read_overflow if kind == "add" else read_deletes)(store, overflow)
    assert caught.value.rule == ("ADD-6" if kind == "add" else "DEL-3")


def test_an_overflow_file_has_its_counts_first() -> None:
    """STO-24, STO-25: a wrong length and a wrong number of files are found before the read."""
    store = memory()
    store.put(overflow_key(NONCE), b"PAR1")
    for files, size in ((1, 1 << 40), (1 << 40, 4)):
        with pytest.raises(CorruptTableError, match="the overflow metadata file would be"):
            read_overflow(store, OverflowFile(overflow_key(NONCE), files, size, digest(b"PAR1")))


def test_columns_that_shrink_too_far_are_written_plainly(monkeypatch: pytest.MonkeyPatch) -> None:
    """STO-25: readers accept what the writer writes.

    Larger columns are refused before the write.
    """
    store = memory()
    monkeypatch.setattr(bounded_parquet, "EXPANDED_FREE", 1 << 10)
    monkeypatch.setattr(bounded_parquet, "EXPANSION_MAX", 2)
    count = 5000
    columns = pa.table(
        {
            "path": [f"data/{NONCE}/{number}.parquet" for number in range(count)],
            "size": [1] * count,
            "rows": [1] * count,
        }
    )
    overflow = write_overflow(store, NONCE, columns)
    assert read_overflow(store, overflow).equals(columns)
    deletes = RowDeletes(
        list(range(1, count)), [1] * (count - 1), ["AAAA"] * (count - 1), [None] * (count - 1)
    )
    overflow = write_deletes(store, NONCE, deletes)
    assert read_deletes(store, overflow)["file"].to_pylist() == list(range(1, count))
    monkeypatch.setattr(overflow_metadata, "OVERFLOW_LINES_MAX", count - 1)
    with pytest.raises(UnsupportedFeatureError, match="commit in smaller pieces"):
        write_overflow(store, "cd" * 16, columns)
    assert [one.key for one in store.list_after(overflow_key("cd" * 16))] == []


def page_headers() -> list[bytes]:
    """Return headers of pages of every kind of column, each with a few bytes after it."""
    found = []
    for options in ({}, {"use_dictionary": False}, {"write_page_checksum": False}):
        for statistics in (True, False):
            body = packed(FLAT, data_page_size=4096, write_statistics=statistics, **options)
            footer, source = footer_of(body), pa.BufferReader(body)
            group = footer.row_group(0)
            for at in range(group.num_columns):
                extent = bounded_parquet.chunk_extent(group.column(at))
                pages = list(bounded_parquet.pages_between(source, *extent))
                found += [body[page.start : page.start + page.header + 8] for page in pages[:4]]
    return found


def told(header: bytes) -> Any:
    try:
        return bounded_parquet._page_header(header)
    except (IndexError, ValueError) as error:
        return type(error)


def test_the_usual_page_header_is_what_the_walk_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    """STO-25: the faster way answers as the walk does, also for changed headers."""
    chance = random.Random(7)
    samples = []
    for header in page_headers() * 40:
        changed = bytearray(header[: chance.choice([len(header), chance.randint(1, len(header))])])
        for _ in range(chance.choice([0, 1, 1, 2])):
            changed[chance.randrange(len(changed))] = chance.randrange(256)
        samples.append(bytes(changed))
    for pattern, least in (("USUAL_DATA_PAGE", 0.2), ("USUAL_DICTIONARY_PAGE", 0.04)):
        usual = sum(bool(getattr(parquet_footer, pattern).match(sample)) for sample in samples)
        assert least < usual / len(samples) < 0.8
    fast = [told(sample) for sample in samples]
    monkeypatch.setattr(bounded_parquet, "USUAL_DATA_PAGE", re.compile(rb"(?!)"))
    monkeypatch.setattr(bounded_parquet, "USUAL_DICTIONARY_PAGE", re.compile(rb"(?!)"))
    assert fast == [told(sample) for sample in samples]
