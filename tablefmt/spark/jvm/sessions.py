"""What is kept for Spark sessions: by their JVM's name for them, and only while they run.

A session lives as long as its context, which `spark.stop()` ends. A cache holds contexts weakly and
lets go of those that were stopped as soon as anybody asks it anything.
"""

from __future__ import annotations

import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from tablefmt.spark.jvm.pyspark_parts import is_context_stopped, java_session
from tablefmt.spark.runtime.frames import JavaObject, Session

Value = TypeVar("Value")


class SessionCache(Generic[Value]):
    """Values by session and key: of each context those used last.

    A value must not refer to a Python session or context: it would keep that alive.
    """

    def __init__(self, most: int) -> None:
        """`most` values a context are kept."""
        self._most = most
        self._lock = threading.Lock()
        self._by_context: weakref.WeakKeyDictionary[JavaObject, OrderedDict[Hashable, Value]] = (
            weakref.WeakKeyDictionary()
        )

    def get(self, spark: Session, key: Hashable, make: Callable[[], Value]) -> Value:
        """What is kept for a classic session under `key`; else what `make` gives, kept from now on.

        Two threads that ask at once may both make it; both get the same one.
        """
        known = java_session(spark).sessionUUID(), key
        with self._lock:
            value = self._of(spark.sparkContext).get(known)
        if value is None:
            value = make()
        with self._lock:
            values = self._of(spark.sparkContext)
            value = values.setdefault(known, value)
            values.move_to_end(known)
            while len(values) > self._most:
                values.popitem(last=False)
        return value

    def clear(self) -> None:
        """Let go of everything."""
        with self._lock:
            self._by_context.clear()

    def __len__(self) -> int:
        with self._lock:
            self._forget_stopped()
            return sum(map(len, self._by_context.values()))

    def _of(self, context: JavaObject) -> OrderedDict[Hashable, Value]:
        self._forget_stopped()
        return self._by_context.setdefault(context, OrderedDict())

    def _forget_stopped(self) -> None:
        for context in [each for each in self._by_context if is_context_stopped(each)]:
            del self._by_context[context]
