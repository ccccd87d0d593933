"""A standalone cluster on loopback addresses, and the death of its executors."""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyspark

_PACKAGE = "org.apache.spark.deploy"
_EXECUTOR = b"CoarseGrainedExecutorBackend"
HOSTS = ("127.0.0.2", "127.0.0.3")
"""Addresses of two hosts. Spark speculates only on another host."""


@dataclass(frozen=True)
class Cluster:
    """The address of the master, and the processes of the workers."""

    url: str
    workers: tuple[int, ...]


@contextmanager
def standalone(folder: Path, memory: str = "800m") -> Iterator[Cluster]:
    """Start a master and a worker of two cores on each host. End them by their ids."""
    home = Path(pyspark.__file__).parent
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    url = f"spark://127.0.0.1:{port}"
    master = [f"{_PACKAGE}.master.Master", "--host", "127.0.0.1", "--port", str(port)]
    commands = [[*master, "--webui-port", "0"]]
    for host in HOSTS:
        worker = [f"{_PACKAGE}.worker.Worker", "--host", host, "--cores", "2", "--memory", memory]
        worker += ["--work-dir", str(folder / host), "--webui-port", "0"]
        commands.append([*worker, url])
    environment = {
        **os.environ,
        "SPARK_HOME": str(home),
        "PYSPARK_PYTHON": sys.executable,
        # An application stays, however many of its executors are killed.
        "SPARK_MASTER_OPTS": "-Dspark.deploy.maxExecutorRetries=-1",
        "SPARK_DAEMON_MEMORY": "256m",
    }
    environment.pop("SPARK_LOCAL_IP", None)
    started: list[subprocess.Popen[bytes]] = []
    try:
        for command in commands:
            started.append(
                subprocess.Popen(
                    [str(home / "bin" / "spark-class"), *command],
                    env=environment,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                )
            )
        yield Cluster(url, tuple(process.pid for process in started[1:]))
    finally:
        for process in reversed(started):
            process.terminate()
            process.wait(30)


def executors(workers: Sequence[int]) -> list[int]:
    """Return the executors that these workers have started, by their process ids."""
    found = []
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            if parent in workers and _EXECUTOR in (folder / "cmdline").read_bytes():
                found.append(int(folder.name))
        except OSError:
            continue
    return sorted(found)


class Killer:
    """Kills executors by SIGKILL at random times while a `with` block runs."""

    def __init__(self, workers: Sequence[int], chance: random.Random) -> None:
        self.workers = workers
        self.chance = chance
        self.kills = 0
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    def during(self, seconds: float) -> Killer:
        """Choose the times: none, one or two, before and a bit after `seconds` have passed."""
        times = self.chance.choices((0, 1, 2), (4, 5, 1))[0]
        delays = [self.chance.uniform(0, 1.2 * seconds) for _ in range(times)]
        every = [self.chance.random() < 0.2 for _ in range(times)]
        plan = list(zip(delays, every, strict=True))
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(plan, self._over), daemon=True)
        return self

    def _run(self, plan: list[tuple[float, bool]], over: threading.Event) -> None:
        for delay, every in plan:
            if over.wait(delay):
                return
            living = executors(self.workers)
            self.chance.shuffle(living)
            for pid in living if every else living[:1]:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    continue
                self.kills += 1

    def __enter__(self) -> None:
        assert self._thread is not None
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        assert self._thread is not None
        self._over.set()
        self._thread.join()
