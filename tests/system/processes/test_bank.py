"""A bank on a local disk: processes that transfer, maintain and read are stopped and killed.

The sum of the balances never changes. At the end, each account holds what its transfers say.
"""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import tablefmt
from tablefmt.errors import (
    CommitRejectedError,
    ConcurrentModificationException,
    VersionNotFoundError,
)
from tablefmt.store.local_store import LocalStore
from tests.tables import assert_sound

CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["tests.system.processes.test_bank"])
ACCOUNTS, START = 64, 1000
SECONDS = float(os.environ.get("TABLEFMT_SOAK_SECONDS", "300"))


def transfer(seed: int, worker: int, number: int) -> tuple[int, int, int]:
    """Return from, to and the amount of one transfer of a worker."""
    chance = random.Random(f"{seed}-{worker}-{number}")
    one, two = chance.sample(range(ACCOUNTS), 2)
    return one, two, chance.randrange(1, 9)


def move(table: tablefmt.Table, seed: int, worker: int, number: int) -> None:
    """Commit one transfer, once however often it is tried."""
    one, two, amount = transfer(seed, worker, number)
    while True:
        with suppress(ConcurrentModificationException, CommitRejectedError):
            signed = f"CASE WHEN id = {one} THEN -{amount} ELSE {amount} END"
            table.update(
                {"balance": f"balance + {signed}"},
                f"id = {one} OR id = {two}",
                application=(f"worker {worker}", number),
            )
            return
        table.refresh()


def work(uri: str, ledger: str, seed: int, worker: int) -> None:
    """Transfer for ever, from where the ledger says; each line is an acknowledged transfer."""
    table = tablefmt.open(uri)
    with open(ledger, "a+") as lines:
        lines.seek(0)
        number = len(lines.readlines())
        while True:
            move(table, seed, worker, number)
            lines.write(f"{number}\n")
            lines.flush()
            number += 1


def upkeep(uri: str, ledger: str, seed: int, worker: int) -> None:
    """Compact, checkpoint, vacuum and expire for ever."""
    table = tablefmt.open(uri)
    chance = random.Random(seed)
    verbs: list[Any] = [
        table.compact,
        table.checkpoint,
        lambda: table.vacuum(dry_run=False),
        lambda: table.expire_log(dry_run=False),
    ]
    with open(ledger, "a") as lines:
        while True:
            with suppress(ConcurrentModificationException, CommitRejectedError):
                chance.choice(verbs)()
                lines.write("done\n")
                lines.flush()
            time.sleep(0.05)
            table.refresh()


def audit(uri: str, ledger: str, seed: int, worker: int) -> None:
    """Read the newest and an older version for ever; a wrong sum ends the process."""
    chance = random.Random(seed)
    with open(ledger, "a") as lines:
        while True:
            table = tablefmt.open(uri)
            with suppress(VersionNotFoundError):
                for version in (table.version, chance.randint(1, table.version)):
                    rows = table.to_arrow(version=version)
                    if (rows.num_rows, pc.sum(rows["balance"]).as_py()) != (
                        ACCOUNTS,
                        ACCOUNTS * START,
                    ):
                        os._exit(3)
                    lines.write(f"{version}\n")
                    lines.flush()


@dataclass
class Bank:
    """Processes over one table, which a seed stops and kills."""

    folder: Path
    seed: int
    works: list[Any]

    def __post_init__(self) -> None:
        self.uri = str(self.folder / "bank")
        rows = pa.table(
            {"id": range(ACCOUNTS), "balance": pa.array([START] * ACCOUNTS, pa.int64())}
        )
        tablefmt.create(self.uri, rows.schema).append(rows)
        self.chance = random.Random(self.seed)
        self.faults: Counter[str] = Counter()
        self.running = [self.start(number) for number in range(len(self.works))]

    def ledger(self, number: int) -> Path:
        """Return the file in which a process notes what it has done."""
        return self.folder / f"ledger {number}"

    def start(self, number: int) -> Any:
        """Start one process, again if need be."""
        told = (self.uri, str(self.ledger(number)), self.seed, number)
        process = CONTEXT.Process(target=self.works[number], args=told, daemon=True)
        process.start()
        return process

    def disturb(self, seconds: float) -> None:
        """Stop and kill processes until the time is over, then kill all of them."""
        end = time.monotonic() + seconds
        while time.monotonic() < end or min(self.done().values()) == 0 or len(self.faults) < 2:
            number = self.chance.randrange(len(self.works))
            process = self.running[number]
            assert process.exitcode in (None, -signal.SIGKILL), (number, process.exitcode)
            if self.chance.random() < 0.5:
                self.faults["stop"] += 1
                os.kill(process.pid, signal.SIGSTOP)
                time.sleep(self.chance.uniform(0, 0.2))
                os.kill(process.pid, signal.SIGCONT)
            elif process.is_alive():
                self.faults["kill"] += 1
                process.kill()
                process.join()
                self.running[number] = self.start(number)
            time.sleep(self.chance.uniform(0, 0.3))
        for process in self.running:
            process.kill()
            process.join()

    def done(self) -> dict[int, int]:
        """Return how often each process did something."""
        found = {}
        for number in range(len(self.works)):
            ledger = self.ledger(number)
            found[number] = len(ledger.read_text().splitlines()) if ledger.exists() else 0
        return found


def checked(bank: Bank) -> None:
    """Compare the balances with the ledgers, after the transfers that a kill left open."""
    table = tablefmt.open(bank.uri)
    expected = dict.fromkeys(range(ACCOUNTS), START)
    done = bank.done()
    for worker, kind in enumerate(bank.works):
        if kind is not work:
            continue
        move(table, bank.seed, worker, done[worker])
        for number in range(done[worker] + 1):
            one, two, amount = transfer(bank.seed, worker, number)
            expected[one] -= amount
            expected[two] += amount
    found = table.refresh().to_arrow()
    assert (
        dict(zip(*(found[name].to_pylist() for name in ("id", "balance")), strict=True)) == expected
    )
    assert sum(expected.values()) == ACCOUNTS * START
    assert_sound(LocalStore(bank.uri))


@pytest.mark.slow
def test_a_small_bank_keeps_its_sum(tmp_path: Path) -> None:
    """CMT-1, RET-5: two that transfer, one that maintains and one that reads."""
    bank = Bank(tmp_path, 1, [work, work, upkeep, audit])
    bank.disturb(1)
    checked(bank)
    assert bank.faults["kill"] > 0
    assert bank.faults["stop"] > 0


@pytest.mark.soak
@pytest.mark.timeout(int(SECONDS) * 4 + 600)
def test_a_bank_of_32_processes_keeps_its_sum(tmp_path: Path) -> None:
    """CMT-1, RET-5: for minutes, with a new seed each time."""
    seed = int(os.environ.get("TABLEFMT_TEST_SEED") or random.randrange(1 << 40))
    print(f"TABLEFMT_TEST_SEED={seed}")
    bank = Bank(tmp_path, seed, [work] * 26 + [upkeep] * 3 + [audit] * 3)
    bank.disturb(SECONDS)
    checked(bank)
    print(f"{sum(bank.done().values())} steps, {dict(bank.faults)}")
