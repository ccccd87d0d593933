"""Findings of `verify` about single rows, and the change feed's errors for them."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tablefmt
from tablefmt.errors import CorruptEntryError
from tablefmt.log.codec import decode
from tablefmt.log.object_names import entry_key
from tablefmt.log.overflow_metadata import read_overflow, write_overflow
from tablefmt.model.content_hashes import decode_hashes, encode_hashes
from tablefmt.model.log_entry import AddedFiles, OperationClass, Totals
from tablefmt.snapshot.file_columns import added_table
from tablefmt.snapshot.file_history import FileHistory
from tablefmt.snapshot.folding import fold
from tests.oracle import logdump
from tests.places import GOLDEN
from tests.rows import Positions, Run, StagedTable

_numbers = itertools.count()


def staged(files: int = 2) -> StagedTable:
    """Files of four rows: ids 0 to 3, 4 to 7, …"""
    table = StagedTable(f"memory://row-checks-{next(_numbers)}")
    for at in range(files):
        table.commit(OperationClass.INSERT, [[(at * 4 + i, i) for i in range(4)]])
    return table


@pytest.mark.parametrize(
    "case",
    [
        "deletes", "copy-on-write", "lineage", "lineage-over-delete", "lineage-over-removal",
        "lineage-after-compaction",
    ],
)  # fmt: skip
def test_sound_rows_are_found_sound(case: str, tmp_path: Path) -> None:
    """DEL-1, DEL-2, LIN-2: marks, their sets, and where rows were moved."""
    shutil.copytree(GOLDEN / case / "table", tmp_path / "t")
    report = tablefmt.open(tmp_path / "t").verify(deep=True)
    assert (report.ok, report.findings) == (True, ())


@pytest.mark.broken_tables
@pytest.mark.parametrize(
    ("case", "rule", "version"),
    [
        ("delete-again", "DEL-4", 5),
        ("delete-beyond", "DEL-1", 3),
        ("delete-overlap", "DEL-1", 3),
        ("positions-falls", "DEL-2", 3),
    ],
)
def test_rows_that_were_never_read_are_checked(
    case: str, rule: str, version: int, tmp_path: Path
) -> None:
    """DEL-1, DEL-2, DEL-4: opening the table works, because sets of positions stay unread."""
    shutil.copytree(GOLDEN / case / "table", tmp_path / "t")
    table = tablefmt.open(tmp_path / "t")
    assert table.scan().files().num_rows == 2
    found = [(f.object, f.rule) for f in table.verify().findings]
    assert found == [(f"_log/{version:020d}.json", rule)]
    with pytest.raises(CorruptEntryError) as caught:
        table.to_arrow()
    assert (caught.value.key, caught.value.rule) == found[0]


@pytest.mark.broken_tables
def test_marks_of_a_removed_file_are_looked_at() -> None:
    """DEL-4: the commit that removes a file cannot delete rows that were deleted before."""
    table = staged()
    table.commit(OperationClass.UPDATE, marks={1: ([0], [])})
    table.commit(OperationClass.UPDATE, remove=[1], marks={1: ([0, 1], [])})
    assert table.table.to_arrow()["id"].to_pylist() == [4, 5, 6, 7]
    assert [f.rule for f in table.table.verify().findings] == ["DEL-4"]
    assert {f["rule"] for f in logdump.read(table.table.uri)["findings"]} == {"DEL-4"}


LOST: dict[str, tuple[list[Run], dict[int, Positions]]] = {
    "beyond the end": ([(0, 1, 1, 4, []), (0, 2, 0, 4, [])], {}),
    "a live row dropped": ([(0, 1, 0, 4, [1]), (0, 2, 0, 4, [])], {}),
    "a row outside of its run": ([(0, 1, 1, 3, [0]), (0, 2, 0, 4, [])], {}),
    "other rows than the output": ([(0, 1, 0, 4, [0]), (0, 2, 0, 3, [])], {}),
}


@pytest.mark.broken_tables
@pytest.mark.parametrize("name", LOST)
def test_lineage_that_explains_other_rows_is_found(name: str) -> None:
    """LIN-2: `verify` and the second reader find it.

    Reading the version does not need the lineage.
    """
    runs, marks = LOST[name]
    table = staged()
    table.commit(OperationClass.UPDATE, marks={1: ([0], [])})
    rows = [(i, 0) for i in range(1, 8)]
    table.commit(OperationClass.MINOR_COMPACT, [rows], [1, 2], marks, lineage=runs)
    assert table.table.to_arrow().num_rows == 7
    found = [(f.object, f.rule) for f in table.table.verify().findings]
    assert found == [(f"_log/{4:020d}.json", "LIN-2")]
    assert [f["rule"] for f in logdump.read(table.table.uri)["findings"]] == ["LIN-2"]


@pytest.mark.broken_tables
def test_rows_that_are_in_two_places_are_found() -> None:
    """LIN-2, CFL-13, CFL-14: rows are in a live input, or in the output of a removed input."""
    copied = [[(i, 0) for i in range(4)]]
    run: list[Run] = [(0, 1, 0, 4, [])]
    for marks, sound in (({}, False), ({1: ([0, 1], [])}, False), ({1: ([0, 1, 2, 3], [])}, True)):
        table = staged()
        table.commit(OperationClass.UPDATE, copied, marks=marks, lineage=run)
        assert_found(table, 3, sound)
    for marks, sound in (({}, False), ({3: ([0], [])}, False), ({3: ([0, 1, 2, 3], [])}, True)):
        table = staged()
        table.commit(OperationClass.UPDATE, remove=[1])
        table.commit(OperationClass.UPDATE, copied, marks=marks, lineage=run)
        assert_found(table, 4, sound)


def assert_found(table: StagedTable, version: int, sound: bool) -> None:
    """Both readers find nothing, or a lineage that is wrong in the entry of that version."""
    found = [(f.object, f.rule) for f in table.table.verify().findings]
    assert found == ([] if sound else [(entry_key(version), "LIN-2")])
    assert [f["rule"] for f in logdump.read(table.table.uri)["findings"]] == ["LIN-2"][: not sound]


def rows_of(table: tablefmt.Table, **range_: Any) -> list[tuple[str, int, int]]:
    got = table.changes(**range_).to_arrow()
    names = ("_change_type", "_commit_version", "id")
    return list(zip(*(got[name].to_pylist() for name in names), strict=True))


Changed = list[tuple[str, int]]

EXPLAINED: dict[str, tuple[Callable[[StagedTable], object], Changed]] = {
    "rows deleted": (
        lambda t: t.commit(OperationClass.UPDATE, marks={1: ([0], [])}),
        [("delete", 0)],
    ),
    "rows updated": (
        lambda t: t.commit(OperationClass.UPDATE, [[(0, 9)]], marks={1: ([], [0])}, updated=[True]),
        [("update_preimage", 0), ("update_postimage", 0)],
    ),
    "a file rewritten": (
        lambda t: t.commit(
            OperationClass.UPDATE,
            [[(1, 1), (2, 2), (3, 3)]],
            [1],
            {1: ([0], [])},
            lineage=[(0, 1, 0, 4, [0])],
        ),
        [("delete", 0)],
    ),
    "rows moved out of a file that stays": (
        lambda t: t.commit(
            OperationClass.UPDATE,
            [[(1, 1), (2, 2)], [(0, 7)]],
            marks={1: ([1, 2, 3], [0])},
            lineage=[(0, 1, 0, 3, [0])],
            updated=[False, True],
        ),
        [("delete", 3), ("update_preimage", 0), ("update_postimage", 0)],
    ),
    "a file gone with marks": (
        lambda t: t.commit(OperationClass.UPDATE, [[(2, 7)]], [1], {1: ([3], [2])}, updated=[True]),
        [
            *(("delete", i) for i in (0, 1, 3)),
            ("update_preimage", 2),
            ("update_postimage", 2),
        ],
    ),
    "deletes aside": (
        lambda t: t.commit(OperationClass.UPDATE, marks={1: ([0], [])}, side=True),
        [("delete", 0)],
    ),
    "rows that come back without some": (
        lambda t: t.commit(OperationClass.OVERWRITE, [[(7, 0), (8, 0)]], [1], {2: ([1], [])}),
        [("delete", i) for i in range(4)] + [("insert", 7)],
    ),
}


@pytest.mark.parametrize("name", EXPLAINED)
def test_an_entry_changed_the_rows_that_its_marks_and_its_lineage_say(name: str) -> None:
    """INC-5: this holds for any range with the commit."""
    table = staged(1)
    change, rows = EXPLAINED[name]
    change(table)
    table.commit(OperationClass.INSERT, [[(100, 0)]])
    before = [("insert", 1, i) for i in range(4)]
    changed = [(kind, 2, row) for kind, row in rows]
    after = [("insert", 3, 100)]
    assert rows_of(table.table, after_version=0) == before + changed + after
    assert rows_of(table.table, starting_version=2) == changed + after
    assert rows_of(table.table, starting_version=2, ending_version=2) == changed
    assert rows_of(table.table, after_version=2) == after


def test_a_removed_file_deletes_the_rows_that_were_live_till_then() -> None:
    """INC-3: rows deleted before are not deleted again; a file added has all of its rows."""
    table = staged()
    table.commit(OperationClass.UPDATE, marks={1: ([0, 3], []), 2: ([1], [])})
    table.commit(OperationClass.OVERWRITE, [[(50, 0)]], [1])
    table.commit(OperationClass.OVERWRITE, [], [2, 3])
    gone = [("delete", 4, 1), ("delete", 4, 2), ("insert", 4, 50)]
    last = [("delete", 5, i) for i in (4, 6, 7, 50)]
    assert rows_of(table.table, starting_version=4) == gone + last
    wanted = table.table.changes(starting_version=4, where="id > 4").to_arrow()["id"].to_pylist()
    assert wanted == [50, 6, 7, 50]


def test_a_compaction_brings_no_rows_whatever_it_says_of_rows() -> None:
    """INC-3, TIM-2: lineage, and deletes that went along with the rows."""
    table = staged()
    table.commit(OperationClass.UPDATE, marks={1: ([0], [])})
    runs: list[Run] = [(0, 1, 0, 4, []), (0, 2, 0, 4, [])]
    rows = [(i, i % 4) for i in range(8)]
    table.commit(OperationClass.MAJOR_COMPACT, [rows], [1, 2], {3: ([0], [])}, lineage=runs)
    table.commit(OperationClass.OVERWRITE, [], [3])
    assert rows_of(table.table, starting_version=4, ending_version=4) == []
    assert rows_of(table.table, starting_version=4) == [("delete", 5, i) for i in range(1, 8)]


def test_an_overflow_file_keeps_facts_for_conflicts_and_a_snapshot_does_not() -> None:
    """ADD-6, ADD-8: `updated` and `keys`; the hashes are of no use to readers."""
    table = staged(0)
    store, metadata = table.store, table.table.context.view.head.metadata
    hashes = np.array([3, 2**64 - 1], np.uint64)
    columns: dict[str, Any] = {
        "path": ["data/a", "data/b"],
        "size": [1, 2],
        "rows": [3, 4],
        "updated": [True, False],
        "keys": [None, encode_hashes(hashes)],
    }
    overflow = write_overflow(store, "0" * 32, added_table(AddedFiles(columns), metadata))
    found = read_overflow(store, overflow)
    assert found["keys"].to_pylist() == [None, hashes.astype("<u8").tobytes()]
    assert decode_hashes(found["keys"][1].as_py()).tolist() == hashes.tolist()
    first = decode(store.get(entry_key(0)), 0).entry
    totals = Totals(files=2, rows=7, bytes=3, next_id=3, metadata_version=0)
    second = replace(first, version=1, metadata=None, protocol=None, add=overflow, totals=totals)
    for entry, sides in (
        (second, {1: found}),
        (replace(second, add=AddedFiles(columns)), {}),
    ):
        (segment,) = fold(FileHistory(), [first, entry], sides).segments
        kept = segment.files.table
        assert kept.column_names == ["path", "size", "rows", "updated", "written"]
        assert kept["updated"].to_pylist() == [True, False]
