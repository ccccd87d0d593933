"""DELETE, UPDATE, MERGE and TRUNCATE in SQL, on tables USING tablefmt."""

from __future__ import annotations

from typing import Any

import pytest

import tablefmt
import tablefmt.spark
from tablefmt.errors import (
    ConstraintViolationError,
    InvalidPredicateError,
    MergeCardinalityError,
    SchemaMismatchError,
    UnsupportedFeatureError,
)

pytestmark = pytest.mark.usefixtures("catalog")

AWKWARD = "a`b.c"


@pytest.fixture
def t(spark: Any, uri: str) -> str:
    """Rows 0 to 19 in two files, known as `t`: id, n (NULL for every fifth), s, ts."""
    spark.sql(
        f"CREATE TABLE t (id BIGINT NOT NULL, n INT, s STRING, ts TIMESTAMP) USING tablefmt "
        f"OPTIONS (path '{uri}')"
    )
    spark.sql(
        "INSERT INTO t SELECT /*+ REPARTITION(2) */ id, if(id % 5 = 0, NULL, int(id)), "
        "concat('it''s ', id), timestamp'2024-11-03 00:00:00' + make_interval(0,0,0,0,id) "
        "FROM range(20)"
    )
    return uri


def ids(spark: Any, where: str = "true") -> list[int]:
    return sorted(r[0] for r in spark.sql(f"SELECT id FROM t WHERE {where}").collect())


def told(spark: Any, text: str) -> dict[str, int]:
    """Return the answer of a statement."""
    (row,) = spark.sql(text).collect()
    return dict(row.asDict())


@pytest.mark.share(5)
@pytest.mark.parametrize(
    ("where", "gone"),
    [
        ("n > 12", [13, 14, 16, 17, 18, 19]),
        ("s = 'it''s 7' OR `s` LIKE '%\\'s 1'", [1, 7]),
        ("NOT n > 3", [1, 2, 3]),
        ("id IN (SELECT max(id) - 1 FROM t)", [18]),
        ("EXISTS (SELECT 1 FROM range(3) r WHERE r.id = t.id)", [0, 1, 2]),
        ("id NOT IN (SELECT id FROM range(2, 100))", [0, 1]),
        ("id = (SELECT count(*) FROM t WHERE n IS NULL)", [4]),
        # The session's zone has this hour twice; the text of a literal in it would not tell.
        ("ts >= timestamp'2024-11-03 02:00:00'", list(range(3, 20))),
        ("try_divide(1, id - 3) IS NULL", [3]),
    ],
)
def test_delete_with_any_condition(spark: Any, t: str, where: str, gone: list[int]) -> None:
    """Quotes, three values of truth, sub-queries, time zones: Spark decides all of it."""
    assert told(spark, f"DELETE FROM t WHERE {where}") == {"num_affected_rows": len(gone)}
    assert ids(spark) == [i for i in range(20) if i not in gone]


def test_delete_of_everything_and_truncate(spark: Any, t: str) -> None:
    assert told(spark, "DELETE FROM t") == {"num_affected_rows": 20}
    assert ids(spark) == []
    spark.sql("INSERT INTO t SELECT id, 1, 'x', NULL FROM range(3)")
    spark.sql("TRUNCATE TABLE t")
    assert ids(spark) == []
    names = tablefmt.open(t).history()["operation"].to_pylist()
    assert names[:3] == ["TRUNCATE", "WRITE", "DELETE"]


def test_update_with_expressions_and_sub_queries(spark: Any, t: str) -> None:
    text = "UPDATE t AS x SET n = x.id * 2, s = (SELECT max(s) FROM t) WHERE x.id % 4 = 3"
    assert told(spark, text) == {"num_affected_rows": 5}
    found = {r[0]: (r[1], r[2]) for r in spark.sql("SELECT id, n, s FROM t").collect()}
    for i in range(20):
        old = (None if i % 5 == 0 else i, f"it's {i}")
        assert found[i] == ((i * 2, "it's 9") if i % 4 == 3 else old)


def test_merge_with_stars_and_a_common_table_expression(spark: Any, t: str) -> None:
    text = """
        WITH new AS (SELECT id + 15 AS id, -1 AS n, 'm' AS s, NULL AS ts FROM range(10))
        MERGE INTO t USING new ON t.id = new.id
        WHEN MATCHED AND new.id = 19 THEN DELETE
        WHEN MATCHED THEN UPDATE SET *
        WHEN NOT MATCHED AND new.id < 24 THEN INSERT *
        WHEN NOT MATCHED BY SOURCE AND t.id < 2 THEN UPDATE SET n = 100
    """
    assert told(spark, text) == {
        "num_affected_rows": 11, "num_updated_rows": 6, "num_deleted_rows": 1,
        "num_inserted_rows": 4,
    }  # fmt: skip
    found = {r[0]: (r[1], r[2]) for r in spark.sql("SELECT id, n, s FROM t").collect()}
    expected = {i: (None if i % 5 == 0 else i, f"it's {i}") for i in range(2, 15)}
    expected |= {0: (100, "it's 0"), 1: (100, "it's 1")}
    expected |= dict.fromkeys([*range(15, 19), *range(20, 24)], (-1, "m"))
    assert found == expected


def test_merge_of_a_table_into_itself(spark: Any, t: str) -> None:
    text = "MERGE INTO t USING t AS s ON t.id = s.id + 10 WHEN MATCHED THEN UPDATE SET n = s.n + 1"
    assert told(spark, text)["num_updated_rows"] == 10
    found = {r[0]: r[1] for r in spark.sql("SELECT id, n FROM t WHERE id >= 10").collect()}
    assert found == {i: None if i % 5 == 0 else i - 9 for i in range(10, 20)}


def test_merge_with_a_condition_on_the_table_alone(spark: Any, t: str) -> None:
    """MRG-3: a part of ON that only the table decides."""
    spark.sql(
        "MERGE INTO t USING (SELECT * FROM range(2)) s ON t.id = s.id AND t.n < 5 "
        "WHEN MATCHED THEN DELETE"
    )
    assert ids(spark) == [0, *range(2, 20)]


def test_explain_changes_nothing(spark: Any, t: str) -> None:
    (plan,) = spark.sql("EXPLAIN DELETE FROM t WHERE id = 1").collect()
    assert "tablefmt DELETE" in plan[0]
    assert tablefmt.open(t).version == 1


def test_values_go_by_the_rules_of_insert(spark: Any, t: str) -> None:
    """ANSI store assignment: a text is no number, and a number that does not fit is an error."""
    with pytest.raises(SchemaMismatchError, match="'n'"):
        spark.sql("UPDATE t SET n = 'text' WHERE id = 1")
    with pytest.raises(SchemaMismatchError, match="column 'n'"):
        spark.sql("UPDATE t SET n = 3000000000 WHERE id = 1")
    with pytest.raises(ConstraintViolationError, match="'id'"):
        spark.sql("UPDATE t SET id = NULL WHERE id = 1")
    with pytest.raises(SchemaMismatchError, match="twice"):
        spark.sql("UPDATE t SET n = 1, N = 2 WHERE id = 1")
    assert tablefmt.open(t).version == 1
    assert told(spark, "UPDATE t SET n = 3.7D WHERE id = 1") == {"num_affected_rows": 1}
    assert ids(spark, "n = 3") == [1, 3]


def test_what_cannot_be_done_is_refused_by_name(spark: Any, t: str) -> None:
    with pytest.raises(InvalidPredicateError, match="not deterministic"):
        spark.sql("DELETE FROM t WHERE rand() > 0.5")
    with pytest.raises(MergeCardinalityError, match="id=3"):
        spark.sql(
            "MERGE INTO t USING (SELECT 3L AS id FROM range(2)) s ON t.id = s.id "
            "WHEN MATCHED THEN UPDATE SET n = 0"
        )
    with pytest.raises(Exception, match="nope"):
        spark.sql("DELETE FROM t WHERE nope = 1")
    assert tablefmt.open(t).version == 1
    assert len(ids(spark)) == 20


@pytest.mark.share(3)
@pytest.mark.parametrize("of_path", [False, True])
@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM v WHERE id < 100",
        "UPDATE v SET n = 1",
        "MERGE INTO v USING (SELECT 1L AS k) s ON v.id = s.k WHEN MATCHED THEN DELETE",
    ],
)
def test_a_view_is_not_changed_as_if_it_were_its_table(
    spark: Any, t: str, statement: str, of_path: bool
) -> None:
    """It has other rows and values: 13, 14 and 16 to 19 alone, and n is one more."""
    rows = spark.read.format("tablefmt").load(t) if of_path else spark.table("t")
    rows.where("n > 12").selectExpr("id", "n + 1 AS n").createOrReplaceTempView("v")
    try:
        with pytest.raises(UnsupportedFeatureError, match="view"):
            spark.sql(statement)
    finally:
        spark.catalog.dropTempView("v")
    assert ids(spark) == list(range(20))


def test_columns_with_awkward_names(spark: Any, uri: str) -> None:
    quoted = "`" + AWKWARD.replace("`", "``") + "`"
    spark.sql(f"CREATE TABLE t (id BIGINT, {quoted} INT) USING tablefmt OPTIONS (path '{uri}')")
    spark.sql("INSERT INTO t SELECT id, int(id) FROM range(6)")
    assert told(spark, f"DELETE FROM t WHERE {quoted} = 2") == {"num_affected_rows": 1}
    spark.sql(f"UPDATE t SET {quoted} = {quoted} + 10 WHERE {quoted} > 3")
    text = f"MERGE INTO t USING (SELECT * FROM range(2)) s ON t.{quoted} = s.id "
    assert told(spark, text + "WHEN MATCHED THEN DELETE")["num_deleted_rows"] == 2
    found = tablefmt.open(uri).to_arrow().to_pydict()
    assert sorted(found[AWKWARD]) == [3, 14, 15]


def test_a_table_that_is_cached_is_read_anew(spark: Any, t: str) -> None:
    spark.sql("CACHE TABLE t")
    spark.sql("DELETE FROM t WHERE id > 4")
    try:
        assert ids(spark) == [0, 1, 2, 3, 4]
    finally:
        spark.sql("UNCACHE TABLE IF EXISTS t")


def test_other_tables_are_left_to_spark(spark: Any, t: str) -> None:
    spark.sql("CREATE TABLE other (id BIGINT) USING parquet")
    with pytest.raises(Exception, match=r"UNSUPPORTED_FEATURE|not support"):
        spark.sql("DELETE FROM other WHERE id = 1")
