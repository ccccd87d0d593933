"""Compaction and clustering by Spark: the same rows in other files, even if tasks fail."""

from __future__ import annotations

import datetime as dt
import decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import tablefmt
import tablefmt.spark
from tablefmt.errors import (
    CorruptDataError,
    InvalidPredicateError,
    SchemaMismatchError,
    UnsupportedFeatureError,
)
from tablefmt.store.local_store import LocalStore
from tablefmt.store.store_wrappers import ForwardingStore
from tests.spark.looking import data_files, rows_of

D = decimal.Decimal
SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("p", pa.string()),
        ("f", pa.float64()),
        ("d", pa.decimal128(20, 3)),
        ("t", pa.timestamp("us", "UTC")),
        ("n", pa.timestamp("us")),
        ("b", pa.binary()),
        ("a.b c", pa.date32()),
        ("l", pa.list_(pa.struct([("x", pa.int32()), ("y", pa.map_(pa.string(), pa.bool_()))]))),
    ]
)


def rows(first: int, count: int) -> pa.Table:
    numbers = [int(n) for n in np.random.default_rng(first).permutation(count) + first]
    moment = dt.datetime(2026, 3, 29, 1, 30)
    columns = [
        numbers,
        [None if n % 4 == 0 else f"p{n % 2}" for n in numbers],
        [float("nan") if n % 9 == 0 else -0.0 if n % 9 == 1 else n / 4 for n in numbers],
        [None if n % 5 == 0 else D(n) / 8 for n in numbers],
        [(moment + dt.timedelta(minutes=n)).replace(tzinfo=dt.timezone.utc) for n in numbers],
        [moment + dt.timedelta(minutes=n) for n in numbers],
        [None if n % 7 == 0 else bytes([n % 256, 0]) for n in numbers],
        [dt.date(2026, 1, 1) + dt.timedelta(days=n % 400) for n in numbers],
        [None if n % 3 == 0 else [{"x": n, "y": [("k", True)]}, None] for n in numbers],
    ]
    return pa.table(columns, schema=SCHEMA)


@pytest.fixture
def uri(tmp_path: Path) -> str:
    """Return a table of three partitions and fifteen files, with deleted rows."""
    place = str(tmp_path / "t a")
    table = tablefmt.create(place, SCHEMA, partition_by=["p"])
    for n in range(5):
        table.append(rows(100 * n, 100))
    table.delete("id % 11 = 0")
    return place


def in_order(uri: str) -> list[str]:
    """Rows partition by partition, in the order of a scan."""
    table = tablefmt.open(uri)
    parts = (table.to_arrow(where=w) for w in ("p IS NULL", "p = 'p0'", "p = 'p1'"))
    return [repr(tuple(row.items())) for part in parts for row in part.to_pylist()]


@pytest.mark.share(2)
@pytest.mark.parametrize("kind", ["minor", "major"])
def test_a_compaction_by_spark_is_the_one_by_arrow(spark: Any, uri: str, kind: str) -> None:
    """CMP-1, CMP-2, LIN-1, TIM-2: the same groups, the same rows in the same order."""
    before, plan = in_order(uri), tablefmt.open(uri).compact(kind, dry_run=True)  # type: ignore[call-overload]
    table = tablefmt.spark.open(spark, uri)
    assert str(table.compact(kind, dry_run=True)) == str(plan)  # type: ignore[call-overload]
    commit = table.compact(kind)  # type: ignore[call-overload]
    assert (commit.operation, commit.version) == (f"COMPACT {kind.upper()}", 7)
    assert commit.metrics["numRemovedFiles"] == len(data_files(uri)) - 3
    assert commit.metrics["numAddedFiles"] == 3
    assert in_order(uri) == before
    assert rows_of(table.to_df(), SCHEMA) == rows_of(tablefmt.open(uri).to_arrow(version=6))
    assert table.compact(kind).no_op  # type: ignore[call-overload]
    live = tablefmt.open(uri).context.view.snapshot().files
    assert live["deleted"].to_pylist() == [0, 0, 0]
    assert pc.min(live["lower.1"]).as_py() == 1
    assert live["nans.3"].to_pylist() != [0, 0, 0]
    report = tablefmt.open(uri).verify(deep=True)
    assert report.ok, str(report)


def test_deletes_that_came_meanwhile_survive(spark: Any, uri: str) -> None:
    """CFL-14, CFL-13: the driver computes the lineage from the tasks' messages."""
    table = tablefmt.spark.open(spark, uri)
    late = tablefmt.open(uri).transaction().delete("id = 3")
    other = tablefmt.open(uri)
    spark_commit = table.compact("major")
    assert spark_commit.version == 7
    assert late.commit().rebased_over == (7,)
    txn = other.transaction().compact("major")
    table.delete("id IN (5, 6)")
    txn.commit()
    left = set(range(500)) - set(range(0, 500, 11)) - {3, 5, 6}
    assert set(tablefmt.open(uri).to_arrow()["id"].to_pylist()) == left


@pytest.mark.share(3)
@pytest.mark.parametrize("curve", ["zorder", "hilbert", "linear"])
def test_a_clustering_by_spark_brings_rows_to_their_range(spark: Any, uri: str, curve: str) -> None:
    """CMP-5: no value of any type is lost, and a point is in fewer files than before."""
    before = rows_of(tablefmt.open(uri).to_arrow())
    table = tablefmt.spark.open(spark, uri)
    size = sum(tablefmt.open(uri).scan().files()["size"].to_pylist()) // 12
    commit = table.cluster(["t", "a.b c"], curve=curve, target_file_size=size)  # type: ignore[call-overload]
    assert commit.operation == "CLUSTER"
    fresh = tablefmt.open(uri)
    assert rows_of(fresh.to_arrow()) == before
    assert 9 <= fresh.scan().files().num_rows <= 16
    at = "TIMESTAMP '2026-03-29 02:49:00+00:00'"
    assert fresh.scan(where=f"p = 'p1' AND t = {at}").to_arrow()["id"].to_pylist() == [79]
    assert fresh.scan(where=f"p = 'p1' AND t = {at}").files().num_rows <= 2
    later = fresh.scan(where="p = 'p1' AND t < TIMESTAMP '2026-03-29 02:49:00+00:00'").files()
    assert later.num_rows < fresh.scan(where="p = 'p1'").files().num_rows
    report = fresh.verify(deep=True)
    assert report.ok, str(report)
    if curve == "linear":
        for place in ("p IS NULL", "p = 'p0'", "p = 'p1'"):
            times = fresh.to_arrow(where=place)["t"].to_pylist()
            assert times == sorted(times)


def test_conditions_and_batches_are_those_of_arrow(spark: Any, uri: str) -> None:
    """CMP-3, CMP-4, SQL-4: times without a zone are those of the session."""
    table = tablefmt.spark.open(spark, uri)
    # In New York it was four hours earlier.
    where = "t < TIMESTAMP '2026-03-28 22:00:00' AND p = 'p1'"
    plan = table.compact(where=where, dry_run=True)
    assert plan.to_arrow().num_rows == 1
    assert table.compact(where=[("p", "=", "p1")], commit_every=1).metrics["numRemovedFiles"] == 5
    assert table.cluster("id", commit_every=1).version == 10
    assert tablefmt.open(uri).scan().files().num_rows == 3


def _failing_first(store: Any) -> Any:
    """A store that, in the first attempt of a task, keeps what it was given and then fails.

    A class inside a function goes to the workers by value: they cannot import this module.
    """

    class FailingFirst(ForwardingStore):
        def put(self, key: str, body: bytes) -> None:
            from pyspark import TaskContext

            context = TaskContext.get()
            self.inner.put(key, body)
            if context is not None and context.attemptNumber() == 0:
                raise RuntimeError("the first attempt fails")

        def delete(self, key: str) -> None:
            from pyspark import TaskContext

            if TaskContext.get() is None:
                self.inner.delete(key)

    return FailingFirst(store)


@pytest.mark.share(2)
@pytest.mark.parametrize("verb", ["compact", "cluster"])
def test_attempts_that_failed_leave_no_file(spark: Any, uri: str, verb: str) -> None:
    """F1: the files of every task's first attempt stay on disk till the job is done."""
    before = rows_of(tablefmt.open(uri).to_arrow())
    old = set(data_files(uri))
    table = tablefmt.spark.open(spark, uri)
    table.table.context.store = _failing_first(LocalStore(uri))
    commit = table.compact("major") if verb == "compact" else table.cluster("id")
    assert commit.metrics["numAddedFiles"] == 3
    assert rows_of(tablefmt.open(uri).to_arrow()) == before
    assert len(set(data_files(uri)) - old) == 3


@pytest.mark.broken_tables
@pytest.mark.parametrize("verb", ["compact", "cluster"])
def test_a_file_that_is_damaged_stops_it_and_little_is_left(
    spark: Any, uri: str, verb: str
) -> None:
    """DAT-5: the error of any task is raised as this package's own. A task that Spark was still
    ending may leave its file.
    """
    old = data_files(uri)
    place = Path(uri) / tablefmt.open(uri).scan().files()["path"][7].as_py()
    place.write_bytes(place.read_bytes()[:-100])
    table = tablefmt.spark.open(spark, uri)
    with pytest.raises(CorruptDataError):
        table.compact() if verb == "compact" else table.cluster("id")
    left = set(data_files(uri)) - set(old)
    assert len(left) <= 1, left
    assert set(data_files(uri)) >= set(old)
    assert tablefmt.open(uri).version == 6


def test_what_cannot_be_is_refused_before_a_job(spark: Any, uri: str) -> None:
    """CMP-3, CMP-5."""
    table = tablefmt.spark.open(spark, uri)
    with pytest.raises(InvalidPredicateError):
        table.compact(where="nope = 1")
    with pytest.raises(InvalidPredicateError, match="cannot choose files by the condition"):
        table.compact(where="length(p) = 2")
    with pytest.raises(SchemaMismatchError, match="is a partition column"):
        table.cluster("p")
    elsewhere = tablefmt.spark.create(spark, "memory://layout", "id BIGINT")
    with pytest.raises(UnsupportedFeatureError, match="memory"):
        elsewhere.compact()
    assert tablefmt.open(uri).version == 6


def test_an_empty_table_and_one_without_rows_left(spark: Any, tmp_path: Path) -> None:
    """CMP-4: there is no job and no version. A file whose rows are all deleted is removed."""
    place = str(tmp_path / "empty")
    table = tablefmt.spark.create(spark, place, "id BIGINT")
    assert table.compact().no_op
    assert table.cluster("id").no_op
    plain = tablefmt.open(place)
    plain.append({"id": [1, 2]})
    one, two = (plain.transaction().delete(f"id = {n}") for n in (1, 2))
    one.commit()
    two.commit()
    assert table.cluster("id").metrics["numRemovedFiles"] == 1
    assert tablefmt.open(place).scan().files().num_rows == 0
