"""Kills at any request of a restore, a vacuum, an expiry or a checkpoint.

No needed object is deleted, and a second run does the rest.
"""

from __future__ import annotations

import errno
import os
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tablefmt.errors import TablefmtError
from tablefmt.log.object_names import CHECKPOINTS, entry_key, root_version
from tablefmt.maintenance.log_expiry import expire_log
from tablefmt.maintenance.vacuum import vacuum
from tablefmt.snapshot.checkpoint_reader import listed_roots
from tablefmt.snapshot.log_view import LogView
from tablefmt.store.local_store import LocalStore
from tablefmt.store.location_checks import ensure_safe
from tablefmt.store.object_store import Store
from tablefmt.table import Table
from tablefmt.testing.faults import FaultyStore, Killed
from tests.maintenance.test_log_expiry import parts_of
from tests.system.faults.test_crash import killed_before
from tests.system.transactions.world import copy_to
from tests.tables import (
    Clock,
    Dated,
    assert_sound,
    data_files,
    handle,
    ids,
    memory,
    new_table,
    rows,
)

pytestmark = pytest.mark.broken_tables

DAY_US = 86_400_000_000


def prepare(store: Store, name: str) -> None:
    """Write versions 0 to 5, with a file each in 1, 2 and 3, and one that no entry names.

    For a vacuum, write checkpoints too.
    """
    table = new_table(store, partitioned=True)
    for number in (1, 2, 3):
        table.overwrite(rows(number, number + 10, p=["a", "b"]))
        if name == "vacuum":
            table.checkpoint()
    table.delete("id = 13")
    if name == "vacuum":
        table.checkpoint()
    table.append(rows(5))
    store.put(f"data/{'a' * 32}/0.parquet", b"x")


AFTER = [3, 5]


def later() -> Clock:
    """Return a clock at which all objects are a month old."""
    clock = Clock()
    clock.micros += 31 * DAY_US
    return clock


def aged(store: Store) -> Table:
    """Return a handle of a store at that time."""
    clock = later()
    return handle(Dated(clock, store), clock)


def restore(store: Store) -> None:
    handle(store, later()).restore(version=2)


def clean(store: Store) -> None:
    vacuum(aged(store).context, dry_run=False)


def expire(store: Store) -> None:
    expire_log(aged(store).context, dry_run=False)


def checkpoint(store: Store) -> None:
    handle(store, later()).checkpoint()


def check_restore(store: Store) -> bool:
    """Return True if the restore was applied. Check that older versions can be read either way."""
    found = ids(handle(store))
    assert found in (AFTER, [2, 12])
    assert [ids(handle(store), version) for version in (1, 2, 3)] == [[1, 11], [2, 12], [3, 13]]
    return found == [2, 12]


def check_vacuum(store: Store) -> bool:
    """Every version from the oldest on has its rows; whether something was removed."""
    table = handle(store)
    expected: dict[int, list[int]] = {0: [], 1: [1, 11], 2: [2, 12], 3: [3, 13], 4: [3]}
    for version in range(table.oldest_version, table.version + 1):
        assert ids(table, version) == expected.get(version, AFTER)
    return len(data_files(store)) < 8


def check_expiry(store: Store) -> bool:
    """Every version from the oldest on has its rows; whether an entry went."""
    applied = check_vacuum(store)
    keys = [one.key for one in store.list_after("_log/0") if one.key.count("/") == 1]
    assert not applied
    return len(keys) < 6


def check_checkpoint(store: Store) -> bool:
    """Every version has its rows; whether it is written whole."""
    assert not check_vacuum(store)
    return bool(listed_roots(store))


WORKS: dict[str, tuple[Callable[[Store], None], Callable[[Store], bool], list[int]]] = {
    "restore": (restore, check_restore, [2, 12]),
    "vacuum": (clean, check_vacuum, AFTER),
    "expiry": (expire, check_expiry, AFTER),
    "checkpoint": (checkpoint, check_checkpoint, AFTER),
}


FAULTS = [
    "kill_after",
    pytest.param("lost_answer", marks=pytest.mark.soak),
    # A kill before a request is the same as one after the previous request.
    pytest.param("kill_before", marks=pytest.mark.soak),
    pytest.param("refused", marks=pytest.mark.soak),
]


def all_keys(store: Store) -> set[str]:
    """Return all keys of the store."""
    return {one.key for one in store.list_after("")}


def finish(store: Store, name: str) -> None:
    """Run again, and compare with what a run without a fault leaves."""
    work, check, after = WORKS[name]
    work(store)
    check(store)
    assert ids(handle(store)) == after
    assert_sound(store)
    if name == "vacuum":
        assert len(data_files(store)) == 2
        roots = listed_roots(store)
        assert len(roots) == 2
        parts = {one.key for one in store.list_after(f"{CHECKPOINTS}parts/")}
        assert parts == {part for root in roots for part in parts_of(store, root)}
    if name == "checkpoint":
        # A root without a hint is as good as the one of the next run.
        assert {root_version(root) for root in listed_roots(store)} == {5}
        assert LogView.open(store).base.version == 5
    if name == "expiry":
        assert [key for key in map(entry_key, range(1, 5)) if key in all_keys(store)] == []


@pytest.mark.slow
@pytest.mark.share(4)
@pytest.mark.parametrize("name", WORKS)
@pytest.mark.parametrize("fault", FAULTS)
def test_stopped_at_any_request_it_harms_nothing(name: str, fault: Any) -> None:
    """RET-1, RET-5, CMT-1: every request of it."""
    work, check, _ = WORKS[name]
    before = memory()
    prepare(before, name)
    stopped = 0
    for at in range(100):
        store = copy_to(before, memory())
        ensure_safe(store, "warm")
        plan = lambda i, verb, key, at=at: fault if i == at else None  # noqa: E731
        try:
            work(FaultyStore(store, plan))
        except (Killed, Exception):
            stopped += 1
            check(store)
            finish(store, name)
            continue
        finish(store, name)
        if at > stopped + 3:
            break
    assert stopped >= 3


@pytest.mark.slow
@pytest.mark.share(3)
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.parametrize(
    "name", ["restore", "vacuum", "checkpoint", pytest.param("expiry", marks=pytest.mark.soak)]
)
def test_sigkill_at_any_request_harms_nothing(name: str, tmp_path: Path) -> None:
    """RET-5, STO-1: a real process, a real signal, a real disk."""
    work, check, _ = WORKS[name]
    prepare(LocalStore(tmp_path / "before"), name)
    killed = 0
    for at in range(100):
        root = tmp_path / str(at)
        shutil.copytree(tmp_path / "before", root)
        status = killed_before(root, at, work)
        check(LocalStore(root))
        finish(LocalStore(root), name)
        if status == 0:
            break
        assert os.WTERMSIG(status) == signal.SIGKILL
        killed += 1
    assert killed >= 3


@pytest.mark.slow
@pytest.mark.share(4)
@pytest.mark.parametrize("name", WORKS)
def test_a_disk_that_fills_up_harms_nothing(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """STO-6, RET-5: the disk fills up at any write.

    With free space again, a second run does the rest.
    """
    work, check, _ = WORKS[name]
    write, told = os.write, list[str]()
    for at in range(50):
        root = tmp_path / str(at)
        prepare(LocalStore(root), name)
        writes = iter(range(at))

        def full(fd: int, body: Any, writes: Iterator[int] = writes) -> int:
            if next(writes, None) is None:
                raise OSError(errno.ENOSPC, "No space left on device")
            return write(fd, body)

        monkeypatch.setattr(os, "write", full)
        try:
            work(LocalStore(root))
        except TablefmtError as error:
            told.append(str(error))
        else:
            # Only hints and log segments are optional, and their loss is no error.
            at = 50
        monkeypatch.setattr(os, "write", write)
        assert [p for p in root.rglob("*") if p.name.startswith(".tmp")] == []
        check(LocalStore(root))
        finish(LocalStore(root), name)
        if at == 50:
            break
    assert told
    assert all("disk is full" in text for text in told)
