"""Bytes that Arrow reads without Python.

A thread of Arrow's that is the last to let go of a Python object asks for the interpreter. If that
is ending, the process is aborted, after all its work was done: so what Arrow reads is memory of its
own, and a process that ends waits a moment for what cannot be.
"""

from __future__ import annotations

import atexit
import time
from typing import TypeVar
from weakref import WeakSet

import pyarrow as pa

AT_EXIT_SECONDS = 0.25
"""Longest wait for Arrow's threads; a scan that somebody began and never ended is never let go."""

_lent: WeakSet[object] = WeakSet()
_Lent = TypeVar("_Lent")


def reader_of(body: bytes | memoryview) -> pa.BufferReader:
    """A file that holds a copy of these bytes, in Arrow's memory."""
    sink = pa.BufferOutputStream()
    sink.write(body)
    return pa.BufferReader(sink.getvalue())


def lent(thing: _Lent) -> _Lent:
    """The same object, which Arrow's threads are about to hold."""
    _lent.add(thing)
    return thing


@atexit.register
def _await_return() -> None:
    until = time.monotonic() + AT_EXIT_SECONDS
    while _lent and time.monotonic() < until:
        time.sleep(0.001)
