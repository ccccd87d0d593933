"""Clock, randomness and waiting of a writer. They are injected so that tests control them."""

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
    # Not a daemon thread: at exit, the interpreter waits for work that began.
    threading.Thread(target=work, name="tablefmt-aside", daemon=False).start()


@dataclass(frozen=True, slots=True)
class Environment:
    """The clock, nonces and waiting of one process."""

    now_us: Callable[[], int] = wall_us
    """Wall clock, µs since 1970 UTC. It may jump, so ages are checked with other clocks too."""
    nonce: Callable[[], str] = _nonce
    """32 lower-case hex digits, never the same twice."""
    monotonic: Callable[[], float] = elapsed
    """Monotonic seconds for deadlines. They include the time that the machine sleeps."""
    sleep: Callable[[float], None] = time.sleep
    fraction: Callable[[], float] = random.random
    """Uniform in [0, 1)."""
    aside: Callable[[Callable[[], None]], None] = _aside
    """Run work in the background. RuntimeError if the interpreter no longer starts threads."""

    def moment(self, store: Store) -> Moment:
        """Return the time now by these clocks and the store's."""
        return Moment(self.monotonic(), self.now_us(), store.server_time_us())


SYSTEM = Environment()
