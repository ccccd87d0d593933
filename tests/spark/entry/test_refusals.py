"""Features of Spark that a table lacks are refused by name, in Python and in SQL."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import tablefmt
import tablefmt.spark
from tablefmt.errors import SchemaMismatchError, TablefmtError
from tests.spark.looking import everything, rows_of
from tests.tables import sorted_rows

pytestmark = pytest.mark.usefixtures("catalog")


@pytest.fixture
def t(spark: Any, uri: str) -> str:
    """A table (id BIGINT, p STRING) with two rows, by path and as `t`; its place."""
    spark.sql(
        f"CREATE TABLE t (id BIGINT, p STRING) USING tablefmt OPTIONS (path '{uri}') "
        "PARTITIONED BY (p)"
    )
    spark.sql("INSERT INTO t VALUES (1, 'a'), (2, 'b')")
    return uri


def refused(action: Callable[[], Any], kind: type[TablefmtError], words: str) -> TablefmtError:
    """The error of an action; it is ours, and shows nothing of Java."""
    with pytest.raises(kind, match=words) as caught:
        action()
    text = str(caught.value)
    assert "\tat " not in text
    assert "Exception" not in text
    return caught.value


def test_the_tables_own_schema_may_be_given_and_no_other(spark: Any, t: str) -> None:
    def reader(schema: str) -> Any:
        return spark.read.schema(schema).format("tablefmt")

    for same in ("id BIGINT, p STRING", "id BIGINT NOT NULL COMMENT 'x', p STRING"):
        assert rows_of(reader(same).load(t)) == rows_of(tablefmt.spark.read(spark, t))
    for other, columns in (
        ("id BIGINT", ["p"]),
        ("id INT, p STRING", ["id"]),
        ("id BIGINT, p STRING, q INT", ["q"]),
        ("p STRING, id BIGINT", ["p", "id"]),
    ):
        error = refused(reader(other).option("path", t).load, SchemaMismatchError, "leave schema")
        assert error.columns == columns  # type: ignore[attr-defined]
    spark.sql(
        f"CREATE TEMPORARY VIEW told (id BIGINT, p STRING) USING tablefmt OPTIONS (path '{t}')"
    )
    assert spark.table("told").count() == 2
    refused(
        lambda: spark.sql(
            f"CREATE TEMPORARY VIEW wrong (id INT) USING tablefmt OPTIONS (path '{t}')"
        ),
        SchemaMismatchError,
        "leave schema",
    )


def test_an_overwrite_heeds_the_mode_of_the_session_and_of_its_options(spark: Any, t: str) -> None:
    """Every way to say `dynamic` replaces the partitions that the new rows are in, and no other."""
    key = "spark.sql.sources.partitionOverwriteMode"

    def frame(number: int) -> Any:
        return spark.createDataFrame([(number, "b")], "id long, p string")

    def by_view(number: int) -> None:
        spark.read.format("tablefmt").load(t).createOrReplaceTempView("told")
        spark.sql(f"INSERT OVERWRITE told VALUES ({number}, 'b')")

    ways: list[Callable[[int], Any]] = [
        lambda n: spark.sql(f"INSERT OVERWRITE t VALUES ({n}, 'b')"),
        lambda n: spark.sql(f"INSERT OVERWRITE t PARTITION (p) SELECT {n}, 'b'"),
        lambda n: spark.sql(f"INSERT OVERWRITE t PARTITION (p = 'b') SELECT {n}"),
        lambda n: frame(n).write.insertInto("t", overwrite=True),
        lambda n: frame(n).write.format("tablefmt").mode("overwrite").save(t),
        lambda n: frame(n).write.format("tablefmt").mode("overwrite").saveAsTable("t"),
        by_view,
    ]
    spark.conf.set(key, "dynamic")
    try:
        for number, way in enumerate(ways, 10):
            way(number)
            assert sorted_rows(tablefmt.spark.read(spark, t)) == [(1, "a"), (number, "b")]
        frame(20).write.format("tablefmt").mode("overwrite").option(
            "partitionOverwriteMode", "static"
        ).save(t)
        assert sorted_rows(tablefmt.spark.read(spark, t)) == [(20, "b")]
    finally:
        spark.conf.unset(key)
    spark.sql("INSERT INTO t VALUES (1, 'a')")
    frame(30).writeTo("t").overwritePartitions()
    assert sorted_rows(tablefmt.spark.read(spark, t)) == [(1, "a"), (30, "b")]
    dynamic = frame(31).write.format("tablefmt").mode("overwrite")
    dynamic.option("partitionOverwriteMode", "dynamic").save(t)
    assert sorted_rows(tablefmt.spark.read(spark, t)) == [(1, "a"), (31, "b")]
    spark.sql("INSERT OVERWRITE t VALUES (40, 'c')")
    assert sorted_rows(tablefmt.spark.read(spark, t)) == [(40, "c")]


def test_a_dynamic_overwrite_takes_the_rows_of_any_query(spark: Any, t: str) -> None:
    """Its query is optimised twice, which must not change its rows."""
    from pyspark.sql import functions

    spark.udf.register("next_to", functions.udf(lambda i: i + 1, "long"))
    queries = [
        "SELECT id + 10, p FROM t WHERE id IN (SELECT id FROM t WHERE p = 'b')",
        "SELECT max(id), p FROM t GROUP BY p HAVING count(DISTINCT id) > 0 AND p = 'b'",
        "WITH c AS (SELECT id, p, rand() r FROM t) SELECT x.id, y.p FROM c x JOIN c y "
        "ON x.id = y.id AND x.r = y.r WHERE x.p = 'b'",
        "SELECT row_number() OVER (ORDER BY id), p FROM t WHERE p = 'b'",
        "SELECT next_to(id), p FROM t WHERE next_to(id) > 0 AND p = 'b'",
        "SELECT id, p FROM (SELECT * FROM t UNION ALL SELECT 5L, 'b') WHERE p = 'b' LIMIT 10",
        "SELECT /*+ BROADCAST(d) */ t.id, t.p FROM t JOIN (SELECT 'b' q, rand() r) d "
        "ON t.p = d.q WHERE d.r >= 0",
        "SELECT (SELECT max(id) FROM t), p FROM t WHERE p = 'b'",
        "SELECT id, concat(p, '') FROM t WHERE EXISTS (SELECT 1 FROM t u WHERE u.id = t.id) "
        "AND p = 'b'",
    ]
    key = "spark.sql.sources.partitionOverwriteMode"
    spark.conf.set(key, "dynamic")
    try:
        for query in queries:
            expected = sorted(map(tuple, spark.sql(query).collect()))
            spark.sql(f"INSERT OVERWRITE t {query}")
            assert sorted_rows(tablefmt.spark.read(spark, t)) == [(1, "a"), *expected], query
    finally:
        spark.conf.unset(key)


def test_text_of_a_length_is_refused_inside_other_types(spark: Any, uri: str) -> None:
    """SCH-5: the length would not be checked."""
    for kind in ("ARRAY<VARCHAR(10)>", "STRUCT<x: CHAR(5)>"):
        for place in (f"OPTIONS (path '{uri}')", ""):
            error = refused(
                lambda kind=kind, place=place: spark.sql(
                    f"CREATE TABLE made (id INT, c {kind}) USING tablefmt {place}"
                ),
                SchemaMismatchError,
                r"CHAR\(\d+\).*STRING",
            )
            assert error.columns[0].startswith("c")  # type: ignore[attr-defined]
            assert not spark.catalog.tableExists("made")
    assert everything(uri) == []


TYPES = [
    ("GEOMETRY(4326)", "GEOMETRY"),
    ("GEOGRAPHY(4326)", "GEOGRAPHY"),
    ("STRING COLLATE UTF8_LCASE", "collat"),
    ("ARRAY<STRING COLLATE UNICODE>", "collat"),
    ("TIME(6)", "TIME"),
    ("INTERVAL DAY", "INTERVAL"),
]


@pytest.mark.parametrize(("kind", "word"), TYPES, ids=[kind for kind, _ in TYPES])
def test_types_are_refused_where_a_table_is_made(
    spark: Any, uri: str, kind: str, word: str
) -> None:
    """SCH-5: CREATE TABLE, CREATE TABLE AS and every write of a DataFrame refuse them."""
    from pyspark.errors import PySparkException

    create = f"CREATE TABLE made (id INT, c {kind}) USING tablefmt OPTIONS (path '{uri}')"
    try:
        frame = spark.sql(f"SELECT 1 AS id, CAST(NULL AS {kind}) AS c")
    except PySparkException:
        # A type that this Spark has not switched on: it refuses it before we are asked.
        with pytest.raises(PySparkException, match=f"(?i){word[:3]}"):
            spark.sql(create)
        assert everything(uri) == []
        return
    frame.createOrReplaceTempView("told")
    for action in (
        lambda: spark.sql(create),
        lambda: spark.sql(
            f"CREATE TABLE made USING tablefmt OPTIONS (path '{uri}') AS SELECT * FROM told"
        ),
        lambda: frame.write.format("tablefmt").save(uri),
        lambda: tablefmt.spark.write(frame, uri),
    ):
        error = refused(action, SchemaMismatchError, f"(?i)'c.*{word}")
        assert error.columns[0].startswith("c")  # type: ignore[attr-defined]
        assert not spark.catalog.tableExists("made")
        assert everything(uri) == []
