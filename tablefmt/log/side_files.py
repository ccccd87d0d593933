"""Side files: `add` or `delete` columns of an entry too large for them. Spec: ADD-6, DEL-3."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tablefmt.errors import CorruptEntryError, CorruptTableError, UnsupportedFeatureError
from tablefmt.log.bounded_parquet import footer_of, most_expanded, read_bounded, rows_are
from tablefmt.log.codec import digest
from tablefmt.log.columns import no_columns
from tablefmt.log.known import unknown_columns
from tablefmt.log.names import deletes_key, first_path_problem, side_key
from tablefmt.model.entry import RowDeletes, SideFile, StoredEntry
from tablefmt.model.features import needs_newer
from tablefmt.model.positions import DELETE_COLUMNS, delete_columns
from tablefmt.store.buffers import reader_of
from tablefmt.store.lengths import PARQUET_BYTES_MAX
from tablefmt.store.protocol import KeyNotFoundError, Store

SIDE_ABOVE_BYTES = 1 << 20
"""Entries whose `add` columns are larger than this in JSON keep them in a side file (ENT-2)."""

SIDE_LINES_MAX = 1 << 27
"""Files of one side file, at most."""

DELETES_ABOVE_BYTES = 256 << 10
"""The same for `delete`."""


def write_side(store: Store, transaction: str, columns: pa.Table) -> SideFile:
    """Store the `add` columns durably under the transaction's name."""
    return _write(store, side_key(transaction), columns)


def write_deletes(store: Store, transaction: str, deletes: RowDeletes) -> SideFile:
    """Store the `delete` columns durably under the transaction's name."""
    return _write(store, deletes_key(transaction), delete_columns(deletes))


def read_side(store: Store, side: SideFile) -> pa.Table:
    """The `add` columns a side file holds, checked against what the entry says of it.

    Raises:
        CorruptTableError: ADD-6, missing, of another length, or not of that SHA-256.
        CorruptEntryError: KEY-2. UnsupportedFeatureError: VER-2, a column that is not known.
    """
    columns = _read(store, side, "ADD-6", "add")
    none = no_columns(columns.column_names)
    if none:
        message = f"the side file has a column {none[0]!r:.100}, which `add` cannot have"
        raise CorruptTableError(message, key=side.path, rule="ADD-6")
    try:
        problem = first_path_problem(columns["path"].cast(pa.string()))
    except (pa.ArrowException, KeyError) as error:
        raise _unreadable(side, "ADD-6", error) from None
    if problem is not None:
        raise CorruptEntryError(problem, key=side.path, rule="KEY-2")
    return columns


def read_deletes(store: Store, side: SideFile) -> pa.Table:
    """The `delete` columns a side file holds, as DELETE_COLUMNS.

    Raises:
        CorruptTableError: DEL-3, missing, not what the entry says, or not what DEL-1 asks for.
        UnsupportedFeatureError: VER-2, an unknown column.
    """
    columns = _read(store, side, "DEL-3", "delete")
    try:
        columns = columns.select(DELETE_COLUMNS.names).cast(DELETE_COLUMNS)
        if (
            columns.num_rows != side.files
            or columns["file"].null_count + columns["rows"].null_count
        ):
            raise ValueError("it does not hold the files it should")
        files, rows = columns["file"].to_numpy(), columns["rows"].to_numpy()
        if np.any(files[1:] <= files[:-1]) or np.any(files < 1) or np.any(rows < 1):
            raise ValueError("its files do not rise, or a number of rows is none")
    except (pa.ArrowException, ValueError, KeyError) as error:
        raise _unreadable(side, "DEL-3", error) from None
    return columns


def read_sides(
    store: Store, entries: Iterable[StoredEntry]
) -> tuple[dict[int, pa.Table], dict[int, pa.Table]]:
    """What `read_side` and `read_deletes` give for the entries that have a side file, by version.

    Raises: as these two.
    """
    adds: dict[int, pa.Table] = {}
    deletes: dict[int, pa.Table] = {}
    for stored in entries:
        entry = stored.entry
        if isinstance(entry.add, SideFile):
            adds[entry.version] = read_side(store, entry.add)
        if isinstance(entry.delete, SideFile):
            deletes[entry.version] = read_deletes(store, entry.delete)
    return adds, deletes


def _write(store: Store, key: str, columns: pa.Table) -> SideFile:
    """Write what a reader takes (STO-25).

    Raises:
        UnsupportedFeatureError: it is more than one side file may hold.
    """
    body = _packed(columns, "zstd")
    if columns.nbytes > most_expanded(len(body)):
        body = _packed(columns, "none")
    if len(body) > PARQUET_BYTES_MAX or columns.num_rows > SIDE_LINES_MAX:
        raise UnsupportedFeatureError(
            f"the commit names {columns.num_rows} files in {len(body)} bytes, and a side file "
            f"holds {SIDE_LINES_MAX} in {PARQUET_BYTES_MAX}; commit in smaller pieces",
            ["entry-size"],
        )
    store.put(key, body)
    return SideFile(key, columns.num_rows, len(body), digest(body))


def _packed(columns: pa.Table, compression: str) -> bytes:
    sink = pa.BufferOutputStream()
    plain = compression == "none"
    pq.write_table(
        columns, sink, compression=compression, use_dictionary=not plain, write_page_checksum=True
    )
    body: bytes = sink.getvalue().to_pybytes()
    return body


def _read(store: Store, side: SideFile, rule: str, place: str) -> pa.Table:
    if side.size > PARQUET_BYTES_MAX or side.files > SIDE_LINES_MAX:
        message = f"the side file would be {side.size} bytes of {side.files} files"
        raise CorruptTableError(message, key=side.path, rule=rule)
    try:
        # One byte more than there should be tells a file that is longer.
        body = store.get_range(side.path, 0, side.size + 1)
    except KeyNotFoundError:
        raise CorruptTableError("the side file is missing", key=side.path, rule=rule) from None
    if len(body) != side.size or digest(body) != side.sha256:
        raise CorruptTableError(
            "the side file is not what the entry says", key=side.path, rule=rule
        )
    try:
        # A few bytes of Parquet may be many rows: nothing is read of more than the entry says.
        footer = footer_of(body)
        if not rows_are(footer, side.files):
            raise ValueError("it does not hold the files it should")
        names = footer.schema.to_arrow_schema().names
        beyond = unknown_columns(names, place)
        if beyond:
            raise needs_newer(side.path, beyond)
        columns = read_bounded(reader_of(body), footer, names)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise _unreadable(side, rule, error) from None
    return columns


def _unreadable(side: SideFile, rule: str, error: Exception) -> CorruptTableError:
    reason = str(error).splitlines()[0]
    return CorruptTableError(f"the side file cannot be read: {reason}", key=side.path, rule=rule)
