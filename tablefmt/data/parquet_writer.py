"""Writer of one Parquet file, whole or one row group at a time, in a layout that suits its readers.

Row groups are small enough for engines to skip. Decimals of up to 18 digits are integers, as Spark
and Delta write them. There is no page index, because no checksum would cover all of it. The one
engine that skips pages by it would not notice damage (decision 0021). A file of any length is
written in bounded memory.

A sample of its values decides the encoding of a column. A dictionary suits repeated values. For
mostly distinct values it is larger than the values, and Arrow, which always begins with one, drops
it too late. Keys, amounts and times, which every query reads, would then be slow.

Spec: DAT-1, DAT-5, DAT-9, DAT-15 .. DAT-17, ADD-1, ADD-5, ADD-7.
"""

from __future__ import annotations

import io
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import IO, Any, TypedDict

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from tablefmt.data.column_bounds import file_bounds, nan_counts
from tablefmt.data.file_checksum import END_BYTES, footer_checksum
from tablefmt.model.schema import Field, Schema, is_float, is_nested, walk
from tablefmt.store.object_store import Store

LEAST_ROWS = 4096
"""Files with fewer rows keep Arrow's defaults, because sampling would take longer."""

SAMPLE_ROWS = 8192
"""Sampled values of each column, spread over the rows of one row group."""

DIFFERENT = 0.5
"""Share of the sample: with more distinct values, the column gets no dictionary."""

RUN_ROWS, BLOCK_ROWS = 4096, 32
"""Consecutive rows in the sample, and rows for which DELTA_BINARY_PACKED uses one bit width."""

WORTH = 0.8
"""Share of a plain value's bits: differences are written only if they need at most this much."""

DELTA, LENGTHS = "DELTA_BINARY_PACKED", "DELTA_LENGTH_BYTE_ARRAY"


@dataclass(slots=True)
class Encodings:
    """Arrow writer settings for the leaf columns, by their paths."""

    dictionaries: list[str] = field(default_factory=list)
    """Columns with a dictionary, as long as it is small."""
    others: dict[str, str] = field(default_factory=dict)
    """Columns with another encoding: Parquet's name of the encoding."""
    plain: list[str] = field(default_factory=list)
    """Columns with plain encoding."""


def choose_encodings(rows: pa.Table, group_rows: int) -> Encodings | None:
    """Return the encodings for these rows; None for Arrow's defaults.

    Args:
        rows: rows of one file; columns by physical name. Decimals up to 18 digits become integers.
        group_rows: rows of a row group.
    """
    if rows.num_rows < LEAST_ROWS:
        return None
    group = rows.slice(0, group_rows)
    chosen = Encodings()
    for column in group.schema:
        # Arrow could read a dot in a name as a path into another column.
        if pa.types.is_nested(column.type) or "." in column.name:
            chosen.dictionaries += leaves(column.name, column.type)
        elif not _is_mostly_different(group[column.name]):
            chosen.dictionaries.append(column.name)
        elif (encoding := _encoding(group[column.name])) is not None:
            chosen.others[column.name] = encoding
        else:
            chosen.plain.append(column.name)
    return chosen


def leaves(path: str, kind: pa.DataType) -> Iterator[str]:
    """Yield the paths of a column's Parquet columns."""
    if pa.types.is_struct(kind):
        for part in kind:
            yield from leaves(f"{path}.{part.name}", part.type)
    elif pa.types.is_map(kind):
        yield from leaves(f"{path}.key_value.key", kind.key_type)
        yield from leaves(f"{path}.key_value.value", kind.item_type)
    elif pa.types.is_nested(kind):
        yield from leaves(f"{path}.list.element", kind.value_type)
    else:
        yield path


def _is_mostly_different(column: pa.ChunkedArray) -> bool:
    step = max(1, len(column) // SAMPLE_ROWS)
    sample = column.take(pa.array(np.arange(0, len(column), step))).drop_null()
    if pa.types.is_boolean(column.type) or len(sample) < SAMPLE_ROWS // 16:
        return False
    return bool(pc.count_distinct(sample).as_py() > DIFFERENT * len(sample))


def _encoding(column: pa.ChunkedArray) -> str | None:
    kind = column.type
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return LENGTHS
    numbers = _integers(column.slice(0, RUN_ROWS).combine_chunks().drop_null())
    if numbers is None:
        return None
    return DELTA if difference_bits(numbers) <= WORTH * 8 * numbers.itemsize else None


def _integers(values: pa.Array) -> NDArray[np.signedinteger[Any]] | None:
    """Return the integers that Parquet stores for the values, without NULL; None if not
    integers.
    """
    kind = values.type
    if pa.types.is_decimal128(kind):
        if kind.precision > 18:
            return None
        halves = np.frombuffer(values.buffers()[1], np.int64)[2 * values.offset :]
        lower: NDArray[np.int64] = halves[: 2 * len(values) : 2]
        return lower if kind.precision > 9 else lower.astype(np.int32)
    if pa.types.is_timestamp(kind):
        kind, values = pa.int64(), values.view(pa.int64())
    elif pa.types.is_date32(kind):
        kind, values = pa.int32(), values.view(pa.int32())
    if not pa.types.is_integer(kind):
        return None
    numbers: NDArray[np.signedinteger[Any]] = values.cast(
        pa.int64() if kind.bit_width == 64 else pa.int32()
    ).to_numpy()
    return numbers


def difference_bits(numbers: NDArray[np.signedinteger[Any]]) -> float:
    """Return the average bits per number if differences of consecutive numbers are written."""
    with np.errstate(over="ignore"):
        differences = np.diff(numbers)
    whole = len(differences) // BLOCK_ROWS * BLOCK_ROWS
    if not whole:
        return float(8 * numbers.itemsize)
    blocks = differences[:whole].reshape(-1, BLOCK_ROWS)
    # The subtraction overflows in the same way as Parquet's.
    spans = (blocks.max(axis=1) - blocks.min(axis=1)).view(f"u{numbers.itemsize}")
    return float(np.ceil(np.log2(spans.astype(np.float64) + 1)).mean())


GROUP_ROWS = 128 << 10
"""Most rows of a row group: a reader of one row decodes this many. Two readers can share a file by
row groups.
"""

GROUP_BYTES = 128 << 20
"""Approximate limit of a row group in bytes of Arrow data, assuming rows of similar width."""

DICTIONARY_BYTES = 128 << 10
"""Most bytes of a column's dictionary in a row group. Mostly distinct values are smaller and faster
without one. Arrow's own limit of 1 MiB would fit a whole row group.
"""

TINY_BYTES = 2048
"""Smaller files have no compression and no dictionaries: their setup takes longer than they save.
"""


def write_file(
    store: Store,
    key: str,
    rows: pa.Table,
    schema: Schema,
    stats: Sequence[Field],
    compression: str,
) -> dict[str, Any]:
    """Write rows as one file; durable on return.

    Args:
        store: the store to write to.
        key: the file's key.
        rows: at least one row; columns by physical name, cast and checked.
        schema: the schema of the rows.
        stats: columns to keep bounds for.
        compression: a Parquet codec, by Arrow's name for it.

    Returns:
        The file's row of ADD-1's columns, without partition values.

    Raises:
        StoreError: the store refused it.
    """
    nans = nan_counts(rows, schema.fields)
    body, footer = _encoded(rows, statistics_of(schema, nans), compression)
    store.put(key, body)
    row = {"path": key, "size": len(body), "rows": rows.num_rows}
    row["footer"] = footer_checksum(body)
    row.update(file_bounds(footer, stats))
    row.update({f"nans.{f.id}": nans[f.id] for f in stats if f.id in nans})
    return row


def _encoded(
    rows: pa.Table, statistics: bool | list[str], compression: str
) -> tuple[bytes, pq.FileMetaData]:
    # The total buffer size is cheaper to compute, and never smaller than nbytes.
    tiny = rows.get_total_buffer_size() <= TINY_BYTES or rows.nbytes <= TINY_BYTES
    # BytesIO gives its bytes without a copy. For few bytes, Arrow's sink is faster.
    sink = pa.BufferOutputStream() if tiny else io.BytesIO()
    footers: list[pq.FileMetaData] = []
    length = group_rows(rows.num_rows, TINY_BYTES if tiny else rows.nbytes)
    chosen, codec = choose_encodings(rows, length), "none" if tiny else compression
    settings = writer_settings(chosen, codec, statistics, footers)
    with pq.ParquetWriter(sink, rows.schema, **settings) as writer:
        writer.write_table(rows, length)
    body = sink.getvalue() if isinstance(sink, io.BytesIO) else sink.getvalue().to_pybytes()
    return body, footers[0]


class _Layout(TypedDict, total=False):
    """Some of the settings of Arrow's writer."""

    compression: str | dict[str, str]
    use_dictionary: bool | list[str]
    column_encoding: dict[str, str]


def writer_settings(
    chosen: Encodings | None,
    codec: str,
    statistics: bool | list[str],
    footers: list[pq.FileMetaData],
) -> dict[str, Any]:
    """Return the settings of Arrow's writer for every data file.

    Args:
        chosen: as `choose_encodings` returns them.
        codec: the codec, by Arrow's name for it.
        statistics: as `statistics_of` returns them.
        footers: receives the file's footer when the writer closes.
    """
    return {
        **_layout(chosen, codec),
        "dictionary_pagesize_limit": DICTIONARY_BYTES,
        "store_decimal_as_integer": True,
        "write_page_checksum": True,
        "store_schema": False,
        "write_statistics": statistics,
        "metadata_collector": footers,
    }


def _layout(chosen: Encodings | None, codec: str) -> _Layout:
    """Return the encodings and codecs. A column of differences in few bits is not compressible."""
    if chosen is None:
        return {"compression": codec, "use_dictionary": codec != "none"}
    every = [*chosen.dictionaries, *chosen.others, *chosen.plain]
    packed = {path for path, encoding in chosen.others.items() if encoding == DELTA}
    return {
        "compression": {path: "none" if path in packed else codec for path in every},
        "use_dictionary": chosen.dictionaries,
        "column_encoding": chosen.others,
    }


def schema_footer(schema: pa.Schema) -> bytes:
    """Return the footer of a file of this schema without rows."""
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(sink, schema, **writer_settings(None, "zstd", True, [])):
        pass
    body: bytes = sink.getvalue().to_pybytes()
    return body[-8 - int.from_bytes(body[-8:-4], "little") : -8]


def group_rows(rows: int, width: int) -> int:
    """Return rows per row group (DAT-16), for `rows` rows of `width` bytes of Arrow data. Pure."""
    return max(1, min(GROUP_ROWS, rows * GROUP_BYTES // max(width, 1)))


def statistics_of(schema: Schema, nans: Mapping[int, int]) -> bool | list[str]:
    """Return the columns that may have statistics in the file (DAT-9); True for all.

    Statistics ignore NaN. Readers that order NaN above all values, such as Spark, would skip row
    groups that hold it.
    """
    nested = [f for f in schema.fields if is_nested(f.type)]
    hiding = any(is_float(kind) for f in nested for kind in walk(f.type))
    if not hiding and not any(nans.values()):
        return True
    flat = [f for f in schema.fields if not is_nested(f.type) and not nans.get(f.id)]
    # A dotted name could be taken for a path into a struct.
    return [f.physical for f in flat if not (nested and "." in f.physical)]


def row_groups(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Yield the rows in order as full row groups; the last one may be shorter (DAT-16)."""
    held: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        held.append(batch)
        rows, size = rows + batch.num_rows, size + batch.nbytes
        if rows < GROUP_ROWS and size < GROUP_BYTES:
            continue
        whole = pa.Table.from_batches(held)
        length = group_rows(rows, size)
        full = rows - rows % length
        for start in range(0, full, length):
            yield whole.slice(start, length)
        rest = whole.slice(full)
        held, rows, size = rest.to_batches(), rest.num_rows, rest.nbytes
        del whole
    if rows:
        yield pa.Table.from_batches(held)


def write_groups(
    store: Store,
    key: str,
    groups: Iterable[pa.Table],
    schema: Schema,
    stats: Sequence[Field],
    *,
    may_be_nan: frozenset[int],
) -> dict[str, Any]:
    """Write row groups as one file; durable on return. At most two are in memory.

    Args:
        store: the store to write to.
        key: the file's key.
        groups: at least one, as `row_groups` yields them; columns by physical name, cast and
            checked.
        schema: the schema of the rows.
        stats: columns to keep bounds for.
        may_be_nan: ids of columns that may hold NaN. They get no statistics (DAT-9), and so no
            bounds, unless all rows are one row group.

    Returns:
        The file's row of ADD-1's columns, without partition values.

    Raises:
        StoreError: the store refused it. Then no file is left.
    """
    rest = iter(groups)
    first, second = next(rest), next(rest, None)
    if second is None:
        return write_file(store, key, first, schema, stats, "zstd")
    footers: list[pq.FileMetaData] = []
    nans = dict.fromkeys((f.id for f in schema.fields if f.id in nan_counts(first, [f])), 0)
    statistics = statistics_of(schema, dict.fromkeys(may_be_nan, 1))
    chosen = choose_encodings(first, first.num_rows)
    rows = 0
    with store.open_output(key) as out:
        sink = FileSink(out)
        with pq.ParquetWriter(
            sink, first.schema, **writer_settings(chosen, "zstd", statistics, footers)
        ) as writer:
            for group in _all(first, second, rest):
                writer.write_table(group, group.num_rows)
                rows += group.num_rows
                for field, count in nan_counts(group, schema.fields).items():
                    nans[field] += count
                del group
            sink.keep_all()
    row = {"path": key, "size": sink.size, "rows": rows}
    row["footer"] = footer_checksum(sink.end())
    row.update(file_bounds(footers[0], stats))
    row.update({f"nans.{f.id}": nans[f.id] for f in stats if f.id in nans})
    return row


def _all(first: pa.Table, second: pa.Table, rest: Iterator[pa.Table]) -> Iterator[pa.Table]:
    yield first
    del first
    yield second
    del second
    yield from rest


class FileSink(io.RawIOBase):
    """Output stream that counts its bytes and keeps the last ones, for the checksum (ADD-7)."""

    def __init__(self, out: IO[bytes]) -> None:
        self._out = out
        self._last: deque[bytes] = deque()
        self._kept = 0
        self._all = False
        self.size = 0

    def writable(self) -> bool:
        """Return True."""
        return True

    def tell(self) -> int:
        """Return the bytes written so far."""
        return self.size

    def write(self, body: Any) -> int:
        """Write the bytes, and keep the last ones."""
        data = bytes(body)
        self._out.write(data)
        self.size += len(data)
        self._last.append(data)
        self._kept += len(data)
        while not self._all and self._kept - len(self._last[0]) >= END_BYTES:
            self._kept -= len(self._last.popleft())
        return len(data)

    def keep_all(self) -> None:
        """Keep all bytes from here on: the footer follows, of any length."""
        self._all = True

    def end(self) -> bytes:
        """Return the last bytes: END_BYTES or more, and the whole footer."""
        return b"".join(self._last)
