"""Files as one Arrow dataset, with constant columns that are known without reading pages.

A column that a file lacks has one value in all its rows: its partition value from the log, or the
column's initial value. Spec: DAT-4, DAT-8, DAT-12, SCH-7.
"""

from __future__ import annotations

import operator
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.fs

from tablefmt.data.fetch import DataFiles
from tablefmt.data.scanner import CODED_ROWS, coded_columns
from tablefmt.log.bounded_parquet import THRIFT_LIMITS
from tablefmt.model.arrow_types import arrow_type, file_schema
from tablefmt.model.defaults import default_array
from tablefmt.model.schema import Field, Schema, is_float
from tablefmt.store.buffers import lent

THREADS = 16
"""Footers read in parallel."""

_CHECKED = ds.ParquetFragmentScanOptions(
    page_checksum_verification=True, pre_buffer=True, **THRIFT_LIMITS
)

_PLAIN = ds.ParquetFileFormat(default_fragment_scan_options=_CHECKED)

Known = Mapping[str, pa.Scalar]
"""The value of a column in all rows of a file, by physical name. It may be NULL."""


def columns_read(files: pa.Table) -> list[str]:
    """Return the columns of a table of files that reading needs, apart from `vector`."""
    plain = ("path", "size", "rows", "footer", "deleted")
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
            there = frozenset(file.physical_schema.names)
            absent = {**initial, **lacking, **always}
            known |= {name: v for name, v in absent.items() if name not in there}
        known = {name: v for name, v in known.items() if v.is_valid}
        if not known:
            return file
        return kind.make_fragment(path, filesystem, _guarantee(known), file_size=size)

    described = (*(files[name].to_pylist() for name in ("path", "size", "rows")), exact, floats)
    # If no value depends on missing columns, no footer is read here.
    with ThreadPoolExecutor(max(1, min(THREADS, files.num_rows))) as pool:
        fragments = list((pool.map if looks else map)(fragment, *described))
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
        read_options=ds.ParquetReadOptions(dictionary_columns=columns),
        default_fragment_scan_options=_CHECKED,
    )


def known_values(fragment: ds.Fragment) -> dict[str, object]:
    """Return the values that `dataset_of` knows for a file, by physical name."""
    return dict(ds.get_partition_keys(fragment.partition_expression))


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
