"""tablefmt.`path` in SQL; partitions as SQL names them; REPLACE COLUMNS."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import tablefmt
import tablefmt.spark
from tablefmt.errors import (
    ConstraintViolationError,
    SchemaMismatchError,
    TableNotFoundError,
    UnsupportedFeatureError,
    VersionNotFoundError,
)
from tests.spark.looking import selected

pytestmark = pytest.mark.usefixtures("catalog")

NAME = "named"


def test_a_path_takes_the_place_of_a_name_in_statements(spark: Any, uri: str) -> None:
    """The statements work as if a catalog had the table.

    The results equal a model in plain Python.
    """
    t = f"tablefmt.`{uri}`"
    model: dict[int, str] = {}

    def check() -> None:
        assert selected(spark, f"SELECT id, p FROM {t}") == sorted(model.items(), key=repr)

    spark.sql(f"CREATE TABLE {t} (id BIGINT, p STRING) USING tablefmt PARTITIONED BY (p)")
    assert tablefmt.open(uri).partition_by == ["p"]
    spark.sql(f"INSERT INTO {t} VALUES (1, 'a'), (2, 'b')")
    model.update({1: "a", 2: "b"})
    check()
    spark.sql(f"UPDATE {t} SET p = 'c' WHERE id = 1")
    model[1] = "c"
    check()
    spark.sql(
        f"MERGE INTO {t} t USING (SELECT 2L AS id, 'm' AS p UNION SELECT 3L, 'n') s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )
    model.update({2: "m", 3: "n"})
    check()
    spark.sql(f"DELETE FROM {t} WHERE id = 3")
    del model[3]
    check()
    frame = spark.createDataFrame([(5, "e")], "id BIGINT, p STRING")
    frame.writeTo(t).append()
    frame.write.insertInto(t)
    frame.write.format("tablefmt").mode("append").saveAsTable(t)
    assert selected(spark, f"SELECT p FROM {t} WHERE id = 5") == [("e",)] * 3
    spark.sql(f"INSERT OVERWRITE {t} VALUES (7, 'g')")
    model = {7: "g"}
    check()
    assert selected(spark, f"SELECT id FROM {t} VERSION AS OF 1") == [(1,), (2,)]
    spark.sql(f"ALTER TABLE {t} ADD COLUMN n INT")
    assert [r.col_name for r in spark.sql(f"DESCRIBE {t}").collect()][:3] == ["id", "p", "n"]
    assert selected(spark, f"SHOW PARTITIONS {t}") == [("p=g",)]
    assert spark.read.table(t).columns == ["id", "p", "n"]
    spark.sql(f"TRUNCATE TABLE {t}")
    assert tablefmt.open(uri).to_arrow().num_rows == 0
    other = f"tablefmt.`{uri}-other`"
    spark.sql(f"CREATE TABLE {other} USING tablefmt AS SELECT 1 AS a")
    spark.sql(f"CREATE TABLE IF NOT EXISTS {other} USING tablefmt AS SELECT 2 AS a")
    assert selected(spark, f"SELECT * FROM {other}") == [(1,)]
    assert not spark.catalog.databaseExists("tablefmt")


def test_a_path_is_replaced(spark: Any, uri: str, tmp_path: Path) -> None:
    """SCH-12: the query has rows or none, or is of the table itself. Names of it follow."""
    t = f"tablefmt.`{uri}`"
    spark.sql(f"CREATE TABLE {NAME} (a INT, b STRING) USING tablefmt OPTIONS (path '{uri}')")
    spark.sql(f"INSERT INTO {NAME} VALUES (1, 'x')")
    spark.sql(f"CREATE OR REPLACE TABLE {t} (a INT NOT NULL, CHECK (a > 0)) USING tablefmt")
    spark.sql(f"INSERT INTO {NAME} VALUES (2)")
    with pytest.raises(ConstraintViolationError):
        spark.sql(f"INSERT INTO {t} VALUES (0)")
    spark.sql(
        f"REPLACE TABLE {t} USING tablefmt PARTITIONED BY (z) AS SELECT a + 0.5D AS y, 'q' AS z "
        f"FROM {t}"
    )
    assert (
        selected(spark, f"SELECT * FROM {t}")
        == selected(spark, f"SELECT * FROM {NAME}")
        == [(2.5, "q")]
    )
    spark.sql("SELECT 1 AS w").writeTo(t).using("tablefmt").createOrReplace()
    table = tablefmt.open(uri)
    assert (table.partition_by, table.constraints, table.version) == ([], {}, 5)
    spark.sql(f"CREATE OR REPLACE TABLE {t}".replace(uri, f"{uri}2") + " (a INT) USING tablefmt")
    assert tablefmt.open(f"{uri}2").version == 0
    for text in (
        "(a INT) USING tablefmt LOCATION '{}'",
        "USING tablefmt LOCATION '{}' AS SELECT 1",
    ):
        for statement in (f"CREATE OR REPLACE TABLE {t}", f"CREATE TABLE tablefmt.`{uri}3`"):
            with pytest.raises(UnsupportedFeatureError, match="another LOCATION"):
                spark.sql(f"{statement} {text.format(tmp_path / 'elsewhere')}")
    assert selected(spark, f"SELECT * FROM {NAME}") == [(1,)]
    assert not tablefmt.exists(str(tmp_path / "elsewhere"))
    said = {r.col_name: r.data_type for r in spark.sql(f"DESCRIBE EXTENDED {t}").collect()}
    assert (said["Type"], said["Location"]) == ("EXTERNAL", uri)


def test_a_path_with_no_table_and_what_has_no_sense_for_one(spark: Any, uri: str) -> None:
    for text in ("SELECT * FROM {}", "INSERT INTO {} VALUES (1)", "DELETE FROM {}", "DESCRIBE {}"):
        with pytest.raises(TableNotFoundError):
            spark.sql(text.format(f"tablefmt.`{uri}`"))
    tablefmt.create(uri, "id BIGINT")
    with pytest.raises(VersionNotFoundError):
        spark.sql(f"SELECT * FROM tablefmt.`{uri}` VERSION AS OF 5")
    with pytest.raises(UnsupportedFeatureError, match="DROP TABLE of a path"):
        spark.sql(f"DROP TABLE tablefmt.`{uri}`")
    with pytest.raises(UnsupportedFeatureError, match="absolute"):
        spark.sql("SELECT * FROM tablefmt.`relative`")
    assert tablefmt.open(uri).version == 0


PARTITIONS = [
    (1, "DATE'2020-01-01'", "1.5D", "TIMESTAMP'2020-07-01 00:00:00.000001'", "'x/y=z'"),
    (2, "NULL", "DOUBLE('NaN')", "NULL", "''"),
    (3, "DATE'2020-01-01'", "-0.0D", "NULL", "NULL"),
    (4, "DATE'2020-01-02'", "1.5D", "NULL", "'it''s'"),
]


def test_partitions_are_shown_truncated_and_dropped(spark: Any, uri: str) -> None:
    """DAT-8: one commit each, on metadata alone; held against the rows that are left."""
    spark.sql(
        f"CREATE TABLE {NAME} (id INT, d DATE, f DOUBLE, t TIMESTAMP, s STRING) USING tablefmt "
        f"OPTIONS (path '{uri}') PARTITIONED BY (d, f, t, s)"
    )
    assert selected(spark, f"SHOW PARTITIONS {NAME}") == []
    values = ", ".join(f"({', '.join(map(str, row))})" for row in PARTITIONS)
    spark.sql(f"INSERT INTO {NAME} VALUES {values}")
    shown = [
        "d=2020-01-01/f=0.0/t=null/s=null",
        "d=2020-01-01/f=1.5/t=2020-07-01 00%3A00%3A00.000001/s=x%2Fy%3Dz",
        "d=2020-01-02/f=1.5/t=null/s=it%27s",
        "d=null/f=NaN/t=null/s=",
    ]
    assert selected(spark, f"SHOW PARTITIONS {NAME}") == [(one,) for one in shown]
    assert selected(spark, f"SHOW PARTITIONS {NAME} PARTITION (d = '2020-01-01')") == [
        (one,) for one in shown[:2]
    ]
    left = {1, 2, 3, 4}
    version = 1
    for verb, spec, gone in (
        ("TRUNCATE TABLE named", "f = 0.0", {3}),
        ("TRUNCATE TABLE named", "t = TIMESTAMP'2020-07-01 00:00:00.000001'", {1}),
        ("TRUNCATE TABLE named", "d = DATE'1999-01-01'", set()),
        ("TRUNCATE TABLE named", "f = 'NaN'", {2}),
        (
            "ALTER TABLE named DROP",
            "d = '2020-01-02', f = 1.5, t = NULL, s = 'it\\'s'",
            {4},
        ),
    ):
        spark.sql(f"{verb} PARTITION ({spec})")
        left -= gone
        version += bool(gone)
        assert selected(spark, f"SELECT id FROM {NAME}") == [(one,) for one in sorted(left)], spec
        assert tablefmt.open(uri).version == version
    assert selected(spark, f"SHOW PARTITIONS {NAME}") == []


def test_partitions_of_which_all_rows_are_deleted_are_not_shown(spark: Any, uri: str) -> None:
    tablefmt.spark.write(spark.range(4).selectExpr("id", "id % 2 AS p"), uri, partition_by=["p"])
    t = f"tablefmt.`{uri}`"
    spark.sql(f"DELETE FROM {t} WHERE id = 1")
    assert selected(spark, f"SHOW PARTITIONS {t}") == [("p=0",), ("p=1",)]
    spark.sql(f"DELETE FROM {t} WHERE id = 3")
    assert selected(spark, f"SHOW PARTITIONS {t}") == [("p=0",)]
    for text in (
        "ADD PARTITION (p = 5)",
        "PARTITION (p = 0) RENAME TO PARTITION (p = 6)",
        "DROP PARTITION (p = 0) PURGE",
    ):
        with pytest.raises(UnsupportedFeatureError, match="PARTITION"):
            spark.sql(f"ALTER TABLE {t} {text}")
    spark.sql(f"ALTER TABLE {t} DROP IF EXISTS PARTITION (p = 77)")
    assert selected(spark, f"SELECT id FROM {t}") == [(0,), (2,)]


def test_replace_columns_keeps_values_by_name(spark: Any, uri: str) -> None:
    """SCH-8: it is one commit.

    A name that stays keeps its column. An impossible type change is refused.
    """
    t = f"tablefmt.`{uri}`"
    spark.sql(f"CREATE TABLE {t} (a INT, b STRING, s STRUCT<x: INT>) USING tablefmt")
    spark.sql(f"INSERT INTO {t} SELECT 1, 'one', named_struct('x', 10)")
    spark.sql(f"ALTER TABLE {t} REPLACE COLUMNS (s STRUCT<x: INT>, n DATE, A BIGINT)")
    assert tablefmt.open(uri).version == 2
    assert selected(spark, f"SELECT * FROM {t}") == [((10,), None, 1)]
    assert [(f.name, f.dataType.simpleString()) for f in spark.table(t).schema] == [
        ("s", "struct<x:int>"),
        ("n", "date"),
        ("a", "bigint"),
    ]
    for columns in ("a STRING", "a INT", "s STRUCT<x: INT, y: INT>", "z INT"):
        with pytest.raises(SchemaMismatchError):
            spark.sql(f"ALTER TABLE {t} REPLACE COLUMNS ({columns})")
    spark.sql(f"ALTER TABLE {t} REPLACE COLUMNS (a BIGINT)")
    assert selected(spark, f"SELECT * FROM {t}") == [(1,)]
    spark.sql(f"ALTER TABLE {t} REPLACE COLUMNS (a BIGINT)")
    assert tablefmt.open(uri).version == 3
    assert selected(spark, f"SELECT * FROM {t} VERSION AS OF 1") == [(1, "one", (10,))]
