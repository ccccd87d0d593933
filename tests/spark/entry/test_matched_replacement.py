"""Overwrites with replaceUsing and replaceOn, beside the same replacement of rows in Python."""

from __future__ import annotations

from typing import Any

import pytest

import tablefmt
import tablefmt.spark
from tablefmt.errors import (
    ConcurrentModificationException,
    InvalidArgumentError,
    SchemaMismatchError,
    UnsupportedFeatureError,
)
from tests.spark.looking import selected

pytestmark = pytest.mark.usefixtures("catalog")

DDL = "name STRING, country STRING, age INT"
OLD = [("Dylan", "US", 1), ("Doug", "UK", 2), ("Julia", "IT", 3), ("Adam", None, 4)]
NEW = [("Peter", "FR", 5), ("Jennie", "UK", 6), ("Jo", "UK", 6), ("Eva", None, 7)]


@pytest.fixture(params=[[], ["country"]], ids=["plain", "partitioned"])
def t(spark: Any, uri: str, request: pytest.FixtureRequest) -> str:
    """A table known as `t`, with the old rows; its place."""
    table = tablefmt.create(uri, DDL, partition_by=request.param)
    table.append([dict(zip(("name", "country", "age"), row, strict=True)) for row in OLD])
    spark.sql(f"CREATE TABLE t USING tablefmt OPTIONS (path '{uri}')")
    return uri


def new(spark: Any, rows: Any = NEW) -> Any:
    return spark.createDataFrame(rows, DDL)


def writer(frame: Any, **options: str) -> Any:
    return frame.write.format("tablefmt").mode("overwrite").options(**options)


def ordered(rows: Any) -> list[Any]:
    return sorted(rows, key=repr)


def replaced(using: tuple[int, ...]) -> list[Any]:
    """Return the old rows that equal no new one in some columns, and the new rows."""

    def equal(one: tuple[Any, ...], other: tuple[Any, ...]) -> bool:
        return all(one[i] is not None and one[i] == other[i] for i in using)

    return ordered([old for old in OLD if not any(equal(old, row) for row in NEW)] + NEW)


@pytest.mark.parametrize(
    ("columns", "using"),
    [("country", (1,)), ("name, country", (0, 1)), (" `Country` ,age", (1, 2))],
)
def test_rows_that_equal_a_new_one_are_replaced(
    spark: Any, t: str, columns: str, using: tuple[int, ...]
) -> None:
    writer(new(spark), replaceUsing=columns).saveAsTable("t")
    assert ordered(selected(spark, "SELECT * FROM t")) == replaced(using)
    assert tablefmt.open(t).version == 2


def test_every_way_to_write_replaces_the_same_rows(spark: Any, t: str) -> None:
    for write in (
        lambda: writer(new(spark), replaceUsing="country").save(t),
        lambda: writer(new(spark), replaceUsing="country").insertInto("t"),
        lambda: tablefmt.spark.write(new(spark), t, mode="overwrite", replace_using="country"),
        lambda: tablefmt.spark.open(spark, t).overwrite(new(spark), replaceUsing="country"),
    ):
        write()
        assert ordered(selected(spark, "SELECT * FROM t")) == replaced((1,))
        tablefmt.open(t).restore(version=1)


def test_rows_of_a_condition_are_replaced(spark: Any, t: str) -> None:
    """NULL equals NULL for <=>. Many new rows may match one old row."""
    rows = new(spark).alias("s")
    writer(rows, replaceOn="t.country <=> s.country", targetAlias="t").saveAsTable("t")
    assert ordered(selected(spark, "SELECT * FROM t")) == ordered([OLD[0], OLD[2], *NEW])
    writer(new(spark, []).alias("s"), replaceOn="s.age >= t.age").save(t)
    assert ordered(selected(spark, "SELECT * FROM t")) == ordered([OLD[0], OLD[2], *NEW])
    writer(new(spark, NEW[:1]).alias("new"), replaceOn="new.age > old.age", targetAlias="old").save(
        t
    )
    assert ordered(selected(spark, "SELECT * FROM t")) == ordered([*NEW[:1], *NEW])


def test_new_columns_and_an_application_version_go_with_it(spark: Any, t: str) -> None:
    rows = spark.sql("SELECT 'Al' AS name, 'US' AS country, 9 AS age, 1.5D AS score")
    for _ in range(2):
        writer(rows, replaceUsing="country", mergeSchema="true", txnAppId="a", txnVersion="1").save(
            t
        )
    assert tablefmt.open(t).version == 2
    assert selected(spark, "SELECT * FROM t WHERE country = 'US'") == [("Al", "US", 9, 1.5)]


def test_two_writers_of_one_new_key_do_not_both_commit(spark: Any, uri: str) -> None:
    """The later would have replaced the rows of the earlier."""
    first = tablefmt.create(uri, DDL)
    first.append([{"name": "a", "country": "X", "age": 0}])
    txn = first.transaction()
    rows = [{"name": "c", "country": "Y", "age": 2}]
    txn.merge(rows, "t.country = s.country").when_not_matched_insert_all().execute()
    tablefmt.spark.open(spark, uri).overwrite(new(spark, [("b", "Y", 1)]), replaceUsing="country")
    with pytest.raises(ConcurrentModificationException):
        txn.commit()
    assert first.refresh().scan().count() == 2


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"replaceUsing": "land"}, SchemaMismatchError, "the table has no column 'land'"),
        ({"replaceUsing": "contry"}, SchemaMismatchError, "did you mean 'country'"),
        ({"replaceUsing": " , "}, InvalidArgumentError, "expected names of columns"),
        ({"replaceUsing": "age", "replaceOn": "s.age = t.age"}, InvalidArgumentError, "give one"),
        ({"replaceUsing": "age", "replaceWhere": "age = 1"}, InvalidArgumentError, "give one"),
        (
            {"replaceUsing": "age", "partitionOverwriteMode": "dynamic"},
            InvalidArgumentError,
            "give one",
        ),
        ({"replaceUsing": "age", "overwriteSchema": "true"}, InvalidArgumentError, "replaceUsing"),
        ({"targetAlias": "t"}, InvalidArgumentError, "replaceOn"),
        ({"replaceOn": "s.age = t.age", "targetAlias": "S"}, InvalidArgumentError, "both named"),
    ],
)
def test_wrong_options_are_refused(
    spark: Any, t: str, options: dict[str, str], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        writer(new(spark), **options).save(t)
    assert tablefmt.open(t).version == 1


def test_other_writes_do_not_take_them(spark: Any, t: str, tmp_path: Any) -> None:
    frame = new(spark)
    with pytest.raises(InvalidArgumentError, match="replaceUsing has no effect"):
        frame.write.format("tablefmt").mode("append").option("replaceUsing", "age").save(t)
    with pytest.raises(UnsupportedFeatureError, match="replaceOn needs an existing table"):
        writer(frame, replaceOn="s.age = t.age").save(str(tmp_path / "none"))
