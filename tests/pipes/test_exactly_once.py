"""Killed anywhere, run any number of times, by two at once: each row of the source exactly once."""

from __future__ import annotations

import itertools
import os
import random
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tablefmt
from tablefmt.commit import driver
from tablefmt.commit.transaction_plan import entry_on as entry_of_plan
from tablefmt.conflict import conflict_check
from tablefmt.errors import ConcurrentTransactionException, TablefmtError
from tablefmt.model.log_entry import DerivedFrom
from tablefmt.operations.append import append
from tablefmt.pipes import pipe as pipes
from tablefmt.pipes.pipe_batch import new_rows
from tablefmt.session import staging
from tablefmt.session.commit_options import CommitOptions
from tablefmt.snapshot.cursors import position
from tablefmt.store.local_store import LocalStore
from tablefmt.store.object_store import Store
from tablefmt.table import Table
from tablefmt.testing.faults import FaultyStore, Killed
from tests.races import race
from tests.system.faults.test_crash import SelfKiller, in_a_child
from tests.tables import assert_sound, handle, ids, memory, new_table, rows

pytestmark = pytest.mark.broken_tables

Run = Callable[[Store, Store], Any]
Rows = Counter[tuple[Any, ...]]


def append_run(source: Store, target: Store) -> None:
    tablefmt.pipe(handle(source)).into(handle(target))


def keyed_run(source: Store, target: Store) -> None:
    tablefmt.pipe(handle(source)).into(handle(target), keys="id")


def empty_run(source: Store, target: Store) -> None:
    tablefmt.pipe(handle(source), where="id > 1000").into(handle(target))


RUNS: dict[str, tuple[Run, list[int]]] = {
    "append": (append_run, [1, 2, 3, 4, 5]),
    "keyed": (keyed_run, [2, 3, 4, 5]),
    "empty": (empty_run, [1, 2, 3]),
}


def prepare(source: Store, target: Store) -> None:
    """A pipe that has run once, and something new."""
    table = new_table(source)
    table.append(rows(1, 2, 3))
    new_table(target)
    tablefmt.pipe(handle(source)).into(handle(target))
    table.append(rows(4))
    table.delete("id = 1")
    table.append(rows(5))


def killed_everywhere(run: Run, fault: Any) -> list[list[int]]:
    """Return the target's rows after a killed run was repeated, for each place of the kill."""
    left = []
    for at in range(200):
        source, target = memory(), memory()
        prepare(source, target)
        plan = lambda i, verb, key, at=at: fault if i == at else None  # noqa: E731
        shared = FaultyStore(target, plan)
        asked = [0]

        def both(i: int, verb: str, key: str, at: int = at, asked: list[int] = asked) -> Any:
            """One count for the requests of both tables."""
            asked[0] += 1
            return fault if asked[0] - 1 == at else None

        shared, other = FaultyStore(target, both), FaultyStore(source, both)
        try:
            run(other, shared)
        except Killed:
            for _ in range(3):
                run(source, target)
            left.append(ids(handle(target)))
            assert_sound(target)
            continue
        return left
    raise AssertionError("it never ends")


@pytest.mark.slow
@pytest.mark.share(3)
@pytest.mark.parametrize("name", RUNS)
@pytest.mark.parametrize("fault", ["kill_before", "kill_after"])
def test_killed_at_any_request_and_run_again(name: str, fault: Any) -> None:
    """PIP-2, CMT-1: the kill is at any request to either table."""
    run, after = RUNS[name]
    left = killed_everywhere(run, fault)
    assert len(left) >= 4
    assert [found for found in left if found != after] == []


@pytest.mark.parametrize("fault", ["lost_answer", "lost_request", "sdk_retry", "late"])
def test_answers_that_are_lost(fault: Any) -> None:
    """PIP-2, CMT-4: the commit that was not answered is found to be ours."""
    for at in range(3):
        source, target = memory(), memory()
        prepare(source, target)
        puts = itertools.count()

        def plan(i: int, verb: str, key: str, at: int = at, puts: Any = puts) -> Any:
            return fault if verb == "put_if_absent" and next(puts) == at else None

        faulty = FaultyStore(target, plan)
        for store in (faulty, target, target):
            try:
                append_run(source, store)
            except TablefmtError:
                continue
        assert ids(handle(target)) == RUNS["append"][1]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_sigkill_of_a_process_that_makes_its_target(tmp_path: Path) -> None:
    """PIP-2, PIP-6: the kill is at each request to the target, from before the table exists."""
    killed = 0
    for at in range(100):
        source, root = LocalStore(tmp_path / f"s{at}"), tmp_path / f"t{at}"
        new_table(source).append(rows(1, 2, 3))

        def run(source: LocalStore = source, root: Path = root, at: int = at) -> None:
            plan = lambda i, verb, key: "kill_before" if i == at else None  # noqa: E731
            with pytest.MonkeyPatch.context() as patch:
                made = SelfKiller(LocalStore(root), plan)  # type: ignore[arg-type]
                patch.setattr(pipes, "open_store", lambda *_: made)
                tablefmt.pipe(handle(source)).into(str(root))

        status = in_a_child(run)
        if status:
            assert os.WIFSIGNALED(status)
            assert os.WTERMSIG(status) == signal.SIGKILL
            killed += 1
        for _ in range(2):
            tablefmt.pipe(handle(source)).into(str(root))
        assert ids(tablefmt.open(root)) == [1, 2, 3]
        assert_sound(LocalStore(root))
        if not status:
            break
    assert killed >= 5


def two_at_once(source: Store, target: Store, keys: str | None) -> list[Any]:
    """Two runs, of which the later to commit saw more of the source: an overlap."""
    early, late, table = handle(target), handle(target), handle(source)
    begun = threading.Event()

    def growing(piece: pa.Table) -> pa.Table:
        """Add a row after the first run has fixed its range."""
        if not begun.is_set():
            # From a thread that is not in the race.
            writer = threading.Thread(target=lambda: handle(source).append(rows(6)))
            writer.start()
            writer.join()
            begun.set()
        return piece

    def second() -> Any:
        assert begun.wait(60)
        return tablefmt.pipe(handle(source)).into(late, keys=keys)

    return race(lambda: tablefmt.pipe(table, transform=growing).into(early, keys=keys), second)


@pytest.mark.parametrize("name", ["append", "keyed"])
def test_of_two_runs_at_once_one_commits(name: str) -> None:
    """PIP-2, CFL-24: the other one takes the rest when it is run again."""
    run, after = RUNS[name]
    source, target = memory(), memory()
    prepare(source, target)
    one, two = two_at_once(source, target, "id" if name == "keyed" else None)
    assert one.error is None
    assert isinstance(two.error, ConcurrentTransactionException)
    for _ in range(2):
        run(source, target)
    assert ids(handle(target)) == [*after, 6]


@pytest.mark.slow
def test_two_runs_at_once_make_one_target() -> None:
    """PIP-6: both find no table; one of them fills it."""
    for _ in range(3):
        source, target = memory(), memory()
        new_table(source).append(rows(1, 2, 3))
        place = target.uri

        def run(source: Store = source, place: str = place) -> Any:
            return tablefmt.pipe(handle(source)).into(place)

        ended = race(run, run)
        assert sum(one.error is None for one in ended) >= 1
        for one in ended:
            assert one.error is None or isinstance(one.error, TablefmtError)
        run()
        assert ids(tablefmt.open(place)) == [1, 2, 3]


def test_a_compaction_and_appends_beside_a_run_are_no_obstacle() -> None:
    """PIP-2, CFL-3: the re-base is one of metadata."""
    source, target = memory(), memory()
    prepare(source, target)
    other = handle(target)
    runs = race(
        lambda: other.append(rows(50)),
        lambda: tablefmt.pipe(handle(source)).into(handle(target)),
    )
    assert [one.error for one in runs] == [None, None]
    assert ids(handle(target)) == [1, 2, 3, 4, 5, 50]


# Variants that are wrong, which the tests above have to tell from the one that is right


def unchecked(patch: pytest.MonkeyPatch) -> None:
    """Move the cursor from any version at the time of the commit. `from` is not checked."""
    patch.setattr(
        conflict_check,
        "_CHECKS",
        tuple(c for c in conflict_check._CHECKS if c.__name__ != "_cursor"),
    )
    patch.setattr(staging, "check_cursor", lambda *_: None)
    real = entry_of_plan

    def entry_on(plan: Any, pending: Any, parent: Any, *rest: Any) -> Any:
        own = plan.pending.derived_from
        if own is not None and parent is not None:
            moved = replace(own, start=position(parent.cursors, own.key))
            plan = replace(plan, pending=replace(plan.pending, derived_from=moved))
        return real(plan, pending, parent, *rest)

    patch.setattr(driver, "entry_on", entry_on)


def test_without_the_check_of_from_two_runs_copy_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """CFL-24: known to be wrong, and caught."""
    source, target = memory(), memory()
    prepare(source, target)
    unchecked(monkeypatch)
    one, two = two_at_once(source, target, None)
    assert (one.error, two.error) == (None, None)
    assert ids(handle(target)) == [1, 2, 3, 4, 4, 5, 5, 6]


def cursor_apart(source: Store, target: Store) -> None:
    """The rows in one commit, and how far they go in the next."""
    here, there = handle(source), handle(target)
    derived = pipes.next_of(here.context, target, there.context, "")
    if derived is not None:
        taken = new_rows(here.context, derived, "append", None)
        there.append(taken.to_arrow())
        move(there, derived)


def move(table: Table, derived: DerivedFrom) -> None:
    append(table.context, rows(0).slice(0, 0), CommitOptions(derived_from=derived))


def cursor_first(source: Store, target: Store) -> None:
    """The other way round."""
    here, there = handle(source), handle(target)
    derived = pipes.next_of(here.context, target, there.context, "")
    if derived is not None:
        taken = new_rows(here.context, derived, "append", None).to_arrow()
        move(there, derived)
        there.append(taken)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("run", "wrong"),
    [(cursor_apart, [1, 2, 3, 4, 4, 5, 5]), (cursor_first, [1, 2, 3])],
)
def test_a_cursor_in_a_commit_of_its_own_is_caught(run: Run, wrong: list[int]) -> None:
    """PIP-2: known to be wrong: killed in between, rows come twice, or never."""
    left = killed_everywhere(run, "kill_after")
    after = RUNS["append"][1]
    assert wrong in left
    assert all(found in (after, wrong) for found in left)


# Random histories


def multiset(table: Table, version: int | None = None) -> Rows:
    return Counter(tuple(r.values()) for r in table.to_arrow(version=version).to_pylist())


def step(table: Table, chance: random.Random, fresh: Iterator[int]) -> None:
    """A commit of the source, of any kind that has a say in which rows there are."""
    some = list(itertools.islice(fresh, chance.randrange(1, 4)))
    kind = chance.randrange(8)
    if kind < 3:
        table.append(rows(*some, p=chance.choice("ab")))
    elif kind == 3:
        table.delete(f"id % 5 = {chance.randrange(5)}")
    elif kind == 4:
        table.update({"p": f"'{chance.choice('abc')}'"}, f"id % 3 = {chance.randrange(3)}")
    elif kind == 5:
        table.compact()
    elif kind == 6:
        table.overwrite(rows(*some, p="c"))
    else:
        table.restore(version=chance.randrange(max(0, table.version - 3), table.version + 1))


@pytest.mark.slow
@pytest.mark.share(3)
@pytest.mark.parametrize(
    "seed", [*range(3), *(pytest.param(n, marks=pytest.mark.soak) for n in range(3, 60))]
)
def test_random_histories_with_kills(seed: int) -> None:
    """PIP-1, PIP-2, PIP-4, PIP-5: each target equals the model after every run."""
    chance = random.Random(seed)
    source = memory()
    table = new_table(source)
    stores = {"append": memory(), "keyed": memory(), "chosen": memory()}
    for store in stores.values():
        new_table(store)
    expected: Rows = Counter()
    taken = 0
    fresh = itertools.count()
    runs: dict[str, Run] = {
        "append": append_run,
        "keyed": keyed_run,
        "chosen": lambda s, t: tablefmt.pipe(handle(s), where="p = 'a'").into(handle(t), keys="id"),
    }
    for number in range(12):
        for _ in range(chance.randrange(1, 4)):
            step(table, chance, fresh)
        table.refresh()
        before = multiset(table, taken) if number else Counter()
        expected += multiset(table) - before
        taken = table.version
        for name, run in runs.items():
            at = chance.randrange(12)

            def plan(i: int, verb: str, key: str, at: int = at) -> Any:
                return chance.choice(["kill_before", "kill_after"]) if i == at else None

            try:
                run(source, FaultyStore(stores[name], plan))
            except Killed:
                run(source, stores[name])
            if chance.random() < 0.3:
                handle(stores[name]).compact()
        assert multiset(handle(stores["append"])) == expected
        assert multiset(handle(stores["keyed"])) == multiset(table)
        chosen = Counter({row: n for row, n in multiset(table).items() if row[1] == "a"})
        assert multiset(handle(stores["chosen"])) == chosen
