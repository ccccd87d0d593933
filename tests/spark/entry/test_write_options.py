"""Options that shape data files: rows a file, bytes a file, shuffles, codecs, order."""

from __future__ import annotations

import inspect
import random
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tablefmt
import tablefmt.spark
from tablefmt.errors import InvalidRangeError, SchemaMismatchError
from tablefmt.model.log_entry import Metadata
from tablefmt.model.schema import Field, Primitive, Schema
from tablefmt.spark.backends.backend_protocol import Layout, layout
from tablefmt.spark.spark_options import FileOptions, RangeKeywords, parse_options
from tablefmt.table import Table
from tests.spark.looking import data_files, everything
from tests.tables import ids


def rows_in_files(uri: str) -> list[int]:
    return sorted(pq.read_metadata(path).num_rows for path in data_files(uri))


@pytest.fixture
def conf(spark: Any) -> Iterator[Any]:
    """Settings of the session, put back after the test."""
    kept: dict[str, Any] = {}

    def change(name: str, value: Any) -> None:
        kept.setdefault(name, spark.conf.get(name, None))
        spark.conf.set(name, value)

    yield change
    for name, value in kept.items():
        if value is None:
            spark.conf.unset(name)
        else:
            spark.conf.set(name, value)


def test_rows_a_file_are_limited_by_option_or_session(spark: Any, uri: str, conf: Any) -> None:
    frame = spark.range(0, 1000, 1, 1)
    folded: dict[str, Any] = {"maxrecordsperfile": "300"}
    tablefmt.spark.write(frame, uri, **folded)
    assert rows_in_files(uri) == [100, 300, 300, 300]
    conf("spark.sql.files.maxRecordsPerFile", 600)
    tablefmt.spark.write(frame, uri, mode="overwrite")
    assert rows_in_files(uri) == [100, 300, 300, 300, 400, 600]
    tablefmt.spark.write(frame, uri, max_records_per_file=1000)
    assert rows_in_files(uri)[-1] == 1000
    assert ids(uri) == sorted([*range(1000), *range(1000)])


def test_files_roll_at_a_size_once_the_table_tells_how_large_a_row_is(spark: Any, uri: str) -> None:
    frame = spark.range(0, 40_000, 1, 1).selectExpr("id", "uuid() as u")
    tablefmt.spark.write(frame, uri)
    (first,) = data_files(uri)
    size = pq.read_metadata(first).serialized_size + sum(
        pq.read_metadata(first).row_group(0).column(i).total_compressed_size for i in range(2)
    )
    tablefmt.spark.write(frame, uri, targetFileSize=f"{size // 4 // 1024}kb")
    found = [rows for rows in rows_in_files(uri) if rows < 40_000]
    assert sum(found) == 40_000
    assert len(found) in (4, 5)
    assert max(found) < 11_500


def test_both_backends_have_the_same_keywords_of_changes() -> None:
    of_table = list(inspect.signature(Table.changes).parameters)[1:]
    assert list(RangeKeywords.__annotations__) == of_table


def test_what_is_said_of_files_by_options_property_session_and_table() -> None:
    """An option comes before a property; the least of all limits holds."""
    schema = Schema((Field(1, "id", "id", Primitive("long")),), 1)
    plain = Metadata(schema, (), {})
    asked = Metadata(schema, (), {"optimizeWrite": "true", "targetFileSize": "1000"})
    assert layout(FileOptions(), plain, None) == Layout()
    assert layout(FileOptions(), plain, None, 7) == Layout(rows_max=7)
    assert layout(FileOptions(max_records=9), plain, None, 7) == Layout(rows_max=9)
    assert layout(FileOptions(), asked, None) == Layout(shuffle_bytes=3000)
    assert layout(FileOptions(optimize=False), asked, None) == Layout()
    wanted = FileOptions(optimize=True, target_file_size=50, compression="gzip")
    assert layout(wanted, asked, None) == Layout("gzip", None, 150)


@pytest.mark.parametrize(
    ("text", "size"),
    [("1", 1), (" 128MB ", 128 << 20), ("128 mib", 128 << 20), ("1g", 1 << 30), ("5kb", 5120)],
)
def test_sizes_are_written_as_in_spark(text: str, size: int) -> None:
    assert parse_options({"TARGETFILESIZE": text}).files.target_file_size == size


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("targetFileSize", "0"),
        ("targetFileSize", "-1"),
        ("targetFileSize", "1.5gb"),
        ("targetFileSize", "9999tb"),
        ("targetFileSize", "big"),
        ("maxRecordsPerFile", "many"),
        ("maxRecordsPerFile", "99999999999999999999"),
        ("optimizeWrite", "yes"),
        ("compression", "zip"),
    ],
)
def test_a_value_that_makes_no_sense_is_refused_by_the_options_name(
    spark: Any, uri: str, name: str, value: str
) -> None:
    option: dict[str, Any] = {name: value}
    with pytest.raises(InvalidRangeError, match=name):
        tablefmt.spark.write(spark.range(3), uri, **option)
    assert everything(uri) == []


@pytest.mark.parametrize(
    ("option", "codec"),
    [
        (None, "ZSTD"),
        ("snappy", "SNAPPY"),
        ("GZIP", "GZIP"),
        ("lz4_raw", "LZ4"),
        ("none", "UNCOMPRESSED"),
    ],
)
def test_the_codec_is_zstd_unless_another_is_asked_for(
    spark: Any, uri: str, option: str | None, codec: str
) -> None:
    """DAT-1."""
    tablefmt.spark.write(spark.range(0, 1000, 1, 1), uri, compression=option)
    (path,) = data_files(uri)
    assert pq.read_metadata(path).row_group(0).column(0).compression == codec
    assert ids(uri) == list(range(1000))


@pytest.mark.share(2)
@pytest.mark.parametrize("by", ["option", "property"])
def test_optimized_writes_make_a_file_a_partition_not_a_file_a_task(
    spark: Any, uri: str, by: str
) -> None:
    """The session has adaptive execution off, and keeps it."""
    properties = {"optimizeWrite": True} if by == "property" else {}
    tablefmt.create(uri, "id BIGINT, p BIGINT", partition_by=["p"], properties=properties)
    frame = spark.range(0, 8000, 1, 8).selectExpr("id", "id % 5 as p")
    plain = tablefmt.spark.write(frame, uri, optimizeWrite="false")
    assert plain.metrics["numFiles"] == 40
    options: dict[str, Any] = {"optimizewrite": "TRUE"} if by == "option" else {}
    optimized = tablefmt.spark.write(frame, uri, mode="overwrite", **options)
    assert optimized.metrics["numFiles"] == 5
    assert ids(uri) == list(range(8000))
    assert spark.conf.get("spark.sql.adaptive.enabled") == "false"


def test_optimized_writes_gather_small_tasks_and_split_a_hot_partition(
    spark: Any, uri: str
) -> None:
    small = spark.range(0, 800, 1, 8)
    assert tablefmt.spark.write(small, uri, optimizeWrite=True).metrics["numFiles"] == 1
    hot = uri + "2"
    frame = spark.range(0, 400_000, 1, 8).selectExpr(
        "id", "uuid() as u", "if(id % 1000 = 0, id % 3, 7) as p"
    )
    commit = tablefmt.spark.write(
        frame, hot, partition_by=["p"], optimizeWrite=True, targetFileSize="1500kb"
    )
    found = rows_in_files(hot)
    assert sum(found) == commit.metrics["numOutputRows"] == 400_000
    assert 3 <= sum(rows > 10_000 for rows in found) <= 16
    assert max(found) < 300_000


@pytest.mark.share(2)
@pytest.mark.parametrize("sort", ["global", "local"])
def test_sorted_input_stays_sorted_inside_each_file(spark: Any, uri: str, sort: str) -> None:
    """Grouping rows by partition does not undo the order of the query."""
    shuffled = list(range(30_000))
    random.Random(5).shuffle(shuffled)
    given = spark.createDataFrame(pa.table({"x": shuffled})).selectExpr("x", "x % 3 as p")
    ordered = given.sort("x") if sort == "global" else given.sortWithinPartitions("x")
    tablefmt.spark.write(ordered, uri, partition_by=["p"])
    for path in data_files(uri):
        found = pq.read_table(path)["x"].to_pylist()
        assert found == sorted(found)
    tablefmt.spark.write(ordered, uri + "2")
    for path in data_files(uri + "2"):
        found = pq.read_table(path)["x"].to_pylist()
        assert found == sorted(found)


def test_a_partition_column_that_is_not_there_is_named(spark: Any, uri: str) -> None:
    with pytest.raises(SchemaMismatchError, match="'q'") as caught:
        tablefmt.spark.write(spark.range(3), uri, partition_by=["q"])
    assert caught.value.columns == ["q"]
    assert everything(uri) == []


OURS = ["_change_type", "_commit_version", "_commit_timestamp", "_metadata", "__p"]


@pytest.mark.share(3)
@pytest.mark.parametrize("name", OURS)
def test_columns_named_like_ours_hold_what_the_user_put_there(
    spark: Any, uri: str, name: str
) -> None:
    frame = spark.range(4).selectExpr("id", f"concat('v', id) as `{name}`", "id % 2 as p")
    tablefmt.spark.write(frame, uri, partition_by=["p"])
    wanted = [(i, f"v{i}", i % 2) for i in range(4)]
    assert sorted(map(tuple, tablefmt.spark.read(spark, uri).collect())) == wanted
    found = tablefmt.spark.read(spark, uri).where(f"`{name}` = 'v2'").select("id", name)
    assert list(map(tuple, found.collect())) == [(2, "v2")]
