"""Tasks and jobs that fail: one copy of every row, or none."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import tablefmt
import tablefmt.spark
from tests.spark.looking import data_files, everything, strays


def failing(message: str, *, attempts: int, marks: Path | None = None) -> Any:
    """Passes rows on; then the second task fails, in as many of its attempts.

    Each failure leaves a file in `marks`. A function inside a function goes to the workers by
    value: they cannot import this module.
    """

    def passing(frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        from pyspark import TaskContext

        context = TaskContext.get()
        yield from frames
        if context.partitionId() == 1 and context.attemptNumber() < attempts:
            if marks is not None:
                (marks / str(context.attemptNumber())).touch()
            raise RuntimeError(message)

    return passing


@pytest.mark.parametrize("partition_by", [[], ["p"]])
def test_a_task_that_is_tried_again_leaves_one_copy(
    spark: Any, uri: str, tmp_path: Path, partition_by: list[str]
) -> None:
    """F1: files of attempts that lost are in no version and not on disk."""
    source = spark.range(0, 3000, numPartitions=3).selectExpr("id", "id % 2 as p")
    (marks := tmp_path / "marks").mkdir()
    once = failing("the first attempt fails", attempts=1, marks=marks)
    frame = source.mapInPandas(once, "id long, p long")
    commit = tablefmt.spark.write(frame, uri, partition_by=partition_by)
    assert [mark.name for mark in marks.iterdir()] == ["0"]
    assert commit.metrics["numOutputRows"] == 3000
    found = tablefmt.open(uri).to_arrow()["id"].to_pylist()
    assert sorted(found) == list(range(3000))
    assert len(data_files(uri)) == commit.metrics["numFiles"]


def test_a_first_write_that_fails_leaves_no_table(spark: Any, uri: str) -> None:
    """F2."""
    one = spark.range(300, numPartitions=1).selectExpr("if(id = 299, raise_error('no'), id) as id")
    with pytest.raises(Exception, match="no"):
        tablefmt.spark.write(one, uri)
    assert everything(uri) == []
    several = spark.range(0, 300, numPartitions=3).mapInPandas(
        failing("every attempt fails", attempts=9), "id long"
    )
    with pytest.raises(Exception, match="every attempt fails"):
        tablefmt.spark.write(several, uri)
    assert strays(uri, []) == []
    assert not tablefmt.exists(uri)


@pytest.mark.share(2)
@pytest.mark.parametrize("mode", ["append", "overwrite"])
def test_a_write_that_fails_leaves_no_version_and_no_file(spark: Any, uri: str, mode: str) -> None:
    """F2: of one task; and of several, of which some may still run when the job has failed."""
    tablefmt.spark.write(spark.range(5), uri)
    before = everything(uri)
    one = spark.range(300, numPartitions=1).selectExpr("if(id = 299, raise_error('no'), id) as id")
    with pytest.raises(Exception, match="no"):
        tablefmt.spark.write(one, uri, mode=mode)  # type: ignore[arg-type]
    assert everything(uri) == before
    assert len(list((Path(uri) / "data").iterdir())) == 1
    several = spark.range(0, 300, numPartitions=3).mapInPandas(
        failing("every attempt fails", attempts=9), "id long"
    )
    with pytest.raises(Exception, match="every attempt fails"):
        tablefmt.spark.write(several, uri, mode=mode)  # type: ignore[arg-type]
    assert strays(uri, before) == []
    assert sorted(r.id for r in tablefmt.spark.read(spark, uri).collect()) == [0, 1, 2, 3, 4]


def test_a_value_that_does_not_fit_leaves_nothing(spark: Any, uri: str) -> None:
    """SCH-5: the cast that an INSERT does fails for a value that is too large."""
    tablefmt.create(uri, "id INT")
    frame = spark.range((1 << 31) - 1, (1 << 31) + 1, numPartitions=1)
    with pytest.raises(tablefmt.errors.SchemaMismatchError) as caught:
        tablefmt.spark.write(frame, uri)
    assert caught.value.columns == ["id"]
    assert data_files(uri) == []
    assert tablefmt.open(uri).version == 0


def at_once(*works: Callable[[], Any]) -> list[Any]:
    """Results, or exceptions, of functions that run at the same time."""
    barrier = threading.Barrier(len(works))

    def run(work: Callable[[], Any]) -> Any:
        barrier.wait()
        try:
            return work()
        except Exception as error:
            return error

    with ThreadPoolExecutor(len(works)) as pool:
        return list(pool.map(run, works))


def test_two_sessions_that_append_at_once_both_have_their_rows_in_it(spark: Any, uri: str) -> None:
    """CMT-6: no row is lost, and neither session is changed."""
    sessions = [spark, spark.newSession()]
    tablefmt.spark.write(spark.range(0, 1), uri)

    def appending(at: int) -> Callable[[], list[int]]:
        def work() -> list[int]:
            rows = sessions[at].range(10 * at + 10, 10 * at + 20)
            return [tablefmt.spark.write(rows, uri).version for _ in range(4)]

        return work

    versions = at_once(appending(0), appending(1))
    assert sorted(versions[0] + versions[1]) == list(range(2, 10))
    found = tablefmt.open(uri).to_arrow()["id"].to_pylist()
    assert sorted(found) == sorted([0, *([*range(10, 30)] * 4)])


@pytest.mark.parametrize("partition_by", [[], ["p"]])
def test_two_first_writes_at_once_both_have_their_rows_in_it(
    spark: Any, uri: str, partition_by: list[str]
) -> None:
    """CFL-4: one makes the table, the other finds it and appends."""

    def writing(first: int) -> Callable[[], Any]:
        frame = spark.newSession().range(first, first + 5).selectExpr("id", "id % 2 as p")
        return lambda: tablefmt.spark.write(frame, uri, partition_by=partition_by)

    done = at_once(writing(0), writing(5))
    assert sorted(commit.version for commit in done) == [1, 2]
    assert sorted(tablefmt.open(uri).to_arrow()["id"].to_pylist()) == list(range(10))


def test_of_two_first_writes_of_other_columns_one_is_told(spark: Any, uri: str) -> None:
    """CFL-4: its files are deleted."""
    frames = [spark.range(5), spark.newSession().range(5).selectExpr("cast(id as string) as id")]
    done = at_once(*(lambda f=frame: tablefmt.spark.write(f, uri) for frame in frames))
    errors = [found for found in done if isinstance(found, Exception)]
    assert len(errors) <= 1
    for error in errors:
        assert isinstance(
            error, tablefmt.errors.TableExistsError | tablefmt.errors.SchemaMismatchError
        )
    # BIGINT fits a STRING column, so who comes second may be in it after all.
    rows = tablefmt.open(uri).to_arrow()
    assert rows.num_rows == 5 * (2 - len(errors))
    named = tablefmt.open(uri).context.view.snapshot().files["path"].to_pylist()
    assert data_files(uri) == sorted(f"{uri}/{path}" for path in named)
