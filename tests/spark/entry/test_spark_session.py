"""Requirements for a session, and the errors of one without them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import tablefmt
import tablefmt.spark
from tablefmt.errors import UnsupportedFeatureError
from tablefmt.spark.entry.spark_session import check_classic, check_java


def test_what_is_no_session_is_refused_by_name() -> None:
    with pytest.raises(UnsupportedFeatureError) as caught:
        check_classic(object())  # type: ignore[arg-type]
    assert caught.value.features == ["spark:classic"]


@pytest.mark.parametrize("answer", [None, 'openjdk version "11.0.2" 2019-01-15'])
def test_java_that_is_missing_or_old_is_said_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: str | None
) -> None:
    if answer is not None:
        java = tmp_path / "bin" / "java"
        java.parent.mkdir()
        java.write_text(f"#!/bin/sh\necho '{answer}' >&2\n")
        java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(UnsupportedFeatureError, match="Java 17") as caught:
        check_java()
    assert caught.value.features == ["java"]


def test_a_local_session_deals_files_out_by_their_bytes(spark: Any, uri: str) -> None:
    """One large file and twenty small ones: the large one has a task of its own."""
    rows = spark.range(0, 400_000, 1, 1).selectExpr("id", "uuid() AS u")
    tablefmt.spark.write(rows, uri)
    tablefmt.spark.write(spark.range(0, 20, 1, 20).selectExpr("id", "uuid() AS u"), uri)
    read = tablefmt.spark.read(spark, uri)
    tasks = read.selectExpr("spark_partition_id() AS task", "id").groupBy("task").count().collect()
    assert sorted(row["count"] for row in tasks) == [20, 400_000]


def test_stores_that_spark_cannot_open_yet_are_refused_by_name(spark: Any) -> None:
    with pytest.raises(UnsupportedFeatureError) as caught:
        tablefmt.spark.write(spark.range(1), "memory://t")
    assert caught.value.features == ["spark:memory"]


def test_the_java_class_is_compiled_once_a_jvm(spark: Any) -> None:
    from tablefmt.spark.jvm import java_classes

    first = java_classes._loaded(spark, "SnapshotFileIndex")
    again = java_classes._loaded(spark.newSession(), "SnapshotFileIndex")
    assert first.hashCode() == again.hashCode()
