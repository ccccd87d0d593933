"""Folding: apply entries to the files of a version, to get those of a later version. Pure.

The materialized file state has columns up to a version, and the entries not yet folded into them.
Its owner must serialize changes. `put_right` repairs the state after an interrupted change.

Spec: ADD-1, ADD-6, ADD-9, RPL-2, RPL-3, DEL-1.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tablefmt.errors import CorruptEntryError, CorruptTableError
from tablefmt.log.object_names import entry_key
from tablefmt.model.log_entry import (
    PARTITIONING,
    AddedFiles,
    Entry,
    Metadata,
    OverflowFile,
    StoredEntry,
)
from tablefmt.model.partitionings import values_problem
from tablefmt.model.positions import delete_columns
from tablefmt.model.schema import Field
from tablefmt.snapshot.checkpoint_base import Base
from tablefmt.snapshot.deletion_vectors import Deltas
from tablefmt.snapshot.file_columns import (
    NOT_KEPT,
    blame,
    exact_sum,
    file_table,
    numbers_of,
    overflow_table,
    with_partitioning,
    with_written,
)
from tablefmt.snapshot.file_history import FileHistory
from tablefmt.snapshot.segments import NEVER, SEGMENT_FILES, ManifestSegment, find_files, joined


def fold(
    history: FileHistory,
    entries: Iterable[Entry],
    overflow_files: Mapping[int, pa.Table] | None = None,
    overflow_deletes: Mapping[int, pa.Table] | None = None,
) -> FileHistory:
    """Return the history with the next entries applied, in order. The given history does not
    change.

    Args:
        history: up to the version before the first entry.
        entries: contiguous.
        overflow_files: by version, the `add` columns of entries with an overflow metadata file.
        overflow_deletes: by version, DELETE_COLUMNS of entries with an overflow file for `delete`.

    Raises:
        CorruptEntryError: RPL-2 a removed file is not live, RPL-3 wrong sums, ADD-1, DEL-1, VAL-1.
    """
    following = list(entries)
    sides = (overflow_files or {}, overflow_deletes or {})
    try:
        return _Folding(history, *sides).all(following)
    except CorruptEntryError:
        # A run is checked in parts. Entry by entry, the error names the first wrong one.
        stepwise = _Folding(history, *sides)
        for entry in following:
            stepwise.all([entry])
        raise


class _Folding:
    """Builder of a history from an older one, which copies arrays before it writes to them."""

    def __init__(
        self,
        before: FileHistory,
        overflow_files: Mapping[int, pa.Table],
        overflow_deletes: Mapping[int, pa.Table],
    ) -> None:
        self._before = before
        self._segments = list(before.segments)
        self._deltas = list(before.deltas)
        self._version, self._metadata_version = before.version, before.metadata_version
        self._types = before.types
        self._numbered, self._partitioning = before.numbered, before.partitioning
        self._readded = before.readded
        self._looks_at_paths = not before.readded and not before.is_held
        self._live = before.live
        self._rows, self._bytes, self._deleted = before.sums()
        self._own: set[int] = set()
        """Manifest segments, by `id`, whose arrays belong to this builder alone."""
        self._overflow_files = overflow_files
        self._side_deletes = overflow_deletes

    def all(self, entries: Sequence[Entry]) -> FileHistory:
        """Apply the next entries: first the files that a run adds, then the removals of each
        entry.
        """
        first = 0
        while first < len(entries):
            last = first + 1
            while last < len(entries) and _is_in_run(entries[last]):
                last += 1
            self._run(entries[first:last])
            first = last
        self._own.clear()  # The arrays now belong to an immutable history.
        return replace(
            self._before,
            version=self._version,
            metadata_version=self._metadata_version,
            segments=tuple(self._segments),
            deltas=tuple(self._deltas),
            types=self._types,
            numbered=self._numbered,
            partitioning=self._partitioning,
            readded=self._readded,
            live=self._live,
            rows=self._rows,
            bytes=self._bytes,
            deleted=self._deleted,
        )

    def _run(self, entries: Sequence[Entry]) -> None:
        """Apply a run of entries. Only the first may have metadata or an overflow metadata file."""
        tail = _Tail()
        sums: list[tuple[int, int]] = []
        left: set[int] = set()
        for entry in entries:
            assert entry.version == self._version + 1 + len(sums), (entry.version, self._version)
            if entry.metadata is not None:
                left = self._numbered.keys() - entry.metadata.numbered.keys()
                self._learn(entry.metadata)
                self._metadata_version = entry.version
            sums.append(self._add(entry, tail))
        self._flush(tail)
        deltas: list[Deltas] = []
        for entry, (rows, size) in zip(entries, sums, strict=True):
            if entry.remove:
                self._remove(entry)
            self._live += 0 if entry.add is None else len(entry.add)
            self._rows += rows
            self._bytes += size
            if entry.delete is not None:
                deltas.append(self._delete(entry))
            if left:
                self._check_left(entry, left)
                left = set()
            totals = (entry.totals.rows, entry.totals.bytes, entry.totals.deleted)
            if totals != (self._rows, self._bytes, self._deleted):
                raise _bad(entry, "RPL-3", "its rows, bytes or deleted rows differ from its files")
            self._version = entry.version
        if deltas:
            self._push_deltas(Deltas.joined(deltas))

    def _learn(self, metadata: Metadata) -> None:
        types = dict(self._types)
        for column in metadata.schema.with_hidden:
            if types.setdefault(column.id, column.type) != column.type:
                types[column.id] = column.type
                self._retype(column)
        self._types = types
        self._numbered, self._partitioning = metadata.numbered, metadata.partitioning

    def _retype(self, column: Field) -> None:
        """Convert bounds of older files to the column's new type (SCH-9), so that all have one
        type.
        """
        for at, segment in enumerate(self._segments):
            files = segment.files.retyped(column)
            if files is not segment.files:
                self._put(at, replace(segment, files=files), owned=id(segment) in self._own)

    def _put(self, at: int, segment: ManifestSegment, *, owned: bool) -> None:
        self._own.discard(id(self._segments[at]))
        self._segments[at] = segment
        if owned:
            self._own.add(id(segment))

    def _owned(self, at: int) -> ManifestSegment:
        """Return a manifest segment whose `removed` and `deleted` may be written to."""
        segment = self._segments[at]
        if id(segment) not in self._own:
            self._put(at, segment.writable(self._deltas, self._version), owned=True)
        return self._segments[at]

    def _add(self, entry: Entry, tail: _Tail) -> tuple[int, int]:
        """Add the files of an entry; return their rows and bytes."""
        if entry.add is None:
            return 0, 0
        if isinstance(entry.add, OverflowFile):
            return self._add_side(entry, self._overflow_files[entry.version])
        if self._looks_at_paths:
            paths = entry.add.columns["path"]
            self._readded |= not all(entry.transaction in path for path in paths)
        self._check_partitions(entry, entry.add.columns)
        first = entry.totals.next_id - len(entry.add)
        tail.take(entry.add, first, entry.version, self._metadata_version, self._partitioning)
        return entry.add.rows, entry.add.bytes

    def _check_partitions(self, entry: Entry, columns: Mapping[str, Sequence[Any]]) -> None:
        """Check that each file has the values of its partitioning, and no others."""
        problem = values_problem(columns, self._numbered, self._partitioning)
        if problem is not None:
            raise _bad(entry, *problem)

    def _check_left(self, entry: Entry, left: set[int]) -> None:
        """Check that no live file has a partitioning that the metadata names no longer (EVO-1)."""
        for segment in self._segments:
            numbers = numbers_of(segment.files.columns([PARTITIONING]), len(segment))
            if np.any(np.isin(numbers, list(left)) & (segment.removed == NEVER)):
                message = "its metadata lacks the partitioning of a live file"
                raise _bad(entry, "EVO-1", message)

    def _flush(self, tail: _Tail) -> None:
        if not tail.ids:
            return
        ids, added, columns = tail.drain()
        try:
            table = file_table(columns, self._types)
        except CorruptEntryError:
            blame(added, columns, self._types)
            raise
        self._push(ids, added, table)

    def _add_side(self, entry: Entry, columns: pa.Table) -> tuple[int, int]:
        count = columns.num_rows
        if entry.add is None or count != len(entry.add):
            raise _bad(entry, "ADD-6", "the overflow metadata file has a different number of files")
        self._check_partitions(entry, _numbered_values(columns))
        columns = overflow_table(entry, columns, self._types)
        columns = with_written(entry, columns, self._metadata_version)
        columns = with_partitioning(columns, self._partitioning)
        if self._looks_at_paths:
            own = pc.match_substring(columns["path"], entry.transaction)
            self._readded |= not pc.all(own).as_py()
        first = entry.totals.next_id - count
        ids = np.arange(first, first + count, dtype=np.int64)
        self._push(ids, np.full(count, entry.version, np.int64), columns)
        rows, size = (exact_sum(columns[name].to_numpy()) for name in ("rows", "size"))
        return rows, size

    def _push(self, ids: NDArray[np.int64], added: NDArray[np.int64], columns: pa.Table) -> None:
        segments = self._segments
        for segment in ManifestSegment.new(ids, added, columns):
            segments.append(segment)
            self._own.add(id(segment))
        # Like a binary counter, so every file is copied O(log n) times over a long life.
        while len(segments) > 1 and _are_joined(*segments[-2:]):
            self._own.difference_update(map(id, segments[-2:]))
            segments[-2:] = [joined(segments[-2:])]
            self._own.add(id(segments[-1]))

    def _push_deltas(self, fresh: Deltas) -> None:
        deltas = self._deltas
        deltas.append(fresh)
        while len(deltas) > 1 and len(deltas[-2]) <= 2 * len(deltas[-1]):
            deltas[-2:] = [Deltas.joined(deltas[-2:])]

    def _find(self, ids: NDArray[np.int64], before: int) -> Iterable[Any]:
        """Return `find_files` among the current files."""
        return find_files(self._segments, ids, before)

    def _remove(self, entry: Entry) -> None:
        removed = np.asarray(entry.remove, np.int64)
        count = 0 if entry.add is None else len(entry.add)
        known = 0
        for at, places, _ in self._find(removed, entry.totals.next_id - count):
            segment = self._owned(at)
            if np.any(segment.removed[places] != NEVER):
                raise _bad(entry, "RPL-2", "it removes a file that was removed before")
            segment.removed[places] = entry.version
            went = segment.files.take(places, ["rows", "size"])
            self._rows -= exact_sum(went["rows"].to_numpy())
            self._bytes -= exact_sum(went["size"].to_numpy())
            self._deleted -= exact_sum(_counts(segment)[places])
            known += len(places)
        self._live -= known
        if known != len(removed):
            raise _bad(entry, "RPL-2", "it removes a file that was never added")

    def _delete(self, entry: Entry) -> Deltas:
        """Count the rows that an entry deletes."""
        columns = _deletes_of(entry, self._side_deletes)
        files, rows = columns["file"].to_numpy(), columns["rows"].to_numpy()
        takes = np.zeros(len(files), bool)
        known = 0
        for at, places, lines in self._find(files, entry.totals.next_id):
            segment = self._owned(at)
            live = segment.removed[places] == NEVER
            if np.any(~live & (segment.removed[places] != entry.version)):
                raise _bad(entry, "DEL-1", "it deletes rows of a file that was removed before")
            known_deleted = _counts(segment)[places]
            written = segment.files.take(places, ["rows"])["rows"].to_numpy()
            if np.any(rows[lines] > written - known_deleted):
                raise _bad(entry, "DEL-1", "it deletes more rows of a file than it has")
            counts = known_deleted + rows[lines]
            _counts(segment)[places[live]] = counts[live]
            takes[lines] = live
            known += len(lines)
        if known != len(files):
            raise _bad(entry, "DEL-1", "it deletes rows of a file that was never added")
        self._deleted += exact_sum(rows[takes])
        return Deltas.of_entry(entry.version, columns, takes)


def _numbered_values(columns: pa.Table) -> dict[str, Sequence[Any]]:
    """Return the partition columns of an overflow metadata file. Without numbers, names suffice."""
    names = [name for name in columns.column_names if name.startswith("partition.")]
    if PARTITIONING not in columns.column_names:
        return dict.fromkeys(names, ())
    return {name: columns[name].to_pylist() for name in (*names, PARTITIONING)}


def _is_in_run(entry: Entry) -> bool:
    """Return True if an entry can be applied together with the one before it."""
    return entry.metadata is None and not isinstance(entry.add, OverflowFile)


def _are_joined(older: ManifestSegment, newer: ManifestSegment) -> bool:
    if not older.is_held or older.deleted is None:
        return False
    return len(older) <= 2 * len(newer) and len(older) + len(newer) <= SEGMENT_FILES


def _counts(segment: ManifestSegment) -> NDArray[np.int64]:
    """Return the deleted counts of a manifest segment that may be written to."""
    assert segment.deleted is not None
    return segment.deleted


class _Tail:
    """Columns of several small entries, gathered so that Arrow arrays are built once."""

    def __init__(self) -> None:
        self.ids: list[int] = []
        self._added: list[int] = []
        self._columns: dict[str, list[Any]] = {}

    def take(
        self, files: AddedFiles, first_id: int, version: int, under: int, partitioning: int
    ) -> None:
        """Add the files of one entry. A column that an entry lacks is NULL for its files.

        Args:
            files: its `add`.
            first_id: the id of the first file.
            version: the entry's version.
            under: the newest metadata version, for files without a version of their own.
            partitioning: the current partitioning, for files without a number of their own.
        """
        before, count = len(self.ids), len(files)
        self.ids.extend(range(first_id, first_id + count))
        self._added.extend([version] * count)
        written = files.columns.get("written", [None] * count)
        known = {"written": [under if v is None else v for v in written]}
        numbers = files.columns.get(PARTITIONING)
        if partitioning or numbers is not None:
            own = [None] * count if numbers is None else numbers
            known[PARTITIONING] = [partitioning if n is None else n for n in own]
        for name, values in {**files.columns, **known}.items():
            if name in NOT_KEPT:
                continue
            column = self._columns.setdefault(name, [])
            if len(column) < before:
                column.extend([None] * (before - len(column)))
            column += values

    def drain(self) -> tuple[NDArray[np.int64], NDArray[np.int64], dict[str, list[Any]]]:
        """Return ids, versions that added them, and columns of the gathered files, and empty the
        gatherer.
        """
        count = len(self.ids)
        for column in self._columns.values():
            column.extend([None] * (count - len(column)))
        result = (np.array(self.ids, np.int64), np.array(self._added, np.int64), self._columns)
        self.ids, self._added, self._columns = [], [], {}
        return result


def _deletes_of(entry: Entry, overflow_deletes: Mapping[int, pa.Table]) -> pa.Table:
    assert entry.delete is not None
    if isinstance(entry.delete, OverflowFile):
        return overflow_deletes[entry.version]
    try:
        return delete_columns(entry.delete)
    except CorruptEntryError as error:
        raise _bad(entry, error.rule, error.detail) from None


def _bad(entry: Entry, rule: str, message: str) -> CorruptEntryError:
    return CorruptEntryError(message, key=entry_key(entry.version), rule=rule)


UNFOLDED_MAX = 256
"""Maximum number of entries held unfolded until a caller needs files. Further ones are folded."""

HELD_MAX = 1024
"""Maximum behind an entry with an overflow metadata file. Beyond it, entries are dropped and read
again on demand. The limit grows if many entries are read at once, because their reader will need
the files next.
"""

REMOVED_MAX = 1 << 16
"""Maximum number of removed files kept for older versions, unless more files are live."""


class MaterializedFiles:
    """Materialized file state of a log from its base on."""

    def __init__(self, base: Base, *, whole: bool = False) -> None:
        self.history: FileHistory = base.files
        """Files of recent versions."""
        self.older: FileHistory = base.files
        """Files of the last requested version that `history` does not include."""
        self.damage: CorruptTableError | None = None
        """Damage found in the files or an overflow metadata file. It is permanent and raised on
        each access.
        """
        self.unfolded: list[StoredEntry] = []
        """Entries read that `history` lacks, in order. The first ones may have been dropped."""
        self._whole = whole
        self._held_max = HELD_MAX

    def stand_on(self, base: Base) -> None:
        """Restart on another base, with the held entries."""
        self.history = self.older = base.files

    def hold(self, count: int) -> None:
        """Prepare for this many entries at once, after which the caller will need files."""
        if count > UNFOLDED_MAX:
            self._held_max = HELD_MAX + 2 * (len(self.unfolded) + count)

    def take(self, stored: StoredEntry) -> None:
        """Add the next entry."""
        if len(self.unfolded) >= UNFOLDED_MAX:
            self._fold_early()
        self.unfolded.append(stored)

    def put_right(self, version: int) -> None:
        """Undo an interrupted change: drop entries after `version`, and folded ones."""
        while self.unfolded and self.unfolded[-1].version > version:
            self.unfolded.pop()
        known = self.history.version
        if self.unfolded and self.unfolded[0].version <= known:
            self.unfolded = [stored for stored in self.unfolded if stored.version > known]

    def waiting(self) -> list[StoredEntry]:
        """Return the held entries that directly follow the files; none if there is a gap."""
        held = self.unfolded
        return list(held) if held and held[0].version == self.history.version + 1 else []

    def replace(self, known: FileHistory, later: FileHistory) -> None:
        """Replace `known` by `later`, unless another thread replaced it meanwhile."""
        if self.history is known:
            self.history = later if self._whole else bounded(later)
            self.put_right(later.version)

    def _fold_early(self) -> None:
        """Fold entries into columns before they accumulate; this reads nothing.

        Damage is kept and raised when a caller needs files, because an append does not need them.
        Entries that need an overflow metadata file or a checkpoint are dropped. They are read again
        on demand.
        """
        plain: list[StoredEntry] = []
        if self.history.is_held:
            plain.extend(itertools.takewhile(lambda one: not has_sides(one), self.waiting()))
        if plain and self.damage is None:
            try:
                folded = fold(self.history, [stored.entry for stored in plain])
                self.history = folded if self._whole else bounded(folded)
            except CorruptEntryError as error:
                if self.history.checkpoint:
                    # The checkpoint may be at fault; the next access to files finds out (CKP-6).
                    self.unfolded = []
                else:
                    self.damage = error
            known = self.history.version
            self.unfolded = [stored for stored in self.unfolded if stored.version > known]
        if len(self.unfolded) >= self._held_max or self.damage is not None:
            self.unfolded = []


def bounded(history: FileHistory) -> FileHistory:
    """Return the history without the files removed first, if it keeps too many."""
    while history.removed > max(REMOVED_MAX, history.live):
        history = history.halved()
    return history


def has_sides(stored: StoredEntry) -> bool:
    """Return True if columns of an entry are in an overflow metadata file."""
    return isinstance(stored.entry.add, OverflowFile) or isinstance(
        stored.entry.delete, OverflowFile
    )
