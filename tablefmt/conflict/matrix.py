"""The conflict rules as literals. The table is the rule, not a description of it. Pure.

A test holds these against spec/matrices/*.json. Spec: CFL-2, CFL-3 (spec/conflicts.md).
"""

from __future__ import annotations

from enum import Enum
from itertools import product

from tablefmt.model.entry import OperationClass


class Cell(str, Enum):
    """What happens to the later of two commits whose scopes overlap."""

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

FILE_BLIND: dict[tuple[OperationClass, OperationClass], Cell] = {
    # (earlier, later); the later reads nothing of the table
    (OVR, INS): A, (INS, INS): A, (UPD, INS): A, (MIN, INS): A, (MAJ, INS): A, (CLU, INS): A,
    (OVR, OVR): R, (INS, OVR): R, (UPD, OVR): R, (MIN, OVR): R, (MAJ, OVR): R, (CLU, OVR): R,
}
"""Granularities `file` and `row`, later operations that read nothing: none of them fails."""
# fmt: on


def transaction_cell(earlier: OperationClass, later: OperationClass) -> Cell:
    """CLUSTER counts as MAJOR_COMPACT, but may follow an INSERT (CFL-2)."""
    if (earlier, later) == (INS, CLU):
        return C
    return TRANSACTION[MAJ if earlier is CLU else earlier, MAJ if later is CLU else later]


_undecided = set(product(_DATA, _DATA)) - TRANSACTION.keys()
assert not _undecided, _undecided
_undecided = set(product((*_DATA, CLU), (INS, OVR))) - FILE_BLIND.keys()
assert not _undecided, _undecided
