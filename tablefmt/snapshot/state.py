"""One version of a table, as a frozen view over the history of its files. Pure.

Spec: RPL-1, RPL-2, RPL-4.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tablefmt.model.entry import Metadata
from tablefmt.model.predicate import Predicate
from tablefmt.model.schema import Schema
from tablefmt.snapshot.files import NEVER
from tablefmt.snapshot.prune import may_match, partition_match


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
    def files(self) -> pa.Table:
        """The live files in the order of their ids; see `select` for the columns."""
        return self.select(self.live)

    def select(self, mask: NDArray[np.bool_]) -> pa.Table:
        """The files that `mask`, one element a file ever, marks; with `id`, `added`, `removed`."""
        if mask.all():
            chosen, ids, added, removed = self.columns, self.ids, self.added, self.removed
        else:
            at = np.flatnonzero(mask)
            chosen = self.columns.take(pa.array(at))
            ids, added, removed = self.ids[at], self.added[at], self.removed[at]
        gone = pa.array(removed, mask=removed == NEVER)
        return (
            chosen.append_column("id", pa.array(ids))
            .append_column("added", pa.array(added))
            .append_column("removed", gone)
        )

    @cached_property
    def totals(self) -> tuple[int, int, int]:
        """Live files, their rows, their bytes."""
        files = self.files
        rows, sizes = files["rows"].to_numpy(), files["size"].to_numpy()
        return files.num_rows, int(rows.sum()), int(sizes.sum())

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
