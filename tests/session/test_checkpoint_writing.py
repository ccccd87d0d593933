"""Checkpoints come by themselves, of one writer among many, and no commit waits for one."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import tablefmt
from tablefmt.errors import StoreError
from tablefmt.log.log_reader import Hint, read_hint, write_hint
from tablefmt.log.object_names import CHECKPOINTS, HINT, root_version
from tablefmt.maintenance.manual_checkpoint import verified
from tablefmt.session.checkpoint_writing import MANY_FILES, is_due
from tablefmt.snapshot.log_view import LogView
from tablefmt.store.object_store import Store
from tablefmt.store.store_wrappers import CountingStore, ForwardingStore
from tablefmt.table import Table, open_at
from tests.tables import Clock, ids, memory, new_table, rows


@pytest.mark.parametrize(
    ("version", "last", "interval", "added", "due"),
    [
        (99, 0, 100, 1, False),
        (100, 0, 100, 1, True),
        (101, 0, 100, 1, False),
        (199, 0, 100, 1, False),
        (200, 0, 100, 1, True),
        (201, 0, 100, 1, False),
        (224, 0, 100, 1, False),
        (225, 0, 100, 1, True),
        (19, 0, 9, 1, False),
        (20, 0, 9, 1, True),
        (7, 0, 3, 1, True),
        (200, 100, 100, 1, True),
        (200, 150, 100, 1, False),
        (300, 150, 100, 1, True),
        (1, 0, 1, 0, True),
        (1, 1, 1, 0, False),
        (3, 0, 100, MANY_FILES, True),
        (3, 3, 100, MANY_FILES, False),
    ],
)
def test_who_writes_one(version: int, last: int, interval: int, added: int, due: bool) -> None:
    """CKP-7: the writer of a multiple of the interval; a late one is that of one in four more."""
    assert is_due(version, last, interval, added) is due


@pytest.mark.parametrize("interval", [1, 3, 10, 100, 1000])
def test_of_writers_at_once_few_write_a_late_one(interval: int) -> None:
    """CKP-7: few of the writers that commit while a late checkpoint is written write another."""
    late = range(2 * interval, 4 * interval)
    writers = [version for version in late if is_due(version, 0, interval, 1)]
    assert writers[0] == 2 * interval
    assert len(writers) <= max(8, len(late) // max(1, interval // 4))


def roots(store: Store) -> list[int]:
    """Versions, oldest first."""
    return sorted({root_version(e.key) or 0 for e in store.list_after(f"{CHECKPOINTS}0")})


def with_aside(
    store: Store, aside: Callable[[Callable[[], None]], None], clock: Clock | None = None
) -> Table:
    environment = dataclasses.replace((clock or Clock()).environment(), aside=aside)
    return open_at(store, environment)


@pytest.mark.parametrize("error", [RuntimeError("shutdown"), MemoryError(), OSError()], ids=repr)
def test_where_no_thread_starts_later_commits_try_again(error: Exception) -> None:
    """CKP-7: the interpreter exits, or memory is full."""
    store = memory()
    new_table(store, checkpointInterval="5")
    tries = []

    def refused(work: Callable[[], None]) -> None:
        tries.append(work)
        raise error

    table = with_aside(store, refused)
    for n in range(20):
        table.append(rows(n))
    assert len(tries) > 1


@pytest.mark.parametrize("error", [pa.ArrowInvalid("damaged"), ValueError("odd")], ids=repr)
def test_a_checkpoint_that_fails_is_logged_and_tried_again(
    error: Exception, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """CKP-7: whatever the error is, no thread ends by it."""
    store = memory()
    new_table(store, checkpointInterval="5")
    table = with_aside(store, lambda work: work())

    def fails(*_: object) -> None:
        raise error

    with monkeypatch.context() as patch:
        patch.setattr("tablefmt.session.checkpoint_writing.checkpoint_of", fails)
        for n in range(5):
            table.append(rows(n))
    assert roots(store) == []
    assert f"could not write a checkpoint: {error}" in caplog.text
    for n in range(10):
        table.append(rows(n))
    assert roots(store) != []


def test_they_come_every_so_many_versions_and_are_stood_on() -> None:
    """CKP-7, CKP-8: each is found by the next who opens the table."""
    store = memory()
    new_table(store, checkpointInterval="5")
    table = with_aside(store, lambda work: work())
    for n in range(23):
        table.append(rows(n))
        if n % 3 == 0:
            table.delete(f"id = {n}")
    assert roots(store) == [5, 10, 15, 20, 25, 30]
    view = LogView.open(store)
    assert view.base.version == 30
    assert ids(tablefmt.open(store.uri)) == ids(table)
    for each in store.list_after(f"{CHECKPOINTS}0"):
        verified(store, each.key)


def test_a_hint_that_lies_stops_no_checkpoints() -> None:
    """LOG-6, CKP-7: a checkpoint far above the log counts for nothing, and is put right."""
    store = memory()
    new_table(store, checkpointInterval="5")
    table = with_aside(store, lambda work: work())
    for n in range(5):
        table.append(rows(n))
    (five,) = [one.key for one in store.list_after(f"{CHECKPOINTS}0")]
    liar = five.replace(f"{5:020d}", f"{5_000:020d}")
    write_hint(store, table.context.view.head.table, Hint(5_000, liar))
    for n in range(5, 12):
        table.append(rows(n))
    assert roots(store) == [5, 10]
    hint = read_hint(store.get(HINT))
    assert hint is not None
    assert root_version(hint.checkpoint or "") == 10


def test_a_commit_asks_for_nothing_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """CKP-7: the request of a commit that makes one due is its one put, as ever."""
    store = memory()
    new_table(store, checkpointInterval="2")
    counting = CountingStore(store)
    works: list[Callable[[], None]] = []
    table = with_aside(counting, works.append)
    table.append(rows(0))
    for n in range(1, 7):
        counting.requests.clear()
        table.append(rows(n))
        assert [verb for verb, _ in counting.requests] == ["put", "put_if_absent"]
    # One at a time, however many commits make one due.
    assert len(works) == 1
    works[0]()
    assert roots(store) == [7]


def test_several_writers_write_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """CKP-7: a late writer finds the checkpoint in the hint, and writes none."""
    store = memory()
    new_table(store, checkpointInterval="4")
    tables = [with_aside(store, lambda work: work()) for _ in range(3)]
    for n in range(16):
        tables[n % 3].append(rows(n))
    assert roots(store) == [4, 8, 12, 16]
    assert len(list(store.list_after(f"{CHECKPOINTS}0"))) == 4


def test_of_writers_who_know_of_none_one_writes() -> None:
    """CKP-7: writers after a multiple find the last checkpoint in the hint, and are not due."""
    waiting: list[Callable[[], None]] = []

    class Meanwhile(ForwardingStore):
        """Lets the other writers probe while a part is being written."""

        def put(self, key: str, body: bytes) -> None:
            while key.startswith(CHECKPOINTS) and waiting:
                waiting.pop()()
            super().put(key, body)

    store = memory()
    new_table(store, checkpointInterval="4")
    first = with_aside(store, lambda work: work())
    others = [with_aside(store, waiting.append) for _ in range(3)]
    works: list[Callable[[], None]] = []
    writer = with_aside(Meanwhile(store), works.append)
    for n, table in enumerate([*[first] * 7, writer, *others]):
        table.append(rows(n))
    assert (roots(store), len(works), len(waiting)) == ([4], 1, 3)
    works[0]()
    assert (roots(store), len(waiting)) == ([4, 8], 0)


def test_a_store_that_refuses_them_gets_the_commits() -> None:
    """CKP-7: the failure is logged by the process, and the table goes on."""

    class NoCheckpoints(ForwardingStore):
        def put(self, key: str, body: bytes) -> None:
            if key.startswith(CHECKPOINTS) or key == HINT:
                raise StoreError("no room")
            super().put(key, body)

    store = memory()
    new_table(store, checkpointInterval="2")
    table = with_aside(NoCheckpoints(store), lambda work: work())
    for n in range(7):
        table.append(rows(n))
    assert ids(table) == list(range(7))
    assert roots(store) == []


def test_one_under_way_is_in_no_commits_way() -> None:
    """CKP-7: commits continue while a thread writes, and the next checkpoint comes after it."""
    held, entered = threading.Event(), threading.Event()

    class Slow(ForwardingStore):
        def put(self, key: str, body: bytes) -> None:
            if key.startswith(CHECKPOINTS):
                entered.set()
                assert held.wait(20)
            super().put(key, body)

    store = memory()
    new_table(store, checkpointInterval="3")
    threads: list[threading.Thread] = []

    def aside(work: Callable[[], None]) -> None:
        threads.append(threading.Thread(target=work))
        threads[-1].start()

    table = with_aside(Slow(store), aside)
    for n in range(3):
        table.append(rows(n))
    assert entered.wait(20)
    for n in range(3, 10):
        table.append(rows(n))
        assert ids(table.refresh()) == list(range(n + 1))
    assert len(threads) == 1
    held.set()
    threads[0].join(20)
    assert roots(store)[0] == 3
    assert ids(tablefmt.open(store.uri)) == list(range(10))


SHORT = """
import os, sys, pyarrow as pa, tablefmt
table = tablefmt.create(sys.argv[1], "id BIGINT", properties={"checkpointInterval": "3"})
for n in range(int(sys.argv[2])):
    table.append(pa.table({"id": [n]}))
if sys.argv[3] == "fork":
    pid = os.fork()
    if pid == 0:
        for n in range(3):
            table.append(pa.table({"id": [100 + n]}))
        os._exit(0)
    os.waitpid(pid, 0)
"""


@pytest.mark.slow
@pytest.mark.share(2)
@pytest.mark.parametrize("how", ["plain", "fork"])
def test_a_process_that_ends_at_once_leaves_a_whole_one(tmp_path: Path, how: str) -> None:
    """CKP-7, STO-21: it ends when the checkpoint is there; its forked child is not held up."""
    uri = str(tmp_path / "t")
    done = subprocess.run(
        [sys.executable, "-c", SHORT, uri, "3", how],
        check=False,
        capture_output=True,
        timeout=60,
        env={**os.environ},
    )
    assert (done.returncode, done.stderr) == (0, b"")
    table = tablefmt.open(uri)
    store = table.context.store
    assert roots(store)[:1] == [3]
    verified(store, next(iter(store.list_after(f"{CHECKPOINTS}0"))).key)
    assert ids(table) == [0, 1, 2] + ([100, 101, 102] if how == "fork" else [])


def test_by_hand(tmp_path: Path) -> None:
    """CKP-7: the report names the written objects, in words and as a table."""
    table = tablefmt.create(str(tmp_path / "t"), "id BIGINT")
    for n in range(4):
        table.append({"id": [n]})
    report = table.checkpoint()
    assert (report.version, report.files, report.parts, report.written_parts) == (4, 4, 1, 1)
    (row,) = report.to_arrow().to_pylist()
    assert row["path"] == report.path
    assert row["sha256"] == verified(table.context.store, report.path)[1]
    assert "checkpoint of version 4, 4 files in 1 part;" in str(report)
    again = table.checkpoint()
    assert (again.version, again.path != report.path) == (4, True)
