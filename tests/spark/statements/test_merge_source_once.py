"""A source that differs each time it is computed, and stored rows that are lost.

The merged table is what one reading of the source gives. Spec: MRG-3.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tablefmt
import tablefmt.spark
from tablefmt.errors import CommitRejectedError
from tablefmt.spark.statements import spark_merge
from tablefmt.spark.statements.source_rows import is_repeatable, stored_once
from tests.spark.looking import data_files, everything, strays
from tests.spark.statements.readings import KEYS, Dropping, differing, model
from tests.tables import sorted_rows


@pytest.fixture
def table(spark: Any, uri: str) -> Any:
    """Keys from 0 in four files, all old."""
    tablefmt.spark.write(spark.range(0, KEYS, 1, 4).selectExpr("id", "'old' AS v"), uri)
    return tablefmt.spark.open(spark, uri)


def run(table: Any, source: Any) -> Any:
    asked = table.merge(source, "t.id = s.k").when_matched_update({"v": "s.w"})
    return asked.when_not_matched_insert({"id": "s.k", "v": "s.w"}).execute()


def test_rows_lost_after_they_were_stored_are_read_again_as_a_whole(
    spark: Any, table: Any, uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The attempt leaves no file; the next one reads its own source."""
    dropping, find, times = Dropping(spark), spark_merge._Work._find, []

    def once(work: Any, files: pa.Table) -> Any:
        if not times:
            assert dropping.drop()
        times.append(1)
        return find(work, files)

    monkeypatch.setattr(spark_merge._Work, "_find", once)
    before = everything(uri)
    run(table, differing(spark, tmp_path, waits=False))
    assert len(times) == 2
    assert sorted_rows(uri, "id", "v") == model(1)
    named = tablefmt.open(uri).context.view.snapshot().files["path"].to_pylist()
    new = set(data_files(uri)) - set(before)
    assert {path for path in new if not path.endswith(tuple(named))} == set()


def test_rows_lost_in_every_attempt_fail_the_merge_and_leave_nothing(
    spark: Any, table: Any, uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dropping, find = Dropping(spark), spark_merge._Work._find

    def always(work: Any, files: pa.Table) -> Any:
        assert dropping.drop()
        return find(work, files)

    monkeypatch.setattr(spark_merge._Work, "_find", always)
    before, version = everything(uri), tablefmt.open(uri).version
    with pytest.raises(CommitRejectedError, match="executors that stored the source's rows died"):
        run(table, differing(spark, tmp_path, waits=False))
    assert strays(uri, before) == []
    assert tablefmt.open(uri).version == version
    assert sorted_rows(uri, "id", "v") == [(i, "old") for i in range(KEYS)]


def test_a_source_that_may_differ_is_read_once_before_its_first_use(
    spark: Any, tmp_path: Path
) -> None:
    """An executor that dies in the job that lists keys would give it keys of two readings."""
    rows = stored_once(differing(spark, tmp_path, waits=False), "MERGE")
    assert [file.name for file in tmp_path.glob("reading*")] == ["reading0"]
    expected = [(key, "reading 0") for key in (0, 1, 2, 3, 4, 1000)]
    for _ in range(2):
        assert sorted_rows(rows.select("k", "w")) == expected
    assert [file.name for file in tmp_path.glob("reading*")] == ["reading0"]


def test_only_sources_that_cannot_differ_are_stored_with_the_first_use(
    spark: Any, table: Any, uri: str, tmp_path: Path
) -> None:
    from pyspark.sql import functions

    tablefmt.spark.register(spark)
    plain = str(tmp_path / "plain")
    spark.range(3).write.parquet(plain)
    identity = functions.udf(lambda value: value, "long")
    ours = tablefmt.spark.read(spark, uri)
    same = {
        "range": spark.range(5).selectExpr("id + 1 AS k").where("k > 2"),
        "values": spark.sql("SELECT * FROM VALUES (1), (2) AS v(k)"),
        "version": ours.where("id > 3").selectExpr("upper(v) AS v"),
        "format": spark.read.format("tablefmt").load(uri),
        "union": spark.range(3).union(spark.range(4)),
    }
    differ = {
        "rand": spark.range(5).selectExpr("rand() AS k"),
        "uuid": spark.range(5).where("uuid() > '8'"),
        "python": spark.range(5).select(identity("id")),
        "limit": ours.limit(2),
        "sample": ours.sample(0.5),
        "files of others": spark.read.parquet(plain),
        "aggregate": ours.groupBy("v").agg(functions.first("id")),
        "window": ours.selectExpr("row_number() OVER (ORDER BY v)"),
        "rows": spark.createDataFrame(spark.sparkContext.parallelize([(1,)]), "k long"),
        "sub-query": spark.range(5).where(f"id IN (SELECT id FROM parquet.`{plain}`)"),
        "number": spark.range(5).select(functions.monotonically_increasing_id()),
        "reflection": spark.range(5).selectExpr("reflect('java.util.UUID', 'randomUUID')"),
    }
    assert {name for name, source in same.items() if not is_repeatable(source)} == set()
    assert {name for name, source in differ.items() if is_repeatable(source)} == set()


def test_with_speculation_the_rows_are_the_same(
    spark: Any, table: Any, uri: str, tmp_path: Path
) -> None:
    """They are shuffled by their number before they are stored: copies of a task read the same."""
    session = spark.newSession()
    session.conf.set("spark.sql.legacy.setCommandRejectsSparkCoreConfs", "false")
    session.conf.set("spark.speculation", "true")
    source = differing(session, tmp_path, waits=False)
    commit = run(tablefmt.spark.open(session, uri), source)
    assert sorted_rows(uri, "id", "v") == model(0)
    assert commit.metrics["numSourceRows"] == 6


def test_with_speculation_two_copies_of_a_stored_task_read_the_same_rows(
    spark: Any, tmp_path: Path
) -> None:
    """MRG-3: the source is computed in a stage of its own, and the stored rows are shuffled."""
    session = spark.newSession()
    session.conf.set("spark.sql.legacy.setCommandRejectsSparkCoreConfs", "false")
    context, stages = session.sparkContext, {}
    for speculation in ("false", "true"):
        session.conf.set("spark.speculation", speculation)
        folder = tmp_path / speculation
        folder.mkdir()
        source = differing(session, folder, waits=False)
        context.setJobGroup(str(folder), "storing a source")
        try:
            stored_once(source, "MERGE")
        finally:
            context.setLocalProperty("spark.jobGroup.id", None)
        tracker = context.statusTracker()
        jobs = map(tracker.getJobInfo, tracker.getJobIdsForGroup(str(folder)))
        stages[speculation] = len({stage for job in jobs for stage in job.stageIds})
    assert stages["false"] == 1
    assert stages["true"] > 1
