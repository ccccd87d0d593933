"""The interface of every store, and the replies of its writes.

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
    """This request created the object, and the object is durable."""


@dataclass(frozen=True, slots=True)
class Exists:
    """The key was taken. The caller reads the object to learn who created it (STO-4)."""


@dataclass(frozen=True, slots=True)
class NoAnswer:
    """The store gave no answer. The object may exist, or may still arrive (STO-5)."""

    reason: str


@dataclass(frozen=True, slots=True)
class Refused:
    """The store refused. No part of this request was or will be applied (STO-6)."""

    reason: str


# This union is evaluated at run time, so it uses the form that Python 3.10 accepts.
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
        super().__init__(f"the store has no object {key!r}. Check that the table is complete.")
        self.key = key


class InvalidKeyError(StoreError, ValueError):
    """A key outside the grammar of STO-2."""

    kind = "invalid_key"


def check_key(key: str) -> str:
    """Return `key`, or raise InvalidKeyError if it breaks STO-2. Pure."""
    problem = _key_problem(key)
    if problem:
        shown = repr(key if len(key) <= 80 else key[:80] + "…")
        raise InvalidKeyError(
            f"invalid key {shown}: {problem}. Use a relative path of plain parts separated by '/'."
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
        return "it contains a NUL or a backslash"
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
    """The shared commit queue of one machine: log entries that its writers pass on to each
    other.
    """

    def read(self) -> list[tuple[int, bytes]]:
        """Return contiguous entries by version.

        The caller checks that they follow its known head.
        """

    def leave(self, entries: Sequence[tuple[int, bytes]]) -> None:
        """Add entries in order. Entries that are already shared are skipped."""


class Store(Protocol):
    """One table root. Thread-safe; pickles by address and options.

    Every method raises StoreError when the store cannot answer, and InvalidKeyError for a key
    outside STO-2. No message and no repr holds a secret.
    """

    @property
    def uri(self) -> str:
        """The root for messages: without secrets, and without a slash at the end."""

    @property
    def identity(self) -> str:
        """An id that is equal for two stores that read one place through one endpoint."""

    @property
    def probe_scope(self) -> str:
        """An id that is equal for stores that share one probe result (STO-12)."""

    @property
    def tally(self) -> Tally:
        """The request counts so far."""

    @property
    def unsafe_single_writer(self) -> bool:
        """True if the caller guarantees to be the only writer (STO-12)."""

    def put_if_absent(self, key: str, body: bytes) -> PutReply:
        """Create `key` with exactly `body` unless the key is taken. Never raises for the store.

        `Written` means durable. After `Exists`, `sync` makes the existing name durable (STO-3).
        """

    def put(self, key: str, body: bytes) -> None:
        """Create or replace `key`, all or nothing, durable on return (STO-7)."""

    def get(self, key: str) -> bytes:
        """Return the whole object, or `TooLong` if it is over the limit for its key (STO-24).

        Raises KeyNotFoundError.
        """

    def get_many(self, keys: Sequence[str]) -> list[bytes | None]:
        """Return the result of `get` for each key, in order; None if absent. One round trip in
        depth.
        """

    def get_range(self, key: str, start: int, length: int) -> bytes:
        """Return bytes `start` .. `start + length`, clipped at the end. Raises KeyNotFoundError."""

    def get_ranges(self, ranges: Sequence[Range]) -> list[bytes | None]:
        """Return the result of `get_range` for each range, in order; None if the object is absent.

        One round trip in depth.
        """

    def size(self, key: str) -> int:
        """Return the length in bytes. Raises KeyNotFoundError."""

    def list_after(self, prefix: str, after: str | None = None) -> Iterator[StoredObject]:
        """Yield objects below `prefix` with key > `after`, ascending by UTF-8 bytes (STO-9)."""

    def delete(self, key: str) -> None:
        """Remove `key`. An absent key is fine."""

    def delete_many(self, keys: Sequence[str]) -> Mapping[str, str]:
        """Remove objects; absent keys are fine. Return the keys that remain, each with the reason.

        One failure does not stop the others. Durable on return.
        """

    def remove_empty(self, folder: str) -> None:
        """Remove the directory `folder` and its subdirectories as far as they are empty (STO-15).

        Never raises: only a local store has directories, and a directory that stays does no harm.
        """

    def open_output(self, key: str) -> AbstractContextManager[IO[bytes]]:
        """Open a stream that becomes the object at exit. If the block raises, no object is left
        (STO-7).
        """

    def sync(self, keys: Iterable[str]) -> None:
        """Make objects that another process wrote durable (STO-10).

        A local store raises KeyNotFoundError for a missing object. Other stores do not check.
        """

    @property
    def remote(self) -> bool:
        """True if a request takes a network round trip. Then early and large requests pay off."""

    @property
    def has_folders(self) -> bool:
        """True if folders exist on their own, and take as long to make durable as a file."""

    def open_file(self, key: str) -> pa.NativeFile | None:
        """Return the object as an open file that Arrow reads by itself; None if the store has no
        files.

        Raises KeyNotFoundError.
        """

    def turn(self, key: str, seconds: float = inf) -> AbstractContextManager[Slate | None]:
        """Wait in the shared commit queue to create names beside `key`, `seconds` at most (STO-14).

        The queue is an optimization for writers that would lose races to each other. Correctness
        does not depend on it. Yields the entries that writers share, where the store supports that.
        """

    def server_time_us(self) -> int | None:
        """Return the store's clock in µs, by its last answer and the time since; None if
        unknown.
        """

    def clock_us(self) -> int:
        """Return the clock that dates the objects of a listing, in µs since 1970 UTC (STO-10).

        It costs no request. A local store creates a file without a name.
        """


def check_range(start: int, length: int) -> None:
    """Raise InvalidKeyError unless `start` and `length` are both at least 0."""
    if start < 0 or length < 0:
        raise InvalidKeyError(
            f"invalid range: start {start}, length {length}. Both must be at least 0."
        )
