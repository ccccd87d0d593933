"""Private folders for temporary files that hold rows; other users cannot open them. Spec: SEC-3.

A folder lives as long as its process, which holds a lock on it. A killed process leaves its folder
behind. The process that creates the next folder removes folders without a lock.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
import tempfile
from contextlib import suppress

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
