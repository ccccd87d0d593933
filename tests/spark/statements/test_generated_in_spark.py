"""Generated columns where Spark writes: in UTC, on both backends, in every statement (GEN)."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tablefmt
import tablefmt.spark
from tablefmt.compat.delta.tables import DeltaTable
from tablefmt.errors import ConstraintViolationError, SchemaMismatchError, UnsupportedFeatureError
from tests.spark.looking import data_files, scanned_files

pytestmark = pytest.mark.usefixtures("catalog")
UTC = dt.timezone.utc
COLUMNS = (
    "id BIGINT, ts TIMESTAMP, day DATE NOT NULL GENERATED ALWAYS AS (CAST(ts AS DATE)), "
    "twice BIGINT GENERATED ALWAYS AS (id * 2) COMMENT 'of id'"
)
GENERATED = {"day": "CAST(ts AS DATE)", "twice": "id * 2"}
LATE = "TIMESTAMP '2026-01-05 23:30:00'"
"""The next day in UTC: the session is in New York."""


def row(number: int, day: int, hour: int = 4) -> tuple[Any, ...]:
    at = dt.datetime(2026, 1, day, hour, 30, tzinfo=UTC)
    return number, at, at.date(), number * 2


def rows_at(uri: str) -> list[tuple[Any, ...]]:
    found = tablefmt.open(uri).to_arrow().select(["id", "ts", "day", "twice"]).to_pylist()
    return sorted(tuple(each.values()) for each in found)


def place(spark: Any, name: str) -> str:
    detail = spark.sql(f"DESCRIBE DETAIL {name}").first()
    return str(detail.location)


def refused(call: Callable[[], Any], uri: str, words: str = "generated column `day`") -> None:
    before, version = data_files(uri), tablefmt.open(uri).version
    with pytest.raises(ConstraintViolationError, match=words) as caught:
        call()
    assert caught.value.row is not None
    assert data_files(uri) == before
    assert tablefmt.open(uri).version == version


def test_every_statement_of_sql(spark: Any) -> None:
    """GEN-1 .. GEN-5: DDL, INSERT in its forms, UPDATE, MERGE, what is shown, ALTER."""
    spark.sql(f"CREATE TABLE g ({COLUMNS}) USING tablefmt PARTITIONED BY (day)")
    uri = place(spark, "g")
    assert tablefmt.open(uri).generated == GENERATED
    assert tablefmt.open(uri).constraints == {}
    spark.sql(f"INSERT INTO g (id, ts) VALUES (1, {LATE})")
    spark.sql(f"INSERT INTO g BY NAME SELECT 2L AS id, {LATE} AS ts")
    spark.sql(f"INSERT INTO g VALUES (3, {LATE}, DATE '2026-01-06', 6)")
    frame = spark.sql(f"SELECT 4L AS id, {LATE} AS ts")
    frame.writeTo("g").append()
    frame.write.mode("append").format("tablefmt").saveAsTable("g")
    spark.sql(
        f"INSERT OVERWRITE g PARTITION (day = '2026-01-07') (id, ts) SELECT 5L, {LATE} + "
        "INTERVAL 1 DAY"
    )
    model = [row(1, 6), row(2, 6), row(3, 6), row(4, 6), row(4, 6), row(5, 7)]
    assert rows_at(uri) == model
    refused(lambda: spark.sql(f"INSERT INTO g VALUES (3, {LATE}, DATE '2026-01-05', 6)"), uri)
    refused(lambda: spark.sql("UPDATE g SET day = DATE '2026-01-05' WHERE id = 1"), uri)

    spark.sql("UPDATE g SET ts = ts + INTERVAL 2 DAYS, id = id + 10 WHERE id = 1")
    spark.sql(
        "UPDATE g SET twice = id * 2, day = CAST(to_utc_timestamp(ts, current_timezone()) "
        "AS DATE) WHERE id = 2"
    )
    model[0] = row(11, 8)
    spark.sql(
        f"MERGE INTO g t USING (SELECT 11L AS id, {LATE} AS ts UNION ALL SELECT 12L, {LATE}) s "
        "ON t.id = s.id WHEN MATCHED THEN UPDATE SET ts = s.ts "
        "WHEN NOT MATCHED AND s.id > 100 THEN INSERT (id) VALUES (s.id) "
        "WHEN NOT MATCHED THEN INSERT (id, ts) VALUES (s.id, s.ts) "
        "WHEN NOT MATCHED BY SOURCE AND t.id = 4 THEN UPDATE SET id = 40"
    )
    model = sorted(
        [row(11, 6), row(12, 6), row(2, 6), row(3, 6), row(40, 6), row(40, 6), row(5, 7)]
    )
    assert rows_at(uri) == model
    mixed = (
        f"MERGE INTO g t USING (SELECT 11L AS id, {LATE} AS ts) s ON t.id = s.id "
        "WHEN MATCHED AND t.twice = 1 THEN UPDATE SET ts = s.ts "
        "WHEN MATCHED THEN UPDATE SET ts = s.ts, day = DATE '2026-01-06'"
    )
    with pytest.raises(UnsupportedFeatureError, match=r"'day'.*all of these clauses or in none"):
        spark.sql(mixed)

    shown = dict(tuple(each) for each in spark.sql("SHOW TBLPROPERTIES g").collect())
    assert {f"generated.{n}": text for n, text in GENERATED.items()}.items() <= shown.items()
    made = spark.sql("SHOW CREATE TABLE g").first()[0]
    assert "day DATE NOT NULL" in made
    spark.sql(re.sub(r"spark_catalog\.default\.g", "again", made))
    assert tablefmt.open(place(spark, "again")).generated == GENERATED
    for name in ("DROP COLUMN ts", "RENAME COLUMN id TO x"):
        with pytest.raises(SchemaMismatchError, match="is generated from column"):
            spark.sql(f"ALTER TABLE g {name}")
    spark.sql("ALTER TABLE g RENAME COLUMN day TO `on`")
    spark.sql("ALTER TABLE g DROP COLUMN twice")
    assert tablefmt.open(uri).generated == {"on": "CAST(ts AS DATE)"}


@pytest.mark.parametrize(
    ("column", "error", "words"),
    [
        ("b INT GENERATED ALWAYS AS (rand())", Exception, "not deterministic"),
        ("b INT GENERATED ALWAYS AS (current_date())", Exception, "b"),
        ("b STRING GENERATED ALWAYS AS (a)", SchemaMismatchError, "has type integer"),
        ("b STRING GENERATED ALWAYS AS (current_user())", Exception, "b"),
        ("b INT DEFAULT 3 GENERATED ALWAYS AS (a)", Exception, "b"),
        ("b BINARY GENERATED ALWAYS AS (aes_encrypt('a', 'b'))", Exception, "b"),
    ],
)
def test_wrong_definitions_leave_no_table(
    spark: Any, column: str, error: type[Exception], words: str
) -> None:
    """GEN-2: by Spark's own check, or by ours."""
    with pytest.raises(error, match=words):
        spark.sql(f"CREATE TABLE wrong (a INT, {column}) USING tablefmt")
    assert not spark.catalog.tableExists("wrong")


def test_tables_of_other_formats_are_refused_as_before(spark: Any) -> None:
    """GEN-2: Spark's own catalog would ignore the expression."""
    with pytest.raises(Exception, match="generated columns"):
        spark.sql("CREATE TABLE p (a INT, b INT GENERATED ALWAYS AS (a)) USING parquet")
    assert not spark.catalog.tableExists("p")


def test_a_replacement_may_bring_generated_columns(spark: Any) -> None:
    """GEN-1, VER-4: the feature comes in a commit of its own."""
    spark.sql("CREATE TABLE plain (a INT) USING tablefmt")
    spark.sql("REPLACE TABLE plain (a INT, b INT GENERATED ALWAYS AS (a + 1)) USING tablefmt")
    spark.sql("INSERT INTO plain (a) VALUES (4)")
    spark.sql("CREATE TABLE same LIKE plain")
    spark.sql("INSERT INTO same (a) VALUES (7)")
    both = spark.sql("SELECT * FROM plain UNION ALL SELECT * FROM same")
    assert sorted(map(tuple, both.collect())) == [(4, 5), (7, 8)]
    names = [r.operation for r in spark.sql("DESCRIBE HISTORY plain").collect()]
    assert names == ["WRITE", "REPLACE TABLE", "ADD FEATURE", "CREATE TABLE"]


def _stream(spark: Any, frame: Any, uri: str) -> None:
    source = Path(uri).parent / "feed"
    frame.write.mode("overwrite").parquet(str(source))
    stream = spark.readStream.schema(frame.schema).parquet(str(source)).writeStream
    stream = stream.format("tablefmt").option("checkpointLocation", f"{uri}-checkpoint")
    stream.trigger(availableNow=True).start(uri).awaitTermination()


WRITES: dict[str, Callable[[Any, Any, str], Any]] = {
    "write": lambda spark, frame, uri: tablefmt.spark.write(frame, uri),
    "format": lambda spark, frame, uri: frame.write.format("tablefmt").mode("append").save(uri),
    "dynamic": lambda spark, frame, uri: tablefmt.spark.write(
        frame, uri, mode="overwrite", partitionOverwriteMode="dynamic"
    ),
    "stream": _stream,
}


@pytest.mark.share(2)
def test_both_backends_fill_and_check(spark: Any, uri: str, backend: str) -> None:
    """GEN-3, GEN-4: the same values by every write, and UPDATE; a CHECK sees computed values."""
    table = tablefmt.spark.create(spark, uri, COLUMNS, partition_by=["day"])
    table.alter.add_constraint("small", "twice < 1000")
    bad = spark.sql(f"SELECT 9L AS id, {LATE} AS ts, DATE '2026-01-05' AS day")
    refused(lambda: tablefmt.spark.write(bad, uri), uri)
    first = spark.sql(f"SELECT {LATE} AS ts, 1 AS ID")
    for name in WRITES if backend == "native" else ("write",):
        WRITES[name](spark, first, uri)
    with pytest.raises(UnsupportedFeatureError, match="'day', which the new rows lack"):
        tablefmt.spark.write(
            first, uri, mode="overwrite", replaceWhere="day = '2026-01-06' AND id > 0"
        )
    second = spark.sql(f"SELECT 1L AS id, {LATE} AS ts UNION ALL SELECT 2L, {LATE}")
    merge = table.merge(second, "t.id = s.id")
    merge.when_matched_update_all().when_not_matched_insert_all().execute()
    big = spark.sql(f"SELECT 500L AS id, {LATE} AS ts")
    refused(lambda: tablefmt.spark.write(big, uri), uri, "'small'")
    assert set(rows_at(uri)) == {row(1, 6), row(2, 6)}
    table.delete("id = 1")
    table.update({"ts": "ts + INTERVAL 1 DAY", "id": "20"}, "id = 2")
    assert set(rows_at(uri)) == {row(20, 7)}
    refused(lambda: table.update({"day": "DATE '2000-01-01'"}, "id = 20"), uri)


def test_functions_of_spark_alone(spark: Any, uri: str, use_backend: Callable[..., None]) -> None:
    """GEN-3: in UTC by Spark's own expressions; by Arrow refused by name."""
    columns = "ts TIMESTAMP, h INT GENERATED ALWAYS AS (minute(ts) * 0 + hour(ts))"
    table = tablefmt.spark.create(spark, uri, columns)
    table.append(spark.sql(f"SELECT {LATE} AS ts"))
    refused(lambda: table.append(spark.sql(f"SELECT {LATE} AS ts, 23 AS h")), uri, "`h`")
    assert tablefmt.open(uri).to_arrow()["h"].to_pylist() == [4]
    use_backend("arrow")
    with pytest.raises(UnsupportedFeatureError, match=r"'h'.*without Spark"):
        table.append(spark.sql(f"SELECT {LATE} AS ts"))


def test_a_condition_on_the_source_skips_partitions(spark: Any, uri: str) -> None:
    """GEN-6: by path and by name, without bounds of the source."""
    properties = {"statsColumns": "id"}
    tablefmt.create(uri, COLUMNS, partition_by=["day"], properties=properties).append(
        [{"id": day, "ts": row(day, day, 12)[1]} for day in range(1, 11)]
    )
    spark.sql(f"CREATE TABLE pruned USING tablefmt OPTIONS (path '{uri}')")
    where = "ts >= TIMESTAMP '2026-01-08 20:00:00'"  # 01:00 of the next day in UTC
    for frame in (tablefmt.spark.read(spark, uri), spark.table("pruned")):
        found = frame.where(where)
        assert scanned_files(found) == 2
        assert sorted(each.id for each in found.collect()) == [9, 10]
    spark.sql(f"DELETE FROM pruned WHERE {where}")
    assert [each[0] for each in rows_at(uri)] == list(range(1, 9))


def test_builders_of_delta(spark: Any, uri: str) -> None:
    """GEN-1: `generatedAlwaysAs` by place and by name."""
    for builder in (
        DeltaTable.create(spark).location(uri),
        DeltaTable.createOrReplace(spark).tableName("built"),
    ):
        made = (
            builder.addColumn("id", "BIGINT")
            .addColumn("twice", "BIGINT", generatedAlwaysAs="id * 2", comment="it's")
            .execute()
        )
        made.merge(spark.range(3), "false").whenNotMatchedInsert(values={"id": "id"}).execute()
        assert sorted(map(tuple, made.toDF().collect())) == [(0, 0), (1, 2), (2, 4)]
    with pytest.raises(UnsupportedFeatureError, match="expected an IdentityGenerator"):
        DeltaTable.create(spark).addColumn("id", "BIGINT", generatedAlwaysAs=object())
