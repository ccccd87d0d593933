"""Parquet files in memory, made of stored pages as they are, with a footer written here.

A reader decodes such a file as any other. Spec: DAT-4, DAT-5.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import pyarrow.parquet as pq

from tablefmt.log.bounded_parquet import Page
from tablefmt.log.parquet_footer import BINARY, INT32, INT64, LIST, STRUCT, Leaf
from tablefmt.log.thrift_writing import int32, int64, list_of, signed, struct_of

CODECS = {"UNCOMPRESSED": 0, "SNAPPY": 1, "GZIP": 2, "BROTLI": 4, "ZSTD": 6}
"""Numbers of the codecs that have one name in Arrow and one number in Parquet."""

ENCODINGS = {
    "PLAIN": 0,
    "PLAIN_DICTIONARY": 2,
    "RLE": 3,
    "BIT_PACKED": 4,
    "DELTA_BINARY_PACKED": 5,
    "DELTA_LENGTH_BYTE_ARRAY": 6,
    "DELTA_BYTE_ARRAY": 7,
    "RLE_DICTIONARY": 8,
    "BYTE_STREAM_SPLIT": 9,
}

_MAGIC = b"PAR1"


def is_known_form(described: pq.ColumnChunkMetaData) -> bool:
    """Return whether a footer written here can state the codec and encodings of a column chunk."""
    known = ENCODINGS.keys() >= {*described.encodings}
    return bool(described.compression in CODECS and known)


class StoredChunk(NamedTuple):
    """Pages of a column chunk, and their bytes."""

    leaf: Leaf
    described: pq.ColumnChunkMetaData
    pages: Sequence[Page]
    """A dictionary, if there is one, comes first."""
    parts: Sequence[bytes]
    """The bytes of the pages with their headers, in any pieces."""


def check_checksums(chunk: StoredChunk) -> None:
    """Check the bytes of a chunk's pages, in pieces of whole pages, against their checksums.

    Raises:
        ValueError: a checksum is wrong, or the pieces hold other pages.
    """
    pages = iter(chunk.pages)
    for part in chunk.parts:
        view, at = memoryview(part), 0
        while at < len(view):
            page = next(pages, None)
            if page is None:
                raise ValueError("a column chunk holds more bytes than its pages")
            first, at = at + page.header, at + page.header + page.packed
            if page.checksum not in (None, zlib.crc32(view[first:at])):
                raise ValueError("a page does not match its checksum")
    if next(pages, None) is not None:
        raise ValueError("a column chunk holds fewer bytes than its pages")


def page_file(groups: Sequence[tuple[int, Sequence[StoredChunk]]]) -> bytes:
    """Return a file of row groups: the number of rows, and a chunk of every column, of each."""
    parts: list[bytes] = [_MAGIC]
    at, described = len(_MAGIC), []
    for rows, chunks in groups:
        first, columns = at, []
        for chunk in chunks:
            columns.append(_column(chunk, rows, at))
            parts += chunk.parts
            at += sum(map(len, chunk.parts))
        total = {1: list_of(STRUCT, columns), 2: int64(at - first), 3: int64(rows)}
        described.append(struct_of(total))
    chunks = groups[0][1]
    root = struct_of({4: (BINARY, b"\x01r"), 5: int32(len(chunks))})
    footer = struct_of(
        {
            1: int32(2),
            2: list_of(STRUCT, [root, *(chunk.leaf.element for chunk in chunks)]),
            3: int64(sum(rows for rows, _ in groups)),
            4: list_of(STRUCT, described),
        }
    )
    return b"".join([*parts, footer, len(footer).to_bytes(4, "little"), _MAGIC])


def _column(chunk: StoredChunk, rows: int, at: int) -> bytes:
    """Return the footer's description of a chunk whose bytes begin at `at`."""
    packed = [page.header + page.packed for page in chunk.pages]
    unpacked = sum(page.header + page.unpacked for page in chunk.pages)
    first = packed[:1] if chunk.pages and chunk.pages[0].is_dictionary else []
    form = _form(chunk.leaf, chunk.described.encodings, chunk.described.compression)
    numbers = [rows, unpacked, sum(packed), at + sum(first), *([at] if first else [])]
    # Fields 5, 6, 7, 9 and 11, each after its distance from the one before.
    fields = b"".join(
        bytes((step << 4 | INT64,)) + signed(number)
        for step, number in zip((1, 1, 1, 2, 2), numbers, strict=False)
    )
    return struct_of({2: int64(at), 3: (STRUCT, form + fields + b"\0")})


@lru_cache(1 << 10)
def _form(leaf: Leaf, encodings: tuple[str, ...], codec: str) -> bytes:
    """Return the fields 1 to 4 of a chunk's description, which most chunks of a column share."""
    fields = {
        1: int32(leaf.kind),
        2: list_of(INT32, [signed(ENCODINGS[name]) for name in encodings]),
        3: (LIST, leaf.path),
        4: int32(CODECS[codec]),
    }
    return struct_of(fields)[:-1]
