"""Compactions that follow writes by themselves: bounded, aside, and never the writer's trouble."""

from __future__ import annotations

import dataclasses
import logging
import threading
from collections.abc import Callable
from typing import Any

import pytest

import tablefmt
from tablefmt.errors import StoreError
from tablefmt.operations import automatic_compaction
from tablefmt.store.object_store import Store
from tablefmt.store.store_wrappers import ForwardingStore
from tablefmt.table import Table, open_at
from tests.tables import Clock, assert_sound, by_hand, handle, ids, memory, new_table, rows

Work = Callable[[], None]


def inline(store: Store, clock: Clock | None = None) -> Table:
    """A handle that does at once what it would do aside."""
    environment = (clock or Clock()).environment()
    return open_at(store, dataclasses.replace(environment, aside=lambda work: work()))


@pytest.mark.parametrize("properties", [{}, {"autoCompact": "true", "deleteMode": "copy-on-write"}])
def test_nothing_happens_unless_the_table_says_so(properties: dict[str, str]) -> None:
    """CMP-7."""
    store = memory()
    new_table(store, **properties)  # type: ignore[arg-type]
    table = inline(store)
    for n in range(60):
        table.append(rows(n))
    assert handle(store).version == 60


def test_many_small_files_are_put_together_and_the_writer_stays_where_it_is() -> None:
    """CMP-7: after fifty files more, and again; the handle is at the version that it wrote."""
    store = memory()
    new_table(store, autoCompact="true")
    table = inline(store)
    for n in range(120):
        commit = table.append(rows(n))
        assert commit.operation == "WRITE"
        assert table.version == commit.version
    operations = handle(store).history()["operation"].to_pylist()
    assert [at for at, name in enumerate(operations[::-1]) if name == "COMPACT MINOR"] == [51, 102]
    fresh = handle(store)
    assert fresh.scan().files().num_rows == 21
    assert ids(fresh) == by_hand(store) == list(range(120))
    assert_sound(store)


def test_a_few_files_are_left_and_so_is_what_is_beyond_the_bound(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """CMP-7: ten files at least go together; no more bytes than the bound in one go."""
    store = memory()
    new_table(store, partitioned=True, autoCompact="true")
    table = inline(store)
    monkeypatch.setattr(automatic_compaction, "MOST_BYTES", 1)
    for n in range(50):
        table.append(rows(n, p="few" if n % 10 == 0 else "many" if n % 2 else "more"))
    counts = handle(store).scan().files()["partition"].to_pylist()
    found = sorted([p["p"] for p in counts].count(name) for name in ("few", "many", "more"))
    assert found == [1, 5, 20]


def test_what_is_beyond_the_bound_is_looked_at_after_the_next_write(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """CMP-7: the next write compacts them, not only the fiftieth."""
    store = memory()
    new_table(store, partitioned=True, autoCompact="true")
    idle = dataclasses.replace(Clock().environment(), aside=lambda work: None)
    writer = open_at(store, idle)
    for n in range(90):
        writer.append(rows(n, p="abc"[n % 3]))
    monkeypatch.setattr(automatic_compaction, "MOST_BYTES", 1)
    table = inline(store)
    counts = []
    for n in range(90, 93):
        table.append(rows(n, p="d"))
        counts.append(handle(store).scan().files().num_rows)
    assert counts == [62, 34, 35]
    assert ids(handle(store)) == by_hand(store) == list(range(93))


class NoSpace(ForwardingStore):
    """Refuses data files that another thread than the first writes."""

    def put(self, key: str, body: bytes) -> None:
        if key.startswith("data/") and threading.current_thread() is not threading.main_thread():
            raise StoreError("the disk is full")
        self.inner.put(key, body)


def test_a_compaction_that_fails_is_not_the_writers_trouble(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """CMP-7: it is logged, leaves no file, and is tried again."""
    store = memory()
    new_table(store, autoCompact="true")

    def elsewhere(work: Work) -> None:
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()

    environment = dataclasses.replace(Clock().environment(), aside=elsewhere)
    table = open_at(NoSpace(store), environment)
    caplog.set_level(logging.WARNING, "tablefmt")
    for n in range(52):
        assert table.append(rows(n)).version == n + 1
    assert {record.message for record in caplog.records} == {
        "automatic compaction failed: the commit was rejected: the disk is full. Nothing of it "
        "is in the table; fix the cause and run the operation again."
    }
    assert len(list(store.list_after("data/"))) == 52
    assert inline(store).append(rows(99)).version == 53
    assert handle(store).version == 54


@pytest.mark.parametrize(
    "error",
    [RuntimeError("can't start new thread at shutdown"), MemoryError(), OSError()],
    ids=repr,
)
def test_a_thread_that_cannot_start_is_no_error(error: Exception) -> None:
    """CMP-7: the interpreter ends, or memory is full. Later writes try again."""
    store = memory()
    new_table(store, autoCompact="true")

    tries = []

    def refused(work: Work) -> None:
        tries.append(work)
        raise error

    table = open_at(store, dataclasses.replace(Clock().environment(), aside=refused))
    for n in range(60):
        table.append(rows(n))
    assert handle(store).version == 60
    assert len(tries) == 11


@pytest.mark.slow
def test_writers_and_compactions_at_once_lose_nothing(tmp_path: Any) -> None:
    """CMP-7, CFL-13, CFL-14: real threads on a disk, deletes among the appends."""
    table = tablefmt.create(tmp_path / "t", "id BIGINT, p STRING", properties={"autoCompact": True})

    def write(first: int) -> None:
        mine = tablefmt.open(tmp_path / "t")
        for n in range(first, first + 40):
            mine.append(rows(n))
            if n % 5 == 0:
                mine.delete(f"id = {n}")

    threads = [threading.Thread(target=write, args=(1000 * at,)) for at in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for thread in threading.enumerate():
        if thread.name == "tablefmt-aside":
            thread.join()
    expected = [1000 * at + n for at in range(3) for n in range(40) if n % 5]
    assert ids(table.refresh()) == expected
    assert "COMPACT MINOR" in table.history()["operation"].to_pylist()
    assert_sound(table.context.store)
