"""Reads of files in an open directory, without following links. Spec: STO-2, STO-8."""

from __future__ import annotations

import errno
import os
import stat

from tablefmt.store.lengths import TooLong, most_of
from tablefmt.store.local_errors import store_error, translated
from tablefmt.store.local_files import Handle

READ_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
"""Flags that refuse a symbolic link and do not block on a pipe."""


def is_taken(directory: Handle, name: str) -> bool:
    """Return whether the name exists, for a file of any type."""
    try:
        os.stat(name, dir_fd=directory.fd, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def read_or_none(directory: Handle, name: str, key: str) -> bytes | None:
    """Return a whole file; None if it is missing."""
    # A probe for the head of the log misses often, and stat is cheaper than a failed open.
    if not is_taken(directory, name):
        return None
    with translated("read", key):
        try:
            fd = os.open(name, READ_FLAGS, dir_fd=directory.fd)
        except FileNotFoundError:
            return None
        try:
            return read_whole(fd, key)
        finally:
            os.close(fd)


def read_whole(fd: int, key: str) -> bytes:
    """Return a whole open file, or TooLong if it is over the limit for its key (STO-24)."""
    size = regular_size(fd)
    return read_at(fd, 0, size) if size <= most_of(key) else TooLong(size)


def range_or_none(directory: Handle, name: str, key: str, start: int, length: int) -> bytes | None:
    """Return a range of a file, clipped at its end; None if the file is missing."""
    # No context manager: this runs for every data file of a scan.
    fd = -1
    try:
        fd = os.open(name, READ_FLAGS, dir_fd=directory.fd)
        return read_at(fd, start, max(0, min(length, regular_size(fd) - start)))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise store_error("read", key, error) from error
    finally:
        if fd >= 0:
            os.close(fd)


def regular_size(fd: int) -> int:
    """Return the length in bytes. Raises OSError if it is no regular file (STO-8)."""
    status = os.fstat(fd)
    if not stat.S_ISREG(status.st_mode):
        is_folder = stat.S_ISDIR(status.st_mode)
        raise OSError(errno.EISDIR if is_folder else errno.ENXIO, "not a regular file")
    return status.st_size


def read_at(fd: int, start: int, length: int) -> bytes:
    """Return `length` bytes from `start`; fewer if the file ends before."""
    parts: list[bytes] = []
    while length > 0:
        part = os.pread(fd, length, start)
        if not part:
            break
        parts.append(part)
        start += len(part)
        length -= len(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)
