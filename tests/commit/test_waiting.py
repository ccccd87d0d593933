"""A commit that waits for the store blocks only itself: reads and other deadlines go on."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any

import pytest

from tablefmt.commit.commit_queue import CommitQueue, queue_of
from tablefmt.errors import CommitRejectedError
from tablefmt.log import overflow_metadata
from tablefmt.log.object_names import entry_key
from tablefmt.session.table_context import TableContext
from tablefmt.session.table_scan import Scan
from tablefmt.store.object_store import NoAnswer
from tablefmt.store.store_wrappers import CountingStore, ForwardingStore
from tablefmt.table import Table
from tests.tables import assert_sound, behind, handle, ids, new_table, rows

SOON = 30.0


class Slow(CountingStore):
    """A store that holds back requests for keys with an ending until `go` is set."""

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

    def get_range(self, key: str, start: int, length: int) -> bytes:
        self._wait("get", key)
        return super().get_range(key, start, length)

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
    """Return the result of the work. It must not wait for the held request."""
    pool = ThreadPoolExecutor(1)
    try:
        return pool.submit(work).result(SOON / 3)
    finally:
        pool.shutdown(wait=False)


READS: dict[str, Callable[[Table], Any]] = {
    "version": lambda table: table.version,
    "timestamp": lambda table: table.timestamp,
    "schema": lambda table: table.schema.names,
    "properties": lambda table: (table.properties, table.partition_by, table.constraints),
    "repr": repr,
    "to_arrow": lambda table: table.to_arrow().to_pylist(),
    "an old version": lambda table: table.to_arrow(version=1).to_pylist(),
    "scan": lambda table: table.scan(where="id > 1").files().to_pylist(),
    "history": lambda table: table.history().to_pylist(),
    "changes": lambda table: table.changes(starting_version=1).to_arrow().to_pylist(),
    "refresh": lambda table: table.refresh().version,
}


class Stages:
    """Pauses the committing thread at one of its waits, and no other thread."""

    def __init__(self, stage: str) -> None:
        self.stage = stage
        self.committer: int | None = None
        self.begun, self.go = threading.Event(), threading.Event()

    def wait(self, stage: str) -> None:
        """Pause if this is the committing thread and its stage."""
        at_it = stage == self.stage and threading.get_ident() == self.committer
        if at_it and not self.go.is_set():
            self.begun.set()
            assert self.go.wait(SOON)

    def run(self, work: Callable[[], Any]) -> Any:
        self.committer = threading.get_ident()
        return work()


class StagedStore(ForwardingStore):
    """Tells the stages what a commit asks of the store."""

    def __init__(self, inner: Any, stages: Stages) -> None:
        super().__init__(inner)
        self.stages = stages
        self.failing = stages.stage == "back-off"
        self.has_put = False

    def put_if_absent(self, key: str, body: bytes) -> Any:
        self.stages.wait("put")
        self.has_put = self.has_put or key.startswith("_log/")
        if self.failing and key.startswith("_log/"):
            self.failing = False
            return NoAnswer("not this time")
        return super().put_if_absent(key, body)

    def get_many(self, keys: Any) -> list[bytes | None]:
        if self.has_put:
            self.stages.wait("concurrent commits")
        return super().get_many(keys)

    def turn(self, key: str, seconds: float = math.inf) -> Any:
        self.stages.wait("turn")
        return super().turn(key, seconds)


STATEMENTS: dict[str, Callable[[Table], Any]] = {
    "append": lambda table: table.append(rows(4)),
    "overwrite": lambda table: table.overwrite(rows(4)),
    "delete": lambda table: table.delete("id = 1"),
}
AFTER = {"append": [1, 2, 3, 4], "overwrite": [4], "delete": [2, 3]}


@pytest.mark.parametrize("stage", ["put", "concurrent commits", "turn", "back-off", "queue"])
@pytest.mark.parametrize("statement", STATEMENTS)
def test_no_reader_of_a_handle_waits_for_its_commit(
    statement: str, stage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CMT-11: readers never wait for a commit, at any of its stages.

    Readers of another handle on the same log do not wait either. All of them see the versions that
    a handle without the commit sees.
    """
    table = new_table()
    table.append(rows(1, 2))
    table.append(rows(3))
    stages = Stages(stage)
    store = StagedStore(table.context.store, stages)
    late, apart = behind(table, store), handle(table.context.store)
    environment = late.context.environment

    def sleep(seconds: float) -> None:
        stages.wait("back-off")
        environment.sleep(seconds)

    waits = CommitQueue._wait

    def in_line(*arguments: Any) -> bool:
        stages.wait("queue")
        return waits(*arguments)

    late.context.environment = replace(environment, sleep=sleep)
    monkeypatch.setattr(CommitQueue, "_wait", in_line)
    beside = Table(TableContext(store, late.context.view, environment))
    before = ExitStack()
    if stage == "queue":
        before.enter_context(queue_of(store.identity).turn(SOON))
    with before, ThreadPoolExecutor(1) as pool:
        if stage in ("concurrent commits", "turn"):
            # A blind append that wins: later commits rebase onto it.
            race(table, store, stages)
        commit = pool.submit(stages.run, lambda: STATEMENTS[statement](late))
        try:
            assert stages.begun.wait(SOON), commit.exception(0)
            for name, read in READS.items():
                expected = read(apart)
                for reader in (late, beside):
                    assert in_time(lambda r=reader, read=read: read(r)) == expected, name
            assert not commit.done()
        finally:
            stages.go.set()
            before.close()
    concurrent = [5] if stage in ("concurrent commits", "turn") else []
    assert commit.result(SOON).version == late.version == 3 + len(concurrent)
    expected = [4] if statement == "overwrite" else sorted(AFTER[statement] + concurrent)
    assert ids(late) == ids(handle(store.inner)) == expected


def race(table: Table, store: StagedStore, stages: Stages) -> None:
    """Have another commit land after the commit under test began, and before its first put."""
    put = store.put_if_absent

    def later(key: str, body: bytes) -> Any:
        if key == entry_key(3) and threading.get_ident() == stages.committer:
            store.put_if_absent = put  # type: ignore[method-assign]
            handle(table.context.store).append(rows(5))
        return put(key, body)

    store.put_if_absent = later  # type: ignore[method-assign]


@pytest.mark.parametrize("verb", ["refresh", "commit"])
def test_readers_do_not_wait_for_the_log_to_be_read(verb: str) -> None:
    """CMT-11: the reader of the log is a refresh, or a commit that lost a race."""
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


def test_readers_do_not_wait_for_overflow_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """CMT-11: one thread gets the columns of a large commit, another reads an older version."""
    monkeypatch.setattr("tablefmt.commit.driver.OVERFLOW_FROM_FILES", 2)
    monkeypatch.setattr("tablefmt.commit.driver.OVERFLOW_ABOVE_BYTES", 1)
    table = new_table(partitioned=True)
    table.append(rows(1))
    reader = handle(table.context.store)
    old = reader.scan()
    table.append(rows(2, 3, p=["a", "b"]))
    commit = table.history(1)["transaction"][0].as_py()
    slow = Slow(table.context.store, "get", overflow_metadata.overflow_key(commit))  # type: ignore[attr-defined]
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
    """CMT-11: scans of other objects do not wait, unlike with `functools.cached_property`."""
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
    """CMT-8: no request was sent, so the commit is rejected and its data files are deleted."""
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
