"""Folders for temporary files that hold rows: no other user can look into them. Spec: SEC-3.

A folder lives as long as the process that made it. That process holds a lock on it. Whoever makes
the next folder removes those that nobody holds: a process that was killed leaves rows behind.
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
    """A new folder of mode 0700 among the temporary files. `remove` ends it."""

    def __init__(self, prefix: str) -> None:
        """Make it, and remove those of the same prefix that belong to no process any more.

        Args:
            prefix: of its name.
        """
        above = tempfile.gettempdir()
        self._process = os.getpid()
        _remove_left_over(above, prefix)
        self.path = tempfile.mkdtemp(prefix=prefix, dir=above)
        self._fd = os.open(self.path, _FLAGS)
        while not self._is_held():
            # Until the lock was there, another process took the folder for one that was left over.
            os.close(self._fd)
            self.path = tempfile.mkdtemp(prefix=prefix, dir=above)
            self._fd = os.open(self.path, _FLAGS)

    def remove(self) -> None:
        """Remove the folder with all files in it. May be called again.

        A forked child does nothing: the folder is its parent's.
        """
        if self._fd >= 0 and os.getpid() == self._process:
            shutil.rmtree(self.path, ignore_errors=True)
            os.close(self._fd)
            self._fd = -1

    def _is_held(self) -> bool:
        """Take the lock. Without locks in this file system nobody removes the folder either."""
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
            # Refused while its process lives.
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(path, ignore_errors=True)
    finally:
        os.close(fd)
