"""Folders for temporary files that hold rows: modes, and what a killed process leaves."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tablefmt.store.private_folders import PrivateFolder

PREFIX = "tablefmt-sql-"

HOLDER = """
import sys, tempfile
from tablefmt.store.private_folders import PrivateFolder
tempfile.tempdir = sys.argv[1]
folder = PrivateFolder("tablefmt-sql-")
open(folder.path + "/rows", "w").close()
print(folder.path, flush=True)
sys.stdin.read()
"""


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
    """SEC-3: whatever the umask; the end of it takes its files along, once."""
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
    holders = [
        subprocess.Popen(
            [sys.executable, "-c", HOLDER, str(temporary)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    places = [Path(h.stdout.readline().strip()) for h in holders if h.stdout]
    holders[0].send_signal(signal.SIGKILL)
    holders[0].wait()
    mine = PrivateFolder(PREFIX)
    left = sorted([places[1].name, Path(mine.path).name, f"{PREFIX}link", "other"])
    assert names(temporary) == left
    assert names(places[1]) == ["rows"]
    holders[1].communicate("")
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
