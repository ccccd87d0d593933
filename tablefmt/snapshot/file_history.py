"""File history of a log as Arrow columns, with the versions that added and removed each file. Pure.

A file is live at version v if added <= v < removed. So one structure serves a range of versions,
and an older snapshot stays right while newer entries are folded in. Files removed before the range
are dropped. So a long-running follower keeps only the live files and a limited number of others.
There is no Python object per file. Spec: ADD-1 .. ADD-3, ADD-9, RPL-2, RPL-3, DEL-1.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tablefmt.errors import CorruptEntryError
from tablefmt.expressions.file_pruning import Mask
from tablefmt.log.object_names import entry_key
from tablefmt.model.cached_property import cached_property
from tablefmt.model.frozen_dict import freeze_mappings
from tablefmt.model.log_entry import Metadata, Totals
from tablefmt.model.schema import Type
from tablefmt.snapshot.deletion_vectors import Deltas
from tablefmt.snapshot.file_columns import file_table, typed_bounds
from tablefmt.snapshot.segments import (
    NEVER,
    FileColumns,
    HeldColumns,
    ManifestSegment,
    compacted,
    find_files,
)


@dataclass(frozen=True)
class FileHistory:
    """Files in manifest segments, for versions `first` to `version`. Immutable: `fold` returns a
    new one.

    The default is the history of a log without entries.
    """

    first: int = 0
    """Oldest version that the history includes."""
    version: int = -1
    """Last version folded in."""
    metadata_version: int = 0
    """Version that wrote the metadata in force at `version`."""
    segments: tuple[ManifestSegment, ...] = ()
    deltas: tuple[Deltas, ...] = ()
    types: Mapping[int, Type] = field(default_factory=dict)
    """Types by field id, of all columns since `first`."""
    numbered: Mapping[int, tuple[int, ...]] = field(default_factory=lambda: {0: ()})
    """Partitionings of the metadata in force at `version`, by number (EVO-1)."""
    partitioning: int = 0
    """Number of the current one."""
    live: int = 0
    """Number of live files at `version`."""
    rows: int = 0
    """Number of rows of the live files, as written."""
    bytes: int = 0
    deleted: int = 0
    """Number of deleted rows of the live files."""
    readded: bool = False
    """True if, since the base, an entry added a path without its own transaction id. Such a path
    may equal any file's path. A path with the id is new (DAT-1).
    """
    distinct_below: int = 0
    """File id below which no two live files are known to share a path."""
    checkpoint: str = ""
    """Name of the root that the files were first read from; "" if there is none."""

    def __post_init__(self) -> None:
        freeze_mappings(self)
        for segment in self.segments:
            segment.sealed()

    def __len__(self) -> int:
        return sum(map(len, self.segments))

    def __contains__(self, file: int) -> bool:
        return any(True for _ in find_files(self.segments, np.array([file], np.int64)))

    @property
    def is_held(self) -> bool:
        """Return True if all of it is in memory."""
        return all(segment.is_held for segment in self.segments)

    @cached_property
    def all_deltas(self) -> Deltas:
        """Return the deletion vectors as one."""
        return Deltas.joined(self.deltas)

    @property
    def removed(self) -> int:
        """Return the number of files that are kept only for versions before the last one."""
        return len(self) - self.live

    def sums(self) -> tuple[int, int, int]:
        """Return rows, bytes and deleted rows at `version`, as in `Totals`."""
        return self.rows, self.bytes, self.deleted

    def marked(self, ids: NDArray[np.int64]) -> list[Mask]:
        """Return a mask per manifest segment, of the files of these ids."""
        masks = [np.zeros(len(segment), bool) for segment in self.segments]
        for at, places, _ in find_files(self.segments, ids):
            masks[at][places] = True
        return masks

    def rows_of(self, file: int) -> int:
        """Return the number of rows that a file was written with."""
        segment, place = self._place(file)
        rows = segment.files.take(np.array([place], np.intp), ["rows"])["rows"]
        return int(rows[0].as_py())

    def removed_at(self, file: int) -> int:
        """Return the version that removed a file; NEVER while it is live."""
        segment, place = self._place(file)
        return int(segment.removed[place])

    def _place(self, file: int) -> tuple[ManifestSegment, int]:
        for at, places, _ in find_files(self.segments, np.array([file], np.int64)):
            return self.segments[at], int(places[0])
        raise KeyError(file)

    def empty_table(self) -> pa.Table:
        """Return a table without files, with the columns that every file has."""
        ids = sorted(self.numbered[self.partitioning])
        names = ("path", "size", "rows", *(f"partition.{i}" for i in ids))
        return file_table({name: [] for name in names}, self.types)

    def only(self, masks: Iterable[Mask]) -> FileHistory:
        """Return the selected files, by a mask per manifest segment, with the sums of all files."""
        kept = [s.only(mask) for s, mask in zip(self.segments, masks, strict=True) if mask.any()]
        return replace(self, segments=tuple(kept), deltas=_of_files(self.deltas, kept))

    def let_go(self, first: int) -> FileHistory:
        """Return the history without files that only versions before `first` need."""
        if first <= self.first:
            return self
        assert first <= self.version, (first, self.version)
        kept = [s.narrowed(s.removed > first) for s in self.segments if np.any(s.removed > first)]
        all_stay = sum(map(len, kept)) == len(self)
        deltas = self.deltas if all_stay else _of_files(self.deltas, kept)
        return replace(self, first=first, segments=tuple(compacted(kept)), deltas=deltas)

    def halved(self) -> FileHistory:
        """Return the history without about half of its removed files: those removed first."""
        went = np.concatenate([s.removed[s.removed != NEVER] for s in self.segments])
        return self.let_go(int(np.partition(went, len(went) // 2)[len(went) // 2]))

    def as_of(
        self, version: int, totals: Totals, metadata: Metadata, described: int
    ) -> FileHistory:
        """Return the state at one version, as if nothing had come before or after.

        Args:
            version: a version in the history, unless there are no files at all.
            totals: its table statistics.
            metadata: in force at it, or at a later version; bounds get its types.
            described: the version that wrote the metadata in force (ADD-9).
        """
        deltas = Deltas.joined([d.only(d.version <= version) for d in self.deltas])
        segments = []
        for segment in (s.only(s.live(version)) for s in self.segments):
            if len(segment):
                table = typed_bounds(segment.files.table, metadata.schema.fields)
                files = HeldColumns(segment.files.ids, segment.files.added, table)
                deleted = deltas.counts(files.ids, version)
                removed = np.full(len(files), NEVER, np.int64)
                segments.append(ManifestSegment(files, removed, deleted))
        return FileHistory(
            first=version,
            version=version,
            metadata_version=described,
            segments=tuple(segments),
            deltas=_of_files((deltas,), segments),
            types={f.id: f.type for f in metadata.schema.with_hidden},
            numbered=metadata.numbered,
            partitioning=metadata.partitioning,
            live=totals.files,
            rows=totals.rows,
            bytes=totals.bytes,
            deleted=totals.deleted,
            distinct_below=totals.next_id,
        )

    def with_files(self, other: FileHistory) -> FileHistory:
        """Return the history extended by the files of another one. They have no file in common."""
        segments = (*other.segments, *self.segments)
        return replace(self, segments=segments, deltas=(*other.deltas, *self.deltas))

    def check_paths(self, next_id: int) -> FileHistory:
        """Return the history after a check that no two live files share a path.

        Args:
            next_id: above all ids.

        Raises:
            CorruptEntryError: ADD-1.
        """
        if next_id <= self.distinct_below:
            return self
        segments = [s for s in self.segments if s.is_held or self.readded]
        fresh = [s.files.ids >= self.distinct_below for s in segments]
        came = [
            s.files.take(np.flatnonzero(new & (s.removed == NEVER)), ["path"])["path"]
            for s, new in zip(segments, fresh, strict=True)
            if new.any()
        ]
        new = pa.chunked_array([c for part in came for c in part.chunks], pa.string())
        if pc.count_distinct(new).as_py() != len(new):
            counts = pc.value_counts(new)
            self._refuse(counts.filter(pc.greater(counts.field("counts"), 1)).field("values")[0])
        for segment, is_new in zip(segments, fresh, strict=True):
            if len(new) and not is_new.all():
                paths = segment.files.columns(["path"])["path"]
                equal = pc.equal(paths, new[0]) if len(new) == 1 else pc.is_in(paths, value_set=new)
                known = equal.to_numpy() & (segment.removed == NEVER) & ~is_new
                if known.any():
                    self._refuse(paths[int(np.flatnonzero(known)[0])])
        return replace(self, distinct_below=next_id)

    def _refuse(self, path: pa.Scalar) -> None:
        """Raise the error for the last entry that added a live file of this path."""
        added = [
            int(segment.files.added[at])
            for segment in self.segments
            for at in np.flatnonzero(
                pc.equal(segment.files.columns(["path"])["path"], path).to_numpy()
                & (segment.removed == NEVER)
            )
        ]
        message = f"it adds the path {path.as_py()!r:.100} of a live file"
        raise CorruptEntryError(message, key=entry_key(max(added)), rule="ADD-1")


def _of_files(deltas: tuple[Deltas, ...], segments: list[ManifestSegment]) -> tuple[Deltas, ...]:
    """Return the deletion vectors of files that are in one of the manifest segments."""
    columns: list[FileColumns] = [segment.files for segment in segments]
    kept = []
    for some in deltas:
        known = np.zeros(len(some), bool)
        for files in columns:
            known[files.find(some.file)[1]] = True
        if known.any():
            kept.append(some.only(known))
    return tuple(kept)
