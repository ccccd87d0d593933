"""Versions, DataFrames at a fixed version, pruning, damage."""

from __future__ import annotations

import datetime as dt
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tablefmt
import tablefmt.spark
from tablefmt.errors import InvalidRangeError, TableNotFoundError, VersionNotFoundError
from tablefmt.spark.backends.native.native_relation import Files, file_lines
from tests.spark.looking import data_files, rows_of, scanned_files


@pytest.fixture
def table(spark: Any, uri: str) -> tablefmt.Table:
    """40 files of 10 rows in 4 partitions; every column rises with the file."""
    ids = pa.array(range(400))
    start = dt.datetime(2024, 11, 3, 0, 0, tzinfo=dt.timezone.utc)
    times = [start + dt.timedelta(minutes=3 * i) for i in range(400)]
    given = pa.table(
        {
            "id": ids,
            "p": [f"p{i // 100}" for i in range(400)],
            "s": [f"{i:04d}'\\`%_" for i in range(400)],
            "d": pa.array([i / 4 for i in range(400)]),
            "day": [dt.date(1969, 12, 1) + dt.timedelta(days=i) for i in range(400)],
            "t": pa.array(times, pa.timestamp("us", "UTC")),
            "n": pa.array([t.replace(tzinfo=None) for t in times], pa.timestamp("us")),
            "st": [{"id": i} for i in range(400)],
        }
    )
    table = tablefmt.create(uri, given.schema, partition_by=["p"])
    for at in range(0, 400, 10):
        table.append(given.slice(at, 10))
    return table


CONDITIONS = [
    ("id = 17", 1),
    ("id between 15 and 34", 3),
    ("p = 'p1' and id > 150", 5),
    ("p in ('p0', 'p3')", 20),
    ("p = 'p0' or id = 399", 11),
    ("s = '0017\\'\\\\`%_'", 1),
    ("s like '001%'", 1),
    ("startswith(s, '039')", 1),
    ("d < 2.5", 1),
    ("d = double('NaN')", 0),
    ("day = date'1969-12-31'", 1),
    ("day < date'1970-01-01'", 4),
    # 01:30 on this day is two instants in the session's zone.
    ("t = timestamp'2024-11-03 06:30:00 UTC'", 1),
    ("t = timestamp'2024-11-03 05:30:00 UTC'", 1),
    ("t < timestamp'2024-11-02 20:30:00'", 1),
    ("n = timestamp_ntz'2024-11-03 01:30:00'", 1),
    ("hour(t) = 1", 40),
    ("st.id = 17", 40),
    ("id is null", 0),
    ("id = 17 and s like concat('%', p)", 1),
    ("id % 2 = 0", 40),
    ("not (id < 390)", 1),
    ("id <=> 5", 1),
    ("_metadata.file_path = 'id'", 40),
]


def test_conditions_open_the_files_they_need_and_find_the_same_rows(
    spark: Any, uri: str, table: tablefmt.Table
) -> None:
    """PRN-3: the rows equal those of Spark's own reader over all files. Few files are planned."""
    frame = tablefmt.spark.read(spark, uri)
    plain = spark.read.schema(frame.schema).parquet(*data_files(uri))
    # One query of the other reader answers all conditions.
    answers = [f"({condition}) AS c{at}" for at, (condition, _) in enumerate(CONDITIONS)]
    whole = plain.selectExpr("*", *answers).toArrow()
    for at, (condition, files) in enumerate(CONDITIONS):
        found, expected = frame.where(condition), whole.filter(whole[f"c{at}"])
        assert (condition, scanned_files(found)) == (condition, files)
        assert rows_of(found) == rows_of(expected.select(frame.columns)), condition


def test_one_condition_is_asked_about_once(
    spark: Any, uri: str, table: tablefmt.Table, asked: list[str]
) -> None:
    tablefmt.spark.register(spark)
    frame = tablefmt.spark.read(spark, uri)
    for _ in range(3):
        assert frame.where("id = 17").count() == 1
    assert len(asked) == 1
    assert frame.alias("x").where("x.id = 18").count() == 1
    assert len(asked) == 2


def test_a_broken_callback_costs_time_and_no_rows(
    spark: Any, uri: str, table: tablefmt.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(files: Any) -> Any:
        def prune(text: str) -> Any:
            raise RuntimeError(text)

        return prune

    monkeypatch.setattr("tablefmt.spark.backends.native.native_relation.pruner", broken)
    found = tablefmt.spark.read(spark, uri).where("id = 17")
    assert scanned_files(found) == 40
    assert found.count() == 1
    monkeypatch.setattr(
        "tablefmt.spark.backends.native.native_relation.pruner", lambda files: lambda text: b""
    )
    assert tablefmt.spark.read(spark, uri).where("id = 17").count() == 1


def test_pruning_is_asked_for_on_any_thread_of_the_jvm(
    spark: Any, uri: str, table: tablefmt.Table, asked: list[str]
) -> None:
    from pyspark.sql import functions

    frame = tablefmt.spark.read(spark, uri)
    small = functions.broadcast(frame.where("id < 5").selectExpr("id as other"))
    assert frame.where("id < 20").join(small, functions.col("id") == small.other).count() == 5
    assert len(asked) >= 2


def test_versions_and_times_travel(spark: Any, uri: str, table: tablefmt.Table) -> None:
    """TIM-4."""
    history = table.history().to_pylist()
    when = {row["version"]: row["timestamp"] for row in history}
    for version in (0, 1, 17, 40):
        wanted = list(range(10 * version))
        by_version = tablefmt.spark.read(spark, uri, version=version)
        assert sorted(r.id for r in by_version.select("id").collect()) == wanted
        later = when[version] + dt.timedelta(microseconds=0)
        by_time = tablefmt.spark.read(spark, uri, timestamp=later)
        assert by_time.count() == len(wanted)
    for wrong in ({"version": 41}, {"timestamp": "1999-01-01"}):
        with pytest.raises(VersionNotFoundError):
            tablefmt.spark.read(spark, uri, **wrong)
    with pytest.raises(InvalidRangeError):
        tablefmt.spark.read(spark, uri, version=1, timestamp="2026-01-01")


def test_a_dataframe_stays_at_its_version(spark: Any, uri: str, table: tablefmt.Table) -> None:
    frame = tablefmt.spark.read(spark, uri)
    some = frame.where("id >= 390")
    table.overwrite(table.to_arrow().slice(0, 1))
    assert frame.count() == 400
    assert sorted(r.id for r in some.collect()) == list(range(390, 400))
    assert tablefmt.spark.read(spark, uri).count() == 1


def test_a_table_can_be_overwritten_from_itself(
    spark: Any, uri: str, table: tablefmt.Table
) -> None:
    frame = tablefmt.spark.read(spark, uri)
    tablefmt.spark.write(frame.where("id % 2 = 0"), uri, mode="overwrite")
    assert tablefmt.spark.read(spark, uri).count() == 200


def test_no_table_is_said_so(spark: Any, tmp_path: Path) -> None:
    with pytest.raises(TableNotFoundError):
        tablefmt.spark.read(spark, str(tmp_path / "nothing"))
    with pytest.raises(TableNotFoundError):
        tablefmt.spark.open(spark, str(tmp_path))


def test_a_flipped_bit_in_a_page_stops_the_query(spark: Any, uri: str) -> None:
    """DAT-5."""
    given = pa.table({"id": range(1000), "v": [os.urandom(64) for _ in range(1000)]})
    tablefmt.create(uri, given.schema).append(given)
    (path,) = data_files(uri)
    body = bytearray(Path(path).read_bytes())
    body[len(body) // 2] ^= 1
    Path(path).write_bytes(body)
    with pytest.raises(Exception, match=r"(?i)checksum|CRC|corrupt"):
        tablefmt.spark.read(spark, uri).selectExpr("sum(length(v))").collect()


def test_a_missing_file_stops_the_query_whatever_the_session_says(spark: Any, uri: str) -> None:
    """DAT-5."""
    tablefmt.spark.write(spark.range(10).coalesce(1), uri)
    frame = tablefmt.spark.read(spark, uri)
    for path in data_files(uri):
        os.unlink(path)
    keys = ("spark.sql.files.ignoreMissingFiles", "spark.sql.files.ignoreCorruptFiles")
    for key in keys:
        spark.conf.set(key, "true")
    try:
        with pytest.raises(Exception, match=r"(?i)not exist|not.found|is missing"):
            frame.collect()
    finally:
        for key in keys:
            spark.conf.unset(key)


@pytest.mark.parametrize("writer", ["arrow", "spark"])
def test_nan_is_found_beside_equal_numbers(spark: Any, uri: str, writer: str) -> None:
    """DAT-9: Spark orders NaN above all, and must not drop its row group by statistics."""
    rows = [(1, 1.0, (1.0,)), (2, float("nan"), (float("nan"),))]
    frame = spark.createDataFrame(rows, "id long, v double, s struct<x: double>").coalesce(1)
    if writer == "spark":
        tablefmt.spark.write(frame, uri)
    else:
        tablefmt.create(uri, frame.schema).append(frame.toArrow())

    read = tablefmt.spark.read(spark, uri)
    for where in ("v > 1", "isnan(v)", "v != 1", "v >= 5", "s.x > 1", "isnan(s.x)"):
        assert [row.id for row in read.where(where).collect()] == [2], where


def test_the_jvm_is_told_of_no_file_that_a_condition_rules_out(
    spark: Any, uri: str, table: tablefmt.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PRN-1: it holds the survivors alone; without a condition that tells files apart, all."""
    told: list[list[str]] = []

    def spying(files: Files, mask: Any) -> bytes:
        lines = file_lines(files, mask)
        groups, *rest = lines.decode().split("\n")
        told.append([line.split("\t")[3] for line in rest[int(groups) :]])
        return lines

    monkeypatch.setattr("tablefmt.spark.backends.native.native_relation.file_lines", spying)
    frame = tablefmt.spark.read(spark, uri)
    assert told == []
    assert frame.where("id = 17").count() == 1
    (only,) = table.scan(where="id = 17").files()["path"].to_pylist()
    assert told == [[only]]
    assert frame.where("id >= 30 AND id < 50").selectExpr("sum(id)").collect()[0][0] == sum(
        range(30, 50)
    )
    assert told[1:] == [table.scan(where="id >= 30 AND id < 50").files()["path"].to_pylist()]
    assert frame.selectExpr("sum(id)").collect()[0][0] == sum(range(400))
    assert told[2:] == [table.scan().files()["path"].to_pylist()]
