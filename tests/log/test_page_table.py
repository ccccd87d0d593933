"""Page headers read together are those read one by one, of files of all writers. Spec: STO-25."""

from __future__ import annotations

import io
import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import polars
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tablefmt.log import page_table, thrift_writing
from tablefmt.log.bounded_parquet import Page, chunk_extent, pages_in
from tablefmt.log.page_table import PageTable, pages_of_bodies, pages_of_files
from tests.scheduling import examples

MR = Path(__file__).parent.parent / "data" / "parquet_mr"


def rows_of(chance: random.Random, count: int) -> pa.Table:
    """Return rows whose pages have statistics of every kind, with NULLs."""

    def some(value: Any) -> list[Any]:
        return [None if chance.random() < 0.2 else value() for _ in range(count)]

    texts = ["", "a", "é", "long " * 9, "longer " * 30]
    return pa.table(
        {
            "n": pa.array(some(lambda: chance.randrange(-(2**31), 2**31)), pa.int32()),
            "few": pa.array(some(lambda: chance.randrange(3)), pa.int64()),
            "x": pa.array(some(chance.random), pa.float64()),
            "yes": pa.array(some(lambda: chance.random() < 0.5), pa.bool_()),
            "text": pa.array(some(lambda: chance.choice(texts[:4])), pa.string()),
            "long": pa.array(some(lambda: chance.choice(texts)), pa.string()),
            "money": pa.array(some(lambda: chance.randrange(10**6)), pa.int64()).cast(
                pa.decimal128(19, 0)
            ),
            "none": pa.nulls(count, pa.int64()),
            "list": pa.array(some(lambda: [1] * chance.randrange(3)), pa.list_(pa.int32())),
        }
    )


def extents(file: bytes) -> list[tuple[int, int]]:
    footer = pq.read_metadata(io.BytesIO(file))
    groups = map(footer.row_group, range(footer.num_row_groups))
    return [chunk_extent(group.column(at)) for group in groups for at in range(group.num_columns)]


def chunks_of(file: bytes) -> list[bytes]:
    return [file[start:stop] for start, stop in extents(file)]


def as_pages(table: PageTable) -> list[list[Page]]:
    """Return the table as pages of each chunk."""
    assert len({len(column) for column in table[1:]}) == 1
    columns = [column.tolist() for column in table[1:]]
    pages = [
        Page(start, header, packed, unpacked, values, is_dictionary, None if crc < 0 else crc)
        for start, header, packed, unpacked, values, is_dictionary, crc in zip(
            *columns, strict=True
        )
    ]
    return [pages[a:b] for a, b in zip(table.firsts, table.firsts[1:], strict=False)]


@pytest.fixture
def unusual(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The offsets of pages whose headers have an unusual form."""
    others: list[int] = []

    def told(body: bytes, start: int = 0) -> Iterator[Page]:
        others.append(start)
        return pages_in(body, start)

    monkeypatch.setattr(page_table, "pages_in", told)
    return others


def written(**options: Any) -> bytes:
    sink = io.BytesIO()
    settings = {"data_page_size": 1, "write_batch_size": 40, "write_page_checksum": True}
    pq.write_table(rows_of(random.Random(5), 300), sink, row_group_size=120, **settings | options)
    return sink.getvalue()


def by_polars(**options: Any) -> bytes:
    sink = io.BytesIO()
    polars.from_arrow(rows_of(random.Random(6), 3000)).write_parquet(
        sink, row_group_size=1000, data_page_size=1000, **options
    )
    return sink.getvalue()


def by_duckdb(tmp_path: Path, version: str) -> bytes:
    path, rows = tmp_path / "d.parquet", rows_of(random.Random(7), 5000)
    options = f"FORMAT parquet, ROW_GROUP_SIZE 2048, PARQUET_VERSION {version}"
    with duckdb.connect() as connection:
        connection.register("rows", rows)
        connection.execute(f"COPY rows TO '{path}' ({options})")
    return path.read_bytes()


def files(tmp_path: Path) -> dict[str, bytes]:
    """Return files of several writers."""
    versions = {
        f"version {version}, checksum {crc}, statistics {statistics}, dictionary {dictionary}": (
            written(
                data_page_version=version,
                write_page_checksum=crc,
                write_statistics=statistics,
                use_dictionary=dictionary,
            )
        )
        for version in ("1.0", "2.0")
        for crc in (True, False)
        for statistics in (True, False)
        for dictionary in (True, False)
    }
    return {
        **versions,
        "page index": written(write_page_index=True),
        "polars": by_polars(),
        "polars without statistics": by_polars(statistics=False),
        "duckdb 1": by_duckdb(tmp_path, "V1"),
        "duckdb 2": by_duckdb(tmp_path, "V2"),
        **{path.name: path.read_bytes() for path in sorted(MR.glob("*.parquet"))},
    }


def test_pages_of_every_writer_are_those_read_one_by_one(
    tmp_path: Path, unusual: list[int]
) -> None:
    for name, file in files(tmp_path).items():
        chunks = chunks_of(file)
        expected = [list(pages_in(chunk)) for chunk in chunks]
        unusual.clear()
        assert as_pages(pages_of_bodies(chunks)) == expected, name
        if name.startswith(("version 1", "polars")):
            # Long texts as minimum and maximum are unusual.
            assert len(unusual) <= sum(map(len, expected)) // 9, name
        source = pa.BufferReader(file)
        placed = as_pages(pages_of_files([(source, *extent) for extent in extents(file)]))
        assert placed == [
            [page._replace(start=page.start + start) for page in pages]
            for (start, _), pages in zip(extents(file), expected, strict=True)
        ], name


def test_few_chunks_and_chunks_without_pages() -> None:
    chunks = chunks_of(written())
    expected = [list(pages_in(chunk)) for chunk in chunks]
    for some in (range(0), range(3), range(len(chunks))):
        mixed = [piece for at in some for piece in (b"", chunks[at])]
        pages = [piece for at in some for piece in ([], expected[at])]
        table = pages_of_bodies(mixed)
        assert as_pages(table) == pages
        sums = [sum(page.values for page in each) for each in pages]
        assert table.sums(table.values).tolist() == sums


FILES = [
    written(data_page_version=version, write_page_checksum=crc, write_statistics=statistics)
    for version in ("1.0", "2.0")
    for crc in (True, False)
    for statistics in (True, False)
]
CHUNKS = [chunk for file in FILES for chunk in chunks_of(file)]
HEADERS = [
    [at for page in pages_in(chunk) for at in range(page.start, page.start + page.header)]
    for chunk in CHUNKS
]


def answer(read: Any, chunks: Sequence[bytes]) -> Any:
    try:
        return read(chunks)
    except ValueError:
        return ValueError


@examples(300)
@given(
    chunk=st.integers(0, len(CHUNKS) - 1),
    cut=st.none() | st.integers(0, 1 << 16),
    changes=st.lists(st.tuples(st.integers(0, 1 << 16), st.integers(0, 255)), max_size=3),
)
def test_damaged_headers_are_read_or_refused_as_one_by_one(
    chunk: int, cut: int | None, changes: list[tuple[int, int]]
) -> None:
    body, places = bytearray(CHUNKS[chunk]), HEADERS[chunk]
    for at, value in changes:
        body[places[at % len(places)]] = value
    if cut is not None:
        del body[cut % len(body) :]
    changed = bytes(body)
    expected = answer(lambda chunks: [list(pages_in(one)) for one in chunks], [changed])
    assert answer(lambda chunks: as_pages(pages_of_bodies(chunks)), [changed]) == expected


def test_all_changes_of_a_byte_of_a_header() -> None:
    """Each byte of some headers has each value once; the others chunks are as written."""
    chance = random.Random(11)
    forms: dict[tuple[bytes, int], bytes] = {}
    for chunk, places in zip(CHUNKS, HEADERS, strict=True):
        forms.setdefault((chunk[:2], len(places)), chunk)
    changed = []
    for chunk in chance.sample(sorted(forms.values()), 6):
        (first, *_) = pages_in(chunk)
        for at in range(first.header):
            for value in range(256):
                changed.append(chunk[:at] + bytes([value]) + chunk[at + 1 :])
    sound = []
    for body in changed:
        expected = answer(lambda chunks: [list(pages_in(one)) for one in chunks], [body])
        assert answer(lambda chunks: as_pages(pages_of_bodies(chunks)), [body]) == expected
        if expected is not ValueError:
            sound.append(body)
    assert 0.02 < len(sound) / len(changed) < 0.98
    together = as_pages(pages_of_bodies(sound))
    assert together == [list(pages_in(body)) for body in sound]


def test_numbers_of_all_lengths() -> None:
    """Sizes, values and checksums take one byte to five."""
    numbers = [0, 1, 63, 64, 8191, 8192, (1 << 20) - 1, 1 << 20, (1 << 27) - 1, 1 << 27]
    for unpacked in numbers:
        for values in numbers:
            crc = np.uint32(unpacked * 2654435761 & 0xFFFFFFFF).astype(np.int32).item()
            header = b"\x15\x00\x15%b\x15\x00\x15%b\x1c\x15%b\x15\x00\x15\x06\x15\x06\x00\x00" % (
                signed(unpacked),
                signed(crc),
                signed(values),
            )
            (page,) = pages_in(header)
            assert (page.unpacked, page.values, page.checksum) == (
                unpacked,
                values,
                crc & 0xFFFFFFFF,
            )
            table = pages_of_bodies([header] * 20)
            assert as_pages(table) == [[page]] * 20


@pytest.mark.parametrize("form", [b"\x2c\x15%b\x15\x00\x15\x06\x15\x06", b"\x5c\x15%b"])
def test_a_number_of_too_many_bits_is_an_invalid_header(form: bytes) -> None:
    """A foreign exception would not name the file. Both a usual and an unusual header have it."""
    for number in (1 << 31, 1 << 61, 1 << 62, 1 << 66, (1 << 68) - 1):
        header = b"\x15\x00\x15\x00\x15\x00" + form % thrift_writing.signed(number) + b"\x00\x00"
        (page,) = pages_in(header)
        assert page.values == number
        expected = ValueError if number >= 1 << 63 else [[page]]
        assert answer(lambda chunks: as_pages(pages_of_bodies(chunks)), [header]) == expected


def signed(number: int) -> bytes:
    """Return a number in the form of Thrift's compact protocol."""
    rest, out = (number << 1) ^ (number >> 63), bytearray()
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes([*out, rest])
