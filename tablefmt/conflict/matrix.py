"""The conflict rules as literals. The tables are the rules, not a description of them. Pure.

A test holds them against spec/matrices/*.json. Spec: CFL-2, CFL-3 (spec/conflicts.md).
"""

from __future__ import annotations

from enum import Enum
from itertools import product

from tablefmt.model.entry import OperationClass


class Cell(str, Enum):
    """Granularity `transaction`: the later of two commits whose scopes overlap."""

    FAIL = "fail"
    """The later is refused."""
    REPLACE = "replace"
    """Both commit; the scope then holds the later's rows alone."""
    APPEND = "append"
    """Both commit; the later's rows stand beside the compacted ones."""
    COMPACT = "compact"
    """Both commit; the compaction stands, and the earlier's changes survive in it."""


_DATA = (
    OperationClass.OVERWRITE,
    OperationClass.INSERT,
    OperationClass.UPDATE,
    OperationClass.MINOR_COMPACT,
    OperationClass.MAJOR_COMPACT,
)
OVR, INS, UPD, MIN, MAJ = _DATA
CLU = OperationClass.CLUSTER
F, R, A, C = Cell

# fmt: off
TRANSACTION: dict[tuple[OperationClass, OperationClass], Cell] = {
    # (earlier, later)
    (OVR, OVR): R, (OVR, INS): F, (OVR, UPD): F, (OVR, MIN): F, (OVR, MAJ): F,
    (INS, OVR): R, (INS, INS): F, (INS, UPD): F, (INS, MIN): C, (INS, MAJ): F,
    (UPD, OVR): R, (UPD, INS): F, (UPD, UPD): F, (UPD, MIN): C, (UPD, MAJ): F,
    (MIN, OVR): R, (MIN, INS): A, (MIN, UPD): A, (MIN, MIN): F, (MIN, MAJ): C,
    (MAJ, OVR): R, (MAJ, INS): A, (MAJ, UPD): A, (MAJ, MIN): F, (MAJ, MAJ): F,
}
"""Granularity `transaction`: scope alone decides."""
# fmt: on


def transaction_cell(earlier: OperationClass, later: OperationClass) -> Cell:
    """CLUSTER counts as MAJOR_COMPACT, but may follow an INSERT (CFL-2)."""
    if (earlier, later) == (INS, CLU):
        return C
    return TRANSACTION[MAJ if earlier is CLU else earlier, MAJ if later is CLU else later]


class Kind(str, Enum):
    """What granularities `file` and `row` tell apart."""

    INSERT = "INSERT"
    UPDATE = "UPDATE"
    COMPACT = "COMPACT"
    """Keeps the order of rows: MINOR and MAJOR."""
    CLUSTER = "CLUSTER"


class Rule(str, Enum):
    """Granularities `file` and `row`: what the later of two commits is asked."""

    NEVER = "never"
    """Nothing: both commit."""
    APPENDED = "appended"
    """Whether rows were added that it might have read."""
    READ = "read"
    """Whether rows were added that it might have read, or any were removed that it read or
    removes."""
    SAME = "same"
    """Whether files are gone that it read or removes."""
    OVERTAKEN = "overtaken"
    """Nothing: it leaves out the groups whose files are gone."""


WRITES, SERIAL = "WriteSerializable", "Serializable"
COW, VECTORS, ROW = "file, copy-on-write", "file, deletion vectors", "row, deletion vectors"
N, P, E, S, O = Rule  # noqa: E741 - one letter a cell

_Grid = dict[Kind, tuple[Rule, Rule, Rule, Rule]]

# fmt: off
FILE_AND_ROW: dict[tuple[str, str], _Grid] = {
    # earlier: (later INSERT, UPDATE, COMPACT, CLUSTER)
    (COW, WRITES): {
        Kind.INSERT: (N, N, N, N),
        Kind.UPDATE: (N, E, S, S),
        Kind.COMPACT: (N, S, O, S),
        Kind.CLUSTER: (N, S, O, S),
    },
    (COW, SERIAL): {
        Kind.INSERT: (N, P, N, N),
        Kind.UPDATE: (N, E, S, S),
        Kind.COMPACT: (N, S, O, S),
        Kind.CLUSTER: (N, S, O, S),
    },
    (VECTORS, WRITES): {
        Kind.INSERT: (N, N, N, N),
        Kind.UPDATE: (N, E, N, S),
        Kind.COMPACT: (N, N, O, S),
        Kind.CLUSTER: (N, S, O, S),
    },
    (VECTORS, SERIAL): {
        Kind.INSERT: (N, P, N, N),
        Kind.UPDATE: (N, E, N, S),
        Kind.COMPACT: (N, N, O, S),
        Kind.CLUSTER: (N, S, O, S),
    },
    (ROW, WRITES): {
        Kind.INSERT: (N, N, N, N),
        Kind.UPDATE: (N, E, N, S),
        Kind.COMPACT: (N, N, O, S),
        Kind.CLUSTER: (N, S, O, S),
    },
    (ROW, SERIAL): {
        Kind.INSERT: (N, P, N, N),
        Kind.UPDATE: (N, E, N, S),
        Kind.COMPACT: (N, N, O, S),
        Kind.CLUSTER: (N, S, O, S),
    },
}
"""By profile and isolation level."""
# fmt: on

KIND_OF: dict[OperationClass, Kind] = {
    INS: Kind.INSERT,
    OVR: Kind.UPDATE,  # to those who come later it is a deletion and an insertion
    UPD: Kind.UPDATE,
    MIN: Kind.COMPACT,
    MAJ: Kind.COMPACT,
    CLU: Kind.CLUSTER,
}
"""Classes without a kind touch no rows."""


def profile_of(granularity: str, delete_mode: str) -> str:
    """The published profile: copy-on-write knows files only (CFL-3)."""
    if delete_mode == "copy-on-write":
        return COW
    return ROW if granularity == "row" else VECTORS


def file_and_row_rule(profile: str, isolation: str, earlier: Kind, later: Kind) -> Rule:
    """The rule of one cell."""
    return FILE_AND_ROW[profile, isolation][earlier][tuple(Kind).index(later)]


_undecided = set(product(_DATA, _DATA)) - TRANSACTION.keys()
assert not _undecided, _undecided
_undecided_grids = set(product((COW, VECTORS, ROW), (WRITES, SERIAL))) - FILE_AND_ROW.keys()
assert not _undecided_grids, _undecided_grids
assert all(set(grid) == set(Kind) for grid in FILE_AND_ROW.values())
assert all(len(cells) == len(Kind) for grid in FILE_AND_ROW.values() for cells in grid.values())
