"""What the outside world gives a writer: time, randomness, patience. Injected: tests own it."""

from __future__ import annotations

import random
import secrets
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass


def _now_us() -> int:
    return time.time_ns() // 1000


def _nonce() -> str:
    return secrets.token_hex(16)


def _aside(work: Callable[[], None]) -> None:
    # No daemon: at its end the interpreter waits for what was begun.
    threading.Thread(target=work, name="tablefmt-aside", daemon=False).start()


@dataclass(frozen=True, slots=True)
class Environment:
    """The clock, nonces and waiting of one process."""

    now_us: Callable[[], int] = _now_us
    """Wall clock, µs since 1970 UTC. May jump; nothing but timestamps uses it."""
    nonce: Callable[[], str] = _nonce
    """32 lower-case hex digits, never the same twice."""
    monotonic: Callable[[], float] = time.monotonic
    """Seconds that only rise, for deadlines."""
    sleep: Callable[[float], None] = time.sleep
    fraction: Callable[[], float] = random.random
    """Uniform in [0, 1)."""
    aside: Callable[[Callable[[], None]], None] = _aside
    """Runs a work that nobody waits for; RuntimeError where nothing new is begun any more."""


SYSTEM = Environment()
