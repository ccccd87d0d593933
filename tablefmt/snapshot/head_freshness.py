"""Head freshness: the time since a view last saw the head of its log.

A cached head may have expired. A log may lose its first entries (ENT-13), and then a free name can
be created again. So a view with an old head must check more than the next entry. Spec: RET-9,
LOG-8.
"""

from __future__ import annotations

from dataclasses import replace

from tablefmt.errors import (
    ChangesExpiredError,
    TablefmtError,
    TableReplacedError,
    VersionNotFoundError,
)
from tablefmt.log.codec import digest
from tablefmt.log.log_reader import newest_entry, oldest_of, read_tail
from tablefmt.model.log_entry import StoredEntry
from tablefmt.store.clocks import Moment, elapsed, seconds_between, wall_us, was_set_back
from tablefmt.store.object_store import Store

ENTRY_SECONDS_MIN = 3600.0
"""Half of the minimum time that an entry stays in the log, unless an override says that nothing is
running (RET-9). A view that saw the head within half of this time cannot have missed an expired
entry.
"""


WAITED_SECONDS = 5.0
"""Interval at which an idle follower checks that the log still continues at its version (INC-8)."""


class HeadFreshness:
    """Head freshness of one view.

    Three clocks measure elapsed time, and the longest result counts. The monotonic clock stops
    while a virtual machine is paused. The wall clock may jump. The store's clock may be unknown. A
    wall clock that was set back proves nothing, so it counts as a long time too.
    """

    def __init__(self, store: Store, asked: Moment | None = None) -> None:
        """Start the measurement.

        Args:
            store: the table's root.
            asked: when the known state of the log was requested; None: just now.
        """
        self.clock = elapsed
        self.wall = wall_us
        self._store = store
        now = self.now()
        self.began_at = self.heard_at = now if asked is None else _dated(asked, now)
        self._seen_at = now.elapsed

    def now(self) -> Moment:
        """Return the readings of the clocks."""
        return Moment(self.clock(), self.wall(), self._store.server_time_us())

    def heard(self, asked: Moment) -> None:
        """Record that a request sent at this moment saw the head."""
        if asked.elapsed > self.heard_at.elapsed:
            self.heard_at = asked

    @property
    def age(self) -> float:
        """Return the seconds since the log was opened, at most."""
        return self.seconds_since(self.began_at)

    @property
    def is_stale(self) -> bool:
        """Return True if entries above the known head may have been written and expired since."""
        return self.is_long_since(self.heard_at)

    def is_long_since(self, heard_at: Moment) -> bool:
        """Return True if the head seen at a moment may be below the retention horizon now."""
        return self.seconds_since(heard_at) > ENTRY_SECONDS_MIN / 2

    def seconds_since(self, moment: Moment) -> float:
        """Return the longest time that may have passed since a moment."""
        now = self.now()
        return max(seconds_between(moment, now), was_set_back(moment, now))

    def entries_after(
        self, store: Store, version: int, known: str, *, waits: bool = False
    ) -> list[StoredEntry]:
        """Return all entries above the known head; one request if there are none.

        That request asks for the next entry by its name. If there is none, the head is the newest
        entry, or entries above it have expired. The second is possible only after a long time, so
        only then the newest entry of the log is looked for.

        Args:
            store: the table's root.
            version: the version of the head.
            known: the digest of its entry.
            waits: the caller follows the log (INC-8). Every WAITED_SECONDS, two more requests show
                if the next entry has expired.

        Raises:
            ChangesExpiredError: LOG-8, some of them have expired, and `waits`.
            TableReplacedError: LOG-8, some of them have expired; RET-9, the head is no longer in
                the log. As `read_tail`.
        """
        stale, now = self.is_stale, self.now()
        try:
            fresh = read_tail(store, version + 1)
            waited = waits and now.elapsed - self._seen_at >= WAITED_SECONDS
            if fresh or waited:
                self._seen_at = now.elapsed
            if stale or (waited and not fresh):
                last = version + len(fresh)
                newest, body = newest_entry(store, last, last)
                if newest == version and (body is None or digest(body) != known):
                    # The head has expired, and a late writer has reused its name.
                    raise _put_back(version)
                if newest > last + 1:
                    # Entry `last + 1` was missing. It was written meanwhile, or it has expired.
                    fresh += read_tail(store, last + 1)
                    if version + len(fresh) < newest:
                        raise _behind(version, oldest_of(newest, body), newest, waits)
        except VersionNotFoundError as error:
            raise _behind(version, error.oldest, error.latest, waits) from None
        self.heard(now)
        return fresh


def _dated(moment: Moment, now: Moment) -> Moment:
    """Return a moment with the store's time, if it was taken before the store's first answer."""
    if moment.store_us is not None or now.store_us is None:
        return moment
    elapsed_us = round((now.elapsed - moment.elapsed) * 1_000_000)
    return replace(moment, store_us=now.store_us - elapsed_us)


def _put_back(version: int) -> TableReplacedError:
    return TableReplacedError(
        f"version {version}, the newest known here, is no longer in the log, or differs: "
        "the table was replaced by an earlier state. Open the table again",
        rule="RET-9",
    )


def _behind(version: int, oldest: object, newest: object, waits: bool) -> TablefmtError:
    if waits and isinstance(oldest, int):
        return ChangesExpiredError(version + 1, oldest + 1)
    return TableReplacedError(
        f"the newest version known here is {version}, and the log has expired since: it keeps "
        f"versions {oldest} to {newest}. Open the table again",
        rule="LOG-8",
    )
