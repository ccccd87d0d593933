"""Runs of files as Arrow columns, each with what its files have in common. Pure.

A segment is looked at as a whole first: where its summary rules a predicate out, none of its
files is looked at. Its columns are never changed; which files went, and which rows are gone, is
beside them.
Spec: PRN-4 .. PRN-9.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tablefmt.expressions.predicate import Predicate, fields
from tablefmt.expressions.prune import may_match
from tablefmt.model.cached import cached_property

NEVER = np.iinfo(np.int64).max
"""`removed` of a live file."""

SEGMENT_FILES = 1 << 17
"""Most files of a segment: few enough that bounds of some files are not those of all."""

Mask = NDArray[np.bool_]
Places = NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class FileColumns:
    """What entries said of the files of a segment."""

    ids: NDArray[np.int64]
    """Each once; in any order, though those of a log's tail ascend."""
    added: NDArray[np.int64]
    """The version that added each."""
    table: pa.Table
    """ADD-1 names; one chunk a column."""

    def __len__(self) -> int:
        return len(self.ids)

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
        known, order = self._sorted
        if not len(known):
            return np.zeros(0, np.intp), np.zeros(0, np.intp)
        places = np.searchsorted(known, ids)
        lines = np.flatnonzero(known[np.minimum(places, len(known) - 1)] == ids)
        places = places[lines]
        return (places if order is None else order[places]), lines

    @cached_property
    def _summaries(self) -> dict[tuple[int, bool], dict[str, Any]]:
        return {}

    def may_match(self, predicate: Predicate, partition_ids: frozenset[int]) -> bool:
        """Whether any file may hold a row for which the predicate is TRUE, by the summary alone."""
        rows = self.table["rows"].to_numpy()
        total = int(rows.sum()) if np.all(rows > 0) else None
        columns: dict[str, Any] = {"rows": pa.array([total], pa.int64())}
        for field_id in fields(predicate):
            key = (field_id, field_id in partition_ids)
            if key not in self._summaries:
                self._summaries[key] = summary(self.table, *key)
            columns.update(self._summaries[key])
        return bool(may_match(predicate, pa.table(columns), frozenset())[0])


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
    nulls = int(pc.sum(rows.filter(pc.is_null(values))).as_py() or 0)
    bounds = {f"nulls.{field_id}": pa.array([max(nulls, values.null_count)], pa.int64())}
    values = values.drop_null()
    if pa.types.is_floating(values.type):
        if pc.any(pc.is_nan(values)).as_py():
            return bounds
        bounds[f"nans.{field_id}"] = pa.array([0], pa.int64())
    return bounds | _bounds(field_id, values, values)


def _counts(files: pa.Table, field_id: int) -> dict[str, Any]:
    rows = files["rows"].to_numpy()
    counted = np.zeros(len(rows), np.int64)
    sums: dict[str, Any] = {}
    for name in (f"nulls.{field_id}", f"nans.{field_id}"):
        if name not in files.column_names or files[name].null_count:
            continue
        counts = files[name].to_numpy()
        counted += counts
        if np.any(counts < 0):
            return {}
        sums[name] = pa.array([int(counts.sum())], pa.int64())
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
    deleted: NDArray[np.int64]
    """Rows gone from each at the last version folded in."""

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
                FileColumns(ids[some], added[some], part),
                np.full(count, NEVER, np.int64),
                np.zeros(count, np.int64),
            )

    def __len__(self) -> int:
        return len(self.files)

    def writable(self) -> Segment:
        """The same with arrays of its own beside the columns."""
        return replace(self, removed=self.removed.copy(), deleted=self.deleted.copy())

    def with_table(self, table: pa.Table) -> Segment:
        """The same files with other columns."""
        return replace(self, files=FileColumns(self.files.ids, self.files.added, table))

    def live(self, version: int) -> Mask:
        """The files that are live at a version."""
        mask: Mask = (self.files.added <= version) & (self.removed > version)
        return mask

    def only(self, mask: Mask) -> Segment:
        """Some of the files."""
        if mask.all():
            return self
        at = np.flatnonzero(mask)
        files = FileColumns(
            self.files.ids[at], self.files.added[at], self.files.table.take(pa.array(at))
        )
        return Segment(files, self.removed[at], self.deleted[at])


def joined(segments: Collection[Segment]) -> Segment:
    """One segment with the files of all, in their order."""
    columns = pa.concat_tables([s.files.table for s in segments], promote_options="permissive")
    return Segment(
        FileColumns(
            np.concatenate([s.files.ids for s in segments]),
            np.concatenate([s.files.added for s in segments]),
            columns.combine_chunks(),
        ),
        np.concatenate([s.removed for s in segments]),
        np.concatenate([s.deleted for s in segments]),
    )


def compacted(segments: list[Segment]) -> list[Segment]:
    """The same files, with small segments joined to those before them, in their order."""
    result: list[Segment] = []
    waiting: list[Segment] = []
    held = 0
    for segment in segments:
        if waiting and held + len(segment) > SEGMENT_FILES:
            result.append(joined(waiting) if len(waiting) > 1 else waiting[0])
            waiting, held = [], 0
        waiting.append(segment)
        held += len(segment)
    if waiting:
        result.append(joined(waiting) if len(waiting) > 1 else waiting[0])
    return result
