"""DELETE, UPDATE and MERGE in a Spark Connect session: no JVM at hand, rows through Arrow."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tablefmt
import tablefmt.spark
from tablefmt.errors import (
    InvalidPredicateError,
    MergeCardinalityError,
    SchemaMismatchError,
    UnsupportedFeatureError,
)
from tests.hostile import HOSTILE, poisoned
from tests.parts import DDL, Row, with_parts
from tests.tables import sorted_rows

ROWS = [(i, f"n{i % 3}", None if i % 4 == 0 else i * 1.5) for i in range(12)]


@pytest.fixture
def table(connect: Any, tmp_path: Path) -> Any:
    place = str(tmp_path / "t")
    columns = [list(c) for c in zip(*ROWS, strict=True)]
    data = pa.table(columns, pa.schema([("id", "int64"), ("s", "string"), ("v", "double")]))
    made = tablefmt.create(place, data.schema)
    made.append(data.slice(0, 6))
    made.append(data.slice(6))
    return tablefmt.spark.open(connect, place)


def test_one_statement_after_the_other(connect: Any, table: Any) -> None:
    table.delete("id % 5 = 0")
    table.update({"v": "id + 0.5", "s": "upper(s)"}, "v IS NULL")
    expected = {r[0]: r for r in ROWS if r[0] % 5}
    expected = {
        i: (i, s.upper(), i + 0.5) if v is None else (i, s, v) for i, s, v in expected.values()
    }
    assert sorted_rows(table.table) == sorted(expected.values())
    source = connect.createDataFrame(
        [(1, "m", 1.0), (2, "x", 2.0), (20, "m", 3.0)], "id long, s string, v double"
    )
    merge = table.merge(source, "t.id = s.id").when_matched_delete("s.s = 'x'")
    merge = merge.when_matched_update({"v": "t.v + s.v"}).when_not_matched_insert_all()
    done = merge.when_not_matched_by_source_delete("t.id > 10").execute()
    expected[1] = (1, "n1", 2.5)
    del expected[2], expected[11]
    assert sorted_rows(table.table) == sorted([*expected.values(), (20, "m", 3.0)])
    assert done.metrics["numTargetRowsUpdated"] == 1
    assert connect.getTags() == set(), "those of its steps are gone with them"


def test_what_is_refused(connect: Any, table: Any) -> None:
    twice = connect.createDataFrame([(3, "a", 1.0), (3, "b", 2.0)], "id long, s string, v double")
    with pytest.raises(MergeCardinalityError, match="id=3"):
        table.merge(twice, "t.id = s.id").when_matched_update_all().execute()
    with pytest.raises(InvalidPredicateError):
        table.delete("nope = 1")
    assert sorted_rows(table.table) == sorted(ROWS)


CHANCE = {
    "rand": "rand() < 0.5",
    "UDF": "chance({0}id) = 1",
    "with sub-queries": "uuid() < 'a' AND {0}id = (SELECT max(x) FROM others WHERE k = {0}id)",
}


@pytest.mark.share(3)
@pytest.mark.parametrize("name", CHANCE)
def test_a_condition_that_chance_decides_is_refused(connect: Any, table: Any, name: str) -> None:
    """The client has no plan to check, so the server gets a query that it must refuse."""
    from pyspark.sql.connect.functions import udf
    from pyspark.sql.types import LongType

    same = udf(lambda value: value, LongType(), useArrow=False)
    connect.udf.register("chance", same.asNondeterministic())
    connect.sql("SELECT 1L AS k, 1L AS x").createOrReplaceTempView("others")
    source = connect.createDataFrame([(1, "x", 1.0), (99, "y", 2.0)], "id long, s string, v double")
    condition = CHANCE[name].format

    def merge() -> Any:
        return table.merge(source, "t.id = s.id")

    statements = [
        lambda: merge().when_matched_delete(condition("t.")).execute(),
        lambda: merge().when_not_matched_insert_all(condition("s.")).execute(),
        lambda: table.delete(condition("")),
        lambda: table.update({"v": "1"}, "id > 2 AND " + condition("")),
    ]
    if name == "rand":
        statements.append(lambda: table.overwrite(source, where=condition("")))
    for statement in statements:
        with pytest.raises(InvalidPredicateError, match="not deterministic"):
            statement()
    assert sorted_rows(table.table) == sorted(ROWS)
    assert table.table.version == 2


def test_values_may_be_a_matter_of_chance(connect: Any, table: Any) -> None:
    table.update({"v": "rand() + 100"}, "id + length(s) > 10")
    found = {i: v for i, _, v in sorted_rows(table.table)}
    assert [100 <= v < 101 for i, v in found.items() if i > 8] == [True] * 3


@pytest.mark.soak
def test_parts_of_structs_are_set(connect: Any, tmp_path: Path) -> None:
    """SQL-5, MRG-1: a model in plain Python gives the same rows. New fields are added."""
    place = str(tmp_path / "parts")
    day = dt.date(2020, 1, 1)
    given = [
        {"id": 1, "v": 5, "s": {"a": 1, "c": {"d": "x", "e": day}, "b": "b"}},
        {"id": 2, "v": None, "s": None},
        {"id": 3, "v": 7, "s": {"a": 3, "c": None, "b": None}},
    ]
    made = tablefmt.create(place, DDL)
    made.append(pa.Table.from_pylist(given, made.to_arrow().schema))
    table = tablefmt.spark.open(connect, place)
    table.update({"s.a": "v + 1", "S.c.`d`": "id"}, "id < 3")
    first, second = (
        with_parts(row, {("s", "a"): new, ("s", "c", "d"): str(row["id"])})  # type: ignore[arg-type, index]
        for row, new in zip(given[:2], (6, None), strict=True)
    )
    third = given[2]

    def found() -> list[Row]:
        kept: list[Row] = table.table.refresh().to_arrow().to_pylist()
        return sorted(kept, key=lambda row: row["id"])

    assert found() == [first, second, third]
    source = connect.sql("SELECT 1L AS id, named_struct('n', 'new', 'a', 9) AS s, 2.5D AS w")
    merge = table.merge(source, "t.id = q.id", source_alias="q", merge_schema=True)
    merge = merge.when_matched_update_all("t.v = 5").when_matched_update({"s.b": "q.w"})
    merge.when_not_matched_by_source_update({"s.c.d": "concat('r', t.id)"}).execute()
    all_new = {**first["s"], "a": 9, "n": "new"}
    rest = [with_parts(row, {("s", "c", "d"): f"r{row['id']}"}) for row in (second, third)]  # type: ignore[arg-type, index]
    assert found() == [
        {"id": 1, "v": 5, "s": all_new, "w": 2.5},
        *({**row, "s": {**row["s"], "n": None}, "w": None} for row in rest),
    ]
    with pytest.raises(SchemaMismatchError, match="set twice"):
        table.update({"s.a": "1", "s": "NULL"})


def test_text_of_the_log_runs_nothing(connect: Any, tmp_path: Path) -> None:
    """SQL-6: over Connect too; `raise_error` would show that the server saw it."""
    for number, text in enumerate([HOSTILE[0], "raise_error('seen') IS NULL OR k > -100"]):
        uri = str(tmp_path / f"hostile {number}")
        poisoned(uri, text)
        with pytest.raises(UnsupportedFeatureError, match="'c'"):
            tablefmt.spark.write(connect.sql("SELECT 2 AS k, 'b' AS t"), uri)
        with pytest.raises(UnsupportedFeatureError, match="'c'"):
            tablefmt.spark.open(connect, uri).update({"k": "k + 1"})
        assert tablefmt.spark.read(connect, uri).collect() == [(1, "a")]


def test_files_are_put_together_and_rows_in_order(connect: Any, table: Any) -> None:
    """CMP-1, CMP-5: Arrow in the server's workers does it, without a JVM at hand."""
    table.delete("id % 5 = 0")
    expected = [row for row in ROWS if row[0] % 5]
    assert table.compact("major").metrics["numAddedFiles"] == 1
    assert [row[0] for row in sorted_rows(table.table)] == [row[0] for row in expected]
    table.cluster(["s", "id"], curve="linear")
    ordered = table.table.refresh().to_arrow().to_pydict().values()
    assert list(zip(*ordered, strict=True)) == sorted(expected, key=lambda r: (r[1], r[0]))
    assert table.table.verify(deep=True).ok
    assert connect.getTags() == set()


def test_a_lambda_that_is_written_again_is_the_same_statement(connect: Any, table: Any) -> None:
    """Its variables are counted by PySpark, and have another name each time."""
    from pyspark.sql.connect import functions as F

    def condition() -> Any:
        return F.exists(F.array("id"), lambda each: each == F.lit(3))

    first = table.delete(condition(), txnAppId="job", txnVersion=1)
    again = table.delete(condition(), txnAppId="job", txnVersion=1)
    assert (again.already_applied, again.version) == (True, first.version)
    assert sorted_rows(table.table) == [row for row in ROWS if row[0] != 3]
