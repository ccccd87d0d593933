"""Strangers at the callback server cost no memory and no thread, and stop no other client."""

from __future__ import annotations

import errno
import socket
import threading
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from py4j.clientserver import JavaParameters, PythonParameters, PythonServer
from py4j.java_gateway import GatewayProperty, PythonProxyPool

from tablefmt.spark.jvm import callback_guard
from tablefmt.spark.jvm.callback_guard import guard
from tests.system.fuzzed_bytes import resident_bytes

TOKEN = "0" * 64


class Served:
    """An object that a client with the token may call."""

    calls = 0

    def ask(self) -> str:
        self.calls += 1
        return "answer"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.setattr(callback_guard, "SECONDS", 0.5)
    parameters = PythonParameters(port=0, auth_token=TOKEN, daemonize=True)
    parameters.daemonize_connections = True
    pool = PythonProxyPool()
    client = SimpleNamespace(set_thread_connection=lambda connection: None)
    properties = GatewayProperty(auto_field=False, pool=pool)
    running = PythonServer(client, JavaParameters(), parameters, properties)
    running.start()
    until(lambda: is_listening(running))
    running.served = Served()
    running.number = pool.put(running.served)
    guard(running)
    guard(running)
    yield running
    running.shutdown()


def is_listening(server: Any) -> bool:
    options = (socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
    return bool(server.server_socket.getsockopt(*options))


def until(condition: Any) -> None:
    end = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def connected(server: Any) -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.get_listening_port()), timeout=20)


def call(server: Any, token: str, pause: float = 0) -> bytes:
    """Send the token and a call; return what comes after the answer to the token."""
    with connected(server) as connection:
        connection.sendall(f"A\n{token}\ne\n".encode())
        if connection.recv(100) != b"!yv\n":
            return b""
        time.sleep(pause)
        connection.sendall(f"c\n{server.number}\nask\ne\n".encode())
        return connection.recv(100)


@pytest.mark.slow
def test_who_has_the_token_is_answered_at_any_time(server: Any) -> None:
    assert call(server, TOKEN, pause=0.7) == b"!ysanswer\n"
    assert server.served.calls == 1


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"A\n",
        b"A\n" + TOKEN.encode(),
        b"A\n" + b"1" * 64 + b"\ne\n",
        b"c\no0\nask\ne\n",
        b"A\nA\nA\n" * 99,
        b"A\n" + b"x" * (1 << 20),
        b"\xff\xfe\n\n\n",
    ],
)
def test_others_are_not(server: Any, sent: bytes) -> None:
    """No token, half of it, a wrong one, a call, a replayed name, and bytes of no text."""
    before = threading.active_count()
    with connected(server) as connection:
        connection.sendall(sent)
        connection.settimeout(20)
        try:
            answer = connection.recv(100)
        except ConnectionResetError:
            answer = b""
    assert answer in (b"", b"!xn\n")
    until(lambda: threading.active_count() <= before)
    assert server.served.calls == 0
    assert call(server, TOKEN) == b"!ysanswer\n"


def test_an_endless_line_takes_no_memory(server: Any) -> None:
    endless = b"x" * (256 << 20)
    before = resident_bytes()
    with connected(server) as connection, pytest.raises(OSError, match=r"reset|pipe"):
        connection.sendall(endless)
    assert resident_bytes() - before < 64 << 20
    assert call(server, TOKEN) == b"!ysanswer\n"


@pytest.mark.slow
def test_many_that_say_nothing_keep_no_client_out(
    server: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the newest may wait, and they not for long."""
    monkeypatch.setattr(callback_guard, "WAITING_MAX", 4)
    before = threading.active_count()
    strangers = [connected(server) for _ in range(20)]
    assert call(server, TOKEN) == b"!ysanswer\n"
    until(lambda: threading.active_count() <= before + 1)
    for stranger in strangers:
        stranger.close()
    assert call(server, TOKEN) == b"!ysanswer\n"


def test_a_failure_to_accept_ends_no_server(server: Any) -> None:
    """The process has no file left for a moment."""
    listening = server.server_socket._listening
    failures = [OSError(errno.EMFILE, "full")] * 2

    class Failing:
        def accept(self) -> Any:
            if failures:
                raise failures.pop()
            return listening.accept()

    server.server_socket._listening = Failing()
    assert call(server, TOKEN) == b"!ysanswer\n"
    server.server_socket._listening = listening
    assert failures == []
