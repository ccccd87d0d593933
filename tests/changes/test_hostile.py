"""Logs whose entries cannot have changed the rows that they say."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest

from tablefmt.errors import CorruptEntryError
from tablefmt.model.log_entry import OperationClass
from tests.rows import StagedTable

_numbers = itertools.count()

HOSTILE: dict[str, tuple[Callable[[StagedTable], object], str]] = {
    "a row goes twice": (
        lambda t: [
            t.commit(OperationClass.UPDATE, marks={1: ([0], [])}),
            # The sums count it twice.
            t.gone[1].add(-1),
            t.commit(OperationClass.UPDATE, marks={1: ([0], [])}),
        ],
        "DEL-4",
    ),
    "a mark on a row that was gone": (
        lambda t: [
            t.commit(OperationClass.UPDATE, marks={1: ([0], [])}),
            t.commit(OperationClass.UPDATE, remove=[1], marks={1: ([], [0])}),
        ],
        "DEL-1",
    ),
    "a lineage of fewer rows": (
        lambda t: t.commit(
            OperationClass.UPDATE, [[(1, 1), (2, 2)]], [1], lineage=[(0, 1, 0, 1, [])]
        ),
        "LIN-2",
    ),
    "a lineage beyond the file": (
        lambda t: t.commit(
            OperationClass.UPDATE, [[(1, 1), (2, 2)]], [1], lineage=[(0, 1, 1 << 61, 2, [])]
        ),
        "LIN-2",
    ),
    "dropped rows of no run": (
        lambda t: t.commit(
            OperationClass.UPDATE, [[(1, 1), (2, 2)]], [1], lineage=[(0, 1, 0, 3, [3])]
        ),
        "LIN-2",
    ),
}


@pytest.mark.broken_tables
@pytest.mark.parametrize("name", HOSTILE)
def test_rows_of_an_entry_that_cannot_be_right_are_refused(name: str) -> None:
    """INC-5: the error names the broken rule."""
    table = StagedTable(f"memory://hostile-feed-{next(_numbers)}")
    table.commit(OperationClass.INSERT, [[(i, i) for i in range(4)]])
    change, rule = HOSTILE[name]
    change(table)
    for content in ("changes", "net", "append"):
        with pytest.raises(CorruptEntryError) as caught:
            table.table.changes(after_version=0, content=content).to_arrow()
        assert caught.value.rule == rule
