"""Names on a disk that a store does not list are found by another function."""

from __future__ import annotations

import os
from pathlib import Path

from tablefmt.store.local_folders import unlisted_names
from tablefmt.store.location import open_store
from tests.tables import memory


def test_every_name_is_listed_or_unlisted(tmp_path: Path) -> None:
    """STO-2: together they are all names, and no link is followed."""
    root = tmp_path / "t"
    (root / "a" / "b").mkdir(parents=True)
    for name in ("x", "a/y", "a/b/z"):
        (root / name).write_bytes(b"")
    (root / "a" / "link").symlink_to(root / "x")
    (root / "folder").symlink_to(root / "a")
    (root / "dead").symlink_to(root / "lost")
    os.mkfifo(root / "pipe")
    (root / "back\\slash").write_bytes(b"")
    Path(os.fsdecode(os.fsencode(root) + b"/a/\xff")).mkdir()
    store = open_store(str(root))
    assert [one.key for one in store.list_after("")] == ["a/b/z", "a/y", "x"]
    found = ["a/link", "a/\\xff", "back\\slash", "dead", "folder", "pipe"]
    assert list(unlisted_names(store)) == found


def test_other_stores_list_every_name(tmp_path: Path) -> None:
    assert list(unlisted_names(memory())) == []
    assert list(unlisted_names(open_store(str(tmp_path / "lost")))) == []
