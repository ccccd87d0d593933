"""Parts of structs in SET, and MERGE WITH SCHEMA EVOLUTION, by Spark: beside plain Python."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

import tablefmt
import tablefmt.spark
from tablefmt.errors import (
    ConstraintViolationError,
    InvalidPredicateError,
    SchemaMismatchError,
    UnsupportedFeatureError,
)
from tablefmt.spark.entry import write_verbs
from tablefmt.spark.entry.spark_table import SparkTable
from tests.parts import DDL, Row, with_parts
from tests.tables import rows_by_id, table_of_rows

pytestmark = pytest.mark.usefixtures("catalog")

DAY = dt.date(2024, 2, 29)
ROWS: list[Row] = [
    {"id": 1, "v": 10, "s": {"a": 1, "c": {"d": "d1", "e": DAY}, "b": "b1"}},
    {"id": 2, "v": 20, "s": None},
    {"id": 3, "v": None, "s": {"a": None, "c": None, "b": "b3"}},
    {"id": 4, "v": 40, "s": {"a": 4, "c": {"d": None, "e": None}, "b": None}},
]


def filled(uri: str, ddl: str = DDL, rows: list[Row] = ROWS) -> tablefmt.Table:
    return table_of_rows(uri, ddl, rows)


def by_spark(table: SparkTable) -> list[Row]:
    rows = (row.asDict(recursive=True) for row in table.to_df().collect())
    return sorted(rows, key=lambda row: row["id"])


def named(spark: Any, uri: str) -> None:
    spark.sql(f"CREATE TABLE t USING tablefmt OPTIONS (path '{uri}')")


@pytest.mark.share(2)
def test_parts_of_structs_are_set_and_the_others_stay(spark: Any, uri: str, backend: str) -> None:
    """SQL-5: all from the old row; a NULL struct becomes one; types by store assignment."""
    filled(uri)
    table = tablefmt.spark.open(spark, uri)
    table.update({"s.A": "v + 0.6D", "`s`.c.d": "id", "v": "s.a", "s.c.e": "NULL"}, "id <> 4")

    def updated(row: Row) -> Row:
        values = {
            ("s", "a"): None if row["v"] is None else int(row["v"] + 0.6),
            ("s", "c", "d"): str(row["id"]),
            ("s", "c", "e"): None,
            ("v",): None if row["s"] is None else row["s"]["a"],
        }
        return row if row["id"] == 4 else with_parts(row, values)  # type: ignore[arg-type]

    expected = [updated(row) for row in ROWS]
    assert rows_by_id(uri) == by_spark(table) == expected
    source = spark.sql("SELECT * FROM VALUES (1L, 7L), (2L, 8L), (9L, 9L) AS q(id, x)")
    merge = table.merge(source, "t.id = q.id", source_alias="q")
    merge = merge.when_matched_update({"t.s.a": "q.x", "s.b": "concat(t.s.b, q.x)"}, "q.x = 7")
    merge = merge.when_matched_update({"s.c": "NULL"})
    merge = merge.when_not_matched_insert({"id": "q.id", "s": "NULL"})
    merge.when_not_matched_by_source_update({"s.c.d": "concat(t.s.b, '!')"}).execute()
    first, second, third, fourth = expected
    assert rows_by_id(uri) == by_spark(table) == [
        with_parts(first, {("s", "a"): 7, ("s", "b"): "b17"}),
        with_parts(second, {("s", "c"): None}),
        with_parts(third, {("s", "c", "d"): "b3!"}),
        with_parts(fourth, {("s", "c", "d"): None}),
        {"id": 9, "v": None, "s": None},
    ]  # fmt: skip


def test_a_lone_clause_with_a_condition_goes_by_the_same_rules(spark: Any, uri: str) -> None:
    """SQL-3: Spark's common type of two values does not decide if a value fits."""
    filled(uri)
    table = tablefmt.spark.open(spark, uri)
    source = spark.sql("SELECT 1L AS id, '5' AS x, 6L AS y, named_struct('b', 'B', 'a', 7) AS z")
    merge = table.merge(source, "t.id = q.id", source_alias="q")
    for values in ({"v": "q.x"}, {"s.a": "q.x"}):
        with pytest.raises(SchemaMismatchError, match='"STRING"'):
            merge.when_matched_update(values, "t.v = 10").execute()
    merge.when_matched_update({"s.a": "q.y", "v": "q.y"}, "t.v = 10").execute()
    expected = [{**with_parts(ROWS[0], {("s", "a"): 6}), "v": 6}, *ROWS[1:]]
    assert rows_by_id(uri) == expected
    merge.when_matched_update({"s": "q.z"}, "t.v = 6").execute()
    assert rows_by_id(uri) == [{"id": 1, "v": 6, "s": {"a": 7, "c": None, "b": "B"}}, *ROWS[1:]]


def test_not_null_holds_inside_a_struct_that_was_null(spark: Any, uri: str) -> None:
    """DAT-3."""
    rows = [{"id": 1, "s": {"a": 1, "b": 2}}, {"id": 2, "s": None}]
    filled(uri, "id BIGINT, s STRUCT<a: INT NOT NULL, b: INT>", rows)  # type: ignore[arg-type]
    table = tablefmt.spark.open(spark, uri)
    named(spark, uri)
    merge = table.merge(spark.range(2, 3), "t.id = q.id", source_alias="q")
    for change in (
        lambda: table.update({"s.b": "7"}),
        lambda: merge.when_matched_update({"s.b": "7"}, "t.id > 0").execute(),
        lambda: spark.sql("UPDATE t SET s.b = 7"),
        lambda: spark.sql("UPDATE t SET s.a = NULL WHERE id = 1"),
    ):
        with pytest.raises(ConstraintViolationError, match=r"s\.a"):
            change()
    assert rows_by_id(uri) == rows
    spark.sql("UPDATE t SET s.a = 8 WHERE id = 2")
    assert rows_by_id(uri) == [rows[0], {"id": 2, "s": {"a": 8, "b": None}}]


def test_parts_are_set_in_sql(spark: Any, uri: str) -> None:
    """SQL-5: UPDATE and every kind of clause of MERGE that updates."""
    filled(uri)
    named(spark, uri)
    spark.sql(
        "UPDATE t AS x SET s.a = v + 0.6D, x.S.c.D = (SELECT max(b) FROM VALUES ('q') AS w(b)), "
        "v = s.a WHERE id <> 4"
    )
    expected = [
        row if row["id"] == 4 else with_parts(row, {
            ("s", "a"): None if row["v"] is None else int(row["v"] + 0.6),
            ("s", "c", "d"): "q",
            ("v",): None if row["s"] is None else row["s"]["a"],
        })
        for row in ROWS
    ]  # fmt: skip
    assert rows_by_id(uri) == expected
    spark.sql(
        "MERGE INTO t USING (SELECT * FROM VALUES (1L, 7L), (2L, 8L) AS q(id, s)) q ON t.id = q.id "
        "WHEN MATCHED AND q.s = 7 THEN UPDATE SET t.s.a = q.s, t.s.c.e = date'2000-01-01' "
        "WHEN MATCHED THEN UPDATE SET t.s.c = NULL "
        "WHEN NOT MATCHED BY SOURCE THEN UPDATE SET s.b = concat(s.b, '!')"
    )
    first, second, third, fourth = expected
    assert rows_by_id(uri) == [
        with_parts(first, {("s", "a"): 7, ("s", "c", "e"): dt.date(2000, 1, 1)}),
        with_parts(second, {("s", "c"): None}),
        with_parts(third, {("s", "b"): "b3!"}),
        with_parts(fourth, {("s", "b"): None}),
    ]
    entry = tablefmt.open(uri).context.view.entries_after(2)[0].entry
    assert entry.update is not None
    assert entry.update.set == (3,)


def test_what_cannot_be_set_is_refused_by_name(spark: Any, uri: str) -> None:
    """SQL-5."""
    filled(uri, DDL + ", m MAP<STRING, INT>, l ARRAY<STRUCT<x: INT>>")
    named(spark, uri)
    table = tablefmt.spark.open(spark, uri)
    for text, error, said in [
        ("s.a = 1, S.A = 2", SchemaMismatchError, "'s.a' is set twice"),
        ("s.a = 1, s = NULL", SchemaMismatchError, "'s' is set twice"),
        ("s = NULL, s.a = 1", SchemaMismatchError, "'s' is set twice"),
        ("s.c.d = 'x', s.c = NULL", SchemaMismatchError, r"'s\.c' is set twice"),
        ("s.a = 'x'", SchemaMismatchError, r"'s\.a' is INT"),
        ("s.a = 3000000000", SchemaMismatchError, "does not fit"),
        (
            "s.c = named_struct('d', 'x', 'q', date'2000-01-01')",
            SchemaMismatchError,
            r"'s\.c' is STRUCT",
        ),
        ("m.k = 1", UnsupportedFeatureError, "inside an array or a map"),
        ("l.x = array(1)", UnsupportedFeatureError, "inside an array or a map"),
    ]:  # fmt: skip
        with pytest.raises(error, match=said):
            spark.sql(f"UPDATE t SET {text}")
    with pytest.raises(UnsupportedFeatureError, match="INSERT of a part"):
        spark.sql(
            "MERGE INTO t USING (SELECT * FROM range(9, 10)) q ON t.id = q.id "
            "WHEN NOT MATCHED THEN INSERT (id, s.a) VALUES (q.id, 1)"
        )
    with pytest.raises(UnsupportedFeatureError, match="inside 'm'"):
        table.update({"m.value": "1"})
    with pytest.raises(SchemaMismatchError, match="set twice"):
        table.update({"s.a": "1", "s": "NULL"})
    assert tablefmt.open(uri).version == 1


def test_structs_go_by_the_names_of_fields_in_every_statement(spark: Any, uri: str) -> None:
    """SQL-3: Spark's own cast would take them by their places."""
    filled(uri, "id BIGINT, s STRUCT<a: INT, b: INT>", [{"id": 1, "s": {"a": 0, "b": 0}}])
    named(spark, uri)
    table = tablefmt.spark.open(spark, uri)

    def turned(a: int) -> Any:
        return spark.sql(f"SELECT 1L AS id, named_struct('b', {a + 1}, 'A', {a}L) AS s")

    def merged(a: int) -> None:
        merge = table.merge(turned(a), "t.id = q.id", source_alias="q")
        merge.when_matched_update({"s": "q.s"}).when_not_matched_insert_all().execute()

    def merged_in_sql(a: int) -> None:
        turned(a).createOrReplaceTempView("turned")
        spark.sql(
            "MERGE INTO t USING turned q ON t.id = q.id WHEN MATCHED THEN UPDATE SET * "
            "WHEN NOT MATCHED THEN INSERT *"
        )
        spark.catalog.dropTempView("turned")

    def updated_in_sql(a: int) -> None:
        spark.sql(f"UPDATE t SET s = named_struct('b', {a + 1}, 'A', {a}L)")

    def merged_without_ansi(a: int) -> None:
        spark.conf.set("spark.sql.ansi.enabled", "false")
        spark.sql(
            f"MERGE INTO t USING (SELECT * FROM range({a}, {a + 1})) q ON t.id = 1 "
            "WHEN MATCHED AND t.id > 0 THEN UPDATE SET s = named_struct('a', q.id, 'b', q.id + 1)"
        )
        spark.conf.unset("spark.sql.ansi.enabled")

    every = (merged, merged_in_sql, updated_in_sql, merged_without_ansi)
    for a, change in enumerate(every, 1):
        change(a * 10)
        assert rows_by_id(uri) == [{"id": 1, "s": {"a": a * 10, "b": a * 10 + 1}}]


def test_a_statement_on_a_struct_that_was_altered_meanwhile_is_refused(
    spark: Any, uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQL-5: the new struct would lack the field that was added."""
    filled(uri)
    named(spark, uri)
    change = write_verbs.change_rows  # type: ignore[attr-defined]

    def late(*arguments: Any) -> Any:
        tablefmt.open(uri).alter.add_column("s.z", "int", first=True)
        return change(*arguments)

    monkeypatch.setattr(write_verbs, "change_rows", late)
    with pytest.raises(SchemaMismatchError, match="the type of column 's' changed"):
        spark.sql("UPDATE t SET s.a = 1")
    assert tablefmt.open(uri).version == 2


# --- MERGE WITH SCHEMA EVOLUTION -----------------------------------------------------------------


def test_columns_that_only_the_source_has_come_in_with_the_rows(spark: Any, uri: str) -> None:
    """MRG-1: columns and fields, one commit, and the catalog follows."""
    filled(uri)
    named(spark, uri)
    counts = spark.sql("""
        WITH new AS (
          SELECT * FROM VALUES
            (1L, named_struct('n', 'n1', 'a', 100), 'w1', 1.5D),
            (2L, NULL, 'w2', 2.5D), (9L, named_struct('n', 'n9', 'a', 900), 'w9', 9.5D)
          AS v(id, s, w, S2)
        )
        MERGE WITH SCHEMA EVOLUTION INTO t AS x USING new ON x.id = new.id
        WHEN MATCHED AND new.w = 'w1' AND x.v = 10 THEN UPDATE SET *
        WHEN MATCHED THEN UPDATE SET s.b = new.w, v = x.v + 1
        WHEN NOT MATCHED THEN INSERT *
        WHEN NOT MATCHED BY SOURCE AND x.id = 4 THEN DELETE
    """).collect()
    assert [tuple(row) for row in counts] == [(4, 2, 1, 1)]

    def struct(**known: Any) -> Row:
        return {**dict.fromkeys(("a", "c", "b", "n")), **known}

    more = {"w": None, "S2": None}
    old = ROWS[0]["s"]
    expected: list[Row] = [
        {"id": 1, "v": 10, "s": {**old, "a": 100, "n": "n1"}, "w": "w1", "S2": 1.5},
        {"id": 2, "v": 21, "s": struct(b="w2"), **more},
        {"id": 3, "v": None, "s": struct(b="b3"), **more},
        {"id": 9, "v": None, "s": struct(a=900, n="n9"), "w": "w9", "S2": 9.5},
    ]
    assert rows_by_id(uri) == expected
    rows = sorted((r.asDict(recursive=True) for r in spark.table("t").collect()),
                  key=lambda row: row["id"])  # fmt: skip
    assert rows == expected
    assert (tablefmt.open(uri).version, rows_by_id(uri, version=1)) == (2, ROWS)


def test_a_key_gets_the_wider_type_of_the_source(spark: Any, uri: str) -> None:
    """MRG-1, SCH-8: files there are have the narrow one."""
    filled(uri, "id INT, v INT", [{"id": 1, "v": 1}, {"id": 2, "v": 2}])
    named(spark, uri)
    spark.sql(
        "MERGE WITH SCHEMA EVOLUTION INTO t "
        "USING (SELECT * FROM VALUES (2L, 20L), (3000000000L, 30L) AS q(id, v)) q ON t.id = q.id "
        "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )
    assert rows_by_id(uri) == [{"id": 1, "v": 1}, {"id": 2, "v": 20}, {"id": 3000000000, "v": 30}]
    assert spark.table("t").dtypes == [("id", "bigint"), ("v", "bigint")]


def test_without_a_star_or_anything_new_the_columns_stay(spark: Any, uri: str) -> None:
    """MRG-1: it is a MERGE as any other; a column that the source lacks is not made."""
    filled(uri)
    named(spark, uri)
    start = "MERGE WITH SCHEMA EVOLUTION INTO t USING (SELECT 1L AS id, 5 AS w) q ON t.id = q.id "
    spark.sql(start + "WHEN MATCHED THEN UPDATE SET v = q.w WHEN NOT MATCHED THEN INSERT (id) "
              "VALUES (q.id)")  # fmt: skip
    assert rows_by_id(uri) == [{**ROWS[0], "v": 5}, *ROWS[1:]]
    with pytest.raises(Exception, match="UNRESOLVED_COLUMN"):
        spark.sql(start + "WHEN MATCHED THEN UPDATE SET nowhere = q.w")
    spark.sql("EXPLAIN " + start + "WHEN MATCHED THEN UPDATE SET *")
    spark.sql(start.replace("5 AS w", "6 AS V") + "WHEN MATCHED THEN UPDATE SET *")
    assert rows_by_id(uri) == [{**ROWS[0], "v": 6}, *ROWS[1:]]
    assert spark.table("t").columns == ["id", "v", "s"]
    assert tablefmt.open(uri).version == 3


def test_a_merge_that_fails_leaves_the_columns_as_they_were(spark: Any, uri: str) -> None:
    """MRG-1: types by store assignment; nothing of it is there if it is refused."""
    filled(uri)
    named(spark, uri)
    start = "MERGE WITH SCHEMA EVOLUTION INTO t USING (SELECT {}) q ON t.id = q.id "
    star = "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    for source, error, said in [
        ("1L AS id, 'x' AS v, 1 AS w", SchemaMismatchError, "v"),
        ("1L AS id, explode(array(1, 2)) AS w", tablefmt.errors.MergeCardinalityError, "id=1"),
        ("1L AS id, 1 AS w, 2 AS W", SchemaMismatchError, "case"),
        ("1L AS id, INTERVAL 1 DAY AS w", SchemaMismatchError, "w"),
    ]:
        with pytest.raises(error, match=said):
            spark.sql(start.format(source) + star)
    with pytest.raises(InvalidPredicateError, match="not deterministic"):
        spark.sql(start.format("1L AS id, 1 AS w") + star.replace("D THEN", "D AND rand()<1 THEN"))
    assert (rows_by_id(uri), tablefmt.open(uri).version) == (ROWS, 1)
    assert spark.table("t").columns == ["id", "v", "s"]


def test_fields_that_are_new_inside_arrays_and_maps(spark: Any, uri: str, backend: str) -> None:
    """MRG-1, SCH-8: rows that a clause does not set keep their values."""
    ddl = "id BIGINT, l ARRAY<STRUCT<x: INT>>, m MAP<STRING, STRUCT<x: INT>>, n INT"
    rows: list[Row] = [
        {"id": 1, "l": [{"x": 1}, None], "m": [("k", {"x": 1})], "n": 1},
        {"id": 2, "l": None, "m": None, "n": 2},
        {"id": 3, "l": [{"x": 3}], "m": [("k", None)], "n": 3},
    ]
    filled(uri, ddl, rows)
    source = spark.sql(
        "SELECT 1L AS id, array(named_struct('y', 'Y', 'x', 5)) AS l, "
        "map('q', named_struct('y', 'Z', 'x', 6)) AS m, 3000000000 AS n"
    )
    table = tablefmt.spark.open(spark, uri)
    merge = table.merge(source, "t.id = s.id", merge_schema=True).when_matched_update_all()
    merge.when_not_matched_by_source_update({"n": "t.n + 3000000000"}).execute()
    assert rows_by_id(uri) == [
        {"id": 1, "l": [{"x": 5, "y": "Y"}], "m": [("q", {"x": 6, "y": "Z"})], "n": 3000000000},
        {"id": 2, "l": None, "m": None, "n": 3000000002},
        {"id": 3, "l": [{"x": 3, "y": None}], "m": [("k", None)], "n": 3000000003},
    ]


def test_other_tables_are_left_to_spark(spark: Any) -> None:
    spark.sql("CREATE TABLE t (id BIGINT) USING parquet")
    for target, said in [("t", "MERGE INTO TABLE"), ("nowhere", "TABLE_OR_VIEW_NOT_FOUND")]:
        with pytest.raises(Exception, match=said):
            spark.sql(
                f"MERGE WITH SCHEMA EVOLUTION INTO {target} USING (SELECT * FROM range(3)) s "
                f"ON {target}.id = s.id WHEN MATCHED THEN UPDATE SET *"
            )
