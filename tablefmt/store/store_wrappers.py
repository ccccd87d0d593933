"""Stores that wrap another store and add to it."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from copy import copy
from math import inf
from typing import IO, Any

import pyarrow as pa

from tablefmt.errors import StoreError
from tablefmt.store.forks import renew_after_fork
from tablefmt.store.object_store import PutReply, Range, SharedEntries, Store, StoredObject, Tally
from tablefmt.store.store_traits import Access, Traits


class ForwardingStore:
    """Forwards every method to `inner`. Subclasses override some."""

    def __init__(self, inner: Store) -> None:
        self.inner = inner

    @property
    def uri(self) -> str:
        """The inner store's value."""
        return self.inner.uri

    @property
    def identity(self) -> str:
        """The inner store's value."""
        return self.inner.identity

    @property
    def probe_scope(self) -> str:
        """The inner store's value if `identity` is the inner store's too; else `identity`."""
        same = self.identity == self.inner.identity
        return self.inner.probe_scope if same else self.identity

    @property
    def tally(self) -> Tally:
        """The inner store's value."""
        return self.inner.tally

    @property
    def unsafe_single_writer(self) -> bool:
        """The inner store's value."""
        return self.inner.unsafe_single_writer

    def put_if_absent(self, key: str, body: bytes) -> PutReply:
        """Forward to the inner store."""
        return self.inner.put_if_absent(key, body)

    def put(self, key: str, body: bytes) -> None:
        """Forward to the inner store."""
        self.inner.put(key, body)

    def get(self, key: str) -> bytes:
        """Forward to the inner store."""
        return self.inner.get(key)

    def get_many(self, keys: Sequence[str]) -> list[bytes | None]:
        """Forward to the inner store."""
        return self.inner.get_many(keys)

    def get_range(self, key: str, start: int, length: int) -> bytes:
        """Forward to the inner store."""
        return self.inner.get_range(key, start, length)

    def get_ranges(self, ranges: Sequence[Range]) -> list[bytes | None]:
        """Forward to the inner store."""
        return self.inner.get_ranges(ranges)

    def size(self, key: str) -> int:
        """Forward to the inner store."""
        return self.inner.size(key)

    def list_after(self, prefix: str, after: str | None = None) -> Iterator[StoredObject]:
        """Forward to the inner store."""
        return self.inner.list_after(prefix, after)

    def delete(self, key: str) -> None:
        """Forward to the inner store."""
        self.inner.delete(key)

    def delete_many(self, keys: Sequence[str]) -> Mapping[str, str]:
        """Forward to the inner store."""
        return self.inner.delete_many(keys)

    def remove_empty(self, folder: str) -> None:
        """Forward to the inner store."""
        self.inner.remove_empty(folder)

    def open_output(self, key: str) -> AbstractContextManager[IO[bytes]]:
        """Forward to the inner store."""
        return self.inner.open_output(key)

    def sync(self, keys: Iterable[str]) -> None:
        """Forward to the inner store."""
        self.inner.sync(keys)

    @property
    def traits(self) -> Traits:
        """The inner store's value."""
        return self.inner.traits

    def access(self) -> Access:
        """Forward to the inner store."""
        return self.inner.access()

    def folder(self, root: str) -> Store | None:
        """Forward to the inner store."""
        return self.inner.folder(root)

    def abort_upload(self, key: str, upload: str) -> None:
        """Forward to the inner store."""
        self.inner.abort_upload(key, upload)

    def delete_folder_marker(self, folder: str) -> None:
        """Forward to the inner store."""
        self.inner.delete_folder_marker(folder)

    def with_credentials(self) -> Store:
        """Return a copy of this wrapper around the inner store's result."""
        inner = self.inner.with_credentials()
        if inner is self.inner:
            return self
        carried = copy(self)
        carried.inner = inner
        return carried

    def portable_options(self) -> Mapping[str, Any]:
        """Forward to the inner store."""
        return self.inner.portable_options()

    def open_file(self, key: str) -> pa.NativeFile | None:
        """Forward to the inner store. No wrapper sees what Arrow reads from the file."""
        return self.inner.open_file(key)

    def turn(self, key: str, seconds: float = inf) -> AbstractContextManager[SharedEntries | None]:
        """Forward to the inner store."""
        return self.inner.turn(key, seconds)

    def server_time_us(self) -> int | None:
        """Forward to the inner store."""
        return self.inner.server_time_us()

    def clock_us(self) -> int:
        """Return `server_time_us`, or the inner store's clock if that is None."""
        return self.server_time_us() or self.inner.clock_us()


class ReadOnlyStore(ForwardingStore):
    """Forwards reads and refuses writes, for a place that the caller must not change."""

    def put_if_absent(self, key: str, body: bytes) -> PutReply:
        """Raise StoreError."""
        raise self._refused(key)

    def put(self, key: str, body: bytes) -> None:
        """Raise StoreError."""
        raise self._refused(key)

    def delete(self, key: str) -> None:
        """Raise StoreError."""
        raise self._refused(key)

    def delete_many(self, keys: Sequence[str]) -> Mapping[str, str]:
        """Raise StoreError."""
        raise self._refused(", ".join(keys))

    def remove_empty(self, folder: str) -> None:
        """Raise StoreError."""
        raise self._refused(folder)

    def abort_upload(self, key: str, upload: str) -> None:
        """Raise StoreError."""
        raise self._refused(key)

    def delete_folder_marker(self, folder: str) -> None:
        """Raise StoreError."""
        raise self._refused(folder)

    def open_output(self, key: str) -> AbstractContextManager[IO[bytes]]:
        """Raise StoreError."""
        raise self._refused(key)

    def _refused(self, key: str) -> StoreError:
        return StoreError(f"{self.uri} is open read-only: cannot write or delete {key!r}")


class CountingStore(ForwardingStore):
    """Records the requests to the inner store. Thread-safe.

    Attributes:
        requests: (verb, key) in order; `get_many` counts as a `get` of each key, `get_ranges` as a
            `get_range`. A listing is one request, with its prefix as key. `sync` and Arrow's reads
            of an open file are not counted.
        rounds: sequential round trips: one for each call, `get_many` included.
    """

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self._lock = threading.Lock()
        self.requests: list[tuple[str, str]] = []
        self.rounds = 0
        renew_after_fork(self)

    def after_fork(self) -> None:
        """Replace the lock with a free one."""
        self._lock = threading.Lock()

    @property
    def counts(self) -> Counter[str]:
        """Requests by verb."""
        with self._lock:
            return Counter(verb for verb, _ in self.requests)

    def reset(self) -> None:
        """Reset the counts."""
        with self._lock:
            self.requests.clear()
            self.rounds = 0

    def _count(self, verb: str, *keys: str) -> None:
        with self._lock:
            self.requests.extend((verb, key) for key in keys)
            self.rounds += 1

    def put_if_absent(self, key: str, body: bytes) -> PutReply:
        """Count the request, and forward it."""
        self._count("put_if_absent", key)
        return self.inner.put_if_absent(key, body)

    def put(self, key: str, body: bytes) -> None:
        """Count the request, and forward it."""
        self._count("put", key)
        self.inner.put(key, body)

    def get(self, key: str) -> bytes:
        """Count the request, and forward it."""
        self._count("get", key)
        return self.inner.get(key)

    def get_many(self, keys: Sequence[str]) -> list[bytes | None]:
        """Count one round of `get`, and forward. An empty list counts as no round."""
        if keys:
            self._count("get", *keys)
        return self.inner.get_many(keys)

    def get_range(self, key: str, start: int, length: int) -> bytes:
        """Count the request, and forward it."""
        self._count("get_range", key)
        return self.inner.get_range(key, start, length)

    def get_ranges(self, ranges: Sequence[Range]) -> list[bytes | None]:
        """Count one round of `get_range`, and forward. An empty list counts as no round."""
        if ranges:
            self._count("get_range", *(key for key, _, _ in ranges))
        return self.inner.get_ranges(ranges)

    def size(self, key: str) -> int:
        """Count the request, and forward it."""
        self._count("size", key)
        return self.inner.size(key)

    def list_after(self, prefix: str, after: str | None = None) -> Iterator[StoredObject]:
        """Count the request, and forward it."""
        self._count("list_after", prefix)
        return self.inner.list_after(prefix, after)

    def delete(self, key: str) -> None:
        """Count the request, and forward it."""
        self._count("delete", key)
        self.inner.delete(key)

    def delete_many(self, keys: Sequence[str]) -> Mapping[str, str]:
        """Count one round of `delete`, and forward. An empty list counts as no round."""
        if keys:
            self._count("delete", *keys)
        return self.inner.delete_many(keys)

    def open_file(self, key: str) -> pa.NativeFile | None:
        """Forward, and count the request if the store has files."""
        opened = self.inner.open_file(key)
        if opened is not None:
            self._count("open_file", key)
        return opened

    def open_output(self, key: str) -> AbstractContextManager[IO[bytes]]:
        """Count the request, and forward it."""
        self._count("open_output", key)
        return self.inner.open_output(key)
