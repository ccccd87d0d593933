"""DESCRIBE HISTORY and DETAIL, OPTIMIZE, VACUUM and RESTORE in SQL, on tables USING tablefmt."""

from __future__ import annotations

from typing import Any

import pytest

import tablefmt
import tablefmt.spark
from tablefmt.errors import InvalidRangeError, SchemaMismatchError, VersionNotFoundError

pytestmark = pytest.mark.usefixtures("catalog")


@pytest.fixture
def t(spark: Any, uri: str) -> str:
    """Four versions of ten rows more each, known as `t`, in two partitions."""
    spark.sql(
        f"CREATE TABLE t (id BIGINT, part STRING) USING tablefmt PARTITIONED BY (part) "
        f"OPTIONS (path '{uri}')"
    )
    for turn in range(4):
        spark.sql(
            f"INSERT INTO t SELECT /*+ COALESCE(1) */ id, if(id % 2 = 0, 'a', 'b') "
            f"FROM range({10 * turn}, {10 * turn + 10})"
        )
    return uri


def ids(spark: Any) -> list[int]:
    return sorted(row[0] for row in spark.sql("SELECT id FROM t").collect())


def files(uri: str) -> list[tuple[Any, int]]:
    """Partition and rows of the live files."""
    found = tablefmt.open(uri).scan().files().to_pylist()
    return sorted((each["partition"]["part"], each["rows"]) for each in found)


def test_history_is_that_of_the_function(spark: Any, t: str) -> None:
    """As rows and as types; by name, by path, and not more than was asked for."""
    expected = tablefmt.spark.open(spark, t).history()
    found = spark.sql("DESCRIBE HISTORY t")
    assert found.dtypes == expected.dtypes
    assert found.collect() == expected.collect()
    assert [row.version for row in found.collect()] == [4, 3, 2, 1, 0]
    by_path = spark.sql(f"desc history tablefmt.`{t}` limit 2;")
    assert by_path.collect() == expected.collect()[:2]
    assert found.where("operation = 'WRITE'").count() == 4


def test_detail_is_one_row(spark: Any, t: str) -> None:
    """What the snapshot says."""
    tablefmt.open(t).alter.set_properties({"appendOnly": "false"})
    spark.sql("DELETE FROM t WHERE id = 7")
    (row,) = spark.sql("/* what is it? */ DESCRIBE DETAIL spark_catalog.default.t").collect()
    table = tablefmt.open(t)
    totals = table.context.view.snapshot().totals
    assert (row.format, row.id, row.location) == ("tablefmt", table.id, t)
    assert (row.numFiles, row.numRows, row.sizeInBytes) == totals
    assert (row.numRows, row.version, row.oldestVersion) == (39, 6, 0)
    assert row.partitionColumns == ["part"]
    assert row.properties == {"appendOnly": "false"}
    assert row.lastModified > row.createdAt


def test_optimize_puts_files_together_and_no_row_changes(spark: Any, t: str) -> None:
    """Of the partitions of a condition; then all, by a curve."""
    before = ids(spark)
    assert files(t) == [("a", 5)] * 4 + [("b", 5)] * 4
    (row,) = spark.sql("OPTIMIZE t WHERE part = 'a'").collect()
    assert (row.path, row.version) == (t, 5)
    assert row.metrics["numRemovedFiles"] == 4
    assert files(t) == [("a", 20), *[("b", 5)] * 4]
    spark.sql("OPTIMIZE t ZORDER BY (id)")
    assert files(t) == [("a", 20), ("b", 20)]
    assert ids(spark) == before
    assert [h["operation"] for h in tablefmt.open(t).history(2).to_pylist()] == [
        "CLUSTER",
        "COMPACT MINOR",
    ]
    with pytest.raises(SchemaMismatchError, match="nowhere"):
        spark.sql("OPTIMIZE t ZORDER BY (nowhere)")


def test_vacuum_removes_what_no_kept_version_needs(spark: Any, t: str) -> None:
    """Dry runs change nothing; below the table's retention it is refused."""
    spark.sql("OPTIMIZE t")
    assert spark.sql("VACUUM t DRY RUN").collect() == []
    with pytest.raises(InvalidRangeError, match="deletedFileRetentionDuration"):
        spark.sql("VACUUM t RETAIN 0 HOURS")
    settings = {"deletedFileRetentionDuration": "0 seconds"}
    tablefmt.open(t).alter.set_properties(settings)
    asked = spark.sql("VACUUM t RETAIN 0 HOURS DRY RUN").collect()
    assert len(asked) == 8
    assert {row.removed_version for row in asked} == {5}
    assert len(spark.sql("VACUUM t RETAIN 0 HOURS").collect()) == 8
    assert ids(spark) == list(range(40))
    with pytest.raises(VersionNotFoundError):
        spark.sql("RESTORE t TO VERSION AS OF 3")


def test_restore_brings_a_version_back_by_number_and_by_time(spark: Any, t: str) -> None:
    """A time without a zone is one of the session's zone."""
    (row,) = spark.sql("RESTORE TABLE t TO VERSION AS OF 2").collect()
    assert (row.path, row.version) == (t, 5)
    assert ids(spark) == list(range(20))
    texts = spark.sql("DESCRIBE HISTORY t").selectExpr("version", "cast(timestamp as string)")
    third = dict(map(tuple, texts.collect()))[3]
    spark.sql(f"RESTORE t TO TIMESTAMP AS OF '{third}'")
    assert ids(spark) == list(range(30))
    with pytest.raises(VersionNotFoundError):
        spark.sql("RESTORE t TO TIMESTAMP AS OF '2001-01-01'")


def test_statements_of_other_tables_and_other_statements_are_sparks(spark: Any, t: str) -> None:
    """Views, tables of other formats, names that nobody has, and what is not complete."""
    from pyspark.errors import ParseException

    spark.sql("CREATE TABLE other (id BIGINT, t INT) USING parquet")
    spark.range(3).createOrReplaceTempView("seen")
    for text in (
        "OPTIMIZE other", "OPTIMIZE seen", "OPTIMIZE nowhere", "VACUUM other", "OPTIMIZE t t",
        "RESTORE t", "VACUUM tablefmt.nowhere", "OPTIMIZE elsewhere.default.t",
    ):  # fmt: skip
        with pytest.raises(ParseException):
            spark.sql(text)
    # Spark's own grammar: the column `t` of a table that is called so.
    spark.sql("CREATE TABLE history (t INT) USING parquet")
    assert [r.col_name for r in spark.sql("DESCRIBE history").collect()] == ["t"]
    assert spark.sql("DESCRIBE t").first().col_name == "id"
    parser = spark._jsparkSession.sessionState().sqlParser()
    assert parser.parseExpression("1 + a").sql() == "(1 + a)"


def test_a_statement_is_not_carried_out_by_being_read(spark: Any, t: str) -> None:
    """A parser only reads; and a session that is registered twice has one in front."""
    tablefmt.spark.register(spark)
    plan = spark._jsparkSession.sessionState().sqlParser().parsePlan("OPTIMIZE t")
    assert "OPTIMIZE t" in plan.toString()
    assert tablefmt.open(t).version == 4
    inner = spark._jvm.java.lang.reflect.Proxy.getInvocationHandler(
        spark._jsparkSession.sessionState().sqlParser()
    )
    assert inner.getClass().getName() == "tablefmt.StatementParser"
