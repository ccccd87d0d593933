"""Drop: a table ends, its log stays, and another one may begin there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

import tablefmt
from tablefmt.errors import (
    InvalidRangeError,
    ProtocolChangedException,
    TableExistsError,
    TableNotFoundError,
    TableReplacedError,
    VersionNotFoundError,
)
from tablefmt.maintenance.drop import drop_at
from tablefmt.operations.create import create
from tablefmt.operations.save_modes import write
from tablefmt.session.commit_options import CommitOptions
from tablefmt.snapshot.log_view import LogView
from tablefmt.store.location import open_store
from tablefmt.store.memory_store import MemoryStore
from tablefmt.store.store_wrappers import CountingStore
from tablefmt.table import Table
from tests.tables import (
    Clock,
    Dated,
    assert_sound,
    behind,
    data_files,
    handle,
    ids,
    live_files,
    memory,
    new_table,
    rows,
)


def made() -> tuple[MemoryStore, Table]:
    """Versions 0 to 2 with the rows 1 and 2."""
    store = memory()
    table = new_table(store)
    table.append(rows(1), application=("job", 7))
    table.append(rows(2))
    return store, table


def test_a_dropped_table_is_not_there() -> None:
    """ENT-14: the log stays."""
    uri = "memory://dropped"
    table = tablefmt.create(uri, "id BIGINT")
    table.append({"id": [1]})
    commit_result = tablefmt.drop(uri)
    assert (commit_result.version, commit_result.operation) == (2, "DROP TABLE")
    assert not tablefmt.exists(uri)
    for call in (lambda: tablefmt.open(uri), lambda: tablefmt.drop(uri)):
        with pytest.raises(TableNotFoundError, match="version 2 dropped it"):
            call()
    with pytest.raises(TableNotFoundError):
        tablefmt.drop("memory://never")
    with pytest.raises(InvalidRangeError):
        tablefmt.drop(uri, application="me")  # type: ignore[arg-type]


WARM: dict[str, Callable[[Table], Any]] = {
    "append": lambda t: t.append(rows(9)),
    "delete": lambda t: t.delete("id = 1"),
    "update": lambda t: t.update({"id": "0"}),
    "overwrite": lambda t: t.overwrite(rows(9)),
    "alter": lambda t: t.alter.add_column("q", "INT"),
    "restore": lambda t: t.restore(version=1),
    "refresh": lambda t: t.refresh(),
    "transaction": lambda t: t.transaction(),
    "history": lambda t: t.history(),
    "changes": lambda t: t.changes(after_version=0).to_arrow(),
    "vacuum": lambda t: t.vacuum(dry_run=False),
}


@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize("name", WARM)
def test_warm_handles_are_told(name: str, again: bool) -> None:
    """ENT-14, RET-8: the table may have been recreated.

    Every further call raises the error again.
    """
    store, table = made()
    warm = behind(table, store)
    drop_at(store, CommitOptions())
    if again:
        create(store, "other STRING")
    before = LogView.open(store, ended=True).head.version
    for _ in range(2):
        with pytest.raises((TableReplacedError, TableNotFoundError)):
            WARM[name](warm)
    assert LogView.open(store, ended=True).head.version == before


def test_a_reader_goes_on_until_it_hears_of_it() -> None:
    """ENT-14, RET-8: its files still exist. The next refresh raises an error."""
    store, table = made()
    warm = behind(table, store)
    drop_at(store, CommitOptions())
    assert ids(warm) == [1, 2]
    for read in (warm.refresh, warm.to_arrow):
        with pytest.raises(TableReplacedError, match="dropped, by version 3"):
            read()


def test_a_transaction_that_was_under_way_is_told() -> None:
    """ENT-14: the new table's entry cannot be read as one of this table (CMT-12).

    Its files are removed.
    """
    store, table = made()
    works = [table.transaction().append(rows(9)), table.transaction().update({"id": "0"})]
    files = len(data_files(store))
    assert files == 4
    drop_at(store, CommitOptions())
    create(store, "id BIGINT, p STRING")
    for work in works:
        with pytest.raises(TableReplacedError, match="dropped, by version 3"):
            work.commit()
    assert len(data_files(store)) == 2
    assert ids(handle(store)) == []


def test_another_table_goes_on_counting() -> None:
    """ENT-14: versions, times, ids of files; and nothing else is of the old one."""
    store, table = made()
    old = {table.id, *data_files(store)}
    drop_at(store, CommitOptions())
    fresh = Table(create(store, "id BIGINT, p STRING, extra DATE", partition_by=["p"]))
    assert (fresh.version, fresh.oldest_version, fresh.partition_by) == (4, 4, ["p"])
    assert fresh.id not in old
    assert ids(fresh) == []
    row = {"id": [5], "p": ["x"], "extra": pa.array([None], pa.date32())}
    assert fresh.append(pa.table(row), application=("job", 1)).version == 5
    for reader in (fresh, handle(store)):
        assert ids(reader) == [5]
        for version in (0, 2, 3):
            with pytest.raises(VersionNotFoundError, match="from 4 to 5"):
                reader.scan(version=version)
        with pytest.raises(VersionNotFoundError):
            reader.restore(version=2)
    assert not set(live_files(store)) & old
    stamps = list(handle(store).context.view.timeline.timestamps)
    assert stamps == sorted(set(stamps))
    assert_sound(store)
    drop_at(store, CommitOptions())
    again = Table(create(store, "x INT"))
    assert (again.version, again.oldest_version) == (7, 7)
    assert_sound(store)


def test_a_new_table_in_its_place_by_rows_and_by_writing() -> None:
    """ENT-14: all ways that make a table."""
    uri = "memory://anew"
    for number, make in enumerate(
        [
            lambda: tablefmt.create(uri, {"id": [1]}),
            lambda: tablefmt.write({"id": [1]}, uri),
            lambda: tablefmt.create(uri, "id BIGINT", exist_ok=True).append({"id": [1]}),
        ]
    ):
        make()
        assert tablefmt.open(uri).to_arrow()["id"].to_pylist() == [1]
        with pytest.raises(TableExistsError):
            tablefmt.create(uri, "id BIGINT")
        assert tablefmt.drop(uri).version == 3 * number + 2


def test_of_two_that_make_one_anew_one_does() -> None:
    """CFL-4, ENT-14."""
    store, _ = made()
    drop_at(store, CommitOptions())
    counting = CountingStore(store)
    won: list[str] = []

    class Late(CountingStore):
        def put_if_absent(self, key: str, body: bytes) -> Any:
            if not won:
                won.append(create(store, "id BIGINT, p STRING").view.head.table)
            return super().put_if_absent(key, body)

    with pytest.raises(ProtocolChangedException, match="another writer created the table"):
        create(Late(counting), "id BIGINT, p STRING")
    won.clear()
    drop_at(store, CommitOptions())
    joined = create(Late(counting), "id BIGINT, p STRING", exist_ok=True)
    assert joined.view.head.table == won[0]
    assert_sound(store)


@pytest.mark.parametrize("mode", ["append", "overwrite", "ignore", "error"])
def test_a_write_that_loses_the_race_for_a_dropped_place_writes_to_the_new_table(mode: str) -> None:
    """CFL-4, ENT-14: the mode applies to it, like to any existing table."""
    uri = f"memory://lost-race-{mode}"
    tablefmt.create(uri, "id BIGINT")
    tablefmt.drop(uri)
    store = open_store(uri)
    won: list[int] = []

    class Late(CountingStore):
        def put_if_absent(self, key: str, body: bytes) -> Any:
            if not won and key.endswith(".json"):
                won.append(create(store, "id BIGINT").view.head.version)
            return super().put_if_absent(key, body)

    if mode == "error":
        with pytest.raises(TableExistsError):
            write(Late(store), {"id": [1]}, CommitOptions(), mode=mode)
    else:
        write(Late(store), {"id": [1]}, CommitOptions(), mode=mode)
    written = [1] if mode in ("append", "overwrite") else []
    assert (won, ids(handle(store))) == ([2], written)


def test_a_drop_rebases_onto_every_concurrent_commit() -> None:
    """RET-8: rows and metadata of concurrent commits are dropped too."""
    wins: list[Callable[[Table], object]] = [
        lambda t: t.append(rows(3)),
        lambda t: t.overwrite(rows(3)),
        lambda t: t.alter.add_column("q", "INT"),
    ]
    for win in wins:
        store, table = made()

        class Late(CountingStore):
            def put_if_absent(self, key: str, body: bytes) -> Any:
                if key.endswith("03.json") and self.requests[-1:] != [("done", "")]:
                    self.requests.append(("done", ""))
                    win(table)  # noqa: B023 - called at once
                return self.inner.put_if_absent(key, body)

        assert drop_at(Late(store), CommitOptions()).version == 4
        with pytest.raises(TableNotFoundError):
            handle(store)
    store, table = made()
    late = LogView.open(store)
    drop_at(store, CommitOptions())
    with pytest.raises(TableReplacedError):
        late.refresh()


def test_the_last_entry_keeps_no_version_before() -> None:
    """ENT-14: nor does the first entry of the next table."""
    table = new_table()
    store = table.context.store
    table.append(rows(1))
    drop_at(store, CommitOptions())
    ended = LogView.open(store, ended=True)
    assert (ended.head.version, ended.head.totals.oldest) == (2, 2)
    again = new_table(store)
    assert (again.version, again.context.view.head.totals.oldest) == (3, 3)


def test_data_goes_when_it_is_asked_for() -> None:
    """RET-8: the data is removed at once or later. Foreign files stay."""
    for later in (False, True):
        store, table = made()
        table.delete("id = 1")
        store.put("data/notes.txt", b"mine")
        if later:
            drop_at(store, CommitOptions())
            assert len(data_files(store)) == 3
        commit_result = drop_at(store, CommitOptions(), delete_data=True)
        assert (commit_result.version, commit_result.no_op) == (4, later)
        assert data_files(store) == ["data/notes.txt"]
        assert drop_at(store, CommitOptions(), delete_data=True).no_op
        with pytest.raises(TableNotFoundError):
            handle(store)
        create(store, "id BIGINT")
        assert_sound(store)


def test_a_vacuum_of_the_next_table_removes_what_is_left() -> None:
    """RET-6, RET-8: the age of the files decides. The log stays."""
    clock = Clock()
    store = Dated(clock)
    new_table(store, clock=clock).append(rows(1))
    drop_at(store, CommitOptions(), environment=clock.environment())
    fresh = new_table(store, clock=clock)
    fresh.append(rows(2))
    assert len(data_files(store)) == 2
    clock.forward(30 * 86_400)
    assert fresh.vacuum(dry_run=False).deleted == 1
    assert data_files(store) == live_files(store)
    assert ids(handle(store)) == [2]
    assert_sound(store)
