"""Races between several processes and connections for the same keys of a store.

A racer is a process of its own. It gets a pickled store from its parent through a pipe, and a line
for each round. The store of a memory address exists in one process only: there, threads race.
"""

from __future__ import annotations

import json
import pickle  # noqa: TID251 - bytes of the own parent process, through a pipe
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from threading import Barrier, BrokenBarrierError
from typing import Any, BinaryIO

from tablefmt.errors import TablefmtError
from tablefmt.store.object_store import (
    Exists,
    KeyNotFoundError,
    NoAnswer,
    Refused,
    Store,
    Written,
)

_REPLIES = {Written: "written", Exists: "exists", NoAnswer: "no answer", Refused: "refused"}
_STARTUP = (
    "import json, sys\n"
    "sys.path[:] = json.loads(sys.argv[1])\n"
    "from tablefmt.inspection.store_races import serve\n"
    "serve(sys.stdin.buffer, sys.stdout.buffer)\n"
)
WAIT_SECONDS = 120.0
"""Longest wait for a racer. A client of a remote store retries for a while before it fails."""


@dataclass(frozen=True, slots=True)
class Result:
    """Observation of one creator in one round."""

    body: str
    """The first word of the creator's body."""
    reply: str
    """A value of _REPLIES."""
    reason: str
    seconds: float
    """Time of the create."""
    found: str
    """The first word of the object, as read right after a decisive reply; "absent"; "" if it was
    not read, or the read failed.
    """
    listed: bool | None
    """True if a listing after a decisive reply has the object; None: it was not listed."""


def name_of(body: bytes) -> str:
    """Return the first word of an object of a race, which names its creator."""
    return body.split(b" ", 1)[0].decode("ascii", "replace")[:80]


def compete(
    stores: Sequence[Store], pool: ThreadPoolExecutor, who: str, key: str, size: int
) -> list[Result]:
    """Let each store create `key` at once, then read and list it. Return what each one saw."""
    start = Barrier(len(stores))

    def create(number: int) -> Result:
        store, name = stores[number], f"{who}.{number}"
        body = f"{name} {key} ".encode().ljust(size, b".")
        with suppress(BrokenBarrierError):  # no more threads to be had: a weaker race
            start.wait(timeout=5)
        began = time.perf_counter()
        try:
            reply = store.put_if_absent(key, body)
        except TablefmtError as error:
            reply = Refused(str(error))
        seconds = time.perf_counter() - began
        said = _REPLIES[type(reply)]
        reason = reply.reason if isinstance(reply, NoAnswer | Refused) else ""
        found, listed = _seen(store, key) if said in ("written", "exists") else ("", None)
        return Result(name, said, reason, seconds, found, listed)

    return list(pool.map(create, range(len(stores))))


def _seen(store: Store, key: str) -> tuple[str, bool | None]:
    try:
        found = name_of(store.get(key))
    except KeyNotFoundError:
        found = "absent"
    except TablefmtError:
        found = ""
    try:
        folder = key.rpartition("/")[0] + "/"
        return found, any(one.key == key for one in store.list_after(folder))
    except TablefmtError:
        return found, None


def serve(requests: BinaryIO, answers: BinaryIO) -> None:
    """Run the rounds that the parent process asks for, until it closes the pipe."""
    # Only the parent process writes to this pipe. No byte of a store gets here.
    copies, who = pickle.load(requests)
    _answer(answers, "ready")
    with ThreadPoolExecutor(len(copies)) as pool:
        for line in requests:
            task, key, size = json.loads(line)
            if task == "upload":
                with copies[0].open_output(key) as stream:
                    stream.write(b"x" * size)
                    _answer(answers, "writing")
                    # The parent kills this process now.
                    requests.read()
            else:
                results = compete(copies, pool, who, key, size)
                requests_sent = sum(sum(each.tally.sums().values()) for each in copies)
                _answer(answers, [requests_sent, [asdict(one) for one in results]])


def _answer(answers: BinaryIO, value: Any) -> None:
    answers.write(json.dumps(value).encode() + b"\n")
    answers.flush()


class Racer:
    """One process that takes part in races."""

    def __init__(self, packed: bytes) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", _STARTUP, json.dumps(sys.path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._to, self._from = self._process.stdin, self._process.stdout
        self.requests = 0
        """Requests that the process has sent."""
        with suppress(OSError):
            self._to.write(packed)
            self._to.flush()

    def send(self, task: str, key: str, size: int) -> None:
        """Send a task."""
        with suppress(OSError):
            self._to.write(json.dumps([task, key, size]).encode() + b"\n")
            self._to.flush()

    def answer(self) -> Any:
        """Return the next answer; None if the process has ended."""
        line = self._from.readline()
        return json.loads(line) if line.endswith(b"\n") else None

    def results(self) -> list[Result]:
        """Return the results of a race; none if the process has ended."""
        answer = self.answer()
        if answer is None:
            return []
        self.requests = answer[0]
        return [Result(**one) for one in answer[1]]

    def kill(self) -> None:
        """End the process at once. A reader of its answers sees the end."""
        self._process.kill()
        self._process.wait()

    def close(self) -> None:
        """Close the pipes to a process that has ended."""
        for pipe in (self._to, self._from):
            with suppress(OSError):
                pipe.close()


class Races:
    """Racers, and the threads that wait for them."""

    def __init__(self, store: Store, racers: Sequence[Racer], connections: int) -> None:
        self.racers = list(racers)
        self.connections = connections
        self._copies = [store] * connections
        self._pool = ThreadPoolExecutor(max(connections, len(self.racers), 1))

    @property
    def requests(self) -> int:
        """The requests that other processes sent."""
        return sum(racer.requests for racer in self.racers)

    def run(self, key: str, size: int) -> list[Result]:
        """Let all creators create one key at once."""
        if not self.racers:
            return compete(self._copies, self._pool, "0", key, size)
        for racer in self.racers:
            racer.send("race", key, size)
        return [one for some in self._within(Racer.results) for one in some]

    def interrupt(self, key: str, size: int) -> bool:
        """Kill a process in the middle of an upload. Return whether there was one."""
        if not self.racers:
            return False
        racer = self.racers.pop()
        racer.send("upload", key, size)
        began = self._pool.submit(racer.answer)
        wait([began], WAIT_SECONDS)
        racer.kill()
        begun: bool = began.result() == "writing"
        racer.close()
        return begun

    def start(self) -> None:
        """Wait until all processes are ready, and forget those that failed to start."""
        ready = self._within(Racer.answer)
        for racer, answer in zip(list(self.racers), ready, strict=True):
            if answer != "ready":
                racer.kill()
                racer.close()
                self.racers.remove(racer)

    def _within(self, work: Any) -> list[Any]:
        """Return an answer of each racer. One that does not answer in time is killed."""
        asked = [self._pool.submit(work, racer) for racer in self.racers]
        late = wait(asked, WAIT_SECONDS).not_done
        for one, racer in zip(asked, self.racers, strict=True):
            if one in late:
                racer.kill()
        return [one.result() for one in asked]

    def close(self) -> None:
        """End all processes."""
        for racer in self.racers:
            racer.kill()
        self._pool.shutdown()
        for racer in self.racers:
            racer.close()


@contextmanager
def races(store: Store, processes: int, connections: int) -> Iterator[Races]:
    """Start some processes with some connections each, and end them with the block.

    Without processes, or if the store exists in this process only, threads of this process race.
    """
    racers: list[Racer] = []
    if store.traits.shared:
        for number in range(processes):
            with suppress(Exception):  # a store that cannot be pickled stays in this process
                copies = [pickle.loads(pickle.dumps(store)) for _ in range(connections)]
                racers.append(Racer(pickle.dumps((copies, str(number)))))
    made = Races(store, racers, connections if racers else max(connections, 4))
    try:
        made.start()
        yield made
    finally:
        made.close()
