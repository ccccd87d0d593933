"""What is wrong with a data file that cannot be read. Spec: DAT-5, ADD-7."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq

from tablefmt.data.checksum import read_ends
from tablefmt.data.fetch import open_data_file
from tablefmt.errors import StoreError
from tablefmt.log.bounded_parquet import THRIFT_LIMITS, footer_of
from tablefmt.store.protocol import KeyNotFoundError, Store

# Damage shows as anything: bytes that are no UTF-8, lengths beyond memory, types that do not exist.
DAMAGE = (OSError, pa.ArrowException, StoreError, KeyNotFoundError, MemoryError, ValueError)


def check_file(
    store: Store, path: str, size: int, rows: int, *, deep: bool, footer: int | None = None
) -> str | None:
    """What is wrong with one data file, or None.

    Args:
        store: where it is.
        path: its key.
        size: bytes the log says.
        rows: rows the log says.
        deep: read every page and verify its checksum; otherwise length and footer alone.
        footer: its checksum in the log (ADD-7), if it is there.

    Raises:
        StoreError: the store cannot answer.
    """
    try:
        (end,) = read_ends(store, [(path, size)])
        if end is None:
            return "it is missing"
        if end.beyond or end.start + len(end.body) != size:
            return f"it is {store.size(path)} bytes long, and the log says {size}"
        if not end.is_sound(size, footer):
            return "its bytes are not those that were written"
        # A footer is found from the end of a file, so the end alone will do for the file.
        held = footer_of(end.body).num_rows
        if held != rows:
            return f"it holds {held} rows, and the log says {rows}"
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


def is_no_answer(store: Store, error: BaseException) -> bool:
    """Whether it says nothing of a file: what a disk refuses for good, such as a link, does."""
    return isinstance(error, StoreError) and (store.remote or error.retryable)


def first_problem(store: Store, files: pa.Table) -> tuple[str, str] | None:
    """The first of these files with which something is wrong, and what; every page is read."""
    for path, size, rows, footer in described(files):
        problem = check_file(store, path, size, rows, deep=True, footer=footer)
        if problem is not None:
            return path, problem
    return None


def described(files: pa.Table) -> list[tuple[str, int, int, int | None]]:
    """Path, size, rows and checksum of each file."""
    names = ("path", "size", "rows")
    columns = [files[name].to_pylist() for name in names]
    known = "footer" in files.column_names
    columns.append(files["footer"].to_pylist() if known else [None] * files.num_rows)
    return list(zip(*columns, strict=True))


def first_line(error: BaseException) -> str:
    """What an error says, for a sentence of ours."""
    return str(error).splitlines()[0] if str(error) else type(error).__name__
