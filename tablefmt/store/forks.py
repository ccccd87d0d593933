"""State to renew in a forked child: locks that a parent's thread may hold, and open files.

The child has only the thread that forked. No thread in the child can release a lock that another
thread of the parent held. Spec: STO-21 (spec/store.md).
"""

from __future__ import annotations

import os
import threading
from typing import Protocol
from weakref import WeakSet


class Forked(Protocol):
    """An object with state that a child must not share with its parent."""

    def after_fork(self) -> None:
        """Renew the state. Called in the child before other code runs there."""


_OWNERS: WeakSet[Forked] = WeakSet()


def renew_after_fork(owner: Forked) -> None:
    """Call `owner.after_fork` in every child of this process for as long as `owner` lives."""
    _OWNERS.add(owner)


class ForkedLock:
    """A lock for `with` that is free in a forked child."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        renew_after_fork(self)

    def after_fork(self) -> None:
        """Replace the lock with a free one."""
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
