"""One Parquet file of any length, written row group by row group: never all of it in memory.

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
    """The same rows in order, as full row groups and a last one that may be shorter (DAT-16)."""
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
    """Write row groups as one file; durable when it returns. Two of them are in memory at most.

    Args:
        store: where to.
        key: the file's.
        groups: at least one, as of `row_groups`; columns by physical name, cast and checked.
        schema: what they are written under.
        stats: columns to keep bounds of.
        may_be_nan: ids of columns that are not known to hold no NaN: they get no statistics
            (DAT-9), and so no bounds, unless all rows are one row group.
        compression: a codec of Parquet's, by Arrow's name for it.

    Returns:
        The file's row of ADD-1's columns, partition values left out.

    Raises:
        StoreError: the store refused it. Then nothing is there.
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
    """A stream that remembers how much went through it, and the end: for the checksum (ADD-7)."""

    def __init__(self, out: IO[bytes]) -> None:
        self._out = out
        self._last: deque[bytes] = deque()
        self._kept = 0
        self._all = False
        self.size = 0

    def writable(self) -> bool:
        """True."""
        return True

    def tell(self) -> int:
        """Bytes so far."""
        return self.size

    def write(self, body: Any) -> int:
        """Hand on, and keep the last of it."""
        data = bytes(body)
        self._out.write(data)
        self.size += len(data)
        self._last.append(data)
        self._kept += len(data)
        while not self._all and self._kept - len(self._last[0]) >= END_BYTES:
            self._kept -= len(self._last.popleft())
        return len(data)

    def keep_all(self) -> None:
        """From here on comes the footer, however long."""
        self._all = True

    def end(self) -> bytes:
        """The last bytes: END_BYTES or more, and the whole footer."""
        return b"".join(self._last)
