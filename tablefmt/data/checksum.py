"""The checksum of a data file's end: its footer, and all of a small file. Spec: ADD-7.

Page checksums leave footers and the headers of pages out.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pyarrow.fs

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
    return _checksum(lambda start, length: store.get_range(path, start, length), size)


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
    known = [(at, *row) for at, row in enumerate(zip(*columns, strict=True)) if row[2] is not None]
    filesystem, root = store.arrow_filesystem()
    if not isinstance(filesystem, pyarrow.fs.PyFileSystem):
        # Threads only get in each other's way where a read takes microseconds.
        prefix = root + "/" if root else ""
        return next((f[0] for f in known if not _is_whole(filesystem, prefix, f)), None)
    with ThreadPoolExecutor(min(THREADS, max(1, len(known)))) as pool:
        found = zip(known, pool.map(lambda f: _is_stored_whole(store, f), known), strict=True)
        return next((file[0] for file, whole in found if not whole), None)


_File = tuple[int, str, int, int]
"""Place, path, size, checksum."""


def _is_whole(filesystem: pyarrow.fs.FileSystem, prefix: str, file: _File) -> bool:
    _, path, size, expected = file
    try:
        with filesystem.open_input_file(prefix + path) as source:
            return _checksum(lambda start, length: source.read_at(length, start), size) == expected
    except OSError:
        return False


def _is_stored_whole(store: Store, file: _File) -> bool:
    _, path, size, expected = file
    try:
        return stored_checksum(store, path, size) == expected
    except KeyNotFoundError:
        return False


def _checksum(read: Callable[[int, int], bytes], size: int) -> int | None:
    """Of a file that `read` gives bytes of, from a start, at most so many."""
    end = read(max(0, size - END_BYTES), min(size, END_BYTES))
    length = _length(end)
    if len(end) < length <= size:
        end = read(size - length, length)
    return footer_checksum(end)


def _length(end: bytes) -> int:
    return int.from_bytes(end[-_AFTER:-4], "little") + _AFTER
