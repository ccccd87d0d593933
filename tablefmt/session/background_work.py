"""Work in the background after a commit: checkpoints and automatic compactions.

The commit has succeeded. So no error of the work reaches the caller, and a later commit tries
again. Spec: CMP-7.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from tablefmt.commit.environment import Environment
from tablefmt.printable import printable
from tablefmt.store.forks import renew_after_fork

logger = logging.getLogger(__name__)

REST = 10
"""After a run, the work pauses for this many times its duration."""


class BackgroundWork:
    """One kind of work of one handle: at most one run at a time, and a pause after each."""

    def __init__(self, failure: str) -> None:
        """Make it. `failure` begins the log message of a run that failed."""
        self._failure = failure
        self._rests_until = float("-inf")
        self._busy = threading.Lock()
        renew_after_fork(self)

    def after_fork(self) -> None:
        """Forget that a run is under way: the parent process continues it."""
        self._busy = threading.Lock()

    def start(self, environment: Environment, work: Callable[[], None]) -> None:
        """Run the work in the background, unless a run is under way or the pause is not over."""
        if environment.monotonic() < self._rests_until or not self._busy.acquire(blocking=False):
            return
        busy = self._busy
        try:
            environment.aside(lambda: self._run(environment, work, busy))
        except Exception as error:
            # The interpreter is about to exit, or cannot start another thread.
            logger.debug("%s: %s", self._failure, error)
            busy.release()

    def _run(
        self, environment: Environment, work: Callable[[], None], busy: threading.Lock
    ) -> None:
        began = environment.monotonic()
        try:
            work()
        except Exception as error:
            # The error may be another library's, with text of the store in it.
            logger.warning("%s: %s", self._failure, printable(str(error)))
        finally:
            now = environment.monotonic()
            self._rests_until = now + REST * (now - began)
            busy.release()
