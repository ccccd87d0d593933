"""Inputs of the conflict rules: what a transaction read and wrote, and the concurrent commits.
Pure.

Files are identified by id, in ascending arrays. A file that the transaction itself adds has no id
before the commit. Its placeholder is `own_file(index)`, a negative number.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyroaring import BitMap64

from tablefmt.expressions.predicate import Predicate
from tablefmt.model.log_entry import (
    ApplicationTransaction,
    DerivedFrom,
    Entry,
    Metadata,
    OperationClass,
    Scope,
)
from tablefmt.model.positions import DeletionVector as DeletionVector

Ids = NDArray[np.int64]
NO_IDS: Ids = np.zeros(0, np.int64)


def own_file(index: int) -> int:
    """Return the placeholder id of the file at `index` among the files that the transaction
    adds.
    """
    return -1 - index


@dataclass(frozen=True, slots=True)
class Keys:
    """Keys of a MERGE's source: hashes as in ADD-8, sorted, each once."""

    columns: tuple[int, ...]
    """Field ids of the target's columns that ON equates, in the order of the hash."""
    hashes: NDArray[np.uint64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """Read set: one read of the table at the read version (CFL-20)."""

    predicate: Predicate | None = None
    """Condition of the read. It ignored rows for which the condition is not TRUE. None: it read
    every row.
    """
    by_row: bool = True
    """False if the condition cannot be analysed. The rules of `file` then apply (CFL-21)."""
    files: Ids = field(default_factory=lambda: NO_IDS)
    """Files that could hold matching rows, and were therefore opened. Ascending."""
    rows: Mapping[int, BitMap64] | None = None
    """Matching positions by file; None: all live rows of `files`."""
    moved: Mapping[int, BitMap64] = field(default_factory=dict)
    """For a read without `rows`: files that compactions wrote since, and the positions in them of
    rows that this read covers.
    """
    columns: frozenset[int] | None = None
    """Ids of the columns that decide if a row matches; None: any column."""
    keys: Keys | None = None
    """Keys of matching rows. Rows with other keys did not match; None: the keys are unknown."""


@dataclass(frozen=True, slots=True)
class Run:
    """Run of rows of one input of an order-preserving rewrite (LIN-1)."""

    file: int
    start: int
    rows: int
    """Length of the run, including dropped rows."""
    dropped: BitMap64
    """Positions in the file, within the run, left out because the rows were deleted already."""


Output = tuple[int, tuple[Run, ...]]
"""Index among the files that the transaction staged, and the file's rows in order."""


@dataclass(frozen=True, slots=True)
class Group:
    """Independent part of a compaction: it removes all of `inputs` and adds all of `outputs`."""

    inputs: Ids
    """Files to remove, ascending. After taking over a MINOR compaction: its outputs instead of its
    inputs.
    """
    outputs: tuple[Output, ...]
    """Files to add. CLUSTER has no runs, because it reorders rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingCommit:
    """Commit that is to be rebased: its work, and the state that it relied on.

    `rebase_onto` updates `reads`, `removes`, `deletes`, `groups` and `copied` for each concurrent
    commit (conflict/rebase.py).
    """

    cls: OperationClass
    granularity: str
    isolation: str
    scope: Scope
    metadata: Metadata | None
    """Metadata under which the data files were written, or a concurrent commit's metadata that they
    also fit. None when a table is created.
    """
    floating: bool = False
    """True for an autocommit blind append. It depends on nothing it read, so a changed schema
    conflicts only if its files do not fit (CFL-5).
    """
    application: ApplicationTransaction | None = None
    derived_from: DerivedFrom | None = None
    delete_mode: str = "merge-on-read"
    read_version: int | None = None
    next_id: int = 1
    """`Totals.next_id` at the read version. Files from this id on were unknown then."""
    reads: tuple[Read, ...] = ()
    removes: Ids = field(default_factory=lambda: NO_IDS)
    """Files removed as a whole, not by compaction. Ascending."""
    deletes: Mapping[int, DeletionVector] = field(default_factory=dict)
    """Deletion vectors by file. For files of `removes`, they are the rows that the change feed must
    distinguish. Once a compaction is rebased, they include the transaction's own files.
    """
    groups: tuple[Group, ...] = ()
    copied: tuple[Output, ...] = ()
    """Copy-on-write: added files whose rows are copied unchanged from the removed files."""
    adds_constraints: bool = False
    """True for a METADATA change with added constraints (CHECK, NOT NULL) that every row must
    meet.
    """
    defines: bool = False
    """It changes metadata or the retention horizon: a concurrent tag change conflicts (TAG-2)."""
    replaces: bool = False
    """True if the commit replaces the whole table with another one: new metadata and new rows
    (CFL-4).
    """
    skipped: int | None = None
    """Version of the first skipped blind commit: it added rows that `reads` might have returned
    (CFL-9).
    """
    known: frozenset[int] = frozenset()
    """Files added since the read version (id >= `next_id`) that hold only rows of the read version:
    outputs of concurrent compactions.
    """


@dataclass(frozen=True, slots=True)
class ConcurrentCommit:
    """Concurrent commit: an entry above the read version, with the columns stored outside the
    entry.
    """

    entry: Entry
    files: pa.Table | None = None
    """Added files, typed (`added_table`). None if there are none, or if no rule needs them."""
    deletes: Mapping[int, DeletionVector] = field(default_factory=dict)
    """Deletion vectors by real file id."""


def ascending(ids: Iterable[int]) -> Ids:
    """Return the ids as an ascending array, each once."""
    numbers: Ids = np.unique(np.fromiter(ids, np.int64))
    return numbers


def is_among(values: NDArray[Any], ids: NDArray[Any]) -> NDArray[np.bool_]:
    """Return a mask of the `values` that are among the ascending `ids`, both ids of files or both
    hashes. It does not scan the ids.
    """
    if len(ids) == 0 or len(values) == 0:
        return np.zeros(len(values), np.bool_)
    at = np.minimum(np.searchsorted(ids, values), len(ids) - 1)
    equal: NDArray[np.bool_] = ids[at] == values
    return equal


def shared(few: Sequence[int] | Ids, ids: Ids) -> Ids:
    """Return the elements of `few` that are among the ascending `ids`."""
    if len(few) == 0 or len(ids) == 0:
        return NO_IDS
    values = np.asarray(few, np.int64)
    common: Ids = values[is_among(values, ids)]
    return common


def without(ids: Ids, others: Ids) -> Ids:
    """Return the ascending `ids` that are not among the ascending `others`."""
    left: Ids = ids[~is_among(ids, others)]
    return left


def union(*parts: Ids) -> Ids:
    """Return all ids, ascending, each once."""
    some = [part for part in parts if len(part)]
    if not some:
        return NO_IDS
    both: Ids = np.unique(np.concatenate(some)) if len(some) > 1 else some[0]
    return both
