"""Operations that work beside each other, and commit in the order that a test gives; no sleep.

Each has a thread of its own. Every one does all of its work, then waits at its commit until the
others have come as far, and those before it have ended.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from tablefmt.commit import driver
from tablefmt.conflict.verdict import RebasedOver
from tests.system.transactions.world import Counting

PATIENCE_SECONDS = 120


@dataclass
class Ended:
    """The outcome of one operation."""

    answer: Any = None
    error: BaseException | None = None
    read_version: int | None = None
    """None: it did not reach its commit."""
    passed: tuple[RebasedOver, ...] = ()
    """Versions that it was rebased over."""
    requests: list[tuple[str, str]] = field(default_factory=list)
    """Store requests of its commit."""

    @property
    def conflict(self) -> str | None:
        """The name of the exception."""
        return None if self.error is None else type(self.error).__name__


class Race:
    """Replaces the call by which operations hand their plan to the commit driver."""

    def __init__(self, works: Sequence[Callable[[], Any]]) -> None:
        self._works = works
        self._here = threading.local()
        self._changed = threading.Condition()
        self._waiting: set[int] = set()
        self._over: set[int] = set()
        self.ended = [Ended() for _ in works]

    def run(self) -> list[Ended]:
        """Return the outcome of each operation, in the order given, which is the commit order."""
        threads = [threading.Thread(target=self._run, args=(at,)) for at in range(len(self._works))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(2 * PATIENCE_SECONDS)
        assert len(self._over) == len(self._works), "an operation hangs"
        return self.ended

    def _run(self, at: int) -> None:
        self._here.at = at
        try:
            self.ended[at].answer = self._works[at]()
        except BaseException as error:
            self.ended[at].error = error
        finally:
            with self._changed:
                self._over.add(at)
                self._changed.notify_all()

    def commit(
        self, store: Any, plan: Any, environment: Any, view: Any, deadline: float | None = None
    ) -> Any:
        """Commit by the driver, after the operations before have committed."""
        at = getattr(self._here, "at", None)
        if at is None:
            return driver.commit(store, plan, environment, view, deadline)
        with self._changed:
            self._waiting.add(at)
            self._changed.notify_all()
            in_time = self._changed.wait_for(lambda: self._is_turn_of(at), PATIENCE_SECONDS)
        assert in_time, "the others did not come to their commits"
        counting, before = Counting(store), view.store
        view.store = counting
        try:
            done = driver.commit(counting, plan, environment, view, deadline)
        finally:
            view.store = before
        mine = self.ended[at]
        mine.read_version, mine.passed = plan.staged.read_version, tuple(done.rebased_over)
        mine.requests = list(counting.requests)
        return done

    def _is_turn_of(self, at: int) -> bool:
        everybody = set(range(len(self._works)))
        return self._waiting | self._over == everybody and set(range(at)) <= self._over


def race(*works: Callable[[], Any]) -> list[Ended]:
    """Do the works' work at once; they commit in the order given.

    All begin before the first of them commits, however long it takes. Works are whatever ends in
    one commit: a verb, a statement of SQL, the commit of a transaction.
    """
    started = Race(works)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tablefmt.session.table_context.commit", started.commit)
        return started.run()
