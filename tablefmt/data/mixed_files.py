"""Data files of row groups, of which some columns are copied and others are encoded.

Arrow encodes the columns of one row group as a file in memory. Its column chunks and the copied
ones are put together here, with a footer of our own. Spec: DAT-1, DAT-5, DAT-9, ADD-1, ADD-7.
"""

from __future__ import annotations

import io
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tablefmt.data.column_bounds import file_bounds, nan_counts
from tablefmt.data.file_checksum import footer_checksum
from tablefmt.data.parquet_writer import (
    Encodings,
    FileSink,
    schema_footer,
    statistics_of,
    writer_settings,
)
from tablefmt.data.stored_groups import CopiedColumn, MixedGroup
from tablefmt.log.bounded_parquet import footer_of
from tablefmt.log.page_files import CODECS, ENCODINGS
from tablefmt.log.parquet_footer import INT32, LIST, STRUCT, fields, list_header, number, skip
from tablefmt.log.thrift_writing import Encoded, int32, int64, list_of, signed, struct_of
from tablefmt.model.arrow_types import file_schema
from tablefmt.model.schema import Field, Schema
from tablefmt.store.object_store import Store

_MAGIC = b"PAR1"
_INT16 = 4


def write_mixed(
    store: Store,
    key: str,
    groups: Iterable[MixedGroup],
    schema: Schema,
    stats: Sequence[Field],
    layout: Encodings,
    *,
    may_be_nan: frozenset[int],
) -> dict[str, Any]:
    """Write row groups as one file; durable on return.

    Args:
        store: the store to write to.
        key: the file's key.
        groups: at least one, with all columns of the schema, none of which is nested.
        schema: the schema of the rows.
        stats: columns to keep bounds for.
        layout: the encodings of decoded columns.
        may_be_nan: ids of columns that may hold NaN. They get no statistics (DAT-9).

    Returns:
        The file's row of ADD-1's columns, without partition values.

    Raises:
        StoreError: the store refused it. Then no file is left.
    """
    shape = file_schema(schema)
    encoder = _Encoder(layout, statistics_of(schema, dict.fromkeys(may_be_nan, 1)))
    nans = nan_counts(shape.empty_table(), schema.fields)
    described: list[bytes] = []
    rows = 0
    with store.open_output(key) as out:
        sink = FileSink(out)
        sink.write(_MAGIC)
        for group in groups:
            described.append(_put(sink, group, shape.names, encoder, len(described)))
            rows += group.rows
            for field, count in nan_counts(group.decoded, schema.fields).items():
                nans[field] += count
            del group
        sink.keep_all()
        footer = _footer(schema_footer(shape), rows, described)
        sink.write(footer + len(footer).to_bytes(4, "little") + _MAGIC)
    end = sink.end()
    row = {"path": key, "size": sink.size, "rows": rows, "footer": footer_checksum(end)}
    row.update(file_bounds(footer_of(end), stats))
    row.update({f"nans.{f.id}": nans[f.id] for f in stats if f.id in nans})
    return row


class _Encoder:
    """Encodes columns of a row group."""

    def __init__(self, layout: Encodings, statistics: bool | list[str]) -> None:
        self._layout = layout
        self._statistics = statistics

    def states(self, name: str) -> bool:
        """Return whether a column may have statistics (DAT-9)."""
        stated = self._statistics
        return stated if isinstance(stated, bool) else name in stated

    def file(self, rows: pa.Table, known: Container[str]) -> bytes:
        """Return a Parquet file with these columns as one row group; without known statistics."""
        names = frozenset(rows.column_names)
        layout = Encodings(
            [name for name in self._layout.dictionaries if name in names],
            {name: kind for name, kind in self._layout.others.items() if name in names},
            [name for name in self._layout.plain if name in names],
        )
        chosen = layout if layout.dictionaries or layout.others or layout.plain else None
        statistics = [n for n in rows.column_names if self.states(n) and n not in known]
        sink = io.BytesIO()
        with pq.ParquetWriter(
            sink, rows.schema, **writer_settings(chosen, "zstd", statistics, [])
        ) as writer:
            writer.write_table(rows, rows.num_rows)
        return sink.getvalue()


def _put(
    sink: FileSink, group: MixedGroup, names: Sequence[str], encoder: _Encoder, ordinal: int
) -> bytes:
    """Write a row group; return its description for the footer."""
    encoded: Mapping[str, tuple[bytes, memoryview]] = {}
    if group.decoded.num_columns:
        encoded = _chunks(group.decoded.column_names, encoder.file(group.decoded, group.statistics))
    begin, unpacked, columns = sink.size, 0, []
    for name in names:
        at = sink.size
        if name in group.copied:
            column = group.copied[name]
            for part in column.parts:
                sink.write(part)
            described, length = _copied(column, group.rows, at), column.unpacked
        else:
            chunk, body = encoded[name]
            sink.write(body)
            known = group.statistics.get(name) if encoder.states(name) else None
            described, length = _moved(chunk, at, known)
        columns.append(struct_of({2: int64(0), 3: (STRUCT, described)}))
        unpacked += length
    return struct_of(
        {
            1: list_of(STRUCT, columns),
            2: int64(unpacked),
            3: int64(group.rows),
            5: int64(begin),
            6: int64(sink.size - begin),
            7: (_INT16, signed(ordinal)),
        }
    )


def _copied(column: CopiedColumn, rows: int, at: int) -> bytes:
    """Return the description of a copied column chunk at a byte offset."""
    encodings = [ENCODINGS["RLE"], ENCODINGS[column.encoding]]
    page = {1: int32(0), 2: int32(encodings[1]), 3: int32(column.pages)}
    return struct_of(
        {
            1: int32(column.leaf.kind),
            2: list_of(INT32, [signed(each) for each in encodings]),
            3: (LIST, column.leaf.path),
            4: int32(CODECS[column.codec]),
            5: int64(rows),
            6: int64(column.unpacked),
            7: int64(column.size),
            9: int64(at),
            12: (STRUCT, column.statistics),
            13: list_of(STRUCT, [struct_of(page)]),
        }
    )


def _chunks(names: Sequence[str], body: bytes) -> dict[str, tuple[bytes, memoryview]]:
    """Return the description and the bytes of each column chunk of a file of one row group."""
    view = memoryview(body)
    footer = body[-8 - int.from_bytes(body[-8:-4], "little") : -8]
    found, _ = fields(footer, 0)
    _, _, at = list_header(footer, found[4][1])
    group, _ = fields(footer, at)
    _, _, at = list_header(footer, group[1][1])
    chunks = {}
    for name in names:
        chunk, end = fields(footer, at)
        start = chunk[3][1]
        described, stop = fields(footer, start)
        first = number(footer, described[9][1])
        if 11 in described:
            first = min(first, number(footer, described[11][1]))
        length = number(footer, described[7][1])
        chunks[name] = (footer[start:stop], view[first : first + length])
        at = end
    return chunks


def _moved(described: bytes, at: int, statistics: bytes | None) -> tuple[bytes, int]:
    """Return the description of a column chunk at another byte offset, and its unpacked bytes.

    Statistics that are given replace its own.
    """
    found, _ = fields(described, 0)
    data = number(described, found[9][1])
    first = min(data, number(described, found[11][1])) if 11 in found else data
    moved: dict[int, Encoded] = {}
    for name, (kind, start) in found.items():
        moved[name] = (kind, described[start : skip(described, start, kind)])
        if name in (9, 11):
            moved[name] = int64(number(described, start) - first + at)
    if statistics is not None:
        moved[12] = (STRUCT, statistics)
    return struct_of(dict(sorted(moved.items()))), number(described, found[6][1])


def _footer(empty: bytes, rows: int, groups: Sequence[bytes]) -> bytes:
    """Return the footer of a file without rows, with these row groups."""
    found, _ = fields(empty, 0)
    kind, start = found[4]
    # The fields 3 and 4 follow the schema; a header of a field is one byte.
    head, tail = empty[: found[3][1] - 1], empty[skip(empty, start, kind) :]
    kinds = (int64(rows), list_of(STRUCT, groups))
    return head + b"".join(bytes((1 << 4 | kind,)) + body for kind, body in kinds) + tail
