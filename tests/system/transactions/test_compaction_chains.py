"""The verbs people call, many under way at once: no row comes back, and none is lost.

Changes go by key, so what they come to whatever was compacted meanwhile is plain Python.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from tablefmt.errors import ConcurrentModificationException
from tablefmt.operations.transaction import Transaction
from tablefmt.store.memory_store import MemoryStore
from tests.system.transactions.world import (
    Rows,
    begin,
    data,
    handle,
    memory,
    new_table,
    rows_at,
    rows_by_specification,
)

State = dict[int, tuple[str, int]]
"""Partition and value by key."""

KINDS = ("delete", "delete", "update", "append", "minor", "minor", "major", "cluster")
STEPS, OPEN = 40, 6


@dataclass
class Going:
    """A transaction with something staged."""

    txn: Transaction
    kind: str
    effect: Callable[[State], State]
    met: int = 0
    """Compactions that committed since it began."""


@dataclass
class World:
    """One table, and what ought to be in it."""

    rng: random.Random
    store: MemoryStore = field(default_factory=memory)
    state: State = field(default_factory=dict)
    versions: list[Rows] = field(default_factory=list)
    open: list[Going] = field(default_factory=list)
    keys: int = 0
    deepest: int = 0
    """Largest number of compactions that a change was rebased over."""

    def rows(self) -> Rows:
        return tuple(sorted((p, k, v) for k, (p, v) in self.state.items()))

    def append(self, count: int) -> Going:
        txn = begin(handle(self.store))
        first, self.keys = self.keys, self.keys + count
        new = {k: (self.rng.choice("ab"), 0) for k in range(first, first + count)}
        txn.append(data([(p, k, v) for k, (p, v) in new.items()]))
        return Going(txn, "append", lambda state: {**state, **new})

    def change(self, kind: str) -> Going:
        txn = begin(handle(self.store))
        keys = self.rng.sample(sorted(self.state) or [0], min(3, max(1, len(self.state))))
        where = f"k IN ({', '.join(map(str, keys))})"
        there = {k for k in keys if k in self.state}
        if kind == "delete":
            txn.delete(where)
            return Going(txn, kind, lambda s: {k: r for k, r in s.items() if k not in there})
        value = self.rng.randrange(1000)
        txn.update({"v": str(value)}, where)

        def updated(state: State) -> State:
            return {k: (p, value) if k in there else (p, v) for k, (p, v) in state.items()}

        return Going(txn, kind, updated)

    def compact(self, kind: str) -> Going:
        txn = begin(handle(self.store))
        where = self.rng.choice([None, None, "p = 'a'", "p = 'b'"])
        size = self.rng.choice([2200, 4000, 1 << 20])
        if kind == "cluster":
            txn.cluster(["v", "k"], where=where, target_file_size=size)
        else:
            txn.compact(kind, where=where, target_file_size=size)  # type: ignore[arg-type]
        return Going(txn, kind, lambda state: state)

    def begin(self, kind: str) -> None:
        if kind == "append":
            self.open.append(self.append(self.rng.randint(1, 6)))
        elif kind in ("delete", "update"):
            self.open.append(self.change(kind))
        else:
            self.open.append(self.compact(kind))

    def commit(self, going: Going) -> None:
        self.open.remove(going)
        try:
            commit_result = going.txn.commit()
        except ConcurrentModificationException:
            return
        if commit_result.no_op:
            return
        moves = going.kind in ("minor", "major", "cluster")
        if not moves:
            self.deepest = max(self.deepest, going.met)
        self.state = going.effect(self.state)
        self.versions.append(self.rows())
        assert commit_result.version == len(self.versions) - 1
        for other in self.open:
            other.met += moves


def play(seed: int, **properties: Any) -> World:
    """Play a history. The rows always equal those of plain Python."""
    world = World(random.Random(seed))
    new_table(world.store, seed % 2 == 0, **properties)
    world.versions.append(())
    for _ in range(6):
        going = world.append(6)
        world.open.append(going)
        world.commit(going)
    for _ in range(STEPS):
        if len(world.open) < OPEN and world.rng.random() < 0.6:
            world.begin(world.rng.choice(KINDS))
        elif world.open:
            world.commit(world.rng.choice(world.open))
    for going in list(world.open):
        world.commit(going)
    table = handle(world.store)
    for version, rows in enumerate(world.versions):
        assert rows_at(table, version) == rows, (seed, version)
    assert rows_by_specification(world.store, len(world.versions) - 1) == world.versions[-1]
    report = table.verify(deep=True)
    assert report.ok, str(report)
    return world


@pytest.mark.slow
@pytest.mark.share(6)
@pytest.mark.parametrize("granularity", ["row", "file", "transaction"])
@pytest.mark.parametrize("mode", ["merge-on-read", "copy-on-write"])
def test_no_row_comes_back_and_none_is_lost(granularity: str, mode: str) -> None:
    """CFL-13 .. CFL-16: deletes are rebased over deletes, through chains of compactions."""
    deep = (granularity, mode) == ("row", "merge-on-read")
    seeds = range(5) if deep else range(2)
    worlds = [play(seed, conflictGranularity=granularity, deleteMode=mode) for seed in seeds]
    assert not deep or max(world.deepest for world in worlds) >= 3


@pytest.mark.soak
@pytest.mark.parametrize("granularity", ["row", "file", "transaction"])
@pytest.mark.parametrize("mode", ["merge-on-read", "copy-on-write"])
def test_no_row_comes_back_in_hundreds_of_histories(
    granularity: str, mode: str, first_seed: int
) -> None:
    """CFL-13 .. CFL-16."""
    for seed in range(first_seed, first_seed + 100):
        play(seed, conflictGranularity=granularity, deleteMode=mode)
