"""Base of the stores of Google Cloud Storage and Azure: threads, repeated requests, parts.

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
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar, cast

from tablefmt.errors import StoreError
from tablefmt.store.cloud_answers import Failure
from tablefmt.store.forks import ForkedLock, renew_after_fork
from tablefmt.store.listing_order import start_after
from tablefmt.store.object_store import (
    KeyNotFoundError,
    Range,
    Request,
    StoredObject,
    check_key,
    check_range,
    most_of,
)
from tablefmt.store.remote_store import RemoteStore
from tablefmt.store.store_traits import CloudAccess, Scheme

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


class PartsOutput(io.RawIOBase):
    """Writer's view of an upload. Its close() does nothing; the end of the block finishes the
    upload.
    """

    def __init__(self, parts: Parts, run: Callable[[Callable[[], None]], None]) -> None:
        self._parts = parts
        self._run = run
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
            part = bytes(self._waiting[:OUTPUT_PART_BYTES])
            self._run(lambda part=part: self._parts.send(part))  # type: ignore[misc]
            del self._waiting[:OUTPUT_PART_BYTES]
        return count

    def finish(self) -> None:
        """Send the remaining bytes, and make the object visible."""
        rest = bytes(self._waiting)
        self._run(lambda: self._parts.finish(rest))

    def abort(self) -> None:
        """Drop the parts."""
        self._parts.abort()


class CloudStore(RemoteStore):
    """Objects below a prefix of a bucket or container. Subclasses send the requests."""

    def __init__(
        self,
        scheme: Scheme,
        bucket: str,
        prefix: str,
        *,
        uri: str,
        endpoint: str,
        options: Mapping[str, Any],
        unsafe_single_writer: bool,
    ) -> None:
        scope = f"{scheme}://{bucket}@{endpoint}"
        super().__init__(
            scheme,
            bucket,
            prefix,
            uri=uri,
            identity=f"{scope}#{prefix}" if prefix else scope,
            scope=scope,
            unsafe_single_writer=unsafe_single_writer,
        )
        self._endpoint, self._options = endpoint, dict(options)

    def access(self) -> CloudAccess:
        """Return the endpoint and the options in force, of caller and environment."""
        return CloudAccess(endpoint=self._endpoint, options=tuple(sorted(self._options.items())))

    # Single requests, with full names. Each may raise what `_failure` decodes.

    @abstractmethod
    def _failure(self, error: Exception) -> Failure | None:
        """Return the failure of an exception of the client; None if it is a mistake of ours."""

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
                if wait is None or not self.answers.is_retryable(failure):
                    raise self._error(verb, key, failure) from None
            time.sleep(wait)
        raise AssertionError("unreachable")

    def _all(self, work: Callable[[Any], _Result], items: Sequence[Any]) -> list[_Result]:
        """Do the work for each item, in parallel."""
        if len(items) < 2:
            return [work(item) for item in items]
        with ThreadPoolExecutor(min(PARALLEL, len(items))) as pool:
            return list(pool.map(work, items))

    # Writing

    def put(self, key: str, body: bytes) -> None:
        """Write with one unconditional request."""
        name = self._key(key)
        self._run("write", key, lambda: self._write(name, bytes(body)), Request.PUT)

    def _output(self, key: str) -> PartsOutput:
        parts = self._parts(self._key(key))
        return PartsOutput(parts, lambda work: self._run("write", key, work))

    def delete(self, key: str) -> None:
        """Send one DELETE. An absent key is fine."""
        name = self._key(key)
        try:
            self._run("delete", key, lambda: self._remove(name), Request.DELETE)
        except KeyNotFoundError:
            return

    def _remove_marker(self, folder: str) -> None:
        name = f"{self._start}{folder.rstrip('/')}/"
        try:
            self._run("delete", folder, lambda: self._remove(name), Request.DELETE)
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

    # Reading

    def get(self, key: str) -> bytes:
        """Send one GET, without a HEAD before it."""
        name = self._key(key)
        return self._run("read", key, lambda: self._fetch(name, most_of(key), None), Request.GET)

    def get_many(self, keys: Sequence[str]) -> list[bytes | None]:
        """Send GETs in parallel."""
        for key in keys:
            check_key(key)
        return self._all(lambda key: _or_none(lambda: self.get(key)), keys)

    def _get_range(self, key: str, start: int, length: int) -> bytes:
        name = self._key(key)
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
        name = self._key(key)
        return self._run("read", key, lambda: self._length(name), Request.GET)

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


def prepared(session: Any) -> Any:
    """Return a session of `requests` with its own credentials and enough connections."""
    session.auth = _as_it_is  # else a .netrc file would replace the credentials
    for scheme in ("https://", "http://"):
        adapter = type(session.get_adapter(scheme))
        session.mount(scheme, adapter(pool_connections=4, pool_maxsize=PARALLEL))
    return session


def _as_it_is(request: Any) -> Any:
    return request


def _or_none(work: Callable[[], bytes]) -> bytes | None:
    try:
        return work()
    except KeyNotFoundError:
        return None
