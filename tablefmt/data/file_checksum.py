"""Checksum of a data file's footer bytes, and of all of a small file. Spec: ADD-7.

Page checksums cover neither footers nor page headers.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Sequence

from tablefmt.log.bounded_parquet import FOOTER_BYTES_MAX
from tablefmt.store.object_store import Range, Store

END_BYTES = 64 << 10
"""Least number of bytes covered, if the file is that long: one request fetches them anyway."""

_AFTER = 8
"""Bytes after the footer's metadata: its length, and the magic number."""


def footer_checksum(end: bytes) -> int | None:
    """Return the CRC-32 of a file's last END_BYTES, or of its footer if that is longer.

    Args:
        end: the whole file, or its last END_BYTES or more.

    Returns:
        The checksum, or None if `end` does not hold the whole footer.
    """
    length = footer_length(end)
    if not _AFTER < length <= len(end):
        return None
    return zlib.crc32(memoryview(end)[-max(length, END_BYTES) :])


class End:
    """The footer bytes of a file: at least those that ADD-7 covers, as far as they exist."""

    __slots__ = ("beyond", "body", "start")

    def __init__(self, start: int, body: bytes, size: int) -> None:
        self.start = start
        """Offset of the first byte in the file; 0 if the whole file is here."""
        self.beyond = start + len(body) > size
        """True if the file is longer than the log says."""
        self.body = body

    def shortened(self, size: int) -> End:
        """Return the bytes that `footer_checksum` covers alone, of a file of this length."""
        length = max(footer_length(self.body), END_BYTES)
        if self.start == 0 or len(self.body) <= length:
            return self
        return End(self.start + len(self.body) - length, self.body[-length:], size)

    def is_sound(self, size: int, expected: int | None) -> bool:
        """Return whether the file has this length and, if it is known, this checksum."""
        if self.beyond or self.start + len(self.body) != size:
            return False
        return expected is None or footer_checksum(self.body) == expected


def read_ends(
    store: Store, files: Sequence[tuple[str, int]], whole: int = END_BYTES
) -> list[End | None]:
    """Return the footer bytes of files; None for missing files.

    Takes one round trip, or two if a footer is long.

    Args:
        store: the store with the files.
        files: path, and length in bytes by the log.
        whole: files up to this length are read whole.

    Raises:
        StoreError: the store cannot answer.
    """
    starts = [0 if size <= whole else max(0, size - END_BYTES) for _, size in files]
    return read_ends_and(store, files, starts, ())[0]


def read_ends_and(
    store: Store, files: Sequence[tuple[str, int]], starts: Sequence[int], also: Sequence[Range]
) -> tuple[list[End | None], list[bytes | None]]:
    """Return the footer bytes as `read_ends` does, and further ranges of the same round trip.

    Args:
        store: the store with the files.
        files: path, and length in bytes by the log.
        starts: the first byte of each end. At least END_BYTES follow, as far as they exist.
        also: the ranges.

    Raises:
        StoreError: the store cannot answer.
    """
    starts = list(starts)
    # One byte beyond the expected end shows whether the file is longer.
    ranges = [(p, start, size + 1 - start) for (p, size), start in zip(files, starts, strict=True)]
    bodies = store.get_ranges([*ranges, *also])
    bodies, others = bodies[: len(ranges)], bodies[len(ranges) :]
    again = []
    for at, ((_, size), body) in enumerate(zip(files, bodies, strict=True)):
        if body is not None and starts[at] and starts[at] + len(body) == size:
            footer = footer_length(body)
            if len(body) < footer <= size:
                starts[at] = size - footer
                again.append(at)
    if again:
        longer = [(files[at][0], starts[at], files[at][1] + 1 - starts[at]) for at in again]
        for at, body in zip(again, store.get_ranges(longer), strict=True):
            bodies[at] = body
    ends = [
        None if body is None else End(start, body, size)
        for body, start, (_, size) in zip(bodies, starts, files, strict=True)
    ]
    return ends, others


def footer_length(end: bytes) -> int:
    """Return the length that the footer declares, with its trailer, up to the limit for footers.

    The reader of the footer detects one that is shorter than declared.
    """
    length = int.from_bytes(end[-_AFTER:-4], "little") + _AFTER
    return min(length, FOOTER_BYTES_MAX)


PIECE_BYTES = 8 << 20
"""Bytes of a file that are hashed at once."""


def file_digest(store: Store, path: str, size: int) -> bytes:
    """Return the SHA-256 of a whole file (IMP-6).

    Raises:
        KeyNotFoundError: it is missing. StoreError: no answer.
    """
    whole = hashlib.sha256()
    for start in range(0, size, PIECE_BYTES):
        whole.update(store.get_range(path, start, min(PIECE_BYTES, size - start)))
    return whole.digest()
