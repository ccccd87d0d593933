"""How many requests a store was asked, by kind. Counts what goes through the store's own verbs."""

from __future__ import annotations

import threading
from enum import Enum

from tablefmt.store.forks import renew_after_fork


class Request(str, Enum):
    """A kind of request, as object stores bill them."""

    PUT = "Put"
    GET = "Get"
    """Of an object, a part of it, or its length."""
    LIST = "List"
    DELETE = "Delete"


class Tally:
    """Running sums of one store. Safe between threads.

    What Arrow or Spark read by themselves is not among them.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sums = dict.fromkeys(Request, 0)
        renew_after_fork(self)

    def after_fork(self) -> None:
        """A lock that nobody holds."""
        self._lock = threading.Lock()

    def add(self, kind: Request, count: int = 1) -> None:
        """Count requests."""
        with self._lock:
            self._sums[kind] += count

    def sums(self) -> dict[Request, int]:
        """All there were since the store was opened."""
        with self._lock:
            return dict(self._sums)
