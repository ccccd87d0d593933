"""Writer of one Parquet file of any length, one row group at a time, in bounded memory.

Spec: DAT-5, DAT-9, DAT-16, ADD-5, ADD-7.
"""

from __future__ import annotations

import io
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import IO, Any

import pyarrow as pa
import pyarrow.parquet as pq

from tablefmt.data.bounds import file_bounds, nan_counts
from tablefmt.data.checksum import END_BYTES, footer_checksum
from tablefmt.data.encodings import choose_encodings
from tablefmt.data.file_output import (
    GROUP_BYTES,
    GROUP_ROWS,
    group_rows,
    statistics_of,
    write_file,
    writer_settings,
)
from tablefmt.model.schema import Field, Schema
from tablefmt.store.protocol import Store


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
    compression: str = "zstd",
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
        compression: a Parquet codec, by Arrow's name for it.

    Returns:
        The file's row of ADD-1's columns, without partition values.

    Raises:
        StoreError: the store refused it. Then no file is left.
    """
    rest = iter(groups)
    first, second = next(rest), next(rest, None)
    if second is None:
        return write_file(store, key, first, schema, stats, compression)
    footers: list[pq.FileMetaData] = []
    nans = dict.fromkeys((f.id for f in schema.fields if f.id in nan_counts(first, [f])), 0)
    statistics = statistics_of(schema, dict.fromkeys(may_be_nan, 1))
    chosen = choose_encodings(first, first.num_rows)
    rows = 0
    with store.open_output(key) as out:
        sink = _Sink(out)
        with pq.ParquetWriter(
            sink, first.schema, **writer_settings(chosen, compression, statistics, footers)
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
    row.update(file_bounds(footers[0], schema, stats))
    row.update({f"nans.{f.id}": nans[f.id] for f in stats if f.id in nans})
    return row


def _all(first: pa.Table, second: pa.Table, rest: Iterator[pa.Table]) -> Iterator[pa.Table]:
    yield first
    del first
    yield second
    del second
    yield from rest


class _Sink(io.RawIOBase):
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
