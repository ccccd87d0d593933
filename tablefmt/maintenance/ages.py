"""How long something is kept, and from where on, by two witnesses: the log and the store.

Spec: RET-4, RET-6.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from datetime import timedelta
from typing import Union

from tablefmt.errors import InvalidRangeError
from tablefmt.log.names import ENTRIES, entry_key, entry_version
from tablefmt.model.entry import Metadata
from tablefmt.model.properties import duration_seconds, get_property, transaction_seconds
from tablefmt.session.context import TableContext
from tablefmt.snapshot.load import LogView
from tablefmt.store.protocol import Store

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


def kept_by_log(view: LogView, now_us: int, seconds: float) -> int:
    """Return the earliest version that has to stay as the log's own times say (RET-4).

    That is the version that was the newest one so many seconds ago. A writer's clock made these
    times, so they may be wrong: `kept_by_store` has the last word.

    Args:
        view: at the head; where it stands on a checkpoint, earlier entries are looked at.
        now_us: the store's clock. A head that is later counts as now: times of a log rise.
        seconds: how long versions stay.

    Returns:
        The head at most; 0 where none that is known is as old.
    """
    timeline = view.timeline
    newest_then = timeline.last_by(before_us(max(now_us, view.head.timestamp), seconds))
    return newest_then if newest_then >= min(timeline.oldest, timeline.first) else 0


def kept_by_store(store: Store, oldest: int, kept: int, now_us: int, seconds: float) -> int:
    """Return the earliest version that has to stay as the store's own times of entries say (RET-4).

    One listing, read as far as `kept`. An entry that it lacks, or that has no time, is young.

    Args:
        store: the table's root.
        oldest: the earliest version that is kept now; every later one has its entry.
        kept: the answer by the log.
        now_us: the store's clock.
        seconds: how long versions stay.

    Returns:
        From `oldest` to `kept`.
    """
    if kept <= oldest or seconds == 0:
        return kept
    listing = store.list_after(ENTRIES, entry_key(oldest))
    times = ((entry_version(one.key), one.modified_us) for one in listing)
    return last_old(times, oldest, kept, before_us(now_us, seconds))


def last_old(
    times: Iterable[tuple[int | None, int]], oldest: int, kept: int, cutoff_us: int
) -> int:
    """Return the last of the versions above `oldest`, up to `kept`, to which all are old. Pure.

    Args:
        times: by version, rising, when its entry was written by the store, µs UTC; what has no
            version is no entry.
        oldest: the answer if the next one is young.
        kept: the answer if all are old.
        cutoff_us: what was written later is young.
    """
    last = oldest
    times = iter(times)
    while last < kept:
        version, modified_us = next(times, (kept + 1, 0))
        if version is None or version <= last:
            continue
        if version != last + 1 or not 0 < modified_us <= cutoff_us:
            break
        last = version
    return last


def now_of(context: TableContext) -> int:
    """Return the time that ages are counted from, µs UTC: the earlier of the clock that dates the
    store's objects and this machine's. One that is ahead would make everything old (RET-4).
    """
    return min(context.store.clock_us(), context.environment.now_us())


def before_us(now_us: int, seconds: float) -> int:
    """Return when it was so many seconds ago, µs UTC."""
    return now_us - round(min(seconds, 1e12) * _MICROS)
