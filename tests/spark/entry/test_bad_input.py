"""Bad input from every entry point: the error of the tree, what, where and what next, no stack."""

from __future__ import annotations

import itertools
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tablefmt
import tablefmt.spark
from tablefmt.errors import (
    InvalidRangeError,
    SchemaMismatchError,
    TablefmtError,
    TableNotFoundError,
    UnsupportedFeatureError,
)
from tests.places import GOLDEN
from tests.spark.looking import everything

pytestmark = pytest.mark.usefixtures("catalog")


def by_function(spark: Any, uri: str, version: Any = None, timestamp: Any = None) -> Any:
    return tablefmt.spark.read(spark, uri, version=version, timestamp=timestamp)


def options_of(version: Any, timestamp: Any) -> dict[str, Any]:
    given = {"versionAsOf": version, "timestampAsOf": timestamp}
    return {name: value for name, value in given.items() if value is not None}


def by_format(spark: Any, uri: str, version: Any = None, timestamp: Any = None) -> Any:
    options = options_of(version, timestamp)
    return spark.read.format("tablefmt").options(**options).load(uri)


def by_view(spark: Any, uri: str, version: Any = None, timestamp: Any = None) -> Any:
    options = {"path": uri, **options_of(version, timestamp)}
    text = ", ".join(f"{name} '{value}'" for name, value in options.items())
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW v USING tablefmt OPTIONS ({text})")
    return spark.table("v")


def by_catalog(spark: Any, uri: str, version: Any = None, timestamp: Any = None) -> Any:
    spark.sql(f"CREATE TABLE IF NOT EXISTS t USING tablefmt OPTIONS (path '{uri}')")
    text = ", ".join(f"'{n}' = '{v}'" for n, v in options_of(version, timestamp).items())
    return spark.sql(f"SELECT * FROM t {f'WITH ({text})' if text else ''}")


READS = [by_function, by_format, by_view, by_catalog]
Read = Callable[..., Any]


def to_function(frame: Any, uri: str, mode: str = "append", by: tuple[str, ...] = ()) -> None:
    tablefmt.spark.write(frame, uri, mode=mode, partition_by=by)  # type: ignore[arg-type]


def to_format(frame: Any, uri: str, mode: str = "append", by: tuple[str, ...] = ()) -> None:
    frame.write.format("tablefmt").mode(mode).partitionBy(*by).save(uri)


def to_view(frame: Any, uri: str, mode: str = "append", by: tuple[str, ...] = ()) -> None:
    spark = frame.sparkSession
    by_view(spark, uri)
    frame.createOrReplaceTempView("given")
    verb = "INTO" if mode == "append" else "OVERWRITE"
    spark.sql(f"INSERT {verb} v SELECT * FROM given")


def to_catalog(frame: Any, uri: str, mode: str = "append", by: tuple[str, ...] = ()) -> None:
    spark = frame.sparkSession
    frame.createOrReplaceTempView("given")
    if tablefmt.exists(uri):
        by_catalog(spark, uri)
        verb = "INTO" if mode == "append" else "OVERWRITE"
        spark.sql(f"INSERT {verb} t SELECT * FROM given")
        return
    parts = f"PARTITIONED BY ({', '.join(by)})" if by else ""
    spark.sql(
        f"CREATE TABLE t USING tablefmt OPTIONS (path '{uri}') {parts} AS SELECT * FROM given"
    )


WRITES = [to_function, to_format, to_view, to_catalog]
Write = Callable[..., None]


def refused(call: Callable[[], Any], kind: type[Exception], *words: str) -> Any:
    """Return the error after checking that a user can act on it."""
    with pytest.raises(TablefmtError) as caught:
        call()
    error = caught.value
    assert type(error) is kind
    assert [word for word in words if word not in str(error)] == []
    assert "\tat " not in str(error)
    assert "Traceback" not in str(error)
    assert error.__cause__ is None
    assert "[tablefmt:" not in str(error)
    return error


def golden(name: str, uri: str) -> list[str]:
    shutil.copytree(GOLDEN / name / "table", uri)
    return everything(uri)


@pytest.mark.parametrize("read", READS)
def test_a_wrong_path_is_named(spark: Any, uri: str, read: Read) -> None:
    error = refused(lambda: read(spark, uri).collect(), TableNotFoundError, uri, "Check the path")
    assert error.uri == uri
    assert not Path(uri).exists()


def test_a_removed_table_of_the_catalog_is_named(spark: Any, uri: str) -> None:
    tablefmt.create(uri, "id BIGINT")
    by_catalog(spark, uri)
    shutil.rmtree(uri)
    refused(lambda: spark.sql("SELECT * FROM t").collect(), TableNotFoundError, uri)
    refused(lambda: spark.sql("INSERT INTO t VALUES (1)"), TableNotFoundError, uri)


@pytest.mark.parametrize("read", READS)
@pytest.mark.parametrize("name", ["reader-feature", "newer-format"])
def test_a_table_of_a_newer_format_is_not_read(spark: Any, uri: str, read: Read, name: str) -> None:
    """ENT-3, ENT-7."""
    golden(name, uri)
    error = refused(lambda: read(spark, uri).collect(), UnsupportedFeatureError, "pgrade tablefmt")
    assert error.features


@pytest.mark.share(3)
@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("name", ["reader-feature", "newer-format", "writer-feature"])
@pytest.mark.parametrize("mode", ["append", "overwrite"])
def test_a_table_of_a_newer_format_is_not_written(
    spark: Any, uri: str, write: Write, name: str, mode: str
) -> None:
    """ENT-3, ENT-7: the table does not change."""
    before = golden(name, uri)
    columns = tablefmt.open(uri).schema.names if name == "writer-feature" else ["id"]
    frame = spark.range(1).selectExpr(*(f"NULL AS `{column}`" for column in columns))
    refused(lambda: write(frame, uri, mode), UnsupportedFeatureError, "pgrade tablefmt")
    assert everything(uri) == before


@pytest.mark.parametrize("read", READS)
def test_a_table_that_only_writers_have_to_know_more_of_is_read(
    spark: Any, uri: str, read: Read
) -> None:
    """ENT-7."""
    golden("writer-feature", uri)
    assert read(spark, uri).count() == tablefmt.open(uri).to_arrow().num_rows


@pytest.mark.parametrize("read", [by_function, by_format, by_view])
def test_a_version_and_a_time_are_one_too_many(spark: Any, uri: str, read: Read) -> None:
    """TIM-4: Spark itself refuses both for a table of the catalog."""
    tablefmt.create(uri, "id BIGINT")
    refused(lambda: read(spark, uri, 0, "2999-01-01").collect(), InvalidRangeError, "not both")


@pytest.mark.parametrize("write", [to_function, to_format])
@pytest.mark.parametrize(
    ("columns", "wrong"),
    [
        (["id", "id AS extra"], "extra"),
        (["array(id) AS id"], "id"),
        (["id", "named_struct('a', 1) AS n"], "n"),
        (["string(NULL) AS n"], "id"),
    ],
)
def test_columns_that_do_not_fit_are_named(
    spark: Any, uri: str, write: Write, columns: list[str], wrong: str
) -> None:
    """DAT-2, DAT-3."""
    tablefmt.create(uri, "id BIGINT NOT NULL, n INT")
    before = everything(uri)
    frame = spark.range(1).selectExpr(*columns)
    error = refused(lambda: write(frame, uri), SchemaMismatchError, wrong)
    assert error.columns == [wrong]
    assert everything(uri) == before


@pytest.mark.parametrize(
    ("statement", "says", "columns"),
    [
        ("INSERT INTO t VALUES (1, 2, 3)", "too many data columns", []),
        ("INSERT INTO t VALUES (1)", "not enough data columns", []),
        ("INSERT INTO t BY NAME SELECT 1L AS id, 2 AS `e x`", "extra columns `e x`", ["e x"]),
        ("INSERT INTO t VALUES (array(1), 2)", "cast `id`", ["id"]),
    ],
)
def test_rows_that_spark_itself_refuses_in_sql_are_our_error(
    spark: Any, uri: str, statement: str, says: str, columns: list[str]
) -> None:
    """Its analysis comes before ours, and knows as much. Tables of others keep its words."""
    from pyspark.errors import AnalysisException

    tablefmt.create(uri, "id BIGINT, n INT")
    by_catalog(spark, uri)
    error = refused(lambda: spark.sql(statement), SchemaMismatchError, says)
    assert error.columns == columns
    assert tablefmt.open(uri).version == 0
    spark.sql("CREATE TABLE other (id BIGINT, n INT) USING parquet")
    try:
        with pytest.raises(AnalysisException):
            spark.sql(statement.replace("INTO t", "INTO other"))
    finally:
        spark.sql("DROP TABLE other")


def test_a_column_that_is_not_there_is_sparks_own_error(spark: Any, uri: str) -> None:
    """The error names neither the table nor its kind."""
    from pyspark.errors import AnalysisException

    tablefmt.create(uri, "id BIGINT, n INT")
    by_catalog(spark, uri)
    with pytest.raises(AnalysisException, match="extra") as caught:
        spark.sql("INSERT INTO t (id, extra) VALUES (1, 2)")
    assert "\tat " not in str(caught.value)
    assert tablefmt.open(uri).version == 0


@pytest.mark.parametrize("write", [to_function, to_format])
def test_a_partition_column_that_is_not_there_is_named(spark: Any, uri: str, write: Write) -> None:
    frame = spark.range(1).selectExpr("id", "id AS p")
    call = lambda: write(frame, uri, by=("q",))  # noqa: E731
    assert refused(call, SchemaMismatchError, "'q'", "'id', 'p'").columns == ["q"]
    assert everything(uri) == []
    to_function(frame, uri, by=("p",))
    call = lambda: write(frame, uri, by=("id",))  # noqa: E731
    refused(call, SchemaMismatchError, "partitioned by 'p'", "leave partition_by out")


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TABLE t (id BIGINT, p INT) USING tablefmt OPTIONS (path '{}') PARTITIONED BY (q)",
        "CREATE TABLE t USING tablefmt OPTIONS (path '{}') PARTITIONED BY (q) AS SELECT 1 AS id",
    ],
)
def test_a_partition_column_that_is_not_there_is_named_in_sql(
    spark: Any, uri: str, statement: str
) -> None:
    with pytest.raises(Exception, match="q") as caught:
        spark.sql(statement.format(uri))
    assert "\tat " not in str(caught.value)
    assert everything(uri) == []
    assert not spark.catalog.tableExists("t")


OURS = ["_change_type", "_commit_version", "_commit_timestamp", "_metadata", "__p", "_file_path"]


@pytest.mark.share(4)
@pytest.mark.parametrize("write", WRITES)
def test_columns_named_like_ours_hold_what_the_user_put_there(
    spark: Any, uri: str, write: Write
) -> None:
    names = ", ".join(f"concat('v', id) AS `{name}`" for name in OURS)
    frame = spark.sql(f"SELECT id, {names}, id % 2 AS p FROM range(4)")
    if write is to_view:
        to_function(frame.where("false"), uri, by=("p",))
    write(frame, uri, by=("p",))
    wanted = [(i, *(f"v{i}" for _ in OURS), i % 2) for i in range(4)]
    for read in READS:
        found = read(spark, uri)
        assert found.columns == ["id", *OURS, "p"]
        assert sorted(map(tuple, found.collect())) == wanted
        for name in OURS:
            (row,) = found.where(f"`{name}` = 'v2' AND p = 0").select("id", name).collect()
            assert tuple(row) == (2, "v2")


@pytest.mark.share(2)
@pytest.mark.parametrize("write", [to_format, to_catalog])
def test_two_sessions_that_write_at_once_both_commit(spark: Any, uri: str, write: Write) -> None:
    """CMT-6."""
    to_function(spark.range(0, 1), uri)
    sessions = [spark, spark.newSession()]
    tablefmt.spark.register(sessions[1])
    by_catalog(spark, uri)
    raised: list[BaseException] = []
    start = threading.Barrier(2)

    def work(at: int) -> None:
        try:
            start.wait()
            for i in range(4):
                first = 1000 * (at + 1) + 10 * i
                write(sessions[at].range(first, first + 10), uri)
        except BaseException as error:
            raised.append(error)

    threads = [threading.Thread(target=work, args=(at,)) for at in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert raised == []
    table = tablefmt.open(uri)
    assert table.version == 9
    assert sorted(table.to_arrow()["id"].to_pylist()) == [
        0, *range(1000, 1040), *range(2000, 2040)
    ]  # fmt: skip


NO_FRAME = r"expected a DataFrame.*: make one|the source of a MERGE is the text 'x': expected rows"


def test_what_is_no_dataframe_is_refused(spark: Any, uri: str) -> None:
    table = tablefmt.spark.create(spark, uri, "id BIGINT")
    calls = [
        lambda given: table.append(given),
        lambda given: table.overwrite(given),
        lambda given: table.merge(given, "t.id = s.id").when_matched_delete().execute(),
        lambda given: tablefmt.spark.write(given, uri),
    ]
    for call, given in itertools.product(calls, ("x", None, [1])):
        with pytest.raises(SchemaMismatchError, match=NO_FRAME):
            call(given)
    assert table.table.refresh().version == 0


def test_another_session_of_a_jvm_that_is_not_registered_says_so_in_sql(
    spark: Any, uri: str
) -> None:
    """It has the classes, and not the catalog."""
    tablefmt.create(uri, "id BIGINT")
    other = spark.newSession()
    other.sql(f"CREATE TABLE t USING tablefmt OPTIONS (path '{uri}')")
    words = ("tablefmt.spark.register(spark)",)
    refused(lambda: other.sql("SELECT * FROM t").collect(), UnsupportedFeatureError, *words)


def test_a_relative_path_in_create_table_is_refused(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark's entry would point below the warehouse, and the table would be elsewhere."""
    monkeypatch.chdir(tmp_path)
    for text in (
        "(id INT) USING tablefmt LOCATION 'orders'",
        "(id INT) USING tablefmt OPTIONS (path '~/orders')",
        "USING tablefmt OPTIONS (path 'orders') AS SELECT 1 AS id",
    ):
        call = lambda text=text: spark.sql(f"CREATE TABLE relative {text}")  # noqa: E731
        refused(call, UnsupportedFeatureError, "relative path", "absolute path")
    assert not spark.catalog.tableExists("relative")
    assert list(tmp_path.iterdir()) == []


def test_a_relative_path_in_place_of_a_name_says_how_it_is_done(spark: Any) -> None:
    call = lambda: spark.sql("SELECT * FROM tablefmt.`orders`")  # noqa: E731
    refused(call, UnsupportedFeatureError, "CREATE TEMPORARY VIEW")
