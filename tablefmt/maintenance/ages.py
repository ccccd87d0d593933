"""How long something is kept, and from where on. `now_of` alone asks a clock.

Spec: RET-4, RET-6.
"""

from __future__ import annotations

import math
from datetime import timedelta
from typing import Union

from tablefmt.errors import InvalidRangeError
from tablefmt.model.entry import Metadata
from tablefmt.model.properties import duration_seconds, get_property, transaction_seconds
from tablefmt.session.context import TableContext
from tablefmt.snapshot.load import LogView
from tablefmt.snapshot.timeline import Timeline

Retention = Union[str, timedelta, int, float]  # noqa: UP007 - run time
"""The text of a duration by PTY-3 ("7 days"), a timedelta, or seconds."""

_MICROS = 1_000_000


def retention_seconds(given: Retention) -> float:
    """How many seconds somebody means.

    Raises:
        InvalidRangeError: it is no time, or below zero.
    """
    seconds: float | None = None
    if isinstance(given, timedelta):
        seconds = given.total_seconds()
    elif isinstance(given, str):
        try:
            seconds = float(duration_seconds(given.strip()))
        except ValueError:
            seconds = None
    elif isinstance(given, int | float) and not isinstance(given, bool):
        seconds = float(given)
    if seconds is None or not math.isfinite(seconds):
        raise InvalidRangeError(
            f"retention {given!r:.100} is no time; give a timedelta, seconds, or text such as "
            "'7 days' or '12 hours'"
        )
    if seconds < 0:
        raise InvalidRangeError(f"retention {given!r:.100} is below zero")
    return seconds


def kept_seconds(metadata: Metadata, name: str) -> float:
    """What a table's property says."""
    return float(duration_seconds(get_property(metadata.properties, name)))


def log_seconds(metadata: Metadata) -> float:
    """How long entries stay by a table's properties: twice the longest transaction, at least."""
    safe = 2 * transaction_seconds(metadata.properties)
    return max(kept_seconds(metadata, "logRetentionDuration"), safe)


def now_of(context: TableContext, view: LogView) -> int:
    """The store's clock, or the best there is, µs UTC; no earlier than the head (RET-4).

    A store tells the time by the second.
    """
    clock_us = context.store.server_time_us() or context.environment.now_us()
    return max(clock_us, view.head.timestamp)


def version_kept_from(timeline: Timeline, now_us: int, seconds: float) -> int:
    """The earliest version that was still the newest one so many seconds ago, or has been since.

    Args:
        timeline: up to the head; where it stands on a checkpoint, earlier entries are looked at.
        now_us: the store's clock, or the best there is.
        seconds: how long versions stay.

    Returns:
        The head at most; 0 where none that is known is as old.
    """
    cutoff = now_us - round(min(seconds, 1e12) * _MICROS)
    newest_then = timeline.last_by(cutoff)
    return newest_then if newest_then >= min(timeline.oldest, timeline.first) else 0
