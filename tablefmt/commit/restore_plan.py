"""Plan of a restore: the changes that make an older version the newest again. Pure.

Files that are unchanged since that version stay. Newer files are removed. Files that were removed
since come back under new ids, with the rows deleted that were deleted then. The plan is computed
anew on every parent. Spec: RET-1 .. RET-3.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64

from tablefmt.conflict.read_write_sets import PendingCommit, own_file
from tablefmt.errors import VersionNotFoundError
from tablefmt.expressions.file_pruning import Mask
from tablefmt.model.import_layouts import LAYOUT
from tablefmt.model.log_entry import (
    OWN,
    PARTITIONING,
    AddedFiles,
    CursorBack,
    Metadata,
    Operation,
)
from tablefmt.model.positions import DeletionVector
from tablefmt.model.scalar_values import encode
from tablefmt.model.schema import Type
from tablefmt.snapshot.cursors import Cursors, taken_back
from tablefmt.snapshot.file_columns import column_type, numbers_of, typed_bounds
from tablefmt.snapshot.head import Head
from tablefmt.snapshot.table_state import Snapshot

_NOT_RESTORED = frozenset({"id", "added", "deleted", "updated", "keys", LAYOUT})
"""Columns that do not come back: they belong to the entry that added the file, or are computed
anew.
"""


@dataclass(frozen=True, slots=True, eq=False)
class Restoring:
    """A RESTORE of the whole table."""

    snapshot: Snapshot
    """The version to restore."""
    metadata: Metadata
    """The table's metadata after the restore."""
    cursors: Cursors = field(default_factory=dict)
    """The cursors of pipes at that version."""


@dataclass(frozen=True, slots=True, eq=False)
class Restored:
    """The changes of one RESTORE on one parent."""

    removed: pa.Table
    """Live files to remove, with at least `id`, `rows`, `size` and `deleted`."""
    added: AddedFiles | None
    deletes: Mapping[int, DeletionVector]
    """By `own_file`: rows deleted from files that come back."""
    cursors: tuple[CursorBack, ...] = ()

    def pending(self, pending: PendingCommit) -> PendingCommit:
        """Return the pending commit with the rows that this restore deletes."""
        return replace(pending, deletes=self.deletes)

    def measured(self, operation: Operation, restoring: Restoring) -> Operation:
        """Return the operation with Delta's metric names."""
        _, _, size = restoring.snapshot.totals
        metrics = {
            "tableSizeAfterRestore": size,
            "numOfFilesAfterRestore": restoring.snapshot.sums.files,
            "numRestoredFiles": 0 if self.added is None else len(self.added),
            "restoredFilesSize": 0 if self.added is None else self.added.bytes,
            "numRemovedFiles": self.removed.num_rows,
            "removedFilesSize": pc.sum(self.removed["size"]).as_py() or 0,
        }
        return replace(operation, metrics={**operation.metrics, **metrics})


def check_kept(version: int, oldest: int, latest: int) -> None:
    """Refuse a version whose files may have been removed.

    Args:
        version: to be restored.
        oldest: the earliest version that the parent keeps (ENT-13).
        latest: the parent's own version.

    Raises:
        VersionNotFoundError: RET-2, with the versions that can be restored.
    """
    if version < oldest:
        raise VersionNotFoundError(f"version {version}", oldest, latest)


def restored_on(restoring: Restoring, parent: Head, live: Snapshot) -> Restored:
    """Return the difference between a parent and the version to restore.

    Args:
        restoring: the version.
        parent: the head that the restore follows. Every entry up to it was read.
        live: the state at the parent.

    Raises:
        VersionNotFoundError: RET-2.
        CorruptEntryError: DEL-1, DEL-2, DEL-4.
    """
    snapshot, now = restoring.snapshot, live.files
    stays, kept = _unchanged(restoring, parent, live)
    comes = snapshot.files.filter(pa.array(~stays))
    pairs = zip(comes["id"].to_pylist(), comes["deleted"].to_pylist(), strict=True)
    deletes = {
        own_file(at): DeletionVector(snapshot.positions(file), BitMap64())
        for at, (file, deleted) in enumerate(pairs)
        if deleted
    }
    comes = renumbered(comes, snapshot.metadata, restoring.metadata)
    added = added_again(comes, restoring.metadata) if comes.num_rows else None
    cursors = taken_back(parent.cursors, restoring.cursors)
    return Restored(now.filter(pa.array(~kept)), added, deletes, cursors)


def restores_nothing(restoring: Restoring, parent: Head, live: Snapshot) -> bool:
    """Return whether the parent holds exactly the files and cursors of the version.

    Arguments and errors are those of `restored_on`.
    """
    stays, kept = _unchanged(restoring, parent, live)
    same_cursors = not taken_back(parent.cursors, restoring.cursors)
    return bool(stays.all() and kept.all()) and same_cursors


def _unchanged(restoring: Restoring, parent: Head, other: Snapshot) -> tuple[Mask, Mask]:
    """Return masks of the files that both versions have with the same deleted rows, whatever their
    ids.

    For one id, equal counts mean the same rows: deleted rows never come back.
    """
    one = restoring.snapshot
    check_kept(one.version, parent.totals.oldest, parent.version)
    files, others = one.files, other.files
    evolved = parent.metadata.partitionings or restoring.metadata.partitionings
    if not evolved and frozenset(parent.metadata.partition_by) != one.partition_ids:
        return _empty_mask(files), _empty_mask(others)
    at = pc.index_in(files["path"], value_set=others["path"])
    mine = np.flatnonzero(at.is_valid().to_numpy())
    theirs = at.drop_null().to_numpy()
    ids, deleted = (files[name].to_numpy()[mine] for name in ("id", "deleted"))
    other_ids, other_deleted = (others[name].to_numpy()[theirs] for name in ("id", "deleted"))
    alike = deleted == other_deleted
    for pair in np.flatnonzero(alike & (ids != other_ids) & (deleted > 0)).tolist():
        alike[pair] = one.positions(int(ids[pair])) == other.positions(int(other_ids[pair]))
    mask, other_mask = _empty_mask(files), _empty_mask(others)
    mask[mine[alike]], other_mask[theirs[alike]] = True, True
    return mask, other_mask


def _empty_mask(files: pa.Table) -> Mask:
    return np.zeros(files.num_rows, np.bool_)


def renumbered(files: pa.Table, then: Metadata, now: Metadata) -> pa.Table:
    """Return files with the number of their partitioning in other metadata.

    Args:
        files: of a snapshot under `then`.
        then: metadata that the files have.
        now: metadata with the same partitionings, perhaps under other numbers.
    """
    if not now.partitionings:
        return files
    numbers = {frozenset(ids): number for number, ids in now.numbered.items()}
    current = np.full(files.num_rows, then.partitioning, np.int64)
    known = numbers_of(files) if PARTITIONING in files.column_names else current
    before = np.array(sorted(then.numbered), np.int64)
    after = np.array([numbers[frozenset(then.numbered[n])] for n in before.tolist()], np.int64)
    changed = pa.array(after[np.searchsorted(before, known)])
    if PARTITIONING in files.column_names:
        files = files.drop_columns([PARTITIONING])
    return files.append_column(PARTITIONING, changed)


def added_again(files: pa.Table, metadata: Metadata) -> AddedFiles:
    """Return files of a snapshot as an entry adds them, in the types of the entry's metadata."""
    types: dict[int, Type] = {f.id: f.type for f in metadata.schema.with_hidden}
    columns: dict[str, list[Any]] = {}
    typed = typed_bounds(files, metadata.schema.fields)
    names = {name: f"partition.{name.removeprefix(OWN)}" for name in typed.column_names
             if name.startswith(OWN)}  # fmt: skip
    typed = typed.rename_columns([names.get(name, name) for name in typed.column_names])
    used = {i for n in _partitionings_of(files, metadata) for i in metadata.numbered[n]}
    unlike = {f"partition.{i}" for i in metadata.all_partition_ids - used}
    for name in typed.column_names:
        if name in unlike:
            continue
        if name in _NOT_RESTORED or not _belongs_to_table(name, typed, metadata):
            continue
        kind = column_type(name, types)
        if kind is not None:
            columns[name] = encode(typed[name].combine_chunks(), kind)
    return AddedFiles(columns)


def _partitionings_of(files: pa.Table, metadata: Metadata) -> set[int]:
    if PARTITIONING not in files.column_names:
        return {metadata.partitioning}
    return set(pc.unique(files[PARTITIONING]).to_pylist())


def _belongs_to_table(name: str, files: pa.Table, metadata: Metadata) -> bool:
    """Return whether a column belongs to the table. A column of NULLs alone is left out: unknown
    (VAL-4)."""
    group, dot, field_id = name.partition(".")
    if not dot:
        return name in ("path", "size", "rows") or files[name].null_count < files.num_rows
    if group == "partition":
        return int(field_id) in metadata.all_partition_ids
    known = any(f.id == int(field_id) for f in metadata.schema.fields)
    return known and files[name].null_count < files.num_rows
