"""The conflict rules inside every schedule of the protocol: a check, then a rebase.

Each writer has one transaction staged on version 0: an insert, a delete, an update, a compaction,
or one of two runs of the same application version. `check` and `rebase_onto` give its verdicts on
concurrent commits, in their order. After any loss, delay or repetition, the log must hold only
entries that may follow those below, and the rows must equal those of the same statements run one
after the other.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from itertools import combinations

import pytest

from tablefmt.commit import commit_protocol
from tablefmt.commit.commit_protocol import AlreadyApplied, Conflicted, Found, Get, Judged, Put
from tablefmt.conflict import conflict_check as rules
from tablefmt.conflict import rebase
from tablefmt.conflict.verdict import Conflict, Verdict
from tablefmt.expressions.predicate import Comparison
from tablefmt.model.log_entry import ApplicationTransaction, OperationClass
from tablefmt.testing.schedules import Choices, run_one
from tablefmt.testing.simulated_commit import (
    Entry,
    Outcomes,
    PutEntry,
    ReadLog,
    Scenario,
    Simulation,
    Writer,
    WriterPlan,
)
from tests.conflict.world import COLUMNS, K, Level, Row, Rows, Staged, W, World

BASE: list[Rows] = [[(1, 0, 0, 0), (2, 0, 0, 0)], [(3, 0, 0, 0), (4, 0, 0, 0)]]
LEVEL = Level("row", "WriteSerializable", "merge-on-read")


def changing(key: int, new: Callable[[Row], Row] | None) -> Callable[[World], Staged]:
    """DELETE or UPDATE of the row with that key."""

    def stage(world: World) -> Staged:
        predicate = Comparison(COLUMNS["k"], "=", key)
        return world.change(
            lambda row: row[0] == key, predicate, frozenset({K}), new, set_columns=(W,)
        )

    return stage


def compacting(cls: OperationClass) -> Callable[[World], Staged]:
    """All files into one."""
    return lambda world: world.compact(cls, [world.files(world.version)])


def applying(world: World) -> Staged:
    """An insert that carries an application version."""
    staged = world.insert([(9, 0, 0, 0)])
    staged.mine = replace(staged.mine, application=ApplicationTransaction("app", 1, "0" * 64))
    return staged


def raised(row: Row) -> Row:
    return (*row[:3], row[3] + 1)


STATEMENTS: dict[str, tuple[Callable[[World], Staged], Callable[[Rows], Rows]]] = {
    "insert": (lambda w: w.insert([(8, 0, 0, 0)]), lambda rows: [*rows, (8, 0, 0, 0)]),
    "delete 1": (changing(1, None), lambda rows: [r for r in rows if r[0] != 1]),
    "update 1": (
        changing(1, raised),
        lambda rows: [raised(r) if r[0] == 1 else r for r in rows],
    ),
    "update 3": (
        changing(3, raised),
        lambda rows: [raised(r) if r[0] == 3 else r for r in rows],
    ),
    "minor": (compacting(OperationClass.MINOR_COMPACT), lambda rows: rows),
    "major": (compacting(OperationClass.MAJOR_COMPACT), lambda rows: rows),
    "apply": (applying, lambda rows: [*rows, (9, 0, 0, 0)]),
    "apply again": (applying, lambda rows: [*rows, (9, 0, 0, 0)]),
}


@cache
def replayed(path: tuple[str, ...]) -> tuple[World, dict[str, Staged]]:
    """The table after these commits, each followed over the ones before it; and who is left."""
    world = World(LEVEL, BASE)
    staged = {name: stage(world) for name, (stage, _) in STATEMENTS.items()}
    for name in path:
        assert judged(world, staged[name]) is None, f"CMT-6: {path}: {name} stands where it may not"
        world.append(world.entry_of(staged.pop(name)))
    return world, staged


def judged(world: World, staged: Staged) -> Verdict:
    """Return the verdict on the first concurrent commit that conflicts."""
    mine = staged.mine
    for concurrent in world.log[staged.done :]:
        verdict = rules.check(concurrent, mine)
        if verdict is not None:
            return verdict
        mine, _ = rebase.rebase_onto(concurrent, mine)
    staged.mine, staged.done = mine, world.version
    return None


@cache
def verdict_of(name: str, path: tuple[str, ...]) -> Verdict:
    """Return the verdict on the last of these concurrent commits."""
    world, staged = replayed(path)
    mine = staged[name]
    verdict = judged(world, Staged(mine.mine, mine.files, done=mine.done))
    if isinstance(verdict, Conflict):
        return replace(verdict, winner_version=len(path))
    return None if verdict is None else replace(verdict, version=len(path))


@dataclass(frozen=True, slots=True, kw_only=True)
class RulePlan(WriterPlan):
    """One transaction, judged by the conflict rules."""

    def verdict(self, concurrent: str, version: int) -> Verdict:
        """The order of entries is checked afterwards, over the whole log."""
        return None


def rule_writer(plan: WriterPlan, head: Entry | None, outcomes: Outcomes) -> Writer:
    """Run `protocol_writer` with verdicts that depend on earlier concurrent commits."""
    (name,) = plan.transactions
    assert head is not None
    below, path = head.transaction, ()
    attempt, decision = commit_protocol.start(name, 1, probe=plan.looks)
    while isinstance(decision, Put | Get):
        if isinstance(decision, Put):
            reply = yield PutEntry(Entry(name, decision.version, below, 0))
        else:
            reply = yield ReadLog(decision.version)
            if type(reply) is tuple:
                below, concurrent_commits = reply[-1].transaction, []
                path = path[: decision.version - 1]  # type: ignore[assignment]
                for entry in reply:
                    own = entry.transaction == name or name in path
                    path = (*path, entry.transaction)  # type: ignore[assignment]
                    verdict = None if own else verdict_so_far(name, path)
                    concurrent_commits.append(Judged(entry.version, entry.transaction, verdict))
                reply = Found(tuple(concurrent_commits))
        attempt, decision = commit_protocol.step(attempt, reply)  # type: ignore[assignment]
    outcomes[name] = decision


def verdict_so_far(name: str, path: tuple[str, ...]) -> Verdict:
    """Return the verdict, or None above the first verdict, which alone counts for the protocol."""
    if len(path) > 1 and verdict_so_far(name, path[:-1]) is not None:
        return None
    return verdict_of(name, path)


def scenario(names: tuple[str, ...], faults: int) -> Scenario:
    others = {name: frozenset(names) - {name} for name in names}
    applying_too = frozenset({"apply", "apply again"})
    return Scenario(
        name=", ".join(names),
        writers=tuple(
            RulePlan(
                transactions=(name,),
                conflicts_with=others[name],
                same_application=others[name] & applying_too,
                run=rule_writer,
            )
            for name in names
        ),
        faults=faults,
    )


def check_log(simulation: Simulation) -> tuple[str, ...]:
    """Check the rows at every version, and that each refused commit had a reason."""
    path = tuple(simulation.log[v].transaction for v in range(1, len(simulation.log)))
    world, _ = replayed(path)
    expected = [row for rows in BASE for row in rows]
    for place, name in enumerate(path, 1):
        expected = STATEMENTS[name][1](expected)
        assert world.rows(world.base + place) == sorted(expected), path
    for name, outcome in simulation.outcomes.items():
        if isinstance(outcome, Conflicted | AlreadyApplied):
            reasons = {verdict_so_far(name, path[:n]) for n in range(1, len(path) + 1)}
            assert reasons - {None}, (name, path)
    return path


def all_logs(given: Scenario) -> tuple[int, set[tuple[str, ...]], set[str]]:
    """Return the number of schedules, their logs, and their kinds of outcome."""
    schedules, logs, endings = 0, set(), set()
    following: list[int] | None = []
    while following is not None:
        choices = Choices(following)
        simulation = run_one(given, choices)
        logs.add(check_log(simulation))
        endings |= {type(outcome).__name__ for outcome in simulation.outcomes.values()}
        schedules += 1
        following = choices.following()
    return schedules, logs, endings


PAIRS = tuple(pair for pair in combinations(STATEMENTS, 2) if pair != ("minor", "major"))
"""The later of two compactions has nothing left to commit, which is no matter of the protocol."""


@pytest.mark.slow
@pytest.mark.share(6)
@pytest.mark.parametrize("names", PAIRS, ids=" + ".join)
def test_any_two_statements_under_any_two_faults(names: tuple[str, str]) -> None:
    """CMT-6, CFL-3, CFL-6, CFL-13 .. CFL-15."""
    schedules, logs, endings = all_logs(scenario(names, 2))
    assert schedules > 1000
    assert {(names[0],), (names[1],)} <= logs
    together = any(len(path) == 2 for path in logs)
    refused = endings & {"Conflicted", "AlreadyApplied"}
    assert together or refused


@pytest.mark.slow
@pytest.mark.share(2)
@pytest.mark.parametrize(
    "names",
    [
        ("update 1", "delete 1", "minor"),
        ("apply", "apply again", "minor"),
        pytest.param(("update 1", "update 3", "minor"), marks=pytest.mark.soak),
        pytest.param(("delete 1", "major", "insert"), marks=pytest.mark.soak),
    ],
    ids=" + ".join,
)
def test_three_statements_under_any_fault(names: tuple[str, str, str]) -> None:
    """CMT-6: a compaction between two changes, changes of one row, an application version twice."""
    schedules, logs, _ = all_logs(scenario(names, 1))
    assert schedules > 1000
    assert any(len(path) >= 2 for path in logs)


def test_a_compaction_that_loses_deletes_would_be_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """CFL-14: known to be wrong."""
    monkeypatch.setattr(rebase, "apply_deletes_of", lambda concurrent, mine: mine)
    replayed.cache_clear()
    verdict_of.cache_clear()
    try:
        with pytest.raises(AssertionError):
            all_logs(scenario(("delete 1", "minor"), 0))
    finally:
        replayed.cache_clear()
        verdict_of.cache_clear()
