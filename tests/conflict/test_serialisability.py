"""Random histories of concurrent transactions always have a serial order; broken rules lose it.

Serializable, and granularity `transaction`: the order of the versions explains every version.
WriteSerializable: some order of the writes explains the last version. Physical changes explain
nothing and change nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pytest
from pyroaring import BitMap64

from tablefmt.conflict import commit_overlap, conflict_check, rebase
from tablefmt.conflict.read_write_sets import ConcurrentCommit, DeletionVector, PendingCommit, Read
from tablefmt.conflict.rebase import Moves, RowMove
from tablefmt.errors import CorruptEntryError
from tests.conflict.histories import (
    CLUSTER,
    MINOR,
    History,
    Mix,
    explained_in_order,
    explained_in_some_order,
    no_rank,
    run,
)
from tests.conflict.world import Level

HISTORIES = 1000
"""Histories for each granularity and isolation level. Half of them use copy-on-write."""

GRANULARITIES = ("row", "file", "transaction")
WRITES, SERIAL = "WriteSerializable", "Serializable"


def is_explained(history: History, level: Level) -> bool:
    if level.isolation == SERIAL or level.granularity == "transaction":
        return explained_in_order(history)
    return explained_in_some_order(history)


@pytest.mark.slow
@pytest.mark.share(3)
@pytest.mark.parametrize("isolation", [WRITES, SERIAL])
@pytest.mark.parametrize("granularity", GRANULARITIES)
def test_every_history_has_a_serial_order(granularity: str, isolation: str) -> None:
    """CFL-2, CFL-3, CFL-8 .. CFL-11, CFL-13 .. CFL-18: brute force over orders."""
    assert_explained(granularity, isolation, range(HISTORIES))


@pytest.mark.soak
@pytest.mark.parametrize("isolation", [WRITES, SERIAL])
@pytest.mark.parametrize("granularity", GRANULARITIES)
def test_other_histories_have_one_too(granularity: str, isolation: str, first_seed: int) -> None:
    """CFL-2, CFL-3, CFL-8 .. CFL-11, CFL-13 .. CFL-18."""
    assert_explained(granularity, isolation, range(first_seed, first_seed + 10 * HISTORIES))


def assert_explained(granularity: str, isolation: str, seeds: range) -> None:
    unexplained, committed, refused = [], 0, 0
    for seed in seeds:
        mode = ("merge-on-read", "copy-on-write")[seed % 2]
        level = Level(granularity, isolation, mode)
        history = run(seed, level)
        if not is_explained(history, level):
            unexplained.append((seed, level))
        committed += len(history.committed)
        refused += sum(history.conflicts.values())
    assert unexplained == []
    # Refusing everything would be serialisable too.
    assert committed > 2 * refused > len(seeds) // 2


@pytest.mark.slow
@pytest.mark.share(2)
@pytest.mark.parametrize("moving", [0.0, 0.8])
def test_histories_of_many_transactions_are_explained_in_order(moving: float) -> None:
    """CFL-8, CFL-10: Serializable by row; longer than brute force over orders could check."""
    level = Level("row", SERIAL)
    histories = [run(seed, level, Mix(transactions=40, moving=moving)) for seed in range(40)]
    assert [seed for seed, h in enumerate(histories) if not explained_in_order(h)] == []
    assert max(len(h.committed) for h in histories) > 15


# -- rules that are known to be wrong


def _never(*_: Any) -> None:
    return None


def _never_any(*_: Any) -> set[int]:
    return set()


def _no_overwrite(concurrent: ConcurrentCommit, mine: PendingCommit, blind: int) -> bool:
    read = concurrent.entry.basis.read_version
    return concurrent.entry.operation.cls.value == "UPDATE" and read is not None and read >= blind


def _no_offset(move: RowMove, positions: BitMap64) -> BitMap64:
    return _PLACE(replace(move, offset=0), positions)


_PLACE = RowMove.place
_DELETES = rebase._move_deletes
_SETS = commit_overlap._sets_nothing_read
_READ = rebase._move_read


def _stays(concurrent: ConcurrentCommit, mine: PendingCommit) -> PendingCommit:
    return mine


def _read_stays(read: Read, *_: Any) -> Read:
    return read


def _deletes_stay(
    concurrent: ConcurrentCommit, mine: PendingCommit, moves: Moves
) -> Mapping[int, DeletionVector]:
    return mine.deletes


def _twice(
    concurrent: ConcurrentCommit, mine: PendingCommit, moves: Moves
) -> Mapping[int, DeletionVector]:
    return _DELETES(replace(concurrent, deletes={}), mine, moves)


def _any_columns(concurrent: ConcurrentCommit, mine: PendingCommit, read: Read) -> bool:
    return _SETS(concurrent, mine, replace(read, columns=frozenset()))


def _no_keys_match(concurrent: ConcurrentCommit, read: Read, mask: Any) -> None:
    if read.keys is not None:
        mask[:] = False


def _whole_only(read: Read, removed: Any, moves: Moves) -> Read:
    return replace(_READ(read, removed, moves), moved={}, rows=read.rows)


def _disjoint(*_: Any) -> frozenset[Any]:
    return frozenset()


ROW, SCOPES = Level(), Level("transaction")
ANY = Mix()
VALUES = Mix(("update", "count"), 0.0, values=2, partitions=(None,))
FEW = Mix(("append", "count", "count", "delete", "update"), 0.0, values=2, partitions=(None,))
WIPED = replace(FEW, kinds=("append", "count", "overwrite"), partitions=(None, 0, 1))
TAKEN = Mix(("append",), 0.8, classes=(MINOR, MINOR, CLUSTER))
UPDATES = Mix(("delete", "update", "drop", "append"), 0.5, classes=(MINOR,))


@dataclass(frozen=True)
class Wrong:
    """One function of the rules, replaced."""

    name: str
    where: Any
    attribute: str
    by: Callable[..., Any]
    level: Level = ROW
    mix: Mix = ANY
    first: int = 0
    """The seed from which on a history is looked for that shows it: the first of all, as it was."""


WRONG = [
    Wrong(
        "rows a blind insert added are forgotten",
        conflict_check,
        "_may_have_seen",
        _never,
        ROW,
        FEW,
        first=932,
    ),
    Wrong(
        "an overwrite removes what it read",
        conflict_check,
        "_may_have_seen",
        _no_overwrite,
        ROW,
        WIPED,
        first=1667,
    ),
    Wrong("added rows do not matter", conflict_check, "_appended", _never),
    Wrong("removed rows do not matter", conflict_check, "_removed", _never),
    Wrong("removals are not compared", conflict_check, "overlap_with_removals", _never, first=96),
    Wrong(
        "new versions never match", commit_overlap, "_sets_nothing_read", _any_columns, ROW, VALUES
    ),
    Wrong("no key is ever met", commit_overlap, "_without_other_keys", _no_keys_match),
    Wrong("dropped rows are counted", rebase.RowMove, "place", no_rank, first=836),
    Wrong("every input starts at 0", rebase.RowMove, "place", _no_offset),
    Wrong("removals stay where they were", rebase, "_move_deletes", _deletes_stay),
    Wrong("rows are taken out twice", rebase, "_move_deletes", _twice, ROW, UPDATES, first=744),
    Wrong("reads stay where they were", rebase, "_move_read", _read_stays, first=1018),
    Wrong(
        "only files that are still there were read", rebase, "_move_read", _whole_only, first=1018
    ),
    Wrong("compaction brings deleted rows back", rebase, "apply_deletes_of", _stays),
    Wrong("overtaken groups stay", rebase, "drop_overtaken_groups", _stays),
    Wrong("nothing is taken over", rebase, "take_over_outputs", _stays, SCOPES, first=48),
    Wrong(
        "a part is taken over",
        conflict_check,
        "cannot_take_over",
        _never_any,
        SCOPES,
        TAKEN,
        first=83,
    ),
    Wrong("scopes are never shared", conflict_check, "shared_partitions", _disjoint, SCOPES),
]


@pytest.mark.parametrize("wrong", WRONG, ids=lambda wrong: wrong.name)
def test_a_broken_rule_is_caught(wrong: Wrong, monkeypatch: pytest.MonkeyPatch) -> None:
    """The histories have teeth: each rule left out or bent shows within a few thousand."""
    seeds = range(wrong.first, wrong.first + 40 * HISTORIES)
    assert hasattr(wrong.where, wrong.attribute)
    with monkeypatch.context() as broken:
        broken.setattr(wrong.where, wrong.attribute, wrong.by)
        caught = next((seed for seed in seeds if _goes_wrong(seed, wrong)), None)
    print(wrong.name, "caught by seed", caught)
    assert caught is not None
    assert not _goes_wrong(caught, wrong)


def _goes_wrong(seed: int, wrong: Wrong) -> bool:
    try:
        return not is_explained(run(seed, wrong.level, wrong.mix), wrong.level)
    except (AssertionError, CorruptEntryError):
        # A reader would refuse the log, or rows are lost on the way.
        return True
