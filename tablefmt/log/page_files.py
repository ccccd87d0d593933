"""Parquet files in memory, made of stored pages as they are, with a footer written here.

A reader decodes such a file as any other. Spec: DAT-4, DAT-5.
"""

from __future__ import annotations

import io
import itertools
import zlib
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray

from tablefmt.log.page_table import PageTable, pages_of_bodies
from tablefmt.log.parquet_footer import BINARY, INT32, LIST, STRUCT, Leaf, binary
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


def known_form(leaf: Leaf, described: pq.ColumnChunkMetaData) -> bytes | None:
    """Return how a footer written here states the type, the encodings, the path and the codec of a
    column chunk; None: it cannot.
    """
    encodings, codec = described.encodings, described.compression
    if codec not in CODECS or not ENCODINGS.keys() >= {*encodings}:
        return None
    return _form(leaf, encodings, codec)


def flat_columns(leaves: Sequence[Leaf]) -> dict[str, int]:
    """Return the top-level columns without nesting by name, each with its index."""
    return {
        leaf.path[slice(*binary(leaf.path, 1))].decode(): at
        for at, leaf in enumerate(leaves)
        if leaf.path[0] >> 4 == 1 and leaf.levels[0] == 0
    }


class StoredChunk(NamedTuple):
    """Pages of a column chunk, and their bytes."""

    leaf: Leaf
    form: bytes
    """The result of `known_form`."""
    dictionary: int
    """Bytes of the dictionary, which comes first, with its header; 0: there is none."""
    unpacked: int
    """Bytes of the pages after decompression, with their headers."""
    parts: Sequence[bytes | memoryview]
    """The bytes of the pages with their headers, in any pieces."""


class ChunkBody(NamedTuple):
    """All bytes of a column chunk."""

    leaf: Leaf
    form: bytes
    """The result of `known_form`."""
    rows: int
    """Rows of its row group."""
    body: bytes | memoryview


def checked_chunks(bodies: Sequence[ChunkBody]) -> list[StoredChunk]:
    """Return column chunks without nesting after a check of their pages' checksums.

    Raises:
        ValueError: a checksum is wrong, or a chunk has an unusual form.
    """
    pages = pages_of_bodies([chunk.body for chunk in bodies])
    dictionaries = _dictionary_bytes(pages)
    rows = np.array([chunk.rows for chunk in bodies], np.int64)
    if not np.array_equal(pages.sums(np.where(pages.is_dictionary, 0, pages.values)), rows):
        raise ValueError("a column chunk has a different number of rows than its row group")
    _check_checksums([chunk.body for chunk in bodies], pages)
    unpacked = pages.sums(pages.header + pages.unpacked)
    return [
        StoredChunk(chunk.leaf, chunk.form, dictionary, length, [chunk.body])
        for chunk, dictionary, length in zip(
            bodies, dictionaries.tolist(), unpacked.tolist(), strict=True
        )
    ]


def _dictionary_bytes(pages: PageTable) -> NDArray[np.int64]:
    """Return the bytes of each chunk's dictionary with its header; 0: there is none.

    Raises:
        ValueError: a dictionary is not the first page of its chunk.
    """
    places = np.flatnonzero(pages.is_dictionary)
    chunks = np.searchsorted(pages.firsts, places, side="right") - 1
    if not np.array_equal(pages.firsts[chunks], places):
        raise ValueError("a column chunk has a second dictionary")
    found = np.zeros(len(pages.firsts) - 1, np.int64)
    found[chunks] = (pages.header + pages.packed)[places]
    return found


def _check_checksums(bodies: Sequence[bytes | memoryview], pages: PageTable) -> None:
    """Check the pages of whole column chunks. Raises ValueError: a checksum is wrong."""
    firsts: list[int] = pages.firsts.tolist()
    begins = pages.start + pages.header
    spans = list(
        zip(
            begins.tolist(),
            (begins + pages.packed).tolist(),
            pages.checksum.tolist(),
            strict=True,
        )
    )
    for at, body in enumerate(bodies):
        view = memoryview(body)
        for first, stop, checksum in spans[firsts[at] : firsts[at + 1]]:
            if checksum >= 0 and checksum != zlib.crc32(view[first:stop]):
                raise ValueError("a page does not match its checksum")


def page_file(groups: Sequence[tuple[int, Sequence[StoredChunk]]]) -> bytes:
    """Return a file of row groups: the number of rows, and a chunk of every column, of each."""
    parts = [part for _, chunks in groups for chunk in chunks for part in chunk.parts]
    return b"".join([_MAGIC, *parts, _end(groups)])


def _end(groups: Sequence[tuple[int, Sequence[StoredChunk]]]) -> bytes:
    """Return the footer of a file whose chunks follow the first bytes in order, and its trailer."""
    at, described = len(_MAGIC), []
    for rows, chunks in groups:
        first, columns = at, []
        for chunk in chunks:
            columns.append(_column(chunk, rows, at))
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
    return footer + len(footer).to_bytes(4, "little") + _MAGIC


_COLUMN_BYTES = 128
"""Most bytes that a footer written here has for a column chunk, besides its form."""


class FileMemory:
    """Memory in which files of whole column chunks are made in place, one after another.

    Fresh memory costs as much as the copy into it. So a file without references gives its memory
    to the next file. If a reference is left, the next file has memory of its own.
    """

    def __init__(self) -> None:
        self._held = io.BytesIO()

    def take(self, lengths: Sequence[int], leaves: Sequence[Leaf]) -> list[memoryview]:
        """Return memory for chunks of these lengths. It must be released before `file`.

        Args:
            lengths: bytes of each chunk.
            leaves: the columns of the file.
        """
        columns = sum(_COLUMN_BYTES + len(leaf.element) + len(leaf.path) for leaf in leaves)
        # The footer has its schema once, and each column for each row group.
        length = sum(lengths) + (len(lengths) // len(leaves) + 1) * (columns + _COLUMN_BYTES)
        if self._held.getbuffer().nbytes < length:
            self._held = io.BytesIO(bytes(length + length // 8))
        stops = list(itertools.accumulate(lengths, initial=len(_MAGIC)))
        memory = self._held.getbuffer()
        memory[: len(_MAGIC)] = _MAGIC
        return [memory[start:stop] for start, stop in itertools.pairwise(stops)]

    def file(self, groups: Sequence[tuple[int, Sequence[StoredChunk]]]) -> bytes:
        """Return the file of row groups whose chunks fill the memory taken last, in order.

        Raises:
            ValueError: a chunk has so many encodings that the footer would replace pages.
        """
        end = _end(groups)
        stop = len(_MAGIC) + sum(len(part) for _, each in groups for c in each for part in c.parts)
        for _, chunks in groups:
            for chunk in chunks:
                for part in chunk.parts:
                    assert isinstance(part, memoryview)
                    part.release()
        # What is between the chunks and the footer has no meaning.
        with self._held.getbuffer() as memory:
            if stop + len(end) > len(memory):
                raise ValueError("the footer is too long")
            memory[-len(end) :] = end
        return self._held.getvalue()


def _column(chunk: StoredChunk, rows: int, at: int) -> bytes:
    """Return the footer's description of a chunk whose bytes begin at `at`."""
    packed = signed(sum(map(len, chunk.parts)))
    # Field 2, field 3 as a struct, and of it fields 5, 6, 7, 9 and 11. Each header has the
    # distance from the field before.
    return b"\x26%b\x1c%b\x16%b\x16%b\x16%b\x26%b%b\0\0" % (
        signed(at),
        chunk.form,
        signed(rows),
        signed(chunk.unpacked),
        packed,
        signed(at + chunk.dictionary),
        b"\x26" + signed(at) if chunk.dictionary else b"",
    )


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
