"""Descriptions of Spark's jobs, while they run and afterwards."""

from __future__ import annotations

import logging
from typing import Any

import pyarrow as pa
import pytest

import tablefmt
import tablefmt.spark
from tablefmt.spark.backends.python_workers import check_workers
from tablefmt.spark.runtime.spark_jobs import job_description

DDL = "id BIGINT, v DOUBLE"


def descriptions(spark: Any, first: int) -> list[str]:
    """Return the descriptions of all jobs from a number on, as Spark's UI shows them, each once."""
    store = spark.sparkContext._jsc.sc().statusStore()
    # The UI gets its events through a queue.
    spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()
    jobs = store.jobsList(None)
    found = {}
    for at in range(jobs.size()):
        job = jobs.apply(at)
        said = job.description()
        found[job.jobId()] = said.get() if said.isDefined() else "nothing"
    return list(dict.fromkeys(found[n] for n in sorted(found) if n >= first))


def next_job(spark: Any) -> int:
    spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()
    jobs = spark.sparkContext._jsc.sc().statusStore().jobsList(None)
    return max((jobs.apply(at).jobId() for at in range(jobs.size())), default=-1) + 1


def made(uri: str, **properties: Any) -> None:
    table = tablefmt.create(uri, DDL, properties=properties)
    for first in (0, 10):
        ids = list(range(first, first + 10))
        table.append(pa.table({"id": ids, "v": [float(i) for i in ids]}))


@pytest.mark.share(2)
@pytest.mark.parametrize("by", ["verbs", "SQL"])
def test_every_step_of_a_statement_is_told(
    spark: Any, uri: str, by: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The thread's own description comes back afterwards. The log has the steps too."""
    tablefmt.spark.register(spark)
    made(uri, deleteMode="copy-on-write")
    table = tablefmt.spark.open(spark, uri)
    source = spark.createDataFrame([(5, 0.5), (15, 1.5), (99, 9.9)], DDL)
    source.createOrReplaceTempView("told_source")
    spark.sql(f"CREATE TABLE told USING tablefmt OPTIONS (path '{uri}')")
    # Once an application: an earlier test may have done it.
    check_workers(spark)
    spark.sparkContext.setJobDescription("the nightly load")
    first = next_job(spark)
    caplog.set_level(logging.INFO, "tablefmt.progress")
    try:
        if by == "verbs":
            table.delete("id IN (1, 11)")
            table.update({"v": "v + 1"}, "id = 3")
            merge = table.merge(source, "t.id = s.id").when_matched_update_all()
            merge.when_not_matched_insert_all().execute()
        else:
            spark.sql("DELETE FROM told WHERE id IN (1, 11)")
            spark.sql("UPDATE told SET v = v + 1 WHERE id = 3")
            spark.sql(
                "MERGE INTO told t USING told_source s ON t.id = s.id "
                "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
            )
        steps = [
            "DELETE: finding rows in 2 files",
            "copy-on-write: copying the remaining rows of 2 files",
            "UPDATE: writing new versions of rows in 1 files",
            "copy-on-write: copying the remaining rows of 1 files",
            "MERGE: storing the source",
            "MERGE: reading the source",
            "MERGE: finding matches in 2 files and writing new versions",
            "MERGE: inserting from 1 unmatched source rows",
            "copy-on-write: copying the remaining rows of 2 files",
        ]
        heard = [r.getMessage() for r in caplog.records if r.name == "tablefmt.progress"]
        assert heard == steps
        shown = [f"tablefmt {step}" for step in dict.fromkeys(steps)]
        assert [d for d in descriptions(spark, first) if d != "the nightly load"] == shown
        assert spark.sparkContext.getLocalProperty("spark.job.description") == "the nightly load"
    finally:
        spark.sparkContext.setLocalProperty("spark.job.description", None)
        spark.sql("DROP TABLE told")
        spark.catalog.dropTempView("told_source")


def test_what_fails_leaves_the_description_that_was(spark: Any) -> None:
    context, seen = spark.sparkContext, []

    def fail() -> None:
        with job_description(spark, "MERGE: a step"):
            seen.append(context.getLocalProperty("spark.job.description"))
            raise ValueError("inside")

    with pytest.raises(ValueError, match="inside"):
        fail()
    assert seen == ["tablefmt MERGE: a step"]
    assert context.getLocalProperty("spark.job.description") is None
