"""An executor dies by SIGKILL, and another one joins in its place: every row once, as before.

test_failed_tasks.py has tasks that Spark tries again.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tablefmt
import tablefmt.spark
from tablefmt.spark.backends.native import native_relation
from tests.spark.looking import data_files

ROWS = 4000


def kill_once(marker: Path) -> Any:
    """Return a function for mapInArrow whose second task kills its executor, the first time."""

    def killing(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import os
        import signal

        from pyspark import TaskContext

        from tests.python_forks import executor

        yield from batches
        if TaskContext.get().partitionId() == 1:
            try:
                file = os.open(marker, os.O_CREAT | os.O_EXCL | os.O_WRONLY)
            except FileExistsError:
                return
            os.write(file, str(executor()).encode())
            os.close(file)
            os.kill(executor(), signal.SIGKILL)

    return killing


@pytest.mark.slow
def test_a_write_whose_executor_dies_has_each_row_once_and_plans_of_before_still_run(
    spark: Any, uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DAT-6, DEL-2: a task again, and broadcasts of deleted rows that the new executor fetches."""
    if "TABLEFMT_TEST_MASTER" in os.environ:
        pytest.skip("the executor may be the driver")
    # The whole suite is to run on executors in processes of their own.
    assert spark.sparkContext.master.startswith("local-cluster")
    older = str(tmp_path / "older")
    tablefmt.spark.write(spark.range(0, ROWS, 1, 2), older)
    tablefmt.open(older).delete("id % 7 = 3")
    left = [n for n in range(ROWS) if n % 7 != 3]
    frames = []
    for task_bytes in (native_relation.DELETED_TASK_BYTES, 0):
        monkeypatch.setattr(native_relation, "DELETED_TASK_BYTES", task_bytes)
        frame = tablefmt.spark.read(spark, older).groupBy("id").count()
        assert sorted(frame.toArrow()["id"].to_pylist()) == left
        frames.append(frame)
    marker = tmp_path / "killed"
    source = spark.range(0, ROWS, 1, 4).selectExpr("id", "id % 3 AS p")
    source = source.mapInArrow(kill_once(marker), "id long, p long")
    commit = tablefmt.spark.write(source, uri, partition_by=["p"])
    assert not Path(f"/proc/{marker.read_text()}/exe").exists()
    assert int(marker.read_text()) != os.getpid()
    table = tablefmt.open(uri)
    assert sorted(table.to_arrow()["id"].to_pylist()) == list(range(ROWS))
    assert (commit.metrics["numFiles"], commit.metrics["numOutputRows"]) == (12, ROWS)
    named = table.context.view.snapshot().files["path"].to_pylist()
    assert data_files(uri) == sorted(f"{uri}/{path}" for path in named)
    for frame in frames:
        assert sorted(frame.toArrow()["id"].to_pylist()) == left
