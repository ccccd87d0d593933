"""Failures that only a local disk has."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import pytest

from tablefmt.errors import StoreError
from tablefmt.store import local_files
from tablefmt.store.local_files import wait_for_lock
from tablefmt.store.local_store import LocalStore
from tablefmt.store.object_store import Exists, KeyNotFoundError, NoAnswer, Refused, Written
from tests.places import ROOT


@pytest.fixture(params=["unnamed", "temporary names"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> LocalStore:
    store = LocalStore(tmp_path / "table")
    store._named = request.param == "temporary names"
    return store


def files_below(root: Path | str) -> list[str]:
    return sorted(
        os.path.relpath(os.path.join(folder, name), root)
        for folder, _, names in os.walk(root)
        for name in names
    )


def test_a_link_to_a_directory_outside_is_not_followed(store: LocalStore, tmp_path: Path):
    """STO-2: reads, writes, deletes and listings do not follow it."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_bytes(b"precious")
    store.put("data/x", b"x")
    os.symlink(outside, Path(store.uri) / "data" / "link")

    assert isinstance(store.put_if_absent("data/link/new", b"x"), Refused)
    for call in (
        lambda: store.put("data/link/new", b"x"),
        lambda: store.get("data/link/precious"),
        lambda: store.size("data/link/precious"),
        lambda: store.delete("data/link/precious"),
        lambda: store.sync(["data/link/precious"]),
        lambda: store.open_output("data/link/new").__enter__(),
        lambda: list(store.list_after("data/link/")),
    ):
        with pytest.raises(StoreError, match="symbolic link"):
            call()
    assert [one.key for one in store.list_after("")] == ["data/x"]
    assert files_below(outside) == ["precious"]


def test_a_link_to_a_file_outside_is_not_read_or_written_through(store: LocalStore, tmp_path: Path):
    """STO-2: a create finds the name taken, a put replaces the link itself."""
    outside = tmp_path / "precious"
    outside.write_bytes(b"precious")
    store.put("data/x", b"x")
    os.symlink(outside, Path(store.uri) / "data" / "link")

    with pytest.raises(StoreError, match="symbolic link"):
        store.get("data/link")
    assert store.put_if_absent("data/link", b"x") == Exists()
    assert [one.key for one in store.list_after("")] == ["data/x"]
    store.put("data/link", b"mine")

    assert outside.read_bytes() == b"precious"
    assert store.get("data/link") == b"mine"


def test_a_root_that_is_a_link_is_one_place(tmp_path: Path):
    """STO-11: the root itself may be reached through links."""
    (tmp_path / "real").mkdir()
    os.symlink(tmp_path / "real", tmp_path / "link")

    one, other = LocalStore(tmp_path / "real"), LocalStore(tmp_path / "link")
    one.put("x", b"x")

    assert one.uri == other.uri
    assert other.get("x") == b"x"


def test_a_directory_removed_or_replaced_is_noticed(store: LocalStore, tmp_path: Path):
    """STO-2, STO-10: a kept handle never writes into a tree that was moved away, nor a new one."""
    store.put("_log/0", b"old")
    store.put("_log/1", b"old")
    os.rename(store.uri, tmp_path / "moved")

    with pytest.raises(KeyNotFoundError):
        store.get("_log/0")
    reply = store.put_if_absent("_log/2", b"new")
    assert isinstance(reply, Refused)
    assert "removed or replaced" in reply.reason
    with pytest.raises(StoreError, match="removed or replaced"):
        store.put("data/x", b"new")
    assert not os.path.exists(store.uri)

    other = LocalStore(store.uri)
    assert other.put_if_absent("_log/0", b"new") == Written()
    assert store.get("_log/0") == b"new"
    assert isinstance(store.put_if_absent("_log/1", b"new"), Refused)
    assert sorted(os.listdir(tmp_path / "moved" / "_log")) == ["0", "1"]
    assert files_below(store.uri) == ["_log/0"]


def test_more_directories_than_handles_kept(store: LocalStore):
    """STO-2: eviction costs time, nothing else, and handles are given back."""
    for number in range(local_files.MAX_HANDLES * 3):
        store.put(f"data/{number}/x", b"%d" % number)
    before = len(os.listdir("/proc/self/fd"))
    for number in range(local_files.MAX_HANDLES * 3):
        assert store.get(f"data/{number}/x") == b"%d" % number

    assert len(os.listdir("/proc/self/fd")) <= before + 1
    assert len(store._directories._handles) == local_files.MAX_HANDLES


def test_things_that_are_not_files_are_no_objects(store: LocalStore):
    """STO-8: a directory or a pipe under a key is an error, and nothing hangs."""
    store.put("data/x", b"x")
    os.mkfifo(Path(store.uri) / "data" / "pipe")

    for key in ("data/pipe", "data"):
        with pytest.raises(StoreError, match=r"a pipe, socket or device|directory"):
            store.get(key)
    assert [one.key for one in store.list_after("")] == ["data/x"]


def test_empty_directories_are_removed_and_nothing_else(store: LocalStore, tmp_path: Path):
    """STO-15: a folder below with something in it stays, and what is made again works."""
    store.put("data/a/x/1", b"1")
    store.put("data/a/y/2", b"2")
    os.makedirs(tmp_path / "table/data/a/z/deep")
    os.symlink(tmp_path, tmp_path / "table/data/a/x/link")
    store.delete("data/a/x/1")
    for _ in range(2):
        store.remove_empty("data/a/")
        assert sorted(os.listdir(tmp_path / "table/data/a")) == ["x", "y"]
    os.unlink(tmp_path / "table/data/a/x/link")
    store.delete("data/a/y/2")
    store.remove_empty("data/a/")
    store.remove_empty("data/a/")
    assert os.listdir(tmp_path / "table/data") == []
    with store.open_output("data/a/x/1") as stream:
        stream.write(b"3")
    assert store.get("data/a/x/1") == b"3"


def test_directories_in_which_others_write_meanwhile_are_safe(store: LocalStore):
    """STO-15: two handles of one store: one removes directories, and one creates them again."""
    other, done = LocalStore(store.uri), threading.Event()

    def remove() -> None:
        while not done.is_set():
            other.remove_empty("data/a")

    thread = threading.Thread(target=remove)
    thread.start()
    try:
        answers = []
        for number in range(200):
            answers.append(store.put_if_absent(f"data/a/{number}", b"x"))
            written = isinstance(answers[-1], Written)
            assert [o.key for o in store.list_after("data/a/")] == [f"data/a/{number}"] * written
            store.delete(f"data/a/{number}")
    finally:
        done.set()
        thread.join()
    assert {type(answer) for answer in answers} <= {Written, Refused}


def test_short_writes_are_continued(store: LocalStore, monkeypatch: pytest.MonkeyPatch):
    """STO-3."""
    write = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: write(fd, bytes(data)[:7]))

    assert store.put_if_absent("_log/0", bytes(range(100))) == Written()
    assert store.get("_log/0") == bytes(range(100))


class FailingCalls:
    """Fsync and link, each call recorded; the n-th of one kind fails."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls: list[str] = []
        self.fail_at: tuple[str, int] | None = None
        for name in ("fsync", "link"):
            monkeypatch.setattr(os, name, self._wrapped(name, getattr(os, name)))

    def _wrapped(self, name, call):
        def wrapper(*arguments, **options):
            kind = name
            if name == "fsync":
                kind = "fsync directory" if os.path.isdir(f"/proc/self/fd/{arguments[0]}") else name
            self.calls.append(kind)
            if self.fail_at and self.fail_at[0] == kind:
                raise OSError(self.fail_at[1], "injected")
            return call(*arguments, **options)

        return wrapper


def test_a_create_is_durable_before_it_is_answered(
    store: LocalStore, monkeypatch: pytest.MonkeyPatch
):
    """STO-3: file, name and every directory made for it; who comes late writes nothing."""
    calls = FailingCalls(monkeypatch)

    assert store.put_if_absent("_log/0", b"x") == Written()
    made = ["fsync directory"] * 2  # the root's parent, and the root for _log
    assert calls.calls == [*made, "fsync", "link", "fsync directory"]

    calls.calls.clear()
    assert store.put_if_absent("_log/1", b"x") == Written()
    assert calls.calls == ["fsync", "link", "fsync directory"]

    calls.calls.clear()
    assert store.put_if_absent("_log/1", b"x") == Exists()
    assert calls.calls == []


@pytest.mark.parametrize(
    ("fail_at", "kind", "applied"),
    [
        (("fsync", errno.EIO), Refused, False),
        (("fsync", errno.ENOSPC), Refused, False),
        (("link", errno.ENOSPC), Refused, False),
        (("link", errno.EACCES), Refused, False),
        (("link", errno.EIO), NoAnswer, False),
        (("link", errno.ETIMEDOUT), NoAnswer, False),
        (("fsync directory", errno.EIO), NoAnswer, True),
    ],
)
def test_a_create_that_fails_says_how_far_it_may_have_come(
    store: LocalStore,
    monkeypatch: pytest.MonkeyPatch,
    fail_at: tuple[str, int],
    kind: type,
    applied: bool,
):
    """STO-5, STO-6: no temporary file stays, and the name is there or it is not."""
    store.put("_log/before", b"x")
    calls = FailingCalls(monkeypatch)
    calls.fail_at = fail_at

    assert type(store.put_if_absent("_log/0", b"x")) is kind

    assert files_below(store.uri) == (["_log/0"] if applied else []) + ["_log/before"]


def test_objects_of_another_process_are_made_durable_with_their_directories(
    store: LocalStore, monkeypatch: pytest.MonkeyPatch
):
    """STO-10."""
    folder = Path(store.uri) / "data" / "a" / "b"
    folder.mkdir(parents=True)
    for name in ("x", "y"):
        (folder / name).write_bytes(b"x")
    calls = FailingCalls(monkeypatch)

    store.sync(["data/a/b/x", "data/a/b/y"])

    # Four directories below and with the root, and the root's parent for the root's name.
    assert sorted(calls.calls) == ["fsync"] * 2 + ["fsync directory"] * 5
    with pytest.raises(KeyNotFoundError):
        store.sync(["data/a/b/z"])


FULL_DISK = """
    import resource, sys
    from tablefmt.store.local_store import LocalStore
    from tablefmt.store.object_store import Refused, StoreError, Written

    def stream():
        with store.open_output("data/y") as out:
            out.write(b"x" * 5000)

    store = LocalStore(sys.argv[1])
    store._named = sys.argv[2] == "named"
    assert store.put_if_absent("_log/0", b"x" * 100) == Written()
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
    reply = store.put_if_absent("_log/1", b"x" * 5000)
    assert isinstance(reply, Refused), reply
    assert "EFBIG" in reply.reason
    for write in (lambda: store.put("data/x", b"x" * 5000), stream):
        try:
            write()
        except StoreError as error:
            assert "raise the limit" in str(error), error
        else:
            raise AssertionError("written past the limit")
"""


@pytest.mark.parametrize("way", ["unnamed", "named"])
def test_a_write_past_the_limit_leaves_nothing(tmp_path: Path, way: str):
    """STO-6: the kernel refuses the write, in a process with a file size limit."""
    root = tmp_path / "table"

    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(FULL_DISK), str(root), way],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=60,
    )

    assert done.stderr == ""
    assert done.returncode == 0
    assert files_below(root) == ["_log/0"]


def test_a_read_only_tree_refuses(store: LocalStore, monkeypatch: pytest.MonkeyPatch):
    """STO-6: errno decides, for a failure at any step of the create."""
    store.put("_log/0", b"x")

    def refuse(*arguments: object, **options: object) -> int:
        raise OSError(errno.EROFS, "injected")

    monkeypatch.setattr(os, "open", refuse)
    reply = store.put_if_absent("_log/1", b"x")

    assert isinstance(reply, Refused)
    assert "read-only" in reply.reason


KILLED_CREATES = """
    import os, sys
    from tablefmt.store.local_store import LocalStore

    store = LocalStore(sys.argv[1])
    link = os.link
    def die(*arguments, **options):
        os.kill(os.getpid(), 9)
    os.link = die
    store.put_if_absent("_log/0", b"x")
"""


def test_a_create_killed_before_its_link_leaves_nothing(tmp_path: Path):
    """STO-3: the bytes had no name yet."""
    root = tmp_path / "table"

    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(KILLED_CREATES), str(root)],
        cwd=ROOT,
        timeout=60,
    )

    assert done.returncode == -9
    assert files_below(root) == []
    assert LocalStore(root).put_if_absent("_log/0", b"y") == Written()


@pytest.mark.slow
def test_turns_are_taken_one_by_one_and_never_waited_for_long(tmp_path: Path):
    """STO-14: a second store waits for the first one's turn, but only for a time."""
    first, second = LocalStore(tmp_path / "t"), LocalStore(tmp_path / "t")
    assert first.put_if_absent("_log/0", b"x") == Written()
    order = []

    def other() -> None:
        with second.turn("_log/1"):
            order.append("second")

    waiting = threading.Thread(target=other)
    with first.turn("_log/1"):
        waiting.start()
        waiting.join(0.03)
        order.append("first")
    waiting.join()
    assert order == ["first", "second"]

    with first.turn("_log/1"), second.turn("_log/1"):
        assert second.put_if_absent("_log/1", b"y") == Written()


def test_a_turn_ends_with_the_first_name_created(tmp_path: Path):
    """STO-14: the next writer does not wait until the folder is durable.

    A name that is taken does not end the turn.
    """
    first, second = LocalStore(tmp_path / "t"), LocalStore(tmp_path / "t")
    assert first.put_if_absent("_log/0", b"x") == Written()
    lock = os.open(tmp_path / "t" / "_log", os.O_RDONLY)
    taken = []
    with first.turn("_log/1"):
        for key in ("_log/0", "_log/1"):
            second.put_if_absent("_log/0", b"other")
            first.put_if_absent(key, b"y")
            taken.append(wait_for_lock(lock, 0.0))
    os.close(lock)
    assert taken == [False, True]
    assert second.get("_log/1") == b"y"


def test_a_turn_beside_nothing_is_no_turn(tmp_path: Path):
    """STO-14: there is no queue if the folder is missing."""
    with LocalStore(tmp_path / "none").turn("_log/0"):
        assert not (tmp_path / "none").exists()
