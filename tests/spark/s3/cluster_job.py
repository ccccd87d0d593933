"""Usage: cluster_job.py MASTER FOLDER. A session without the jars, then one with them on MASTER.

Prints "passed". FOLDER takes the event log. The server is this process's own.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

import tablefmt
import tablefmt.spark
from tablefmt.errors import UnsupportedFeatureError
from tablefmt.spark.backends.backend_choice import choose
from tablefmt.store.location import open_store
from tests.s3server import S3Server

MARKS = {"key": "AKIAHIDDEN", "secret": "hidden-secret", "token": "hidden-token"}
QUIET = {"spark.driver.memory": "1g", "spark.sql.shuffle.partitions": "2"}


def without_jars(spark: Any, uri: str, options: dict[str, Any]) -> None:
    """Check that a session without jars refuses S3, and keeps others away until it is stopped."""
    assert choose(spark, open_store(uri, options)).name == "arrow"
    with pytest.raises(UnsupportedFeatureError, match="stop it with"):
        tablefmt.spark.session("again", s3=True)


def failing_once() -> Any:
    """Return a function of Spark that returns its argument. The first attempt fails for 999."""
    from pyspark.sql import functions

    @functions.udf("long")
    def fails_once(value: int) -> int:
        from pyspark import TaskContext

        context = TaskContext.get()
        if value == 999 and context is not None and context.attemptNumber() == 0:
            raise RuntimeError("once")
        return value

    return fails_once


def on_executors(spark: Any, server: S3Server, uri: str, options: dict[str, Any]) -> None:
    """Writes with a task that fails once, and reads."""
    frame = spark.range(0, 1000, 1, 4).select(failing_once()("id").alias("id"))
    frame = frame.selectExpr("id", "id % 3 AS p")
    tablefmt.spark.write(frame, uri, partition_by=["p"], storage_options=options)
    tablefmt.spark.write(frame, uri, storage_options=options)
    rows = tablefmt.spark.read(spark, uri, storage_options=options)
    assert rows.agg({"id": "sum"}).collect()[0][0] == 999 * 1000
    assert rows.where("p = 1").count() == 2 * 333
    bucket = uri.removeprefix("s3://").partition("/")[0]
    client = server.client()
    found = {one["Key"] for one in client.list_objects_v2(Bucket=bucket)["Contents"]}
    table = tablefmt.open(uri, storage_options=options)
    named = table.context.view.snapshot(table.version).files["path"].to_pylist()
    assert {key for key in found if "/data/" in key} == {f"table/{path}" for path in named}
    assert not client.list_multipart_uploads(Bucket=bucket).get("Uploads")
    assert not [one for one in server.seen if one.copies and bucket in one.path]


def main(master: str, folder: str) -> None:
    server = S3Server()
    uri = f"s3://{server.new_bucket()}/table"
    options = {**server.options, **MARKS}
    plain = tablefmt.spark.session("plain", master="local[1]", **QUIET)
    plain.sparkContext.setLogLevel("OFF")
    without_jars(plain, uri, options)
    plain.stop()
    log = {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.compress": "false",
        "spark.eventLog.dir": Path(folder).as_uri(),
    }
    spark = tablefmt.spark.session("job", master=master, s3=True, **QUIET, **log)
    spark.sparkContext.setLogLevel("OFF")
    on_executors(spark, server, uri, options)
    spark.stop()
    server.stop()
    events = [path.read_text() for path in Path(folder).rglob("*") if path.is_file()]
    assert any("s3a-" in text for text in events)
    assert not [mark for mark in MARKS.values() for text in events if mark in text]
    print("passed")


if __name__ == "__main__":
    main(*sys.argv[1:])
