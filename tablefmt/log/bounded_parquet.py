"""Reader of untrusted Parquet with memory bounds that are known before any byte is decoded.

A few bytes of Parquet may expand to any number of bytes in memory. A list in a footer records its
own length. A page records its unpacked length. A dictionary can repeat one value on every line. So
footers are parsed with limits that depend on their length. Page headers are read first, and columns
of bytes are read in batches. Spec: STO-25.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from tablefmt.log.parquet_footer import (
    INT32,
    USUAL_DATA_PAGE,
    USUAL_DICTIONARY_PAGE,
    Leaf,
    Outline,
    check_footer,
    fields,
    leaves_of,
    whole_number,
    zigzag,
)

FOOTER_BYTES_MAX = 256 << 20
"""Maximum footer of a data file or part: the size for 10,000 columns in 200 row groups."""

EXPANSION_MAX = 1024
"""Maximum bytes in memory per stored byte, beyond EXPANDED_FREE. Columns of one value compress
best: 100 of them with 100,000 lines shrink by 300.
"""

EXPANDED_FREE = 128 << 20
"""Bytes in memory that any object may take."""

BATCH_BYTES = 128 << 20
"""Maximum bytes of one batch of lines, by the worst case of its pages."""

_LINES = 1 << 16
"""Maximum lines of a batch."""

_ELEMENT_BYTES = 8
"""Minimum footer bytes of a list element: the name, type and repetition of a column."""

_ELEMENTS_FREE = 64
THRIFT_LIMITS = {
    "thrift_string_size_limit": 64 << 20,
    "thrift_container_size_limit": 1 << 17,
}
"""Limits for Arrow's footer parser: bytes of a text, elements of a list. Arrow allocates a list
before it reads it. A list of five bytes can claim any number of columns, at over 1,000 bytes each.
"""

_END_BYTES = 1 << 16
"""Bytes of a file's end that are read first, in the hope that the whole footer is among them."""

_HEADER_BYTES = (1 << 10, 1 << 16)
"""Lengths to try for a page header, in order. It may contain minima and maxima."""

_WIDTHS = {"BOOLEAN": 1, "INT32": 4, "INT64": 8, "FLOAT": 4, "DOUBLE": 8, "BYTE_ARRAY": 4}
"""Bytes of a value in memory, without the bytes of a text itself."""


def footer_of(end: bytes | memoryview) -> pq.FileMetaData:
    """Return the Parquet footer in the last bytes of a file.

    Raises:
        pyarrow.ArrowException, OSError, ValueError: there is none, or one that is too long.
    """
    _footer_length(end)
    check_end(end)
    return checked_footer(end)


def checked_footer(end: bytes | memoryview) -> pq.FileMetaData:
    """Return the Parquet footer in bytes that passed `check_end`. Raises as `footer_of`."""
    length = _footer_length(end)
    # The limits are those of the footer alone, however many bytes before it are in memory.
    with pq.ParquetFile(
        pa.BufferReader(memoryview(end)[-length:]), pre_buffer=False, **_limits(length)
    ) as file:
        return file.metadata


def _footer_length(end: bytes | memoryview) -> int:
    """Return the number of bytes from the start of the footer. Raises ValueError: too many."""
    view = memoryview(end)
    has_footer = bytes(view[-4:]) == b"PAR1"
    length = int.from_bytes(view[-8:-4], "little") + 8 if has_footer else len(view)
    if has_footer and length > FOOTER_BYTES_MAX:
        raise ValueError(f"its footer is longer than {FOOTER_BYTES_MAX} bytes")
    return length


def columns_of(source: Any) -> tuple[Leaf, ...]:
    """Return the columns of a Parquet file whose footer passed STO-26, in the order of its chunks.

    Args:
        source: the file, which can seek.
    """
    size = source.seek(0, 2)
    length = int.from_bytes(_last_bytes(source, size, 8)[:4], "little") + 8
    return leaves_of(_last_bytes(source, size, length)[:-8])


def open_checked(source: Any) -> pq.ParquetFile:
    """Open a Parquet file whose footer passes STO-25 and STO-26. Pages are verified when decoded.

    Args:
        source: the file, which can seek. The footer takes one read if it is at most 64 KiB.

    Raises:
        pyarrow.ArrowException, OSError, ValueError: there is no footer, or it is damaged.
    """
    size = source.seek(0, 2)
    end = _last_bytes(source, size, _END_BYTES)
    length = int.from_bytes(end[-8:-4], "little") + 8
    if len(end) < length <= min(size, FOOTER_BYTES_MAX):
        end = _last_bytes(source, size, length)
    return opened_with(source, footer_of(end))


def opened_with(source: Any, footer: pq.FileMetaData) -> pq.ParquetFile:
    """Open a Parquet file whose footer is known and checked. Raises as `open_checked`."""
    # With pre_buffer, Arrow would fetch the whole file before the first rows.
    return pq.ParquetFile(
        source,
        metadata=footer,
        pre_buffer=False,
        coerce_int96_timestamp_unit="us",
        page_checksum_verification=True,
    )


def _last_bytes(source: Any, size: int, count: int) -> bytes:
    source.seek(max(0, size - count))
    last: bytes = source.read(count)
    return last


def check_end(end: bytes | memoryview) -> Outline | None:
    """Check that Arrow's objects can be asked about the footer at the end of these bytes (STO-26).

    Bytes that end in no footer pass: Arrow says so when it opens them.

    Returns:
        The parts of the footer; None: there is no footer.

    Raises:
        ValueError: the footer is damaged.
    """
    view = memoryview(end)
    length = int.from_bytes(view[-8:-4], "little")
    if bytes(view[-4:]) == b"PAR1" and length + 8 <= len(view):
        return check_footer(bytes(view[-8 - length : -8]))
    return None


def _limits(length: int) -> dict[str, int]:
    """Return THRIFT_LIMITS for a footer of that length, which cannot hold more than its own
    bytes.
    """
    least = (max(1, length), length // _ELEMENT_BYTES + _ELEMENTS_FREE)
    limits = zip(THRIFT_LIMITS.items(), least, strict=True)
    return {name: min(most, known) for (name, most), known in limits}


def rows_are(footer: pq.FileMetaData, lines: int) -> bool:
    """Return True if a footer, and its row groups together, record this number of lines."""
    counts = [footer.row_group(at).num_rows for at in range(footer.num_row_groups)]
    return footer.num_rows == lines == sum(counts) and min(counts, default=0) >= 0


def read_bounded(
    source: Any,
    footer: pq.FileMetaData,
    names: Sequence[str],
    groups: Sequence[int] | None = None,
) -> pa.Table:
    """Return columns of some row groups, one chunk each.

    Args:
        source: the object, as a file that can seek.
        footer: its footer.
        names: names of flat columns, as in the footer.
        groups: the row groups, ascending; None: all.

    Raises:
        ValueError: it needs more memory than STO-25 allows, or records impossible lengths.
        pyarrow.ArrowException, OSError: it is damaged.
    """
    if len(set(names)) < len(names):
        raise ValueError("it has two columns of one name")
    chosen = list(range(footer.num_row_groups)) if groups is None else list(groups)
    pages = _Pages(source, footer, frozenset(names), chosen)
    source.seek(0)
    with pq.ParquetFile(
        source, metadata=footer, page_checksum_verification=True, pre_buffer=False
    ) as file:
        plain = [name for name in names if name not in pages.texts]
        columns = file.read_row_groups(chosen, columns=plain).combine_chunks()
        if not pages.texts:
            return columns
        held, found = columns.nbytes, dict(zip(plain, columns.columns, strict=True))
        for name in pages.texts:
            chunks = []
            # Read one column at a time, because the worst case of a batch is known per column.
            lines = max(1, min(_LINES, BATCH_BYTES // max(1, pages.texts[name])))
            one = file.iter_batches(lines, row_groups=chosen, columns=[name], use_threads=False)
            for batch in one:
                held += batch.nbytes
                if held > pages.most:
                    raise ValueError(_too_much(held, pages.stored))
                chunks.append(batch.column(0))
            if not chunks:
                return file.read_row_groups(chosen, columns=list(names)).combine_chunks()
            found[name] = pa.chunked_array(chunks)
    return pa.table({name: found[name] for name in names}).combine_chunks()


def check_pages(source: Any, footer: pq.FileMetaData, names: Sequence[str]) -> list[str]:
    """Check the lengths of the pages of columns that may be nested.

    Args:
        source: the object, as a file that can seek.
        footer: its footer.
        names: top-level columns.

    Returns:
        Paths of the columns of texts, which Arrow can read as dictionaries.

    Raises:
        ValueError: STO-25.
    """
    columns = [(at, footer.schema.column(at)) for at in range(len(footer.schema))]
    columns = [(at, column) for at, column in columns if _is_of(column.path, frozenset(names))]
    texts = {c.path for _, c in columns if c.physical_type == "BYTE_ARRAY"}
    stored = expanded = 0
    for group in map(footer.row_group, range(footer.num_row_groups)):
        for at, column in columns:
            chunk = group.column(at)
            sizes = list(_pages(source, chunk))
            stored += chunk.total_compressed_size
            width = _WIDTHS.get(column.physical_type, column.length)
            lines = max(group.num_rows, sum(values for _, values in sizes))
            if any(name.startswith("DELTA") for name in chunk.encodings):
                # Arrow reads no dictionary from it. A value is no longer than its page.
                texts.discard(column.path)
                width = max(width, max((size for size, _ in sizes), default=0))
            expanded += max(sum(size for size, _ in sizes), lines * width)
            if expanded > most_expanded(stored):
                raise ValueError(_too_much(expanded, stored))
    return sorted(texts)


def most_expanded(stored: int) -> int:
    """Return the maximum bytes of memory for this number of stored bytes (STO-25)."""
    return EXPANDED_FREE + EXPANSION_MAX * stored


def _too_much(expanded: int, stored: int) -> str:
    return f"its {stored} bytes would take {expanded} bytes of memory or more"


class _Pages:
    """Sizes of the pages of some columns, from their headers."""

    def __init__(
        self, source: Any, footer: pq.FileMetaData, names: frozenset[str], groups: Sequence[int]
    ) -> None:
        """Read the headers.

        Raises:
            ValueError: STO-25.
        """
        self.stored = 0
        """Bytes of the column chunks."""
        self.texts: dict[str, int] = {}
        """Columns of texts or bytes, with the unpacked bytes of their largest page. No value is
        longer.
        """
        kinds = {field.name: field.type for field in footer.schema.to_arrow_schema()}
        if any(pa.types.is_dictionary(kinds.get(name)) for name in names & kinds.keys()):
            raise ValueError("it has a column of dictionary type, which can repeat texts")
        columns = [(at, footer.schema.column(at)) for at in range(len(footer.schema))]
        columns = [(at, column) for at, column in columns if _is_of(column.path, names)]
        if any(c.max_repetition_level or c.path not in names for _, c in columns):
            raise ValueError("it has a column of lists or of structs")
        expanded = 0
        for group in map(footer.row_group, groups):
            for at, column in columns:
                chunk = group.column(at)
                unpacked, largest = _chunk(source, chunk)
                self.stored += chunk.total_compressed_size
                if column.physical_type == "BYTE_ARRAY":
                    self.texts[column.path] = max(self.texts.get(column.path, 0), largest)
                width = _WIDTHS.get(column.physical_type, column.length)
                # Dictionaries and runs are short, but their decoded values are not.
                expanded += max(unpacked, group.num_rows * width)
                if expanded > most_expanded(self.stored):
                    raise ValueError(_too_much(expanded, self.stored))
        self.most = most_expanded(self.stored)


def _is_of(path: str, names: frozenset[str]) -> bool:
    """Return True if a leaf is one of these columns, or inside one. Names may contain dots."""
    return path in names or any(path[:at] in names for at, c in enumerate(path) if c == ".")


def _chunk(source: Any, column: Any) -> tuple[int, int]:
    """Return the unpacked bytes of a column chunk's pages: of all, and of the largest."""
    sizes = [size for size, _ in _pages(source, column)]
    return sum(sizes), max(sizes, default=0)


def _pages(source: Any, column: Any) -> Iterator[tuple[int, int]]:
    """Yield the unpacked length of each page of a column chunk, and its number of values."""
    for page in pages_between(source, *chunk_extent(column)):
        yield page.unpacked, page.values


def chunk_extent(column: pq.ColumnChunkMetaData) -> tuple[int, int]:
    """Return the first byte of a column chunk, and the byte after it. Raises ValueError."""
    start = column.data_page_offset
    if column.has_dictionary_page and 0 < column.dictionary_page_offset < start:
        start = column.dictionary_page_offset
    length = column.total_compressed_size
    if start < 4 or length < 0:
        raise ValueError("a column chunk lies outside the file")
    return start, start + length


class Page(NamedTuple):
    """A page of a column chunk, by its header."""

    start: int
    """Byte offset of the header."""
    header: int
    """Bytes of the header."""
    packed: int
    """Stored bytes after the header."""
    unpacked: int
    """Their bytes after decompression."""
    values: int
    """Number of values, NULLs included."""
    is_dictionary: bool
    checksum: int | None = None
    """CRC-32 of the stored bytes; None: the header has none."""


def pages_between(source: Any, start: int, stop: int) -> Iterator[Page]:
    """Yield the pages of a column chunk. Only their headers are read.

    Args:
        source: the file, which can seek.
        start: byte offset of the chunk's first page.
        stop: byte offset after its last page.

    Raises:
        ValueError: a header is invalid.
    """
    while start < stop:
        page = _page(start, stop, _header_at(source, start, stop))
        yield page
        start += page.header + page.packed


def pages_in(body: bytes | memoryview, start: int = 0) -> Iterator[Page]:
    """Yield the pages of a column chunk from a byte offset on, to its end.

    Raises:
        ValueError: a header is invalid.
    """
    stop = len(body)
    while start < stop:
        header = _usual_header(body, start)
        if header is None:
            header = _header_at(io.BytesIO(body), start, stop)
        page = _page(start, stop, header)
        yield page
        start += page.header + page.packed


def _page(start: int, stop: int, header: _Header) -> Page:
    """Return the page whose header is at a byte offset of a chunk that ends at `stop`."""
    unpacked, packed, values, used, kind, checksum = header
    # Compression never makes a small page much larger.
    if not 0 <= packed <= unpacked + unpacked // 16 + EXCESS_BYTES:
        raise ValueError("a page records an impossible length")
    if start + used + packed > stop:
        raise ValueError("a page exceeds its column chunk")
    return Page(start, used, packed, unpacked, values, kind == _DICTIONARY, checksum)


_Header = tuple[int, int, int, int, int, "int | None"]
"""The unpacked bytes, stored bytes, values, header bytes, type and checksum of a page."""


def _header_at(source: Any, start: int, stop: int) -> _Header:
    """Return `_page_header` of the page at a byte offset."""
    for length in _HEADER_BYTES:
        source.seek(start)
        head = source.read(min(length, stop - start))
        try:
            return _page_header(head)
        except IndexError:
            if len(head) < length:
                break
    raise ValueError("a page header is truncated or too long")


EXCESS_BYTES = 1024
"""Bytes by which a page may exceed its unpacked bytes and a sixteenth of them."""

CHECKSUM_BITS = 0xFFFFFFFF
"""Bits of a checksum, which a header has as a signed number."""

_DICTIONARY = 2
"""Type of a page with a dictionary."""

_VALUES_IN = (5, 7, 8)
"""Fields of a page header that record the number of values: of a data page, a dictionary, and a
data page of version 2.
"""


def _usual_header(data: bytes | memoryview, at: int) -> _Header | None:
    """Return the header at a byte offset; None: it has no usual form."""
    kind, usual = 0, USUAL_DATA_PAGE.match(data, at)
    if usual is None:
        kind, usual = _DICTIONARY, USUAL_DICTIONARY_PAGE.match(data, at)
        if usual is None:
            return None
    unpacked, packed, crc, values = usual.groups()
    size = whole_number(unpacked)
    if size < 0:
        return None
    checksum = None if crc is None else whole_number(crc) & CHECKSUM_BITS
    count = max(whole_number(values), 0)
    return size, whole_number(packed), count, usual.end() - at, kind, checksum


def _page_header(head: bytes) -> _Header:
    """Return the header at the start of some bytes: a struct in Thrift's compact protocol.

    Raises:
        IndexError: it does not end within `head`. ValueError: it is invalid.
    """
    usual = _usual_header(head, 0)
    if usual is not None:
        return usual
    found, end = fields(head, 0)
    sizes = [zigzag(head, found[name][1])[0] for name in (2, 3) if name in found]
    if len(sizes) < 2 or sizes[0] < 0 or any(found[name][0] != INT32 for name in (2, 3)):
        raise ValueError("a page does not record its length")
    values = 0
    for at in (found[name][1] for name in _VALUES_IN if name in found):
        inner, _ = fields(head, at)
        if 1 not in inner or inner[1][0] != INT32:
            raise ValueError("a page does not record its number of values")
        values = max(values, zigzag(head, inner[1][1])[0])
    kind = zigzag(head, found[1][1])[0] if 1 in found else -1
    checksum = None
    if 4 in found and found[4][0] == INT32:
        checksum = zigzag(head, found[4][1])[0] & CHECKSUM_BITS
    return sizes[0], sizes[1], values, end, kind, checksum
