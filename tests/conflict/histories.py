"""Random histories of a few concurrent transactions, and the serial orders that explain them.

Each is said twice: staged on a `World`, and as a function from rows to rows. The function is over
four whole numbers and knows neither NULL nor types, and is called again for every order that is
tried; statements as users say them are in `tablefmt.testing.reference_model`.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from pyroaring import BitMap64

from tablefmt.conflict.rebase import RowMove
from tablefmt.expressions.predicate import And, Comparison, In, Predicate
from tablefmt.model.log_entry import OperationClass, PredicateScope
from tablefmt.model.positions import row_span
from tablefmt.testing.schedules import interleaved, serial_order
from tests.conflict.world import (
    COLUMNS,
    Level,
    Row,
    Rows,
    Staged,
    World,
    touched_of,
)

Apply = Callable[[Rows], Rows]

ALL = (
    *("append", "append", "overwrite", "delete", "update", "update"),
    *("merge", "count", "scan", "drop"),
)
MINOR, MAJOR = OperationClass.MINOR_COMPACT, OperationClass.MAJOR_COMPACT
CLUSTER = OperationClass.CLUSTER
AT = {"k": 0, "p": 1, "v": 2, "w": 3}


@dataclass
class Condition:
    """`column = value`, perhaps within one partition."""

    column: str
    value: int
    partition: int | None

    def __call__(self, row: Row) -> bool:
        if self.partition is not None and row[1] != self.partition:
            return False
        return row[AT[self.column]] == self.value

    @property
    def predicate(self) -> Predicate:
        leaf = Comparison(COLUMNS[self.column], "=", self.value)
        if self.partition is None:
            return leaf
        return And((Comparison(COLUMNS["p"], "=", self.partition), leaf))

    @property
    def columns(self) -> frozenset[int]:
        names = {self.column} | ({"p"} if self.partition is not None else set())
        return frozenset(COLUMNS[n].id for n in names)

    @property
    def partitions(self) -> frozenset[int] | None:
        return None if self.partition is None else frozenset({self.partition})


@dataclass(frozen=True)
class Mix:
    """Kinds of transactions, and how likely they conflict."""

    kinds: tuple[str, ...] = ALL
    moving: float = 0.3
    """Share of compactions."""
    classes: tuple[OperationClass, ...] = (MINOR, MINOR, MINOR, MAJOR, MAJOR, CLUSTER)
    values: int = 3
    """Number of values of `v` and `w`."""
    partitions: tuple[int | None, ...] = (None, 0, 1)
    """Partitions that conditions name. None means all."""
    transactions: int = 6


@dataclass
class Op:
    """The work of a transaction: on a set of rows, and as a staged commit."""

    name: str
    apply: Apply
    stage: Callable[[World], Staged]
    moves_only: bool = False


@dataclass
class History:
    """Committed operations in order, with the rows before and after each."""

    committed: list[Op] = field(default_factory=list)
    states: list[Rows] = field(default_factory=list)
    conflicts: Counter[str] = field(default_factory=Counter)
    rules: Counter[str] = field(default_factory=Counter)


def run(seed: int, level: Level, mix: Mix | None = None) -> History:
    """A few transactions, started and committed in random order."""
    mix = mix or Mix()
    rng = random.Random(seed)
    base = [
        [
            (i * 2 + j, p, rng.randrange(mix.values), rng.randrange(mix.values))
            for j in range(rng.randint(1, 3))
        ]
        for i, p in enumerate((0, 0, 1))
    ]
    world = World(level, base)
    history = History(states=[world.rows()])
    ops = [some_op(rng, number, mix) for number in range(rng.randint(2, mix.transactions))]
    active: dict[int, Staged] = {}
    for number, begins in interleaved(rng, len(ops)):
        op = ops[number]
        if begins:
            active[number] = op.stage(world)
            continue
        staged = active.pop(number)
        before = world.version
        found = world.commit(staged)
        history.rules.update(allowed.rule for allowed in staged.passed)
        if found is not None:
            history.conflicts[found.rule] += 1
        elif world.version > before:
            history.committed.append(op)
            history.states.append(world.rows())
    return history


def some_op(rng: random.Random, number: int, mix: Mix) -> Op:
    if rng.random() < mix.moving:
        return compaction(rng, mix)
    kind = rng.choice(mix.kinds)
    make = {
        "append": append,
        "overwrite": overwrite,
        "delete": change,
        "update": change,
        "merge": merge,
        "count": count,
        "scan": scan,
        "drop": drop,
    }[kind]
    return make(rng, number, mix, kind)


def some_rows(rng: random.Random, mix: Mix) -> Rows:
    # A key may meet that of a MERGE.
    return [
        (rng.randrange(8), rng.randint(0, 1), rng.randrange(mix.values), rng.randrange(mix.values))
        for _ in range(rng.randint(1, 2))
    ]


def append(rng: random.Random, number: int, mix: Mix, _: str) -> Op:
    rows = some_rows(rng, mix)
    return Op("append", lambda old: old + rows, lambda world: world.insert(rows))


def overwrite(rng: random.Random, number: int, mix: Mix, _: str) -> Op:
    where = rng.choice([None, {0}, {1}])
    rows = [r for r in some_rows(rng, mix) if where is None or r[1] in where]
    rows = rows if rng.random() < 0.7 else []
    text = None if where is None else PredicateScope(f"p = {min(where)}")
    scope = text if rng.random() < 0.5 else touched_of(where)

    def applied(old: Rows) -> Rows:
        return [r for r in old if where is not None and r[1] not in where] + rows

    return Op("overwrite", applied, lambda world: world.overwrite(where, rows, scope=scope))


def some_condition(rng: random.Random, mix: Mix) -> Condition:
    column = rng.choice(["v", "v", "w", "k"])
    value = rng.randrange(6 if column == "k" else mix.values)
    return Condition(column, value, rng.choice(mix.partitions))


def change(rng: random.Random, number: int, mix: Mix, kind: str) -> Op:
    where = some_condition(rng, mix)
    target = rng.choice(["v", "w"])
    value = rng.choice([*range(mix.values), 20 + number])
    by_row, whole = rng.random() < 0.9, rng.random() < 0.15

    def new(row: Row) -> Row:
        changed = list(row)
        changed[AT[target]] = value
        return (changed[0], changed[1], changed[2], changed[3])

    def applied(old: Rows) -> Rows:
        if kind == "delete":
            return [r for r in old if not where(r)]
        return [new(r) if where(r) else r for r in old]

    def stage(world: World) -> Staged:
        return world.change(
            where,
            where.predicate if by_row else None,
            where.columns if by_row else None,
            None if kind == "delete" else new,
            set_columns=(COLUMNS[target].id,) if kind == "update" else (),
            scope=touched_of(where.partitions) if by_row else None,
            by_row=by_row,
            whole_read=whole,
            partitions=where.partitions if by_row else None,
        )

    return Op(f"{kind} {where} {target}={value}", applied, stage)


def merge(rng: random.Random, number: int, mix: Mix, _: str) -> Op:
    keys = tuple(sorted(rng.sample(range(8), rng.randint(1, 3))))
    value = rng.choice([*range(mix.values), 30 + number])
    predicate = In(COLUMNS["k"], keys) if rng.random() < 0.5 else None

    def missing(found: Rows) -> Rows:
        there = {r[0] for r in found}
        return [(k, k % 2, value % 3, value) for k in keys if k not in there]

    def new(row: Row) -> Row:
        return (*row[:3], value)

    def applied(old: Rows) -> Rows:
        matched = [r for r in old if r[0] in keys]
        rest = [r for r in old if r[0] not in keys]
        return rest + [new(r) for r in matched] + missing(matched)

    def stage(world: World) -> Staged:
        return world.change(
            lambda row: row[0] in keys,
            predicate,
            frozenset({COLUMNS["k"].id}),
            new,
            set_columns=(COLUMNS["w"].id,),
            keys=keys,
            inserts=missing,
        )

    return Op(f"merge {keys} w={value}", applied, stage)


def count(rng: random.Random, number: int, mix: Mix, _: str) -> Op:
    """INSERT from a read of the table: how many rows match."""
    where = some_condition(rng, mix)
    into, v, w = rng.randint(0, 1), rng.randrange(mix.values), rng.randrange(mix.values)

    def counted(found: Rows) -> Rows:
        return [(100 * number + len(found), into, v, w)]

    partitions = None if where.partition is None else {where.partition, into}

    def stage(world: World) -> Staged:
        return world.change(
            where,
            where.predicate,
            where.columns,
            None,
            inserts=counted,
            scope=touched_of(partitions),
            partitions=where.partitions,
        )

    return Op(f"count {where}", lambda old: old + counted([r for r in old if where(r)]), stage)


def scan(rng: random.Random, number: int, mix: Mix, _: str) -> Op:
    """A scan of the table or of a partition, and a DELETE that depends on what it held."""
    partition = rng.choice(mix.partitions)
    where = some_condition(rng, mix)
    seen = None if partition is None else frozenset({partition})

    def looked_at(rows: Rows) -> Rows:
        return [r for r in rows if partition is None or r[1] == partition]

    def chosen(rows: Rows) -> Callable[[Row], bool]:
        odd = len(looked_at(rows)) % 2
        return lambda row: where(row) and row[0] % 2 == odd

    def applied(old: Rows) -> Rows:
        goes = chosen(old)
        return [r for r in old if not goes(r)]

    def stage(world: World) -> Staged:
        predicate = None if partition is None else Comparison(COLUMNS["p"], "=", partition)
        read = world.scan(predicate, seen, world.version)
        both = None if seen is None or where.partitions is None else seen | where.partitions
        staged = world.change(
            chosen(world.rows()),
            where.predicate,
            where.columns | {COLUMNS["k"].id},
            None,
            scope=touched_of(both),
            partitions=where.partitions,
        )
        staged.mine = replace(staged.mine, reads=(read, *staged.mine.reads))
        return staged

    return Op(f"scan {partition}, delete {where}", applied, stage)


def drop(rng: random.Random, number: int, mix: Mix, _: str) -> Op:
    """DELETE of a partition, decided on metadata."""
    partition = rng.randint(0, 1)

    def stage(world: World) -> Staged:
        return world.drop_partition(partition, Comparison(COLUMNS["p"], "=", partition))

    return Op(f"drop {partition}", lambda old: [r for r in old if r[1] != partition], stage)


def compaction(rng: random.Random, mix: Mix) -> Op:
    cls = rng.choice(mix.classes)
    partitions = rng.choice([(0,), (0,), (1,), (0, 1)])
    some, cut = rng.random(), rng.choice([0, 0, 1, 2])

    def stage(world: World) -> Staged:
        groups = []
        at = world.version
        for p in partitions:
            files = [f for f in world.files(at) if world.data[f] and world.data[f][0][1] == p]
            if cls is OperationClass.MINOR_COMPACT:
                files = [f for f in files if rng.random() < 0.3 + some]
            rng.shuffle(files)
            if files and cls is OperationClass.MINOR_COMPACT and rng.random() < 0.4:
                groups += [files[::2], files[1::2]]
            else:
                groups.append(files)
        order = (lambda rows: sorted(rows, reverse=True)) if cls is OperationClass.CLUSTER else None
        return world.compact(cls, [g for g in groups if g], splits=[cut] * 2, order=order)

    return Op(cls.value, lambda old: old, stage, moves_only=True)


def explained_in_order(history: History) -> bool:
    """Serializable: every version is what the operations make of the one before, in order."""
    rows = history.states[0]
    for op, state in zip(history.committed, history.states[1:], strict=True):
        rows = sorted(op.apply(rows))
        if rows != state:
            return False
    return True


def explained_in_some_order(history: History) -> bool:
    """WriteSerializable: some serial order of the writes leads to the last version."""
    writes = [op.apply for op in history.committed if not op.moves_only]
    last = history.states[-1]
    order = serial_order(history.states[0], writes, lambda rows: sorted(rows) == last)
    return order is not None


def no_rank(move: RowMove, positions: BitMap64) -> BitMap64:
    """Stand in for `RowMove.place`: wrong, because it does not count the dropped rows below."""
    run = move.run
    inside = (positions & row_span(run.start, run.start + run.rows)) - run.dropped
    return inside.shift(move.offset - run.start)
