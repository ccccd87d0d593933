"""Thousands of transactions that read lists and append to lists: no cycle among them."""

from __future__ import annotations

from typing import Any

import pytest

from tablefmt.conflict import conflict_check
from tests.system.transactions.lists import Lists, cycle_of, edges_of, faults, play

LEVELS = ["Serializable", "WriteSerializable"]


def check_lists(lists: Lists, count: int) -> None:
    assert list(faults(lists)) == []
    assert len(lists.reads) == count
    assert sum(len(elements) for elements in lists.final.values()) >= count
    assert lists.refused > count // 20
    assert lists.compactions > 0


@pytest.mark.slow
@pytest.mark.parametrize("level", ["WriteSerializable"])
def test_lists_of_interleaved_transactions_have_no_cycle(level: str) -> None:
    """CFL-8, CFL-10, CFL-13, CFL-14: reads are prefixes, places are taken once."""
    check_lists(play(7, 80, isolationLevel=level), 80)


@pytest.mark.soak
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("level", LEVELS)
def test_five_thousand_list_appends_have_no_cycle(level: str) -> None:
    """CFL-8, CFL-10, CFL-13, CFL-14."""
    lists = play(11, 5_000, writers=6, keys=120, fold=20, isolationLevel=level)
    check_lists(lists, 5_000)


def test_a_cycle_is_found() -> None:
    """The search itself: two that each miss what the other appended."""
    assert cycle_of(edges_of({1: [0], 2: [1]}, [{1: [], 2: []}, {1: [], 2: []}])) == [0, 1]
    assert cycle_of(edges_of({1: [0], 2: [1]}, [{1: [], 2: []}, {1: [0], 2: []}])) == []


@pytest.mark.slow
@pytest.mark.broken_tables
def test_without_the_check_of_added_rows_lists_have_cycles(monkeypatch: Any) -> None:
    """CFL-8 left out."""
    monkeypatch.setattr(conflict_check, "_appended", lambda *_: None)
    found = list(faults(play(7, 60)))
    assert any(fault.startswith("cycle") for fault in found)
    assert any(fault.startswith("list") for fault in found)
