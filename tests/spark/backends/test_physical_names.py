"""Tables whose data files have other names for the columns than the table (SCH-3)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck
from hypothesis import strategies as st

import tablefmt
import tablefmt.spark
from tablefmt.expressions.ddl import to_spark_json
from tablefmt.model.schema import Array, Field, Map, Primitive, Schema, Struct
from tests.spark.looking import data_files, in_turn, rows_of, scanned_files

pytestmark = pytest.mark.usefixtures("catalog")

LONG, TEXT = Primitive("long"), Primitive("string")

# a and b, x and y have changed places: reading by name alone finds columns, and the wrong ones.
RENAMED = Schema(
    (
        Field(1, "a", "b", LONG),
        Field(2, "b", "a", LONG),
        Field(3, "p.q", "old p", TEXT),
        Field(4, "s", "t", Struct((Field(5, "x", "y", LONG), Field(6, "y", "x.x", TEXT)))),
        Field(7, "t", "s", Array(Struct((Field(8, "in", "out", LONG),)), element_id=11)),
        Field(9, "m", "mm", Map(TEXT, Struct((Field(10, "v", "w", LONG),)), True, 12, 13)),
    ),
    13,
)


def rows(start: int, stop: int) -> pa.Table:
    ids = range(start, stop)
    return pa.table(
        {
            "a": list(ids),
            "b": [1000 + i for i in ids],
            "p.q": ["xyz"[i % 3] if i % 4 else None for i in ids],
            "s": [{"x": i, "y": f"y{i}"} if i % 5 else None for i in ids],
            "t": pa.array([[{"in": i}] * (i % 3) for i in ids], pa.list_(pa.struct({"in": "i8"}))),
            "m": pa.array(
                [[("k", {"v": i})] for i in ids], pa.map_("string", pa.struct({"v": "i8"}))
            ),
        }
    )


@pytest.fixture
def table(uri: str) -> tablefmt.Table:
    """Ten files of ten rows, written through Arrow."""
    table = tablefmt.create(uri, RENAMED)
    for at in range(0, 100, 10):
        table.append(rows(at, at + 10))
    assert pq.read_schema(data_files(uri)[0]).names[:2] == ["b", "a"]
    return table


def ways(spark: Any, uri: str) -> Iterator[Any]:
    """The table by path, by function and by name."""
    yield spark.read.format("tablefmt").load(uri)
    yield tablefmt.spark.read(spark, uri)
    spark.sql(f"CREATE TABLE IF NOT EXISTS renamed USING tablefmt OPTIONS (path '{uri}')")
    yield spark.table("renamed")


def test_every_column_is_read_under_its_name(spark: Any, uri: str, table: tablefmt.Table) -> None:
    """SCH-3, DAT-4: the rows equal those that Arrow reads.

    The schema shows nothing of the files.
    """
    for frame in ways(spark, uri):
        assert json.loads(frame.schema.json()) == to_spark_json(RENAMED)
        assert rows_of(frame) == rows_of(table.to_arrow())
        assert rows_of(frame.select("b", "s.y", "t.in")) == rows_of(
            pa.table(
                {
                    "b": [1000 + i for i in range(100)],
                    "y": [f"y{i}" if i % 5 else None for i in range(100)],
                    "in": [[i] * (i % 3) for i in range(100)],
                }
            )
        )


CONDITIONS = [
    ("a = 5", 1),
    ("b = 1005", 1),
    ("b = 5", 0),
    ("a in (5, 95) or b = 1050", 3),
    ("not (a > 5)", 1),
    ("a <=> 17 and b > 5", 1),
    ("`p.q` = 'x' and a < 30", 3),
    ("`p.q` like 'z%'", 10),
    ("`p.q` is null", 10),
    ("s.x = 17", 10),
    ("s.y = 'y17' or s.x = 18", 10),
    ("s.y is not null and s.y != 'y1'", 10),
    ("get(t, 0).in = 17 or m['k'].v = 18", 10),
]


@pytest.mark.share(2)
@pytest.mark.parametrize("vectorized", ["true", "false"])
def test_conditions_mean_the_columns_of_the_table(
    spark: Any, uri: str, table: tablefmt.Table, vectorized: str
) -> None:
    """PRN-3: files and row groups are left out by the right column, in both of Spark's readers."""
    everything = spark.createDataFrame(table.to_arrow(), tablefmt.spark.read(spark, uri).schema)
    keys = ("spark.sql.parquet.enableVectorizedReader",
            "spark.sql.parquet.enableNestedColumnVectorizedReader")  # fmt: skip
    for key in keys:
        spark.conf.set(key, vectorized)
    try:
        for (condition, files), frame in in_turn(CONDITIONS, list(ways(spark, uri))):
            found = frame.where(condition)
            assert rows_of(found) == rows_of(everything.where(condition)), condition
            assert scanned_files(found) <= files, condition
    finally:
        for key in keys:
            spark.conf.unset(key)


def test_conditions_reach_the_reader_under_the_names_of_the_files(spark: Any, uri: str) -> None:
    """A page of 20,000 rows is the least that Spark's writer lets its reader pass over."""
    tablefmt.create(uri, RENAMED)
    big = spark.range(0, 100_000, 1, 1).selectExpr("id as a", "id + 1000000 as b")
    tablefmt.spark.write(big, uri)
    for condition in ("a = 5", "b = 1000005"):
        found = spark.read.format("tablefmt").load(uri).where(condition).select("a", "b")
        assert [tuple(r) for r in found.collect()] == [(5, 1000005)]
        leaf = found._jdf.queryExecution().executedPlan().collectLeaves().apply(0)
        assert leaf.metrics().apply("numOutputRows").value() < 50_000


def test_only_the_columns_asked_for_are_read(spark: Any, uri: str, table: tablefmt.Table) -> None:
    for frame in ways(spark, uri):
        plan = frame.select("s.x")._jdf.queryExecution().executedPlan().toString()
        assert "ReadSchema: struct<s:struct<x:bigint>>" in plan
    found = spark.read.format("tablefmt").load(uri).select("a", "_metadata.row_index")
    assert sorted(map(tuple, found.collect())) == [(i, i % 10) for i in range(100)]


def test_rows_go_in_by_every_way(spark: Any, uri: str, table: tablefmt.Table) -> None:
    """SCH-3, DAT-2."""
    frame = spark.createDataFrame(rows(101, 102), tablefmt.spark.read(spark, uri).schema)
    list(ways(spark, uri))
    frame.write.format("tablefmt").mode("append").save(uri)
    tablefmt.spark.write(frame, uri)
    frame.write.insertInto("renamed")
    frame.createOrReplaceTempView("one_more")
    spark.sql("INSERT INTO renamed BY NAME SELECT b, a, `p.q`, m, s, t FROM one_more")
    table.refresh()
    expected = pa.concat_tables([rows(0, 100), *[rows(101, 102)] * 4])
    assert rows_of(table.to_arrow(), table.schema) == rows_of(expected, table.schema)
    assert {tuple(pq.read_schema(path).names) for path in data_files(uri)} == {
        ("b", "a", "old p", "t", "s", "mm")
    }


def test_partitions_are_known_by_their_names(spark: Any, uri: str) -> None:
    fields = (Field(1, "id", "p.q", LONG), Field(2, "p.q", "id", TEXT))
    table = tablefmt.create(uri, Schema(fields, 2), partition_by=["p.q"])
    spark.sql(f"CREATE TABLE renamed USING tablefmt OPTIONS (path '{uri}')")
    spark.sql("INSERT INTO renamed VALUES (1, 'x'), (2, 'y'), (3, NULL)")
    spark.sql("INSERT OVERWRITE renamed PARTITION (`p.q` = 'y') VALUES (4)")
    table.refresh()
    assert rows_of(table.to_arrow()) == rows_of(
        pa.table({"id": [1, 3, 4], "p.q": ["x", None, "y"]})
    )
    for frame in ways(spark, uri):
        assert [tuple(r) for r in frame.where("`p.q` = 'y'").collect()] == [(4, "y")]
        assert scanned_files(frame.where("`p.q` = 'y'")) == 1
        assert [r.id for r in frame.where("`p.q` is null").collect()] == [3]


NAMES = ["a", "b", "c", "A b", "d.e"]


@hypothesis.settings(max_examples=5, deadline=None, suppress_health_check=list(HealthCheck))
@hypothesis.given(
    files=st.permutations(NAMES), asked=st.sampled_from(NAMES), value=st.integers(0, 9)
)
def test_any_exchange_of_names_gives_the_rows_that_arrow_reads(
    spark: Any,
    tmp_path_factory: pytest.TempPathFactory,
    files: list[str],
    asked: str,
    value: int,
) -> None:
    uri = str(tmp_path_factory.mktemp("names") / Path("table"))
    fields = (Field(i + 1, *pair, LONG) for i, pair in enumerate(zip(NAMES, files, strict=True)))
    given = pa.table({n: [10 * i + v for v in range(10)] for i, n in enumerate(NAMES)})
    table = tablefmt.create(uri, Schema(tuple(fields), len(NAMES)))
    table.append(given)
    frame = spark.read.format("tablefmt").load(uri)
    assert rows_of(frame) == rows_of(given)
    wanted = 10 * NAMES.index(asked) + value
    assert rows_of(frame.where(f"`{asked}` = {wanted}")) == rows_of(given.slice(value, 1))
