"""A process that forks while its threads commit: the child commits, reads and ends."""

from __future__ import annotations

import faulthandler
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import tablefmt
from tablefmt.store import forks
from tablefmt.store.local_store import LocalStore
from tablefmt.store.memory_store import MemoryStore
from tablefmt.table import Table, open_at
from tests.s3server import S3Server
from tests.tables import ids, rows

SECONDS = 60.0
"""A child takes less than two."""
THREADS = 3


def in_child(work: Callable[[], None]) -> None:
    """Run it in a forked child, which has to end well and in time."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            faulthandler.dump_traceback_later(SECONDS / 2, exit=True, file=sys.__stderr__)  # type: ignore[arg-type]
            work()
            code = 0
        except BaseException:
            traceback.print_exc(file=sys.__stderr__)
        finally:
            os._exit(code)
    until = time.monotonic() + SECONDS
    while time.monotonic() < until:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            assert status == 0, f"the child ended with {status}"
            return
        time.sleep(0.01)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    raise AssertionError("the child hangs")


@pytest.fixture(params=["local", "memory", "s3"])
def place(request: Any, tmp_path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    if request.param == "s3":
        server: S3Server = request.getfixturevalue("s3_server")
        yield f"s3://{server.new_bucket()}/table", server.options
    else:
        yield (str(tmp_path / "t") if request.param == "local" else "memory://forks"), {}


# Arrow and the allocator have locks of their own, and a fork may rarely meet one that is held.
@pytest.mark.soak
def test_a_child_of_threads_that_commit_commits_and_reads(
    place: tuple[str, dict[str, Any]],
) -> None:
    """STO-21: the child uses the handle of its parent, in a loop."""
    uri, options = place
    shared = tablefmt.create(uri, "id BIGINT, p STRING", storage_options=options)
    stop = threading.Event()
    failed: list[BaseException] = []

    def work(thread: int) -> None:
        try:
            table = shared if thread else tablefmt.open(uri, storage_options=options)
            for n in range(10_000):
                if stop.is_set():
                    return
                table.append(rows(thread * 10_000 + n))
                if n % 3 == 0:
                    table.refresh()
                    table.to_arrow()
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(THREADS)]
    for thread in threads:
        thread.start()

    def child(number: int) -> Callable[[], None]:
        def run() -> None:
            version = shared.append(rows(-number)).version
            assert shared.refresh().version >= version
            assert -number in ids(shared)

        return run

    try:
        for number in range(1, 5 if options else 12):
            in_child(child(number))
    finally:
        stop.set()
        for thread in threads:
            thread.join(SECONDS)
    assert failed == []
    assert min(ids(shared.refresh())) == (0 if uri.startswith("memory") else -number)


def held_locks(table: Table) -> list[Any]:
    """Every lock of ours that a commit or a read of the table takes."""
    store = table.context.store
    owners: list[Any] = [table.context.view, store.tally]
    if isinstance(store, LocalStore):
        owners.append(store._directories)
    return [*(owner._lock for owner in owners), *(lock for lock in all_forked())]


def all_forked() -> list[Any]:
    return [owner._lock for owner in forks._OWNERS if isinstance(owner, forks.ForkedLock)]


@pytest.mark.parametrize("kind", ["local", "memory"])
def test_a_lock_that_another_thread_holds_is_free_in_the_child(kind: str, tmp_path: Path) -> None:
    """STO-21: this holds for all locks, at any step of the other thread."""
    store = LocalStore(tmp_path / "t") if kind == "local" else MemoryStore("held-locks")
    table = tablefmt.create(store.uri, "id BIGINT, p STRING")
    table = open_at(store)
    table.append(rows(1))
    taken, done = threading.Event(), threading.Event()

    def hold() -> None:
        locks = held_locks(table)
        for lock in locks:
            assert lock.acquire(timeout=SECONDS)
        taken.set()
        assert done.wait(SECONDS)
        for lock in locks:
            lock.release()

    thread = threading.Thread(target=hold)
    thread.start()
    assert taken.wait(SECONDS)

    def child() -> None:
        table.append(rows(2))
        table.refresh()
        assert ids(table) == [1, 2]

    try:
        in_child(child)
    finally:
        done.set()
        thread.join(SECONDS)


@pytest.mark.slow
def test_a_childs_turn_is_not_its_parents(tmp_path: Path) -> None:
    """STO-14, STO-21: a file that the parent locked before is locked for the child too."""
    store = LocalStore(tmp_path / "t")
    table = open_at(tablefmt.create(store.uri, "id BIGINT, p STRING").context.store)
    store = table.context.store  # type: ignore[assignment]
    assert isinstance(store, LocalStore)
    key = "_log/x"

    def child() -> None:
        start = time.monotonic()
        with store.turn(key):
            assert store._turn is None, "both have it"
        assert time.monotonic() - start > 0.5

    with store.turn(key):
        assert store._turn is not None
        in_child(child)
        assert store._turn is not None
