"""Folders on this machine's disk: private ones, and those of tables.

A private folder is for temporary files that hold rows. Other users cannot open it (SEC-3). It lives
as long as its process, which holds a lock on it. A killed process leaves its folder behind. The
process that creates the next folder removes folders without a lock.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from tablefmt.store.object_store import Store

_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class PrivateFolder:
    """A new temporary folder of mode 0700. `remove` deletes it."""

    def __init__(self, prefix: str) -> None:
        """Create the folder, and remove folders of the same prefix that no process owns any more.

        Args:
            prefix: prefix of the folder's name.
        """
        above = tempfile.gettempdir()
        self._process = os.getpid()
        _remove_left_over(above, prefix)
        self.path = tempfile.mkdtemp(prefix=prefix, dir=above)
        self._fd = os.open(self.path, _FLAGS)
        while not self._is_held():
            # Before the lock was taken, another process removed this folder as left over.
            os.close(self._fd)
            self.path = tempfile.mkdtemp(prefix=prefix, dir=above)
            self._fd = os.open(self.path, _FLAGS)

    def remove(self) -> None:
        """Remove the folder with all its files. Safe to call again.

        In a forked child it does nothing: the folder belongs to the parent.
        """
        if self._fd >= 0 and os.getpid() == self._process:
            shutil.rmtree(self.path, ignore_errors=True)
            os.close(self._fd)
            self._fd = -1

    def _is_held(self) -> bool:
        """Take the lock. A file system without locks counts as held: no process removes the folder
        there.
        """
        try:
            fcntl.flock(self._fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError:
            return True
        return os.path.isdir(self.path)


def _remove_left_over(above: str, prefix: str) -> None:
    with suppress(OSError), os.scandir(above) as entries:
        for name in [entry.name for entry in entries if entry.name.startswith(prefix)]:
            with suppress(OSError):
                _remove_if_left(f"{above}/{name}")


def _remove_if_left(path: str) -> None:
    fd = os.open(path, _FLAGS)
    try:
        status = os.fstat(fd)
        mine = status.st_uid == os.getuid() and not stat.S_IMODE(status.st_mode) & 0o077
        if mine:
            # Raises while the owner is alive.
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(path, ignore_errors=True)
    finally:
        os.close(fd)


@contextmanager
def root_restored(store: Store) -> Iterator[None]:
    """Remove the root and its parents at the end, if the block created them and they are empty.

    Only a disk has directories. On other stores this does nothing.
    """
    made: list[str] = []
    folder = store.traits.path if store.traits.on_disk else ""
    while folder and not os.path.lexists(folder):
        made.append(folder)
        folder = os.path.dirname(folder)
    try:
        yield
    finally:
        for each in made:
            with suppress(OSError):
                os.rmdir(each)


def unlisted_names(store: Store) -> Iterator[str]:
    """Yield each name below the root that the store does not list. A link's target is not opened.

    Bytes that are not UTF-8 are escaped. A store that is not on a disk lists every object.
    """
    if store.traits.on_disk:
        yield from _unlisted(os.fsencode(store.traits.path), b"")


def _unlisted(root: bytes, folder: bytes) -> Iterator[str]:
    try:
        with os.scandir(os.path.join(root, folder)) as entries:
            children = sorted(entries, key=lambda entry: entry.name)
    except (FileNotFoundError, NotADirectoryError):
        return
    for entry in children:
        path = folder + entry.name
        shown = path.decode("utf-8", "backslashreplace")
        is_folder = entry.is_dir(follow_symlinks=False)
        if b"\\" in entry.name or shown.encode("utf-8") != path:
            yield shown
        elif is_folder:
            yield from _unlisted(root, path + b"/")
        elif not entry.is_file(follow_symlinks=False):
            yield shown
