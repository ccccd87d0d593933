"""Version ranges: a caller's bounds as versions, and cursors batch by batch within them. Pure.

Spec: INC-1, INC-2, INC-8.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

import pyarrow as pa

from tablefmt.errors import (
    ChangesExpiredError,
    InvalidArgumentError,
    InvalidRangeError,
    VersionNotFoundError,
)
from tablefmt.model.argument_checks import version_number
from tablefmt.model.tags import version_or_tag
from tablefmt.model.times import Time, show_time, to_micros
from tablefmt.snapshot.version_history import Timeline

SETTLE_US = 600_000_000
"""Time after the end of a range during which a commit in flight may still land in it (INC-2)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """Bounds as a caller gives them: exactly one begin, at most one end."""

    starting_version: int | str | None = None
    after_version: int | str | None = None
    starting_timestamp: Time | None = None
    after_timestamp: Time | None = None
    ending_version: int | str | None = None
    ending_timestamp: Time | None = None


def with_numbers(bounds: Bounds, tagged: Callable[[str], int]) -> Bounds:
    """Return the bounds with versions in place of the names of tags (TAG-1).

    Raises:
        InvalidRangeError: a bound is no version.
    """

    def known(version: int | str | None) -> int | None:
        if version is None:
            return None
        number = version_or_tag(version)
        return tagged(number) if isinstance(number, str) else number

    return replace(
        bounds,
        starting_version=known(bounds.starting_version),
        after_version=known(bounds.after_version),
        ending_version=known(bounds.ending_version),
    )


@dataclass(frozen=True, slots=True)
class Covered:
    """Versions `first` to `last`, both inclusive; empty if `first` is `last + 1`."""

    first: int
    last: int
    settled: bool
    is_kept: bool = True
    """True if the changes of the range are available. Otherwise the reader must delete all earlier
    rows and use only the rows at its end (INC-7).
    """

    begins: bool = False
    """True if the table begins with `first`, after another table was dropped. There is then no
    version before, and no row at this one.
    """

    @property
    def before(self) -> int:
        """Return the version whose rows exist before the range; -1 if there is none."""
        return self.first if self.begins else self.first - 1

    @property
    def empty(self) -> bool:
        """Return True if the range covers no version."""
        return self.first > self.last


EXPIRED = ("error", "snapshot")
"""Behaviours for a range that begins with versions that are no longer kept."""


def covered(
    bounds: Bounds,
    timeline: Timeline,
    now_us: int,
    expired: str = "error",
    begins_with: Callable[[int], bool] = lambda version: version == 0,
) -> Covered:
    """Return the versions that `bounds` cover.

    Args:
        bounds: as given.
        timeline: up to the head.
        now_us: the store's clock, or the best estimate of it.
        expired: one of EXPIRED.
        begins_with: return True if a version created the table; called for the oldest kept version.

    Raises:
        InvalidArgumentError: `expired` is not one of EXPIRED.
        InvalidRangeError: no begin or several, two ends, begin after end, an unreadable time.
        VersionNotFoundError: a version outside the history, or a time before its first.
        ChangesExpiredError: ENT-13, the range begins with versions that are no longer kept. For
            "snapshot": its end is not kept either.
    """
    if expired not in EXPIRED:
        raise InvalidArgumentError(f"expired is {expired!r}; expected 'error' or 'snapshot'")
    first = _begin(bounds, timeline)
    # Rows that a commit deleted were live at the version before it.
    oldest = timeline.oldest
    begins = first == oldest > 0 and begins_with(first)

    def earliest() -> int:
        return oldest if begins_with(oldest) else oldest + 1

    is_kept = first > oldest or oldest == 0 or begins
    if not is_kept and expired == "error":
        raise ChangesExpiredError(first, earliest())
    last, settled = _end(bounds, timeline, now_us)
    if last < oldest:
        raise ChangesExpiredError(first, earliest())
    # A starting version is inclusive, so the range always covers at least one version.
    if first > last + 1 or (first > last and bounds.starting_version is not None):
        raise InvalidRangeError(
            f"the range begins at version {first}, after its end at version {last}; "
            "swap the bounds, or leave the end out"
        )
    _check_times(bounds)
    return Covered(first, last, settled, is_kept, begins)


def _check_times(bounds: Bounds) -> None:
    """Refuse a begin time after the end time, even if no commit lies between them."""
    begin = bounds.starting_timestamp or bounds.after_timestamp
    if begin is not None and bounds.ending_timestamp is not None:
        start, end = to_micros(begin), to_micros(bounds.ending_timestamp)
        if start > end:
            raise InvalidRangeError(
                f"the range begins at {show_time(start)}, after its end at {show_time(end)}; "
                "swap the bounds, or leave the end out"
            )


def _begin(bounds: Bounds, timeline: Timeline) -> int:
    starts = [
        bounds.starting_version,
        bounds.after_version,
        bounds.starting_timestamp,
        bounds.after_timestamp,
    ]
    if sum(s is not None for s in starts) != 1:
        raise InvalidRangeError(
            "give exactly one of starting_version, after_version, starting_timestamp and "
            "after_timestamp"
        )
    if bounds.starting_version is not None:
        return _in_log(version_number(bounds.starting_version), timeline)
    if bounds.after_version is not None:
        return _in_log(version_number(bounds.after_version), timeline) + 1
    if bounds.starting_timestamp is not None:
        _in_history(bounds.starting_timestamp, timeline)
        return timeline.first_from(to_micros(bounds.starting_timestamp, up=True))
    assert bounds.after_timestamp is not None
    return timeline.first_after(_in_history(bounds.after_timestamp, timeline))


def _end(bounds: Bounds, timeline: Timeline, now_us: int) -> tuple[int, bool]:
    if bounds.ending_version is not None and bounds.ending_timestamp is not None:
        raise InvalidRangeError("give ending_version or ending_timestamp, not both")
    if bounds.ending_version is not None:
        return _in_log(version_number(bounds.ending_version), timeline), True
    if bounds.ending_timestamp is None:
        return timeline.last, True
    end = _in_history(bounds.ending_timestamp, timeline)
    settled = end <= timeline.timestamps[-1] or now_us >= end + SETTLE_US
    return timeline.first_after(end) - 1, settled


def _in_log(version: int, timeline: Timeline) -> int:
    """Return the version. Also accept one that is no longer kept."""
    return version if 0 <= version < timeline.oldest else timeline.check_version(version)


def _in_history(when: Time, timeline: Timeline) -> int:
    micros = to_micros(when)
    if micros < timeline.earliest:
        first, last = timeline.earliest, timeline.time_versions[-1]
        raise VersionNotFoundError(f"time {show_time(micros)}", show_time(first), show_time(last))
    return micros


VERSION = -2
"""Position of `_commit_version` among the columns of a batch."""


class Followed(tuple[pa.RecordBatch, int]):
    """Pair of a batch and the version to resume from, with `snapshot` for batches of a snapshot."""

    snapshot: int | None
    """Version of the snapshot; None for row changes.

    With a number, the changes up to this version have expired. The batches with this number then
    hold all rows at the version. When the number changes, the reader must delete all earlier rows
    (INC-7).
    """

    def __new__(
        cls, batch: pa.RecordBatch, last_version: int, snapshot: int | None = None
    ) -> Followed:
        """Return the pair with `snapshot` set."""
        pair = super().__new__(cls, (batch, last_version))
        pair.snapshot = snapshot
        return pair


def with_cursors(
    batches: Iterable[pa.RecordBatch], before: int, last: int
) -> Iterator[tuple[pa.RecordBatch, int]]:
    """Yield the batches of a range, each with the last version that is complete so far.

    Args:
        batches: in the order of versions, each of one version.
        before: the version before the range.
        last: the last version of the range.
    """
    cursor, waiting, version = before, None, before
    for batch in batches:
        following = batch.column(batch.num_columns + VERSION)[0].as_py()
        if waiting is not None:
            # The first row of a later version shows that all versions before it are complete.
            cursor = following - 1 if following > version else cursor
            yield waiting, cursor
        waiting, version = batch, following
    if waiting is not None:
        yield waiting, last


def poll_seconds(poll: float) -> float:
    """Return the seconds to wait between two polls. Raises InvalidArgumentError."""
    if isinstance(poll, bool) or not isinstance(poll, int | float) or not 0 < poll < math.inf:
        raise InvalidArgumentError(f"poll is {poll!r}; expected a number of seconds above 0")
    return float(poll)
