"""Power is lost on a local disk: what was not synced is lost, empty, cut, or there by chance.

A model of the disk sees each fsync. A file's content is durable as it was at its last fsync, and a
name is durable since the last fsync of its folder.
"""

from __future__ import annotations

import os
import random
import stat
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from tablefmt.operations.create import create
from tablefmt.store.local_store import LocalStore
from tablefmt.table import Table
from tests.tables import handle, ids, rows

Names = dict[str, dict[str, int]]
"""Names in each folder, with their inodes."""


class Disk:
    """Durable content below a folder. Names in a folder that was never synced are not durable."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = str(folder)
        self._lock = threading.Lock()
        self._looking = threading.Lock()
        self._sync = os.fsync
        self.contents: dict[int, bytes] = {}
        self.names: Names = {}
        self.syncs = 0
        self.at_sync: Callable[[], None] = lambda: None
        monkeypatch.setattr(os, "fsync", self.fsync)

    def fsync(self, fd: int) -> None:
        """Sync a file or a folder, and note what is durable now, if it is below this folder."""
        self._sync(fd)
        path = os.readlink(f"/proc/self/fd/{fd}")
        if not f"{path}/".startswith(f"{self.folder}/"):
            return
        status = os.fstat(fd)
        with self._lock:
            self.syncs += 1
            if stat.S_ISDIR(status.st_mode):
                self.names[path] = _names_in(fd)
            else:
                # An unnamed file may be open for writing only.
                with open(f"/proc/self/fd/{fd}", "rb") as file:
                    self.contents[status.st_ino] = file.read()
        # Files are synced in several threads.
        with self._looking:
            self.at_sync()

    def after_power_loss(self, into: Path, chance: random.Random | None) -> Path:
        """Return a copy of what is left. By chance, more names and more bytes are."""
        with self._lock:
            self._copy(self.folder, into, chance)
        return into

    def _copy(self, folder: str, into: Path, chance: random.Random | None) -> None:
        into.mkdir()
        names = self.names.get(folder, {})
        if chance is not None:
            with os.scandir(folder) as entries:
                now = {entry.name: entry.inode() for entry in entries}
            # Each change of the folder since its last fsync came to the disk, or did not.
            for name in sorted(names.keys() | now.keys()):
                if names.get(name) != now.get(name) and chance.random() < 0.5:
                    names = {**names, name: now.get(name, 0)}
        for name, inode in names.items():
            path = os.path.join(folder, name)
            if path in self.names or os.path.isdir(path):
                self._copy(path, into / name, chance)
            elif inode in self.contents:
                (into / name).write_bytes(self.contents[inode])
            elif inode:
                (into / name).write_bytes(b"\0" * (chance.randrange(99) if chance else 0))


def _names_in(fd: int) -> dict[str, int]:
    with os.scandir(fd) as entries:
        return {entry.name: entry.inode() for entry in entries}


Step = Callable[[Table], object]
STEPS: list[tuple[Step, list[int]]] = [
    (lambda table: table.append(rows(1, 2, 3, p=["a", "b", "c"])), [1, 2, 3]),
    (lambda table: table.delete("id = 2"), [1, 3]),
    (lambda table: table.append(rows(4)), [1, 3, 4]),
    (lambda table: table.update({"id": "id + 10"}, "id = 3"), [1, 4, 13]),
    (lambda table: table.compact(), [1, 4, 13]),
    (lambda table: table.checkpoint(), [1, 4, 13]),
    (lambda table: table.overwrite(rows(7, 8, p=["a", "z"])), [7, 8]),
    (lambda table: table.restore(version=3), [1, 3, 4]),
]


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
def test_acknowledged_commits_stay_and_others_are_whole_or_absent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """STO-3, STO-7, CMT-1: at each sync, and after each operation."""
    (folder := tmp_path / "disk").mkdir()
    disk = Disk(folder, monkeypatch)
    root = folder / "table"
    chance = random.Random(seed)
    table = Table(create(LocalStore(str(root)), "id BIGINT, p STRING", partition_by=["p"]))
    looks = 0

    def look(*expected: list[int]) -> None:
        nonlocal looks
        looks += 1
        copy = disk.after_power_loss(tmp_path / f"{looks}", chance if looks % 2 else None)
        store = LocalStore(str(copy / "table"))
        assert ids(handle(store)) in expected
        if len(expected) == 1:
            assert handle(store).append(rows(99)).version == table.version + 1
            assert ids(handle(store)) == sorted([*expected[0], 99])

    before: list[int] = []
    for step, after in STEPS:
        known = [before, after]
        disk.at_sync = lambda known=known: look(*known) if chance.random() < 0.3 else None
        step(table)
        disk.at_sync = lambda: None
        table.refresh()
        look(after)
        before = after
    assert disk.syncs > 20
    assert looks > 10


def test_a_store_that_does_not_sync_loses_what_it_acknowledged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The model of the disk has teeth: without each kind of sync, a commit is lost."""
    for missing in (stat.S_ISDIR, stat.S_ISREG):
        folder = tmp_path / missing.__name__
        folder.mkdir()
        disk = Disk(folder, monkeypatch)
        table = Table(create(LocalStore(str(folder / "table")), "id BIGINT, p STRING"))

        def forgetful(fd: int, disk: Disk = disk, missing: Callable[[int], bool] = missing) -> None:
            if not missing(os.fstat(fd).st_mode):
                disk.fsync(fd)

        monkeypatch.setattr(os, "fsync", forgetful)
        table.append(rows(1))
        monkeypatch.setattr(os, "fsync", disk._sync)
        copy = disk.after_power_loss(tmp_path / f"{missing.__name__}-copy", None)
        left = LocalStore(str(copy / "table"))
        if missing is stat.S_ISDIR:
            assert handle(left).version == 0
        else:
            with pytest.raises(Exception, match="ENT-1"):
                handle(left)
