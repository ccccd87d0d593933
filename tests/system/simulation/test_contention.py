"""Many writers on a store without a commit queue, in virtual time. It tests the waits of CMT-10.

Requests take the time of an object store near by; each writer runs the real `step` with the
real `wait_seconds`. Chance is seeded, so a run is always the same.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Generator
from dataclasses import dataclass, field

import pytest

from tablefmt.commit import commit_protocol
from tablefmt.commit.commit_protocol import (
    Committed,
    Found,
    Get,
    Judged,
    Missing,
    Put,
    Reply,
    start,
    wait_seconds,
)
from tablefmt.store.object_store import Exists, Written

PUT_SECONDS, GET_SECONDS, WORK_SECONDS = 0.03, 0.015, 0.03

Moves = Generator[float, None, None]
"""A writer: yields how long it is until it goes on."""


@dataclass
class World:
    """A log, and what was counted on the way there."""

    chance: random.Random = field(default_factory=lambda: random.Random(6))
    log: list[str] = field(default_factory=lambda: ["genesis"])
    now: float = 0.0
    puts: list[int] = field(default_factory=list)
    """Puts of each commit, in the order of commit."""

    def takes(self, seconds: float) -> float:
        """Requests take a quarter more or less."""
        return seconds * self.chance.uniform(0.75, 1.25)

    def writer(self, name: str, commits: int, remembers: bool) -> Moves:
        """Commit after commit, each above what the last one knew."""
        version, contended = 1, False
        for number in range(commits):
            transaction = f"{name}-{number}"
            attempt, request = start(transaction, version, probe=contended)
            puts = 0
            while isinstance(request, Put | Get):
                if request.backoff:
                    yield wait_seconds(attempt, self.chance.random())
                puts += isinstance(request, Put)
                half = self.takes(PUT_SECONDS if isinstance(request, Put) else GET_SECONDS) / 2
                yield half
                reply = self._answer(transaction, request)
                yield half
                attempt, request = commit_protocol.step(attempt, reply)  # type: ignore[assignment]
            assert isinstance(request, Committed)
            self.puts.append(puts)
            contended = remembers and attempt.version > version
            version = request.version + 1
            yield self.takes(WORK_SECONDS)

    def _answer(self, transaction: str, request: Put | Get) -> Reply:
        if isinstance(request, Get):
            found = enumerate(self.log[request.version :], request.version)
            concurrent_commits = tuple(Judged(version, name) for version, name in found)
            return Found(concurrent_commits) if concurrent_commits else Missing()
        if request.version < len(self.log):
            return Exists()
        assert request.version == len(self.log), "LOG-2: no version is left out"
        self.log.append(transaction)
        return Written()

    def run(self, writers: list[Moves]) -> None:
        """Run until the last writer is done."""
        due = [(0.0, place) for place in range(len(writers))]
        while due:
            self.now, place = heapq.heappop(due)
            pause = next(writers[place], None)
            if pause is not None:
                heapq.heappush(due, (self.now + pause, place))


def contend(writers: int, commits: int, *, remembers: bool = True) -> World:
    """Run this number of writers, each with this number of commits."""
    world = World()
    world.run([world.writer(f"w{n}", commits, remembers) for n in range(writers)])
    wanted = {f"w{n}-{k}" for n in range(writers) for k in range(commits)}
    assert (len(world.log), set(world.log[1:])) == (len(wanted) + 1, wanted)
    return world


def percentile(values: list[int], share: float) -> int:
    return sorted(values)[int(len(values) * share)]


def test_of_32_writers_hardly_anyone_puts_more_than_64_times() -> None:
    """CMT-10: 99 of 100 commits; and a few puts do for most."""
    world = contend(32, 40)
    assert percentile(world.puts, 0.99) <= 64
    assert percentile(world.puts, 0.5) <= 4


@pytest.mark.slow
def test_waiting_saves_most_puts_and_costs_little_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """CMT-10: the known-bad protocol goes on at once after every lost race."""
    waiting = contend(32, 40)
    monkeypatch.setattr(commit_protocol, "FREE_RACES", 10**9)
    hasty = contend(32, 40, remembers=False)
    assert percentile(hasty.puts, 0.5) > 4
    assert sum(waiting.puts) * 2 < sum(hasty.puts)
    assert waiting.now < hasty.now * 1.25


@pytest.mark.parametrize("writers", [1, 2, 8, 64])
def test_every_writer_gets_all_its_commits(writers: int) -> None:
    """CMT-5: none lost, none doubled, no version left out, alone or in a crowd."""
    world = contend(writers, 20)
    assert len(world.puts) == 20 * writers
    if writers == 1:
        assert set(world.puts) == {1}
