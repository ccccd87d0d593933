"""Data files that tasks write at their final names, on a local disk. The soak has the clouds.

tests/system/real_clouds/test_spark_on_clouds.py is the soak.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tablefmt
import tablefmt.spark
from tablefmt.errors import CommitRejectedError, TablefmtError
from tablefmt.spark.backends.native import native_writer
from tablefmt.spark.backends.native.hadoop_root import HadoopRoot, hadoop_root
from tablefmt.store.location import open_store
from tablefmt.store.object_store import Store
from tests.spark.backends.test_failed_tasks import failing


@pytest.fixture
def direct(monkeypatch: pytest.MonkeyPatch, use_backend: Callable[..., None]) -> None:
    """Let local tables be written as those on Azure are."""

    def root(spark: Any, store: Store) -> HadoopRoot:
        return dataclasses.replace(hadoop_root(spark, store), direct=True)

    monkeypatch.setattr(native_writer, "hadoop_root", root)
    use_backend("native")


def stored(uri: str) -> set[str]:
    return {str(p.relative_to(uri)) for p in Path(uri).rglob("*.parquet") if "data" in p.parts}


def live(uri: str) -> set[str]:
    return set(tablefmt.open(uri).scan().files()["path"].to_pylist())


def test_only_the_files_of_the_job_are_in_the_folder(spark: Any, uri: str, direct: None) -> None:
    """Append, and rewrites with positions; a second committer, of the user's, is not asked."""
    uri = f"{uri} ä"
    rows = spark.range(0, 40, 1, 4).selectExpr("id", "id % 3 AS part")
    tablefmt.create(uri, "id BIGINT, part BIGINT", partition_by=["part"])
    tablefmt.spark.write(rows, uri)
    assert stored(uri) == live(uri)
    assert len(live(uri)) == 12
    table = tablefmt.spark.open(spark, uri)
    table.update({"id": "id + 100"}, "id < 6")
    expected = sorted([*range(100, 106), *range(6, 40)])
    assert sorted(row.id for row in table.to_df().collect()) == expected
    assert sorted(tablefmt.open(uri).to_arrow()["id"].to_pylist()) == expected
    assert stored(uri) == live(uri)
    report = tablefmt.open(uri).verify(deep=True)
    assert (report.findings, report.unnamed) == ((), ())


def test_a_failed_job_leaves_nothing(spark: Any, uri: str, direct: None) -> None:
    tablefmt.create(uri, "id BIGINT")
    rows = spark.range(0, 1000, 1, 2).selectExpr("if(id = 999, raise_error('mine'), id) AS id")
    with pytest.raises((TablefmtError, Exception), match="mine"):
        tablefmt.spark.write(rows, uri)
    assert stored(uri) == set()
    assert tablefmt.open(uri).version == 0


def test_no_rows_are_no_files(spark: Any, uri: str, direct: None) -> None:
    tablefmt.create(uri, "id BIGINT")
    tablefmt.spark.write(spark.range(0), uri)
    assert stored(uri) == set()


def test_an_attempt_that_failed_leaves_no_file(
    spark: Any, uri: str, direct: None, tmp_path: Path
) -> None:
    """DAT-6: its successor's file is the only one."""
    (marks := tmp_path / "marks").mkdir()
    once = failing("the first attempt fails", attempts=1, marks=marks)
    frame = spark.range(0, 3000, numPartitions=3).mapInPandas(once, "id long")
    commit = tablefmt.spark.write(frame, uri)
    assert [mark.name for mark in marks.iterdir()] == ["0"]
    assert commit.metrics["numOutputRows"] == 3000
    assert sorted(tablefmt.open(uri).to_arrow()["id"].to_pylist()) == list(range(3000))
    assert stored(uri) == live(uri)


def test_without_a_report_of_the_files_nothing_is_committed(
    spark: Any, uri: str, direct: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A listing would show files of failed attempts, too."""
    monkeypatch.setattr(native_writer, "DIRECT_CONF", {})
    tablefmt.create(uri, "id BIGINT")
    with pytest.raises(CommitRejectedError, match="did not say which files"):
        tablefmt.spark.write(spark.range(9), uri)
    assert stored(uri) == set()
    assert tablefmt.open(uri).version == 0


def test_other_files_and_marks_of_folders_are_removed() -> None:
    """DAT-6. Hadoop writes an empty object for each folder."""
    store = open_store("memory://direct-files")
    kept = ["data/t/a/__p=1/one.parquet", "data/t/a/__p=2/two.parquet"]
    lost = "data/t/a/__p=2/lost.parquet"
    marks = ["data/t", "data/t/a", "data/t/a/__p=1", "data/t/a/__p=2"]
    others = ["data", "data/u", "data/t/b/three.parquet"]
    for key in [*kept, lost, *marks, *others]:
        store.put(key, b"")
    reported = "7\t__p=1/one.parquet\n8\t__p=2/two.parquet\n"
    root = HadoopRoot("abfs", "c", "", direct=True, folder_marks="each folder")
    files = native_writer._direct(store, root, "data/t/a/", reported)
    assert files == list(zip(kept, [7, 8], strict=True))
    assert {one.key for one in store.list_after("")} == {*kept, *others}
