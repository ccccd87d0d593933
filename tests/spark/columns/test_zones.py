"""Times without a zone in conditions have the session's zone, in every engine. Spec: SQL-4.

The session is in New York, where 2020-01-01 begins at 05:00 UTC.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

import tablefmt
import tablefmt.spark
from tablefmt.errors import UnsupportedFeatureError
from tablefmt.expressions.ddl import schema_from
from tablefmt.spark.columns.row_conditions import check_zoned

DDL = "s STRING, c TIMESTAMP, n BIGINT"
NEW_YEAR = "'2020-01-01 00:00:00'"
BEFORE = dt.datetime(2020, 1, 1, 3, tzinfo=dt.timezone.utc)
AFTER = dt.datetime(2020, 1, 1, 7, tzinfo=dt.timezone.utc)
LONG_BEFORE = BEFORE - dt.timedelta(days=1)

Rows = set[tuple[str, dt.datetime, int]]

CONDITIONS = {
    "partition": "s = '{0}' AND c < " + NEW_YEAR,
    "row": "s = '{0}' AND c < " + NEW_YEAR,
    "unknown": "lower(s) = '{0}' AND c < " + NEW_YEAR,
}


def made(uri: str, names: str, kind: str) -> None:
    """A row before and one after the new year, for each name."""
    by = ["s", "c"] if kind == "partition" else []
    rows = [(name, at, 0) for name in names for at in (BEFORE, AFTER)]
    columns = [list(c) for c in zip(*rows, strict=True)]
    tablefmt.create(uri, DDL, partition_by=by).append(pa.table(columns, ["s", "c", "n"]))


def rows_of(uri: str) -> Rows:
    columns = tablefmt.open(uri).to_arrow().select(["s", "c", "n"]).to_pydict().values()
    return set(zip(*columns, strict=True))


def new_row(spark: Any, name: str) -> Any:
    """A row that every condition on the name holds for."""
    return spark.createDataFrame([(name, LONG_BEFORE, 1)], DDL)


@pytest.mark.share(3)
@pytest.mark.parametrize(
    ("backend", "kind"),
    [
        ("native", "partition"),
        ("native", "unknown"),
        ("arrow", "row"),
        pytest.param("arrow", "partition", marks=pytest.mark.soak),
    ],
)
def test_every_verb_takes_them_for_those_of_the_session(
    spark: Any, uri: str, use_backend: Callable[..., None], backend: str, kind: str
) -> None:
    use_backend(backend)
    made(uri, "dumrt", kind)
    table = tablefmt.spark.open(spark, uri)
    where = CONDITIONS[kind].format
    table.delete(where("d"))
    table.update({"n": "n + 5"}, where("u"))
    source = spark.createDataFrame([("m",)], "k string")
    on = where("m").replace("c <", "t.c <").replace("s)", "t.s)").replace("s =", "t.s =")
    table.merge(source, f"t.s = s.k AND {on}").when_matched_update({"n": "7"}).execute()
    table.overwrite(new_row(spark, "r"), where=where("r"))
    expected = {(name, AFTER, 0) for name in "dumrt"}
    expected |= {("u", BEFORE, 5), ("m", BEFORE, 7), ("r", LONG_BEFORE, 1)}
    if kind == "unknown":
        with pytest.raises(UnsupportedFeatureError, match="use delete"):
            table.truncate(where("t"))
        expected.add(("t", BEFORE, 0))
    else:
        table.truncate(where("t"))
    assert rows_of(uri) == expected


@pytest.mark.share(2)
@pytest.mark.parametrize("kind", ["partition", pytest.param("unknown", marks=pytest.mark.soak)])
def test_every_statement_takes_them_for_those_of_the_session(
    spark: Any, uri: str, kind: str
) -> None:
    from pyspark.sql import functions

    tablefmt.spark.register(spark)
    made(uri, "dumrw", kind)
    where = CONDITIONS[kind].format
    spark.sql(f"CREATE TABLE zoned USING tablefmt OPTIONS (path '{uri}')")
    try:
        spark.sql(f"DELETE FROM zoned WHERE {where('d')}")
        spark.sql(f"UPDATE zoned SET n = n + 5 WHERE {where('u')}")
        spark.sql(
            "MERGE INTO zoned t USING (SELECT 'm' AS k) o ON t.s = o.k "
            f"WHEN MATCHED AND {where('m')} THEN UPDATE SET n = 7"
        )
        new_row(spark, "r").createOrReplaceTempView("replacing")
        spark.sql(f"INSERT INTO zoned REPLACE WHERE {where('r')} SELECT * FROM replacing")
        new_row(spark, "w").writeTo("zoned").overwrite(functions.expr(where("w")))
    finally:
        spark.sql("DROP TABLE zoned")
        spark.catalog.dropTempView("replacing")
    expected = {(name, AFTER, 0) for name in "dumrw"}
    expected |= {("u", BEFORE, 5), ("m", BEFORE, 7)}
    assert rows_of(uri) == expected | {(name, LONG_BEFORE, 1) for name in "rw"}


@pytest.mark.parametrize("kind", ["partition", pytest.param("row", marks=pytest.mark.soak)])
def test_replace_where_by_format_takes_them_for_those_of_the_session(
    spark: Any, uri: str, kind: str
) -> None:
    tablefmt.spark.register(spark)
    made(uri, "r", kind)
    writer = new_row(spark, "r").write.format("tablefmt").mode("overwrite")
    writer.option("replaceWhere", CONDITIONS[kind].format("r")).save(uri)
    assert rows_of(uri) == {("r", AFTER, 0), ("r", LONG_BEFORE, 1)}


@pytest.mark.parametrize(
    ("condition", "is_told"),
    [
        ("c < '2020-01-01 00:00:00'", True),
        ("c < TIMESTAMP '2020-01-01 00:00:00'", True),
        ("d < TIMESTAMP '2020-01-01 00:00:00Z'", True),
        ("c < '2020-01-01 00:00:00Z'", False),
        ("d < TIMESTAMP '2020-01-01 00:00:00'", False),
        ("s = '2020-01-01 00:00:00'", False),
    ],
)
def test_a_condition_that_the_zone_changes_is_told_from_one_that_it_does_not(
    condition: str, is_told: bool
) -> None:
    schema = schema_from("c TIMESTAMP, d DATE, s STRING")
    if not is_told:
        check_zoned(condition, schema)
        return
    with pytest.raises(UnsupportedFeatureError, match="without a zone"):
        check_zoned(condition, schema)
