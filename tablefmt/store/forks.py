"""What a forked child has to begin anew: locks that a thread of its parent may hold, open files.

The child has the thread that forked and no other, so nobody there lets go of a lock that another
thread held. Spec: STO-21 (spec/store.md).
"""

from __future__ import annotations

import os
import threading
from typing import Protocol
from weakref import WeakSet


class Forked(Protocol):
    """Has something that a child must not share with its parent."""

    def after_fork(self) -> None:
        """Called in the child before anything else runs there."""


_OWNERS: WeakSet[Forked] = WeakSet()


def renew_after_fork(owner: Forked) -> None:
    """Have `owner.after_fork` called in every child of this process, for as long as it lives."""
    _OWNERS.add(owner)


class ForkedLock:
    """A lock for `with` that nobody holds in a forked child."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        renew_after_fork(self)

    def after_fork(self) -> None:
        """Begin anew."""
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()


def _renew() -> None:
    for owner in list(_OWNERS):
        owner.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew)
