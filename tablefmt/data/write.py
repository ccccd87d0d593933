"""Arrow data to Parquet files: split by partition, bounded in memory, durable when it returns.

Spec: DAT-1 .. DAT-6, ADD-1 .. ADD-5, ADD-7.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tablefmt.data.bounds import file_bounds, nan_counts
from tablefmt.data.cast import cast_to_schema, match_columns
from tablefmt.data.checks import Checks
from tablefmt.data.checksum import footer_checksum
from tablefmt.log.names import data_folder
from tablefmt.model.arrow_types import file_schema
from tablefmt.model.entry import AddedFiles, Metadata
from tablefmt.model.schema import Field, Schema, is_float, is_nested, walk
from tablefmt.model.values import encode
from tablefmt.store.protocol import Store

FLUSH_BYTES = 256 << 20
"""Rows are held in memory up to this many bytes of Arrow data, then written."""

TINY_BYTES = 2048
"""Below this a file is not compressed: setting zstd up takes longer than it saves."""

THREADS = 8
"""Files written at once: enough to hide a remote store's latency."""


@dataclass(slots=True)
class Gathered:
    """What is known of the files written so far, as columns (ADD-1)."""

    columns: dict[str, list[Any]] = field(default_factory=dict)
    count: int = 0

    def take(self, row: dict[str, Any]) -> None:
        """Add one file; columns it lacks are unknown (VAL-4)."""
        for name, value in row.items():
            column = self.columns.setdefault(name, [])
            column.extend([None] * (self.count - len(column)))
            column.append(value)
        self.count += 1

    def added(self) -> AddedFiles | None:
        """The columns at equal length; None if there is no file."""
        for column in self.columns.values():
            column.extend([None] * (self.count - len(column)))
        return AddedFiles(self.columns) if self.count else None


def write_data(
    store: Store,
    transaction: str,
    reader: pa.RecordBatchReader,
    metadata: Metadata,
    stats: Sequence[Field],
    *,
    prefix: str = "",
    compression: str = "zstd",
    rows_max: int | None = None,
) -> AddedFiles | None:
    """Write every row of `reader` under the transaction's folder.

    Args:
        store: where to; each file is durable before this returns (ADD-5).
        transaction: names the folder.
        reader: rows; columns by name.
        metadata: schema, partitioning and constraints to write under.
        stats: columns to keep bounds of.
        prefix: of the files' names: keeps several writers of one transaction apart.
        compression: a codec of Parquet's, by Arrow's name for it.
        rows_max: of a file, from 1 on; None for no bound.

    Returns:
        The files, none without rows; None if there were no rows.

    Raises:
        SchemaMismatchError, ConstraintViolationError (DAT-3, DAT-13), InvalidPredicateError: the
            data does not fit; UnsupportedFeatureError: a constraint that only Spark can evaluate.
            The files written so far are the caller's to remove.
    """
    positions = match_columns(reader.schema, metadata.schema)
    shape = file_schema(metadata.schema)
    gathered, checks = Gathered(), Checks(metadata)
    for chunk in _chunks(reader):
        rows = cast_to_schema(chunk, positions, metadata.schema, shape)
        checks.check(rows)
        parts = list(_bounded(_split(rows, metadata), rows_max))
        keys = [
            f"{data_folder(transaction)}{prefix}{gathered.count + i}.parquet"
            for i in range(len(parts))
        ]
        jobs = [(key, part, values) for key, (part, values) in zip(keys, parts, strict=True)]

        def write(job: tuple[str, pa.Table, dict[str, Any]]) -> dict[str, Any]:
            key, part, values = job
            return {**_write_file(store, key, part, metadata, stats, compression), **values}

        for row in _run(write, jobs):
            gathered.take(row)
    return gathered.added()


def _run(write: Any, jobs: list[Any]) -> Iterable[dict[str, Any]]:
    if len(jobs) <= 1:
        return map(write, jobs)
    with ThreadPoolExecutor(min(THREADS, len(jobs))) as pool:
        return list(pool.map(write, jobs))


def _chunks(reader: pa.RecordBatchReader) -> Iterator[pa.Table]:
    """Tables of about FLUSH_BYTES, none of them empty."""
    held: list[pa.RecordBatch] = []
    size = 0
    for whole in reader:
        # A table that is given as one batch may be of any size.
        rows = max(1, whole.num_rows * FLUSH_BYTES // max(whole.nbytes, 1))
        for start in range(0, whole.num_rows, rows):
            batch = whole.slice(start, rows)
            held.append(batch)
            size += batch.nbytes
            if size >= FLUSH_BYTES:
                yield pa.Table.from_batches(held)
                held, size = [], 0
    if held:
        yield pa.Table.from_batches(held)


def _split(rows: pa.Table, metadata: Metadata) -> Iterator[tuple[pa.Table, dict[str, Any]]]:
    """Rows by partition, each with its exact values (VAL-2). Order within a partition is kept."""
    columns = [metadata.schema.by_id(i) for i in metadata.partition_by]
    if not columns:
        yield rows, {}
        return
    keys = [_key(rows[c.physical], c) for c in columns]
    codes = np.zeros(rows.num_rows, np.int64)
    for key in keys:
        encoded = key.dictionary_encode(null_encoding="encode")
        # Renumbered after every column, so the product never overflows.
        combined = codes * len(encoded.dictionary) + encoded.indices.to_numpy(zero_copy_only=False)
        codes = np.unique(combined, return_inverse=True)[1]
    order = np.argsort(codes, kind="stable")
    starts = np.flatnonzero(np.diff(codes[order], prepend=-1))
    ordered = rows.take(pa.array(order)) if len(starts) > 1 else rows
    ends = [*starts[1:], rows.num_rows]
    firsts = pa.array(order[starts])
    values = {c.id: encode(k.take(firsts), c.type) for c, k in zip(columns, keys, strict=True)}
    for at, (start, end) in enumerate(zip(starts, ends, strict=True)):
        part = {f"partition.{i}": column[at] for i, column in values.items()}
        yield ordered.slice(int(start), int(end - start)), part


def _key(values: pa.ChunkedArray, column: Field) -> pa.Array:
    """Partition values that compare as they should: one zero, one NaN."""
    whole = values.combine_chunks()
    if is_float(column.type):
        whole = pc.add(whole, pa.scalar(0.0, whole.type))
        whole = pc.if_else(pc.is_nan(whole), pa.scalar(float("nan"), whole.type), whole)
    return whole


def _bounded(
    parts: Iterable[tuple[pa.Table, dict[str, Any]]], rows_max: int | None
) -> Iterator[tuple[pa.Table, dict[str, Any]]]:
    """The same parts, none with more than `rows_max` rows."""
    for rows, values in parts:
        step = rows_max or rows.num_rows
        for start in range(0, rows.num_rows, step):
            yield rows.slice(start, step), values


def _write_file(
    store: Store,
    key: str,
    rows: pa.Table,
    metadata: Metadata,
    stats: Sequence[Field],
    compression: str,
) -> dict[str, Any]:
    """One Parquet file (DAT-1), and its row of ADD-1's columns."""
    sink = pa.BufferOutputStream()
    footers: list[pq.FileMetaData] = []
    nans = nan_counts(rows, metadata.schema.fields)
    with pq.ParquetWriter(
        sink,
        rows.schema,
        compression=compression if rows.nbytes > TINY_BYTES else "none",
        write_page_checksum=True,
        store_schema=False,
        write_statistics=_with_statistics(metadata.schema, nans),
        metadata_collector=footers,
    ) as writer:
        writer.write_table(rows)
    body = sink.getvalue().to_pybytes()
    store.put(key, body)
    footer = footer_checksum(body)
    row = {"path": key, "size": len(body), "rows": rows.num_rows, "footer": footer}
    row.update(file_bounds(footers[0], metadata.schema, stats))
    row.update({f"nans.{f.id}": nans[f.id] for f in stats if f.id in nans})
    return row


def _with_statistics(schema: Schema, nans: Mapping[int, int]) -> bool | list[str]:
    """The columns whose statistics may stand in the file (DAT-9); True for all.

    Statistics leave NaN out, and readers that order NaN above all, Spark among them, would drop
    row groups that hold it.
    """
    nested = [f for f in schema.fields if is_nested(f.type)]
    hiding = any(is_float(kind) for f in nested for kind in walk(f.type))
    if not hiding and not any(nans.values()):
        return True
    flat = [f for f in schema.fields if not is_nested(f.type) and not nans.get(f.id)]
    # A dotted name could be taken for a path into a struct.
    return [f.physical for f in flat if not (nested and "." in f.physical)]
