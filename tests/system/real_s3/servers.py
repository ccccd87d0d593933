"""Real S3 servers on 127.0.0.1, for tests: binaries that are found, Java ones from Maven."""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.config import Config

VARIABLE = "TABLEFMT_TEST_S3_SERVER"
KEY, SECRET = "testing", "testing-secret"
_numbers = itertools.count(1)

_MAVEN = {
    "s3proxy": (
        ("org.gaul", "s3proxy", "4.1.0"),
        ("com.fasterxml.jackson.core", "jackson-annotations", "2.21"),
    ),
    "s3mock": (("com.adobe.testing", "s3mock", "5.2.0"), ("org.slf4j", "slf4j-api", "2.0.17")),
}
_QUIET = (
    "<configuration><appender name='C' class='ch.qos.logback.core.ConsoleAppender'><encoder>"
    "<pattern>%msg%n</pattern></encoder></appender>"
    "<root level='WARN'><appender-ref ref='C'/></root></configuration>"
)


def found_servers() -> list[Path]:
    """The binaries of versitygw and MinIO that the variable or the PATH leads to."""
    named = os.environ.get(VARIABLE)
    paths = [named] if named else [shutil.which("versitygw"), shutil.which("minio")]
    return [Path(path) for path in paths if path]


class RealServer:
    """One server, its data and its port; it can be killed and started again.

    Attributes:
        endpoint: Its URL.
        options: Storage options that lead there.
    """

    def __init__(self, command: list[str], environment: dict[str, str], port: int) -> None:
        self._command, self._environment = command, environment
        self.endpoint = f"http://127.0.0.1:{port}"
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    @property
    def options(self) -> dict[str, Any]:
        return {
            "key": KEY,
            "secret": SECRET,
            "endpoint_url": self.endpoint,
            "client_kwargs": {"region_name": "us-east-1"},
        }

    def client(self) -> Any:
        """A plain boto3 client that never retries."""
        return boto3.client(
            "s3",
            endpoint_url=self.endpoint,
            aws_access_key_id=KEY,
            aws_secret_access_key=SECRET,
            region_name="us-east-1",
            config=Config(retries={"total_max_attempts": 1}, connect_timeout=5, read_timeout=5),
        )

    def start(self) -> None:
        """Start it, and wait until it answers."""
        self._process = subprocess.Popen(
            self._command,
            env={**os.environ, **self._environment},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        client = self.client()
        for _ in range(300):
            with contextlib.suppress(Exception):
                client.list_buckets()
                return
            assert self._process.poll() is None, f"{self._command[0]} ended by itself"
            time.sleep(0.2)
        raise AssertionError(f"{self._command[0]} does not answer")

    def kill(self) -> None:
        """kill -9."""
        assert self._process is not None
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()

    def new_root(self) -> str:
        """The root of a table in a fresh bucket."""
        bucket = f"bucket-{next(_numbers)}-{os.getpid()}"
        self.client().create_bucket(Bucket=bucket)
        return f"s3://{bucket}/a table"


@contextlib.contextmanager
def binary(path: Path, folder: Path) -> Iterator[RealServer]:
    """versitygw or MinIO, by the name of its binary, with its data in `folder`."""
    port = _free_port()
    if path.name.startswith("minio"):
        names = {"MINIO_ROOT_USER": KEY, "MINIO_ROOT_PASSWORD": SECRET, "MINIO_BROWSER": "off"}
        command = [str(path), "server", "--quiet", "--address", f"127.0.0.1:{port}", str(folder)]
    else:
        names = {"ROOT_ACCESS_KEY_ID": KEY, "ROOT_SECRET_ACCESS_KEY": SECRET}
        command = [str(path), "--port", f"127.0.0.1:{port}", "--quiet", "--keep-alive"]
        command += ["posix", str(folder)]
    with _running(command, names, port) as server:
        yield server


@contextlib.contextmanager
def from_maven(name: str, folder: Path) -> Iterator[RealServer]:
    """s3proxy or s3mock, with its data in `folder`. Skips the test where it cannot be had."""
    jars, port, data = _jars(name), _free_port(), folder / "data"
    data.mkdir()
    if name == "s3mock":
        told = {
            "com.adobe.testing.s3mock.httpPort": port,
            "server.port": _free_port(),  # of HTTPS
            "server.address": "127.0.0.1",
            "com.adobe.testing.s3mock.store.root": data,
        }
        command = [f"-D{key}={value}" for key, value in told.items()]
        command += ["-cp", f"{jars}/*", "com.adobe.testing.s3mock.S3MockApplication"]
    else:
        told = {
            "s3proxy.endpoint": f"http://127.0.0.1:{port}",
            "s3proxy.authorization": "aws-v2-or-v4",
            "s3proxy.identity": KEY,
            "s3proxy.credential": SECRET,
            "jclouds.provider": "filesystem-nio2",
            "jclouds.filesystem.basedir": data,
            "jclouds.identity": "x",
            "jclouds.credential": "x",
        }
        properties = folder / "s3proxy.properties"
        properties.write_text("\n".join(f"{key}={value}" for key, value in told.items()))
        (folder / "logback.xml").write_text(_QUIET)
        command = ["-cp", f"{folder}:{jars}/*", "org.gaul.s3proxy.Main"]
        command += ["--properties", str(properties)]
    with _running(["java", *command], {}, port) as server:
        yield server


def _jars(name: str) -> Path:
    """The folder with the server's jars, fetched once."""
    (_, _, version), *_ = artifacts = _MAVEN[name]
    folder = Path(tempfile.gettempdir()) / "tablefmt-test-servers" / f"{name}-{version}"
    if folder.exists():
        return folder
    if not shutil.which("mvn") or not shutil.which("java"):
        pytest.skip(f"{name} needs mvn and java on the PATH")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
        wanted = "".join(
            f"<dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId>"
            f"<version>{number}</version></dependency>"
            for group, artifact, number in artifacts
        )
        pom = Path(scratch) / "pom.xml"
        pom.write_text(
            "<project xmlns='http://maven.apache.org/POM/4.0.0'><modelVersion>4.0.0</modelVersion>"
            "<groupId>t</groupId><artifactId>t</artifactId><version>1</version>"
            f"<packaging>pom</packaging><dependencies>{wanted}</dependencies></project>"
        )
        copy = ["mvn", "-q", "-f", str(pom), "dependency:copy-dependencies"]
        copy += ["-DincludeScope=runtime", f"-DoutputDirectory={scratch}/jars"]
        done = subprocess.run(copy, capture_output=True, text=True, check=False)
        if done.returncode:
            pytest.skip(f"Maven cannot fetch {name}: {(done.stdout + done.stderr)[:300]}")
        with contextlib.suppress(OSError):  # another process was faster
            (Path(scratch) / "jars").rename(folder)
    return folder


@contextlib.contextmanager
def _running(command: list[str], environment: dict[str, str], port: int) -> Iterator[RealServer]:
    server = RealServer(command, environment, port)
    try:
        yield server
    finally:
        server.kill()


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


class AnswerEater:
    """A proxy that forwards every request, and closes the connection in place of some answers.

    Attributes:
        endpoint: Its URL.
        eaten: Answers that it dropped.
    """

    def __init__(self, endpoint: str, every: int) -> None:
        self._target = ("127.0.0.1", int(endpoint.rpartition(":")[2]))
        self._every, self._answers, self.eaten = every, itertools.count(1), 0
        self._server = socket.create_server(("127.0.0.1", 0))
        self.endpoint = f"http://127.0.0.1:{self._server.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._server.accept()
                far = socket.create_connection(self._target)
                for work in (self._requests, self._responses):
                    threading.Thread(target=work, args=(near, far), daemon=True).start()

    def _requests(self, near: socket.socket, far: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while block := near.recv(1 << 16):
                far.sendall(block)
            far.shutdown(socket.SHUT_WR)

    def _responses(self, near: socket.socket, far: socket.socket) -> None:
        with near, far, contextlib.suppress(OSError):
            while block := far.recv(1 << 16):
                if block.startswith(b"HTTP/1.1 ") and next(self._answers) % self._every == 0:
                    self.eaten += 1
                    break
                near.sendall(block)
            near.shutdown(socket.SHUT_RDWR)
