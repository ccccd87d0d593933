"""Schedules of transactions: exhaustive search over those of a simulation, and random ones.

The search is depth first, each schedule from the beginning. A schedule is its list of choices, so a
writer may be any generator and no state is copied. A violation has its choices, and `replay` runs
them again with a trace. Many schedules reach the same state; `explore_states` continues from each
state once. Random histories of concurrent transactions have the serial orders that explain them.

    found = explore(Scenario(name="two", writers=(first, second), faults=1))
    if found.violation:
        print(*replay(scenario, found.violation.choices), sep="\\n")
"""

from __future__ import annotations

import random
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from tablefmt.testing.simulated_commit import Scenario, Simulation, ViolationError

Rows = TypeVar("Rows")


def interleaved(
    rng: random.Random, count: int, *, at_once: int | None = None, eager: float = 0.6
) -> Iterator[tuple[int, bool]]:
    """Yield the order in which `count` transactions begin and commit; each does both.

    Args:
        rng: source of randomness.
        count: number of transactions; they are numbered from 0.
        at_once: most transactions that run at one time.
        eager: probability that the next event is a beginning, if both are possible.

    Yields:
        A number, and True if the transaction begins.
    """
    waiting, running = list(range(count)), list[int]()
    while waiting or running:
        budget = at_once is None or len(running) < at_once
        if waiting and (not running or (budget and rng.random() < eager)):
            running.append(waiting.pop())
            yield running[-1], True
        else:
            yield running.pop(rng.randrange(len(running))), False


def serial_order(
    rows: Rows,
    steps: Sequence[Callable[[Rows], Rows | None]],
    is_end: Callable[[Rows], bool] = lambda rows: True,
) -> tuple[int, ...] | None:
    """Return an order of the steps that explains their results; None if there is none.

    Args:
        rows: the state before all steps.
        steps: functions from a state to the next, or to None if the step's result would differ.
        is_end: whether a state is a valid end state.

    Returns:
        The numbers of the steps in that order. The given order is tried first.
    """

    def search(rows: Rows, left: tuple[int, ...]) -> tuple[int, ...] | None:
        if not left:
            return () if is_end(rows) else None
        for at, number in enumerate(left):
            after = steps[number](rows)
            if after is None:
                continue
            rest = search(after, (*left[:at], *left[at + 1 :]))
            if rest is not None:
                return (number, *rest)
        return None

    return search(rows, tuple(range(len(steps))))


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """A broken invariant and the choices that lead to it."""

    message: str
    choices: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Exploration:
    """The result of exploring one scenario."""

    schedules: int
    """Number of schedules, by their lists of choices. Schedules that reach a common state share one
    run of the rest.
    """
    complete: bool
    """True if all schedules were explored."""
    violation: Violation | None = None
    """The first violation found; the search stops there."""
    endings: frozenset[str] = frozenset()
    """Names of the outcomes that occurred in any schedule."""


class Choices:
    """Plays given choices first, then the first option at every choice, and records its choices."""

    __slots__ = ("_prefix", "chosen", "widths")

    def __init__(self, prefix: tuple[int, ...] | list[int]) -> None:
        self._prefix = prefix
        self.chosen: list[int] = []
        self.widths: list[int] = []

    def pick(self, width: int) -> int:
        """Choose one of `width` options."""
        place = len(self.chosen)
        choice = self._prefix[place] if place < len(self._prefix) else 0
        self.chosen.append(choice)
        self.widths.append(width)
        return choice

    def following(self) -> list[int] | None:
        """Return the first choices of the next schedule in order, or None after the last."""
        last = len(self.chosen) - 1
        while last >= 0:
            if self.chosen[last] + 1 < self.widths[last]:
                return [*self.chosen[:last], self.chosen[last] + 1]
            last -= 1
        return None


def run_one(scenario: Scenario, choices: Choices, story: list[str] | None = None) -> Simulation:
    """Run the schedule that `choices` plays. Raises ViolationError."""
    simulation = Simulation(scenario, choices.pick, story)
    simulation.run()
    return simulation


def replay(scenario: Scenario, choices: tuple[int, ...]) -> list[str]:
    """Run one schedule again, and return its trace; a violation is the last line."""
    story: list[str] = []
    try:
        run_one(scenario, Choices(choices), story)
    except ViolationError as error:
        story.append(f"VIOLATION {error}")
    return story


def explore(scenario: Scenario, *, limit: int | None = None) -> Exploration:
    """Run every schedule, at most `limit`, up to the first violation."""
    schedules = 0
    endings: set[str] = set()
    following: list[int] | None = []
    while following is not None and schedules != limit:
        choices = Choices(following)
        schedules += 1
        try:
            outcomes = run_one(scenario, choices).outcomes
        except ViolationError as error:
            violation = Violation(message=str(error), choices=tuple(choices.chosen))
            return Exploration(schedules=schedules, complete=False, violation=violation)
        for outcome in outcomes.values():
            endings.add(type(outcome).__name__)
        following = choices.following()
    return Exploration(schedules=schedules, complete=following is None, endings=frozenset(endings))


@dataclass(slots=True)
class _Visit:
    """A state on the current path, with the results found below it so far."""

    depth: int
    """Number of choices made before it."""
    state: Hashable
    schedules: int = 0
    endings: set[str] = field(default_factory=set)

    def take(self, schedules: int, endings: set[str]) -> None:
        self.schedules += schedules
        self.endings |= endings


def explore_states(scenario: Scenario) -> Exploration:
    """Explore as completely as `explore`, but run the continuation of each state once.

    The result counts the continuation for every schedule that reaches the state. A state contains
    everything on which the rest of a schedule depends. So writers must depend on their replies
    only.
    """
    behind: dict[Hashable, _Visit] = {}
    way: list[_Visit] = [_Visit(-1, None)]
    ids: dict[Hashable, int] = {}
    following: list[int] | None = []
    while following is not None:
        choices = Choices(following)
        again = len(following)
        while way[-1].depth >= again > 0:
            _leave(way, behind)
        met: list[_Visit] = []

        def known(state: Hashable, choices: Choices = choices, again: int = again) -> bool:
            depth = len(choices.chosen)
            if again and depth < again:
                return False
            if state in behind:
                met.append(behind[state])  # noqa: B023 - called before the next iteration
                return True
            way.append(_Visit(depth, state))
            return False

        simulation = Simulation(scenario, choices.pick, None)
        try:
            if simulation.run(known, ids):
                way[-1].take(
                    1, {type(outcome).__name__ for outcome in simulation.outcomes.values()}
                )
            else:
                way[-1].take(met[-1].schedules, met[-1].endings)
        except ViolationError as error:
            violation = Violation(message=str(error), choices=tuple(choices.chosen))
            return Exploration(
                schedules=1 + sum(visit.schedules for visit in way),
                complete=False,
                violation=violation,
            )
        following = choices.following()
    while len(way) > 1:
        _leave(way, behind)
    return Exploration(schedules=way[0].schedules, complete=True, endings=frozenset(way[0].endings))


def _leave(way: list[_Visit], behind: dict[Hashable, _Visit]) -> None:
    """Close the last state of the path: everything below it is explored."""
    visit = way.pop()
    behind[visit.state] = visit
    way[-1].take(visit.schedules, visit.endings)
