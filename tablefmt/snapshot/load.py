"""The log as one handle sees it: its head, its times, and snapshots of any version in it.

Reads entries and side files; decides nothing that replay has not decided. Thread safe.
A base made from a checkpoint would take the place of versions 0 … c in `LogView`.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tablefmt.errors import CorruptEntryError, CorruptTableError, TableNotFoundError
from tablefmt.log.codec import decode
from tablefmt.log.hint import write_hint
from tablefmt.log.names import entry_key
from tablefmt.log.reader import Progress, open_log, read_range, read_tail
from tablefmt.log.side import read_deletes, read_side
from tablefmt.model.entry import NOT_LOGICAL, Metadata, SideFile, StoredEntry, Totals
from tablefmt.snapshot.files import FileHistory
from tablefmt.snapshot.head import Head, advance, first_head, same_table, skip_to
from tablefmt.snapshot.state import Snapshot
from tablefmt.snapshot.timeline import Timeline
from tablefmt.store.protocol import Store

HINT_LAG = 8
"""A reader that had to look further than this beyond the hint leaves a better one."""

UNFOLDED_MAX = 256
"""Entries held as they were read until somebody asks for files; more become columns."""

UNREAD_MAX = 1024
"""Entries passed over and held as bytes until somebody reads; more are got again from the store."""

UNREAD_BYTES = 64 << 10
"""Longer ones are not held."""

RECENT = 64
"""Newest entries kept whole: a commit judges what came in while its data was being written."""


class LogView:
    """What is known of one table's log: versions 0 to `head.version`.

    An append passes over entries without reading them (`pass_over`). What asks for more than the
    head reads them first, and so may raise what replay raises, and StoreError.
    """

    def __init__(self, store: Store, entries: Sequence[StoredEntry]) -> None:
        self.store = store
        self.lock = threading.RLock()
        self.others = 0
        """How many entries of others the last commit by this view met on its way."""
        self._timeline = Timeline()
        self._beyond_files: list[int] = []
        self._with_lineage: list[int] = []
        self._totals: list[Totals] = []
        self._metadata: list[tuple[int, Metadata]] = []
        self._files = FileHistory()
        self._unfolded: list[StoredEntry] = []
        self._snapshot: Snapshot | None = None
        self._damage: CorruptTableError | None = None
        self._recent: deque[StoredEntry] = deque(maxlen=RECENT)
        self.head: Head = first_head(entries[0])
        """Of the newest version. `applications` is of the newest one that was read."""
        self._read: Head = self.head
        self._unread: deque[bytes | StoredEntry | None] = deque(maxlen=UNREAD_MAX)
        """The newest entries after `_read`, up to the head; None for a large one."""
        self._note(entries[0])
        self.absorb(entries[1:])

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

    def absorb(self, entries: Sequence[StoredEntry]) -> None:
        """Take in entries that follow the head, in order; those already known are passed over.

        Raises:
            CorruptEntryError: they do not fit on the head (replay's rules).
        """
        with self.lock:
            for stored in entries:
                if stored.version <= self.head.version:
                    continue
                entry = stored.entry
                if entry.metadata is not None or entry.protocol is not None:
                    self._catch_up()
                behind = self._read is not self.head
                self.head = advance(self.head, stored)
                if behind:
                    self._unread.append(stored)
                else:
                    self._read = self.head
                    self._note(stored)

    def pass_over(self, bodies: Sequence[bytes], last: StoredEntry) -> None:
        """Take in entries that follow the head, in order, and read none but the last.

        Args:
            bodies: the entries; `log.outline` found nothing in them that an append has to read.
            last: the last of them.

        Raises:
            CorruptEntryError: the last cannot follow.
        """
        with self.lock:
            assert last.version == self.head.version + len(bodies), (last.version, self.head)
            self.head = skip_to(self.head, last)
            small = (body if len(body) <= UNREAD_BYTES else None for body in bodies[:-1])
            self._unread.extend(small)
            self._unread.append(last)

    def _catch_up(self) -> None:
        """Read what was passed over."""
        with self.lock:
            head = self.head
            if self._read is head:
                return
            first = head.version + 1 - len(self._unread)
            for stored in read_range(self.store, self._read.version + 1, first - 1):
                self._take(stored)
            for version, one in enumerate(self._unread, first):
                if version > self._read.version:
                    self._take(one if isinstance(one, StoredEntry) else self._decoded(version, one))
            if self._read.digest != head.digest:
                message = "the entries before it are not those that were passed over"
                raise CorruptEntryError(message, key=entry_key(head.version), rule="LOG-1")
            self.head = self._read
            self._unread.clear()

    def _decoded(self, version: int, body: bytes | None) -> StoredEntry:
        return decode(self.store.get(entry_key(version)) if body is None else body, version)

    def _take(self, stored: StoredEntry) -> None:
        self._read = advance(self._read, stored)
        self._note(stored)

    def refresh(self) -> list[StoredEntry]:
        """Go to the newest version: one request if nothing is new. Returns what was new.

        Raises:
            TableReplacedError: the log that was read is not there any more.
            CorruptTableError: any rule of replay.
        """
        with self.lock:
            fresh = read_tail(self.store, self.head.version + 1)
            if fresh and fresh[0].entry.table != self.head.table:
                same_table(self.head, fresh[0])
            self._catch_up()
            self.absorb(fresh)
            return fresh

    def entries_after(self, version: int) -> list[StoredEntry]:
        """Those from `version` + 1 to the head, in order; read again only if they are long ago.

        Raises:
            CorruptTableError: what was read before is not there any more.
        """
        with self.lock:
            missing = self.head.version - version
            if missing == 0:
                return []
            self._catch_up()
            if missing <= len(self._recent):
                return list(self._recent)[len(self._recent) - missing :]
            return list(read_range(self.store, version + 1, self.head.version))

    def metadata_at(self, version: int) -> Metadata:
        """The metadata in force at `version` (RPL-4). Nothing passed over changes it."""
        return next(m for v, m in reversed(self._metadata) if v <= version)

    def snapshot(self, version: int | None = None) -> Snapshot:
        """The state at `version`, by default the head; `version` must be known.

        Raises:
            VersionNotFoundError: it is not in the history.
            CorruptTableError: replay finds damage in the files' rules or a side file.
        """
        with self.lock:
            self._catch_up()
            wanted = self.head.version if version is None else version
            self.timeline.check_version(wanted)
            if self._snapshot is not None and self._snapshot.version == wanted:
                return self._snapshot
            columns, ids, added, removed = self._all_files()
            self._snapshot = Snapshot(
                table_id=self.head.table,
                version=wanted,
                timestamp=self.timeline.timestamps[wanted],
                time_version=self.timeline.time_versions[wanted],
                metadata=self.metadata_at(wanted),
                columns=columns,
                ids=ids,
                added=added,
                removed=removed,
                deltas=self._files.deltas.all(),
            )
            return self._snapshot

    def _note(self, stored: StoredEntry) -> None:
        entry = stored.entry
        logical = entry.operation.cls not in NOT_LOGICAL
        self._timeline.append(entry.timestamp, entry.time_version, logical)
        if logical and (entry.delete is not None or entry.lineage is not None):
            self._beyond_files.append(entry.version)
        if entry.lineage is not None:
            self._with_lineage.append(entry.version)
        self._totals.append(entry.totals)
        if entry.metadata is not None:
            self._metadata.append((entry.version, entry.metadata))
        self._recent.append(stored)
        self._unfolded.append(stored)
        if len(self._unfolded) >= UNFOLDED_MAX:
            self._fold_early()

    def _all_files(
        self,
    ) -> tuple[pa.Table, NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        # Damage leaves the history half changed: whoever asks again is told the same.
        if self._damage is not None:
            raise self._damage
        try:
            self._fold()
            return self._files.table()
        except CorruptEntryError as error:
            self._damage = error
            raise

    def _fold_early(self) -> None:
        """Turn entries into columns before they pile up; reads nothing.

        Damage is kept for who asks for files: an append does not need them.
        """
        entries = [stored.entry for stored in self._unfolded]
        if self._damage or any(
            isinstance(part, SideFile) for e in entries for part in (e.add, e.delete)
        ):
            return
        try:
            self._fold()
        except CorruptEntryError as error:
            self._damage = error

    def _fold(self) -> None:
        entries = [stored.entry for stored in self._unfolded]
        sides = {
            e.version: read_side(self.store, e.add) for e in entries if isinstance(e.add, SideFile)
        }
        deletes = {
            e.version: read_deletes(self.store, e.delete)
            for e in entries
            if isinstance(e.delete, SideFile)
        }
        self._files.fold(entries, sides, deletes)
        self._unfolded.clear()
