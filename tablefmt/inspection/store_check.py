"""Check of a store before tables are written to it: measure, judge, and remove all traces.

The check writes below `.tablefmt-check-<nonce>/` in the root. No reader of any format looks there.
Spec: STO-28 (spec/store.md).
"""

from __future__ import annotations

import secrets
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any

import pyarrow as pa

from tablefmt.data.arrow_results import ArrowReport
from tablefmt.errors import StoreError, TablefmtError
from tablefmt.inspection.store_faults import CHECKS, FAULTS, WORDS, CheckName, Safety, verdict_of
from tablefmt.inspection.store_races import Races, Result, name_of, races
from tablefmt.printable import number_of, printable_lines
from tablefmt.store.local_folders import root_restored
from tablefmt.store.location import Uri, open_store
from tablefmt.store.object_store import (
    Exists,
    KeyNotFoundError,
    NoAnswer,
    Refused,
    Store,
    StoredObject,
)

PROCESSES = 3
CONNECTIONS = 3
"""Connections of each process."""
ROUNDS = 8
"""Races for small objects, and as many for large ones. A disk has a fourth of them."""
SIZES = (100, 100_000)
"""Bytes of small and large objects. A server may treat a body beyond its first read differently."""
UPLOAD_BYTES = 17 << 20
"""Bytes of the upload that is aborted: more than one part on every store."""
SKEW_SECONDS = 60.0
"""Greatest difference of clocks without a fault."""
SLOW_SECONDS = 1.0
"""Median time of a create from which a store is slow."""
LATER_SECONDS = (0.0, 0.1, 0.4, 1.5)
"""Times at which an object that is not visible is looked for again, to say how late it is."""

_SCHEMA = pa.schema(
    [
        ("check", pa.string()),
        ("status", pa.string()),
        ("fault", pa.string()),
        ("finding", pa.string()),
        ("advice", pa.string()),
    ]
)


@dataclass(frozen=True, slots=True)
class StoreFinding:
    """Result of one check."""

    check: CheckName
    status: str
    """ok, fault or skipped."""
    fault: str = ""
    """Name of the fault (FAULTS); "" without one."""
    finding: str = ""
    """Observation, with numbers."""
    advice: str = ""
    """Change that would mend it."""


@dataclass(frozen=True, slots=True)
class StoreReport(ArrowReport):
    """Verdict about a store. `print` explains it; `to_arrow` has one row for each finding."""

    uri: str
    verdict: Safety
    """safe, limited, unsafe or refused."""
    findings: tuple[StoreFinding, ...]
    processes: int
    """Processes that raced; 1 if threads of this process did."""
    connections: int
    """Concurrent creators of each key."""
    requests: int
    seconds: float
    numbers: Mapping[str, float] = field(default_factory=dict)
    """Measurements by name; names end in their unit."""
    left: tuple[str, ...] = ()
    """Keys of objects that could not be removed."""

    @property
    def ok(self) -> bool:
        """True if the verdict is safe."""
        return self.verdict == "safe"

    def record(self) -> dict[str, Any]:
        """Return the document that `tablefmt check-store --json` prints."""
        return {**asdict(self), "ok": self.ok}

    def to_arrow(self) -> pa.Table:
        """Return the findings: check, status, fault, finding, advice."""
        return pa.Table.from_pylist([asdict(one) for one in self.findings], _SCHEMA)

    def __str__(self) -> str:
        lines = [f"{self.uri}: {self.verdict}: {WORDS[self.verdict]}"]
        for one in self.findings:
            name = f"{one.status} ({one.fault})" if one.fault else one.status
            lines.append(f"  {one.check}: {name}: {one.finding or CHECKS[one.check]}")
            if one.fault:
                lines.append(f"    so {FAULTS[one.fault].meaning}. {one.advice}")
        lines.append(
            f"{number_of(self.requests, 'request')} in {self.seconds:.1f} s, "
            f"{number_of(self.connections, 'concurrent creator')} in "
            f"{number_of(self.processes, 'process', 'processes')}"
        )
        if self.left:
            lines.append(f"not removed: {', '.join(self.left)}")
        return printable_lines(lines)


def check_store(
    uri: Uri,
    *,
    storage_options: Mapping[str, Any] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> StoreReport:
    """Check whether tables are safe at an address, and remove all traces of the check.

    Several processes race for the same keys. The check also reads, lists, deletes and interrupts
    uploads, and compares clocks. A table at the address is neither read nor changed.

    Args:
        uri: the address of a table, or of a folder for tables.
        storage_options: as for `tablefmt.open`.
        progress: called with the checks done, and their total.

    Returns:
        A report. Faults of the store and missing rights are in it, not raised.

    Raises:
        StoreError: the address or an option is invalid.
        UnsupportedFeatureError: the scheme is not supported.
    """
    return check_opened(open_store(uri, storage_options), progress=progress)


def check_opened(
    store: Store,
    *,
    processes: int = PROCESSES,
    connections: int = CONNECTIONS,
    rounds: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> StoreReport:
    """Check an open store. `check_store` has the details.

    Args:
        store: the root.
        processes: number of processes that race.
        connections: creators of each process.
        rounds: races for each length; by default ROUNDS, on a disk fewer.
        progress: as `check_store`.
    """
    began, before = time.monotonic(), sum(store.tally.sums().values())
    if rounds is None:
        rounds = max(1, ROUNDS // 4) if store.traits.on_disk else ROUNDS
    check = _Check(store, f".tablefmt-check-{secrets.token_hex(16)}", rounds, progress)
    creators, raced, others = 0, 0, 0
    with root_restored(store):
        try:
            if check.step("write", check.write):
                with races(store, processes, connections) as competition:
                    raced = len(competition.racers)
                    creators = competition.connections * max(raced, 1)
                    check.all(competition)
                    others = competition.requests
        finally:
            left = check.clean()
    check.skip_rest()
    return StoreReport(
        uri=store.uri,
        verdict=verdict_of(one.fault for one in check.findings if one.fault),
        findings=tuple(check.findings),
        processes=max(raced, 1),
        connections=creators,
        requests=sum(store.tally.sums().values()) - before + others,
        seconds=time.monotonic() - began,
        numbers=check.numbers,
        left=tuple(left),
    )


class _Fault(Exception):
    """A fault, with the observation that shows it."""

    def __init__(self, name: str, finding: str) -> None:
        super().__init__(finding)
        self.name = name


def _refusal(name: str, said: str, error: StoreError) -> _Fault:
    """Return the fault of missing rights; no answer if the same request may succeed later."""
    return _Fault("no-answer" if error.retryable else name, f"{said}: {error}")


class _Check:
    """The checks of one store, and their findings."""

    def __init__(
        self,
        store: Store,
        folder: str,
        rounds: int,
        progress: Callable[[int, int], None] | None,
    ) -> None:
        self.store = store
        self.folder = folder
        self.findings: list[StoreFinding] = []
        self.numbers: dict[str, float] = {}
        self._rounds = rounds
        self._progress = progress
        self._keys: list[str] = []
        self._results: list[Result] = []

    def all(self, competition: Races) -> None:
        """Run the checks after the first, in order."""
        works: dict[CheckName, Callable[[], str]] = {
            "create": self.create,
            "race": lambda: self.race(competition),
            "read": self.read,
            "list": self.list,
            "ranges": self.ranges,
            "delete": self.delete,
            "upload": lambda: self.upload(competition),
            "clock": self.clock,
            "speed": self.speed,
        }
        for name, work in works.items():
            self.step(name, work)

    def step(self, name: CheckName, work: Callable[[], str]) -> bool:
        """Run one check and note its finding. Return whether it found no fault."""
        try:
            finding = StoreFinding(name, "ok", finding=work())
        except _Fault as fault:
            advice = FAULTS[fault.name].advice
            finding = StoreFinding(name, "fault", fault.name, str(fault), advice)
        except TablefmtError as error:
            if any(one.fault.startswith("no-") for one in self.findings):
                finding = StoreFinding(name, "skipped", finding=f"not checked: {error}")
            else:
                advice = FAULTS["no-answer"].advice
                finding = StoreFinding(name, "fault", "no-answer", str(error), advice)
        self.findings.append(finding)
        if self._progress is not None:
            self._progress(len(self.findings), len(CHECKS))
        return not finding.fault

    def skip_rest(self) -> None:
        """Note the checks that did not run."""
        done = {one.check for one in self.findings}
        self.findings += [
            StoreFinding(name, "skipped", finding="not checked, because no object can be written")
            for name in CHECKS
            if name not in done
        ]

    def clean(self) -> list[str]:
        """Remove all objects of the check. Return the keys of those that stay."""
        keys = set(self._keys)
        try:
            # A create without an answer may arrive late.
            keys.update(one.key for one in self.store.list_after(f"{self.folder}/"))
        except TablefmtError:
            pass
        try:
            kept = sorted(self.store.delete_many(sorted(keys)))
        except TablefmtError:
            kept = [key for key in sorted(keys) if self._stays(key)]
        self.store.remove_empty(self.folder)
        return [key for key in kept if self._exists(key)]

    def _exists(self, key: str) -> bool:
        try:
            self.store.size(key)
        except KeyNotFoundError:
            return False
        except TablefmtError:
            return True
        return True

    def _stays(self, key: str) -> bool:
        try:
            self.store.delete(key)
        except TablefmtError:
            return True
        return False

    def _new(self, name: str) -> str:
        key = f"{self.folder}/{name}"
        self._keys.append(key)
        return key

    def _made(self, name: str, body: bytes) -> str:
        """Create an object, and return its key."""
        key = self._new(name)
        for pause in (*LATER_SECONDS, None):
            reply = self.store.put_if_absent(key, body)
            if isinstance(reply, Refused):
                name = reply.cause or "no-rights-to-write"
                raise _Fault(name, f"the store refuses to create: {reply.reason}")
            if not isinstance(reply, NoAnswer):
                return key
            if pause is None:
                raise _Fault("no-answer", f"no answer to {len(LATER_SECONDS) + 1} creates")
            time.sleep(pause)
        raise AssertionError("unreachable")

    def _listed(self, key: str) -> StoredObject | None:
        found = (one for one in self.store.list_after(f"{self.folder}/") if one.key == key)
        return next(found, None)

    def _is_listed(self, key: str) -> bool:
        return self._listed(key) is not None

    def _is_body(self, key: str, body: bytes) -> bool:
        return self.store.get_many([key]) == [body]

    def _delay(self, is_there: Callable[[], bool]) -> str:
        """Return how late a condition came true, in words."""
        began = time.monotonic()
        for pause in LATER_SECONDS:
            time.sleep(pause)
            if is_there():
                return f"the answer was right {time.monotonic() - began:.1f} s later"
        return f"the answer was still wrong {time.monotonic() - began:.1f} s later"

    def write(self) -> str:
        """Check the rights to create and to read."""
        key = self._made("write", b"written")
        try:
            body = self.store.get(key)
        except KeyNotFoundError:
            body = b""  # the check of reads tells how late it is
        except StoreError as error:
            raise _refusal("no-rights-to-read", "the store refuses to read", error) from None
        if body not in (b"written", b""):
            raise _Fault("stale-read", "the object just written has other bytes")
        return "an object was created and read"

    def create(self) -> str:
        """Create one object twice, one after the other."""
        key = self._made("create", b"first")
        reply = self.store.put_if_absent(key, b"second")
        if isinstance(reply, NoAnswer | Refused):
            raise _Fault("no-answer", f"no answer to a second create: {reply.reason}")
        body = self.store.get_many([key])[0]
        if not isinstance(reply, Exists) or body == b"second":
            said = "refused" if isinstance(reply, Exists) else "confirmed"
            kept = "replaced" if body == b"second" else "kept"
            raise _Fault(
                "no-conditional-put",
                f"a second create of an existing object was {said}, and the object was {kept}",
            )
        return "a second create of an existing object was refused"

    def race(self, competition: Races) -> str:
        """Let all creators race for keys, then compare their answers with the objects."""
        decided = 0
        for number in range(self._rounds):
            for size in SIZES:
                key = self._new(f"race-{number}-{size}")
                results = competition.run(key, size)
                self._results += results
                body = self.store.get_many([key])[0]
                fault = race_fault(results, None if body is None else name_of(body))
                if fault is not None:
                    raise _Fault(fault[0], f"{fault[1]} (round {number + 1}, {size} bytes)")
                decided += any(one.reply == "written" for one in results)
        self.numbers["creates"] = len(self._results)
        return f"{decided} races, {len(self._results)} creates: one of each race was confirmed"

    def read(self) -> str:
        """Compare the reads of all creators, and read an object right after each replacement."""
        seen = [one for one in self._results if one.found]
        absent = sum(one.found == "absent" for one in seen)
        if absent:
            raise _Fault(
                "stale-read", f"{absent} of {len(seen)} reads did not find an object that exists"
            )
        key = self._new("replaced")
        for number in range(5):
            body = f"{number}".encode()
            self.store.put(key, body)
            if not self._is_body(key, body):
                late = self._delay(partial(self._is_body, key, body))
                raise _Fault("stale-read", f"an object was read with its old content; {late}")
        return f"{len(seen) + 5} reads found the newest object"

    def list(self) -> str:
        """List right after creates and deletes, in order and from a key on."""
        names = ("list-1", "list-10", "list-1a", "list-2", "list-a/b", "list-é")
        made: list[str] = []
        for name in names:
            key = self._made(name, b"x")
            made.append(key)
            try:
                there = self._is_listed(key)
            except StoreError as error:
                raise _refusal("no-rights-to-list", "the store refuses to list", error) from None
            if not there:
                late = self._delay(partial(self._is_listed, key))
                raise _Fault("late-listing", f"a new object was not listed; {late}")
        missed = sum(one.listed is False for one in self._results)
        if missed:
            raise _Fault(
                "late-listing",
                f"{missed} of {len(self._results)} listings lacked an object that exists",
            )
        ordered = sorted(made, key=lambda key: key.encode())
        prefix = f"{self.folder}/list-"
        if [one.key for one in self.store.list_after(prefix)] != ordered:
            raise _Fault("wrong-listing", "the keys of a listing are not in the order of bytes")
        if [one.key for one in self.store.list_after(prefix, ordered[1])] != ordered[2:]:
            raise _Fault("wrong-listing", "a listing from a key on has other keys")
        if not self._stays(made[0]) and self._listed(made[0]) is not None:
            late = self._delay(lambda: self._listed(made[0]) is None)
            raise _Fault("deleted-still-listed", f"a deleted object was listed; {late}")
        count = len(names) + sum(one.listed is not None for one in self._results)
        return f"{count} listings had the newest object"

    def ranges(self) -> str:
        """Read parts of an object, and beyond its end."""
        body = bytes(range(256)) * 400
        key = self._made("ranges", body)
        size = len(body)
        asked = [(0, 1), (1, 100), (size - 10, 10), (size - 10, 500), (50_000, 40_000), (size, 5)]
        parts = self.store.get_ranges([(key, start, length) for start, length in asked])
        for (start, length), part in zip(asked, parts, strict=True):
            if part != body[start : start + length]:
                got = "nothing" if part is None else number_of(len(part), "byte")
                raise _Fault(
                    "wrong-range", f"a request for {length} bytes at {start} of {size} got {got}"
                )
        if self.store.size(key) != size:
            raise _Fault("wrong-range", f"the store tells another length than {size}")
        return f"{len(asked)} ranges were right"

    def delete(self) -> str:
        """Delete one object, several, and absent ones."""
        keys = [self._made(f"delete-{number}", b"x") for number in range(3)]
        try:
            self.store.delete(keys[0])
        except StoreError as error:
            said = "the store refuses to delete"
            raise _refusal("no-rights-to-delete", said, error) from None
        try:
            self.store.delete(keys[0])
            failed = dict(self.store.delete_many([*keys, f"{self.folder}/absent"]))
        except StoreError as error:
            raise _Fault(
                "wrong-delete", f"the deletion of absent objects failed: {error}"
            ) from None
        if failed:
            reasons = ", ".join(sorted(set(failed.values())))
            raise _Fault("wrong-delete", f"{len(failed)} of {len(keys) + 1} deletes: {reasons}")
        if self.store.get_many(keys) != [None] * len(keys):
            late = self._delay(lambda: self.store.get_many(keys) == [None] * len(keys))
            raise _Fault("deleted-still-read", f"a deleted object was read; {late}")
        return f"{len(keys)} objects were deleted; deleting absent ones was no error"

    def upload(self, competition: Races) -> str:
        """Abort one upload, kill the process of another, and finish a third."""
        key = self._new("aborted")
        try:
            with self.store.open_output(key) as stream:
                for _ in range(UPLOAD_BYTES >> 20):
                    stream.write(b"x" * (1 << 20))
                if self.store.get_many([key]) != [None]:
                    raise _Fault("partial-upload", "an object was visible before its upload ended")
                raise InterruptedError
        except InterruptedError:
            pass
        except StoreError as error:
            raise _Fault("failed-upload", f"{UPLOAD_BYTES} bytes were not sent: {error}") from None
        killed = self._new("killed")
        was_killed = competition.interrupt(killed, 1 << 20)
        for each in (key, killed):
            if self.store.get_many([each]) != [None] or self._listed(each) is not None:
                raise _Fault("partial-upload", "an interrupted upload left an object")
        whole = self._new("whole")
        with self.store.open_output(whole) as stream:
            stream.write(b"x" * SIZES[1])
        if self.store.size(whole) != SIZES[1]:
            raise _Fault("partial-upload", "a finished upload has another length")
        also = " and one of a killed process" if was_killed else ""
        return f"an aborted upload of {UPLOAD_BYTES} bytes{also} left nothing"

    def clock(self) -> str:
        """Compare the store's clock, and the time of a new object, with this machine's clock."""
        key = self._made("clock", b"x")
        told = self.store.server_time_us()
        skews = {"the store's clock": None if told is None else told / 1e6 - time.time()}
        one = self._listed(key)
        if one is not None:
            skews["the time of a new object"] = one.modified_us / 1e6 - time.time()
        known = {name: skew for name, skew in skews.items() if skew is not None}
        worst = max(known, key=lambda name: abs(known[name]), default="")
        if not worst:
            return "the store tells no time"
        self.numbers["clock_skew_seconds"] = round(known[worst], 3)
        finding = f"{worst} is {abs(known[worst]):.1f} s " + (
            "ahead of" if known[worst] > 0 else "behind"
        )
        if abs(known[worst]) > SKEW_SECONDS:
            raise _Fault("skewed-clock", f"{finding} this machine's clock")
        return f"{finding} this machine's clock"

    def speed(self) -> str:
        """Measure creates, reads and listings, one after another."""
        creates, reads, lists = [], [], []
        for number in range(10):
            key, began = self._new(f"speed-{number}"), time.perf_counter()
            self.store.put_if_absent(key, b"x" * SIZES[0])
            created = time.perf_counter()
            self.store.get_many([key])
            read = time.perf_counter()
            self._listed(key)
            creates.append(created - began)
            reads.append(read - created)
            lists.append(time.perf_counter() - read)
        for name, times in (("create", creates), ("read", reads), ("list", lists)):
            self.numbers[f"{name}_median_seconds"] = round(statistics.median(times), 6)
            self.numbers[f"{name}_max_seconds"] = round(max(times), 6)
        raced = [one.seconds for one in self._results]
        if raced:
            self.numbers["race_create_median_seconds"] = round(statistics.median(raced), 6)
        words = ", ".join(
            f"{name} {1000 * statistics.median(times):.1f} ms"
            for name, times in (("create", creates), ("read", reads), ("list", lists))
        )
        if statistics.median(creates) > SLOW_SECONDS:
            raise _Fault("slow-creates", f"medians: {words}")
        return f"medians: {words}"


def race_fault(results: Sequence[Result], kept: str | None) -> tuple[str, str] | None:
    """Return the fault that one race shows, and the observation; None without a fault. Pure.

    Args:
        results: the observations of all creators.
        kept: the creator whose body the object has in the end; None: the object is absent.
    """
    confirmed = [one.body for one in results if one.reply == "written"]
    count = len(results)
    if len(confirmed) > 1:
        return "confirmed-twice", f"{len(confirmed)} of {count} concurrent creators were confirmed"
    if confirmed and kept is not None and kept != confirmed[0]:
        return "replaced-body", f"1 of {count} creators was confirmed, but another object was kept"
    decided = [one for one in results if one.reply in ("written", "exists")]
    if decided and kept is None:
        return "stale-read", "an object that exists was not found after the race"
    others = {one.found for one in decided if one.found not in ("", "absent", kept)}
    if others:
        return "replaced-body", f"{len(others) + 1} contents of one object were read in one race"
    refused = [one.reason for one in results if one.reply == "refused"]
    if refused and len(refused) == count:
        return "no-rights-to-write", f"all {count} creates were refused: {refused[0]}"
    return None
