"""An HTTP server on 127.0.0.1 with scripted answers, request by request."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass(frozen=True)
class Request:
    method: str
    path: str
    headers: dict[str, str]
    body: bytes


@dataclass(frozen=True)
class Answer:
    """An answer of the server.

    `hang` sleeps first; `drop` closes the connection without a word; `length` is the length in the
    header, for any body.
    """

    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    hang: float = 0
    drop: bool = False
    length: int | None = None


def s3_error(status: int, code: str) -> Answer:
    body = f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>no</Message></Error>"
    return Answer(status, body.encode(), {"Content-Type": "application/xml"})


class ScriptedServer:
    """`says_continue`: the server answers 100 Continue to a client that waits for it."""

    def __init__(self, script: Callable[[int, Request], Answer]) -> None:
        self.play(script)
        lock = threading.Lock()
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True  # head and body are sent apart: 40 ms in between

            def answer(self) -> None:
                length = int(self.headers.get("Content-Length") or 0)
                body = self.rfile.read(length)
                request = Request(self.command, self.path, dict(self.headers), body)
                with lock:
                    index = len(server.seen)
                    server.seen.append(request)
                    script = server.script
                reply = script(index, request)
                time.sleep(reply.hang)
                if reply.drop:
                    self.close_connection = True
                    return
                try:
                    self.send_response_only(reply.status)
                    for name, value in reply.headers.items():
                        self.send_header(name, value)
                    length = len(reply.body) if reply.length is None else reply.length
                    self.send_header("Content-Length", str(length))
                    self.end_headers()
                    if self.command != "HEAD":
                        self.wfile.write(reply.body)
                except OSError:
                    pass  # the client had given up

            do_GET = do_PUT = do_HEAD = do_DELETE = do_POST = answer

            def handle_expect_100(self) -> bool:
                return super().handle_expect_100() if server.says_continue else True

            def log_message(self, *arguments: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.02,), daemon=True
        )
        self._thread.start()
        self.endpoint = f"http://127.0.0.1:{self._server.server_port}"

    def play(self, script: Callable[[int, Request], Answer]) -> None:
        """Answer by another script from now on, as if no request had come before."""
        self.script = script
        self.seen: list[Request] = []
        self.says_continue = True

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
