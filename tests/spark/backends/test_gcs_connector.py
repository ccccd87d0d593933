"""Hadoop's settings for tables on Google Cloud Storage. The soak opens tables with them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tablefmt.spark.backends.native.gcs_connector import gcs_settings
from tablefmt.store.location import open_store

ACCOUNT = {
    "type": "service_account",
    "client_email": "robot@p.iam.gserviceaccount.com",
    "private_key_id": "id",
    "private_key": "hidden",
    "token_uri": "http://127.0.0.1:1/token",
}
EMULATOR = {"endpoint": "http://127.0.0.1:1"}


@pytest.fixture(autouse=True)
def no_login(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GOOGLE_APPLICATION_CREDENTIALS", raising=False)
    monkeypatch.setenv("CLOUDSDK_CONFIG", "/nonexistent")


def auth(options: dict[str, Any]) -> dict[str, str] | str:
    """Return the settings of credentials, without `fs.gs.`."""
    settings = gcs_settings(open_store("gs://b/t", options))
    if isinstance(settings, str):
        return settings
    endpoint = options.get("endpoint", "https://storage.googleapis.com")
    assert settings["fs.gs.storage.root.url"] == f"{endpoint}/"
    named = {name.removeprefix("fs.gs."): value for name, value in settings.items()}
    return {name: value for name, value in named.items() if name.startswith(("auth", "token"))}


def test_a_key_goes_to_hadoop() -> None:
    service = "auth.service.account"
    assert auth({"google_service_account_key": json.dumps(ACCOUNT)}) == {
        f"{service}.enable": "true",
        f"{service}.email": ACCOUNT["client_email"],
        f"{service}.private.key.id": "id",
        f"{service}.private.key": "hidden",
        "token.server.url": ACCOUNT["token_uri"],
    }


def test_without_a_login_the_session_and_the_machine_decide() -> None:
    """But an endpoint without TLS gets no credentials that the caller did not give (STO-27)."""
    nothing = {"auth.service.account.enable": "false", "auth.null.enable": "true"}
    assert auth({}) == {}
    assert auth({"google_skip_signature": True}) == nothing
    assert auth(EMULATOR) == nothing


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"token": "t"}, "takes no token"),
        ({"google_service_account_key": json.dumps({"type": "authorized_user"})}, "no other login"),
        ({"google_service_account_key": "no JSON"}, "no other login"),
    ],
)
def test_a_login_that_hadoop_cannot_do_is_named(options: dict[str, Any], said: str) -> None:
    assert said in str(auth(options))
