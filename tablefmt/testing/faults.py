"""A store that fails where a plan says so."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import IO, Literal, TypeAlias, TypeVar, get_args

from tablefmt.errors import StoreError
from tablefmt.store.protocol import (
    Exists,
    NoAnswer,
    PutReply,
    Range,
    Refused,
    Store,
    StoredObject,
)
from tablefmt.store.wrap import ForwardingStore

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


class Killed(BaseException):
    """Stands for SIGKILL: no `except Exception` sees it. Raised at one request of the plan."""


class FaultyStore(ForwardingStore):
    """`inner`, with the faults of `plan(request_index, verb, key)`. Safe between threads.

    Requests are numbered from 0, one a call; those for many pass their first key.

    - lost_request: not applied; NoAnswer, or a retryable StoreError from other verbs.
    - lost_answer: applied; the same answer.
    - sdk_retry: applied; then Exists, as of a request that the SDK sent twice. Creates only.
    - late: NoAnswer; applied before the next request, if the key is still free. Creates only.
    - refused, no_space: not applied; Refused, or a StoreError from other verbs.
    - kill_before, kill_after: Killed, before or after it is applied.

    Attributes:
        requests: How many requests came.
        fired: How often each fault happened, by name.
    """

    def __init__(self, inner: Store, plan: Plan) -> None:
        super().__init__(inner)
        self._plan = plan
        self._lock = threading.Lock()
        self._late: list[tuple[str, bytes]] = []
        self.requests = 0
        self.fired: Counter[str] = Counter()

    def deliver_late(self) -> None:
        """Apply what is still under way."""
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
            raise ValueError(f"the plan asks for {fault!r} at {verb}, which has no meaning")
        with self._lock:
            self.fired[fault] += 1
        if fault == "kill_before":
            raise Killed(f"before {verb} {key}")
        return fault

    def put_if_absent(self, key: str, body: bytes) -> PutReply:
        """All faults."""
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
        """Lost, refused, killed."""
        self._faulty("put", key, lambda: self.inner.put(key, body))

    def get(self, key: str) -> bytes:
        """Lost, refused, killed."""
        return self._faulty("get", key, lambda: self.inner.get(key))

    def get_many(self, keys: Sequence[str]) -> list[bytes | None]:
        """Lost, refused, killed; one request."""
        first = keys[0] if keys else ""
        return self._faulty("get_many", first, lambda: self.inner.get_many(keys))

    def get_range(self, key: str, start: int, length: int) -> bytes:
        """Lost, refused, killed."""
        return self._faulty("get_range", key, lambda: self.inner.get_range(key, start, length))

    def get_ranges(self, ranges: Sequence[Range]) -> list[bytes | None]:
        """Lost, refused, killed; one request."""
        first = ranges[0][0] if ranges else ""
        return self._faulty("get_ranges", first, lambda: self.inner.get_ranges(ranges))

    def size(self, key: str) -> int:
        """Lost, refused, killed."""
        return self._faulty("size", key, lambda: self.inner.size(key))

    def list_after(self, prefix: str, after: str | None = None) -> Iterator[StoredObject]:
        """Lost, refused, killed, when asked for; the listing itself stays lazy."""
        return self._faulty("list_after", prefix, lambda: self.inner.list_after(prefix, after))

    def delete(self, key: str) -> None:
        """Lost, refused, killed."""
        self._faulty("delete", key, lambda: self.inner.delete(key))

    def delete_many(self, keys: Sequence[str]) -> Mapping[str, str]:
        """Lost, refused, killed; one request."""
        first = keys[0] if keys else ""
        return self._faulty("delete_many", first, lambda: self.inner.delete_many(keys))

    @contextmanager
    def open_output(self, key: str) -> Iterator[IO[bytes]]:
        """Before the block, or after the object appeared."""
        with self._around("open_output", key), self.inner.open_output(key) as stream:
            yield stream
