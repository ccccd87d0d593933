"""format("tablefmt") and SQL on S3, on both backends, with credentials given as options."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tablefmt
import tablefmt.spark
from tablefmt.errors import (
    CommitRejectedError,
    TableExistsError,
    TableNotFoundError,
    UnsupportedFeatureError,
    VersionNotFoundError,
)
from tablefmt.spark.backends.native import s3a
from tests.s3server import S3Server
from tests.spark.s3.test_native import keys, uploads
from tests.spark.streams.queries import Feed, ended
from tests.tables import sorted_rows


@pytest.fixture(params=["native", pytest.param("arrow", marks=pytest.mark.soak)])
def backend(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "arrow":
        monkeypatch.setattr(s3a, "has_s3a", lambda spark: False)
    return str(request.param)


@pytest.fixture
def root(s3_server: S3Server) -> str:
    return f"s3://{s3_server.new_bucket()}/a table"


@pytest.fixture
def sql(spark: Any) -> Iterator[Any]:
    tablefmt.spark.register(spark)
    yield spark.sql
    for name in ("t", "made"):
        spark.sql(f"DROP TABLE IF EXISTS {name}")
    spark.sql("DROP VIEW IF EXISTS v")


def storage(server: S3Server, **more: Any) -> dict[str, str]:
    """Storage options as options of a reader, a writer, or SQL."""
    given = {**server.options, **more}
    return {f"storage.{k}": v if isinstance(v, str) else json.dumps(v) for k, v in given.items()}


def in_sql(path: str, options: dict[str, Any]) -> str:
    pairs = {"path": path, **options}
    return ", ".join(f"`{name}` '{value}'" for name, value in pairs.items())


@pytest.mark.soak
def test_paths_by_format(
    spark: Any, sql: Any, s3_server: S3Server, root: str, backend: str
) -> None:
    """DAT-1, TIM-4: modes (Spark itself has only two for Arrow), both ways to travel in time."""
    options = storage(s3_server)

    def save(frame: Any, mode: str, **more: str) -> None:
        frame.write.format("tablefmt").mode(mode).options(**options, **more).save(root)

    def load(**more: Any) -> Any:
        return spark.read.format("tablefmt").options(**options, **more).load(root)

    frame = spark.range(0, 100, 1, 2).selectExpr("id", "id % 2 AS p")
    save(frame, "error" if backend == "native" else "append", partitionBy="p")
    for mode in ("error", "ignore"):
        call = lambda mode=mode: save(frame, mode)  # noqa: E731
        if backend == "arrow":
            with pytest.raises(UnsupportedFeatureError, match=r"tablefmt\.spark\.write"):
                call()
        elif mode == "error":
            with pytest.raises(TableExistsError):
                call()
        else:
            call()
    save(frame.where("id < 3"), "append")
    save(frame.where("id = 5"), "overwrite", replaceWhere="p = 1")
    assert load().count() == 50 + 2 + 1
    assert load(versionAsOf=1).count() == 100
    then = tablefmt.open(root, storage_options=s3_server.options).history()["timestamp"][1].as_py()
    assert load(timestampAsOf=then.isoformat()).count() == 103
    assert sorted_rows(load().where("p = 1")) == [(5, 1)]
    with pytest.raises(VersionNotFoundError):
        load(versionAsOf=9)
    assert uploads(s3_server, root) == []
    assert [key for key in keys(s3_server, root) if key.endswith("/")] == []
    scans = "FileScan parquet" in load()._jdf.queryExecution().executedPlan().toString()
    assert scans == (backend == "native")


def test_temporary_views(
    spark: Any, sql: Any, s3_server: S3Server, root: str, backend: str
) -> None:
    options = storage(s3_server)
    tablefmt.spark.write(spark.range(3), root, storage_options=s3_server.options)
    sql(f"CREATE OR REPLACE TEMPORARY VIEW v USING tablefmt OPTIONS ({in_sql(root, options)})")
    sql("INSERT INTO v VALUES (7)")
    sql(f"CREATE OR REPLACE TEMPORARY VIEW v USING tablefmt OPTIONS ({in_sql(root, options)})")
    assert sorted_rows(sql("SELECT * FROM v WHERE id > 1")) == [(2,), (7,)]
    old = in_sql(root, {**options, "versionAsOf": "1"})
    sql(f"CREATE OR REPLACE TEMPORARY VIEW v USING tablefmt OPTIONS ({old})")
    assert sorted_rows(sql("SELECT count(*) FROM v")) == [(3,)]


def test_tables_of_the_catalog(spark: Any, sql: Any, s3_server: S3Server, root: str) -> None:
    """SQL from CREATE to SELECT, natively: Spark's catalog keeps the options."""
    options = storage(s3_server)
    sql(
        f"CREATE TABLE t (id BIGINT, p STRING) USING tablefmt OPTIONS ({in_sql(root, options)}) "
        "PARTITIONED BY (p)"
    )
    sql("INSERT INTO t VALUES (1, 'a'), (2, 'b')")
    sql("INSERT OVERWRITE t PARTITION (p = 'b') VALUES (3)")
    assert sorted_rows(sql("SELECT * FROM t")) == [(1, "a"), (3, "b")]
    assert sorted_rows(sql("SELECT * FROM t VERSION AS OF 1")) == [(1, "a"), (2, "b")]
    assert sorted_rows(sql("SELECT * FROM t WITH ('versionAsOf' = '1')")) == [(1, "a"), (2, "b")]
    other = in_sql(root.replace("a table", "made"), options)
    sql(f"CREATE TABLE made USING tablefmt OPTIONS ({other}) AS SELECT id FROM t")
    assert sorted_rows(sql("SELECT * FROM made")) == [(1,), (3,)]
    sql("TRUNCATE TABLE made")
    assert sorted_rows(sql("SELECT * FROM made")) == []
    sql("DROP TABLE made")
    with pytest.raises(TableNotFoundError):
        sql(f"CREATE TABLE made USING tablefmt OPTIONS ({in_sql(root + '/none', options)})")


def test_files_that_the_committer_did_not_publish_are_missed(
    spark: Any, s3_server: S3Server, root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The job reports success, but the commit is rejected, and no file stays.

    S3A's file system and its committer read this setting under different names.
    """
    version = tablefmt.spark.write(spark.range(3), root, storage_options=s3_server.options).version
    before = keys(s3_server, root)
    setting = "fs.s3a.committer.magic.track.commits.in.memory.enabled"
    monkeypatch.setitem(s3a.WRITE_OPTIONS, setting, "true")
    with pytest.raises(CommitRejectedError, match=r"wrote 1000 rows, .* have 0") as caught:
        tablefmt.spark.write(spark.range(1000), root, storage_options=s3_server.options)
    assert "commitProtocolClass" in str(caught.value)
    assert keys(s3_server, root) == before
    assert tablefmt.open(root, storage_options=s3_server.options).version == version


def test_batches_of_a_stream_are_there_once(
    spark: Any, sql: Any, s3_server: S3Server, root: str, backend: str, tmp_path: Path
) -> None:
    """STR-10, STR-11: this holds by path, and in the catalog, which then has the credentials."""
    feed = Feed(spark, tmp_path / "feed")
    feed.put(1, 2)
    query = feed.run(root, **storage(s3_server))
    sql(f"CREATE TABLE t USING tablefmt OPTIONS ({in_sql(root, storage(s3_server))})")
    feed.put(3)
    ended(lambda: feed.writer().toTable("t"))
    feed.forget(1)
    ended(lambda: feed.writer().toTable("t"))
    table = tablefmt.open(root, storage_options=s3_server.options)
    assert sorted(tuple(r.values()) for r in table.to_arrow().to_pylist()) == feed.rows
    known = table.context.view.head.applications
    assert {name: each.version for name, (each, _) in known.items()} == {query.id: 1}
    named = table.context.view.snapshot().files["path"].to_pylist()
    assert [key for key in keys(s3_server, root) if key.startswith("data/")] == sorted(named)
    assert uploads(s3_server, root) == []
