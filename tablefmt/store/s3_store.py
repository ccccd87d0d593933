"""Store in a prefix of an S3 bucket, through s3fs.

s3fs's own create modes are not used. Its create of an empty object overwrites. It also silently
drops parameters that the installed botocore does not know, the create condition among them. An
object is uploaded in parts, and appears whole or not at all.

Spec: STO-1 .. STO-11 (spec/store.md).
"""

from __future__ import annotations

import asyncio
import io
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar, cast

from fsspec.asyn import sync
from fsspec.config import apply_config

from tablefmt.errors import StoreError, UnsupportedFeatureError
from tablefmt.store import s3_answers
from tablefmt.store.cloud_answers import Failure
from tablefmt.store.listing_order import start_after
from tablefmt.store.object_store import (
    KeyNotFoundError,
    Range,
    Request,
    StoredObject,
    TooLong,
    check_range,
    most_of,
)
from tablefmt.store.remote_store import RemoteStore
from tablefmt.store.s3_access import S3Access, resolved_options, s3_access
from tablefmt.store.s3_answers import body_of, date_of, failure_of, is_absent
from tablefmt.store.s3_options import s3fs_options

_Result = TypeVar("_Result")


class Upload(io.RawIOBase):
    """Writer's view of an upload. Its close() does nothing; the end of the block finishes the
    upload.
    """

    def __init__(self, upload: Any, problem: Callable[[Exception], Exception]) -> None:
        self._upload = upload
        self._problem = problem

    def writable(self) -> bool:
        """Return True."""
        return True

    def tell(self) -> int:
        """Return the bytes written so far."""
        return int(self._upload.tell())

    def write(self, body: Any) -> int:
        """Accept bytes, and send them one part at a time."""
        data = bytes(body)
        self._guard(lambda: self._upload.write(data))
        return len(data)

    def finish(self) -> None:
        """Send the remaining bytes, and make the object visible."""
        self._guard(self._upload.close)

    def abort(self) -> None:
        """Abort the upload. If that fails, the bucket's lifecycle rule removes the parts."""
        try:
            self._upload.discard()
        except Exception:
            pass
        # fsspec sends the rest of an unclosed file when the garbage collector frees it.
        self._upload.closed = True

    def _guard(self, work: Callable[[], _Result]) -> _Result:
        try:
            return work()
        except Exception as error:
            raise self._problem(error) from None


try:
    import s3fs

    from tablefmt.store.s3_clients import known_options, shared_files
except ImportError:
    s3fs = None

_MISTAKES = (TypeError, AttributeError, NameError, LookupError, AssertionError, MemoryError)
"""Errors of reading a body that a second request would not mend."""
_PARALLEL_GETS = 64
_PARALLEL_DELETES = 8
_DELETED_AT_ONCE = 1000
"""Most keys that one request may name."""
_BODY_ATTEMPTS = 3
_OUTPUT_BLOCK_BYTES = 16 << 20
_KINDS = {
    "put_object": Request.PUT,
    "get_object": Request.GET,
    "head_object": Request.GET,
    "list_objects_v2": Request.LIST,
    "delete_object": Request.DELETE,
    "delete_objects": Request.DELETE,
    "abort_multipart_upload": Request.DELETE,
}


class S3Store(RemoteStore):
    """Objects below `s3://bucket/prefix`. `options` are those of s3fs.S3FileSystem,
    or have the names that deltalake, polars and obstore use (STO-27).

    Without options, botocore's environment applies: AWS_ENDPOINT_URL, AWS_ACCESS_KEY_ID and so on.
    """

    answers = s3_answers

    def __init__(
        self,
        bucket: str,
        prefix: str,
        options: Mapping[str, Any] | None = None,
        *,
        unsafe_single_writer: bool = False,
    ) -> None:
        if s3fs is None:
            raise UnsupportedFeatureError(
                "tables on S3 need s3fs, which is not installed. Run: pip install 'tablefmt[s3]'",
                features=["extra:s3"],
            )
        self._options = s3fs_options(options or {}, known_options())
        uri, endpoint = f"s3://{bucket}/{prefix}".rstrip("/"), _endpoint(self._options)
        super().__init__(
            "s3",
            bucket,
            prefix,
            uri=uri,
            identity=f"{uri}@{endpoint}",
            scope=f"s3://{bucket}@{endpoint}",
            unsafe_single_writer=unsafe_single_writer,
        )
        self._opened: tuple[int, Any] | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return _reopen, (self._bucket, self._prefix, self._options, self.unsafe_single_writer)

    @property
    def _files(self) -> Any:
        """The file system of this process. Clients do not survive a fork."""
        opened = self._opened
        if opened is None or opened[0] != os.getpid():
            try:
                files = shared_files(self._options)
            except (TypeError, ValueError, KeyError) as error:
                raise StoreError(
                    f"s3fs refuses the storage options ({type(error).__name__}). Check them."
                ) from None
            # Two threads may both get here. Both received the same file system.
            opened = self._opened = (os.getpid(), files)
        return opened[1]

    # Requests

    def _run(self, verb: str, key: str, work: Callable[[], Any]) -> Any:
        """Run a coroutine on s3fs's loop, and convert its failures to errors of this package."""
        try:
            return sync(self._files.loop, work)
        except (StoreError, KeyNotFoundError):
            raise
        except Exception as error:
            raise self._error(verb, key, self._decoded(error)) from None

    def _decoded(self, error: Exception) -> Failure:
        failure = failure_of(error)
        self.note_date(failure.date)
        return failure

    async def _call(self, method: str, **parameters: Any) -> Any:
        self.tally.add(_KINDS[method])
        response = await self._files.call(method, Bucket=self._bucket, **parameters)
        self.note_date(date_of(response))
        return response

    # Writing

    def _create(self, name: str, body: bytes) -> None:
        answer = sync(self._files.loop, self._files.create, self._bucket, name, body)
        self.note_date(date_of(answer))

    def put(self, key: str, body: bytes) -> None:
        """Write with one unconditional PUT."""
        name = self._key(key)
        self._run("write", key, lambda: self._call("put_object", Key=name, Body=bytes(body)))

    def _output(self, key: str) -> Upload:
        name = f"{self._bucket}/{self._key(key)}"
        upload = self._files.open(name, "wb", block_size=_OUTPUT_BLOCK_BYTES)
        return Upload(upload, lambda error: self._error("write", key, self._decoded(error)))

    def delete(self, key: str) -> None:
        """Send one DELETE. S3 does not report whether the object existed."""
        name = self._key(key)
        try:
            self._run("delete", key, lambda: self._call("delete_object", Key=name))
        except KeyNotFoundError:
            return

    def delete_many(self, keys: Sequence[str]) -> Mapping[str, str]:
        """Delete with DeleteObjects, 1,000 keys a request, several requests in parallel."""
        names = [self._key(key) for key in keys]
        groups = [
            names[at : at + _DELETED_AT_ONCE] for at in range(0, len(names), _DELETED_AT_ONCE)
        ]
        if not groups:
            return {}
        shown = keys[0] if len(keys) == 1 else f"{keys[0]} and {len(keys) - 1} more"
        answers = self._run("remove", shown, lambda: self._delete_groups(groups))
        return {
            error["Key"][len(self._start) :]: str(error.get("Code") or "refused")
            for answer in answers
            for error in answer.get("Errors") or ()
        }

    async def _delete_groups(self, groups: Sequence[Sequence[str]]) -> list[Any]:
        gate = asyncio.Semaphore(_PARALLEL_DELETES)

        async def one(names: Sequence[str]) -> Any:
            async with gate:
                asked = {"Objects": [{"Key": name} for name in names], "Quiet": True}
                return await self._call("delete_objects", Delete=asked)

        return list(await asyncio.gather(*map(one, groups)))

    # Reading

    def get(self, key: str) -> bytes:
        """Send one GET, without a HEAD before it."""
        name = self._key(key)
        return cast(bytes, self._run("read", key, lambda: self._fetch(name, most_of(key))))

    def get_many(self, keys: Sequence[str]) -> list[bytes | None]:
        """Send GETs in parallel, 64 at a time."""
        names = [self._key(key) for key in keys]
        if not names:
            return []
        shown = keys[0] if len(keys) == 1 else f"{keys[0]} and {len(keys) - 1} more"
        whole = [(name, most_of(key), None) for name, key in zip(names, keys, strict=True)]
        return cast("list[bytes | None]", self._run("read", shown, lambda: self._fetch_all(whole)))

    def get_ranges(self, ranges: Sequence[Range]) -> list[bytes | None]:
        """Send ranged GETs in parallel, as `get_many` does."""
        parts: list[tuple[str, int, str | None]] = []
        for key, start, length in ranges:
            check_range(start, length)
            # HTTP has no empty range.
            most = max(length, 1)
            parts.append((self._key(key), most, f"bytes={start}-{start + most - 1}"))
        if not parts:
            return []
        key = ranges[0][0]
        shown = key if len(ranges) == 1 else f"{key} and {len(ranges) - 1} more"
        bodies = self._run("read", shown, lambda: self._fetch_all(parts))
        return [
            None if part is None else part[:length]
            for part, (_, _, length) in zip(bodies, ranges, strict=True)
        ]

    async def _fetch_all(self, names: Sequence[tuple[str, int, str | None]]) -> list[bytes | None]:
        """Fetch (key, most bytes, range or None) in parallel; None where an object is absent."""
        gate = asyncio.Semaphore(_PARALLEL_GETS)

        async def one(name: str, most: int, span: str | None) -> bytes | None:
            async with gate:
                try:
                    return await self._fetch(name, most, span)
                except Exception as error:
                    failure = failure_of(error)
                    if span is not None and failure.status == 416:
                        return b""
                    if is_absent(failure):
                        self.note_date(failure.date)
                        return None
                    raise

        return list(await asyncio.gather(*(one(*each) for each in names)))

    async def _fetch(self, name: str, most: int, span: str | None = None) -> bytes:
        """Send one GET for at most `most` bytes.

        Read no byte if the header reports more (STO-24).
        """
        parameters = {} if span is None else {"Range": span}
        for attempt in range(1, _BODY_ATTEMPTS + 1):
            response = await self._call("get_object", Key=name, **parameters)
            try:
                async with response["Body"]:
                    whole = await body_of(response, most)
            except _MISTAKES:
                raise
            except Exception:
                # The SDK retries until the headers arrive. A body that breaks off must be retried
                # here.
                if attempt == _BODY_ATTEMPTS:
                    raise
                continue
            if span is not None and isinstance(whole, TooLong):
                raise StoreError(
                    f"{self.uri} answered {whole.length} bytes to a request for {most} bytes. "
                    "Use a store that supports range requests."
                )
            return whole
        raise AssertionError("unreachable")

    def _get_range(self, key: str, start: int, length: int) -> bytes:
        name = self._key(key)
        header = f"bytes={start}-{start + length - 1}"

        async def fetch() -> bytes:
            try:
                return await self._fetch(name, length, header)
            except Exception as error:
                if failure_of(error).status == 416:
                    return b""
                raise

        return cast(bytes, self._run("read", key, fetch))

    def size(self, key: str) -> int:
        """Send one HEAD."""
        name = self._key(key)
        answer = self._run("read", key, lambda: self._call("head_object", Key=name))
        return int(answer["ContentLength"])

    def _listed(self, prefix: str, after: str | None) -> Iterator[StoredObject]:
        parameters: dict[str, Any] = {"Prefix": self._start + prefix}
        if after:
            parameters["StartAfter"] = self._start + start_after(after)
        while True:
            page = self._run(
                "list", prefix or ".", lambda: self._call("list_objects_v2", **parameters)
            )
            for item in page.get("Contents", ()):
                # An object without a time counts as young (RET-4).
                when = item.get("LastModified")
                modified_us = 0 if when is None else int(when.timestamp() * 1_000_000)
                yield StoredObject(item["Key"][len(self._start) :], int(item["Size"]), modified_us)
            if not page.get("IsTruncated"):
                return
            parameters["ContinuationToken"] = page["NextContinuationToken"]

    def access(self) -> S3Access:
        """Return how to reach these objects, for an engine that opens them by itself."""
        options = apply_config(s3fs.S3FileSystem, dict(self._options))
        return s3_access(options)

    def with_credentials(self) -> S3Store:
        """Return this store with options that do not depend on this machine's environment.

        A process on another machine can use it. Machine roles are left to that process.
        """
        options = self.portable_options()
        carried = _reopen(self._bucket, self._prefix, options, self.unsafe_single_writer)
        carried.identity, carried.probe_scope = self.identity, self.probe_scope
        carried._opened = self._opened
        return carried

    def portable_options(self) -> dict[str, Any]:
        """Return s3fs options with the keys, endpoint and region that this process resolved."""
        return resolved_options(apply_config(s3fs.S3FileSystem, dict(self._options)))

    def abort_upload(self, key: str, upload: str) -> None:
        """Abort an unfinished multipart upload by its id.

        An upload that no longer exists is fine.
        """
        name = self._key(key)

        def abort() -> Any:
            return self._call("abort_multipart_upload", Key=name, UploadId=upload)

        try:
            self._run("delete", key, abort)
        except KeyNotFoundError:
            return

    def _remove_marker(self, folder: str) -> None:
        name = f"{self._start}{folder.rstrip('/')}/"
        self._run("remove", folder, lambda: self._call("delete_object", Key=name))


def _endpoint(options: Mapping[str, Any]) -> str:
    """Return the endpoint that options and environment set; "" is AWS itself."""
    chosen = options.get("endpoint_url") or (options.get("client_kwargs") or {}).get("endpoint_url")
    environment = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
    return str(chosen or environment or "").rstrip("/")


def _reopen(bucket: str, prefix: str, options: dict[str, Any], unsafe: bool) -> S3Store:
    return S3Store(bucket, prefix, options, unsafe_single_writer=unsafe)
