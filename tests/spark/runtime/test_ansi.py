"""SQL-1, SQL-3: statements of a session without ANSI follow ANSI, like Spark's own ANSI."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pyspark.sql.functions as F
import pytest

import tablefmt
import tablefmt.spark
from tablefmt.errors import ConstraintViolationError, SchemaMismatchError
from tests.tables import sorted_rows

ANSI = "spark.sql.ansi.enabled"
DDL = "id INT, i INT, d DOUBLE, s STRING, a ARRAY<INT>"
ROWS = "VALUES (1, 2147483647, 0.0D, 'abc', array(7)), (2, 5, 2.5D, '12', array(8, 9))"

VALUES = {
    "i + 1": "int",
    "-(i * 2)": "int",
    "i - (-1 - id)": "int",
    "i / d": "double",
    "i % CAST(d AS INT)": "int",
    "i div CAST(d AS INT)": "int",
    "CAST(s AS INT)": "int",
    "a[1]": "int",
    "element_at(a, 2)": "int",
    "abs(-i) + CAST(to_date('2024-02-29') = DATE'2024-02-29' AS INT)": "int",
    "CAST(to_date(s) IS NULL AS INT)": "int",
    "'1.5' + id": "int",
    "make_date(2023, 2, 27 + id) = DATE'2023-02-28'": "boolean",
    "(SELECT max(CAST(w.x AS INT)) FROM VALUES ('1'), ('q') AS w(x))": "int",
    "try_cast(s AS INT) + try_add(i, 1)": "int",
    "transform(a, x -> x + 2147483640)[0]": "int",
    "CASE WHEN d = 0 THEN 0 ELSE i / d END": "double",
}
"""Values that are errors under ANSI, for some row or for none; and their types."""


@pytest.fixture
def lenient(spark: Any) -> Iterator[Any]:
    """A session that is not ANSI."""
    session = spark.newSession()
    tablefmt.spark.register(session)
    session.conf.set(ANSI, "false")
    yield session
    assert session.conf.get(ANSI) == "false"
    session.sql("DROP TABLE IF EXISTS ansi_t")


def filled(spark: Any, uri: str) -> None:
    tablefmt.spark.register(spark)
    tablefmt.spark.write(spark.sql(f"SELECT * FROM {ROWS} AS t(id, i, d, s, a)"), uri)


def outcome(work: Any) -> Any:
    """Return the result of the work, or Spark's name of its error."""
    try:
        return work()
    except Exception as error:
        named = re.search(r"\[([A-Z_]+)", str(error))
        return named[1] if named else error


@pytest.mark.soak
def test_values_are_errors_where_ansi_has_errors(spark: Any, lenient: Any, uri: str) -> None:
    """SQL-1: each as Spark's own SELECT gives it in a session that is ANSI."""
    filled(spark, uri)
    lenient.sql(f"CREATE TABLE ansi_t USING tablefmt OPTIONS (path '{uri}')")
    source = spark.sql(f"SELECT * FROM {ROWS} AS t(id, i, d, s, a)")
    errors = 0
    for value, kind in VALUES.items():
        column = {"int": "i", "double": "d", "boolean": "i"}[kind]
        text = f"CAST({value} AS INT)" if kind == "boolean" else value

        def meant(text: str = text) -> Any:
            # Spark does not compute a column that is not selected.
            rows = source.select("id", F.expr(text)).collect()
            return sorted(tuple(row) for row in rows)

        first = tablefmt.open(uri).version

        def done(text: str = text, column: str = column, first: int = first) -> Any:
            lenient.sql(f"UPDATE ansi_t SET {column} = {text}")
            rows = sorted_rows(uri, "id", column)
            table = tablefmt.open(uri)
            table.overwrite(table.to_arrow(version=first))
            return rows

        wanted = outcome(meant)
        errors += isinstance(wanted, str)
        assert outcome(done) == wanted, value
    assert errors >= 8
    assert lenient.sql("SELECT 2147483647 + 1").first()[0] == -2147483648


def test_every_kind_of_statement_goes_by_ansi(spark: Any, lenient: Any, uri: str) -> None:
    """SQL-1: conditions and values, in SQL, by SparkTable, and of a constraint."""
    filled(spark, uri)
    lenient.sql(f"CREATE TABLE ansi_t USING tablefmt OPTIONS (path '{uri}')")
    before = sorted_rows(uri, "id", "i", "d", "s")
    table = tablefmt.spark.open(lenient, uri)
    rows = lenient.sql("SELECT 1 AS id, 2147483647 AS i, 1.0D AS d, 'x' AS s, array(1) AS a")
    merge = table.merge(rows, "t.id = s.id")
    using = "MERGE INTO ansi_t t USING (SELECT 1 AS id, 2147483647 AS i, 'q' AS s) s ON"
    overflow, cast = "ARITHMETIC_OVERFLOW", "CAST_INVALID_INPUT"
    statements = [
        (lambda: lenient.sql("DELETE FROM ansi_t WHERE i + 1 < 0"), overflow),
        (lambda: lenient.sql("DELETE FROM ansi_t WHERE s = 1"), cast),
        (lambda: lenient.sql("UPDATE ansi_t SET d = 7 WHERE CAST(s AS INT) IS NULL"), cast),
        (
            lambda: lenient.sql(f"{using} t.id = CAST(s.s AS INT) WHEN MATCHED THEN DELETE"),
            cast,
        ),
        (
            lambda: lenient.sql(f"{using} t.id = s.id WHEN MATCHED AND t.i + 1 < 0 THEN DELETE"),
            overflow,
        ),
        (
            lambda: lenient.sql(
                f"{using} t.id = -s.id WHEN NOT MATCHED THEN INSERT (i) VALUES (s.i + 1)"
            ),
            overflow,
        ),
        (lambda: table.update({"i": "i + 1"}), overflow),
        (lambda: table.update({"i": F.col("i") + 1}), overflow),
        (lambda: table.update({"i": F.col("s").cast("int")}), cast),
        (lambda: table.delete("i + 1 < 0"), overflow),
        (lambda: merge.when_matched_update({"i": "t.i + s.i"}).execute(), overflow),
        (lambda: merge.when_matched_delete("t.i + s.i < 0").execute(), overflow),
        (
            lambda: (
                table.merge(rows, "t.id = -s.id")
                .when_not_matched_insert({"id": "s.id", "i": "s.i + 1"})
                .execute()
            ),
            overflow,
        ),
        (lambda: table.overwrite(rows, where="i + 1 < 0"), overflow),
        (lambda: table.alter.add_constraint("c", "CAST(s AS INT) IS NULL OR id > 1"), cast),
    ]
    for number, (statement, name) in enumerate(statements):
        with pytest.raises(Exception, match=name):
            statement()
        assert sorted_rows(uri, "id", "i", "d", "s") == before, number
    lenient.sql("UPDATE ansi_t SET i = i - 1, d = try_divide(1, d)")
    assert sorted_rows(uri, "id", "i", "d", "s") == [
        (1, 2147483646, None, "abc"),
        (2, 4, 0.4, "12"),
    ]


def test_constraints_and_store_assignment_go_by_ansi(spark: Any, lenient: Any, uri: str) -> None:
    """SQL-1, SQL-3, DAT-13: every writer follows ANSI. The query itself follows its session."""
    filled(spark, uri)
    condition = "s = 'abc' OR CAST(s AS INT) IS NULL OR id > 1"
    tablefmt.spark.open(spark, uri).alter.add_constraint("c", condition)
    table = tablefmt.spark.open(lenient, uri)
    before = sorted_rows(uri, "id", "i", "d", "s")
    row = "SELECT {} AS id, {} AS i, 1.0D AS d, {} AS s, array(1) AS a"
    with pytest.raises(Exception, match="CAST_INVALID_INPUT"):
        table.append(lenient.sql(row.format(1, 1, "'xyz'")))
    with pytest.raises(ConstraintViolationError):
        table.append(lenient.sql(row.format(1, 1, "'5'")))
    with pytest.raises(SchemaMismatchError, match="3000000000"):
        table.append(lenient.sql(row.format(9, 3000000000, "NULL")))
    assert sorted_rows(uri, "id", "i", "d", "s") == before
    table.append(lenient.sql(row.format(9, "2147483647 + 1", "CAST(CAST('x' AS INT) AS STRING)")))
    assert sorted_rows(uri, "id", "i", "d", "s") == [*before, (9, -2147483648, 1.0, None)]
    lenient.sql(f"CREATE TABLE ansi_t USING tablefmt OPTIONS (path '{uri}')")
    lenient.conf.set("spark.sql.storeAssignmentPolicy", "LEGACY")
    with pytest.raises(SchemaMismatchError, match="3000000000"):
        lenient.sql("UPDATE ansi_t SET i = 3000000000")
    with pytest.raises(SchemaMismatchError):
        lenient.sql("UPDATE ansi_t SET i = 'five'")
