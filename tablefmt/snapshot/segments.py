"""Runs of files as Arrow columns, each with what its files have in common. Pure.

A segment is looked at as a whole first: where its summary rules a predicate out, none of its
files is looked at. Its columns are never changed; which files went, and which rows are gone, is
beside them.
Spec: PRN-4 .. PRN-9.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tablefmt.expressions.predicate import Predicate, fields
from tablefmt.expressions.prune import may_match
from tablefmt.log.checks import INTEGER_MAX
from tablefmt.model.cached import cached_property
from tablefmt.model.schema import Field
from tablefmt.model.sums import exact_sum
from tablefmt.snapshot.deletes import Deltas
from tablefmt.snapshot.file_columns import typed_bounds

NEVER = np.iinfo(np.int64).max
"""`removed` of a live file."""

SEGMENT_FILES = 1 << 17
"""Most files of a segment: few enough that bounds of some files are not those of all."""

Mask = NDArray[np.bool_]
Places = NDArray[np.intp]


class FileColumns(ABC):
    """What entries said of the files of a segment, wherever that is held."""

    ids: NDArray[np.int64]
    """Each once; in any order, though those of a log's tail ascend."""
    added: NDArray[np.int64]
    """The version that added each."""

    @abstractmethod
    def __len__(self) -> int:
        """How many files."""

    @property
    @abstractmethod
    def names(self) -> Sequence[str]:
        """ADD-1 names of the columns."""

    @abstractmethod
    def columns(self, names: Iterable[str]) -> pa.Table:
        """Those of the columns that there are, one chunk each."""

    @abstractmethod
    def take(self, places: Places, names: Iterable[str] | None = None) -> pa.Table:
        """Columns, by default all, of the files at some places, ascending."""

    @abstractmethod
    def narrowed(self, places: Places) -> FileColumns:
        """The files at some places, ascending, held where they were."""

    @abstractmethod
    def retyped(self, column: Field) -> FileColumns:
        """The same with bounds and partition values of a column in its type (SCH-9, VAL-4)."""

    @abstractmethod
    def summary(self, field_id: int, is_partition: bool) -> Mapping[str, Any]:
        """As the function `summary`."""

    @property
    @abstractmethod
    def total_rows(self) -> int | None:
        """Rows of all files together; None if one says that it has none, or fewer."""

    @property
    def table(self) -> pa.Table:
        """All columns."""
        return self.columns(self.names)

    def of_fields(self, ids: Collection[int]) -> pa.Table:
        """`rows`, and all that is known of some top-level columns."""
        known = [n for n in self.names if "." in n and int(n.partition(".")[2]) in ids]
        return self.columns(["rows", *known])

    def added_by(self, version: int) -> Mask:
        """Those that were added up to a version."""
        mask: Mask = self.added <= version
        return mask

    @cached_property
    def ascending(self) -> bool:
        """Whether the ids are in order."""
        return bool(np.all(self.ids[1:] > self.ids[:-1]))

    @cached_property
    def _sorted(self) -> tuple[NDArray[np.int64], Places | None]:
        if self.ascending:
            return self.ids, None
        order = np.argsort(self.ids)
        return self.ids[order], order

    def find(self, ids: NDArray[np.int64]) -> tuple[Places, Places]:
        """Where files of these ids are: places here, and in `ids`."""
        if not len(self) or not len(ids):
            return np.zeros(0, np.intp), np.zeros(0, np.intp)
        known, order = self._sorted
        places = np.searchsorted(known, ids)
        lines = np.flatnonzero(known[np.minimum(places, len(known) - 1)] == ids)
        places = places[lines]
        return (places if order is None else order[places]), lines

    def may_match(self, predicate: Predicate, partition_ids: frozenset[int]) -> bool:
        """Whether any file may hold a row for which the predicate is TRUE, by the summary alone."""
        columns: dict[str, Any] = {"rows": pa.array([self.total_rows], pa.int64())}
        for field_id in fields(predicate):
            columns.update(self.summary(field_id, field_id in partition_ids))
        return bool(may_match(predicate, pa.table(columns), frozenset())[0])


@dataclass(frozen=True, eq=False)
class HeldColumns(FileColumns):
    """Columns that are all in memory."""

    ids: NDArray[np.int64]
    added: NDArray[np.int64]
    held: pa.Table
    """One chunk a column."""

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def names(self) -> Sequence[str]:
        """As the base class."""
        names: list[str] = self.held.column_names
        return names

    @property
    def table(self) -> pa.Table:
        """As the base class."""
        return self.held

    def columns(self, names: Iterable[str]) -> pa.Table:
        """As the base class."""
        known = set(self.held.column_names)
        return self.held.select([name for name in names if name in known])

    def take(self, places: Places, names: Iterable[str] | None = None) -> pa.Table:
        """As the base class; at places in any order."""
        columns = self.held if names is None else self.columns(names)
        return columns.take(pa.array(places))

    def narrowed(self, places: Places) -> FileColumns:
        """As the base class."""
        return HeldColumns(self.ids[places], self.added[places], self.take(places))

    def retyped(self, column: Field) -> FileColumns:
        """As the base class."""
        held = typed_bounds(self.held, [column])
        return self if held is self.held else HeldColumns(self.ids, self.added, held)

    @cached_property
    def _summaries(self) -> dict[tuple[int, bool], dict[str, Any]]:
        return {}

    def summary(self, field_id: int, is_partition: bool) -> Mapping[str, Any]:
        """As the base class."""
        key = (field_id, is_partition)
        if key not in self._summaries:
            self._summaries[key] = summary(self.held, *key)
        return self._summaries[key]

    @property
    def total_rows(self) -> int | None:
        """As the base class."""
        return total_rows(self.held)


def total_rows(files: pa.Table) -> int | None:
    """As `FileColumns.total_rows`; None too if they are more than 64 bits hold."""
    rows = files["rows"].to_numpy()
    total = exact_sum(rows)
    return total if np.all(rows > 0) and total <= INTEGER_MAX else None


def summary(files: pa.Table, field_id: int, is_partition: bool) -> dict[str, Any]:
    """What is known of a column in all files together, as if they were one file (PRN-4).

    Returns:
        `lower.<id>`, `upper.<id>`, `nulls.<id>`, `nans.<id>` of one element; absent if it is not
        known of every file, or implausible in one (PRN-6).
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
    """Of a partition column, whose value is that of all rows of a file."""
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
    counted = np.zeros(len(rows), np.int64)
    sums: dict[str, Any] = {}
    for name in known:
        counts = files[name].to_numpy()
        counted += counts
        if np.any(counts < 0) or np.any(counts > rows):
            return {}
        sums[name] = pa.array([exact_sum(counts)], pa.int64())
    # A file without a value is one whose counts may be doubted, as its bounds may be.
    return {} if np.any(counted >= rows) else sums


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
    """Whether a file has no bound; one of NULLs alone counts too, which costs little."""
    if bounds.null_count:
        return True
    return pa.types.is_floating(bounds.type) and bool(pc.any(pc.is_nan(bounds)).as_py())


@dataclass(frozen=True, slots=True)
class Segment:
    """Files, and what became of them."""

    files: FileColumns
    removed: NDArray[np.int64]
    """The version that removed each; NEVER while live."""
    deleted: NDArray[np.int64] | None
    """Rows gone from each at the last version folded in; None: as the deltas say."""

    @classmethod
    def new(
        cls, ids: NDArray[np.int64], added: NDArray[np.int64], table: pa.Table
    ) -> Iterator[Segment]:
        """Files that have just come, in segments that are small enough."""
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
        """Whether all of it is in memory."""
        return isinstance(self.files, HeldColumns)

    def writable(self, deltas: Sequence[Deltas], version: int) -> Segment:
        """The same with arrays of its own beside the columns.

        Args:
            deltas: what is known of rows.
            version: up to which.
        """
        gone = self.gone_rows(Deltas.joined(deltas), version) if self.deleted is None else None
        deleted = self.deleted.copy() if self.deleted is not None else gone
        return replace(self, removed=self.removed.copy(), deleted=deleted)

    def gone_rows(self, deltas: Deltas, version: int) -> NDArray[np.int64]:
        """How many rows are gone from each at a version, by the deltas."""
        if not len(deltas):
            return np.zeros(len(self), np.int64)
        return deltas.counts(self.files.ids, version)

    def live(self, version: int) -> Mask:
        """The files that are live at a version."""
        mask: Mask = self.files.added_by(version) & (self.removed > version)
        return mask

    def only(self, mask: Mask) -> Segment:
        """Some of the files, in memory; all of them as they are."""
        if mask.all():
            return self
        at = np.flatnonzero(mask)
        deleted = None if self.deleted is None else self.deleted[at]
        return Segment(self._held(at), self.removed[at], deleted)

    def narrowed(self, mask: Mask) -> Segment:
        """Some of the files, held where they were."""
        if mask.all():
            return self
        at = np.flatnonzero(mask)
        deleted = None if self.deleted is None else self.deleted[at]
        return Segment(self.files.narrowed(at), self.removed[at], deleted)

    def _held(self, at: Places) -> HeldColumns:
        if isinstance(self.files, HeldColumns):
            return HeldColumns(self.files.ids[at], self.files.added[at], self.files.take(at))
        columns = self.files.take(at, ["id", "added", *self.files.names])
        ids, added = (columns[name].to_numpy() for name in ("id", "added"))
        return HeldColumns(ids, added, columns.drop_columns(["id", "added"]))


def joined(
    segments: Collection[Segment], deltas: Sequence[Deltas] = (), version: int = -1
) -> Segment:
    """One segment with the files of all, in their order.

    Args:
        segments: any.
        deltas: what is known of rows, for those that leave it to them.
        version: up to which.
    """
    columns = pa.concat_tables([s.files.table for s in segments], promote_options="permissive")
    whole = Deltas.joined(deltas)
    deleted = [s.gone_rows(whole, version) if s.deleted is None else s.deleted for s in segments]
    return Segment(
        HeldColumns(
            np.concatenate([s.files.ids for s in segments]),
            np.concatenate([s.files.added for s in segments]),
            columns.combine_chunks(),
        ),
        np.concatenate([s.removed for s in segments]),
        np.concatenate(deleted),
    )


def compacted(segments: list[Segment]) -> list[Segment]:
    """The same files, with small segments joined to those before them, in their order.

    What is not in memory stays as it is.
    """
    result: list[Segment] = []
    waiting: list[Segment] = []
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
