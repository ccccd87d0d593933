"""Log view of one handle: its head, its times, and snapshots and cursors of any version in it.

The view reads entries and overflow metadata files; replay makes all decisions. Thread safe. Spec:
RPL-7.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from functools import partial

from tablefmt.errors import CorruptEntryError, LostCheckpointError, VersionNotFoundError
from tablefmt.log.compacted_log import read_entries
from tablefmt.log.log_reader import WINDOW_MAX, Progress, read_range
from tablefmt.log.object_names import entry_key
from tablefmt.model.log_entry import Metadata, StoredEntry, Totals
from tablefmt.snapshot.checkpoint_base import NOTHING, Base, blamed
from tablefmt.snapshot.checkpoint_reader import CheckpointBase, fold_stored, names_part
from tablefmt.snapshot.cursors import Cursors
from tablefmt.snapshot.earlier_versions import EarlierVersions
from tablefmt.snapshot.file_history import FileHistory
from tablefmt.snapshot.folding import MaterializedFiles
from tablefmt.snapshot.head import Head, advance, dropped, first_head, same_table, skip_to
from tablefmt.snapshot.head_freshness import HeadFreshness
from tablefmt.snapshot.log_opening import check_not_ended, open_view, put_hint_right
from tablefmt.snapshot.table_state import Snapshot
from tablefmt.snapshot.version_history import SkippedEntries, Timeline, Versions
from tablefmt.store.clocks import Moment
from tablefmt.store.forks import renew_after_fork
from tablefmt.store.object_store import Store

RECENT = 64
"""Number of newest entries kept whole. A commit checks the entries that came in while it wrote
data.
"""


class LogView:
    """Known state of one table's log, up to `head.version`. Versions before a checkpoint base are
    read from entries on demand.

    An append skips entries without reading them (`skip`). A request for a skipped version reads
    them first. So it may raise the errors of replay, and StoreError.

    No store request is made under the lock, so no thread waits for another one's requests. After an
    interrupted change, the next call repairs the state.
    """

    def __init__(
        self,
        store: Store,
        entries: Sequence[StoredEntry],
        base: Base = NOTHING,
        *,
        whole: bool = False,
        asked: Moment | None = None,
    ) -> None:
        """Create a view of some entries.

        Args:
            store: the table's root.
            entries: in order, right after the base; at least one without a base.
            base: the checkpoint base.
            whole: keep every file since the base, so that one history includes all versions.
            asked: when the store was asked for them; None: just now.
        """
        self.store = store
        self.base = base
        self.others = 0
        """Number of concurrent commits that the last commit by this view met."""
        self.crowd = 0
        """Number of further commits by this view that use the shared commit queue (STO-14)."""
        self.freshness = HeadFreshness(store, asked)
        self._lock = threading.RLock()
        self._earlier = EarlierVersions(self, base.first)
        self._versions = Versions(base, self._earlier)
        self._checkpoint_base = CheckpointBase(base)
        self._files = MaterializedFiles(base, whole=whole)
        self._snapshot: Snapshot | None = None
        self._recent: deque[StoredEntry] = deque(maxlen=RECENT)
        self._unread = SkippedEntries()
        """Newest entries, after `_read`."""
        self.head: Head = base.head or first_head(entries[0])
        """Head of the newest version. `applications` and `cursors` belong to the newest version
        read.
        """
        self._read: Head = self.head
        if base.head is not None:
            self._versions.start(base.head, base.described)
        else:
            self._note(entries[0])
        renew_after_fork(self)
        self.begins_anew = True
        """True while a log is opened that may contain a dropped table and another one after it
        (ENT-14).
        """
        self.absorb(entries)
        self.begins_anew = False

    def after_fork(self) -> None:
        """Create a new lock. A thread of the parent process may hold the old one for ever."""
        self._lock = threading.RLock()

    @classmethod
    def open(
        cls,
        store: Store,
        progress: Progress | None = None,
        *,
        whole: bool = False,
        ended: bool = False,
        explain: bool = True,
    ) -> LogView:
        """Read the log, from a checkpoint on if there is a usable one (CKP-5).

        Args:
            store: the table's root.
            progress: called with the number of entries read, if there is no checkpoint.
            whole: read all entries, and keep every file there ever was.
            ended: accept the log of a dropped table too.
            explain: if there is no table, list the objects found instead.

        Raises:
            TableNotFoundError: LOG-7, ENT-14. CorruptTableError. UnsupportedFeatureError: ENT-7.
        """
        view_of = partial(cls, store, whole=whole)
        opened, view = open_view(store, view_of, progress, whole=whole, explain=explain)
        check_not_ended(store, view.head, ended)
        view.begins_anew = ended
        put_hint_right(store, opened, view.head, whole=whole)
        return view

    @property
    def created(self) -> int:
        """Return the commit timestamp of version 0, µs UTC."""
        return self._versions.timeline.earliest

    @property
    def read_head(self) -> Head:
        """Return the head with `applications` and `cursors` up to date, after reading skipped
        entries.

        It may be below `head` if another thread appends.
        """
        self._catch_up()
        return self._read

    @property
    def damaged(self) -> bool:
        """Return True if the files are damaged. This view then cannot continue."""
        return self._files.damage is not None

    @property
    def timeline(self) -> Timeline:
        """Return the times by version."""
        self._catch_up()
        return self._versions.timeline

    @property
    def versions(self) -> Versions:
        """Return the facts about each version from its base on that need no files."""
        self._catch_up()
        return self._versions

    def absorb(self, entries: Sequence[StoredEntry]) -> None:
        """Add entries that follow the head, in order. Known entries are ignored.

        Raises:
            CorruptEntryError: they do not follow the head (replay's rules).
        """
        left = deque(entries)
        self._files.hold(len(entries))
        while left:
            with self._lock:
                self._put_right()
                while left and not self._must_read_before(left[0]):
                    self._absorb(left.popleft())
            if left:
                self._catch_up()

    def _must_read_before(self, stored: StoredEntry) -> bool:
        entry = stored.entry
        is_change = entry.metadata is not None or entry.protocol is not None or entry.moves_cursors
        return is_change and self._read is not self.head and stored.version > self.head.version

    def _absorb(self, stored: StoredEntry) -> None:
        if stored.version <= self.head.version:
            return
        if self.head.ended and not self.begins_anew:
            raise dropped(self.head.version)
        head = advance(self.head, stored)
        if self._read is self.head:
            self._note(stored)
            self._read = head
        else:
            self._unread.hold(stored.version, stored)
        self.head = head

    def skip(self, bodies: Sequence[bytes], last: StoredEntry) -> None:
        """Add entries, in order, and read only the last one. Known entries are ignored.

        Args:
            bodies: bytes of the entries. `entry_headers` has checked that none has metadata or
                protocol.
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
                    self._unread.hold(version, body)
            self._unread.hold(last.version, last)
            self.head = head

    def _put_right(self) -> None:
        """Undo an interrupted change, or complete a nearly finished one."""
        self._versions.forget_after(self._read.version)
        while self._recent and self._recent[-1].version > self._read.version:
            self._recent.pop()
        self._files.put_right(self._read.version)
        if self._read.version > self.head.version:
            self.head = self._read
        self._unread.forget_after(self.head.version)

    def _note(self, stored: StoredEntry) -> None:
        """Add the entry after `_read`. The caller advances `_read`."""
        self._files.take(stored)
        self._versions.append(stored.entry)
        self._recent.append(stored)

    def _catch_up(self, version: int | None = None) -> None:
        """Read skipped entries, unless they all come after `version`."""
        while version is None or version > self._read.version:
            missing = self._take_unread()
            if missing is None:
                return
            # Dropped because they were too many or too large.
            fetched = list(read_range(self.store, missing.start, missing.stop - 1))
            with self._lock:
                self._put_right()
                for stored in fetched:
                    self._take(stored)

    def _take_unread(self) -> range | None:
        """Read some of the held entries, few enough that commits wait only briefly for the lock.

        Returns:
            Versions that must be read before it can continue; empty if it can. None: all are read.
        """
        with self._lock:
            self._put_right()
            head = self.head
            if self._read is head:
                return None
            for stored in self._unread.read(self._read.version + 1, head.version):
                self._take(stored)
            first = self._read.version + 1
            if first <= head.version:
                return self._unread.missing(first, min(head.version, first + WINDOW_MAX - 1))
            if self._read.digest != head.digest:
                message = "the entries before it differ from the skipped ones"
                raise CorruptEntryError(message, key=entry_key(head.version), rule="LOG-1")
            self.head = self._read
            self._unread.clear()
            return None

    def _take(self, stored: StoredEntry) -> None:
        if stored.version != self._read.version + 1:
            return
        read = advance(self._read, stored)
        self._note(stored)
        self._read = read

    def refresh(self, *, waits: bool = False) -> list[StoredEntry]:
        """Advance to the newest version: one request if there are no new entries. Return the new
        entries.

        Raises: as `HeadFreshness.entries_after`, which defines `waits`.
            TableReplacedError: the log that was read is no longer there.
            CorruptTableError: any rule of replay.
        """
        head = self.head
        asked = self.store, head.version, head.digest
        fresh = [] if head.ended else self.freshness.entries_after(*asked, waits=waits)
        if fresh:
            same_table(head, fresh[0])
        self._catch_up()
        self.absorb(fresh)
        if self.head.ended:
            raise dropped(self.head.version)
        return fresh

    def entries_after(self, version: int, last: int | None = None) -> list[StoredEntry]:
        """Return entries from `version` + 1 to `last`, by default the head, in order.

        Recent entries come from memory, older ones from the store.

        Raises:
            CorruptTableError: an entry that was read before is missing.
        """
        end = self.head.version if last is None else last
        if end <= version:
            return []
        self._catch_up(end)
        with self._lock:
            known = [stored for stored in self._recent if version < stored.version <= end]
        if len(known) == end - version:
            return known
        entries = read_entries(self.store, version + 1, end, self.base.version)
        self._earlier.learn({e.version: e.entry for e in entries if e.version < self.base.first})
        return entries

    def check_version(self, version: int) -> int:
        """Return `version` if it is known and kept, both ends included. This reads nothing. Spec:
        ENT-13.

        Raises:
            VersionNotFoundError: it is not.
        """
        oldest = self.head.totals.oldest
        if not oldest <= version <= self.head.version:
            raise VersionNotFoundError(f"version {version}", oldest, self.head.version)
        return version

    def of_version(self, version: int) -> Versions | EarlierVersions:
        """Return the object that knows a version."""
        if 0 <= version < self.base.first:
            return self._earlier
        self._catch_up(version)
        return self._versions

    def metadata_at(self, version: int) -> Metadata:
        """Return the metadata in force at `version` (RPL-4). Skipped entries never change it."""
        early = 0 <= version < self.base.first
        return (self._earlier if early else self._versions).metadata(version)

    def metadata_version_at(self, version: int) -> int:
        """Return the version that wrote the metadata in force at `version` (ADD-9)."""
        early = 0 <= version < self.base.first
        return (self._earlier if early else self._versions).metadata_version(version)

    def totals_at(self, version: int) -> Totals:
        """Return the table statistics after `version`. Raises VersionNotFoundError."""
        return self.of_version(version).totals(version)

    def timestamp_at(self, version: int) -> int:
        """Return the commit timestamp of `version`, µs UTC. Raises VersionNotFoundError."""
        return self.of_version(version).timestamp(version)

    def time_version_at(self, version: int) -> int:
        """Return the time version of `version`, µs UTC. Raises VersionNotFoundError."""
        return self.of_version(version).time_version(version)

    def snapshot(self, version: int | None = None) -> Snapshot:
        """Return the state at `version`, by default the head; `version` must be known.

        Raises:
            VersionNotFoundError: it is not in the history.
            CorruptTableError: replay finds damage in the files or in an overflow metadata file.
        """
        if self.head.ended and not self.begins_anew:
            raise dropped(self.head.version)
        at = self.head.version if version is None else version
        self._catch_up(at)
        self._versions.timeline.check_version(at)
        known = self._snapshot
        if known is not None and known.version == at:
            return known
        self._snapshot = self.state_at(at)
        return self._snapshot

    def state_at(self, version: int) -> Snapshot:
        """Return the state at a known version, also of one whose files may have been removed.

        Raises:
            As `snapshot`.
        """
        return Snapshot(
            table_id=self.head.table,
            version=version,
            timestamp=self.timestamp_at(version),
            time_version=self.time_version_at(version),
            metadata=self.metadata_at(version),
            sums=self.totals_at(version),
            history=self._checked(self.files_at(version)),
            elsewhere=self.instead,
        )

    def files_at(self, version: int) -> FileHistory:
        """Return files that include a known version, and perhaps others.

        Raises:
            CorruptTableError: as `snapshot`; LOG-8, the checkpoints of its state are lost.
            VersionNotFoundError: it has expired since it was known.
        """
        with self._checkpoint_base.state_kept_at(version):
            return self._files_at(version)

    def _files_at(self, version: int) -> FileHistory:
        while True:
            with self._lock:
                self._put_right()
                if self._files.damage is not None:
                    raise self._files.damage
                files, waiting = self._files.history, self._files.waiting()
                held = self._files.unfolded
                ends = held[0].version if held else self._read.version + 1
            if files.first <= version <= files.version:
                return files
            if version < files.first:
                mine = self._checkpoint_base.older(self.store, self._files.older, version)
                self._files.older = mine
                return mine
            if not waiting:  # they were dropped
                first = files.version + 1
                waiting = list(read_range(self.store, first, min(ends, first + WINDOW_MAX) - 1))
            try:
                with blamed(files):
                    later = fold_stored(self.store, files, waiting)
            except LostCheckpointError as lost:
                self._stand_elsewhere(lost, version)
                continue
            except CorruptEntryError as error:
                self._files.damage = error
                raise
            with self._lock:
                self._files.replace(files, later)

    def instead(self, lost: LostCheckpointError, version: int) -> FileHistory:
        """Return the files of a version without using the unreadable part."""
        self._stand_elsewhere(lost, version)
        return self._checked(self.files_at(version))

    def _stand_elsewhere(self, lost: LostCheckpointError, version: int) -> None:
        self._snapshot = None
        if names_part(self._files.history, lost.key):
            base = self._checkpoint_base.another(self.store, lost, version)
            with self._lock:
                self._files.stand_on(base)
        elif names_part(self._files.older, lost.key):
            self._checkpoint_base.without(lost)
            with self._lock:
                self._files.older = self._files.history

    def _checked(self, files: FileHistory) -> FileHistory:
        """Return the files after a check that no path occurs twice."""
        try:
            with blamed(files):
                checked = files.check_paths(self.totals_at(files.version).next_id)
        except LostCheckpointError as lost:
            return self.instead(lost, files.version)
        except CorruptEntryError as error:
            if files is self._files.history:  # else the files are an older version's
                self._files.damage = error
            raise
        if checked is not files:
            with self._lock:
                self._files.replace(files, checked)
        return checked


def cursors_at(view: LogView, version: int) -> Cursors:
    """Return the cursors at a known version. For a table without cursors, this reads nothing.

    Raises:
        CorruptTableError: an entry that was read before is missing.
    """
    head = view.read_head
    # Cursors are never removed, so no cursor now means none before.
    if version == head.version or not head.cursors:
        return head.cursors
    return view.of_version(version).cursors(version)
