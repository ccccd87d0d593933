"""Threads of one process commit in turns, in the order of their arrival."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from tablefmt.commit import commit_queue
from tablefmt.commit.commit_queue import CommitQueue, QueuedCommit, queue_of
from tablefmt.log.object_names import entry_key
from tablefmt.store.store_wrappers import CountingStore
from tests.tables import assert_sound, behind, handle, ids, new_table, rows

SOON = 30.0


def wait_until(true: Callable[[], bool]) -> None:
    """Wait until another thread has made the condition true."""
    until = time.monotonic() + SOON
    while not true():
        assert time.monotonic() < until
        time.sleep(0.001)


class Crowd:
    """Threads that queue one behind the other while this thread commits."""

    def __init__(self, line: CommitQueue) -> None:
        self.line = line
        self.turns: list[tuple[str, QueuedCommit]] = []
        self.threads: list[threading.Thread] = []

    def join(self, name: str, *left: tuple[int, bytes]) -> None:
        """One more, who leaves these entries."""

        def stand() -> None:
            with self.line.turn(SOON) as turn:
                self.turns.append((name, turn))
                turn.left.extend(left)

        thread = threading.Thread(target=stand)
        self.threads.append(thread)
        thread.start()
        wait_until(lambda: thread.ident in self.line._threads or not thread.is_alive())

    def found(self) -> dict[str, Any]:
        """Return the entries that each thread got, in the order of the turns, after the last."""
        for thread in self.threads:
            thread.join(SOON)
        return {name: list(turn.found) for name, turn in self.turns}


def test_turns_come_in_order_and_entries_are_handed_on() -> None:
    """CMT-2: a thread that waited gets all entries committed before it. Others get none."""
    crowd = Crowd(CommitQueue())
    with crowd.line.turn(SOON) as first:
        assert first.found == ()
        crowd.join("b", (9, b"nine"))
        crowd.join("c")
        crowd.join("d")
        first.left.extend([(7, b"seven"), (8, b"eight")])
    found = crowd.found()
    assert list(found) == ["b", "c", "d"]
    assert found["b"] == [(7, b"seven"), (8, b"eight")]
    assert found["c"] == found["d"] == [(7, b"seven"), (8, b"eight"), (9, b"nine")]
    with crowd.line.turn(SOON) as last:
        assert last.found == ()


def test_what_is_handed_on_has_no_gap() -> None:
    """CMT-5: entries before a gap are not handed on with those after it."""
    crowd = Crowd(CommitQueue())
    with crowd.line.turn(SOON) as first:
        crowd.join("b", (12, b"twelve"))
        crowd.join("c")
        first.left.append((7, b"seven"))
    assert crowd.found() == {"b": [(7, b"seven")], "c": [(12, b"twelve")]}


def test_what_is_kept_for_others_is_bounded_in_number_and_in_bytes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """CMT-2: entries of large commits are megabytes each; the newest stay, in order."""
    monkeypatch.setattr(commit_queue, "HANDED_MAX", 4)
    monkeypatch.setattr(commit_queue, "HANDED_BYTES", 10)
    kept: deque[tuple[int, bytes]] = deque()
    for version, size, left in (
        (1, 1, [1]),
        (2, 1, [1, 2]),
        (3, 1, [1, 2, 3]),
        (4, 1, [1, 2, 3, 4]),
        (5, 1, [2, 3, 4, 5]),
        (6, 8, [4, 5, 6]),
        (7, 3, [7]),
        (8, 11, []),
        (9, 10, [9]),
    ):
        commit_queue.keep_newest(kept, [(version, b"x" * size)])
        assert [v for v, _ in kept] == left
    line, behind_it = CommitQueue(), threading.Event()
    with line.turn(9) as turn:
        waiting = threading.Thread(target=lambda: _found(line, behind_it))
        waiting.start()
        wait_until(lambda: len(line._tickets) == 2)
        turn.left = [(version, b"xxxx") for version in range(9)]
    waiting.join()
    assert behind_it.is_set()


def _found(line: CommitQueue, as_expected: threading.Event) -> None:
    with line.turn(9) as turn:
        if [version for version, _ in turn.found] == [7, 8]:
            as_expected.set()


def test_a_queue_that_does_not_move_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """CMT-8: the wait ends at the deadline too. The queue continues when the first one wakes up."""
    monkeypatch.setattr(commit_queue, "PATIENCE_SECONDS", 0.01)
    crowd = Crowd(CommitQueue())
    with crowd.line.turn(SOON):
        crowd.join("b", (7, b"seven"))
        crowd.join("c")
        assert crowd.found() == {"b": [], "c": []}
        monkeypatch.setattr(commit_queue, "PATIENCE_SECONDS", SOON)
        crowd.join("d")
        assert len(crowd.turns) == 2
    assert sorted(crowd.found()) == ["b", "c", "d"]
    assert not crowd.line._tickets


def test_a_thread_does_not_wait_for_itself() -> None:
    """A store that commits while it is asked to put, as tests do."""
    line = CommitQueue()
    start = time.monotonic()
    with line.turn(SOON), line.turn(SOON) as inner:
        inner.left.append((1, b"one"))
    assert time.monotonic() - start < SOON / 2
    assert not line._tickets


def test_a_line_is_of_one_table_and_one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fork copies a line whose threads are not there to leave it."""
    mine = queue_of("file:///a")
    assert queue_of("file:///a") is mine
    assert queue_of("file:///b") is not mine
    monkeypatch.setattr(commit_queue, "os", SimpleNamespace(getpid=lambda: -1))
    assert queue_of("file:///a") is not mine


class Held(CountingStore):
    """Holds its first log put till it is let go."""

    def __init__(self, inner: Any) -> None:
        super().__init__(inner)
        self.begun, self.go = threading.Event(), threading.Event()

    def put_if_absent(self, key: str, body: bytes) -> Any:
        if key.startswith("_log") and not self.begun.is_set():
            self.begun.set()
            assert self.go.wait(SOON)
        return super().put_if_absent(key, body)


@pytest.mark.parametrize("stale", [False, True])
def test_handles_in_one_process_do_not_race_each_other(stale: bool) -> None:
    """CMT-2, CMT-5: the second handle puts once, at the next version. The entries stay separate."""
    table = new_table()
    table.append(rows(1))
    store = table.context.store
    held, counting = Held(store), CountingStore(store)
    first, second = behind(table, held), behind(table, counting)
    if stale:
        # The one who waits is behind by a version that the first one has to find out.
        table.append(rows(9))
    line = queue_of(store.identity)
    threads = [threading.Thread(target=first.append, args=(rows(2),))]
    threads[0].start()
    assert held.begun.wait(SOON)
    threads.append(threading.Thread(target=second.append, args=(rows(3),)))
    threads[1].start()
    wait_until(lambda: len(line._tickets) == 2)
    held.go.set()
    for thread in threads:
        thread.join(SOON)
    log = [(verb, key) for verb, key in counting.requests if key.startswith("_log")]
    assert log == [("put_if_absent", entry_key(4 if stale else 3))]
    assert ids(handle(store)) == ([1, 2, 3, 9] if stale else [1, 2, 3])
    assert_sound(store)
