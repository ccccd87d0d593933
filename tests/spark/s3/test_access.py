"""Access by storage options, environment and profiles, and Hadoop's settings for it. No JVM."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tablefmt.spark.backends.native import s3a
from tablefmt.spark.backends.native.s3a import bucket_settings, s3_place
from tablefmt.store.location import open_store
from tablefmt.store.s3_access import S3Access, s3_access
from tests.s3server import S3Server


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No credentials but those that a test gives."""
    for name in ("ACCESS_KEY_ID", "SECRET_ACCESS_KEY", "SESSION_TOKEN", "PROFILE", "REGION"):
        monkeypatch.delenv(f"AWS_{name}", raising=False)
    for name in ("DEFAULT_REGION", "ENDPOINT_URL", "ENDPOINT_URL_S3", "DEFAULT_PROFILE"):
        monkeypatch.delenv(f"AWS_{name}", raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))


def test_nothing_given_is_left_to_the_machine() -> None:
    assert s3_access({}) == S3Access()


@pytest.mark.parametrize(
    "options",
    [
        {"key": "k", "secret": "s", "token": "t"},
        {"username": "k", "password": "s", "token": "t"},
        {
            "client_kwargs": {
                "aws_access_key_id": "k",
                "aws_secret_access_key": "s",
                "aws_session_token": "t",
            }
        },
    ],
)
def test_every_spelling_of_keys_is_understood(options: dict[str, Any]) -> None:
    found = s3_access(options)
    assert (found.credentials, found.key, found.secret, found.token) == ("keys", "k", "s", "t")
    assert found.untranslated == ()


def test_a_profile_gives_keys_region_endpoint_and_style(tmp_path: Path) -> None:
    (tmp_path / "credentials").write_text("[p]\naws_access_key_id=k\naws_secret_access_key=s\n")
    (tmp_path / "config").write_text(
        "[profile p]\nregion=eu-west-3\nendpoint_url=http://127.0.0.1:1\n"
        "s3 =\n  addressing_style = virtual\n"
    )
    assert s3_access({"profile": "p"}) == S3Access(
        endpoint="http://127.0.0.1:1",
        region="eu-west-3",
        credentials="keys",
        key="k",
        secret="s",
    )


def test_options_win_over_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "of the environment")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "s")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    assert s3_access({"key": "k", "secret": "s"}).key == "k"
    assert s3_access({"endpoint_url": "http://127.0.0.1:2/"}).endpoint == "http://127.0.0.1:2"
    assert s3_access({"anon": True}).credentials == "anonymous"
    assert s3_access({}).key == "of the environment"


@pytest.mark.parametrize(
    ("options", "path_style"),
    [
        ({}, False),
        ({"endpoint_url": "http://127.0.0.1:1"}, True),
        ({"config_kwargs": {"s3": {"addressing_style": "path"}}}, True),
        (
            {
                "endpoint_url": "http://127.0.0.1:1",
                "config_kwargs": {"s3": {"addressing_style": "virtual"}},
            },
            False,
        ),
    ],
)
def test_an_endpoint_of_its_own_is_asked_by_path(options: dict[str, Any], path_style: bool) -> None:
    assert s3_access(options).path_style is path_style


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ({"s3_additional_kwargs": {"ACL": "private"}}, ("s3_additional_kwargs",)),
        ({"client_kwargs": {"verify": False}}, ("client_kwargs.verify",)),
        ({"config_kwargs": {"proxies": {}}}, ("config_kwargs.proxies",)),
        ({"config_kwargs": {"s3": {"use_accelerate_endpoint": True}}},
         ("config_kwargs.s3.use_accelerate_endpoint",)),
        ({"version_aware": True, "use_ssl": False}, ("use_ssl", "version_aware")),
        ({"max_concurrency": 3, "config_kwargs": {"read_timeout": 5}, "version_aware": False}, ()),
    ],
)  # fmt: skip
def test_what_has_no_counterpart_is_named(options: dict[str, Any], names: tuple[str, ...]) -> None:
    assert s3_access(options).untranslated == names


def test_settings_are_all_of_the_bucket() -> None:
    access = S3Access(
        endpoint="http://127.0.0.1:1",
        path_style=True,
        credentials="keys",
        key="k",
        secret="s",
        token="t",
    )
    settings = bucket_settings("b.c", access)
    prefix = "fs.s3a.bucket.b.c."
    assert all(name.startswith(prefix) for name in settings)
    plain = {name[len(prefix) :]: value for name, value in settings.items()}
    assert plain == {
        "endpoint": "http://127.0.0.1:1",
        "endpoint.region": "us-east-1",
        "path.style.access": "true",
        "connection.ssl.enabled": "false",
        "access.key": "k",
        "secret.key": "s",
        "session.token": "t",
        "aws.credentials.provider": "org.apache.hadoop.fs.s3a.TemporaryAWSCredentialsProvider",
        "committer.magic.enabled": "true",
        "committer.magic.track.commits.in.memory.enabled": "false",
        "performance.flags": "delete",
        "directory.operations.purge.uploads": "true",
    }
    ambient = bucket_settings("b", S3Access())
    assert not [name for name in ambient if "provider" in name or "key" in name or "endpo" in name]


def test_a_scheme_stands_for_one_set_of_settings() -> None:
    def scheme(bucket: str, **options: Any) -> str:
        return s3_place(open_store(f"s3://{bucket}/t", options)).scheme

    one = scheme("bucket", key="k", secret="s")
    assert one == scheme("bucket", key="k", secret="s")
    others = {
        scheme("bucket", key="k", secret="t"),
        scheme("bucket", key="k", secret="s", endpoint_url="http://127.0.0.1:1"),
        scheme("other-bucket", key="k", secret="s"),
        scheme("bucket"),
    }
    assert len(others | {one}) == 5


def test_no_repr_shows_a_secret() -> None:
    store = open_store("s3://bucket/t", {"key": "hidden-k", "secret": "hidden-s"})
    place = s3_place(store)
    assert "hidden-s" in place.settings.values()
    assert "hidden" not in repr(place) + repr(s3_access({"key": "hidden-k", "secret": "hidden-s"}))


def test_uploads_are_given_up_by_the_notes_of_the_committer(s3_server: S3Server) -> None:
    """ADD-5: uploads are aborted by key and id, for servers that list one exact key."""
    bucket = s3_server.new_bucket()
    client, root = s3_server.client(), "a table/50%41: ünïcode"
    store = open_store(f"s3://{bucket}/{root}", s3_server.options)
    names = ["data/t/a.parquet", "data/t/p=1/b.parquet", "data/t/c.parquet", "data/u/d.parquet"]
    begun = {}
    for name in names:
        key = f"{root}/{name}"
        upload = client.create_multipart_upload(Bucket=bucket, Key=key)["UploadId"]
        begun[name] = {"destinationKey": key, "uploadId": upload}
    job = "data/t/__magic_job-1/job-1/00"
    both = {"commits": [begun[names[0]], begun[names[1]]]}
    store.put(f"{job}/task_1.pendingset", json.dumps(both).encode())
    store.put(f"{job}/task_2.pendingset", json.dumps({"commits": []}).encode())
    store.put(f"{job}/tasks/3/__base/c.parquet.pending", json.dumps(begun[names[2]]).encode())
    store.put("data/t/not.a.note.pending", b"rows")

    s3a.abort_uploads(store, "data/t/")

    left = client.list_multipart_uploads(Bucket=bucket)["Uploads"]
    assert [one["Key"] for one in left] == [f"{root}/data/u/d.parquet"]
    keys = [one.key for one in store.list_after("data/")]
    assert s3a.magic_folders("data/t/", keys) == {"data/t/__magic_job-1"}
    assert s3a.magic_folders("data/t/", ["data/t/__magic=1/x", "data/t/x/__magic"]) == set()
