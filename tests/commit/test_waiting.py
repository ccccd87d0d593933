"""Who waits for the store waits alone: readers of the handle go on, and so do other deadlines."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest

from tablefmt.errors import CommitRejectedError
from tablefmt.log import side_files
from tablefmt.log.names import entry_key
from tablefmt.session.scan import Scan
from tablefmt.store.wrap import CountingStore
from tablefmt.table import Table
from tests.tables import assert_sound, behind, handle, ids, new_table, rows

SOON = 30.0


class Slow(CountingStore):
    """Requests whose key ends so wait till they are let go of."""

    def __init__(self, inner: Any, verb: str, ending: str) -> None:
        super().__init__(inner)
        self.slow = (verb, ending)
        self.begun, self.go = threading.Event(), threading.Event()

    def _wait(self, verb: str, key: str) -> None:
        if verb == self.slow[0] and key.endswith(self.slow[1]) and not self.go.is_set():
            self.begun.set()
            assert self.go.wait(SOON)

    def put_if_absent(self, key: str, body: bytes) -> Any:
        self._wait("put", key)
        return super().put_if_absent(key, body)

    def get(self, key: str) -> bytes:
        self._wait("get", key)
        return super().get(key)

    def get_many(self, keys: Any) -> list[bytes | None]:
        for key in keys:
            self._wait("get", key)
        return super().get_many(keys)


@contextmanager
def under_way(slow: Slow, work: Callable[[], Any]) -> Iterator[Any]:
    """The work, held at its slow request; it ends with the block."""
    with ThreadPoolExecutor(1) as pool:
        found = pool.submit(work)
        try:
            assert slow.begun.wait(SOON)
            yield found
            assert not found.done()
        finally:
            slow.go.set()


def in_time(work: Callable[[], Any]) -> Any:
    """What the work gives; it must not wait for what is held."""
    pool = ThreadPoolExecutor(1)
    try:
        return pool.submit(work).result(SOON / 3)
    finally:
        pool.shutdown(wait=False)


READS: dict[str, Callable[[Table], Any]] = {
    "version": lambda table: table.version,
    "timestamp": lambda table: table.timestamp,
    "schema": lambda table: table.schema.names,
    "to_arrow": lambda table: table.to_arrow().to_pylist(),
    "an old version": lambda table: table.to_arrow(version=1).to_pylist(),
    "scan": lambda table: table.scan(where="id > 1").files().to_pylist(),
    "history": lambda table: table.history().to_pylist(),
    "changes": lambda table: table.changes(starting_version=1).to_arrow().to_pylist(),
    "refresh": lambda table: table.refresh().version,
}


@pytest.mark.parametrize("statement", ["append", "overwrite", "delete"])
def test_readers_of_a_handle_do_not_wait_for_its_commit(statement: str) -> None:
    """CMT-11: they see what was there before."""
    table = new_table()
    table.append(rows(1, 2))
    table.append(rows(3))
    wanted = {name: read(handle(table.context.store)) for name, read in READS.items()}
    slow = Slow(table.context.store, "put", entry_key(3))
    late = behind(table, slow)
    work: dict[str, Callable[[], Any]] = {
        "append": lambda: late.append(rows(4)),
        "overwrite": lambda: late.overwrite(rows(4)),
        "delete": lambda: late.delete("id = 1"),
    }
    with under_way(slow, work[statement]) as commit:
        for name, read in READS.items():
            assert in_time(lambda read=read: read(late)) == wanted[name], name
    assert commit.result().version == late.version == 3
    after = {"append": [1, 2, 3, 4], "overwrite": [4], "delete": [2, 3]}
    assert ids(late) == ids(handle(slow.inner)) == after[statement]


@pytest.mark.parametrize("verb", ["refresh", "commit"])
def test_readers_do_not_wait_for_the_log_to_be_read(verb: str) -> None:
    """CMT-11: by a refresh, or by a commit that lost a race."""
    table = new_table()
    table.append(rows(1))
    slow = Slow(table.context.store, "get", entry_key(2))
    late = behind(table, slow)
    table.append(rows(2))
    work = late.refresh if verb == "refresh" else lambda: late.append(rows(3))
    quick = [name for name in READS if name not in ("refresh", "history", "changes")]
    wanted = {name: READS[name](late) for name in quick}
    with under_way(slow, work):
        for name in quick:
            assert in_time(lambda name=name: READS[name](late)) == wanted[name], name
    assert ids(late) == ids(handle(slow.inner)) == ([1, 2] if verb == "refresh" else [1, 2, 3])


def test_readers_do_not_wait_for_side_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """CMT-11: one thread gets the columns of a large commit, another reads an older version."""
    monkeypatch.setattr("tablefmt.commit.side_files.SIDE_FROM_FILES", 2)
    monkeypatch.setattr("tablefmt.commit.side_files.SIDE_ABOVE_BYTES", 1)
    table = new_table(partitioned=True)
    table.append(rows(1))
    reader = handle(table.context.store)
    old = reader.scan()
    table.append(rows(2, 3, p=["a", "b"]))
    commit = table.history(1)["transaction"][0].as_py()
    slow = Slow(table.context.store, "get", side_files.side_key(commit))  # type: ignore[attr-defined]
    late = behind(reader, slow)
    late.context.view = reader.context.view
    reader.context.view.store = slow
    late.refresh()
    with under_way(slow, late.to_arrow) as found:
        assert in_time(lambda: late.timestamp) == table.timestamp
        assert in_time(lambda: [s.version for s in late.context.view.entries_after(0)]) == [1, 2]
        assert in_time(old.to_arrow)["id"].to_pylist() == [1]
    assert sorted(found.result()["id"].to_pylist()) == [1, 2, 3]


def test_one_scan_does_not_wait_for_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """CMT-11: nor for the same value of another object, as with functools.cached_property."""
    table = new_table()
    table.append(rows(1))
    first, second = table.scan(), table.scan()
    begun, go = threading.Event(), threading.Event()
    matching = Scan.survivors.func

    def slow(scan: Scan) -> Any:
        if scan is first:
            begun.set()
            assert go.wait(SOON)
        return matching(scan)

    monkeypatch.setattr(Scan.survivors, "func", slow)
    with ThreadPoolExecutor(1) as pool:
        held = pool.submit(first.to_arrow)
        try:
            assert begun.wait(SOON)
            assert in_time(second.to_arrow)["id"].to_pylist() == [1]
        finally:
            go.set()
        assert held.result(SOON)["id"].to_pylist() == [1]


@pytest.mark.parametrize("same_handle", [True, False])
def test_a_deadline_counts_while_one_waits_for_a_turn(same_handle: bool) -> None:
    """CMT-8: nothing was sent, so it is a rejection, and its data files are gone."""
    table = new_table()
    table.append(rows(1))
    slow = Slow(table.context.store, "put", entry_key(2))
    first = behind(table, slow)
    second = first if same_handle else behind(table, CountingStore(table.context.store))
    with under_way(slow, lambda: first.append(rows(2))):
        with pytest.raises(CommitRejectedError, match="deadline"):
            in_time(lambda: second.append(rows(3), deadline=0.2))
        assert isinstance(second.context.store, CountingStore)
        sent = [key for verb, key in second.context.store.requests if verb == "put_if_absent"]
        assert sent == []
    assert ids(handle(slow.inner)) == [1, 2]
    assert_sound(slow.inner)
