"""Parquet that nobody vouches for, read within bounds that are known before a byte is decoded.

A few bytes of Parquet may be any number of bytes in memory: a list in a footer says its own length,
a page says how long it is once it is unpacked, a dictionary repeats one value on every line. So
footers are parsed with limits by their length, the headers of pages are read first, and columns of
bytes come in batches. Spec: STO-25.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

FOOTER_BYTES_MAX = 256 << 20
"""Of a data file or a part. 10,000 columns in 200 row groups take as many."""

EXPANSION_MAX = 1024
"""Bytes in memory for each that is stored, at most, beyond EXPANDED_FREE. Columns of one value
take least: 100 of them on 100,000 lines shrink by 300."""

EXPANDED_FREE = 128 << 20
"""Bytes in memory that any object may take."""

BATCH_BYTES = 128 << 20
"""Bytes that one batch of lines takes, at most: what its pages could give at worst."""

_LINES = 1 << 16
"""Of a batch, at most."""

_ELEMENT_BYTES = 8
"""Bytes of a footer that one element of a list takes, at least: the name, type and repetition of a
column."""

_ELEMENTS_FREE = 64
THRIFT_LIMITS = {
    "thrift_string_size_limit": 64 << 20,
    "thrift_container_size_limit": 1 << 17,
}
"""For whatever of Arrow's parses footers: bytes of a text, elements of a list. Arrow allocates a
list before it reads one, over 1,000 bytes for each column that a list of five bytes promises."""

_HEADER_BYTES = (1 << 10, 1 << 16)
"""Of a page, tried one after another: minima and maxima may be in it."""

_BOOLEANS, _BYTE, _VARINTS, _DOUBLE, _BINARY, _STRUCT = (1, 2), 3, (4, 5, 6), 7, 8, 12
"""Kinds of values in Thrift's compact protocol."""

_DEPTH = 8
"""Levels of structs in the header of a page: there are two."""

_WIDTHS = {"BOOLEAN": 1, "INT32": 4, "INT64": 8, "FLOAT": 4, "DOUBLE": 8, "BYTE_ARRAY": 4}
"""Bytes of a value in memory, without those of a text itself."""


def footer_of(end: bytes | memoryview) -> pq.FileMetaData:
    """Return the Parquet footer in the last bytes of a file.

    Raises:
        pyarrow.ArrowException, OSError, ValueError: there is none, or one that is too long.
    """
    if len(end) > FOOTER_BYTES_MAX:
        raise ValueError(f"its footer is longer than {FOOTER_BYTES_MAX} bytes")
    with pq.ParquetFile(pa.BufferReader(end), pre_buffer=False, **_limits(len(end))) as file:
        return file.metadata


def _limits(length: int) -> dict[str, int]:
    """Return THRIFT_LIMITS for a footer of that length, which holds no more than itself."""
    least = (max(1, length), length // _ELEMENT_BYTES + _ELEMENTS_FREE)
    limits = zip(THRIFT_LIMITS.items(), least, strict=True)
    return {name: min(most, known) for (name, most), known in limits}


def rows_are(footer: pq.FileMetaData, lines: int) -> bool:
    """Return whether a footer, and its row groups together, say so many lines."""
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
        footer: of it.
        names: of flat columns, as the footer has them.
        groups: the row groups, ascending; None: all.

    Raises:
        ValueError: it would take more memory than STO-25 allows, or says what cannot be.
        pyarrow.ArrowException, OSError: it is damaged.
    """
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
            # One column at a time: what a batch takes at worst is known of each.
            lines = max(1, min(_LINES, BATCH_BYTES // max(1, pages.texts[name])))
            for batch in file.iter_batches(lines, row_groups=chosen, columns=[name]):
                held += batch.nbytes
                if held > pages.most:
                    raise ValueError(_too_much(held, pages.stored))
                chunks.append(batch.column(0))
            if not chunks:
                return file.read_row_groups(chosen, columns=list(names)).combine_chunks()
            found[name] = pa.chunked_array(chunks)
    return pa.table({name: found[name] for name in names}).combine_chunks()


def most_expanded(stored: int) -> int:
    """Return how many bytes of memory so many stored ones may take (STO-25)."""
    return EXPANDED_FREE + EXPANSION_MAX * stored


def _too_much(expanded: int, stored: int) -> str:
    return f"its {stored} bytes would take {expanded} bytes of memory or more"


class _Pages:
    """What the pages of some columns say of themselves."""

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
        """Columns of texts or bytes, with the bytes of their largest page, unpacked: no value is
        longer."""
        kinds = {field.name: field.type for field in footer.schema.to_arrow_schema()}
        if any(pa.types.is_dictionary(kinds.get(name)) for name in names & kinds.keys()):
            raise ValueError("it has a column of a dictionary's type, which repeats texts")
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
                # A dictionary and runs are short, and what is decoded of them is not.
                expanded += max(unpacked, group.num_rows * width)
                if expanded > most_expanded(self.stored):
                    raise ValueError(_too_much(expanded, self.stored))
        self.most = most_expanded(self.stored)


def _is_of(path: str, names: frozenset[str]) -> bool:
    """Return whether a leaf is a column, or in one, of these names. Names have dots in them."""
    return path in names or any(path[:at] in names for at, c in enumerate(path) if c == ".")


def _chunk(source: Any, column: Any) -> tuple[int, int]:
    """Return the bytes of a column chunk's pages, unpacked: of all, and of the largest."""
    start = column.data_page_offset
    if column.has_dictionary_page and 0 < column.dictionary_page_offset < start:
        start = column.dictionary_page_offset
    length = column.total_compressed_size
    if start < 4 or length < 0:
        raise ValueError("a column chunk lies outside of it")
    sizes = list(_page_sizes(source, start, start + length))
    return sum(sizes), max(sizes, default=0)


def _page_sizes(source: Any, start: int, stop: int) -> Iterator[int]:
    """Return the length of each page from one byte to another, unpacked."""
    while start < stop:
        unpacked, packed, used = _header_at(source, start, stop)
        # Nothing that compresses makes more of little.
        if not 0 <= packed <= unpacked + unpacked // 16 + 1024:
            raise ValueError("a page says a length that it cannot have")
        start += used + packed
        if start > stop:
            raise ValueError("a page goes beyond its column chunk")
        yield unpacked


def _header_at(source: Any, start: int, stop: int) -> tuple[int, int, int]:
    """Return what `_page_header` does of the page at a byte."""
    for length in _HEADER_BYTES:
        source.seek(start)
        head = source.read(min(length, stop - start))
        try:
            return _page_header(head)
        except IndexError:
            if len(head) < length:
                break
    raise ValueError("the header of a page is cut short, or too long")


def _page_header(head: bytes) -> tuple[int, int, int]:
    """Return the bytes of a page unpacked, those of it as it is stored, and those of its header.

    The header is a struct in Thrift's compact protocol.

    Raises:
        IndexError: it does not end within `head`. ValueError: it is none.
    """
    found, at = {}, 0
    number = 0
    while head[at]:
        kind, step = head[at] & 15, head[at] >> 4
        at += 1
        if step:
            number += step
        else:
            number, at = _zigzag(head, at)
        if kind in _VARINTS:
            found[number], at = _zigzag(head, at)
        else:
            at = _after(head, at, kind, _DEPTH)
    sizes = (found.get(2), found.get(3))
    if sizes[0] is None or sizes[1] is None or sizes[0] < 0:
        raise ValueError("a page does not say how long it is")
    return sizes[0], sizes[1], at + 1


def _after(head: bytes, at: int, kind: int, depth: int) -> int:
    """Return where a value ends that begins at a byte."""
    if kind in _BOOLEANS:
        return at
    if kind == _BYTE:
        return at + 1
    if kind in _VARINTS:
        return _varint(head, at)[1]
    if kind == _DOUBLE:
        return at + 8
    if kind == _BINARY:
        length, at = _varint(head, at)
        head[at + length]
        return at + length
    if kind == _STRUCT and depth:
        while head[at]:
            inner, step = head[at] & 15, head[at] >> 4
            at += 1
            if not step:
                at = _varint(head, at)[1]
            at = _after(head, at, inner, depth - 1)
        return at + 1
    raise ValueError(f"the header of a page holds a value of kind {kind}")


def _varint(head: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while head[at] & 0x80:
        value |= (head[at] & 0x7F) << shift
        shift += 7
        at += 1
        if shift > 63:
            raise ValueError("the header of a page holds a number that is too long")
    return value | head[at] << shift, at + 1


def _zigzag(head: bytes, at: int) -> tuple[int, int]:
    value, at = _varint(head, at)
    return (value >> 1) ^ -(value & 1), at
