"""Measurements of an operation for the commit's metrics: times, and requests to the store."""

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
"""Names of the time to find rows, and to write files. A pass that does both counts as the
second.
"""

PROGRESS_SECONDS = 5.0
"""Interval of progress messages in the log of a long statement."""

_Part = TypeVar("_Part", bound=LocatedRows)

_log = logging.getLogger("tablefmt.progress")


@dataclass(slots=True)
class Measured:
    """Measurement of one operation in one thread."""

    clock: Callable[[], float]
    """Monotonic seconds."""
    store: Store
    started: float
    before: Mapping[Request, int]
    began: Moment
    """The same time as `started`, by every clock (RET-6)."""
    spans: dict[str, float] = field(default_factory=dict)
    """Seconds by SCAN and REWRITE."""

    @staticmethod
    def start(
        clock: Callable[[], float], store: Store, now_us: Callable[[], int] = wall_us
    ) -> Measured:
        """Start a measurement now."""
        started = clock()
        began = Moment(started, now_us(), store.server_time_us())
        return Measured(clock, store, started, store.tally.sums(), began)

    @contextmanager
    def timed(self, name: str) -> Iterator[None]:
        """Count the time inside the context as SCAN or REWRITE."""
        began = self.clock()
        try:
            yield
        finally:
            self.spans[name] = self.spans.get(name, 0.0) + self.clock() - began

    def reported(self, parts: Iterator[_Part], what: str, files: int) -> Iterator[_Part]:
        """Yield the same rows, and log the progress from time to time.

        Args:
            parts: in the order of their files.
            what: name of the statement in the messages.
            files: number of files.
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
        """Return the metrics so far, plus the put of the entry that will contain them.

        They are `executionTimeMs`, and those of `numPutRequests`, `numGetRequests`,
        `numListRequests` and `numDeleteRequests` that are not 0. Requests are those of the table's
        handle in this process, of all its threads. Requests that Arrow or Spark make directly do
        not count.
        """
        asked = {kind: n - self.before[kind] for kind, n in self.store.tally.sums().items()}
        asked[Request.PUT] += 1
        requests = {f"num{kind.value}Requests": n for kind, n in asked.items() if n}
        return {"executionTimeMs": _millis(self.clock() - self.started), **requests}

    def span_metrics(self) -> dict[str, int]:
        """Return `scanTimeMs` and `rewriteTimeMs`."""
        return {name: _millis(self.spans.get(name, 0.0)) for name in (SCAN, REWRITE)}


def _millis(seconds: float) -> int:
    return max(0, round(seconds * 1000))
