"""A rebase is metadata alone: any number of rounds and concurrent commits, no data file touched."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from tablefmt.log.object_names import entry_key
from tablefmt.operations.transaction import Transaction
from tablefmt.store.memory_store import MemoryStore
from tablefmt.store.object_store import Store
from tablefmt.store.store_wrappers import ForwardingStore
from tablefmt.table import Table
from tests.compactions import CLUSTER, MAJOR, MINOR, compact
from tests.system.transactions.world import (
    Row,
    Watch,
    attempt,
    begin,
    data,
    forget,
    handle,
    memory,
    new_table,
    of_data,
    rows_at,
    rows_by_specification,
)

Stage = Callable[[Transaction], object]

BASE: list[Row] = [("a", k, k) for k in range(8)] + [("b", k, k) for k in range(8, 12)]
OWN = 2
"""The key of the row that only the operation under test changes."""


def base() -> MemoryStore:
    """Return a store with three files and one deleted row."""
    store = memory()
    table = new_table(store)
    txn = begin(table)
    for part in (BASE[:4], BASE[4:8], BASE[8:]):
        txn.append(data(part))
    txn.commit()
    begin(table).delete("k = 0").commit()
    return store


def of_partition(place: str) -> Callable[[pa.Table], list[list[int]]]:
    """All files of one partition."""

    def choose(files: pa.Table) -> list[list[int]]:
        pairs = zip(files["id"].to_pylist(), files["partition.1"].to_pylist(), strict=True)
        return [[file for file, at in pairs if at == place]]

    return choose


def _copy(txn: Transaction) -> None:
    found = txn.scan(where=f"p = 'a' AND k = {OWN}").to_arrow()
    txn.append(data([("a", 700, found["v"][0].as_py())]))


def _overwrite_b(txn: Transaction) -> None:
    txn.overwrite(data([("b", 701, 0)]), where="p = 'b'")


Change = Callable[[set[Row]], set[Row]]

LATE: dict[str, tuple[Stage, Change]] = {
    "append": (lambda t: t.append(data([("a", 702, 0)])), lambda rows: rows | {("a", 702, 0)}),
    "overwrite": (
        _overwrite_b,
        lambda rows: {row for row in rows if row[0] != "b"} | {("b", 701, 0)},
    ),
    "delete": (lambda t: t.delete(f"k = {OWN}"), lambda rows: rows - {("a", OWN, OWN)}),
    "update": (
        lambda t: t.update({"v": "77"}, f"k = {OWN}"),
        lambda rows: rows - {("a", OWN, OWN)} | {("a", OWN, 77)},
    ),
    "read and append": (_copy, lambda rows: rows | {("a", 700, OWN)}),
    "alter": (lambda t: t.alter.set_properties({"statsColumns": "k"}), lambda rows: rows),
}
COMPACTIONS: dict[str, tuple[Stage, Change]] = {
    "minor": (lambda t: t.stage(compact(MINOR, lambda files: [[1, 2]])), lambda rows: rows),
    "major": (lambda t: t.stage(compact(MAJOR, lambda files: [[1, 2]])), lambda rows: rows),
}


class Rivals(ForwardingStore):
    """Before each of the first puts of an entry, somebody else commits."""

    def __init__(self, inner: Store, commits: list[Callable[[], Any]]) -> None:
        super().__init__(inner)
        self.commits = commits
        self.armed = False

    def put_if_absent(self, key: str, body: bytes) -> Any:
        """The rival's own puts go to the inner store."""
        if self.armed and self.commits:
            assert not self.commits.pop(0)().no_op
        return super().put_if_absent(key, body)


def rival(table: Table, number: int, compacting: bool) -> Callable[[], Any]:
    """Return a commit that conflicts with none: rows of its own, and compactions of everything."""

    def commit() -> Any:
        txn = begin(table)
        if number % 3 == 1 and number > 1:
            txn.delete(f"k = {800 + number - 1}")
        elif number % 3 == 2 and compacting:
            txn.stage(compact(MINOR if number % 2 else MAJOR, of_partition("a")))
        elif number == 5 and not compacting:
            txn.delete("k = 5")
        else:
            txn.append(data([("a", 800 + number, 1)]))
        return txn.commit()

    return commit


@pytest.mark.share(4)
@pytest.mark.parametrize("name", [*LATE, *COMPACTIONS])
def test_rounds_of_rivals_cost_their_entries_and_no_data_file(name: str) -> None:
    """CMT-4, CMT-6, CFL-13, CFL-14: each of 20 rounds has one concurrent commit, each read once."""
    store = base()
    stage, change = {**LATE, **COMPACTIONS}[name]
    rivals = Rivals(store, [])
    late, other = handle(rivals), handle(store)
    watch = Watch(late)
    txn = begin(late)
    stage(txn)
    watch.seen()
    compacting = name not in COMPACTIONS
    rivals.commits = [rival(other, number, compacting) for number in range(20)]
    rivals.armed = True
    commit_result = txn.commit()
    seen = Counter(watch.seen())
    assert commit_result.rebased_over == tuple(range(3, 23))
    assert [passed.rule[:4] for passed in commit_result.rebased_over] == ["CFL-"] * 20
    assert of_data(seen) == []
    assert {verb for verb, _ in seen} == {"put_if_absent", "get", "found"}
    for version in range(3, 23):
        assert seen["put_if_absent", entry_key(version)] == 1
        assert seen["found", entry_key(version)] == 1
    before = rows_at(other.refresh(), 22)
    assert set(rows_at(other, 23)) == change(set(before))
    assert rows_by_specification(store, 23) == rows_at(other, 23)
    assert rows_by_specification(store, 22) == before


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "concurrent_commits"),
    [
        ("delete", 300),
        *(
            pytest.param(name, 1_000, marks=pytest.mark.soak)
            for name in ("delete", "update", "overwrite", "minor")
        ),
    ],
)
def test_many_concurrent_commits_are_each_read_once(name: str, concurrent_commits: int) -> None:
    """CMT-4, CFL-13, CFL-14: one lost put, then all concurrent entries, then the commit."""
    store = base()
    stage, change = {**LATE, **COMPACTIONS}[name]
    late, other = handle(store), handle(store)
    watch = Watch(late)
    txn = begin(late)
    stage(txn)
    watch.seen()
    for number in range(concurrent_commits):
        step = begin(other)
        if number % 100 == 50 and name not in COMPACTIONS:
            step.stage(compact(MINOR, of_partition("a")))
        elif number % 100 == 75:
            step.delete(f"k IN ({900 + number - 1}, {5 if number == 75 else -1})")
        else:
            step.append(data([("a", 900 + number, 1)]))
        step.commit()
    commit_result = txn.commit()
    seen = Counter(watch.seen())
    assert commit_result.version == 3 + concurrent_commits
    assert commit_result.rebased_over == tuple(range(3, 3 + concurrent_commits))
    assert of_data(seen) == []
    assert {key for verb, key in seen if verb == "put_if_absent"} == {
        entry_key(3),
        entry_key(3 + concurrent_commits),
    }
    reads = [seen["found", entry_key(version)] for version in range(3, 3 + concurrent_commits)]
    assert reads == [1] * concurrent_commits
    before = rows_at(other, 2 + concurrent_commits)
    assert set(rows_at(other.refresh(), 3 + concurrent_commits)) == change(set(before))
    forget(store)


def test_overtaken_groups_are_left_out_and_the_others_come() -> None:
    """CFL-15: their files are removed once the commit is there, and no other."""
    store = base()
    late, other = handle(store), handle(store)
    extra = begin(other)
    for key in (20, 21):
        extra.append(data([("b", key, 1)]))
    extra.commit()
    txn = begin(late)
    both = [(1, 2), (4, 5)]
    txn.stage(compact(MINOR, lambda files: both))
    begin(other).stage(compact(MINOR, lambda files: [(1, 2)])).commit()
    watch = Watch(late)
    commit_result = txn.commit()
    assert of_data(watch.seen()) == []
    assert commit_result.rebased_over == (4,)
    files = other.refresh().scan().files()
    assert len(files) == 3  # file 3, and what either compaction came to
    kept = {found.key for found in store.list_after(f"data/{commit_result.transaction}/")}
    assert kept == {p for p in files["path"].to_pylist() if commit_result.transaction in p}
    assert len(kept) == 1
    assert rows_at(other, 3) == rows_at(other, 4) == rows_at(other, 5)
    assert rows_by_specification(store, 5) == rows_at(other, 5)


def test_a_compaction_with_nothing_left_is_no_version_and_leaves_no_file() -> None:
    """CFL-15."""
    store = base()
    late, other = handle(store), handle(store)
    txn = begin(late)
    txn.stage(compact(CLUSTER, lambda files: [[1, 2]], lambda rows: rows.sort_by("v")))
    lazy = begin(late)
    lazy.stage(compact(MINOR, lambda files: [[1, 2]]))
    begin(other).stage(compact(MAJOR, lambda files: [[1, 2]])).commit()
    commit_result = lazy.commit()
    assert commit_result.no_op
    assert list(store.list_after(f"data/{commit_result.transaction}/")) == []
    _, error = attempt(txn.commit)
    assert type(error).__name__ == "ConcurrentDeleteDeleteException"
    assert handle(store).version == 3
    left = {found.key for found in store.list_after("data/")}
    assert left >= set(other.refresh().scan().files()["path"].to_pylist())
    assert len(left) == 4  # three of the base, one of the compaction that won
