"""Stores around stores: the same verbs, and something besides."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from math import inf
from typing import IO

import pyarrow as pa

from tablefmt.errors import StoreError
from tablefmt.store.forks import renew_after_fork
from tablefmt.store.protocol import PutReply, Range, Slate, Store, StoredObject
from tablefmt.store.tally import Tally


class ForwardingStore:
    """Hands every verb to `inner`. Subclasses change some."""

    def __init__(self, inner: Store) -> None:
        self.inner = inner

    @property
    def uri(self) -> str:
        """As the inner store."""
        return self.inner.uri

    @property
    def identity(self) -> str:
        """As the inner store."""
        return self.inner.identity

    @property
    def probe_scope(self) -> str:
        """As the inner store, for one that is taken for the same."""
        same = self.identity == self.inner.identity
        return self.inner.probe_scope if same else self.identity

    @property
    def tally(self) -> Tally:
        """As the inner store."""
        return self.inner.tally

    @property
    def unsafe_single_writer(self) -> bool:
        """As the inner store."""
        return self.inner.unsafe_single_writer

    def put_if_absent(self, key: str, body: bytes) -> PutReply:
        """As the inner store."""
        return self.inner.put_if_absent(key, body)

    def put(self, key: str, body: bytes) -> None:
        """As the inner store."""
        self.inner.put(key, body)

    def get(self, key: str) -> bytes:
        """As the inner store."""
        return self.inner.get(key)

    def get_many(self, keys: Sequence[str]) -> list[bytes | None]:
        """As the inner store."""
        return self.inner.get_many(keys)

    def get_range(self, key: str, start: int, length: int) -> bytes:
        """As the inner store."""
        return self.inner.get_range(key, start, length)

    def get_ranges(self, ranges: Sequence[Range]) -> list[bytes | None]:
        """As the inner store."""
        return self.inner.get_ranges(ranges)

    def size(self, key: str) -> int:
        """As the inner store."""
        return self.inner.size(key)

    def list_after(self, prefix: str, after: str | None = None) -> Iterator[StoredObject]:
        """As the inner store."""
        return self.inner.list_after(prefix, after)

    def delete(self, key: str) -> None:
        """As the inner store."""
        self.inner.delete(key)

    def delete_many(self, keys: Sequence[str]) -> Mapping[str, str]:
        """As the inner store."""
        return self.inner.delete_many(keys)

    def remove_empty(self, folder: str) -> None:
        """As the inner store."""
        self.inner.remove_empty(folder)

    def open_output(self, key: str) -> AbstractContextManager[IO[bytes]]:
        """As the inner store."""
        return self.inner.open_output(key)

    def sync(self, keys: Iterable[str]) -> None:
        """As the inner store."""
        self.inner.sync(keys)

    @property
    def remote(self) -> bool:
        """As the inner store."""
        return self.inner.remote

    @property
    def has_folders(self) -> bool:
        """As the inner store."""
        return self.inner.has_folders

    def open_file(self, key: str) -> pa.NativeFile | None:
        """As the inner store; what Arrow reads from the file is seen by no wrapper."""
        return self.inner.open_file(key)

    def turn(self, key: str, seconds: float = inf) -> AbstractContextManager[Slate | None]:
        """As the inner store."""
        return self.inner.turn(key, seconds)

    def server_time_us(self) -> int | None:
        """As the inner store."""
        return self.inner.server_time_us()

    def clock_us(self) -> int:
        """As `server_time_us`, else as the inner store."""
        return self.server_time_us() or self.inner.clock_us()


class ReadOnlyStore(ForwardingStore):
    """Hands on what reads, and refuses what writes: for a place that a caller only looks at."""

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

    def open_output(self, key: str) -> AbstractContextManager[IO[bytes]]:
        """Raise StoreError."""
        raise self._refused(key)

    def _refused(self, key: str) -> StoreError:
        return StoreError(f"{self.uri} is only read here, and {key!r} is not written or deleted")


class CountingStore(ForwardingStore):
    """Keeps what was asked of the inner store. Safe between threads.

    Attributes:
        requests: (verb, key) in order; `get_many` counts as a `get` of each key, `get_ranges` as a
            `get_range`. A listing is one request, with its prefix as key. `sync` is not counted,
            nor is what Arrow reads of a file that it opened.
        rounds: Round trips that wait for each other: one a call, `get_many` included.
    """

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self._lock = threading.Lock()
        self.requests: list[tuple[str, str]] = []
        self.rounds = 0
        renew_after_fork(self)

    def after_fork(self) -> None:
        """A lock that nobody holds."""
        self._lock = threading.Lock()

    @property
    def counts(self) -> Counter[str]:
        """Requests by verb."""
        with self._lock:
            return Counter(verb for verb, _ in self.requests)

    def reset(self) -> None:
        """Start counting anew."""
        with self._lock:
            self.requests.clear()
            self.rounds = 0

    def _count(self, verb: str, *keys: str) -> None:
        with self._lock:
            self.requests.extend((verb, key) for key in keys)
            self.rounds += 1

    def put_if_absent(self, key: str, body: bytes) -> PutReply:
        """Counted."""
        self._count("put_if_absent", key)
        return self.inner.put_if_absent(key, body)

    def put(self, key: str, body: bytes) -> None:
        """Counted."""
        self._count("put", key)
        self.inner.put(key, body)

    def get(self, key: str) -> bytes:
        """Counted."""
        self._count("get", key)
        return self.inner.get(key)

    def get_many(self, keys: Sequence[str]) -> list[bytes | None]:
        """Counted as one round of `get`; nothing asked is no round."""
        if keys:
            self._count("get", *keys)
        return self.inner.get_many(keys)

    def get_range(self, key: str, start: int, length: int) -> bytes:
        """Counted."""
        self._count("get_range", key)
        return self.inner.get_range(key, start, length)

    def get_ranges(self, ranges: Sequence[Range]) -> list[bytes | None]:
        """Counted as one round of `get_range`; nothing asked is no round."""
        if ranges:
            self._count("get_range", *(key for key, _, _ in ranges))
        return self.inner.get_ranges(ranges)

    def size(self, key: str) -> int:
        """Counted."""
        self._count("size", key)
        return self.inner.size(key)

    def list_after(self, prefix: str, after: str | None = None) -> Iterator[StoredObject]:
        """Counted."""
        self._count("list_after", prefix)
        return self.inner.list_after(prefix, after)

    def delete(self, key: str) -> None:
        """Counted."""
        self._count("delete", key)
        self.inner.delete(key)

    def delete_many(self, keys: Sequence[str]) -> Mapping[str, str]:
        """Counted as one round of `delete`; nothing asked is no round."""
        if keys:
            self._count("delete", *keys)
        return self.inner.delete_many(keys)

    def open_file(self, key: str) -> pa.NativeFile | None:
        """Counted where there are files."""
        opened = self.inner.open_file(key)
        if opened is not None:
            self._count("open_file", key)
        return opened

    def open_output(self, key: str) -> AbstractContextManager[IO[bytes]]:
        """Counted."""
        self._count("open_output", key)
        return self.inner.open_output(key)
