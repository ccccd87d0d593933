"""Schemas that change, through Spark: old files on every reader, writers that evolve, SQL."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.functions import lit

import tablefmt
import tablefmt.spark
from tablefmt.errors import (
    InvalidRangeError,
    SchemaMismatchError,
)

pytestmark = pytest.mark.usefixtures("catalog")

COLUMNS = (
    "id INT, b BYTE, i INT, l BIGINT, f FLOAT, d DECIMAL(5,2), day DATE, p STRING, gone STRING, "
    "s STRUCT<a: INT, b: STRING>, li ARRAY<STRUCT<a: SMALLINT, b: STRING>>, "
    "m MAP<STRING, STRUCT<a: FLOAT>>"
)
WIDER = {
    "id": "BIGINT",
    "b": "DECIMAL(12,1)",
    "i": "DOUBLE",
    "l": "DECIMAL(22,2)",
    "f": "DOUBLE",
    "d": "DECIMAL(10,4)",
    "day": "TIMESTAMP_NTZ",
    "s.a": "DECIMAL(11,1)",
    "li.element.a": "INT",
    "m.value.a": "DOUBLE",
}
DEFAULTS = {
    "n": ("INT NOT NULL", 7),
    "text": ("STRING", "it's \\ \n ünï"),
    "nan": ("DOUBLE", float("nan")),
    "fl": ("FLOAT", 0.1),
    "low": ("BIGINT", -(2**63)),
    "by": ("TINYINT", -128),
    "dec": ("DECIMAL(20,3)", Decimal("-1.5")),
    "ts": ("TIMESTAMP", dt.datetime(1900, 1, 1, 12, 0, 0, 5, tzinfo=dt.timezone.utc)),
    "ntz": ("TIMESTAMP_NTZ", dt.datetime(1582, 10, 10, 1)),
    "dd": ("DATE", dt.date(1, 1, 1)),
    "yes": ("BOOLEAN", True),
}


def row(i: int) -> dict[str, Any]:
    return {
        "id": i, "b": i, "i": 2**31 - i, "l": 2**63 - i, "f": 0.5 * i, "d": Decimal(i) / 4,
        "day": dt.date(1582, 10, 1 + i), "p": "ab"[i % 2], "gone": "old", "s": {"a": i, "b": "old"},
        "li": [{"a": i, "b": "old"}, None], "m": [("k", {"a": 0.5 * i})],
    }  # fmt: skip


@pytest.fixture
def evolved(spark: Any, uri: str) -> Any:
    """Files by Arrow and by Spark before the changes, and by Spark after them."""
    table = tablefmt.create(uri, COLUMNS, partition_by=["p"])
    schema = table.schema
    table.append(pa.Table.from_pylist([row(1), row(2)], schema))
    given = pa.Table.from_pylist([row(3), row(4)], schema)
    tablefmt.spark.write(spark.createDataFrame(given), uri)
    for name, kind in WIDER.items():
        table.alter.widen_column(name, kind)
    for name in ("gone", "s.b", "li.element.b"):
        table.alter.drop_column(name)
        table.alter.add_column(name, "INT", first=True)
    table.alter.rename_column("p", "part")
    table.alter.rename_column("m.value.a", "z")
    table.alter.move_column("m", after="id")
    for name, (kind, value) in DEFAULTS.items():
        table.alter.add_column(name, kind, default=value)
    frame = spark.sql(
        "SELECT 5L AS id, 'c' AS part, 2.5D AS f, named_struct('b', 9) AS s, 1 AS gone"
    )
    tablefmt.spark.write(frame, uri)
    return table.refresh()


def content(table: Any) -> list[str]:
    """Rows as text, for NaN is not itself."""
    return sorted(map(repr, table.to_pylist()))


def test_every_reader_of_spark_gives_what_arrow_gives(spark: Any, evolved: Any, uri: str) -> None:
    """SCH-7, SCH-9, DAT-4, DAT-12: vectorized, row by row, in Python; deletes; old versions."""
    expected = content(evolved.to_arrow())
    assert len(expected) == 5
    assert content(tablefmt.spark.read(spark, uri).toArrow()) == expected
    assert content(spark.read.format("tablefmt").load(uri).toArrow()) == expected
    spark.conf.set("spark.sql.parquet.enableVectorizedReader", "false")
    try:
        assert content(spark.read.format("tablefmt").load(uri).toArrow()) == expected
    finally:
        spark.conf.unset("spark.sql.parquet.enableVectorizedReader")
    python = spark.read.format("tablefmt_arrow").load(uri).toArrow()
    assert content(python) == expected
    evolved.delete("id = 2 OR n < 7")
    left = content(evolved.refresh().to_arrow())
    assert len(left) == 4
    assert content(tablefmt.spark.read(spark, uri).toArrow()) == left
    before = content(evolved.to_arrow(version=2))
    assert len(before) == 4
    assert content(tablefmt.spark.read(spark, uri, version=2).toArrow()) == before


def test_values_are_those_that_were_written(spark: Any, evolved: Any, uri: str) -> None:
    """SCH-7, SCH-8, SCH-9: against plain Python."""
    found = {r["id"]: r for r in tablefmt.spark.read(spark, uri).toArrow().to_pylist()}
    for i in range(1, 5):
        old, new = row(i), found[i]
        assert new["day"] == dt.datetime(1582, 10, 1 + i)
        assert (new["b"], new["i"], new["l"], new["d"]) == (i, old["i"], old["l"], old["d"])
        assert new["s"] == {"b": None, "a": Decimal(i)}
        assert new["li"] == [{"b": None, "a": i}, None]
        assert (new["m"], new["gone"], new["part"]) == ([("k", {"z": 0.5 * i})], None, old["p"])
    assert found[5]["s"] == {"b": 9, "a": None}
    assert (found[5]["gone"], found[5]["day"], found[5]["m"]) == (1, None, None)
    for i in found:
        for name, (_, value) in DEFAULTS.items():
            if name == "nan":
                assert found[i][name] != found[i][name]
            else:
                assert found[i][name] == pytest.approx(value) if name == "fl" else value


CONDITIONS = [
    "id = 1", "b >= 2.5", "i > 2147483645", "l = 9223372036854775807", "d < 0.5001", "n <> 7",
    "day = TIMESTAMP_NTZ '1582-10-03 00:00:00'", "nan > 1", "gone = 1", "part = 'b' AND id < 3",
    "low < 0 AND f > 1", "s.b IS NULL AND m['k'].z > 1",
]  # fmt: skip


def test_conditions_on_changed_columns_select_what_they_select_without_push_down(
    spark: Any, evolved: Any, uri: str
) -> None:
    """SCH-9, PRN-4: row groups and files are left out by statistics of the types of then."""
    frame = tablefmt.spark.read(spark, uri)
    plain = spark.createDataFrame(frame.toArrow())
    counted = [f"count_if({condition})" for condition in CONDITIONS]
    expected = list(plain.selectExpr(*counted).first())
    assert [frame.where(condition).count() for condition in CONDITIONS] == expected
    assert 0 < sum(expected) < 5 * len(expected)


def test_a_write_brings_its_columns_along(spark: Any, uri: str) -> None:
    """SCH-8: functions, formats and SparkTable add columns. A column of NULL alone adds none."""
    tablefmt.spark.write(
        spark.sql("SELECT 1 AS id, 'a' AS p, named_struct('x', 1) AS s"), uri, partition_by=["p"]
    )
    more = spark.sql(
        "SELECT 5000000000 AS ID, 'b' AS p, named_struct('y', DATE '2020-01-01') AS s, 2.5 AS z"
    )
    tablefmt.spark.write(more, uri, mergeSchema=True)
    last = spark.sql("SELECT NULL AS s, 'c' AS p, true AS w")
    last.write.format("tablefmt").mode("append").option("mergeSchema", "true").save(uri)
    tablefmt.spark.open(spark, uri).append(spark.sql("SELECT 9 AS v"), merge_schema=True)
    table = tablefmt.open(uri)
    none = {"id": None, "p": None, "s": None, "z": None, "w": None, "v": None}
    day = dt.date(2020, 1, 1)
    wanted = [
        {**none, "id": 1, "p": "a", "s": {"x": 1, "y": None}},
        {**none, "id": 5000000000, "p": "b", "s": {"x": None, "y": day}, "z": Decimal("2.5")},
        {**none, "p": "c", "w": True},
        {**none, "v": 9},
    ]
    assert table.to_arrow().to_pylist() == wanted
    assert content(tablefmt.spark.read(spark, uri).toArrow()) == sorted(map(repr, wanted))
    assert table.history()["operation"].to_pylist() == ["WRITE"] * 4 + ["CREATE TABLE"]


def test_the_arrow_backend_writes_as_the_native_one(
    spark: Any, uri: str, use_backend: Callable[..., None]
) -> None:
    """SCH-7, SCH-8: columns brought along, and defaults of columns that are not given."""
    table = tablefmt.create(uri, "id INT, s STRUCT<a: INT>, p STRING", partition_by=["p"])
    table.alter.rename_column("p", "part")
    for name, (kind, value) in DEFAULTS.items():
        table.alter.add_column(name, kind, default=value)
    frame = spark.sql("SELECT 1L AS id, 'x' AS part, named_struct('b', 2) AS s, 3 AS more")
    frame.write.format("tablefmt_arrow").mode("append").option("mergeSchema", "true").save(uri)
    given = spark.sql("SELECT 1 AS id, 'x' AS part, named_struct('b', 2) AS s, 3L AS more")
    native = tablefmt.spark.write(given, uri, mergeSchema=True)
    use_backend("arrow")
    tablefmt.spark.write(given.withColumn("more", lit(3)), uri, mergeSchema=True)
    assert native.version == table.refresh().version - 1
    rows = [repr(row) for row in table.to_arrow().to_pylist()]
    assert (len(rows), len(set(rows))) == (3, 1)
    assert "'s': {'a': None, 'b': 2}, 'part': 'x', 'n': 7" in rows[0]
    assert "'yes': True, 'more': 3" in rows[0]


def test_an_overwrite_brings_other_columns_and_partitions(spark: Any, uri: str) -> None:
    """SCH-8."""
    tablefmt.spark.write(spark.sql("SELECT 1 AS id, 'a' AS p"), uri, partition_by=["p"])
    other = spark.sql("SELECT 'q' AS q, map('k', 1) AS id")
    writer = other.write.format("tablefmt").mode("overwrite").option("overwriteSchema", "true")
    writer.partitionBy("q").save(uri)
    table = tablefmt.open(uri)
    assert (table.partition_by, table.version) == (["q"], 2)
    assert table.to_arrow().to_pylist() == [{"q": "q", "id": [("k", 1)]}]
    old = tablefmt.spark.read(spark, uri, version=1)
    assert [r.asDict() for r in old.collect()] == [{"id": 1, "p": "a"}]
    part = spark.sql("SELECT 'r' AS q, 1 AS w")
    options: dict[str, Any] = {"mergeSchema": True, "replaceWhere": "q = 'r'"}
    tablefmt.spark.write(part, uri, mode="overwrite", **options)
    tablefmt.spark.write(part, uri, mode="overwrite", **options)
    rows = tablefmt.spark.read(spark, uri)
    assert rows.select("q", "w").orderBy("q").collect() == [("q", None), ("r", 1)]
    # The table's own rows work too.
    again = rows.selectExpr("w AS ww", "q")
    tablefmt.spark.write(again, uri, mode="overwrite", partition_by="ww", overwriteSchema=True)
    assert table.refresh().partition_by == ["ww"]
    assert table.to_arrow().sort_by("q").to_pylist() == [
        {"ww": None, "q": "q"},
        {"ww": 1, "q": "r"},
    ]


@pytest.mark.parametrize(
    ("query", "mode", "options", "error"),
    [
        ("SELECT 1 AS id, NULL AS new", "append", {"mergeSchema": True}, SchemaMismatchError),
        ("SELECT 1 AS id, INTERVAL 1 DAY AS new", "append", {"mergeSchema": True},
         SchemaMismatchError),
        ("SELECT 1 AS id, 1 AS new", "append", {}, SchemaMismatchError),
        ("SELECT array(1) AS id", "append", {"mergeSchema": True}, SchemaMismatchError),
        ("SELECT 1 AS id", "append", {"overwriteSchema": True}, InvalidRangeError),
        ("SELECT 1 AS id", "overwrite", {"overwriteSchema": True}, SchemaMismatchError),
        ("SELECT 1 AS p", "overwrite", {"overwriteSchema": True, "replaceWhere": "p = 'a'"},
         InvalidRangeError),
        ("SELECT 1 AS p", "overwrite",
         {"overwriteSchema": True, "partitionOverwriteMode": "dynamic"}, InvalidRangeError),
    ],
)  # fmt: skip
def test_what_cannot_be_taken_over_changes_nothing(
    spark: Any, uri: str, query: str, mode: str, options: dict[str, Any], error: type[Exception]
) -> None:
    """SCH-2, SCH-5."""
    table = tablefmt.create(uri, "id INT, p STRING", partition_by=["p"])
    with pytest.raises(error):
        tablefmt.spark.write(spark.sql(query), uri, mode=mode, **options)  # type: ignore[arg-type]
    assert table.refresh().version == 0


@pytest.fixture
def t(spark: Any, uri: str) -> Iterator[str]:
    """A table of the catalog, made with a default."""
    spark.sql(
        f"CREATE TABLE t (id INT, name STRING, n INT DEFAULT 4) USING tablefmt "
        f"OPTIONS (path '{uri}')"
    )
    spark.sql("INSERT INTO t (id) VALUES (1)")
    yield uri
    spark.sql("DROP TABLE IF EXISTS t")


def test_alter_table_changes_the_table_itself(spark: Any, t: str) -> None:
    """SCH-7 .. SCH-9: Spark's catalog follows."""
    for change in (
        "ADD COLUMNS (z BIGINT DEFAULT 5 AFTER id, s STRUCT<a: INT>)",
        "ADD COLUMN s.b INT FIRST",
        "RENAME COLUMN name TO label",
        "RENAME COLUMN s.a TO aa",
        "ALTER COLUMN id TYPE BIGINT",
        "ALTER COLUMN z FIRST",
        "DROP COLUMN s.b",
        "DROP COLUMN IF EXISTS never",
        "SET TBLPROPERTIES ('user.x' = 'y')",
    ):
        spark.sql(f"ALTER TABLE t {change}")
    spark.sql("INSERT INTO t VALUES (DEFAULT, 5000000000, 'two', 2, named_struct('aa', 1))")
    spark.sql("ALTER TABLE t ALTER COLUMN z SET DEFAULT 9")
    spark.sql("ALTER TABLE t ALTER COLUMN n DROP DEFAULT")
    spark.sql("INSERT INTO t (id, label) VALUES (3, 'three')")
    spark.sql("ALTER TABLE t DROP COLUMN label")
    spark.sql("ALTER TABLE t ADD COLUMN label DATE")
    wanted = [
        {"z": 5, "id": 1, "n": 4, "s": None, "label": None},
        {"z": 5, "id": 5000000000, "n": 2, "s": {"aa": 1}, "label": None},
        {"z": 9, "id": 3, "n": None, "s": None, "label": None},
    ]
    assert tablefmt.open(t).to_arrow().to_pylist() == wanted
    found = [r.asDict(True) for r in spark.sql("SELECT * FROM t").collect()]
    assert sorted(map(repr, found)) == sorted(map(repr, wanted))
    assert spark.sql("SELECT * FROM t VERSION AS OF 1").collect() == [(1, None, 4)]
    assert tablefmt.open(t).properties == {"user.x": "y"}
    operations = tablefmt.open(t).history()["operation"].to_pylist()
    assert operations[:2] == ["ADD COLUMNS", "DROP COLUMNS"]


def test_what_alter_table_cannot_do_is_refused_by_name(spark: Any, t: str) -> None:
    """SCH-5, SCH-9."""
    version = tablefmt.open(t).version
    for change, error in (
        ("ADD COLUMN bad INTERVAL DAY", SchemaMismatchError),
        ("ADD COLUMN bad BINARY DEFAULT X'00'", SchemaMismatchError),
        ("ALTER COLUMN id TYPE STRING", SchemaMismatchError),
        ("SET TBLPROPERTIES ('isolationLevel' = 'None')", SchemaMismatchError),
    ):
        with pytest.raises(error):
            spark.sql(f"ALTER TABLE t {change}")
    assert tablefmt.open(t).version == version
    assert spark.sql("SELECT id, n FROM t").collect() == [(1, 4)]
