"""Queues of processes of one machine: ordered, bounded waits, freed with their holders."""

from __future__ import annotations

import errno
import fcntl
import multiprocessing
import os
import signal
import struct
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tablefmt.store import shared_commit_queue
from tablefmt.store.clocks import elapsed
from tablefmt.store.shared_commit_queue import QueueFileEntries, join_shared_queue

SOON = 30.0
CONTEXT = multiprocessing.get_context("forkserver")

pytestmark = pytest.mark.skipif(
    shared_commit_queue._SET_LOCK is None, reason="no locks of open files here"
)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A place of this test's own."""
    place = tmp_path / "shared"
    place.mkdir(mode=0o700)
    monkeypatch.setattr(shared_commit_queue, "_folder", lambda: str(place))
    monkeypatch.setattr(shared_commit_queue, "_stuck", {})
    return place


def test_what_is_left_is_found_by_the_next() -> None:
    """STO-14: the entries are contiguous, without known ones, and begin again after a gap."""
    for entries, found in (
        ([(3, b"three"), (4, b"four")], [(3, b"three"), (4, b"four")]),
        ([(4, b"four"), (5, b"")], [(3, b"three"), (4, b"four"), (5, b"")]),
        ([(9, b"nine")], [(9, b"nine")]),
        ([(2, b"old")], [(9, b"nine")]),
    ):
        with join_shared_queue("a", SOON) as shared:
            assert shared is not None
            shared.leave(entries)
        with join_shared_queue("a", SOON) as shared, join_shared_queue("b", SOON) as other:
            assert shared is not None
            assert other is not None
            assert (shared.read(), other.read()) == (found, [])


@pytest.mark.parametrize("fails", [1, 2, 3])
def test_a_queue_without_locks_is_done_without(fails: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """STO-14: the kernel has no lock left, at any request; no commit fails for that."""
    requests: list[int] = []
    real = fcntl.fcntl

    def short(*arguments: Any) -> Any:
        requests.append(1)
        if len(requests) >= fails:
            raise OSError(errno.ENOLCK, "No locks available")
        return real(*arguments)

    with join_shared_queue("a", SOON):
        monkeypatch.setattr(fcntl, "fcntl", short)
        with join_shared_queue("a", 0.1) as shared:
            assert shared is None
    assert len(requests) >= fails


def test_a_damaged_queue_is_done_without(folder: Path) -> None:
    """STO-14: the file holds numbers that no ticket has."""
    with join_shared_queue("a", SOON):
        (file,) = folder.iterdir()
    for damage in (b"\xff" * 16, b"\xff" * 7 + b"\x7f" + b"\0" * 8):
        file.write_bytes(damage)
        with join_shared_queue("a", 0.1) as shared:
            assert shared is None
        shared_commit_queue._stuck.clear()


def test_a_full_disk_of_the_queue_is_no_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    """STO-14: the number of the turn is not written."""
    real = os.pwrite

    def full(fd: int, body: bytes, at: int) -> int:
        if at == 8:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(fd, body, at)

    monkeypatch.setattr(os, "pwrite", full)
    with join_shared_queue("a", SOON) as shared:
        assert shared is None


def test_no_more_entries_are_shared_than_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    """STO-14: the newest stay."""
    with join_shared_queue("a", SOON) as shared:
        assert shared is not None
        shared.leave([(n, b"x") for n in range(100)])
    with join_shared_queue("a", SOON) as shared:
        assert shared is not None
        assert [version for version, _ in shared.read()] == list(range(36, 100))
        shared.leave([(100, b"x" * shared_commit_queue.LEFT_BYTES), (101, b"y")])
    with join_shared_queue("a", SOON) as shared:
        assert shared is not None
        assert shared.read() == [(101, b"y")]


def test_what_was_left_long_ago_is_not_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    """STO-14: the log may have been restored since, and continue differently from the same head."""
    now, before = time.monotonic(), [(3, b"three")]
    clock = [now]
    monkeypatch.setattr(shared_commit_queue, "elapsed", lambda: clock[0])
    for name, later, found in (("a", 9.0, before), ("b", 11.0, []), ("c", -1.0, [])):
        clock[0] = now
        with join_shared_queue(name, SOON) as shared:
            assert shared is not None
            shared.leave(before)
        clock[0] = now + later
        with join_shared_queue(name, SOON) as shared:
            assert shared is not None
            assert shared.read() == found
            shared.leave([(4, b"four")])
        with join_shared_queue(name, SOON) as shared:
            assert shared is not None
            assert shared.read() == [*found, (4, b"four")]


@pytest.mark.parametrize("at", range(16, 48, 3))
def test_damage_is_nothing_left(folder: Path, at: int) -> None:
    """STO-14: the process that wrote it may have been stopped in the middle."""
    with join_shared_queue("a", SOON) as shared:
        assert shared is not None
        shared.leave([(3, b"three")])
    (file,) = folder.iterdir()
    body = bytearray(file.read_bytes())
    body[at] ^= 1
    file.write_bytes(body)
    with join_shared_queue("a", SOON) as shared:
        assert shared is not None
        assert shared.read() == []
        shared.leave([(7, b"seven")])
    with join_shared_queue("a", SOON) as shared:
        assert shared is not None
        assert shared.read() == [(7, b"seven")]


FOREIGN = {
    "a head cut short": b"\0" * 5,
    "an entry cut short": struct.pack("<QI", 3, 9) + b"three",
    "a long entry": struct.pack("<QI", 3, 0xFFFFFFFF) + b"three",
    "a head after an entry": struct.pack("<QI", 3, 1) + b"x" + b"\0" * 3,
    "a gap": struct.pack("<QI", 3, 1) + b"x" + struct.pack("<QI", 5, 1) + b"y",
}


@pytest.mark.parametrize("kind", FOREIGN)
def test_foreign_bytes_are_nothing_left(folder: Path, kind: str) -> None:
    """STO-14: the checksum is right, because another program may have written the bytes."""
    with join_shared_queue("a", SOON) as shared:
        assert shared is not None
        body, when = FOREIGN[kind], elapsed()
        head = shared_commit_queue._LEFT.pack(
            len(body), shared_commit_queue._checksum(body, when), when
        )
        os.pwrite(shared._fd, head + body, shared_commit_queue._HEADER.size)
        assert shared.read() == []
        shared.leave([(7, b"seven")])
    with join_shared_queue("a", SOON) as shared:
        assert shared is not None
        assert shared.read() == [(7, b"seven")]


def _one_of_many(folder: str, turns: int, start: Any, said: Any) -> None:
    shared_commit_queue._folder = lambda: folder
    start.wait(SOON)
    for _ in range(turns):
        with join_shared_queue("a", SOON) as shared:
            assert shared is not None
            last = shared.read()[-1:] or [(0, b"")]
            time.sleep(0.001)
            shared.leave([(last[0][0] + 1, b"")])
    said.put(turns)


@pytest.mark.slow
def test_one_at_a_time(folder: Path) -> None:
    """STO-14: no process overwrites the entries of another."""
    start, said = CONTEXT.Barrier(4), CONTEXT.Queue()
    many = [
        CONTEXT.Process(target=_one_of_many, args=(str(folder), 20, start, said)) for _ in range(4)
    ]
    for process in many:
        process.start()
    assert [said.get(timeout=SOON) for _ in many] == [20] * 4
    for process in many:
        process.join(SOON)
    with join_shared_queue("a", SOON) as shared:
        assert shared is not None
        assert shared.read()[-1][0] == 80


HOLDER = """
import sys, time
from tablefmt.store import shared_commit_queue
shared_commit_queue._folder = lambda: sys.argv[1]
with shared_commit_queue.join_shared_queue("a", 30.0) as slate:
    slate.leave([(1, b"one")])
    print("held", flush=True)
    time.sleep(60)
"""


@pytest.mark.parametrize("stop", [signal.SIGKILL, signal.SIGSTOP])
def test_a_dead_holder_does_not_block_the_queue(
    folder: Path, stop: signal.Signals, monkeypatch: pytest.MonkeyPatch
) -> None:
    """STO-14: a killed holder's turn is over.

    A stopped holder is waited for only for a limited time.
    """
    monkeypatch.setattr(shared_commit_queue, "STANDSTILL_SECONDS", 0.1)
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(folder)], stdout=subprocess.PIPE, text=True
    )
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with join_shared_queue("a", 0.0) as shared:
            assert shared is None
        holder.send_signal(stop)
        if stop is signal.SIGKILL:
            holder.wait(SOON)
        with join_shared_queue("a", SOON) as shared:
            assert (shared is None) == (stop is signal.SIGSTOP)
            assert shared is None or shared.read() == [(1, b"one")]
        monkeypatch.setattr(shared_commit_queue, "STANDSTILL_SECONDS", SOON)
        with join_shared_queue("a", SOON) as shared:
            assert (shared is None) == (stop is signal.SIGSTOP), "it is not waited in once more"
    finally:
        holder.kill()
        holder.wait(SOON)


def test_a_child_forked_in_a_turn_does_not_block_the_queue() -> None:
    """STO-14, STO-21: though it lives on with the same open file."""
    with join_shared_queue("a", SOON) as shared:
        assert shared is not None
        pid = os.fork()
        if pid == 0:
            time.sleep(SOON)
            os._exit(0)
    try:
        with join_shared_queue("a", 5.0) as shared:
            assert shared is not None
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def test_a_folder_that_others_can_write_to_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """STO-13, STO-14: other users could change the entries, which decide the rows of the table."""
    monkeypatch.undo()
    monkeypatch.setattr(shared_commit_queue, "MEMORY", str(tmp_path))
    mine = tmp_path / f"tablefmt-{os.getuid()}"
    assert shared_commit_queue._folder() == str(mine)
    assert mine.stat().st_mode & 0o777 == 0o700
    with join_shared_queue("a", SOON) as shared:
        assert isinstance(shared, QueueFileEntries)
    (file,) = mine.iterdir()
    assert file.stat().st_mode & 0o777 == 0o600
    mine.chmod(0o770)
    with join_shared_queue("a", SOON) as shared:
        assert shared is None
    file.unlink()
    mine.rmdir()
    mine.symlink_to(tmp_path)
    with join_shared_queue("a", SOON) as shared:
        assert shared is None


def test_unused_files_are_removed(folder: Path) -> None:
    """STO-14: they are removed when another file is created."""
    for identity in ("a", "b"):
        with join_shared_queue(identity, SOON):
            pass
    old, young = folder.iterdir()
    os.utime(old, (1, 1))
    with join_shared_queue("c", SOON):
        assert not old.exists()
        assert young.exists()
