"""The published matrix is the one that decides."""

from __future__ import annotations

import json
from pathlib import Path

from tablefmt.conflict.matrix import FILE_BLIND, TRANSACTION

MATRICES = Path(__file__).resolve().parents[3] / "spec" / "matrices"


def test_granularity_transaction_is_the_published_matrix() -> None:
    """CFL-2: all 25 cells."""
    text = (MATRICES / "transaction.json").read_text(encoding="utf-8")
    published = json.loads(text)["earlier_then_later"]
    shown: dict[str, dict[str, str]] = {}
    for (earlier, later), cell in TRANSACTION.items():
        shown.setdefault(earlier.value, {})[later.value] = cell.value
    assert shown == published
    assert len(TRANSACTION) == 25


def test_operations_that_read_nothing_fail_by_no_cell() -> None:
    """CFL-3."""
    assert {(a.value, b.value): cell.value for (a, b), cell in FILE_BLIND.items()} == {
        ("INSERT", "INSERT"): "append",
        ("OVERWRITE", "INSERT"): "append",
        ("INSERT", "OVERWRITE"): "replace",
        ("OVERWRITE", "OVERWRITE"): "replace",
    }
