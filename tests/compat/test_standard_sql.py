"""Texts of delta-rs and PyIceberg mean here what they mean there."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg import expressions as ex
from pyiceberg.expressions import parser
from pyiceberg.expressions.visitors import bind
from pyiceberg.io.pyarrow import expression_to_pyarrow
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BooleanType,
    DateType,
    DoubleType,
    LongType,
    NestedField,
    StringType,
    TimestampType,
)

import tablefmt
from tablefmt.compat.deltalake import DeltaTable, write_deltalake
from tablefmt.compat.pyiceberg import load_catalog
from tablefmt.compat.standard_sql import spark_condition, spark_sql
from tablefmt.errors import InvalidPredicateError

NAN = float("nan")
SCHEMA = Schema(
    NestedField(1, "id", LongType()),
    NestedField(2, "x", DoubleType()),
    NestedField(3, "region", StringType()),
    NestedField(4, "ok", BooleanType()),
    NestedField(5, "day", DateType()),
    NestedField(6, "ts", TimestampType()),
)
ROWS = pa.table(
    {
        "id": [1, 2, 3, 4, None],
        "x": [1.0, -2.5, None, 4.0, NAN],
        "region": ["EU", "U_S", None, "it's", "a\\b%c"],
        "ok": [True, False, None, True, False],
        "day": [dt.date(2025, 1, 1), None, dt.date(2025, 3, 1), dt.date(2024, 1, 1), None],
        "ts": [dt.datetime(2025, 1, 1, 1), None, dt.datetime(2025, 3, 1), None, None],
    },
    SCHEMA.as_arrow(),
)
TEXTS = (
    "\"region\" = 'EU'",
    "id == 1",
    "id != 1",
    "id <> 1 and x < 3",
    "x IS NAN",
    "x is not nan",
    "NOT (x IS NAN)",
    'NOT x IS NAN OR "x" IS NAN',
    "region IS NULL",
    "region IS NOT NULL",
    "id IN (1, 2)",
    "id NOT IN (1, 2)",
    "NOT (id IN (1, 2))",
    "id NOT IN (1)",
    "region IN ('EU', 'it''s')",
    "\"region\" NOT IN ('EU', 'it''s', 'no IN (1, 2)')",
    "region LIKE 'U_%'",
    "region LIKE 'U_S'",
    "region LIKE '_U'",
    "region NOT LIKE 'E%'",
    "region = 'a\\b%c'",
    "region = 'x IS NAN'",
    "day BETWEEN '2025-01-01' AND '2025-01-02'",
    "ts BETWEEN '2025-01-01T00:00:00.000000' AND '2025-01-02T12:00:00.000000'",
    "ok = TRUE",
    "ok = false",
    "x BETWEEN -3.0 AND 2",
    "(id = 1 AND region = 'EU') OR region IS NULL",
    "region = 'EU' AND id > 0 AND NOT (id IN (2, 3))",
    "id = 1 OR id = 2 AND region = 'no'",
)
EXPRESSIONS = (
    ex.EqualTo("region", "EU"),
    ex.NotEqualTo("id", 1),
    ex.LessThan("id", 3),
    ex.LessThanOrEqual("id", 3),
    ex.GreaterThan("id", 3),
    ex.GreaterThanOrEqual("id", 3),
    ex.In("id", [1, 2]),
    ex.NotIn("id", [1, 2]),
    ex.Not(ex.In("region", ["EU", "U_S"])),
    ex.IsNull("region"),
    ex.NotNull("region"),
    ex.IsNaN("x"),
    ex.NotNaN("x"),
    ex.Not(ex.IsNaN("x")),
    ex.StartsWith("region", "U_"),
    ex.NotStartsWith("region", "U_"),
    ex.And(ex.GreaterThanOrEqual("id", 2), ex.LessThanOrEqual("id", 4)),
    ex.Or(ex.LessThan("id", 2), ex.GreaterThan("id", 3)),
    ex.And(ex.GreaterThanOrEqual("ts", dt.datetime(2025, 1, 1)), ex.NotNull("day")),
    ex.Not(ex.Or(ex.LessThan("id", 2), ex.EqualTo("region", "it's"))),
    ex.EqualTo(ex.Reference("day"), "2025-03-01"),
)


def chosen(rows: pa.Table) -> list[str]:
    return sorted(map(repr, rows["region"].to_pylist()))


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Any:
    catalog = load_catalog("default", warehouse=str(tmp_path_factory.mktemp("warehouse")))
    made = catalog.create_table("a.b", SCHEMA)
    made.append(ROWS)
    return made


@pytest.mark.parametrize("given", [*TEXTS, *EXPRESSIONS], ids=str)
def test_a_row_filter_finds_what_pyiceberg_finds(table: Any, given: Any) -> None:
    """The rows are those of PyIceberg's own filter of the same Arrow table."""
    expression = parser.parse(given) if isinstance(given, str) else given
    theirs = ROWS.filter(expression_to_pyarrow(bind(SCHEMA, expression, True)))
    assert chosen(table.scan(row_filter=given).to_arrow()) == chosen(theirs)


def test_what_pyiceberg_refuses_is_refused(table: Any) -> None:
    for text, words in (
        ('region = "EU"', "no column 'EU'"),
        ("region LIKE '%U'", "at the end"),
        ("region LIKE 'a%b%'", "at the end"),
    ):
        with pytest.raises(InvalidPredicateError, match=words):
            table.scan(row_filter=text).to_arrow()


def test_a_quoted_name_may_have_dots(tmp_path: Path) -> None:
    rows = pa.table({"column.name": [1, 2], 'a"b': [3, 4]})
    tablefmt.write(rows, str(tmp_path / "ns" / "t"))
    table = load_catalog("default", warehouse=str(tmp_path)).load_table("ns.t")
    for text in ('"column.name" = 2', '"a""b" = 4', '"column.name" IN (2, 5)'):
        assert table.scan(row_filter=text).to_arrow().num_rows == 1


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("\"a b\" = 'it''s'", r"`a b` = 'it\'s'"),
        (r"x = 'a\b'", r"x = 'a\\b'"),
        ("`x` = '\"no name\"'", "`x` = '\"no name\"'"),
        ("x LIKE 'a_%' ESCAPE '!'", "x LIKE 'a_%' ESCAPE '!'"),
        ('"a"."b" > 1', "`a`.`b` > 1"),
    ],
)
def test_standard_sql_becomes_spark_sql(theirs: str, ours: str) -> None:
    assert spark_sql(theirs) == ours
    assert spark_sql(None) is None
    assert spark_condition(None) is None


def test_delta_rs_texts_may_quote_names(tmp_path: Path) -> None:
    """Each text that delta-rs takes: a condition, a value, a constraint."""
    uri = str(tmp_path / "t")
    rows = pa.table({"id": [1, 2, 3], "Kind": ["a", "b\\n", "it's"]})
    write_deltalake(uri, rows)
    table = DeltaTable(uri)
    assert table.to_pyarrow_table(filters="\"Kind\" = 'it''s'")["id"].to_pylist() == [3]
    table.alter.add_constraint({"named": "\"Kind\" <> 'none'"})
    with pytest.raises(tablefmt.errors.ConstraintViolationError, match="named"):
        write_deltalake(uri, pa.table({"id": [4], "Kind": ["none"]}), mode="append")
    table.update({"Kind": "'x''y'"}, predicate="\"Kind\" = 'b\\n'")
    assert table.to_pyarrow_table(filters="\"Kind\" = 'x''y'")["id"].to_pylist() == [2]
    (
        table.merge(rows, "\"target\".\"id\" = \"source\".\"id\"")
        .when_matched_update({"Kind": "concat(\"source\".\"Kind\", '\"')"}, "\"target\".id = 1")
        .execute()
    )  # fmt: skip
    assert table.to_pyarrow_table(filters="id = 1")["Kind"].to_pylist() == ['a"']
    write_deltalake(
        uri, pa.table({"id": [9], "Kind": ["x'y"]}), mode="overwrite",
        predicate="\"Kind\" = 'x''y'",
    )  # fmt: skip
    assert table.delete('"id" = 1')["num_deleted_rows"] == 1
    assert sorted(DeltaTable(uri).to_pyarrow_table()["id"].to_pylist()) == [3, 9]
