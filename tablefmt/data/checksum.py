"""The checksum of a data file's end: its footer, and all of a small file. Spec: ADD-7.

Page checksums leave footers and the headers of pages out.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa

from tablefmt.store.protocol import KeyNotFoundError, Store

THREADS = 16
"""Files looked at at once: enough to hide a remote store's latency."""

END_BYTES = 64 << 10
"""Covered at least, if the file is that long: what one request brings anyway."""

_AFTER = 8
"""Bytes after a footer's metadata: its length, and the magic number."""


def footer_checksum(end: bytes) -> int | None:
    """CRC-32 of a file's last END_BYTES, or of its footer if that is longer.

    Args:
        end: the whole file, or its last END_BYTES or more.

    Returns:
        None if `end` does not hold the whole footer.
    """
    length = _length(end)
    if not _AFTER < length <= len(end):
        return None
    return zlib.crc32(memoryview(end)[-max(length, END_BYTES) :])


def stored_checksum(store: Store, path: str, size: int) -> int | None:
    """The checksum of a stored file's end; None if there is no footer in it.

    Raises:
        KeyNotFoundError: the file is missing. StoreError: the store cannot answer.
    """
    end = store.get_range(path, max(0, size - END_BYTES), min(size, END_BYTES))
    length = _length(end)
    if len(end) < length <= size:
        end = store.get_range(path, size - length, length)
    return footer_checksum(end)


def first_damaged(store: Store, files: pa.Table) -> int | None:
    """The place of the first file that is missing or whose end is not as it was written.

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
