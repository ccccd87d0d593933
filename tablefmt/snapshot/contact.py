"""When a view last heard of the head of its log. Who knows nothing newer may know it no longer.

A log may lose its beginning (ENT-13), and a name that is free again can be created again: whoever
goes by an old head asks for more than the next entry. Spec: RET-9, LOG-8.
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
from tablefmt.log.gaps import newest_entry, oldest_of
from tablefmt.log.reader import read_tail
from tablefmt.model.entry import StoredEntry
from tablefmt.store.clocks import Moment, elapsed, seconds_between, wall_us, was_set_back
from tablefmt.store.protocol import Store

ENTRY_SECONDS_MIN = 3600.0
"""An entry stays in the log for at least twice as long, unless somebody says that nothing is under
way (RET-9): whoever heard of the head within half of it cannot have missed one that is gone."""


WAITED_SECONDS = 5.0
"""Who follows a log, and finds nothing new, looks so often whether it can go on there (INC-8)."""


class Contact:
    """Of one view.

    How long ago something was is said by three clocks, and the longest answer counts: the clock of
    the machine that only rises stands still while a virtual machine is paused, its wall clock may
    jump, and the store's may not be known. A wall clock that was set back says nothing, so that
    counts as long, too.
    """

    def __init__(self, store: Store, asked: Moment | None = None) -> None:
        """Args:
        store: the table's root.
        asked: when the log was asked for what is known of it; None: just now.
        """
        self.clock = elapsed
        self.wall = wall_us
        self._store = store
        now = self.now()
        self.began_at = self.heard_at = now if asked is None else _dated(asked, now)
        self._seen_at = now.elapsed

    def now(self) -> Moment:
        """Return what the clocks say."""
        return Moment(self.clock(), self.wall(), self._store.server_time_us())

    def heard(self, asked: Moment) -> None:
        """Note that the head was seen by a request that was sent at a moment."""
        if asked.elapsed > self.heard_at.elapsed:
            self.heard_at = asked

    @property
    def age(self) -> float:
        """Seconds since the log was opened, at most."""
        return self.seconds_since(self.began_at)

    @property
    def is_stale(self) -> bool:
        """Entries above the head that is known may have come, and gone."""
        return self.is_long_since(self.heard_at)

    def is_long_since(self, heard_at: Moment) -> bool:
        """Return whether the head of a moment may be below the horizon by now."""
        return self.seconds_since(heard_at) > ENTRY_SECONDS_MIN / 2

    def seconds_since(self, moment: Moment) -> float:
        """Return the longest time that may have passed since a moment."""
        now = self.now()
        return max(seconds_between(moment, now), was_set_back(moment, now))

    def entries_after(
        self, store: Store, version: int, known: str, *, waits: bool = False
    ) -> list[StoredEntry]:
        """All entries above the head that is known; one request if there is none.

        Args:
            store: the table's root.
            version: of the head.
            known: the digest of its entry.
            waits: somebody follows the log (INC-8). Every WAITED_SECONDS, two requests more show
                whether the entry that is waited for was given up.

        Raises:
            ChangesExpiredError: LOG-8, some of them were given up, and `waits`.
            TableReplacedError: LOG-8, some of them were given up; RET-9, the head is not there any
                more. As `read_tail`.
        """
        stale, now = self.is_stale, self.now()
        try:
            fresh = read_tail(store, version + 1)
            waited = waits and now.elapsed - self._seen_at >= WAITED_SECONDS
            if fresh or waited:
                self._seen_at = now.elapsed
            if stale or (waited and not fresh):
                # What follows may be what another one who was late put there.
                last = version + len(fresh)
                newest, body = newest_entry(store, last, last)
                if newest == version and (body is None or digest(body) != known):
                    raise _put_back(version)
                if newest > last + 1:
                    fresh += read_tail(store, last + 1)
                    if version + len(fresh) < newest:
                        raise _behind(version, oldest_of(newest, body), newest, waits)
        except VersionNotFoundError as error:
            raise _behind(version, error.oldest, error.latest, waits) from None
        self.heard(now)
        return fresh


def _dated(moment: Moment, now: Moment) -> Moment:
    """Return a moment with the store's time, where it was before the store's first answer."""
    if moment.store_us is not None or now.store_us is None:
        return moment
    gone_us = round((now.elapsed - moment.elapsed) * 1_000_000)
    return replace(moment, store_us=now.store_us - gone_us)


def _put_back(version: int) -> TableReplacedError:
    return TableReplacedError(
        f"version {version}, the newest that is known here, is not in the log any more, or is "
        "another one: an earlier state of the table was put in its place",
        rule="RET-9",
    )


def _behind(version: int, oldest: object, newest: object, waits: bool) -> TablefmtError:
    if waits and isinstance(oldest, int):
        return ChangesExpiredError(version + 1, oldest + 1)
    return TableReplacedError(
        f"what is known here ends at version {version}, and the log was expired since: versions "
        f"{oldest} to {newest} are kept",
        rule="LOG-8",
    )
