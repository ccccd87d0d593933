"""Manifest segments: runs of files as Arrow columns, each with a summary. Pure.

Pruning checks a segment's summary first. If the summary excludes a predicate, no file of the
segment is checked. The columns never change. Removal versions and deleted row counts are separate
arrays.

Spec: PRN-4 .. PRN-9.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tablefmt.expressions.file_pruning import Mask, may_match
from tablefmt.expressions.predicate import Predicate, fields
from tablefmt.log.strict_json import INTEGER_MAX
from tablefmt.model.cached_property import cached_property
from tablefmt.model.schema import Field
from tablefmt.snapshot.deletion_vectors import Deltas
from tablefmt.snapshot.file_columns import exact_sum, typed_bounds

if TYPE_CHECKING:
    from typing_extensions import Self

NEVER = np.iinfo(np.int64).max
"""`removed` of a live file."""

SEGMENT_FILES = 1 << 17
"""Maximum files of a segment: few enough that its summary is selective."""

Places = NDArray[np.intp]


class FileColumns(ABC):
    """Columns of a manifest segment's files, in memory or in a checkpoint."""

    ids: NDArray[np.int64]
    """File ids, each once, in any order. In a log's tail they ascend."""
    added: NDArray[np.int64]
    """Version that added each file."""

    @abstractmethod
    def __len__(self) -> int:
        """Return the number of files."""

    @property
    @abstractmethod
    def names(self) -> Sequence[str]:
        """Return the ADD-1 names of the columns."""

    @abstractmethod
    def columns(self, names: Iterable[str]) -> pa.Table:
        """Return the requested columns that exist, one chunk each."""

    @abstractmethod
    def take(self, places: Places, names: Iterable[str] | None = None) -> pa.Table:
        """Return columns, by default all, of the files at some places, ascending."""

    @abstractmethod
    def narrowed(self, places: Places) -> FileColumns:
        """Return the files at some places, ascending, without loading them."""

    @abstractmethod
    def retyped(self, column: Field) -> FileColumns:
        """Return the columns with bounds and partition values of a column in its type (SCH-9,
        VAL-4).
        """

    @abstractmethod
    def summary(self, field_id: int, is_partition: bool) -> Mapping[str, Any]:
        """Return the same as the function `summary`."""

    @property
    @abstractmethod
    def total_rows(self) -> int | None:
        """Return the number of rows of all files; None if a file has zero or fewer."""

    @property
    def table(self) -> pa.Table:
        """Return all columns."""
        return self.columns(self.names)

    def of_fields(self, ids: Collection[int]) -> pa.Table:
        """Return `rows`, and all columns of some top-level fields."""
        known = [n for n in self.names if "." in n and int(n.partition(".")[2]) in ids]
        return self.columns(["rows", *known])

    @property
    def least_id(self) -> int:
        """Return a number that no id is below. There must be a file."""
        return int(self.ids[0] if self.ascending else self.ids.min())

    def added_by(self, version: int) -> Mask:
        """Return a mask of the files that were added up to a version."""
        mask: Mask = self.added <= version
        return mask

    @cached_property
    def ascending(self) -> bool:
        """Return True if the ids ascend."""
        return bool(np.all(self.ids[1:] > self.ids[:-1]))

    @cached_property
    def _sorted(self) -> tuple[NDArray[np.int64], Places | None]:
        if self.ascending:
            return self.ids, None
        order = np.argsort(self.ids)
        return self.ids[order], order

    def find(self, ids: NDArray[np.int64]) -> tuple[Places, Places]:
        """Return the places of files with these ids: places here, and in `ids`."""
        if not len(self) or not len(ids):
            return np.zeros(0, np.intp), np.zeros(0, np.intp)
        known, order = self._sorted
        places = np.searchsorted(known, ids)
        lines = np.flatnonzero(known[np.minimum(places, len(known) - 1)] == ids)
        places = places[lines]
        return (places if order is None else order[places]), lines

    def may_match(self, predicate: Predicate, partition_ids: frozenset[int]) -> bool:
        """Return True if the summary allows a row for which the predicate is TRUE."""
        columns: dict[str, Any] = {"rows": pa.array([self.total_rows], pa.int64())}
        for field_id in fields(predicate):
            columns.update(self.summary(field_id, field_id in partition_ids))
        return bool(may_match(predicate, pa.table(columns), frozenset())[0])

    @classmethod
    def each_may_match(
        cls, files: Sequence[Self], predicate: Predicate, partition_ids: frozenset[int]
    ) -> Mask:
        """Return `may_match` of each segment."""
        return np.array([each.may_match(predicate, partition_ids) for each in files], bool)


@dataclass(frozen=True, eq=False)
class HeldColumns(FileColumns):
    """File columns that are all in memory."""

    ids: NDArray[np.int64]
    added: NDArray[np.int64]
    held: pa.Table
    """All columns, one chunk each."""

    def __post_init__(self) -> None:
        self.ids.setflags(write=False)
        self.added.setflags(write=False)

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def names(self) -> Sequence[str]:
        """Return the names, as the base class."""
        names: list[str] = self.held.column_names
        return names

    @property
    def table(self) -> pa.Table:
        """Return the table, as the base class."""
        return self.held

    def columns(self, names: Iterable[str]) -> pa.Table:
        """Return the columns, as the base class."""
        known = set(self.held.column_names)
        return self.held.select([name for name in names if name in known])

    def take(self, places: Places, names: Iterable[str] | None = None) -> pa.Table:
        """Return the rows, as the base class, at places in any order."""
        columns = self.held if names is None else self.columns(names)
        return columns.take(pa.array(places))

    def narrowed(self, places: Places) -> FileColumns:
        """Return the files, as the base class."""
        return HeldColumns(self.ids[places], self.added[places], self.take(places))

    def retyped(self, column: Field) -> FileColumns:
        """Return the columns, as the base class."""
        held = typed_bounds(self.held, [column])
        return self if held is self.held else HeldColumns(self.ids, self.added, held)

    @cached_property
    def _summaries(self) -> dict[tuple[int, bool], dict[str, Any]]:
        return {}

    def summary(self, field_id: int, is_partition: bool) -> Mapping[str, Any]:
        """Return the summary, as the base class."""
        key = (field_id, is_partition)
        if key not in self._summaries:
            self._summaries[key] = summary(self.held, *key)
        return self._summaries[key]

    @property
    def total_rows(self) -> int | None:
        """Return the number of rows, as the base class."""
        return total_rows(self.held)


def total_rows(files: pa.Table) -> int | None:
    """Return the same as `FileColumns.total_rows`; None also if the sum exceeds 64 bits."""
    rows = files["rows"].to_numpy()
    total = exact_sum(rows)
    return total if np.all(rows > 0) and total <= INTEGER_MAX else None


def summary(files: pa.Table, field_id: int, is_partition: bool) -> dict[str, Any]:
    """Return the summary of a column over all files, as if they were one file (PRN-4).

    Returns:
        `lower.<id>`, `upper.<id>`, `nulls.<id>`, `nans.<id>` of one element. A value is absent if
        it is unknown for a file, or implausible in one (PRN-6).
    """
    if is_partition and f"partition.{field_id}" in files.column_names:
        return _of_values(files, field_id)
    bounds = _counts(files, field_id)
    names = [f"{side}.{field_id}" for side in ("lower", "upper")]
    if not all(name in files.column_names for name in names):
        return bounds
    lower, upper = (files[name] for name in names)
    unsure = any(map(_has_unknown, (lower, upper))) or pc.any(pc.greater(lower, upper)).as_py()
    return bounds if unsure else bounds | _bounds(field_id, lower, upper)


def _of_values(files: pa.Table, field_id: int) -> dict[str, Any]:
    """Return the summary of a partition column, whose value is the same for all rows of a file."""
    values, rows = files[f"partition.{field_id}"], files["rows"]
    nulls = max(exact_sum(rows.filter(pc.is_null(values)).to_numpy()), values.null_count)
    bounds = {f"nulls.{field_id}": pa.array([min(nulls, INTEGER_MAX)], pa.int64())}
    values = values.drop_null()
    if pa.types.is_floating(values.type):
        if pc.any(pc.is_nan(values)).as_py():
            return bounds
        bounds[f"nans.{field_id}"] = pa.array([0], pa.int64())
    return bounds | _bounds(field_id, values, values)


def _counts(files: pa.Table, field_id: int) -> dict[str, Any]:
    names = [f"nulls.{field_id}", f"nans.{field_id}"]
    known = [n for n in names if n in files.column_names and not files[n].null_count]
    if not known:
        return {}
    rows = files["rows"].to_numpy()
    if exact_sum(rows) > INTEGER_MAX:
        return {}
    counted: NDArray[np.int64] | int = 0
    sums: dict[str, Any] = {}
    for name in known:
        counts = files[name].to_numpy()
        least, most = (int(counts.min()), int(counts.max())) if len(counts) else (0, 0)
        if least < 0 or (most and np.any(counts > rows)):
            return {}
        if most:
            counted = counted + counts
        sums[name] = pa.array([exact_sum(counts) if most else 0], pa.int64())
    # Counts of a file without values may be wrong, just as its bounds.
    return {} if np.any(rows <= counted) else sums


def _bounds(field_id: int, lower: pa.ChunkedArray, upper: pa.ChunkedArray) -> dict[str, Any]:
    if not len(lower):
        return {}
    try:
        sides = (pc.min(lower), pc.max(upper))
    except pa.ArrowNotImplementedError:
        return {}
    names = (f"lower.{field_id}", f"upper.{field_id}")
    return {name: pa.repeat(side, 1) for name, side in zip(names, sides, strict=True)}


def _has_unknown(bounds: pa.ChunkedArray) -> bool:
    """Return True if a file has no bound. A file of NULLs alone also counts, which costs little."""
    if bounds.null_count:
        return True
    return pa.types.is_floating(bounds.type) and bool(pc.any(pc.is_nan(bounds)).as_py())


@dataclass(frozen=True, slots=True)
class ManifestSegment:
    """Manifest segment: files, with their removal versions and deleted rows."""

    files: FileColumns
    removed: NDArray[np.int64]
    """Version that removed each file; NEVER while it is live."""
    deleted: NDArray[np.int64] | None
    """Number of deleted rows of each file at the last version folded in; None: see the deletion
    vectors.
    """

    @classmethod
    def new(
        cls, ids: NDArray[np.int64], added: NDArray[np.int64], table: pa.Table
    ) -> Iterator[ManifestSegment]:
        """Yield new files in manifest segments of limited size."""
        for at in range(0, len(ids), SEGMENT_FILES):
            some = slice(at, at + SEGMENT_FILES)
            part = table.slice(at, SEGMENT_FILES).combine_chunks()
            count = part.num_rows
            yield cls(
                HeldColumns(ids[some], added[some], part),
                np.full(count, NEVER, np.int64),
                np.zeros(count, np.int64),
            )

    def __len__(self) -> int:
        return len(self.files)

    @property
    def is_held(self) -> bool:
        """Return True if all of it is in memory."""
        return isinstance(self.files, HeldColumns)

    def sealed(self) -> None:
        """Make the arrays beside the columns read-only."""
        self.removed.setflags(write=False)
        if self.deleted is not None:
            self.deleted.setflags(write=False)

    def writable(self, deltas: Sequence[Deltas], version: int) -> ManifestSegment:
        """Return the segment with its own copies of the arrays beside the columns.

        Args:
            deltas: the deletion vectors.
            version: the version up to which they apply.
        """
        if self.deleted is None:
            deleted = self.deleted_counts(Deltas.joined(deltas), version)
        else:
            deleted = self.deleted.copy()
        return replace(self, removed=self.removed.copy(), deleted=deleted)

    def deleted_counts(self, deltas: Deltas, version: int) -> NDArray[np.int64]:
        """Return the number of deleted rows of each file at a version, from the deletion
        vectors.
        """
        if not len(deltas):
            return np.zeros(len(self), np.int64)
        return deltas.counts(self.files.ids, version)

    def live(self, version: int) -> Mask:
        """Return a mask of the files that are live at a version."""
        mask: Mask = self.files.added_by(version) & (self.removed > version)
        return mask

    def only(self, mask: Mask, names: Sequence[str] | None = None) -> ManifestSegment:
        """Return the selected files, loaded into memory; the segment itself if all are selected.

        With `names`, columns of other names are absent.
        """
        if mask.all():
            return self
        at = np.flatnonzero(mask)
        deleted = None if self.deleted is None else self.deleted[at]
        held = self._held(at, self.files.names if names is None else names)
        return ManifestSegment(held, self.removed[at], deleted)

    def narrowed(self, mask: Mask) -> ManifestSegment:
        """Return the selected files without loading them."""
        if mask.all():
            return self
        at = np.flatnonzero(mask)
        deleted = None if self.deleted is None else self.deleted[at]
        return ManifestSegment(self.files.narrowed(at), self.removed[at], deleted)

    def _held(self, at: Places, names: Sequence[str]) -> HeldColumns:
        if isinstance(self.files, HeldColumns):
            return HeldColumns(self.files.ids[at], self.files.added[at], self.files.take(at, names))
        columns = self.files.take(at, ["id", "added", *names])
        ids, added = (columns[name].to_numpy() for name in ("id", "added"))
        return HeldColumns(ids, added, columns.drop_columns(["id", "added"]))


def find_files(
    segments: Sequence[ManifestSegment], ids: NDArray[np.int64], before: int | None = None
) -> Iterator[tuple[int, Places, Places]]:
    """Yield the places of files with these ids, by manifest segment.

    Args:
        segments: where to look.
        ids: any, known or not.
        before: ignore ids from here on.

    Yields:
        The number of a segment that has any, places in it, and places in `ids`.
    """
    for at, segment in enumerate(segments):
        places, lines = segment.files.find(ids)
        if before is not None:
            inside = ids[lines] < before
            places, lines = places[inside], lines[inside]
        if len(lines):
            yield at, places, lines


def passing(
    segments: Sequence[ManifestSegment], predicate: Predicate, partition_ids: frozenset[int]
) -> Iterator[ManifestSegment]:
    """Yield the segments whose summaries allow a row for which the predicate is TRUE, in order.

    Spec: PRN-4.
    """
    mask = np.zeros(len(segments), bool)
    kinds = [type(segment.files) for segment in segments]
    for kind in dict.fromkeys(kinds):
        at = [place for place, each in enumerate(kinds) if each is kind]
        files = [segments[place].files for place in at]
        mask[at] = kind.each_may_match(files, predicate, partition_ids)
    return (segment for segment, passes in zip(segments, mask, strict=True) if passes)


def joined(
    segments: Collection[ManifestSegment], deltas: Sequence[Deltas] = (), version: int = -1
) -> ManifestSegment:
    """Return one segment with the files of all, in their order.

    Args:
        segments: any.
        deltas: deletion vectors, for segments without their own counts.
        version: the version up to which they apply.
    """
    columns = pa.concat_tables([s.files.table for s in segments], promote_options="permissive")
    whole = Deltas.joined(deltas)
    deleted = [
        s.deleted_counts(whole, version) if s.deleted is None else s.deleted for s in segments
    ]
    return ManifestSegment(
        HeldColumns(
            np.concatenate([s.files.ids for s in segments]),
            np.concatenate([s.files.added for s in segments]),
            columns.combine_chunks(),
        ),
        np.concatenate([s.removed for s in segments]),
        np.concatenate(deleted),
    )


def compacted(segments: list[ManifestSegment]) -> list[ManifestSegment]:
    """Return the files with small segments joined to their predecessors, in their order.

    Segments that are not in memory stay unchanged.
    """
    result: list[ManifestSegment] = []
    waiting: list[ManifestSegment] = []
    held = 0

    def end() -> None:
        if waiting:
            result.append(joined(waiting) if len(waiting) > 1 else waiting[0])
            waiting.clear()

    for segment in segments:
        if not segment.is_held or segment.deleted is None:
            end()
            result.append(segment)
            held = 0
            continue
        if waiting and held + len(segment) > SEGMENT_FILES:
            end()
            held = 0
        waiting.append(segment)
        held += len(segment)
    end()
    return result
