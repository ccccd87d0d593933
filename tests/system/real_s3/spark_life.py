"""The life of a table on Spark. Run as a program with JSON: see test_spark_on_s3.py."""

from __future__ import annotations

import datetime
import json
import logging
import sys
from concurrent.futures import ThreadPoolExecutor
from io import StringIO
from typing import Any

import pytest

import tablefmt
import tablefmt.spark
from tablefmt.errors import UnsupportedFeatureError
from tablefmt.spark.backends.backend_choice import choose
from tablefmt.store.location import open_store

SCHEMA = "id BIGINT, part BIGINT, s STRING"
Rows = dict[int, tuple[int, str]]
"""Rows that a version should hold: part and s by id."""


def of(frame: Any) -> Rows:
    return {row.id: (row.part, row.s) for row in frame.collect()}


def life(spark: Any, uri: str, options: dict[str, Any]) -> dict[int, Rows]:
    """Change a table by every verb. Return the rows of each version, by a model."""
    given: dict[str, Any] = {"storage_options": options}
    tablefmt.create(uri, SCHEMA, partition_by=["part"], **given)
    frame = spark.range(0, 300, 1, 4).selectExpr("id", "id % 3 AS part", "cast(id AS string) AS s")
    # Four jobs write at once.
    parts = [frame.where(f"id DIV 75 = {number}") for number in range(4)]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda part: tablefmt.spark.write(part, uri, **given), parts))
    table = tablefmt.spark.open(spark, uri, **given)
    rows: Rows = {i: (i % 3, str(i)) for i in range(300)}
    versions = {table.table.refresh().version: dict(rows)}

    def now(commit: Any) -> None:
        versions[commit.version] = dict(rows)

    for i in [i for i in rows if i % 5 == 0]:
        del rows[i]
    now(table.delete("id % 5 = 0"))
    rows |= {i: (p, f"{s}!") for i, (p, s) in rows.items() if i < 50}
    now(table.update({"s": "concat(s, '!')"}, "id < 50"))
    source = spark.range(280, 320).selectExpr("id", "id % 3 AS part", "'new' AS s")
    for i in range(280, 320):
        if i % 3 or i not in rows:
            rows[i] = (i % 3, "new")
        else:
            del rows[i]
    merge = table.merge(source, "t.id = s.id").when_matched_delete("s.part = 0")
    now(merge.when_matched_update_all().when_not_matched_insert_all().execute())
    now(table.compact())
    before = dict(rows)
    rows.clear()
    now(table.truncate())
    rows |= before
    now(table.restore(version=max(versions) - 1))
    table.vacuum(retention=datetime.timedelta(days=7), dry_run=False)
    return versions


def main(given: dict[str, Any]) -> None:
    log = StringIO()
    logging.getLogger("tablefmt.spark").addHandler(logging.StreamHandler(log))
    uri, plane = given["uri"], given["plane"]
    options = given["options"]
    spark = tablefmt.spark.session(
        "life", master="local-cluster[2,1,1024]", s3=plane == "native",
        **{"spark.sql.shuffle.partitions": "2", "spark.driver.memory": "1g"},
    )  # fmt: skip
    tablefmt.spark.register(spark)
    spark.sparkContext.setLogLevel("OFF")
    chosen = choose(spark, open_store(uri, options))
    assert chosen.name == plane, chosen
    versions = life(spark, uri, options)
    for version, rows in versions.items():
        read = tablefmt.spark.read(spark, uri, version=version, storage_options=options)
        assert of(read) == rows, version
        narrow = read.where("part = 1 AND id > 100").select("id", "part", "s")
        wanted = {i: row for i, row in rows.items() if row[0] == 1 and i > 100}
        assert of(narrow) == wanted, version
    named = spark.sql
    named(f"CREATE TABLE life USING tablefmt OPTIONS (path '{uri}')")
    if plane == "native":
        newest = max(versions)
        query = "SELECT * FROM life VERSION AS OF "
        assert {v: of(named(f"{query}{v}")) for v in versions} == versions
        named("MERGE INTO life t USING (SELECT 1 id) s ON t.id = s.id WHEN MATCHED THEN DELETE")
        assert of(named("SELECT * FROM life")).keys() == versions[newest].keys() - {1}
        assert of(named("SELECT * FROM table_changes('life', 9)")).keys() >= {1}
    else:
        with pytest.raises(UnsupportedFeatureError, match="session"):
            named("SELECT * FROM life").collect()
    report = tablefmt.open(uri, storage_options=options).verify(deep=True)
    assert (report.findings, report.unnamed) == ((), ()), report
    spark.stop()
    said = [line for line in log.getvalue().splitlines() if "goes through Arrow" in line]
    assert len(said) == (1 if plane == "arrow" else 0), log.getvalue()
    print("passed")


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
