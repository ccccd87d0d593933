"""Metadata tables and `table_changes` in SQL: rows, names, versions, and what falls through."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tablefmt
import tablefmt.spark
from tablefmt.errors import (
    InvalidArgumentError,
    InvalidRangeError,
    TableNotFoundError,
    UnsupportedFeatureError,
    VersionNotFoundError,
)
from tablefmt.operations.metadata_tables import OF_A_TABLE, metadata_rows
from tests.operations.test_metadata_tables import references, with_icebergs
from tests.spark.conftest import ZONE
from tests.spark.looking import rows_of, scanned_files, selected


@pytest.fixture(scope="module")
def t(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tablefmt.Table]:
    """A table with every kind of partition value, as `inspected.t`, and a copy of its folder."""
    tablefmt.spark.register(spark)
    uri = str(tmp_path_factory.mktemp("t") / "a table: 100%41 é")
    table = tablefmt.create(
        uri,
        "id BIGINT, p STRING, d DATE, at TIMESTAMP, n DECIMAL(5,2)",
        partition_by=["p", "d", "at", "n"],
    )
    when = datetime(2024, 3, 10, 7, 30, tzinfo=timezone.utc)
    for at in range(3):
        key = {"p": [None, "b", "c'`\\"][at], "d": when.date(), "at": when, "n": None}
        table.append([{"id": each, **key} for each in (2 * at, 2 * at + 1)])
    table.delete("id = 3")
    table.alter.set_tag("Q3 2026", version=2)
    spark.sql("CREATE DATABASE inspected")
    spark.sql(f"CREATE TABLE inspected.t USING tablefmt OPTIONS (path '{uri}')")
    yield table.refresh()
    spark.sql("DROP DATABASE inspected CASCADE")


NAMED = ["inspected.t", "SPARK_CATALOG.`inspected`.`t`", "tablefmt.`{uri}`"]


def test_metadata_tables_have_the_rows_of_the_python_api(spark: Any, t: tablefmt.Table) -> None:
    """By name, and by path in three forms; rows and types agree."""
    expected = {
        "history": with_icebergs(t.history()),
        "refs": references(t),
        "snapshots": t.snapshots(),
        "tags": t.tags(),
        "files": t.scan().files(),
        "partitions": t.scan().partitions(),
    }
    places = [name.format(uri=t.uri) for name in NAMED]
    for at, (kind, rows) in enumerate(expected.items()):
        wanted = rows_of(rows)
        named = f"SELECT * FROM {places[at % 3]}.{kind.upper() if at else kind}"
        ways = [
            spark.table(f"inspected.t.{kind}"),
            spark.sql(f"SELECT * FROM tablefmt.`{t.uri}#{kind}`"),
            spark.read.format("tablefmt").load(f"{t.uri}#{kind}"),
        ]
        for found in (spark.sql(named), ways[at % 3]):
            assert rows_of(found, rows.schema) == wanted, named
            assert found.columns == rows.column_names


def test_files_and_partitions_travel_in_time(spark: Any, t: tablefmt.Table) -> None:
    """By version, by tag, by a time in the session's zone, in SQL and as options."""
    second = t.history().to_pylist()[-3]
    assert second["version"] == 2
    moment = (second["timestamp"] + timedelta(microseconds=1)).astimezone(ZoneInfo(ZONE))
    text = moment.strftime("%Y-%m-%d %H:%M:%S.%f")
    scan = t.scan(version=2)
    expected = {"files": scan.files(), "partitions": scan.partitions()}
    named = {kind: f"inspected.t.{kind}" for kind in expected}
    by_version, by_time = (
        spark.read.option("versionAsOf", "2"),
        spark.read.option("timestampAsOf", text),
    )
    by_name = "SELECT * FROM {files} VERSION AS OF 2"
    by_tag = "SELECT * FROM {partitions} VERSION AS OF 'Q3 2026'"
    at_time = f"SELECT * FROM {{files}} TIMESTAMP AS OF '{text}'"
    folded = f"SELECT * FROM {{partitions}} TIMESTAMP AS OF TIMESTAMP'{text}' + INTERVAL 0 DAYS"
    for kind, found in (
        ("files", spark.sql(by_name.format(**named))),
        ("partitions", spark.sql(by_tag.format(**named))),
        ("files", spark.sql(at_time.format(**named))),
        ("partitions", spark.sql(folded.format(**named))),
        ("files", by_version.table(named["files"])),
        ("partitions", by_version.format("tablefmt").load(f"{t.uri}#partitions")),
        ("partitions", by_time.table(named["partitions"])),
        ("files", by_time.format("tablefmt").load(f"{t.uri}#files")),
    ):
        assert rows_of(found, expected[kind].schema) == rows_of(expected[kind])
    for kind in OF_A_TABLE:
        with pytest.raises(InvalidRangeError, match="covers all versions"):
            spark.sql(f"SELECT * FROM inspected.t.{kind} VERSION AS OF 1")
    with pytest.raises(VersionNotFoundError, match="99"):
        spark.sql("SELECT * FROM inspected.t.files VERSION AS OF 99")
    with pytest.raises(InvalidRangeError, match="not both"):
        spark.sql("SELECT * FROM inspected.t.files VERSION AS OF 1 WITH (versionAsOf '2')")


def test_metadata_tables_are_tables_of_queries(spark: Any, t: tablefmt.Table) -> None:
    """In joins, CTEs, subqueries and views."""
    spark.sql("USE inspected")
    try:
        assert selected(
            spark,
            "WITH f AS (SELECT version, sum(rows) AS n FROM t.files GROUP BY version) "
            "SELECT h.version, f.n FROM t.history h JOIN f ON h.version = f.version",
        ) == [(1, 2), (2, 2), (3, 2)]
        assert selected(
            spark,
            "SELECT version FROM inspected.t.history WHERE version IN "
            "(SELECT version FROM t.files WHERE deleted > 0)",
        ) == [(2,)]
        assert selected(spark, "SELECT t.files.id, partition.p FROM t.files WHERE id = 2") == [
            (2, "b")
        ]
        spark.sql("CREATE VIEW newest AS SELECT max(version) AS v, count(*) n FROM t.history")
        spark.sql("CREATE TEMPORARY VIEW own AS SELECT * FROM t.tags")
        spark.sql("CREATE VIEW moved AS SELECT * FROM table_changes('t', 4)")
    finally:
        spark.sql("USE default")
    # The view's own database counts, and its rows are those of the time of the query.
    newest = (t.version, t.version + 1)
    assert selected(spark, "SELECT * FROM inspected.newest") == [newest]
    assert selected(spark, "SELECT name, version FROM own") == [("Q3 2026", 2)]
    assert selected(spark, "SELECT id, _change_type FROM inspected.moved") == [(3, "delete")]
    spark.sql("DROP VIEW own")


def test_a_real_table_or_view_of_the_name_wins(spark: Any, t: tablefmt.Table) -> None:
    """`files.history` may be a table of a database, a view, and a table's own path may end so."""
    spark.sql("CREATE DATABASE real")
    try:
        spark.sql(f"CREATE TABLE real USING tablefmt OPTIONS (path '{t.uri}')")
        assert selected(spark, "SELECT count(*) FROM real.files") == [(3,)]
        spark.sql("CREATE TABLE real.files USING parquet AS SELECT 'mine' AS x")
        spark.sql("CREATE VIEW real.tags AS SELECT 'view' AS x")
        assert selected(spark, "SELECT * FROM real.files") == [("mine",)]
        assert selected(spark, "SELECT * FROM real.tags") == [("view",)]
        assert selected(spark, "SELECT count(*) FROM default.real.files") == [(3,)]
        other = tablefmt.create(f"{t.uri}#files", {"x": [1]})
        assert selected(spark, f"SELECT * FROM tablefmt.`{other.uri}`") == [(1,)]
        assert spark.read.format("tablefmt").load(other.uri).collect() == [(1,)]
        assert selected(spark, f"SELECT count(*) FROM tablefmt.`{t.uri}`.files") == [(3,)]
        assert selected(spark, f"SELECT id FROM tablefmt.`{other.uri}#files`") == [(1,)]
        tablefmt.drop(other.uri, delete_data=True)
    finally:
        spark.sql("DROP TABLE IF EXISTS default.real")
        spark.sql("DROP DATABASE real CASCADE")


def test_other_tables_get_the_error_of_spark(spark: Any, t: tablefmt.Table, tmp_path: Path) -> None:
    """Also a table of another format, and a path without a table; writes are none of ours."""
    from pyspark.errors import AnalysisException

    spark.sql(f"CREATE TABLE inspected.p USING parquet LOCATION '{tmp_path}/p' AS SELECT 1 AS x")
    for text in (
        "SELECT * FROM inspected.p.files",
        "SELECT * FROM inspected.missing.history",
        "SELECT * FROM inspected.t.file",
        "SELECT * FROM inspected.p.files VERSION AS OF 1",
        "INSERT INTO inspected.t.files SELECT * FROM inspected.t.files",
        "DELETE FROM inspected.t.tags",
        "SELECT * FROM inspected.table_changes('inspected.t', 1)",
        "SELECT * FROM table_changes(inspected.t, 1)",
        "SELECT * FROM inspected.t, LATERAL table_changes('inspected.t', id)",
    ):
        with pytest.raises(AnalysisException):
            spark.sql(text)
    with pytest.raises(TableNotFoundError):
        spark.sql(f"SELECT * FROM tablefmt.`{tmp_path}/none`.files")
    with pytest.raises(TableNotFoundError, match="none#files"):
        spark.read.format("tablefmt").load(f"{tmp_path}/none#files")
    with pytest.raises(UnsupportedFeatureError, match="no metadata table manifests"):
        spark.sql("SELECT * FROM inspected.t.manifests")
    with pytest.raises(UnsupportedFeatureError, match="no row changes"):
        spark.read.options(readChangeFeed=True, startingVersion=1).table("inspected.t.files")
    with pytest.raises(UnsupportedFeatureError, match="#files'"):
        spark.read.option("storage.key", "x").table("inspected.t.files")


def changes(table: tablefmt.Table, **bounds: Any) -> pa.Table:
    return table.changes(**bounds).to_arrow()


def test_table_changes_has_the_rows_of_changes(spark: Any, t: tablefmt.Table) -> None:
    """Both bounds are inclusive: versions, tags, times in the session's zone, expressions."""
    at = {row["version"]: row["timestamp"] for row in t.history().to_pylist()}
    local = at[2].astimezone(ZoneInfo(ZONE)).strftime("%Y-%m-%d %H:%M:%S.%f")
    micros = int(at[3].timestamp() * 1_000_000 + 0.5)
    assert datetime.fromtimestamp(0, timezone.utc) + timedelta(microseconds=micros) == at[3]
    whole, later = changes(t, starting_version=1), changes(t, starting_version=2)
    middle = changes(t, starting_version=2, ending_version=3)
    assert len({whole.num_rows, later.num_rows, middle.num_rows}) == 3
    path = f"'{t.uri}'"
    for call, rows in {
        "table_changes('inspected.t', 1)": whole,
        "TABLE_CHANGES('spark_catalog.inspected.`t`', 1L, 10 / 2)": None,
        "table_changes('inspected.t', 2, 3)": middle,
        "table_changes('inspected.t', CAST(2 AS TINYINT), 1 + 2)": middle,
        f"table_changes({path}, 'Q3 2026', 3)": middle,
        f"table_changes_by_path({path}, 2)": later,
        f"table_changes('tablefmt.`{t.uri}`', '{local}', timestamp_micros({micros}))": middle,
        f"table_changes('inspected' || '.t', TIMESTAMP_NTZ'{local}', 3)": middle,
    }.items():
        if rows is None:
            with pytest.raises(InvalidArgumentError, match="cannot begin or end at a DOUBLE"):
                spark.sql(f"SELECT * FROM {call}")
            continue
        found = spark.sql(f"SELECT * FROM {call}")
        assert found.columns == rows.column_names
        assert rows_of(found, rows.schema) == rows_of(rows), call
    named = spark.sql(
        "SELECT c.id FROM table_changes(:t, :v) AS c WHERE c._change_type = 'delete'",
        args={"t": "inspected.t", "v": 1},
    )
    assert named.collect() == [(3,)]
    spark.sql("DECLARE first INT DEFAULT 4")
    assert selected(
        spark, "SELECT a FROM table_changes('inspected.t', first) c(a,b,c,d,e,f,g,h)"
    ) == [(3,)]
    spark.sql("DROP TEMPORARY VARIABLE first")
    assert selected(
        spark,
        "SELECT count(*) FROM table_changes('inspected.t', 1) a "
        "JOIN table_changes('inspected.t', 2) b ON a.id = b.id AND a._change_type = b._change_type",
    ) == [(later.num_rows,)]


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ("'inspected.t'", InvalidArgumentError, "has 1 arguments"),
        ("'inspected.t', 1, 2, 3", InvalidArgumentError, "has 4 arguments"),
        ("'inspected.t', NULL", InvalidArgumentError, "at NULL"),
        ("'inspected.t', 1.5", InvalidArgumentError, "at a DECIMAL"),
        ("'inspected.t', '1'", InvalidRangeError, "without quotes"),
        ("'inspected.t', 'Q4'", InvalidRangeError, "neither a time nor a tag"),
        ("'inspected.t', -1", VersionNotFoundError, "-1"),
        ("'inspected.t', 1, 99", VersionNotFoundError, "99"),
        ("'inspected.t', 3, 1", InvalidRangeError, "3"),
        ("'inspected.p', 1", InvalidArgumentError, "no tablefmt table 'inspected.p'"),
        ("'a b', 1", InvalidArgumentError, "no tablefmt table 'a b'"),
        ("'/nowhere', 1", InvalidArgumentError, "no tablefmt table '/nowhere'"),
        ("1, 1", InvalidArgumentError, "the name of a table in quotes"),
        ("", InvalidArgumentError, "the name of a table in quotes"),
    ],
)
def test_bad_calls_of_table_changes(
    spark: Any, t: tablefmt.Table, arguments: str, error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        spark.sql(f"SELECT * FROM table_changes({arguments})")


def test_a_function_of_the_user_wins(spark: Any, t: tablefmt.Table) -> None:
    from pyspark.sql.functions import udtf

    class Own:
        def eval(self, name: str, version: int) -> Iterator[tuple[str]]:
            yield (f"own {name}",)

    spark.udtf.register("table_changes", udtf(Own, returnType="x STRING"))
    try:
        assert selected(spark, "SELECT * FROM table_changes('inspected.t', 1)") == [
            ("own inspected.t",)
        ]
    finally:
        spark.sql("DROP TEMPORARY FUNCTION table_changes")
    assert selected(spark, "SELECT id FROM table_changes('inspected.t', 4)") == [(3,)]


def test_after_restore_vacuum_and_drop(spark: Any, t: tablefmt.Table, tmp_path: Path) -> None:
    """Rows follow the log: a restore, versions that were given up, and the end of the table."""
    table = tablefmt.create(f"{tmp_path}/r", {"id": [1, 2]})
    table.append({"id": [3]})
    table.delete("id = 1")
    spark.sql(f"CREATE TABLE inspected.r USING tablefmt OPTIONS (path '{table.uri}')")
    spark.sql("RESTORE inspected.r TO VERSION AS OF 2")
    files = tablefmt.open(table.uri).scan().files()
    assert files["version"].to_pylist() == [2, 4]
    assert rows_of(spark.table("inspected.r.files"), files.schema) == rows_of(files)
    table.alter.set_properties({"deletedFileRetentionDuration": "0 seconds"})
    table.compact("major")
    table.vacuum(retention=0, dry_run=False)
    first = table.refresh().oldest_version
    kept = "SELECT min(snapshot_id) FROM inspected.r.snapshots"
    assert selected(spark, kept) == [(first,)]
    assert selected(spark, "SELECT count(*) FROM inspected.r.history WHERE canBeRead") == [
        (table.version - first + 1,)
    ]
    with pytest.raises(VersionNotFoundError):
        spark.sql("SELECT * FROM inspected.r.files VERSION AS OF 1")
    rows = metadata_rows(table.context, "files")
    assert rows_of(spark.table("inspected.r.files"), rows.schema) == rows_of(rows)
    tablefmt.drop(table.uri)
    with pytest.raises(TableNotFoundError):
        spark.sql("SELECT * FROM inspected.r.files")
    with pytest.raises(TableNotFoundError):
        spark.sql("SELECT * FROM table_changes('inspected.r', 1)")


def test_file_metadata_has_the_same_values_by_name_and_by_path(
    spark: Any, t: tablefmt.Table, uri: str
) -> None:
    """`_metadata` of live rows: paths, sizes and times of the files, and positions in them."""
    table = tablefmt.create(uri, "id BIGINT, p STRING, s STRUCT<a: INT>", partition_by=["p"])
    table.append([{"id": at, "p": "ab"[at % 2], "s": {"a": at}} for at in range(6)])
    table.delete("id = 1")
    table.append([{"id": 6, "p": "b", "s": None}])
    table.alter.rename_column("id", "number")
    expected = []
    for file in table.refresh().scan().files().to_pylist():
        path = Path(uri) / file["path"]
        stat = path.stat()
        # Spark shows times in the zone of this process.
        when = datetime.fromtimestamp(stat.st_mtime_ns // 1_000_000 / 1000)
        ids = pq.read_table(path).column(0).to_pylist()
        for at, each in enumerate(ids):
            if each != 1:
                expected.append((each, path.name, stat.st_size, when, at, each >= 3))
    query = (
        "SELECT number, _metadata.file_name, _metadata.file_size, "
        "_metadata.file_modification_time, _metadata.row_index, "
        "url_decode(_metadata.file_path) LIKE '%/' || _metadata.file_name AND number >= 3 FROM "
    )
    spark.sql(f"CREATE TABLE inspected.m USING tablefmt OPTIONS (path '{uri}')")
    assert len(expected) == 6
    for name in ("inspected.m", f"tablefmt.`{uri}`", "inspected.m VERSION AS OF 4"):
        assert selected(spark, query + name) == sorted(expected, key=repr)
    loaded = spark.read.format("tablefmt").load(uri)
    paths = {row[0] for row in loaded.select("_metadata.file_path").distinct().collect()}
    for name in ("inspected.m", f"tablefmt.`{uri}`"):
        found = spark.sql(f"SELECT DISTINCT x.m.file_path FROM (SELECT _metadata m FROM {name}) x")
        assert {row[0] for row in found.collect()} == paths
        chosen = (
            f"SELECT number FROM {name} WHERE _metadata.row_index = 0 AND p = 'b' AND s.a IS NULL"
        )
        assert selected(spark, chosen) == [(6,)]
    assert len(paths) == 3
    assert (
        scanned_files(spark.sql("SELECT _metadata.file_name FROM inspected.m WHERE p = 'a'")) == 1
    )
    pairs = "inspected.m a JOIN inspected.m b ON a._metadata.file_path = b._metadata.file_path"
    assert selected(spark, f"SELECT count(*) FROM {pairs}") == [(9 + 4 + 1,)]
    for text in (
        "DELETE FROM inspected.m WHERE _metadata.row_index = 0",
        "UPDATE inspected.m SET number = _metadata.row_index",
        "MERGE INTO inspected.m t USING (SELECT 1 AS n) s ON t._metadata.row_index = s.n "
        "WHEN MATCHED THEN DELETE",
    ):
        with pytest.raises(UnsupportedFeatureError, match="_metadata of the table that DELETE"):
            spark.sql(text)
    spark.sql(
        "MERGE INTO inspected.m t "
        "USING (SELECT number, _metadata.row_index AS r FROM inspected.m) s "
        "ON t.number = s.number AND s.r = 2 WHEN MATCHED THEN UPDATE SET p = 'z'"
    )
    assert selected(spark, "SELECT number FROM inspected.m WHERE p = 'z'") == [(4,), (5,)]
