"""The files of a log as Arrow columns, with the versions they came and went. Pure.

A file is live at version v if added <= v < removed; so one structure answers for a span of
versions, and an older snapshot stays right while newer entries are folded in. What went before the
span is let go of: who follows a log for ever holds the live files and as many of the others as it
wants. No Python object per file is kept. Spec: ADD-1 .. ADD-3, ADD-9, RPL-2, RPL-3, DEL-1.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tablefmt.errors import CorruptEntryError
from tablefmt.log.names import entry_key
from tablefmt.model.cached import cached_property
from tablefmt.model.entry import Metadata, Totals
from tablefmt.model.schema import Type
from tablefmt.snapshot.deletes import Deltas
from tablefmt.snapshot.file_columns import file_table, typed_bounds
from tablefmt.snapshot.segments import (
    NEVER,
    FileColumns,
    HeldColumns,
    Mask,
    Places,
    Segment,
    compacted,
)


@dataclass(frozen=True)
class FileHistory:
    """Files by segments, as of versions `first` to `version`. Never changed: `fold` gives another.

    The empty one is that of a log without entries.
    """

    first: int = 0
    """The oldest version that is answered for."""
    version: int = -1
    """The last version folded in."""
    metadata_version: int = 0
    """That brought the metadata in force at `version`."""
    segments: tuple[Segment, ...] = ()
    deltas: tuple[Deltas, ...] = ()
    types: Mapping[int, Type] = field(default_factory=dict)
    """By field id, of all columns since `first`."""
    partition_columns: frozenset[str] = frozenset()
    live: int = 0
    """Files at `version`."""
    rows: int = 0
    """Rows of those, as written."""
    bytes: int = 0
    deleted: int = 0
    """Rows of those that are gone."""
    readded: bool = False
    """Since the base an entry added a path that does not name its own transaction, so it may be
    that of any file. One that does is of no file of before (DAT-1)."""
    distinct_below: int = 0
    """Of files of lower ids it is known that no two of them that are live have one path."""
    checkpoint: str = ""
    """The name of the root that the files were first read from; "" for none."""

    def __len__(self) -> int:
        return sum(map(len, self.segments))

    def __contains__(self, file: int) -> bool:
        return any(True for _ in self.find(np.array([file], np.int64)))

    @property
    def is_held(self) -> bool:
        """Whether all of it is in memory."""
        return all(segment.is_held for segment in self.segments)

    @cached_property
    def all_deltas(self) -> Deltas:
        """The deltas as one."""
        return Deltas.joined(self.deltas)

    @property
    def gone(self) -> int:
        """Files that are kept for versions before the last one alone."""
        return len(self) - self.live

    def sums(self) -> tuple[int, int, int]:
        """Rows, bytes and rows that are gone, at `version`: those of `Totals`."""
        return self.rows, self.bytes, self.deleted

    def find(
        self, ids: NDArray[np.int64], before: int | None = None
    ) -> Iterator[tuple[int, Places, Places]]:
        """Where files of these ids are, segment by segment.

        Args:
            ids: any, known or not.
            before: ids from here on are not looked for.

        Yields:
            The number of a segment that has any, places in it, and places in `ids`.
        """
        for at, segment in enumerate(self.segments):
            places, lines = segment.files.find(ids)
            if before is not None:
                inside = ids[lines] < before
                places, lines = places[inside], lines[inside]
            if len(lines):
                yield at, places, lines

    def marked(self, ids: NDArray[np.int64]) -> list[Mask]:
        """A mask a segment, of the files of these ids."""
        masks = [np.zeros(len(segment), bool) for segment in self.segments]
        for at, places, _ in self.find(ids):
            masks[at][places] = True
        return masks

    def rows_of(self, file: int) -> int:
        """How many rows a file was written with."""
        segment, place = self._place(file)
        rows = segment.files.take(np.array([place], np.intp), ["rows"])["rows"]
        return int(rows[0].as_py())

    def removed_at(self, file: int) -> int:
        """The version that removed a file; NEVER while it is live."""
        segment, place = self._place(file)
        return int(segment.removed[place])

    def _place(self, file: int) -> tuple[Segment, int]:
        for at, places, _ in self.find(np.array([file], np.int64)):
            return self.segments[at], int(places[0])
        raise KeyError(file)

    def empty_table(self) -> pa.Table:
        """The columns that every file has, without a file."""
        names = ("path", "size", "rows", *sorted(self.partition_columns))
        return file_table({name: [] for name in names}, self.types)

    def only(self, masks: Iterable[Mask]) -> FileHistory:
        """A part of the files, by a mask a segment, with the sums of all of them."""
        kept = [s.only(mask) for s, mask in zip(self.segments, masks, strict=True) if mask.any()]
        return replace(self, segments=tuple(kept), deltas=_of_files(self.deltas, kept))

    def let_go(self, first: int) -> FileHistory:
        """The same without what only versions before `first` need."""
        if first <= self.first:
            return self
        assert first <= self.version, (first, self.version)
        kept = [s.narrowed(s.removed > first) for s in self.segments if np.any(s.removed > first)]
        all_stay = sum(map(len, kept)) == len(self)
        deltas = self.deltas if all_stay else _of_files(self.deltas, kept)
        return replace(self, first=first, segments=tuple(compacted(kept)), deltas=deltas)

    def halved(self) -> FileHistory:
        """The same without about half of the files that are not live, those that went first."""
        went = np.concatenate([s.removed[s.removed != NEVER] for s in self.segments])
        return self.let_go(int(np.partition(went, len(went) // 2)[len(went) // 2]))

    def as_of(
        self, version: int, totals: Totals, metadata: Metadata, described: int
    ) -> FileHistory:
        """What there was at one version, as if nothing had come before or after.

        Args:
            version: one that is answered for, unless there are no files at all.
            totals: of it.
            metadata: in force at it, or at a later version: whose types the bounds get.
            described: the version that brought the metadata in force at it (ADD-9).
        """
        deltas = Deltas.joined([d.only(d.version <= version) for d in self.deltas])
        segments = []
        for segment in (s.only(s.live(version)) for s in self.segments):
            if len(segment):
                table = typed_bounds(segment.files.table, metadata.schema.fields)
                files = HeldColumns(segment.files.ids, segment.files.added, table)
                deleted = deltas.counts(files.ids, version)
                removed = np.full(len(files), NEVER, np.int64)
                segments.append(Segment(files, removed, deleted))
        return FileHistory(
            first=version,
            version=version,
            metadata_version=described,
            segments=tuple(segments),
            deltas=_of_files((deltas,), segments),
            types={f.id: f.type for f in metadata.schema.fields},
            partition_columns=frozenset(f"partition.{i}" for i in metadata.partition_by),
            live=totals.files,
            rows=totals.rows,
            bytes=totals.bytes,
            deleted=totals.deleted,
            distinct_below=totals.next_id,
        )

    def with_files(self, other: FileHistory) -> FileHistory:
        """The same with the files of another history besides, none of which is in this one."""
        segments = (*other.segments, *self.segments)
        return replace(self, segments=segments, deltas=(*other.deltas, *self.deltas))

    def check_paths(self, next_id: int) -> FileHistory:
        """The same, known to have no two live files of one path.

        Args:
            next_id: above all ids.

        Raises:
            CorruptEntryError: ADD-1.
        """
        if next_id <= self.distinct_below:
            return self
        segments = [s for s in self.segments if s.is_held or self.readded]
        fresh = [s.files.ids >= self.distinct_below for s in segments]
        live = [s.removed == NEVER for s in segments]
        paths = [s.files.columns(["path"])["path"] for s in segments]
        come = [p.filter(pa.array(m & n)) for p, m, n in zip(paths, fresh, live, strict=True)]
        new = pa.chunked_array([c for part in come for c in part.chunks], pa.string())
        if pc.count_distinct(new).as_py() != len(new):
            counts = pc.value_counts(new)
            self._refuse(counts.filter(pc.greater(counts.field("counts"), 1)).field("values")[0])
        for segment_paths, is_new, is_live in zip(paths, fresh, live, strict=True):
            if len(new) and not is_new.all():
                known = pc.is_in(segment_paths, value_set=new).to_numpy() & is_live & ~is_new
                if known.any():
                    self._refuse(segment_paths[int(np.flatnonzero(known)[0])])
        return replace(self, distinct_below=next_id)

    def _refuse(self, path: pa.Scalar) -> None:
        """Name the last entry that added a live file of this path."""
        added = [
            int(segment.files.added[at])
            for segment in self.segments
            for at in np.flatnonzero(
                pc.equal(segment.files.columns(["path"])["path"], path).to_numpy()
                & (segment.removed == NEVER)
            )
        ]
        message = f"it adds {path.as_py()!r:.100}, a live file"
        raise CorruptEntryError(message, key=entry_key(max(added)), rule="ADD-1")


def _of_files(deltas: tuple[Deltas, ...], segments: list[Segment]) -> tuple[Deltas, ...]:
    """The deltas of files that are in one of the segments."""
    columns: list[FileColumns] = [segment.files for segment in segments]
    kept = []
    for some in deltas:
        known = np.zeros(len(some), bool)
        for files in columns:
            known[files.find(some.file)[1]] = True
        if known.any():
            kept.append(some.only(known))
    return tuple(kept)
