"""One schedule of writers, an expiry and a vacuum on a simulated store with wrong clocks.

Every request is one move. Between two moves, seconds or weeks may pass. Clocks of writers may jump
either way, or stop while their machine is paused. Decisions by age use the functions of the package
itself. Single rules can be switched off, to show that the model then fails.

Spec: RET-4, RET-6, RET-9, CMT-1.
"""

from __future__ import annotations

import random
from collections.abc import Generator
from dataclasses import dataclass, field
from typing import Any

from tablefmt.commit.commit_protocol import (
    Committed,
    Found,
    Get,
    Judged,
    Missing,
    Next,
    Put,
    start,
    step,
)
from tablefmt.maintenance.retention import before_us, last_old
from tablefmt.snapshot.head_freshness import ENTRY_SECONDS_MIN
from tablefmt.store.clocks import Moment, seconds_between, was_set_back
from tablefmt.store.object_store import Exists, Written

SECOND, HOUR, DAY = 1_000_000, 3_600_000_000, 86_400_000_000
TRANSACTION_SECONDS = 3600.0
LOG_SECONDS = 2 * TRANSACTION_SECONDS
"""The shortest retention of entries that needs no override."""
PAUSES = (SECOND, 20 * 60 * SECOND, 40 * 60 * SECOND, 3 * HOUR, 8 * DAY, 40 * DAY)
_WEIGHTS = (120, 2, 2, 2, 1, 1)
JUMPS = (-40 * DAY, -8 * DAY, 8 * DAY, 40 * DAY)


@dataclass(frozen=True, slots=True)
class Rules:
    """Rules that the actors follow. Each can be switched off or changed."""

    witness: bool = True
    """Ages of entries must be confirmed by the store's times (RET-4)."""
    looks: bool = True
    """A writer with an old head reads the head again, before and after a put (RET-9)."""
    all_clocks: bool = True
    """Elapsed time is the longest of all clocks, not only that of the machine's steady clock."""
    store_now: bool = True
    """Left-over files are aged by the store's clock, not by the vacuum's machine."""
    clock_first: bool = True
    """A vacuum reads the clock before the log, not after it."""
    entry_seconds: float = LOG_SECONDS
    """Retention of entries, in seconds."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of the log: its writer, its predecessor, and its times by writer and store."""

    name: str
    previous: str
    stamp_us: int
    written_us: int
    log_start: int = 0


class Clocks:
    """Clocks of one machine."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.elapsed_lost = 0
        """Time that the steady clock lost while it stood still, in µs."""
        self.wall_off = 0
        """Error of the wall clock, in µs."""
        self.told_lost = 0
        """Time by which the known store time is behind until the next answer, in µs."""
        self.pauses = world.random.random() < 0.5
        """True if the steady clock may stop, False if the wall clock may be wrong. Without a store
        time, only one of them may fail.
        """

    def now(self) -> Moment:
        """Return the current readings.

        The store's time is that of its last answer, plus the time since. If the steady clock stood
        still, it is behind until the next answer.
        """
        world = self.world
        elapsed = (world.now_us - self.elapsed_lost) / SECOND
        told = world.now_us - self.told_lost if world.tells_time else None
        return Moment(elapsed, world.now_us + self.wall_off, told)

    def answered(self) -> None:
        """Take the store's time from an answer."""
        self.told_lost = 0


@dataclass(slots=True)
class World:
    """The store, and the results of all actors."""

    random: random.Random
    rules: Rules
    tells_time: bool
    now_us: int = 1_000 * DAY
    log: dict[int, Entry] = field(default_factory=dict)
    true: list[str] = field(default_factory=list)
    """By version, the writer of the first entry put there on the newest one."""
    acknowledged: dict[str, int] = field(default_factory=dict)
    rejected: set[str] = field(default_factory=set)
    files: dict[str, int] = field(default_factory=dict)
    """Data files, with the time each was written."""
    excused: set[str] = field(default_factory=set)
    """Writers whose files are not checked. Either their put took longer than a transaction may, and
    stores and clients abort earlier. Or every clock misled them, and a real store rejects requests
    with a date that is so far off.
    """

    def tail(self, version: int) -> list[tuple[int, Entry]]:
        """Return the entries from a version on, up to the first missing one."""
        found = []
        while version in self.log:
            found.append((version, self.log[version]))
            version += 1
        return found

    def put(self, version: int, entry: Entry) -> object:
        """Create an entry unless there is one."""
        if version in self.log:
            return Exists()
        self.log[version] = entry
        if version == len(self.true):
            self.true.append(entry.name)
        return Written()


Actor = Generator[None, None, None]
"""Yields before each request."""


class Handle:
    """One writer's knowledge of the log."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.clocks = Clocks(world)
        self.open()

    def open(self) -> None:
        """Read the whole log."""
        self.heard = self.clocks.now()
        self.version = max(self.world.log)
        self.head = self.world.log[self.version]
        self.clocks.answered()

    def seconds_since(self, moment: Moment) -> float:
        """Return the longest time since a moment, in seconds."""
        now = self.clocks.now()
        if not self.world.rules.all_clocks:
            return now.elapsed - moment.elapsed
        return max(seconds_between(moment, now), was_set_back(moment, now))

    def is_long_since(self, moment: Moment) -> bool:
        """Return whether the head may be below the retention horizon."""
        return self.world.rules.looks and self.seconds_since(moment) > ENTRY_SECONDS_MIN / 2

    def append(self, name: str) -> Actor:
        """Write a file, and commit it."""
        world, began = self.world, self.clocks.now()
        yield
        world.files[name] = world.now_us
        self.clocks.answered()
        if self.is_long_since(self.heard):
            yield
            if not self.refreshed():
                # The known state has expired, so start again with a new handle.
                self.end(name, None)
                self.open()
                return
        yield from self.commit(name, began)

    def refreshed(self) -> bool:
        """Read new entries. Return False if entries in between are missing."""
        asked = self.clocks.now()
        fresh = self.world.tail(self.version + 1)
        last = self.version + len(fresh)
        if max(self.world.log) > last + 1:
            return False
        for version, entry in fresh:
            self.version, self.head = version, entry
        self.heard = asked
        self.clocks.answered()
        return True

    def commit(self, name: str, began: Moment, log_start: int = 0) -> Actor:
        """Commit an entry by the protocol."""
        world = self.world
        following: Next
        attempt, following = start(name, self.version + 1)
        heard, entry, began_us = self.heard, None, world.files.get(name, world.now_us)
        while isinstance(following, Put | Get):
            late = seconds_between(began, self.clocks.now()) > TRANSACTION_SECONDS
            if world.now_us - began_us > TRANSACTION_SECONDS * SECOND:
                world.excused.add(name)
            if late or (self.is_long_since(heard) and not attempt.maybe_sent):
                self.end(name, None)
                return
            asked, sent_us = self.clocks.now(), world.now_us
            yield
            if world.now_us - sent_us > TRANSACTION_SECONDS * SECOND:
                world.excused.add(name)
            reply: Any
            if isinstance(following, Put):
                stamp = max(asked.wall_us, asked.store_us or 0, self.head.stamp_us + 1)
                entry = Entry(name, self.head.name, stamp, world.now_us, log_start)
                reply = world.put(following.version, entry)
            else:
                found = world.tail(following.version)
                reply = Found(tuple(Judged(v, e.name) for v, e in found)) if found else Missing()
                if found and not self.is_long_since(heard):
                    heard = asked
                for version, concurrent in found:
                    self.version, self.head = version, concurrent
            self.clocks.answered()
            attempt, following = step(attempt, reply)
        assert isinstance(following, Committed), following
        assert entry is not None
        if self.is_long_since(heard):
            yield
            if not self.is_in_log(following.version, name):
                self.end(name, None)
                return
        self.version, self.head, self.heard = following.version, entry, asked
        self.end(name, following.version)

    def is_in_log(self, version: int, name: str) -> bool:
        """Check the entries above an entry (RET-9)."""
        log = self.world.log
        if max(log) == version:
            return True
        above = log.get(version + 1)
        if above is not None and above.previous == name:
            return True
        log.pop(version, None)
        return False

    def end(self, name: str, version: int | None) -> None:
        """Record the outcome. A rejected writer removes its file."""
        if version is None:
            self.world.rejected.add(name)
            self.world.files.pop(name, None)
        else:
            self.world.acknowledged[name] = version


def expire(world: World, name: str) -> Actor:
    """Expire old entries: a listing, a retention horizon, and then one removal after another."""
    handle = Handle(world)
    began = handle.clocks.now()
    yield
    handle.open()
    listed, now_us = dict(world.log), world.now_us
    cutoff_us = before_us(max(now_us, handle.head.stamp_us), world.rules.entry_seconds)
    kept = max((v for v, e in listed.items() if e.stamp_us <= cutoff_us), default=0)
    whole = max(listed)
    while whole - 1 in listed:
        whole -= 1
    below = max(whole, 1) - 1
    begin = kept
    if world.rules.witness:
        times = ((v, e.written_us) for v, e in sorted(listed.items()))
        begin = last_old(
            times, below, max(kept, below), before_us(now_us, world.rules.entry_seconds)
        )
    if begin <= max(below, 1):
        return
    yield from handle.commit(name, began, begin)
    if name not in world.acknowledged:
        return
    for version in range(1, begin):
        yield
        world.log.pop(version, None)


def vacuum(world: World) -> Actor:
    """Remove files that no entry names, once they are old."""
    clocks = Clocks(world)
    clocks.wall_off = world.random.choice((0, *JUMPS))
    first = world.rules.clock_first
    now_us = world.now_us if world.rules.store_now else clocks.now().wall_us
    yield
    listed = dict(world.files)
    yield
    named = {entry.name for entry in world.log.values()} | {*world.true}
    yield
    now_us = now_us if first else world.now_us
    cutoff_us = before_us(now_us, 2 * TRANSACTION_SECONDS)
    for name, written_us in listed.items():
        if name not in named and written_us <= cutoff_us:
            yield
            world.files.pop(name, None)


def run(seed: int, rules: Rules, moves: int = 60) -> World:
    """Play one schedule, and check it. Raises AssertionError."""
    chance = random.Random(seed)
    world = World(chance, rules, tells_time=chance.random() < 0.5)
    for version in range(3):
        stamp_us = world.now_us + version
        below = world.true[-1] if world.true else ""
        world.put(version, Entry(f"first-{version}", below, stamp_us, world.now_us))
        world.files[f"first-{version}"] = world.now_us
    handles = [Handle(world) for _ in range(3)]
    busy: dict[str, Actor] = {}
    if chance.random() < 0.2:
        _stall(world, handles, busy)
    for number in range(moves):
        _disturb(world, handles)
        idle = [i for i in range(len(handles)) if f"writer {i}" not in busy]
        free = [*idle, *(kind for kind in ("expiry", "vacuum") if kind not in busy)]
        who = chance.choice([*free, *busy, *busy])
        if isinstance(who, int):
            busy[f"writer {who}"] = handles[who].append(f"{who}-{number}")
        elif who not in busy:
            busy[who] = expire(world, f"expiry-{number}") if who == "expiry" else vacuum(world)
        else:
            _move(busy, who)
    while busy:
        _move(busy, chance.choice([*busy]))
    _check(world)
    return world


def _stall(world: World, handles: list[Handle], busy: dict[str, Actor]) -> None:
    """Stop two writers before a put until an expiry has removed the version that they want."""
    for i in (0, 1):
        busy[f"writer {i}"] = handles[i].append(f"{i}-stalled")
        # The second request is the put.
        _move(busy, f"writer {i}")
        _move(busy, f"writer {i}")

    def whole(actor: Actor) -> None:
        busy["other"] = actor
        while "other" in busy:
            _move(busy, "other")

    for n in range(3):
        whole(handles[2].append(f"2-before-{n}"))
    world.now_us += 40 * DAY
    for handle in handles[:2]:
        # The machine was paused. If the store reports no time, its wall clock stays right.
        handle.clocks.pauses = True
        handle.clocks.elapsed_lost += 40 * DAY
        handle.clocks.told_lost += 40 * DAY
        handle.clocks.wall_off -= 40 * DAY if world.tells_time else 0
    whole(handles[2].append("2-after"))
    whole(expire(world, "expiry-stalled"))


def _move(busy: dict[str, Actor], who: str) -> None:
    try:
        next(busy[who])
    except StopIteration:
        del busy[who]


def _disturb(world: World, handles: list[Handle]) -> None:
    """Let time pass, and disturb clocks of writers: at least one of three keeps working."""
    chance = world.random
    pause = chance.choices(PAUSES, _WEIGHTS)[0]
    world.now_us += pause
    for handle in handles:
        clocks = handle.clocks
        fault = chance.randrange(10)
        if fault == 0 and (world.tells_time or clocks.pauses):
            clocks.elapsed_lost += pause
            clocks.told_lost += pause
            if world.tells_time:
                # A machine that is paused as a whole can learn the time from the store only.
                clocks.wall_off -= pause
        elif fault == 1 and (world.tells_time or not clocks.pauses):
            clocks.wall_off = chance.choice((0, *JUMPS))


def _check(world: World) -> None:
    for name, version in world.acknowledged.items():
        place = world.true[version] if version < len(world.true) else None
        assert place == name, f"RET-9: {name} was acknowledged at {version}, which is {place}'s"
    for name in world.rejected:
        assert name not in world.true, f"CMT-1: {name} was rejected, and is in the log"
    start_at = max(entry.log_start for entry in world.log.values())
    for version in range(start_at, len(world.true)):
        entry = world.log.get(version)
        assert entry is not None, f"RET-9: entry {version} is kept, but missing"
        assert entry.name == world.true[version], f"LOG-1: entry {version} is another's"
    for name in world.true:
        is_data = not name.startswith("expiry") and name not in world.excused
        assert not is_data or name in world.files, f"RET-6: the file of {name} is missing"
