"""Work that the arrow backend sends to Spark's workers, and that backend on a classic session."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tablefmt
from tablefmt.errors import InvalidRangeError, UnsupportedFeatureError
from tablefmt.model.log_entry import AddedFiles
from tablefmt.session.transaction_snapshot import joined
from tablefmt.spark import read, write
from tablefmt.spark.backends.arrow.arrow_tasks import (
    TASK_BYTES_MAX,
    TASK_BYTES_MIN,
    TASKS_WANTED,
    ChangesTask,
    groups_of,
    packed,
    parts_of,
    unpacked,
)
from tablefmt.spark.backends.python_workers import described, read_back
from tablefmt.spark.spark_options import parse_read_options
from tests.spark.looking import data_files, rows_of


def files_of(sizes: list[int]) -> pa.Table:
    return pa.table(
        {
            "path": [f"data/{i}" for i in range(len(sizes))],
            "size": pa.array(sizes, pa.int64()),
            "rows": pa.array([1] * len(sizes), pa.int64()),
            "footer": pa.array([7] * len(sizes), pa.int64()),
            "lower.1": pa.array(sizes, pa.int64()),
        }
    )


@pytest.mark.parametrize(
    ("sizes", "counts"),
    [
        ([], []),
        ([1] * 1000, [1000]),
        ([TASK_BYTES_MIN] * 3, [1, 1, 1]),
        ([TASK_BYTES_MAX * 3, 1, 1], [1, 2]),
        ([TASK_BYTES_MIN // 2] * 4, [2, 2]),
    ],
)
def test_files_make_groups_that_are_worth_a_task(sizes: list[int], counts: list[int]) -> None:
    groups = groups_of(files_of(sizes))
    assert [g.num_rows for g in groups] == counts
    paths = [p for g in groups for p in unpacked(packed(g))["path"].to_pylist()]
    assert paths == files_of(sizes)["path"].to_pylist()


def test_a_file_out_of_which_several_commits_took_rows_is_in_one_part() -> None:
    """INC-5: the part has every commit's rows. Other work of a commit is a part of its own."""
    table = tablefmt.create("memory://parts/t", "id BIGINT")
    for first in (0, 100):
        table.append(pa.table({"id": list(range(first, first + 50))}))
    for n in range(3):
        table.delete(f"id = {n} OR id = {100 + n}")
    table.append(pa.table({"id": [7]}))
    parts = parts_of(table.changes(after_version=2).file_changes)
    paths = table.refresh().scan().files()["path"].to_pylist()
    found = [[(c.version, c.files["path"].to_pylist()) for c in part] for part in parts]
    shared = [(version, paths[:2]) for version in (3, 4, 5)]
    assert sorted(found) == [shared, [(6, paths[2:])]]
    task = ChangesTask(table.changes(after_version=2).answer)
    batches = [batch for part in parts for batch in task.batches(part)]
    rows = [tuple(row.values())[:3] for batch in batches for row in batch.to_pylist()]
    expected = [(100 * at + n, "delete", 3 + n) for n in range(3) for at in range(2)]
    assert sorted(rows) == sorted([*expected, (7, "insert", 6)])


def test_many_files_make_about_as_many_tasks_as_wanted() -> None:
    groups = groups_of(files_of([TASK_BYTES_MIN // 4] * 4 * TASKS_WANTED * 2))
    assert TASKS_WANTED // 2 <= len(groups) <= TASKS_WANTED * 2


def test_what_tasks_wrote_is_put_together_column_by_column() -> None:
    """ADD-1, VAL-4: a column that one task lacks is unknown for its files."""
    one = AddedFiles({"path": ["a", "b"], "lower.1": [1, None], "partition.2": ["x", None]})
    two = AddedFiles({"path": ["c"], "upper.3": ["z"], "partition.2": ["é"]})
    parts = [read_back(described(part)) for part in (None, one, two, None)]
    added = joined(parts)
    assert added is not None
    assert dict(added.columns) == {
        "path": ["a", "b", "c"],
        "lower.1": [1, None, None],
        "partition.2": ["x", None, "é"],
        "upper.3": [None, None, "z"],
    }
    assert joined([None, None]) is None


def test_read_options_go_by_name_and_ignore_case() -> None:
    options = parse_read_options(
        {"VERSIONASOF": " 3 ", "Path": "/t", "storage.client_kwargs": '{"a": 1}',
         "Storage.key": "k", "storage.anon": "true", "readChangeFeed": "false"},
        "UTC",
    )  # fmt: skip
    assert (options.version, options.path, options.timestamp) == (3, "/t", None)
    assert options.storage_options == {"client_kwargs": {"a": 1}, "key": "k", "anon": True}
    hidden = {"storage.access.key": "k", "STORAGE.Secret.Key": "s", "storage.session.token": "t"}
    found = {"key": "k", "secret": "s", "token": "t"}
    assert parse_read_options(hidden, None).storage_options == found
    nested = parse_read_options(
        {"storage.client_kwargs.region_name": "r", "storage.client_kwargs": '{"verify": false}',
         "storage.config_kwargs.s3.addressing_style": "path", "storage.secret": "{0",
         "storage.config_kwargs.max_pool_connections": "50", "storage.password": "true"},
        None,
    )  # fmt: skip
    assert nested.storage_options == {
        "client_kwargs": {"region_name": "r", "verify": False},
        "config_kwargs": {"s3": {"addressing_style": "path"}, "max_pool_connections": 50},
        "secret": "{0",
        "password": "true",
    }
    asked = parse_read_options({"timestampAsOf": "2024-01-01"}, "America/New_York")
    assert asked.timestamp == "2024-01-01T05:00:00.000000Z"


@pytest.mark.parametrize(
    ("options", "kind", "word"),
    [
        ({"versionAsOf": "1", "timestampasof": "2024"}, InvalidRangeError, "both"),
        ({"storage.a": "x", "storage.a.b": "y"}, InvalidRangeError, "a.b is both"),
        ({"storage.a.b": "y", "storage.a": "x"}, InvalidRangeError, "a is both"),
        ({"storage.a..b": "y"}, InvalidRangeError, "empty"),
        ({"version": "1"}, UnsupportedFeatureError, "'version'"),
        ({"endingBoundInclusive": "true"}, InvalidRangeError, "readChangeFeed=true as well"),
        ({"maxFilesPerTrigger": "1"}, UnsupportedFeatureError, "maxFilesPerTrigger"),
    ],
)
def test_read_options_that_make_no_sense_are_refused_by_name(
    options: dict[str, str], kind: type[Exception], word: str
) -> None:
    with pytest.raises(kind, match=word):
        parse_read_options(options, "UTC")


@pytest.fixture
def arrow_alone(use_backend: Callable[..., None]) -> None:
    use_backend("arrow")


@pytest.mark.soak
@pytest.mark.usefixtures("arrow_alone")
def test_a_classic_session_reads_and_writes_by_arrow(spark: Any, uri: str) -> None:
    """The same rows as the native backend; every attempt's files have names of their own."""
    rows = spark.range(0, 1000, 1, 4).selectExpr("id", "id % 3 as p", "string(id) as s")
    commit = write(rows, uri, partition_by=["p"])
    assert commit.metrics["numOutputRows"] == 1000
    assert len(data_files(uri)) == commit.metrics["numFiles"] == 12
    write(spark.range(5).selectExpr("id", "id % 3 as p"), uri, mode="overwrite")
    assert rows_of(read(spark, uri, version=1)) == rows_of(rows)
    assert rows_of(read(spark, uri)) == rows_of(tablefmt.open(uri).to_arrow())
    plan = read(spark, uri, version=1)._jdf.queryExecution().toString()
    assert f"tablefmt_arrow_{tablefmt.open(uri).id}_at1_12_files" in plan


@pytest.mark.usefixtures("arrow_alone")
def test_options_of_files_hold_by_arrow_too(spark: Any, uri: str) -> None:
    rows = spark.range(0, 1000, 1, 1)
    commit = write(rows, uri, maxRecordsPerFile=300, compression="snappy")
    assert commit.metrics["numFiles"] == 4
    footers = [pq.read_metadata(path) for path in data_files(uri)]
    assert sorted(f.num_rows for f in footers) == [100, 300, 300, 300]
    assert {f.row_group(0).column(0).compression for f in footers} == {"SNAPPY", "UNCOMPRESSED"}
    scattered = spark.range(0, 100, 1, 4).selectExpr("id", "id % 2 as p")
    other = uri + " optimized"
    commit = write(scattered, other, partition_by=["p"], optimizeWrite="true")
    assert commit.metrics["numFiles"] == 2
    assert sorted(tablefmt.open(other).to_arrow()["id"].to_pylist()) == list(range(100))


def test_what_travels_to_workers_holds_no_more_than_it_needs(uri: str) -> None:
    """The groups of a reader go as partitions, a task each."""
    from tablefmt.spark.entry.python_source import TablefmtReader

    table = tablefmt.create(uri, "id BIGINT")
    for i in range(3):
        table.append(pa.table({"id": [i]}))
    snapshot = table.context.view.snapshot()
    reader = TablefmtReader(table.context.store, snapshot)
    (partition,) = reader.partitions()
    there = pickle.loads(pickle.dumps(reader))
    assert there.groups == []
    assert sorted(v for b in there.read(partition) for v in b["id"].to_pylist()) == [0, 1, 2]


@pytest.mark.usefixtures("arrow_alone")
def test_a_query_of_the_table_itself_is_no_blind_append_by_arrow(spark: Any, uri: str) -> None:
    """CFL-8: the text of the plan shows the read."""
    write(spark.range(3), uri)
    table = tablefmt.open(uri)
    for query, blind in (
        (read(spark, uri).selectExpr("id + 10 AS id"), False),
        (read(spark, uri, version=1), True),
        (spark.range(2), True),
    ):
        write(query, uri)
        assert table.history(1).to_pylist()[0]["isBlindAppend"] is blind
    assert sorted(table.refresh().to_arrow()["id"].to_pylist()) == sorted(
        [0, 1, 2, 10, 11, 12, 0, 1, 2, 0, 1]
    )
