"""Matrix rule for a pair of operations, and its description. Pure. Spec: CFL-2, CFL-3."""

from __future__ import annotations

from tablefmt.conflict.facts import PendingCommit, Winner
from tablefmt.conflict.matrix import (
    KIND_OF,
    Kind,
    Rule,
    file_and_row_rule,
    matrix_of,
    transaction_rule,
)
from tablefmt.model.entry import OperationClass

_PUBLISHED = {Rule.NEVER: "never", Rule.OVERTAKEN: "never"}
"""Outcomes of rules that never conflict. All other rules may conflict."""


def is_blind(winner: Winner) -> bool:
    """Return True for an INSERT that read nothing of the table. Any other INSERT counts as an
    UPDATE.
    """
    return winner.entry.operation.cls is OperationClass.INSERT and winner.entry.basis.blind


def kind_of(winner: Winner) -> Kind | None:
    """Return the concurrent commit's kind for granularities `file` and `row`; None if it touches no
    rows.
    """
    kind = KIND_OF.get(winner.entry.operation.cls)
    return Kind.UPDATE if kind is Kind.INSERT and not is_blind(winner) else kind


def rule_for(winner: Winner, pending: PendingCommit) -> Rule:
    """Return the rule of granularities `file` and `row` for a pair that touches rows."""
    earlier = kind_of(winner)
    if earlier is None or pending.cls not in KIND_OF or pending.cls is OperationClass.OVERWRITE:
        return Rule.NEVER
    profile = matrix_of(pending.granularity, pending.delete_mode)
    return file_and_row_rule(profile, pending.isolation, earlier, KIND_OF[pending.cls])


def rule_text(winner: Winner, pending: PendingCommit) -> str | None:
    """Return the matrix rule as text; None if one of the two commits touches no rows."""
    cls, earlier = winner.entry.operation.cls, kind_of(winner)
    if earlier is None or pending.cls not in KIND_OF:
        return None
    if pending.granularity == "transaction":
        outcome = transaction_rule(cls, pending.cls).value
        return f"transaction: {cls.value} then {pending.cls.value}: {outcome}"
    profile = matrix_of(pending.granularity, pending.delete_mode)
    if pending.cls is OperationClass.OVERWRITE:
        later, outcome = "OVERWRITE", "replace"
    else:
        later = KIND_OF[pending.cls].value
        outcome = _PUBLISHED.get(rule_for(winner, pending), "if")
    return f"{profile}, {pending.isolation}: {earlier.value} then {later}: {outcome}"
