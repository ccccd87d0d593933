"""One round of the soak: processes over one table are stopped and killed, then all is compared.

A round has phases. In each, writers take a number of steps beside maintenance, readers and a pipe.
At the end of a phase the steps that a kill left open are taken, and the whole table is checked
against the model, at older versions, through changes, copies, clones, a pipe and a restore.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import random
import shutil
import signal
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

import tablefmt
from tablefmt.errors import VersionNotFoundError
from tablefmt.table import Table
from tests.system.campaign.fault_proxy import SCALE, FaultProxy
from tests.system.campaign.own_rows import COLUMNS, Row, next_step, start_of, state_after
from tests.system.campaign.worlds import (
    SCHEMA,
    WRONG,
    History,
    World,
    audit,
    carry,
    piped,
    process,
    rows_of,
    table_of,
    take,
    upkeep,
    write,
)

CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["tests.system.campaign.worlds"])
TICK: Final = 0.05
MOST_SECONDS_OF_A_TICK: Final = 30.0
"""Time beyond it is a pause of this process, such as a SIGSTOP, and does not count."""
HANGS_AFTER: Final = 900.0
"""Running seconds without any acknowledged step."""


class RunningTime:
    """Seconds that this process runs, without those in which it is stopped."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._before = time.monotonic()

    def tick(self) -> float:
        """Take note of the time. Return the running seconds."""
        now = time.monotonic()
        self.seconds += min(now - self._before, MOST_SECONDS_OF_A_TICK)
        self._before = now
        return self.seconds

    def sleep(self, seconds: float) -> None:
        """Sleep in ticks."""
        end = self.tick() + seconds
        while self.seconds < end:
            time.sleep(min(TICK, max(end - self.seconds, 0.001)))
            self.tick()


@dataclass
class Shape:
    """Choices of a round that its seed makes."""

    seed: str
    chance: random.Random = field(init=False)

    def __post_init__(self) -> None:
        self.chance = random.Random(self.seed)
        pick = self.chance.choice
        self.writers = pick([2, 3, 3, 4])
        self.partition_by = pick([[], ["w"], ["bucket(3, k)"], ["t"]])
        self.identity = self.chance.random() < 0.3
        self.properties = {
            "isolationLevel": pick(["WriteSerializable", "Serializable"]),
            "conflictGranularity": pick(["row", "row", "file"]),
            "deleteMode": pick(["merge-on-read", "copy-on-write"]),
            "checkpointInterval": pick(["3", "10", "100"]),
        }
        if self.chance.random() < 0.5 and not self.identity:
            self.properties["export"] = pick(["delta", "iceberg", "delta,iceberg"])
        self.pipe = self.chance.random() < 0.6
        self.phases = pick([1, 2, 2])
        self.share = pick([0.0, 0.02, 0.05])

    def __str__(self) -> str:
        given = {"partition_by": self.partition_by, "identity": self.identity, **self.properties}
        return f"{self.writers} writers, {given}"


@dataclass
class Round:
    """One table, its processes, and what they did."""

    folder: Path
    seed: str
    steps: int
    server: Any = None
    """An S3 server; None for a local disk."""

    def __post_init__(self) -> None:
        self.clock = RunningTime()
        self.shape = Shape(self.seed)
        self.faults: Counter[str] = Counter()
        self.figures: Counter[str] = Counter()
        self.proxy: FaultProxy | None = None
        self.folder.mkdir(parents=True)
        self.first = 0
        if self.server is None:
            self.uri, self.options = str(self.folder / "table"), None
        else:
            self.uri, self.options = self.server.new_root(), self.server.options
            self.proxy = FaultProxy(self.server.endpoint, self.seed, 0.0)
        self.chance = random.Random(f"{self.seed} round")
        self.started: dict[int, int] = {}
        """Noted steps of each process when it was started."""
        self.works = [write] * self.shape.writers + [upkeep, audit]
        if self.shape.pipe:
            self.works.append(carry)

    def world(self, goal: int) -> World:
        """Return what the processes are told."""
        options: Mapping[str, Any] | None = self.options
        if self.proxy is not None:
            waits = {"connect_timeout": 5, "read_timeout": SCALE / 2}
            options = {**self.server.options, "endpoint_url": self.proxy.endpoint}
            options["config_kwargs"] = waits
        told = self.seed, self.shape.share, goal, self.shape.writers, self.first
        return World(self.folder, self.uri, options, *told)

    def run(self) -> None:
        """Do all phases; AssertionError if something is wrong."""
        self._create()
        for phase in range(1, self.shape.phases + 1):
            self._disturb(self.world(phase * self.steps))
            self._check()
            self._forget()

    def end(self, remove: bool) -> None:
        """Close the proxy, and remove the folder if asked for."""
        if self.proxy is not None:
            self.proxy.close()
        if remove:
            shutil.rmtree(self.folder)

    def opened(self) -> Table:
        """Open the table without faults."""
        return tablefmt.open(self.uri, storage_options=self.options)

    def _create(self) -> None:
        fields = list(SCHEMA)
        schema: Any = pa.schema(fields)
        if self.shape.identity:
            schema = "w BIGINT, k BIGINT, n BIGINT, t STRING, x DOUBLE, "
            schema += "id BIGINT GENERATED ALWAYS AS IDENTITY"
        table = tablefmt.create(
            self.uri,
            schema,
            partition_by=self.shape.partition_by,
            properties=self.shape.properties,
            storage_options=self.options,
        )
        for writer in range(self.shape.writers):
            rows = tuple(start_of(writer).values())
            if writer == 0:
                first = table_of(writer, rows)
            else:
                first = pa.concat_tables([first, table_of(writer, rows)])
        self.first = table.append(first).version

    def _disturb(self, world: World) -> None:
        """Stop and kill processes until every writer has reached the goal."""
        chance = random.Random(f"{self.seed} {world.goal} faults")
        if self.proxy is not None:
            self.proxy.share = chance.choice([0.02, 0.05, 0.08])
        running = [self._start(world, number) for number in range(len(self.works))]
        least, last, since = -1, -1, self.clock.tick()
        while least < world.goal:
            self.clock.sleep(chance.uniform(0, 0.8))
            number = chance.randrange(len(running))
            one = running[number]
            self._look(world, running)
            fate = chance.random()
            if fate < 0.35 and one.is_alive():
                self.faults["SIGSTOP"] += 1
                with contextlib.suppress(ProcessLookupError):  # it has come to its goal
                    os.kill(one.pid, signal.SIGSTOP)
                    self.clock.sleep(chance.uniform(0, 1))
                    os.kill(one.pid, signal.SIGCONT)
            elif fate < 0.7 and one.is_alive() and self._may_be_killed(world, number):
                self.faults["SIGKILL"] += 1
                one.kill()
            if not one.is_alive() and one.exitcode == -signal.SIGKILL:
                running[number] = self._start(world, number)
            done = [world.done(writer) for writer in range(self.shape.writers)]
            least = min(done)
            if sum(done) != last:
                last, since = sum(done), self.clock.seconds
            assert self.clock.tick() - since < HANGS_AFTER, f"no step for long, after {done}"
        for one in running:
            one.kill()
        for one in running:
            one.join()
        self._look(world, running)
        if self.proxy is not None:
            self.proxy.settle()

    def _start(self, world: World, number: int) -> Any:
        told = (self.works[number], world, number)
        self.started[number] = world.done(number)
        one = CONTEXT.Process(target=process, args=told, daemon=True)
        one.start()
        return one

    def _may_be_killed(self, world: World, number: int) -> bool:
        """Return whether it has done something since its start; else it may be, now and then.

        On a busy machine, processes that are killed at their start would come to nothing.
        """
        return world.done(number) > self.started[number] or self.chance.random() < 0.1

    def _look(self, world: World, running: list[Any]) -> None:
        """Raise what a process saw."""
        for number, one in enumerate(running):
            if one.exitcode not in (None, 0, -signal.SIGKILL):
                path = world.error(number)
                seen = path.read_text() if path.exists() else f"exit status {one.exitcode}"
                raise AssertionError(f"{self.works[number].__name__} {number} saw:\n{seen}")
            assert one.exitcode != WRONG

    def expected(self) -> dict[int, Mapping[int, Row]]:
        """Take the steps that a kill left open. Return the rows of each writer after them."""
        table, world = self.opened(), self.world(0)
        expected = {}
        for writer in range(self.shape.writers):
            at = world.done(writer)
            before = state_after(self.seed, writer, at)[-1]
            step = next_step(self.seed, writer, at, before)
            while not take(table, writer, at, step, self._note):
                table = self.opened()
            with open(world.ledger(writer), "a") as ledger:
                ledger.write(f"{at} {step.kind}\n")
            expected[writer] = step.after
        return {writer: rows for writer, rows in expected.items() if rows}

    def _note(self, text: str) -> None:
        self.figures[text] += 1

    def _check(self) -> None:
        expected = self.expected()
        table = self.opened()
        self._compare(table, expected, "the newest version")
        self._check_log(table)
        self._check_history(table)
        if self.shape.pipe:
            self._pipe(table)
            target = tablefmt.open(f"{self.uri} piped", storage_options=self.options)
            self._compare(target, expected, "the target of the pipe")
            assert target.verify(deep=True).ok
        self._check_copies(table, expected)
        self._restore(table, expected)
        self.figures["checks"] += 1

    def _pipe(self, table: Table) -> None:
        if self.shape.pipe:
            piped(World(self.folder, self.uri, self.options, self.seed, 0, 0, 0, 0), table)

    def _compare(self, table: Table, expected: Mapping[int, Any], where: str) -> None:
        found = rows_of(table.refresh().to_arrow(columns=list(COLUMNS)))
        for writer in sorted({*found, *expected}):
            mine, wanted = found.get(writer, {}), expected.get(writer, {})
            wrong = {k for k in {*mine, *wanted} if mine.get(k) != wanted.get(k)}
            shown = {k: (mine.get(k), wanted.get(k)) for k in sorted(wrong)[:5]}
            assert not wrong, f"{where}: writer {writer}, k: (found, expected) {shown}"
        if self.shape.identity and where == "the newest version":
            given = table.to_arrow(columns=["id"])["id"]
            assert given.null_count == 0
            assert len(given.unique()) == len(given), "an identity was given twice"

    def _check_log(self, table: Table) -> None:
        report = table.verify(deep=True)
        assert report.ok, str(report)
        times = list(table.context.view.timeline.timestamps)
        assert times == sorted(set(times))

    def _check_history(self, table: Table) -> None:
        """Older versions have the rows after some step, and changes lead from one to the other."""
        chance, world = random.Random(f"{self.seed} {table.version}"), self.world(0)
        history = History(self.seed, self.shape.writers)
        most = max(world.done(writer) for writer in range(self.shape.writers))
        columns = list(COLUMNS)
        versions = sorted(chance.choices(range(self.first, table.version + 1), k=4))
        for one, two in pairwise(versions):
            with contextlib.suppress(VersionNotFoundError):
                before = rows_of(table.to_arrow(columns=columns, version=one))
                after = rows_of(table.to_arrow(columns=columns, version=two))
                for old, new in zip(
                    history.steps_of(before, most), history.steps_of(after, most), strict=True
                ):
                    assert min(old) <= max(new), (one, two)
                if one == two:
                    continue
                changes = table.changes(
                    after_version=one, ending_version=two, content="net", columns=columns
                ).to_arrow()
                assert _after(before, changes) == after, f"changes of {one + 1} to {two}"
                self.figures["ranges of changes"] += 1

    def _check_copies(self, table: Table, expected: Mapping[int, Any]) -> None:
        for number, shallow in enumerate((True, False)):
            into = f"{self.uri} clone {table.version} {number}"
            clone = table.clone(into, shallow=shallow, storage_options=self.options)
            self._compare(clone, expected, f"a clone, shallow: {shallow}")
            self.figures["clones"] += 1
        exports = self.shape.properties.get("export", "")
        if "delta" in exports and self.options is None:
            from deltalake import DeltaTable
            from deltalake.exceptions import DeltaError

            table.export("delta")
            with contextlib.suppress(DeltaError):
                copy = pa.table(DeltaTable(self.uri).scan(columns=list(COLUMNS)))
                assert rows_of(copy) == expected, "Delta's copy"
                self.figures["copies read"] += 1
        if "iceberg" in exports and self.options is None:
            from pyiceberg.table import StaticTable

            table.export("iceberg")
            found = Path(self.uri, "metadata").glob("v*.metadata.json")
            newest = max(found, key=lambda path: int(path.name[1:].split(".")[0]))
            scan = StaticTable.from_metadata(f"file://{newest}").scan()
            copy = scan.select(*COLUMNS).to_arrow()
            assert rows_of(copy) == expected, "Iceberg's copy"
            self.figures["copies read"] += 1

    def _restore(self, table: Table, expected: Mapping[int, Any]) -> None:
        """Restore an older version, and come back."""
        chance = random.Random(f"{self.seed} {table.version} restore")
        newest = table.refresh().version
        older = chance.randint(max(self.first, newest - 30), newest)
        with contextlib.suppress(VersionNotFoundError):
            columns = list(COLUMNS)
            before = rows_of(table.to_arrow(version=older).select(columns))
            table.restore(older)
            table.refresh()
            assert rows_of(table.to_arrow(columns=columns)) == before, f"restored {older}"
            table.restore(newest)
            self._compare(table, expected, f"restored {newest}")
            self.figures["restores"] += 1

    def _forget(self) -> None:
        """Give up every older version and its files; the newest one stays as it is."""
        table = self.opened()
        self.figures["commits"] = table.version
        before = rows_of(table.to_arrow(columns=list(COLUMNS)))
        for tag in table.tags()["name"].to_pylist():
            table.alter.drop_tag(tag)
        for forget in (table.vacuum, table.expire_log):
            self._pipe(table)  # both commit, and the pipe may not miss a version
            forget(retention="0 seconds", dry_run=False, breaks_running_transactions=True)
        table = self.opened()
        assert rows_of(table.to_arrow(columns=list(COLUMNS))) == before, "after vacuum and expiry"
        report = table.verify(deep=True)
        assert report.ok, str(report)

    def summary(self) -> Counter[str]:
        """Return all that happened, by name."""
        total = self.figures + self.faults
        for path in self.folder.glob("events *"):
            for line in path.read_text().splitlines():
                total[line] += 1
        for path in self.folder.glob("ledger *"):
            for line in path.read_text().splitlines():
                total["steps" if line[0].isdigit() else line] += 1
        if self.proxy is not None:
            total += Counter({f"fault {name}": n for name, n in self.proxy.faults.items()})
            total["lost answers of entries"] += self.proxy.lost_entries
        return total


def _after(rows: Mapping[int, Mapping[int, Row]], changes: pa.Table) -> dict[int, dict[int, Row]]:
    """Return rows after changes. A change that does not fit them is an error."""
    after = {writer: dict(own) for writer, own in rows.items()}
    names = [*COLUMNS, "_change_type"]
    all_of = list(zip(*(changes[name].to_pylist() for name in names), strict=True))
    for w, k, n, t, x, kind in all_of:
        if kind in ("delete", "update_preimage"):
            assert after[w].pop(k) == (k, n, t, repr(x)), (w, k)
    for w, k, n, t, x, kind in all_of:
        if kind in ("insert", "update_postimage"):
            assert k not in after.setdefault(w, {}), (w, k)
            after[w][k] = (k, n, t, repr(x))
    return {writer: own for writer, own in after.items() if own}
