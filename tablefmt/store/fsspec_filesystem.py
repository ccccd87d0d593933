"""Read-only fsspec file system over stores, for engines that have no client of their own.

An address is tablefmt://N/LENGTH/KEY. N is the number of a store in this process, so no address
holds a secret. The log gives the length of an object. Footer bytes that were fetched to check an
object are kept, so opening it sends no request.
"""

from __future__ import annotations

import io
import itertools
import threading
from collections import OrderedDict
from datetime import datetime, timezone
from typing import Any

from fsspec import AbstractFileSystem

from tablefmt.errors import StoreError
from tablefmt.store.buffers import PositionedReader
from tablefmt.store.object_store import Store

SCHEME = "tablefmt"

END_BYTES = 64 << 10
"""Last bytes to fetch of an object whose footer is not cached. They usually hold the
footer.
"""

KEPT_BYTES = 32 << 20
"""Limit of the footer cache in bytes. The least recently used are dropped first."""

_stores: dict[int, Store] = {}
_numbers = itertools.count(1)
_ends: OrderedDict[str, bytes] = OrderedDict()
_kept = 0
_lock = threading.Lock()


def base_of(store: Store) -> str:
    """Return the prefix of the addresses of a store's objects in this process."""
    with _lock:
        for number, known in _stores.items():
            if known is store or known.__reduce__() == store.__reduce__():
                return f"{SCHEME}://{number}/"
        number = next(_numbers)
        _stores[number] = store
        return f"{SCHEME}://{number}/"


def address_of(base: str, key: str, size: int) -> str:
    """Return the address of an object of `size` bytes."""
    return f"{base}{size}/{key}"


def keep_end(address: str, body: bytes) -> None:
    """Keep the last bytes of an object, or all of it. Objects never change."""
    global _kept
    plain = _plain(address)
    with _lock:
        _kept += len(body) - len(_ends.pop(plain, b""))
        _ends[plain] = body
        while _kept > KEPT_BYTES:
            _kept -= len(_ends.popitem(last=False)[1])


def _end_of(plain: str) -> bytes | None:
    with _lock:
        if plain in _ends:
            _ends.move_to_end(plain)
        return _ends.get(plain)


def _plain(address: str) -> str:
    return address.removeprefix(f"{SCHEME}://")


class StoreFiles(AbstractFileSystem):  # type: ignore[misc]
    """Objects of the stores that were passed to `base_of`. Files are read by ranges."""

    protocol = SCHEME
    cachable = False

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return _plain(path)

    def info(self, path: str, **_: Any) -> dict[str, Any]:
        """Return name, size and type, all from the address."""
        plain = _plain(path)
        return {"name": plain, "size": _found(plain)[2], "type": "file"}

    def modified(self, path: str) -> datetime:
        """Return a constant: objects never change."""
        return datetime(2000, 1, 1, tzinfo=timezone.utc)

    def glob(self, path: str, **_: Any) -> list[str]:
        """Return the one object: an address is not a pattern."""
        return [self._strip_protocol(path)]

    def _open(self, path: str, mode: str = "rb", **_: Any) -> io.RawIOBase:
        if mode != "rb":
            raise io.UnsupportedOperation("this file system is read-only")
        return _ObjectReader(_plain(path))


def _found(plain: str) -> tuple[Store, str, int]:
    """Return the store, the key and the length of an address."""
    number, _, rest = plain.partition("/")
    size, _, key = rest.partition("/")
    store = _stores.get(int(number)) if number.isdecimal() else None
    if store is None or not size.isdecimal():
        raise StoreError(
            f"{SCHEME}://{plain} was made by another process. Attach the table in this process."
        )
    return store, key, int(size)


class _ObjectReader(PositionedReader):
    """Reader of one object by ranges, with its footer bytes cached."""

    def __init__(self, plain: str) -> None:
        self._plain = plain
        self._store, self._key, size = _found(plain)
        super().__init__(size)
        self._end = _end_of(plain)

    def readinto(self, buffer: Any) -> int:
        """Read into `buffer`, and return the number of bytes."""
        stop = min(self.size, self._at + len(buffer))
        if stop <= self._at:
            return 0
        if self._end is None and self._at >= self.size - END_BYTES:
            start = max(0, self.size - END_BYTES)
            self._end = self._store.get_range(self._key, start, self.size - start)
            keep_end(self._plain, self._end)
        end = self._end or b""
        start = self.size - len(end)
        body = end[max(0, self._at - start) : max(0, stop - start)]
        if self._at < start:
            body = self._store.get_range(self._key, self._at, min(stop, start) - self._at) + body
        buffer[: len(body)] = body
        self._at += len(body)
        return len(body)
