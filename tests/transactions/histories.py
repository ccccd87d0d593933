"""Random histories of transactions that run at once on a small table, and what explains them.

Every operation is a tuple that can be printed. It is carried out twice: on the real stack, and by
plain Python on plain rows.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Union

import pyarrow as pa
import pyarrow.compute as pc

from tablefmt.operations.transaction import Transaction
from tablefmt.store.memory import MemoryStore
from tests.transactions.staged import CLUSTER, MAJOR, MINOR, compact, merge, update
from tests.transactions.world import (
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

Op = tuple[Any, ...]
Condition = tuple[Any, ...]

OPS_MAX = 6
COMPACTIONS = ("minor", "major", "cluster")
BLIND_REPLACING = ("overwrite", "truncate")


# --- conditions ----------------------------------------------------------------------------------


def holds(condition: Condition, row: Row) -> bool:
    """By plain Python."""
    kind, *values = condition
    p, k, v = row
    return {
        "all": lambda: True,
        "p": lambda: p == values[0],
        "k": lambda: k in values,
        "v": lambda: v == values[0],
        "least": lambda: v >= values[0],
        "both": lambda: (p, v) == tuple(values),
        "opaque": lambda: v + 0 == values[0],
    }[kind]()


def where(condition: Condition) -> Any:
    """For the package: SQL text, or an expression that it cannot reason about."""
    kind, *values = condition
    if kind == "opaque":
        return pc.equal(pc.add(pc.field("v"), 0), values[0])
    return {
        "all": lambda: None,
        "p": lambda: f"p = '{values[0]}'",
        "k": lambda: f"k IN ({', '.join(map(str, values))})",
        "v": lambda: f"v = {values[0]}",
        "least": lambda: f"v >= {values[0]}",
        "both": lambda: f"p = '{values[0]}' AND v = {values[1]}",
    }[kind]()


def text(condition: Condition) -> str:
    """SQL text alone."""
    found = where(condition)
    return "TRUE" if found is None else str(found)


# --- what an operation does ----------------------------------------------------------------------


@dataclass(frozen=True)
class Effect:
    """What an operation reads and writes on given rows."""

    read: Rows = ()
    removed: Rows = ()
    added: Rows = ()

    @property
    def writes(self) -> bool:
        """Whether there is anything to commit."""
        return bool(self.removed or self.added)


def effect(op: Op, rows: Rows) -> Effect:
    """By plain Python."""
    kind, *rest = op
    made: Callable[..., Effect] = _EFFECTS[kind]
    found = made(rows, *rest)
    return Effect(*(tuple(sorted(part)) for part in (found.read, found.removed, found.added)))


def after(rows: Rows, done: Effect) -> Rows:
    """The rows once it has happened; they have to hold what is removed."""
    left = Counter(rows)
    left.subtract(done.removed)
    assert all(count >= 0 for count in left.values())
    return tuple(sorted([*left.elements(), *done.added]))


def _matching(condition: Condition, rows: Rows) -> Rows:
    return tuple(row for row in rows if holds(condition, row))


def _delete(rows: Rows, condition: Condition) -> Effect:
    found = _matching(condition, rows)
    return Effect(found, found)


def _update(rows: Rows, condition: Condition, change: str, value: Any) -> Effect:
    found = _matching(condition, rows)
    return Effect(found, found, tuple(changed(row, change, value) for row in found))


def changed(row: Row, change: str, value: Any) -> Row:
    """The new version of a row."""
    p, k, v = row
    return {"set": (p, k, value), "bump": (p, k, (v + 1) % 3), "move": (value, k, v)}[change]


def _merge(rows: Rows, place: str | None, source: Rows) -> Effect:
    values = {k: v for _, k, v in source}
    found = tuple(r for r in rows if r[1] in values and (place is None or r[0] == place))
    known = {k for _, k, _ in found}
    new = tuple(row for row in source if row[1] not in known)
    return Effect(found, found, (*((p, k, values[k]) for p, k, _ in found), *new))


def _copy(rows: Rows, condition: Condition, place: str, key: int) -> Effect:
    found = _matching(condition, rows)
    return Effect(found, (), ((place, key, 10 + len(found)),))


def _scan_delete(rows: Rows, condition: Condition, least: int, goes: Condition) -> Effect:
    found = _matching(condition, rows)
    return Effect(found, _matching(goes, rows) if len(found) >= least else ())


def _scan_overwrite(rows: Rows, condition: Condition, place: str, key: int) -> Effect:
    found = _matching(condition, rows)
    row = (place, key, 10 + len(found))
    return Effect(found, tuple(r for r in rows if r[0] == place), (row,))


def _overwrite(rows: Rows, place: str | None, new: Rows = ()) -> Effect:
    return Effect((), tuple(r for r in rows if place is None or r[0] == place), new)


_EFFECTS: dict[str, Callable[..., Effect]] = {
    "append": lambda rows, new: Effect((), (), new),
    "overwrite": _overwrite,
    "truncate": _overwrite,
    "delete": _delete,
    "update": _update,
    "merge": _merge,
    "copy": _copy,
    "scan_delete": _scan_delete,
    "scan_overwrite": _scan_overwrite,
    **dict.fromkeys(COMPACTIONS, lambda rows, *_: Effect()),
}


# --- on the real stack ---------------------------------------------------------------------------


def stage(op: Op, txn: Transaction) -> Rows | None:
    """Stage the operation; gives what it scanned, None if it does not scan."""
    kind, *rest = op
    staged: Callable[..., Rows | None] = _STAGES[kind]
    return staged(txn, *rest)


def _place(place: str | None) -> str | None:
    return None if place is None else f"p = '{place}'"


def _stage_append(txn: Transaction, new: Rows) -> None:
    for row in new:
        txn.append(data([row]))


def _stage_update(txn: Transaction, condition: Condition, change: str, value: Any) -> None:
    def new_rows(rows: pa.Table) -> pa.Table:
        lists = [rows[name].to_pylist() for name in ("p", "k", "v")]
        return data(changed(row, change, value) for row in zip(*lists, strict=True))

    columns = {"set": ["v"], "bump": ["v"], "move": ["p"]}[change]
    txn.stage(update(text(condition), new_rows, columns))


def _scanned(txn: Transaction, condition: Condition) -> Rows:
    table = txn.scan(where=where(condition)).to_arrow()
    return tuple(sorted(zip(*(table[n].to_pylist() for n in ("p", "k", "v")), strict=True)))


def _stage_copy(txn: Transaction, condition: Condition, place: str, key: int) -> Rows:
    found = _scanned(txn, condition)
    txn.append(data([(place, key, 10 + len(found))]))
    return found


def _stage_scan_delete(
    txn: Transaction, condition: Condition, least: int, goes: Condition
) -> Rows:
    found = _scanned(txn, condition)
    if len(found) >= least:
        txn.delete(where(goes))
    return found


def _stage_scan_overwrite(txn: Transaction, condition: Condition, place: str, key: int) -> Rows:
    found = _scanned(txn, condition)
    rows = data([(place, key, 10 + len(found))])
    partitioned = bool(txn._pinned.metadata.partition_by)
    assert partitioned
    txn.overwrite(rows, where=_place(place))
    return found


def _stage_compact(cls: Any) -> Callable[[Transaction, int], None]:
    def staged(txn: Transaction, seed: int) -> None:
        sort = (lambda t: t.sort_by([("v", "descending")])) if cls is CLUSTER else None
        txn.stage(compact(cls, lambda files: _groups(cls, files, seed), sort))

    return staged


def _groups(cls: Any, files: pa.Table, seed: int) -> list[list[int]]:
    """Which files to compact: of one partition each; of a MAJOR all of a partition's."""
    rng = random.Random(seed)
    names = [n for n in files.column_names if n.startswith("partition.")]
    places = files[names[0]].to_pylist() if names else [None] * files.num_rows
    groups: list[list[int]] = []
    for place in sorted(set(places), key=str):
        ids = [i for i, at in zip(files["id"].to_pylist(), places, strict=True) if at == place]
        if rng.random() < 0.3:
            continue
        if cls is MINOR:
            cut = rng.randint(0, len(ids))
            groups += [part for part in (ids[:cut], ids[cut:]) if len(part) > 1]
        else:
            groups.append(ids)
    return groups


_STAGES: dict[str, Callable[..., Rows | None]] = {
    "append": _stage_append,
    "overwrite": lambda t, place, new: t.overwrite(data(new), where=_place(place)) and None,
    "truncate": lambda t, place: t.truncate(_place(place)) and None,
    "delete": lambda t, condition: t.delete(where(condition)) and None,
    "update": _stage_update,
    "merge": lambda t, place, new: t.stage(merge(data(new), "k", _place(place))) and None,
    "copy": _stage_copy,
    "scan_delete": _stage_scan_delete,
    "scan_overwrite": _stage_scan_overwrite,
    "minor": _stage_compact(MINOR),
    "major": _stage_compact(MAJOR),
    "cluster": _stage_compact(CLUSTER),
}


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
    pinned = place if partitioned and rng.random() < 0.7 else None
    new: Rows = tuple(
        sorted((pinned or rng.choice("ab"), key + n, rng.randint(0, most)) for n in range(2))
    )[: rng.randint(1, 2)]
    condition = ("v", rng.randint(0, 1)) if narrow else random_condition(rng)
    plain = condition if narrow else random_condition(rng, opaque=False)
    goes = ("v", rng.randint(0, 1)) if narrow else random_condition(rng)
    change = rng.choice([("set", rng.randint(0, most)), ("bump", None), ("move", place)])
    source = tuple((place, k, rng.randint(0, 2)) for k in rng.sample([0, 1, 2, 50, 51], 2))
    return {
        "append": ("append", new),
        "overwrite": ("overwrite", pinned, new),
        "truncate": ("truncate", pinned),
        "delete": ("delete", condition),
        "update": ("update", plain, *change),
        "merge": ("merge", pinned and place, source),
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
    """What happened."""

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
"""How the rows come into the table, by variant."""
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


def play(seed: int, properties: dict[str, str], kinds: Sequence[str]) -> History:
    """A random history on the real stack. Conflicts are refusals; any other error is raised."""
    rng = random.Random(seed)
    variant = rng.randrange(len(_PARTS))
    narrow = rng.random() < 0.5
    ops = [
        random_op(rng, key, variant != UNPARTITIONED, kinds, narrow)
        for key in range(100, 100 + 2 * rng.choice((2, 3, 4, 5, 5, 6, OPS_MAX)), 2)
    ]
    steps: list[Step] = []
    waiting, running = list(range(len(ops))), list[int]()
    while waiting or running:
        if waiting and (not running or rng.random() < 0.75):
            running.append(waiting.pop())
            steps.append((running[-1], rng.randrange(3)))
        else:
            steps.append((running.pop(rng.randrange(len(running))), None))
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
        receipt, error = attempt(txn.commit)
        if error is not None:
            history.refused[type(error).__name__] += 1
        elif receipt.no_op:
            history.refused["no-op"] += 1
        else:
            commits.append((op, receipt.version, txn.read_version, scanned))
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
    if _some_order(history.states[history.first], tuple(real)):
        return None
    return "no order explains it"


def _some_order(rows: Rows, left: tuple[Committed, ...]) -> bool:
    if not left:
        return True
    for at, one in enumerate(left):
        if effect(one.op, rows) != one.done:
            continue
        if _some_order(after(rows, one.done), (*left[:at], *left[at + 1 :])):
            return True
    return False


def check_all(
    seeds: Iterable[int], properties: dict[str, str], kinds: Sequence[str]
) -> Counter[str]:
    """Play and explain histories; gives how often what happened.

    Raises:
        AssertionError: with the seed and the history, if nothing explains it.
    """
    counts: Counter[str] = Counter()
    granularity = properties["conflictGranularity"]
    serializable = properties["isolationLevel"] == "Serializable" or granularity == "transaction"
    for seed in seeds:
        history = play(seed, properties, kinds)
        problem = fault(history, serializable)
        assert problem is None, f"seed {seed}, {properties}: {problem}\n{history}"
        counts.update(history.refused)
        counts["histories"] += 1
        counts["commits"] += len(history.committed)
        counts["overlapping"] += sum(o.version > o.read_version + 1 for o in history.committed)
    return counts
