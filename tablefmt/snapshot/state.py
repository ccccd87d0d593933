"""One version of a table, as a frozen view over the history of its files. Pure.

Spec: RPL-1, RPL-2, RPL-4, DEL-4.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyroaring import BitMap64

from tablefmt.errors import LostCheckpointError
from tablefmt.expressions.predicate import Predicate, fields
from tablefmt.expressions.prune import may_match, partition_match
from tablefmt.model.cached import cached_property
from tablefmt.model.entry import Metadata, Totals
from tablefmt.model.schema import Schema
from tablefmt.snapshot.deletes import Deltas, with_vectors
from tablefmt.snapshot.file_columns import of_partitioning, typed_bounds, with_partitions
from tablefmt.snapshot.files import FileHistory
from tablefmt.snapshot.segments import HeldColumns, Mask, Segment
from tablefmt.snapshot.trust import blamed, check_complete, check_distinct

logger = logging.getLogger(__name__)

_Value = TypeVar("_Value")


@dataclass(frozen=True)
class Snapshot:
    """The state at `version`: metadata, and the live files as Arrow columns."""

    table_id: str
    version: int
    timestamp: int
    """Commit timestamp of the version, µs UTC."""
    time_version: int
    metadata: Metadata
    sums: Totals
    """Of the version."""
    history: FileHistory
    """Answers for the version, and perhaps for others before and after it."""
    instead: Callable[[LostCheckpointError, int], FileHistory] | None = None
    """Gives the files of a version from elsewhere, where a checkpoint turns out to be damaged."""

    @property
    def schema(self) -> Schema:
        """The schema of this version."""
        return self.metadata.schema

    @property
    def partition_ids(self) -> frozenset[int]:
        """Field ids of the partition columns."""
        return frozenset(self.metadata.partition_by)

    @property
    def deltas(self) -> Deltas:
        """Rows taken out of files, of the versions that `history` answers for."""
        return self.history.all_deltas

    def positions(self, file: int, version: int | None = None) -> BitMap64:
        """The positions gone from a file at a version up to this one, by default this one.

        Raises:
            CorruptEntryError: DEL-1, DEL-2, DEL-4.
        """
        if len(self.deltas) == 0:
            return BitMap64()
        at = self.version if version is None else version
        return self._healed(
            lambda: self.deltas.union(file, self.history.rows_of(file), at),
        )

    def with_vectors(self, files: pa.Table, version: int | None = None) -> pa.Table:
        """As `deletes.with_vectors`, of files of this snapshot.

        Args:
            files: with the columns `id`, `rows` and `deleted`.
            version: a version up to this one, by default this one.
        """
        at = self.version if version is None else version
        return self._healed(lambda: with_vectors(files, self.deltas, at))

    @cached_property
    def files(self) -> pa.Table:
        """The live files in the order of their ids.

        Their columns by ADD-1's names, and `id`, `added` (the version that did) and `deleted` (how
        many rows are gone).
        """
        return self._all(None)

    @property
    def totals(self) -> tuple[int, int, int]:
        """Live files, their rows without those that are gone, their bytes."""
        return self.sums.files, self.sums.rows - self.sums.deleted, self.sums.bytes

    def matching(self, predicate: Predicate | None) -> pa.Table:
        """The live files that may hold a row for which `predicate` is true (PRN rules).

        Segments that cannot hold one are not looked into.
        """
        if predicate is None:
            return self.files

        return self._select(lambda segment: self._survivors(segment, predicate))

    def ids_matching(self, predicate: Predicate) -> NDArray[np.int64]:
        """The ids of these files, ascending. Nothing else is read of them than what decides."""

        def ids() -> NDArray[np.int64]:
            chosen = [np.zeros(0, np.int64)]
            for segment in self.history.segments:
                mask = self._survivors(segment, predicate)
                if mask.any():
                    chosen.append(segment.files.ids[mask])
            return np.sort(np.concatenate(chosen))

        return self._healed(ids)

    def _survivors(self, segment: Segment, predicate: Predicate) -> Mask:
        if not segment.files.may_match(predicate, self.partition_ids):
            return np.zeros(len(segment), bool)
        known = segment.files.of_fields(fields(predicate))
        columns = typed_bounds(known, self.schema.fields)
        return segment.live(self.version) & may_match(predicate, columns, self.partition_ids)

    def files_with(self, names: Collection[str]) -> pa.Table:
        """As `files`, with some columns of ADD-1, partition values, `id`, `added` and `deleted`:
        bounds are most of what is known of files, and many do without.
        """
        return self._all(frozenset(names))

    def in_scope(self, predicate: Predicate | None) -> pa.Table:
        """The live files whose partition values make `predicate` true; all of them for None.

        The predicate must be decided by partition values alone (`decided_by_partitions`).
        """
        if predicate is None:
            return self.files

        def covered(segment: Segment) -> Mask:
            live = segment.live(self.version)
            if not live.any():
                # Its files may have been partitioned otherwise, and have no such values.
                return live
            columns = typed_bounds(segment.files.of_fields(fields(predicate)), self.schema.fields)
            return live & partition_match(predicate, columns, self.partition_ids)

        return self._select(covered)

    def of_ids(self, ids: NDArray[np.int64]) -> pa.Table:
        """The live files of these ids, in the order of ids; others are left out."""

        def marked(segment: Segment) -> Mask:
            mask = np.zeros(len(segment), bool)
            mask[segment.files.find(ids)[0]] = True
            return mask & segment.live(self.version)

        return self._select(marked)

    def _healed(self, work: Callable[[], _Value]) -> _Value:
        """What a work gives that reads the files; once more from elsewhere if they are lost."""
        try:
            with blamed(self.history):
                return work()
        except LostCheckpointError as lost:
            if self.instead is None:
                raise
            logger.warning("files are read from elsewhere: %s", lost)
            # The same files: nobody can tell but by what it costs.
            object.__setattr__(self, "history", self.instead(lost, self.version))
            return self._healed(work)

    def _all(self, names: frozenset[str] | None) -> pa.Table:
        """All live files, with all that is known of them or some of it."""

        def complete() -> pa.Table:
            files = self._chosen(lambda segment: segment.live(self.version), names)
            check_complete(files, self.sums, self.history)
            return files

        return self._healed(complete)

    def _select(
        self, choose: Callable[[Segment], Mask], names: frozenset[str] | None = None
    ) -> pa.Table:
        """The files that are marked, asked for segment by segment in their order."""
        return self._healed(lambda: self._chosen(choose, names))

    def _chosen(self, choose: Callable[[Segment], Mask], names: frozenset[str] | None) -> pa.Table:
        marked = [(segment, choose(segment)) for segment in self.history.segments]
        # Of some columns no other one is read.
        only = Segment.only if names is None else Segment.narrowed
        chosen = [only(segment, mask) for segment, mask in marked if mask.any()]
        if not chosen:
            # Of no file, but with the columns that files have.
            chosen = [segment.only(mask) for segment, mask in marked[:1] if segment.is_held]
        if not chosen:
            chosen = [_no_files(self.history)]
        tables = [self._columns(segment, names) for segment in chosen]
        files = pa.concat_tables(tables, promote_options="permissive")
        if any(not s.files.ascending for s in chosen) or not _ascending(chosen):
            files = files.sort_by("id")
        check_distinct(files, self.history)
        return files if files.num_rows else with_partitions(files, self.schema, self.partition_ids)

    def _columns(self, segment: Segment, names: frozenset[str] | None) -> pa.Table:
        known = segment.files.names
        if names is not None:
            known = [name for name in known if name in names or name.startswith("partition.")]
        # A later version may have wider types than this one.
        files = of_partitioning(segment.files.columns(known), self.partition_ids)
        return (
            typed_bounds(files, self.schema.fields)
            .append_column("id", pa.array(segment.files.ids))
            .append_column("added", pa.array(segment.files.added))
            .append_column("deleted", pa.array(self._deleted(segment)))
        )

    def _deleted(self, segment: Segment) -> NDArray[np.int64]:
        if segment.deleted is not None and self.version == self.history.version:
            return segment.deleted
        return segment.gone_rows(self.deltas, self.version)


def _no_files(history: FileHistory) -> Segment:
    nothing = np.zeros(0, np.int64)
    return Segment(HeldColumns(nothing, nothing, history.empty_table()), nothing, nothing)


def _ascending(segments: list[Segment]) -> bool:
    """Whether each one's ids are below the next one's; each ascends."""
    pairs = itertools.pairwise(segments)
    return all(one.files.ids[-1] < other.files.ids[0] for one, other in pairs)
