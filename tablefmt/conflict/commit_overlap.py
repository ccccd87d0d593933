"""Overlap of a concurrent commit with an operation: rows added or removed, and partitions. Pure.

Rows that it added might have been returned by a read; rows that it removed were read or removed
too; the partitions of both may be disjoint. Spec: CFL-8, CFL-10, CFL-11, CFL-17, CFL-18, CFL-19.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyroaring import BitMap64

from tablefmt.conflict.conflict_matrix import ROW, matrix_of
from tablefmt.conflict.read_write_sets import (
    ConcurrentCommit,
    DeletionVector,
    Ids,
    PendingCommit,
    Read,
    ascending,
    is_among,
    shared,
    union,
)
from tablefmt.conflict.verdict import Evidence, of_files, of_rows
from tablefmt.errors import CorruptEntryError, InvalidPredicateError, UnsupportedFeatureError
from tablefmt.expressions.condition_overlap import listed_keys, may_both_hold
from tablefmt.expressions.file_pruning import (
    Mask,
    decided_by_partitions,
    may_match,
    partition_match,
)
from tablefmt.expressions.implied_conditions import implied
from tablefmt.expressions.predicate import Predicate
from tablefmt.expressions.sql_to_predicate import parse_predicate
from tablefmt.model.content_hashes import decode_all_hashes, decode_hashes
from tablefmt.model.log_entry import (
    NOT_LOGICAL,
    AddedFiles,
    Metadata,
    PartitionScope,
    PredicateScope,
    Scope,
)
from tablefmt.model.scalar_values import decode, encode
from tablefmt.model.schema import Primitive, Schema, with_hidden_columns


@dataclass(slots=True)
class RemovalOverlap:
    """Files and rows that both commits touched."""

    files: set[int] = field(default_factory=set)
    rows: dict[int, BitMap64] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.files or self.rows)

    @property
    def what(self) -> str:
        """Return the word for its items in messages."""
        return "rows" if self.rows else "files"

    def evidence(self) -> Evidence:
        """Return the rows if they are known, else the files."""
        if not self.rows:
            return of_files(self.files)
        return {**of_rows(self.rows), **of_files(self.files | self.rows.keys())}

    def add_rows(self, file: int, rows: BitMap64) -> None:
        """Add rows of one file."""
        if rows:
            self.rows[file] = self.rows[file] | rows if file in self.rows else rows


def removed_files(concurrent: ConcurrentCommit) -> Ids:
    """Return the files that the concurrent commit removed as a whole, ascending."""
    return np.asarray(concurrent.entry.remove, np.int64)


def marked_files(concurrent: ConcurrentCommit, removed: Ids) -> Ids:
    """Return the files that lost rows but are still live, ascending."""
    taken_out = frozenset(removed.tolist())
    return ascending(file for file in concurrent.deletes if file not in taken_out)


def touched_files(concurrent: ConcurrentCommit) -> Ids:
    """Return the files that lost rows or were removed."""
    removed = removed_files(concurrent)
    return union(removed, marked_files(concurrent, removed))


def overlap_with_read(concurrent: ConcurrentCommit, read: Read, by_row: bool) -> RemovalOverlap:
    """Return what the concurrent commit removed of a read (CFL-10): positions if `by_row`, else
    files.
    """
    taken = RemovalOverlap()
    removed = removed_files(concurrent)
    removed_read = shared(removed, read.files)
    marked = shared(marked_files(concurrent, removed), read.files)
    if not (by_row and read.by_row):
        taken.files.update(removed_read.tolist(), marked.tolist())
        return taken
    for file in removed_read.tolist():
        rows = rows_read(read, file)
        if rows is None:
            taken.files.add(file)
        else:
            taken.add_rows(file, rows)
    for file in marked.tolist():
        rows, marks = rows_read(read, file), concurrent.deletes[file]
        taken.add_rows(file, marks.all if rows is None else _lost(marks, rows))
    return taken


def rows_read(read: Read, file: int) -> BitMap64 | None:
    """Return the rows read of one of `read.files`; None: all live rows."""
    if read.rows is not None:
        return read.rows.get(file, _NO_ROWS)
    return read.moved.get(file)


def overlap_with_removals(
    concurrent: ConcurrentCommit, pending: PendingCommit, by_row: bool
) -> RemovalOverlap:
    """Return what both the concurrent commit and the later operation remove (CFL-11)."""
    taken = RemovalOverlap()
    removed = removed_files(concurrent)
    own = union(pending.removes, ascending(file for file in pending.deletes if file >= 0))
    taken.files.update(shared(removed, own).tolist())
    whole = frozenset(shared(marked_files(concurrent, removed), pending.removes).tolist())
    for file in shared(marked_files(concurrent, removed), own).tolist():
        if not by_row:
            taken.files.add(file)
        elif file in whole:
            taken.add_rows(file, concurrent.deletes[file].all)
        else:
            marks = concurrent.deletes[file]
            for rows in (pending.deletes[file].deleted, pending.deletes[file].updated):
                taken.add_rows(file, _lost(marks, rows))
    return taken


def _lost(marks: DeletionVector, rows: BitMap64) -> BitMap64:
    """Return the given rows that are deleted. Usually there are none, so test that without
    allocation.
    """
    if marks.deleted.isdisjoint(rows) and marks.updated.isdisjoint(rows):
        return _NO_ROWS
    return marks.all & rows


def overlap_with_inputs(concurrent: ConcurrentCommit, pending: PendingCommit) -> RemovalOverlap:
    """Return the files that a compaction would rewrite and that were changed or removed
    (CFL-11).
    """
    inputs = union(*(group.inputs for group in pending.groups))
    return RemovalOverlap(files=set(shared(touched_files(concurrent), inputs).tolist()))


_NO_ROWS = BitMap64()


def new_files(concurrent: ConcurrentCommit) -> Mask:
    """Return a mask of the added files with new rows. The other files hold moved rows (LIN-1)."""
    entry = concurrent.entry
    count = len(entry.add) if entry.add is not None else 0
    if entry.operation.cls in NOT_LOGICAL:
        return np.zeros(count, np.bool_)
    new = np.ones(count, np.bool_)
    if entry.lineage is not None:
        new[np.asarray(entry.lineage.output, np.int64)] = False
    return new


def may_have_read(concurrent: ConcurrentCommit, pending: PendingCommit, read: Read) -> Mask:
    """Return a mask of the added files that may hold a row that the read would have returned
    (CFL-8).

    A file with unknown statistics counts as a match.
    """
    mask = new_files(concurrent)
    if not mask.any():
        return mask
    if read.predicate is not None and concurrent.files is not None:
        partitions: frozenset[int] = frozenset()
        predicate = read.predicate
        if pending.metadata is not None:
            partitions = pending.metadata.partition_ids
            predicate = implied(predicate, pending.metadata)
        mask &= may_match(predicate, concurrent.files, partitions)
    if mask.any() and _sets_nothing_read(concurrent, pending, read):
        updated = _column(concurrent, "updated")
        if updated is not None:
            mask &= ~np.array([v is True for v in updated], np.bool_)
    if mask.any():
        _without_other_keys(concurrent, read, mask)
    return mask


def _sets_nothing_read(concurrent: ConcurrentCommit, pending: PendingCommit, read: Read) -> bool:
    """Return True if CFL-17 excludes the updated rows of the concurrent commit.

    It set none of the columns that the read used, so its new rows match exactly if the old rows
    did. The read version must also know the files of the old rows.
    """
    update = concurrent.entry.update
    if update is None or update.set is None or read.columns is None or not read.by_row:
        return False
    if matrix_of(pending.granularity, pending.delete_mode) != ROW:
        return False
    if not read.columns.isdisjoint(update.set):
        return False
    return all(
        file < pending.next_id or file in pending.known
        for file, marks in concurrent.deletes.items()
        if marks.updated
    )


def _without_other_keys(concurrent: ConcurrentCommit, read: Read, mask: Mask) -> None:
    """Clear the mask for files whose keys are known and include no key of the read (CFL-18)."""
    update = concurrent.entry.update
    packed = _column(concurrent, "keys") if update is not None and update.keys else None
    if update is None or packed is None:
        return
    known = _keys_of(read, update.keys)
    if known is None:
        return
    small: list[int] = []
    for at in np.flatnonzero(mask).tolist():
        if packed[at] is None:
            continue
        if len(packed[at]) <= _SMALL:
            small.append(at)
            continue
        few, many = sorted((decode_hashes(packed[at]), known), key=len)
        mask[at] = bool(is_among(few, many).any())
    if small:
        # One search over all small sets is faster than a thousand searches.
        hashes, ends = decode_all_hashes([packed[at] for at in small])
        common = np.concatenate([[0], np.cumsum(is_among(hashes, known))])
        mask[small] = common[ends[1:]] > common[ends[:-1]]


def _keys_of(read: Read, columns: tuple[int, ...]) -> _Hashes | None:
    """Return the hashes of all keys that rows of the read set can have."""
    if read.keys is not None and read.keys.columns == columns:
        return read.keys.hashes
    return None if read.predicate is None else listed_keys(read.predicate, columns)


_SMALL = 8192
"""Size below which hashes of a file are searched together with others: bytes or characters."""

_Hashes = NDArray[np.uint64]


def _column(concurrent: ConcurrentCommit, name: str) -> Any:
    """Return a column of the added files, from the entry or from its overflow metadata file.

    Return None if it is unknown.
    """
    add = concurrent.entry.add
    if isinstance(add, AddedFiles):
        return add.columns.get(name)
    if concurrent.files is None or name not in concurrent.files.column_names:
        return None
    return concurrent.files[name].to_pylist()


Partitions = frozenset[tuple[Any, ...]]


def shared_partitions(theirs: Scope, mine: Scope, metadata: Metadata | None) -> Partitions | None:
    """Return the partitions in both scopes; None if the overlap cannot be listed.

    An empty set proves that the scopes are disjoint. A scope that cannot be read returns None.

    Args:
        theirs, mine: the scopes.
        metadata: it defines the partition columns.
    """
    if any(isinstance(scope, PartitionScope) and not scope.values for scope in (theirs, mine)):
        return frozenset()
    lists = isinstance(theirs, PartitionScope) and isinstance(mine, PartitionScope)
    if theirs is None or mine is None or (metadata is None and not lists):
        return None
    try:
        if isinstance(theirs, PartitionScope) and isinstance(mine, PartitionScope):
            return _listed(theirs, metadata) & _listed(mine, metadata)
        assert metadata is not None
        if isinstance(theirs, PredicateScope) and isinstance(mine, PredicateScope):
            both = (_condition(each.predicate, metadata.schema) for each in (theirs, mine))
            return None if may_both_hold(*both) else frozenset()
        listed, predicate = (theirs, mine) if isinstance(theirs, PartitionScope) else (mine, theirs)
        assert isinstance(listed, PartitionScope)
        assert isinstance(predicate, PredicateScope)
        return _inside(listed, _condition(predicate.predicate, metadata.schema), metadata)
    except (InvalidPredicateError, UnsupportedFeatureError, CorruptEntryError, ValueError):
        return None


def _listed(scope: PartitionScope, metadata: Metadata | None) -> Partitions:
    """Return the partitions of a scope, with values of FLOAT columns as the column stores them
    (VAL-1).

    Different texts of a number can be one Python value and still differ from the stored value.
    """
    kinds = [metadata.schema.by_id(i).type for i in metadata.partition_by] if metadata else []
    if Primitive("float") not in kinds:
        return frozenset(scope.values)
    columns = zip(kinds, zip(*scope.values, strict=True), strict=True)
    return frozenset(zip(*(encode(decode(c, kind), kind) for kind, c in columns), strict=True))


@lru_cache(maxsize=64)
def _condition(text: str, schema: Schema) -> Predicate:
    # A transaction compares its own scope with every concurrent commit, so cache the parsed text.
    # A scope names hidden partition fields like columns (HID-4).
    return parse_predicate(text, with_hidden_columns(schema))


def _inside(scope: PartitionScope, condition: Predicate, metadata: Metadata) -> Partitions | None:
    """Return the listed partitions for which the condition holds."""
    ids = frozenset(metadata.partition_by)
    if not decided_by_partitions(condition, ids):
        return None
    columns = zip(metadata.partition_by, zip(*scope.values, strict=True), strict=True)
    values = {f"partition.{i}": decode(c, metadata.schema.by_id(i).type) for i, c in columns}
    matches = partition_match(condition, pa.table(values), ids)
    return frozenset(v for v, is_in in zip(scope.values, matches, strict=True) if is_in)
