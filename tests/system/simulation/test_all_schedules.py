"""No schedule of the commit protocol breaks an invariant: all of them are covered.

The faults are lost answer, client retry, late put, lost request, refusal and crash, and beside
them a deadline that can pass before any request. The invariants are in
`tablefmt.testing.simulated_commit`. What is explored is the `step` that commits use.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from tablefmt.testing.schedules import Exploration, explore_states
from tablefmt.testing.simulated_commit import Fault, Scenario, WriterPlan


def insert(*transactions: str, looks: bool = False) -> WriterPlan:
    """A blind INSERT: it rebases onto every entry."""
    return WriterPlan(transactions=transactions, looks=looks)


def create(transaction: str, *others: str) -> WriterPlan:
    """A create: it conflicts with any other creator that won."""
    return WriterPlan(transactions=(transaction,), conflicts_with=frozenset(others))


def twin(transaction: str, other: str) -> WriterPlan:
    """One of two runs of the same application version."""
    return WriterPlan(transactions=(transaction,), same_application=frozenset({other}))


CONFLICTING = (
    WriterPlan(transactions=("insert",), conflicts_with=frozenset({"overwrite", "metadata"})),
    WriterPlan(transactions=("overwrite",), conflicts_with=frozenset({"metadata"})),
    WriterPlan(transactions=("metadata",)),
)


def unable(transaction: str, *cannot_read: str) -> WriterPlan:
    """A blind INSERT that cannot judge what these wrote."""
    return WriterPlan(transactions=(transaction,), cannot_read=frozenset(cannot_read))


SCENARIOS = (
    Scenario(
        name="one insert, four faults, a deadline",
        writers=(insert("a"),),
        faults=4,
        deadlines=1,
    ),
    Scenario(
        name="two inserts, two faults, a deadline",
        writers=(insert("a"), insert("b")),
        faults=2,
        deadlines=1,
    ),
    Scenario(
        name="two inserts, three faults",
        writers=(insert("a"), insert("b")),
        faults=3,
    ),
    Scenario(
        name="three inserts, one fault, a deadline",
        writers=(insert("a"), insert("b"), insert("c")),
        faults=1,
        deadlines=1,
    ),
    Scenario(
        name="two writers of two inserts, two faults",
        writers=(insert("a1", "a2"), insert("b1", "b2")),
        faults=2,
    ),
    Scenario(
        name="two writers of two inserts, one fault, a deadline",
        writers=(insert("a1", "a2"), insert("b1", "b2")),
        faults=1,
        deadlines=1,
    ),
    Scenario(
        name="two inserts that look first, two faults, a deadline",
        writers=(insert("a", looks=True), insert("b", looks=True)),
        faults=2,
        deadlines=1,
    ),
    Scenario(
        name="three inserts of one writer beside one, one fault, a deadline",
        writers=(insert("a1", "a2", "a3"), insert("b")),
        faults=1,
        deadlines=1,
    ),
    Scenario(
        name="insert, overwrite and metadata that look first, a deadline",
        writers=tuple(replace(writer, looks=True) for writer in CONFLICTING),
        deadlines=1,
    ),
    Scenario(
        name="two creators, two faults, a deadline",
        writers=(create("a", "b"), create("b", "a")),
        faults=2,
        deadlines=1,
        created=False,
    ),
    Scenario(
        name="three creators, one fault, a deadline",
        writers=(create("a", "b", "c"), create("b", "a", "c"), create("c", "a", "b")),
        faults=1,
        deadlines=1,
        created=False,
    ),
    Scenario(
        name="twins and an insert, one fault, a deadline",
        writers=(twin("a", "b"), twin("b", "a"), insert("c")),
        faults=1,
        deadlines=1,
    ),
    Scenario(
        name="insert, overwrite and metadata, one fault, a deadline",
        writers=CONFLICTING,
        faults=1,
        deadlines=1,
    ),
    Scenario(
        name="overwrite and metadata, two faults, a deadline",
        writers=CONFLICTING[1:],
        faults=2,
        deadlines=1,
    ),
    Scenario(
        name="an insert beside those of a newer version, two faults, a deadline",
        writers=(unable("a", "new"), insert("new")),
        faults=2,
        deadlines=1,
    ),
    Scenario(
        name="an insert beside two of which one is of a newer version, one fault, a deadline",
        writers=(unable("a", "new"), insert("b"), insert("new")),
        faults=1,
        deadlines=1,
    ),
    Scenario(
        name="two inserts whose entries are damaged, two faults, a deadline",
        writers=(unable("a", "a", "b"), unable("b", "a", "b")),
        faults=2,
        # After a client library's retry, a damaged entry of its own is not recognized.
        kinds=tuple(kind for kind in Fault if kind is not Fault.SDK_RETRY),
        deadlines=1,
    ),
)

OVERLAPPING = frozenset(
    {
        "two inserts, two faults, a deadline",
        "two writers of two inserts, one fault, a deadline",
    }
)
"""Part of their schedules is in a scenario with one more fault, so none of them is counted."""


@pytest.fixture(scope="module")
def explored() -> dict[str, Exploration]:
    return {scenario.name: explore_states(scenario) for scenario in SCENARIOS}


@pytest.mark.slow
def test_no_schedule_breaks_an_invariant(explored):
    """CMT-1, CMT-2, CMT-3, CMT-4, CMT-5, CMT-6, CMT-8, CMT-9: complete, without a violation."""
    broken = {name: found.violation for name, found in explored.items() if found.violation}
    unfinished = [name for name, found in explored.items() if not found.complete]

    assert (broken, unfinished) == ({}, [])


@pytest.mark.slow
def test_at_least_half_a_million_different_schedules_are_covered(explored):
    """Scenarios differ in writers or verdicts, so no two of those counted share a schedule."""
    counted = {name: found.schedules for name, found in explored.items() if name not in OVERLAPPING}

    assert sum(counted.values()) >= 500_000, counted


def test_two_writers_with_two_faults_and_three_with_one_are_among_them():
    """The bounds promised, with every kind of fault."""
    bounds = {
        (len(scenario.writers), scenario.faults)
        for scenario in SCENARIOS
        if scenario.kinds == tuple(Fault) and scenario.deadlines == 1
    }

    assert bounds >= {(2, 2), (3, 1)}


@pytest.mark.slow
def test_every_outcome_occurs_where_it_can(explored):
    """CMT-1: the exploration reaches what it claims to check."""
    always = {"Committed", "Rejected", "Unknown"}
    endings = {name: set(found.endings) for name, found in explored.items()}

    conflicted = {name for name, seen in endings.items() if seen == always | {"Conflicted"}}
    applied = {name for name, seen in endings.items() if seen == always | {"AlreadyApplied"}}
    assert conflicted == {
        "two creators, two faults, a deadline",
        "three creators, one fault, a deadline",
        "insert, overwrite and metadata, one fault, a deadline",
        "insert, overwrite and metadata that look first, a deadline",
        "overwrite and metadata, two faults, a deadline",
    }
    assert applied == {"twins and an insert, one fault, a deadline"}
    assert all(seen >= always for seen in endings.values())
