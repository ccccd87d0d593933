"""Counts of refused commits wait in bounded memory for the next entry of their table. ENT-17."""

from __future__ import annotations

from tablefmt.model.refusals import GROUPS_MAX, Refusal
from tablefmt.session.refused_commits import TABLES_MAX, RefusedCommits


def group(number: int, times: int = 1) -> Refusal:
    return Refusal(f"W{number}", "WRITE", "CFL-1", None, "concurrent_append", times, number)


def test_counts_are_bounded() -> None:
    counts = RefusedCommits()
    counts.note("t", [group(n) for n in range(GROUPS_MAX + 3)])
    counts.note("t", [group(0, 5)])
    first = counts.take("t")
    assert first == (group(0, 6), *(group(n) for n in range(1, GROUPS_MAX)))
    assert counts.take("t") == tuple(group(n) for n in range(GROUPS_MAX, GROUPS_MAX + 3))
    assert counts.take("t") == ()
    for number in range(TABLES_MAX + 1):
        counts.note(f"t{number}", [group(1)])
    assert counts.take("t0") == ()
    assert counts.take("t1") == (group(1),)
