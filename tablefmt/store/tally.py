"""Request counts of a store, by kind. They cover requests through the store's own methods."""

from __future__ import annotations

import threading
from enum import Enum

from tablefmt.store.forks import renew_after_fork


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
