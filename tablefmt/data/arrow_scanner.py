"""Files as one Arrow dataset, and the settings of its scanner.

The settings are the memory pool, and text columns to read as dictionary codes. Results do not
depend on them: columns have the types of the schema.

Constant columns are known without reading pages. A column that a file lacks has one value in all
its rows: its partition value from the log, or the column's initial value. Spec: DAT-4, DAT-8,
DAT-12, SCH-7.
"""

from __future__ import annotations

import operator
from collections.abc import Collection, Mapping, Sequence
from functools import reduce

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.fs
import pyarrow.parquet as pq
from numpy.typing import NDArray

from tablefmt.data.file_prefetch import DataFiles
from tablefmt.log.bounded_parquet import THRIFT_LIMITS
from tablefmt.model.arrow_types import arrow_type, file_schema
from tablefmt.model.defaults import default_array
from tablefmt.model.import_layouts import LAYOUT
from tablefmt.model.schema import Field, Schema, is_float
from tablefmt.store.buffers import lent

POSITION = "\0position"
"""Name of the last column of a batch with positions. No table column can have it (SCH-2)."""

READAHEAD = 2
"""Files decoded ahead. Two keep all cores busy; Arrow's default of four takes half as much memory
again.
"""

CODED_BYTES = 2
"""Text is read as codes if a value takes at most this many bytes, as with a few thousand distinct
values.
"""

CODED_ROWS = 1 << 15
"""Files with fewer rows are read faster without this analysis."""

_CODES = frozenset({"PLAIN", "PLAIN_DICTIONARY", "RLE_DICTIONARY", "RLE", "BIT_PACKED"})
"""Encodings from which Arrow can make codes. It fails on others, even after these."""


def scanner(
    files: ds.Dataset,
    names: Sequence[str],
    pushed: pc.Expression | None = None,
    computed: Mapping[str, pc.Expression] | None = None,
    readahead: int = READAHEAD,
) -> ds.Scanner:
    """Return a scan of columns, followed by computed expressions.

    Args:
        files: the files.
        names: names of the columns.
        pushed: keep rows for which it is true; None: all.
        computed: additional columns, by name.
        readahead: files that are decoded ahead.
    """
    columns = {name: pc.field(name) for name in names}
    return files.scanner(
        columns={**columns, **(computed or {})},
        filter=pushed,
        fragment_readahead=readahead,
        memory_pool=_pool(),
    )


def coded_columns(footer: pq.FileMetaData, names: Collection[str]) -> list[str]:
    """Return the text columns that are best read as codes, because they have few distinct values.

    Arrow assembles text value by value, which takes twice as long.

    Args:
        footer: footer of the file.
        names: top-level text columns that no condition reads.
    """
    if not footer.num_row_groups:
        return []
    first = footer.row_group(0)
    few = [
        at
        for at in range(first.num_columns)
        if first.column(at).path_in_schema in names and _has_few_values(first.column(at))
    ]
    groups = [footer.row_group(at) for at in range(footer.num_row_groups if few else 0)]
    return [
        first.column(at).path_in_schema
        for at in few
        if all(_CODES.issuperset(group.column(at).encodings) for group in groups)
    ]


def _has_few_values(chunk: pq.ColumnChunkMetaData) -> bool:
    small = chunk.total_uncompressed_size <= CODED_BYTES * chunk.num_values
    return bool(small and chunk.has_dictionary_page)


def replace_fragments(
    dataset: ds.FileSystemDataset, fragments: Sequence[ds.ParquetFileFragment]
) -> ds.FileSystemDataset:
    """Return a dataset of the same kind over other files."""
    return ds.FileSystemDataset(fragments, dataset.schema, dataset.format, dataset.filesystem)


def keep_rows(columns: Sequence[pa.Array], keep: NDArray[np.bool_]) -> list[pa.Array]:
    """Return the rows for which `keep` is true.

    For a whole batch, Arrow would take the rows by index, which takes twice as long.
    """
    pool = _pool()
    bits = pa.py_buffer(np.packbits(keep, bitorder="little"))
    mask = pa.Array.from_buffers(pa.bool_(), len(keep), [None, bits])
    return [pc.filter(_without_validity(column), mask, memory_pool=pool) for column in columns]


def _without_validity(column: pa.Array) -> pa.Array:
    """Return a column without its validity bitmap, if it has no NULL.

    Arrow's reader makes one for most columns. With it, a filter takes 1.5 to 5 times as long.
    """
    kind = column.type
    plain = pa.types.is_primitive(kind) or pa.types.is_decimal(kind)
    if column.null_count or not (plain or pa.types.is_string(kind) or pa.types.is_binary(kind)):
        return column
    return pa.Array.from_buffers(kind, len(column), [None, *column.buffers()[1:]], 0, column.offset)


def _pool() -> pa.MemoryPool:
    """Return the C library's allocator instead of Arrow's default mimalloc, or the allocator set.

    It reuses the memory of one batch for the next. Mimalloc requests most of it from the system
    again, and zeroing takes a fifth of a scan.
    """
    chosen = pa.default_memory_pool()
    return pa.system_memory_pool() if chosen.backend_name == "mimalloc" else chosen


_CHECKED = ds.ParquetFragmentScanOptions(
    page_checksum_verification=True, pre_buffer=True, **THRIFT_LIMITS
)

_PLAIN = ds.ParquetFileFormat(
    # INT96 would be ns in Arrow, which ends in 2262 and wraps (DAT-7).
    read_options=ds.ParquetReadOptions(coerce_int96_timestamp_unit="us"),
    default_fragment_scan_options=_CHECKED,
)

Known = Mapping[str, pa.Scalar]
"""The value of a column in all rows of a file, by physical name. It may be NULL."""


def columns_read(files: pa.Table) -> list[str]:
    """Return the columns of a table of files that reading needs, apart from `vector`."""
    plain = ("path", "size", "rows", "footer", "deleted", LAYOUT)
    return [n for n in files.column_names if n in plain or n.startswith("partition.")]


def dataset_of(
    data: DataFiles, files: pa.Table, schema: Schema, unlooked: Collection[str] = ()
) -> ds.FileSystemDataset:
    """Return the files as an Arrow dataset over physical names.

    A partition value from the log replaces the file's column. A NULL, and a float, which the log
    keeps less exactly (VAL-2), apply only if the file lacks the column. Other missing columns have
    their initial value, or NULL. Narrower values are cast (DAT-12).

    Args:
        data: the bytes of the files.
        files: `path` and `size`, and `partition.<id>` of the partition columns.
        schema: the snapshot's schema.
        unlooked: physical names of columns that no condition reads; text columns among them may be
            dictionary-decoded.
    """
    filesystem = pyarrow.fs.PyFileSystem(lent(data))
    initial = {
        field.physical: default_array(field.initial, field.type)[0]
        for field in schema.fields
        if field.initial is not None
    }
    columns = [f for f in schema.fields if is_known(files, f)]
    known = {*initial, *(f.physical for f in columns)}
    text = _text_columns(schema, frozenset(unlooked) - known)
    exact = _values(files, [f for f in columns if not is_float(f.type)])
    floats = _values(files, [f for f in columns if is_float(f.type)])
    looks = bool(initial) or any(value.is_valid for known in floats for value in known.values())

    def fragment(
        path: str, size: int, rows: int, always: Known, lacking: Known
    ) -> ds.ParquetFileFragment:
        known = dict(always)
        kind = _PLAIN
        if text and rows >= CODED_ROWS:
            kind = _coded(coded_columns(data.footer(path), text))
        file = kind.make_fragment(path, filesystem, file_size=size)
        if looks:
            there = data.column_names(path) or frozenset(file.physical_schema.names)
            absent = {**initial, **lacking, **always}
            known |= {name: v for name, v in absent.items() if name not in there}
        known = {name: v for name, v in known.items() if v.is_valid}
        if not known:
            return file
        return kind.make_fragment(path, filesystem, _guarantee(known), file_size=size)

    described = (*(files[name].to_pylist() for name in ("path", "size", "rows")), exact, floats)
    fragments = list(map(fragment, *described))
    return ds.FileSystemDataset(fragments, file_schema(schema), _PLAIN, filesystem)


def _text_columns(schema: Schema, unlooked: frozenset[str]) -> frozenset[str]:
    """Return text columns that may be read as dictionary codes."""
    return frozenset(
        field.name
        for field in file_schema(schema)
        # Arrow would read a dot as a path into a struct.
        if field.name in unlooked and pa.types.is_string(field.type) and "." not in field.name
    )


def _coded(columns: Sequence[str]) -> ds.ParquetFileFormat:
    """Return a format that reads these columns as dictionary codes.

    Arrow's threads decode the text when they cast to the schema.
    """
    if not columns:
        return _PLAIN
    return ds.ParquetFileFormat(
        read_options=ds.ParquetReadOptions(
            dictionary_columns=columns, coerce_int96_timestamp_unit="us"
        ),
        default_fragment_scan_options=_CHECKED,
    )


def known_values(fragment: ds.Fragment, schema: pa.Schema) -> dict[str, pa.Scalar]:
    """Return the values that `dataset_of` knows for a file and the file lacks, by physical name.

    Args:
        fragment: the file.
        schema: the columns.
    """
    there = frozenset(fragment.physical_schema.names)
    lacking = {field.name: field.type for field in schema if field.name not in there}
    if not lacking:
        return {}
    try:
        known = ds.get_partition_keys(fragment.partition_expression)
        return {n: pa.scalar(v, lacking[n]) for n, v in known.items() if n in lacking}
    except OverflowError:
        # Python has no date beyond the year 9999. Arrow fills in the column of a row.
        named = {name: pc.field(name) for name in lacking}
        row = fragment.head(1, schema=schema, columns=named, use_threads=False)
        return {name: row[name][0] for name in lacking if row.num_rows}


def is_known(files: pa.Table, field: Field) -> bool:
    """Return whether the log has a column's value for these files as a partition value."""
    name = f"partition.{field.id}"
    return name in files.column_names and files[name].type == arrow_type(field.type)


def _values(files: pa.Table, columns: Sequence[Field]) -> list[dict[str, pa.Scalar]]:
    """Return the partition values of every file."""
    known: list[dict[str, pa.Scalar]] = [{} for _ in range(files.num_rows)]
    for column in columns:
        for at, value in enumerate(files[f"partition.{column.id}"]):
            known[at][column.physical] = value
    return known


def _guarantee(known: Known) -> pc.Expression:
    """Return the expression that is true for every row of the file."""
    return reduce(operator.and_, [pc.field(name) == value for name, value in known.items()])
