"""Random histories on the real stack: the isolation level holds in every one.

Serializable, and granularity `transaction`: the order of the versions explains what each operation
read and did. WriteSerializable: some order of the operations does. Compactions change no row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tablefmt.commit import concurrent_commits
from tablefmt.commit.driver import Driver
from tablefmt.commit.transaction_plan import Removed, removed_from
from tablefmt.conflict import commit_overlap, conflict_check, rebase
from tablefmt.conflict.read_write_sets import ConcurrentCommit, PendingCommit
from tablefmt.conflict.verdict import RebasedOver
from tablefmt.errors import CorruptTableError
from tablefmt.operations import transaction
from tests.conflict.histories import no_rank
from tests.system.transactions.histories import Step, act, check_all, fault, play
from tests.system.transactions.ops import COMPACTIONS, Op

SERIAL, WRITES = "Serializable", "WriteSerializable"
GRANULARITIES = ("row", "file", "transaction")
MODES = ("merge-on-read", "copy-on-write")

KINDS = (
    *("append", "append", "overwrite", "truncate", "delete", "delete", "update", "update"),
    *("update", "merge", "copy", "copy", "scan_delete", "scan_overwrite", *COMPACTIONS),
)
EVERYDAY = 30
SOAK, BLOCK = 2_000, 250
"""Histories for each level and granularity, and how many one test of them plays."""


def properties(granularity: str, level: str, mode: str = MODES[0]) -> dict[str, str]:
    return {"conflictGranularity": granularity, "isolationLevel": level, "deleteMode": mode}


def check_both(granularity: str, level: str, seeds: Sequence[int]) -> None:
    """Half of them with copy-on-write; that makes `row` the same as `file`, which has them."""
    modes = MODES if granularity != "row" else MODES[:1]
    for at, mode in enumerate(modes):
        some = seeds[at :: len(modes)]
        counts = check_all(some, properties(granularity, level, mode), KINDS)
        print(granularity, level, mode, dict(counts))
        # Refusing everything would be serialisable too, and so would be running one by one.
        assert counts["commits"] > 1.2 * len(some)
        assert counts["overlapping"] > 0.05 * len(some)
        refused = sum(n for name, n in counts.items() if name.endswith("Exception"))
        assert refused > 0.2 * len(some)


@pytest.mark.slow
@pytest.mark.share(3)
@pytest.mark.parametrize("level", [SERIAL, WRITES])
@pytest.mark.parametrize("granularity", GRANULARITIES)
def test_random_histories_are_explained(granularity: str, level: str) -> None:
    """CFL-2, CFL-3, CFL-8 .. CFL-19."""
    check_both(granularity, level, range(EVERYDAY))


@pytest.mark.soak
@pytest.mark.parametrize("block", range(SOAK // BLOCK))
@pytest.mark.parametrize("level", [SERIAL, WRITES])
@pytest.mark.parametrize("granularity", GRANULARITIES)
def test_thousands_of_histories_are_explained(
    granularity: str, level: str, block: int, first_seed: int
) -> None:
    """CFL-2, CFL-3, CFL-8 .. CFL-19."""
    first = first_seed + block * BLOCK
    check_both(granularity, level, range(first, first + BLOCK))


QUIET = ("append", "delete", "delete", "update", "update", "copy", "minor", "minor", "major")


@pytest.mark.slow
@pytest.mark.share(4)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("level", [SERIAL, WRITES])
def test_histories_of_many_transactions_are_explained(level: str, mode: str) -> None:
    """CFL-13 .. CFL-17: rows followed through several compactions, and compactions through deletes.

    Six run at once, so each meets several concurrent commits in a row.
    """
    counts = check_all(range(3), properties("row", level, mode), QUIET, 25)
    # This only says that they were no empty ones.
    assert counts["commits"] > 5
    assert counts["overlapping"] > 0


@pytest.mark.soak
@pytest.mark.parametrize("block", range(4))
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("level", [SERIAL, WRITES])
@pytest.mark.parametrize("granularity", GRANULARITIES)
def test_hundreds_of_histories_of_many_transactions_are_explained(
    granularity: str, level: str, mode: str, block: int, first_seed: int
) -> None:
    """CFL-13 .. CFL-17."""
    seeds = range(first_seed + block * 50, first_seed + (block + 1) * 50)
    check_all(seeds, properties(granularity, level, mode), QUIET if block % 2 else KINDS, 25)


# --- rules that are known to be wrong ------------------------------------------------------------


def _never(*_: Any) -> None:
    return None


def _unmoved(
    concurrent: ConcurrentCommit, mine: PendingCommit, general: str
) -> tuple[PendingCommit, str]:
    return mine, general


def _stays(concurrent: ConcurrentCommit, mine: PendingCommit) -> PendingCommit:
    return mine


def _disjoint(*_: Any) -> frozenset[Any]:
    return frozenset()


def _first(one: Any, *_: Any) -> Any:
    return one


def _always(*_: Any) -> bool:
    return True


def _unfollowed(
    concurrent: ConcurrentCommit, mine: PendingCommit
) -> tuple[PendingCommit, RebasedOver]:
    return mine, rebase.rebase_onto(concurrent, mine)[1]


def _as_begun(driver: Driver) -> Removed:
    plan, view = driver.plan, driver.view
    assert view is not None
    if plan.staged.replacing is None:
        return _REMOVED(driver)
    snapshot = view.snapshot(plan.staged.read_version)
    live = frozenset(view.snapshot().files["id"].to_pylist())
    files = snapshot.in_scope(plan.staged.replacing.predicate)
    still = [file in live for file in files["id"].to_pylist()]
    return removed_from(files.filter(pa.array(still, pa.bool_())))


_REMOVED = Driver._select_removed


@dataclass(frozen=True)
class Wrong:
    """One function of the rules replaced, and the kind of histories that should show it.

    No kind: one history made for it. At random about one of 10,000 shows it.
    """

    name: str
    where: Any
    attribute: str
    by: Callable[..., Any]
    kinds: tuple[str, ...]
    granularity: str = "row"
    level: str = WRITES
    first: int = 0
    """The seed from which on a history is looked for that shows it: the first of all, as it was."""


REPLACES, SCOPES = ("append", "overwrite", "overwrite"), ("transaction", SERIAL)
WRONG = [
    Wrong(
        "added rows do not matter",
        conflict_check,
        "_appended",
        _never,
        ("copy", "update", "delete"),
        first=11,
    ),
    Wrong(
        "removed rows do not matter",
        conflict_check,
        "_removed",
        _never,
        ("copy", "update", "delete"),
    ),
    Wrong(
        "what a blind append added is forgotten",
        conflict_check,
        "_may_have_seen",
        _never,
        (),
    ),
    Wrong(
        "removals are not moved",
        rebase,
        "_move_along",
        _unmoved,
        ("delete", "minor", "major"),
        first=8,
    ),
    Wrong("dropped rows are counted", rebase.RowMove, "place", no_rank, ("delete", "minor")),
    Wrong("compactions bring rows back", rebase, "apply_deletes_of", _stays, ("delete", "minor")),
    Wrong(
        "overtaken groups stay", rebase, "drop_overtaken_groups", _stays, ("append", *COMPACTIONS)
    ),
    Wrong(
        "nothing is taken over",
        rebase,
        "take_over_outputs",
        _stays,
        ("append", "minor", "major"),
        "transaction",
        first=29,
    ),
    Wrong(
        "scopes are never shared",
        conflict_check,
        "shared_partitions",
        _disjoint,
        ("delete", "copy"),
        *SCOPES,
    ),
    Wrong(
        "reads stay",
        rebase,
        "_move_read",
        _first,
        ("copy", "delete", "minor"),
        "row",
        SERIAL,
        first=38,
    ),
    Wrong(
        "new versions never match",
        commit_overlap,
        "_sets_nothing_read",
        _always,
        ("update", "copy"),
        first=20,
    ),
    Wrong(
        "what a handle knew is not checked", Driver, "_check_known", _never, ("delete", "update")
    ),
    Wrong("scans are not reads", transaction, "with_reads", _first, ("copy", "scan_delete")),
    Wrong(
        "concurrent commits are not rebased over",
        concurrent_commits,
        "rebase_onto",
        _unfollowed,
        ("delete", "minor", "append"),
    ),
    Wrong(
        "what goes is decided when it begins",
        Driver,
        "_select_removed",
        _as_begun,
        REPLACES,
        *SCOPES,
    ),
    Wrong(
        "an append counts as nothing to a serial reader",
        commit_overlap,
        "new_files",
        lambda concurrent: np.zeros(len(concurrent.entry.add or ()), bool),
        ("append", "copy", "scan_delete"),
        "row",
        SERIAL,
    ),
]


PASSED_OVER: list[Op] = [
    ("delete", ("v", 1)),
    ("append", (("b", 100, 1),)),
    ("copy", ("v", 1), "a", 102),
]
STEPS: list[Step] = [(0, 0), (1, 1), (1, None), (2, 1), (2, None), (0, None)]
"""The delete does not see the append, so it comes before it; the count sees the append and the rows
that are to be deleted, so it comes after the one and before the other."""


def goes_wrong(wrong: Wrong, seed: int) -> bool:
    """Return True if no order explains the history, or the package itself fails."""
    chosen = properties(wrong.granularity, wrong.level)
    try:
        history = (
            play(seed, chosen, wrong.kinds) if wrong.kinds else act(PASSED_OVER, STEPS, chosen)
        )
    except (AssertionError, CorruptTableError):
        return True
    return fault(history, wrong.level == SERIAL or wrong.granularity == "transaction") is not None


@pytest.mark.slow
@pytest.mark.share(2)
@pytest.mark.broken_tables
@pytest.mark.parametrize("wrong", WRONG, ids=lambda wrong: wrong.name)
def test_a_broken_rule_is_caught(wrong: Wrong, monkeypatch: pytest.MonkeyPatch) -> None:
    """The histories have teeth: a rule left out or bent shows within a few hundred."""
    assert not any(goes_wrong(wrong, seed) for seed in range(3))
    seeds = range(wrong.first, wrong.first + 1_000)
    with monkeypatch.context() as broken:
        broken.setattr(wrong.where, wrong.attribute, wrong.by)
        caught = next((seed for seed in seeds if goes_wrong(wrong, seed)), None)
    print(wrong.name, "caught by seed", caught)
    assert caught is not None
    assert not goes_wrong(wrong, caught)
