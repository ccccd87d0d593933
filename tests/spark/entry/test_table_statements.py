"""DESCRIBE HISTORY and DETAIL, OPTIMIZE, VACUUM and RESTORE in SQL, on tables USING tablefmt."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tablefmt
import tablefmt.spark
from tablefmt.compat.delta import DeltaTable
from tablefmt.errors import (
    InvalidArgumentError,
    InvalidRangeError,
    SchemaMismatchError,
    TableNotFoundError,
    UnsupportedFeatureError,
    VersionNotFoundError,
)
from tablefmt.session.table_scan import Scan
from tablefmt.spark.entry import pyspark_wrappers

pytestmark = pytest.mark.usefixtures("catalog")


@pytest.fixture
def t(spark: Any, uri: str) -> str:
    """Four versions of ten rows more each, known as `t`, in two partitions."""
    spark.sql(
        f"CREATE TABLE t (id BIGINT, part STRING) USING tablefmt PARTITIONED BY (part) "
        f"OPTIONS (path '{uri}')"
    )
    for turn in range(4):
        spark.sql(
            f"INSERT INTO t SELECT /*+ COALESCE(1) */ id, if(id % 2 = 0, 'a', 'b') "
            f"FROM range({10 * turn}, {10 * turn + 10})"
        )
    return uri


def ids(spark: Any) -> list[int]:
    return sorted(row[0] for row in spark.sql("SELECT id FROM t").collect())


def files(uri: str) -> list[tuple[Any, int]]:
    """Partition and rows of the live files."""
    found = tablefmt.open(uri).scan().files().to_pylist()
    return sorted((each["partition"]["part"], each["rows"]) for each in found)


def sizes_of(scan: Scan) -> dict[str, int]:
    """Return the bytes of each file of a version, by its path."""
    found = scan.files()
    return dict(zip(found["path"].to_pylist(), found["size"].to_pylist(), strict=True))


def test_history_is_that_of_the_function(spark: Any, t: str) -> None:
    """The rows and types agree, by name and by path. The limit bounds the rows."""
    expected = tablefmt.spark.open(spark, t).history()
    found = spark.sql("DESCRIBE HISTORY t")
    assert found.dtypes == expected.dtypes
    assert found.collect() == expected.collect()
    assert [row.version for row in found.collect()] == [4, 3, 2, 1, 0]
    by_path = spark.sql(f"desc history tablefmt.`{t}` limit 2;")
    assert by_path.collect() == expected.collect()[:2]
    assert found.where("operation = 'WRITE'").count() == 4


def test_detail_is_one_row(spark: Any, t: str) -> None:
    """The row has the facts of the snapshot."""
    tablefmt.open(t).alter.set_properties({"appendOnly": "false"})
    spark.sql("DELETE FROM t WHERE id = 7")
    (row,) = spark.sql("/* what is it? */ DESCRIBE DETAIL spark_catalog.default.t").collect()
    table = tablefmt.open(t)
    totals = table.context.view.snapshot().totals
    assert (row.format, row.id, row.location) == ("tablefmt", table.id, t)
    assert (row.numFiles, row.numRows, row.sizeInBytes) == totals
    assert (row.numRows, row.version, row.oldestVersion) == (39, 6, 0)
    assert row.partitionColumns == ["part"]
    assert row.properties == {"appendOnly": "false"}
    assert row.lastModified > row.createdAt


def test_optimize_puts_files_together_and_no_row_changes(spark: Any, t: str) -> None:
    """It compacts the partitions of a condition, then clusters all by a curve."""
    before = ids(spark)
    assert files(t) == [("a", 5)] * 4 + [("b", 5)] * 4
    (row,) = spark.sql("OPTIMIZE t WHERE part = 'a'").collect()
    assert (row.path, row.version) == (t, 5)
    assert row.metrics["numRemovedFiles"] == 4
    assert files(t) == [("a", 20), *[("b", 5)] * 4]
    spark.sql("OPTIMIZE t ZORDER BY (id)")
    assert files(t) == [("a", 20), ("b", 20)]
    assert ids(spark) == before
    assert [h["operation"] for h in tablefmt.open(t).history(2).to_pylist()] == [
        "CLUSTER",
        "COMPACT MINOR",
    ]
    with pytest.raises(SchemaMismatchError, match="nowhere"):
        spark.sql("OPTIMIZE t ZORDER BY (nowhere)")


def test_vacuum_removes_what_no_kept_version_needs(spark: Any, t: str) -> None:
    """Dry runs change nothing; below the table's retention it is refused."""
    spark.sql("OPTIMIZE t")
    assert spark.sql("VACUUM t DRY RUN").collect() == []
    with pytest.raises(
        InvalidRangeError, match=r"deletedFileRetentionDuration.* set spark\.\S+ to"
    ):
        spark.sql("VACUUM t RETAIN 0 HOURS")
    settings = {"deletedFileRetentionDuration": "0 seconds"}
    tablefmt.open(t).alter.set_properties(settings)
    asked = spark.sql("VACUUM t RETAIN 0 HOURS DRY RUN").collect()
    assert len(asked) == 8
    assert {row.removed_version for row in asked} == {5}
    assert len(spark.sql("VACUUM t RETAIN 0 HOURS").collect()) == 8
    assert ids(spark) == list(range(40))
    with pytest.raises(VersionNotFoundError):
        spark.sql("RESTORE t TO VERSION AS OF 3")
    # Longer than a timedelta can be.
    assert spark.sql("VACUUM t RETAIN 99999999999999 HOURS DRY RUN").collect() == []


def test_restore_brings_a_version_back_by_number_and_by_time(spark: Any, t: str) -> None:
    """A time without a zone is one of the session's zone."""
    now, then = (sizes_of(tablefmt.open(t).scan(version=version)) for version in (4, 2))
    (row,) = spark.sql("RESTORE TABLE t TO VERSION AS OF 2").collect()
    removed = {path: size for path, size in now.items() if path not in then}
    assert row.asDict() == {
        "table_size_after_restore": sum(then.values()),
        "num_of_files_after_restore": len(then),
        "num_removed_files": len(removed),
        "num_restored_files": 0,
        "removed_files_size": sum(removed.values()),
        "restored_files_size": 0,
    }
    assert tablefmt.open(t).version == 5
    assert ids(spark) == list(range(20))
    texts = spark.sql("DESCRIBE HISTORY t").selectExpr("version", "cast(timestamp as string)")
    third = dict(map(tuple, texts.collect()))[3]
    spark.sql(f"RESTORE t TO TIMESTAMP AS OF '{third}'")
    assert ids(spark) == list(range(30))
    with pytest.raises(VersionNotFoundError):
        spark.sql("RESTORE t TO TIMESTAMP AS OF '2001-01-01'")


def test_statements_of_other_tables_and_other_statements_are_sparks(spark: Any, t: str) -> None:
    """Views, tables of other formats, unknown names, and incomplete statements."""
    from pyspark.errors import ParseException

    spark.sql("CREATE TABLE other (id BIGINT, t INT) USING parquet")
    spark.range(3).createOrReplaceTempView("seen")
    for text in (
        "OPTIMIZE other", "OPTIMIZE seen", "OPTIMIZE nowhere", "VACUUM other", "OPTIMIZE t t",
        "RESTORE t", "VACUUM tablefmt.nowhere", "OPTIMIZE elsewhere.default.t",
    ):  # fmt: skip
        with pytest.raises(ParseException):
            spark.sql(text)
    # Spark's own grammar: the column `t` of a table that is called so.
    spark.sql("CREATE TABLE history (t INT) USING parquet")
    assert [r.col_name for r in spark.sql("DESCRIBE history").collect()] == ["t"]
    assert spark.sql("DESCRIBE t").first().col_name == "id"
    parser = spark._jsparkSession.sessionState().sqlParser()
    assert parser.parseExpression("1 + a").sql() == "(1 + a)"


def test_a_statement_is_not_carried_out_by_being_read(spark: Any, t: str) -> None:
    """A parser only reads; and a session that is registered twice has one in front."""
    tablefmt.spark.register(spark)
    plan = spark._jsparkSession.sessionState().sqlParser().parsePlan("OPTIMIZE t")
    assert "OPTIMIZE t" in plan.toString()
    assert tablefmt.open(t).version == 4
    inner = spark._jvm.java.lang.reflect.Proxy.getInvocationHandler(
        spark._jsparkSession.sessionState().sqlParser()
    )
    assert inner.getClass().getName() == "tablefmt.StatementParser"


@pytest.fixture
def elsewhere(spark: Any) -> Iterator[Any]:
    """A registered session with a second catalog `ice`; and a database of that name."""
    session = spark.newSession()
    kind = "org.apache.spark.sql.execution.datasources.v2.jdbc.JDBCTableCatalog"
    session.conf.set("spark.sql.catalog.ice", kind)
    session.conf.set("spark.sql.catalog.ice.url", "jdbc:derby:memory:ice;create=true")
    tablefmt.spark.register(session)
    spark.sql("CREATE DATABASE ice")
    yield session
    spark.sql("DROP DATABASE ice CASCADE")


def test_names_of_another_catalog_are_not_ours(
    spark: Any, elsewhere: Any, t: str, tmp_path: Any
) -> None:
    """The catalog in use, and one whose name comes first, are asked as Spark asks them."""
    from pyspark.errors import ParseException

    inner = str(tmp_path / "inner")
    spark.sql(f"CREATE TABLE ice.t (id BIGINT) USING tablefmt OPTIONS (path '{inner}')")
    assert spark.sql("VACUUM ice.t DRY RUN").collect() == []
    with pytest.raises(ParseException):
        elsewhere.sql("VACUUM ice.t")
    assert elsewhere.sql("VACUUM default.t DRY RUN").collect() == []
    elsewhere.sql("USE ice")
    for text in ("VACUUM t", "RESTORE t TO VERSION AS OF 1", "OPTIMIZE default.t"):
        with pytest.raises(ParseException):
            elsewhere.sql(text)
    with pytest.raises(InvalidRangeError, match="no table t"):
        tablefmt.spark.sync(elsewhere, "t")
    assert [pyspark_wrappers._is_our_table(session, "t") for session in (spark, elsewhere)] == [
        True,
        False,
    ]
    assert tablefmt.open(t).version == 4
    elsewhere.sql("RESTORE SPARK_CATALOG.default.t TO VERSION AS OF 1")
    assert ids(spark) == list(range(10))
    elsewhere.sql(f"RESTORE tablefmt.`{t}` TO VERSION AS OF 2")
    assert ids(spark) == list(range(20))


def test_a_statement_is_on_the_table_that_its_name_was_when_it_was_read(
    spark: Any, t: str, tmp_path: Any
) -> None:
    """Spark's own commands do the same. If the table was dropped since, it is missing."""
    parser = spark._jsparkSession.sessionState().sqlParser()
    dataset = spark._jvm.org.apache.spark.sql.classic.Dataset
    spark.sql("CREATE TABLE managed (id BIGINT) USING tablefmt")
    restore = parser.parsePlan("RESTORE t TO VERSION AS OF 1")
    vacuum = parser.parsePlan("VACUUM managed")
    spark.sql("DROP TABLE t")
    spark.sql("DROP TABLE managed")
    other = str(tmp_path / "other")
    spark.sql(f"CREATE TABLE t (id BIGINT) USING tablefmt OPTIONS (path '{other}')")
    dataset.ofRows(spark._jsparkSession, restore)
    assert [tablefmt.open(place).version for place in (t, other)] == [5, 0]
    with pytest.raises(TableNotFoundError):
        dataset.ofRows(spark._jsparkSession, vacuum)


def test_a_restored_table_is_what_spark_answers_from(spark: Any, t: str) -> None:
    """Spark's cache has its rows, with the columns of that version."""
    spark.sql("CACHE TABLE t")
    assert ids(spark) == list(range(40))
    spark.sql("RESTORE t TO VERSION AS OF 2")
    assert ids(spark) == list(range(20))
    spark.sql("UNCACHE TABLE t")
    spark.sql("ALTER TABLE t ADD COLUMN late INT")
    spark.sql("INSERT INTO t VALUES (50, 'a', 5)")
    by_path = f"tablefmt.`{t}`"
    spark.sql(f"CACHE TABLE p AS SELECT id FROM {by_path}")
    spark.sql(f"RESTORE {by_path} TO VERSION AS OF 1")
    assert spark.table("p").count() == 10
    spark.sql("RESTORE t TO VERSION AS OF 7")
    catalog = spark._jsparkSession.sessionState().catalog()
    name = spark._jsparkSession.sessionState().sqlParser().parseTableIdentifier("t")
    assert list(catalog.getTableMetadata(name).schema().fieldNames()) == ["id", "part", "late"]
    assert spark.sql("SELECT id, late FROM t WHERE late IS NOT NULL").collect() == [(50, 5)]


def test_a_path_in_quotes_is_the_table_there(spark: Any, tmp_path: Any) -> None:
    """Every statement takes it as a string, with escapes. Other paths are another parser's."""
    from pyspark.errors import ParseException

    place = tmp_path / 'it\'s `a` "b" \\ c'
    table = tablefmt.create(str(place), {"id": [1], "part": ["a"]})
    table.append({"id": [2], "part": ["a"]})
    escaped = str(place).replace("\\", "\\\\")
    single = "'" + escaped.replace("'", "\\'") + "'"
    double = '"' + escaped.replace('"', '""') + '"'
    expected = tablefmt.spark.open(spark, str(place)).history()
    for quoted in (single, double):
        assert spark.sql(f"DESCRIBE HISTORY {quoted}").collect() == expected.collect()
        assert spark.sql(f"DESCRIBE DETAIL {quoted}").first().location == str(place)
    before = table.refresh().version
    (row,) = spark.sql(f"OPTIMIZE {single} WHERE id > 0").collect()
    assert (row.path, row.version) == (str(place), before + 1)
    spark.sql(f"OPTIMIZE {double} ZORDER BY (id)")
    assert table.refresh().to_arrow().sort_by("id")["id"].to_pylist() == [1, 2]
    spark.sql(f"RESTORE TABLE {single} TO VERSION AS OF {before - 1}")
    assert table.refresh().to_arrow().to_pylist() == [{"id": 1, "part": "a"}]
    table.alter.set_properties({"deletedFileRetentionDuration": "0 seconds"})
    removed = spark.sql(f"VACUUM {single} RETAIN 0 HOURS DRY RUN").collect()
    assert spark.sql(f"VACUUM {double} RETAIN 0 HOURS").collect() == removed
    assert removed
    assert table.refresh().to_arrow().to_pylist() == [{"id": 1, "part": "a"}]
    (tmp_path / "empty").mkdir()
    for other in (f"'{tmp_path}/empty'", f"'{tmp_path}/nowhere'", "'hdfs://n/a'"):
        with pytest.raises(ParseException):
            spark.sql(f"VACUUM {other}")


def test_variables_stand_in_the_text_and_parameters_are_refused(spark: Any, t: str) -> None:
    """Spark's own statements do the same. Unknown text is refused."""
    spark.conf.set("day", "a")
    try:
        spark.sql("OPTIMIZE t WHERE part = '${day}'")
    finally:
        spark.conf.unset("day")
    assert files(t) == [("a", 20), *[("b", 5)] * 4]
    refused: list[Any] = [{"p": "b"}, ["b"]]
    for arguments, mark in zip(refused, [":p", "?"], strict=True):
        with pytest.raises(UnsupportedFeatureError, match="OPTIMIZE does not take") as seen:
            spark.sql(f"OPTIMIZE t WHERE part = {mark}", args=arguments)
        assert seen.value.features == ["sql:parameters"]
    assert len(spark.sql("DESCRIBE HISTORY t", args={}).collect()) == 6


def test_conditions_orders_and_comments_together(spark: Any, t: str) -> None:
    """By path too: only the chosen rows are clustered, and commented text is ignored."""
    spark.sql(f"/* a /* b */ */ OPTIMIZE tablefmt.`{t}` WHERE part = 'a' -- ZORDER BY (id)")
    assert files(t) == [("a", 20), *[("b", 5)] * 4]
    spark.sql(f"OPTIMIZE tablefmt.`{t}` WHERE part = 'b' ZORDER BY (id)")
    assert files(t) == [("a", 20), ("b", 20)]
    operations = [h["operation"] for h in tablefmt.open(t).history(2).to_pylist()]
    assert operations == ["CLUSTER", "COMPACT MINOR"]
    tablefmt.open(t).alter.set_properties({"deletedFileRetentionDuration": "0 seconds"})
    removed = spark.sql(f"VACUUM tablefmt.`{t}` RETAIN 0 HOURS -- DRY RUN").collect()
    assert len(removed) == 8
    assert tablefmt.open(t).to_arrow().sort_by("id")["id"].to_pylist() == list(range(40))


def test_a_log_that_was_read_is_not_read_again(
    spark: Any, t: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The newest entry and the one that may follow it, as every other statement begins; and that
    again by the verb.
    """
    from tablefmt.store.location import open_store

    keys: list[str] = []
    kind = type(open_store(t))
    original = kind.get_many

    def get_many(self: Any, wanted: Any) -> Any:
        keys.extend(wanted)
        return original(self, wanted)

    spark.sql("DESCRIBE DETAIL t")
    monkeypatch.setattr(kind, "get_many", get_many)
    spark.sql("DESCRIBE DETAIL t")
    assert keys == [f"_log/{version:020d}.json" for version in (4, 5, 5)]


def test_a_clustering_order_is_a_setting_of_the_table(spark: Any, tmp_path: Path) -> None:
    """CMP-8: CLUSTER BY in CREATE and ALTER TABLE, of a query and a writer, and OPTIMIZE."""
    place = str(tmp_path / "ordered")
    spark.sql(
        "CREATE TABLE ordered (id BIGINT, `b, c` STRING, n INT) USING tablefmt "
        f"CLUSTER BY (`b, c`, id) LOCATION '{place}'"
    )
    table = tablefmt.open(place)
    assert table.cluster_by == ["b, c", "id"]
    spark.sql("ALTER TABLE ordered CLUSTER BY (id)")
    (detail,) = spark.sql("DESCRIBE DETAIL ordered").collect()
    assert (detail.clusteringColumns, detail.properties) == (["id"], {"clusterBy": "id"})
    for start in (5, 1):
        spark.sql(f"INSERT INTO ordered SELECT id, 'x', 1 FROM range({start}, 100, 7)")
    expected = sorted(row.id for row in spark.table("ordered").collect())
    (done,) = spark.sql("OPTIMIZE ordered").collect()
    assert (done.metrics["numRemovedFiles"] >= 2, done.metrics["numAddedFiles"]) == (True, 1)
    assert [row.id for row in spark.table("ordered").collect()] == expected
    assert spark.sql("OPTIMIZE ordered").first().version == done.version
    with pytest.raises(InvalidArgumentError, match="CLUSTER BY NONE"):
        spark.sql("OPTIMIZE ordered ZORDER BY (n)")
    with pytest.raises(SchemaMismatchError, match="clustered by"):
        spark.sql("ALTER TABLE ordered DROP COLUMN id")
    spark.sql("ALTER TABLE ordered CLUSTER BY NONE")
    assert tablefmt.open(place).cluster_by == []
    other = str(tmp_path / "other")
    spark.sql(
        f"CREATE TABLE other USING tablefmt CLUSTER BY (id) LOCATION '{other}' AS TABLE ordered"
    )
    assert (tablefmt.open(other).cluster_by, tablefmt.open(other).count()) == (
        ["id"],
        len(expected),
    )
    spark.table("ordered").write.format("tablefmt").clusterBy("n").saveAsTable("saved")
    assert tablefmt.spark.open(spark, "saved").table.cluster_by == ["n"]
    DeltaTable.create(spark).tableName("built").addColumn("x", "INT").clusterBy("x").execute()
    assert tablefmt.spark.open(spark, "built").table.cluster_by == ["x"]
    for name in ("ordered", "other", "saved", "built"):
        spark.sql(f"DROP TABLE {name}")


def test_a_tag_is_read_by_its_name(spark: Any, t: str) -> None:
    """TAG-1: by name and by path, in SQL, options and functions; RESTORE too."""
    tablefmt.open(t).alter.set_tag("2026 \u00c4", version=2)
    expected = list(range(20))
    queries = (
        "SELECT id FROM t VERSION AS OF '2026 \u00c4'",
        f"SELECT id FROM tablefmt.`{t}` VERSION AS OF '2026 \u00c4'",
    )
    frames = [
        *map(spark.sql, queries),
        spark.read.format("tablefmt").option("versionAsOf", "2026 \u00c4").load(t),
        spark.read.option("versionAsOf", "2026 \u00c4").table("t"),
        tablefmt.spark.read(spark, t, version="2026 \u00c4"),
        tablefmt.spark.open(spark, "t").to_df(version="2026 \u00c4"),
    ]
    for frame in frames:
        assert sorted(row.id for row in frame.collect()) == expected
    options = {"readChangeFeed": "true", "startingVersion": "0", "endingVersion": "2026 \u00c4"}
    assert spark.read.format("tablefmt").options(**options).load(t).count() == 20
    with pytest.raises(VersionNotFoundError, match="not the name of a tag"):
        spark.sql("SELECT id FROM t VERSION AS OF 'nothing'").collect()
    shown = [row.key for row in spark.sql("SHOW TBLPROPERTIES t").collect()]
    assert not [key for key in shown if key.startswith("tag.")]
    spark.sql("RESTORE TABLE t TO VERSION AS OF '2026 \u00c4'")
    assert ids(spark) == expected
    assert tablefmt.open(t).tags()["version"].to_pylist() == [2]
