"""The comparison with the model has teeth: planners that are known to be wrong are found out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
from pyroaring import BitMap64

from tablefmt.changes import change_reader, changed_rows, commit_rows, feed_plan
from tablefmt.changes.commit_rows import FileChanges, Touched
from tablefmt.data import row_comparison
from tablefmt.errors import CorruptEntryError, InvalidPredicateError
from tests.changes.histories import History
from tests.changes.test_dropped_columns import CASES, check_case, table_of
from tests.changes.test_feed import check_window

VERBS = (
    "append append append compact update delete update overwrite_some compact merge delete restore "
    "append append update"
)
"""Operations on a table, in order. Their rows are random."""

Check = Callable[[], None]


@pytest.fixture(scope="module")
def checks(tmp_path_factory: pytest.TempPathFactory) -> list[Check]:
    """Each refuses wrong answers. The tables are right; what is wrong is how they are read."""
    folder = tmp_path_factory.mktemp("tables")
    known: list[Check] = []
    for at, case in enumerate(CASES.values()):
        known.append(partial(check_case, case, table_of(case, str(folder / f"{at}"), False)))
    for mode in ("copy-on-write", "merge-on-read"):
        history = History(5, str(folder / mode), deleteMode=mode)
        for verb in VERBS.split():
            getattr(history, verb)()
            history.table.refresh()
        head = len(history.versions) - 1
        windows = [(at, at + 1) for at in range(head)] + [(0, head)]
        known += [partial(check_window, history, *window) for window in windows]
    return known


def _planned_otherwise(change: Callable[[FileChanges], FileChanges]) -> Any:
    right = feed_plan.plan_changes
    return lambda *asked: [change(each) for each in right(*asked)]


def _as_insert(change: FileChanges) -> FileChanges:
    return replace(change, change="insert") if change.change == "update_postimage" else change


def _without_marks(right: Any) -> Any:
    def went(
        self: Touched, chosen: Any, version: int, removed: Any, marks: Any, stays: Any
    ) -> None:
        left = {place: each for place, each in marks.items() if place not in set(removed.tolist())}
        right(self, chosen, version, removed, left, stays)

    return went


BAD: dict[str, tuple[object, str, Any]] = {
    "copies of rows are rows that came": (Touched, "_outputs", lambda *_: {}),
    "rows that moved have gone": (Touched, "_copied", lambda *_: {}),
    "rows that were gone go again with their file": (
        Touched,
        "_live",
        lambda self, place, _: BitMap64(range(int(self._rows[place]))),
    ),
    "marks on a file that goes are not looked at": (
        Touched,
        "_went",
        _without_marks(Touched._went),
    ),
    "rows of an update are inserts": (feed_plan, "plan_changes", _planned_otherwise(_as_insert)),
    "a commit has the number of the one before": (
        feed_plan,
        "plan_changes",
        _planned_otherwise(lambda change: replace(change, version=change.version - 1)),
    ),
    "a restore tells what it moved": (changed_rows, "may_cancel", lambda _: False),
    "of equal rows all stay or none": (
        row_comparison,
        "_ranks",
        lambda codes: np.zeros(len(codes), np.int64),
    ),
    "a dropped column has what files hold": (
        changed_rows,
        "schema_of_files",
        lambda schema, _: schema,
    ),
    "a condition is asked before rows cancel": (change_reader, "lost_of", lambda _: frozenset()),
    "a file is decoded once for other columns": (
        commit_rows.FileChanges,
        "is_like",
        lambda *_: True,
    ),
}


@pytest.mark.slow
def test_the_planner_passes(checks: list[Check]) -> None:
    """INC-4, INC-5, INC-6: the unchanged planner gives the rows that commits removed and added."""
    for check in checks:
        check()


@pytest.mark.slow
@pytest.mark.share(2)
@pytest.mark.parametrize("name", BAD)
def test_a_planner_that_is_wrong_is_found_out(
    name: str, checks: list[Check], monkeypatch: pytest.MonkeyPatch
) -> None:
    """INC-4, INC-5, INC-6: some range has wrong rows, or is refused."""
    monkeypatch.setattr(*BAD[name])
    for check in checks:
        try:
            check()
        except (AssertionError, CorruptEntryError, InvalidPredicateError):
            return
    pytest.fail("no check failed")
