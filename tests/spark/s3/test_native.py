"""Spark reads and writes tables on S3 itself: what it asks for, what stays, who signs."""

from __future__ import annotations

import contextlib
import io
import logging
from typing import Any
from urllib.parse import unquote

import pytest

import tablefmt
import tablefmt.spark
from tablefmt.errors import UnsupportedFeatureError
from tablefmt.spark.backends import backend_choice
from tablefmt.spark.backends.backend_choice import backend_for, choose
from tablefmt.spark.backends.native import s3a
from tablefmt.store.location import open_store
from tests.s3server import S3Server
from tests.spark.s3.cluster_job import failing_once


@pytest.fixture
def root(s3_server: S3Server) -> str:
    return f"s3://{s3_server.new_bucket()}/a table/50%41: ünïcode"


@pytest.fixture
def options(s3_server: S3Server) -> dict[str, Any]:
    return s3_server.options


def keys(server: S3Server, uri: str) -> list[str]:
    """Every key of the bucket, below the table's root."""
    bucket, _, prefix = uri.removeprefix("s3://").partition("/")
    found = server.client().list_objects_v2(Bucket=bucket).get("Contents", [])
    assert all(one["Key"].startswith(f"{prefix}/") for one in found)
    return sorted(one["Key"][len(prefix) + 1 :] for one in found)


def uploads(server: S3Server, uri: str) -> list[Any]:
    bucket = uri.removeprefix("s3://").partition("/")[0]
    found: list[Any] = server.client().list_multipart_uploads(Bucket=bucket).get("Uploads", [])
    return found


def data_files(uri: str, options: dict[str, Any]) -> set[str]:
    """Files of every version, as the log names them."""
    table = tablefmt.open(uri, storage_options=options)
    return {
        path
        for version in range(table.version + 1)
        for path in table.context.view.snapshot(version).files["path"].to_pylist()
    }


@pytest.mark.share(2)
@pytest.mark.parametrize("partition_by", [[], ["p"]])
def test_a_table_is_written_in_place_and_read_back(
    spark: Any, s3_server: S3Server, root: str, options: dict[str, Any], partition_by: list[str]
) -> None:
    """DAT-1, ADD-5: no file is copied. Only the log and the files that it names stay."""
    first = spark.range(0, 1000, 1, 4).selectExpr("id", "id % 3 AS p", "string(id) AS s")
    second = spark.range(1000, 1100, 1, 2).selectExpr("id", "id % 3 AS p", "string(id) AS s")
    s3_server.seen.clear()
    tablefmt.spark.write(first, root, partition_by=partition_by, storage_options=options)
    tablefmt.spark.write(second, root, storage_options=options)
    rows = tablefmt.spark.read(spark, root, storage_options=options)
    assert rows.where("id >= 990").count() == 110
    expected = [(i, i % 3, str(i)) for i in range(1100)]
    assert sorted(map(tuple, rows.collect())) == expected
    table = tablefmt.open(root, storage_options=options).to_arrow()
    assert sorted(zip(*(table[n].to_pylist() for n in ("id", "p", "s")), strict=True)) == expected

    tablefmt.spark.write(second, root, mode="overwrite", storage_options=options)
    after = tablefmt.spark.read(spark, root, storage_options=options)
    assert sorted(map(tuple, after.collect())) == expected[1000:]

    assert not [one for one in s3_server.seen if one.copies]
    assert uploads(s3_server, root) == []
    present = keys(s3_server, root)
    assert {key for key in present if key.startswith("data/")} == data_files(root, options)
    assert not [key for key in present if key.endswith("/") or "__magic" in key or "_SUC" in key]


def test_input_files_are_named_by_the_bucket_and_the_key(
    spark: Any, root: str, options: dict[str, Any]
) -> None:
    tablefmt.spark.write(spark.range(5), root, storage_options=options)
    rows = tablefmt.spark.read(spark, root, storage_options=options)
    named = rows.selectExpr("_metadata.file_path AS f").distinct().collect()
    paths = {unquote(row.f).partition("://")[2] for row in named}
    assert paths == {f"{root.removeprefix('s3://')}/{key}" for key in data_files(root, options)}


def test_times_of_files_cost_a_request_each_only_if_a_query_uses_them(
    spark: Any, s3_server: S3Server, options: dict[str, Any]
) -> None:
    bucket = s3_server.new_bucket()
    root = f"s3://{bucket}/t"
    tablefmt.spark.write(spark.range(0, 6, 1, 2), root, storage_options=options)
    tablefmt.open(root, storage_options=options).delete("id = 1")
    rows = tablefmt.spark.read(spark, root, storage_options=options)
    files = {f"t/{key}" for key in data_files(root, options)}
    heads = [s3_server.client().head_object(Bucket=bucket, Key=key) for key in files]
    modified = {one["LastModified"].timestamp() for one in heads}

    def asked() -> list[str]:
        paths = [one.path for one in s3_server.seen if one.method == "HEAD"]
        return sorted(path for path in paths if path.removeprefix(f"/{bucket}/") in files)

    s3_server.seen.clear()
    named = rows.where("_metadata.file_size > 0").select("_metadata.file_name")
    assert len(named.collect()) == 5
    opened = asked()
    s3_server.seen.clear()
    found = rows.selectExpr("_metadata.file_modification_time AS t").collect()
    assert {row.t.timestamp() for row in found} == modified
    assert len(found) == 5
    assert asked() == sorted([*opened, *(f"/{bucket}/{key}" for key in files)])


def test_a_task_that_fails_once_leaves_nothing_behind(
    spark: Any, s3_server: S3Server, root: str, options: dict[str, Any]
) -> None:
    frame = spark.range(0, 1000, 1, 2).select(failing_once()("id").alias("id"))
    tablefmt.spark.write(frame, root, storage_options=options)
    rows = tablefmt.spark.read(spark, root, storage_options=options)
    assert sorted(row.id for row in rows.collect()) == list(range(1000))
    present = keys(s3_server, root)
    assert {key for key in present if key.startswith("data/")} == data_files(root, options)
    assert uploads(s3_server, root) == []


def test_a_job_that_fails_leaves_no_version_no_object_and_no_upload(
    spark: Any, s3_server: S3Server, root: str, options: dict[str, Any]
) -> None:
    version = tablefmt.spark.write(spark.range(3), root, storage_options=options).version
    before = keys(s3_server, root)
    bad = spark.range(0, 1000, 1, 1).selectExpr("IF(id = 999, raise_error('no'), id) AS id")
    with pytest.raises(Exception, match="no"):
        tablefmt.spark.write(bad, root, storage_options=options)
    assert keys(s3_server, root) == before
    assert uploads(s3_server, root) == []
    assert tablefmt.open(root, storage_options=options).version == version


def test_two_tables_of_one_bucket_are_each_reached_with_their_own_credentials(
    spark: Any, s3_server: S3Server
) -> None:
    bucket = s3_server.new_bucket()
    frames = {}
    for who in ("alice", "bob"):
        options = {**s3_server.options, "key": who, "secret": f"secret of {who}"}
        uri = f"s3://{bucket}/{who}"
        s3_server.seen.clear()
        tablefmt.spark.write(spark.range(4), uri, storage_options=options)
        frames[who] = tablefmt.spark.read(spark, uri, storage_options=options)
        asked = {one.signed_by for one in s3_server.seen if f"/{bucket}" in one.path}
        assert asked == {who}
    for who in ("alice", "bob", "alice"):
        s3_server.seen.clear()
        assert frames[who].agg({"id": "sum"}).collect()[0][0] == 6
        touched = {one.signed_by for one in s3_server.seen if f"/{who}/" in one.path}
        assert touched == {who}
    both = frames["alice"].join(frames["bob"], "id").count()
    assert both == 4


def test_two_endpoints_are_each_asked_for_their_own(spark: Any, s3_server: S3Server) -> None:
    other = S3Server()
    try:
        bucket = s3_server.new_bucket()
        here, there = f"s3://{bucket}/here", f"s3://{bucket}/there"
        tablefmt.spark.write(spark.range(3), here, storage_options=s3_server.options)
        tablefmt.spark.write(spark.range(5), there, storage_options=other.options)
        one = tablefmt.spark.read(spark, here, storage_options=s3_server.options)
        two = tablefmt.spark.read(spark, there, storage_options=other.options)
        assert (one.count(), two.count()) == (3, 5)
        assert one.union(two).count() == 8
        assert not [seen for seen in s3_server.seen if f"/{bucket}/there/" in seen.path]
        assert not [seen for seen in other.seen if f"/{bucket}/here/" in seen.path]
    finally:
        other.stop()


def test_the_environment_counts_where_no_options_are_given(
    spark: Any, s3_server: S3Server, root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", s3_server.endpoint)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "from-the-environment")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "a secret")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    s3_server.seen.clear()
    tablefmt.spark.write(spark.range(7), root)
    assert tablefmt.spark.read(spark, root).count() == 7
    # Late requests for tables of earlier tests are none of this one's.
    bucket = root.removeprefix("s3://").partition("/")[0]
    asked = {one.signed_by for one in s3_server.seen if one.path.startswith(f"/{bucket}/")}
    assert asked == {"from-the-environment"}


def test_plans_and_settings_show_no_credentials(spark: Any, s3_server: S3Server, root: str) -> None:
    marks = ("AKIAHIDDEN", "hidden-secret", "hidden-token")
    options = dict(zip(("key", "secret", "token"), marks, strict=True))
    options = {**s3_server.options, **options}
    tablefmt.spark.write(spark.range(9), root, storage_options=options)
    rows = tablefmt.spark.read(spark, root, storage_options=options).where("id > 2")
    assert rows.count() == 6
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown):
        for mode in ("simple", "extended", "codegen", "cost", "formatted"):
            rows.explain(mode=mode)
    execution = rows._jdf.queryExecution()
    hadoop = spark.sparkContext._jsc.hadoopConfiguration()
    text = "\n".join(
        [
            shown.getvalue(),
            execution.toString(),
            execution.logical().treeString(),
            execution.analyzed().prettyJson(),
            execution.executedPlan().treeString(),
            str(spark.sparkContext.getConf().getAll()),
            str([tuple(row) for row in spark.sql("SET").collect()]),
            hadoop.toString() + str([str(entry) for entry in hadoop.iterator()]),
            str(rows.inputFiles()),
        ]
    )
    assert "s3a-" in text
    assert [mark for mark in marks if mark in text] == []
    assert "hidden" not in repr(open_store(root, options).access())


def test_a_session_without_the_jars_goes_through_arrow_and_says_what_to_do(
    spark: Any,
    root: str,
    options: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    store = open_store(root, options)
    assert choose(spark, store).name == "native"
    monkeypatch.setattr(s3a, "has_s3a", lambda spark: False)
    with caplog.at_level(logging.INFO, "tablefmt.spark"):
        backend_for(spark, store)
    chosen = choose(spark, store)
    assert (chosen.name, chosen.reason) == ("arrow", backend_choice.NO_JARS)
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert "tablefmt.spark.session(s3=True)" in record.getMessage()


def test_options_that_hadoop_lacks_lead_to_arrow_by_name(
    spark: Any, root: str, options: dict[str, Any]
) -> None:
    options["s3_additional_kwargs"] = {"StorageClass": "GLACIER_IR"}
    store = open_store(root, options)
    chosen = choose(spark, store)
    assert chosen.name == "arrow"
    assert "'s3_additional_kwargs'" in chosen.reason
    with pytest.raises(UnsupportedFeatureError, match="s3_additional_kwargs"):
        s3a.s3_place(store)


def test_every_class_is_looked_for(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert s3a.has_s3a(spark)
    monkeypatch.setattr(s3a, "CLASSES", (*s3a.CLASSES, "org.example.Missing"))
    assert not s3a.has_s3a(spark)
