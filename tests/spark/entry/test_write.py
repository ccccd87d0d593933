"""Modes, options and misfits of a write."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tablefmt
import tablefmt.spark
from tablefmt.errors import (
    ConstraintViolationError,
    InvalidRangeError,
    SchemaMismatchError,
    TableExistsError,
    UnsupportedFeatureError,
)
from tests.spark.looking import data_files, everything, frame_from, rows_of


def frame_of(spark: Any, rows: list[tuple[Any, ...]], ddl: str = "id int, p string") -> Any:
    return spark.createDataFrame(rows, ddl)


def content(spark: Any, uri: str) -> list[tuple[Any, ...]]:
    found = sorted(map(tuple, tablefmt.spark.read(spark, uri).collect()))
    assert rows_of(tablefmt.open(uri).to_arrow()) == rows_of(tablefmt.spark.read(spark, uri))
    return found


def test_modes_do_what_they_say(spark: Any, uri: str) -> None:
    one, two = frame_of(spark, [(1, "a")]), frame_of(spark, [(2, "b")])
    assert tablefmt.spark.write(one, uri, mode="error").version == 1
    with pytest.raises(TableExistsError):
        tablefmt.spark.write(two, uri, mode="errorifexists")
    assert tablefmt.spark.write(two, uri, mode="ignore").no_op
    assert content(spark, uri) == [(1, "a")]
    assert tablefmt.spark.write(two, uri).version == 2
    assert content(spark, uri) == [(1, "a"), (2, "b")]
    assert tablefmt.spark.write(two, uri, mode="Overwrite").operation == "OVERWRITE"  # type: ignore[arg-type]
    assert content(spark, uri) == [(2, "b")]
    with pytest.raises(InvalidRangeError, match="upsert"):
        tablefmt.spark.write(two, uri, mode="upsert")  # type: ignore[arg-type]


def test_the_first_write_creates_the_table_whatever_the_mode(spark: Any, tmp_path: Path) -> None:
    for mode in ("append", "overwrite", "error", "ignore"):
        uri = str(tmp_path / mode)
        tablefmt.spark.write(frame_of(spark, [(1, "a")]), uri, mode=mode, partition_by="p")
        assert content(spark, uri) == [(1, "a")]
        assert tablefmt.open(uri).partition_by == ["p"]


def test_dynamic_overwrite_replaces_the_partitions_of_the_new_rows(spark: Any, uri: str) -> None:
    old = [(1, "a"), (2, "b"), (3, None)]
    tablefmt.spark.write(frame_of(spark, old), uri, partition_by=["p"])
    new = frame_of(spark, [(4, None), (5, "c")])
    tablefmt.spark.write(new, uri, mode="overwrite", partitionOverwriteMode="DYNAMIC")
    wanted = {(1, "a"), (2, "b"), (4, None), (5, "c")}
    assert set(map(tuple, tablefmt.spark.read(spark, uri).collect())) == wanted


def test_replace_where_replaces_the_partitions_it_names(spark: Any, uri: str) -> None:
    tablefmt.spark.write(frame_of(spark, [(1, "a"), (2, "b")]), uri, partition_by=["p"])
    before = data_files(uri)
    with pytest.raises(ConstraintViolationError, match="1 new rows"):
        tablefmt.spark.write(
            frame_of(spark, [(3, "a")]), uri, mode="overwrite", replaceWhere="p = 'b'"
        )
    assert data_files(uri) == before
    tablefmt.spark.write(
        frame_of(spark, [(3, "b"), (4, "b")]), uri, mode="overwrite", replace_where="p = 'b'"
    )
    assert content(spark, uri) == [(1, "a"), (3, "b"), (4, "b")]
    tablefmt.spark.write(frame_of(spark, []), uri, mode="overwrite", replaceWhere="id = 3")
    assert content(spark, uri) == [(1, "a"), (4, "b")]


def test_nothing_to_write_makes_no_version_and_no_file(spark: Any, uri: str) -> None:
    """Files without rows are left out of the log, and go."""
    tablefmt.spark.write(frame_of(spark, []), uri, partition_by=["p"])
    assert tablefmt.open(uri).version == 0
    assert data_files(uri) == []
    mixed = frame_of(spark, [(1, "a")]).repartition(4).union(frame_of(spark, []))
    tablefmt.spark.write(mixed, uri)
    assert len(data_files(uri)) == 1
    assert tablefmt.spark.write(frame_of(spark, []), uri).no_op
    assert tablefmt.spark.write(frame_of(spark, []), uri, mode="overwrite").version == 2
    assert content(spark, uri) == []
    assert tablefmt.spark.read(spark, uri).schema.names == ["id", "p"]


def test_only_named_data_files_stay_below_data(spark: Any, uri: str) -> None:
    """DAT-6: no marker, no hidden checksum file, no temporary folder."""
    tablefmt.spark.write(spark.range(100).repartition(3), uri)
    named = tablefmt.open(uri).context.view.snapshot().files["path"].to_pylist()
    assert data_files(uri) == sorted(f"{uri}/{path}" for path in named)
    assert not list(Path(uri).rglob("_temporary"))


def test_an_application_version_is_applied_once(spark: Any, uri: str) -> None:
    """CFL-7."""
    frame = frame_of(spark, [(1, "a")])
    first = tablefmt.spark.write(frame, uri, txnAppId="job", txnVersion=7, userMetadata="note")
    again = tablefmt.spark.write(frame, uri, application=("job", 7))
    assert (first.already_applied, again.already_applied) == (False, True)
    assert again.version == first.version == 1
    assert tablefmt.open(uri).history().column("userMetadata")[0].as_py() is not None
    assert content(spark, uri) == [(1, "a")]


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"partitionBy": "p"}, UnsupportedFeatureError),
        ({"replaceWhere": "p = 'a'"}, InvalidRangeError),
        ({"txnAppId": "x"}, InvalidRangeError),
        ({"txnAppId": "x", "txnVersion": "one"}, InvalidRangeError),
        ({"partitionOverwriteMode": "sometimes", "mode": "overwrite"}, InvalidRangeError),
        ({"mergeSchema": "perhaps"}, InvalidRangeError),
        ({"overwriteSchema": True}, InvalidRangeError),
        ({"deadline": "soon"}, InvalidRangeError),
    ],
)
def test_options_that_make_no_sense_are_refused_by_name(
    spark: Any, uri: str, options: dict[str, Any], error: type[Exception]
) -> None:
    with pytest.raises(error) as caught:
        tablefmt.spark.write(frame_of(spark, [(1, "a")]), uri, **options)
    name = next(n for n in options if n != "mode")
    assert name.casefold()[:3] in str(caught.value).casefold()
    assert everything(uri) == []


def test_columns_go_by_name_and_widen_as_spark_inserts(spark: Any, uri: str) -> None:
    """DAT-2."""
    tablefmt.create(uri, "id BIGINT, s STRUCT<a: BIGINT, b: STRING>, d DOUBLE, t STRING")
    frame = spark.sql("select named_struct('B', 'x', 'A', 1) as S, 2 as ID, 3 as t")
    tablefmt.spark.write(frame, uri)
    assert tablefmt.open(uri).to_arrow().to_pylist() == [
        {"id": 2, "s": {"a": 1, "b": "x"}, "d": None, "t": "3"}
    ]


@pytest.mark.parametrize(
    ("query", "columns"),
    [
        ("select 1L as id, 1 as x", ["x"]),
        ("select 'a' as id", ["id"]),
        ("select 1L as id, 2L as ID", ["id", "ID"]),
        ("select named_struct('a', 1) as s, 1L as id", None),
        ("select 1L as id, named_struct('a', 1, 'z', 2) as s", ["s.z"]),
        ("select named_struct('a', 1) as s", ["id"]),
    ],
)
def test_columns_that_do_not_fit_are_named(
    spark: Any, uri: str, query: str, columns: list[str] | None
) -> None:
    """DAT-2, DAT-3."""
    tablefmt.create(uri, "id BIGINT NOT NULL, s STRUCT<a: BIGINT>")
    if columns is None:
        tablefmt.spark.write(spark.sql(query), uri)
        return
    with pytest.raises(SchemaMismatchError) as caught:
        tablefmt.spark.write(spark.sql(query), uri)
    assert caught.value.columns == columns
    assert data_files(uri) == []


@pytest.mark.parametrize(
    ("ddl", "query"),
    [
        ("id BIGINT NOT NULL", "select if(id = 7, null, id) as id from range(10)"),
        (
            "id BIGINT, s STRUCT<a: BIGINT NOT NULL>",
            "select id, named_struct('a', if(id = 7, null, id)) as s from range(10)",
        ),
        (
            "id BIGINT, s ARRAY<STRUCT<a: BIGINT NOT NULL>>",
            "select id, array(named_struct('a', if(id = 7, null, id))) as s from range(10)",
        ),
    ],
)
def test_null_in_a_not_null_column_leaves_nothing(
    spark: Any, uri: str, ddl: str, query: str
) -> None:
    """DAT-3."""
    tablefmt.create(uri, ddl)
    with pytest.raises(ConstraintViolationError, match="NOT NULL"):
        tablefmt.spark.write(spark.sql(query), uri)
    assert data_files(uri) == []
    tablefmt.spark.write(spark.sql(query).where("id != 7"), uri)
    assert tablefmt.open(uri).to_arrow().num_rows == 9


def test_a_spark_table_writes_reads_and_tells_its_history(spark: Any, uri: str) -> None:
    table = tablefmt.spark.create(spark, uri, "id BIGINT, p STRING", partition_by=["p"])
    table.append(frame_of(spark, [(1, "a"), (2, "b")]))
    table.overwrite(frame_of(spark, [(3, "b")]), where="p = 'b'")
    table.overwrite(frame_of(spark, [(4, "a")]), dynamic_partitions=True, userMetadata={"k": 1})
    assert sorted(map(tuple, table.to_df().collect())) == [(3, "b"), (4, "a")]
    assert sorted(map(tuple, table.to_df(version=1).collect())) == [(1, "a"), (2, "b")]
    operations = [row.operation for row in table.history().collect()]
    assert operations == ["OVERWRITE", "OVERWRITE", "WRITE", "CREATE TABLE"]
    assert tablefmt.spark.open(spark, uri).table.version == 3


def test_bounds_of_spark_files_are_those_of_arrow_files(spark: Any, uri: str) -> None:
    given = pa.table({"id": [3, 1, 2], "s": ["b", None, "a"], "d": [1.5, -2.5, 0.0]})
    table = tablefmt.create(uri, given.schema)
    table.append(given)
    tablefmt.spark.write(frame_from(spark, given).coalesce(1), uri)
    files = table.refresh().context.view.snapshot().files
    bounds = [n for n in files.column_names if n.startswith(("lower.", "upper.", "nulls."))]
    assert len(bounds) == 9
    by_arrow, by_spark = files.select(bounds).to_pylist()
    assert by_arrow == by_spark
