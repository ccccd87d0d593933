"""A re-base is metadata alone: what it asks of the store, what it leaves, and what comes of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyroaring import BitMap64

from tablefmt.errors import ConcurrentDeleteReadException, StoreError
from tablefmt.log.object_names import deletes_key, entry_key
from tablefmt.model.log_entry import OperationClass
from tablefmt.operations.transaction import Transaction
from tablefmt.operations.update import stage_update
from tablefmt.store.object_store import Store
from tablefmt.store.store_wrappers import CountingStore, ForwardingStore
from tablefmt.table import Table
from tests.compactions import stage_compact
from tests.tables import (
    assert_sound,
    behind,
    data_files,
    handle,
    ids,
    memory,
    new_table,
    rows,
)

MINOR, MAJOR, CLUSTER = (
    OperationClass.MINOR_COMPACT,
    OperationClass.MAJOR_COMPACT,
    OperationClass.CLUSTER,
)

Verb = Callable[[Transaction], Any]


def plus(where: str, amount: int) -> Verb:
    def change(old: pa.Table) -> pa.Table:
        new = pa.array([value + amount for value in old["id"].to_pylist()], pa.int64())
        return old.set_column(0, "id", new)

    return lambda txn: txn.stage(lambda snapshot: stage_update(snapshot, where, change, ["id"]))


def compacting(cls: OperationClass, *groups: list[int]) -> Verb:
    def newest_first(old: pa.Table) -> pa.Table:
        return old.sort_by([("id", "descending")])

    sort = newest_first if cls is CLUSTER else None
    return lambda txn: txn.stage(lambda snapshot: stage_compact(snapshot, cls, list(groups), sort))


APPEND: Verb = lambda txn: txn.append(rows(100))  # noqa: E731
OVERWRITE: Verb = lambda txn: txn.overwrite(rows(100))  # noqa: E731


class NoData(CountingStore):
    """Counts requests. After `closed` is set, any request for a data file fails."""

    closed = False

    def get_ranges(self, wanted: Any) -> Any:
        assert not self.closed, "a data file is read"
        return super().get_ranges(wanted)

    def open_file(self, key: str) -> Any:
        assert not self.closed, "a data file is read"
        return super().open_file(key)


def table_of(*files: list[int], **properties: Any) -> Table:
    """Each list of ids in a file of its own; their file ids are 1, 2, …"""
    table = new_table(**properties)
    for values in files:
        table.append(rows(*values))
    return table


def late(table: Table, verb: Verb) -> tuple[Transaction, NoData]:
    """The verb staged on the table as it is now; and the store that its commit goes to."""
    store = NoData(table.context.store)
    txn = behind(table, store).transaction()
    verb(txn)
    store.reset()
    store.closed = True
    return txn, store


PASSING: dict[str, tuple[list[Verb], Verb, list[int]]] = {
    "insert over insert": ([APPEND], lambda txn: txn.append(rows(9)), [1, 2, 3, 4, 9, 100]),
    "overwrite over insert": ([APPEND], lambda txn: txn.overwrite(rows(9)), [9]),
    "overwrite over update": ([plus("id = 1", 50)], lambda txn: txn.overwrite(rows(9)), [9]),
    "truncate over insert": ([APPEND], lambda txn: txn.truncate(), []),
    "delete over insert": ([APPEND], lambda txn: txn.delete("id = 1"), [2, 3, 4, 100]),
    "delete over delete": (
        [lambda txn: txn.delete("id = 1")], lambda txn: txn.delete("id = 2"), [3, 4],
    ),
    "delete over minor": ([compacting(MINOR, [1, 2])], lambda txn: txn.delete("id = 2"), [1, 3, 4]),
    "delete of a file over minor": (
        [compacting(MINOR, [1, 2])], lambda txn: txn.delete("id < 3"), [3, 4],
    ),
    "update over minor": ([compacting(MINOR, [1, 2])], plus("id = 2", 50), [1, 3, 4, 52]),
    "update over delete and minor": (
        [lambda txn: txn.delete("id = 1"), compacting(MINOR, [1, 2])],
        plus("id = 2", 50),
        [3, 4, 52],
    ),
    "update over two minors and a major": (
        [compacting(MINOR, [1, 2]), compacting(MAJOR, [3]), APPEND, compacting(MINOR, [4, 5])],
        plus("id = 4", 50),
        [1, 2, 3, 54, 100],
    ),
    "minor over insert": ([APPEND], compacting(MINOR, [1, 2]), [1, 2, 3, 4, 100]),
    "minor over delete": (
        [lambda txn: txn.delete("id = 1")], compacting(MINOR, [1, 2]), [2, 3, 4],
    ),
    "minor over update": ([plus("id in (1, 4)", 50)], compacting(MINOR, [1, 2]), [2, 3, 51, 54]),
    "minor over a delete of a file": (
        [lambda txn: txn.delete("id < 3")], compacting(MINOR, [1, 2]), [3, 4],
    ),
    "cluster over insert": ([APPEND], compacting(CLUSTER, [1, 2]), [1, 2, 3, 4, 100]),
}  # fmt: skip


@pytest.mark.parametrize("name", PASSING)
def test_a_rebase_touches_no_data_file_and_reads_each_concurrent_commit_once(name: str) -> None:
    """CMT-5, CFL-13 .. CFL-15: concurrent commits of every kind that permits a rebase."""
    concurrent_commits, verb, expected = PASSING[name]
    table = table_of([1, 2], [3, 4])
    txn, store = late(table, verb)
    for concurrent in concurrent_commits:
        winning = handle(table.context.store).transaction()
        concurrent(winning)
        winning.commit()
    last = 2 + len(concurrent_commits)
    commit_result = txn.commit()
    assert commit_result.version == last + 1
    assert commit_result.rebased_over == tuple(range(3, last + 1))
    assert all(passed.rule.startswith("CFL-") for passed in commit_result.rebased_over)
    asked = store.counts
    assert set(asked) == {"get", "put_if_absent"}
    gets = [key for verb, key in store.requests if verb == "get"]
    assert [gets.count(entry_key(v)) for v in range(3, last + 1)] == [1] * len(concurrent_commits)
    assert [key for verb, key in store.requests if verb == "put_if_absent"] == [
        entry_key(3),
        entry_key(last + 1),
    ]
    assert ids(handle(table.context.store)) == expected
    assert_sound(table.context.store)


def test_a_major_takes_a_minor_over() -> None:
    """CFL-16: granularity `transaction`; its outputs go in place of its inputs."""
    table = table_of([1, 2], [3, 4], [5], conflictGranularity="transaction")
    txn, store = late(table, compacting(MAJOR, [1, 2, 3]))
    minor = handle(table.context.store).transaction()
    compacting(MINOR, [1, 2])(minor)
    minor.commit()
    commit_result = txn.commit()
    assert (commit_result.version, commit_result.rebased_over) == (5, (4,))
    assert set(store.counts) == {"get", "put_if_absent"}
    now = handle(table.context.store)
    assert ids(now) == [1, 2, 3, 4, 5]
    assert now.scan().files()["id"].to_pylist() == [5]
    # And rows that were read before both are found in what came of both.
    assert now.delete("id = 3").version == 6
    assert_sound(table.context.store)


def test_a_compaction_leaves_out_what_was_done_meanwhile_and_its_files_go() -> None:
    """CFL-15."""
    table = table_of([1], [2], [3], [4])
    txn, _ = late(table, compacting(MINOR, [1, 2], [3, 4]))
    other = handle(table.context.store).transaction()
    compacting(MINOR, [3, 4])(other)
    other.commit()
    commit_result = txn.commit()
    assert (commit_result.no_op, commit_result.version, commit_result.rebased_over) == (
        False,
        6,
        (5,),
    )
    now = handle(table.context.store)
    assert now.scan().files()["id"].to_pylist() == [5, 6]
    assert ids(now) == [1, 2, 3, 4]
    history = [
        f"data/{commit_result.transaction}/" in key for key in data_files(table.context.store)
    ]
    assert sum(history) == 1
    assert_sound(table.context.store)


def test_what_is_left_of_a_compaction_keeps_the_deletes_that_won() -> None:
    """CFL-14, CFL-15: the outputs that stay move up, and their deltas and lineage with them."""
    table = table_of([1, 2], [3, 4], [5, 6, 7], [8])
    txn, _ = late(table, compacting(MINOR, [1, 2], [3, 4]))
    for verb in (compacting(MINOR, [1, 2]), lambda t: t.delete("id IN (6, 8)")):
        other = handle(table.context.store).transaction()
        verb(other)
        other.commit()
    commit_result = txn.commit()
    assert commit_result.rebased_over == (5, 6)
    now = handle(table.context.store)
    assert ids(now) == [1, 2, 3, 4, 5, 7]
    files = now.scan().files()
    assert files["id"].to_pylist() == [5, 6]
    assert now.context.view.snapshot().positions(6) == BitMap64([1, 3])
    assert_sound(table.context.store)


def test_a_compaction_that_was_done_meanwhile_is_no_commit() -> None:
    """CFL-15: a no-op, decided on the version that did it; its files go."""
    table = table_of([1], [2])
    txn, _ = late(table, compacting(MINOR, [1, 2]))
    other = handle(table.context.store).transaction()
    compacting(MAJOR, [1, 2])(other)
    other.commit()
    handle(table.context.store).append(rows(3))
    commit_result = txn.commit()
    assert (commit_result.no_op, commit_result.version) == (True, 3)
    store = table.context.store
    assert handle(store).version == 4
    assert ids(handle(store)) == [1, 2, 3]
    assert not any(commit_result.transaction in key for key in data_files(store))


def test_a_compaction_done_meanwhile_still_carries_its_application_version() -> None:
    """CFL-7, CFL-15: it is committed as an entry that moves no row."""
    table = table_of([1], [2])
    txn, _ = late(table, compacting(MINOR, [1, 2]))
    other = handle(table.context.store).transaction()
    compacting(MINOR, [1, 2])(other)
    other.commit()
    commit_result = txn.commit(application=("job", 4))
    assert (commit_result.no_op, commit_result.version) == (False, 4)
    now = handle(table.context.store)
    assert now.context.view.head.applications["job"][0].version == 4
    assert now.scan().files()["id"].to_pylist() == [3]
    assert_sound(table.context.store)


EVERY_SEVENTH = list(range(0, 20_000, 7))


def scattered(store: Store, monkeypatch: pytest.MonkeyPatch) -> Table:
    """Return a file of 20,000 rows. Deletes of more than a few rows have an overflow file."""
    monkeypatch.setattr("tablefmt.commit.driver.DELETES_ABOVE_BYTES", 1000)
    table = new_table(store)
    table.append(rows(*range(20_000)))
    return table


class Puts(ForwardingStore):
    """Keeps what was put besides entries."""

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self.puts: list[str] = []

    def put(self, key: str, body: bytes) -> None:
        self.puts.append(key)
        super().put(key, body)


@pytest.mark.parametrize("moved", [False, True])
def test_an_overflow_file_of_deletes_is_written_again_only_if_the_rows_moved(
    moved: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DEL-3."""
    store = memory()
    counted = Puts(store)
    late = behind(scattered(store, monkeypatch), counted).transaction()
    late.delete(pc.field("id").isin(EVERY_SEVENTH))
    concurrent = handle(store).transaction()
    (compacting(MINOR, [1]) if moved else APPEND)(concurrent)
    concurrent.commit()

    commit_result = late.commit()
    assert commit_result.rebased_over == (2,)
    side = deletes_key(commit_result.transaction)
    assert counted.puts == ([side, side] if moved else [side])
    left = set(range(20_000)) - set(EVERY_SEVENTH)
    # The row that APPEND adds has an id that is there already.
    assert ids(handle(store)) == sorted([*left, *([] if moved else [100])])
    assert_sound(store)


def test_a_concurrent_overflow_file_that_cannot_be_read_now_is_requested_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """CMT-6: no concurrent commit is rebased over twice."""
    store = memory()
    table = scattered(store, monkeypatch)

    class Failing(ForwardingStore):
        left = 2

        def get_range(self, key: str, start: int, length: int) -> bytes:
            if key.startswith("deletes/") and self.left:
                self.left -= 1
                raise StoreError("busy", retryable=True)
            return super().get_range(key, start, length)

    failing = Failing(store)
    txn = behind(table, failing).transaction().delete("id = 1")
    compaction = handle(store).transaction()
    compacting(MINOR, [1])(compaction)
    compaction.commit()
    handle(store).delete(pc.field("id").isin(EVERY_SEVENTH))
    commit_result = txn.commit()
    assert commit_result.rebased_over == (2, 3)
    assert failing.left == 0
    assert ids(handle(store)) == sorted(set(range(20_000)) - {1, *EVERY_SEVENTH})
    assert_sound(store)


def test_many_rounds_are_each_judged_once() -> None:
    """CMT-5, CMT-6: there is a concurrent commit before every put, and some move the rows."""
    table = table_of([1, 2], [3, 4])
    store: Store = table.context.store
    rounds = 12

    class Beaten(ForwardingStore):
        left = rounds

        def put_if_absent(self, key: str, body: bytes) -> Any:
            if key.endswith(".json") and self.left:
                self.left -= 1
                other = handle(store).transaction()
                if self.left % 3 == 0:
                    live = other.scan().files()["id"].to_pylist()
                    other = handle(store).transaction()
                    compacting(MINOR, live)(other)
                else:
                    other.append(rows(100 + self.left))
                other.commit()
            return super().put_if_absent(key, body)

    txn = behind(table, Beaten(store)).transaction().delete("id = 3")
    commit_result = txn.commit()
    assert commit_result.version == 3 + rounds
    assert commit_result.rebased_over == tuple(range(3, 3 + rounds))
    added = sorted(100 + n for n in range(rounds) if n % 3)
    assert ids(handle(store)) == [1, 2, 4, *added]
    assert_sound(store)


def test_what_a_handle_took_in_since_it_read_is_told_of_too() -> None:
    """CMT-6: the handle knows the concurrent commits before it sends its first request."""
    table = table_of([1, 2])
    txn = table.transaction().delete("id = 1")
    table.append(rows(3))
    commit_result = txn.commit()
    assert commit_result.rebased_over == (2,)
    passed = commit_result.rebased_over[0]
    assert (passed.operation, passed.cell) == (
        "WRITE",
        "row, deletion vectors, WriteSerializable: INSERT then UPDATE: never",
    )
    stopped = table.transaction().delete("id = 2")
    table.delete("id = 2")
    with pytest.raises(ConcurrentDeleteReadException):
        stopped.commit()
