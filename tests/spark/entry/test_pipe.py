"""Pipes by Spark and by Arrow copy the same rows, and resume where the other stopped."""

from __future__ import annotations

from typing import Any, cast

import pytest
from pyspark.sql import functions

import tablefmt
import tablefmt.spark
from tablefmt.errors import (
    ConcurrentModificationException,
    ConcurrentTransactionException,
    ConstraintViolationError,
    InvalidPredicateError,
    InvalidRangeError,
    MergeCardinalityError,
    SchemaMismatchError,
)
from tablefmt.log.object_names import entry_key
from tablefmt.testing.faults import FaultyStore, Killed
from tests.pipes.test_pipe import change
from tests.races import race
from tests.spark.looking import rows_of
from tests.system.transactions.world import Counting
from tests.tables import behind

Row = tuple[Any, ...]


@pytest.fixture
def source(uri: str) -> tablefmt.Table:
    """Versions 1 and 2."""
    table = tablefmt.create(f"{uri}-source", "id BIGINT, v STRING")
    table.append({"id": [1, 2], "v": ["a", "b"]})
    table.append({"id": [3], "v": ["c"]})
    return table


def shown(table: tablefmt.Table | str) -> list[Row]:
    opened = tablefmt.open(table) if isinstance(table, str) else table.refresh()
    return sorted((tuple(r.values()) for r in opened.to_arrow().to_pylist()), key=repr)


@pytest.mark.share(2)
@pytest.mark.parametrize("content", ["append", "changes", "net"])
def test_spark_brings_what_arrow_brings(
    spark: Any, uri: str, source: tablefmt.Table, content: str
) -> None:
    """PIP-1, PIP-4, PIP-6: first and later runs, in turn, with a condition."""
    where = "v <> 'c'"
    one, two = f"{uri}-one", f"{uri}-two"
    by_spark = tablefmt.spark.pipe(spark, source, content=content, where=where)  # type: ignore[arg-type]
    by_arrow = tablefmt.pipe(source, content=content, where=where)  # type: ignore[arg-type]
    for number in range(3):
        ran, other = by_spark.into(one), by_arrow.into(two)
        took = (ran.first_version, ran.last_version, ran.rows)
        assert took == (other.first_version, other.last_version, other.rows)
        assert rows_of(tablefmt.open(one).to_arrow()) == rows_of(tablefmt.open(two).to_arrow())
        if number == 0:
            change(source)
        else:
            source.append({"id": [9], "v": ["z"]})
    assert by_arrow.into(one).rows == 1
    assert by_spark.into(one).commit.no_op
    assert by_spark.into(two).rows == 1
    assert shown(one) == shown(two)


def test_with_keys_the_target_is_the_source(spark: Any, uri: str, source: tablefmt.Table) -> None:
    """PIP-5: rows that come, change and go; keys of the function's."""
    target = f"{uri}-target"
    table = tablefmt.spark.open(spark, source.uri)
    tablefmt.spark.pipe(spark, table).into(target, keys="id")
    change(source)
    run = tablefmt.spark.pipe(spark, table).into(target, keys=["ID"])
    assert (run.rows, run.commit.operation) == (3, "MERGE")
    assert shown(target) == shown(source) == [(1, "x"), (3, "c"), (4, "d")]
    source.restore(version=2)
    opened = tablefmt.spark.open(spark, target)
    tablefmt.spark.pipe(spark, source.uri).into(opened, keys="id")
    assert shown(target) == shown(source) == [(1, "a"), (2, "b"), (3, "c")]

    def renamed(rows: Any) -> Any:
        return rows.selectExpr("-id AS `key part`", "v")

    other = f"{uri}-other"
    pipe = tablefmt.spark.pipe(spark, source, transform=renamed, where="v <> 'x'")
    pipe.into(other, keys="key part")
    source.update({"v": "'x'"}, "id = 1")
    source.delete("id = 3")
    pipe.into(other, keys="key part")
    assert shown(other) == [(-2, "b")]


@pytest.mark.soak
def test_columns_that_become_others(spark: Any, uri: str, source: tablefmt.Table) -> None:
    """PIP-5: unchanged rows get the values that the source has now, or the run is refused."""
    target, chosen = f"{uri}-target", f"{uri}-chosen"
    here = tablefmt.spark.open(spark, source.uri)
    for place, where in ((target, None), (chosen, "v <> 'c'")):
        tablefmt.spark.pipe(spark, here, where=where).into(place, keys="id")
    for place in (source.uri, target, chosen):
        default = "x" if place == source.uri else None
        tablefmt.open(place).alter.add_column("w", "STRING", default=default)
    source.refresh().delete("id = 1")
    assert tablefmt.spark.pipe(spark, here).into(target, keys="id").rows == 3
    assert shown(target) == shown(source) == [(2, "b", "x"), (3, "c", "x")]
    tablefmt.spark.pipe(spark, here, where="v <> 'c'").into(chosen, keys="id")
    assert shown(chosen) == [(2, "b", "x")]
    source.alter.drop_column("v")
    source.alter.add_column("v", "STRING")
    source.append({"id": [9], "v": ["new"]})
    tablefmt.spark.pipe(spark, here).into(target, keys="id")
    assert [(i, w, v) for i, v, w in shown(target)] == shown(source)
    assert shown(source) == [(2, "x", None), (3, "x", None), (9, "x", "new")]
    with pytest.raises(SchemaMismatchError, match="other columns"):
        tablefmt.spark.pipe(spark, here, where="v <> 'c'").into(chosen, keys="id")
    assert shown(chosen) == [(2, "b", "x")]


@pytest.mark.share(2)
@pytest.mark.parametrize("keys", [None, "id"])
def test_columns_called_like_those_of_a_feed(spark: Any, uri: str, keys: str | None) -> None:
    """PIP-4, PIP-5: they are columns like others, in first runs and later ones, in a condition."""
    columns = "id BIGINT, _change_type STRING, _Commit_Version BIGINT"
    here = tablefmt.create(f"{uri}-source", columns)
    kinds = ["insert", "delete", None]
    here.append({"id": [1, 2, 3], "_change_type": kinds, "_Commit_Version": [7, 8, 9]})
    for number, where in enumerate((None, "_change_type = 'delete'")):
        one, two = (f"{uri}-{backend}-{number}" for backend in ("spark", "arrow"))
        for run in range(2):
            ran = tablefmt.spark.pipe(spark, here, where=where).into(one, keys=keys)
            other = tablefmt.pipe(here, where=where).into(two, keys=keys)
            assert (ran.first_version, ran.rows) == (other.first_version, other.rows)
            assert tablefmt.open(one).schema.names == here.schema.names
            assert shown(one) == shown(two)
            if keys is not None and where is None:
                assert shown(one) == shown(here)
            here.update({"_change_type": "'delete'"}, "id = 1")
            here.delete("id = 2")
            new = 10 * number + run + 4
            here.append({"id": [new], "_change_type": ["delete"], "_Commit_Version": [0]})
            here.update({"id": "id + 100"}, "id < 100 AND id > 2")


def test_what_leaves_nothing_moves_the_cursor(spark: Any, uri: str, source: tablefmt.Table) -> None:
    """PIP-3: a condition removes all rows, with and without keys."""
    target = f"{uri}-target"
    tablefmt.spark.pipe(spark, source).into(target)
    for keys in (None, "id"):
        source.append({"id": [5], "v": ["e"]})
        run = tablefmt.spark.pipe(spark, source, where="id > 100").into(target, keys=keys)
        assert (run.rows, run.commit.no_op) == (0, False)
    source.compact()
    assert tablefmt.spark.pipe(spark, source).into(target).rows == 0
    assert tablefmt.spark.pipe(spark, source).into(target).commit.no_op
    assert len(shown(target)) == 3


def test_keys_that_are_none_are_refused(spark: Any, uri: str) -> None:
    """PIP-5, PIP-4."""
    here = tablefmt.create(f"{uri}-source", "id BIGINT, v STRING")
    here.append({"id": [1, 1, 2, None], "v": ["a", "b", "c", "d"]})
    target = f"{uri}-target"
    with pytest.raises(ConstraintViolationError, match="NULL"):
        tablefmt.spark.pipe(spark, here).into(target, keys="id")
    with pytest.raises(MergeCardinalityError) as caught:
        tablefmt.spark.pipe(spark, here, where="id IS NOT NULL").into(target, keys="id")
    assert caught.value.keys == [{"id": 1}]
    with pytest.raises(SchemaMismatchError, match="nope"):
        tablefmt.spark.pipe(spark, here).into(target, keys="nope")
    with pytest.raises(InvalidRangeError, match="twice"):
        tablefmt.spark.pipe(spark, here).into(target, keys=["id", "ID"])
    for sql in ("struct(id) AS k", "array(id) AS k", "map(id, v) AS k"):
        parts = tablefmt.spark.pipe(
            spark, here, where="id = 2", transform=lambda rows, sql=sql: rows.selectExpr(sql, "v")
        )
        with pytest.raises(SchemaMismatchError, match="cannot be compared"):
            parts.into(target, keys="k")
    with pytest.raises(InvalidRangeError, match="expected a column name"):
        tablefmt.spark.pipe(spark, here).into(target, keys=5)  # type: ignore[arg-type]
    with pytest.raises(InvalidRangeError, match="expected a function"):
        tablefmt.spark.pipe(spark, here, transform="x")  # type: ignore[arg-type]
    doubled = tablefmt.spark.pipe(spark, here, transform=lambda rows: rows.select("*", "ID"))
    with pytest.raises(SchemaMismatchError, match="several columns called 'ID'"):
        doubled.into(target, keys="id")
    for options in ({"txnAppId": "a", "txnVersion": 1}, {"replaceWhere": "id = 1"}):
        with pytest.raises(InvalidRangeError, match="a pipe"):
            tablefmt.spark.pipe(spark, here).into(target, **options)
    with pytest.raises(InvalidRangeError, match="net changes"):
        tablefmt.spark.pipe(spark, here, content="changes").into(target, keys="id")
    with pytest.raises(SchemaMismatchError, match="None"):
        tablefmt.spark.pipe(spark, here, transform=cast("Any", lambda rows: None)).into(target)
    with pytest.raises(InvalidPredicateError):
        tablefmt.spark.pipe(spark, here, where="nope = 1").into(target)
    with pytest.raises(InvalidRangeError, match="same table"):
        tablefmt.spark.pipe(spark, here).into(here)
    assert not tablefmt.exists(target)


def test_the_first_run_by_keys_reads_the_newest_version(
    spark: Any, uri: str, source: tablefmt.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PIP-6: for any content, no history is read."""
    change(source)

    def refused(*_: Any) -> Any:
        raise AssertionError("changes were read")

    monkeypatch.setattr("tablefmt.spark.entry.spark_pipe.changes_frame", refused)
    for content in ("append", "net"):
        target = f"{uri}-{content}"
        run = tablefmt.spark.pipe(spark, source, content=content).into(target, keys="id")
        assert (run.first_version, run.rows, shown(target)) == (0, 3, shown(source))


def test_with_keys_a_row_goes_through_the_function_once(
    spark: Any, uri: str, source: tablefmt.Table
) -> None:
    """PIP-5: a second call could return other values."""
    target, calls = f"{uri}-target", spark.sparkContext.accumulator(0)

    def counted(value: int) -> int:
        calls.add(1)
        return value

    once = functions.udf(counted, "bigint").asNondeterministic()
    pipe = tablefmt.spark.pipe(
        spark, source, transform=lambda rows: rows.withColumn("id", once("id"))
    )
    pipe.into(target, keys="id")
    assert calls.value == 3
    change(source)
    run = pipe.into(target, keys="id")
    assert (run.rows, calls.value, shown(target)) == (3, 3 + 4, shown(source))


@pytest.mark.share(2)
@pytest.mark.parametrize("keys", [None, "id"])
def test_rows_of_a_run_are_counted_alike(
    spark: Any, uri: str, source: tablefmt.Table, keys: str | None
) -> None:
    """PIP-5, PIP-6: an existing target, deletes alone, no change, and a full first run."""
    one, two = (tablefmt.create(f"{uri}-{n}", "id BIGINT, v STRING") for n in ("one", "two"))

    def both(where: str | None = None) -> int:
        ran = tablefmt.spark.pipe(spark, source, where=where).into(one, keys=keys)
        assert ran.rows == tablefmt.pipe(source, where=where).into(two, keys=keys).rows
        assert shown(one) == shown(two)
        return ran.rows

    assert both() == 3
    source.delete("id < 3")
    assert both() == (0 if keys is None else 2)
    source.append({"id": [7], "v": ["z"]})
    assert both("id > 100") == 0
    for target in (one, two):
        target.refresh().restore(version=0)
    assert both() == 2


def test_of_two_runs_at_once_one_commits(spark: Any, uri: str, source: tablefmt.Table) -> None:
    """PIP-2, CFL-24: one run is by Spark, the other by Arrow."""
    target = f"{uri}-target"
    tablefmt.pipe(source).into(target)
    change(source)
    one, two = race(
        lambda: tablefmt.spark.pipe(spark, source).into(tablefmt.open(target)),
        lambda: tablefmt.pipe(source).into(tablefmt.open(target)),
    )
    assert one.error is None
    assert isinstance(two.error, ConcurrentTransactionException)
    assert shown(target) == [(1, "a"), (1, "x"), (2, "b"), (3, "c"), (4, "d")]
    assert tablefmt.spark.pipe(spark, source).into(target).commit.no_op


def test_a_function_may_look_at_several_rows(spark: Any, uri: str, source: tablefmt.Table) -> None:
    """PIP-4: here it gets all rows of a run at once."""
    target = f"{uri}-target"

    def summed(rows: Any) -> Any:
        return rows.groupBy().agg({"id": "sum"}).withColumnRenamed("sum(id)", "total")

    tablefmt.spark.pipe(spark, source, transform=summed).into(target)
    source.append({"id": [10, 20], "v": ["p", "q"]})
    tablefmt.spark.pipe(spark, source, transform=summed).into(target)
    assert shown(target) == [(30,), (6,)]


@pytest.mark.share(4)
@pytest.mark.parametrize("fault", ["kill_before", "kill_after"])
@pytest.mark.parametrize("keys", [None, "id"])
def test_killed_at_the_commit_and_run_again(
    spark: Any, uri: str, source: tablefmt.Table, fault: Any, keys: str | None
) -> None:
    """PIP-2: the files are there, and the entry is or is not."""
    target = f"{uri}-target"
    tablefmt.spark.pipe(spark, source).into(target)
    change(source)

    def plan(number: int, verb: str, key: str) -> Any:
        return fault if verb == "put_if_absent" and key == entry_key(2) else None

    opened = tablefmt.open(target)
    killed = behind(opened, FaultyStore(opened.context.store, plan))
    with pytest.raises(Killed):
        tablefmt.spark.pipe(spark, source).into(killed, keys=keys)
    for _ in range(2):
        tablefmt.spark.pipe(spark, source).into(target, keys=keys)
    rows = [(1, "a"), (1, "x"), (2, "b"), (3, "c"), (4, "d")]
    assert shown(target) == (rows if keys is None else shown(source))


def test_what_a_run_asks_of_the_target(spark: Any, uri: str, source: tablefmt.Table) -> None:
    """PIP-2: one probe for the newest version, and the commit."""
    target = tablefmt.create(f"{uri}-target", "id BIGINT, v STRING")
    counting = Counting(target.context.store)
    opened = behind(target, counting)
    for _ in range(2):
        source.append({"id": [9], "v": ["z"]})
        counting.reset()
        run = tablefmt.spark.pipe(spark, source).into(opened)
        seen = [each for each in counting.requests if each[1].startswith("_log/")]
    entry = entry_key(run.commit.version)
    assert seen == [("get", entry), ("put_if_absent", entry)]


def test_a_function_that_reads_a_newer_target_takes_its_columns(
    spark: Any, uri: str, source: tablefmt.Table
) -> None:
    """CFL-22: the rows depend on a newer version of the target, and follow it."""
    target = tablefmt.create(f"{uri}-target", "id BIGINT, v STRING")
    other = tablefmt.open(target.uri)

    def told(rows: Any) -> Any:
        other.alter.add_column("n", "INT", default=5)
        other.append({"id": [1], "v": ["k"], "n": [6]})
        known = tablefmt.spark.read(spark, target.uri).selectExpr("id AS known")
        return rows.join(known, functions.expr("id = known"), "left_anti")

    run = tablefmt.spark.pipe(spark, source, transform=told).into(tablefmt.open(target.uri))
    assert run.commit.version == 3
    assert shown(target) == [(1, "k", 6), (2, "b", 5), (3, "c", 5)]


def test_with_keys_a_function_reads_the_target(
    spark: Any, uri: str, source: tablefmt.Table
) -> None:
    """CFL-22: a concurrent commit changed the rows it read. Stored rows record the read too."""
    target = tablefmt.create(f"{uri}-target", "id BIGINT, v STRING")
    target.append({"id": [2, 9], "v": ["k", "k"]})
    meanwhile = [lambda: tablefmt.open(target.uri).update({"v": "'x'"}, "id = 9")]

    def unknown(rows: Any) -> Any:
        known = tablefmt.spark.read(spark, target.uri).selectExpr("id AS known")
        while meanwhile:
            meanwhile.pop()()
        return rows.join(known, functions.expr("id = known"), "left_anti")

    pipe = tablefmt.spark.pipe(spark, source, transform=unknown)
    with pytest.raises(ConcurrentModificationException):
        pipe.into(target.uri, keys="id")
    assert shown(target) == [(2, "k"), (9, "x")]
    pipe.into(target.uri, keys="id")
    assert shown(target) == [(1, "a"), (2, "k"), (3, "c"), (9, "x")]


@pytest.mark.soak
def test_second_rows_of_keys_and_zeros_by_spark(spark: Any, uri: str) -> None:
    """PIP-5: a run by Arrow gives the same. A row of another writer is no second row of the key."""
    here = tablefmt.create(f"{uri}-source", "k DOUBLE, v STRING")
    here.append([{"k": 0.0, "v": "a"}, {"k": 2.0, "v": "b"}])
    pipe = tablefmt.spark.pipe(spark, here)
    pipe.into(uri, keys="k")
    here.update({"k": "-k"}, "k = 0")
    tablefmt.open(uri).append([{"k": 3.0, "v": "theirs"}])
    here.append([{"k": 3.0, "v": "ours"}])
    pipe.into(uri, keys="k")
    assert shown(uri) == [(-0.0, "a"), (2.0, "b"), (3.0, "ours")]
    assert "-0.0" in repr(shown(uri))
    here.append([{"k": 2.0, "v": "second"}, {"k": 4.0, "v": "d"}])
    version = tablefmt.open(uri).version
    with pytest.raises(MergeCardinalityError, match="several rows with the same key") as caught:
        pipe.into(uri, keys="k")
    assert caught.value.keys == [{"k": 2.0}]
    assert tablefmt.open(uri).version == version
    here.delete("v = 'b'")
    pipe.into(uri, keys="k")
    assert shown(uri) == shown(here)
