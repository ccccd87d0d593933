"""Appends by handles that skip what moves cursors, beside pipes, restores and columns that come."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

import tablefmt
from tablefmt.errors import ConcurrentModificationException
from tablefmt.session.commit_result import Commit
from tablefmt.store.store_wrappers import CountingStore
from tablefmt.table import Table
from tests.tables import assert_sound, behind, handle, ids, new_table, rows

Row = frozenset[tuple[str, Any]]


def widened(source: Table, number: int) -> None:
    """The source gets a column, and a row that has it."""
    name = f"w{number}"
    source.alter.add_column(name, "INT")
    source.append(rows(number).append_column(name, rows(number)["id"].cast("int32")))


def source_and_target() -> tuple[Table, Table]:
    """Two tables of one row each."""
    source, target = new_table(), new_table()
    source.append(rows(1))
    target.append(rows(10))
    return source, target


def run(source: Table, target: Table, **how: Any) -> None:
    """A pipe, by a handle of its own."""
    tablefmt.pipe(source).into(handle(target.context.store), **how)


def pipe_with_columns(source: Table, target: Table) -> None:
    run(source, target)
    widened(source, 2)
    run(source, target, merge_schema=True)


def restore_with_columns(source: Table, target: Table) -> None:
    run(source, target)
    handle(target.context.store).alter.add_column("q", "INT")
    handle(target.context.store).restore(version=1)


def restore_alone(source: Table, target: Table) -> None:
    run(source, target)
    handle(target.context.store).restore(version=1)


MOVES: dict[str, tuple[Callable[[Table, Table], None], list[int]]] = {
    "pipe": (pipe_with_columns, [1, 2, 10]),
    "restore with columns": (restore_with_columns, [10]),
    "restore": (restore_alone, [10]),
}


@pytest.mark.parametrize("appends", [0, 1, 2])
@pytest.mark.parametrize("name", MOVES)
def test_an_append_rebases_onto_a_skipped_cursor_move(name: str, appends: int) -> None:
    """RPL-7, CMT-5: the cursor moved in the commit before, or in an earlier one."""
    moves, left = MOVES[name]
    source, target = source_and_target()
    warm = handle(target.context.store)
    own = []
    for number in range(appends):
        # Before each append a cursor moves, and the append reads none of it.
        run(source, target)
        source.append(rows(100 + number))
        warm.append(rows(200 + number))
        own.append(200 + number)
    moves(source, target)
    done = warm.append(rows(300))
    store = target.context.store
    assert done.version == handle(store).version
    if name == "pipe":
        left = sorted([*left, *own, *range(100, 100 + appends)])
    assert ids(handle(store)) == ids(warm) == [*left, 300]
    assert warm.context.view.read_head == handle(store).context.view.head
    assert_sound(store)


def appending_over(moves: Callable[[Table, Table], None]) -> Counter[tuple[str, str]]:
    """Return the store requests of an append by a warm handle, by verb and folder."""
    source, target = source_and_target()
    counting = CountingStore(target.context.store)
    warm = behind(target, counting)
    moves(source, target)
    counting.reset()
    warm.append(rows(300))
    assert_sound(target.context.store)
    return Counter((verb, key.partition("/")[0]) for verb, key in counting.requests)


def test_cursors_that_were_skipped_cost_no_request() -> None:
    """RPL-7: they are in entries that the commit has read anyway."""

    def others(source: Table, target: Table) -> None:
        del source
        handle(target.context.store).append(rows(1))
        handle(target.context.store).alter.add_column("w2", "INT")

    assert appending_over(pipe_with_columns) == appending_over(others)


@dataclass
class Model:
    """The rows of the target at each version, and the version the pipe had reached."""

    states: list[tuple[Counter[Row], int | None]]
    given: list[list[Row]] = field(default_factory=list)
    """Rows that the source's versions brought."""

    @property
    def now(self) -> tuple[Counter[Row], int | None]:
        return self.states[-1]


def as_rows(table: Any) -> list[Row]:
    """Return the rows without NULL values: a missing column is one of NULLs."""
    return [frozenset((k, v) for k, v in r.items() if v is not None) for r in table.to_pylist()]


def appended(warm: Table, data: Any) -> Commit:
    """Append, and repeat once after a change of the columns."""
    try:
        return warm.append(data)
    except ConcurrentModificationException:
        warm.refresh()
        return warm.append(data)


@pytest.mark.share(4)
@pytest.mark.parametrize(
    "seed", [*range(12), *(pytest.param(n, marks=pytest.mark.soak) for n in range(12, 200))]
)
def test_random_interleavings(seed: int) -> None:
    """RPL-7, PIP-2: every handle that refreshes has the model's rows at every version."""
    chance = random.Random(seed)
    source, target = new_table(), new_table()
    store = target.context.store
    model = Model([(Counter(), None)], [[]])
    warm = [handle(store) for _ in range(3)]
    numbers = itertools.count()
    for _ in range(30):
        kind = chance.randrange(10)
        rows_now, taken = model.now
        if kind < 4:
            data = rows(next(numbers))
            appended(chance.choice(warm), data)
            state = (rows_now + Counter(as_rows(data)), taken)
        elif kind < 7:
            if chance.random() < 0.4:
                widened(source, next(numbers))
            else:
                source.append(rows(next(numbers)))
            came = source.changes(after_version=len(model.given) - 1, content="append").to_arrow()
            model.given += [[]] * (source.version - len(model.given))
            model.given.append(as_rows(came.select(source.schema.names)))
            continue
        elif kind < 9:
            one = chance.choice([handle(store), chance.choice(warm)])
            if tablefmt.pipe(source).into(one, merge_schema=True).commit.no_op:
                continue
            news = model.given[0 if taken is None else taken + 1 :]
            state = (rows_now + Counter(itertools.chain(*news)), source.version)
        else:
            version = chance.randrange(max(0, len(model.states) - 5), len(model.states))
            if handle(store).restore(version=version).no_op:
                continue
            state = model.states[version]
        version = handle(store).version
        model.states += [state] * (version + 1 - len(model.states))
        assert Counter(as_rows(handle(store).to_arrow())) == state[0]
        if chance.random() < 0.1:
            looking = chance.choice(warm).refresh()
            assert Counter(as_rows(looking.to_arrow())) == state[0]
    fresh = handle(store).context.view.head
    for one in warm:
        assert one.refresh().context.view.read_head == fresh
    assert_sound(store)
