"""Reads of changes: their requests, the files and rows that they read, and what they keep."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyroaring import BitMap64

from tablefmt.changes import changed_rows
from tablefmt.changes.changed_rows import _row_bytes, _runs, net_files
from tablefmt.changes.commit_rows import (
    DELETE,
    INSERT,
    FileChanges,
    Touched,
    chosen_rows,
    masks_of,
    shared_files,
    with_rows,
)
from tablefmt.changes.feed_plan import Contents, plan_changes, touched_in
from tablefmt.changes.version_range import Covered
from tablefmt.store.store_wrappers import CountingStore
from tablefmt.table import Table
from tests.tables import handle, memory, new_table, rows

ROWS = 10
"""Rows of each file of `change`."""


def change(
    version: int, kind: str, chosen: dict[int, Sequence[int] | None], columns: int = 1
) -> FileChanges:
    """Return a change of files of 10 rows and 100 bytes: by id, its rows; None: all."""
    files = pa.table(
        {
            "path": [f"data/{file}" for file in chosen],
            "size": pa.array([100] * len(chosen), pa.int64()),
            "rows": pa.array([ROWS] * len(chosen), pa.int64()),
            "footer": pa.array([1] * len(chosen), pa.int64()),
            "id": pa.array(chosen, pa.int64()),
        }
    )
    some = {at: BitMap64(one) for at, one in enumerate(chosen.values()) if one is not None}
    ids = frozenset(range(1, columns))
    return FileChanges(version, version, kind, ids, with_rows(files, some))


def rows_of(changes: Sequence[FileChanges]) -> list[tuple[str, int, list[int]]]:
    """Return the kind, the file and the rows of each change."""
    return [
        (one.change, file, list(chosen_rows(one.files, place)))
        for one in changes
        for place, file in enumerate(one.files["id"].to_pylist())
    ]


def counted() -> tuple[Table, Table, CountingStore]:
    """A table with deletion vectors, another handle of it, and what counts the other's requests."""
    store = memory()
    table = new_table(store, deleteMode="merge-on-read")
    counting = CountingStore(store)
    return table, handle(counting), counting


def data_reads(counting: CountingStore) -> list[str]:
    return [key for _, key in counting.requests if key.startswith("data/")]


def test_a_file_that_several_commits_deleted_from_is_read_once() -> None:
    """INC-3: its rows for later commits wait in memory; a file of one commit alone is not kept."""
    table, reader, counting = counted()
    table.append(rows(*range(9)))
    table.append(rows(*range(10, 14)))
    for condition in ("id = 1", "id = 2", "id IN (3, 11)"):
        table.delete(condition)
    counting.reset()
    found = reader.changes(after_version=2).to_arrow()
    pairs = zip(found["_commit_version"].to_pylist(), found["id"].to_pylist(), strict=True)
    assert sorted(pairs) == [(3, 1), (4, 2), (5, 3), (5, 11)]
    assert len(data_reads(counting)) == len(set(data_reads(counting))) == 2


def test_files_are_shared_as_far_as_the_memory_goes() -> None:
    """INC-3: the cost of a file is that of its later changes, and files in order of their first."""
    changes = [
        change(3, DELETE, {1: [0], 2: [4, 5], 3: [1]}),
        change(4, INSERT, {7: None}),
        change(5, DELETE, {1: [1, 2], 2: [6]}),
        change(6, DELETE, {2: [7, 8], 1: [3]}),
    ]

    def cost(files: pa.Table, place: int) -> int:
        return len(chosen_rows(files, place))

    every = {1: [(0, 0), (2, 0), (3, 1)], 2: [(0, 1), (2, 1), (3, 0)]}
    assert shared_files(changes, 6, cost) == every
    assert shared_files(changes, 5, cost) == {1: every[1]}
    assert shared_files(changes, 3, cost) == {1: every[1]}
    assert shared_files(changes, 2, cost) == {}
    masks = {at: mask.tolist() for at, mask in masks_of(changes, every).items()}
    assert masks == {0: [True, True, False], 2: [True, True], 3: [True, True]}
    assert shared_files([change(3, DELETE, {1: [0]})], 100, cost) == {}


def test_a_whole_file_is_no_set_of_positions() -> None:
    """INC-3: a file of which all rows came has no vector, so that Arrow scans it whole."""
    table, _, _ = counted()
    table.append(rows(*range(9)))
    table.delete("id = 4")
    table.append(rows(20))
    table.truncate()
    plan = plan_changes(table.context.view, Covered(1, 4, True))
    found = [
        (one.version, one.change, one.rows, [v is None for v in one.files["vector"].to_pylist()])
        for one in plan
    ]
    assert found == [
        (1, INSERT, 9, [True]),
        (2, DELETE, 1, [False]),
        (3, INSERT, 1, [True]),
        (4, DELETE, 9, [False, True]),
    ]


@pytest.mark.parametrize(
    ("most", "expected"),
    [
        (1, [[0], [1], [2], [3]]),
        (3, [[0], [1, 2], [3]]),
        (4, [[0, 1], [2, 3]]),
        (5, [[0, 1, 2], [3]]),
    ],
)
def test_small_commits_are_read_together(
    most: int, expected: list[list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """INC-3: up to a number of files, and no file twice."""
    monkeypatch.setattr(changed_rows, "RUN_FILES", most)
    changes = [change(at, INSERT, dict.fromkeys(files)) for at, files in enumerate(
        [[1, 2, 3], [4], [5], [4, 6]])]  # fmt: skip
    found = [[index for index, _ in run] for run in _runs(changes, {})]
    assert found == expected


def test_a_run_has_the_files_that_are_not_shared() -> None:
    """INC-3: each change is in one run; files with other columns are in another."""
    changes = [
        change(1, DELETE, {1: [0], 2: [0]}),
        change(2, DELETE, {1: [1]}),
        change(3, DELETE, {5: [1]}, columns=2),
        change(4, INSERT, {6: None}, columns=2),
    ]
    shared = {0: np.array([True, False]), 1: np.array([True])}
    found = [[(at, files["path"].to_pylist()) for at, files in r] for r in _runs(changes, shared)]
    assert found == [[(0, ["data/2"]), (1, [])], [(2, ["data/5"]), (3, ["data/6"])]]


@pytest.mark.parametrize(("columns", "expected"), [(0, 120), (1, 144), (5, 240)])
def test_memory_is_estimated_by_bytes_and_columns(columns: int, expected: int) -> None:
    """INC-3: three of ten rows of 100 bytes, four times as large, and eight bytes a value."""
    files = change(1, DELETE, {1: [2, 3, 9]}).files
    assert _row_bytes(files, 0, columns) == expected


def test_rows_that_were_there_only_between_are_not_read() -> None:
    """INC-6: they are excluded by position."""
    table, reader, counting = counted()
    table.append(rows(*range(9)))
    table.append(rows(20, 21, 22))
    table.delete("id = 21")
    table.append(rows(30))
    table.delete("id >= 30 OR id = 1")
    counting.reset()
    read = reader.changes(after_version=1, content="net")
    assert [(one.change, one.rows) for one in read.file_changes] == [(DELETE, 1), (INSERT, 2)]
    assert sorted(zip(read.to_arrow()["_change_type"].to_pylist(),
                      read.to_arrow()["id"].to_pylist(), strict=True)) == [
        ("delete", 1), ("insert", 20), ("insert", 22)]  # fmt: skip
    assert len(set(data_reads(counting))) == 2


def test_net_files_have_each_row_once() -> None:
    """INC-6: a row of a file in several changes is in the result if one end alone has it."""
    changes = [
        change(4, INSERT, {7: [0, 1, 2], 9: None}),
        change(4, DELETE, {1: [0, 1], 2: [5]}),
        change(5, DELETE, {1: [4], 7: [1], 9: None}),
        change(6, DELETE, {7: [2]}),
    ]
    found = net_files(changes, 6, 60)
    assert rows_of(found) == [
        (DELETE, 1, [0, 1, 4]),
        (DELETE, 2, [5]),
        (INSERT, 7, [0]),
    ]
    assert {(one.version, one.timestamp, one.cancels) for one in found} == {(6, 60, True)}


def test_the_first_commit_has_no_metadata_before_it(tmp_path: Path) -> None:
    """INC-1: the first commit of a clone adds files, and no other version is there to ask for."""
    table = new_table()
    table.append(rows(1, 2))
    clone = table.clone(tmp_path / "clone")
    assert clone.version == 0
    plan = plan_changes(clone.context.view, Covered(0, 0, True))
    assert [(one.version, one.change, one.rows) for one in plan] == [(0, INSERT, 2)]


@pytest.mark.parametrize("content", ["changes", "net"])
def test_a_restored_file_has_only_its_changed_rows_read(content: Contents) -> None:
    """INC-3: a file that is removed and added again with more rows."""
    table, _, _ = counted()
    table.append(rows(*range(9)))
    table.delete("id = 1")
    table.delete("id = 2")
    table.restore(2)
    read = table.changes(after_version=3, content=content)
    assert [(one.change, one.rows) for one in read.file_changes] == [(INSERT, 1)]
    assert read.to_arrow()["id"].to_pylist() == [2]


def test_only_commits_that_touch_a_file_are_examined(monkeypatch: pytest.MonkeyPatch) -> None:
    """INC-3: by added and removed files and by deleted rows."""
    table, _, _ = counted()
    for value in range(4):
        table.append(rows(value))
    table.delete("id = 2")
    table.append(rows(9))
    view = table.context.view
    found = touched_in(view, Covered(1, 6, True))
    assert found is not None
    ids = found.touched.files.files.ids
    examined: list[int] = []
    right = Touched.by

    def by(self: Touched, commit: Any, *metadata: Any) -> list[FileChanges]:
        examined.append(commit.version)
        return right(self, commit, *metadata)

    monkeypatch.setattr(Touched, "by", by)
    for file, versions in ((0, [1]), (2, [3, 5]), (4, [6])):
        mask = ids == ids[file]
        assert found.touched.touching(mask) == frozenset(versions)
        changes = found.changes(view, mask)
        assert [one.version for one in changes] == versions
        assert examined == versions
        examined.clear()
    assert found.touched.touching(ids < 0) == frozenset()
    found.changes(view)
    assert examined == [1, 2, 3, 4, 5, 6]
