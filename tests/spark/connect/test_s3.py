"""Tables on S3 over Spark Connect: no jar, one commit, and no secret anywhere."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

import tablefmt
from tablefmt.spark import read, write
from tests.s3server import S3Server


def plans(frame: Any) -> str:
    return "".join(frame._explain_string(mode=m) for m in ("extended", "formatted", "cost"))


def objects(server: S3Server, uri: str) -> bytes:
    """Every small object of the bucket: the log among them."""
    bucket = uri.removeprefix("s3://").partition("/")[0]
    client = server.client()
    found = client.list_objects_v2(Bucket=bucket)["Contents"]
    return b"".join(client.get_object(Bucket=bucket, Key=o["Key"])["Body"].read() for o in found)


def test_functions_write_and_read_with_storage_options(
    connect: Any, printed: Callable[[], str], s3_server: S3Server, s3_uri: str
) -> None:
    """STO-11: secrets are in no plan, log line or entry."""
    options = s3_server.options
    commit = write(
        connect.range(0, 100, 1, 4).selectExpr("id", "id % 2 as p"), s3_uri,
        partition_by=["p"], storageOptions=options,
    )  # fmt: skip
    assert commit.metrics["numOutputRows"] == 100
    frame = read(connect, s3_uri, storage_options=options)
    assert frame.selectExpr("sum(id)").collect()[0][0] == 4950
    assert s3_server.secret not in plans(frame)
    assert s3_server.secret not in repr(frame)
    assert s3_server.secret.encode() not in objects(s3_server, s3_uri)
    assert s3_server.secret not in printed()


@pytest.mark.soak
def test_the_format_takes_them_as_options(
    connect: Any, printed: Callable[[], str], s3_server: S3Server, s3_uri: str
) -> None:
    given = s3_server.options
    options = {f"storage.{k}": v if isinstance(v, str) else json.dumps(v) for k, v in given.items()}
    frame = connect.range(0, 50, 1, 2)
    frame.write.format("tablefmt").mode("append").options(**options).save(s3_uri)
    found = connect.read.format("tablefmt").options(**options).load(s3_uri)
    assert found.count() == 50
    assert tablefmt.open(s3_uri, storage_options=given).version == 1
    assert s3_server.secret not in plans(found)
    names = ", ".join(f"`{k}` '{v}'" for k, v in options.items())
    connect.sql(
        f"create or replace temporary view s3view using tablefmt options (path '{s3_uri}', {names})"
    ).collect()
    view = connect.table("s3view")
    assert view.count() == 50
    assert s3_server.secret not in plans(view)
    inserted = connect.sql("explain extended insert into s3view select * from range(2)")
    assert s3_server.secret not in str(inserted.collect())
    assert s3_server.secret.encode() not in objects(s3_server, s3_uri)
    assert s3_server.secret not in printed()
