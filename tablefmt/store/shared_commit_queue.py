"""Shared commit queue: writers of one machine commit one after another and share entries.

Each table of a remote store has one queue file. It is private to this user, and in memory where the
system has a memory folder. A writer takes a ticket and waits until the writer before it has left.
Tickets are kernel locks, so they end with their holder, however it ends. The queue is an
optimization only: correctness does not depend on it. Spec: STO-14.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import stat
import struct
import tempfile
import time
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from tablefmt.store.clocks import elapsed

STANDSTILL_SECONDS = 1.0
"""Stop waiting for a queue that has not moved for this long."""

STUCK_SECONDS = 30.0
"""Seconds for which this process avoids a queue that did not move."""

LEFT_MAX = 64
"""Most entries shared in the queue file."""

LEFT_BYTES = 128 << 10
"""Most bytes of shared entries."""

LEFT_SECONDS = 10.0
"""Longest age of trusted shared entries, in seconds.

The log may have been put back to an earlier state since. It may then have other entries after the
same head.
"""

FORGOTTEN_SECONDS = 86_400.0
"""Queue files unused for this many seconds are removed when a new one is created."""

MEMORY = "/dev/shm"
"""A folder in memory, on systems that have it."""

_SET_LOCK: int | None = getattr(fcntl, "F_OFD_SETLK", None)
_HEADER = struct.Struct("<QQ")
"""The next ticket, and the ticket that is being served."""
_LEFT = struct.Struct("<IId")
"""Length of the shared entries, CRC-32 over their time and bytes, and their time."""
_ENTRY = struct.Struct("<QI")
"""Version and length of one entry."""
_TICKETS_FROM = 1 << 40
"""File offset that the first ticket locks. No byte there is ever written."""
_POLL_SECONDS = 0.0005
_POLL_MAX_SECONDS = 0.005
_stuck: dict[str, float] = {}
"""By identity: when to try a queue again that did not move."""
_BUSY = frozenset({errno.EAGAIN, errno.EACCES})


class QueueFileEntries:
    """Log entries that writers of this machine share through the queue file."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._left: list[tuple[int, bytes]] | None = None

    def read(self) -> list[tuple[int, bytes]]:
        """Return contiguous entries by version; none if there are none or they are damaged."""
        # Only the writer whose ticket is served writes here.
        if self._left is None:
            self._left = self._entries()
        return self._left

    def _entries(self) -> list[tuple[int, bytes]]:
        try:
            size, crc, when = _LEFT.unpack(os.pread(self._fd, _LEFT.size, _HEADER.size))
            body = os.pread(self._fd, min(size, 2 * LEFT_BYTES), _HEADER.size + _LEFT.size)
        except (OSError, struct.error):
            return []
        if len(body) != size or _checksum(body, when) != crc:
            return []
        if not 0 <= elapsed() - when <= LEFT_SECONDS:
            return []
        entries: list[tuple[int, bytes]] = []
        at = 0
        while at < size:
            if at + _ENTRY.size > size:
                return []
            version, length = _ENTRY.unpack_from(body, at)
            at += _ENTRY.size + length
            if at > size or (entries and version != entries[-1][0] + 1):
                return []
            entries.append((version, body[at - length : at]))
        return entries

    def leave(self, entries: Sequence[tuple[int, bytes]]) -> None:
        """Add entries that are in the log, in order.

        Entries that are already shared are skipped.
        """
        left = list(self.read())
        for version, body in entries:
            if left and version <= left[-1][0]:
                continue
            if left and version != left[-1][0] + 1:
                left = []
            left.append((version, body))
        kept: list[bytes] = []
        budget = LEFT_BYTES
        for version, body in reversed(left[-LEFT_MAX:]):
            budget -= _ENTRY.size + len(body)
            if budget < 0:
                break
            kept.append(_ENTRY.pack(version, len(body)) + body)
        packed = b"".join(reversed(kept))
        when = elapsed()
        head = _LEFT.pack(len(packed), _checksum(packed, when), when)
        with suppress(OSError):
            os.pwrite(self._fd, head + packed, _HEADER.size)


def _checksum(body: bytes, when: float) -> int:
    return zlib.crc32(struct.pack("<d", when) + body)


@contextmanager
def join_shared_queue(identity: str, seconds: float) -> Iterator[QueueFileEntries | None]:
    """Wait at most `seconds` for the writers of this machine that came before.

    Args:
        identity: identity of the store.
        seconds: the longest wait.

    Yields:
        The shared entries; None if the queue is not available, and the caller goes on without it.
    """
    fd = _open(identity) if time.monotonic() >= _stuck.get(identity, 0.0) else None
    if fd is None:
        yield None
        return
    try:
        try:
            came = _wait(fd, seconds)
        except (OSError, OverflowError, struct.error):
            # The file cannot be locked or written, or it is damaged: go on without the queue.
            came = None
        if came is None:
            _stuck[identity] = time.monotonic() + STUCK_SECONDS
        yield QueueFileEntries(fd) if came else None
    finally:
        # A forked child shares the open file, so close alone does not release the lock.
        with suppress(OSError):
            _lock(fd, fcntl.F_UNLCK, 0, 0)
        os.close(fd)


def _open(identity: str) -> int | None:
    if _SET_LOCK is None:
        return None
    flags = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        folder = _folder()
        if folder is None:
            return None
        path = f"{folder}/{hashlib.sha256(identity.encode()).hexdigest()[:32]}"
        try:
            return os.open(path, flags)
        except FileNotFoundError:
            _forget(folder)
            return os.open(path, flags | os.O_CREAT, 0o600)
    except OSError:
        return None


def _folder() -> str | None:
    """Return a folder that only this user can open; None if there is none."""
    above = MEMORY if os.access(MEMORY, os.W_OK) else tempfile.gettempdir()
    folder = f"{above}/tablefmt-{os.getuid()}"
    with suppress(FileExistsError):
        os.mkdir(folder, 0o700)
    status = os.lstat(folder)
    ours = stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid()
    return folder if ours and not status.st_mode & 0o077 else None


def _forget(folder: str) -> None:
    with os.scandir(folder) as files:
        for file in files:
            with suppress(OSError):
                if time.time() - file.stat().st_mtime > FORGOTTEN_SECONDS:
                    os.unlink(file.path)


def _wait(fd: int, seconds: float) -> bool | None:
    """Return whether the ticket is being served; None if the queue does not move."""
    until = time.monotonic() + seconds
    ticket = _ticket(fd, until)
    if ticket is None:
        return False
    moved, served = time.monotonic(), -1
    while ticket:
        serving = min(_header(fd)[1], ticket - 1)
        if _are_over(fd, serving, ticket):
            break
        now = time.monotonic()
        if serving != served:
            served, moved = serving, now
        if now - moved > STANDSTILL_SECONDS:
            return None
        if now >= until:
            return False
        # The next writer polls often and a distant one seldom: polling slows down the writers at
        # work.
        ahead = ticket - serving
        time.sleep(min(_POLL_SECONDS * ahead * ahead, _POLL_MAX_SECONDS, max(0.0, until - now)))
    os.pwrite(fd, ticket.to_bytes(8, "little"), 8)
    return True


def _ticket(fd: int, until: float) -> int | None:
    """Take the next ticket, and lock it with this open file."""
    patience = min(until, time.monotonic() + STANDSTILL_SECONDS)
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except OSError:
            if time.monotonic() >= patience:
                return None
            time.sleep(_POLL_SECONDS)
    try:
        ticket = _header(fd)[0]
        if not _lock(fd, fcntl.F_WRLCK, ticket):
            return None
        os.pwrite(fd, (ticket + 1).to_bytes(8, "little"), 0)
        return ticket
    except OSError:
        return None
    finally:
        fcntl.flock(fd, fcntl.LOCK_UN)


def _header(fd: int) -> tuple[int, int]:
    header = os.pread(fd, _HEADER.size, 0)
    following, serving = _HEADER.unpack(header.ljust(_HEADER.size, b"\0"))
    return following, serving


def _are_over(fd: int, first: int, end: int) -> bool:
    """Return whether all holders of tickets from `first` up to, not including, `end` have left."""
    if not _lock(fd, fcntl.F_RDLCK, first, end - first):
        return False
    _lock(fd, fcntl.F_UNLCK, first, end - first)
    return True


def _lock(fd: int, kind: int, ticket: int, count: int = 1) -> bool:
    assert _SET_LOCK is not None
    request = struct.pack("hhqqi4x", kind, os.SEEK_SET, _TICKETS_FROM + ticket, count, 0)
    try:
        fcntl.fcntl(fd, _SET_LOCK, request)
    except OSError as error:
        if error.errno in _BUSY:
            return False
        raise
    return True
