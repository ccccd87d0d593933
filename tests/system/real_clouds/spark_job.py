"""A table's life on Spark. Run as a program with JSON: see test_spark_on_clouds.py."""

from __future__ import annotations

import contextlib
import io
import json
import logging
import sys
from pathlib import Path

import tablefmt
import tablefmt.spark
from tablefmt.spark.backends.backend_choice import choose
from tablefmt.store.location import open_store


def ids(frame: object) -> list[int]:
    return sorted(row.id for row in frame.select("id").collect())  # type: ignore[attr-defined]


def main(given: dict) -> None:
    log = io.StringIO()
    logging.getLogger("tablefmt.spark").addHandler(logging.StreamHandler(log))
    events = Path(given["work"]) / "events"
    events.mkdir()
    conf = {"spark.eventLog.enabled": "true", "spark.eventLog.dir": events.as_uri()}
    if given["jars"]:
        conf["spark.jars"] = ",".join(given["jars"])
    # Executors of their own, which see nothing of the driver.
    spark = tablefmt.spark.session("clouds", master="local-cluster[1,2,1024]", **conf)
    spark.sparkContext.setLogLevel("INFO")
    uri, options = given["uri"], given["options"]
    store = open_store(uri, options)
    chosen = choose(spark, store)
    assert chosen.name == given["plane"], chosen

    frame = spark.range(0, 100, 1, 4).selectExpr("id", "id % 3 AS part", "cast(id AS string) AS s")
    tablefmt.create(
        uri, "id BIGINT, part BIGINT, s STRING", partition_by=["part"], storage_options=options
    )
    tablefmt.spark.write(frame, uri, storage_options=options)
    tablefmt.spark.write(frame.selectExpr("id + 100 AS id", "part", "s"), uri,
                         storage_options=options)  # fmt: skip
    table = tablefmt.spark.open(spark, uri, storage_options=options)
    table.delete("id % 2 = 0")
    table.update({"s": "concat(s, '!')"}, "id < 10")
    table.compact()
    read = tablefmt.spark.read(spark, uri, storage_options=options)
    expected = list(range(1, 200, 2))
    assert ids(read) == expected
    assert ids(read.where("part = 1 AND id < 50")) == [i for i in expected if i % 3 == 1 and i < 50]
    mine = tablefmt.open(uri, storage_options=options)
    assert sorted(mine.to_arrow()["id"].to_pylist()) == expected
    assert sorted(mine.to_arrow(where="id < 10")["s"].to_pylist()) == [
        f"{i}!" for i in (1, 3, 5, 7, 9)
    ]
    report = mine.verify(deep=True)
    assert (report.findings, report.unnamed) == ((), ()), report

    secret, shown = given["secret"], io.StringIO()
    with contextlib.redirect_stdout(shown):
        for mode in ("extended", "formatted", "cost"):
            read.explain(mode=mode)
    assert secret not in shown.getvalue()
    assert secret not in read._jdf.queryExecution().logical().prettyJson()
    spark.stop()
    for path in events.rglob("*"):
        assert not path.is_file() or secret.encode() not in path.read_bytes(), path
    said = [line for line in log.getvalue().splitlines() if "goes through Arrow" in line]
    assert len(said) == (1 if given["plane"] == "arrow" else 0), log.getvalue()
    assert secret not in log.getvalue()
    print("passed")


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
