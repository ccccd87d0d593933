"""CREATE, REPLACE and ALTER TABLE: definitions that SQL and DataFrames give, in one commit each."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tablefmt
import tablefmt.spark
from tablefmt.errors import (
    ConcurrentAppendException,
    ConstraintViolationError,
    InvalidPredicateError,
    InvalidRangeError,
    MetadataChangedException,
    ProtocolChangedException,
    SchemaMismatchError,
    TableExistsError,
    UnsupportedFeatureError,
)
from tablefmt.spark.entry.table_definition import Statement, replace_table
from tests.spark.looking import everything, selected
from tests.tables import assert_sound

pytestmark = pytest.mark.usefixtures("catalog")


@pytest.fixture
def t(spark: Any, uri: str) -> str:
    """A table with all that a definition has, and two rows; its place."""
    spark.sql(
        "CREATE TABLE t (id BIGINT COMMENT 'the id', p STRING, n INT DEFAULT 7, "
        f"CONSTRAINT some CHECK (n > 0)) USING tablefmt OPTIONS (path '{uri}') "
        "PARTITIONED BY (p) COMMENT 'first' TBLPROPERTIES ('user.a' = '1', 'targetFileSize' = '99')"
    )
    spark.sql("INSERT INTO t (id, p) VALUES (1, 'a'), (2, 'b')")
    return uri


OLD = [{"id": 1, "p": "a", "n": 7}, {"id": 2, "p": "b", "n": 7}]


def defined(uri: str) -> dict[str, Any]:
    """Return the definition of a table by its log."""
    table = tablefmt.open(uri)
    return {
        "columns": [(f.name, str(f.type), f.nullable) for f in table.schema],
        "comments": {f.name: f.metadata[b"comment"].decode() for f in table.schema if f.metadata},
        "by": table.partition_by,
        "properties": table.properties,
        "comment": table.comment,
        "checks": table.constraints,
    }


def operations(uri: str) -> list[str]:
    """Return the operations, the newest first."""
    found: list[str] = tablefmt.open(uri).history()["operation"].to_pylist()
    return found


def columns(spark: Any, name: str = "t") -> list[tuple[str, str, str | None]]:
    """Return the columns in Spark's catalog."""
    return [(c.name, c.dataType, c.description) for c in spark.catalog.listColumns(name)]


def test_a_table_is_replaced_in_one_commit_with_all_that_it_is(spark: Any, t: str) -> None:
    """SCH-12, ENT-10, ENT-11: the table goes on in the same session, and old versions stay."""
    spark.sql(
        "CREATE OR REPLACE TABLE t (x DOUBLE DEFAULT 2 COMMENT 'why', id BIGINT NOT NULL, "
        "c CHAR(2), CHECK (x > 1)) USING tablefmt COMMENT 'it''s' TBLPROPERTIES ('user.b' = '2')"
    )
    now = defined(t)
    (check,) = now.pop("checks").items()
    assert now == {
        "columns": [("x", "double", True), ("id", "int64", False), ("c", "string", True)],
        "comments": {"x": "why"},
        "by": [],
        "properties": {"user.b": "2"},
        "comment": "it's",
    }
    assert check[1] == "x > 1"
    assert (tablefmt.open(t).version, operations(t)[0]) == (2, "REPLACE TABLE")
    assert [name for name, _, _ in columns(spark)] == ["x", "id", "c"]
    shown = [("b", "2"), (f"constraints.{check[0]}", check[1])]
    assert selected(spark, "SHOW TBLPROPERTIES t") == shown
    spark.sql("INSERT INTO t (id, c) VALUES (5, 'c')")
    with pytest.raises(ConstraintViolationError):
        spark.sql("INSERT INTO t VALUES (0, 6, 'd')")
    assert selected(spark, "SELECT * FROM t") == [(2.0, 5, "c ")]
    spark.sql(
        "CREATE OR REPLACE TABLE t USING tablefmt PARTITIONED BY (w) AS SELECT 'q' AS w, 2 AS p"
    )
    assert selected(spark, "SELECT * FROM t") == [("q", 2)]
    assert defined(t) == {
        "columns": [("w", "string", True), ("p", "int32", True)],
        "comments": {}, "by": ["w"], "properties": {}, "comment": None, "checks": {},
    }  # fmt: skip
    # Its own rows, by another name for them.
    spark.sql(
        "REPLACE TABLE t USING tablefmt AS SELECT p AS w, w AS v FROM t UNION ALL SELECT 3, ''"
    )
    spark.sql("REPLACE TABLE t USING tablefmt AS SELECT * FROM t VERSION AS OF 1 WHERE id = 2")
    assert selected(spark, "SELECT * FROM t") == [(2, "b", 7)]
    assert operations(t)[:3] == ["REPLACE TABLE AS SELECT"] * 3
    table = tablefmt.open(t)
    assert table.to_arrow(version=5).to_pylist() == [{"w": 2, "v": "q"}, {"w": 3, "v": ""}]
    assert table.to_arrow(version=1).sort_by("id").to_pylist() == OLD
    assert selected(spark, "SELECT * FROM t VERSION AS OF 4") == [("q", 2)]
    assert_sound(table.context.store)


def test_many_replacements_do_not_make_names_grow(spark: Any, t: str) -> None:
    """SCH-12: an equal column keeps its identity, with the comment in the statement."""
    for comment in ("one", "two"):
        spark.sql(
            f"CREATE OR REPLACE TABLE t (id BIGINT COMMENT '{comment}', n INT, "
            f"s STRUCT<f: INT COMMENT '{comment}'>) USING tablefmt"
        )
    schema = tablefmt.open(t).context.view.head.metadata.schema
    assert [(f.id, f.physical, f.default, f.comment) for f in schema.fields] == [
        (1, "id", None, "two"), (3, "n", None, None), (4, "s", None, None),
    ]  # fmt: skip
    assert (schema.fields[2].type.fields[0].comment, schema.dropped) == ("two", ("p",))
    version = tablefmt.open(t).version
    spark.sql(
        "REPLACE TABLE t (id BIGINT COMMENT 'two', n INT, s STRUCT<f: INT COMMENT 'two'>) "
        "USING tablefmt"
    )
    assert tablefmt.open(t).version == version


def test_what_cannot_be_replaced_stays_as_it_was(spark: Any, t: str, tmp_path: Path) -> None:
    """SCH-12: a query that fails, a definition that is none, an append-only table."""
    before, known = everything(t), columns(spark)
    fails = "SELECT if(id >= 0, raise_error('no luck'), id) AS id FROM range(3)"
    wrong: list[tuple[str, type[Exception], str]] = [
        (f"REPLACE TABLE t USING tablefmt AS {fails}", Exception, "no luck"),
        (f"CREATE OR REPLACE TABLE t USING tablefmt AS {fails}", Exception, "no luck"),
        ("REPLACE TABLE t (x INT) USING tablefmt PARTITIONED BY (x)", SchemaMismatchError, "every"),
        ("REPLACE TABLE t (x INT) USING tablefmt TBLPROPERTIES ('apendOnly' = 'b')",
         SchemaMismatchError, "unknown table property"),
        ("REPLACE TABLE t (x INT PRIMARY KEY) USING tablefmt", UnsupportedFeatureError,
         "PRIMARY KEY"),
        (f"REPLACE TABLE t (x INT) USING tablefmt LOCATION '{tmp_path}'", UnsupportedFeatureError,
         "another LOCATION"),
        (f"REPLACE TABLE t (x INT) USING tablefmt LOCATION 's3://other{t}'",
         UnsupportedFeatureError, "another LOCATION"),
        ("REPLACE TABLE t (x INT) USING tablefmt OPTIONS ('storage.key' = 'k')",
         UnsupportedFeatureError, "other OPTIONS"),
        ("REPLACE TABLE nowhere (x INT) USING tablefmt", Exception, "NOT_FOUND"),
        ("REPLACE TABLE nowhere USING tablefmt AS SELECT 1 AS x", Exception, "NOT_FOUND"),
    ]  # fmt: skip
    for statement, error, why in wrong:
        with pytest.raises(error, match=why):
            spark.sql(statement)
    with pytest.raises(InvalidRangeError, match="replaces the whole table"):
        spark.sql("SELECT 1 AS x").writeTo("t").using("tablefmt").option(
            "replaceWhere", "x = 1"
        ).createOrReplace()
    assert (everything(t), columns(spark)) == (before, known)
    spark.sql("ALTER TABLE t SET TBLPROPERTIES ('appendOnly' = 'true')")
    before = everything(t)
    for statement in ("(x INT) USING tablefmt", "USING tablefmt AS SELECT 1 AS x"):
        with pytest.raises(ConstraintViolationError, match="append-only"):
            spark.sql(f"CREATE OR REPLACE TABLE t {statement}")
    assert (everything(t), columns(spark)) == (before, known)
    assert not spark.catalog.tableExists("nowhere")


def test_no_table_takes_the_place_of_what_is_not_ours(spark: Any, tmp_path: Path) -> None:
    """SCH-12: the old object would be lost before the rows exist, and they may come from it."""
    spark.sql("CREATE TABLE plain USING parquet AS SELECT 1 AS a")
    spark.sql("CREATE VIEW other AS SELECT 2 AS a")
    for name in ("plain", "other"):
        for statement in (
            f"CREATE OR REPLACE TABLE {name} USING tablefmt AS SELECT a + 1 AS a FROM {name}",
            f"REPLACE TABLE {name} USING tablefmt AS SELECT 1 DIV (id - 1) AS a FROM range(3)",
            f"CREATE OR REPLACE TABLE {name} (b INT) USING tablefmt",
            f"CREATE OR REPLACE TABLE {name} (b INT) USING tablefmt LOCATION '{tmp_path}/t'",
        ):
            with pytest.raises(UnsupportedFeatureError, match=f"{name}` is not a table USING"):
                spark.sql(statement)
    assert (selected(spark, "SELECT * FROM plain"), selected(spark, "SELECT * FROM other")) == (
        [(1,)],
        [(2,)],
    )
    spark.sql("DROP VIEW other")
    assert list(tmp_path.iterdir()) == []


def test_a_replacement_beside_other_commits(
    spark: Any, t: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CFL-3 .. CFL-5, CFL-12: rows of concurrent commits are replaced too, or are a conflict."""
    module = sys.modules["tablefmt.spark.entry.dataframe_io"]
    written, meanwhile = vars(module)["_files"], []

    def files(*given: Any) -> Any:
        done = written(*given)
        if meanwhile:
            meanwhile.pop()()
        return done

    def append() -> None:
        tablefmt.open(t).append(pa.table({"id": [9], "p": ["z"]}))

    def alter() -> None:
        tablefmt.open(t).alter.set_comment("meanwhile")

    monkeypatch.setattr(module, "_files", files)
    meanwhile.append(append)
    with pytest.raises(ConcurrentAppendException):
        spark.sql("REPLACE TABLE t USING tablefmt AS SELECT id AS x FROM t")
    meanwhile.append(alter)
    with pytest.raises(MetadataChangedException):
        spark.sql("REPLACE TABLE t USING tablefmt AS SELECT 1 AS x")
    staged = tablefmt.open(t).transaction().append(pa.table({"id": [8], "p": ["y"]}))
    meanwhile.append(append)
    spark.sql("REPLACE TABLE t USING tablefmt AS SELECT 1 AS x")
    assert selected(spark, "SELECT * FROM t") == [(1,)]
    with pytest.raises(MetadataChangedException):
        staged.commit()
    meanwhile.append(lambda: replace_table(spark, tablefmt.open(t).context.store, other))  # type: ignore[arg-type]
    column = {"name": "y", "type": "long", "nullable": True, "metadata": {}}
    other = Statement({"type": "struct", "fields": [column]}, [], [], {}, {}, [])
    with pytest.raises(ProtocolChangedException):
        spark.sql("REPLACE TABLE t USING tablefmt AS SELECT 2 AS z")
    assert tablefmt.open(t).schema.names == ["y"]
    assert_sound(tablefmt.open(t).context.store)


def test_data_frames_create_replace_and_save(spark: Any, t: str, tmp_path: Path) -> None:
    """SCH-12, SCH-8: writeTo replaces, saveAsTable keeps what rows do not say."""
    frame = spark.sql("SELECT 5L AS id, 'e' AS q")
    writer = frame.writeTo("made").using("tablefmt").tableProperty("user.k", "v")
    writer.partitionedBy(frame.q).option("path", str(tmp_path / "made")).createOrReplace()
    made = str(tmp_path / "made")
    assert (defined(made)["by"], defined(made)["properties"]) == (["q"], {"user.k": "v"})
    with pytest.raises(TableExistsError):
        spark.sql(f"CREATE TABLE other USING tablefmt OPTIONS (path '{made}') AS SELECT 1 AS x")
    frame.writeTo("t").using("tablefmt").replace()
    assert (selected(spark, "SELECT * FROM t"), defined(t)["comment"]) == ([(5, "e")], None)
    spark.sql("COMMENT ON TABLE t IS 'kept'")
    with pytest.raises(SchemaMismatchError):
        spark.sql("SELECT 1 AS z").write.format("tablefmt").mode("overwrite").saveAsTable("t")
    spark.sql("SELECT 6L AS id, 'f' AS q").write.format("tablefmt").mode("overwrite").saveAsTable(
        "t"
    )
    assert (selected(spark, "SELECT * FROM t"), defined(t)["comment"]) == ([(6, "f")], "kept")
    save = spark.sql("SELECT 1 AS z, 'g' AS q").write.format("tablefmt").mode("overwrite")
    save.option("overwriteSchema", "true").partitionBy("q").saveAsTable("t")
    assert (columns(spark), defined(t)["by"]) == (
        [("z", "int", None), ("q", "string", None)],
        ["q"],
    )
    save.saveAsTable("t")
    assert (selected(spark, "SELECT * FROM t"), defined(t)["by"]) == ([(1, "g")], ["q"])
    other = spark.sql("SELECT 'h' AS q, 2 AS z").write.format("tablefmt").mode("overwrite")
    other.option("overwriteSchema", "true").save(t)
    assert (defined(t)["by"], defined(t)["comment"]) == ([], "kept")
    tablefmt.spark.write(
        spark.sql("SELECT 'h' AS q, 2 AS z"), t, mode="overwrite", partition_by="z",
        overwriteSchema=True,
    )  # fmt: skip
    assert defined(t)["by"] == ["z"]
    again = spark.sql("SELECT 'i' AS q, 3 AS z")
    tablefmt.spark.write(again, t, mode="overwrite", overwriteSchema=True)
    assert defined(t)["by"] == ["z"]
    tablefmt.spark.write(again, t, mode="overwrite", partition_by=[], overwriteSchema=True)
    assert (defined(t)["by"], tablefmt.open(t).to_arrow().to_pylist()) == ([], [{"q": "i", "z": 3}])


def test_a_definition_that_is_there_is_not_taken_for_another(spark: Any, t: str) -> None:
    """ENT-8: CREATE TABLE over a table must agree with it, or is refused.

    OR REPLACE replaces it.
    """
    spark.sql(
        f"CREATE TABLE other (id BIGINT, p STRING, n INT) USING tablefmt OPTIONS (path '{t}') "
        "COMMENT 'first' TBLPROPERTIES ('user.a' = '1')"
    )
    assert columns(spark, "other")[0] == ("id", "bigint", "the id")
    for more in ("COMMENT 'x'", "TBLPROPERTIES ('user.a' = '2')"):
        with pytest.raises(SchemaMismatchError):
            spark.sql(f"CREATE TABLE made USING tablefmt OPTIONS (path '{t}') {more}")
    assert tablefmt.open(t).version == 1
    spark.sql(f"CREATE OR REPLACE TABLE made (x INT) USING tablefmt OPTIONS (path '{t}')")
    assert (tablefmt.open(t).version, selected(spark, "SELECT * FROM made")) == (2, [])
    # Another name for it in the catalog follows: the session made the change itself.
    assert (selected(spark, "SELECT * FROM t"), columns(spark)) == ([], [("x", "int", None)])


def test_comments_are_said_shown_and_changed(spark: Any, t: str, tmp_path: Path) -> None:
    """ENT-11."""
    for statement in (
        "ALTER TABLE t ADD COLUMN s STRUCT<f: INT COMMENT 'inner'> COMMENT 'outer'",
        "ALTER TABLE t ALTER COLUMN id COMMENT 'it\\'s \"id\"'",
        "ALTER TABLE t ALTER COLUMN s.f COMMENT 'deep'",
        "ALTER TABLE t ALTER COLUMN n COMMENT 'gone'",
        "ALTER TABLE t ALTER COLUMN n COMMENT ''",
        "COMMENT ON TABLE t IS 'second'",
        "ALTER TABLE t SET TBLPROPERTIES ('comment' = 'third', 'user.a' = '3')",
        "ALTER TABLE t UNSET TBLPROPERTIES ('targetFileSize')",
    ):
        spark.sql(statement)
    told = [tuple(row) for row in spark.sql("DESCRIBE EXTENDED t").collect()]
    assert told[:4] == [
        ("id", "bigint", "it's \"id\""), ("p", "string", None), ("n", "int", None),
        ("s", "struct<f:int>", "outer"),
    ]  # fmt: skip
    assert ("Comment", "third", "") in told
    # Spark 4.1 does not say that it does not rely on it.
    check = [(said.removesuffix(" NORELY"), more) for name, said, more in told if name == "some"]
    assert check == [("CHECK (n > 0) ENFORCED", "")]
    kept = ("constraints.some", "n > 0")
    assert selected(spark, "SHOW TBLPROPERTIES t") == [("a", "3"), kept]
    shown = spark.sql("SHOW CREATE TABLE t").first()[0]
    for part in ("COMMENT 'third'", "CONSTRAINT some CHECK (n > 0)", "f: INT COMMENT 'deep'"):
        assert part in shown
    assert columns(spark)[0] == ("id", "bigint", 'it\'s "id"')
    assert spark.catalog.getTable("t").description == "third"
    # With a DataFrame they go to another table, by whichever way it is made.
    frame = spark.read.format("tablefmt").load(t)
    assert frame.schema["s"].metadata == {"comment": "outer"}
    assert frame.schema["s"].dataType["f"].metadata == {"comment": "deep"}
    tablefmt.spark.write(frame, str(tmp_path / "copy"))
    spark.sql(
        f"CREATE TABLE made USING tablefmt OPTIONS (path '{tmp_path}/made') AS SELECT * FROM t"
    )
    said = {"id": 'it\'s "id"', "s": "outer"}
    assert (
        defined(str(tmp_path / "copy"))["comments"]
        == defined(f"{tmp_path}/made")["comments"]
        == said
    )
    arrow = spark.read.format("tablefmt_arrow").load(t)
    assert arrow.schema["s"].metadata == {"comment": "outer"}
    spark.sql("COMMENT ON TABLE t IS NULL")
    assert tablefmt.open(t).comment is None
    with pytest.raises(SchemaMismatchError, match="comment"):
        spark.sql(f"ALTER TABLE t ALTER COLUMN id COMMENT '{'c' * 4001}'")
    # Changes of other handles are shown too.
    tablefmt.open(t).alter.set_properties({"user.a": "4"})
    assert selected(spark, "SHOW TBLPROPERTIES t") == [("a", "4"), kept]


def test_defaults_may_be_null(spark: Any, uri: str) -> None:
    """SCH-7."""
    spark.sql(
        f"CREATE TABLE t (a INT DEFAULT NULL, b STRING DEFAULT 'x', c INT) USING tablefmt "
        f"OPTIONS (path '{uri}')"
    )
    spark.sql("ALTER TABLE t ADD COLUMN d DATE DEFAULT NULL")
    spark.sql("ALTER TABLE t ALTER COLUMN b SET DEFAULT NULL")
    spark.sql("ALTER TABLE t ALTER COLUMN c SET DEFAULT CAST(NULL AS INT)")
    spark.sql("INSERT INTO t (d) VALUES (DEFAULT)")
    assert selected(spark, "SELECT * FROM t") == [(None, None, None, None)]


def test_create_table_like(spark: Any, t: str, tmp_path: Path) -> None:
    """ENT-8, ENT-10, ENT-11: the definition of a table, without its rows and its history."""
    spark.sql("ALTER TABLE t ADD COLUMN gone INT")
    spark.sql("ALTER TABLE t DROP COLUMN gone")
    spark.sql(f"CREATE TABLE other LIKE t USING tablefmt LOCATION '{tmp_path}/other'")
    assert defined(f"{tmp_path}/other") == defined(t)
    metadata = tablefmt.open(f"{tmp_path}/other").context.view.head.metadata
    assert (metadata.schema.last_id, metadata.schema.dropped) == (3, ())
    spark.sql("INSERT INTO other (id, p) VALUES (4, 'd')")
    assert selected(spark, "SELECT * FROM other") == [(4, "d", 7)]
    with pytest.raises(ConstraintViolationError):
        spark.sql("INSERT INTO other VALUES (4, 'd', 0)")
    spark.sql(f"CREATE TABLE IF NOT EXISTS other LIKE t USING tablefmt LOCATION '{tmp_path}/o'")
    spark.sql("CREATE TABLE made LIKE t")
    assert (selected(spark, "SELECT * FROM made"), columns(spark, "made")) == ([], columns(spark))
    spark.sql("DROP TABLE made")
    with pytest.raises(Exception, match="ALREADY_EXISTS"):
        spark.sql("CREATE TABLE other LIKE t USING tablefmt")
    # LIKE works between this format and others, in both directions.
    spark.sql("CREATE TABLE plain (a INT COMMENT 'c', b STRING) USING parquet PARTITIONED BY (b)")
    place = f"{tmp_path}/made"
    spark.sql(
        f"CREATE TABLE made LIKE plain USING tablefmt LOCATION '{place}' "
        "TBLPROPERTIES ('user.x' = 'y')"
    )
    now = defined(place)
    assert (now["columns"], now["by"], now["comments"], now["properties"]) == (
        [("a", "int32", True), ("b", "string", True)], ["b"], {"a": "c"}, {"user.x": "y"},
    )  # fmt: skip
    spark.sql("INSERT INTO made VALUES (1, 'x')")
    assert selected(spark, "SELECT * FROM made") == [(1, "x")]
    spark.sql("DROP TABLE plain")
    spark.sql("CREATE TABLE plain LIKE t USING parquet")
    spark.sql("INSERT INTO plain (id, p, n) VALUES (1, 'a', 0)")
    assert selected(spark, "SELECT id, p, n FROM plain") == [(1, "a", 0)]


def test_constraints_in_sql(spark: Any, t: str) -> None:
    """ENT-10, DAT-13: added, dropped, and looked for in the rows there are, by what Spark knows."""
    with pytest.raises(ConstraintViolationError, match="'few'"):
        spark.sql("ALTER TABLE t ADD CONSTRAINT few CHECK (id < 2)")
    spark.sql("ALTER TABLE t ADD CONSTRAINT odd CHECK (size(array(id)) = 1 AND `p` IN ('a', 'b'))")
    spark.sql("ALTER TABLE t ADD CHECK (id > -5)")
    checks = tablefmt.open(t).constraints
    assert [checks[name] for name in ("odd", "some")] == [
        "size(array(id)) = 1 AND `p` IN ('a', 'b')",
        "n > 0",
    ]
    assert sorted(checks.values())[0] == "id > -5"
    for values in ("(1, 'c', 1)", "(-9, 'a', 1)", "(1, 'a', 0)"):
        with pytest.raises(ConstraintViolationError):
            spark.sql(f"INSERT INTO t VALUES {values}")
    with pytest.raises(SchemaMismatchError, match="already"):
        spark.sql("ALTER TABLE t ADD CONSTRAINT ODD CHECK (id > 0)")
    spark.sql("ALTER TABLE t DROP CONSTRAINT Odd")
    spark.sql("ALTER TABLE t DROP CONSTRAINT IF EXISTS odd")
    version = tablefmt.open(t).version
    with pytest.raises(SchemaMismatchError, match="no constraint 'odd'"):
        spark.sql("ALTER TABLE t DROP CONSTRAINT odd")
    refused: dict[str, type[Exception]] = {
        "k PRIMARY KEY (id)": UnsupportedFeatureError,
        "k UNIQUE (id)": UnsupportedFeatureError,
        "k FOREIGN KEY (id) REFERENCES t (n)": UnsupportedFeatureError,
        "k CHECK (nope > 1)": Exception,
        "k CHECK (id + 1)": Exception,
        "k CHECK (rand() > 0.5)": Exception,
        "k CHECK (id > (SELECT 1))": InvalidPredicateError,
        "k CHECK (id IN (SELECT 1))": InvalidPredicateError,
        "k CHECK (id > 0) NOT ENFORCED": Exception,
    }
    for text, error in refused.items():
        with pytest.raises(error):
            spark.sql(f"ALTER TABLE t ADD CONSTRAINT {text}")
        with pytest.raises(error):
            spark.sql(f"CREATE TABLE made (id INT, CONSTRAINT {text}) USING tablefmt")
        with pytest.raises(error):
            spark.sql(f"REPLACE TABLE t (id INT, CONSTRAINT {text}) USING tablefmt")
        assert not spark.catalog.tableExists("made")
    assert tablefmt.open(t).version == version
    with pytest.raises(Exception, match="UNSUPPORTED"):
        spark.sql("CREATE TABLE plain (id INT, CHECK (id > 0)) USING parquet")
    spark.sql("CREATE TABLE made (x INT CHECK (x > 0), y INT) USING tablefmt")
    with pytest.raises(ConstraintViolationError):
        spark.sql("INSERT INTO made VALUES (0, 1)")


REFUSED: dict[str, Callable[[str], bool]] = {
    "ALTER TABLE t SET LOCATION '/x'": lambda said: "cannot be moved" in said,
}


def test_what_a_table_does_not_do_is_refused_by_name(spark: Any, t: str) -> None:
    """ENT-8: the page tools/docs/pages/guide/sql.md lists it."""
    version = tablefmt.open(t).version
    for statement, fits in REFUSED.items():
        with pytest.raises(UnsupportedFeatureError) as caught:
            spark.sql(statement)
        assert fits(str(caught.value)), str(caught.value)
    assert tablefmt.open(t).version == version
    assert not spark.catalog.tableExists("made")
