"""Base of the stores behind a network: names, errors, clocks, streams.

Spec: STO-1 .. STO-11 (spec/store.md).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from math import inf
from typing import IO, Protocol, cast

import pyarrow as pa

from tablefmt.errors import StoreError
from tablefmt.store.clocks import elapsed, wall_us
from tablefmt.store.cloud_answers import Failure, date_to_us
from tablefmt.store.listing_order import in_order
from tablefmt.store.object_store import (
    KeyNotFoundError,
    PutReply,
    Request,
    SharedEntries,
    Store,
    StoredObject,
    Tally,
    Written,
    check_key,
    check_prefix,
    check_range,
)
from tablefmt.store.shared_commit_queue import join_shared_queue
from tablefmt.store.store_traits import Scheme, Traits


class Answers(Protocol):
    """The meaning of one cloud's answers. Pure."""

    def put_reply(self, failure: Failure, bucket: str) -> PutReply:
        """Return the reply for a conditional create that did not end in 2xx."""

    def is_retryable(self, failure: Failure) -> bool:
        """Return whether the same request may succeed later without any change."""

    def is_absent(self, failure: Failure) -> bool:
        """Return whether a request for an object failed because the object does not exist."""

    def explain(self, failure: Failure, bucket: str) -> str:
        """Return one clause: the problem, and the remedy. It holds no secret."""


class Output(Protocol):
    """An object that is being sent, as a writable stream. It appears with `finish` or never."""

    def finish(self) -> None:
        """Send the remaining bytes, and make the object visible."""

    def abort(self) -> None:
        """Give up. Never raises."""


class RemoteStore(ABC):
    """Objects below a prefix of a bucket. Subclasses send the requests."""

    answers: Answers

    def __init__(
        self,
        scheme: Scheme,
        bucket: str,
        prefix: str,
        *,
        uri: str,
        identity: str,
        scope: str,
        unsafe_single_writer: bool,
    ) -> None:
        self._bucket, self._prefix = bucket, prefix
        self._start = f"{prefix}/" if prefix else ""
        self.uri, self.identity, self.probe_scope = uri, identity, scope
        self.traits = Traits(scheme=scheme, bucket=bucket, path=prefix, remote=True)
        self.unsafe_single_writer = unsafe_single_writer
        self.tally = Tally()
        self._server_time: tuple[int, float] | None = None
        """The server's clock in µs, and this machine's steady clock in seconds, at the same moment.
        """

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.uri!r})"

    @abstractmethod
    def _decoded(self, error: Exception) -> Failure:
        """Return the failure of an exception of the client, or raise a mistake of ours."""

    @abstractmethod
    def _create(self, name: str, body: bytes) -> None:
        """Send one conditional request."""

    @abstractmethod
    def _output(self, key: str) -> Output:
        """Return a stream to a new object. Its failures are errors of this package."""

    @abstractmethod
    def _listed(self, prefix: str, after: str | None) -> Iterator[StoredObject]:
        """Yield the objects below a prefix in the server's order; some keys too many are fine."""

    @abstractmethod
    def size(self, key: str) -> int:
        """Send one request for the length."""

    @abstractmethod
    def _get_range(self, key: str, start: int, length: int) -> bytes:
        """Send one ranged GET. A range after the end is empty."""

    @abstractmethod
    def _remove_marker(self, folder: str) -> None:
        """Delete the object whose name is `folder` and a slash."""

    def _confirm_bucket(self) -> bool:
        """Return whether the bucket exists, after a 404 that does not say."""
        return True

    def _key(self, key: str) -> str:
        return self._start + check_key(key)

    # Errors and clocks

    def note_date(self, date: str | None) -> None:
        """Keep the store's clock, by the Date header of an answer."""
        micros = date_to_us(date)
        if micros is not None:
            self._server_time = (micros, elapsed())

    def _error(self, verb: str, key: str, failure: Failure) -> StoreError | KeyNotFoundError:
        of_object = verb in ("read", "delete") and self.answers.is_absent(failure)
        if of_object and self._confirm_bucket():
            return KeyNotFoundError(key)
        return StoreError(
            f"cannot {verb} {key!r} at {self.uri}: {self.answers.explain(failure, self._bucket)}.",
            retryable=self.answers.is_retryable(failure),
        )

    def server_time_us(self) -> int | None:
        """Return the latest Date header, to the second, plus the time since."""
        if self._server_time is None:
            return None
        micros, then = self._server_time
        return micros + int((elapsed() - then) * 1_000_000)

    def clock_us(self) -> int:
        """Return the store's clock, or this machine's before the store's first answer."""
        return self.server_time_us() or wall_us()

    # Requests

    def put_if_absent(self, key: str, body: bytes) -> PutReply:
        """Create with one conditional request, for any length."""
        name = self._key(key)
        self.tally.add(Request.PUT)
        try:
            self._create(name, bytes(body))
        except StoreError:
            raise
        except Exception as error:
            return self.answers.put_reply(self._decoded(error), self._bucket)
        return Written()

    def get_range(self, key: str, start: int, length: int) -> bytes:
        """Send one ranged GET. An empty range still checks that the object exists."""
        check_range(start, length)
        if length == 0:
            self.size(key)
            return b""
        return self._get_range(key, start, length)

    @contextmanager
    def open_output(self, key: str) -> Iterator[IO[bytes]]:
        """Open a stream: one request for up to 16 MiB, else parts.

        The parts are dropped if the block raises. The tally counts one request.
        """
        self.tally.add(Request.PUT)
        stream = self._output(key)
        try:
            yield cast(IO[bytes], stream)
            stream.finish()
        except BaseException:
            stream.abort()
            raise

    def list_after(self, prefix: str, after: str | None = None) -> Iterator[StoredObject]:
        """List lazily: a page is fetched when its first key is due."""
        return in_order(self._listed(check_prefix(prefix), after), after, self.uri)

    def delete_folder_marker(self, folder: str) -> None:
        """Send one DELETE. A marker that is absent, or that stays, does no harm.

        Servers over a file system, such as versitygw, refuse it while the folder has objects.
        """
        check_key(folder.rstrip("/"))
        with suppress(StoreError):
            self._remove_marker(folder)

    # What no bucket has

    def remove_empty(self, folder: str) -> None:
        """Do nothing: no table needs its folders removed here."""
        return

    def sync(self, keys: Iterable[str]) -> None:
        """Check the keys. A visible object is already durable."""
        for key in keys:
            check_key(key)

    def folder(self, root: str) -> Store | None:
        """Return None: no folder outside the root is allowed."""
        return None

    def abort_upload(self, key: str, upload: str) -> None:
        """Do nothing: other programs leave no uploads here."""
        return

    def open_file(self, key: str) -> pa.NativeFile | None:
        """Return None: the store has objects, not files."""
        return None

    def turn(self, key: str, seconds: float = inf) -> AbstractContextManager[SharedEntries | None]:
        """Wait for other processes of this machine and user only."""
        return join_shared_queue(self.identity, seconds)
