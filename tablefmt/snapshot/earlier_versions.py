"""Versions before the checkpoint base of a log, read from their entries on demand.

Spec: RPL-1, RPL-4, TIM-4, CKP-6.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import Protocol

from tablefmt.log.codec import decode
from tablefmt.log.compacted_log import read_entries
from tablefmt.log.log_reader import gap_error
from tablefmt.log.object_names import entry_key
from tablefmt.model.log_entry import Entry, Metadata, Totals
from tablefmt.snapshot.checkpoint_base import NOTHING
from tablefmt.snapshot.checkpoint_reader import usable_bases
from tablefmt.snapshot.cursors import NO_CURSORS, Cursors, after
from tablefmt.store.forks import ForkedLock
from tablefmt.store.object_store import Store

KEPT = 1024
"""Maximum number of cached entries."""

FAN = 16
"""Number of versions read in one round of a search by time."""


class HasStore(Protocol):
    """Owner of the log's store. The store may be replaced."""

    store: Store


class EarlierVersions:
    """Reader of versions from their own entries alone. Safe to share between threads."""

    def __init__(self, owner: HasStore, last: int) -> None:
        """Serve versions up to `last`, which is in the log."""
        self._owner = owner
        self.last = last
        self._held: OrderedDict[int, Entry] = OrderedDict()
        self._lock = ForkedLock()

    def entry(self, version: int) -> Entry:
        """Return the entry of a version.

        Raises:
            CorruptTableError: it is missing or damaged.
        """
        held = self._held.get(version)
        return self._read([version])[0] if held is None else held

    def _read(self, versions: list[int]) -> list[Entry]:
        known = {version: self._held.get(version) for version in versions}
        missing = [version for version, entry in known.items() if entry is None]
        bodies = self._owner.store.get_many([entry_key(version) for version in missing])
        read: dict[int, Entry] = {}
        for version, body in zip(missing, bodies, strict=True):
            if body is None:
                raise gap_error(self._owner.store, version, self.last)
            read[version] = decode(body, version).entry
        self.learn(read)
        return [read[v] if entry is None else entry for v, entry in known.items()]

    def learn(self, entries: Mapping[int, Entry]) -> None:
        """Cache entries that were read."""
        with self._lock:
            self._held.update(entries)
            while len(self._held) > KEPT:
                self._held.popitem(last=False)

    def totals(self, version: int) -> Totals:
        """Return the table statistics after a version."""
        return self.entry(version).totals

    def timestamp(self, version: int) -> int:
        """Return the commit timestamp of a version, µs UTC."""
        return self.entry(version).timestamp

    def time_version(self, version: int) -> int:
        """Return the time version of a version, µs UTC."""
        return self.entry(version).time_version

    def metadata_version(self, version: int) -> int:
        """Return the version that wrote the metadata in force at `version` (ADD-9)."""
        at = self.totals(version).metadata_version
        # That entry may change only the protocol.
        while self.entry(at).metadata is None:
            at = self.totals(at - 1).metadata_version
        return at

    def metadata(self, version: int) -> Metadata:
        """Return the metadata in force at a version (RPL-4)."""
        metadata = self.entry(self.metadata_version(version)).metadata
        assert metadata is not None
        return metadata

    def cursors(self, version: int) -> Cursors:
        """Return the source cursors at a version: from a checkpoint before it, and entries
        (RPL-7).
        """
        store = self._owner.store
        base = next(usable_bases(store, version), NOTHING)
        before = NO_CURSORS if base.head is None else base.head.cursors
        entries = read_entries(store, base.version + 1, version, self.last)
        return after(before, (stored.entry for stored in entries))

    def first_time(self, low: int, high: int, micros: int) -> int:
        """Return the smallest version from `low` to `high` whose time version is >= `micros`; else
        `high`.

        Each round reads FAN to 2 * FAN - 1 versions, or all if fewer are left.
        """
        return self._first(low, high, micros, attrgetter("time_version"))

    def first_committed(self, low: int, high: int, micros: int) -> int:
        """Return the smallest version from `low` to `high` committed at or after `micros`; else
        `high`.
        """
        return self._first(low, high, micros, attrgetter("timestamp"))

    def _first(self, low: int, high: int, micros: int, time_of: Callable[[Entry], int]) -> int:
        while low < high:
            step = max(1, (high - low) // FAN)
            probes = list(range(low, high, step))
            times = [time_of(entry) for entry in self._read(probes)]
            later = next((i for i, time in enumerate(times) if time >= micros), len(probes))
            if later < len(probes):
                high = probes[later]
            low = probes[later - 1] + 1 if later else high
        return high
