"""Clocks of this machine and of a store, and the time between two moments by all of them.

They give the age of a transaction and of a cached log head. Spec: RET-6, RET-9.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from tablefmt.store.object_store import Store

_BOOT = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def elapsed() -> float:
    """Return seconds of a clock that only rises, and keeps counting while the machine sleeps."""
    return time.clock_gettime(_BOOT)


def wall_us() -> int:
    """Return this machine's wall clock in µs since 1970 UTC. It may jump."""
    return time.time_ns() // 1000


@dataclass(frozen=True, slots=True)
class Moment:
    """Readings of all clocks at one moment."""

    elapsed: float
    """The clock that only rises, in seconds. It may stop while a virtual machine is paused."""
    wall_us: int
    """The wall clock, in µs since 1970 UTC. It may jump either way."""
    store_us: int | None
    """The store's clock, in µs since 1970 UTC; None if the store has not reported its time."""


def moment_of(store: Store) -> Moment:
    """Return the current readings of this machine's clocks and of the store's clock."""
    return Moment(elapsed(), wall_us(), store.server_time_us())


def seconds_between(before: Moment, after: Moment) -> float:
    """Return the longest time between two moments that any of the clocks shows, in seconds."""
    elapsed = [after.elapsed - before.elapsed, (after.wall_us - before.wall_us) / 1_000_000]
    if before.store_us is not None and after.store_us is not None:
        elapsed.append((after.store_us - before.store_us) / 1_000_000)
    return max(elapsed)


def was_set_back(before: Moment, after: Moment) -> float:
    """Return the seconds by which the wall clock went back.

    The real time between is then unknown.
    """
    return max(0.0, (before.wall_us - after.wall_us) / 1_000_000)
