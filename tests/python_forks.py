"""Spark's Python processes as forks of one that has imported what they import.

Spark starts a daemon of Python for each kind of work of a data source and, over Connect, for each
session. Each one, and each worker of it, would import PyArrow, PySpark and the package again, which
takes a second of processor time.

`running(folder)` starts the server, and gives a program to name as PYSPARK_PYTHON. The program asks
the server for a fork, which takes over its arguments, environment, working folder and standard
streams. It ends when the fork ends, and the fork ends with it.
"""

from __future__ import annotations

import json
import os
import runpy
import selectors
import signal
import socket
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tests.places import ROOT

STREAMS = (0, 1, 2)
REQUEST_BYTES = 1 << 20
JVM = "TABLEFMT_TEST_JVM"
PROGRAM = """#!{python} -ISE
import json, os, signal, socket, sys

if sys.argv[1:2] != ["-m"] or not sys.argv[2].startswith("pyspark."):
    os.execv({python!r}, [{python!r}, *sys.argv[1:]])
with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as server:
    server.connect("\\0{name}")
    environment = dict(os.environ, {jvm}=str(os.getppid()))
    what = {{"module": sys.argv[2], "arguments": sys.argv[3:], "folder": os.getcwd()}}
    what["environment"] = environment
    socket.send_fds(server, [json.dumps(what).encode()], [0, 1, 2])
    fork = int(server.recv(100))
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda number, frame: os.kill(fork, number))
    for stream in (0, 1, 2):
        os.close(stream)
    os._exit(int(server.recv(100) or b"1"))
"""


@contextmanager
def running(folder: Path) -> Iterator[Path]:
    """Start a server; yield the program that asks it for forks. It ends with this process, too."""
    # A name of Linux's own without a file. It ends with its server.
    name = f"tablefmt-forks-{os.getpid()}-{time.monotonic_ns()}"
    program = folder / "python"
    program.write_text(PROGRAM.format(python=sys.executable, name=name, jvm=JVM))
    program.chmod(0o755)
    # Workers on one machine have one seed for hashes, as Spark gives them.
    environment = {**os.environ, "PYTHONHASHSEED": "0", "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        [sys.executable, "-m", "tests.python_forks", name],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as server:
        assert server.stdout is not None
        server.stdout.readline()
        yield program
        server.terminate()


def executor() -> int:
    """Return the pid of the JVM whose worker this process is."""
    if JVM in os.environ:
        return int(os.environ[JVM])
    # Without the server, a worker's parent is the daemon, whose parent is the executor.
    with open(f"/proc/{os.getppid()}/stat") as status:
        return int(status.read().rpartition(")")[2].split()[1])


class _Forks:
    """The state of the server: the connection of each fork that lives."""

    def __init__(self, listening: socket.socket) -> None:
        self.listening = listening
        self.clients: dict[int, socket.socket] = {}

    def serve(self) -> None:
        """Serve until standard input ends, which is when the parent process ends."""
        ended, signalled = os.pipe()
        os.set_blocking(signalled, False)
        signal.set_wakeup_fd(signalled)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        with selectors.DefaultSelector() as waiting:
            waiting.register(0, selectors.EVENT_READ)
            waiting.register(ended, selectors.EVENT_READ)
            waiting.register(self.listening, selectors.EVENT_READ)
            while True:
                for key, _ in waiting.select():
                    if key.fileobj == 0:
                        return
                    if key.fileobj == ended:
                        os.read(ended, 1000)
                        self._reap(waiting)
                    elif key.fileobj is self.listening:
                        self._fork(waiting)
                    else:
                        # The process that asked for it has ended.
                        waiting.unregister(key.fileobj)
                        with suppress(ProcessLookupError):
                            os.kill(key.data, signal.SIGTERM)

    def _reap(self, waiting: selectors.BaseSelector) -> None:
        while self.clients:
            fork, status = os.waitpid(-1, os.WNOHANG)
            if fork == 0:
                return
            client = self.clients.pop(fork)
            with suppress(OSError):
                client.send(str(os.waitstatus_to_exitcode(status) & 0xFF).encode())
            with suppress(KeyError):
                waiting.unregister(client)
            client.close()

    def _fork(self, waiting: selectors.BaseSelector) -> None:
        client, _ = self.listening.accept()
        request, streams, *_ = socket.recv_fds(client, REQUEST_BYTES, len(STREAMS))
        fork = os.fork()
        if fork == 0:
            for stream, number in zip(streams, STREAMS, strict=True):
                os.dup2(stream, number)
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            # Everything else that is open is the server's.
            os.closerange(max(STREAMS) + 1, 1024)
            os._exit(_run(**json.loads(request)))
        for stream in streams:
            os.close(stream)
        client.send(str(fork).encode())
        self.clients[fork] = client
        waiting.register(client, selectors.EVENT_READ, fork)


def _run(module: str, arguments: list[str], environment: dict[str, str], folder: str) -> int:
    """`python -m module arguments`, in this process."""
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    time.tzset()
    if environment.get("PYTHONWARNINGS") == "ignore":
        warnings.simplefilter("ignore")
    first = [folder, *environment.get("PYTHONPATH", "").split(os.pathsep)]
    sys.path[:] = [*first, *(path for path in sys.path if path not in first)]
    sys.argv = [module, *arguments]
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        sys.excepthook(*sys.exc_info())
        return 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
    return 0


def _import_what_workers_import() -> list[Any]:
    import pandas
    import pyarrow.compute
    import pyarrow.parquet
    import pyspark.sql.worker.create_data_source
    import pyspark.sql.worker.lookup_data_sources
    import pyspark.sql.worker.plan_data_source_read
    import pyspark.sql.worker.write_into_data_source
    import pyspark.worker

    import tablefmt.spark.entry.python_source
    import tablefmt.spark.entry.python_writer

    return [pandas, pyarrow, pyspark, tablefmt]


if __name__ == "__main__":
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as taking:
        taking.bind(f"\0{sys.argv[1]}")
        taking.listen(100)
        # A client that connects before all is imported waits.
        print("ready", flush=True)
        _import_what_workers_import()
        _Forks(taking).serve()
