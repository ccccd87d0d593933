"""Killed at any request of an operation: all of it is there, or nothing; it can be repeated."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tablefmt.errors import TableNotFoundError
from tablefmt.operations.create import create
from tablefmt.store.local_store import LocalStore
from tablefmt.store.location_checks import ensure_safe
from tablefmt.store.object_store import Store
from tablefmt.table import Table
from tablefmt.testing.faults import FaultyStore, Killed
from tests.tables import assert_sound, by_hand, data_files, handle, ids, memory, rows

pytestmark = pytest.mark.broken_tables

BEFORE = [1, 2, 3]


def prepare(store: Store) -> None:
    table = Table(create(store, "id BIGINT, p STRING", partition_by=["p"]))
    table.append(rows(*BEFORE, p=["a", "b", "c"]))


def append(store: Store) -> None:
    handle(store).append(rows(4, 5, 6, p=["a", "b", "c"]))


def overwrite(store: Store) -> None:
    handle(store).overwrite(rows(4, 5, p=["a", "b"]))


def dynamic(store: Store) -> None:
    handle(store).overwrite(rows(4, 5, p=["a", "b"]), dynamic_partitions=True)


def truncate(store: Store) -> None:
    handle(store).truncate(where="p = 'a'")


OPERATIONS: dict[str, tuple[Callable[[Store], None], list[int]]] = {
    "append": (append, [1, 2, 3, 4, 5, 6]),
    "overwrite": (overwrite, [4, 5]),
    "dynamic": (dynamic, [3, 4, 5]),
    "truncate": (truncate, [2, 3]),
}


def assert_all_or_nothing(store: Store, work: Callable[[Store], None], after: list[int]) -> bool:
    """Readable by a fresh handle; whether it was applied. Then the operation is run again."""
    found = ids(handle(store))
    assert found in (BEFORE, after)
    assert by_hand(store) == found
    assert_sound(store)
    applied = found == after
    assert len(data_files(store)) <= 3 + 3
    work(store)
    again = sorted([*after, 4, 5, 6]) if applied and len(after) == 6 else after
    assert ids(handle(store)) == by_hand(store) == again
    assert_sound(store)
    return applied


FAULTS = ["kill_after", pytest.param("kill_before", marks=pytest.mark.soak)]
"""Killed before a request is killed after the one before it, but for the first."""


@pytest.mark.share(2)
@pytest.mark.parametrize("name", OPERATIONS)
@pytest.mark.parametrize("fault", FAULTS)
def test_an_operation_killed_at_any_request_is_whole_or_absent(name: str, fault: Any) -> None:
    """CMT-1, ADD-5, STO-3: every request of it, before and after it is applied."""
    work, after = OPERATIONS[name]
    applied: list[bool] = []
    for at in range(100):
        store = memory()
        prepare(store)
        ensure_safe(store, "warm")
        killer = FaultyStore(store, lambda i, verb, key, at=at: fault if i == at else None)
        try:
            work(killer)
        except Killed:
            applied.append(assert_all_or_nothing(store, work, after))
            continue
        break
    # The commit is not applied before the last request.
    assert applied == [False] * (len(applied) - 1) + [fault == "kill_after"]
    assert len(applied) >= 3


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS)
def test_a_creation_killed_at_any_request_is_whole_or_absent(fault: Any) -> None:
    """CMT-1, STO-12, LOG-7: the probe included."""
    outcomes: list[bool] = []
    for at in range(100):
        store = memory()
        store.probe_scope = store.uri
        killer = FaultyStore(store, lambda i, verb, key, at=at: fault if i == at else None)
        try:
            create(killer, "id BIGINT, p STRING")
        except Killed:
            try:
                outcomes.append(handle(store).version == 0)
            except TableNotFoundError:
                outcomes.append(False)
            create(store, "id BIGINT, p STRING", exist_ok=True)
            assert_sound(store)
            assert ids(handle(store)) == []
            continue
        break
    assert outcomes == [False] * (len(outcomes) - 1) + [fault == "kill_after"]
    assert len(outcomes) >= 6


def in_a_child(work: Callable[[], None]) -> int:
    """Run in a fork of this process; its exit status as waitpid gives it."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            work()
            status = 0
        finally:
            os._exit(status)
    return os.waitpid(child, 0)[1]


class SelfKiller(FaultyStore):
    """Sends SIGKILL to its own process where `FaultyStore` would raise `Killed`."""

    def _next_fault(self, verb: str, key: str) -> Any:
        try:
            return super()._next_fault(verb, key)
        except Killed:
            os.kill(os.getpid(), signal.SIGKILL)
            raise


def killed_before(root: Path, at: int, work: Callable[[Any], object]) -> int:
    """Work in a child that kills itself before its request `at`. Return its status."""

    def run() -> None:
        work(SelfKiller(LocalStore(root), lambda i, verb, key: "kill_before" if i == at else None))

    return in_a_child(run)


@pytest.mark.slow
@pytest.mark.share(4)
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.parametrize("name", OPERATIONS)
def test_sigkill_at_any_request_on_a_local_disk_leaves_all_or_nothing(
    name: str, tmp_path: Path
) -> None:
    """CMT-1, STO-1, STO-3: a real process, a real signal, and no temporary file is left."""
    work, after = OPERATIONS[name]
    applied: list[bool] = []
    for at in range(100):
        root = tmp_path / str(at)
        prepare(LocalStore(root))
        status = killed_before(root, at, work)
        if status == 0:
            assert ids(handle(LocalStore(root))) == after
            break
        assert os.WIFSIGNALED(status)
        assert os.WTERMSIG(status) == signal.SIGKILL
        assert [p.name for p in root.rglob(".tmp-*")] == []
        applied.append(assert_all_or_nothing(LocalStore(root), work, after))
    assert applied
    assert not any(applied)
