"""Length limits for objects that are read whole: one check for every length a store reports.

A store knows an object's length before it reads a byte: from the open file, or from the response
header. For an object over its limit, the caller gets `TooLong` in place of bytes. Spec: STO-24.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_MIB = 1 << 20
_NUMBER, _NONCE = r"\d{20}", r"[0-9a-f]{32}"


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of object, identified by its key."""

    name: str
    pattern: str
    """Regular expression for the whole key."""
    most: int
    """Longest object of this kind, in bytes."""
    why: str


HINT_BYTES_MAX = 4096
ENTRY_BYTES_MAX = 64 * _MIB
ROOT_BYTES_MAX = 256 * _MIB
BLOCK_BYTES_MAX = 65 * _MIB
PARQUET_BYTES_MAX = 2048 * _MIB

KINDS = (
    Kind("hint", r"_log/hint\.json", HINT_BYTES_MAX, "two names and a number"),
    Kind("entry", rf"_log/{_NUMBER}\.json", ENTRY_BYTES_MAX, "ENT-2"),
    Kind(
        "root of a checkpoint",
        rf"_log/checkpoints/{_NUMBER}\.{_NONCE}\.json",
        ROOT_BYTES_MAX,
        "CKP-2: applications may be many",
    ),
    Kind(
        "block of entries",
        rf"_log/history/{_NUMBER}-{_NUMBER}\.jsonl\.gz",
        BLOCK_BYTES_MAX,
        "HIS-1: 64 MiB of entries that gzip cannot make smaller",
    ),
    Kind(
        "part of a checkpoint",
        rf"_log/checkpoints/parts/{_NONCE}\.parquet",
        PARQUET_BYTES_MAX,
        "CKP-3: 131,072 files of 16 KiB of bounds each",
    ),
    Kind(
        "side file",
        rf"(?:_log/side|deletes)/{_NONCE}\.parquet",
        PARQUET_BYTES_MAX,
        "ADD-6, DEL-3: a commit of millions of files",
    ),
    Kind("other name below _log", r"_log/.*", ENTRY_BYTES_MAX, "none is longer than an entry"),
    Kind(
        "other object", r".*", PARQUET_BYTES_MAX, "the footer of a data file, in memory as a whole"
    ),
)
"""All kinds. The first kind whose pattern matches the key applies."""

_PATTERNS = re.compile("|".join(f"({kind.pattern})" for kind in KINDS), re.DOTALL)


def kind_of(key: str) -> Kind:
    """Return the kind of the object with this key. Pure."""
    match = _PATTERNS.fullmatch(key)
    assert match is not None
    assert match.lastindex is not None
    return KINDS[match.lastindex - 1]


class TooLong(bytes):
    """Placeholder for an object over its length limit. It holds the length and no bytes.

    A caller that ignores `length` sees an incomplete object and reports it.
    """

    length: int

    def __new__(cls, length: int) -> TooLong:
        """Record the length that the store reports."""
        made = super().__new__(cls)
        made.length = length
        return made

    def __bool__(self) -> bool:
        """Return True: the object exists."""
        return True


def length_of(body: bytes) -> int:
    """Return the length in bytes of the object that was read."""
    return body.length if isinstance(body, TooLong) else len(body)


def most_of(key: str) -> int:
    """Return the length limit in bytes for the object with this key. Pure."""
    return kind_of(key).most
