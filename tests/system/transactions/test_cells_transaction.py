"""Granularity `transaction`: every cell of the published matrix, with real files."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tablefmt.store.local_store import LocalStore
from tablefmt.store.object_store import Store
from tests.places import MATRICES
from tests.system.transactions import scenes
from tests.system.transactions.scenes import (
    HERE,
    PLACES,
    Doing,
    Place,
    after,
    base,
    base_rows,
    overtaken,
)
from tests.system.transactions.world import assert_rows, copy_to

MATRIX = MATRICES / "transaction.json"
PUBLISHED: dict[str, dict[str, str]] = json.loads(MATRIX.read_text("utf-8"))["earlier_then_later"]

ONE, DISJOINT, TABLE = "one partition", "disjoint partitions", "unpartitioned table"

EARLIER: dict[str, Callable[[Place, bool], Doing]] = {
    "OVERWRITE": lambda place, parted: scenes.overwrite(place, 50, parted),
    "INSERT": lambda place, parted: scenes.insert(place, 51),
    "UPDATE": lambda place, parted: scenes.set_value(place, 1000),
    "MINOR_COMPACT": lambda place, parted: scenes.minor(place),
    "MAJOR_COMPACT": lambda place, parted: scenes.major(place),
    "CLUSTER": lambda place, parted: scenes.cluster_all(place),
}
LATER: dict[str, Callable[[bool], Doing]] = {
    "OVERWRITE": lambda parted: scenes.overwrite(HERE, 60, parted),
    "INSERT": lambda parted: scenes.insert(HERE, 61),
    "UPDATE": lambda parted: scenes.delete(HERE),
    "MINOR_COMPACT": lambda parted: scenes.minor(HERE),
    "MAJOR_COMPACT": lambda parted: scenes.major(HERE),
    "CLUSTER": lambda parted: scenes.cluster_all(HERE),
}


def outcome(earlier: str, later: str) -> str:
    """Return the published outcome: the cell, or the note for CLUSTER."""
    if (earlier, later) == ("INSERT", "CLUSTER"):
        return "compact"
    stands = {"CLUSTER": "MAJOR_COMPACT"}
    return PUBLISHED[stands.get(earlier, earlier)][stands.get(later, later)]


def cells() -> Iterator[tuple[str, str]]:
    """All pairs: the 25 published, and those with CLUSTER."""
    names = [*PUBLISHED, "CLUSTER"]
    assert len(PUBLISHED) == 5
    assert all(len(row) == 5 for row in PUBLISHED.values())
    for earlier in names:
        for later in names:
            yield earlier, later


MODES = {
    (*pair, mode)
    for pair in cells()
    for mode in ("merge-on-read", "copy-on-write")
    if mode == "merge-on-read" or "UPDATE" in pair
}
"""The mode makes a difference to UPDATE alone."""


@pytest.mark.slow
@pytest.mark.share(6)
@pytest.mark.parametrize("scopes", [ONE, DISJOINT, TABLE])
@pytest.mark.parametrize(("earlier", "later", "delete_mode"), sorted(MODES))
def test_a_cell_of_granularity_transaction(
    earlier: str, later: str, scopes: str, delete_mode: str, tmp_path: Path
) -> None:
    """CFL-2, CFL-13 .. CFL-16, CFL-19: the outcome, the exception, and the rows of every version.

    The isolation level makes no difference. The later finds the concurrent commit when it begins
    to commit, or after it lost the race. No data file is touched while it commits. Tables are in
    memory, and those without partitions also on disk.
    """
    parted = scopes != TABLE
    at = list(cells()).index((earlier, later))
    properties = {
        "conflictGranularity": "transaction",
        "deleteMode": delete_mode,
        "isolationLevel": ["WriteSerializable", "Serializable"][at % 2],
    }
    memory, version = base(parted, **properties)
    store: Store = memory if parted else copy_to(memory, LocalStore(tmp_path / "table"))
    place = PLACES[scenes.ELSEWHERE if scopes == DISJOINT else scenes.ROWS]
    first, second = EARLIER[earlier](place, parted), LATER[later](parted)
    shared = (at // 2 + parted) % 2 == 0
    commit_result, error = overtaken(store, version, first, second, shared)

    expected = [tuple(sorted(base_rows()))]
    expected.append(after(expected[0], first))
    published = "pass" if scopes == DISJOINT else outcome(earlier, later)
    if (earlier, later) == ("CLUSTER", "UPDATE") and published == "append":
        # No lineage shows where clustering put a row, so a delete cannot follow it.
        published = "lost"
    if published in ("fail", "lost"):
        name = "ConcurrentWriteException"
        name = "ConcurrentDeleteReadException" if published == "lost" else name
        assert type(error).__name__ == name
        assert error.winner_version == version + 1
    else:
        assert error is None, error
        assert commit_result.version == version + 2
        assert commit_result.rebased_over == (version + 1,)
        expected.append(after(expected[1], second))
    if published == "replace":
        here = [row for row in expected[2] if not parted or row[0] == HERE.p]
        assert here == list(second.added)
    assert_rows(store, expected, version)
