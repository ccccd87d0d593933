"""Hadoop's settings for tables on Azure. The soak opens tables with them."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from azure.core.exceptions import HttpResponseError

from tablefmt.errors import StoreError, UnsupportedFeatureError
from tablefmt.spark.backends.backend_choice import backend_for, choose
from tablefmt.spark.backends.native import azure_connector
from tablefmt.spark.backends.native.azure_connector import AzurePlace, azure_place, place_for
from tablefmt.spark.backends.native.file_system_schemes import scheme_for
from tablefmt.spark.backends.native.hadoop_root import hadoop_root
from tablefmt.store import azure_store
from tablefmt.store.azure_store import AzureStore
from tablefmt.store.location import open_store
from tablefmt.store.store_traits import AzureAccess

URL = "https://mine.blob.core.windows.net"
HADOOP = "org.apache.hadoop.fs.azurebfs."
TOKENS = HADOOP + "oauth2."
ACCOUNT = {"azure_storage_account_name": "mine"}


@pytest.fixture(autouse=True)
def no_login(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AZURE_TENANT_ID", "AZURE_CLIENT_ID", "AZURE_CLIENT_SECRET"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(azure_store, "_hierarchical", {})


def place(
    options: dict[str, Any],
    endpoint: str = URL,
    hierarchical: bool = False,
    session: dict[str, str] | None = None,
) -> AzurePlace:
    found = place_for("lake", endpoint, options, session or {}, hierarchical=hierarchical)
    assert isinstance(found, AzurePlace)
    return found


def test_a_flat_account_is_opened_by_its_blob_api() -> None:
    found = place({"key": "hidden"})
    assert found.authority == "lake@mine.blob.core.windows.net"
    assert found.settings == {
        "fs.azure.networking.library": "JDK_HTTP_URL_CONNECTION",
        "fs.azure.always.use.https": "true",
        "fs.azure.account.auth.type.mine.blob.core.windows.net": "SharedKey",
        "fs.azure.account.key.mine.blob.core.windows.net": "hidden",
        "fs.azure.account.hns.enabled": "false",
        "fs.azure.fns.account.service.type": "BLOB",
        f"fs.{found.scheme}.impl": HADOOP + "SecureAzureBlobFileSystem",
    }
    assert "hidden" not in repr(found)


def test_a_hierarchical_account_is_opened_by_its_dfs_api() -> None:
    """With the Blob API, the connector would refuse it."""
    found = place({"key": "hidden"}, hierarchical=True)
    assert found.authority == "lake@mine.dfs.core.windows.net"
    assert found.settings == {
        "fs.azure.networking.library": "JDK_HTTP_URL_CONNECTION",
        "fs.azure.always.use.https": "true",
        "fs.azure.account.auth.type.mine.dfs.core.windows.net": "SharedKey",
        "fs.azure.account.key.mine.dfs.core.windows.net": "hidden",
        "fs.azure.account.hns.enabled": "true",
        f"fs.{found.scheme}.impl": HADOOP + "SecureAzureBlobFileSystem",
    }


def test_an_emulator_is_opened_at_its_port() -> None:
    found = place({"key": "k"}, "http://127.0.0.1:10000/devstoreaccount1")
    assert found.authority == "lake@devstoreaccount1.dfs.core.windows.net"
    assert found.settings["fs.azure.abfs.endpoint"] == "127.0.0.1:10000"
    assert found.settings["fs.azure.always.use.https"] == "false"
    assert found.settings[f"fs.{found.scheme}.impl"] == HADOOP + "AzureBlobFileSystem"


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (
            {"sas": "?sv=1&sig=s"},
            {
                "account.auth.type": "SAS",
                "sas.fixed.token": "sv=1&sig=s",
                "sas.fixed.token.lake": "sv=1&sig=s",
            },
        ),
        (
            {"client_id": "i", "client_secret": "s", "tenant_id": "t"},
            {
                "account.auth.type": "OAuth",
                "account.oauth.provider.type": TOKENS + "ClientCredsTokenProvider",
                "account.oauth2.client.endpoint": "https://login.microsoftonline.com/t/oauth2/token",
                "account.oauth2.client.id": "i",
                "account.oauth2.client.secret": "s",
            },
        ),
        (
            {"client_id": "i"},
            {
                "account.auth.type": "OAuth",
                "account.oauth.provider.type": TOKENS + "MsiTokenProvider",
                "account.oauth2.client.id": "i",
            },
        ),
    ],
)
def test_a_login_goes_to_hadoop(options: dict[str, Any], expected: dict[str, str]) -> None:
    end = ".mine.blob.core.windows.net"
    found = place(options).settings
    login = {k.removesuffix(end): v for k, v in found.items() if k.endswith(end)}
    assert {k.removeprefix("fs.azure."): v for k, v in login.items()} == expected


@pytest.mark.parametrize(
    "name",
    [
        "fs.azure.account.auth.type",
        "fs.azure.account.auth.type.mine.blob.core.windows.net",
        "fs.azure.account.key.mine.blob.core.windows.net",
    ],
)
def test_the_session_may_have_the_login(name: str) -> None:
    with_session = place({}, session={name: "SharedKey"})
    assert not [name for name in with_session.settings if "auth.type" in name]


def test_a_login_of_another_account_is_none() -> None:
    """Hadoop would fail where Arrow does not."""
    session = {"fs.azure.account.key.other.blob.core.windows.net": "hidden"}
    found = place_for("lake", URL, {}, session, hierarchical=False)
    assert "the Spark session has none for Hadoop" in str(found)


def test_a_login_of_the_session_is_for_one_kind_of_account(with_jar: dict[str, str]) -> None:
    with_jar["fs.azure.account.key.mine.dfs.core.windows.net"] = "hidden"
    store = open_store("az://lake/t", ACCOUNT)
    with_jar[azure_connector.NAMESPACE] = "false"
    assert "has none for Hadoop" in str(azure_place(None, store))  # type: ignore[arg-type]
    with_jar[azure_connector.NAMESPACE] = "true"
    assert isinstance(azure_place(None, store), AzurePlace)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("options", "endpoint", "said"),
    [
        ({"token": "hidden"}, URL, "takes no token"),
        ({"anonymous": True}, URL, "no anonymous requests"),
        ({}, URL, "no storage option has a login"),
        ({"client_secret": "hidden", "client_id": "i"}, URL, "azure_storage_tenant_id"),
        ({"key": "hidden"}, "https://lake.example.org", "the endpoint of this table is another"),
        ({"key": "hidden"}, f"{URL}:8443", "the endpoint of this table is another"),
    ],
)
def test_what_hadoop_cannot_open_is_named(
    options: dict[str, Any], endpoint: str, said: str
) -> None:
    found = place_for("lake", endpoint, options, {}, hierarchical=False)
    assert isinstance(found, str)
    assert said in found
    assert "hidden" not in found


def test_two_logins_have_two_schemes() -> None:
    """Hadoop would keep the first one's file system."""
    assert place({"key": "a"}).scheme == place({"key": "a"}).scheme != place({"key": "b"}).scheme
    one = scheme_for("abfs", "c@h", {"x": "1", "y": "2"})
    assert re.fullmatch("abfs-[0-9a-f]{10}", one)
    assert one == scheme_for("abfs", "c@h", {"y": "2", "x": "1"})
    assert one != scheme_for("abfs", "d@h", {"x": "1", "y": "2"})


def asked(monkeypatch: pytest.MonkeyPatch, answer: Any) -> list[int]:
    """Let the account answer, and return the list of questions."""
    questions: list[int] = []

    def ask() -> Any:
        questions.append(1)
        if isinstance(answer, Exception):
            raise answer
        return answer

    client = SimpleNamespace(get_account_information=ask)
    monkeypatch.setattr(AzureStore, "_client", lambda self: client)
    return questions


@pytest.mark.parametrize(
    ("answer", "expected"), [({"is_hns_enabled": True}, True), ({"is_hns_enabled": None}, False)]
)
def test_the_account_is_asked_once(
    monkeypatch: pytest.MonkeyPatch, answer: dict[str, Any], expected: bool
) -> None:
    questions = asked(monkeypatch, answer)
    for _ in range(2):
        access = open_store(
            "az://lake/t", {**ACCOUNT, "azure_storage_account_key": "aw=="}
        ).access()
        assert isinstance(access, AzureAccess)
        assert access.hierarchical() is expected
    assert len(questions) == 1


def test_a_login_that_may_not_ask_asks_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    questions = asked(monkeypatch, {"is_hns_enabled": True})
    access = open_store("az://lake/t", {**ACCOUNT, "azure_storage_client_id": "i"}).access()
    assert isinstance(access, AzureAccess)
    assert access.hierarchical() is None
    assert questions == []


@pytest.fixture
def with_jar(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """A session that has the connector's classes. The result is its Hadoop settings."""
    session: dict[str, str] = {}
    monkeypatch.setattr(azure_connector, "has_classes", lambda spark, names: True)
    monkeypatch.setattr(azure_connector, "_session_settings", lambda spark: session)
    return session


def test_the_session_may_say_the_kind_of_the_account(
    monkeypatch: pytest.MonkeyPatch, with_jar: dict[str, str]
) -> None:
    login = {"azure_storage_client_id": "i"}
    store = open_store("abfss://lake@mine.dfs.core.windows.net/t", login)
    assert azure_place(None, store) == azure_connector.NO_NAMESPACE  # type: ignore[arg-type]
    with_jar[azure_connector.NAMESPACE] = "true"
    found = azure_place(None, store)  # type: ignore[arg-type]
    assert isinstance(found, AzurePlace)
    assert found.authority == "lake@mine.dfs.core.windows.net"


def test_an_account_that_gives_no_answer_is_no_error(
    monkeypatch: pytest.MonkeyPatch, with_jar: dict[str, str]
) -> None:
    """The Arrow backend may still open the table, or says what is wrong."""
    answer = HttpResponseError(response=SimpleNamespace(status_code=403, reason="no", headers={}))
    asked(monkeypatch, answer)
    store = open_store("az://lake/t", {**ACCOUNT, "azure_storage_account_key": "aw=="})
    access = store.access()
    assert isinstance(access, AzureAccess)
    with pytest.raises(StoreError):
        access.hierarchical()
    assert azure_place(None, store) == azure_connector.NO_NAMESPACE  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("uri", "jar"),
    [
        ("abfss://lake@mine.dfs.core.windows.net/t", "org.apache.hadoop:hadoop-azure"),
        ("gs://bucket/t", "com.google.cloud.bigdataoss:gcs-connector"),
    ],
)
def test_spark_says_that_a_jar_is_missing(
    spark: Any,
    uri: str,
    jar: str,
    use_backend: Callable[..., None],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Once for each table, as a warning; and as an error if native was asked for."""
    options = {"azure_storage_account_key": "aGlkZGVu"} if uri.startswith("abfss") else {}
    store = open_store(uri, options)
    with caplog.at_level(logging.INFO, "tablefmt.spark"):
        for _ in range(2):
            backend_for(spark, store)
    (record,) = [r for r in caplog.records if uri in r.getMessage()]
    assert record.levelno == logging.WARNING
    assert "goes through Arrow, not Spark's own files" in record.getMessage()
    assert jar in record.getMessage()
    with pytest.raises(UnsupportedFeatureError, match=jar):
        hadoop_root(spark, store)
    use_backend("native")
    with pytest.raises(UnsupportedFeatureError, match=jar):
        choose(spark, store)
