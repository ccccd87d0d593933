"""The checksum of a Parquet footer, which page checksums leave out. Spec: ADD-7."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa

from tablefmt.store.protocol import KeyNotFoundError, Store

THREADS = 16
"""Footers read at once: enough to hide a remote store's latency."""

_TAIL = 64 << 10
_AFTER = 8
"""Bytes after a footer's metadata: its length, and the magic number."""


def footer_checksum(end: bytes) -> int | None:
    """CRC-32 of the footer in the last bytes of a file; None if they do not hold all of it."""
    length = _length(end)
    return zlib.crc32(memoryview(end)[-length:]) if _AFTER < length <= len(end) else None


def stored_checksum(store: Store, path: str, size: int) -> int | None:
    """The checksum of a stored file's footer; None if there is no footer in it.

    Raises:
        KeyNotFoundError: the file is missing. StoreError: the store cannot answer.
    """
    end = store.get_range(path, max(0, size - _TAIL), min(size, _TAIL))
    length = _length(end)
    if len(end) < length <= size:
        end = store.get_range(path, size - length, length)
    return footer_checksum(end)


def first_damaged(store: Store, files: pa.Table) -> int | None:
    """The place of the first file that is missing or whose footer is not the one written.

    Args:
        store: where the files are.
        files: `path`, `size`, and, where it is known, `footer`.

    Raises:
        StoreError: the store cannot answer.
    """
    if "footer" not in files.column_names:
        return None
    columns = (files[name].to_pylist() for name in ("path", "size", "footer"))
    rows = [row for row in enumerate(zip(*columns, strict=True)) if row[1][2] is not None]

    def damaged(row: tuple[int, Sequence[object]]) -> bool:
        path, size, expected = row[1]
        assert isinstance(path, str)
        assert isinstance(size, int)
        try:
            return stored_checksum(store, path, size) != expected
        except KeyNotFoundError:
            return True

    if len(rows) <= 1:
        return next((row[0] for row in rows if damaged(row)), None)
    with ThreadPoolExecutor(min(THREADS, len(rows))) as pool:
        found = zip(rows, pool.map(damaged, rows), strict=True)
        return next((row[0] for row, is_damaged in found if is_damaged), None)


def _length(end: bytes) -> int:
    return int.from_bytes(end[-_AFTER:-4], "little") + _AFTER
