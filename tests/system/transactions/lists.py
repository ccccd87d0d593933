"""List-append histories, and a search for cycles among their transactions.

Every key has a list; a transaction reads some lists and appends its own number to some of them.
"""

from __future__ import annotations

import itertools
import random
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from tablefmt.operations.create import create
from tablefmt.operations.transaction import Transaction
from tablefmt.table import Table
from tests.compactions import MAJOR, compact
from tests.system.transactions.world import ENVIRONMENT, attempt, begin, handle, memory

Edges = dict[int, set[int]]


@dataclass
class Lists:
    """Reads and results of committed transactions, by number in the order of their commits."""

    reads: list[dict[int, list[int]]] = field(default_factory=list)
    """The numbers that the list held, by key."""
    final: dict[int, list[tuple[int, int]]] = field(default_factory=dict)
    """Place and number of every element at the end, by key."""
    refused: int = 0
    compactions: int = 0


def _rows(rows: Sequence[tuple[int, int, int]]) -> pa.Table:
    columns = zip(*rows, strict=True)
    return pa.table(dict(zip(("key", "place", "number"), columns, strict=True)))


def _listed(found: pa.Table) -> list[int]:
    return [int(n) for n in found.sort_by("place")["number"].to_pylist()]


@dataclass
class _Writer:
    table: Table
    number: int | None = None
    txn: Transaction | None = None
    reads: dict[int, list[int]] = field(default_factory=dict)

    def begin(self, number: int, rng: random.Random, keys: int) -> None:
        """Read one to three lists, and stage an element for one of them or more."""
        self.number, self.txn, self.reads = number, begin(self.table), {}
        chosen = rng.sample(range(keys), rng.randint(1, 3))
        for key in chosen:
            scan = self.txn.scan(where=f"key = {key}", columns=["place", "number"])
            self.reads[key] = _listed(scan.to_arrow())
        extended = rng.sample(chosen, rng.randint(1, len(chosen)))
        self.txn.append(_rows([(key, len(self.reads[key]), number) for key in extended]))


def play(
    seed: int, count: int, *, writers: int = 4, keys: int = 12, fold: int = 60, **properties: str
) -> Lists:
    """Play `count` committed transactions. A refused one begins again.

    After every `fold` of them the files are compacted, beside running transactions.
    """
    rng, lists = random.Random(seed), Lists()
    store = memory()
    ddl = "key BIGINT, place BIGINT, number BIGINT"
    made = create(store, ddl, properties=properties, environment=ENVIRONMENT)
    several = [_Writer(Table(made)), *(_Writer(handle(store)) for _ in range(writers - 1))]
    folding: Transaction | None = None
    number = itertools.count()
    numbers: dict[int, int] = {}
    while len(lists.reads) < count:
        one = rng.choice(several)
        if one.txn is None:
            one.begin(next(number), rng, keys)
            continue
        _, error = attempt(one.txn.commit)
        one.txn = None
        if error is not None:
            lists.refused += 1
            continue
        assert one.number is not None
        numbers[one.number] = len(lists.reads)
        lists.reads.append(one.reads)
        if len(lists.reads) % fold == 0:
            folding = begin(handle(store))
            folding.stage(compact(MAJOR, lambda files: [files["id"].to_pylist()]))
        elif folding is not None and len(lists.reads) % fold == 5:
            assert folding.commit().rebased_over
            folding, lists.compactions = None, lists.compactions + 1
    found = handle(store).to_arrow().to_pydict()
    rows = zip(found["key"], found["place"], found["number"], strict=True)
    for key, place, name in sorted(rows):
        lists.final.setdefault(key, []).append((place, numbers[name]))
    lists.reads = [
        {key: [numbers.get(n, -1) for n in names] for key, names in read.items()}
        for read in lists.reads
    ]
    return lists


def faults(lists: Lists) -> Iterator[str]:
    """Yield contradictions to every serial order: a place taken twice, a wrong prefix, a cycle."""
    for key, elements in lists.final.items():
        if [place for place, _ in elements] != list(range(len(elements))):
            yield f"list {key} has the places {[place for place, _ in elements]}"
    order = {key: [number for _, number in e] for key, e in lists.final.items()}
    for number, reads in enumerate(lists.reads):
        for key, seen in reads.items():
            if order.get(key, [])[: len(seen)] != seen:
                yield f"transaction {number} read {seen} of list {key}: {order.get(key)}"
    cycle = cycle_of(edges_of(order, lists.reads))
    if cycle:
        yield f"cycle {cycle}"


def edges_of(order: dict[int, list[int]], reads: Iterable[dict[int, list[int]]]) -> Edges:
    """Return the order between transactions that their reads and writes show.

    Writes come in their order and before their readers. Readers come before the first write that
    they did not see.
    """
    edges: Edges = defaultdict(set)
    for elements in order.values():
        for one, following in itertools.pairwise(elements):
            edges[one].add(following)
    for number, lists in enumerate(reads):
        for key, seen in lists.items():
            if seen:
                edges[seen[-1]].add(number)
            elements = order.get(key, [])
            missed = [n for n in elements[len(seen) : len(seen) + 1] if n != number]
            edges[number].update(missed)
    for number, after in edges.items():
        after.discard(number)
    return edges


def cycle_of(edges: Edges) -> list[int]:
    """Nodes that are in a cycle or between cycles; none if there is none."""
    incoming: dict[int, int] = defaultdict(int)
    for following in edges.values():
        for number in following:
            incoming[number] += 1
    free = [number for number in edges if incoming[number] == 0]
    left = set(edges) | set(incoming)
    while free:
        number = free.pop()
        left.discard(number)
        for later in edges.get(number, ()):
            incoming[later] -= 1
            if incoming[later] == 0:
                free.append(later)
    return sorted(left)
