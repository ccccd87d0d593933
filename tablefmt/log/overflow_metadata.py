"""Overflow metadata files: `add` or `delete` columns too large for an entry. Spec: ADD-6, DEL-3."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tablefmt.errors import CorruptEntryError, CorruptTableError, UnsupportedFeatureError
from tablefmt.log.bounded_parquet import footer_of, most_expanded, read_bounded, rows_are
from tablefmt.log.codec import digest
from tablefmt.log.entry_columns import no_columns
from tablefmt.log.object_names import deletes_key, first_path_problem, is_side_key, overflow_key
from tablefmt.log.strict_json import unknown_columns
from tablefmt.model.features import needs_newer
from tablefmt.model.log_entry import OverflowFile, RowDeletes, StoredEntry
from tablefmt.model.positions import DELETE_COLUMNS, delete_columns
from tablefmt.store.buffers import reader_of
from tablefmt.store.object_store import PARQUET_BYTES_MAX, KeyNotFoundError, Store

OVERFLOW_ABOVE_BYTES = 256 << 10
"""Maximum size of `add` columns inside an entry, as JSON. Larger ones go to an overflow file
(ENT-2). A reader takes several times as long for them as for an overflow file.
"""

IMPORT_ABOVE_BYTES = 64 << 10
"""The same for imported files. Their paths and values repeat, and Parquet stores them compactly."""

OVERFLOW_LINES_MAX = 1 << 27
"""Maximum number of files in one overflow metadata file."""

DELETES_ABOVE_BYTES = 256 << 10
"""Maximum size of `delete` columns inside an entry, as JSON."""


def write_overflow(store: Store, transaction: str, columns: pa.Table) -> OverflowFile:
    """Store the `add` columns durably under the transaction's name."""
    return _write(store, overflow_key(transaction), columns)


def write_deletes(store: Store, transaction: str, deletes: RowDeletes) -> OverflowFile:
    """Store the `delete` columns durably under the transaction's name."""
    return _write(store, deletes_key(transaction), delete_columns(deletes))


def read_overflow(store: Store, side: OverflowFile) -> pa.Table:
    """Return the `add` columns of an overflow metadata file, checked against its entry.

    Raises:
        CorruptTableError: ADD-6, missing, of another length, or not of that SHA-256.
        CorruptEntryError: KEY-2. UnsupportedFeatureError: VER-2, a column that is not known.
    """
    return _added(side, _body(store, side, "ADD-6"))


def _added(side: OverflowFile, body: bytes) -> pa.Table:
    """Return `read_overflow` of these bytes."""
    columns = _decoded(side, body, "ADD-6", "add")
    none = no_columns(columns.column_names)
    if none:
        message = f"the overflow metadata file has an invalid column {none[0]!r:.100} for `add`"
        raise CorruptTableError(message, key=side.path, rule="ADD-6")
    try:
        imports = columns["import"] if "import" in columns.column_names else None
        problem = first_path_problem(columns["path"].cast(pa.string()), imports)
    except (pa.ArrowException, KeyError) as error:
        raise _unreadable(side, "ADD-6", error) from None
    if problem is not None:
        raise CorruptEntryError(problem, key=side.path, rule="KEY-2")
    return columns


def read_deletes(store: Store, side: OverflowFile) -> pa.Table:
    """Return the `delete` columns of an overflow metadata file, as DELETE_COLUMNS.

    Raises:
        CorruptTableError: DEL-3, missing, different from what the entry records, or against DEL-1.
        UnsupportedFeatureError: VER-2, an unknown column.
    """
    return _deleted(side, _body(store, side, "DEL-3"))


def _deleted(side: OverflowFile, body: bytes) -> pa.Table:
    """Return `read_deletes` of these bytes."""
    columns = _decoded(side, body, "DEL-3", "delete")
    try:
        columns = columns.select(DELETE_COLUMNS.names).cast(DELETE_COLUMNS)
        if (
            columns.num_rows != side.files
            or columns["file"].null_count + columns["rows"].null_count
        ):
            raise ValueError(f"it does not hold the {side.files} files of the entry")
        files, rows = columns["file"].to_numpy(), columns["rows"].to_numpy()
        if np.any(files[1:] <= files[:-1]) or np.any(files < 1) or np.any(rows < 1):
            raise ValueError("its files are not ascending, or a number of rows is not positive")
    except (pa.ArrowException, ValueError, KeyError) as error:
        raise _unreadable(side, "DEL-3", error) from None
    return columns


def read_overflows(
    store: Store, entries: Iterable[StoredEntry]
) -> tuple[dict[int, pa.Table], dict[int, pa.Table]]:
    """Return the `add` and the `delete` columns of entries with overflow metadata files, by
    version.

    Raises: as `read_overflow` and `read_deletes`.
    """
    adds: dict[int, pa.Table] = {}
    deletes: dict[int, pa.Table] = {}
    named = (
        (entry.version, side)
        for entry in (stored.entry for stored in entries)
        for side in (entry.add, entry.delete)
        if isinstance(side, OverflowFile)
    )
    while some := _within_bytes(named):
        for (version, side), body in zip(some, _bodies(store, some), strict=True):
            if is_side_key(side.path):
                adds[version] = _added(side, _checked(side, body, "ADD-6"))
            else:
                deletes[version] = _deleted(side, _checked(side, body, "DEL-3"))
    return adds, deletes


def _bodies(store: Store, some: Sequence[tuple[int, OverflowFile]]) -> Sequence[bytes | None]:
    """Return the bytes of overflow files, of several in one round of requests; None if absent."""
    # Request one byte more than recorded, to detect a longer file.
    ranges = [(side.path, 0, side.size + 1) for _, side in some]
    if len(ranges) > 1:
        return store.get_ranges(ranges)
    try:
        return [store.get_range(*ranges[0])]
    except KeyNotFoundError:
        return [None]


AT_ONCE_BYTES = 32 << 20
"""Overflow files of several entries are requested together up to this size."""


def _within_bytes(named: Iterator[tuple[int, OverflowFile]]) -> list[tuple[int, OverflowFile]]:
    """Return the next files, of at most AT_ONCE_BYTES or one more than that."""
    some: list[tuple[int, OverflowFile]] = []
    length = 0
    for version, side in named:
        _check_size(side, "ADD-6" if is_side_key(side.path) else "DEL-3")
        some.append((version, side))
        length += side.size
        if length >= AT_ONCE_BYTES:
            break
    return some


def _write(store: Store, key: str, columns: pa.Table) -> OverflowFile:
    """Write an overflow metadata file within the limits of readers (STO-25).

    Raises:
        UnsupportedFeatureError: the columns exceed the limits of one file.
    """
    body = _packed(columns, "zstd")
    if columns.nbytes > most_expanded(len(body)):
        body = _packed(columns, "none")
    if len(body) > PARQUET_BYTES_MAX or columns.num_rows > OVERFLOW_LINES_MAX:
        raise UnsupportedFeatureError(
            f"the commit names {columns.num_rows} files in {len(body)} bytes; an overflow metadata "
            f"file holds at most {OVERFLOW_LINES_MAX} files in {PARQUET_BYTES_MAX} bytes; commit "
            "in smaller pieces",
            ["entry-size"],
        )
    store.put(key, body)
    return OverflowFile(key, columns.num_rows, len(body), digest(body))


def _packed(columns: pa.Table, compression: str) -> bytes:
    sink = pa.BufferOutputStream()
    names = [] if compression == "none" else columns.column_names
    deltas = _deltas(columns) if "import" in names else {}
    pq.write_table(
        columns,
        sink,
        compression=compression,
        compression_level=_LEVEL if deltas else None,
        use_dictionary=[name for name in names if name not in deltas] or False,
        column_encoding=deltas or None,
        write_page_checksum=True,
        write_statistics=not deltas,
        store_schema=not deltas,
    )
    body: bytes = sink.getvalue().to_pybytes()
    return body


_LEVEL = 9
"""The level of Zstandard for columns of imported files: an entry is written once, read often."""


def _deltas(columns: pa.Table) -> dict[str, str]:
    """Return the encodings of paths, and of numbers that rarely repeat.

    The differences between adjacent values take less space than the values.
    """
    found = {"path": "DELTA_BYTE_ARRAY"}
    for name in columns.column_names:
        kind = columns[name].type
        varied = 2 * len(columns[name].unique()) > columns.num_rows
        counts = pa.types.is_integer(kind) and varied
        if counts or pa.types.is_date(kind) or pa.types.is_timestamp(kind):
            found[name] = "DELTA_BINARY_PACKED"
    return found


def _body(store: Store, side: OverflowFile, rule: str) -> bytes:
    """Return the bytes of one overflow metadata file, checked against its entry."""
    _check_size(side, rule)
    return _checked(side, _bodies(store, [(0, side)])[0], rule)


def _check_size(side: OverflowFile, rule: str) -> None:
    if side.size > PARQUET_BYTES_MAX or side.files > OVERFLOW_LINES_MAX:
        message = f"the overflow metadata file would be {side.size} bytes of {side.files} files"
        raise CorruptTableError(message, key=side.path, rule=rule)


def _checked(side: OverflowFile, body: bytes | None, rule: str) -> bytes:
    """Return the bytes after a check of their length and SHA-256."""
    if body is None:
        raise CorruptTableError("the overflow metadata file is missing", key=side.path, rule=rule)
    if len(body) != side.size or digest(body) != side.sha256:
        raise CorruptTableError(
            f"the overflow metadata file is not what the entry records: expected {side.size} bytes "
            f"with SHA-256 {side.sha256}",
            key=side.path,
            rule=rule,
        )
    return body


def _decoded(side: OverflowFile, body: bytes, rule: str, place: str) -> pa.Table:
    """Return the columns of one overflow metadata file within the bounds that the entry gives."""
    try:
        # Few bytes of Parquet may be many rows, so never read more rows than the entry records.
        footer = footer_of(body)
        if not rows_are(footer, side.files):
            raise ValueError(f"it does not hold the {side.files} files of the entry")
        names = footer.schema.to_arrow_schema().names
        beyond = unknown_columns(names, place)
        if beyond:
            raise needs_newer(side.path, beyond)
        columns = read_bounded(reader_of(body), footer, names)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise _unreadable(side, rule, error) from None
    return columns


def _unreadable(side: OverflowFile, rule: str, error: Exception) -> CorruptTableError:
    reason = str(error).splitlines()[0]
    message = f"the overflow metadata file cannot be read: {reason}"
    return CorruptTableError(message, key=side.path, rule=rule)
