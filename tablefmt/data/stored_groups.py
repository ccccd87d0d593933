"""Row groups for a rewrite in order, of which some columns are copied as they are stored.

A compaction combines files without a change of rows. A column chunk that already has the encoding
and the codec of the new file consists of pages that can go into it. Their checksums are verified,
and their headers are written anew. The other columns are decoded, many small row groups at once.

Pages are copied from files that have exactly the columns of the schema, no deleted rows, and a
checksum of the footer in the log. Rows of other files are decoded.
Spec: ADD-7, DAT-4, DAT-5, DAT-9, DAT-16, DAT-17.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from tablefmt.data.file_verification import DAMAGE, first_line, first_problem, is_no_answer
from tablefmt.data.imported_files import has_imported
from tablefmt.data.matching_rows import Reading, RowFilter, matching
from tablefmt.data.parquet_writer import (
    DELTA,
    GROUP_BYTES,
    GROUP_ROWS,
    LEAST_ROWS,
    Encodings,
    choose_encodings,
    schema_footer,
)
from tablefmt.data.scan_tasks import ScanTask, tasks_of
from tablefmt.data.value_conversion import relabelled
from tablefmt.errors import CorruptDataError, TablefmtError
from tablefmt.log.bounded_parquet import chunk_extent
from tablefmt.log.page_files import (
    ENCODINGS,
    StoredChunk,
    known_form,
    page_file,
)
from tablefmt.log.parquet_footer import (
    BINARY,
    BOOLEANS,
    USUAL_DATA_PAGE,
    Leaf,
    leaves_of,
    whole_number,
)
from tablefmt.log.thrift_writing import int64, signed, struct_of, unsigned
from tablefmt.model.arrow_types import file_schema
from tablefmt.model.schema import Schema, is_nested
from tablefmt.store.object_store import Store

PAGE_BYTES = 32 << 10
"""Pages are copied if they have this many bytes, or LEAST_ROWS values, on average."""

TEXT = "BYTE_ARRAY"
TRUE = BOOLEANS[0]
_LEVELS = frozenset({"RLE", "BIT_PACKED"})
_PACK = {"INT32": "<i", "INT64": "<q", "FLOAT": "<f", "DOUBLE": "<d"}
_FLOATS = frozenset({"FLOAT", "DOUBLE"})
_KINDS = frozenset({TEXT, *_PACK})
"""Physical types whose minima and maxima Python can compare."""

_CODED = frozenset({"PLAIN", "RLE", "RLE_DICTIONARY", "PLAIN_DICTIONARY"})
"""Encodings of chunks that Arrow can read as dictionaries."""


class CopiedColumn(NamedTuple):
    """Pages of a column for one row group of a new file."""

    leaf: Leaf
    encoding: str
    codec: str
    pages: int
    unpacked: int
    """Bytes of the pages after decompression, with their headers."""
    parts: Sequence[bytes | memoryview]
    """Headers and bodies of the pages."""
    statistics: bytes
    """Statistics of the values, as a footer has them."""

    @property
    def size(self) -> int:
        """Return the stored bytes."""
        return sum(map(len, self.parts))


class MixedGroup(NamedTuple):
    """A row group of a new file."""

    rows: int
    decoded: pa.Table
    """Columns to encode, by physical name."""
    copied: Mapping[str, CopiedColumn]
    """The other columns."""
    statistics: Mapping[str, bytes]
    """Known statistics of decoded columns, as a footer has them."""


@dataclass(frozen=True, slots=True, eq=False)
class _Unit:
    """A row group of a file, with its bytes."""

    path: str
    rows: int
    size: int
    """Unpacked bytes."""
    chunks: tuple[pq.ColumnChunkMetaData, ...]
    start: int
    """Byte offset in the file."""
    body: bytes

    def chunk(self, at: int) -> memoryview:
        """Return the bytes of a column chunk."""
        start, stop = chunk_extent(self.chunks[at])
        return memoryview(self.body)[start - self.start : stop - self.start]


class _UnusualError(Exception):
    """Raised if a column chunk cannot be copied. It may be sound."""


@dataclass(slots=True, eq=False)
class StoredRows:
    """The rows of files, as row groups of one new file.

    `layout` is set before the first group is yielded.
    """

    store: Store
    files: pa.Table
    """Live files, with the columns that `read_files` needs."""
    schema: Schema
    """Has no nested column."""
    never: frozenset[str]
    """Physical names of columns that are always decoded."""
    layout: Encodings | None = None
    """Encodings of the new file, as `choose_encodings` returns them for its first row group."""
    _leaves: tuple[Leaf, ...] = field(init=False)
    _shape: pa.Schema = field(init=False)

    def __post_init__(self) -> None:
        self._shape = file_schema(self.schema)
        self._leaves = leaves_of(schema_footer(self._shape))

    def groups(self) -> Iterator[MixedGroup]:
        """Yield the row groups.

        Raises:
            CorruptDataError: DAT-5, a file is damaged.
            StoreError: the store gives no answer.
        """
        held: list[_Unit | pa.RecordBatch] = []
        rows = size = first = 0
        for at, item in self._items():
            count = item.rows if isinstance(item, _Unit) else item.num_rows
            width = item.size if isinstance(item, _Unit) else item.nbytes
            if held and (rows + count > GROUP_ROWS or size + width > GROUP_BYTES):
                yield self._group(held, rows, first, at)
                held, rows, size = [], 0, 0
            if not held:
                first = at
            held.append(item)
            rows, size = rows + count, size + width
        if held:
            yield self._group(held, rows, first, self.files.num_rows - 1)

    def _items(self) -> Iterator[tuple[int, _Unit | pa.RecordBatch]]:
        """Yield row groups, and rows of files that do not suit; each with its file's index."""
        names = [f.physical for f in self.schema.fields]
        needs = RowFilter(None).needs(self.schema, names)
        reading = Reading(self.schema, names, RowFilter(None))
        for task in tasks_of(self.store, self.files, needs):
            with _diagnosed(self.store, task.files):
                footers = list(map(task.data.footer, task.files["path"].to_pylist()))
                suits = self._suitable(task, footers)
            for start, stop in _runs(suits):
                if not suits[start]:
                    part = task.slice(start, stop)
                    yield from self._decoded(part, reading)
                    continue
                for at in range(start, stop):
                    with _diagnosed(self.store, task.files.slice(at, 1)):
                        units = list(_units(task, at, footers[at]))
                    for unit in units:
                        yield task.start + at, unit
            task.drop()

    def _suitable(self, task: ScanTask, footers: Sequence[pq.FileMetaData]) -> list[bool]:
        """Return which files have exactly the columns of the schema, and all of their rows.

        The log must have the checksum of the footer (ADD-7), because copies rely on its sums and
        statistics.
        """
        paths, rows = task.files["path"].to_pylist(), task.files["rows"].to_pylist()
        checked = [False] * len(paths)
        if "footer" in task.files.column_names:
            checked = task.files["footer"].is_valid().to_pylist()
        suits = []
        for at, (path, footer) in enumerate(zip(paths, footers, strict=True)):
            if footer.num_rows != rows[at]:
                raise ValueError("a file has a different number of rows than the log says")
            whole = checked[at] and task.vectors[at] is None
            suits.append(
                whole and task.data.leaves(path) == self._leaves and _is_usual(footer, self._leaves)
            )
        return suits

    def _decoded(self, task: ScanTask, reading: Reading) -> Iterator[tuple[int, pa.RecordBatch]]:
        batches = iter(matching(task, reading))
        last = task.start + task.files.num_rows - 1
        while True:
            with _diagnosed(self.store, task.files):
                batch = next(batches, None)
            if batch is None:
                return
            columns = [relabelled(batch.column(f.name), f.type) for f in self._shape]
            whole = pa.RecordBatch.from_arrays(columns, schema=self._shape)
            for start in range(0, whole.num_rows, GROUP_ROWS):
                yield last, whole.slice(start, GROUP_ROWS)

    def _group(
        self, held: Sequence[_Unit | pa.RecordBatch], rows: int, first: int, last: int
    ) -> MixedGroup:
        """Return a row group of the new file, from the files `first` to `last`."""
        units = _only_units(held)
        copied: dict[str, CopiedColumn] = {}
        statistics: dict[str, bytes] = {}
        with _diagnosed(self.store, self.files.slice(first, last - first + 1)):
            if len(units) == len(held):
                for at, name in enumerate(self._shape.names):
                    chunks = [unit.chunks[at] for unit in units]
                    known = None if name in self.never else _statistics(chunks)
                    if known is None:
                        continue
                    column = self._copied(units, at, name, known)
                    if column is not None:
                        copied[name] = column
                    else:
                        statistics[name] = known
            names = [name for name in self._shape.names if name not in copied]
            parts: list[pa.Table] = []
            start = 0
            while start < len(held) and names:
                stop = start
                while stop < len(held) and isinstance(held[stop], _Unit):
                    stop += 1
                if stop > start:
                    parts.append(self._read(_only_units(held[start:stop]), names))
                else:
                    stop += 1
                    parts.append(pa.Table.from_batches([held[start]]).select(names))
                start = stop
        decoded = _joined(parts)
        if self.layout is None:
            self.layout = choose_encodings(_plain(decoded), rows) or Encodings()
        return MixedGroup(rows, decoded, copied, statistics)

    def _copied(
        self, units: Sequence[_Unit], at: int, name: str, statistics: bytes
    ) -> CopiedColumn | None:
        """Return the pages of a column; None if it must be decoded."""
        expected = _stored_form(self.layout, name)
        if expected is None:
            return None
        encoding, codec = expected
        leaf = self._leaves[at]
        parts: list[bytes | memoryview] = []
        pages = unpacked = rows = 0
        try:
            for unit in units:
                count, length = _pages(unit, at, encoding, codec, parts)
                pages, unpacked, rows = pages + count, unpacked + length, rows + unit.rows
            if rows < LEAST_ROWS * pages and unpacked < PAGE_BYTES * pages:
                return None
        except _UnusualError:
            return None
        return CopiedColumn(leaf, encoding, codec, pages, unpacked, parts, statistics)

    def _read(self, units: Sequence[_Unit], names: Sequence[str]) -> pa.Table:
        """Return columns of row groups, as each of them alone is read.

        Raises:
            CorruptDataError: DAT-5, with the file that is damaged.
        """
        try:
            return self._read_together(units, names)
        except DAMAGE:
            tables = []
            for unit in units:
                try:
                    tables.append(self._read_together([unit], names))
                except DAMAGE as error:
                    problem = f"it cannot be read: {first_line(error)}"
                    raise CorruptDataError(problem, key=unit.path, rule="DAT-5") from None
            return _joined(tables)

    def _read_together(self, units: Sequence[_Unit], names: Sequence[str]) -> pa.Table:
        """Return columns of row groups. Texts with a dictionary stay encoded."""
        places = [self._shape.get_field_index(name) for name in names]
        coded = [
            name
            for name, at in zip(names, places, strict=True)
            if all(
                u.chunks[at].physical_type == TEXT
                and u.chunks[at].has_dictionary_page
                and {*u.chunks[at].encodings} <= _CODED
                for u in units
            )
        ]
        file = page_file(
            [(u.rows, [_stored(u, at, self._leaves[at]) for at in places]) for u in units]
        )
        with pq.ParquetFile(
            pa.BufferReader(file),
            page_checksum_verification=True,
            read_dictionary=[n for n in coded if pa.types.is_string(self._shape.field(n).type)],
        ) as source:
            table = source.read()
        columns, fields = [], []
        for name in names:
            column, target = table.column(name), self._shape.field(name)
            if pa.types.is_dictionary(column.type):
                target = target.with_type(column.type)
            elif column.type != target.type:
                column = relabelled(column, target.type)
            columns.append(column)
            fields.append(target)
        return pa.Table.from_arrays(columns, schema=pa.schema(fields))


def suits_copies(files: pa.Table, schema: Schema) -> bool:
    """Return whether `StoredRows` may read these files."""
    return not has_imported(files) and not any(is_nested(f.type) for f in schema.fields)


def _only_units(held: Sequence[_Unit | pa.RecordBatch]) -> list[_Unit]:
    """Return the row groups of a run of them."""
    return [item for item in held if isinstance(item, _Unit)]


def _runs(suits: Sequence[bool]) -> Iterator[tuple[int, int]]:
    """Yield runs of equal values."""
    start = 0
    for at in range(1, len(suits) + 1):
        if at == len(suits) or suits[at] != suits[start]:
            yield start, at
            start = at


def _is_usual(footer: pq.FileMetaData, leaves: Sequence[Leaf]) -> bool:
    """Return whether all row groups can be put into other files."""
    for number in range(footer.num_row_groups):
        group = footer.row_group(number)
        if not 0 < group.num_rows <= GROUP_ROWS or group.total_byte_size > GROUP_BYTES:
            return False
        if not all(known_form(leaf, group.column(at)) for at, leaf in enumerate(leaves)):
            return False
    return True


def _units(task: ScanTask, at: int, footer: pq.FileMetaData) -> Iterator[_Unit]:
    """Yield the row groups of a file, with their bytes."""
    path = task.files["path"][at].as_py()
    with task.data.open_input_file(path) as source:
        for number in range(footer.num_row_groups):
            group = footer.row_group(number)
            chunks = tuple(group.column(place) for place in range(group.num_columns))
            extents = list(map(chunk_extent, chunks))
            start, stop = min(first for first, _ in extents), max(end for _, end in extents)
            source.seek(start)
            body = source.read(stop - start)
            if len(body) != stop - start:
                raise ValueError("a column chunk lies outside the file")
            yield _Unit(path, group.num_rows, group.total_byte_size, chunks, start, body)


def _stored(unit: _Unit, at: int, leaf: Leaf) -> StoredChunk:
    """Return a column chunk for a file in memory. Arrow finds the pages, and verifies them."""
    described, body = unit.chunks[at], unit.chunk(at)
    start, _ = chunk_extent(described)
    data = described.data_page_offset if described.has_dictionary_page else start
    length, form = described.total_uncompressed_size, known_form(leaf, described)
    assert form is not None, "files with other chunks are not suitable"
    return StoredChunk(leaf, form, max(0, data - start), length, [bytes(body)])


def _stored_form(layout: Encodings | None, name: str) -> tuple[str, str] | None:
    """Return the encoding and the codec that a column without a dictionary has in the new file."""
    if layout is None:
        return None
    encoding = layout.others.get(name) or ("PLAIN" if name in layout.plain else None)
    if encoding is None:
        return None
    return encoding, "UNCOMPRESSED" if encoding == DELTA else "ZSTD"


def _pages(
    unit: _Unit, at: int, encoding: str, codec: str, parts: list[bytes | memoryview]
) -> tuple[int, int]:
    """Add the pages of a column chunk to `parts`; return their number and unpacked bytes.

    The footer, which has a checksum, confirms the sums over all page headers, which have none.

    Raises:
        ValueError: a page does not match its checksum.
        _UnusualError: the chunk has another form.
    """
    described, body = unit.chunks[at], unit.chunk(at)
    if described.has_dictionary_page or described.compression != codec:
        raise _UnusualError
    if {*described.encodings} - _LEVELS != {encoding}:
        raise _UnusualError
    number = signed(ENCODINGS[encoding])
    # The encodings of values, of definition levels and of repetition levels.
    encodings = b"\x15" + number + b"\x15\x06\x15\x06"
    start = values = count = unpacked = stored = 0
    while start < len(body):
        found = USUAL_DATA_PAGE.match(body, start)
        if found is None or found.group(3) is None:
            raise _UnusualError
        length, packed, crc, held = map(whole_number, found.groups())
        first = found.end()
        end = first + packed
        if packed < 0 or length < 0 or held <= 0 or end > len(body):
            raise _UnusualError
        if not body[found.end(4) : first].tobytes().startswith(encodings):
            raise _UnusualError
        page = body[first:end]
        if zlib.crc32(page) != crc & 0xFFFFFFFF:
            raise ValueError("a page does not match its checksum")
        header = b"\x15\x00\x15%b\x15%b\x15%b\x1c\x15%b%b\x00\x00" % (
            *found.groups(),
            encodings,
        )
        parts += (header, page)
        stored += first - start + length
        unpacked += len(header) + length
        values, count, start = values + held, count + 1, end
    if values != unit.rows or stored != described.total_uncompressed_size:
        raise _UnusualError
    return count, unpacked


def _statistics(chunks: Sequence[pq.ColumnChunkMetaData]) -> bytes | None:
    """Return the statistics of the values of chunks together; None if they are not known."""
    kind = chunks[0].physical_type
    if kind not in _KINDS:
        return None
    nulls = 0
    lows: list[Any] = []
    highs: list[Any] = []
    for chunk in chunks:
        each = chunk.statistics if chunk.is_stats_set else None
        if each is None or not each.has_null_count:
            return None
        nulls += each.null_count
        if each.has_min_max:
            lows.append(each.min_raw)
            highs.append(each.max_raw)
        elif each.null_count != chunk.num_values:
            return None
    fields = {3: int64(nulls)}
    if lows:
        low, high = min(lows), max(highs)
        ends = [high, low]
        if kind != TEXT:
            if kind in _FLOATS:
                if any(value != value for value in (*lows, *highs)):
                    return None
                # The two zeros are equal, so a bound includes both.
                ends = [0.0 if high == 0 else high, -0.0 if low == 0 else low]
            ends = [struct.pack(_PACK[kind], value) for value in ends]
        for number, value in zip((5, 6), ends, strict=True):
            fields[number] = (BINARY, unsigned(len(value)) + value)
        if kind != TEXT:
            # A text may be cut, and Arrow does not say whether it is.
            fields |= {7: (TRUE, b""), 8: (TRUE, b"")}
    return struct_of(fields)


def _joined(parts: Sequence[pa.Table]) -> pa.Table:
    """Return the rows of tables of the same columns, texts in one dictionary or in none."""
    if not parts:
        return pa.table({})
    if len(parts) > 1:
        parts = [_plain(part) for part in parts]
    return pa.concat_tables(parts).unify_dictionaries()


def _plain(rows: pa.Table) -> pa.Table:
    """Return the rows without dictionaries."""
    for at, column in enumerate(rows.schema):
        if pa.types.is_dictionary(column.type):
            plain = column.with_type(column.type.value_type)
            rows = rows.set_column(at, plain, rows.column(at).cast(plain.type))
    return rows


@contextmanager
def _diagnosed(store: Store, files: pa.Table) -> Iterator[None]:
    """Replace an error of reading files by one that names the damaged file."""
    try:
        yield
    except DAMAGE as error:
        if isinstance(error, TablefmtError) and is_no_answer(store, error):
            raise
        if isinstance(error, CorruptDataError):
            raise
        found = first_problem(store, files)
        if found is not None:
            raise CorruptDataError(found[1], key=found[0], rule="DAT-5") from None
        problem = f"the data files could not be read: {first_line(error)}"
        raise CorruptDataError(problem, rule="DAT-5") from None
