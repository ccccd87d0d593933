"""S3 clients that stores share: one s3fs file system for each set of options and environment.

Spec: STO-11, STO-20 (spec/store.md).
"""

from __future__ import annotations

import inspect
import os
import threading
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from weakref import WeakSet

import s3fs
from botocore.utils import determine_content_length
from fsspec.config import apply_config
from fsspec.utils import tokenize

from tablefmt.store.cloud_answers import Failure, RequestFailedError
from tablefmt.store.s3_answers import failure_of

ASK_FROM_BYTES = 1 << 20
"""Bodies of this length or more wait for the server's `100 Continue` (STO-20)."""

_CONFIG = {
    "max_pool_connections": 64,
    # botocore rebuilds its user agent for every request, a tenth of the request's cost.
    "user_agent": "tablefmt",
}
_MOST_KEPT = 16
_NOT_FOR_USERS = frozenset({"self", "kwargs", "asynchronous", "loop", "session"})
_SURROUNDINGS = ("AWS_", "BOTO_", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY", "HOME")

_KEPT: OrderedDict[str, S3Files] = OrderedDict()
_LOCK = threading.Lock()


class S3Files(s3fs.S3FileSystem):  # type: ignore[misc]
    """s3fs that sends small bodies at once. Created by `shared_files`."""

    cachable = False  # s3fs caches by arguments alone, and would keep an old identity

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._hurried: WeakSet[Any] = WeakSet()

    async def get_s3(self, bucket: str | None = None) -> Any:
        """Return the client for `bucket`. Every request of s3fs gets its client here."""
        client = await super().get_s3(bucket)
        if client not in self._hurried:
            client.meta.events.register_last("before-call.s3", _send_at_once)
            self._hurried.add(client)
        return client

    async def call(self, method: str, **parameters: Any) -> Any:
        """Send one request through the client, with s3fs's own retries and parameters."""
        return await self._call_s3(method, **parameters)

    async def create(self, bucket: str, name: str, body: bytes) -> Any:
        """Send PUT with If-None-Match: * straight through the client, and return its answer.

        s3fs would drop a condition that botocore does not know. It would also re-send without
        counting, so a final 403 could hide an earlier success.

        Raises:
            RequestFailedError: the request failed; its failure says whether it was sent more than
                once.
        """
        try:
            await self.set_session()
            client = await self.get_s3(bucket)
            put = client.put_object
            parameters = self._get_s3_method_kwargs(put, Bucket=bucket, Key=name, Body=bytes(body))
        except Exception as error:
            failure = Failure(0, type(error).__name__, resent=False, never_sent=True)
            raise RequestFailedError(failure) from error
        parameters["IfNoneMatch"] = "*"
        # aiohttp sends a PUT again when a connection drops, and the SDK does not count that.
        for session in await _http_sessions(client):
            session._retry_connection = False
        try:
            return await put(**parameters)
        except Exception as error:
            failure = failure_of(error)
            sessions = await _http_sessions(client)
            if not sessions or any(session._retry_connection for session in sessions):
                failure = replace(failure, resent=True)
            raise RequestFailedError(failure) from error


def shared_files(options: Mapping[str, Any]) -> S3Files:
    """Return the file system for these options in the current environment.

    The result is cached by both; the 16 most recent are kept. A forked process starts with an empty
    cache, because clients do not survive a fork.

    Raises:
        TypeError, ValueError, KeyError: s3fs refuses the options.
    """
    arguments = apply_config(s3fs.S3FileSystem, dict(options))
    # Arrow coalesces its reads. s3fs's read-ahead would fetch 50 MB for each.
    arguments.setdefault("default_cache_type", "none")
    arguments["use_listings_cache"] = False
    arguments["config_kwargs"] = {**_CONFIG, **(arguments.get("config_kwargs") or {})}
    if arguments.pop("skip_instance_cache", False):
        return S3Files(**arguments)
    token = tokenize(arguments, _surroundings())
    with _LOCK:
        files = _KEPT.get(token)
        if files is None:
            files = _KEPT[token] = S3Files(**arguments)
        _KEPT.move_to_end(token)
        if len(_KEPT) > _MOST_KEPT:
            _KEPT.popitem(last=False)
        return files


def known_options() -> frozenset[str]:
    """Return the names of the storage options that s3fs knows."""
    known = set(inspect.signature(s3fs.S3FileSystem.__init__).parameters) - _NOT_FOR_USERS
    return frozenset(known | {"profile", "skip_instance_cache"})


def _surroundings() -> list[tuple[str, str]]:
    """Return the environment variables that botocore reads."""
    return sorted(
        (name, value)
        for name, value in os.environ.items()
        if name.upper().startswith(_SURROUNDINGS)
    )


def _send_at_once(params: dict[str, Any], **_: Any) -> None:
    """Drop botocore's `Expect: 100-continue`, which costs a round trip before every body."""
    if "Expect" in params["headers"]:
        length = determine_content_length(params.get("body"))
        if length is not None and length < ASK_FROM_BYTES:
            del params["headers"]["Expect"]


def _start_anew() -> None:
    global _KEPT, _LOCK
    _KEPT, _LOCK = OrderedDict(), threading.Lock()


os.register_at_fork(after_in_child=_start_anew)


async def _http_sessions(client: Any) -> list[Any]:
    """Return the aiohttp sessions of a client, created if there is none; [] if they are unknown."""
    try:
        http = client._endpoint.http_session
        if not http._sessions:
            await http._get_session(None)
        return [one for one in http._sessions.values() if hasattr(one, "_retry_connection")]
    except (AttributeError, TypeError):
        return []
