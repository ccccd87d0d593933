"""Cursors of sources in the entries that hold the rows: at commit, at every re-base, restored."""

from __future__ import annotations

from typing import Any

import pytest

import tablefmt
from tablefmt.errors import ConcurrentTransactionException, CorruptTableError
from tablefmt.log.codec import encode
from tablefmt.log.object_names import entry_key
from tablefmt.model.log_entry import DerivedFrom
from tablefmt.operations.append import append
from tablefmt.operations.delete import delete
from tablefmt.session.commit_options import CommitOptions
from tablefmt.session.commit_result import Commit
from tablefmt.snapshot.log_view import LogView, cursors_at
from tablefmt.store.object_store import Store
from tablefmt.store.store_wrappers import CountingStore, ForwardingStore
from tablefmt.table import Table
from tests.oracle import logdump
from tests.tables import behind, handle, ids, memory, new_table, next_entry, rows

HERE, THERE = "1" * 32, "2" * 32
Moves = dict[tuple[str, str], int | None]


def derived(start: int | None, to: int, source: str = HERE, name: str = "") -> DerivedFrom:
    return DerivedFrom(source, name, start, to, f"{to:064x}", "memory://here")


def take(table: Table, own: DerivedFrom, *values: int) -> Commit:
    """An append of these ids that moves a cursor."""
    data = rows(*values) if values else rows(1).slice(0, 0)
    return append(table.context, data, CommitOptions(derived_from=own))


def cursors(table: Table, version: int | None = None) -> Moves:
    """Return the cursors by the package. The other reader must agree."""
    view = handle(table.context.store).context.view
    at = view.head.version if version is None else version
    found = {key: cursor.to for key, cursor in cursors_at(view, at).items()}
    state = logdump.read(table.uri, as_of=at)["state"]
    assert {(c["source"], c["name"]): c["to"] for c in state["cursors"]} == found
    return found


def test_an_entry_without_rows_moves_a_cursor() -> None:
    """CFL-24, ENT-15: an entry without other content is committed because of its cursor."""
    table = new_table()
    assert take(table, derived(None, 3)).version == 1
    options = CommitOptions(derived_from=derived(3, 4))
    done = delete(table.context, "id = 9", options)
    assert (done.version, done.no_op) == (2, False)
    assert cursors(table) == {(HERE, ""): 4}
    entry = logdump.read(table.uri)["entries"][-1]["entry"]
    assert {"add", "remove", "delete"}.isdisjoint(entry)


def test_a_cursor_is_by_source_and_name() -> None:
    """RPL-7."""
    table = new_table()
    take(table, derived(None, 3), 1)
    take(table, derived(None, 0, THERE), 2)
    take(table, derived(None, 9, HERE, "other"), 3)
    take(table, derived(3, 5), 4)
    assert cursors(table) == {(HERE, ""): 5, (THERE, ""): 0, (HERE, "other"): 9}
    assert cursors(table, 2) == {(HERE, ""): 3, (THERE, ""): 0}


@pytest.mark.parametrize("own", [derived(None, 4), derived(2, 4), derived(3, 4, name="new")])
def test_a_cursor_that_is_elsewhere_is_refused_at_the_start(own: DerivedFrom) -> None:
    """CFL-24: the files are removed, and nothing is in the table."""
    table = new_table()
    take(table, derived(None, 3), 1)
    with pytest.raises(ConcurrentTransactionException) as caught:
        take(table, own, 2)
    assert caught.value.rule == "CFL-24"
    assert "Run the pipe again" in str(caught.value)
    assert ids(table) == [1]
    assert len(list(table.context.store.list_after("data/"))) == 1


class Late(ForwardingStore):
    """Lets something happen right before the next entry is put."""

    def __init__(self, inner: Store, happens: Any) -> None:
        super().__init__(inner)
        self._happens = happens

    def put_if_absent(self, key: str, data: bytes) -> Any:
        happens, self._happens = self._happens, None
        if happens is not None and key.startswith("_log/0"):
            happens()
        else:
            self._happens = happens
        return super().put_if_absent(key, data)


def test_of_two_runs_at_once_one_commits() -> None:
    """CFL-24: the second run finds the first among any number of concurrent commits."""
    table = new_table()
    take(table, derived(None, 3), 1)
    store = table.context.store
    other = handle(store)

    def race() -> None:
        for value in range(10, 30):
            other.append(rows(value))
        take(other, derived(3, 5), 2)
        other.append(rows(30))

    slow = behind(table, Late(store, race))
    with pytest.raises(ConcurrentTransactionException) as caught:
        take(slow, derived(3, 4), 2)
    assert (caught.value.rule, caught.value.winner_version) == ("CFL-24", 22)
    assert "Run the pipe again" in str(caught.value)
    assert caught.value.evidence["theirs"] == 5
    assert ids(table.refresh() or table) == [1, 2, *range(10, 31)]


def test_others_are_no_obstacle() -> None:
    """CFL-24: appends, cursors of other sources and names; the re-base is one of metadata."""
    table = new_table()
    store = table.context.store
    other = handle(store)

    def race() -> None:
        other.append(rows(10))
        take(other, derived(None, 5, THERE), 11)
        take(other, derived(None, 5, name="other"), 12)

    slow = behind(table, Late(store, race))
    assert take(slow, derived(None, 4), 1).rebased_over == (1, 2, 3)
    assert cursors(table) == {(HERE, ""): 4, (THERE, ""): 5, (HERE, "other"): 5}


def test_a_restore_takes_cursors_back() -> None:
    """RET-3, ENT-16: to where they were, or to nothing; and what is taken begins there."""
    table = new_table()
    take(table, derived(None, 3), 1)
    take(table, derived(3, 4), 2)
    take(table, derived(None, 7, THERE), 3)
    table.restore(version=1)
    assert cursors(table) == {(HERE, ""): 3, (THERE, ""): None}
    assert ids(table) == [1]
    assert table.restore(version=1).no_op
    table.restore(version=3)
    assert cursors(table) == {(HERE, ""): 4, (THERE, ""): 7}
    table.restore(version=0)
    assert cursors(table) == {(HERE, ""): None, (THERE, ""): None}
    take(table, derived(None, 9), 4)
    assert (ids(table), cursors(table)[HERE, ""]) == ([4], 9)


def test_a_restore_of_the_same_files_takes_cursors_back_too() -> None:
    """RET-1: the rows taken since were not kept, and the next run takes them again."""
    table = new_table()
    take(table, derived(None, 3), 1)
    take(table, derived(3, 4))
    assert table.restore(version=1).version == 3
    assert cursors(table) == {(HERE, ""): 3}


def test_a_restore_meets_a_cursor_and_a_cursor_a_restore() -> None:
    """CFL-24, RET-3: the cursors to move back are computed for the version that it follows."""
    table = new_table()
    take(table, derived(None, 3), 1)
    take(table, derived(3, 4), 2)
    store = table.context.store
    other = handle(store)
    restoring = behind(table, Late(store, lambda: take(other, derived(4, 6), 3)))
    restoring.restore(version=1)
    assert cursors(table) == {(HERE, ""): 3}
    other.refresh()
    slow = behind(other, Late(store, lambda: table.restore(version=0)))
    with pytest.raises(ConcurrentTransactionException) as caught:
        take(slow, derived(3, 4), 2)
    assert caught.value.evidence["theirs"] is None
    assert ids(handle(store)) == []


def test_a_restore_of_before_the_checkpoint_finds_the_cursors() -> None:
    """RPL-7, CKP-2: an older checkpoint or entries have the cursors."""
    for older in (False, True):
        table = new_table()
        take(table, derived(None, 3), 1)
        if older:
            table.checkpoint()
        take(table, derived(3, 4), 2)
        table.append(rows(3))
        table.checkpoint()
        table.append(rows(4))
        opened = handle(table.context.store)
        assert opened.context.view.base.version == 3
        opened.restore(version=2)
        assert cursors(table) == {(HERE, ""): 4}
        opened.restore(version=1)
        assert cursors(table) == {(HERE, ""): 3}


def test_entries_that_were_skipped_are_read_before_a_cursor_is_believed() -> None:
    """RPL-7: an append that lost a race checks only the headers of the entries between."""
    table = new_table()
    take(table, derived(None, 3), 1)
    store = table.context.store
    other = handle(store)

    def race() -> None:
        take(other, derived(3, 4), 2)
        other.append(rows(10))

    behind(table, Late(store, race)).append(rows(11))
    warm = handle(store)
    late = behind(
        warm, Late(store, lambda: [take(other, derived(4, 5), 3), other.append(rows(12))])
    )
    late.append(rows(13))
    take(late, derived(5, 6), 4)
    take(other, derived(6, 8), 5)
    late.refresh()
    assert cursors(table) == {(HERE, ""): 8}


def test_a_table_without_pipes_pays_nothing() -> None:
    """RPL-7: a restore of a version before the checkpoint asks no more than it did."""
    table = new_table()
    table.append(rows(1))
    table.append(rows(2))
    table.checkpoint()
    table.append(rows(3))
    store = CountingStore(table.context.store)
    opened = behind(table, store)
    assert cursors_at(opened.context.view, 1) == {}
    assert store.requests == []


@pytest.mark.broken_tables
def test_a_cursor_out_of_place_is_damage() -> None:
    """RPL-7: a wrong entry of another writer is refused, and is no conflict."""
    table = new_table()
    take(table, derived(None, 3), 1)
    view = LogView.open(table.context.store)
    entry = next_entry(view, derived_from=derived(4, 5))
    table.context.store.put_if_absent(entry_key(2), encode(entry))
    with pytest.raises(CorruptTableError) as caught:
        handle(table.context.store)
    assert caught.value.rule == "RPL-7"


def test_a_dropped_table_forgets() -> None:
    """ENT-14, RPL-7: the table that comes after it begins with none."""
    store = memory()
    table = new_table(store)
    take(table, derived(None, 3), 1)
    tablefmt.drop(table.uri)
    assert cursors(new_table(store)) == {}
