"""Usage: leaks_job.py native|arrow FOLDER. Where Spark shows things, and what is to be seen there.

Prints a JSON object. `found` has places, and the secrets that were found there. `unregistered` has
the errors before the session is registered. FOLDER takes the event log.
"""

from __future__ import annotations

import contextlib
import io
import json
import logging
import sys
import time
import traceback
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tablefmt
import tablefmt.spark
from tests.s3server import S3Server
from tests.spark.s3.cluster_job import without_jars

MARKS = {"key": "AKIAHIDDEN", "secret": "hidden-secret", "token": "hidden-token"}

REST = ("jobs", "stages?details=true", "sql?details=true&planDescription=true", "environment",
        "executors", "storage/rdd")  # fmt: skip


def marks_in(text: str) -> list[str]:
    """The secrets that a text holds."""
    return [mark for mark in MARKS.values() if mark in text]


def explained(frame: Any) -> str:
    """Every text that a DataFrame has of its plans."""
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown):
        for mode in ("simple", "extended", "codegen", "cost", "formatted"):
            frame.explain(mode=mode)
    execution = frame._jdf.queryExecution()
    plans = [execution.logical(), execution.analyzed(), execution.optimizedPlan()]
    texts = [shown.getvalue(), repr(frame), execution.toString(), execution.stringWithStats()]
    texts += [plan.treeString() for plan in plans]
    texts += [plan.prettyJson() for plan in plans]
    texts.append(execution.executedPlan().treeString())
    return "\n".join(texts)


def raised(*calls: Callable[[], Any]) -> list[Exception]:
    """Return the error of each call."""
    errors: list[Exception] = []
    for call in calls:
        try:
            call()
        except Exception as error:
            errors.append(error)
        else:
            raise AssertionError(f"no error after {errors}")
    return errors


def texts_of(errors: list[Exception]) -> str:
    """Return the texts of errors, with their tracebacks."""
    texts = []
    for error in errors:
        texts += [str(error), repr(error), *traceback.format_exception(error)]
        texts += [repr(vars(error))]
    return "\n".join(texts)


def told(*calls: Callable[[], Any]) -> str:
    """Return the texts of the errors of calls."""
    return texts_of(raised(*calls))


def unregistered(spark: Any, uri: str, given: Any, options: dict[str, str]) -> list[Exception]:
    """Return the errors of a session that is not registered, in a JVM without the classes."""
    tablefmt.create(uri, "id BIGINT", storage_options=given)
    pairs = ", ".join(f"`{name}` '{value}'" for name, value in {"path": uri, **options}.items())
    reader = spark.read.format("tablefmt").options(**options)
    writer = spark.range(1).write.format("tablefmt").mode("append").options(**options)
    return raised(
        lambda: reader.load(uri),
        lambda: writer.save(uri),
        lambda: spark.sql(f"CREATE TEMPORARY VIEW u USING tablefmt OPTIONS ({pairs})"),
        lambda: spark.sql(f"CREATE TABLE u USING tablefmt OPTIONS ({pairs})"),
        # Functions need no registration. They bring the classes, which then are not connected.
        lambda: (
            tablefmt.spark.read(spark, uri, storage_options=given).collect() or reader.load(uri)
        ),
    )


def by_path(spark: Any, uri: str, options: dict[str, str]) -> dict[str, str]:
    """Writes and reads by path, and by functions."""
    writer = spark.range(0, 100, 1, 2).selectExpr("id", "id % 2 AS p").write.format("tablefmt")
    writer.mode("append").options(**options).save(uri)
    frame = spark.read.format("tablefmt").options(**options).load(uri).where("id > 5")
    assert frame.count() == 94
    bad = spark.range(1).selectExpr("id", "id AS extra").write.format("tablefmt").mode("append")
    failing = spark.range(2).selectExpr("if(id = 1, raise_error('no'), id) AS id", "1L AS p")
    reader = spark.read.format("tablefmt").options(**options)
    return {
        "plans of a reader": explained(frame),
        "input files": str(frame.inputFiles()),
        "errors by path": told(
            lambda: reader.load(f"{uri}/none"),
            lambda: reader.option("versionAsOf", 99).load(uri),
            lambda: reader.option("storage.bogus", "1").load(uri),
            lambda: reader.option("bogus", "1").load(uri),
            lambda: bad.options(**options).save(uri),
            lambda: failing.write.format("tablefmt").mode("append").options(**options).save(uri),
        ),
    }


def in_sql(spark: Any, uri: str, options: dict[str, str], native: bool) -> dict[str, str]:
    """Do the same in SQL: with a view, and on the native backend with a table of the catalog."""
    pairs = ", ".join(f"`{name}` '{value}'" for name, value in {"path": uri, **options}.items())
    spark.sql(f"CREATE TEMPORARY VIEW v USING tablefmt OPTIONS ({pairs})")
    spark.sql("INSERT INTO v VALUES (1000, 0)")
    found = {
        "plans of a view": explained(spark.sql("SELECT * FROM v WHERE p = 0")),
        "plan of an insert": str(
            spark.sql("EXPLAIN EXTENDED INSERT INTO v SELECT id, id FROM range(2)").collect()
        ),
        "plan of a view's making": str(
            spark.sql(
                f"EXPLAIN EXTENDED CREATE TEMPORARY VIEW w USING tablefmt OPTIONS ({pairs})"
            ).collect()
        ),
        "DESCRIBE v": str(spark.sql("DESCRIBE TABLE EXTENDED v").collect()),
        "SET": str(spark.sql("SET -v").collect()),
    }
    if not native:
        return found
    spark.sql(f"CREATE TABLE t USING tablefmt OPTIONS ({pairs})")
    spark.sql("INSERT INTO t VALUES (2000, 0)")
    spark.sql("INSERT OVERWRITE t SELECT * FROM v").collect()
    for statement in (
        "DESCRIBE TABLE EXTENDED t",
        "SHOW CREATE TABLE t",
        "SHOW TBLPROPERTIES t",
        "SHOW TABLE EXTENDED LIKE 't'",
        "EXPLAIN EXTENDED INSERT INTO t SELECT id, id FROM range(2)",
        "EXPLAIN EXTENDED SELECT * FROM t VERSION AS OF 1",
    ):
        found[statement] = str(spark.sql(statement).collect())
    found["plans of a table"] = explained(spark.sql("SELECT * FROM t WHERE p = 0"))
    found["the catalog"] = str(spark.catalog.getTable("t")) + str(spark.catalog.listColumns("t"))
    found["errors of SQL"] = told(
        lambda: spark.sql("SELECT * FROM t VERSION AS OF 99"),
        lambda: spark.sql("SELECT * FROM t WITH ('bogus' = '1')").collect(),
        lambda: spark.sql("INSERT INTO t VALUES (1, 2, 3)"),
        lambda: spark.sql(f"CREATE TABLE t2 (x INT) USING tablefmt OPTIONS ({pairs})"),
    )
    return found


def of_the_ui(spark: Any) -> dict[str, str]:
    """Return answers of the REST interface, after it has processed all events."""
    context = spark.sparkContext
    context._jsc.sc().listenerBus().waitUntilEmpty(60_000)
    base = f"{context.uiWebUrl}/api/v1/applications/{context.applicationId}"
    found = {}
    for what in REST:
        with urllib.request.urlopen(f"{base}/{what}") as answer:
            found[f"REST {what}"] = answer.read().decode()
    assert "s3" in found[REST_SQL]
    for page in ("SQL/", "environment/", "jobs/"):
        with urllib.request.urlopen(f"{context.uiWebUrl}/{page}") as answer:
            found[f"page {page}"] = answer.read().decode()
    ids = [one["id"] for one in json.loads(found[REST_SQL])]
    for execution in ids[:60]:
        with urllib.request.urlopen(f"{context.uiWebUrl}/SQL/execution/?id={execution}") as answer:
            found.setdefault("pages of queries", "")
            found["pages of queries"] += answer.read().decode()
    return found


REST_SQL = f"REST {REST[2]}"


def in_the_bucket(server: S3Server, bucket: str) -> str:
    client = server.client()
    keys = [one["Key"] for one in client.list_objects_v2(Bucket=bucket)["Contents"]]
    bodies = (client.get_object(Bucket=bucket, Key=key)["Body"].read() for key in keys)
    return "".join(keys) + b"".join(bodies).decode("latin-1")


def main(backend: str, folder: str) -> None:
    """Run all calls, and search all outputs for the credentials."""
    server = S3Server()
    bucket = server.new_bucket()
    uri = f"s3://{bucket}/table"
    given = {**server.options, **MARKS}
    names = {"key": "access.key", "secret": "secret.key", "token": "session.token"}
    options = {
        f"storage.{names.get(k, k)}": v if isinstance(v, str) else json.dumps(v)
        for k, v in given.items()
    }
    log = io.StringIO()
    logging.basicConfig(stream=log, level=logging.DEBUG)
    # py4j shows every call into the JVM, its arguments included; botocore its requests.
    for name in ("py4j", "botocore", "aiobotocore", "s3fs", "fsspec", "asyncio"):
        logging.getLogger(name).setLevel(logging.WARNING)
    spark = tablefmt.spark.session(
        "leaks",
        master="local[2]",
        s3=backend == "native",
        **{
            "spark.driver.memory": "1g",
            "spark.ui.enabled": "true",
            "spark.ui.port": "0",
            "spark.sql.shuffle.partitions": "2",
            "spark.sql.warehouse.dir": f"{folder}/warehouse",
            "spark.eventLog.enabled": "true",
            "spark.eventLog.compress": "false",
            "spark.eventLog.dir": Path(folder).as_uri(),
        },
    )
    spark.sparkContext.setLogLevel("INFO")
    if backend == "arrow":
        without_jars(spark, uri, given)
    errors = unregistered(spark, f"{uri}-unregistered", given, options)
    tablefmt.spark.register(spark)
    texts = {"errors without registration": texts_of(errors), **by_path(spark, uri, options)}
    texts |= in_sql(spark, uri, options, backend == "native")
    texts |= of_the_ui(spark)
    hadoop = spark.sparkContext._jsc.hadoopConfiguration()
    texts["Hadoop's configuration"] = str([str(entry) for entry in hadoop.iterator()])
    texts["the session's settings"] = str(spark.sparkContext.getConf().getAll())
    spark.stop()
    time.sleep(0.5)
    texts["the bucket"] = in_the_bucket(server, bucket)
    texts["the event log"] = "".join(
        path.read_text(errors="replace") for path in Path(folder).rglob("*") if path.is_file()
    )
    texts["the log of Python"] = log.getvalue()
    assert all(texts.values()), [where for where, text in texts.items() if not text]
    server.stop()
    found = {where: marks_in(text) for where, text in texts.items()}
    refused = [(type(error).__name__, str(error)) for error in errors]
    print(json.dumps({"found": found, "unregistered": refused}))


if __name__ == "__main__":
    main(*sys.argv[1:])
