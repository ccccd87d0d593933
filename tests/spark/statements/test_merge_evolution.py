"""Structs of a MERGE's source and the table's: by name, with fewer fields, with more. By Spark."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any

import pytest

import tablefmt
import tablefmt.spark
from tablefmt.errors import SchemaMismatchError
from tests import overlays
from tests.overlays import Row
from tests.tables import rows_by_id, table_of_rows

pytestmark = pytest.mark.usefixtures("catalog")


def filled(spark: Any, uri: str, ddl: str, rows: list[Row]) -> None:
    table_of_rows(uri, ddl, rows)
    spark.sql(f"CREATE TABLE t USING tablefmt OPTIONS (path '{uri}')")


def undone(uri: str) -> None:
    """The rows of the first write again."""
    table = tablefmt.open(uri)
    table.overwrite(table.to_arrow(version=1))


def test_fields_that_the_source_lacks_stay(
    spark: Any, uri: str, use_backend: Callable[..., None]
) -> None:
    """MRG-1: SQL and SparkTable on both backends give the same as plain Python."""
    for at, kind in enumerate((overlays.LACKING, overlays.COMPLETE)):
        place = f"{uri}{at}"
        filled(spark, place, overlays.DDL, overlays.target_rows())
        source = spark.createDataFrame(overlays.source_rows(kind))
        source.createOrReplaceTempView("given")
        spark.sql(
            "MERGE WITH SCHEMA EVOLUTION INTO t USING given s ON t.id = s.id "
            "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
        )
        assert rows_by_id(place) == overlays.expected(kind)
        spark.sql("DROP TABLE t")
        for backend in ("native", "arrow"):
            place = f"{uri}{at}{backend}"
            filled(spark, place, overlays.DDL, overlays.target_rows())
            spark.sql("DROP TABLE t")
            use_backend(backend)
            table = tablefmt.spark.open(spark, place)
            merge = table.merge(source, "t.id = s.id", merge_schema=True)
            merge.when_matched_update_all().when_not_matched_insert_all().execute()
            assert rows_by_id(place) == overlays.expected(kind), backend


DAY, OTHER = dt.date(2020, 1, 1), dt.date(2021, 1, 1)
NESTED = (
    "id INT, v STRUCT<a: INT, b: DATE, c: STRUCT<d: INT, e: DATE>>, "
    "l ARRAY<STRUCT<a: INT, b: DATE>>, m MAP<STRING, ARRAY<STRUCT<a: INT, b: DATE>>>"
)
FIELDS = "named_struct('b', DATE'2020-01-01', 'a', 5)"
VALUE = (
    "named_struct('c', named_struct('e', DATE'2020-01-01', 'd', 7L), 'b', DATE'2021-01-01', 'A', 5)"
)
OTHERS = f"{VALUE} AS v, array({FIELDS}) AS l, map('k', array({FIELDS})) AS m"
NEW: Row = {
    "v": {"a": 5, "b": OTHER, "c": {"d": 7, "e": DAY}},
    "l": [{"a": 5, "b": DAY}],
    "m": [("k", [{"a": 5, "b": DAY}])],
}


def test_structs_go_by_the_names_of_their_fields(spark: Any, uri: str) -> None:
    """SQL-5: fields match by name, where a cast by position is impossible, at any depth."""
    empty: Row = {"v": None, "l": None, "m": None}
    filled(spark, uri, NESTED, [{"id": 1, **empty}, {"id": 2, **empty}])
    using = f"MERGE INTO t USING (SELECT {OTHERS}, 1 AS id) s ON t.id = s.id WHEN MATCHED THEN"
    other = f"MERGE INTO t USING (SELECT {OTHERS}, 3 AS id) s ON t.id = s.id WHEN NOT MATCHED THEN"
    new = {"id": 1, **NEW}
    for text, rows in (
        (f"UPDATE t SET v = {VALUE}, l = array({FIELDS}), m = map('k', array({FIELDS}))", None),
        (f"{using} UPDATE SET v = s.v, l = s.l, m = s.m", [new, {"id": 2, **empty}]),
        (f"{using} UPDATE SET *", [new, {"id": 2, **empty}]),
        (f"{other} INSERT *", [{"id": 1, **empty}, {"id": 2, **empty}, {**new, "id": 3}]),
        (
            f"{other} INSERT (id, l) VALUES (3, s.l)",
            [{"id": 1, **empty}, {"id": 2, **empty}, {"id": 3, **empty, "l": NEW["l"]}],
        ),
        (
            "UPDATE t SET v.c = named_struct('e', DATE'2020-01-01', 'd', 7) WHERE id = 1",
            [
                {**empty, "id": 1, "v": {"a": None, "b": None, "c": {"d": 7, "e": DAY}}},
                {"id": 2, **empty},
            ],
        ),
    ):
        spark.sql(text)
        assert rows_by_id(uri) == (rows or [new, {**new, "id": 2}]), text
        undone(uri)
    version = tablefmt.open(uri).version
    for text, words in (
        ("UPDATE t SET v.c = named_struct('e', DATE'2020-01-01')", r"'v\.c' is STRUCT"),
        ("UPDATE t SET v.c = named_struct('e', 5, 'd', 7)", "v.*c.*e"),
        ("UPDATE t SET l = array(named_struct('b', DATE'2020-01-01'))", "'l' is ARRAY"),
        ("UPDATE t SET v = 5", "'v' is STRUCT"),
        (
            "MERGE INTO t USING (SELECT 1 AS id, named_struct('a', 1, 'q', 2) AS v) s "
            "ON t.id = s.id WHEN MATCHED THEN UPDATE SET v = s.v",
            "'v' is STRUCT",
        ),
    ):
        with pytest.raises(SchemaMismatchError, match=words):
            spark.sql(text)
    assert tablefmt.open(uri).version == version


def test_what_a_clause_names_comes_in(spark: Any, uri: str) -> None:
    """MRG-1: columns and fields that only the source has, in SQL and by SparkTable."""
    old: list[Row] = [{"id": 1, "v": {"a": 1}}, {"id": 2, "v": None}]
    filled(spark, uri, "id INT, v STRUCT<a: INT>", old)
    spark.sql(
        "SELECT col1 AS id, 5 AS extra, 'x' AS other, named_struct('q', 1) AS w, "
        "named_struct('k', 7, 'n', named_struct('j', 8), 'u', 1) AS v FROM VALUES (1), (9)"
    ).createOrReplaceTempView("given")
    using = "MERGE WITH SCHEMA EVOLUTION INTO t AS x USING given s ON x.id = s.id WHEN"
    for text in (
        f"{using} MATCHED THEN UPDATE SET nowhere = s.extra",
        f"{using} NOT MATCHED BY SOURCE THEN UPDATE SET extra = 1",
        "MERGE INTO t USING given s ON t.id = s.id WHEN MATCHED THEN UPDATE SET extra = s.extra",
    ):
        with pytest.raises(Exception, match="UNRESOLVED_COLUMN"):
            spark.sql(text)
    spark.sql(
        f"{using} MATCHED AND x.v.a = 1 THEN UPDATE SET x.extra = s.extra, v.n.j = s.v.n.j + 1"
    )
    assert rows_by_id(uri) == [
        {"id": 1, "v": {"a": 1, "n": {"j": 9}}, "extra": 5},
        {"id": 2, "v": None, "extra": None},
    ]
    spark.sql(f"{using} NOT MATCHED THEN INSERT (id, w) VALUES (s.id, s.w)")
    assert spark.sql("SELECT w.q FROM t WHERE id = 9").collect() == [(1,)]
    merge = tablefmt.spark.open(spark, uri).merge(
        spark.table("given"), "t.id = s.id", merge_schema=True
    )
    merge.when_matched_update({"v.k": "s.v.k", "other": "concat(s.other, '!')"}).execute()
    assert rows_by_id(uri) == [
        {"id": 1, "v": {"a": 1, "n": {"j": 9}, "k": 7}, "extra": 5, "w": None, "other": "x!"},
        {"id": 2, "v": None, "extra": None, "w": None, "other": None},
        {
            "id": 9,
            "v": {"a": None, "n": None, "k": 7},
            "extra": None,
            "w": {"q": 1},
            "other": "x!",
        },
    ]
