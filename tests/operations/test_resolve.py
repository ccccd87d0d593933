"""The outcome of a commit, if its entries have expired or belong to another table."""

from __future__ import annotations

from itertools import count

import pytest

import tablefmt
from tablefmt.errors import CommitUnknownError, TableReplacedError
from tablefmt.log.log_reader import read_tail
from tablefmt.model.log_entry import StoredEntry
from tablefmt.operations import resolve
from tablefmt.store.object_store import Store
from tests.tables import handle, memory, new_table, rows

_numbers = count()


def test_of_entries_that_were_removed_nothing_is_told() -> None:
    """CMT-9, RET-9: the outcome is neither "free" nor "ask again". Kept commits are found."""
    store = memory()
    table = new_table(store)
    old = [table.append(rows(number)).transaction for number in range(12)]
    table.expire_log(retention=0, dry_run=False, breaks_running_transactions=True)
    newest = table.append(rows(99))
    fresh = handle(store)
    for arguments in ((old[3], 4), (old[3], 0), (old[3], None), ("0" * 32, 5)):
        with pytest.raises(CommitUnknownError, match="begins at version 12") as caught:
            fresh.resolve(*arguments)
        assert "resolve(" not in str(caught.value)
        assert "Check if its rows are in the table" in str(caught.value)
        assert caught.value.transaction == arguments[0]
    for version in (None, 4, 12, newest.version):
        found = fresh.resolve(newest.transaction, version)
        assert found is not None
        assert (found.version, found.transaction) == (newest.version, newest.transaction)
    # The entries of the log decide as before.
    assert fresh.resolve("0" * 32, 13) is None
    with pytest.raises(CommitUnknownError, match=r"still free.*resolve\("):
        fresh.resolve("0" * 32, newest.version + 1)


def test_a_commit_of_the_table_that_was_here_before_is_not_this_ones() -> None:
    """CMT-9, ENT-14."""
    uri = f"memory://resolved-{next(_numbers)}"
    before = tablefmt.create(uri, "id INT").append({"id": [1]})
    tablefmt.drop(uri)
    table = tablefmt.create(uri, "id INT")
    own = table.append({"id": [2]})
    for version in (before.version, None):
        with pytest.raises(TableReplacedError, match="version 1 of a dropped table"):
            table.resolve(before.transaction, version)
    assert table.resolve("0" * 32, before.version) is None
    found = table.resolve(own.transaction)
    assert found is not None
    assert found.version == own.version == 4


def test_a_commit_that_comes_in_while_it_is_asked_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    """CMT-9: the version is free at the first probe, and taken by another writer at the second."""
    store = memory()
    table = new_table(store)
    look = read_tail

    def slow(asked: Store, version: int) -> list[StoredEntry]:
        found = look(asked, version)
        handle(store).append(rows(1))
        return found

    monkeypatch.setattr(resolve, "read_tail", slow)
    assert table.resolve("0" * 32, 1) is None
