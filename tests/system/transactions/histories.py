"""Random histories of transactions that run at once on a small table, and what explains them."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Union

from tablefmt.operations.transaction import Transaction
from tablefmt.store.memory_store import MemoryStore
from tablefmt.testing.schedules import interleaved, serial_order
from tests.system.transactions.ops import (
    BLIND_REPLACING,
    COMPACTIONS,
    Condition,
    Effect,
    Op,
    after,
    effect,
    stage,
)
from tests.system.transactions.world import (
    Row,
    Rows,
    attempt,
    begin,
    copy_of,
    data,
    forget,
    handle,
    memory,
    new_table,
    rows_at,
    rows_by_specification,
)

OPS_MAX = 6


# --- histories -----------------------------------------------------------------------------------


def random_op(
    rng: random.Random, key: int, partitioned: bool, kinds: Sequence[str], narrow: bool
) -> Op:
    """An operation; new rows get the key, so that they differ from others'.

    In a narrow history everything goes by two values, so that operations meet more often.
    """
    kind = rng.choice(kinds)
    place = rng.choice("ab")
    most = 1 if narrow else 2
    only = place if partitioned and rng.random() < 0.7 else None
    new: Rows = tuple(
        sorted((only or rng.choice("ab"), key + n, rng.randint(0, most)) for n in range(2))
    )[: rng.randint(1, 2)]
    condition = ("v", rng.randint(0, 1)) if narrow else random_condition(rng)
    plain = condition if narrow else random_condition(rng, opaque=False)
    goes = ("v", rng.randint(0, 1)) if narrow else random_condition(rng)
    change = rng.choice([("set", rng.randint(0, most)), ("bump", None), ("move", place)])
    source = tuple((place, k, rng.randint(0, 2)) for k in rng.sample([0, 1, 2, 50, 51], 2))
    return {
        "append": ("append", new),
        "overwrite": ("overwrite", only, new),
        "truncate": ("truncate", only),
        "delete": ("delete", condition),
        "update": ("update", plain, *change),
        "merge": ("merge", only and place, source),
        "copy": ("copy", condition, place, key),
        "scan_delete": ("scan_delete", condition, rng.randint(0, 2), goes),
        "scan_overwrite": ("scan_overwrite", condition, place, key)
        if partitioned
        else ("copy", condition, place, key),
        **{name: (name, rng.randrange(1 << 30)) for name in COMPACTIONS},
    }[kind]


def random_condition(rng: random.Random, opaque: bool = True) -> Condition:
    """Mostly about values."""
    value, place = rng.randint(0, 2), rng.choice("ab")
    choices: list[Condition] = [
        ("v", value),
        ("v", value),
        ("both", place, value),
        ("both", place, value),
        ("p", place),
        ("k", rng.randint(0, 3), rng.choice([50, 51])),
        ("least", value),
        ("all",),
    ]
    return rng.choice([*choices, ("opaque", value)] if opaque else choices)


@dataclass(frozen=True)
class Committed:
    """A version and how it came about."""

    op: Op
    version: int
    read_version: int
    done: Effect
    scanned: Rows | None

    def __str__(self) -> str:
        return f"v{self.version} (read {self.read_version}): {self.op} {self.done}"


@dataclass
class History:
    """The course of a history."""

    first: int
    states: dict[int, Rows] = field(default_factory=dict)
    """Rows by version from `first` on, as the package reads them."""
    committed: list[Committed] = field(default_factory=list)
    refused: Counter[str] = field(default_factory=Counter)

    def __str__(self) -> str:
        lines = [f"v{self.first}: {self.states[self.first]}", *map(str, self.committed)]
        return "\n".join([*lines, f"refused: {dict(self.refused)}", f"states: {self.states}"])


Step = tuple[int, Union[int, None]]  # noqa: UP007 - run time
"""An operation by its number, and the handle on which it begins; None: it commits."""

_ROWS: list[Row] = [("a", 0, 0), ("a", 1, 1), ("b", 2, 0), ("b", 3, 2), ("a", 4, 1)]
_PARTS = [
    [_ROWS[:2], _ROWS[2:4], _ROWS[4:]],
    [_ROWS],
    [[row] for row in _ROWS],
    [_ROWS[:3], _ROWS[3:]],
]
"""Ways to write the rows into the table, by variant."""
UNPARTITIONED = 3


@cache
def _base(variant: int, properties: tuple[tuple[str, str], ...]) -> tuple[MemoryStore, int]:
    store = memory()
    table = new_table(store, variant != UNPARTITIONED, **dict(properties))
    for part in _PARTS[variant]:
        begin(table).append(data(part)).commit()
    if variant != 2:
        begin(table).delete("k = 0").commit()
    return store, table.version


def play(
    seed: int, properties: dict[str, str], kinds: Sequence[str], count: int | None = None
) -> History:
    """A random history on the real stack. Conflicts are refusals; any other error is raised.

    Of `count` transactions, by default of a few; at most six run at once.
    """
    rng = random.Random(seed)
    variant = rng.randrange(len(_PARTS))
    narrow = rng.random() < 0.5
    ops = [
        random_op(rng, key, variant != UNPARTITIONED, kinds, narrow)
        for key in range(100, 100 + 2 * (count or rng.choice((2, 3, 4, 5, 5, 6, OPS_MAX))), 2)
    ]
    order = interleaved(rng, len(ops), at_once=OPS_MAX, eager=0.75)
    steps: list[Step] = [(n, rng.randrange(3) if begins else None) for n, begins in order]
    return act(ops, steps, properties, variant)


def act(
    ops: Sequence[Op], steps: Sequence[Step], properties: dict[str, str], variant: int = 0
) -> History:
    """The operations begin and commit in this order; what is left of the table is forgotten."""
    original, first = _base(variant, tuple(sorted(properties.items())))
    store = copy_of(original)
    try:
        return _act(ops, steps, store, first)
    finally:
        forget(store)


def _act(ops: Sequence[Op], steps: Sequence[Step], store: MemoryStore, first: int) -> History:
    handles = [handle(store) for _ in range(3)]
    history = History(first)
    commits: list[tuple[Op, int, int, Rows | None]] = []
    running: dict[int, tuple[Transaction, Rows | None]] = {}
    for number, at in steps:
        op = ops[number]
        if at is not None:
            txn = begin(handles[at])
            running[number] = (txn, stage(op, txn))
            continue
        txn, scanned = running.pop(number)
        commit_result, error = attempt(txn.commit)
        if error is not None:
            history.refused[type(error).__name__] += 1
        elif commit_result.no_op:
            history.refused["no-op"] += 1
        else:
            commits.append((op, commit_result.version, txn.read_version, scanned))
    last = handle(store)
    assert [version for _, version, *_ in commits] == list(range(first + 1, last.version + 1))
    history.states = {v: rows_at(last, v) for v in range(first, last.version + 1)}
    assert rows_by_specification(store, last.version) == history.states[last.version]
    for op, version, read, scanned in commits:
        done = effect(op, history.states[version - 1 if op[0] in BLIND_REPLACING else read])
        history.committed.append(Committed(op, version, read, done, scanned))
    return history


# --- what explains a history ---------------------------------------------------------------------


def fault(history: History, serializable: bool) -> str | None:
    """Why nothing explains the history; None if it is as it should be.

    Every version is the one before it with what its operation did. Then, `serializable`: each
    operation reads and does, right where it is in the order of versions, what it really did.
    Otherwise: there is an order of the operations in which each does that.
    """
    for one in history.committed:
        before, now = history.states[one.version - 1], history.states[one.version]
        if one.scanned is not None and one.scanned != one.done.read:
            return f"{one} scanned {one.scanned}"
        if after(before, one.done) != now:
            return f"{one} left {now}"
    real = [one for one in history.committed if one.op[0] not in COMPACTIONS]
    if serializable:
        for one in real:
            there = effect(one.op, history.states[one.version - 1])
            if there != one.done:
                return f"{one} would have done {there} where it is"
        return None
    order = serial_order(history.states[history.first], [_as_it_was(one) for one in real])
    return "no order explains it" if order is None else None


def _as_it_was(one: Committed) -> Callable[[Rows], Rows | None]:
    """The operation as a step: none where it would have read or done something else."""
    return lambda rows: after(rows, one.done) if effect(one.op, rows) == one.done else None


def check_all(
    seeds: Iterable[int],
    properties: dict[str, str],
    kinds: Sequence[str],
    count: int | None = None,
) -> Counter[str]:
    """Play and explain histories; gives how often what happened.

    Raises:
        AssertionError: with the seed and the history, if nothing explains it.
    """
    counts: Counter[str] = Counter()
    granularity = properties["conflictGranularity"]
    serializable = properties["isolationLevel"] == "Serializable" or granularity == "transaction"
    for seed in seeds:
        history = play(seed, properties, kinds, count)
        problem = fault(history, serializable)
        assert problem is None, f"seed {seed}, {properties}: {problem}\n{history}"
        counts.update(history.refused)
        counts["histories"] += 1
        counts["commits"] += len(history.committed)
        counts["overlapping"] += sum(o.version > o.read_version + 1 for o in history.committed)
    return counts
