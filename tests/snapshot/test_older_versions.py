"""Threads that share a view and read different versions below its base."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from tablefmt.snapshot.folding import MaterializedFiles
from tests.tables import handle, ids, memory, new_table, rows


class Overtaken(MaterializedFiles):
    """Right after one thread has put files there, another one asks for a version and puts its."""

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        other = getattr(self, "other", None)
        if name == "older" and other is not None:
            object.__setattr__(self, "other", None)
            thread = threading.Thread(target=other)
            thread.start()
            thread.join()


@pytest.mark.parametrize("mine", [2, 3, 5])
@pytest.mark.parametrize("theirs", [2, 3, 5])
def test_each_gets_the_version_it_asked_for(mine: int, theirs: int) -> None:
    """RPL-1: requests of other threads to the same handle make no difference."""
    store = memory()
    table = new_table(store)
    for number in range(1, 7):
        table.overwrite(rows(number))
        if number % 2 == 0:
            table.checkpoint()
    table.append(rows(7))
    shared = handle(store)
    view = shared.context.view
    assert view.base.version == 6
    seen: list[list[int]] = []
    view._files.__class__ = Overtaken
    object.__setattr__(view._files, "other", lambda: seen.append(ids(shared, theirs)))
    assert ids(shared, mine) == [mine]
    assert seen == [[theirs]]
    assert ids(shared) == [6, 7]
