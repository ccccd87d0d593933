"""Store in this process's memory, under fsspec's `memory://`, so other readers see its objects.

Spec: STO-1 .. STO-9 (spec/store.md). No object outlives the process.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from math import inf
from typing import IO, Any

import pyarrow as pa
from fsspec.implementations.memory import MemoryFile, MemoryFileSystem

from tablefmt.store.buffers import reader_of
from tablefmt.store.clocks import wall_us
from tablefmt.store.forks import ForkedLock
from tablefmt.store.object_store import (
    Exists,
    KeyNotFoundError,
    PutReply,
    Range,
    Request,
    ServerlessStore,
    SharedEntries,
    StoredObject,
    Tally,
    TooLong,
    Written,
    check_key,
    check_prefix,
    check_range,
    most_of,
)
from tablefmt.store.store_traits import Traits

# fsspec keeps one dictionary for the whole process, so one lock guards it.
_LOCK = ForkedLock()


class _SharedMemory(MemoryFileSystem):  # type: ignore[misc]
    """fsspec's memory file system, with a separate position for every reader."""

    cachable = False

    def _open(self, path: str, mode: str = "rb", **options: Any) -> Any:
        opened = super()._open(path, mode=mode, **options)
        return io.BytesIO(opened.getvalue()) if mode == "rb" else opened


class MemoryStore(ServerlessStore):
    """Objects below `memory://name`. Two stores of one name in one process share their objects."""

    def __init__(self, name: str, *, unsafe_single_writer: bool = False) -> None:
        self._root = "/" + name.strip("/")
        self.uri = f"memory:/{self._root}"
        self.identity = self.uri
        self.traits = Traits(scheme="memory", path=self._root[1:], shared=False)
        self.probe_scope = "memory:"
        self.unsafe_single_writer = unsafe_single_writer
        self.tally = Tally()
        self._files = _SharedMemory()

    def __repr__(self) -> str:
        return f"MemoryStore({self._root[1:]!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return _reopen, (self._root[1:], self.unsafe_single_writer)

    def _path(self, key: str) -> str:
        return f"{self._root}/{check_key(key)}"

    def _file(self, key: str) -> MemoryFile:
        file = self._files.store.get(self._path(key))
        if file is None:
            raise KeyNotFoundError(key)
        return file

    def put_if_absent(self, key: str, body: bytes) -> PutReply:
        """Check and create under one lock."""
        self.tally.add(Request.PUT)
        path = self._path(key)
        with _LOCK:
            if path in self._files.store:
                return Exists()
            self._files.store[path] = MemoryFile(self._files, path, bytes(body))
        return Written()

    def put(self, key: str, body: bytes) -> None:
        """Create or replace the object."""
        self.tally.add(Request.PUT)
        path = self._path(key)
        with _LOCK:
            self._files.store[path] = MemoryFile(self._files, path, bytes(body))

    @contextmanager
    def open_output(self, key: str) -> Iterator[IO[bytes]]:
        """Collect the bytes in a buffer, and put them at exit."""
        check_key(key)
        buffer = _KeptBuffer()
        yield buffer
        self.put(key, buffer.getvalue())

    def get(self, key: str) -> bytes:
        """Return a copy of the object."""
        self.tally.add(Request.GET)
        return _whole(self._file(key), key)

    def get_many(self, keys: Sequence[str]) -> list[bytes | None]:
        """Read objects one after another."""
        self.tally.add(Request.GET, len(keys))
        files = [(self._files.store.get(self._path(key)), key) for key in keys]
        return [None if one is None else _whole(one, key) for one, key in files]

    def get_range(self, key: str, start: int, length: int) -> bytes:
        """Return a copy of the range."""
        self.tally.add(Request.GET)
        check_range(start, length)
        return bytes(self._file(key).getbuffer()[start : start + length])

    def get_ranges(self, ranges: Sequence[Range]) -> list[bytes | None]:
        """Read ranges one after another."""
        self.tally.add(Request.GET, len(ranges))
        parts: list[bytes | None] = []
        for key, start, length in ranges:
            check_range(start, length)
            file = self._files.store.get(self._path(key))
            part = None if file is None else bytes(file.getbuffer()[start : start + length])
            parts.append(part)
        return parts

    def size(self, key: str) -> int:
        """Return the length in bytes."""
        self.tally.add(Request.GET)
        return len(self._file(key).getbuffer())

    def list_after(self, prefix: str, after: str | None = None) -> Iterator[StoredObject]:
        """Return an iterator over a sorted copy of the listing as it is now."""
        self.tally.add(Request.LIST)
        start = f"{self._root}/"
        below = start + check_prefix(prefix)
        with _LOCK:
            objects = [
                StoredObject(
                    path[len(start) :],
                    len(file.getbuffer()),
                    int(file.modified.timestamp() * 1_000_000),
                )
                for path, file in self._files.store.items()
                if path.startswith(below)
            ]
        floor = b"" if after is None else after.encode("utf-8", "surrogatepass")
        objects = [one for one in objects if one.key.encode("utf-8") > floor]
        return iter(sorted(objects, key=lambda one: one.key.encode("utf-8")))

    def delete(self, key: str) -> None:
        """Remove the object."""
        self.tally.add(Request.DELETE)
        path = self._path(key)
        with _LOCK:
            self._files.store.pop(path, None)

    def delete_many(self, keys: Sequence[str]) -> Mapping[str, str]:
        """Remove objects one after another."""
        for key in keys:
            self.delete(key)
        return {}

    def remove_empty(self, folder: str) -> None:
        """Do nothing: memory has no directories."""

    def sync(self, keys: Iterable[str]) -> None:
        """Check the keys. Memory has nothing to make durable."""
        for key in keys:
            check_key(key)

    def open_file(self, key: str) -> pa.NativeFile | None:
        """Open a copy of the object."""
        return reader_of(self._file(key).getvalue())

    def turn(self, key: str, seconds: float = inf) -> AbstractContextManager[SharedEntries | None]:
        """Do not queue: here a lost race costs little more than the wait would."""
        return nullcontext()

    def server_time_us(self) -> int | None:
        """Return None: memory uses this machine's clock."""
        return None

    def clock_us(self) -> int:
        """Return this machine's clock, which dates objects in memory."""
        return wall_us()


def _whole(file: MemoryFile, key: str) -> bytes:
    """Return a copy, or TooLong if the object is over the limit for its key (STO-24)."""
    size = len(file.getbuffer())
    return bytes(file.getvalue()) if size <= most_of(key) else TooLong(size)


class _KeptBuffer(io.BytesIO):
    """A buffer that keeps its bytes after close(), because Arrow's writers call close()."""

    def close(self) -> None:
        """Keep the bytes."""


def _reopen(name: str, unsafe_single_writer: bool) -> MemoryStore:
    return MemoryStore(name, unsafe_single_writer=unsafe_single_writer)
