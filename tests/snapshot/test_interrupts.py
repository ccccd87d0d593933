"""A change that is broken off anywhere leaves a view that goes on as if it had not begun."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from tablefmt.log.codec import decode
from tablefmt.log.object_names import entry_key
from tablefmt.snapshot import folding
from tablefmt.snapshot.log_view import LogView
from tablefmt.store.object_store import Store
from tests.tables import entries_of, memory, new_table, rows

SNAPSHOT_PACKAGE = str(Path(folding.__file__).parent)


class InterruptAt:
    """Raise KeyboardInterrupt at the n-th line that runs in the package `snapshot`."""

    def __init__(self, line: int) -> None:
        self.left = line

    def __call__(self, frame: FrameType, event: str, _: Any) -> Any:
        if (
            not frame.f_code.co_filename.startswith(SNAPSHOT_PACKAGE)
            or frame.f_code.co_name == "<genexpr>"
        ):
            return None
        if event == "line":
            self.left -= 1
            if self.left == 0:
                raise KeyboardInterrupt
        return self

    def run(self, work: Callable[[], Any]) -> bool:
        """Return True if the work was interrupted."""
        before = sys.gettrace()
        sys.settrace(self)
        try:
            work()
        except KeyboardInterrupt:
            return True
        finally:
            sys.settrace(before)
        return False


@pytest.fixture(scope="module")
def store() -> Store:
    """Return a store with appends, deleted rows and files, and a metadata change."""
    made = memory()
    table = new_table(made)
    table.append(rows(1, 2, 3))
    table.append(rows(4))
    table.delete("id = 2")
    table.overwrite(rows(5, 6))
    table.alter.set_properties({"user.note": "test"})
    table.append(rows(7))
    table.delete("id = 6")
    return made


def state(view: LogView) -> Any:
    files = [view.snapshot(v) for v in (view.head.version, 3)]
    return (
        view.head,
        list(view.timeline.timestamps),
        list(view.timeline.time_versions),
        [view.totals_at(version) for version in range(view.head.version + 1)],
        [stored.version for stored in view.entries_after(0)],
        [snapshot.files.to_pylist() for snapshot in files],
        [snapshot.with_vectors(snapshot.files).to_pylist() for snapshot in files],
        view.metadata_at(view.head.version),
    )


def absorb(store: Store) -> tuple[LogView, Callable[[], Any]]:
    view, following = LogView(store, entries_of(store, 0, 1)), entries_of(store, 2, 7)
    return view, lambda: view.absorb(following)


def fold(store: Store) -> tuple[LogView, Callable[[], Any]]:
    view = LogView(store, entries_of(store, 0, 2))
    view.snapshot()
    view.absorb(entries_of(store, 3, 7))
    return view, view.snapshot


def catch_up(store: Store) -> tuple[LogView, Callable[[], Any]]:
    view = LogView(store, entries_of(store, 0, 1))
    view.skip([store.get(entry_key(v)) for v in (2, 3)], decode(store.get(entry_key(3)), 3))
    return view, view.refresh


def skip(store: Store) -> tuple[LogView, Callable[[], Any]]:
    view = LogView(store, entries_of(store, 0, 1))
    bodies = [store.get(entry_key(v)) for v in (2, 3, 4)]
    return view, lambda: view.skip(bodies, decode(bodies[-1], 4))


@pytest.mark.share(2)
@pytest.mark.parametrize("step", [11, pytest.param(1, marks=pytest.mark.soak)])
@pytest.mark.parametrize("begin", [absorb, fold, catch_up, skip])
def test_an_interrupt_at_any_line_leaves_a_view_that_can_go_on(
    begin: Callable[[Store], Any], step: int, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CMT-11: the same change once more, and everything is as in a view that was never stopped."""
    monkeypatch.setattr(folding, "UNFOLDED_MAX", 3)
    wanted = state(LogView.open(store))
    line, broken = 0, True
    while broken:
        line += step
        view, work = begin(store)
        broken = InterruptAt(line).run(work)
        work()
        view.refresh()
        assert state(view) == wanted, line
    assert line > 20, "it was broken off nowhere"
