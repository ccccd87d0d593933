"""Partition values of every type, by both backends."""

from __future__ import annotations

import datetime as dt
import itertools
import math
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tablefmt
import tablefmt.spark
from tests.data.test_known_values import KINDS as LACKING
from tests.data.test_known_values import partitioned_by_what_came_later, without_columns
from tests.spark.looking import data_files, frame_from, rows_of, scanned_files

NASTY = [None, "", " ", "/", "..", "%2F", "a=b", "__HIVE_DEFAULT_PARTITION__", "null",
         "ä\U0001f600", "'", "\\", "\n", "x" * 1024, "x" * 1023 + "y"]  # fmt: skip

KINDS: list[tuple[pa.DataType, list[Any]]] = [
    (pa.string(), NASTY),
    (pa.binary(), [b"", b"\0", b"\xff" * 40, None]),
    (pa.bool_(), [True, False, None]),
    (pa.int8(), [-128, 0, 127, None]),
    (pa.int64(), [-(1 << 63), (1 << 63) - 1, None]),
    (pa.date32(), [dt.date(1, 1, 1), dt.date(1582, 10, 4), dt.date(9999, 12, 31), None]),
    (pa.timestamp("us", "UTC"), [dt.datetime(1960, 1, 1, 0, 0, 0, 1, dt.timezone.utc), None]),
    (pa.timestamp("us"), [dt.datetime(2024, 3, 10, 2, 30), None]),
    (pa.int16(), [-(1 << 15), -1, None]),
    (pa.int32(), [-(1 << 31), (1 << 31) - 1, None]),
    (pa.float32(), [math.nan, math.inf, -math.inf, 1.5, None]),
    (pa.float64(), [math.nan, 5e-324, -1.7976931348623157e308, 0.1, None]),
    (pa.decimal128(18, 18), [Decimal("-0." + "9" * 18), Decimal("0." + "0" * 17 + "1"), None]),
    (pa.decimal128(9, 2), [Decimal("-0.01"), Decimal("0.00"), None]),
    (pa.decimal128(38, 3), [Decimal("-" + "9" * 35 + ".999"), Decimal("0.001"), None]),
]


def test_each_partition_value_is_exact_in_the_log(spark: Any, uri: str) -> None:
    """VAL-2, ADD-4: there is one file for each combination of values, and a column for each type.

    The Arrow backend writes equal values to the log.
    """
    count = max(len(values) for _, values in KINDS)
    columns = {
        f"p{at}": pa.array([values[i % len(values)] for i in range(count)] * 2, kind)
        for at, (kind, values) in enumerate(KINDS)
    }
    given = pa.table({"id": list(range(count * 2)), **columns})
    table = tablefmt.create(uri, given.schema, partition_by=list(columns))
    tablefmt.spark.write(frame_from(spark, given).coalesce(1), uri)
    by_spark = table.refresh().context.view.snapshot().files
    table.overwrite(given)
    by_arrow = table.context.view.snapshot().files
    assert by_spark.num_rows == by_arrow.num_rows == count
    for at, values in enumerate(columns.values(), 2):
        wanted, name = values[:count].to_pylist(), f"partition.{at}"
        assert sorted(map(repr, by_spark[name].to_pylist())) == sorted(map(repr, wanted))
        assert by_spark[name].type == by_arrow[name].type
    tablefmt.spark.write(frame_from(spark, given), uri, mode="overwrite")
    assert rows_of(table.refresh().to_arrow()) == rows_of(given)
    assert rows_of(tablefmt.spark.read(spark, uri), given.schema) == rows_of(given)


def test_two_zeros_are_one_partition_and_nan_is_one(spark: Any, uri: str) -> None:
    """VAL-2."""
    values = [0.0, -0.0, math.nan, math.nan, math.inf, None]
    given = pa.table({"id": list(range(6)), "p": pa.array(values)})
    table = tablefmt.create(uri, given.schema, partition_by=["p"])
    tablefmt.spark.write(frame_from(spark, given).coalesce(1), uri)
    files = table.refresh().context.view.snapshot().files
    assert sorted(map(repr, files["partition.2"].to_pylist())) == ["0.0", "None", "inf", "nan"]
    assert rows_of(tablefmt.spark.read(spark, uri).where("p = 0")) == rows_of(given.slice(0, 2))


def test_combinations_with_null_stay_apart(spark: Any, uri: str) -> None:
    """ADD-4: (NULL, 'a') is not ('a', NULL)."""
    pairs = list(itertools.product([None, "", "a", "b"], repeat=2))
    given = pa.table(
        {
            "id": list(range(len(pairs))),
            "p": pa.array([p for p, _ in pairs], pa.string()),
            "q": pa.array([q for _, q in pairs], pa.string()),
        }
    )
    table = tablefmt.create(uri, given.schema, partition_by=["q", "p"])
    tablefmt.spark.write(frame_from(spark, given).coalesce(1), uri)
    files = table.refresh().context.view.snapshot().files
    noted = zip(files["partition.2"].to_pylist(), files["partition.3"].to_pylist(), strict=True)
    assert sorted(map(repr, noted)) == sorted(map(repr, pairs))
    frame = tablefmt.spark.read(spark, uri)
    for at, (p, q) in enumerate(pairs):
        conditions = [
            f"{name} IS NULL" if value is None else f"{name} = '{value}'"
            for name, value in (("p", p), ("q", q))
        ]
        found = frame.where(" AND ".join(conditions))
        assert rows_of(found) == rows_of(given.slice(at, 1))
        assert scanned_files(found) == 1


def test_no_value_gets_into_a_path(spark: Any, uri: str) -> None:
    """KEY-3."""
    frame = spark.createDataFrame([(1, "secret/../value")], "id int, p string")
    tablefmt.spark.write(frame, uri, partition_by=["p"])
    (path,) = data_files(uri)
    assert "secret" not in path
    assert Path(path).name.endswith(".parquet")


def test_partitions_of_a_table_are_not_changed_by_a_write(spark: Any, uri: str) -> None:
    frame = spark.createDataFrame([(1, "a")], "id int, p string")
    tablefmt.spark.write(frame, uri, partition_by=["p"])
    tablefmt.spark.write(frame, uri, partition_by=["P"])
    with pytest.raises(tablefmt.errors.SchemaMismatchError, match="partitioned by 'p'"):
        tablefmt.spark.write(frame, uri, partition_by=["id"])
    assert tablefmt.open(uri).version == 2


@pytest.mark.share(2)
@pytest.mark.parametrize("backend", ["native", "arrow"])
def test_a_partition_value_that_files_lack_comes_from_the_entry(
    spark: Any, uri: str, use_backend: Any, backend: str
) -> None:
    """DAT-8: rows, conditions and DML; a float on the native backend comes from files alone."""
    use_backend(backend)
    kinds = {n: k for n, k in LACKING.items() if n != "f" or backend == "arrow"}
    table, rows = without_columns(uri, kinds=kinds)
    frame = tablefmt.spark.read(spark, uri)
    assert rows_of(frame, table.schema) == rows_of(pa.Table.from_pylist(rows, table.schema))
    assert frame.where("s = 'EU' AND d < DATE'1000-01-01'").count() == 2
    assert frame.where("n IS NULL").select("l", "s").distinct().count() == 1
    assert frame.where("l = -1 OR x = 10").count() == 3
    other = tablefmt.spark.open(spark, uri)
    assert other.delete("s = 'EU' AND x = 0").metrics["numDeletedRows"] == 1
    assert other.update({"x": "x + 100"}, "b = false").metrics["numUpdatedRows"] == 2
    expected = [{**r, "x": r["x"] + 100 * (r["b"] is False)} for r in rows if r["x"]]
    whole = pa.Table.from_pylist(expected, table.schema)
    assert rows_of(table.refresh().to_arrow()) == rows_of(whole)
    assert rows_of(tablefmt.spark.read(spark, uri), table.schema) == rows_of(whole)


@pytest.mark.share(2)
@pytest.mark.parametrize("backend", ["native", "arrow"])
def test_null_of_the_log_is_no_initial_value(
    spark: Any, uri: str, use_backend: Any, backend: str
) -> None:
    """DAT-8, SCH-7: reads of two versions, and of changes over both partitionings."""
    use_backend(backend)
    table, rows = partitioned_by_what_came_later(uri)
    names = ["x", "p", "q"]
    frame = tablefmt.spark.read(spark, uri).select(*names)
    assert [row.asDict() for row in frame.orderBy("x").collect()] == [
        {name: row[name] for name in names} for row in rows
    ]
    assert frame.where("q IS NULL").count() == 1
    assert frame.where("q = 'old'").count() == 0
    before = tablefmt.spark.read(spark, uri, version=table.version - 2)
    old = [(1, "a", "old", 7.5), (2, None, "old", 7.5)]
    assert [tuple(row) for row in before.orderBy("x").collect()] == old
    changed = tablefmt.spark.open(spark, uri).changes(starting_version=1)
    seen = changed.select("_change_type", *names).orderBy("_commit_version", *names).collect()
    assert [tuple(row) for row in seen] == [
        *(("insert", *row[:3]) for row in old),
        ("delete", 1, "a", "old"), ("delete", 2, None, "old"), ("insert", 3, "b", "m"),
        ("insert", 4, "c", None), ("insert", 5, "c", "n"),
    ]  # fmt: skip
    assert changed.where("q IS NULL").select("x").collect() == [(4,)]
    assert changed.where("p IS NULL AND _change_type = 'delete'").select("x").collect() == [(2,)]


@pytest.mark.share(2)
@pytest.mark.parametrize("vectorized", ["true", "false"])
def test_a_float_that_files_lack_is_refused_where_spark_reads_them(
    spark: Any, uri: str, use_backend: Any, vectorized: str
) -> None:
    """DAT-8, VAL-2: it is neither NULL nor the initial value. Arrow reads it."""
    table, rows = partitioned_by_what_came_later(uri)
    refusal = "Required column is missing" if vectorized == "true" else "floating-point column f"
    use_backend("native")
    spark.conf.set("spark.sql.parquet.enableVectorizedReader", vectorized)
    try:
        opened = tablefmt.spark.open(spark, uri)
        frames = (tablefmt.spark.read(spark, uri), opened.changes(starting_version=table.version))
        for frame in frames:
            with pytest.raises(Exception, match=refusal):
                frame.select("f").collect()
            assert frame.where("x > 3").select("x").orderBy("x").collect() == [(4,), (5,)]
        with pytest.raises(Exception, match=refusal):
            opened.update({"x": "x + 1"}, "x = 4")
    finally:
        spark.conf.unset("spark.sql.parquet.enableVectorizedReader")
    use_backend("arrow")
    read = tablefmt.spark.read(spark, uri).orderBy("x").collect()
    assert [row.asDict() for row in read] == rows
