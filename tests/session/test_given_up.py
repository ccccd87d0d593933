"""Versions that are given up during work on them: no verb reports damage.

Spec: DAT-5, ENT-13, ENT-14.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tablefmt.errors import CorruptDataError, TableNotFoundError, VersionNotFoundError
from tablefmt.maintenance.drop import drop_at
from tablefmt.operations.transaction import Transaction
from tablefmt.session.commit_options import CommitOptions
from tablefmt.store.object_store import Store
from tablefmt.table import Table
from tests.tables import data_files, handle, ids, live_files, memory, new_table, rows

VERBS: dict[str, Callable[[Transaction], Any]] = {
    "scan": lambda work: work.scan().to_arrow(),
    "delete": lambda work: work.delete("id = 1"),
    "update": lambda work: work.update({"id": "id + 1"}, "id = 1"),
    "overwrite": lambda work: work.overwrite(rows(3), where="id >= 3"),
    "merge": lambda work: (
        work.merge(rows(1, 9), "s.id = t.id")
        .when_matched_delete()
        .when_not_matched_insert_all()
        .execute()
    ),
    "compact": lambda work: work.compact("major"),
    "cluster": lambda work: work.cluster(["id"]),
    "append": lambda work: work.append(work.scan()),
    "constraint": lambda work: work.alter.add_constraint("small", "id % 7 < 7"),
}
MODES = ["merge-on-read", "copy-on-write"]


def begun(mode: str) -> tuple[Store, Table, Transaction]:
    """Return a transaction on a version of two files, each with a deleted row and live ones.

    Another handle has overwritten the table since.
    """
    store = memory()
    table = new_table(store, deleteMode=mode)
    table.append(rows(1, 2, 3, 4))
    table.append(rows(5, 6, 7, 8))
    table.delete("id IN (2, 6)")
    work = table.transaction()
    handle(store).overwrite(rows(100))
    return store, table, work


@pytest.mark.share(2)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_says_that_its_version_was_given_up(verb: str, mode: str) -> None:
    """ENT-13: no file of the transaction stays."""
    store, _, work = begun(mode)
    handle(store).vacuum(retention=0, dry_run=False, breaks_running_transactions=True)
    with pytest.raises(VersionNotFoundError, match=r"version 3 is .* from 4 to 5"):
        VERBS[verb](work)
    work.abort()
    assert data_files(store) == live_files(store)
    assert ids(handle(store)) == [100]


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_says_that_its_table_was_dropped(verb: str) -> None:
    """ENT-14: the data is deleted too."""
    store, _, work = begun(MODES[0])
    drop_at(store, CommitOptions(), delete_data=True)
    with pytest.raises(TableNotFoundError, match="version 5 dropped it"):
        VERBS[verb](work)
    work.abort()
    assert data_files(store) == []


@pytest.mark.broken_tables
@pytest.mark.parametrize("verb", VERBS)
def test_a_file_that_a_kept_version_lacks_is_damage(verb: str) -> None:
    """DAT-5."""
    store, table, work = begun(MODES[0])
    for path in table.scan(version=3).files()["path"].to_pylist():
        store.delete(path)
    with pytest.raises(CorruptDataError, match="it is missing"):
        VERBS[verb](work)
    work.abort()
