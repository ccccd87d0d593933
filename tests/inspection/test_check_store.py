"""The check of a store: known-bad stores get their names, sound ones pass, nothing is left."""

from __future__ import annotations

import itertools
import json
import os
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

import jsonschema
import pytest

import tablefmt
from tablefmt.errors import StoreError
from tablefmt.inspection import store_check
from tablefmt.inspection.store_check import check_opened, race_fault
from tablefmt.inspection.store_faults import CHECKS, FAULTS, verdict_of
from tablefmt.inspection.store_races import Result
from tablefmt.store.local_store import LocalStore
from tablefmt.store.location import open_store
from tablefmt.store.memory_store import MemoryStore
from tablefmt.store.object_store import (
    Cause,
    Exists,
    NoAnswer,
    PutReply,
    Range,
    Refused,
    Store,
    StoredObject,
)
from tablefmt.store.store_wrappers import ForwardingStore
from tests.careless_stores import Overwriting, OverwritingQuietly
from tests.cli.conftest import run
from tests.inspection.weak_store import InTurnOnly
from tests.places import ROOT
from tests.s3server import S3Server
from tests.store.scripted_server import Answer, Request, ScriptedServer, s3_error

SCHEMA = json.loads((ROOT / "spec/schemas/check-store.schema.json").read_text("utf-8"))


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_check, "LATER_SECONDS", (0.0, 0.01))
    monkeypatch.setattr(store_check, "SLOW_SECONDS", 0.5)


def refused(verb: str) -> StoreError:
    return StoreError(f"cannot {verb}: access is denied")


class LastOneStays(ForwardingStore):
    """Confirms the first creator of a race, and keeps the body of the last."""

    def put_if_absent(self, key: str, body: bytes) -> PutReply:
        reply = self.inner.put_if_absent(key, body)
        if "race-" in key and isinstance(reply, Exists):
            self.inner.put(key, body)
        return reply


class ListsLate(ForwardingStore):
    """A listing lacks objects for a time."""

    def __init__(self, inner: Store, seconds: float = 60) -> None:
        super().__init__(inner)
        self.seconds = seconds

    def list_after(self, prefix: str, after: str | None = None) -> Iterator[StoredObject]:
        until = self.clock_us() - int(self.seconds * 1e6)
        return (one for one in self.inner.list_after(prefix, after) if one.modified_us < until)


class ListsDeleted(ForwardingStore):
    """A listing still has objects that were deleted."""

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self.deleted: list[StoredObject] = []

    def delete(self, key: str) -> None:
        self.deleted += self.inner.list_after(key)
        self.inner.delete(key)

    def list_after(self, prefix: str, after: str | None = None) -> Iterator[StoredObject]:
        found = [*self.inner.list_after(prefix, after), *self.deleted]
        return iter(sorted(found, key=lambda one: one.key.encode()))


class ListsBackwards(ForwardingStore):
    def list_after(self, prefix: str, after: str | None = None) -> Iterator[StoredObject]:
        return iter(list(self.inner.list_after(prefix, after))[::-1])


class ListsFromTheStart(ForwardingStore):
    def list_after(self, prefix: str, after: str | None = None) -> Iterator[StoredObject]:
        return self.inner.list_after(prefix)


class ReadsOld(ForwardingStore):
    """Keeps the first body of each key that was read."""

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self.cache: dict[str, bytes] = {}

    def get_many(self, keys: Sequence[str]) -> list[bytes | None]:
        bodies = self.inner.get_many(keys)
        found = zip(keys, bodies, strict=True)
        return [None if b is None else self.cache.setdefault(k, b) for k, b in found]


class WholeForRange(ForwardingStore):
    """Ignores ranges."""

    def get_ranges(self, ranges: Sequence[Range]) -> list[bytes | None]:
        return self.inner.get_many([key for key, _, _ in ranges])


class OtherLength(ForwardingStore):
    def size(self, key: str) -> int:
        return self.inner.size(key) + 1


class ReadsDeleted(ForwardingStore):
    """Returns deleted objects for a time."""

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self.deleted: dict[str, bytes | None] = {}

    def delete_many(self, keys: Sequence[str]) -> Mapping[str, str]:
        self.deleted.update(zip(keys, self.inner.get_many(keys), strict=True))
        return self.inner.delete_many(keys)

    def get_many(self, keys: Sequence[str]) -> list[bytes | None]:
        bodies = self.inner.get_many(keys)
        return [self.deleted.get(k) if b is None else b for k, b in zip(keys, bodies, strict=True)]


class RefusesAbsent(ForwardingStore):
    """Fails to delete absent objects."""

    def delete_many(self, keys: Sequence[str]) -> Mapping[str, str]:
        there = {key for key, b in zip(keys, self.inner.get_many(keys), strict=True) if b}
        self.inner.delete_many(sorted(there))
        return {key: "absent" for key in keys if key not in there}


class ShowsHalf(ForwardingStore):
    """An upload is an object from its first byte on."""

    @contextmanager
    def open_output(self, key: str) -> Iterator[IO[bytes]]:
        self.inner.put(key, b"half")
        with self.inner.open_output(key) as stream:
            yield stream


class NoLargeUploads(ForwardingStore):
    @contextmanager
    def open_output(self, key: str) -> Iterator[IO[bytes]]:
        raise StoreError("cannot write: the entity is too large")
        yield


class Skewed(ForwardingStore):
    """Its clock is behind by two hours."""

    def list_after(self, prefix: str, after: str | None = None) -> Iterator[StoredObject]:
        for one in self.inner.list_after(prefix, after):
            yield replace(one, modified_us=one.modified_us - 7_200_000_000)


class TellsAnotherTime(ForwardingStore):
    def server_time_us(self) -> int | None:
        return self.inner.clock_us() + 90_000_000


class Slow(ForwardingStore):
    def put_if_absent(self, key: str, body: bytes) -> PutReply:
        if "speed-" in key:
            time.sleep(0.02)
        return self.inner.put_if_absent(key, body)


class NoCreates(ForwardingStore):
    def put_if_absent(self, key: str, body: bytes) -> PutReply:
        return Refused("access is denied")


class Refusing(ForwardingStore):
    cause: Cause = "wrong-credentials"

    def put_if_absent(self, key: str, body: bytes) -> PutReply:
        return Refused("it says why", self.cause)


class Expired(Refusing):
    cause = "expired-credentials"


class NoPlace(Refusing):
    cause = "no-place"


class OtherClock(Refusing):
    cause = "wrong-clock"


class NoReads(ForwardingStore):
    def get(self, key: str) -> bytes:
        raise refused("read")


class NoLists(ForwardingStore):
    def list_after(self, prefix: str, after: str | None = None) -> Iterator[StoredObject]:
        raise refused("list")


class NoDeletes(ForwardingStore):
    def delete(self, key: str) -> None:
        raise refused("delete")

    def delete_many(self, keys: Sequence[str]) -> Mapping[str, str]:
        raise refused("delete")


class Silent(ForwardingStore):
    def put_if_absent(self, key: str, body: bytes) -> PutReply:
        return NoAnswer("no answer came")


BAD: list[tuple[type[ForwardingStore], set[str]]] = [
    (Overwriting, {"no-conditional-put", "confirmed-twice"}),
    (OverwritingQuietly, {"no-conditional-put", "replaced-body"}),
    (InTurnOnly, {"confirmed-twice"}),
    (LastOneStays, {"replaced-body"}),
    (ListsLate, {"late-listing"}),
    (ListsDeleted, {"deleted-still-listed"}),
    (ListsBackwards, {"wrong-listing"}),
    (ListsFromTheStart, {"wrong-listing"}),
    (ReadsOld, {"stale-read"}),
    (WholeForRange, {"wrong-range"}),
    (OtherLength, {"wrong-range", "partial-upload"}),
    (ReadsDeleted, {"deleted-still-read"}),
    (RefusesAbsent, {"wrong-delete"}),
    (ShowsHalf, {"partial-upload"}),
    (NoLargeUploads, {"failed-upload"}),
    (Skewed, {"skewed-clock"}),
    (TellsAnotherTime, {"skewed-clock"}),
    (Slow, {"slow-creates"}),
    (NoCreates, {"no-rights-to-write"}),
    (Refusing, {"wrong-credentials"}),
    (Expired, {"expired-credentials"}),
    (NoPlace, {"no-place"}),
    (OtherClock, {"wrong-clock"}),
    (NoReads, {"no-rights-to-read"}),
    (NoLists, {"no-rights-to-list"}),
    (NoDeletes, {"no-rights-to-delete"}),
    (Silent, {"no-answer"}),
]


def memory() -> MemoryStore:
    return MemoryStore(f"check-{uuid.uuid4().hex}")


def checked(store: Store, **more: Any) -> store_check.StoreReport:
    """Return a report that keeps the published schema and prints its faults with advice."""
    report = check_opened(store, **more)
    jsonschema.validate(json.loads(json.dumps(report.record())), SCHEMA)
    assert [one.check for one in report.findings] == list(CHECKS)
    rows = report.to_arrow().to_pylist()
    assert [row["fault"] for row in rows] == [one.fault for one in report.findings]
    text = str(report)
    assert text.startswith(f"{store.uri}: {report.verdict}: ")
    for one in report.findings:
        assert bool(one.fault) == bool(one.advice) == (one.status == "fault")
        assert one.advice in text
    return report


@pytest.mark.parametrize(("kind", "faults"), BAD, ids=lambda each: getattr(each, "__name__", ""))
def test_each_bad_store_gets_its_verdict(
    kind: type[ForwardingStore], faults: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """STO-28: the faults, the verdict that follows, and no object left that can be removed."""
    if kind is Slow:
        monkeypatch.setattr(store_check, "SLOW_SECONDS", 0.01)
    inner = memory()
    report = checked(kind(inner), rounds=1)

    assert {one.fault for one in report.findings if one.fault} == faults
    assert report.verdict == verdict_of(faults)
    assert not report.ok
    left = [one.key for one in inner.list_after("")]
    if kind is NoDeletes:
        assert sorted(report.left) == sorted(left) != []
    else:
        assert (left, report.left) == ([], ())


def test_every_fault_is_shown_by_a_store() -> None:
    """STO-28."""
    assert {name for _, names in BAD for name in names} == set(FAULTS)


def test_the_schema_names_every_check_and_fault() -> None:
    of_finding = SCHEMA["properties"]["findings"]["items"]["properties"]
    assert of_finding["check"]["enum"] == list(CHECKS)
    assert of_finding["fault"]["enum"] == ["", *FAULTS]


def test_late_objects_are_told_with_their_delay() -> None:
    report = checked(ListsLate(memory(), 0.005), rounds=1)
    (late,) = (one for one in report.findings if one.fault)
    assert late.finding.startswith("a new object was not listed; the answer was right 0.0 s later")


def outcome(*pairs: str, found: str = "", listed: bool | None = None) -> list[Result]:
    """Results of creators, as `body reply`."""
    split = [pair.split(" ", 1) for pair in pairs]
    return [Result(body, reply, "no", 0.1, found, listed) for body, reply in split]


@pytest.mark.parametrize(
    ("results", "kept", "fault"),
    [
        (outcome("a written", "b exists", found="a"), "a", None),
        (outcome("a no answer", "b exists", found="a"), "a", None),
        (outcome("a no answer", "b no answer"), None, None),
        (outcome("a written", "b written"), "a", "confirmed-twice"),
        (outcome("a written", "b exists"), "b", "replaced-body"),
        (outcome("a exists", "b exists", found="b"), "a", "replaced-body"),
        (outcome("a written", "b exists"), None, "stale-read"),
        (outcome("a refused", "b refused"), None, "no-rights-to-write"),
        (outcome("a refused", "b written"), "b", None),
    ],
)
def test_the_fault_of_a_race(results: list[Result], kept: str | None, fault: str | None) -> None:
    """STO-3: one confirmed creator, whose body stays; a lost answer proves nothing."""
    found = race_fault(results, kept)
    assert (found and found[0]) == fault


@pytest.mark.slow
def test_processes_race_on_a_disk_and_leave_nothing(tmp_path: Path) -> None:
    """Three processes with three connections each; folders that were not there go again."""
    before = tablefmt.create(tmp_path / "t", {"id": [1]})
    seen = sorted(path.as_posix() for path in tmp_path.rglob("*"))

    for place in (tmp_path / "t", tmp_path / "new" / "folder"):
        report = checked(LocalStore(place))
        assert (report.verdict, report.processes, report.connections) == ("safe", 3, 9)
        assert report.ok
        assert report.requests > 100
        assert report.numbers["creates"] == 4 * 9
        assert set(report.numbers) >= {"create_median_seconds", "clock_skew_seconds"}
        assert "one of a killed process" in str(report)

    assert sorted(path.as_posix() for path in tmp_path.rglob("*")) == seen
    assert before.to_arrow().to_pylist() == [{"id": 1}]


@pytest.mark.slow
def test_processes_find_a_store_that_is_honest_in_turn_only(tmp_path: Path) -> None:
    """Each process has a store of its own, so nothing but the folder is common."""
    report = checked(InTurnOnly(LocalStore(tmp_path / "t")), connections=1)
    assert (report.verdict, report.processes, report.connections) == ("unsafe", 3, 3)
    assert [one.fault for one in report.findings if one.fault] == ["confirmed-twice"]
    assert os.listdir(tmp_path) == []


def test_an_interrupted_check_leaves_nothing(tmp_path: Path) -> None:
    for stop in (0, 1, 5, 8):
        count = itertools.count()

        def interrupt(
            done: int, total: int, count: Iterator[int] = count, stop: int = stop
        ) -> None:
            if next(count) == stop:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            check_opened(LocalStore(tmp_path / "t"), processes=1, connections=1, progress=interrupt)
        assert os.listdir(tmp_path) == []


@pytest.mark.slow
def test_s3_passes_and_keeps_no_upload(s3_server: S3Server, s3_uri: str) -> None:
    """Processes race over HTTP, and the aborted upload of 17 MiB leaves no parts."""
    store = open_store(s3_uri, s3_server.options)
    report = checked(store, processes=2, connections=2, rounds=1)
    assert (report.verdict, report.processes, report.connections) == ("safe", 2, 4), str(report)
    assert abs(report.numbers["clock_skew_seconds"]) < 10
    client, bucket = s3_server.client(), s3_uri.split("/")[2]
    assert client.list_objects_v2(Bucket=bucket).get("Contents", []) == []
    assert client.list_multipart_uploads(Bucket=bucket).get("Uploads", []) == []


def test_without_rights_the_command_says_so(tmp_path: Path) -> None:
    """S3 answers 403 to everything; and a folder in which no user can write."""

    def denies(index: int, request: Request) -> Answer:
        return s3_error(403, "AccessDenied")

    server = ScriptedServer(denies)
    try:
        options = ("key=a", "secret=canary-secret", f"endpoint_url={server.endpoint}")
        given = [part for text in options for part in ("--storage-option", text)]
        done = run("check-store", "s3://bucket/t", *given, "--json")
    finally:
        server.close()
    report = json.loads(done.out)
    jsonschema.validate(report, SCHEMA)
    assert (done.code, done.err, report["verdict"]) == (1, "", "refused")
    first, *rest = report["findings"]
    assert (first["fault"], {one["status"] for one in rest}) == ("no-rights-to-write", {"skipped"})
    assert "HTTP 403" in first["finding"]
    assert "canary" not in done.out

    # Root may write everywhere but here.
    done = run("check-store", "/proc/self/t")
    assert (done.code, done.err) == (1, "")
    assert "fault (no-rights-to-write)" in done.out


WRONG = "the credentials are wrong; check key, secret and region"
ANSWERS = [
    (403, "SignatureDoesNotMatch", "wrong-credentials", WRONG),
    (403, "InvalidAccessKeyId", "wrong-credentials", WRONG),
    (400, "ExpiredToken", "expired-credentials", "the credentials have expired; renew them"),
    (404, "NoSuchBucket", "no-place", "the bucket 'bucket' does not exist; create it or check"),
    (403, "RequestTimeTooSkewed", "wrong-clock", "this machine's clock and the store's differ"),
    (403, "AccessDenied", "no-rights-to-write", "access is denied; grant it to these credentials"),
]


@pytest.mark.parametrize(("status", "code", "fault", "reason"), ANSWERS)
def test_refused_credentials_are_told_apart(
    status: int, code: str, fault: str, reason: str
) -> None:
    """STO-28: by what an S3 server answers to the first create."""
    server = ScriptedServer(lambda index, request: s3_error(status, code))
    try:
        options = {"key": "a", "secret": "b", "endpoint_url": server.endpoint}
        report = checked(open_store("s3://bucket/t", options))
    finally:
        server.close()
    first, *rest = report.findings
    assert (report.verdict, first.fault) == ("refused", fault)
    assert first.finding.startswith(f"the store refuses to create: {reason}")
    assert f"(HTTP {status}, {code})" in first.finding
    assert {one.status for one in rest} == {"skipped"}
    text = str(report)
    assert f"    so {FAULTS[fault].meaning}. {FAULTS[fault].advice}" in text.splitlines()


def test_the_command_prints_a_verdict_and_an_exit_code() -> None:
    place = f"memory://check-{uuid.uuid4().hex}"
    done = run("check-store", place)
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith(f"{place}: safe: several writers may write tables here\n")
    assert tablefmt.check_store(place).verdict == "safe"
    document = run("check-store", place, "--json").document
    jsonschema.validate(document, SCHEMA)
    assert (document["ok"], document["left"]) == (True, [])
    assert run("check-store", "adl://x/y").code == 2
    assert run("check-store").code == 2
    assert list(open_store(place).list_after("")) == []
