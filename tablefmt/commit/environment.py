"""What the outside world gives a writer: time, randomness, patience. Injected: tests own it."""

from __future__ import annotations

import random
import secrets
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from tablefmt.store.clocks import Moment, elapsed, wall_us
from tablefmt.store.object_store import Store


def _nonce() -> str:
    return secrets.token_hex(16)


def _aside(work: Callable[[], None]) -> None:
    # No daemon: at its end the interpreter waits for what was begun.
    threading.Thread(target=work, name="tablefmt-aside", daemon=False).start()


@dataclass(frozen=True, slots=True)
class Environment:
    """The clock, nonces and waiting of one process."""

    now_us: Callable[[], int] = wall_us
    """Wall clock, µs since 1970 UTC. May jump: of ages it is one witness among others."""
    nonce: Callable[[], str] = _nonce
    """32 lower-case hex digits, never the same twice."""
    monotonic: Callable[[], float] = elapsed
    """Seconds that only rise, for deadlines; they go on while the machine sleeps."""
    sleep: Callable[[float], None] = time.sleep
    fraction: Callable[[], float] = random.random
    """Uniform in [0, 1)."""
    aside: Callable[[Callable[[], None]], None] = _aside
    """Runs a work that nobody waits for; RuntimeError where nothing new is begun any more."""

    def moment(self, store: Store) -> Moment:
        """Return what these clocks and the store's say now."""
        return Moment(self.monotonic(), self.now_us(), store.server_time_us())


SYSTEM = Environment()
