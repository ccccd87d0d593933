"""Every schedule of a simulation, depth first, each run from the beginning.

A schedule is its list of choices, so a writer may be any generator and nothing has to be copied.
A violation comes with its choices; `replay` runs those again and tells the story.

    found = explore(Scenario(name="two", writers=(first, second), faults=1))
    if found.violation:
        print(*replay(scenario, found.violation.choices), sep="\\n")
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context

from tablefmt.testing.simulated_commit import Scenario, Simulation, ViolationError


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """A broken invariant and the choices that lead to it."""

    message: str
    choices: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Exploration:
    """What came of exploring one scenario."""

    schedules: int
    """Schedules run to their end, each with its own list of choices."""
    complete: bool
    """True if there is no other schedule."""
    violation: Violation | None = None
    """The first one found; exploring stops there."""
    endings: frozenset[str] = frozenset()
    """Names of the outcomes that occurred in any schedule."""


class Choices:
    """Plays a given beginning, then the first option everywhere; keeps what it chose."""

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

    def following(self, fixed: int, depth: int | None = None) -> list[int] | None:
        """The beginning of the next schedule in order, or None after the last.

        The first `fixed` choices stay; choices from `depth` on are forgotten.
        """
        last = (len(self.chosen) if depth is None else min(depth, len(self.chosen))) - 1
        while last >= fixed:
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
    """Run one schedule again and tell it move by move; a violation is the last line."""
    story: list[str] = []
    try:
        run_one(scenario, Choices(choices), story)
    except ViolationError as error:
        story.append(f"VIOLATION {error}")
    return story


def explore(
    scenario: Scenario, *, prefix: tuple[int, ...] = (), limit: int | None = None
) -> Exploration:
    """Run every schedule that begins with `prefix`, at most `limit`, up to the first violation."""
    schedules = 0
    endings: set[str] = set()
    following: list[int] | None = list(prefix)
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
        following = choices.following(len(prefix))
    return Exploration(schedules=schedules, complete=following is None, endings=frozenset(endings))


def beginnings(scenario: Scenario, depth: int) -> list[tuple[int, ...]]:
    """Every beginning of `depth` choices, or of fewer where a schedule is that short.

    Each schedule has exactly one of them.
    """
    found = []
    following: list[int] | None = []
    while following is not None:
        choices = Choices(following)
        try:
            run_one(scenario, choices)
        except ViolationError:
            pass  # exploring from this beginning finds it again
        found.append(tuple(choices.chosen[:depth]))
        following = choices.following(0, depth)
    return found


def _explore_all(scenario: Scenario, prefixes: list[tuple[int, ...]]) -> Exploration:
    return _sum([explore(scenario, prefix=prefix) for prefix in prefixes])


def _sum(parts: Sequence[Exploration]) -> Exploration:
    return Exploration(
        schedules=sum(part.schedules for part in parts),
        complete=all(part.complete for part in parts),
        violation=next((part.violation for part in parts if part.violation), None),
        endings=frozenset().union(*(part.endings for part in parts)),
    )


def explore_in_parallel(
    scenarios: Sequence[Scenario], *, processes: int = 2, depth: int = 5
) -> dict[str, Exploration]:
    """Explore every scenario completely, or up to a violation, by several processes.

    The work is cut after `depth` choices; every schedule belongs to exactly one piece.
    Returns the result by scenario name.
    """
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        pending = {}
        for scenario in scenarios:
            pieces = beginnings(scenario, depth)
            batches = [pieces[start::8] for start in range(8)]
            pending[scenario.name] = [
                pool.submit(_explore_all, scenario, batch) for batch in batches if batch
            ]
        return {
            name: _sum([future.result() for future in futures]) for name, futures in pending.items()
        }
