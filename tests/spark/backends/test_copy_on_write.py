"""Copy-on-write: rows that stay are written again in Spark's tasks, one for every file."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyroaring import BitMap64

import tablefmt
import tablefmt.spark
from tablefmt.data.row_reader import read_files
from tablefmt.session.row_changes import copy_rows
from tablefmt.session.transaction_snapshot import TransactionSnapshot
from tablefmt.spark.backends import row_level_operations
from tablefmt.spark.backends.row_level_operations import copy_rows_in_tasks
from tests.spark.looking import everything

SCHEMA = pa.schema([("id", pa.int64()), ("p", pa.string())])
TRANSACTION = "a" * 32


@pytest.fixture
def table(uri: str) -> tablefmt.Table:
    """Return a table with four files of ten rows in two partitions.

    Two rows of the second are deleted.
    """
    table = tablefmt.create(uri, SCHEMA, partition_by=["p"])
    for at in range(4):
        table.append(pa.table({"id": range(10 * at, 10 * at + 10), "p": ["ab"[at % 2]] * 10}))
    table.delete("id IN (10, 15)")
    return table


DELETED = {1: BitMap64([0, 9]), 2: BitMap64([5]), 3: BitMap64(range(9))}
LEFT = [list(range(1, 9)), [11, 12, 13, 14, 16, 17, 18, 19], [29]]


def snapshot_of(table: tablefmt.Table) -> TransactionSnapshot:
    context = table.context
    return TransactionSnapshot(context.store, context.view, table.version, TRANSACTION)


@pytest.mark.parametrize("job_bytes", [row_level_operations.JOB_BYTES, 1])
def test_tasks_write_what_one_process_would(
    spark: Any, table: tablefmt.Table, monkeypatch: pytest.MonkeyPatch, job_bytes: int
) -> None:
    """DEL-1, LIN-1: rows, partitions, and where every row came from; in one job or in several."""
    monkeypatch.setattr(row_level_operations, "JOB_BYTES", job_bytes)
    gone = {1: DELETED[1], 2: DELETED[2] - BitMap64([0]), 3: DELETED[3]}
    ids = np.array(sorted(gone), np.int64)
    one = snapshot_of(table)
    added, outputs = copy_rows_in_tasks(spark)(one, ids, gone)
    here, expected = copy_rows(one, ids, gone)
    assert added is not None
    assert here is not None
    assert outputs == expected
    for name in ("rows", "partition.2", "lower.1", "upper.1", "updated"):
        assert added.columns.get(name) == here.columns.get(name), name
    files = pa.table({n: added.columns[n] for n in ("path", "size", "rows", "footer")})
    schema = one.snapshot.schema
    for at, rows in enumerate(LEFT):
        found = pa.Table.from_batches(
            read_files(one.store, files.slice(at, 1), schema, schema.fields)
        )
        assert found["id"].to_pylist() == rows


@pytest.mark.share(2)
def test_statements_keep_the_mode_of_the_table(
    spark: Any, table: tablefmt.Table, backend: str
) -> None:
    """DEL-1: no bitmap stays behind in a table whose deleteMode is copy-on-write."""
    table.alter.set_properties({"deleteMode": "copy-on-write"})
    ours = tablefmt.spark.open(spark, table.uri)
    ours.delete("id % 7 = 3 AND id > 0")
    table.refresh()
    left = [i for i in range(40) if i not in (10, 15) and i % 7 != 3]
    assert sorted(table.to_arrow()["id"].to_pylist()) == left
    assert sorted(row.id for row in ours.to_df().collect()) == left
    files = table.context.view.snapshot(table.version).files
    assert files["deleted"].to_pylist() == [0] * files.num_rows
    assert files.num_rows == 4


@pytest.fixture
def marker(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "attempts"
    folder.mkdir()
    yield folder
    shutil.rmtree(folder)


def test_an_attempt_that_fails_leaves_nothing_and_no_row_twice(
    spark: Any, table: tablefmt.Table, marker: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ADD-5: the first attempt of every task fails when it has written its file."""
    _failing(monkeypatch, marker, attempts=1)
    one = snapshot_of(table)
    before = everything(table.uri)
    added, _ = copy_rows_in_tasks(spark)(one, np.array(sorted(DELETED), np.int64), DELETED)
    assert added is not None
    assert added.columns["rows"] == [len(rows) for rows in LEFT]
    assert len(os.listdir(marker)) == 6
    new = set(everything(table.uri)) - set(before)
    assert {Path(p).name for p in new} == {Path(p).name for p in added.columns["path"]}


def test_a_task_that_fails_for_good_leaves_no_file(
    spark: Any, table: tablefmt.Table, marker: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _failing(monkeypatch, marker, attempts=100)
    before = everything(table.uri)
    with pytest.raises(Exception, match="this attempt fails"):
        copy_rows_in_tasks(spark)(snapshot_of(table), np.array([1], np.int64), {1: DELETED[1]})
    assert everything(table.uri) == before


def _failing(monkeypatch: pytest.MonkeyPatch, marker: Path, attempts: int) -> None:
    """Make this number of attempts of every task fail after their file is written."""
    inner, folder = row_level_operations._run, str(marker)

    # Workers cannot import this module; what is made here travels whole.
    class FailingTask:
        def __init__(self, task: Any) -> None:
            self.task = task

        def copy_rows(self, file: pa.Table, number: int) -> Any:
            added = self.task.copy_rows(file, number)
            tried = sum(name.startswith(f"{number}-") for name in os.listdir(folder))
            with open(f"{folder}/{number}-{tried}", "x"):
                pass
            if tried < attempts:
                raise OSError("this attempt fails")
            return added

    def running(spark: Any, task: Any, singles: Any, first: int) -> Any:
        failing: Any = FailingTask(task)
        return inner(spark, failing, singles, first)

    monkeypatch.setattr(row_level_operations, "_run", running)
