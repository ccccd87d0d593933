"""Which matrix cell two operations meet in, and its words. Pure. Spec: CFL-2, CFL-3."""

from __future__ import annotations

from tablefmt.conflict.facts import PendingCommit, Winner
from tablefmt.conflict.matrix import (
    KIND_OF,
    Kind,
    Rule,
    file_and_row_rule,
    profile_of,
    transaction_cell,
)
from tablefmt.model.entry import OperationClass

_PUBLISHED = {Rule.NEVER: "never", Rule.OVERTAKEN: "never"}
"""The rest may conflict."""


def is_blind(winner: Winner) -> bool:
    """An INSERT that read nothing of the table. One that says otherwise counts as an UPDATE."""
    return winner.entry.operation.cls is OperationClass.INSERT and winner.entry.basis.blind


def kind_of(winner: Winner) -> Kind | None:
    """The winner's kind for granularities `file` and `row`; None if it touches no rows."""
    kind = KIND_OF.get(winner.entry.operation.cls)
    return Kind.UPDATE if kind is Kind.INSERT and not is_blind(winner) else kind


def rule_for(winner: Winner, pending: PendingCommit) -> Rule:
    """The rule of granularities `file` and `row` for a pair that touches rows."""
    earlier = kind_of(winner)
    if earlier is None or pending.cls not in KIND_OF or pending.cls is OperationClass.OVERWRITE:
        return Rule.NEVER
    profile = profile_of(pending.granularity, pending.delete_mode)
    return file_and_row_rule(profile, pending.isolation, earlier, KIND_OF[pending.cls])


def cell_text(winner: Winner, pending: PendingCommit) -> str | None:
    """The cell in words; None if one of the two touches no rows."""
    cls, earlier = winner.entry.operation.cls, kind_of(winner)
    if earlier is None or pending.cls not in KIND_OF:
        return None
    if pending.granularity == "transaction":
        outcome = transaction_cell(cls, pending.cls).value
        return f"transaction: {cls.value} then {pending.cls.value}: {outcome}"
    profile = profile_of(pending.granularity, pending.delete_mode)
    if pending.cls is OperationClass.OVERWRITE:
        later, outcome = "OVERWRITE", "replace"
    else:
        later = KIND_OF[pending.cls].value
        outcome = _PUBLISHED.get(rule_for(winner, pending), "if")
    return f"{profile}, {pending.isolation}: {earlier.value} then {later}: {outcome}"
