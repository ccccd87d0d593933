"""What an operation took: times, and requests of the store. It goes into the commit's metrics."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypeVar

from tablefmt.data.row_reader import LocatedRows
from tablefmt.store.clocks import Moment, wall_us
from tablefmt.store.object_store import Request, Store

SCAN, REWRITE = "scanTimeMs", "rewriteTimeMs"
"""Looking for rows, and writing files; where one pass does both, it counts as the second."""

PROGRESS_SECONDS = 5.0
"""A statement that takes longer than this says how far it is, and again after as much."""

_Part = TypeVar("_Part", bound=LocatedRows)

_log = logging.getLogger("tablefmt.progress")


@dataclass(slots=True)
class Measured:
    """One operation under way, in one thread."""

    clock: Callable[[], float]
    """Seconds that only rise."""
    store: Store
    started: float
    before: Mapping[Request, int]
    began: Moment
    """The same time as `started`, by every clock (RET-6)."""
    spans: dict[str, float] = field(default_factory=dict)
    """Seconds by SCAN, REWRITE."""

    @staticmethod
    def start(
        clock: Callable[[], float], store: Store, now_us: Callable[[], int] = wall_us
    ) -> Measured:
        """From now on."""
        started = clock()
        began = Moment(started, now_us(), store.server_time_us())
        return Measured(clock, store, started, store.tally.sums(), began)

    @contextmanager
    def timed(self, name: str) -> Iterator[None]:
        """What is done inside counts as SCAN or REWRITE."""
        began = self.clock()
        try:
            yield
        finally:
            self.spans[name] = self.spans.get(name, 0.0) + self.clock() - began

    def reported(self, parts: Iterator[_Part], what: str, files: int) -> Iterator[_Part]:
        """The same rows; on the way the log hears how far they are, if they take long.

        Args:
            parts: in the order of their files.
            what: the statement, for people.
            files: how many there are.
        """
        began = last_report = self.clock()
        rows = 0
        for part in parts:
            now = self.clock()
            if now - last_report >= PROGRESS_SECONDS:
                last_report = now
                _log.info(
                    "%s: %d of %d files read, %d rows found, %.0f s",
                    what, part.file, files, rows, now - began,
                )  # fmt: skip
            rows += len(part.positions)
            yield part

    def metrics(self) -> dict[str, int]:
        """So far, with one more put: that of the entry which says so.

        `executionTimeMs`; and `numPutRequests`, `numGetRequests`, `numListRequests`,
        `numDeleteRequests`, those there were: of this process, through the table's handle, by all
        of its threads; not what Arrow or Spark read and wrote by themselves.
        """
        asked = {kind: n - self.before[kind] for kind, n in self.store.tally.sums().items()}
        asked[Request.PUT] += 1
        requests = {f"num{kind.value}Requests": n for kind, n in asked.items() if n}
        return {"executionTimeMs": _millis(self.clock() - self.started), **requests}

    def span_metrics(self) -> dict[str, int]:
        """`scanTimeMs` and `rewriteTimeMs`."""
        return {name: _millis(self.spans.get(name, 0.0)) for name in (SCAN, REWRITE)}


def _millis(seconds: float) -> int:
    return max(0, round(seconds * 1000))
