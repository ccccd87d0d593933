"""Incremental reads as DataFrames equal those of the Arrow backend."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

import tablefmt
import tablefmt.spark
from tablefmt.errors import InvalidRangeError
from tests.spark.looking import rows_of, scanned_files


@pytest.fixture
def table(spark: Any, uri: str) -> tablefmt.spark.SparkTable:
    """Return a table with appends and overwrites in versions 1 to 6, by both backends."""
    table = tablefmt.spark.create(spark, uri, "id BIGINT, p STRING", partition_by=["p"])
    table.append(spark.sql("select id, concat('p', id % 2) as p from range(6)"))
    table.table.append(pa.table({"id": [10, 11], "p": ["p0", None]}))
    table.overwrite(spark.sql("select 20L as id, 'p0' as p"), dynamic_partitions=True)
    table.append(spark.sql("select 30L as id, 'p0' as p"))
    table.table.overwrite(pa.table({"id": [40], "p": ["p1"]}), where="p = 'p1'")
    table.overwrite(spark.sql("select 50L as id, 'p9' as p"))
    return table


@pytest.mark.share(3)
@pytest.mark.parametrize(
    "bounds",
    [
        {"starting_version": 0},
        {"after_version": 1, "ending_version": 3},
        {"starting_version": 3, "ending_version": 3},
        {"after_version": 6},
        {"starting_version": 6},
    ],
)
def test_changes_equal_those_of_the_arrow_backend(
    table: tablefmt.spark.SparkTable, bounds: dict[str, Any]
) -> None:
    """INC-1, INC-3."""
    wanted = table.table.changes(**bounds).to_arrow()
    assert rows_of(table.changes(**bounds), wanted.schema) == rows_of(wanted)


def test_changes_by_time_equal_those_of_the_arrow_backend(table: tablefmt.spark.SparkTable) -> None:
    """INC-2."""
    when = {r["version"]: r["timestamp"] for r in table.table.history().to_pylist()}
    bounds = {"after_timestamp": when[1], "ending_timestamp": when[4]}
    wanted = table.table.changes(**bounds).to_arrow()
    assert {r["_commit_version"] for r in wanted.to_pylist()} == {2, 3, 4}
    assert rows_of(table.changes(**bounds), wanted.schema) == rows_of(wanted)


def test_chained_windows_turn_one_snapshot_into_the_next(
    table: tablefmt.spark.SparkTable,
) -> None:
    """INC-1, INC-3: windows of one commit, and those up to the last one."""
    states = [[repr(tuple(r)) for r in table.to_df(version=v).collect()] for v in range(7)]
    for low in range(6):
        for high in {low + 1, 6}:
            state = list(states[low])
            frame = table.changes(after_version=low, ending_version=high)
            rows = sorted(frame.collect(), key=lambda r: (r._commit_version, r._change_type))
            for row in rows:
                if row._change_type == "insert":
                    state.append(repr((row.id, row.p)))
                else:
                    state.remove(repr((row.id, row.p)))
            assert sorted(state) == sorted(states[high])


def test_conditions_on_change_columns_leave_out_whole_commits(
    spark: Any, table: tablefmt.spark.SparkTable
) -> None:
    frame = table.changes(starting_version=0)
    assert frame.columns == ["id", "p", "_change_type", "_commit_version", "_commit_timestamp"]
    found = frame.where("_commit_version = 3 and _change_type = 'insert'")
    assert scanned_files(found) == 1
    assert [tuple(r)[:4] for r in found.collect()] == [(20, "p0", "insert", 3)]
    assert frame.where("_commit_version in (4, 99) and p = 'p0'").count() == 1
    assert frame.where("_commit_version = 4 and p = 'p1'").count() == 0
    when = frame.where("_commit_version = 5").first()._commit_timestamp
    assert (
        frame.where(frame._commit_timestamp >= when).agg({"_commit_version": "min"}).collect()[0][0]
        == 5
    )
    frame.createOrReplaceTempView("changes")
    latest = spark.sql(
        "select id from changes where _change_type = 'insert' and _commit_version = "
        "(select max(_commit_version) from changes)"
    )
    assert [r.id for r in latest.collect()] == [50]


def test_ranges_that_make_no_sense_are_refused(table: tablefmt.spark.SparkTable) -> None:
    """INC-1."""
    with pytest.raises(InvalidRangeError):
        table.changes()
    with pytest.raises(InvalidRangeError):
        table.changes(starting_version=5, ending_version=2)


def test_a_range_over_another_partitioning_has_all_rows_of_a_condition(
    spark: Any, uri: str
) -> None:
    """INC-3: a file has no bounds of a column that it was not partitioned by."""
    table = tablefmt.spark.create(spark, uri, "id BIGINT, a STRING, b STRING", partition_by=["a"])
    table.append(spark.sql("SELECT id, 'x' AS a, string(id % 2) AS b FROM range(4)"))
    rows = pa.table({"id": [7, 8], "a": ["y", "y"], "b": ["1", "0"]})
    table.table.overwrite(rows, overwrite_schema=True, partition_by=["b"])
    found = table.changes(starting_version=1).where("b = '1'")
    assert sorted((r._commit_version, r._change_type, r.id) for r in found.collect()) == [
        (1, "insert", 1), (1, "insert", 3), (2, "delete", 1), (2, "delete", 3), (2, "insert", 7),
    ]  # fmt: skip


def test_types_that_a_restore_split_come_exactly(spark: Any, catalog: None, uri: str) -> None:
    """INC-4: the answer has a type of neither end.

    If no type holds all values, the error names the column.
    """
    table = tablefmt.create(uri, "k INT, v INT")
    table.append([{"k": 1, "v": -7}])
    table.alter.widen_column("v", "BIGINT")
    table.append([{"k": 2, "v": 2**62 + 1}])
    table.restore(version=1)
    table.alter.widen_column("v", "DECIMAL(12, 2)")
    table.append([{"k": 3, "v": Decimal("9999999999.99")}])
    table.delete("k = 1")
    opened = tablefmt.spark.open(spark, uri)
    wanted = table.changes(starting_version=0).to_arrow()
    assert wanted.schema.field("v").type == pa.decimal128(22, 2)
    assert rows_of(opened.changes(starting_version=0), wanted.schema) == rows_of(wanted)
    feed = spark.read.format("tablefmt").option("readChangeFeed", True)
    assert rows_of(feed.option("startingVersion", 0).load(uri), wanted.schema) == rows_of(wanted)
    table.restore(version=1)
    table.alter.widen_column("v", "DOUBLE")
    table.append([{"k": 4, "v": 0.12345}])
    with pytest.raises(InvalidRangeError, match=r"decimal\(12,2\) at versions 5 to 7"):
        opened.changes(starting_version=0)
    with pytest.raises(InvalidRangeError, match="no type can hold all of these"):
        feed.option("startingVersion", 0).load(uri).collect()
