"""An S3 server for tests: moto, with its conditional PUT made atomic.

moto looks and then puts with no lock between, so two creates can both win. Here every request that
changes something holds one lock. It is for correctness, never for timing.
"""

from __future__ import annotations

import itertools
import logging
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import boto3
import pytest
from botocore.config import Config
from moto.moto_server.werkzeug_app import (
    DomainDispatcherApplication,
    MotoRequestHandler,
    create_backend_app,
)
from werkzeug.serving import make_server

_CHANGES = frozenset({"PUT", "POST", "DELETE"})
_bucket_numbers = itertools.count(1)


class Seen(NamedTuple):
    """One request."""

    method: str
    path: str
    copies: bool
    signed_by: str
    """The access key id; "" if unsigned."""

    @classmethod
    def of(cls, environ: dict[str, Any]) -> Seen:
        signed = environ.get("HTTP_AUTHORIZATION", "").partition("Credential=")[2]
        return cls(
            environ["REQUEST_METHOD"],
            environ["PATH_INFO"],
            "HTTP_X_AMZ_COPY_SOURCE" in environ,
            signed.partition("/")[0],
        )


class OneChangeAtATime:
    """A WSGI application whose changing requests run one after another."""

    def __init__(self, inner: Callable[..., Iterable[bytes]]) -> None:
        self.seen: deque[Seen] = deque(maxlen=5000)
        self._inner = inner
        self._lock = threading.Lock()

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        self.seen.append(Seen.of(environ))
        if environ["REQUEST_METHOD"] not in _CHANGES:
            return self._inner(environ, start_response)
        with self._lock:
            return list(self._inner(environ, start_response))


class S3Server:
    """moto on a free port of 127.0.0.1, in threads of this process.

    Attributes:
        endpoint: Its URL.
        options: Storage options that lead there.
        seen: The latest requests.
    """

    key = "testing"
    secret = "testing-secret"

    def __init__(self) -> None:
        logging.getLogger("werkzeug").setLevel(logging.WARNING)
        app = OneChangeAtATime(DomainDispatcherApplication(create_backend_app))
        self.seen = app.seen
        self._server = make_server(
            "127.0.0.1", 0, app, threaded=True, request_handler=MotoRequestHandler
        )
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.02,), daemon=True
        )
        self._thread.start()
        self.endpoint = f"http://127.0.0.1:{self._server.server_port}"

    @property
    def options(self) -> dict[str, Any]:
        return {
            "key": self.key,
            "secret": self.secret,
            "endpoint_url": self.endpoint,
            "client_kwargs": {"region_name": "us-east-1"},
        }

    @property
    def arguments(self) -> list[str]:
        """The same on a command line."""
        options = [
            f"key={self.key}",
            f"secret={self.secret}",
            f"endpoint_url={self.endpoint}",
            "client_kwargs.region_name=us-east-1",
        ]
        return [part for text in options for part in ("--storage-option", text)]

    def client(self) -> Any:
        """A plain boto3 client that never retries."""
        return boto3.client(
            "s3",
            endpoint_url=self.endpoint,
            aws_access_key_id=self.key,
            aws_secret_access_key=self.secret,
            region_name="us-east-1",
            config=Config(retries={"total_max_attempts": 1}, max_pool_connections=64),
        )

    def new_bucket(self) -> str:
        """Create a bucket of its own for a test. Return its name."""
        name = f"bucket-{next(_bucket_numbers)}"
        self.client().create_bucket(Bucket=name)
        return name

    def stop(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@pytest.fixture(scope="session")
def s3_server() -> Iterator[S3Server]:
    server = S3Server()
    yield server
    server.stop()


@pytest.fixture
def s3_uri(s3_server: S3Server) -> str:
    """The root of a table in a fresh bucket."""
    return f"s3://{s3_server.new_bucket()}/table"
