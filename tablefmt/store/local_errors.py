"""Explanations of the errors of a local disk. Spec: STO-6, STO-8."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager

from tablefmt.errors import StoreError

_CAUSES = {
    errno.ENOSPC: "the disk is full; free some space",
    errno.EDQUOT: "the disk quota is used up; free some space or raise it",
    errno.EFBIG: "the file is larger than the system allows; raise the limit",
    errno.EROFS: "the file system is read-only; mount it for writing",
    errno.EACCES: "permission is denied; give this user access",
    errno.EPERM: "permission is denied; give this user access",
    errno.ELOOP: "a symbolic link is in the way; links below the root are not followed",
    errno.ENOTDIR: "a part of the path is a file or a symbolic link; move it away",
    errno.EISDIR: "a directory has this name; move it away",
    errno.ENXIO: "a pipe, socket or device has this name; move it away",
    errno.ENAMETOOLONG: "the file system takes no name this long; use a shorter one",
    errno.ESTALE: "the table's directory was removed or replaced since it was opened; open the "
    "table again",
    errno.EMFILE: "too many files are open; raise the limit",
    errno.EIO: "the disk reports an input/output error; check its health",
}


@contextmanager
def translated(verb: str, key: str) -> Iterator[None]:
    """Convert an OSError of the block into a StoreError."""
    try:
        yield
    except OSError as error:
        raise store_error(verb, key, error) from error


LINK_REFUSALS = frozenset(
    {
        errno.ENOSPC,
        errno.EDQUOT,
        errno.EROFS,
        errno.EACCES,
        errno.EPERM,
        errno.EMLINK,
        errno.EXDEV,
        errno.ENAMETOOLONG,
        errno.ENOENT,
        errno.ENOTDIR,
    }
)
"""Errors of link(2) that prove that no link was made. Any other error leaves the outcome open."""


def store_error(verb: str, key: str, error: OSError) -> StoreError:
    """Return the error for a failed operation, with its cause."""
    retryable = error.errno in (errno.EIO, errno.EMFILE, errno.ETIMEDOUT, errno.EAGAIN)
    return StoreError(f"cannot {verb} {key!r}: {explain(error)}.", retryable=retryable)


def explain(error: OSError) -> str:
    """Return one clause: the cause, and the remedy."""
    name = errno.errorcode.get(error.errno or 0, "unknown error")
    cause = _CAUSES.get(error.errno or 0, os.strerror(error.errno or 0))
    return f"{cause} ({name})"
