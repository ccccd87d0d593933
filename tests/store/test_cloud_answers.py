"""Reactions of the stores of Google and Azure to every kind of answer, over real HTTP."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from tablefmt.errors import StoreError, UnsupportedFeatureError
from tablefmt.store import azure_store, cloud_store, gcs_store
from tablefmt.store.location import open_store, scheme_of
from tablefmt.store.object_store import (
    Exists,
    KeyNotFoundError,
    NoAnswer,
    Refused,
    Store,
    TooLong,
    Written,
)
from tablefmt.store.object_store import Request as Kind
from tests.store.scripted_server import Answer, Request, ScriptedServer

KEY = "Y2FuYXJ5LXNlY3JldC0wMTIzNDU2Nzg5"
CLOUDS = ("gs", "az")
Script = Callable[[int, Request], Answer]


@pytest.fixture(scope="module")
def server() -> Iterator[ScriptedServer]:
    server = ScriptedServer(lambda index, request: Answer())
    yield server
    server.close()


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cloud_store, "_WAIT_SECONDS", (0, 0))
    gcs_store._FOUND.clear()


def serve(server: ScriptedServer, cloud: str, script: Script, timeout: float = 5) -> Store:
    server.play(script)
    options: dict[str, Any] = {"endpoint": server.endpoint, "timeout": timeout}
    if cloud == "gs":
        options["google_bearer_token"] = KEY
    else:
        options.update(account_name="account", account_key=KEY)
    return open_store(f"{cloud}://place/table", options)


def error(cloud: str, status: int, code: str = "") -> Answer:
    if cloud == "gs":
        body = {"error": {"code": status, "errors": [{"reason": code}], "message": KEY}}
        return Answer(status, json.dumps(body).encode(), {"Content-Type": "application/json"})
    text = f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>{KEY}</Message></Error>"
    head = {"Content-Type": "application/xml", "x-ms-error-code": code}
    return Answer(status, text.encode(), head)


GOOD = {"gs": Answer(200, b"{}"), "az": Answer(201, b"", {"ETag": '"1"'})}


@pytest.mark.parametrize(
    ("cloud", "status", "code", "kind"),
    [
        ("gs", 412, "conditionNotMet", Exists),
        ("gs", 409, "conflict", NoAnswer),
        ("gs", 404, "notFound", Refused),
        ("gs", 400, "invalid", Refused),
        ("gs", 403, "forbidden", Refused),
        ("gs", 301, "", Refused),
        ("gs", 501, "notImplemented", Refused),
        ("az", 409, "BlobAlreadyExists", Exists),
        ("az", 412, "LeaseIdMissing", Exists),
        ("az", 403, "UnauthorizedBlobOverwrite", Exists),
        ("az", 409, "BlobImmutableDueToPolicy", Exists),
        ("az", 409, "ContainerBeingDeleted", NoAnswer),
        ("az", 404, "ContainerNotFound", Refused),
        ("az", 400, "InvalidInput", Refused),
        ("az", 403, "AuthenticationFailed", Refused),
        *((cloud, status, "", NoAnswer) for cloud in CLOUDS for status in (408, 429, 500, 502)),
        *((cloud, status, "", NoAnswer) for cloud in CLOUDS for status in (503, 504)),
    ],
)
def test_a_create_is_sent_once_and_its_answer_is_read(
    server: ScriptedServer, cloud: str, status: int, code: str, kind: type
):
    """STO-4 .. STO-6: by status and code, never by text."""
    store = serve(server, cloud, lambda index, request: error(cloud, status, code))
    reply = store.put_if_absent("_log/0", b"body")
    assert type(reply) is kind
    assert KEY not in repr(reply)
    assert len(server.seen) == 1


@pytest.mark.parametrize("cloud", CLOUDS)
def test_a_create_is_conditional_with_any_body(server: ScriptedServer, cloud: str):
    """STO-3."""
    store = serve(server, cloud, lambda index, request: GOOD[cloud])
    for body in (b"", b"x", b"y" * 300_000):
        assert store.put_if_absent("_log/0", body) == Written()
    assert [one.body for one in server.seen] == [b"", b"x", b"y" * 300_000]
    for one in server.seen:
        if cloud == "gs":
            assert one.method == "POST"
            query = parse_qs(urlsplit(one.path).query)
            assert (query["ifGenerationMatch"], query["name"]) == (["0"], ["table/_log/0"])
        else:
            assert (one.method, one.headers["If-None-Match"]) == ("PUT", "*")
    assert store.tally.sums()[Kind.PUT] == 3


@pytest.mark.slow
@pytest.mark.parametrize("cloud", CLOUDS)
@pytest.mark.parametrize("answer", [Answer(drop=True), Answer(hang=1.5)])
def test_a_create_without_an_answer_is_unknown(server: ScriptedServer, cloud: str, answer: Answer):
    """STO-5: the create is sent once."""
    store = serve(server, cloud, lambda index, request: answer, timeout=0.5)
    assert isinstance(store.put_if_absent("_log/0", b"x"), NoAnswer)
    assert len(server.seen) == 1


@pytest.mark.parametrize("cloud", CLOUDS)
def test_other_requests_are_sent_three_times(server: ScriptedServer, cloud: str):
    """STO-6: each is counted, and the error may succeed later."""
    store = serve(server, cloud, lambda index, request: error(cloud, 503, "ServerBusy"))
    for work in (
        lambda: store.get("a"),
        lambda: store.put("a", b"x"),
        lambda: store.delete("a"),
        lambda: list(store.list_after("")),
    ):
        server.seen.clear()
        with pytest.raises(StoreError, match="slow down") as caught:
            work()
        assert caught.value.retryable
        assert KEY not in str(caught.value)
        assert len(server.seen) == 3
    assert store.tally.sums() == {Kind.PUT: 3, Kind.GET: 3, Kind.DELETE: 3, Kind.LIST: 3}


def test_an_absent_object_of_azure_is_told_from_an_absent_container(server: ScriptedServer):
    """STO-8."""
    store = serve(server, "az", lambda index, request: error("az", 404, "BlobNotFound"))
    with pytest.raises(KeyNotFoundError):
        store.get("a")
    assert store.get_many(["a", "b"]) == [None, None]
    store.delete("a")
    store = serve(server, "az", lambda index, request: error("az", 404, "ContainerNotFound"))
    for work in (lambda: store.get("a"), lambda: store.size("a"), lambda: store.delete("a")):
        with pytest.raises(StoreError, match="container 'place' does not exist"):
            work()


def test_an_absent_object_of_google_is_told_from_an_absent_bucket(server: ScriptedServer):
    """STO-8: both say notFound, so one listing decides, once."""

    def absent(index: int, request: Request) -> Answer:
        return error("gs", 404, "notFound")

    def absent_object(index: int, request: Request) -> Answer:
        listing = urlsplit(request.path).path.endswith("/o")
        return GOOD["gs"] if listing else error("gs", 404, "notFound")

    store = serve(server, "gs", absent)
    with pytest.raises(StoreError, match="bucket 'place' does not exist"):
        store.get("a")
    store = serve(server, "gs", absent_object)
    for _ in range(3):
        with pytest.raises(KeyNotFoundError):
            store.get("a")
    assert len(server.seen) == 4
    assert store.tally.sums()[Kind.LIST] == 1
    gcs_store._FOUND.clear()
    store = serve(
        server, "gs", lambda index, request: error("gs", 404 if "/o/" in request.path else 403)
    )
    with pytest.raises(StoreError, match="access is denied"):
        store.get("a")


@pytest.mark.parametrize("cloud", CLOUDS)
def test_an_object_that_is_too_long_is_not_kept(server: ScriptedServer, cloud: str):
    """STO-24: the length is in the header, and Azure is asked for no more than the limit."""
    head = {"Content-Range": "bytes 0-4095/70000000000", "ETag": '"1"'}
    answer = {"gs": Answer(200, b"x" * 10, length=70_000_000_000), "az": None}[cloud]
    answer = answer or Answer(206, b"x" * 4096, head)
    store = serve(server, cloud, lambda index, request: answer)
    body = store.get("_log/hint.json")
    assert isinstance(body, TooLong)
    assert body.length == 70_000_000_000
    if cloud == "az":
        ranges = [
            value for name, value in server.seen[0].headers.items() if "range" in name.lower()
        ]
        assert "bytes=0-4095" in ranges


@pytest.mark.parametrize("cloud", CLOUDS)
def test_the_clock_is_that_of_the_last_answer(server: ScriptedServer, cloud: str):
    """STO-10: a refusal has a date too."""
    head = {"Date": "Thu, 01 Jan 2026 00:00:00 GMT"}
    refusal = error(cloud, 403, "x")
    answer = Answer(403, refusal.body, {**refusal.headers, **head})
    store = serve(server, cloud, lambda index, request: answer)
    assert store.server_time_us() is None
    assert isinstance(store.put_if_absent("_log/0", b"x"), Refused)
    assert 0 <= store.clock_us() - 1_767_225_600_000_000 < 5_000_000


@pytest.mark.parametrize(
    ("spellings", "uri", "kind"),
    [
        (("gs://b/t/", "gcs://b//t"), "gs://b/t", "gs"),
        (
            (
                "abfss://c@acc.dfs.core.windows.net/t",
                "abfs://c@ACC.dfs.core.windows.net/t/",
                "abfss://c@acc.blob.core.windows.net/t",
                "az://c/t",
            ),
            "abfss://c@acc.dfs.core.windows.net/t",
            "az",
        ),
    ],
)
def test_spellings_of_one_place_are_one(
    spellings: tuple[str, ...], uri: str, kind: str, monkeypatch: pytest.MonkeyPatch
):
    """STO-11."""
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", "acc")
    stores = [open_store(one) for one in spellings]
    assert {store.uri for store in stores} == {uri}
    assert len({store.identity for store in stores}) == 1
    assert {scheme_of(one) for one in spellings} == {kind}
    again = pickle.loads(pickle.dumps(stores[0]))
    assert (again.uri, again.identity) == (stores[0].uri, stores[0].identity)


@pytest.mark.parametrize(
    ("uri", "options", "said"),
    [
        ("gs://b/t", {"google_service_acount": "x"}, "did you mean 'google_service_account'"),
        ("gs://b/t", {"google_service_account": "x", "token": "y"}, "two ways to log in"),
        ("gs://b/t", {"service_account": "x", "google_service_account": "y"}, "have one meaning"),
        ("gs://b/t", {"endpoint": "http://h", "allow_http": "false"}, "forbids"),
        ("gs://b/t", {"timeout": 0}, "expected seconds"),
        ("gs://b/t", {"anon": "perhaps"}, "expected true or false"),
        ("gs://u:s@b/t", {}, "invalid Google Cloud Storage address"),
        ("az://c/t", {"azure_storage_acount_name": "x"}, "did you mean 'azure_storage_account_n"),
        ("az://c/t", {"account_key": "x", "sas_token": "y"}, "two ways to log in"),
        ("az://c/t", {}, "no Azure account is given"),
        ("az://c/t", {"connection_string": "AccountKey=x"}, "neither AccountName"),
        ("az://c/t", {"account_name": 3}, "expected text"),
        ("abfss://c@acc.dfs.core.windows.net/t", {"account_name": "other"}, "Use one account"),
        ("abfss://c:secret@acc/t", {}, "invalid Azure address"),
    ],
)
def test_bad_options_and_addresses_are_refused(
    uri: str, options: dict[str, Any], said: str, monkeypatch: pytest.MonkeyPatch
):
    """STO-11, STO-13, STO-27."""
    for name in ("AZURE_STORAGE_ACCOUNT_NAME", "AZURE_STORAGE_ACCOUNT"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(StoreError, match=said):
        open_store(uri, options)


@pytest.mark.parametrize(
    ("module", "uri", "extra"),
    [(gcs_store, "gs://b/t", "gcs"), (azure_store, "az://c/t", "azure")],
)
def test_a_missing_extra_is_named(
    module: Any, uri: str, extra: str, monkeypatch: pytest.MonkeyPatch
):
    """STO-11."""
    monkeypatch.setattr(module, "requests", None)
    with pytest.raises(UnsupportedFeatureError, match=rf"tablefmt\[{extra}\]"):
        open_store(uri)


def test_a_connection_string_is_read(server: ScriptedServer):
    """STO-27: its parts are the account, its key and its address."""
    text = f"AccountName=acc;AccountKey={KEY};BlobEndpoint={server.endpoint}/acc;"
    server.play(lambda index, request: GOOD["az"])
    store = open_store("az://c/t", {"azure_storage_connection_string": text})
    assert store.put_if_absent("_log/0", b"x") == Written()
    one = server.seen[0]
    assert urlsplit(one.path).path == "/acc/c/t/_log/0"
    assert one.headers["Authorization"].startswith("SharedKey acc:")
    carried = pickle.loads(pickle.dumps(store.with_credentials()))
    assert (carried.identity, carried.put_if_absent("_log/1", b"x")) == (store.identity, Written())
    assert server.seen[1].headers["Authorization"].startswith("SharedKey acc:")
    assert KEY not in repr(store) + store.uri + store.identity


def test_an_endpoint_without_tls_gets_no_credentials_of_the_environment(
    server: ScriptedServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
):
    """STO-13: a .netrc file neither."""
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", server.endpoint.removeprefix("http://"))
    netrc = tmp_path / "netrc"
    netrc.write_text(f"machine 127.0.0.1 login x password {KEY}\n")
    netrc.chmod(0o600)
    monkeypatch.setenv("NETRC", str(netrc))
    server.play(lambda index, request: GOOD["gs"])
    assert open_store("gs://b/t").put_if_absent("_log/0", b"x") == Written()
    assert "authorization" not in {name.lower() for name in server.seen[0].headers}


def _account(token_uri: str) -> str:
    """Return a file of a service account: its tokens come from `token_uri`."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8)
    pem = key.private_bytes(*form, serialization.NoEncryption()).decode()
    return json.dumps(
        {
            "type": "service_account",
            "client_email": "robot@p.iam.gserviceaccount.com",
            "private_key": pem,
            "token_uri": token_uri,
        }
    )


def test_a_file_of_google_credentials_is_carried_as_its_text(
    server: ScriptedServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    """STO-13: another machine has neither the file nor the variable; no repr shows the key."""
    path = tmp_path / "robot.json"
    path.write_text(_account(f"{server.endpoint}/token"))

    def script(index: int, request: Request) -> Answer:
        token = b'{"access_token": "ticket", "expires_in": 3600, "token_type": "Bearer"}'
        of_token = request.path == "/token"
        return Answer(200, token, {"Content-Type": "application/json"}) if of_token else GOOD["gs"]

    server.play(script)
    options = {"endpoint": server.endpoint, "google_service_account": str(path)}
    carried = open_store("gs://b/t", options).with_credentials()
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(path))
    by_variable = open_store("gs://b/t").portable_options()
    assert list(by_variable.values()) == [path.read_text()]
    # A stranger's endpoint gets no credentials of the environment, on any machine.
    assert set(open_store("gs://b/t", {"endpoint": server.endpoint}).portable_options()) == {
        "google_base_url"
    }
    path.unlink()
    monkeypatch.delenv("GOOGLE_APPLICATION_CREDENTIALS")
    there = pickle.loads(pickle.dumps(carried))
    assert there.put_if_absent("_log/0", b"x") == Written()
    sent = {name.lower(): value for name, value in server.seen[-1].headers.items()}
    assert sent["authorization"] == "Bearer ticket"
    shown = repr(there) + repr(there.access()) + there.uri + there.identity
    assert "PRIVATE" not in shown
    with pytest.raises(StoreError, match="cannot be read"):
        open_store("gs://b/t", options).with_credentials()


def test_a_client_of_azure_is_carried(monkeypatch: pytest.MonkeyPatch):
    """STO-13: with the variables that azure-identity reads; a key has priority."""
    for name in ("TENANT_ID", "CLIENT_ID", "CLIENT_SECRET"):
        monkeypatch.setenv(f"AZURE_{name}", name)
    uri = "abfss://c@acc.dfs.core.windows.net/t"
    carried = open_store(uri).portable_options()
    assert sorted(carried.values()) == ["CLIENT_ID", "CLIENT_SECRET", "TENANT_ID"]
    assert open_store(uri, carried).portable_options() == carried
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", KEY)
    assert list(open_store(uri).portable_options().values()) == [KEY]


def test_two_sets_of_options_are_two_ways_to_a_bucket():
    """Spark keeps a table's log by its place and by how it is reached."""
    for uri, name in (("gs://b/t", "token"), ("abfss://c@acc.dfs.core.windows.net/t", "sas_token")):
        one, same, other = (open_store(uri, {name: value}) for value in ("x", "x", "y"))
        assert (one.identity, one.access()) == (same.identity, same.access())
        assert (one.identity, hash(one.access())) == (other.identity, hash(one.access()))
        assert one.access() != other.access()
