"""What every store does, and the words it answers with.

Spec: STO-1 .. STO-13 (spec/store.md). Keys are relative to the root, '/'-separated.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from math import inf
from typing import IO, Protocol, TypeAlias, Union

import pyarrow as pa

from tablefmt.errors import StoreError, TablefmtError
from tablefmt.store.tally import Tally

MAX_KEY_BYTES = 1024


@dataclass(frozen=True, slots=True)
class Written:
    """The object was created by this request and is durable."""


@dataclass(frozen=True, slots=True)
class Exists:
    """The key was taken. By whom is for the reader of the object to find out (STO-4)."""


@dataclass(frozen=True, slots=True)
class NoAnswer:
    """The store did not say. The object may be there, or may still arrive (STO-5)."""

    reason: str


@dataclass(frozen=True, slots=True)
class Refused:
    """The store said no, and nothing of this request was or will be applied (STO-6)."""

    reason: str


# Evaluated at run time, so the union is spelt for Python 3.10's typing.
PutReply: TypeAlias = Union[Written, Exists, NoAnswer, Refused]  # noqa: UP007


@dataclass(frozen=True, slots=True)
class StoredObject:
    """One object of a listing: key relative to the root, bytes, microseconds since 1970 UTC."""

    key: str
    size: int
    modified_us: int


class KeyNotFoundError(TablefmtError):
    """No object has this key."""

    kind = "key_not_found"

    def __init__(self, key: str) -> None:
        super().__init__(f"no object {key!r} in the store. Check that the table is complete.")
        self.key = key

    def __reduce__(self) -> tuple[type[KeyNotFoundError], tuple[str]]:
        return type(self), (self.key,)


class InvalidKeyError(StoreError, ValueError):
    """A key outside the grammar of STO-2."""

    kind = "invalid_key"


def check_key(key: str) -> str:
    """Return `key`, or raise InvalidKeyError if it breaks STO-2. Pure."""
    problem = _key_problem(key)
    if problem:
        shown = repr(key if len(key) <= 80 else key[:80] + "…")
        raise InvalidKeyError(
            f"the key {shown} is refused: {problem}. Use a relative path of plain parts "
            "separated by '/'."
        )
    return key


def check_prefix(prefix: str) -> str:
    """Return `prefix` (empty, or the beginning of a key), or raise InvalidKeyError (STO-2)."""
    if prefix:
        check_key(prefix[:-1] if prefix.endswith("/") else prefix)
    return prefix


def _key_problem(key: str) -> str:
    if not key:
        return "it is empty"
    if "\0" in key or "\\" in key:
        return "it holds a NUL or a backslash"
    if "//" in key or key[0] == "/" or key[-1] == "/":
        return "it has an empty part"
    if "." in key and any(part in (".", "..") for part in key.split("/")):
        return "it has a '.' or '..' part"
    try:
        encoded = key.encode("utf-8")
    except UnicodeEncodeError:
        return "it is not Unicode text"
    if len(encoded) > MAX_KEY_BYTES:
        return f"it is longer than {MAX_KEY_BYTES} bytes"
    return ""


Range: TypeAlias = tuple[str, int, int]
"""Key, first byte, length in bytes; clipped at the end of the object."""


class Slate(Protocol):
    """What writers who take turns leave for each other: log entries that were in the log."""

    def read(self) -> list[tuple[int, bytes]]:
        """By version, contiguous. Whoever uses them checks that they follow what is known."""

    def leave(self, entries: Sequence[tuple[int, bytes]]) -> None:
        """Add entries, in order; those that are there already are skipped."""


class Store(Protocol):
    """One table root. Safe to share between threads; pickles by address and options.

    Every method raises StoreError when the store cannot answer, and InvalidKeyError for a key
    outside STO-2. No message and no repr holds a secret.
    """

    @property
    def uri(self) -> str:
        """The root as shown to people: no secrets, no slash at the end."""

    @property
    def identity(self) -> str:
        """The same for two stores that answer from one place by one endpoint."""

    @property
    def probe_scope(self) -> str:
        """The same for stores that one probe answers for (STO-12)."""

    @property
    def tally(self) -> Tally:
        """The requests so far."""

    @property
    def unsafe_single_writer(self) -> bool:
        """True if the caller vouches for being the only writer (STO-12)."""

    def put_if_absent(self, key: str, body: bytes) -> PutReply:
        """Create `key` with exactly `body` unless the key is taken. Never raises for the store.

        Durable when Written. When Exists, `sync` makes the name that is there durable (STO-3).
        """

    def put(self, key: str, body: bytes) -> None:
        """Create or replace `key`, all or nothing, durable on return (STO-7)."""

    def get(self, key: str) -> bytes:
        """The whole object; `TooLong` if it is longer than one of its name may be (STO-24).

        Raises KeyNotFoundError.
        """

    def get_many(self, keys: Sequence[str]) -> list[bytes | None]:
        """What `get` gives of each, in order; None where absent; one round trip in depth."""

    def get_range(self, key: str, start: int, length: int) -> bytes:
        """Bytes `start` .. `start + length`, clipped at the end. Raises KeyNotFoundError."""

    def get_ranges(self, ranges: Sequence[Range]) -> list[bytes | None]:
        """What `get_range` gives of each, in order; None where absent; one round trip in depth."""

    def size(self, key: str) -> int:
        """Length in bytes. Raises KeyNotFoundError."""

    def list_after(self, prefix: str, after: str | None = None) -> Iterator[StoredObject]:
        """Objects below `prefix` with key > `after`, ascending by UTF-8 bytes (STO-9)."""

    def delete(self, key: str) -> None:
        """Remove `key`; absent is fine."""

    def delete_many(self, keys: Sequence[str]) -> Mapping[str, str]:
        """Remove objects, absent ones included; what could not be removed, with the reason.

        One failure stops nothing else. Durable on return.
        """

    def remove_empty(self, folder: str) -> None:
        """Remove the directory `folder`, with those below it, as far as they hold nothing (STO-15).

        Never an error: only a local store has directories, and one that stays does no harm.
        """

    def open_output(self, key: str) -> AbstractContextManager[IO[bytes]]:
        """A stream that becomes the object at exit; nothing is left if the body raises (STO-7)."""

    def sync(self, keys: Iterable[str]) -> None:
        """Make objects that another process wrote durable (STO-10).

        A local store raises KeyNotFoundError for one that is missing; others do not look.
        """

    @property
    def remote(self) -> bool:
        """Whether a request takes a network's round trip, so that it pays to ask early and for
        much at once."""

    @property
    def has_folders(self) -> bool:
        """Whether a folder is a thing of its own, and takes as long to make durable as a file."""

    def open_file(self, key: str) -> pa.NativeFile | None:
        """The object as an open file that Arrow reads by itself; None where there are no files.

        Raises KeyNotFoundError.
        """

    def turn(self, key: str, seconds: float = inf) -> AbstractContextManager[Slate | None]:
        """Wait for one's turn to create names beside `key`, `seconds` at most (STO-14).

        A courtesy between writers who would lose races to each other; nothing relies on it. Where
        they also tell each other what they met, the slate is had.
        """

    def server_time_us(self) -> int | None:
        """The store's clock by its last answer and the time since, in microseconds; None if it
        has none, or has not answered yet."""

    def clock_us(self) -> int:
        """Return what the clock says that dates the objects of a listing, µs UTC (STO-10).

        It costs no request: a local store makes a file without a name.
        """


def check_range(start: int, length: int) -> None:
    """Raise InvalidKeyError unless `start` and `length` are both at least 0."""
    if start < 0 or length < 0:
        raise InvalidKeyError(
            f"the range {start}+{length} is refused: start and length are at least 0."
        )
