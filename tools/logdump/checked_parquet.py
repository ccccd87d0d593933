"""Checks of stored Parquet before Arrow reads it, from spec/ alone.

Arrow may end the process at a footer that contradicts itself. A few bytes may expand to any number
of bytes in memory. So `check_footer` comes before any call of Arrow. Spec: STO-25, STO-26.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from logdump.thrift_compact import (
    BINARY,
    I32,
    I64,
    LIST,
    NESTING,
    STRUCT,
    BadThriftError,
    Cursor,
)

FOOTER_BYTES, PAGE_HEADER_BYTES = 256 << 20, 1 << 16
LIST_MOST, LIST_FREE, ELEMENT_BYTES = 1 << 17, 64, 8
"""Maximum elements of a list: in any footer, and in an empty one. More footer allows more elements:
one for each ELEMENT_BYTES.
"""

MEMORY_FREE, MEMORY_FOR_A_BYTE = 128 << 20, 1024
"""Maximum bytes of columns in memory: of all columns, and for each stored byte in addition."""

BATCH_BYTES, BATCH_ROWS = 64 << 20, 1 << 15
"""Maximum size of a batch of texts."""

LEVELS = 256
"""Maximum levels of a schema below its root."""

BYTE_ARRAY, FIXED, WIDTHS = 6, 7, {0: 1, 1: 4, 2: 8, 4: 4, 5: 8}
"""Physical types, and the bytes of their values. No reader uses a bound of INT96 (type 3)."""

REPEATED, CODECS = 2, range(8)
MEMORY_WIDTHS = {"BOOLEAN": 1, "INT32": 4, "INT64": 8, "FLOAT": 4, "DOUBLE": 8, "BYTE_ARRAY": 4}

Column = tuple[int, int, tuple[int, int]]
"""A column of a schema: physical type, minimum bytes of a bound, highest repetition and definition
level.
"""


class BadParquetError(ValueError):
    """Stored bytes are not Parquet, contradict themselves, or would take too much memory."""


def _require(condition: object, message: str) -> None:
    if not condition:
        raise BadParquetError(message)


# --- footers (STO-26) ----------------------------------------------------------------------------


def check_footer(footer: bytes) -> None:
    """Refuse a footer that no reader may give to Arrow.

    `footer` is the struct FileMetaData. Its length and `PAR1` follow it in the file.
    """
    most = min(LIST_MOST, LIST_FREE + (len(footer) + 8) // ELEMENT_BYTES)
    cursor = Cursor(footer, most)
    columns: list[Column] | None = None
    rows = rows_of_groups = None
    try:
        for number, kind in cursor.fields():
            if number == 2:
                _require(kind == LIST, "its schema is not a list")
                columns = _columns(cursor)
            elif number == 3:
                rows = _rows(cursor, kind)
            elif number == 4:
                _require(
                    kind == LIST and columns is not None,
                    "its footer has no list of row groups after a schema",
                )
                groups = [_group(cursor, columns or []) for _ in cursor.elements(STRUCT)]
                rows_of_groups = sum(groups)
            else:
                _skip(cursor, kind, {5: STRUCT, 7: STRUCT}.get(number))
    except BadThriftError as error:
        raise BadParquetError(f"its footer {error}") from None
    _require(rows_of_groups is not None, "its footer has no row groups")
    _require(rows == rows_of_groups, f"has {rows} rows, and {rows_of_groups} in its row groups")


def _rows(cursor: Cursor, kind: int) -> int:
    """Read a number of rows."""
    rows = cursor.signed() if kind == I64 else -1
    _require(0 <= rows < 2**63, f"has an invalid number of rows: {rows}")
    return rows


def _skip(cursor: Cursor, kind: int, inner: int | None, nesting: int = NESTING) -> None:
    """Skip a field. Arrow reads the elements of a list as `inner`, so the list must claim that."""
    if inner is None or kind != LIST:
        cursor.skip(kind, nesting)
        return
    for each in cursor.elements(inner):
        cursor.skip(each, nesting - 1)


def _columns(cursor: Cursor) -> list[Column]:
    """Read a schema, depth first, and return its columns."""
    columns: list[Column] = []
    # For each open group: missing children, repetition level, definition level.
    open_groups: list[list[int]] = []
    for place, _ in enumerate(cursor.elements(STRUCT)):
        element = _element(cursor, named=place > 0)
        repetition, children = _number(element, 3), _number(element, 5)
        _require(0 <= repetition <= REPEATED and children >= 0, "its schema has an invalid number")
        while place and open_groups and not open_groups[-1][0]:
            open_groups.pop()
        _require(not place or open_groups, "its schema has more columns than its groups say")
        _require(len(open_groups) <= LEVELS, f"its schema has more than {LEVELS} levels")
        levels = (0, 0)
        if place:
            open_groups[-1][0] -= 1
            _, repeated, defined = open_groups[-1]
            levels = (repeated + (repetition == REPEATED), defined + (repetition > 0))
        if 1 in element and not children:
            kind = _number(element, 1)
            width = max(0, _number(element, 2)) if kind == FIXED else WIDTHS.get(kind, 0)
            _require(0 <= kind <= FIXED, "its schema has a column of an unknown type")
            columns.append((kind, width, levels))
        else:
            open_groups.append([children, *levels])
    missing = any(children for children, _, _ in open_groups)
    _require(not missing, "its schema has fewer columns than its groups say")
    return columns


def _element(cursor: Cursor, *, named: bool) -> dict[int, int | None]:
    """Read an element of a schema; return its numbers by field, None for another kind of value.

    Fields: type 1, length 2, repetition 3, name 4, number of children 5.
    """
    numbers: dict[int, int | None] = {}
    name = False
    for number, kind in cursor.fields():
        if number in (1, 2, 3, 5):
            numbers[number] = cursor.signed() if kind == I32 else None
        if number not in (1, 2, 3, 5) or kind != I32:
            name |= (number, kind) == (4, BINARY)
            cursor.skip(kind)
    _require(name or not named, "its schema has a column without a name")
    return numbers


def _number(element: dict[int, int | None], field: int) -> int:
    """Return a number of an element; 0 if it has none."""
    number = element.get(field, 0)
    sound = number is not None and -(2**31) <= number < 2**31
    _require(sound, f"its schema has an invalid number in field {field}")
    assert number is not None
    return number


def _group(cursor: Cursor, columns: list[Column]) -> int:
    """Check a row group and each of its columns; return its number of rows."""
    found = rows = None
    for number, kind in cursor.fields():
        if number == 3:
            rows = _rows(cursor, kind)
        if number not in (1, 3):
            _skip(cursor, kind, {4: STRUCT}.get(number))
        if number != 1:
            continue
        _require(kind == LIST, "a row group has no list of columns")
        found = 0
        for _ in cursor.elements(STRUCT):
            _require(found < len(columns), "a row group has more columns than the schema")
            _check_chunk(cursor, columns[found])
            found += 1
    _require(found == len(columns), f"a row group has {found} columns, and not {len(columns)}")
    _require(rows is not None, "a row group has no number of rows")
    assert rows is not None
    return rows


def _check_chunk(cursor: Cursor, column: Column) -> None:
    described = False
    for number, kind in cursor.fields():
        _require(number != 8, "a column is encrypted")
        if number == 3:
            _require(kind == STRUCT, "a column is not described")
            described = True
            _check_description(cursor, column)
        else:
            cursor.skip(kind)
    _require(described, "a column is not described")


def _check_description(cursor: Cursor, column: Column) -> None:
    lists = {2: I32, 3: BINARY, 8: STRUCT, 13: STRUCT}
    physical = codec = None
    for number, kind in cursor.fields():
        if number == 1:
            _require(kind == I32, "a column has no type")
            physical = cursor.signed()
        elif number == 4:
            _require(kind == I32, "a column has no compression codec")
            codec = cursor.signed()
        elif number in (12, 16):
            _require(kind == STRUCT, "the statistics of a column are invalid")
            (_check_statistics if number == 12 else _check_sizes)(cursor, column)
        elif number == 17 and kind == STRUCT:
            for inner, what in cursor.fields():
                _skip(cursor, what, {2: I32}.get(inner), NESTING - 2)
        else:
            _skip(cursor, kind, lists.get(number), NESTING - 1)
    _require(physical == column[0], f"a column has the type {physical}, and not {column[0]}")
    _require(codec in CODECS, f"a column has the compression codec {codec}")


def _check_statistics(cursor: Cursor, column: Column) -> None:
    """Refuse a minimum or maximum that is shorter than the values of its column."""
    for number, kind in cursor.fields():
        if number not in (1, 2, 5, 6):
            cursor.skip(kind, NESTING - 2)
            continue
        _require(kind == BINARY, "a bound of a column is not a text")
        _require(len(cursor.text()) >= column[1], "a bound of a column is too short")


def _check_sizes(cursor: Cursor, column: Column) -> None:
    """Refuse lengths of texts in other columns, and counts of levels that do not exist."""
    physical, _, levels = column
    for number, kind in cursor.fields():
        _require(
            number != 1 or physical == BYTE_ARRAY, "a column without texts has a length of texts"
        )
        if number not in (2, 3):
            cursor.skip(kind, NESTING - 2)
            continue
        _require(kind == LIST, "a histogram of levels is not a list")
        count = 0
        for _ in cursor.elements(I64):
            cursor.signed()
            count += 1
        _require(
            count in (0, levels[number - 2] + 1),
            "a histogram counts levels that its column does not have",
        )


# --- reading with Arrow --------------------------------------------------------------------------


@contextmanager
def _asking() -> Iterator[None]:
    """Turn each error that Arrow raises about bytes into BadParquetError."""
    try:
        yield
    except BadParquetError:
        raise
    except (pa.ArrowException, OSError, ValueError, OverflowError) as error:
        raise BadParquetError((str(error).splitlines() or [type(error).__name__])[0]) from None


def footer_length(end: bytes) -> int:
    """Return the bytes of the footer, its length and `PAR1` at the end of a file."""
    _require(len(end) >= 8 and end[-4:] == b"PAR1", "does not end as Parquet does")
    length = int.from_bytes(end[-8:-4], "little") + 8
    _require(length <= FOOTER_BYTES, f"has a footer of {length} bytes, which is too long")
    return length


def footer_of(end: bytes) -> pq.FileMetaData:
    """Return the footer in the last bytes of a file, after `check_footer`."""
    length = footer_length(end)
    _require(length <= len(end), "has a footer that is longer than the file")
    check_footer(end[-length:-8])
    with _asking(), pq.ParquetFile(pa.BufferReader(end[-length:]), pre_buffer=False) as file:
        return file.metadata


def names_of(footer: pq.FileMetaData) -> list[str]:
    """Return the names of a file's columns."""
    with _asking():
        names: list[str] = footer.schema.to_arrow_schema().names
        return names


def columns_of(raw: bytes, footer: pq.FileMetaData) -> pa.Table:
    """Read all columns of a part or an overflow metadata file, whose `footer` is known."""
    with _asking():
        largest, most = _measured(raw, footer)
        options = {"metadata": footer, "page_checksum_verification": True, "pre_buffer": False}
        with pq.ParquetFile(pa.BufferReader(raw), **options) as file:
            names = file.schema_arrow.names
            plain = [name for name in names if name not in largest]
            table = file.read(columns=plain)
            found, held = dict(zip(plain, table.columns, strict=True)), table.nbytes
            for name, page in largest.items():
                kind = file.schema_arrow.field(name).type
                # A dictionary can repeat a text in every row, so only decoded rows show the size.
                rows = max(1, min(BATCH_ROWS, BATCH_BYTES // max(1, page)))
                chunks = []
                for batch in file.iter_batches(rows, columns=[name]):
                    held += batch.nbytes
                    _require(held <= most, _too_much(held, raw))
                    chunks.append(batch.column(0))
                found[name] = pa.chunked_array(chunks, kind)
            return pa.table({name: found[name] for name in names})


def _too_much(memory: int, raw: bytes) -> str:
    return f"its {len(raw)} bytes would take {memory} bytes of memory or more"


def _measured(raw: bytes, footer: pq.FileMetaData) -> tuple[dict[str, int], int]:
    """Refuse columns that would take too much memory, by their rows and page headers.

    Return the columns of texts with the bytes of their largest page, and the maximum of memory.
    """
    arrow = footer.schema.to_arrow_schema()
    columns = [footer.schema.column(at) for at in range(len(footer.schema))]
    flat = [column.path for column in columns] == arrow.names
    flat = flat and not any(column.max_repetition_level for column in columns)
    _require(flat and len({*arrow.names}) == len(columns), "has columns that are not flat")
    coded = any(pa.types.is_dictionary(kind) for kind in arrow.types)
    _require(not coded, "has a column of dictionary type")
    largest: dict[str, int] = {}
    memory = stored = 0
    for group in map(footer.row_group, range(footer.num_row_groups)):
        for at, column in enumerate(columns):
            chunk = group.column(at)
            pages = list(_pages(raw, chunk))
            stored += chunk.total_compressed_size
            if column.physical_type == "BYTE_ARRAY":
                largest[column.path] = max([largest.get(column.path, 0), *pages])
            width = MEMORY_WIDTHS.get(column.physical_type, column.length)
            memory += max(sum(pages), group.num_rows * width)
            _require(memory <= MEMORY_FREE + MEMORY_FOR_A_BYTE * stored, _too_much(memory, raw))
    return largest, MEMORY_FREE + MEMORY_FOR_A_BYTE * stored


def _pages(raw: bytes, chunk: Any) -> Iterator[int]:
    """Yield the decompressed bytes of each page of a column, from the page headers."""
    at, coded = chunk.data_page_offset, chunk.dictionary_page_offset
    at = coded if chunk.has_dictionary_page and 0 < coded < at else at
    end = at + chunk.total_compressed_size
    _require(4 <= at <= end <= len(raw), "has a column outside of the file")
    while at < end:
        cursor = Cursor(raw[at : min(end, at + PAGE_HEADER_BYTES)], LIST_MOST)
        sizes: dict[int, int] = {}
        try:
            for number, kind in cursor.fields():
                if number in (2, 3) and kind == I32:
                    sizes[number] = cursor.signed()
                else:
                    cursor.skip(kind)
        except BadThriftError as error:
            raise BadParquetError(f"the header of a page {error}") from None
        unpacked, packed = sizes.get(2, -1), sizes.get(3, -1)
        # Compression never makes a small page much larger.
        sound = 0 <= packed <= unpacked + unpacked // 16 + 1024
        at += cursor.at + packed
        _require(sound and at <= end, "a page has an impossible length")
        yield unpacked
