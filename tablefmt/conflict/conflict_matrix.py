"""Conflict rules as literals, and the rule for a pair of operations. Pure.

The tables are the rules themselves. A test compares them with spec/matrices/*.json.
Spec: CFL-2, CFL-3 (spec/conflicts.md).
"""

from __future__ import annotations

from enum import Enum
from itertools import product

from tablefmt.conflict.read_write_sets import ConcurrentCommit, PendingCommit
from tablefmt.model.log_entry import NOT_LOGICAL, OperationClass


class TransactionRule(str, Enum):
    """Matrix rule of granularity `transaction`: the outcome for the later of two overlapping
    commits.
    """

    FAIL = "fail"
    """The later commit is refused."""
    REPLACE = "replace"
    """Both commit. The scope then holds only the later commit's rows."""
    APPEND = "append"
    """Both commit. The later commit's rows are added to the compacted ones."""
    COMPACT = "compact"
    """Both commit. The compaction takes effect and keeps the earlier commit's changes."""


_DATA = (
    OperationClass.OVERWRITE,
    OperationClass.INSERT,
    OperationClass.UPDATE,
    OperationClass.MINOR_COMPACT,
    OperationClass.MAJOR_COMPACT,
)
OVERWRITE, INSERT, UPDATE, MINOR, MAJOR = _DATA
CLUSTER = OperationClass.CLUSTER
FAIL, REPLACE, APPEND, COMPACT = TransactionRule

TRANSACTION: dict[tuple[OperationClass, OperationClass], TransactionRule] = {
    # (earlier, later): rule
    (OVERWRITE, OVERWRITE): REPLACE,
    (OVERWRITE, INSERT): FAIL,
    (OVERWRITE, UPDATE): FAIL,
    (OVERWRITE, MINOR): FAIL,
    (OVERWRITE, MAJOR): FAIL,
    (INSERT, OVERWRITE): REPLACE,
    (INSERT, INSERT): FAIL,
    (INSERT, UPDATE): FAIL,
    (INSERT, MINOR): COMPACT,
    (INSERT, MAJOR): FAIL,
    (UPDATE, OVERWRITE): REPLACE,
    (UPDATE, INSERT): FAIL,
    (UPDATE, UPDATE): FAIL,
    (UPDATE, MINOR): COMPACT,
    (UPDATE, MAJOR): FAIL,
    (MINOR, OVERWRITE): REPLACE,
    (MINOR, INSERT): APPEND,
    (MINOR, UPDATE): APPEND,
    (MINOR, MINOR): FAIL,
    (MINOR, MAJOR): COMPACT,
    (MAJOR, OVERWRITE): REPLACE,
    (MAJOR, INSERT): APPEND,
    (MAJOR, UPDATE): APPEND,
    (MAJOR, MINOR): FAIL,
    (MAJOR, MAJOR): FAIL,
}
"""Rules of granularity `transaction`: scope alone decides."""


def transaction_rule(earlier: OperationClass, later: OperationClass) -> TransactionRule:
    """Return the rule. CLUSTER counts as MAJOR_COMPACT, but may follow an INSERT (CFL-2)."""
    if (earlier, later) == (INSERT, CLUSTER):
        return COMPACT
    return TRANSACTION[
        MAJOR if earlier is CLUSTER else earlier, MAJOR if later is CLUSTER else later
    ]


class Kind(str, Enum):
    """Operation kind that granularities `file` and `row` distinguish."""

    INSERT = "INSERT"
    UPDATE = "UPDATE"
    COMPACT = "COMPACT"
    """Compaction that keeps the order of rows: MINOR and MAJOR."""
    CLUSTER = "CLUSTER"


class Rule(str, Enum):
    """Matrix rule of granularities `file` and `row`: the check for the later of two commits."""

    NEVER = "never"
    """No check: both commit."""
    APPENDED = "appended"
    """Conflict if rows were added that the later commit might have read."""
    READ = "read"
    """Conflict if rows were added that the later commit might have read. Conflict also if rows were
    removed that it read or removes.
    """
    SAME = "same"
    """Conflict if files were removed that the later commit read or removes."""
    OVERTAKEN = "overtaken"
    """No conflict: the later compaction drops the groups whose files were removed."""


WRITES, SERIAL = "WriteSerializable", "Serializable"
COW, VECTORS, ROW = "file, copy-on-write", "file, deletion vectors", "row, deletion vectors"
NEVER, APPENDED, READ, SAME, OVERTAKEN = Rule

_Grid = dict[Kind, tuple[Rule, Rule, Rule, Rule]]

# fmt: off
FILE_AND_ROW: dict[tuple[str, str], _Grid] = {
    # earlier: (later INSERT, UPDATE, COMPACT, CLUSTER)
    (COW, WRITES): {
        Kind.INSERT: (NEVER, NEVER, NEVER, NEVER),
        Kind.UPDATE: (NEVER, READ, SAME, SAME),
        Kind.COMPACT: (NEVER, SAME, OVERTAKEN, SAME),
        Kind.CLUSTER: (NEVER, SAME, OVERTAKEN, SAME),
    },
    (COW, SERIAL): {
        Kind.INSERT: (NEVER, APPENDED, NEVER, NEVER),
        Kind.UPDATE: (NEVER, READ, SAME, SAME),
        Kind.COMPACT: (NEVER, SAME, OVERTAKEN, SAME),
        Kind.CLUSTER: (NEVER, SAME, OVERTAKEN, SAME),
    },
    (VECTORS, WRITES): {
        Kind.INSERT: (NEVER, NEVER, NEVER, NEVER),
        Kind.UPDATE: (NEVER, READ, NEVER, SAME),
        Kind.COMPACT: (NEVER, NEVER, OVERTAKEN, SAME),
        Kind.CLUSTER: (NEVER, SAME, OVERTAKEN, SAME),
    },
    (VECTORS, SERIAL): {
        Kind.INSERT: (NEVER, APPENDED, NEVER, NEVER),
        Kind.UPDATE: (NEVER, READ, NEVER, SAME),
        Kind.COMPACT: (NEVER, NEVER, OVERTAKEN, SAME),
        Kind.CLUSTER: (NEVER, SAME, OVERTAKEN, SAME),
    },
    (ROW, WRITES): {
        Kind.INSERT: (NEVER, NEVER, NEVER, NEVER),
        Kind.UPDATE: (NEVER, READ, NEVER, SAME),
        Kind.COMPACT: (NEVER, NEVER, OVERTAKEN, SAME),
        Kind.CLUSTER: (NEVER, SAME, OVERTAKEN, SAME),
    },
    (ROW, SERIAL): {
        Kind.INSERT: (NEVER, APPENDED, NEVER, NEVER),
        Kind.UPDATE: (NEVER, READ, NEVER, SAME),
        Kind.COMPACT: (NEVER, NEVER, OVERTAKEN, SAME),
        Kind.CLUSTER: (NEVER, SAME, OVERTAKEN, SAME),
    },
}
"""Rules by matrix name and isolation level."""
# fmt: on

KIND_OF: dict[OperationClass, Kind] = {
    INSERT: Kind.INSERT,
    # An OVERWRITE that committed first removed rows and added rows. As the later commit, an
    # OVERWRITE is not in the matrix: it never fails (`rule_for`).
    OVERWRITE: Kind.UPDATE,
    UPDATE: Kind.UPDATE,
    MINOR: Kind.COMPACT,
    MAJOR: Kind.COMPACT,
    CLUSTER: Kind.CLUSTER,
}
"""Kinds by operation class. Classes without a kind touch no rows."""

ALWAYS_COMMIT = frozenset({Rule.NEVER, Rule.OVERTAKEN})
"""Rules under which the later commit conflicts in no case."""


def matrix_of(granularity: str, delete_mode: str) -> str:
    """Return the name of the matrix. Copy-on-write distinguishes files only (CFL-3)."""
    if delete_mode == "copy-on-write":
        return COW
    return ROW if granularity == "row" else VECTORS


def file_and_row_rule(matrix: str, isolation: str, earlier: Kind, later: Kind) -> Rule:
    """Return the matrix rule for a pair of kinds."""
    return FILE_AND_ROW[matrix, isolation][earlier][tuple(Kind).index(later)]


_undecided = set(product(_DATA, _DATA)) - TRANSACTION.keys()
assert not _undecided, _undecided
_undecided_grids = set(product((COW, VECTORS, ROW), (WRITES, SERIAL))) - FILE_AND_ROW.keys()
assert not _undecided_grids, _undecided_grids
assert all(set(grid) == set(Kind) for grid in FILE_AND_ROW.values())
assert all(len(cells) == len(Kind) for grid in FILE_AND_ROW.values() for cells in grid.values())


def is_blind(concurrent: ConcurrentCommit) -> bool:
    """Return True for an INSERT that read nothing of the table. Any other INSERT counts as an
    UPDATE.
    """
    return concurrent.entry.operation.cls is OperationClass.INSERT and concurrent.entry.basis.blind


def reorders(concurrent: ConcurrentCommit) -> bool:
    """Return True for a compaction that does not record the new positions of its rows."""
    entry = concurrent.entry
    if entry.operation.cls not in NOT_LOGICAL:
        return False
    return entry.operation.cls is CLUSTER or (entry.lineage is None and entry.add is not None)


def conflict_kind(concurrent: ConcurrentCommit) -> Kind | None:
    """Return the concurrent commit's kind for granularities `file` and `row`; None if it touches no
    rows.

    Any compaction that reorders rows is a CLUSTER, because deleted rows cannot follow theirs.
    """
    if reorders(concurrent):
        return Kind.CLUSTER
    kind = KIND_OF.get(concurrent.entry.operation.cls)
    return Kind.UPDATE if kind is Kind.INSERT and not is_blind(concurrent) else kind


def rule_for(concurrent: ConcurrentCommit, pending: PendingCommit) -> Rule:
    """Return the rule of granularities `file` and `row` for a pair that touches rows."""
    earlier = conflict_kind(concurrent)
    if earlier is None or pending.cls not in KIND_OF or pending.cls is OperationClass.OVERWRITE:
        return Rule.NEVER
    matrix = matrix_of(pending.granularity, pending.delete_mode)
    return file_and_row_rule(matrix, pending.isolation, earlier, KIND_OF[pending.cls])


def rule_text(concurrent: ConcurrentCommit, pending: PendingCommit) -> str | None:
    """Return the matrix rule as text; None if one of the two commits touches no rows.

    For granularities `file` and `row`, the last word says when the later commit conflicts: `never`,
    or `if` the check of the rule finds an overlap. `replace` is the outcome of an OVERWRITE.
    """
    cls, earlier = concurrent.entry.operation.cls, conflict_kind(concurrent)
    if earlier is None or pending.cls not in KIND_OF:
        return None
    if pending.granularity == "transaction":
        outcome = transaction_rule(cls, pending.cls).value
        return f"transaction: {cls.value} then {pending.cls.value}: {outcome}"
    matrix = matrix_of(pending.granularity, pending.delete_mode)
    if pending.cls is OperationClass.OVERWRITE:
        later, outcome = "OVERWRITE", "replace"
    else:
        later = KIND_OF[pending.cls].value
        outcome = "never" if rule_for(concurrent, pending) in ALWAYS_COMMIT else "if"
    return f"{matrix}, {pending.isolation}: {earlier.value} then {later}: {outcome}"
