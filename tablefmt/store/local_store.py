"""Store in a directory on a local disk.

Every file is opened relative to an open handle of its directory. No symbolic link below the root is
followed. So a key cannot leave the root, even while another process changes the tree.

Spec: STO-1 .. STO-10 (spec/store.md).
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from math import inf
from typing import IO, Any

import pyarrow as pa

from tablefmt.errors import StoreError
from tablefmt.printable import is_unicode
from tablefmt.store.forks import renew_after_fork
from tablefmt.store.local_files import (
    LINK_REFUSALS,
    READ_FLAGS,
    Directories,
    Handle,
    StagedFile,
    device_of,
    explain,
    is_taken,
    range_or_none,
    read_at,
    read_or_none,
    read_whole,
    regular_size,
    remove_many,
    remove_names,
    store_error,
    sync_directory,
    time_of_disk,
    translated,
    wait_for_lock,
)
from tablefmt.store.object_store import (
    Exists,
    KeyNotFoundError,
    NoAnswer,
    PutReply,
    Range,
    Refused,
    Request,
    ServerlessStore,
    StoredObject,
    Tally,
    Written,
    check_key,
    check_prefix,
    check_range,
)
from tablefmt.store.store_traits import Traits

_OUTPUT_BUFFER_BYTES = 1 << 20
_SYNC_THREADS = 8

_DESCRIPTORS = "/proc/self/fd" if os.path.isdir("/proc/self/fd") else "/dev/fd"
_STREAM_ERRORS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})
QUEUE_SECONDS = 1.0
"""Longest wait for the shared commit queue (STO-14): time for hundreds of creates. A stopped holder
delays other writers no longer than this.
"""


class LocalStore(ServerlessStore):
    """Objects as files below `path`. The first write creates the directory.

    A create costs one fsync of the file and one of its directory, about 300 µs together.
    """

    def __init__(self, path: str | os.PathLike[str], *, unsafe_single_writer: bool = False) -> None:
        self.uri = os.path.realpath(os.fspath(path))
        if not is_unicode(self.uri):
            raise StoreError(
                f"the path {self.uri!r} is not UTF-8. Log entries and Spark need text. Use a "
                "UTF-8 path."
            )
        self.identity = f"file://{self.uri}"
        self.traits = Traits(scheme="file", path=self.uri.rstrip("/"), on_disk=True)
        self.unsafe_single_writer = unsafe_single_writer
        self.tally = Tally()
        self._directories = Directories(self.uri)
        self._named = _DESCRIPTORS != "/proc/self/fd"
        self._root_synced = False
        self._turn: Handle | None = None
        self._waited = 0.0
        renew_after_fork(self)

    def after_fork(self) -> None:
        """Drop the queue lock: it belongs to the parent."""
        self._turn = None

    @property
    def probe_scope(self) -> str:
        """The file system: it creates links in the same way everywhere."""
        return f"file:{device_of(self.uri)}"

    def __repr__(self) -> str:
        return f"LocalStore({self.uri!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return _reopen, (self.uri, self.unsafe_single_writer)

    def put_if_absent(self, key: str, body: bytes) -> PutReply:
        """Write an unnamed file, fsync it, link it to its final name, and fsync the directory.

        The queue lock is released after the link, so the next writer does not wait for the
        directory's fsync.

        An `Exists` answer needs no fsync. The object's bytes were durable before it had a name, and
        the next create in this directory makes both names durable.
        """
        self.tally.add(Request.PUT)
        folder, name = _split(check_key(key))
        for last_try in (False, True):
            try:
                directory = self._directories.open(folder, create=True)
                if is_taken(directory, name):
                    # A late writer in a race learns this without writing and syncing a body.
                    return Exists()
                staged = self._stage(directory, body)
            except FileNotFoundError as error:
                # The directory was removed after it was opened. Create it again, once.
                if last_try:
                    return Refused(explain(error))
                continue
            except OSError as error:
                return Refused(explain(error))
            break
        try:
            return self._link(directory, staged, name)
        finally:
            staged.discard()

    def put(self, key: str, body: bytes) -> None:
        """Create or replace by rename, so a reader sees the old object or the new one (STO-7).

        A free name is linked before the fsync. No reader expects it before this call returns, and
        one journal commit then covers file and names.
        """
        self.tally.add(Request.PUT)
        folder, name = _split(check_key(key))
        with translated("write", key):
            unsynced: list[Handle] = []
            try:
                directory = self._directories.open(folder, create=True, unsynced=unsynced)
                staged = self._stage(directory, body, sync=False)
            except FileNotFoundError:
                # The directory was empty and was removed meanwhile. Create it again, once.
                directory = self._directories.open(folder, create=True, unsynced=unsynced)
                staged = self._stage(directory, body, sync=False)
            try:
                try:
                    staged.link(name)
                    os.fsync(staged.fd)
                except FileExistsError:
                    os.fsync(staged.fd)
                    staged.replace(name)
            finally:
                staged.discard()
            for changed in (directory, *reversed(unsynced)):
                os.fsync(changed.fd)

    @contextmanager
    def open_output(self, key: str) -> Iterator[IO[bytes]]:
        """Open a stream whose bytes get their final name only when the block succeeds (STO-7)."""
        self.tally.add(Request.PUT)
        folder, name = _split(check_key(key))
        with translated("write", key):
            directory = self._directories.open(folder, create=True)
            staged = StagedFile(directory, named=self._named)
        try:
            with os.fdopen(staged.fd, "wb", _OUTPUT_BUFFER_BYTES, closefd=False) as stream:
                yield stream
            os.fsync(staged.fd)
        except OSError as error:
            staged.discard()
            if error.errno in _STREAM_ERRORS:
                raise store_error("write", key, error) from error
            raise
        except BaseException:
            staged.discard()
            raise
        with translated("write", key):
            _publish(directory, staged, name)

    def _link(self, directory: Handle, staged: StagedFile, name: str) -> PutReply:
        try:
            staged.link(name)
        except FileExistsError:
            return Exists()
        except OSError as error:
            refused = error.errno in LINK_REFUSALS
            return Refused(explain(error)) if refused else NoAnswer(explain(error))
        self._leave_queue()
        staged.discard()
        try:
            os.fsync(directory.fd)
        except OSError as error:
            return NoAnswer(f"the directory is not durable: {explain(error)}")
        return Written()

    def _stage(self, directory: Handle, body: bytes, *, sync: bool = True) -> StagedFile:
        staged = StagedFile(directory, named=self._named)
        try:
            staged.write(body, sync=sync)
        except BaseException:
            staged.discard()
            raise
        return staged

    def delete(self, key: str) -> None:
        """Unlink the file, and make the removal durable."""
        self.tally.add(Request.DELETE)
        folder, name = _split(check_key(key))
        for error in remove_names(self._directories, folder, [name]).values():
            raise store_error("delete", key, error) from error

    def delete_many(self, keys: Sequence[str]) -> Mapping[str, str]:
        """Delete the files folder by folder. Return the failures by key."""
        self.tally.add(Request.DELETE, len(keys))
        return remove_many(self._directories, [check_key(key) for key in keys])

    def remove_empty(self, folder: str) -> None:
        """Remove the folder and its subfolders as far as they are empty (STO-15)."""
        self._directories.remove_empty(check_prefix(folder).rstrip("/"))

    def sync(self, keys: Iterable[str]) -> None:
        """Fsync the files, then every directory from theirs up to the root and the root's name."""
        checked = [check_key(key) for key in keys]
        if not checked:
            return
        if len(checked) == 1:
            self._sync_file(checked[0])
        else:
            with ThreadPoolExecutor(min(_SYNC_THREADS, len(checked))) as pool:
                list(pool.map(self._sync_file, checked))
        folders = {""}
        for key in checked:
            folder = _split(key)[0]
            while folder and folder not in folders:
                folders.add(folder)
                folder = _split(folder)[0]
        for folder in sorted(folders, reverse=True):
            with translated("sync", folder or "."):
                os.fsync(self._directories.open(folder, create=False).fd)
        if not self._root_synced:
            with translated("sync", "."):
                sync_directory(os.path.dirname(self.uri))
            self._root_synced = True

    def _sync_file(self, key: str) -> None:
        with self._reading(key, "sync") as fd:
            os.fsync(fd)

    def get(self, key: str) -> bytes:
        """Return the bytes of the whole file."""
        self.tally.add(Request.GET)
        with self._reading(key, "read") as fd:
            return read_whole(fd, key)

    def get_many(self, keys: Sequence[str]) -> list[bytes | None]:
        """Read files one after another: a local read is shorter than a handover to a thread."""
        self.tally.add(Request.GET, len(keys))
        directories: dict[str, Handle | None] = {}
        bodies: list[bytes | None] = []
        for key in keys:
            folder, name = _split(check_key(key))
            if folder not in directories:
                directories[folder] = self._directory_or_none(folder, key)
            directory = directories[folder]
            bodies.append(None if directory is None else read_or_none(directory, name, key))
        return bodies

    def _directory_or_none(self, folder: str, key: str) -> Handle | None:
        try:
            return self._directories.open(folder, create=False)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise store_error("read", key, error) from error

    def get_range(self, key: str, start: int, length: int) -> bytes:
        """Read `length` bytes from `start`."""
        self.tally.add(Request.GET)
        check_range(start, length)
        with self._reading(key, "read") as fd:
            return read_at(fd, start, max(0, min(length, os.fstat(fd).st_size - start)))

    def get_ranges(self, ranges: Sequence[Range]) -> list[bytes | None]:
        """Read ranges one after another, as `get_many` does."""
        self.tally.add(Request.GET, len(ranges))
        directories: dict[str, Handle | None] = {}
        parts: list[bytes | None] = []
        for key, start, length in ranges:
            check_range(start, length)
            folder, name = _split(check_key(key))
            if folder not in directories:
                directories[folder] = self._directory_or_none(folder, key)
            directory = directories[folder]
            part = None if directory is None else range_or_none(directory, name, key, start, length)
            parts.append(part)
        return parts

    def size(self, key: str) -> int:
        """Return the length in bytes."""
        self.tally.add(Request.GET)
        with self._reading(key, "read") as fd:
            return os.fstat(fd).st_size

    @contextmanager
    def _reading(self, key: str, verb: str) -> Iterator[int]:
        folder, name = _split(check_key(key))
        with translated(verb, key):
            try:
                directory = self._directories.open(folder, create=False)
                fd = os.open(name, READ_FLAGS, dir_fd=directory.fd)
            except FileNotFoundError:
                raise KeyNotFoundError(key) from None
            try:
                regular_size(fd)
                yield fd
            finally:
                os.close(fd)

    def list_after(self, prefix: str, after: str | None = None) -> Iterator[StoredObject]:
        """List lazily: a directory is read when its first key is due. Symbolic links are not
        listed.
        """
        self.tally.add(Request.LIST)
        folder = _split(check_prefix(prefix))[0]
        floor = b"" if after is None else after.encode("utf-8", "surrogatepass")
        yield from self._list(folder, prefix.encode("utf-8"), floor)

    def _list(self, folder: str, prefix: bytes, floor: bytes) -> Iterator[StoredObject]:
        with translated("list", folder or "."):
            try:
                directory = self._directories.open(folder, create=False)
                with os.scandir(directory.fd) as entries:
                    children = sorted(_sort_keys(entries, folder, prefix, floor))
            except FileNotFoundError:
                return
        for _, name, is_folder in children:
            key = f"{folder}/{name}" if folder else name
            if is_folder:
                yield from self._list(key, prefix, floor)
                continue
            with translated("list", key):
                try:
                    status = os.stat(name, dir_fd=directory.fd, follow_symlinks=False)
                except FileNotFoundError:
                    continue
            if stat.S_ISREG(status.st_mode):
                yield StoredObject(key, status.st_size, status.st_mtime_ns // 1000)

    def open_file(self, key: str) -> pa.NativeFile | None:
        """Open the file without following links, and give Arrow the open file instead of its
        path.
        """
        with self._reading(key, "read") as fd:
            # Arrow opens by path only. This path leads to the file that is open here.
            return pa.OSFile(f"{_DESCRIPTORS}/{fd}")

    @contextmanager
    def turn(self, key: str, seconds: float = inf) -> Iterator[None]:
        """Hold an advisory lock on the key's directory. Stop waiting for it after QUEUE_SECONDS.

        The lock is released at the end of the block, or when this store creates the next name,
        whichever thread does. The threads of a process share the lock: `CommitQueue` orders them.
        """
        try:
            directory = self._directories.open(_split(check_key(key))[0], create=False)
        except OSError:
            yield
            return
        start = time.monotonic()
        if wait_for_lock(directory.fd, min(seconds, QUEUE_SECONDS), self._waited):
            self._turn = directory
        self._waited = (self._waited + time.monotonic() - start) / 2
        try:
            yield
        finally:
            self._leave_queue()

    def _leave_queue(self) -> None:
        held, self._turn = self._turn, None
        if held is not None:
            fcntl.flock(held.fd, fcntl.LOCK_UN)

    def server_time_us(self) -> int | None:
        """Return None: a disk shows its clock only by the time of a new file."""
        return None

    def clock_us(self) -> int:
        """Return the disk's own clock."""
        return time_of_disk(self._directories)


def _reopen(path: str, unsafe_single_writer: bool) -> LocalStore:
    return LocalStore(path, unsafe_single_writer=unsafe_single_writer)


def _split(key: str) -> tuple[str, str]:
    return key.rpartition("/")[::2]


def _publish(directory: Handle, staged: StagedFile, name: str) -> None:
    try:
        try:
            staged.link(name)
        except FileExistsError:
            staged.replace(name)
    finally:
        staged.discard()
    os.fsync(directory.fd)


def _sort_keys(
    entries: Iterable[os.DirEntry[str]], folder: str, prefix: bytes, floor: bytes
) -> Iterator[tuple[bytes, str, bool]]:
    """Yield (key's bytes, name, is a directory) for each child that may hold requested keys.

    A directory's key ends in '/', so this order is the order of the full keys below it.
    """
    start = os.fsencode(folder) + b"/" if folder else b""
    for entry in entries:
        is_folder = entry.is_dir(follow_symlinks=False)
        path = start + os.fsencode(entry.name) + (b"/" if is_folder else b"")
        if is_folder:
            belongs = path.startswith(prefix) or prefix.startswith(path)
            belongs = belongs and (path > floor or floor.startswith(path))
        else:
            belongs = path.startswith(prefix) and path > floor
        if belongs and b"\\" not in path and is_unicode(entry.name):
            yield path, entry.name, is_folder
