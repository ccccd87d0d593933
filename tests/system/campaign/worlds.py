"""One table of a campaign, and what its processes do to it until they are killed.

What a process does is noted in a file, a line each: acknowledged steps in its ledger, faults and
conflicts in its events.
"""

from __future__ import annotations

import os
import random
import time
import traceback
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, TypeAlias

import pyarrow as pa

import tablefmt
from tablefmt.errors import (
    CommitRejectedError,
    CommitUnknownError,
    ConcurrentModificationException,
    ConcurrentTransactionException,
    InvalidArgumentError,
    MetadataChangedException,
    ProtocolChangedException,
    SchemaMismatchError,
    StoreError,
    TableNotFoundError,
    VersionNotFoundError,
)
from tablefmt.store.local_store import LocalStore
from tablefmt.table import Table, open_at
from tablefmt.testing.faults import Fault, FaultyStore
from tests.system.campaign.own_rows import (
    COLUMNS,
    Row,
    Step,
    next_step,
    start_of,
    state_after,
    value_of,
)

SCHEMA: Final = pa.schema(
    {"w": pa.int64(), "k": pa.int64(), "n": pa.int64(), "t": pa.string(), "x": pa.float64()}
)
EXTRAS: Final = 3
"""Columns that come and go."""
WRONG: Final = 3
"""Exit status of a process that saw what must not be."""
_READS: Final = frozenset({"get", "get_many", "get_range", "get_ranges", "size", "list_after"})


def faults_of(verb: str) -> Sequence[Fault]:
    """Return the faults that a request of a local disk may get."""
    if verb == "put_if_absent":
        return "sdk_retry", "late", "lost_answer", "lost_request", "no_space"
    if verb in _READS:
        return "lost_request", "lost_answer"
    return "lost_request", "lost_answer", "no_space"


Opener: TypeAlias = Callable[[], Table]


@dataclass(frozen=True)
class World:
    """A table: its place, the way to it, and the seed of the steps that are done to it.

    Attributes:
        options: Storage options; None for a local disk.
        share: The share of the store's requests that get a fault, on a local disk.
        goal: Steps of each writer.
        writers: How many there are.
        first: The first version with the rows that they start with.
    """

    folder: Path
    uri: str
    options: Mapping[str, Any] | None
    seed: str
    share: float
    goal: int
    writers: int
    first: int

    @property
    def target(self) -> str:
        """The address of the table that a pipe fills."""
        return f"{self.uri} piped"

    def ledger(self, number: int) -> Path:
        """Return the file of a process's acknowledged steps."""
        return self.folder / f"ledger {number}"

    def events(self, number: int) -> Path:
        """Return the file of what else happened to a process."""
        return self.folder / f"events {number}"

    def error(self, number: int) -> Path:
        """Return the file of what a process saw that must not be."""
        return self.folder / f"error {number}"

    def done(self, number: int) -> int:
        """Return how many steps a process has noted."""
        ledger = self.ledger(number)
        return ledger.read_bytes().count(b"\n") if ledger.exists() else 0

    def table(self, faults: Counter[str] | None = None) -> Table:
        """Open the table; on a local disk, requests get faults, which are counted."""
        if self.options is not None or faults is None or not self.share:
            return tablefmt.open(self.uri, storage_options=self.options)
        chance = random.Random()

        def plan(index: int, verb: str, key: str) -> Fault | None:
            if chance.random() >= self.share:
                return None
            return chance.choice(faults_of(verb))

        store = FaultyStore(LocalStore(self.uri), plan)
        store.fired = faults
        return open_at(store)


class Notes:
    """Appends lines to a file; each is there after a kill, or is not."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def __call__(self, text: str) -> None:
        os.write(self._file, f"{text}\n".encode())


def process(work: Callable[[World, int, Notes], None], world: World, number: int) -> None:
    """Run one process. What it may not see ends it with `WRONG`, and is written down."""
    try:
        work(world, number, Notes(world.events(number)))
    except BaseException:
        world.error(number).write_text(traceback.format_exc())
        os._exit(WRONG)


def attempt(work: Callable[[], Any], note: Callable[[str], None], table: Opener) -> Any:
    """Return what a statement returns, or None if it is certain that it did nothing.

    An unknown outcome is resolved by the table that it is of, however long it takes.
    """
    try:
        return work()
    except CommitUnknownError as error:
        note("unknown")
        return _resolved(table, error, note)
    except ConcurrentModificationException as error:
        note(f"conflict {type(error).__name__} {error.rule}")
    except CommitRejectedError:
        note("rejected")
    except StoreError:
        note("store error")
    return None


def _resolved(table: Opener, error: CommitUnknownError, note: Callable[[str], None]) -> Any:
    while True:
        try:
            commit = table().resolve(error.transaction, error.version)
        except (CommitUnknownError, StoreError):
            note("unknown: still")
            time.sleep(0.05)
            continue
        except TableNotFoundError:  # the creation of a pipe's target, which its next run repeats
            note("unknown: never")
            return None
        note("unknown: committed" if commit is not None else "unknown: never")
        return commit


def write(world: World, number: int, note: Notes) -> None:
    """Take steps on this writer's rows up to the goal, from where the ledger says."""
    lines, faults = Notes(world.ledger(number)), Counter[str]()
    at = world.done(number)
    rows = state_after(world.seed, number, at)[-1]
    table: Table | None = None
    while at < world.goal:
        step = next_step(world.seed, number, at, rows)
        while True:
            table = table or opened(world, note, faults)
            if take(table, number, at, step, note):
                break
            if random.random() < 0.1:
                table = None
        for fault in list(faults.elements()):
            note(f"fault {fault}")
        faults.clear()
        lines(f"{at} {step.kind}")
        at, rows = at + 1, step.after


def opened(world: World, note: Callable[[str], None], faults: Counter[str] | None) -> Table:
    """Open the table, however often the store fails."""
    while True:
        try:
            return world.table(faults)
        except StoreError:
            note("store error at open")


def take(table: Table, writer: int, number: int, step: Step, note: Callable[[str], None]) -> bool:
    """Try one step. Return whether it has been committed, now or before.

    An append conflicts with nothing but a change of metadata, or its own other attempt.
    """
    commit: dict[str, Any] = {"application": (f"writer {writer}", number)}
    if random.random() < 0.25:
        commit["deadline"] = random.uniform(0.05, 2)
    told: list[str] = []
    done = attempt(lambda: _apply(table, writer, step, commit), told.append, lambda: table)
    for text in told:
        note(text)
        may = (MetadataChangedException, ProtocolChangedException, ConcurrentTransactionException)
        if text.startswith("conflict") and step.kind.endswith("append"):
            assert text.split()[1] in {one.__name__ for one in may}, text
    if done is None:
        return False
    note(f"already {step.kind}" if getattr(done, "already_applied", False) else f"did {step.kind}")
    return True


def _apply(table: Table, writer: int, step: Step, commit: Mapping[str, Any]) -> Any:
    rows = table_of(writer, step.rows)
    match step.kind:
        case "append":
            return table.append(rows, **commit)
        case "several appends":
            transaction = table.transaction()
            transaction.append(rows.slice(0, 1))
            transaction.append(rows.slice(1))
            return transaction.commit(**commit)
        case "overwrite":
            return table.overwrite(rows, where=step.condition, **commit)
        case "truncate":
            return table.truncate(step.condition, **commit)
        case "delete":
            return table.delete(step.condition, **commit)
        case "update":
            return table.update({"n": f"n + {step.by}"}, step.condition, **commit)
    names = [name for name in COLUMNS if name != "w"]
    return (
        table.merge(rows, f"t.w = {writer} AND s.w = t.w AND s.k = t.k")
        .when_matched_delete("s.n % 2 = 0")
        .when_matched_update({name: f"s.{name}" for name in names})
        .when_not_matched_insert({name: f"s.{name}" for name in COLUMNS})
        .execute(**commit)
    )


def table_of(writer: int, rows: Sequence[Row]) -> pa.Table:
    """Return rows as a writer adds them."""
    return pa.Table.from_pylist([{"w": writer, **value_of(row)} for row in rows], SCHEMA)


def rows_of(found: pa.Table) -> dict[int, dict[int, Row]]:
    """Return the rows of each writer by k. No two may have one k."""
    writers: dict[int, dict[int, Row]] = defaultdict(dict)
    columns = [found[name].to_pylist() for name in COLUMNS]
    for w, k, n, t, x in zip(*columns, strict=True):
        assert k not in writers[w], f"two rows of writer {w} have k = {k}"
        writers[w][k] = (k, n, t, repr(x))
    return dict(writers)


class History:
    """The states that each writer's rows go through, to check what a reader sees."""

    def __init__(self, seed: str, writers: int) -> None:
        self._seed = seed
        self._states = [[start_of(writer)] for writer in range(writers)]

    def steps_of(self, found: Mapping[int, Mapping[int, Row]], most: int) -> list[list[int]]:
        """Return, for each writer, after how many steps its rows are those found."""
        answer = []
        for writer, states in enumerate(self._states):
            while len(states) <= most:
                step = next_step(self._seed, writer, len(states) - 1, states[-1])
                states.append(step.after)
            mine = found.get(writer, {})
            fits = [at for at, state in enumerate(states) if state == mine]
            assert fits, f"the rows of writer {writer} are those after no step: {mine}"
            answer.append(fits)
        assert set(found) <= set(range(len(self._states)))
        return answer


def audit(world: World, number: int, note: Notes) -> None:
    """Read for ever. At each version, each writer's rows are those after one of its steps."""
    history, lines = History(world.seed, world.writers), Notes(world.ledger(number))
    chance, oldest = random.Random(), world.first
    while True:
        table = opened(world, note, None)
        seen: list[list[list[int]]] = []
        versions = sorted({table.version, chance.randint(oldest, table.version)})
        try:
            for version in versions:
                found = table.to_arrow(columns=list(COLUMNS), version=version)
                seen.append(history.steps_of(rows_of(found), world.goal))
        except VersionNotFoundError as error:
            oldest = error.oldest if isinstance(error.oldest, int) else oldest
            note("version expired")
            continue
        except StoreError:
            note("store error")
            continue
        for older, newer in pairwise(seen):
            for before, after in zip(older, newer, strict=True):
                assert min(before) <= max(after), f"steps went back: {versions}"
        lines("read")


def upkeep(world: World, number: int, note: Notes) -> None:
    """Maintain and alter the table for ever."""
    lines, chance = Notes(world.ledger(number)), random.Random()
    while True:
        table = opened(world, note, None)
        name, verb = chance.choice(list(_verbs(table, chance).items()))
        try:
            done = attempt(lambda verb=verb: verb() or True, note, lambda table=table: table)
        except (InvalidArgumentError, SchemaMismatchError):
            # A request of a process that was killed came late, and the tag or column is there.
            note("another name first")
            continue
        if done is not None:
            lines(name)
        time.sleep(chance.uniform(0, 0.3))


def _verbs(table: Table, chance: random.Random) -> dict[str, Callable[[], Any]]:
    """Return what may be done to a table as it is."""
    extras = [name for name in table.schema.names if name.startswith("e")]
    tags = table.tags()["name"].to_pylist()
    # A name is never used again: a pipe whose transform is not known refuses that (PIP-5).
    free = f"e{chance.getrandbits(48):x}"
    verbs: dict[str, Callable[[], Any]] = {
        "compact": table.compact,
        "compact all": lambda: table.compact("major"),
        "cluster": lambda: table.cluster(["k", "n"], curve=chance.choice(["zorder", "linear"])),
        "checkpoint": table.checkpoint,
        "vacuum": lambda: table.vacuum(dry_run=False),
        "expire the log": lambda: table.expire_log(dry_run=False),
        "maintain": table.maintain,
        "set a property": lambda: table.alter.set_properties({"user.x": str(chance.random())}),
        "verify": lambda: _sound(table),
    }
    if "iceberg" not in table.properties.get("export", ""):
        # A copy of a changed partitioning may be held back, and a round compares copies.
        wanted = chance.choice([[], ["w"], ["bucket(3, k)"], ["t"]])
        verbs["change the partitioning"] = lambda: table.alter.set_partitioning(wanted)
        verbs["repartition"] = table.repartition
    if len(tags) < 3:
        verbs["set a tag"] = lambda: table.alter.set_tag(f"tag {chance.random()}")
    else:
        verbs["drop a tag"] = lambda: table.alter.drop_tag(chance.choice(tags))
    if len(extras) < EXTRAS:
        verbs["add a column"] = lambda: table.alter.add_column(free, "BIGINT")
    else:
        verbs["drop a column"] = lambda: table.alter.drop_column(chance.choice(extras))
    if extras:
        verbs["rename a column"] = lambda: table.alter.rename_column(chance.choice(extras), free)
    return verbs


def _sound(table: Table) -> None:
    report = table.verify()
    assert report.ok, str(report)


def carry(world: World, number: int, note: Notes) -> None:
    """Run a keyed pipe to another table for ever."""
    lines = Notes(world.ledger(number))

    def target() -> Table:
        return tablefmt.open(world.target, storage_options=world.options)

    while True:
        table = opened(world, note, None)
        if attempt(lambda table=table: piped(world, table), note, target) is not None:
            lines("piped")
        time.sleep(0.05)


def piped(world: World, table: Table) -> Any:
    """Carry what is new to the target, without the columns that come and go."""

    def lasting(rows: pa.Table) -> pa.Table:
        return rows.drop_columns([name for name in rows.column_names if name.startswith("e")])

    run = tablefmt.pipe(table, transform=lasting)
    return run.into(world.target, keys=["w", "k"], storage_options=world.options)
