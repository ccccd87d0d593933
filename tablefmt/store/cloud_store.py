"""Base of the stores of Google Cloud Storage and Azure: threads, errors, clocks, streams.

A subclass sends single requests. A create is sent once. Other requests are sent up to three times
if the store gives no answer or asks to slow down.

Spec: STO-1 .. STO-11 (spec/store.md).
"""

from __future__ import annotations

import io
import os
import time
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from math import inf
from typing import IO, Any, ClassVar, TypeVar, cast

import pyarrow as pa

from tablefmt.errors import StoreError
from tablefmt.store.clocks import elapsed, wall_us
from tablefmt.store.cloud_answers import Dialect, explain, is_absent, is_retryable, put_reply
from tablefmt.store.forks import ForkedLock, renew_after_fork
from tablefmt.store.object_store import (
    KeyNotFoundError,
    PutReply,
    Range,
    Request,
    SharedEntries,
    StoredObject,
    Tally,
    Written,
    check_key,
    check_prefix,
    check_range,
    most_of,
)
from tablefmt.store.s3_answers import Failure, date_to_us, in_order, start_after
from tablefmt.store.shared_commit_queue import shared_queue_turn

_Result = TypeVar("_Result")

PARALLEL = 32
"""Requests of one call at a time, and connections that a client keeps."""
OUTPUT_PART_BYTES = 16 << 20
TIMEOUT_SECONDS = 60.0
_WAIT_SECONDS = (0.1, 0.4)
"""Waits before a request is sent again."""
_MOST_KEPT = 16
_EVERYWHERE = ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY", "HOME")


class KeptClients:
    """The most recent clients of this process, by options and environment.

    A forked child starts with none, because connections do not survive a fork.
    """

    def __init__(self, variables: tuple[str, ...]) -> None:
        self._variables = variables
        self._lock = ForkedLock()
        self._kept: OrderedDict[Any, Any] = OrderedDict()
        renew_after_fork(self)

    def after_fork(self) -> None:
        """Forget the parent's clients. Other threads of the parent may be using them."""
        self._kept = OrderedDict()

    def get(self, options: Mapping[str, Any], make: Callable[[], _Result]) -> _Result:
        """Return the client for these options, made by `make` if there is none."""
        read = (*self._variables, *_EVERYWHERE)
        surroundings = [
            (name, value)
            for name, value in sorted(os.environ.items())
            if name.upper().startswith(read)
        ]
        token = repr((sorted(options.items()), surroundings))
        with self._lock:
            if token not in self._kept:
                self._kept[token] = make()
            self._kept.move_to_end(token)
            if len(self._kept) > _MOST_KEPT:
                self._kept.popitem(last=False)
            return cast(_Result, self._kept[token])


class Parts(ABC):
    """An object that is sent in parts, and appears with the last one."""

    @abstractmethod
    def send(self, part: bytes) -> None:
        """Send one part of `OUTPUT_PART_BYTES`."""

    @abstractmethod
    def finish(self, rest: bytes) -> None:
        """Send the rest, and make the object visible."""

    @abstractmethod
    def abort(self) -> None:
        """Give up. Never raises."""


class Output(io.RawIOBase):
    """Writer's view of an upload. Its close() does nothing; the end of the block finishes the
    upload.
    """

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._waiting = bytearray()
        self._length = 0

    def writable(self) -> bool:
        """Return True."""
        return True

    def tell(self) -> int:
        """Return the bytes written so far."""
        return self._length

    def write(self, body: Any) -> int:
        """Accept bytes, and send them one part at a time."""
        before = len(self._waiting)
        self._waiting += body
        count = len(self._waiting) - before
        self._length += count
        # More than a part, so that `finish` always has a last one.
        while len(self._waiting) > OUTPUT_PART_BYTES:
            self._parts.send(bytes(self._waiting[:OUTPUT_PART_BYTES]))
            del self._waiting[:OUTPUT_PART_BYTES]
        return count

    def finish(self) -> None:
        """Send the remaining bytes, and make the object visible."""
        self._parts.finish(bytes(self._waiting))


class CloudStore(ABC):
    """Objects below a prefix of a bucket or container. Subclasses send the requests."""

    dialect: ClassVar[Dialect]

    def __init__(
        self,
        place: str,
        prefix: str,
        *,
        uri: str,
        scope: str,
        unsafe_single_writer: bool,
    ) -> None:
        self._place = place
        self._start = f"{prefix}/" if prefix else ""
        self.uri = uri
        self.identity = f"{scope}#{prefix}" if prefix else scope
        self.probe_scope = scope
        self.unsafe_single_writer = unsafe_single_writer
        self.tally = Tally()
        self._server_time: tuple[int, float] | None = None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.uri!r})"

    # Single requests, with full names. Each may raise what `_failure` decodes.

    @abstractmethod
    def _failure(self, error: Exception) -> Failure | None:
        """Return the failure of an exception of the client; None if it is a mistake of ours."""

    @abstractmethod
    def _create(self, name: str, body: bytes) -> None: ...

    @abstractmethod
    def _write(self, name: str, body: bytes) -> None: ...

    @abstractmethod
    def _fetch(self, name: str, most: int, start: int | None) -> bytes:
        """Return the object, or `most` bytes from `start`. `TooLong` if more would come."""

    @abstractmethod
    def _length(self, name: str) -> int: ...

    @abstractmethod
    def _remove(self, name: str) -> None: ...

    @abstractmethod
    def _page(self, prefix: str, after: str | None, token: str | None) -> tuple[Any, str | None]:
        """Return (name, bytes, µs) of one page of a listing, and the token of the next page."""

    @abstractmethod
    def _parts(self, name: str) -> Parts: ...

    def _confirm_place(self) -> bool:
        """Return whether the place for objects exists, after a 404 that does not say."""
        return True

    # Errors and clocks

    def note_date(self, date: str | None) -> None:
        """Keep the store's clock, by the Date header of an answer."""
        micros = date_to_us(date)
        if micros is not None:
            self._server_time = (micros, elapsed())

    def _decoded(self, error: Exception) -> Failure:
        failure = self._failure(error)
        if failure is None:
            raise error
        self.note_date(failure.date)
        return failure

    def _run(
        self, verb: str, key: str, work: Callable[[], _Result], kind: Request | None = None
    ) -> _Result:
        """Send a request, and convert its failure to an error of this package.

        With a `kind`, it is counted, and sent again if the store gives no answer or asks for it.
        """
        waits = _WAIT_SECONDS if kind is not None else ()
        for wait in (*waits, None):
            if kind is not None:
                self.tally.add(kind)
            try:
                return work()
            except (StoreError, KeyNotFoundError):
                raise
            except Exception as error:
                failure = self._decoded(error)
                if wait is None or not is_retryable(failure):
                    raise self._error(verb, key, failure) from None
            time.sleep(wait)
        raise AssertionError("unreachable")

    def _error(self, verb: str, key: str, failure: Failure) -> StoreError | KeyNotFoundError:
        of_object = verb in ("read", "delete") and is_absent(failure, self.dialect)
        if of_object and self._confirm_place():
            return KeyNotFoundError(key)
        return StoreError(
            f"cannot {verb} {key!r} at {self.uri}: {explain(failure, self._place, self.dialect)}.",
            retryable=is_retryable(failure),
        )

    def _name(self, key: str) -> str:
        return self._start + check_key(key)

    def _all(self, work: Callable[[Any], _Result], items: Sequence[Any]) -> list[_Result]:
        """Do the work for each item, in parallel."""
        if len(items) < 2:
            return [work(item) for item in items]
        with ThreadPoolExecutor(min(PARALLEL, len(items))) as pool:
            return list(pool.map(work, items))

    # Writing

    def put_if_absent(self, key: str, body: bytes) -> PutReply:
        """Create with one conditional request, for any length."""
        name = self._name(key)
        self.tally.add(Request.PUT)
        try:
            self._create(name, bytes(body))
        except StoreError:
            raise
        except Exception as error:
            return put_reply(self._decoded(error), self._place, self.dialect)
        return Written()

    def put(self, key: str, body: bytes) -> None:
        """Write with one unconditional request."""
        name = self._name(key)
        self._run("write", key, lambda: self._write(name, bytes(body)), Request.PUT)

    @contextmanager
    def open_output(self, key: str) -> Iterator[IO[bytes]]:
        """Open a stream: one request for up to 16 MiB, else parts.

        The parts are dropped if the block raises. The tally counts one request.
        """
        name = self._name(key)
        self.tally.add(Request.PUT)
        parts = self._parts(name)
        stream = Output(_Guarded(parts, lambda work: self._run("write", key, work)))
        try:
            yield cast(IO[bytes], stream)
            stream.finish()
        except BaseException:
            parts.abort()
            raise

    def delete(self, key: str) -> None:
        """Send one DELETE. An absent key is fine."""
        name = self._name(key)
        try:
            self._run("delete", key, lambda: self._remove(name), Request.DELETE)
        except KeyNotFoundError:
            return

    def delete_many(self, keys: Sequence[str]) -> Mapping[str, str]:
        """Send a DELETE for each key, in parallel."""
        for key in keys:
            check_key(key)

        def one(key: str) -> str:
            try:
                self.delete(key)
            except StoreError as error:
                return str(error)
            return ""

        problems = self._all(one, keys)
        return {key: problem for key, problem in zip(keys, problems, strict=True) if problem}

    def remove_empty(self, folder: str) -> None:
        """Do nothing: no table needs its folders removed here."""
        return

    def sync(self, keys: Iterable[str]) -> None:
        """Check the keys. A visible object is already durable."""
        for key in keys:
            check_key(key)

    # Reading

    def get(self, key: str) -> bytes:
        """Send one GET, without a HEAD before it."""
        name = self._name(key)
        return self._run("read", key, lambda: self._fetch(name, most_of(key), None), Request.GET)

    def get_many(self, keys: Sequence[str]) -> list[bytes | None]:
        """Send GETs in parallel."""
        for key in keys:
            check_key(key)
        return self._all(lambda key: _or_none(lambda: self.get(key)), keys)

    def get_range(self, key: str, start: int, length: int) -> bytes:
        """Send one ranged GET. An empty range still checks that the object exists."""
        check_range(start, length)
        if length == 0:
            self.size(key)
            return b""
        name = self._name(key)
        return self._run("read", key, lambda: self._fetch_range(name, start, length), Request.GET)

    def get_ranges(self, ranges: Sequence[Range]) -> list[bytes | None]:
        """Send ranged GETs in parallel."""
        for key, start, length in ranges:
            check_range(start, length)
            check_key(key)
        return self._all(lambda one: _or_none(lambda: self.get_range(*one)), ranges)

    def _fetch_range(self, name: str, start: int, length: int) -> bytes:
        try:
            return self._fetch(name, length, start)
        except StoreError:
            raise
        except Exception as error:
            failure = self._failure(error)
            if failure is not None and failure.status == 416:
                self.note_date(failure.date)
                return b""
            raise

    def size(self, key: str) -> int:
        """Send one request for the length."""
        name = self._name(key)
        return self._run("read", key, lambda: self._length(name), Request.GET)

    def list_after(self, prefix: str, after: str | None = None) -> Iterator[StoredObject]:
        """List lazily: a page is fetched when its first key is due."""
        return in_order(self._listed(check_prefix(prefix), after), after, self.uri)

    def _listed(self, prefix: str, after: str | None) -> Iterator[StoredObject]:
        token: str | None = None
        # An empty rest, or a place before the prefix, begins at the prefix.
        floor = start_after(after) if after else ""
        begin = self._start + floor if floor > prefix else None
        while True:
            found, token = self._run(
                "list",
                prefix or ".",
                lambda token=token: self._page(self._start + prefix, begin, token),  # type: ignore[misc]
                Request.LIST,
            )
            for name, size, modified_us in found:
                yield StoredObject(name[len(self._start) :], size, modified_us)
            if not token:
                return

    @property
    def remote(self) -> bool:
        """True: every request is a network round trip."""
        return True

    @property
    def has_folders(self) -> bool:
        """False: folders do not matter here."""
        return False

    def open_file(self, key: str) -> pa.NativeFile | None:
        """Return None: the store has objects, not files."""
        return None

    def turn(self, key: str, seconds: float = inf) -> AbstractContextManager[SharedEntries | None]:
        """Wait for other processes of this machine and user only."""
        return shared_queue_turn(self.identity, seconds)

    def server_time_us(self) -> int | None:
        """Return the latest Date header, to the second, plus the time since."""
        if self._server_time is None:
            return None
        micros, then = self._server_time
        return micros + int((elapsed() - then) * 1_000_000)

    def clock_us(self) -> int:
        """Return the store's clock, or this machine's before the store's first answer."""
        return self.server_time_us() or wall_us()


class _Guarded(Parts):
    """Parts whose failures are errors of this package."""

    def __init__(self, parts: Parts, run: Callable[[Callable[[], None]], None]) -> None:
        self._parts, self._run = parts, run

    def send(self, part: bytes) -> None:
        self._run(lambda: self._parts.send(part))

    def finish(self, rest: bytes) -> None:
        self._run(lambda: self._parts.finish(rest))

    def abort(self) -> None:
        self._parts.abort()


def _or_none(work: Callable[[], bytes]) -> bytes | None:
    try:
        return work()
    except KeyNotFoundError:
        return None
