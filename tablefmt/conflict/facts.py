"""What the conflict rules look at: what a transaction read and wrote, and what a winner did. Pure.

Files are known by id. A file that the transaction itself adds has no id before it commits: it is
`own_file(index)`, a negative number.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyroaring import BitMap64

from tablefmt.expressions.predicate import Predicate
from tablefmt.model.entry import Application, DerivedFrom, Entry, Metadata, OperationClass, Scope
from tablefmt.model.positions import Marks as Marks

Ids = NDArray[np.int64]
NO_IDS: Ids = np.zeros(0, np.int64)


def own_file(index: int) -> int:
    """Stands for the id of the file at `index` of those the transaction adds."""
    return -1 - index


@dataclass(frozen=True, slots=True)
class Keys:
    """The keys that a MERGE's source held: hashes as in ADD-8, sorted, each once."""

    columns: tuple[int, ...]
    """Field ids of the target's columns that ON equates, in the order of the hash."""
    hashes: NDArray[np.uint64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """One look at the table as it was at the read version (CFL-20)."""

    predicate: Predicate | None = None
    """Rows for which this is not TRUE were not looked at; None: every row."""
    by_row: bool = True
    """False: the condition cannot be reasoned about, so the rules of `file` hold (CFL-21)."""
    files: Ids = field(default_factory=lambda: NO_IDS)
    """Files that could hold such rows: those opened. Ascending."""
    rows: Mapping[int, BitMap64] | None = None
    """By file, the positions that matched; None: all live rows of `files`."""
    moved: Mapping[int, BitMap64] = field(default_factory=dict)
    """Without `rows`: by file, where compactions put rows of files that were opened. Only these
    positions of such a file were looked at."""
    columns: frozenset[int] | None = None
    """Ids of the columns that decide whether a row matches; None: any."""
    keys: Keys | None = None
    """Rows with other keys did not match; None: nothing is known of keys."""


@dataclass(frozen=True, slots=True)
class Run:
    """A run of rows of one input of a rewrite that keeps the order of rows (LIN-1)."""

    file: int
    start: int
    rows: int
    """Dropped rows included."""
    dropped: BitMap64
    """Positions in the file, within the run, left out because they were deleted already."""


Output = tuple[int, tuple[Run, ...]]
"""Index among the files that the transaction staged, and its rows in order."""


@dataclass(frozen=True, slots=True)
class Group:
    """Part of a compaction that stands or falls by itself: all of `inputs` go, `outputs` come."""

    inputs: Ids
    """Files removed, ascending. With a MINOR taken over: its outputs instead of its inputs."""
    outputs: tuple[Output, ...]
    """No runs for CLUSTER, which reorders."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingCommit:
    """What the commit that wants to go on top did, and on what it relied.

    `reads`, `removes`, `deletes`, `groups` and `carried` are as the newest winner followed left
    them (conflict/rebase.py).
    """

    cls: OperationClass
    granularity: str
    isolation: str
    scope: Scope
    metadata: Metadata | None
    """The metadata the data files were written under, or a winner's that they fit as well; None
    when a table is created."""
    floating: bool = False
    """An autocommit blind append: it depends on nothing it read, so a changed schema stops it only
    if its files do not fit (CFL-5)."""
    application: Application | None = None
    derived_from: DerivedFrom | None = None
    delete_mode: str = "merge-on-read"
    read_version: int | None = None
    next_id: int = 1
    """Totals.next_id at the read version: files from this id on were not known."""
    reads: tuple[Read, ...] = ()
    removes: Ids = field(default_factory=lambda: NO_IDS)
    """Files removed whole, not by compaction. Ascending."""
    deletes: Mapping[int, Marks] = field(default_factory=dict)
    """Rows taken out, and for files of `removes` the rows that the change feed has to tell apart.
    Files of the transaction's own are among them once a compaction has followed a winner."""
    groups: tuple[Group, ...] = ()
    carried: tuple[Output, ...] = ()
    """Copy-on-write: added files whose rows are carried over, unchanged, from those removed."""
    promises: bool = False
    """A METADATA change that promises something about every row (CHECK, NOT NULL)."""
    replaces: bool = False
    """Gives the whole table other metadata and other rows: another table in its place (CFL-4)."""
    passed_over: int | None = None
    """The first blind winner that added rows which `reads` might have seen (CFL-9)."""
    known: frozenset[int] = frozenset()
    """Files from `next_id` on that hold no row that was not there at the read version: what
    compactions made of files that were known."""


@dataclass(frozen=True, slots=True)
class Winner:
    """An entry that committed since the read version, with the columns that are not in it."""

    entry: Entry
    files: pa.Table | None = None
    """The added files, typed (`added_table`); None if there are none or nobody asks."""
    deletes: Mapping[int, Marks] = field(default_factory=dict)
    """The rows taken out; by real ids."""
