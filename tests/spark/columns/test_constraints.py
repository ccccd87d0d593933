"""CHECK and NOT NULL where Spark writes: in the same pass, by Spark's own expressions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

import tablefmt
import tablefmt.spark
from tablefmt.errors import (
    ConstraintViolationError,
    InvalidPredicateError,
    SchemaMismatchError,
    UnsupportedFeatureError,
)
from tests.spark.looking import everything, rows_of, strays

pytestmark = pytest.mark.usefixtures("catalog")


def by_sql(spark: Any, frame: Any, uri: str) -> None:
    spark.sql(f"CREATE TABLE IF NOT EXISTS checked USING tablefmt OPTIONS (path '{uri}')")
    frame.createOrReplaceTempView("new_rows")
    spark.sql("INSERT INTO checked BY NAME SELECT * FROM new_rows")


WRITES: dict[str, Callable[[Any, Any, str], Any]] = {
    "function": lambda spark, frame, uri: tablefmt.spark.write(frame, uri),
    "overwrite": lambda spark, frame, uri: tablefmt.spark.write(frame, uri, mode="overwrite"),
    "format": lambda spark, frame, uri: frame.write.format("tablefmt").mode("append").save(uri),
    "table": lambda spark, frame, uri: tablefmt.spark.open(spark, uri).append(frame),
    "sql": by_sql,
}


@pytest.mark.share(3)
@pytest.mark.parametrize("name", WRITES)
def test_one_bad_row_of_many_stops_every_writer(spark: Any, uri: str, name: str) -> None:
    """DAT-13: the error is ours, names the constraint, shows the row; nothing is visible."""
    table = tablefmt.create(uri, "id BIGINT, p STRING, v VARIANT", partition_by=["p"])
    table.alter.add_constraint('it\'s "right"', "id <> 59999 AND p <> 'x' -- never")
    query = "SELECT id, concat('p', id % 3) AS p, parse_json('1') AS v FROM range(60000)"
    before = everything(uri)
    with pytest.raises(ConstraintViolationError, match='"right"') as caught:
        WRITES[name](spark, spark.sql(query), uri)
    assert "SQLSTATE" not in str(caught.value)
    assert caught.value.constraint == 'it\'s "right"'
    assert caught.value.row == {"id": 59999, "p": "p2"}
    assert strays(uri, before) == []
    assert table.refresh().version == 1
    WRITES[name](spark, spark.sql(query).where("id < 10"), uri)
    assert sorted(table.refresh().to_arrow()["id"].to_pylist()) == list(range(10))


def test_null_passes_and_the_first_broken_constraint_is_named(spark: Any, uri: str) -> None:
    """DAT-13: after casts, on renamed columns; the first by name, where a row breaks several."""
    table = tablefmt.create(uri, "a INT, s STRUCT<x: INT>, d DECIMAL(5,2)")
    table.alter.rename_column("a", "id")
    table.alter.rename_column("s.x", "y")
    spark_table = tablefmt.spark.open(spark, uri)
    spark_table.alter.add_constraint("positive", "id > 0")
    spark_table.alter.add_constraint("inner", "s.y % 2 = 0 OR size(array(s.y)) > 1")
    good = "SELECT 1.5BD AS d, named_struct('Y', 2L) AS S, 1L AS ID"
    nulls = "SELECT NULL AS d, NULL AS s, CAST(NULL AS INT) AS id"
    tablefmt.spark.write(spark.sql(f"{good} UNION ALL {nulls}"), uri)
    for wrong, named in (
        ("named_struct('y', 3), 4", "inner"),
        ("named_struct('y', 4), -4", "positive"),
        ("named_struct('y', 3), -4", "inner"),
    ):
        with pytest.raises(ConstraintViolationError) as caught:
            tablefmt.spark.write(
                spark.sql(f"SELECT * FROM VALUES (0, {wrong}) AS t(d, s, id)"), uri
            )
        assert caught.value.constraint == named
    assert table.refresh().scan().count() == 2
    assert table.to_arrow().schema.names == ["id", "s", "d"]


def test_a_row_that_the_query_drops_is_not_looked_at(spark: Any, uri: str) -> None:
    """DAT-13: the condition is not pushed below a join."""
    from pyspark.sql.functions import expr

    tablefmt.create(uri, "id BIGINT").alter.add_constraint("small", "id < 10")
    few = spark.range(5).withColumnRenamed("id", "k")
    joined = spark.range(100).join(few, on=expr("id = k"))
    tablefmt.spark.write(joined.select("id"), uri)
    assert tablefmt.open(uri).scan().count() == 5


def test_what_only_spark_evaluates_is_refused_without_it_by_name(spark: Any, uri: str) -> None:
    """ENT-10, DAT-13: a writer that cannot check the constraint does not write."""
    table = tablefmt.spark.create(spark, uri, "id BIGINT, t STRING")
    tablefmt.spark.write(spark.sql("SELECT 1L AS id, 'Robert' AS t"), uri)
    with pytest.raises(ConstraintViolationError, match="Robert"):
        table.alter.add_constraint("sound", "soundex(t) <> 'R163'")
    table.alter.add_constraint("sound", "soundex(t) <> 'A000'")
    with pytest.raises(ConstraintViolationError):
        table.append(spark.sql("SELECT 1L AS id, 'A' AS t"))
    table.append(spark.sql("SELECT 1L AS id, 'B' AS t"))
    with pytest.raises(UnsupportedFeatureError, match="'sound'"):
        tablefmt.open(uri).append(pa.table({"id": [1], "t": ["B"]}))
    with pytest.raises(UnsupportedFeatureError, match=r"nosuchfunction\(\)"):
        table.alter.add_constraint("wrong", "nosuchfunction(t)")
    with pytest.raises(InvalidPredicateError, match="Spark rejects"):
        table.alter.add_constraint("wrong", "luhn_check(t, t)")
    with pytest.raises(InvalidPredicateError, match="Spark rejects"):
        table.alter.add_constraint("wrong", "id + 1")
    with pytest.raises(SchemaMismatchError, match="already"):
        table.alter.add_constraint("SOUND", "id > 0")
    assert tablefmt.open(uri).version == 3


def test_not_null_set_later_is_held_and_read(spark: Any, uri: str) -> None:
    """ENT-10, DAT-3: deleted rows may be NULL in their files."""
    table = tablefmt.spark.create(spark, uri, "id BIGINT, t STRING")
    rows = "SELECT id, if(id = 3, NULL, concat('t', id)) AS t FROM range(6)"
    tablefmt.spark.write(spark.sql(rows).coalesce(1), uri)
    with pytest.raises(ConstraintViolationError, match=r"'t'.*3"):
        table.alter.set_not_null("t")
    table.table.delete("id = 3")
    table.alter.set_not_null("t")
    with pytest.raises(ConstraintViolationError, match="NOT NULL"):
        tablefmt.spark.write(spark.sql(rows), uri)
    read = tablefmt.spark.read(spark, uri)
    assert not read.schema["t"].nullable
    assert rows_of(read.where("length(t) + ascii(upper(t)) > 2").select("t")) == rows_of(
        pa.table({"t": ["t0", "t1", "t2", "t4", "t5"]})
    )


def test_constraints_and_sorted_optimized_writes_go_together(spark: Any, uri: str) -> None:
    """The filter keeps the order that the query gives its rows."""
    tablefmt.create(uri, "id BIGINT, p INT", partition_by=["p"]).alter.add_constraint(
        "c", "id >= 0"
    )
    rows = spark.sql("SELECT id, CAST(id % 2 AS INT) AS p FROM range(1000)").coalesce(1)
    tablefmt.spark.write(rows.sortWithinPartitions("id", ascending=False), uri)
    for part in (0, 1):
        found = tablefmt.open(uri).to_arrow(where=f"p = {part}")["id"].to_pylist()
        assert found == sorted(found, reverse=True)
        assert len(found) == 500


def test_new_values_of_update_and_merge_are_held_to_it(spark: Any, uri: str) -> None:
    """DAT-13: functions and SQL are checked. Existing rows stay."""
    spark.sql(f"CREATE TABLE checked (id BIGINT, t STRING) USING tablefmt OPTIONS (path '{uri}')")
    spark.sql("INSERT INTO checked VALUES (1, 'a'), (2, 'b'), (3, NULL)")
    table = tablefmt.spark.open(spark, uri)
    table.alter.add_constraint("right", "id > 0 AND t <> 'x'")
    before = everything(uri)
    source = spark.sql("SELECT 2L AS id, 'x' AS t UNION ALL SELECT 4L, 'd'")
    source.createOrReplaceTempView("new_rows")
    merge = "MERGE INTO checked t USING new_rows s ON s.id = t.id WHEN MATCHED THEN "
    for change in (
        lambda: table.update({"id": "-id"}, where="id = 2"),
        lambda: spark.sql("UPDATE checked SET t = 'x' WHERE id >= 2"),
        lambda: spark.sql(merge + "UPDATE SET * WHEN NOT MATCHED THEN INSERT *"),
        lambda: spark.sql(
            merge + "DELETE WHEN NOT MATCHED THEN INSERT (id, t) VALUES (-s.id, 'q')"
        ),
    ):
        with pytest.raises(ConstraintViolationError, match="'right'"):
            change()
        assert strays(uri, before) == []
    spark.sql(merge + "DELETE WHEN NOT MATCHED THEN INSERT *")
    found = sorted(map(tuple, table.to_df().collect()))
    assert found == [(1, "a"), (3, None), (4, "d")]
    (told,) = tablefmt.open(uri).history(1).to_pylist()
    metrics = {name: int(value) for name, value in told["operationMetrics"]}
    assert metrics["numTargetRowsDeleted"] == metrics["numTargetRowsInserted"] == 1
    assert metrics["executionTimeMs"] >= metrics["rewriteTimeMs"] > 0
    assert metrics["numPutRequests"] >= 1
