"""Snapshot: one version of a table, as an immutable view of its file history. Pure.

Spec: RPL-1, RPL-2, RPL-4, DEL-4.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyroaring import BitMap64

from tablefmt.errors import LostCheckpointError
from tablefmt.expressions.file_pruning import Mask, may_match, partition_match
from tablefmt.expressions.implied_conditions import implied
from tablefmt.expressions.predicate import Predicate, fields
from tablefmt.model.cached_property import cached_property
from tablefmt.model.import_layouts import NUMBER, with_layouts
from tablefmt.model.log_entry import PARTITIONING, Metadata, Totals
from tablefmt.model.schema import Schema
from tablefmt.snapshot.checkpoint_base import blamed, check_complete, check_distinct
from tablefmt.snapshot.deletion_vectors import Deltas, with_vectors
from tablefmt.snapshot.file_columns import (
    WITHOUT_BOUNDS,
    exact_sum,
    numbers_of,
    shared_values,
    typed_bounds,
    with_partitions,
)
from tablefmt.snapshot.file_history import FileHistory
from tablefmt.snapshot.segments import HeldColumns, ManifestSegment, passing

logger = logging.getLogger(__name__)

_Value = TypeVar("_Value")


@dataclass(frozen=True)
class Snapshot:
    """State at `version`: metadata, and the live files as Arrow columns. Immutable.

    Columns of files are read from a checkpoint on demand. If its part turns out to be damaged, the
    read goes to another snapshot of the same version, from other sources (`read`).
    """

    table_id: str
    version: int
    timestamp: int
    """Commit timestamp of the version, µs UTC."""
    time_version: int
    metadata: Metadata
    sums: Totals
    """Table statistics of the version."""
    history: FileHistory = field(compare=False, repr=False)
    """Files of this version, and perhaps of earlier and later ones."""
    elsewhere: Callable[[LostCheckpointError, int], FileHistory] | None = field(
        default=None, compare=False, repr=False
    )
    """Function that returns the files of a version without a damaged checkpoint; None: fail."""

    def read(self, work: Callable[[Snapshot], _Value]) -> _Value:
        """Run work that reads the files of the snapshot that it gets: this one, or an equal one.

        The work is run again if a checkpoint is lost.
        """
        try:
            with blamed(self.history):
                return work(self)
        except LostCheckpointError as lost:
            if self.elsewhere is None:
                raise
            logger.warning("reading files from another source: %s", lost)
            return replace(self, history=self.elsewhere(lost, self.version)).read(work)

    @property
    def schema(self) -> Schema:
        """Return the schema of this version."""
        return self.metadata.schema

    @property
    def partition_ids(self) -> frozenset[int]:
        """Return the ids of the fields that partition every live file."""
        return self.metadata.partition_ids

    @property
    def deltas(self) -> Deltas:
        """Return the deletion vectors of the versions that `history` includes."""
        return self.history.all_deltas

    def positions(self, file: int, version: int | None = None) -> BitMap64:
        """Return the deleted positions of a file at a version up to this one, by default this one.

        Raises:
            CorruptEntryError: DEL-1, DEL-2, DEL-4.
        """
        if len(self.deltas) == 0:
            return BitMap64()
        at = self.version if version is None else version
        return self.read(lambda one: one.deltas.union(file, one.history.rows_of(file), at))

    def with_vectors(self, files: pa.Table, version: int | None = None) -> pa.Table:
        """Return `deletes.with_vectors` of files of this snapshot.

        Args:
            files: with the columns `id`, `rows` and `deleted`.
            version: a version up to this one, by default this one.
        """
        at = self.version if version is None else version
        return self.read(lambda one: with_vectors(files, one.deltas, at))

    @cached_property
    def files(self) -> pa.Table:
        """Return the live files in the order of their ids.

        Columns have ADD-1's names. Additional columns are `id`, `added` (the version that added the
        file) and `deleted` (the number of deleted rows).
        """
        return self._all(None)

    @cached_property
    def described(self) -> pa.Table:
        """Return `files` without bounds and counts, which are most of the data about files."""
        return self.files_with(WITHOUT_BOUNDS)

    def first(self, rows: int, names: Collection[str]) -> pa.Table:
        """Return the first live files, by id, that together hold `rows` live rows, or all files.

        Of the other files, only ids and numbers of rows are read. Columns are those of
        `files_with`.
        """

        def chosen(one: Snapshot) -> pa.Table:
            ids = one._first_ids(rows)
            if len(ids) == self.sums.files:
                return one.files_with(names)
            return one._chosen(partial(_marked, ids, self.version), frozenset(names))

        return self.read(chosen)

    def _first_ids(self, rows: int) -> NDArray[np.int64]:
        """Return the ids of the files of `first`, ascending."""
        found: list[tuple[NDArray[np.int64], NDArray[np.int64]]] = []
        known, last = 0, -1
        segments = [segment for segment in self.history.segments if len(segment)]
        for segment in sorted(segments, key=lambda each: each.files.least_id):
            if known >= rows and last < segment.files.least_id:
                break
            live = segment.live(self.version)
            written = segment.files.columns(["rows"])["rows"].to_numpy()
            found.append((segment.files.ids[live], (written - self._deleted(segment))[live]))
            known += exact_sum(found[-1][1])
            if known >= rows:
                ids, counts = map(np.concatenate, zip(*found, strict=True))
                order = np.argsort(ids, kind="stable")
                count = int(np.searchsorted(np.cumsum(counts[order]), rows)) + 1
                order = order[:count]
                found = [(ids[order], counts[order])]
                known, last = exact_sum(counts[order]), int(ids[order[-1]])
        return np.sort(np.concatenate([np.zeros(0, np.int64), *(ids for ids, _ in found)]))

    @property
    def totals(self) -> tuple[int, int, int]:
        """Return the number of live files, of their rows without deleted ones, and of their
        bytes.
        """
        return self.sums.files, self.sums.rows - self.sums.deleted, self.sums.bytes

    def matching(
        self, predicate: Predicate | None, names: Collection[str] | None = None
    ) -> pa.Table:
        """Return the live files that may hold a row for which `predicate` is true (PRN rules).

        Files of a manifest segment whose summary excludes such a row are not checked. With `names`,
        the columns are those of `files_with`, or more if all are in memory.
        """
        if predicate is None:
            if names is None or "files" in self.__dict__:
                return self.files
            return self.described if names == WITHOUT_BOUNDS else self.files_with(names)

        wanted = implied(predicate, self.metadata)
        chosen = None if names is None else frozenset(names)
        return self.read(
            lambda one: one._chosen(lambda each: one.survivors(each, wanted), chosen, wanted)
        )

    def ids_matching(self, predicate: Predicate) -> NDArray[np.int64]:
        """Return the ids of these files, ascending. This reads only the columns that decide."""
        wanted = implied(predicate, self.metadata)

        def ids(one: Snapshot) -> NDArray[np.int64]:
            chosen = [np.zeros(0, np.int64)]
            for segment in one.candidates(wanted):
                mask = one.survivors(segment, wanted)
                if mask.any():
                    chosen.append(segment.files.ids[mask])
            return np.sort(np.concatenate(chosen))

        return self.read(ids)

    def candidates(self, predicate: Predicate | None) -> Iterable[ManifestSegment]:
        """Return the segments whose summaries do not exclude a matching row."""
        segments = self.history.segments
        return segments if predicate is None else passing(segments, predicate, self.partition_ids)

    def survivors(self, segment: ManifestSegment, predicate: Predicate) -> Mask:
        """Return a mask of the live files of a candidate that may hold a matching row."""
        columns = self.deciding(segment, predicate)
        return segment.live(self.version) & may_match(predicate, columns, self.partition_ids)

    def deciding(self, segment: ManifestSegment, predicate: Predicate) -> pa.Table:
        """Return the columns of the segment's files that decide which of them may match."""
        known = segment.files.of_fields(fields(predicate))
        columns = typed_bounds(known, self.schema.fields)
        if not self.metadata.is_evolved:
            return columns
        numbers = segment.files.columns([PARTITIONING])
        for name in numbers.column_names:
            columns = columns.append_column(name, numbers[name])
        return shared_values(columns, self.metadata)

    def partitionings(self) -> frozenset[int]:
        """Return the numbers of the partitionings of live files (EVO-1)."""

        def numbers(one: Snapshot) -> frozenset[int]:
            found: set[int] = set()
            for segment in one.history.segments:
                known = numbers_of(segment.files.columns([PARTITIONING]), len(segment))
                found.update(np.unique(known[segment.live(self.version)]).tolist())
            return frozenset(found)

        return self.read(numbers)

    def files_with(self, names: Collection[str]) -> pa.Table:
        """Return `files` with only some ADD-1 columns, partition values, `id`, `added` and
        `deleted`.

        Bounds are most of the data about files, and many callers do not need them.
        """
        return self._all(frozenset(names))

    def in_scope(self, predicate: Predicate | None) -> pa.Table:
        """Return the live files whose partition values make `predicate` true; all of them for None.

        The predicate must be decided by partition values alone (`decided_by_partitions`).
        """
        if predicate is None:
            return self.files

        def covered(segment: ManifestSegment) -> Mask:
            live = segment.live(self.version)
            if not live.any():
                # Its files may have another partitioning, and lack these values.
                return live
            columns = typed_bounds(segment.files.of_fields(fields(predicate)), self.schema.fields)
            return live & partition_match(predicate, columns, self.partition_ids)

        return self.read(lambda one: one._chosen(covered))

    def of_ids(self, ids: NDArray[np.int64]) -> pa.Table:
        """Return the live files of these ids, in the order of ids. Other ids are ignored."""
        marked = partial(_marked, ids, self.version)
        return self.read(lambda one: one._chosen(marked))

    def _all(self, names: frozenset[str] | None) -> pa.Table:
        """Return all live files, with all columns or some of them."""

        def complete(one: Snapshot) -> pa.Table:
            files = one._chosen(lambda segment: segment.live(self.version), names)
            check_complete(files, self.sums, one.history)
            return files

        return self.read(complete)

    def _chosen(
        self,
        choose: Callable[[ManifestSegment], Mask],
        names: frozenset[str] | None = None,
        predicate: Predicate | None = None,
    ) -> pa.Table:
        """Return the files that `choose` selects. It is called per manifest segment, in order.

        Segments whose summaries exclude a row for which `predicate` is true are left out.
        """

        def selected(segment: ManifestSegment) -> ManifestSegment | None:
            mask = choose(segment)
            return segment.only(mask, self._known(segment, names)) if mask.any() else None

        found = _of_each(selected, list(self.candidates(predicate)))
        chosen = [segment for segment in found if segment is not None]
        if not chosen:
            # No file is selected, but the result needs the columns that files have.
            first = [segment for segment in self.history.segments[:1] if segment.is_held]
            chosen = [segment.only(np.zeros(len(segment), bool)) for segment in first]
        if not chosen:
            chosen = [_no_files(self.history)]
        tables = [self._columns(segment, names) for segment in chosen]
        files = pa.concat_tables(tables, promote_options="permissive")
        if any(not s.files.ascending for s in chosen) or not _ascending(chosen):
            files = files.sort_by("id")
        check_distinct(files, self.history)
        return files if files.num_rows else with_partitions(files, self.schema, self.partition_ids)

    def _known(self, segment: ManifestSegment, names: frozenset[str] | None) -> Sequence[str]:
        """Return which columns of a segment are needed for these names; None: all."""
        known = segment.files.names
        if names is None:
            return known
        kept = {*names, NUMBER, PARTITIONING}
        return [name for name in known if name in kept or name.startswith("partition.")]

    def _columns(self, segment: ManifestSegment, names: frozenset[str] | None) -> pa.Table:
        # A later version may have wider types than this one.
        known = segment.files.columns(self._known(segment, names))
        typed = typed_bounds(known, self.schema.fields)
        files = shared_values(typed, self.metadata, bounds=names is None)
        if not self.metadata.is_evolved and PARTITIONING in files.column_names:
            files = files.drop_columns([PARTITIONING])
        return (
            with_layouts(files, self.metadata.imports)
            .append_column("id", pa.array(segment.files.ids))
            .append_column("added", pa.array(segment.files.added))
            .append_column("deleted", pa.array(self._deleted(segment)))
        )

    def _deleted(self, segment: ManifestSegment) -> NDArray[np.int64]:
        if segment.deleted is not None and self.version == self.history.version:
            return segment.deleted
        return segment.deleted_counts(self.deltas, self.version)


def _marked(ids: NDArray[np.int64], version: int, segment: ManifestSegment) -> Mask:
    """Return a mask of the live files of a segment that have one of these ids."""
    mask = np.zeros(len(segment), bool)
    mask[segment.files.find(ids)[0]] = True
    return mask & segment.live(version)


THREADS = max(1, min(4, pa.cpu_count()))
"""Stored segments read at once. Each one holds its decoded columns."""


def _of_each(
    work: Callable[[ManifestSegment], _Value], segments: Sequence[ManifestSegment]
) -> list[_Value]:
    """Return the results of work on segments, in order. Stored segments are read in parallel."""
    if THREADS == 1 or sum(not segment.is_held for segment in segments) < 2:
        return list(map(work, segments))
    with ThreadPoolExecutor(THREADS) as pool:
        try:
            return list(pool.map(work, segments))
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _no_files(history: FileHistory) -> ManifestSegment:
    nothing = np.zeros(0, np.int64)
    return ManifestSegment(HeldColumns(nothing, nothing, history.empty_table()), nothing, nothing)


def _ascending(segments: list[ManifestSegment]) -> bool:
    """Return True if each segment's ids are below the next one's. Each segment ascends."""
    pairs = itertools.pairwise(segments)
    return all(one.files.ids[-1] < other.files.ids[0] for one, other in pairs)
