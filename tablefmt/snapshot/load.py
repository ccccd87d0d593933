"""The log as one handle sees it: its head, its times, and snapshots of any version in it.

Reads entries and side files; decides nothing that replay has not decided. Thread safe.
A base made from a checkpoint would take the place of versions 0 … c in `LogView`.
"""

from __future__ import annotations

import itertools
import threading
from collections import deque
from collections.abc import Sequence
from typing import TypeAlias

import pyarrow as pa

from tablefmt.errors import CorruptEntryError, CorruptTableError, TableNotFoundError
from tablefmt.log.codec import decode
from tablefmt.log.hint import write_hint
from tablefmt.log.names import entry_key
from tablefmt.log.reader import WINDOW_MAX, Progress, open_log, read_range, read_tail
from tablefmt.log.side_files import read_deletes, read_side
from tablefmt.model.entry import NOT_LOGICAL, Metadata, SideFile, StoredEntry, Totals
from tablefmt.snapshot.files import FileHistory
from tablefmt.snapshot.head import Head, advance, first_head, same_table, skip_to
from tablefmt.snapshot.state import Snapshot
from tablefmt.snapshot.timeline import Timeline
from tablefmt.store.forks import renew_after_fork
from tablefmt.store.protocol import Store

HINT_LAG = 8
"""A reader that had to look further than this beyond the hint leaves a better one."""

UNFOLDED_MAX = 256
"""Entries held as they were read until somebody asks for files; more become columns."""

HELD_MAX = 1024
"""The same behind one that has a side file: then they are let go of, and got again by who asks. If
many were read at once it is more of them, for who reads them is about to ask."""

UNREAD_MAX = 1024
"""Entries passed over and held as bytes until somebody reads; more are got again from the store."""

UNREAD_BYTES = 64 << 10
"""Longer ones are not held."""

RECENT = 64
"""Newest entries kept whole: a commit judges what came in while its data was being written."""

Sides: TypeAlias = tuple[dict[int, pa.Table], dict[int, pa.Table]]
"""Columns of `add` and of `delete` that are in side files, by version."""


class LogView:
    """What is known of one table's log: versions 0 to `head.version`.

    An append passes over entries without reading them (`pass_over`). What asks for more than the
    head reads them first, and so may raise what replay raises, and StoreError.

    The store is never asked under the lock, so nobody waits for anybody else's requests. Whatever
    stops a change half-way leaves what was known before: the next one puts it right.
    """

    def __init__(self, store: Store, entries: Sequence[StoredEntry]) -> None:
        self.store = store
        self.others = 0
        """How many entries of others the last commit by this view met on its way."""
        self.crowd = 0
        """How many more commits by this view ask for their turn among neighbours (STO-14)."""
        self._lock = threading.RLock()
        self._timeline = Timeline()
        self._beyond_files: list[int] = []
        self._with_lineage: list[int] = []
        self._totals: list[Totals] = []
        self._metadata: list[tuple[int, Metadata]] = []
        self._files = FileHistory()
        self._unfolded: list[StoredEntry] = []
        """Those read that `_files` lacks, in order; the first of them may have been let go of."""
        self._held_max = HELD_MAX
        self._snapshot: Snapshot | None = None
        self._damage: CorruptTableError | None = None
        self._recent: deque[StoredEntry] = deque(maxlen=RECENT)
        self.head: Head = first_head(entries[0])
        """Of the newest version. `applications` is of the newest one that was read."""
        self._read: Head = self.head
        self._unread: deque[tuple[int, bytes | StoredEntry | None]] = deque(maxlen=UNREAD_MAX)
        """The newest entries after `_read`, by version; None for a large one."""
        self._note(entries[0])
        renew_after_fork(self)
        self.absorb(entries[1:])

    def after_fork(self) -> None:
        """A thread of the parent may hold the lock, and will not let go of it here."""
        self._lock = threading.RLock()

    @classmethod
    def open(cls, store: Store, progress: Progress | None = None) -> LogView:
        """Read the whole log.

        Raises:
            TableNotFoundError: LOG-7, there is no entry 0.
            CorruptTableError: any rule of replay. UnsupportedFeatureError: ENT-3, ENT-7.
        """
        entries, hint = open_log(store, progress)
        if not entries:
            raise TableNotFoundError(store.uri)
        view = cls(store, entries)
        # A hint beyond the head is wrong, and would cost every reader requests.
        if view.head.version > (hint or 0) + HINT_LAG or (hint or 0) > view.head.version:
            write_hint(store, view.head.table, view.head.version)
        return view

    @property
    def damaged(self) -> bool:
        """True once damage among the files was met: this view cannot go on from there."""
        return self._damage is not None

    @property
    def timeline(self) -> Timeline:
        """Times by version."""
        self._catch_up()
        return self._timeline

    @property
    def beyond_files(self) -> list[int]:
        """Versions that changed rows by other means than whole files (INC-4)."""
        self._catch_up()
        return self._beyond_files

    @property
    def with_lineage(self) -> list[int]:
        """Versions that say where the rows of their files came from (LIN-1)."""
        self._catch_up()
        return self._with_lineage

    @property
    def totals(self) -> list[Totals]:
        """Running sums by version."""
        self._catch_up()
        return self._totals

    # Taking in

    def absorb(self, entries: Sequence[StoredEntry]) -> None:
        """Take in entries that follow the head, in order; those already known are passed over.

        Raises:
            CorruptEntryError: they do not fit on the head (replay's rules).
        """
        left = deque(entries)
        if len(entries) > UNFOLDED_MAX:
            self._held_max = HELD_MAX + 2 * (len(self._unfolded) + len(entries))
        while left:
            with self._lock:
                self._put_right()
                while left and not self._must_read_before(left[0]):
                    self._absorb(left.popleft())
            if left:
                self._catch_up()

    def _must_read_before(self, stored: StoredEntry) -> bool:
        entry = stored.entry
        says = entry.metadata is not None or entry.protocol is not None
        return says and self._read is not self.head and stored.version > self.head.version

    def _absorb(self, stored: StoredEntry) -> None:
        if stored.version <= self.head.version:
            return
        head = advance(self.head, stored)
        if self._read is self.head:
            self._note(stored)
            self._read = head
        else:
            self._unread.append((stored.version, stored))
        self.head = head

    def pass_over(self, bodies: Sequence[bytes], last: StoredEntry) -> None:
        """Take in entries, in order, and read none but the last; those already known are skipped.

        Args:
            bodies: the entries; `log.outline` found nothing in them that an append has to read.
            last: the last of them.

        Raises:
            CorruptEntryError: the last cannot follow.
        """
        first = last.version + 1 - len(bodies)
        with self._lock:
            self._put_right()
            assert first <= self.head.version + 1, (first, self.head.version)
            if last.version <= self.head.version:
                return
            head = skip_to(self.head, last)
            for version, body in enumerate(bodies[:-1], first):
                if version > self.head.version:
                    self._unread.append((version, body if len(body) <= UNREAD_BYTES else None))
            self._unread.append((last.version, last))
            self.head = head

    def _put_right(self) -> None:
        """Forget what a change that was broken off left, and end one that was all but done."""
        self._forget_after(self._read.version)
        if self._read.version > self.head.version:
            self.head = self._read
        while self._unread and self._unread[-1][0] > self.head.version:
            self._unread.pop()
        if self._unfolded and self._unfolded[0].version <= self._files.version:
            known = self._files.version
            self._unfolded = [stored for stored in self._unfolded if stored.version > known]

    def _forget_after(self, version: int) -> None:
        self._timeline.forget_after(version)
        del self._totals[version + 1 :]
        for versions in (self._beyond_files, self._with_lineage):
            while versions and versions[-1] > version:
                versions.pop()
        while self._metadata and self._metadata[-1][0] > version:
            self._metadata.pop()
        for entries in (self._recent, self._unfolded):
            while entries and entries[-1].version > version:
                entries.pop()

    def _catch_up(self) -> None:
        """Read what was passed over."""
        while wanted := self._take_unread():
            # Dropped because there were many, or because they are large.
            fetched = list(read_range(self.store, wanted[0], wanted[-1]))
            with self._lock:
                self._put_right()
                for stored in fetched:
                    self._take(stored)

    def _take_unread(self) -> range:
        """Read what is held; versions that have to be got before it can go on."""
        with self._lock:
            self._put_right()
            head = self.head
            if self._read is head:
                return range(0)
            held = dict(self._unread)
            for version in range(self._read.version + 1, head.version + 1):
                one = held.get(version)
                if one is None:
                    last = min(head.version, version + WINDOW_MAX - 1)
                    known = (v for v in range(version, last + 1) if held.get(v) is not None)
                    return range(version, next(known, last + 1))
                self._take(one if isinstance(one, StoredEntry) else decode(one, version))
            if self._read.digest != head.digest:
                message = "the entries before it are not those that were passed over"
                raise CorruptEntryError(message, key=entry_key(head.version), rule="LOG-1")
            self.head = self._read
            self._unread.clear()
            return range(0)

    def _take(self, stored: StoredEntry) -> None:
        if stored.version != self._read.version + 1:
            return
        read = advance(self._read, stored)
        self._note(stored)
        self._read = read

    def refresh(self) -> list[StoredEntry]:
        """Go to the newest version: one request if nothing is new. Returns what was new.

        Raises:
            TableReplacedError: the log that was read is not there any more.
            CorruptTableError: any rule of replay.
        """
        head = self.head
        fresh = read_tail(self.store, head.version + 1)
        if fresh:
            same_table(head, fresh[0])
        self._catch_up()
        self.absorb(fresh)
        return fresh

    # Looking

    def entries_after(self, version: int, last: int | None = None) -> list[StoredEntry]:
        """Those from `version` + 1 to `last`, by default the head, in order; read again only if
        they are long ago.

        Raises:
            CorruptTableError: what was read before is not there any more.
        """
        end = self.head.version if last is None else last
        if end <= version:
            return []
        self._catch_up()
        with self._lock:
            known = [stored for stored in self._recent if version < stored.version <= end]
        if len(known) == end - version:
            return known
        return list(read_range(self.store, version + 1, end))

    def metadata_at(self, version: int) -> Metadata:
        """The metadata in force at `version` (RPL-4). Nothing passed over changes it."""
        return next(m for v, m in reversed(self._metadata) if v <= version)

    def metadata_version_at(self, version: int) -> int:
        """The version that brought the metadata in force at `version` (ADD-9)."""
        return next(v for v, _ in reversed(self._metadata) if v <= version)

    def snapshot(self, version: int | None = None) -> Snapshot:
        """The state at `version`, by default the head; `version` must be known.

        Raises:
            VersionNotFoundError: it is not in the history.
            CorruptTableError: replay finds damage in the files' rules or a side file.
        """
        wanted = self.head.version if version is None else version
        self._catch_up()
        self._timeline.check_version(wanted)
        known = self._snapshot
        if known is not None and known.version == wanted:
            return known
        files = self._folded(wanted)
        try:
            columns, ids, added, removed = files.table()
        except CorruptEntryError as error:
            self._damage = error
            raise
        made = self._snapshot = Snapshot(
            table_id=self.head.table,
            version=wanted,
            timestamp=self._timeline.timestamps[wanted],
            time_version=self._timeline.time_versions[wanted],
            metadata=self.metadata_at(wanted),
            columns=columns,
            ids=ids,
            added=added,
            removed=removed,
            deltas=files.deltas.all(),
        )
        return made

    def _note(self, stored: StoredEntry) -> None:
        """Take the entry after `_read` into the lists; whoever calls moves `_read` on to it."""
        entry = stored.entry
        logical = entry.operation.cls not in NOT_LOGICAL
        if len(self._unfolded) >= UNFOLDED_MAX:
            self._fold_early()
        self._forget_after(self._read.version)
        if logical and (entry.delete is not None or entry.lineage is not None):
            self._beyond_files.append(entry.version)
        if entry.lineage is not None:
            self._with_lineage.append(entry.version)
        self._totals.append(entry.totals)
        if entry.metadata is not None:
            self._metadata.append((entry.version, entry.metadata))
        self._recent.append(stored)
        self._unfolded.append(stored)
        oldest = entry.totals.oldest
        self._timeline.append(entry.timestamp, entry.time_version, logical, oldest)

    # Files

    def _folded(self, version: int) -> FileHistory:
        """The files up to `version` or beyond. The store is asked for what is not held."""
        sides: Sides = ({}, {})
        while True:
            with self._lock:
                self._put_right()
                # Damage stays: whoever asks again is told the same.
                if self._damage is not None:
                    raise self._damage
                files, entries = self._files, self._waiting()
                if not entries and files.version >= version:
                    return files
                if entries and not _missing_sides(entries, sides):
                    self._fold(entries, sides)
                    continue
                held = self._unfolded[0].version if self._unfolded else self._read.version + 1
            if not entries:
                # They were let go of (`_fold_early`).
                first = files.version + 1
                entries = list(read_range(self.store, first, min(held, first + WINDOW_MAX) - 1))
            try:
                _read_sides(self.store, entries, sides)
            except CorruptEntryError as error:
                self._damage = error
                raise
            with self._lock:
                if self._damage is None and self._files.version + 1 == entries[0].version:
                    self._fold(entries, sides)

    def _waiting(self) -> list[StoredEntry]:
        """Entries held that come right after the files; none if others come before them."""
        held = self._unfolded
        return list(held) if held and held[0].version == self._files.version + 1 else []

    def _fold(self, entries: Sequence[StoredEntry], sides: Sides) -> None:
        """Turn entries that follow into columns. The lock is held."""
        try:
            self._files = self._files.fold([stored.entry for stored in entries], *sides)
        except CorruptEntryError as error:
            self._damage = error
            raise
        known = self._files.version
        self._unfolded = [stored for stored in self._unfolded if stored.version > known]

    def _fold_early(self) -> None:
        """Turn entries into columns before they pile up; reads nothing. The lock is held.

        Damage is kept for who asks for files: an append does not need them. What cannot be turned
        without reading a side file is let go of, and got again by who asks.
        """
        first = self._unfolded[0]
        if first.version == self._files.version + 1 and not _has_sides(first):
            plain = list(itertools.takewhile(lambda one: not _has_sides(one), self._unfolded))
            try:
                if self._damage is None:
                    self._fold(plain, ({}, {}))
            except CorruptEntryError:
                pass
        if len(self._unfolded) >= self._held_max or self._damage is not None:
            self._unfolded = []


def _has_sides(stored: StoredEntry) -> bool:
    return isinstance(stored.entry.add, SideFile) or isinstance(stored.entry.delete, SideFile)


def _missing_sides(entries: Sequence[StoredEntry], sides: Sides) -> bool:
    return any(
        isinstance(part, SideFile) and stored.version not in read
        for stored in entries
        for part, read in zip((stored.entry.add, stored.entry.delete), sides, strict=True)
    )


def _read_sides(store: Store, entries: Sequence[StoredEntry], sides: Sides) -> None:
    """Get the side files that are still missing."""
    adds, deletes = sides
    for stored in entries:
        entry = stored.entry
        if isinstance(entry.add, SideFile) and entry.version not in adds:
            adds[entry.version] = read_side(store, entry.add)
        if isinstance(entry.delete, SideFile) and entry.version not in deletes:
            deletes[entry.version] = read_deletes(store, entry.delete)
