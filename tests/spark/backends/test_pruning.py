"""Files that Spark leaves out by what it learns while a query runs, and what it knows of sizes."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tablefmt
import tablefmt.spark
from tests.spark.looking import data_files, frame_from, in_turn, rows_of

pytestmark = pytest.mark.usefixtures("catalog")

UTC = dt.timezone.utc

VALUES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "boolean": (pa.bool_(), [True, False, None]),
    "byte": (pa.int8(), [-128, 0, 127, None]),
    "short": (pa.int16(), [-1, 5, None]),
    "integer": (pa.int32(), [-(1 << 31), 7, None]),
    "long": (pa.int64(), [-(1 << 63), 7, None]),
    "string": (pa.string(), ["", "a\tb\\n\nc", "ß/%=", r"\N", None]),
    "binary": (pa.binary(), [b"", b"\0\xff", None]),
    "date": (pa.date32(), [dt.date(1, 1, 1), dt.date(2024, 11, 3), None]),
    "timestamp": (
        pa.timestamp("us", "UTC"),
        # The first two are the same time on a clock in New York.
        [
            dt.datetime(2024, 11, 3, 5, 30, tzinfo=UTC),
            dt.datetime(2024, 11, 3, 6, 30, tzinfo=UTC),
            dt.datetime(1899, 12, 31, 23, 59, 59, 999999, UTC),
            None,
        ],
    ),
    "timestamp_ntz": (
        pa.timestamp("us"),
        [dt.datetime(2024, 3, 10, 2, 30), dt.datetime(1, 1, 1, 0, 0, 0, 1), None],
    ),
    "decimal_small": (pa.decimal128(9, 7), [Decimal("-0.0000001"), Decimal("12.5"), None]),
    "decimal_large": (pa.decimal128(38, 10), [Decimal("9" * 28 + ".5"), Decimal(0), None]),
    "double": (pa.float64(), [float("nan"), 1.5, 0.0, None]),
    "float": (pa.float32(), [float("inf"), -1.5, None]),
}


@pytest.fixture(params=["plain", "adaptive"])
def execution(spark: Any, request: pytest.FixtureRequest) -> Iterator[str]:
    spark.conf.set("spark.sql.adaptive.enabled", str(request.param == "adaptive").lower())
    yield request.param
    spark.conf.set("spark.sql.adaptive.enabled", "false")


def by_path(spark: Any, uri: str) -> Any:
    return spark.read.format("tablefmt").load(uri)


def by_function(spark: Any, uri: str) -> Any:
    return tablefmt.spark.read(spark, uri)


def by_name(spark: Any, uri: str) -> Any:
    spark.sql(f"CREATE TABLE IF NOT EXISTS facts USING tablefmt OPTIONS (path '{uri}')")
    return spark.table("facts")


WAYS = [by_path, by_function, by_name]


def scans(frame: Any) -> list[Any]:
    """The scans of tables of ours in the plan of a query that has run."""
    found = []
    waiting = [frame._jdf.queryExecution().executedPlan()]
    while waiting:
        node = waiting.pop()
        name = node.getClass().getSimpleName()
        if name == "AdaptiveSparkPlanExec":
            waiting.append(node.executedPlan())
        elif name.endswith("QueryStageExec"):
            waiting.append(node.plan())
        elif name == "FileSourceScanExec":
            if node.relation().location().getClass().getSimpleName() == "SnapshotFileIndex":
                found.append(node)
        else:
            children = node.children()
            waiting += [children.apply(i) for i in range(children.size())]
    return found


def files_read(frame: Any, uri: str) -> int:
    """Return the number of files of the table that an executed query opened."""
    (scan,) = (
        scan
        for scan in scans(frame)
        if scan.relation().location().rootPaths().apply(1).toString().endswith(uri)
    )
    return int(scan.metrics().apply("numFiles").value())


@pytest.mark.share(6)
@pytest.mark.parametrize("way", WAYS)
def test_a_join_with_a_small_table_leaves_files_out(
    spark: Any, uri: str, execution: str, way: Callable[[Any, str], Any]
) -> None:
    """PRN-3: only what the other side of the join has is opened."""
    from pyspark.sql import functions

    days = spark.range(1000).selectExpr("id", "id % 10 as day", "id * 2 as v")
    tablefmt.spark.write(days.coalesce(1), uri, partition_by=["day"])
    tablefmt.spark.write(days.coalesce(1), uri)
    assert len(data_files(uri)) == 20
    names = spark.range(10).selectExpr("id as d", "concat('d', id % 5) as n", "id % 2 as k")
    tablefmt.spark.write(names, uri + "-names")
    few = by_path(spark, uri + "-names").where("n = 'd3' and k = 1")
    joined = way(spark, uri).join(few, functions.expr("day = d"))
    found = joined.selectExpr("id")
    assert sorted(r.id for r in found.collect()) == sorted([*range(3, 1000, 10)] * 2)
    assert files_read(found, uri) == 2
    filtered = joined.where("id < 500").groupBy("n").agg({"v": "sum"})
    assert [tuple(r) for r in filtered.collect()] == [("d3", 2 * sum(range(6, 1000, 20)))]
    assert files_read(filtered, uri) == 2


STAR = """
SELECT /*+ BROADCAST(d) */ d.month, i.brand, count(*) AS n, sum(f.price) AS price
FROM {facts} f JOIN dates d ON f.day = d.day JOIN items i ON f.item = i.item
WHERE d.month = 3 AND i.brand = 'b7' GROUP BY d.month, i.brand
"""
"""A query as TPC-DS has them: a large table of facts, and conditions on small tables beside it."""


def rows_after_bloom_filter(frame: Any) -> int:
    """Return the rows that passed the Bloom filter which Spark built while the query ran."""
    waiting, found = [frame._jdf.queryExecution().executedPlan()], []
    while waiting:
        node = waiting.pop()
        if node.nodeName().startswith("Filter") and "might_contain" in node.simpleString(1000):
            found.append(int(node.metrics().apply("numOutputRows").value()))
        children = node.children()
        waiting += [children.apply(i) for i in range(children.size())]
    (rows,) = found
    return rows


def test_runtime_filters_of_a_star_join_prune_our_files(spark: Any, uri: str) -> None:
    """PRN-3: files by the dates that the join has, and rows by a Bloom filter of its items, as
    for plain Parquet, also with deleted rows.
    """
    settings = {
        "spark.sql.optimizer.runtime.bloomFilter.enabled": "true",
        # Spark's default is 10 GB of facts.
        "spark.sql.optimizer.runtime.bloomFilter.applicationSideScanSizeThreshold": "0",
        "spark.sql.autoBroadcastJoinThreshold": "-1",
    }
    spark.range(12).selectExpr("id AS day", "id div 2 AS month").createOrReplaceTempView("dates")
    items = spark.range(500).selectExpr("id AS item", "concat('b', id % 50) AS brand")
    items.coalesce(1).write.parquet(uri + "-items")
    spark.read.parquet(uri + "-items").createOrReplaceTempView("items")
    facts = spark.range(6000).selectExpr("id", "id % 12 AS day", "id % 491 AS item", "id AS price")
    tablefmt.spark.write(facts.coalesce(1), uri, partition_by=["day"])
    tablefmt.open(uri).delete("id % 7 = 0")
    facts.where("id % 7 <> 0").coalesce(1).write.partitionBy("day").parquet(uri + "-plain")
    by_name(spark, uri).createOrReplaceTempView("ours")
    spark.read.parquet(uri + "-plain").createOrReplaceTempView("plain")
    ids = [n for n in range(6000) if n % 7 and n % 12 // 2 == 3 and n % 491 % 50 == 7]
    try:
        for name, value in settings.items():
            spark.conf.set(name, value)
        found, plain = (spark.sql(STAR.format(facts=facts)) for facts in ("ours", "plain"))
        expected = [(3, "b7", len(ids), sum(ids))]
        assert [tuple(row) for row in plain.collect()] == expected
        assert [tuple(row) for row in found.collect()] == expected
        assert files_read(found, uri) == 2
        assert len(ids) <= rows_after_bloom_filter(found) == rows_after_bloom_filter(plain) < 100
    finally:
        for name in settings:
            spark.conf.unset(name)


@pytest.mark.share(14)
@pytest.mark.parametrize("name", VALUES)
@pytest.mark.parametrize("way", [by_path, by_name])
def test_partitions_of_every_type_prune_and_give_exact_values(
    spark: Any, uri: str, name: str, way: Callable[[Any, str], Any]
) -> None:
    """VAL-2, DAT-8, PRN-3: values come from the log; those of floats from the files."""
    from pyspark.sql import functions

    kind, values = VALUES[name]
    given = pa.table({"id": range(len(values)), "p": pa.array(values, kind)})
    tablefmt.create(uri, given.schema, partition_by=["p"])
    tablefmt.spark.write(frame_from(spark, given).coalesce(1), uri)
    frame = way(spark, uri)
    assert rows_of(frame, given.schema) == rows_of(given)
    others = uri + "-others"
    frame_from(spark, given).selectExpr("id as i", "p as q").write.parquet(others)
    for at in range(len(values) - 1):
        one = functions.broadcast(spark.read.parquet(others).where(f"i = {at}"))
        joined = frame.join(one, functions.expr("p = q")).select("id")
        assert [r.id for r in joined.collect()] == [at]
        exact = "double" not in name and "float" not in name
        assert files_read(joined, uri) == (1 if exact else len(values) - 1)
    assert [r.id for r in frame.where("p is null").collect()] == [len(values) - 1]


def test_conditions_on_partitions_are_answered_by_the_log(spark: Any, uri: str) -> None:
    frame = spark.range(100).selectExpr("id", "concat('p', id % 10) as p", "id % 10 as n")
    tablefmt.spark.write(frame.coalesce(1), uri, partition_by=["p", "n"])
    conditions = [
        ("p = 'p3'", 1),
        ("substr(p, 2) = '4'", 1),
        ("n % 5 = 2 and p like 'p%'", 2),
        ("n = 3 or p = 'p4'", 2),
        ("p = 'p3' or id = 99", 2),
        ("n = (select 7L)", 1),
        ("n > 100", 0),
    ]
    for (condition, files), way in in_turn(conditions, WAYS):
        found = way(spark, uri).where(condition)
        assert rows_of(found) == rows_of(frame.where(condition)), condition
        assert files_read(found, uri) == files, condition


def test_an_insert_with_a_partition_into_a_view_of_a_path_writes_no_files_beside_the_log(
    spark: Any, uri: str
) -> None:
    """Spark treats the INSERT as one into a folder of files, which it must not find here."""
    from pyspark.errors import AnalysisException

    tablefmt.spark.write(spark.sql("select 1L id, 'a' p"), uri, partition_by=["p"])
    before = data_files(uri)
    by_path(spark, uri).createOrReplaceTempView("a_path")
    with pytest.raises(AnalysisException):
        spark.sql("INSERT INTO a_path PARTITION (p = 'b') VALUES (2)")
    assert data_files(uri) == before
    spark.sql("INSERT INTO a_path VALUES (2, 'b')")
    assert rows_of(by_path(spark, uri)) == rows_of(pa.table({"id": [1, 2], "p": ["a", "b"]}))


@pytest.mark.parametrize("way", WAYS)
def test_spark_knows_how_large_a_table_is(
    spark: Any, uri: str, way: Callable[[Any, str], Any]
) -> None:
    """The side of a join that is just small enough is broadcast, and one byte more is not."""
    from pyspark.sql import functions

    tablefmt.spark.write(spark.range(1000).selectExpr("id", "id % 7 as k").coalesce(1), uri)
    size = sum(Path(path).stat().st_size for path in data_files(uri))
    key = "spark.sql.autoBroadcastJoinThreshold"
    frame = way(spark, uri)
    assert frame._jdf.queryExecution().optimizedPlan().stats().sizeInBytes() == size
    many = spark.range(1_000_000).selectExpr("id as n")
    try:
        for threshold, kind in ((size, "BroadcastHashJoin"), (size - 1, "SortMergeJoin")):
            spark.conf.set(key, threshold)
            joined = many.join(frame, functions.expr("n = id"), "left")
            assert kind in joined._jdf.queryExecution().executedPlan().toString()
    finally:
        spark.conf.unset(key)


@pytest.mark.parametrize("way", WAYS)
def test_spark_knows_how_large_some_columns_are(
    spark: Any, uri: str, way: Callable[[Any, str], Any]
) -> None:
    """A side of a join counts as the columns that it reads, as it does for plain Parquet."""
    from pyspark.sql import functions

    columns = [
        functions.col("id"),
        *(functions.lit(n).cast("long").alias(f"c{n}") for n in range(9)),
    ]
    tablefmt.spark.write(spark.range(1000).select(*columns).coalesce(1), uri)
    (file,) = data_files(uri)
    key = "spark.sql.autoBroadcastJoinThreshold"
    many = spark.range(1_000_000).selectExpr("id as n")
    sizes = []
    try:
        for frame in (spark.read.parquet(str(file)), way(spark, uri)):
            few = frame.where("c1 = 1").select("id")
            sizes.append(few._jdf.queryExecution().optimizedPlan().stats().sizeInBytes())
            spark.conf.set(key, int(str(sizes[0])) + 1)
            plan = many.join(few, functions.expr("id = n"))._jdf.queryExecution().sparkPlan()
            assert "BroadcastHashJoin" in plan.toString()
    finally:
        spark.conf.unset(key)
    assert abs(int(str(sizes[0])) - int(str(sizes[1]))) <= 1
    assert int(str(sizes[0])) < Path(file).stat().st_size // 4


@pytest.mark.parametrize("way", WAYS)
def test_equal_sides_of_joins_are_read_once(
    spark: Any, uri: str, way: Callable[[Any, str], Any]
) -> None:
    """Conditions in another order prune the same files, so Spark reuses the exchange."""
    tablefmt.spark.write(spark.range(100).selectExpr("id", "id % 7 as k").coalesce(1), uri)
    many = spark.range(1000).selectExpr("id as n", "id % 5 as m")
    frame = way(spark, uri)
    first = frame.where("k = 1 OR k = 2").selectExpr("id as a")
    second = frame.where("k = 2 OR k = 1").selectExpr("id as b")
    joined = many.join(first, many.n == first.a).join(second, many.m == second.b)
    other = frame.where("k = 3 OR k = 1").selectExpr("id as b")
    unlike = many.join(first, many.n == first.a).join(other, many.m == other.b)
    expected = {(n, n % 5) for n in range(100) if n % 7 in (1, 2) and n % 5 % 7 in (1, 2)}
    assert {(row.a, row.b) for row in joined.select("a", "b").collect()} == expected
    assert joined.count() == len(expected)
    for query, reused in ((joined, True), (unlike, False)):
        rows = query.select("a", "b")
        rows.collect()
        text = rows._jdf.queryExecution().executedPlan().toString()
        assert ("ReusedExchange" in text.split("Initial Plan")[0]) == reused, text
