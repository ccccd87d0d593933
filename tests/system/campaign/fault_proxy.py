"""A proxy before an S3 server that gives each kind of fault, by the chance of a seed.

It reads a request whole, decides, and counts the fault when it has been done.
"""

from __future__ import annotations

import contextlib
import http.client
import random
import re
import socket
import struct
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Final

SCALE: Final = 2.0
"""Seconds that stand for a minute of delay. Clients should time out after half of it."""
_BLOCK = 1 << 16
_ENTRY = re.compile(r"/_log/\d{20}\.json$")
_ERRORS = {
    "409": (409, "ConditionalRequestConflict"),
    "412": (412, "PreconditionFailed"),
    "429": (429, "TooManyRequests"),
    "500": (500, "InternalError"),
    "502": (502, "BadGateway"),
    "503": (503, "SlowDown"),
}


@dataclass(frozen=True)
class Seen:
    """One request, as it came."""

    method: str
    path: str
    head: bytes
    """Without the request line and without Expect."""
    body: bytes
    conditional: bool
    """A create: the PUT of an object that must not be there."""


def any_request(seen: Seen) -> bool:
    """Return True."""
    return True


def creates(seen: Seen) -> bool:
    """Return whether it is a create."""
    return seen.conditional


def entries(seen: Seen) -> bool:
    """Return whether it creates an entry of a log."""
    return seen.conditional and _ENTRY.search(seen.path) is not None


def changes(seen: Seen) -> bool:
    """Return whether it changes something."""
    return seen.method != "GET" and seen.method != "HEAD"


def with_a_body(seen: Seen) -> bool:
    """Return whether it has bytes that can be cut."""
    return len(seen.body) > 1


FAULTS: Final[Mapping[str, Callable[[Seen], bool]]] = {
    # What is applied or not before the connection ends.
    "answer lost": any_request,
    "answer lost by a reset": any_request,
    "half an answer": any_request,
    "reset before": any_request,
    "half a request": with_a_body,
    # Minutes, scaled: the client waits no longer when the server sees the request.
    "late, the client waits": changes,
    "late, the client is cut off": changes,
    "slow": any_request,
    # Answers of the server, or of something before it.
    "409": creates,
    "412 though nothing is there": creates,
    "412 of an own resend": creates,
    "429": any_request,
    "500": any_request,
    "500 though applied": any_request,
    "502": any_request,
    "503": any_request,
}
"""Each fault, and the requests that it is for."""
LOST_ANSWERS: Final = frozenset(
    {"answer lost", "answer lost by a reset", "half an answer", "500 though applied"}
)


class FaultProxy:
    """Forwards requests to one server, and gives a share of them a fault.

    The kind is the one that has come least often, to entries of a log or to other objects.

    Attributes:
        endpoint: Its URL.
        faults: Faults that it gave, by kind.
        lost_entries: Log entries that the server created, and whose answer never came.
        requests: Requests that came.
        share: The share of requests with a fault, 0 to 1. It may be changed.
        share_of_entries: The same of creates of log entries, if it is larger.
    """

    def __init__(
        self,
        endpoint: str,
        seed: object,
        share: float,
        share_of_entries: float = 0.0,
        scale: float = SCALE,
        without: Collection[str] = (),
    ) -> None:
        self._kinds = {name: fits for name, fits in FAULTS.items() if name not in without}
        self._scale = scale
        self._target = ("127.0.0.1", int(endpoint.rpartition(":")[2]))
        self._chance = random.Random(f"proxy {seed}")
        self._lock = threading.Lock()
        self._delayed = 0
        self.share, self.share_of_entries = share, share_of_entries
        self.faults: Counter[str] = Counter()
        self._drawn: tuple[Counter[str], Counter[str]] = Counter(), Counter()
        self.lost_entries = 0
        self.requests = 0
        self._server = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.endpoint = f"http://127.0.0.1:{self._server.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def settle(self) -> None:
        """Give no more faults, and wait until each late request has reached the server."""
        self.share = self.share_of_entries = 0.0
        while True:
            with self._lock:
                if not self._delayed:
                    return
            time.sleep(0.05)

    def close(self) -> None:
        """Take no more connections."""
        with contextlib.suppress(OSError):
            self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._server.accept()
                threading.Thread(target=self._serve, args=(near,), daemon=True).start()

    def _serve(self, near: socket.socket) -> None:
        with near, contextlib.suppress(OSError, http.client.HTTPException, EOFError):
            near.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            incoming = _Incoming(near)
            while (seen := _request(near, incoming)) is not None:
                fault = self._draw(seen)
                goes_on = (
                    self._answer(near, seen) if fault is None else self._give(near, seen, fault)
                )
                if not goes_on:
                    return

    def _draw(self, seen: Seen) -> str | None:
        with self._lock:
            self.requests += 1
            share = max(self.share, self.share_of_entries) if entries(seen) else self.share
            if self._chance.random() >= share:
                return None
            fitting = [fault for fault, fits in self._kinds.items() if fits(seen)]
            drawn = self._drawn[entries(seen)]
            fault = min(fitting, key=lambda one: drawn[one])
            drawn[fault] += 1
            return fault

    def _count(self, fault: str, seen: Seen, status: int = 0) -> None:
        with self._lock:
            self.faults[fault] += 1
            if fault in LOST_ANSWERS and entries(seen) and status == 200:
                self.lost_entries += 1

    def _answer(self, near: socket.socket, seen: Seen) -> bool:
        """Forward, and pass the answer on. Return whether the connection goes on."""
        near.sendall(self._forward(seen)[1])
        return True

    def _give(self, near: socket.socket, seen: Seen, fault: str) -> bool:
        """Do what the fault says, and count it. Return whether the connection goes on."""
        if fault in _ERRORS or fault.startswith("412 though"):
            near.sendall(_error(fault[:3], seen))
        elif fault == "slow":
            time.sleep(self._chance.uniform(0, self._scale * 0.4))
            self._answer(near, seen)
        elif fault == "412 of an own resend":
            self._forward(seen)
            self._answer(near, seen)
        elif fault.startswith("late"):
            self._delay(near, seen, waits=fault.endswith("waits"))
        elif fault == "half a request":
            with socket.create_connection(self._target) as far:
                far.sendall(_sent(seen)[: -len(seen.body) // 2])
            _reset(near)
        elif fault == "reset before":
            _reset(near)
        else:
            return self._lose(near, seen, fault)
        self._count(fault, seen)
        return fault in ("slow", "412 of an own resend") or fault[0] in "45"

    def _lose(self, near: socket.socket, seen: Seen, fault: str) -> bool:
        """Apply the request. Its answer does not come, or not whole, or is another one."""
        status, answer = self._forward(seen)
        if fault == "half an answer":
            near.sendall(answer[: len(answer) // 2])
        elif fault == "500 though applied":
            near.sendall(_error("500", seen))
        elif fault == "answer lost by a reset":
            _reset(near)
        self._count(fault, seen, status)
        return fault == "500 though applied"

    def _delay(self, near: socket.socket, seen: Seen, waits: bool) -> None:
        """Hold a request for 1 to 5 scaled minutes, then send it to the server all the same."""
        if not waits:
            _reset(near)
        with self._lock:
            self._delayed += 1
        try:
            time.sleep(self._chance.uniform(1, 5) * self._scale)
            with contextlib.suppress(OSError, http.client.HTTPException):
                self._forward(seen)
        finally:
            with self._lock:
                self._delayed -= 1

    def _forward(self, seen: Seen) -> tuple[int, bytes]:
        """Return the server's status and its whole answer."""
        with socket.create_connection(self._target, timeout=60) as far:
            far.sendall(_sent(seen))
            answer = http.client.HTTPResponse(far, method=seen.method)
            answer.begin()
            body = answer.read()
        lines = [f"HTTP/1.1 {answer.status} {answer.reason}"]
        kept = ("transfer-encoding", "connection", "content-length")
        lines += [
            f"{name}: {value}" for name, value in answer.getheaders() if name.lower() not in kept
        ]
        length = answer.getheader("Content-Length") if seen.method == "HEAD" else str(len(body))
        if length is not None and answer.status not in (204, 304):
            lines.append(f"Content-Length: {length}")
        return answer.status, "\r\n".join([*lines, "", ""]).encode("latin-1") + body


class _Incoming:
    """Read a connection without a file object, so that closing the socket sends a reset."""

    def __init__(self, near: socket.socket) -> None:
        self._near, self._held = near, b""

    def line(self) -> bytes:
        """Return the bytes to the end of a line; b"" at the end of the connection."""
        while b"\n" not in self._held:
            if not self._more():
                return b""
        line, end, self._held = self._held.partition(b"\n")
        return line + end

    def exactly(self, length: int) -> bytes:
        """Return so many bytes; EOFError if there are less."""
        while len(self._held) < length:
            if not self._more():
                raise EOFError
        body, self._held = self._held[:length], self._held[length:]
        return body

    def _more(self) -> bool:
        block = self._near.recv(_BLOCK)
        self._held += block
        return bool(block)


def _request(near: socket.socket, incoming: _Incoming) -> Seen | None:
    """Read one request; None at the end of the connection."""
    first = incoming.line()
    if not first.strip():
        return None
    lines, told = [], {}
    while (line := incoming.line()).strip():
        name, _, value = line.partition(b":")
        name = name.strip().lower()
        told[name] = value.strip()
        if name not in (b"expect", b"connection"):
            lines.append(line)
    if told.get(b"expect", b"").lower() == b"100-continue":
        near.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
    if told.get(b"transfer-encoding", b"").lower() == b"chunked":
        body = _chunks(incoming)
    else:
        body = incoming.exactly(int(told.get(b"content-length", b"0")))
    method, path, _ = first.decode("latin-1").split(" ", 2)
    return Seen(method, path, b"".join(lines), body, method == "PUT" and b"if-none-match" in told)


def _chunks(incoming: _Incoming) -> bytes:
    """Return a body in chunks as it came, to its last line."""
    parts = []
    while True:
        parts.append(incoming.line())
        size = int(parts[-1].partition(b";")[0], 16)
        if size:
            parts.append(incoming.exactly(size + 2))
            continue
        while parts[-1].strip():
            parts.append(incoming.line())
        return b"".join(parts)


def _sent(seen: Seen) -> bytes:
    first = f"{seen.method} {seen.path} HTTP/1.1\r\n".encode("latin-1")
    return first + seen.head + b"Connection: close\r\n\r\n" + seen.body


def _error(number: str, seen: Seen) -> bytes:
    status, code = _ERRORS[number]
    body = f"<Error><Code>{code}</Code><Message>a fault</Message></Error>".encode()
    head = f"HTTP/1.1 {status} {code}\r\nContent-Type: application/xml\r\n"
    head += f"Content-Length: {len(body)}\r\n\r\n"
    return head.encode() + (b"" if seen.method == "HEAD" else body)


def _reset(near: socket.socket) -> None:
    """End the connection by a reset (RST)."""
    near.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    near.close()
