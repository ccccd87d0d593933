"""Checkpoint as the base of a log: find it, check it against the log, replay later entries on it.

Parts are read on demand. A base that turns out to be damaged is replaced, and replay begins again.

Spec: CKP-5, CKP-6.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

import numpy as np

from tablefmt.errors import (
    CorruptTableError,
    LostCheckpointError,
    UnsupportedFeatureError,
    VersionNotFoundError,
)
from tablefmt.log.codec import decode, digest
from tablefmt.log.compacted_log import SIZES, read_entries
from tablefmt.log.log_reader import WINDOW_MAX, no_state
from tablefmt.log.object_names import CHECKPOINTS, entry_key, root_version
from tablefmt.log.overflow_metadata import read_overflows
from tablefmt.model.log_entry import StoredEntry
from tablefmt.snapshot.checkpoint_base import NOTHING, Base, blamed
from tablefmt.snapshot.checkpoint_checks import CheckpointLimits
from tablefmt.snapshot.checkpoint_parts import StoredColumns, StoredDeletes, StoredDeltas
from tablefmt.snapshot.checkpoint_root import Root, decode_root
from tablefmt.snapshot.file_history import FileHistory
from tablefmt.snapshot.folding import bounded, fold
from tablefmt.snapshot.part_file import PartFile
from tablefmt.snapshot.segments import NEVER, ManifestSegment
from tablefmt.store.object_store import Store


def fold_stored(store: Store, files: FileHistory, entries: Sequence[StoredEntry]) -> FileHistory:
    """Return the files after the next entries, with their overflow metadata files.

    Raises:
        CorruptTableError: RPL-2, RPL-3, ADD-1, DEL-1, VAL-1; an overflow metadata file is damaged.
    """
    sides = read_overflows(store, entries)
    return fold(files, [stored.entry for stored in entries], *sides)


def replay(store: Store, files: FileHistory, version: int, compacted_to: int = -1) -> FileHistory:
    """Return the files of a later version, without removed files above the limit.

    Args:
        store: the table's root.
        files: the files of a version.
        version: the later one.
        compacted_to: entries up to this version are in compacted log segments (HIS-3).

    Raises:
        CorruptTableError: as `fold_stored`; an entry is missing.
    """
    while files.version < version:
        first = files.version + 1
        # Read whole compacted log segments, so that none is read twice.
        together = WINDOW_MAX if first > compacted_to else SIZES[0] - first % SIZES[0]
        last = min(version, first + together - 1)
        entries = read_entries(store, first, last, compacted_to)
        files = bounded(fold_stored(store, files, entries))
    return files


logger = logging.getLogger(__name__)

TRIED_MAX = 8
"""Maximum number of checkpoints to try before reading the log from its beginning, if it has one.
There may be many of an earlier log at this location.
"""


def sound_root(root_body: bytes | None, entry_body: bytes | None, key: str) -> Root:
    """Return the root if it belongs to this log: it names the bytes of its version's entry (CKP-5).

    Args:
        root_body: the root's bytes; None: there is none.
        entry_body: the bytes of the entry of the version in the root's name.
        key: the root's name.

    Raises:
        CorruptTableError: CKP-2, CKP-5. UnsupportedFeatureError: as the entry.
    """
    if root_body is None or entry_body is None:
        raise CorruptTableError("the checkpoint, or its entry, is missing", key=key, rule="CKP-5")
    root = decode_root(root_body, key)
    head = root.head
    if head.version != root_version(key) or digest(entry_body) != head.digest:
        raise CorruptTableError("the checkpoint belongs to another log", key=key, rule="CKP-5")
    entry = decode(entry_body, head.version).entry
    same = (entry.table, entry.timestamp, entry.time_version, entry.totals)
    if same != (head.table, head.timestamp, head.time_version, head.totals):
        raise CorruptTableError("the checkpoint differs from its entry", key=key, rule="CKP-5")
    return replace(root, head=replace(head, ended=entry.ends))


def base_of(store: Store, root: Root, key: str) -> Base:
    """Return the content of a root as the base of a log. This reads nothing."""
    head = root.head
    metadata = head.metadata
    fields = {field.id: field for field in metadata.schema.with_hidden}
    limits = CheckpointLimits(
        version=head.version,
        next_id=head.totals.next_id,
        deleted=head.totals.deleted,
        last_id=metadata.schema.last_id,
        fields=fields,
        partition_ids=metadata.partition_ids,
        all_partition_ids=metadata.all_partition_ids,
    )
    segments = []
    for part in root.segments:
        files = StoredColumns(PartFile(store, part), part, limits)
        # A broadcast value uses no memory: the count is not trusted until the part is read.
        live = np.broadcast_to(np.int64(NEVER), len(files))
        segments.append(ManifestSegment(files, live, None))
    stored = [segment.files for segment in segments]
    deletes = StoredDeletes([PartFile(store, part) for part in root.deletes], stored, limits)
    return Base(
        head=head,
        created=root.created,
        described=root.described,
        files=FileHistory(
            first=head.version,
            version=head.version,
            metadata_version=root.described,
            segments=tuple(segments),
            deltas=deletes.parts,
            types={i: field.type for i, field in fields.items()},
            numbered=metadata.numbered,
            partitioning=metadata.partitioning,
            live=head.totals.files,
            rows=head.totals.rows,
            bytes=head.totals.bytes,
            deleted=head.totals.deleted,
            distinct_below=head.totals.next_id,
            checkpoint=key,
        ),
        root=root,
        key=key,
    )


def read_base(store: Store, key: str) -> Base:
    """Return the base of a checkpoint.

    Raises:
        CorruptTableError, UnsupportedFeatureError: as `sound_root`. StoreError: no answer.
    """
    version = root_version(key)
    if version is None:
        raise CorruptTableError("this is not the name of a checkpoint", key=key, rule="KEY-1")
    root_body, entry_body = store.get_many([key, entry_key(version)])
    return base_of(store, sound_root(root_body, entry_body, key), key)


def listed_roots(store: Store) -> list[str]:
    """Return the names of the roots in a listing, newest first."""
    listed = [(root_version(each.key), each.key) for each in store.list_after(f"{CHECKPOINTS}0")]
    return [key for version, key in sorted(listed, reverse=True) if version is not None]


def usable_bases(
    store: Store, last: int, without: frozenset[str] = frozenset(), tries: float = math.inf
) -> Iterator[Base]:
    """Yield the sound checkpoints of versions up to `last`, newest first.

    Args:
        store: the table's root.
        last: the version.
        without: names of roots to skip.
        tries: the maximum number of roots to try.
    """
    tried = 0
    for key in listed_roots(store):
        version = root_version(key)
        if version is None or version > last or key in without:
            continue
        if tried >= tries:
            return
        tried += 1
        try:
            yield read_base(store, key)
        except (CorruptTableError, UnsupportedFeatureError) as error:
            logger.warning("skipping a checkpoint: %s", error)


BLAMED_MAX = 2
"""Maximum number of roots that contradicted the log. After that, the entries alone are read."""


class CheckpointBase:
    """Checkpoint base of a view's files.

    Threads may use it concurrently, and none waits for another one's store requests. A race can
    bring a damaged base back into use. The next reader then detects the damage again.
    """

    def __init__(self, base: Base) -> None:
        self.base = base
        self._lost: dict[str, str] = {}
        """Names of unreadable parts and of roots that contradict the log, with the reasons."""
        self._blamed = 0
        """Number of roots that contradicted the log."""

    def another(self, store: Store, lost: LostCheckpointError, version: int) -> Base:
        """Replace the base by one without the unreadable part, and return it.

        Args:
            store: the table's root.
            lost: the error that names the part.
            version: the version whose files are needed. A higher version of the current base counts
                instead, because earlier versions may have expired since.
        """
        self.without(lost)
        # A damaged entry contradicts every checkpoint. Reading entries alone shows the difference.
        last = -1 if self._blamed >= BLAMED_MAX else max(version, self.base.version)
        base = self.base = self._usable(store, last)
        return base

    def without(self, lost: LostCheckpointError) -> None:
        """Stop using checkpoints that need an unreadable part."""
        logger.warning("a checkpoint is no longer used: %s", lost)
        self._blamed += lost.key not in self._lost and root_version(lost.key) is not None
        self._lost = {**self._lost, lost.key: lost.detail}

    def older(self, store: Store, files: FileHistory, version: int) -> FileHistory:
        """Return the files of an older version, from a checkpoint and the entries up to it.

        Args:
            store: the table's root.
            files: a cached history that may start at or before the version.
            version: a known one.

        Raises:
            CorruptTableError: as `replay`.
        """
        while True:
            if not files.first <= version:
                files = self._usable(store, version).files
            try:
                with blamed(files):
                    return replay(store, files, version, self.base.version)
            except LostCheckpointError as lost:
                self.without(lost)
                last = -1 if self._blamed >= BLAMED_MAX else version
                files = self._usable(store, last).files

    def _usable(self, store: Store, last: int) -> Base:
        """Return the newest base up to a version without any lost part."""
        if last < 0:
            return NOTHING
        if 0 <= self.base.version <= last and not self._is_lost(self.base):
            return self.base
        bases = (b for b in usable_bases(store, last) if not self._is_lost(b))
        return next(bases, NOTHING)

    def _is_lost(self, base: Base) -> bool:
        return any(names_part(base.files, key) for key in self._lost)

    @contextmanager
    def state_kept_at(self, version: int) -> Iterator[None]:
        """Run work that needs the state of a version, and report expired or lost state.

        The version may have expired since it was known. Its state may also have been in lost
        checkpoints.

        Raises:
            VersionNotFoundError, CorruptTableError: LOG-8.
        """
        try:
            yield
        except VersionNotFoundError as expired:
            if isinstance(expired.oldest, int) and expired.oldest <= version:
                raise no_state(expired.oldest, self._lost) from expired
            raise


def names_part(files: FileHistory, key: str) -> bool:
    """Return True if some files or deleted rows come from this part, or from this root."""
    segments = (s.files.path for s in files.segments if isinstance(s.files, StoredColumns))
    deltas = (d.path for d in files.deltas if isinstance(d, StoredDeltas))
    return key == files.checkpoint or key in segments or key in deltas
