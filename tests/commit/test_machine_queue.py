"""Processes of one machine hand each other the entries they met, and read them no more."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

from tablefmt.commit.commit_queue import CROWDED
from tablefmt.errors import CommitRejectedError, ConcurrentDeleteReadException
from tablefmt.log.object_names import entry_key
from tablefmt.store.object_store import Store
from tablefmt.store.store_wrappers import CountingStore
from tablefmt.table import Table
from tests.tables import assert_sound, behind, by_hand, handle, ids, new_table, rows


class SharedEntries:
    """Shared entries of a store, kept in a list."""

    def __init__(self) -> None:
        self.left: list[tuple[int, bytes]] = []
        self.turns = 0
        self.refuses = False

    def read(self) -> list[tuple[int, bytes]]:
        return list(self.left)

    def leave(self, entries: Sequence[tuple[int, bytes]]) -> None:
        for version, body in entries:
            if not self.left or version == self.left[-1][0] + 1:
                self.left.append((version, body))
            elif version > self.left[-1][0]:
                self.left = [(version, body)]


class Near(CountingStore):
    """A store whose instances with equal `shared` commit one at a time."""

    def __init__(self, inner: Store, shared: SharedEntries) -> None:
        super().__init__(inner)
        self.shared = shared

    @contextmanager
    def turn(self, key: str, seconds: float = 0) -> Iterator[Any]:
        self.shared.turns += 1
        yield None if self.shared.refuses else self.shared

    def log(self) -> list[tuple[str, str]]:
        """Requests for entries since this was asked last."""
        found = [one for one in self.requests if one[1].startswith("_log/0")]
        self.reset()
        return found


def puts(*versions: int) -> list[tuple[str, str]]:
    return [("put_if_absent", entry_key(version)) for version in versions]


def writers_of_one_machine(count: int) -> tuple[list[Table], SharedEntries, Store]:
    """Warm handles of one table, as of so many processes of one machine."""
    table, shared = new_table(), SharedEntries()
    table.append(rows(0))
    inner = table.context.store
    return [behind(table, Near(inner, shared)) for _ in range(count)], shared, inner


def near(table: Table) -> Near:
    found = table.context.store
    assert isinstance(found, Near)
    return found


def test_writers_of_one_machine_put_once_and_read_nothing() -> None:
    """STO-14, CMT-2: the first race is lost; from then on each knows what the others made."""
    tables, shared, store = writers_of_one_machine(3)
    tables[0].append(rows(1))
    assert (near(tables[0]).log(), shared.turns) == (puts(2), 0), "a lone writer takes no turn"
    for number, table in enumerate(tables[1:], 2):
        table.append(rows(number))
        log = near(table).log()
        assert log[0] == puts(2)[0]
        assert log[-1] == puts(number + 1)[0]
    number = 4
    tables[0].append(rows(number))
    near(tables[0]).log()
    for _ in range(4):
        for table in tables:
            number += 1
            table.append(rows(number))
            assert near(table).log() == puts(number + 1)
    assert ids(handle(store)) == by_hand(store) == list(range(number + 1))
    assert_sound(store)


def crowded(tables: list[Table]) -> None:
    """Each has met the others, and left what it met."""
    for at in range(2):
        for number, table in enumerate(tables):
            table.append(rows(100 * (at + 1) + number))
            near(table).log()


def test_who_is_left_alone_takes_no_more_turns() -> None:
    """STO-14: after some commits."""
    tables, shared, _ = writers_of_one_machine(2)
    crowded(tables)
    for n in range(CROWDED + 1):
        tables[0].append(rows(n))
    turns = shared.turns
    tables[0].append(rows(50))
    assert shared.turns == turns


@pytest.mark.parametrize("spoilt", ["another table", "no JSON", "no chain", "gap", "nothing"])
def test_what_does_not_follow_is_not_believed(spoilt: str) -> None:
    """STO-14, LOG-1: the log is read instead."""
    tables, shared, store = writers_of_one_machine(2)
    crowded(tables)
    tables[0].append(rows(1))
    if spoilt == "another table":
        other, others, _ = writers_of_one_machine(2)
        crowded(other)
        other[0].append(rows(9))
        shared.left = others.left
    elif spoilt == "no JSON":
        shared.left = [(version, b"{") for version, _ in shared.left]
    elif spoilt == "no chain":
        shared.left = [(version, body + b" ") for version, body in shared.left]
    else:
        shared.left = [(999, b"")] if spoilt == "gap" else []
    tables[1].append(rows(2))
    assert ids(handle(store)) == by_hand(store) == [0, 1, 2, 100, 101, 200, 201]
    assert_sound(store)


def test_who_gets_no_turn_reads_the_log() -> None:
    """STO-14: a courtesy."""
    tables, shared, store = writers_of_one_machine(2)
    crowded(tables)
    shared.refuses = True
    tables[0].append(rows(1))
    tables[1].append(rows(2))
    assert ("get", entry_key(tables[1].version)) in near(tables[1]).log()
    assert_sound(store)


def test_entries_shared_by_another_process_are_checked() -> None:
    """CMT-6: a conflict with an entry that was handed on is one."""
    tables, _, store = writers_of_one_machine(2)
    crowded(tables)
    late = tables[1].transaction()
    late.delete("id = 100")
    tables[0].delete("id = 100")
    with pytest.raises(ConcurrentDeleteReadException):
        late.commit()
    tables[1].delete("id = 101")
    assert ids(handle(store)) == [0, 200, 201]


def test_an_application_version_of_another_process_is_not_applied_again() -> None:
    """CFL-7."""
    tables, _, store = writers_of_one_machine(2)
    crowded(tables)
    first = tables[0].append(rows(1), application=("job", 1))
    again = tables[1].append(rows(1), application=("job", 1))
    assert (again.version, again.already_applied) == (first.version, True)
    assert ids(handle(store)).count(1) == 1


def test_a_deadline_that_passes_in_the_line_sends_nothing() -> None:
    """CMT-8."""
    tables, _, store = writers_of_one_machine(2)
    crowded(tables)
    tables[0].append(rows(1))
    with pytest.raises(CommitRejectedError, match="deadline"):
        tables[1].append(rows(2), deadline=0)
    assert [verb for verb, _ in near(tables[1]).log()] == []
    assert_sound(store)
