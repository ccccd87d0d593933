"""Log descriptions of data files that another program wrote, from their footers.

Spec: ADD-1 .. ADD-4, ADD-7, DAT-3, VAL-2.
"""

from __future__ import annotations

import decimal
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tablefmt.data.column_bounds import file_bounds
from tablefmt.data.column_cast import check_nested_nulls
from tablefmt.data.data_writer import Gathered
from tablefmt.data.file_checksum import footer_checksum, footer_length
from tablefmt.data.row_reader import read_files
from tablefmt.errors import ConstraintViolationError, CorruptDataError, StoreError
from tablefmt.log.bounded_parquet import footer_of
from tablefmt.model.log_entry import AddedFiles, Metadata
from tablefmt.model.partition_transforms import transform_of
from tablefmt.model.scalar_values import encode, encode_value
from tablefmt.model.schema import (
    Array,
    Decimal,
    Field,
    Map,
    Schema,
    Struct,
    Type,
    is_float,
    is_nested,
    nullable_field,
    physical_field,
)
from tablefmt.store.object_store import KeyNotFoundError, Store

THREADS = 8
"""Footers read in parallel: enough to hide a remote store's latency."""

_TAIL = 64 << 10

_UNKNOWN = object()
_EXACT = decimal.Context(prec=80)


def describe_files(
    store: Store,
    keys_and_sizes: Sequence[tuple[str, int]],
    metadata: Metadata,
    stats: Sequence[Field],
) -> AddedFiles | None:
    """Return the `add` columns of these files, in their order, without files that have no rows.

    It reads footers only, and a column where its footer is not conclusive. These are a partition
    column whose values are not proved equal, and a NOT NULL column that is not proved free of NULL.

    Args:
        store: the store with the files.
        keys_and_sizes: keys, and lengths in bytes as the store lists them.
        metadata: schema and partitioning of the files; columns have the table's types and physical
            names.
        stats: columns to keep bounds for.

    Raises:
        ConstraintViolationError: DAT-3, NULL in a NOT NULL column; ADD-4, a file with rows of two
            partitions.
        CorruptDataError: DAT-5, a file cannot be read.
    """
    describer = _Describer(store, metadata, stats)
    gathered = Gathered()
    with ThreadPoolExecutor(min(THREADS, max(len(keys_and_sizes), 1))) as pool:
        for row in pool.map(describer.row, keys_and_sizes):
            if row is not None:
                gathered.take(row)
    return gathered.added()


def read_footer(store: Store, key: str, size: int) -> tuple[pq.FileMetaData, int | None]:
    """Return the footer of a file, and the checksum of its bytes (ADD-7).

    Raises:
        CorruptDataError: DAT-5, the file cannot be read.
    """
    try:
        end = store.get_range(key, max(0, size - _TAIL), min(size, _TAIL))
        checksum = footer_checksum(end)
        if checksum is None:
            length = min(size, footer_length(end))
            end = store.get_range(key, size - length, length)
            checksum = footer_checksum(end)
        # Parquet locates the footer from the file's end, so the last bytes suffice.
        return footer_of(end), checksum
    except (OSError, ValueError, pa.ArrowException, StoreError, KeyNotFoundError) as error:
        first = str(error).splitlines()[0]
        raise CorruptDataError(f"it cannot be read: {first}", key=key, rule="DAT-5") from None


class _Describer:
    """Describes one file at a time. Thread-safe."""

    def __init__(self, store: Store, metadata: Metadata, stats: Sequence[Field]) -> None:
        self._store = store
        self._metadata = metadata
        self._stats = stats
        self._partitions = metadata.partition_fields

    def row(self, key_and_size: tuple[str, int]) -> dict[str, Any] | None:
        """Return one file's row of ADD-1's columns; None if it holds no rows."""
        key, size = key_and_size
        footer, checksum = read_footer(self._store, key, size)
        if footer.num_rows == 0:
            return None
        row: dict[str, Any] = {"path": key, "size": size, "rows": footer.num_rows}
        row["footer"] = checksum
        row.update(file_bounds(footer, self._stats))
        self._check_not_null(row, footer)
        for field in self._partitions:
            row[f"partition.{field.id}"] = self._partition_value(row, footer, field)
        return row

    def _partition_value(self, row: dict[str, Any], footer: pq.FileMetaData, field: Field) -> Any:
        if field.transform is not None:
            made = transform_of(field, self._metadata.schema)
            values = made.values(self._column(row, made.column))
        else:
            value = _footer_value(footer, field)
            if value is not _UNKNOWN:
                return value
            values = self._column(row, field)
        if is_float(field.type):
            # VAL-2: one zero and one NaN.
            values = pc.add(values, pa.scalar(0.0, values.type))
            values = pc.if_else(pc.is_nan(values), pa.scalar(float("nan"), values.type), values)
        distinct = pc.unique(values)
        if len(distinct) != 1:
            raise ConstraintViolationError(
                f"data file {row['path']} holds rows of {len(distinct)} partitions of column "
                f"{field.name!r}, expected one (rule ADD-4). Nothing was written."
            )
        return encode(distinct, field.type)[0]

    def _column(self, row: dict[str, Any], field: Field) -> Any:
        files = pa.table({name: [row[name]] for name in ("path", "size", "rows")})
        named = replace(nullable_field(field), name="value")
        schema = Schema((named,), self._metadata.schema.last_id)
        batches = list(read_files(self._store, files, schema, [named]))
        return pa.Table.from_batches(batches)["value"].combine_chunks()

    def _check_not_null(self, row: dict[str, Any], footer: pq.FileMetaData) -> None:
        written = footer.schema.to_arrow_schema()
        for field in self._metadata.schema.fields:
            at = written.get_field_index(field.physical)
            if at < 0 or not _may_break(written.field(at), field):
                continue
            known = row.get(f"nulls.{field.id}")
            if known == 0 and not is_nested(field.type):
                continue
            column = physical_field(field)
            values = self._column(row, column)
            if not column.nullable and values.null_count:
                raise ConstraintViolationError(
                    f"column {field.name!r} is NOT NULL, but {values.null_count} of "
                    f"{len(values)} rows of data file {row['path']} have NULL. Nothing was written."
                )
            check_nested_nulls(values, column.type, field.name)


def _footer_value(footer: pq.FileMetaData, field: Field) -> Any:
    """Return the one value of all rows, encoded, if the footer proves it; else `_UNKNOWN`."""
    place = _place(footer, field)
    if place is None or is_float(field.type):
        return _UNKNOWN
    distinct: set[Any] = set()
    for i in range(footer.num_row_groups):
        group = footer.row_group(i)
        if group.num_rows == 0:
            continue
        stats = group.column(place).statistics
        if stats is None or not stats.has_null_count:
            return _UNKNOWN
        if stats.null_count == group.num_rows:
            distinct.add(None)
            continue
        if stats.null_count or not stats.has_min_max or stats.min_raw != stats.max_raw:
            return _UNKNOWN
        distinct.add(stats.min_raw)
    if len(distinct) != 1:
        return _UNKNOWN
    return _encoded(distinct.pop(), field.type)


def _place(footer: pq.FileMetaData, field: Field) -> int | None:
    """Return the leaf index of a flat top-level column."""
    schema = footer.schema
    for at in range(len(schema)):
        column = schema.column(at)
        if column.path == field.physical and column.max_repetition_level == 0:
            return at if column.name == field.physical else None
    return None


def _encoded(raw: Any, kind: Type) -> Any:
    """Encode a raw footer value of a file with the table's own types."""
    if raw is None:
        return None
    if isinstance(kind, Decimal):
        unscaled = raw if type(raw) is int else int.from_bytes(raw, "big", signed=True)
        value = decimal.Decimal(unscaled).scaleb(-kind.scale, _EXACT)
        return encode_value(value, "decimal")
    name = str(kind)
    return raw.decode("utf-8") if name == "string" else encode_value(raw, name)


def _may_break(written: pa.Field, field: Field) -> bool:
    """Return whether a file with the column `written` can hold NULL where `field` forbids it."""
    if written.nullable and not field.nullable:
        return True
    return _type_may_break(written.type, field.type)


def _type_may_break(written: pa.DataType, kind: Type) -> bool:
    if isinstance(kind, Struct):
        return any(
            _may_break(written.field(written.get_field_index(f.physical)), f) for f in kind.fields
        )
    if isinstance(kind, Array):
        element = written.value_field
        return (element.nullable and not kind.nullable) or _type_may_break(
            element.type, kind.element
        )
    if isinstance(kind, Map):
        item = written.item_field
        return (
            (item.nullable and not kind.nullable)
            or _type_may_break(written.key_type, kind.key)
            or _type_may_break(item.type, kind.value)
        )
    return False
