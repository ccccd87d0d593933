"""Columns that come with the rows of an INSERT or a write by name; and Spark's catalog after that.

Held against a plain model: what the table had, with the rows that came, by name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.functions import col

import tablefmt
import tablefmt.spark
from tablefmt.errors import InvalidRangeError, SchemaMismatchError

NAME = "grown"
OLD: list[dict[str, Any]] = [{"id": 1, "p": "a"}, {"id": 2, "p": "b"}]
QUERY = "SELECT 3L AS id, 'c' AS p, 5 AS w"
CAME = {"id": 3, "p": "c", "w": 5}


@pytest.fixture
def make(spark: Any, tmp_path: Path) -> Iterator[Callable[..., str]]:
    """Return a function that creates the table `grown` and returns its location."""
    tablefmt.spark.register(spark)
    places: list[str] = []

    def made(columns: str = "id BIGINT, p STRING", by: str = "PARTITIONED BY (p)") -> str:
        spark.sql(f"DROP TABLE IF EXISTS {NAME}")
        places.append(str(tmp_path / f"t{len(places)}"))
        spark.sql(
            f"CREATE TABLE {NAME} ({columns}) USING tablefmt OPTIONS (path '{places[-1]}') {by}"
        )
        if columns == "id BIGINT, p STRING":
            spark.sql(f"INSERT INTO {NAME} VALUES (1, 'a'), (2, 'b')")
        return places[-1]

    yield made
    spark.sql(f"DROP TABLE IF EXISTS {NAME}")


def sorted_rows(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=repr)


def there(path: str) -> list[dict[str, Any]]:
    """Return the rows by Arrow."""
    return sorted_rows(tablefmt.open(path).to_arrow().to_pylist())


def wide(*rows: dict[str, Any]) -> list[dict[str, Any]]:
    return sorted_rows([{"id": None, "p": None, "w": None, **row} for row in rows])


STATEMENTS: list[tuple[str, list[dict[str, Any]]]] = [
    ("INTO grown SELECT 3L AS x, 'c' AS y, 5 AS w", wide(*OLD, CAME)),
    ("INTO grown BY NAME SELECT 5 AS w, 3L AS id", wide(*OLD, {"id": 3, "w": 5})),
    ("INTO grown (w, id) VALUES (5, 3)", wide(*OLD, {"id": 3, "w": 5})),
    ("INTO grown PARTITION (p = 'c') SELECT 3L, 5 AS w", wide(*OLD, CAME)),
    ("OVERWRITE grown SELECT 3L AS x, 'c' AS y, 5 AS w", wide(CAME)),
    (
        "OVERWRITE grown PARTITION (p = 'a') SELECT 3L, 5 AS w",
        wide(OLD[1], {**CAME, "p": "a"}),
    ),
    (
        "INTO grown REPLACE WHERE p = 'a' SELECT 3L AS x, 'a' AS y, 5 AS w",
        wide(OLD[1], {**CAME, "p": "a"}),
    ),
]


def test_insert_with_schema_evolution(spark: Any, make: Callable[..., str]) -> None:
    """SCH-9: one commit with the rows and the columns, and the catalog knows them at once."""
    if spark.version < "4.2":
        pytest.skip("this Spark's SQL does not know the words")
    found = []
    for text, _ in STATEMENTS:
        path = make()
        spark.sql(f"INSERT WITH SCHEMA EVOLUTION {text}")
        assert tablefmt.open(path).version == 2
        assert spark.table(NAME).columns == ["id", "p", "w"]
        found.append(there(path))
    assert found == [expected for _, expected in STATEMENTS]


def test_insert_with_schema_evolution_of_what_needs_none(
    spark: Any, make: Callable[..., str]
) -> None:
    """It works like INSERT.

    Types get wider, fields are added, and other columns are refused by name.
    """
    if spark.version < "4.2":
        pytest.skip("this Spark's SQL does not know the words")
    path = make()
    start = "INSERT WITH SCHEMA EVOLUTION INTO grown"
    spark.sql(f"{start} VALUES (3, DEFAULT)")
    spark.sql(f"WITH q AS (SELECT 4L AS id, 'd' AS p) {start} SELECT * FROM q")
    assert there(path) == sorted_rows([*OLD, {"id": 3, "p": None}, {"id": 4, "p": "d"}])
    for text in ("SELECT 3L, 'c', 5 AS id", "SELECT 3L, 'c', INTERVAL 1 DAY AS i"):
        with pytest.raises(SchemaMismatchError):
            spark.sql(f"{start} {text}")
    assert tablefmt.open(path).schema.names == ["id", "p"]
    path = make("id INT, s STRUCT<a: INT>", "")
    spark.sql(f"{start} SELECT 3000000000L AS id, named_struct('a', 2, 'b', 'x') AS s")
    assert there(path) == [{"id": 3000000000, "s": {"a": 2, "b": "x"}}]


def asked(writer: Any) -> Any:
    return writer.option("mergeSchema", "true")


def overwritten(frame: Any) -> None:
    frame = frame.selectExpr("id", "'b' AS p", "w")
    asked(frame.writeTo(NAME)).overwrite(col("p") == "b")


WAYS: dict[str, tuple[Callable[[Any], Any], list[dict[str, Any]]]] = {
    "insertInto": (lambda f: asked(f.write).insertInto(NAME), wide(*OLD, CAME)),
    "insertInto over": (lambda f: asked(f.write).insertInto(NAME, overwrite=True), wide(CAME)),
    "insertInto of a format": (
        lambda f: asked(f.write.format("tablefmt")).insertInto(NAME),
        wide(*OLD, CAME),
    ),
    "saveAsTable": (
        lambda f: asked(f.write.format("tablefmt").mode("append")).saveAsTable(NAME),
        wide(*OLD, CAME),
    ),
    "append": (lambda f: f.writeTo(NAME).option("merge_schema", "TRUE").append(), wide(*OLD, CAME)),
    "overwritePartitions": (
        lambda f: asked(f.writeTo(NAME)).overwritePartitions(),
        wide(*OLD, CAME),
    ),
    "overwrite": (overwritten, wide(OLD[0], {**CAME, "p": "b"})),
}


def test_the_option_mergeSchema_on_every_way_by_name(spark: Any, make: Callable[..., str]) -> None:
    """SCH-9: insertInto matches by position, the others by name."""
    found = {}
    for name, (do, _) in WAYS.items():
        path = make()
        query = QUERY.replace("id,", "x,") if name.startswith("insertInto") else QUERY
        do(spark.sql(query))
        found[name] = there(path)
        assert spark.table(NAME).columns == ["id", "p", "w"], name
    assert found == {name: expected for name, (_, expected) in WAYS.items()}


def test_without_the_option_more_columns_are_refused(spark: Any, make: Callable[..., str]) -> None:
    path = make()
    frame = spark.sql(QUERY)
    for write in (
        lambda: frame.write.insertInto(NAME),
        lambda: frame.write.option("mergeSchema", "false").insertInto(NAME),
        lambda: frame.writeTo(NAME).option("mergeSchema", "false").append(),
        lambda: spark.sql(f"INSERT INTO {NAME} {QUERY}"),
    ):
        with pytest.raises(SchemaMismatchError):
            write()
    with pytest.raises(InvalidRangeError, match="mergeSchema"):
        frame.drop("w").write.option("mergeSchema", "perhaps").insertInto(NAME)
    assert there(path) == OLD


def test_options_of_insert_into_are_not_dropped(spark: Any, make: Callable[..., str]) -> None:
    """Spark drops them unless a format is given too. A write with a number counts once."""
    path = make()
    frame = spark.sql(QUERY).drop("w")
    for _ in range(2):
        frame.write.option("txnAppId", "job").option("txnVersion", 7).insertInto(NAME)
    assert there(path) == sorted_rows([*OLD, {"id": 3, "p": "c"}])


def test_the_catalog_follows_what_this_session_did_by_path(
    spark: Any, make: Callable[..., str]
) -> None:
    """No sync is needed then; after somebody else's change the error names it, as before."""
    path = make()
    frame = spark.sql(QUERY)
    frame.write.format("tablefmt").mode("append").option("mergeSchema", "true").save(path)
    spark.sql(f"UPDATE {NAME} SET w = 6 WHERE id = 1")
    assert there(path) == wide({**OLD[0], "w": 6}, OLD[1], CAME)
    table = tablefmt.spark.open(spark, path)
    table.append(frame.withColumn("v", col("w")), mergeSchema=True)
    table.alter.rename_column("v", "u")
    table.alter.drop_column("w")
    spark.sql(f"INSERT INTO {NAME} VALUES (9, 'z', 1)")
    assert [tuple(r) for r in spark.sql(f"SELECT * FROM {NAME} WHERE id > 8").collect()] == [
        (9, "z", 1)
    ]
    tablefmt.open(path).alter.add_column("theirs", "INT")
    with pytest.raises(SchemaMismatchError, match=r"tablefmt\.spark\.sync"):
        spark.sql(f"SELECT * FROM {NAME}")
    # A column of this session does not show the column of another handle.
    frame.drop("w").withColumn("mine", col("id")).write.format("tablefmt").mode("append").option(
        "mergeSchema", "true"
    ).save(path)
    with pytest.raises(SchemaMismatchError, match=r"tablefmt\.spark\.sync"):
        spark.sql(f"SELECT * FROM {NAME}")
    tablefmt.spark.sync(spark, NAME)
    assert spark.table(NAME).columns == ["id", "p", "u", "theirs", "mine"]
