"""One version of a table, as a frozen view over the history of its files. Pure.

Spec: RPL-1, RPL-2, RPL-4, DEL-4.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyroaring import BitMap64

from tablefmt.expressions.predicate import Predicate
from tablefmt.expressions.prune import may_match, partition_match
from tablefmt.model.cached import cached_property
from tablefmt.model.entry import Metadata
from tablefmt.model.positions import pack_positions
from tablefmt.model.schema import Schema
from tablefmt.snapshot.deletes import Deltas
from tablefmt.snapshot.files import NEVER, typed_bounds


@dataclass(frozen=True)
class Snapshot:
    """The state at `version`: metadata, and the live files as Arrow columns."""

    table_id: str
    version: int
    timestamp: int
    """Commit timestamp of the version, µs UTC."""
    time_version: int
    metadata: Metadata
    columns: pa.Table
    """Columns of all files ever, in the order of ids (ADD-1 names)."""
    ids: NDArray[np.int64]
    added: NDArray[np.int64]
    removed: NDArray[np.int64]
    deltas: Deltas = field(default_factory=Deltas)
    """Of all files ever, and perhaps of later versions."""

    @property
    def schema(self) -> Schema:
        """The schema of this version."""
        return self.metadata.schema

    @property
    def partition_ids(self) -> frozenset[int]:
        """Field ids of the partition columns."""
        return frozenset(self.metadata.partition_by)

    @cached_property
    def live(self) -> NDArray[np.bool_]:
        """Per file ever: whether it is live at this version."""
        return (self.added <= self.version) & (self.removed > self.version)

    @cached_property
    def deleted(self) -> NDArray[np.int64]:
        """Per file ever: how many of its rows are gone at this version."""
        return self.deltas.counts(self.ids, self.version)

    def positions(self, file: int, version: int | None = None) -> BitMap64:
        """The positions gone from a file at a version up to this one, by default this one.

        Raises:
            CorruptEntryError: DEL-1, DEL-2, DEL-4.
        """
        if len(self.deltas) == 0:
            return BitMap64()
        at = self.version if version is None else version
        return self.deltas.union(file, self.rows_of(file), at)

    def rows_of(self, file: int) -> int:
        """How many rows a file was written with."""
        return int(self.columns["rows"][int(np.searchsorted(self.ids, file))].as_py())

    def with_vectors(self, files: pa.Table, version: int | None = None) -> pa.Table:
        """The files with the positions that are gone, as `read_files` wants them.

        Args:
            files: with the columns `id` and `deleted`.
            version: a version up to this one, by default this one.

        Returns:
            With the column `vector`, packed positions or null; as given if no row is gone.

        Raises:
            CorruptEntryError: DEL-1, DEL-2, DEL-4.
        """
        if not pc.any(pc.greater(files["deleted"], 0)).as_py():
            return files
        pairs = zip(files["id"].to_pylist(), files["deleted"].to_pylist(), strict=True)
        vectors = [
            pack_positions(self.positions(file, version)) if gone else None for file, gone in pairs
        ]
        return files.append_column("vector", pa.array(vectors, pa.large_binary()))

    @cached_property
    def files(self) -> pa.Table:
        """The live files in the order of their ids; see `select` for the columns."""
        return self.select(self.live)

    def select(self, mask: NDArray[np.bool_]) -> pa.Table:
        """The files that `mask`, one element a file ever, marks.

        Their columns, and `id`, `added`, `removed`, `deleted`.
        """
        if mask.all():
            chosen, ids, added, removed = self.columns, self.ids, self.added, self.removed
            deleted = self.deleted
        else:
            at = np.flatnonzero(mask)
            chosen = self.columns.take(pa.array(at))
            ids, added, removed = self.ids[at], self.added[at], self.removed[at]
            deleted = self.deleted[at]
        gone = pa.array(removed, mask=removed == NEVER)
        # A later version may have wider types than this one.
        chosen = typed_bounds(chosen, self.schema.fields)
        return (
            chosen.append_column("id", pa.array(ids))
            .append_column("added", pa.array(added))
            .append_column("removed", gone)
            .append_column("deleted", pa.array(deleted))
        )

    @cached_property
    def totals(self) -> tuple[int, int, int]:
        """Live files, their rows without those that are gone, their bytes."""
        files = self.files
        rows, sizes = files["rows"].to_numpy(), files["size"].to_numpy()
        left = int(rows.sum()) - int(files["deleted"].to_numpy().sum())
        return files.num_rows, left, int(sizes.sum())

    def matching(self, predicate: Predicate | None) -> pa.Table:
        """The live files that may hold a row for which `predicate` is true (PRN rules)."""
        return self.prune(self.files, predicate)

    def prune(self, files: pa.Table, predicate: Predicate | None) -> pa.Table:
        """Those of `files`, live or not, that may hold a row for which `predicate` is true."""
        if predicate is None:
            return files
        mask = may_match(predicate, files, self.partition_ids)
        return files if mask.all() else files.filter(pa.array(mask))

    def in_scope(self, predicate: Predicate | None) -> pa.Table:
        """The live files whose partition values make `predicate` true; all of them for None.

        The predicate must be decided by partition values alone (`decided_by_partitions`).
        """
        if predicate is None:
            return self.files
        return self.files.filter(
            pa.array(partition_match(predicate, self.files, self.partition_ids))
        )
