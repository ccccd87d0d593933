"""Storage options for S3 under the names that other libraries use. Spec: STO-27."""

from __future__ import annotations

from typing import Any

import pytest

from tablefmt.errors import StoreError
from tablefmt.store.location import open_store
from tablefmt.store.s3_clients import known_options
from tablefmt.store.s3_options import OPTIONS, s3fs_options
from tests.s3server import S3Server


def options_of(**given: Any) -> dict[str, Any]:
    return s3fs_options(given, known_options())


TRANSLATED: list[tuple[dict[str, Any], Any]] = [
    ({}, {}),
    ({"key": "k", "anon": False, "endpoint_url": None}, "same"),
    (
        {"aws_access_key_id": "k", "AWS_SECRET_ACCESS_KEY": "s", "Aws_Session_Token": "t"},
        {"key": "k", "secret": "s", "token": "t"},
    ),
    (
        {"access_key_id": "k", "secret_access_key": "s", "session_token": "t"},
        {"key": "k", "secret": "s", "token": "t"},
    ),
    ({"AWS_REGION": "r"}, {"client_kwargs": {"region_name": "r"}}),
    (
        {"aws_default_region": "r", "client_kwargs": {"verify": False}},
        {"client_kwargs": {"verify": False, "region_name": "r"}},
    ),
    (
        {"AWS_ENDPOINT_URL": "http://h:1", "aws_allow_http": "true"},
        {"endpoint_url": "http://h:1"},
    ),
    ({"endpoint": "https://h", "allow_http": False}, {"endpoint_url": "https://h"}),
    ({"aws_skip_signature": "TRUE"}, {"anon": True}),
    ({"request_payer": "requester"}, {"requester_pays": True}),
    ({"aws_conditional_put": "etag", "conditional_put": "etag"}, {}),
    ({"aws_region": None, "AWS_ENDPOINT_URL": None}, {}),
    (
        {"aws_virtual_hosted_style_request": "false", "config_kwargs": {"retries": {}}},
        {"config_kwargs": {"retries": {}, "s3": {"addressing_style": "path"}}},
    ),
    (
        {"virtual_hosted_style_request": True},
        {"config_kwargs": {"s3": {"addressing_style": "virtual"}}},
    ),
    ({"key": "k", "aws_access_key_id": "k"}, {"key": "k"}),
]


@pytest.mark.parametrize(("given", "expected"), TRANSLATED)
def test_names_of_other_libraries_are_those_of_s3fs(given: dict[str, Any], expected: Any):
    """STO-27: the caller's dict stays as it is, and a second pass changes nothing."""
    before = dict(given)
    found = options_of(**given)
    assert found == (given if expected == "same" else expected)
    assert given == before
    assert options_of(**found) == found


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"aws_acces_key_id": "canary"}, "'aws_acces_key_id'.*did you mean 'aws_access_key_id'"),
    ({"aws_regoin": "canary"}, "'aws_regoin'.*did you mean 'aws_region'"),
    ({"google_service_account": "canary"}, "'google_service_account' for S3[.;]"),
    ({"KEY": "canary"}, "'KEY' for S3"),
    ({"key": "canary", "aws_access_key_id": "other"}, "'key' and 'aws_access_key_id'"),
    (
        {"AWS_REGION": "canary", "aws_default_region": "x"},
        "'AWS_REGION' and 'aws_default_region'",
    ),
    (
        {"region": "canary", "client_kwargs": {"region_name": "x"}},
        "'client_kwargs.region_name' and 'region'",
    ),
    (
        {"secret_access_key": "canary", "client_kwargs": {"aws_secret_access_key": "x"}},
        "'client_kwargs.aws_secret_access_key' and 'secret_access_key'",
    ),
    ({"aws_skip_signature": "canary"}, "'aws_skip_signature': expected true or false"),
    ({"aws_access_key_id": 7}, "'aws_access_key_id': expected text, got int"),
    ({"aws_conditional_put": "canary"}, "'aws_conditional_put'.*If-None-Match"),
    ({"endpoint": "http://canary", "allow_http": "false"}, "'allow_http' forbids"),
    (
        {"endpoint": "http://canary", "virtual_hosted_style_request": "true"},
        "ambiguous with an endpoint",
    ),
    (
        {
            "virtual_hosted_style_request": "false",
            "config_kwargs": {"s3": {"addressing_style": "virtual"}},
        },
        "addressing_style",
    ),
]


@pytest.mark.parametrize(("given", "message"), REFUSED)
def test_wrong_options_are_refused_without_their_values(given: dict[str, Any], message: str):
    """STO-27, STO-13."""
    with pytest.raises(StoreError, match=message) as caught:
        options_of(**given)
    assert "canary" not in str(caught.value)


def test_every_name_has_one_meaning():
    """STO-27: a name of s3fs is never shadowed, unless it is the target itself."""
    assert all(to == name for name, to in OPTIONS.items() if name in known_options())
    checked = {"conditional_put", "allow_http", "virtual_hosted_style_request"}
    targets = {to.partition(".")[0] for to in OPTIONS.values()} - checked
    assert targets <= known_options()


def test_a_store_opens_by_either_name(s3_server: S3Server, s3_uri: str):
    """STO-27: both are one store, with one client."""
    by_aws = {
        "AWS_ACCESS_KEY_ID": s3_server.key,
        "aws_secret_access_key": s3_server.secret,
        "AWS_ENDPOINT_URL": s3_server.endpoint,
        "aws_region": "us-east-1",
        "aws_allow_http": "true",
    }
    one, other = open_store(s3_uri, s3_server.options), open_store(s3_uri, by_aws)
    one.put("data/x", b"x")
    assert other.get("data/x") == b"x"
    assert (other.identity, other.probe_scope) == (one.identity, one.probe_scope)
    assert other.__reduce__() == one.__reduce__()
    assert s3_server.secret not in repr(other)
