"""Compactions that are killed, or run out of disk: no row is lost, and nothing is there twice."""

from __future__ import annotations

import os
import resource
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tablefmt.errors import CommitRejectedError
from tablefmt.operations.create import create
from tablefmt.store.local_store import LocalStore
from tablefmt.store.location_checks import ensure_safe
from tablefmt.store.object_store import Store
from tablefmt.table import Table
from tablefmt.testing.faults import FaultyStore, Killed
from tests.system.faults.test_crash import SelfKiller, in_a_child
from tests.tables import assert_sound, data_files, handle, ids, live_files, memory, rows

pytestmark = pytest.mark.broken_tables

Work = Callable[[Table], Any]

WORKS: dict[str, Work] = {
    "minor": lambda table: table.compact(),
    "major": lambda table: table.compact("major"),
    "cluster": lambda table: table.cluster("id"),
    "batches": lambda table: table.compact(commit_every=1),
}
LEFT = [1, 3, 4, 5, 6, 7]


def prepare(store: Store) -> None:
    """Write three partitions of two files each, one with a deleted row."""
    table = Table(create(store, "id BIGINT, p STRING", partition_by=["p"]))
    table.append(rows(1, 2, 7, 3, p=["a", "b", "b", "c"]))
    table.append(rows(4, 5, 6, p=["a", "b", "c"]))
    table.delete("id = 2")


def assert_whole(store: Store, work: Work) -> int:
    """All rows are there, once; it can be done again. Gives the version that was found."""
    found = handle(store)
    version = found.version
    assert ids(found) == LEFT
    assert_sound(store)
    work(handle(store))
    assert ids(handle(store)) == LEFT
    assert len(live_files(store)) == 3
    assert work(handle(store)).no_op or work is WORKS["cluster"]
    assert_sound(store)
    return version


@pytest.mark.slow
@pytest.mark.share(4)
@pytest.mark.parametrize("name", WORKS)
@pytest.mark.parametrize(
    "fault", ["kill_after", pytest.param("kill_before", marks=pytest.mark.soak)]
)
def test_killed_at_any_request_all_rows_are_there(name: str, fault: Any) -> None:
    """CMP-4, CMT-1, ADD-5: before and after each request is applied."""
    versions: list[int] = []
    for at in range(100):
        store = memory()
        prepare(store)
        ensure_safe(store, "warm")
        killer = FaultyStore(store, lambda i, verb, key, at=at: fault if i == at else None)
        try:
            WORKS[name](handle(killer))
        except Killed:
            versions.append(assert_whole(store, WORKS[name]))
            continue
        break
    assert len(versions) >= 8
    assert versions == sorted(versions)
    last = 6 if name == "batches" else 4
    assert versions[-1] == last - (fault == "kill_before")
    # A whole compaction is one version, and one that commits in batches is there group by group.
    assert set(versions) == set(range(3, versions[-1] + 1))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[] if n == "batches" else [pytest.mark.soak]) for n in WORKS]
)
def test_a_process_that_is_killed_leaves_all_rows_on_a_local_disk(
    name: str, tmp_path: Path
) -> None:
    """CMP-4, CMT-1, STO-1: a real signal at every request."""
    for at in range(100):
        root = tmp_path / str(at)
        prepare(LocalStore(root))

        def killed(root: Path = root, at: int = at) -> None:
            plan = lambda i, verb, key: "kill_before" if i == at else None  # noqa: E731
            WORKS[name](handle(SelfKiller(LocalStore(root), plan)))  # type: ignore[arg-type]

        status = in_a_child(killed)
        if status == 0:
            break
        assert os.WIFSIGNALED(status)
        assert_whole(LocalStore(root), WORKS[name])
    assert at >= 8


@pytest.fixture
def small_files() -> Iterator[None]:
    """No file may grow beyond 64 kB from now on; Python has SIGXFSZ ignored."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (65_536, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("group_rows", [1000, 1 << 20])
def test_a_file_that_may_not_grow_rejects_the_commit_and_leaves_nothing(
    group_rows: int, tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: Any
) -> None:
    """STO-6, CMT-7: the write fails in the middle of a file that streams write, or at its end."""
    monkeypatch.setattr("tablefmt.data.parquet_writer.GROUP_ROWS", group_rows)
    monkeypatch.setattr("tablefmt.data.parquet_writer.GROUP_ROWS", group_rows)
    store = LocalStore(tmp_path / "t")
    table = Table(create(store, "id BIGINT, p STRING", partition_by=["p"]))
    for place in ("a", "b"):
        for n in range(2):
            values = np.random.default_rng(n).integers(0, 2**62, 5000 if place == "b" else 10)
            table.append(pa.table({"id": values, "p": [place] * len(values)}))
    before = ids(table)
    request.getfixturevalue("small_files")
    with pytest.raises(CommitRejectedError, match="larger than the system allows"):
        table.compact()
    assert handle(store).version == 4
    assert data_files(store) == live_files(store)
    assert ids(handle(store)) == before
    with pytest.raises(CommitRejectedError, match="larger than the system allows"):
        table.compact(commit_every=1)
    assert handle(store).version == 5
    assert data_files(store) != live_files(store)
    assert len(live_files(store)) == 3
    assert ids(handle(store)) == before
    assert_sound(store)
