"""Scan tasks of a local disk: the next one is made while the caller reads one."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tablefmt
from tablefmt.data import scan_tasks
from tablefmt.data.scan_tasks import Needs, tasks_of
from tablefmt.errors import CorruptDataError

FILES, TOGETHER = 8, 3


class Made:
    """Records which files were prepared, and in which thread."""

    def __init__(self) -> None:
        self.paths: list[list[str]] = []
        self.threads: set[int] = set()
        self._more = threading.Condition()

    def add(self, paths: list[str]) -> None:
        with self._more:
            self.paths.append(paths)
            self.threads.add(threading.get_ident())
            self._more.notify_all()

    def wait_for(self, groups: int) -> bool:
        """Wait until so many groups were prepared; return False after 10 seconds."""
        with self._more:
            return self._more.wait_for(lambda: len(self.paths) >= groups, 10)


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Made:
    monkeypatch.setattr(scan_tasks, "GROUP_FILES", TOGETHER)
    told, real = Made(), scan_tasks._hold

    def hold(store: Any, group: pa.Table, *given: Any) -> None:
        real(store, group, *given)
        told.add(group["path"].to_pylist())

    monkeypatch.setattr(scan_tasks, "_hold", hold)
    return told


def written(folder: Path, files: int) -> tuple[tablefmt.Table, pa.Table]:
    """Return a table with 10 rows in each file, and all rows."""
    rows = pa.table({"id": range(10 * files), "text": [str(n) for n in range(10 * files)]})
    table = tablefmt.create(folder / "t", rows.schema)
    with table.transaction() as transaction:
        for start in range(0, rows.num_rows, 10):
            transaction.append(rows.slice(start, 10))
    return table, rows


def test_the_next_files_are_prepared_before_they_are_asked_for(tmp_path: Path, made: Made) -> None:
    table, rows = written(tmp_path, FILES)
    scan = table.scan()
    files = scan.snapshot.with_vectors(scan.snapshot.matching(None))
    paths = files["path"].to_pylist()
    groups = [paths[:3], paths[3:6], paths[6:]]
    tasks = tasks_of(scan.store, files, Needs(scan.snapshot.schema))
    assert next(tasks).files["path"].to_pylist() == groups[0]
    assert made.wait_for(2)
    assert made.paths == groups[:2]
    assert [task.files["path"].to_pylist() for task in tasks] == groups[1:]
    assert made.paths == groups
    assert threading.get_ident() not in made.threads
    assert table.to_arrow().equals(rows)


def test_few_files_and_first_rows_need_no_thread(tmp_path: Path, made: Made) -> None:
    table, rows = written(tmp_path / "few", TOGETHER)
    assert table.to_arrow().equals(rows)
    many, rows = written(tmp_path / "many", FILES)
    assert many.to_arrow(limit=5).equals(rows.slice(0, 5))
    assert made.threads == {threading.get_ident()}


def test_a_damaged_file_of_a_later_group_ends_the_scan_there(tmp_path: Path, made: Made) -> None:
    """DAT-5: rows before it may come, none after it."""
    table, rows = written(tmp_path, FILES)
    paths = table.scan().files()["path"].to_pylist()
    damaged = tmp_path / "t" / paths[4]
    damaged.write_bytes(damaged.read_bytes()[:-1])
    found: list[pa.RecordBatch] = []
    with pytest.raises(CorruptDataError) as caught:
        found.extend(table.scan().to_batches())
    assert paths[4] in str(caught.value)
    assert pa.Table.from_batches(found, rows.schema).equals(rows.slice(0, 10 * TOGETHER))


def test_a_scan_that_is_left_early_ends_its_thread(tmp_path: Path, made: Made) -> None:
    table, _ = written(tmp_path, FILES)
    before = threading.active_count()
    batches = table.scan().to_batches()
    next(batches)
    assert made.wait_for(2)
    del batches
    for thread in threading.enumerate():
        if thread.name.startswith("tablefmt-read"):
            thread.join(10)
            assert not thread.is_alive()
    assert threading.active_count() <= before
