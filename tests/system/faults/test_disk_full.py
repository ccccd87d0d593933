"""No space during a commit: rejected, nothing visible, and nothing temporary left."""

from __future__ import annotations

import errno
import os
import resource
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tablefmt.errors import CommitRejectedError
from tablefmt.store.local_store import LocalStore
from tests.tables import assert_sound, data_files, handle, ids, live_files, new_table, rows

pytestmark = pytest.mark.broken_tables


def noise(kilobytes: int) -> pa.Table:
    """Rows that do not compress."""
    values = np.random.default_rng(7).integers(0, 2**62, kilobytes * 128)
    return pa.table({"id": values, "p": pa.array(["a"] * len(values))})


def assert_untouched(root: Path) -> None:
    store = LocalStore(root)
    assert handle(store).version == 1
    assert ids(handle(store)) == [1]
    assert data_files(store) == live_files(store)
    assert [p for p in root.rglob("*") if p.name.startswith(".")] == []
    assert_sound(store)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    new_table(LocalStore(tmp_path / "t")).append(rows(1))
    return tmp_path / "t"


@pytest.fixture
def small_files(root: Path) -> Iterator[None]:
    """No file may grow beyond 64 kB from now on; Python has SIGXFSZ ignored."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (65_536, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.usefixtures("small_files")
def test_a_data_file_that_may_not_grow_rejects_the_commit(root: Path) -> None:
    """STO-6, CMT-7."""
    with pytest.raises(CommitRejectedError, match="larger than the system allows; raise the limit"):
        handle(LocalStore(root)).append(noise(500))
    assert_untouched(root)


@pytest.mark.usefixtures("small_files")
def test_an_entry_that_may_not_grow_rejects_the_commit(root: Path) -> None:
    """STO-6, CMT-7: the data files were written, and are removed."""
    with pytest.raises(CommitRejectedError, match="larger than the system allows"):
        handle(LocalStore(root)).append(rows(2), user_metadata={"long": "x" * 100_000})
    assert_untouched(root)


@pytest.fixture(params=["nameless", "named"])
def full_disk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Path, bool]]:
    """Yield a file system of 1 MB if this user may mount one, else a disk that seems to be full."""
    root = tmp_path / "disk"
    root.mkdir()
    mounted = (
        os.geteuid() == 0
        and subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(root)], capture_output=True
        ).returncode
        == 0
    )
    yield root, mounted
    if mounted:
        subprocess.run(["umount", "-l", str(root)], check=True)


def test_a_disk_that_is_full_rejects_the_commit(
    full_disk: tuple[Path, bool], request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """STO-6, CMT-7: writes succeed when there is free space again."""
    disk, mounted = full_disk
    root = disk / "t"
    new_table(LocalStore(root)).append(rows(1))
    store = LocalStore(root)
    store._named = "named" in request.node.name
    table = handle(store)
    if not mounted:
        write = os.write

        def full(fd: int, body: Any) -> int:
            if len(body) > 100_000:
                write(fd, bytes(body)[:100_000])
                raise OSError(errno.ENOSPC, "no space")
            return write(fd, body)

        monkeypatch.setattr(os, "write", full)
    with pytest.raises(CommitRejectedError, match="the disk is full; free some space"):
        table.append(noise(2000))
    with pytest.raises(CommitRejectedError, match="the disk is full; free some space"):
        table.append(rows(2), user_metadata={"long": "x" * 2_000_000})
    assert_untouched(root)
    assert table.append(rows(2)).version == 2
    assert ids(handle(LocalStore(root))) == [1, 2]
