"""CHAR(n) and VARCHAR(n) in Spark's writes: as in Spark's own tables, on both backends."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tablefmt
import tablefmt.spark
from tablefmt.errors import ConstraintViolationError, SchemaMismatchError
from tablefmt.expressions.ddl import to_ddl
from tests.lengths import GOOD, stored
from tests.tables import sorted_rows

pytestmark = pytest.mark.usefixtures("catalog")

DDL = "id BIGINT, c CHAR(3), v VARCHAR(4)"


def frame_of(spark: Any, pairs: list[tuple[str | None, str | None]]) -> Any:
    rows = [(i, *pair) for i, pair in enumerate(pairs)]
    return spark.createDataFrame(rows, "id BIGINT, c STRING, v STRING").coalesce(1)


def expected(pairs: list[tuple[str | None, str | None]]) -> list[tuple[int, Any, Any]]:
    return [(i, stored(c, "char", 3), stored(v, "varchar", 4)) for i, (c, v) in enumerate(pairs)]


def declared(uri: str) -> str:
    return to_ddl(tablefmt.open(uri).context.view.head.metadata.schema).replace("`", "")


def merge(spark: Any, frame: Any, uri: str) -> None:
    table = tablefmt.spark.open(spark, uri)
    merging = table.merge(frame, "t.id = s.id").when_matched_update_all()
    merging.when_not_matched_insert_all().execute()


def sql_merge(spark: Any, frame: Any, uri: str) -> None:
    frame.createOrReplaceTempView("new_texts")
    spark.sql(f"CREATE TABLE IF NOT EXISTS texts USING tablefmt OPTIONS (path '{uri}')")
    spark.sql(
        "MERGE INTO texts t USING new_texts s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )


def sql_insert(spark: Any, frame: Any, uri: str) -> None:
    frame.createOrReplaceTempView("new_texts")
    spark.sql(f"CREATE TABLE IF NOT EXISTS texts USING tablefmt OPTIONS (path '{uri}')")
    spark.sql("INSERT INTO texts SELECT * FROM new_texts")


def replace(spark: Any, frame: Any, uri: str) -> None:
    tablefmt.spark.open(spark, uri).overwrite(frame, replace_where="c IS NULL OR length(c) = 3")


WRITES: dict[str, Callable[[Any, Any, str], Any]] = {
    "function": lambda spark, frame, uri: tablefmt.spark.write(frame, uri),
    "format": lambda spark, frame, uri: frame.write.format("tablefmt").mode("append").save(uri),
    "python": lambda spark, frame, uri: (
        frame.write.format("tablefmt_arrow").mode("append").save(uri)
    ),
    "replace": replace,
    "merge": merge,
    "sql merge": sql_merge,
    "sql insert": sql_insert,
}


@pytest.mark.share(4)
@pytest.mark.parametrize(
    ("backend", "name"),
    [
        *(("native", name) for name in ("format", "replace", "merge", "sql insert")),
        *(("arrow", name) for name in ("function", "python", "sql merge")),
    ],
    indirect=["backend"],
)
def test_every_writer_pads_cuts_and_refuses(spark: Any, uri: str, backend: str, name: str) -> None:
    """DAT-14: the plain model agrees. A value that is too long leaves no commit."""
    table = tablefmt.create(uri, DDL)
    WRITES[name](spark, frame_of(spark, GOOD), uri)
    assert sorted_rows(uri) == expected(GOOD)
    column, said = ("c", "abcd") if backend == "native" else ("v", "a    b")
    bad = (said, None) if column == "c" else (None, said)
    message = rf"'{column}' is (VAR)?CHAR\([34]\), and a value has {len(said)} characters"
    with pytest.raises(ConstraintViolationError, match=message) as caught:
        WRITES[name](spark, frame_of(spark, [GOOD[0], bad]), uri)
    assert caught.value.row == {column: said}
    assert table.refresh().version == 1


@pytest.mark.parametrize("backend", ["arrow"], indirect=True)
def test_update_and_delete(spark: Any, uri: str, backend: str) -> None:
    """DAT-14, SCH-10: a CHAR is compared with its spaces."""
    table = tablefmt.spark.create(spark, uri, DDL)
    table.append(frame_of(spark, [("a", "x"), ("b", "y"), ("c", "z")]))
    table.update({"c": "'n'", "v": "concat(v, '      ')"}, where="id = 1")
    with pytest.raises(ConstraintViolationError, match=r"VARCHAR\(4\)"):
        table.update({"v": "'abcde'"})
    table.delete("c = 'a' OR c = 'c  '")
    assert sorted_rows(uri) == [(0, "a  ", "x"), (1, "n  ", "y   ")]


def test_sql_declares_lengths_and_constraints_see_the_padded_value(spark: Any, uri: str) -> None:
    """SCH-10, DAT-14: CREATE TABLE, DEFAULT, ADD COLUMNS, UPDATE; not inside other types."""
    spark.sql(
        f"CREATE TABLE texts (id INT, c CHAR(3) DEFAULT 'x', v VARCHAR(4)) USING tablefmt "
        f"PARTITIONED BY (c) OPTIONS (path '{uri}')"
    )
    tablefmt.open(uri).alter.add_constraint("padded", "length(c) = 3")
    spark.sql("INSERT INTO texts (id, v) VALUES (1, 'a    ')")
    spark.sql("ALTER TABLE texts ADD COLUMNS (d CHAR(2))")
    spark.sql("INSERT INTO texts VALUES (2, 'ab', NULL, 'q')")
    spark.sql("UPDATE texts SET d = 'r' WHERE id = 1")
    assert sorted_rows(uri) == [(1, "x  ", "a   ", "r "), (2, "ab ", None, "q ")]
    assert declared(uri) == "id INT, c CHAR(3), v VARCHAR(4), d CHAR(2)"
    assert [tuple(r) for r in spark.sql("SELECT id FROM texts WHERE c = 'ab '").collect()] == [(2,)]
    with pytest.raises(ConstraintViolationError, match=r"'d' is CHAR\(2\)"):
        spark.sql("UPDATE texts SET d = 'long' WHERE id = 1")
    with pytest.raises(SchemaMismatchError, match=r"CHAR\(5\).*STRING"):
        spark.sql(
            f"CREATE TABLE made (s STRUCT<x: CHAR(5)>) USING tablefmt OPTIONS (path '{uri}2')"
        )
    with pytest.raises(SchemaMismatchError, match="other columns"):
        spark.sql(
            "CREATE TABLE made (id INT, c CHAR(4), v VARCHAR(4), d CHAR(2)) USING tablefmt "
            f"OPTIONS (path '{uri}')"
        )
    spark.sql("CREATE TABLE made (id INT, c CHAR(3)) USING tablefmt")
    spark.sql("INSERT INTO made VALUES (1, 'z')")
    assert [tuple(r) for r in spark.table("made").collect()] == [(1, "z  ")]


def test_the_columns_of_a_query_keep_their_lengths(spark: Any, uri: str, tmp_path: Path) -> None:
    """SCH-10: CTAS and a first write keep the declarations of Spark's own tables."""
    spark.sql(f"CREATE TABLE chars (c CHAR(3), v VARCHAR(4)) USING parquet LOCATION '{tmp_path}/p'")
    spark.sql("INSERT INTO chars VALUES ('a', 'b')")
    tablefmt.spark.write(spark.table("chars"), uri)
    spark.sql(f"CREATE TABLE made USING tablefmt OPTIONS (path '{uri}2') AS SELECT * FROM chars")
    for each in (uri, uri + "2"):
        assert declared(each) == "c CHAR(3), v VARCHAR(4)"
        assert sorted_rows(each) == [("a  ", "b")]
    with pytest.raises(ConstraintViolationError, match=r"VARCHAR\(4\)"):
        spark.sql("INSERT INTO made VALUES ('a', 'abcde')")


def test_spark_types_declare_lengths(spark: Any, uri: str) -> None:
    from pyspark.sql.types import CharType, StructType, VarcharType

    schema = StructType().add("c", CharType(2)).add("v", VarcharType(9))
    tablefmt.spark.create(spark, uri, schema)
    tablefmt.open(uri).alter.add_column("d", CharType(1))
    assert declared(uri) == "c CHAR(2), v VARCHAR(9), d CHAR(1)"
