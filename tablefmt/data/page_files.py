"""Parquet files in memory, made of stored pages as they are, with a footer written here.

A reader decodes such a file as any other. Spec: DAT-4, DAT-5.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

import pyarrow.parquet as pq

from tablefmt.log.bounded_parquet import Page
from tablefmt.log.parquet_footer import BINARY, INT32, INT64, LIST, STRUCT, Leaf

_CODECS = {"UNCOMPRESSED": 0, "SNAPPY": 1, "GZIP": 2, "BROTLI": 4, "ZSTD": 6}
"""Numbers of the codecs that have one name in Arrow and one number in Parquet."""

_ENCODINGS = {
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
    known = _ENCODINGS.keys() >= {*described.encodings}
    return bool(described.compression in _CODECS and known)


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
        total = {1: _list(STRUCT, columns), 2: _long(at - first), 3: _long(rows)}
        described.append(_struct(total))
    chunks = groups[0][1]
    root = _struct({4: (BINARY, b"\x01r"), 5: _int(len(chunks))})
    footer = _struct(
        {
            1: _int(2),
            2: _list(STRUCT, [root, *(chunk.leaf.element for chunk in chunks)]),
            3: _long(sum(rows for rows, _ in groups)),
            4: _list(STRUCT, described),
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
        bytes((step << 4 | INT64,)) + _zigzag(number)
        for step, number in zip((1, 1, 1, 2, 2), numbers, strict=False)
    )
    return _struct({2: _long(at), 3: (STRUCT, form + fields + b"\0")})


@lru_cache(1 << 10)
def _form(leaf: Leaf, encodings: tuple[str, ...], codec: str) -> bytes:
    """Return the fields 1 to 4 of a chunk's description, which most chunks of a column share."""
    fields = {
        1: _int(leaf.kind),
        2: _list(INT32, [_zigzag(_ENCODINGS[name]) for name in encodings]),
        3: (LIST, leaf.path),
        4: _int(_CODECS[codec]),
    }
    return _struct(fields)[:-1]


_Encoded = tuple[int, bytes]
"""A value in Thrift's compact protocol, after its kind."""


def _varint(value: int) -> bytes:
    if value < 0x80:
        return bytes((value,))
    body = bytearray()
    while value > 0x7F:
        body.append(value & 0x7F | 0x80)
        value >>= 7
    body.append(value)
    return bytes(body)


def _zigzag(value: int) -> bytes:
    return _varint(value << 1)


def _int(value: int) -> _Encoded:
    return INT32, _zigzag(value)


def _long(value: int) -> _Encoded:
    return INT64, _zigzag(value)


def _list(kind: int, elements: Sequence[bytes]) -> _Encoded:
    count = len(elements)
    head = bytes([count << 4 | kind]) if count < 15 else bytes([0xF0 | kind]) + _varint(count)
    return LIST, head + b"".join(elements)


def _struct(fields: Mapping[int, _Encoded]) -> bytes:
    """Return a struct of fields, whose numbers ascend by less than 16."""
    body, last = bytearray(), 0
    for number, (kind, encoded) in fields.items():
        body.append((number - last) << 4 | kind)
        body += encoded
        last = number
    return bytes(body) + b"\0"
