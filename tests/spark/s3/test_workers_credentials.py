"""Credentials that only the driver's environment has, in verbs that run in Spark's workers."""

from __future__ import annotations

import contextlib
import io
import pickle
from collections.abc import Iterator
from typing import Any

import pytest

import tablefmt
import tablefmt.spark
from tablefmt.errors import CommitRejectedError, StoreError
from tablefmt.spark.backends import distributed_compaction
from tablefmt.spark.backends.arrow import arrow_backend
from tablefmt.spark.backends.python_workers import for_workers
from tablefmt.store.import_roots import folder_of
from tablefmt.store.location import open_store
from tests.s3server import S3Server
from tests.spark.conftest import UseBackend
from tests.tables import ids

MARKS = {"key": "AKIADRIVERONLY", "secret": "driver-secret", "token": "driver-token"}


@pytest.fixture(scope="module", autouse=True)
def driver_only(s3_server: S3Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Credentials and endpoint in this process's environment: Spark's JVM, which began before, and
    its workers have neither.
    """
    keys = tmp_path_factory.mktemp("aws") / "keys"
    keys.write_text("[p]\naws_access_key_id=k\naws_secret_access_key=s\n")
    with pytest.MonkeyPatch.context() as patch:
        for name in ("AWS_PROFILE", "AWS_CONFIG_FILE"):
            patch.delenv(name, raising=False)
        patch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(keys))
        patch.setenv("AWS_ENDPOINT_URL", s3_server.options["endpoint_url"])
        patch.setenv("AWS_DEFAULT_REGION", "eu-west-3")
        patch.setenv("AWS_ACCESS_KEY_ID", MARKS["key"])
        patch.setenv("AWS_SECRET_ACCESS_KEY", MARKS["secret"])
        patch.setenv("AWS_SESSION_TOKEN", MARKS["token"])
        yield


@pytest.fixture
def bucket(spark: Any, s3_server: S3Server) -> str:
    return s3_server.new_bucket()


def test_verbs_in_workers_have_what_the_driver_resolved(
    spark: Any, bucket: str, use_backend: UseBackend, caplog: pytest.LogCaptureFixture
) -> None:
    """No log, plan or description of a job has them."""
    uri = f"s3://{bucket}/table"
    caplog.set_level("DEBUG", logger="tablefmt")
    tablefmt.create(uri, "id BIGINT", properties={"deleteMode": "copy-on-write"})
    for start in (0, 10):
        tablefmt.spark.write(spark.range(start, start + 10, 1, 1), uri)
    table = tablefmt.spark.open(spark, uri)
    table.compact()
    table.delete("id % 2 = 0")
    table.cluster("id")
    assert ids(uri) == list(range(1, 20, 2))
    use_backend("arrow")
    tablefmt.spark.write(spark.range(100, 103, 1, 1), uri)
    table.update({"id": "id + 1000"}, "id = 101")
    frame = tablefmt.spark.read(spark, uri)
    expected = [*range(1, 20, 2), 100, 102, 1101]
    assert sorted(row.id for row in frame.collect()) == expected == ids(uri)
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown):
        for mode in ("extended", "formatted", "cost"):
            frame.explain(mode=mode)
    texts = {
        "plans": shown.getvalue(),
        "a plan": frame._jdf.queryExecution().logical().prettyJson(),
        "log": caplog.text,
        "store": repr(for_workers(table.table.context.store)),
    }
    found = [(where, mark) for where, t in texts.items() for mark in MARKS.values() if mark in t]
    assert found == []


def test_keys_of_a_profile_go_to_workers_too(spark: Any, bucket: str) -> None:
    uri, options = f"s3://{bucket}/table", {"profile": "p"}
    for start in (0, 10):
        frame = spark.range(start, start + 10, 1, 1)
        tablefmt.spark.write(frame, uri, storage_options=options)
    table = tablefmt.spark.open(spark, uri, storage_options=options)
    table.compact()
    assert sorted(table.table.to_arrow()["id"].to_pylist()) == list(range(20))


def test_what_workers_lack_is_said_to_be_lacking_there(
    spark: Any, bucket: str, monkeypatch: pytest.MonkeyPatch, use_backend: UseBackend
) -> None:
    """A role that the driver's machine has cannot be handed over."""
    uri = f"s3://{bucket}/table"
    for start in (0, 10):
        tablefmt.spark.write(spark.range(start, start + 10, 1, 1), uri)
    monkeypatch.setattr(distributed_compaction, "for_workers", lambda store: store)
    version = tablefmt.open(uri).version
    with pytest.raises(CommitRejectedError, match=r"in Spark's workers, .* no credentials"):
        tablefmt.spark.open(spark, uri).compact()
    monkeypatch.setattr(arrow_backend, "for_workers", lambda store: store)
    use_backend("arrow")
    with pytest.raises(StoreError, match=r"^in Spark's workers: .* no credentials"):
        tablefmt.spark.read(spark, uri).collect()
    assert tablefmt.open(uri).version == version


def test_a_table_that_allows_import_roots_hands_its_credentials_over_too(
    spark: Any, bucket: str, use_backend: UseBackend
) -> None:
    uri, options = f"s3://{bucket}/table", {"import_roots": f"s3://{bucket}/other"}
    for start in (0, 10):
        frame = spark.range(start, start + 10, 1, 1)
        tablefmt.spark.write(frame, uri, storage_options=options)
    table = tablefmt.spark.open(spark, uri, storage_options=options)
    table.compact()
    use_backend("arrow")
    read = tablefmt.spark.read(spark, uri, storage_options=options)
    assert sorted(row.id for row in read.collect()) == ids(uri) == list(range(20))


@pytest.mark.parametrize("below", ["", "/deeper"])
def test_folders_of_imported_files_open_with_the_drivers_credentials(
    bucket: str, monkeypatch: pytest.MonkeyPatch, below: str
) -> None:
    open_store(f"s3://{bucket}/other{below}").put("file", b"body")
    store = open_store(f"s3://{bucket}/table", {"import_roots": f"s3://{bucket}/other"})
    task = pickle.dumps(for_workers(store))
    for name in ("ENDPOINT_URL", "ACCESS_KEY_ID", "SECRET_ACCESS_KEY", "SESSION_TOKEN"):
        monkeypatch.delenv(f"AWS_{name}")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent")
    carried = pickle.loads(task)
    folder = folder_of(carried, f"s3://{bucket}/other{below}")
    assert folder.get("file") == b"body"
    assert all(mark not in repr(carried) + repr(folder) for mark in MARKS.values())
    with pytest.raises(StoreError, match="read-only"):
        folder.put("file", b"other")
