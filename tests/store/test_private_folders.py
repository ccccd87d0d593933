"""Folders for temporary files that hold rows: modes, and what a killed process leaves."""

from __future__ import annotations

import os
import signal
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tablefmt.store.local_folders import PrivateFolder

PREFIX = "tablefmt-sql-"


def holder() -> tuple[int, Path]:
    """A process that holds a folder until it is killed: its number, and where that is."""
    reads, writes = os.pipe()
    child = os.fork()
    if child == 0:
        folder = PrivateFolder(PREFIX)
        Path(folder.path, "rows").touch()
        os.write(writes, folder.path.encode())
        signal.pause()
    path = Path(os.read(reads, 4096).decode())
    os.close(reads)
    os.close(writes)
    return child, path


def kill(child: int) -> None:
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of temporary files, in a process that takes nothing from modes."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    before = os.umask(0)
    yield tmp_path
    os.umask(before)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_only_the_user_looks_into_it(temporary: Path) -> None:
    """SEC-3: any umask gives this mode. The first removal deletes the files."""
    folder = PrivateFolder(PREFIX)
    assert stat.S_IMODE(os.stat(folder.path).st_mode) == 0o700
    Path(folder.path, "rows").touch()
    folder.remove()
    folder.remove()
    assert names(temporary) == []


def test_what_a_killed_process_left_goes_and_what_another_holds_stays(temporary: Path) -> None:
    """SEC-3: rows of a killed process do not stay on the disk for good."""
    foreign = temporary / "other"
    foreign.mkdir()
    (temporary / f"{PREFIX}link").symlink_to(foreign)
    killed, left = holder()
    alive, held = holder()
    kill(killed)
    try:
        mine = PrivateFolder(PREFIX)
        there = sorted([held.name, Path(mine.path).name, f"{PREFIX}link", "other"])
        assert left.name not in there
        assert names(temporary) == there
        assert names(held) == ["rows"]
    finally:
        kill(alive)
    mine.remove()


def test_a_forked_child_removes_nothing(temporary: Path) -> None:
    """SEC-3: the folder is its parent's."""
    folder = PrivateFolder(PREFIX)
    child = os.fork()
    if child == 0:
        folder.remove()
        os._exit(0)
    os.waitpid(child, 0)
    assert names(temporary) == [Path(folder.path).name]
    folder.remove()
