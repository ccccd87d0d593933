"""Clocks of this machine, and how long ago something was by all of them.

A transaction, and what a writer knows of the head of a log, have an age. Spec: RET-6, RET-9.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from tablefmt.store.protocol import Store

_BOOT = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def elapsed() -> float:
    """Return seconds that only rise, and that go on while the machine sleeps."""
    return time.clock_gettime(_BOOT)


def wall_us() -> int:
    """Return what this machine says the time is, µs since 1970 UTC. It may jump."""
    return time.time_ns() // 1000


@dataclass(frozen=True, slots=True)
class Moment:
    """What the clocks said at one moment."""

    elapsed: float
    """Of the clock that only rises. It may stand still while a virtual machine is paused."""
    wall_us: int
    """Of the wall clock. It may jump either way."""
    store_us: int | None
    """Of the store, as far as its answers told it."""


def moment_of(store: Store) -> Moment:
    """Return what the clocks of this machine and of a store say now."""
    return Moment(elapsed(), wall_us(), store.server_time_us())


def seconds_between(before: Moment, after: Moment) -> float:
    """Return the longest time that may have passed between two moments, by any of the clocks."""
    gone = [after.elapsed - before.elapsed, (after.wall_us - before.wall_us) / 1_000_000]
    if before.store_us is not None and after.store_us is not None:
        gone.append((after.store_us - before.store_us) / 1_000_000)
    return max(gone)


def was_set_back(before: Moment, after: Moment) -> float:
    """Return by how many seconds the wall clock went back: how long it took, nobody knows."""
    return max(0.0, (before.wall_us - after.wall_us) / 1_000_000)
