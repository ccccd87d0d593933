"""Copies of data files from one store to another, byte for byte, several at once.

A copy is checked against the log of its source: length, checksum of the footer (ADD-7), and the
digest of a file without page checksums (IMP-6). So damage is not copied in silence.
Spec: CLN-3, DAT-5, DAT-6.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass

from tablefmt.data.file_checksum import PIECE_BYTES, read_ends
from tablefmt.data.file_verification import MISSING
from tablefmt.data.parallel_jobs import side_by_side
from tablefmt.errors import CorruptDataError
from tablefmt.store.object_store import KeyNotFoundError, Store

THREADS = 8
"""Files copied at once. Each has at most one piece in memory."""


@dataclass(frozen=True, slots=True)
class FileCopy:
    """One file to copy."""

    store: Store
    """The store with the file."""
    path: str
    into: str
    """Path of the copy."""
    size: int
    """Length in bytes by the log."""
    footer: int | None
    """Checksum of the footer by the log, if it is known."""
    digest: bytes | None
    """SHA-256 of the whole file by the log, if it is known."""


def copy_files(copies: Iterator[FileCopy], target: Store) -> Iterator[int]:
    """Copy files in their order. Yield the number of files so far after each one.

    Raises:
        CorruptDataError: DAT-5, a file is missing or damaged.
        StoreError: a store cannot answer.
    """
    done = side_by_side(lambda each: _copy(each, target), copies, THREADS)
    for number, _ in enumerate(done, 1):
        yield number


def _copy(each: FileCopy, target: Store) -> None:
    whole = hashlib.sha256()
    with target.open_output(each.into) as out:
        for piece in _pieces(each):
            whole.update(piece)
            out.write(piece)
        if each.digest is not None and each.digest != whole.digest():
            raise _damaged(each, "its bytes do not match the digest in the log", "IMP-6")
    (end,) = read_ends(target, [(each.into, each.size)])
    if end is None or not end.is_sound(each.size, each.footer):
        target.delete(each.into)
        raise _damaged(each, "its footer bytes do not match the checksum in the log", "ADD-7")


def _pieces(each: FileCopy) -> Iterator[bytes]:
    """Yield the bytes of a file of the right length."""
    for start in range(0, each.size, PIECE_BYTES):
        expected = min(PIECE_BYTES, each.size - start)
        # One byte beyond the expected end shows whether the file is longer.
        length = expected + (start + expected == each.size)
        try:
            piece = each.store.get_range(each.path, start, length)
        except KeyNotFoundError:
            raise _damaged(each, MISSING, "DAT-5") from None
        if len(piece) != expected:
            raise _damaged(each, f"its length is not the {each.size} bytes of the log", "DAT-5")
        yield piece


def _damaged(each: FileCopy, problem: str, rule: str) -> CorruptDataError:
    return CorruptDataError(problem, key=each.path, rule=rule)
