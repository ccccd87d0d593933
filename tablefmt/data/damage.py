"""Diagnosis of data files that cannot be read. Spec: DAT-5, ADD-7."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tablefmt.data.checksum import read_ends
from tablefmt.data.fetch import open_data_file
from tablefmt.errors import CorruptDataError, StoreError
from tablefmt.log.bounded_parquet import (
    EXPANDED_FREE,
    THRIFT_LIMITS,
    footer_of,
    most_expanded,
)
from tablefmt.store.protocol import KeyNotFoundError, Store

# Damage can cause any of these: bytes that are not UTF-8, huge lengths, unknown types.
DAMAGE = (OSError, pa.ArrowException, StoreError, KeyNotFoundError, MemoryError, ValueError)


def check_file(
    store: Store, path: str, size: int, rows: int, *, deep: bool, footer: int | None = None
) -> str | None:
    """Return the problem of one data file, or None if it is sound.

    Args:
        store: the store with the file.
        path: its key.
        size: length in bytes by the log.
        rows: row count by the log.
        deep: read every page and verify its checksum; otherwise check length and footer only.
        footer: its checksum in the log (ADD-7), if the log has it.

    Raises:
        StoreError: the store cannot answer.
    """
    try:
        (end,) = read_ends(store, [(path, size)])
        if end is None:
            return "it is missing"
        if end.beyond or end.start + len(end.body) != size:
            return f"it is {store.size(path)} bytes long, but the log says {size}"
        if not end.is_sound(size, footer):
            return "its footer bytes do not match the checksum in the log"
        # Parquet locates the footer from the file's end, so the last bytes suffice.
        held = footer_of(end.body).num_rows
        if held != rows:
            return f"it holds {held} rows, but the log says {rows}"
        if deep:
            with open_data_file(store, path, size) as source:
                file = pq.ParquetFile(source, page_checksum_verification=True, **THRIFT_LIMITS)
                for _ in file.iter_batches():
                    pass
    except KeyNotFoundError:
        return "it is missing"
    except DAMAGE as error:
        if is_no_answer(store, error):
            raise
        return f"it cannot be read: {first_line(error)}"
    return None


def check_masks(files: pa.Table) -> None:
    """Check that a mask of the rows of each file that has lost some takes bounded memory (STO-25).

    An entry may say any number of rows, and a mask has a byte for each of them.

    Args:
        files: `path`, `size`, `rows`, and `vector` where rows are deleted.

    Raises:
        CorruptDataError: DEL-1, a file is too short for its rows.
    """
    if "vector" not in files.column_names:
        return
    rows, sizes = (files[name].to_numpy() for name in ("rows", "size"))
    gone = files["vector"].is_valid().to_numpy()
    for at in np.flatnonzero(gone & (rows > EXPANDED_FREE)).tolist():
        if rows[at] > most_expanded(int(sizes[at])):
            problem = f"the log says {rows[at]} rows, too many for its {sizes[at]} bytes"
            raise CorruptDataError(problem, key=files["path"][at].as_py(), rule="DEL-1")


def is_no_answer(store: Store, error: BaseException) -> bool:
    """Return whether an error says nothing about the file.

    A permanent refusal of a local disk, such as a symbolic link, does concern the file.
    """
    return isinstance(error, StoreError) and (store.remote or error.retryable)


def first_problem(store: Store, files: pa.Table) -> tuple[str, str] | None:
    """Return the first damaged file, and its problem; every page is read."""
    for path, size, rows, footer in described(files):
        problem = check_file(store, path, size, rows, deep=True, footer=footer)
        if problem is not None:
            return path, problem
    return None


def described(files: pa.Table) -> list[tuple[str, int, int, int | None]]:
    """Return path, size, rows and checksum of each file."""
    names = ("path", "size", "rows")
    columns = [files[name].to_pylist() for name in names]
    known = "footer" in files.column_names
    columns.append(files["footer"].to_pylist() if known else [None] * files.num_rows)
    return list(zip(*columns, strict=True))


def first_line(error: BaseException) -> str:
    """Return the first line of an error's text, for use in a message."""
    return str(error).splitlines()[0] if str(error) else type(error).__name__
