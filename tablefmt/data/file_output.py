"""Writer of one Parquet file, in a layout that suits its readers.

Row groups are small enough for engines to skip. Decimals of up to 18 digits are integers, as Spark
and Delta write them. There is no page index, because no checksum would cover all of it. The one
engine that skips pages by it would not notice damage (decision 0021).

Spec: DAT-1, DAT-5, DAT-9, DAT-15, DAT-16, ADD-1, ADD-7.
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

import pyarrow as pa
import pyarrow.parquet as pq

from tablefmt.data.bounds import file_bounds, nan_counts
from tablefmt.data.checksum import footer_checksum
from tablefmt.data.encodings import DELTA, Encodings, choose_encodings
from tablefmt.model.schema import Field, Schema, is_float, is_nested, walk
from tablefmt.store.protocol import Store

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
    row.update(file_bounds(footer, schema, stats))
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
    """Return the encodings and codecs. A column of packed differences is not compressible."""
    if chosen is None:
        return {"compression": codec, "use_dictionary": codec != "none"}
    every = [*chosen.dictionaries, *chosen.others, *chosen.plain]
    packed = {path for path, encoding in chosen.others.items() if encoding == DELTA}
    return {
        "compression": {path: "none" if path in packed else codec for path in every},
        "use_dictionary": chosen.dictionaries,
        "column_encoding": chosen.others,
    }


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
