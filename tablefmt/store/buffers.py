"""Buffers that Arrow reads without Python, and the base of files that Python reads.

If an Arrow thread drops the last reference to a Python object, the thread asks for the interpreter.
If the interpreter is shutting down, the process aborts although its work is done. So Arrow reads
from its own memory. For objects that Arrow must share, the process waits a moment at exit.
"""

from __future__ import annotations

import atexit
import io
import time
from typing import TypeVar
from weakref import WeakSet

import pyarrow as pa


class PositionedReader(io.RawIOBase):
    """A file of a known length with a position. Subclasses read at `_at` and move it."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._at = 0

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Move to a position, and return it."""
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self.size}[whence]
        self._at = base + offset
        return self._at

    def tell(self) -> int:
        """Return the position."""
        return self._at

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True


AT_EXIT_SECONDS = 0.25
"""Longest wait for Arrow's threads, in seconds. Arrow never releases a scan that was begun and not
ended.
"""

_lent: WeakSet[object] = WeakSet()
_Lent = TypeVar("_Lent")


def reader_of(body: bytes | memoryview) -> pa.BufferReader:
    """Return a reader over a copy of `body` in Arrow's memory."""
    sink = pa.BufferOutputStream()
    sink.write(body)
    return pa.BufferReader(sink.getvalue())


def lent(thing: _Lent) -> _Lent:
    """Return `thing`, and wait for Arrow's threads to release it before the process exits."""
    _lent.add(thing)
    return thing


@atexit.register
def _await_return() -> None:
    until = time.monotonic() + AT_EXIT_SECONDS
    while _lent and time.monotonic() < until:
        time.sleep(0.001)
