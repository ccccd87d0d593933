"""Bounds on what strangers can do at the callback server before they have sent its token.

py4j reads a line of any length before it checks the token, waits for it without an end, and stops
to accept connections after the first failure. Any local user could take the memory, the threads
and the files of the session's process, or stop the server.
"""

from __future__ import annotations

import errno
import socket
import threading
import time
from contextlib import suppress
from typing import Any

from tablefmt.spark.pyspark_objects import JavaObject

LINE_BYTES = 256
"""Maximum bytes of a line before the token was checked; a token has 64."""

SECONDS = 10.0
"""Time for sending the token."""

WAITING_MAX = 64
"""Maximum connections that have not sent the token. The oldest is closed for a new one."""

_TOKEN_LINES = 3
"""Lines of the message with the token: its name, the token, and its end."""

_PASSING = frozenset({errno.ECONNABORTED, errno.EMFILE, errno.ENFILE, errno.EINTR})
"""Failures to accept a connection after which others can be accepted."""

_PAUSE_SECONDS = 0.05


def guard(server: JavaObject) -> None:
    """Bound what a connection to a py4j server can do before it has sent the token."""
    if not isinstance(server.server_socket, _Listener):
        server._create_connection = _Guard(server._create_connection).connection
        server.server_socket = _Listener(server.server_socket)


class _Listener:
    """The server's socket, which continues after temporary failures."""

    def __init__(self, listening: socket.socket) -> None:
        self._listening = listening

    def accept(self) -> tuple[socket.socket, Any]:
        """Return the next connection. Raises OSError if the socket was closed."""
        while True:
            try:
                return self._listening.accept()
            except OSError as error:
                if error.errno not in _PASSING:
                    raise
                time.sleep(_PAUSE_SECONDS)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._listening, name)


class _Guard:
    """Connections of one server that have not sent the token, the oldest first."""

    def __init__(self, connect: Any) -> None:
        self._connect = connect
        self._lock = threading.Lock()
        self._waiting: dict[int, socket.socket] = {}

    def connection(self, connected: socket.socket, stream: Any) -> Any:
        """Make a connection as py4j does, over a stream that is bounded at first."""
        timeout = connected.gettimeout()
        connected.settimeout(SECONDS)

        def passed() -> None:
            self._forget(connected)
            connected.settimeout(timeout)

        with self._lock:
            self._waiting[id(connected)] = connected
            oldest = next(iter(self._waiting)) if len(self._waiting) > WAITING_MAX else None
            closing = None if oldest is None else self._waiting.pop(oldest)
        if closing is not None:
            with suppress(OSError):
                closing.shutdown(socket.SHUT_RDWR)
        return self._connect(connected, _Stream(stream, passed, lambda: self._forget(connected)))

    def _forget(self, connected: socket.socket) -> None:
        with self._lock:
            self._waiting.pop(id(connected), None)


class _Stream:
    """A connection's stream: its first lines are short, those after the token are of any length."""

    def __init__(self, stream: Any, passed: Any, failed: Any) -> None:
        self._stream = stream
        self._passed, self._failed = passed, failed
        self._left = _TOKEN_LINES

    def readline(self) -> bytes:
        """Return the next line; nothing for one that is too long, which py4j refuses."""
        if not self._left:
            line: bytes = self._stream.readline()
            return line
        self._left -= 1
        try:
            line = self._stream.readline(LINE_BYTES)
        except OSError:
            self._failed()
            raise
        if not line.endswith(b"\n"):
            self._failed()
            return b""
        if not self._left:
            self._passed()
        return line

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
