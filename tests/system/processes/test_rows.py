"""Two processes that change rows of one file: their own, or the same. Both race for every version.

Each holds its finished work until the other's is finished too, then both go for one version.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import tablefmt
from tablefmt.commit import driver
from tablefmt.session import table_context
from tablefmt.store.local_store import LocalStore
from tests.system.processes.test_processes import together
from tests.system.transactions.test_row_level import STATEMENTS, Rows, rows_of, source
from tests.system.transactions.world import Counting, of_data
from tests.tables import assert_sound

KEYS = range(0, 96, 2)
ROUNDS = 6
NAMES = ("UPDATE", "MERGE", "DELETE")
"""Statements of a process, in order."""


def mine(number: int, at: int) -> list[int]:
    """Every other row of the sixth of the file that a round changes."""
    return list(KEYS[at * 8 : at * 8 + 8][number::2])


def hold(ready: Any) -> list[list[tuple[str, str]]]:
    """Make commits of this process wait for the other. Return the requests of its commits."""
    asked: list[list[tuple[str, str]]] = []

    def commit(
        store: Any, plan: Any, environment: Any, view: Any, deadline: float | None = None
    ) -> Any:
        ready.wait(60)
        counting, before = Counting(store), view.store
        view.store = counting
        try:
            return driver.commit(counting, plan, environment, view, deadline)
        finally:
            view.store = before
            asked.append(list(counting.requests))

    table_context.commit = commit  # type: ignore[assignment, attr-defined]
    return asked


def changer(uri: str, number: int, start: Any, results: Any) -> None:
    """Rows of its own; all of its statements commit, by metadata alone."""
    asked = hold(start)
    table = tablefmt.open(uri)
    done = []
    for at in range(ROUNDS):
        name = NAMES[(at + number) % len(NAMES)]
        table.refresh()
        made = STATEMENTS[name][0](table, mine(number, at), 100 * number + at)
        done.append((made.version, name, mine(number, at), 100 * number + at, made.rebased_over))
        start.wait(60)
    data = [request for each in asked for request in of_data(each)]
    results.put((number, (done, len(asked), data)))


def quarreller(uri: str, number: int, start: Any, results: Any) -> None:
    """The same rows as the other one; what becomes of each try."""
    hold(start)
    table = tablefmt.open(uri)
    said = []
    for at in range(ROUNDS):
        table.refresh()
        keys = [*mine(number, at), mine(1 - number, at)[0], mine(number, at)[0]]
        try:
            made = STATEMENTS["UPDATE"][0](table, sorted(set(keys)), 1)
            said.append((made.version, keys))
        except tablefmt.errors.ConcurrentModificationException as error:
            said.append((error.kind, keys))
        start.wait(60)
    results.put((number, said))


@pytest.fixture
def uri(tmp_path: Path) -> str:
    uri = str(tmp_path / "t")
    tablefmt.create(uri, "k BIGINT, v BIGINT").append(source({k: k for k in KEYS}))
    return uri


@pytest.mark.slow
def test_processes_that_change_rows_of_their_own_both_commit_every_time(uri: str) -> None:
    """CFL-10, CFL-17, CFL-18, CMT-4: replayed by plain Python in the order of the versions."""
    said = together(uri, [changer, changer])
    done = sorted((one for changes, _, _ in said.values() for one in changes), key=lambda d: d[0])
    assert [version for version, *_ in done] == list(range(2, 2 + 2 * ROUNDS))
    assert [commits for _, commits, _ in said.values()] == [ROUNDS] * 2
    assert [data for _, _, data in said.values()] == [[], []]
    # In each round one of the two came too late, and was rebased over the other.
    assert sum(len(rebased) for *_, rebased in done) == ROUNDS
    rows: Rows = rows_of(uri, 1)
    for version, name, keys, value, _ in done:
        rows = STATEMENTS[name][1](rows, keys, value)
        assert rows_of(uri, version) == rows
    assert_sound(LocalStore(uri))


def test_of_processes_that_change_one_row_one_is_told(uri: str) -> None:
    """CFL-10: every time the one that lost the race, and none of its rows is changed."""
    said = together(uri, [quarreller, quarreller])
    rows: Rows = rows_of(uri, 1)
    for at in range(ROUNDS):
        outcomes = [said[number][at] for number in (0, 1)]
        (version, keys), (kind, _) = sorted(outcomes, key=lambda one: isinstance(one[0], str))
        assert (version, kind) == (2 + at, "concurrent_delete_read")
        rows = STATEMENTS["UPDATE"][1](rows, keys, 1)
        assert rows_of(uri, version) == rows
    assert_sound(LocalStore(uri))
