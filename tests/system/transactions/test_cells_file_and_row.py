"""Granularities `file` and `row`: every cell of the published matrix, with real files.

What a scene should come to is worked out here from sets of rows and files alone.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.places import MATRICES
from tests.system.transactions import scenes
from tests.system.transactions.scenes import (
    ELSEWHERE,
    HERE,
    OTHER_FILES,
    PLACES,
    ROWS,
    SAME,
    Doing,
    Place,
    after,
    base,
    base_rows,
    file_of,
    overtaken,
)
from tests.system.transactions.world import assert_rows, forget

MATRIX = MATRICES / "file_and_row.json"
CELLS: list[dict[str, Any]] = json.loads(MATRIX.read_text("utf-8"))["cells"]

PROFILES = {
    "file, copy-on-write": {"deleteMode": "copy-on-write", "conflictGranularity": "file"},
    "file, deletion vectors": {"deleteMode": "merge-on-read", "conflictGranularity": "file"},
    "row, deletion vectors": {"deleteMode": "merge-on-read", "conflictGranularity": "row"},
}
EVERYWHERE = (SAME, ROWS, OTHER_FILES, ELSEWHERE)
WHOLE = (SAME, ELSEWHERE)
FILES = (SAME, OTHER_FILES, ELSEWHERE)

Make = Callable[[Place], Doing]

EARLIER: dict[str, list[tuple[str, Make, tuple[str, ...]]]] = {
    "INSERT": [("append", lambda place: scenes.insert(place, place.key), EVERYWHERE)],
    "UPDATE": [
        ("delete", scenes.delete, EVERYWHERE),
        ("set v", lambda place: scenes.set_value(place, 1000), EVERYWHERE),
        ("set v to what the later looks for", lambda p: scenes.set_value(p, HERE.key), EVERYWHERE),
        ("read and append", lambda place: scenes.copy_row(place, 60), FILES),
        ("read and append what the later looks for", lambda p: scenes.copy_row(p, 2), FILES),
        ("overwrite", lambda place: scenes.overwrite(place, 61), WHOLE),
        ("overwrite with what the later looks for", lambda p: scenes.overwrite(p, 2), WHOLE),
    ],
    "COMPACT": [("minor", scenes.minor, FILES), ("major", scenes.major, WHOLE)],
    "CLUSTER": [("cluster", scenes.cluster, FILES)],
}
"""Ways to do an operation, by the matrix's names, and the places where each matters."""

LATER: dict[str, list[tuple[str, Callable[[], Doing]]]] = {
    "INSERT": [("append", lambda: scenes.insert(HERE, 70))],
    "UPDATE": [
        ("delete by key", lambda: scenes.delete(HERE)),
        ("delete by value", lambda: scenes.delete_by_value(HERE)),
        ("set v", lambda: scenes.set_value(HERE, 2000)),
        ("read and append", lambda: scenes.copy_row(HERE, 71)),
    ],
    "COMPACT": [("minor", lambda: scenes.minor(HERE)), ("major", lambda: scenes.major(HERE))],
    "CLUSTER": [("cluster", lambda: scenes.cluster(HERE))],
    "OVERWRITE": [("overwrite", lambda: scenes.overwrite(HERE, 72))],
}


def expected_conflict(cell: dict[str, Any], first: Doing, second: Doing) -> str | None:
    """The exception by the condition of the cell, from plain sets."""
    if cell["conflict"] == "never" or str(cell.get("tablefmt", "")).startswith("never"):
        return None
    by_row = cell["profile"].startswith("row")
    moved = frozenset(first.compacts)
    touched = frozenset(map(file_of, first.removed)) | moved
    if cell["later"] in ("COMPACT", "CLUSTER"):
        return "ConcurrentDeleteDeleteException" if touched & frozenset(second.compacts) else None
    opened = frozenset(map(file_of, second.read))
    if cell["earlier"] in ("COMPACT", "CLUSTER"):
        return "ConcurrentDeleteReadException" if moved & opened else None
    same_columns = first.sets is not None and first.sets.isdisjoint(second.looks_at)
    matches = any(map(second.condition, first.added))
    if matches and not (by_row and same_columns):
        return "ConcurrentAppendException"
    if first.removed & second.read if by_row else touched & opened:
        return "ConcurrentDeleteReadException"
    return None


def scenes_of(cell: dict[str, Any]) -> Iterator[tuple[str, str, str, Doing, Doing]]:
    """Every way to come into a cell."""
    for how, make, places in EARLIER[cell["earlier"]]:
        for other, then in LATER[cell["later"]]:
            for place in places:
                yield how, other, place, make(PLACES[place]), then()


def name_of(cell: dict[str, Any]) -> str:
    return ", ".join(cell[name] for name in ("profile", "isolation", "earlier", "later"))


def play(
    cell: dict[str, Any], first: Doing, second: Doing, shared: bool, keep: bool = False
) -> str | None:
    """One scene on the real stack: the exception's name; rows and requests are checked.

    With `keep` the table stays, for the oracle that looks at every table after a test.
    """
    store, version = base(isolationLevel=cell["isolation"], **PROFILES[cell["profile"]])  # type: ignore[arg-type]
    commit_result, error = overtaken(store, version, first, second, shared)
    expected = [tuple(sorted(base_rows()))]
    expected.append(after(expected[0], first))
    if error is not None:
        assert error.winner_version == version + 1  # type: ignore[attr-defined]
    elif not commit_result.no_op:
        assert (commit_result.version, commit_result.rebased_over) == (version + 2, (version + 1,))
        expected.append(after(expected[1], second))
    else:
        # Its input files were compacted or removed.
        gone = frozenset(map(file_of, first.removed))
        taken = frozenset(second.compacts)
        assert taken
        assert taken <= gone or not taken.isdisjoint(first.compacts)
    assert_rows(store, expected, version)
    if not keep:
        forget(store)
    return None if error is None else type(error).__name__


def test_there_are_96_cells_and_each_is_tried_where_it_conflicts_and_where_it_does_not() -> None:
    """CFL-3: the scenes leave no condition out."""
    assert len(CELLS) == 96
    for cell in CELLS:
        found = {expected_conflict(cell, first, second) for *_, first, second in scenes_of(cell)}
        assert None in found
        named = found - {None}
        text = str(cell.get("exception"))
        assert all(str(name) in text for name in named)
        never = cell["conflict"] == "never" or "tablefmt" in cell
        assert bool(named) is not never


def everyday(cell: dict[str, Any]) -> list[tuple[Any, ...]]:
    """Return one scene of a cell for each outcome and way of the earlier.

    The rest are in the soak.
    """
    found: dict[Any, tuple[Any, ...]] = {}
    for at, scene in enumerate(scenes_of(cell)):
        how, other, place, first, second = scene
        error = expected_conflict(cell, first, second)
        same_place = place == SAME
        found.setdefault((how if error else other, error, same_place), (at, *scene))
    return list(found.values())


@pytest.mark.slow
@pytest.mark.share(9)
@pytest.mark.parametrize("cell", CELLS, ids=name_of)
def test_a_cell_of_granularities_file_and_row(cell: dict[str, Any]) -> None:
    """CFL-3, CFL-8 .. CFL-15: the exception or none, the rows of every version, no data read."""
    for at, *words, first, second in everyday(cell):
        found = play(cell, first, second, at % 2 == 0)
        assert found == expected_conflict(cell, first, second), words


@pytest.mark.soak
@pytest.mark.parametrize("cell", CELLS, ids=name_of)
def test_every_way_into_a_cell_of_granularities_file_and_row(cell: dict[str, Any]) -> None:
    """CFL-3, CFL-8 .. CFL-15: met before the commit, and after a lost race."""
    for *words, first, second in scenes_of(cell):
        for shared in (False, True):
            found = play(cell, first, second, shared, keep=True)
            assert found == expected_conflict(cell, first, second), words


@pytest.mark.slow
@pytest.mark.share(6)
@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("earlier", EARLIER)
def test_an_overwrite_that_commits_later_replaces_what_is_there_then(
    profile: str, earlier: str
) -> None:
    """CFL-3: the state at its commit decides, after any earlier operation."""
    for how, make, places in EARLIER[earlier]:
        for place in places:
            cell = {"profile": profile, "isolation": "Serializable"}
            first, second = make(PLACES[place]), scenes.overwrite(HERE, 72)
            assert play(cell, first, second, place == SAME) is None, (how, place)
