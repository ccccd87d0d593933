"""Reactions of the S3 store to every kind of answer, over real HTTP."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

import pytest

from tablefmt.errors import StoreError, UnsafeStoreError
from tablefmt.store import s3_clients
from tablefmt.store.location import open_store
from tablefmt.store.location_checks import probe
from tablefmt.store.object_store import (
    Exists,
    KeyNotFoundError,
    NoAnswer,
    Refused,
    Store,
    StoredObject,
    TooLong,
    Written,
    length_of,
)
from tablefmt.store.s3_answers import body_of
from tablefmt.store.s3_clients import ASK_FROM_BYTES
from tests.store.scripted_server import Answer, Request, ScriptedServer, s3_error

SECRET = "canary-secret-0123456789"

Script = Callable[[int, Request], Answer]
Serve = Callable[..., tuple[Store, ScriptedServer]]


@pytest.fixture(scope="module")
def server() -> Iterator[ScriptedServer]:
    """One address for all tests: clients are made, and connections opened, once."""
    server = ScriptedServer(always(Answer()))
    yield server
    server.close()


@pytest.fixture
def serve(server: ScriptedServer) -> Serve:
    def start(
        script: Script,
        *,
        attempts: int = 1,
        read_timeout: float = 5,
        server: ScriptedServer = server,
    ):
        server.play(script)
        options = {
            "key": "canary-key",
            "secret": SECRET,
            "endpoint_url": server.endpoint,
            "client_kwargs": {"region_name": "us-east-1"},
            "config_kwargs": {
                "retries": {"total_max_attempts": attempts, "mode": "standard"},
                "read_timeout": read_timeout,
            },
        }
        return open_store("s3://bucket/table", options), server

    return start


def always(answer: Answer) -> Script:
    return lambda index, request: answer


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (Answer(200), Written),
        (s3_error(412, "PreconditionFailed"), Exists),
        (Answer(412), Exists),
        (Answer(412, b"<html>not S3's words</html>"), Exists),
        (s3_error(409, "ConditionalRequestConflict"), NoAnswer),
        (s3_error(408, "RequestTimeout"), NoAnswer),
        (s3_error(400, "RequestTimeout"), NoAnswer),
        (s3_error(429, "TooManyRequests"), NoAnswer),
        (s3_error(500, "InternalError"), NoAnswer),
        (Answer(502, b"<html>proxy</html>"), NoAnswer),
        (s3_error(503, "SlowDown"), NoAnswer),
        (s3_error(504, "GatewayTimeout"), NoAnswer),
        (Answer(drop=True), NoAnswer),
        (s3_error(400, "ExpiredToken"), Refused),
        (s3_error(401, "Unauthorized"), Refused),
        (s3_error(403, "AccessDenied"), Refused),
        (s3_error(403, "InvalidAccessKeyId"), Refused),
        (s3_error(404, "NoSuchBucket"), Refused),
        (s3_error(405, "MethodNotAllowed"), Refused),
        (s3_error(501, "NotImplemented"), Refused),
    ],
)
def test_a_create_is_answered_by_status(serve: Serve, answer: Answer, kind: type):
    """STO-4, STO-5, STO-6."""
    store, server = serve(always(answer))

    assert type(store.put_if_absent("_log/0", b"body")) is kind

    (request,) = server.seen
    assert (request.method, request.headers.get("If-None-Match")) == ("PUT", "*")


NOT_FOUND = [
    s3_error(404, "NoSuchAccessPoint"),
    s3_error(404, "NoSuchBucket"),
    s3_error(404, "NoSuchKey"),
    s3_error(404, "NoSuchUpload"),
    Answer(404, b"<html>proxy</html>"),
]


@pytest.mark.parametrize("answer", NOT_FOUND)
def test_a_write_that_finds_nothing_is_a_failure_of_the_store(serve: Serve, answer: Answer):
    """STO-7: no object was asked for, so none is absent."""
    store, _ = serve(always(answer))

    with pytest.raises(StoreError, match="cannot write 'data/a' at s3://bucket/table"):
        store.put("data/a", b"body")
    with pytest.raises(StoreError, match="cannot remove 'data/a and 1 more'"):
        store.delete_many(["data/a", "data/b"])


@pytest.mark.parametrize("code", ["NoSuchAccessPoint", "NoSuchBucket"])
def test_no_object_is_absent_from_a_place_that_is_not_there(serve: Serve, code: str):
    """STO-7: or the log would look empty."""
    store, _ = serve(always(s3_error(404, code)))

    for request in (
        lambda: store.get("data/a"),
        lambda: store.get_many(["data/a", "data/b"]),
        lambda: store.delete("data/a"),
    ):
        with pytest.raises(StoreError):
            request()


@pytest.mark.parametrize("body", [b"", b"x", b"x" * 100_000])
def test_a_create_is_conditional_at_every_length(serve: Serve, body: bytes):
    """STO-3: this holds for an empty body too, and it is one request."""
    store, server = serve(always(Answer(200)))

    assert store.put_if_absent("_log/0", body) == Written()

    (request,) = server.seen
    assert request.headers["If-None-Match"] == "*"
    assert request.path == "/bucket/table/_log/0"
    assert body in request.body


def test_a_small_body_is_sent_without_asking(serve: Serve):
    """STO-20: this server never sends 100 Continue, so waiting for it gets no answer."""
    store, server = serve(always(Answer(200)))
    server.says_continue = False
    bodies = [b"", b"x", b"x" * (ASK_FROM_BYTES - 1)]

    for number, body in enumerate(bodies):
        assert store.put_if_absent(f"_log/{number}", body) == Written()
        store.put(f"data/{number}", body)
        with store.open_output(f"out/{number}") as stream:
            stream.write(body)

    puts = [request for request in server.seen if request.method == "PUT"]
    assert [len(request.body) for request in puts] == [len(body) for body in bodies for _ in "123"]
    assert [request.headers.get("Expect") for request in puts] == [None] * 9


def test_a_large_body_is_asked_for(serve: Serve):
    """STO-20: it is not sent to a server that is going to refuse it."""
    store, server = serve(always(Answer(200)))

    assert store.put_if_absent("_log/0", b"x" * ASK_FROM_BYTES) == Written()
    assert [request.headers.get("Expect") for request in server.seen] == ["100-continue"]


def test_a_timeout_is_no_answer(serve: Serve):
    """STO-5."""
    store, _ = serve(always(Answer(200, hang=1.5)), read_timeout=0.3)

    assert isinstance(store.put_if_absent("_log/0", b"body"), NoAnswer)


@pytest.mark.slow
def test_a_refused_connection_is_no_answer(serve: Serve):
    """STO-5: no server listens at the address."""
    closed = ScriptedServer(always(Answer(200)))
    store, _ = serve(always(Answer(200)), server=closed)
    closed.close()

    assert isinstance(store.put_if_absent("_log/0", b"body"), NoAnswer)


@pytest.mark.slow
@pytest.mark.share(2)
@pytest.mark.parametrize(
    ("last", "kind"),
    [
        (Answer(200), Written),
        (s3_error(412, "PreconditionFailed"), Exists),
        (s3_error(403, "AccessDenied"), NoAnswer),
        (s3_error(404, "NoSuchBucket"), NoAnswer),
        (s3_error(500, "InternalError"), NoAnswer),
    ],
)
def test_a_no_after_a_resend_is_not_taken_for_final(serve: Serve, last: Answer, kind: type):
    """STO-6: the first request, which had no clear answer, may have been applied."""
    store, server = serve(
        lambda index, request: s3_error(500, "InternalError") if index == 0 else last, attempts=2
    )

    assert type(store.put_if_absent("_log/0", b"body")) is kind
    assert len(server.seen) == 2


def test_a_dropped_connection_is_counted_as_a_send(serve: Serve):
    """STO-6: no lower layer re-sends silently, so a later refusal is not taken as final."""
    store, server = serve(
        lambda index, request: Answer(drop=True) if index == 0 else s3_error(403, "AccessDenied"),
        attempts=2,
    )

    assert isinstance(store.put_if_absent("_log/0", b"body"), NoAnswer)
    assert len(server.seen) == 2
    assert isinstance(store.put_if_absent("_log/0", b"body"), Refused)


def test_an_http_layer_of_unknown_habits_makes_a_no_uncertain(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
):
    """STO-6: its re-sends cannot be switched off, so they must be expected."""

    async def none(client: object) -> list[object]:
        return []

    monkeypatch.setattr(s3_clients, "_http_sessions", none)
    store, _ = serve(always(s3_error(403, "AccessDenied")))

    assert isinstance(store.put_if_absent("_log/0", b"body"), NoAnswer)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (s3_error(403, "AccessDenied"), "access is denied"),
        (s3_error(403, "SignatureDoesNotMatch"), "credentials are wrong"),
        (s3_error(403, "RequestTimeTooSkewed"), "set this machine's clock"),
        (s3_error(400, "RequestExpired"), "set this machine's clock"),
        (s3_error(401, "Unauthorized"), "credentials are wrong"),
        (s3_error(400, "ExpiredToken"), "credentials have expired"),
        (s3_error(404, "NoSuchBucket"), "bucket 'bucket' does not exist"),
    ],
)
def test_other_verbs_say_what_is_wrong_and_keep_the_secret(
    serve: Serve, answer: Answer, words: str
):
    """STO-6, STO-13."""
    store, _ = serve(always(answer))
    for call in (
        lambda: store.get("_log/0"),
        lambda: store.get_many(["_log/0", "_log/1"]),
        lambda: store.put("_log/0", b"body"),
        lambda: list(store.list_after("_log/")),
        lambda: store.delete("_log/0"),
    ):
        with pytest.raises(StoreError, match=re.escape(words)) as caught:
            call()
        assert not caught.value.retryable
        assert SECRET not in str(caught.value) + repr(caught.value) + repr(store) + store.uri


@pytest.mark.slow
@pytest.mark.parametrize("answer", [s3_error(500, "InternalError"), Answer(drop=True)])
def test_an_error_that_may_pass_is_marked_so(serve: Serve, answer: Answer):
    """STO-6."""
    store, _ = serve(always(answer))

    with pytest.raises(StoreError) as caught:
        store.size("_log/0")

    assert caught.value.retryable


def test_a_wrong_clock_is_told_to_who_creates(serve: Serve):
    """STO-6: no object was written, and the cause is not a missing permission."""
    store, _ = serve(always(s3_error(403, "RequestTimeTooSkewed")))

    reply = store.put_if_absent("_log/0", b"x")

    assert isinstance(reply, Refused)
    assert "set this machine's clock" in reply.reason
    assert "access" not in reply.reason


def test_a_wrong_checksum_is_an_answer(serve: Serve):
    """STO-6: the object is requested three times, because the network may be at fault."""
    headers = {"x-amz-checksum-crc32": "AAAAAA=="}
    store, server = serve(always(Answer(200, b"other bytes", headers)))

    for read in (lambda: store.get("_log/0"), lambda: store.get_range("_log/0", 0, 11)):
        server.seen.clear()
        with pytest.raises(StoreError, match="do not match the checksum") as caught:
            read()
        assert "no answer" not in str(caught.value)
        assert not caught.value.retryable
        assert len(server.seen) == 3


def test_a_mistake_of_the_programmer_is_not_asked_again(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
):
    """STO-6: only a body that breaks off is."""
    store, server = serve(always(Answer(200, b"body")))

    async def wrong(answer: Any, most: int) -> bytes:
        raise TypeError("a mistake")

    monkeypatch.setattr("tablefmt.store.s3_store.body_of", wrong)
    with pytest.raises(StoreError):
        store.get("_log/0")
    assert len(server.seen) == 1


class Listing:
    """Answers ListObjectsV2 for keys in an order of its own, three a page."""

    def __init__(self, keys: list[str], order: Callable[[str], Any]) -> None:
        self.keys, self.order = sorted(keys, key=order), order

    def __call__(self, index: int, request: Request) -> Answer:
        query = parse_qs(urlsplit(request.path).query)
        start = query.get("continuation-token", query.get("start-after", [""]))[0]
        keys = [
            key
            for key in (f"table/{one}" for one in self.keys)
            if key.startswith(query["prefix"][0])
            and (not start or self.order(key) > self.order(start))
        ]
        page = "".join(
            f"<Contents><Key>{quote(key)}</Key><Size>1</Size>"
            "<LastModified>2026-11-21T09:00:00.000Z</LastModified></Contents>"
            for key in keys[:3]
        )
        more = len(keys) > 3
        token = f"<NextContinuationToken>{keys[2]}</NextContinuationToken>" if more else ""
        body = (
            f"<ListBucketResult><EncodingType>url</EncodingType>{page}{token}"
            f"<IsTruncated>{str(more).lower()}</IsTruncated></ListBucketResult>"
        )
        return Answer(200, body.encode(), {"Content-Type": "application/xml"})


def test_an_object_that_is_too_long_is_not_brought(serve: Serve):
    """STO-24: the header has the length.

    The client does not wait for the bytes, which never come.
    """
    store, server = serve(always(Answer(200, b"{", length=20 << 30)))
    entry = "_log/00000000000000000007.json"
    (one, other) = store.get_many([entry, "_log/hint.json"])
    assert [length_of(each or b"") for each in (store.get(entry), one, other)] == [20 << 30] * 3
    assert len(server.seen) == 3
    with pytest.raises(StoreError, match="answered 21474836480 bytes to a request for 9 bytes"):
        store.get_range(entry, 5, 9)
    with pytest.raises(StoreError, match="Use a store that supports range requests"):
        store.get_ranges([(entry, 5, 9)])


@pytest.mark.parametrize(("length", "brought"), [(10, 10), (11, "too long"), (300, "too long")])
def test_a_body_without_a_length_is_read_up_to_the_most(length: int, brought: object) -> None:
    """STO-24."""

    class Body:
        left = length

        async def read(self, most: int) -> bytes:
            part = min(most, 3, self.left)
            self.left -= part
            return b"x" * part

    body = Body()
    read = asyncio.run(body_of({"Body": body}, 10))
    assert ("too long" if isinstance(read, TooLong) else len(read)) == brought
    assert length - body.left <= 11


def test_an_object_of_a_listing_without_a_time_has_none(serve: Serve):
    """STO-9, RET-4: a store that leaves it out is no reason for an error, nor for an age."""
    one = "<Contents><Key>table/a</Key><Size>1</Size></Contents>"
    body = f"<ListBucketResult>{one}</ListBucketResult>".encode()
    store, _ = serve(lambda index, request: Answer(200, body, {"Content-Type": "application/xml"}))
    assert list(store.list_after("")) == [StoredObject("a", 1, 0)]


def utf_16(key: str) -> list[int]:
    """Units, as Java compares text."""
    encoded = key.encode("utf-16-be")
    return [encoded[i] << 8 | encoded[i + 1] for i in range(0, len(encoded), 2)]


KEYS = [
    "a",
    "a/\ufffd",
    "a/\U0001f600",
    "a/z",
    "b",
    "\ud7ff",
    "\ue000",
    "\uff61",
    "\U00010000",
    "é",
]


@pytest.mark.parametrize("order", [str.encode, utf_16])
def test_a_listing_is_by_bytes_whatever_the_servers_order(
    serve: Serve, order: Callable[[str], Any]
):
    """STO-9: two orders are met; neither loses a key, from any key on."""
    store, _ = serve(Listing(KEYS, order))
    by_bytes = sorted(KEYS, key=str.encode)

    assert [one.key for one in store.list_after("")] == by_bytes
    assert [one.key for one in store.list_after("a/")] == ["a/z", "a/\ufffd", "a/\U0001f600"]
    for after in [*KEYS, "a/\U0001f5ff", "\ufffe", "0"]:
        expected = [key for key in by_bytes if key.encode() > after.encode()]
        assert [one.key for one in store.list_after("", after)] == expected


def test_a_listing_in_no_order_is_refused(serve: Serve):
    """STO-9: silence would lose keys, versions of a log among them."""
    store, _ = serve(Listing(["b", "a", "c"], lambda key: "cba".find(key[-1])))

    with pytest.raises(StoreError, match="the reader would miss some"):
        list(store.list_after(""))


def test_a_missing_object_is_not_a_missing_bucket(serve: Serve):
    """STO-8: both are 404."""
    store, server = serve(always(s3_error(404, "NoSuchKey")))

    with pytest.raises(KeyNotFoundError):
        store.get("_log/0")

    assert [request.method for request in server.seen] == ["GET"]


def test_the_servers_clock_is_remembered_from_good_and_bad_answers(serve: Serve):
    """STO-10."""
    answers = [
        Answer(200, headers={"Date": "Sat, 21 Nov 2026 09:00:00 GMT"}),
        Answer(412, headers={"Date": "Sat, 21 Nov 2026 09:00:07 GMT"}),
        Answer(412, headers={"Date": "nonsense"}),
    ]
    store, _ = serve(lambda index, request: answers[index])

    seen = [store.server_time_us()]
    for _ in answers:
        store.put_if_absent("_log/0", b"body")
        seen.append(store.server_time_us())

    first = 1_795_251_600_000_000
    assert seen[0] is None
    rounded = [(at or 0) // 5_000_000 * 5_000_000 for at in seen[1:]]
    assert rounded == [first, first + 5_000_000, first + 5_000_000]


def test_the_servers_clock_advances_between_requests(serve: Serve, monkeypatch: pytest.MonkeyPatch):
    """STO-10: otherwise an idle process would seem to have a fast clock, and be refused (TIM-3)."""
    date = {"Date": "Sat, 21 Nov 2026 09:00:00 GMT"}
    store, _ = serve(lambda index, request: Answer(200, headers=date))
    now = [100.0]
    monkeypatch.setattr("tablefmt.store.remote_store.elapsed", lambda: now[0])
    store.put_if_absent("_log/0", b"body")
    now[0] += 3600.5

    assert store.server_time_us() == 1_795_251_600_000_000 + 3_600_500_000


class ForgetfulBucket:
    """A store that takes If-None-Match for a header like any other."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}

    def __call__(self, index: int, request: Request) -> Answer:
        if request.method == "PUT":
            self.objects[request.path] = request.body
        elif request.method == "DELETE":
            self.objects.pop(request.path, None)
            return Answer(204)
        elif request.path in self.objects:
            return Answer(200, self.objects[request.path])
        else:
            return s3_error(404, "NoSuchKey")
        return Answer(200)


def test_the_probe_refuses_a_server_that_ignores_the_condition(serve: Serve):
    """STO-12."""
    bucket = ForgetfulBucket()
    store, _ = serve(bucket)

    with pytest.raises(UnsafeStoreError, match="overwrite each other's commits"):
        probe(store, "nonce")

    assert bucket.objects == {}
