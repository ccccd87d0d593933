"""Stores as one fsspec file system that reads: for engines that have no client of their own.

An address is tablefmt://N/KEY; N stands for a store of this process, so no address holds a secret.
"""

from __future__ import annotations

import io
import itertools
import threading
from datetime import datetime, timezone
from typing import Any

from fsspec import AbstractFileSystem

from tablefmt.errors import StoreError
from tablefmt.store.protocol import KeyNotFoundError, Store

SCHEME = "tablefmt"

END_BYTES = 64 << 10
"""Asked for at once when a file is opened: its footer, as a rule."""

_stores: dict[int, Store] = {}
_numbers = itertools.count(1)
_lock = threading.Lock()


def address_of(store: Store) -> str:
    """What the addresses of a store's objects begin with, in this process."""
    with _lock:
        for number, known in _stores.items():
            if known is store or known.__reduce__() == store.__reduce__():
                return f"{SCHEME}://{number}/"
        number = next(_numbers)
        _stores[number] = store
        return f"{SCHEME}://{number}/"


class StoreFiles(AbstractFileSystem):  # type: ignore[misc]
    """Objects of the stores that `address_of` was asked for. A file is read by ranges."""

    protocol = SCHEME
    cachable = False

    def __init__(self) -> None:
        super().__init__()
        self._sizes: dict[str, int] = {}

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return path.removeprefix(f"{SCHEME}://")

    def info(self, path: str, **_: Any) -> dict[str, Any]:
        """Name, size and type. FileNotFoundError if there is no such object."""
        plain = self._strip_protocol(path)
        if plain not in self._sizes:
            store, key = _found(plain)
            try:
                self._sizes[plain] = store.size(key)
            except KeyNotFoundError:
                raise FileNotFoundError(path) from None
        return {"name": plain, "size": self._sizes[plain], "type": "file"}

    def modified(self, path: str) -> datetime:
        """Objects never change."""
        return datetime(2000, 1, 1, tzinfo=timezone.utc)

    def glob(self, path: str, **_: Any) -> list[str]:
        """The one object: an address is no pattern."""
        return [self._strip_protocol(path)]

    def _open(self, path: str, mode: str = "rb", **_: Any) -> io.RawIOBase:
        if mode != "rb":
            raise NotImplementedError("data files are read, and nothing else")
        store, key = _found(self._strip_protocol(path))
        return _ObjectReader(store, key, self.info(path)["size"])


def _found(plain: str) -> tuple[Store, str]:
    number, _, key = plain.partition("/")
    store = _stores.get(int(number)) if number.isdecimal() else None
    if store is None:
        raise StoreError(f"{SCHEME}://{plain} was an address in another process. Attach again.")
    return store, key


class _ObjectReader(io.RawIOBase):
    """One object, by ranges; its end is kept."""

    def __init__(self, store: Store, key: str, size: int) -> None:
        self._store, self._key, self.size = store, key, size
        self._at = 0
        self._end: bytes | None = None

    def readinto(self, buffer: Any) -> int:
        """As of any file."""
        stop = min(self.size, self._at + len(buffer))
        if stop <= self._at:
            return 0
        start = max(0, self.size - END_BYTES)
        if self._at >= start:
            if self._end is None:
                self._end = self._store.get_range(self._key, start, self.size - start)
            body: bytes = self._end[self._at - start : stop - start]
        else:
            body = self._store.get_range(self._key, self._at, stop - self._at)
        buffer[: len(body)] = body
        self._at += len(body)
        return len(body)

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """As of any file."""
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self.size}[whence]
        self._at = base + offset
        return self._at

    def tell(self) -> int:
        """As of any file."""
        return self._at

    def readable(self) -> bool:
        """True."""
        return True

    def seekable(self) -> bool:
        """True."""
        return True
