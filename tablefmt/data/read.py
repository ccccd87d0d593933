"""Rows out of data files, through Arrow's own scanner; page checksums are always verified.

Spec: DAT-4, DAT-5, DAT-7.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from tablefmt.errors import CorruptDataError, InvalidPredicateError, StoreError
from tablefmt.model.arrow_types import arrow_type, file_schema
from tablefmt.model.schema import Field, Schema
from tablefmt.store.protocol import KeyNotFoundError, Store

_CHECKED = ds.ParquetFragmentScanOptions(page_checksum_verification=True, pre_buffer=True)

_DAMAGE = (OSError, pa.ArrowInvalid, StoreError, KeyNotFoundError)


def dataset_of(store: Store, files: pa.Table, schema: Schema) -> ds.FileSystemDataset:
    """The files (columns `path` and `size`) as an Arrow dataset over physical names."""
    filesystem, root = store.arrow_filesystem()
    kind = ds.ParquetFileFormat(default_fragment_scan_options=_CHECKED)
    prefix = root + "/" if root else ""
    fragments = [
        kind.make_fragment(prefix + path, filesystem, file_size=size)
        for path, size in zip(files["path"].to_pylist(), files["size"].to_pylist(), strict=True)
    ]
    return ds.FileSystemDataset(fragments, file_schema(schema), kind, filesystem)


def read_files(
    store: Store,
    files: pa.Table,
    schema: Schema,
    columns: Sequence[Field],
    condition: pc.Expression | None = None,
) -> Iterator[pa.RecordBatch]:
    """Batches in the order of `files`, with the columns asked for under their logical names.

    Args:
        store: where the files are.
        files: live files: `path`, `size`, `rows`.
        schema: the snapshot's.
        columns: columns of the answer, in order.
        condition: over physical names; rows for which it is true are kept.

    Raises:
        CorruptDataError: DAT-5, a file is missing, of the wrong length, or fails a checksum.
        InvalidPredicateError: Arrow cannot evaluate the condition on these columns.
    """
    wanted = answer_schema(columns)
    if files.num_rows == 0:
        return
    projection = {f.name: pc.field(f.physical) for f in columns}
    dataset = dataset_of(store, files, schema)
    try:
        scanner = dataset.scanner(columns=projection, filter=condition)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError, TypeError) as error:
        raise InvalidPredicateError(f"the condition does not fit the columns: {error}") from None
    try:
        for batch in scanner.to_batches():
            if batch.num_rows:
                yield batch.cast(wanted) if batch.schema != wanted else batch
    except _DAMAGE as error:
        raise _diagnosis(store, files, error) from None


def count_rows(
    store: Store, files: pa.Table, schema: Schema, condition: pc.Expression | None
) -> int:
    """How many rows `read_files` would give. Raises the same."""
    if condition is None:
        return int(pc.sum(files["rows"]).as_py() or 0)
    # Count by columns of no width: statistics may answer for whole row groups.
    try:
        return int(dataset_of(store, files, schema).count_rows(filter=condition))
    except (pa.ArrowNotImplementedError, pa.ArrowTypeError, TypeError) as error:
        raise InvalidPredicateError(f"the condition does not fit the columns: {error}") from None
    except _DAMAGE as error:
        raise _diagnosis(store, files, error) from None


def answer_schema(columns: Sequence[Field]) -> pa.Schema:
    """What a reader sees of these columns."""
    return pa.schema([pa.field(f.name, arrow_type(f.type), f.nullable) for f in columns])


def check_file(store: Store, path: str, size: int, rows: int, *, deep: bool) -> str | None:
    """What is wrong with one data file, or None.

    Args:
        store: where it is.
        path: its key.
        size: bytes the log says.
        rows: rows the log says.
        deep: read every page and verify its checksum; otherwise length and footer alone.
    """
    try:
        found = store.size(path)
        if found != size:
            return f"it is {found} bytes long, and the log says {size}"
        filesystem, root = store.arrow_filesystem()
        name = f"{root}/{path}" if root else path
        with filesystem.open_input_file(name) as source:
            file = pq.ParquetFile(source, page_checksum_verification=True)
            if file.metadata.num_rows != rows:
                return f"it holds {file.metadata.num_rows} rows, and the log says {rows}"
            if deep:
                for _ in file.iter_batches():
                    pass
    except KeyNotFoundError:
        return "it is missing"
    except (OSError, pa.ArrowException, StoreError) as error:
        return f"it cannot be read: {str(error).splitlines()[0]}"
    return None


def _diagnosis(store: Store, files: pa.Table, error: BaseException) -> CorruptDataError:
    """Which file it was: Arrow's own message may name none."""
    columns = (files["path"].to_pylist(), files["size"].to_pylist(), files["rows"].to_pylist())
    for path, size, rows in zip(*columns, strict=True):
        problem = check_file(store, path, size, rows, deep=True)
        if problem is not None:
            return CorruptDataError(problem, key=path, rule="DAT-5")
    first = str(error).splitlines()[0] if str(error) else type(error).__name__
    return CorruptDataError(f"the data files could not be read: {first}", rule="DAT-5")


def physical_schema(schema: Schema) -> Schema:
    """The same columns called by their physical names: for conditions on data files."""
    fields = tuple(replace(f, name=f.physical) for f in schema.fields)
    return Schema(fields, schema.last_id)
