"""Buffers that Arrow reads without Python.

If an Arrow thread drops the last reference to a Python object, the thread asks for the interpreter.
If the interpreter is shutting down, the process aborts although its work is done. So Arrow reads
from its own memory. For objects that Arrow must share, the process waits a moment at exit.
"""

from __future__ import annotations

import atexit
import time
from typing import TypeVar
from weakref import WeakSet

import pyarrow as pa

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
