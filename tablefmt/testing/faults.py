"""Store with injected faults."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import IO, Literal, TypeAlias, TypeVar, get_args

from tablefmt.errors import StoreError
from tablefmt.session.transaction_snapshot import SimulatedKill
from tablefmt.store.object_store import (
    Exists,
    NoAnswer,
    PutReply,
    Range,
    Refused,
    Store,
    StoredObject,
)
from tablefmt.store.store_wrappers import ForwardingStore

Fault: TypeAlias = Literal[
    "lost_request",
    "lost_answer",
    "sdk_retry",
    "late",
    "refused",
    "no_space",
    "kill_before",
    "kill_after",
]
Plan: TypeAlias = Callable[[int, str, str], "Fault | None"]
_Result = TypeVar("_Result")
_ONLY_CREATES = frozenset({"sdk_retry", "late"})


class Killed(SimulatedKill):
    """Simulated SIGKILL: no `except Exception` catches it. Raised at one request of the plan."""


class FaultyStore(ForwardingStore):
    """`inner` with the faults of `plan(request_index, verb, key)`. Thread-safe.

    Requests are numbered from 0, one for each call. Calls with many keys pass their first key.

    - lost_request: not applied; NoAnswer, or a retryable StoreError from other methods.
    - lost_answer: applied; the same answer.
    - sdk_retry: applied; then Exists, like a request that the SDK sent twice. Creates only.
    - late: NoAnswer; applied before the next request, if the key is still free. Creates only.
    - refused, no_space: not applied; Refused, or a StoreError from other methods.
    - kill_before, kill_after: Killed, before or after it is applied.

    Attributes:
        requests: number of requests.
        fired: count of each fault, by name.
    """

    def __init__(self, inner: Store, plan: Plan) -> None:
        super().__init__(inner)
        self._plan = plan
        self._lock = threading.Lock()
        self._late: list[tuple[str, bytes]] = []
        self.requests = 0
        self.fired: Counter[str] = Counter()

    def deliver_late(self) -> None:
        """Apply the late requests."""
        with self._lock:
            late, self._late = self._late, []
        for key, body in late:
            self.inner.put_if_absent(key, body)

    def _next_fault(self, verb: str, key: str) -> Fault | None:
        self.deliver_late()
        with self._lock:
            index = self.requests
            self.requests += 1
        fault = self._plan(index, verb, key)
        if fault is None:
            return None
        if fault not in get_args(Fault) or (fault in _ONLY_CREATES and verb != "put_if_absent"):
            raise ValueError(f"the plan injects {fault!r} at {verb}, which does not support it")
        with self._lock:
            self.fired[fault] += 1
        if fault == "kill_before":
            raise Killed(f"before {verb} {key}")
        return fault

    def put_if_absent(self, key: str, body: bytes) -> PutReply:
        """Create the object, with any of the faults."""
        fault = self._next_fault("put_if_absent", key)
        if fault == "lost_request":
            return NoAnswer("injected: request lost")
        if fault in ("refused", "no_space"):
            return Refused(f"injected: {fault}")
        if fault == "late":
            with self._lock:
                self._late.append((key, body))
            return NoAnswer("injected: request late")
        reply = self.inner.put_if_absent(key, body)
        if fault == "lost_answer":
            return NoAnswer("injected: answer lost")
        if fault == "sdk_retry":
            return Exists()
        if fault == "kill_after":
            raise Killed(f"after put_if_absent {key}")
        return reply

    def _faulty(self, verb: str, key: str, work: Callable[[], _Result]) -> _Result:
        with self._around(verb, key):
            return work()

    @contextmanager
    def _around(self, verb: str, key: str) -> Iterator[None]:
        fault = self._next_fault(verb, key)
        if fault == "lost_request":
            raise StoreError(f"injected: no answer to {verb} {key}", retryable=True)
        if fault in ("refused", "no_space"):
            raise StoreError(f"injected: {fault} at {verb} {key}")
        yield
        if fault == "lost_answer":
            raise StoreError(f"injected: no answer to {verb} {key}", retryable=True)
        if fault == "kill_after":
            raise Killed(f"after {verb} {key}")

    def put(self, key: str, body: bytes) -> None:
        """Forward the call; it may be lost, refused or killed."""
        self._faulty("put", key, lambda: self.inner.put(key, body))

    def get(self, key: str) -> bytes:
        """Forward the call; it may be lost, refused or killed."""
        return self._faulty("get", key, lambda: self.inner.get(key))

    def get_many(self, keys: Sequence[str]) -> list[bytes | None]:
        """Forward the call as one request; it may be lost, refused or killed."""
        first = keys[0] if keys else ""
        return self._faulty("get_many", first, lambda: self.inner.get_many(keys))

    def get_range(self, key: str, start: int, length: int) -> bytes:
        """Forward the call; it may be lost, refused or killed."""
        return self._faulty("get_range", key, lambda: self.inner.get_range(key, start, length))

    def get_ranges(self, ranges: Sequence[Range]) -> list[bytes | None]:
        """Forward the call as one request; it may be lost, refused or killed."""
        first = ranges[0][0] if ranges else ""
        return self._faulty("get_ranges", first, lambda: self.inner.get_ranges(ranges))

    def size(self, key: str) -> int:
        """Forward the call; it may be lost, refused or killed."""
        return self._faulty("size", key, lambda: self.inner.size(key))

    def list_after(self, prefix: str, after: str | None = None) -> Iterator[StoredObject]:
        """Forward the call; it may be lost, refused or killed. The listing itself stays lazy."""
        return self._faulty("list_after", prefix, lambda: self.inner.list_after(prefix, after))

    def delete(self, key: str) -> None:
        """Forward the call; it may be lost, refused or killed."""
        self._faulty("delete", key, lambda: self.inner.delete(key))

    def delete_many(self, keys: Sequence[str]) -> Mapping[str, str]:
        """Forward the call as one request; it may be lost, refused or killed."""
        first = keys[0] if keys else ""
        return self._faulty("delete_many", first, lambda: self.inner.delete_many(keys))

    @contextmanager
    def open_output(self, key: str) -> Iterator[IO[bytes]]:
        """Open the stream; a fault occurs before the block, or after the object appeared."""
        with self._around("open_output", key), self.inner.open_output(key) as stream:
            yield stream
