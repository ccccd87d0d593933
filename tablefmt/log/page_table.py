"""Page headers of many column chunks, as arrays of numbers.

The pages of a chunk are a chain: a header tells where the next page begins. So Python takes one
step for each page. A step matches the usual form of a header, and decodes only the number that
leads to the next page. numpy decodes the other numbers of all pages at once. Spec: STO-25.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tablefmt.log.bounded_parquet import (
    CHECKSUM_BITS,
    EXCESS_BYTES,
    Page,
    pages_between,
    pages_in,
)
from tablefmt.log.parquet_footer import USUAL_DATA_PAGE, USUAL_DICTIONARY_PAGE, whole_number

_Numbers = NDArray[np.int64]

_WIDTH = 256
"""Bytes of a header that are read at first."""


class PageTable(NamedTuple):
    """Pages of column chunks, in the order of the chunks. Each property is an array."""

    firsts: _Numbers
    """Index of the first page of each chunk, and the number of pages at the end."""
    start: _Numbers
    """Byte offset of the header."""
    header: _Numbers
    """Bytes of the header."""
    packed: _Numbers
    """Stored bytes after the header."""
    unpacked: _Numbers
    """Their bytes after decompression."""
    values: _Numbers
    """Number of values, NULLs included."""
    is_dictionary: NDArray[np.bool_]
    checksum: _Numbers
    """CRC-32 of the stored bytes; -1: the header has none."""

    def sums(self, numbers: _Numbers) -> _Numbers:
        """Return the sum over the pages of each chunk."""
        until = np.concatenate([[0], np.cumsum(numbers)])
        sums: _Numbers = np.diff(until[self.firsts])
        return sums


def pages_of_bodies(bodies: Iterable[bytes | memoryview]) -> PageTable:
    """Return the pages of whole column chunks. Their offsets count from the start of the chunk.

    Raises:
        ValueError: a header is invalid.
    """
    pages = _Pages()
    for body in bodies:
        pages.add(0, len(body), body, None, partial(pages_in, body))
    return pages.table()


def pages_of_files(chunks: Iterable[tuple[Any, int, int]]) -> PageTable:
    """Return the pages of column chunks of files. Only their headers are read.

    Args:
        chunks: a file, which can seek, the byte offset of the first page, and the offset after the
            last page, of each chunk.

    Raises:
        ValueError: a header is invalid.
    """
    pages = _Pages()
    for source, start, stop in chunks:
        native = isinstance(source, pa.NativeFile)
        read = source.read_at if native else partial(read_at, source)
        pages.add(start, stop, b"", read, partial(pages_between, source, stop=stop))
    return pages.table()


def read_at(source: Any, length: int, start: int) -> bytes:
    """Return bytes of a file from an offset on; fewer at its end."""
    if isinstance(source, pa.NativeFile):
        found: bytes = source.read_at(length, start)
    else:
        source.seek(start)
        found = source.read(length)
    return found


class _Pages:
    """Collects the pages of chunks."""

    def __init__(self) -> None:
        self._firsts = [0]
        self._starts: list[int] = []
        self._headers: list[int] = []
        self._packed: list[int] = []
        self._digits: list[bytes | None] = []
        """For each page, the bytes of the unpacked bytes, the checksum and the values."""
        self._dictionaries: list[int] = []
        """Indexes of the pages that are dictionaries."""
        self._unusual: list[tuple[int, Page]] = []
        """Pages whose headers have another form, by their indexes."""

    def add(
        self,
        at: int,
        stop: int,
        body: bytes | memoryview,
        read: Callable[[int, int], bytes] | None,
        rest: Callable[[int], Iterator[Page]],
    ) -> None:
        """Add the pages of a chunk.

        Args:
            at: byte offset of the first page.
            stop: byte offset after the last page.
            body: the chunk, unless it must be read.
            read: returns a number of bytes from an offset on.
            rest: yields pages from an offset on.

        Raises:
            ValueError: a header is invalid.
        """
        data, dictionary = USUAL_DATA_PAGE.match, USUAL_DICTIONARY_PAGE.match
        starts, headers, packed, digits = self._starts, self._headers, self._packed, self._digits
        # Bytes before those in memory.
        before = 0
        while at < stop:
            if read is not None:
                body, before = read(min(_WIDTH, stop - at), at), at
            found = data(body, at - before)
            if found is None:
                found = dictionary(body, at - before)
                if found is not None:
                    self._dictionaries.append(len(starts))
            if found is None:
                at = self._add(next(rest(at)))
                continue
            unpacked, count, checksum, values = found.groups()
            length, header = whole_number(count), found.end() + before - at
            starts.append(at)
            headers.append(header)
            packed.append(length)
            digits += (unpacked, checksum, values)
            at += header + length
            if length < 0 or at > stop:
                raise ValueError("a page exceeds its column chunk")
        self._firsts.append(len(starts))

    def _add(self, page: Page) -> int:
        """Add a page whose header has another form; return the start of the next one."""
        if page.is_dictionary:
            self._dictionaries.append(len(self._starts))
        self._unusual.append((len(self._starts), page))
        self._starts.append(page.start)
        self._headers.append(page.header)
        self._packed.append(page.packed)
        self._digits += (b"\0", None, b"\0")
        return page.start + page.header + page.packed

    def table(self) -> PageTable:
        """Return all pages. Raises ValueError: a header is invalid."""
        try:
            unpacked, checksum, values = _whole_numbers(self._digits).reshape(-1, 3).T
            has_checksum = np.fromiter((d is not None for d in self._digits[1::3]), bool)
            checksum = np.where(has_checksum, checksum & CHECKSUM_BITS, -1)
            values = np.maximum(values, 0)
            for at, page in self._unusual:
                unpacked[at], values[at] = page.unpacked, page.values
                checksum[at] = -1 if page.checksum is None else page.checksum
        except OverflowError:
            raise ValueError("a page header has a number of more than 64 bits") from None
        packed = np.array(self._packed, np.int64)
        # Compression never makes a small page much larger.
        if (unpacked < 0).any() or (packed > unpacked + (unpacked >> 4) + EXCESS_BYTES).any():
            raise ValueError("a page records an impossible length")
        is_dictionary = np.zeros(len(packed), bool)
        is_dictionary[self._dictionaries] = True
        return PageTable(
            np.array(self._firsts, np.int64),
            np.array(self._starts, np.int64),
            np.array(self._headers, np.int64),
            packed,
            unpacked,
            values,
            is_dictionary,
            checksum,
        )


_LONGEST = 5
"""Bytes of a number that numpy decodes."""


def _whole_numbers(digits: Sequence[bytes | None]) -> _Numbers:
    """Return signed numbers, as a pattern has captured them; 0 for None.

    Raises:
        OverflowError: a number has more than 64 bits.
    """
    parts = [part or b"\0" for part in digits]
    lengths = np.fromiter(map(len, parts), np.int64, len(parts))
    flat = np.frombuffer(b"".join([*parts, b"\0" * _LONGEST]), np.uint8)
    ends = np.cumsum(lengths)
    places = np.arange(_LONGEST)
    spread = flat[(ends - lengths)[:, None] + places].astype(np.int64) & 0x7F
    spread[places >= lengths[:, None]] = 0
    numbers: _Numbers = (spread << (7 * places)).sum(axis=1)
    numbers = (numbers >> 1) ^ -(numbers & 1)
    for at in np.flatnonzero(lengths > _LONGEST).tolist():
        numbers[at] = whole_number(parts[at])
    return numbers
