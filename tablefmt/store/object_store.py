"""The interface of every store, the replies of its writes, its request counts and length limits.

Keys are relative to the root, '/'-separated. Request counts cover requests through the store's own
methods.

Objects that are read whole have a length limit. A store knows an object's length before it reads a
byte: from the open file, or from the response header. For an object over its limit, the caller gets
`TooLong` in place of bytes. Spec: STO-1 .. STO-13, STO-24 (spec/store.md).
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from enum import Enum
from math import inf
from typing import IO, TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, Union

import pyarrow as pa

from tablefmt.errors import StoreError, TablefmtError
from tablefmt.store.forks import renew_after_fork
from tablefmt.store.store_traits import Access, Traits

if TYPE_CHECKING:
    from typing_extensions import Self

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
LOG_SEGMENT_BYTES_MAX = 65 * _MIB
PARQUET_BYTES_MAX = 2048 * _MIB
COPY_HINT_BYTES_MAX = 1 << 16
COPY_BYTES_MAX = 1024 * _MIB
"""Also the longest object of metadata or deletes that an import reads."""

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
        "compacted log segment",
        rf"_log/history/{_NUMBER}-{_NUMBER}\.jsonl\.gz",
        LOG_SEGMENT_BYTES_MAX,
        "HIS-1: 64 MiB of entries that gzip cannot make smaller",
    ),
    Kind(
        "part of a checkpoint",
        rf"_log/checkpoints/parts/{_NONCE}\.parquet",
        PARQUET_BYTES_MAX,
        "CKP-3: 131,072 files of 16 KiB of bounds each",
    ),
    Kind(
        "overflow metadata file",
        rf"(?:_log/side|deletes)/{_NONCE}\.parquet",
        PARQUET_BYTES_MAX,
        "ADD-6, DEL-3: a commit of millions of files",
    ),
    Kind("other name below _log", r"_log/.*", ENTRY_BYTES_MAX, "none is longer than an entry"),
    Kind(
        "hint of a copy",
        r"_delta_log/_last_checkpoint|metadata/version-hint\.text",
        COPY_HINT_BYTES_MAX,
        "a number, and what other programs add",
    ),
    Kind(
        "metadata of a copy",
        r"_delta_log/_tablefmt_start\.json|metadata/.*\.json",
        ROOT_BYTES_MAX,
        "XPT-22: snapshots may be many",
    ),
    Kind(
        "other object of a copy",
        r"(?:_delta_log|metadata)/.*",
        COPY_BYTES_MAX,
        "XPT-1: a line, or a record, for each of millions of files",
    ),
    Kind(
        "other object", r".*", PARQUET_BYTES_MAX, "the footer of a data file, in memory as a whole"
    ),
)
"""All kinds. The first kind whose pattern matches the key applies."""

_PATTERNS = re.compile("|".join(f"({kind.pattern})" for kind in KINDS), re.DOTALL)


def object_kind(key: str) -> Kind:
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
    return object_kind(key).most


class Request(str, Enum):
    """A kind of request, as object stores bill them."""

    PUT = "Put"
    GET = "Get"
    """Read of an object, of a range of it, or of its length."""
    LIST = "List"
    DELETE = "Delete"


class Tally:
    """Running request counts of one store. Thread-safe.

    Reads that Arrow or Spark do by themselves are not counted.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sums = dict.fromkeys(Request, 0)
        renew_after_fork(self)

    def after_fork(self) -> None:
        """Replace the lock with a free one."""
        self._lock = threading.Lock()

    def add(self, kind: Request, count: int = 1) -> None:
        """Add `count` requests."""
        with self._lock:
            self._sums[kind] += count

    def sums(self) -> dict[Request, int]:
        """Return the counts since the store was opened."""
        with self._lock:
            return dict(self._sums)


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


Cause = Literal["", "wrong-credentials", "expired-credentials", "no-place", "wrong-clock"]
"""Kind of reason for a refusal: "" if it is another one, such as missing rights.

`no-place`: the bucket or container does not exist.
"""


@dataclass(frozen=True, slots=True)
class Refused:
    """The store refused. No part of this request was or will be applied (STO-6)."""

    reason: str
    cause: Cause = ""
    """Kind of reason, where the answer tells it."""


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


class SharedEntries(Protocol):
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
    def traits(self) -> Traits:
        """Facts that decide how Spark, other engines and commits use this store."""

    def access(self) -> Access:
        """Return how to reach the objects, for an engine that opens them by itself.

        Makes no request.
        """

    def folder(self, root: str) -> Store | None:
        """Return the store of a folder outside the root that imported files may be in (IMP-3).

        None if the user did not allow the folder.
        """

    def abort_upload(self, key: str, upload: str) -> None:
        """Abort an unfinished upload of another program by its id, where the store has those."""

    def delete_folder_marker(self, folder: str) -> None:
        """Remove the empty object `folder/` that Hadoop leaves. It is no key and never listed.

        Never raises for the store, because a marker that stays does no harm.
        """

    def with_credentials(self) -> Store:
        """Return this store for another machine, with the credentials that this process resolved.

        Put the result into pickled functions only, never into a plan, a log or a file.
        """

    def portable_options(self) -> Mapping[str, Any]:
        """Return the storage options of `with_credentials`, which may be secret."""

    def open_file(self, key: str) -> pa.NativeFile | None:
        """Return the object as an open file that Arrow reads by itself; None if the store has no
        files.

        Raises KeyNotFoundError.
        """

    def turn(self, key: str, seconds: float = inf) -> AbstractContextManager[SharedEntries | None]:
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


class ServerlessStore:
    """The part of `Store` that is the same without a server: no credentials and no uploads."""

    def access(self) -> Access:
        """Return no settings: a path is enough, or no other process can reach the objects."""
        return Access()

    def folder(self, root: str) -> Store | None:
        """Return None: no folder outside the root is allowed."""
        return None

    def abort_upload(self, key: str, upload: str) -> None:
        """Do nothing: there are no uploads."""

    def delete_folder_marker(self, folder: str) -> None:
        """Do nothing: there are no folder markers."""

    def with_credentials(self) -> Self:
        """Return this store: it needs no credentials."""
        return self

    def portable_options(self) -> Mapping[str, Any]:
        """Return no options: this store needs no credentials."""
        return {}


def check_range(start: int, length: int) -> None:
    """Raise InvalidKeyError unless `start` and `length` are both at least 0."""
    if start < 0 or length < 0:
        raise InvalidKeyError(
            f"invalid range: start {start}, length {length}. Both must be at least 0."
        )
