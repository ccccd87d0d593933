"""Addresses and options, the probe, and the stores around stores."""

from __future__ import annotations

import logging
import os
import time
import uuid
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import tablefmt
from tablefmt.errors import (
    CommitRejectedError,
    StoreError,
    UnsafeStoreError,
    UnsupportedFeatureError,
)
from tablefmt.operations.create import create
from tablefmt.store import s3_clients
from tablefmt.store import s3_store as s3_module
from tablefmt.store.local_store import LocalStore
from tablefmt.store.location import open_store
from tablefmt.store.location_checks import Contest, ensure_safe, probe
from tablefmt.store.memory_store import MemoryStore
from tablefmt.store.object_store import Exists, NoAnswer, PutReply, Refused, Store, Written
from tablefmt.store.store_wrappers import CountingStore, ForwardingStore
from tablefmt.testing.faults import FaultyStore, Killed
from tests.careless_stores import Overwriting, OverwritingQuietly
from tests.s3server import S3Server


@pytest.fixture(autouse=True)
def nothing_was_probed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tablefmt.store.location_checks._SAFE", set())


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore(uuid.uuid4().hex)


def test_spellings_of_one_place_are_one_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """STO-11."""
    monkeypatch.chdir(tmp_path)
    real = os.path.realpath(tmp_path)
    places = {
        f"{real}/a b": [
            tmp_path / "a b",
            "a b",
            "./x/../a b/",
            f"{real}//a b",
            f"file://{real}/a%20b",
            f"file:{real}/a%20b",
            f"FILE://localhost{real}/a%20b/",
        ],
        "s3://bucket/a/b": ["s3://bucket/a/b", "s3a://bucket/a/b/", "S3://bucket//a//b"],
        "s3://bucket": ["s3://bucket", "s3a://bucket/"],
        "memory://a/b": ["memory://a/b", "memory://a/b/", "memory:///a/b"],
    }
    for uri, spellings in places.items():
        assert {open_store(one).uri for one in spellings} == {uri}  # type: ignore[attr-defined]
        assert len({open_store(one).identity for one in spellings}) == 1  # type: ignore[attr-defined]


@pytest.mark.parametrize("uri", ["adl://a/t", "hdfs://n/t", "http://h/t", "x://"])
def test_other_schemes_are_refused_by_name(uri: str):
    """STO-11."""
    with pytest.raises(UnsupportedFeatureError, match=uri.split(":")[0]) as caught:
        open_store(uri)
    assert caught.value.features == [f"scheme:{uri.split(':')[0]}"]


def test_a_tilde_is_the_home_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """STO-11: a tilde means the same as in a shell. A folder of that name is `./~`."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", f"{tmp_path}/home")
    real = os.path.realpath(tmp_path)
    for uri in ("~/x", Path("~/x"), "~//x/"):
        assert open_store(uri).uri == f"{real}/home/x"
    assert open_store("~").uri == f"{real}/home"
    assert open_store("./~/x").uri == f"{real}/~/x"
    assert open_store("a~/x").uri == f"{real}/a~/x"


@pytest.mark.parametrize(
    ("uri", "advice"),
    [
        *(("s3:/key:canary@b/x", "s3://"), ("S3A:/b", "s3a://"), ("memory:/x", "memory://")),
        *(("s3:b/x", "s3://"), ("file:x", "file://"), ("dbfs:x", "dbfs://")),
        *((r"C:\\data\t", "Windows"), ("c:/data", "Windows")),
    ],
)
def test_an_address_meant_for_another_place_is_no_local_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, uri: str, advice: str
):
    """STO-11, STO-13: an address may hold a password."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(StoreError, match=advice) as caught:
        tablefmt.write({"id": [1]}, uri)
    assert "canary" not in str(caught.value)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("uri", ["dbfs:/x", "hdfs:/x", "HDFS://n/x", "s3n:/b/x"])
def test_other_schemes_with_one_slash_are_refused_by_name(uri: str):
    """STO-11."""
    scheme = uri.split(":")[0].lower()
    with pytest.raises(UnsupportedFeatureError, match=f"{scheme}://") as caught:
        open_store(uri)
    assert caught.value.features == [f"scheme:{scheme}"]


def test_a_colon_in_a_name_is_a_colon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """STO-11."""
    monkeypatch.chdir(tmp_path)
    real = os.path.realpath(tmp_path)
    for name in ("a:b", "2024-01-01T00:00:00", "x/s3:/y", "./s3:/b/x", "db.t"):
        assert open_store(name).uri == os.path.normpath(f"{real}/{name}")


@pytest.mark.parametrize(
    "uri",
    [
        *("", "s3://", "s3:///x", "s3://b/../x", "memory://", "file://host/x", "a\0b"),
        *("file:///a%00b", "file:///a%ffb", "file:///a/%ed%a0%80", "s3://b/\0", "s3://b\0/x"),
        *("/a\udcff", "s3://b/\udcff", "memory://\ud800", b"/a", None, 5, Path("a\0b")),
    ],
)
def test_addresses_without_sense_are_refused(uri: Any):
    """STO-11."""
    with pytest.raises(StoreError):
        open_store(uri)


def test_a_path_that_is_not_text_is_refused_wherever_it_comes_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """STO-11: a working directory or the end of a link counts too."""
    odd = os.fsdecode(os.fsencode(tmp_path) + b"/\xff")
    os.mkdir(odd)
    os.symlink(odd, tmp_path / "link")
    monkeypatch.chdir(odd)
    for uri in ("t", tmp_path / "link"):
        with pytest.raises(StoreError, match="not UTF-8"):
            open_store(uri)
    assert os.listdir(odd) == []


def test_credentials_in_an_address_are_refused_and_not_repeated():
    """STO-13."""
    with pytest.raises(StoreError) as caught:
        open_store("s3://canary-key:canary-secret@bucket/x")
    assert "canary" not in str(caught.value)


@pytest.mark.parametrize("uri", ["/tmp/x", "memory://x", "s3://b/x"])
def test_unknown_options_are_refused_by_name(uri: str):
    """STO-11: the value is not shown."""
    with pytest.raises(StoreError, match="'aws_secret'") as caught:
        open_store(uri, {"aws_secret": "canary"})
    assert "canary" not in str(caught.value)


@pytest.mark.parametrize("uri", ["/tmp/x", "memory://x", "s3://b/x"])
def test_single_writer_mode_is_an_option_of_every_store(uri: str):
    """STO-12."""
    assert open_store(uri, {"unsafe_single_writer": True}).unsafe_single_writer is True
    assert open_store(uri).unsafe_single_writer is False
    with pytest.raises(StoreError, match="unsafe_single_writer"):
        open_store(uri, {"unsafe_single_writer": "yes"})


def test_a_missing_s3fs_names_the_extra(monkeypatch: pytest.MonkeyPatch):
    """STO-11."""
    monkeypatch.setattr(s3_module, "s3fs", None)
    with pytest.raises(UnsupportedFeatureError, match=r"tablefmt\[s3\]"):
        open_store("s3://bucket/x")


@pytest.mark.slow
def test_the_environment_leads_to_the_endpoint(
    s3_server: S3Server, s3_uri: str, monkeypatch: pytest.MonkeyPatch
):
    """STO-11: no options are given."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3_server.endpoint)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", s3_server.key)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", s3_server.secret)
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")

    store = open_store(s3_uri)

    assert store.put_if_absent("_log/0", b"x") == Written()
    assert open_store(s3_uri, s3_server.options).get("_log/0") == b"x"
    assert store.identity == open_store(s3_uri, s3_server.options).identity


@pytest.mark.slow
def test_a_store_opened_after_the_environment_changed_goes_by_the_new_one(
    s3_server: S3Server, s3_uri: str, monkeypatch: pytest.MonkeyPatch
):
    """STO-11: options without credentials or region use the environment.

    An open store keeps its own.
    """

    def signers(*stores: Store) -> list[str]:
        s3_server.seen.clear()
        for store in stores:
            store.get_many(["_log/0"])
        bucket = f"/{s3_uri.split('/')[2]}/"
        return [one.signed_by for one in s3_server.seen if one.path.startswith(bucket)]

    monkeypatch.setenv("AWS_ENDPOINT_URL", s3_server.endpoint)
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "a secret")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "first")
    before = open_store(s3_uri)
    assert signers(before) == ["first"]
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "second")
    after = open_store(s3_uri)
    given = open_store(s3_uri, {"key": "given", "secret": "a secret"})
    assert signers(before, after, given) == ["first", "second", "given"]
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "first")
    assert signers(open_store(s3_uri), after) == ["first", "second"]


def test_stores_of_one_place_share_connections_up_to_a_fork(s3_server: S3Server, s3_uri: str):
    """STO-11: a client costs a tenth of a second to make; a child makes its own."""
    one, other = (open_store(f"{s3_uri}/{name}", s3_server.options) for name in "ab")
    assert one._files is other._files  # type: ignore[attr-defined]
    changed = open_store(s3_uri, {**s3_server.options, "key": "another"})
    assert changed._files is not one._files  # type: ignore[attr-defined]

    s3_clients._start_anew()
    assert open_store(s3_uri, s3_server.options)._files is not one._files  # type: ignore[attr-defined]


def test_a_bucket_that_is_not_there_is_named(s3_server: S3Server):
    """STO-6."""
    store = open_store("s3://no-such-bucket/x", s3_server.options)

    assert isinstance(store.put_if_absent("_log/0", b"x"), Refused)
    for call in (lambda: store.get("_log/0"), lambda: list(store.list_after(""))):
        with pytest.raises(StoreError, match="'no-such-bucket' does not exist"):
            call()


@pytest.mark.slow
def test_long_listings_and_large_outputs_on_s3(
    s3_server: S3Server, s3_uri: str, monkeypatch: pytest.MonkeyPatch
):
    """STO-7, STO-9: past some pages, and past one part; an aborted upload leaves no parts."""
    store = open_store(s3_uri, s3_server.options)
    client, bucket = s3_server.client(), s3_uri.split("/")[2]
    monkeypatch.setenv("MOTO_S3_DEFAULT_MAX_KEYS", "10")  # keys in a page; 1000 by default
    keys = [f"_log/{number:04d}" for number in range(35)]
    for key in keys:
        client.put_object(Bucket=bucket, Key=f"table/{key}", Body=b"")
    client.put_object(Bucket=bucket, Key="table/_log/folder/", Body=b"")
    s3_server.seen.clear()
    assert [one.key for one in store.list_after("_log/", keys[1])] == keys[2:]
    assert len(s3_server.seen) == 4

    part = os.urandom(1 << 20)
    with store.open_output("data/large") as stream:
        for _ in range(40):
            stream.write(part)
    assert store.size("data/large") == 40 << 20
    assert store.get_range("data/large", (39 << 20) - 1, 10) == part[-1:] + part[:9]

    def fail_late() -> None:
        with store.open_output("data/aborted") as stream:
            for _ in range(40):
                stream.write(part)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail_late()
    assert [one.key for one in store.list_after("data/")] == ["data/large"]
    assert "Uploads" not in client.list_multipart_uploads(Bucket=bucket)


def test_an_upload_is_given_up_by_its_id(s3_server: S3Server, s3_uri: str):
    """STO-7: a missing upload is accepted."""
    client, bucket = s3_server.client(), s3_uri.split("/")[2]
    begun = [client.create_multipart_upload(Bucket=bucket, Key=f"table/data/{n}") for n in "ab"]
    store = open_store(s3_uri, s3_server.options)

    for _ in "12":
        store.abort_upload("data/a", begun[0]["UploadId"])

    left = client.list_multipart_uploads(Bucket=bucket)["Uploads"]
    assert [one["UploadId"] for one in left] == [begun[1]["UploadId"]]


class InTurnOnly(ForwardingStore):
    """Probes first and puts then: correct for creators one after another."""

    def __init__(self, inner: Store, only_from: int = 0) -> None:
        super().__init__(inner)
        self._only_from = only_from

    def put_if_absent(self, key: str, body: bytes) -> PutReply:
        if len(body) < self._only_from:
            return self.inner.put_if_absent(key, body)
        if self.inner.get_many([key]) != [None]:
            return Exists()
        time.sleep(0.005)
        self.inner.put(key, body)
        return Written()


def test_the_probe_passes_an_honest_store_and_leaves_nothing(store: MemoryStore):
    """STO-12: five rounds of four creators, small bodies and large, and a late one."""
    counted = CountingStore(store)

    probe(counted, "n")

    keys = [f"_log/.probe-n-{number}-{size}" for number in range(5) for size in (100, 100_000)]
    expected = Counter({("put_if_absent", key): 4 for key in keys})
    expected[("put_if_absent", keys[0])] += 1
    expected += Counter(("get", key) for key in keys) + Counter(("delete", key) for key in keys)
    assert Counter(counted.requests) == expected
    assert list(store.list_after("")) == []


def test_a_disk_is_probed_by_one_race(tmp_path: Path):
    """STO-12: creates on a disk wait for it; a kernel makes names one after another."""
    store = CountingStore(LocalStore(tmp_path))
    probe(store, "abc")
    assert store.counts == {"put_if_absent": 5, "get": 1, "delete": 1}
    assert list(store.list_after("")) == []


def test_a_disk_that_replaces_names_is_refused(tmp_path: Path):
    """STO-12."""
    with pytest.raises(UnsafeStoreError, match="confirmed one object to 4 of 4"):
        probe(Overwriting(LocalStore(tmp_path)), "abc")


def test_a_store_that_is_honest_to_one_after_another_alone_is_refused(store: MemoryStore):
    """STO-12: simultaneous creators are told that they have won, some for large bodies only."""
    for at_fault in (InTurnOnly(store), InTurnOnly(store, only_from=1000)):
        assert at_fault.put_if_absent("_log/0", b"x" * 1000) == Written()
        assert at_fault.put_if_absent("_log/0", b"y" * 1000) == Exists()
        store.delete("_log/0")
        for _ in "12":
            with pytest.raises(UnsafeStoreError, match="of 4 simultaneous writers"):
                ensure_safe(at_fault, "n")
        assert list(store.list_after("")) == []
    with pytest.raises(UnsafeStoreError):
        create(InTurnOnly(store), "id BIGINT")
    assert list(store.list_after("")) == []


@pytest.mark.parametrize("dishonest", [Overwriting, OverwritingQuietly])
def test_the_probe_refuses_a_store_that_ignores_the_condition(
    store: MemoryStore, dishonest: type[ForwardingStore]
):
    """STO-12."""
    with pytest.raises(UnsafeStoreError, match="overwrite each other's commits"):
        ensure_safe(dishonest(store), "n")
    with pytest.raises(UnsafeStoreError):
        ensure_safe(dishonest(store), "n")
    assert list(store.list_after("")) == []


def test_the_single_writer_is_warned_and_let_through(caplog: pytest.LogCaptureFixture):
    """STO-12."""
    store = Overwriting(MemoryStore(uuid.uuid4().hex, unsafe_single_writer=True))

    with caplog.at_level(logging.WARNING, logger="tablefmt"):
        probe(store, "n")

    (record,) = caplog.records
    assert "overwrite each other's commits" in record.getMessage()


def test_a_store_is_probed_once_a_process(store: MemoryStore):
    """STO-12."""
    counted = CountingStore(store)
    ensure_safe(counted, "a")
    asked = len(counted.requests)
    ensure_safe(counted, "b")
    ensure_safe(MemoryStore(store.uri.removeprefix("memory://")), "c")
    assert asked > 0
    assert len(counted.requests) == asked


@pytest.mark.parametrize("fault", ["lost_request", "lost_answer", "late", "sdk_retry"])
@pytest.mark.parametrize("every", [1, 2, 3, 5, 7, 41])
def test_the_probe_is_not_fooled_by_the_network(store: MemoryStore, fault: str, every: int):
    """STO-5, STO-12: the probe's own object behind Exists proves no fault.

    A missing answer counts for no creator.
    """

    def plan(index: int, verb: str, key: str) -> str | None:
        return fault if verb == "put_if_absent" and index % every == 0 and index < 15 else None

    faulty = FaultyStore(store, plan)  # type: ignore[arg-type]

    probe(faulty, "n", lambda seconds: None)

    assert faulty.fired[fault] >= 1
    assert set(faulty.fired) == {fault}
    faulty.deliver_late()
    left = [one.key for one in store.list_after("")]
    assert left == [] or fault == "late"


def test_the_probe_gives_up_in_bounds_and_says_why(
    store: MemoryStore, caplog: pytest.LogCaptureFixture
):
    """STO-12: it does not warn of objects that were never written."""
    waits: list[float] = []
    with pytest.raises(CommitRejectedError, match="request lost"):
        probe(
            FaultyStore(store, lambda i, verb, key: creates(verb, "lost_request")),  # type: ignore[arg-type, return-value]
            "n",
            waits.append,
        )
    assert len(waits) == 4
    assert sum(waits) < 5
    with pytest.raises(CommitRejectedError, match="no_space"):
        probe(FaultyStore(store, lambda i, verb, key: creates(verb, "no_space")), "n")  # type: ignore[arg-type, return-value]
    caplog.clear()
    with pytest.raises(CommitRejectedError, match="refused"):
        probe(FaultyStore(store, lambda i, verb, key: "refused"), "n")
    assert caplog.records == []


@pytest.mark.parametrize(
    ("replies", "kept", "expected"),
    [
        ([Written(), Exists(), Exists(), Exists()], 0, ""),
        ([Exists(), NoAnswer("409"), Written(), NoAnswer("409")], 2, ""),
        ([Exists(), Exists(), NoAnswer("lost"), Exists()], 2, ""),
        ([Exists(), Exists(), Exists(), Exists()], 1, ""),
        ([Written(), NoAnswer("503"), Refused("no"), Exists()], 0, ""),
        ([Written(), Written(), Exists(), Exists()], 0, "confirmed one object to 2 of 4"),
        ([Written(), Exists(), Exists(), Exists()], 1, "ignores the put-if-absent condition"),
        (
            [Written(), NoAnswer("lost"), Exists(), Exists()],
            1,
            "ignores the put-if-absent condition",
        ),
        ([Written(), Exists(), Exists(), Exists()], None, "ignores the put-if-absent condition"),
        ([Exists(), Exists(), Exists(), Exists()], None, "ignores the put-if-absent condition"),
    ],
)
def test_what_the_answers_to_a_race_show(replies: list[PutReply], kept: int | None, expected: str):
    """STO-12."""
    contest = Contest("k", (b"0", b"1", b"2", b"3"), list(enumerate(replies)))

    fault = contest.fault(None if kept is None else b"%d" % kept)

    assert fault.startswith(expected) if expected else fault == ""


@pytest.mark.slow
def test_tables_of_one_bucket_are_probed_once(s3_server: S3Server):
    """STO-12: one probe covers an endpoint. Another bucket or endpoint may behave otherwise."""
    one, other = f"s3://{s3_server.new_bucket()}", f"s3://{s3_server.new_bucket()}"

    def probes(uri: str) -> int:
        s3_server.seen.clear()
        tablefmt.create(uri, "id BIGINT", storage_options=s3_server.options)
        return sum("/.probe-" in seen.path for seen in s3_server.seen)

    assert [probes(uri) for uri in (f"{one}/a", f"{one}/b/c", one, f"{other}/a")] == [61, 0, 0, 61]


def creates(verb: str, fault: str) -> str | None:
    return fault if verb == "put_if_absent" else None


@pytest.mark.parametrize(
    ("fault", "reply", "at_once", "in_the_end"),
    [
        (None, Written(), True, True),
        ("lost_request", NoAnswer("injected: request lost"), False, False),
        ("lost_answer", NoAnswer("injected: answer lost"), True, True),
        ("sdk_retry", Exists(), True, True),
        ("late", NoAnswer("injected: request late"), False, True),
        ("refused", Refused("injected: refused"), False, False),
        ("no_space", Refused("injected: no_space"), False, False),
    ],
)
def test_each_fault_of_a_create_does_what_it_says(
    store: MemoryStore, fault: str | None, reply: PutReply, at_once: bool, in_the_end: bool
):
    """STO-4, STO-5, STO-6: the simulations need these faults."""
    faulty = FaultyStore(store, lambda index, verb, key: fault if index == 0 else None)  # type: ignore[arg-type, return-value]

    assert faulty.put_if_absent("k", b"x") == reply
    assert store.get_many(["k"]) == [b"x" if at_once else None]
    faulty.get_many(["other"])
    assert store.get_many(["k"]) == [b"x" if in_the_end else None]
    assert faulty.fired == ({fault: 1} if fault else {})


@pytest.mark.parametrize(("fault", "applied"), [("kill_before", False), ("kill_after", True)])
def test_a_kill_passes_every_handler_of_exceptions(store: MemoryStore, fault: str, applied: bool):
    """This holds for creates, puts and outputs."""

    def output(faulty: FaultyStore) -> None:
        with faulty.open_output("k") as stream:
            stream.write(b"x")

    for write in (
        lambda one: one.put_if_absent("k", b"x"),
        lambda one: one.put("k", b"x"),
        output,
    ):
        with pytest.raises(Killed):
            write(FaultyStore(store, lambda index, verb, key: fault))  # type: ignore[arg-type, return-value]
        assert store.get_many(["k"]) == [b"x" if applied else None]
        store.delete("k")
    assert not issubclass(Killed, Exception)


def test_counting_counts_keys_and_rounds(store: MemoryStore):
    """A parallel read is one round of many requests."""
    counted = CountingStore(store)
    counted.put_if_absent("a", b"x")
    counted.put("b", b"y")
    assert counted.get_many(["a", "b", "c"]) == [b"x", b"y", None]
    counted.get_many([])
    with counted.open_output("d") as stream:
        stream.write(b"z")
    list(counted.list_after("", "a"))

    assert counted.counts == Counter(put_if_absent=1, put=1, get=3, open_output=1, list_after=1)
    assert counted.rounds == 5
    counted.reset()
    assert (counted.requests, counted.rounds) == ([], 0)
