"""Pairs of concurrent transactions that may both commit: the worked examples of the semantics."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tablefmt.errors import (
    ConcurrentAppendException,
    ConcurrentDeleteDeleteException,
    ConcurrentDeleteReadException,
    ConcurrentModificationException,
    MetadataChangedException,
)
from tablefmt.operations.transaction import Transaction
from tablefmt.table import Table
from tests.system.transactions.test_rebase import plus
from tests.tables import assert_sound, handle, ids, new_table, rows

LEVELS = ["WriteSerializable", "Serializable"]


def adding(table: Table, where: str, amount: int) -> Transaction:
    """A transaction in which an UPDATE of `id` is staged: read where a condition holds, and set."""
    txn: Transaction = plus(where, amount)(table.transaction())
    return txn


def two_handles(*start: int, **properties: Any) -> tuple[Table, Table]:
    """Two handles on one table with these rows in one file."""
    one = new_table(**properties)
    if start:
        one.append(rows(*start))
    return one, handle(one.context.store)


@pytest.mark.parametrize("level", LEVELS)
def test_a_delete_and_the_insert_it_did_not_see(level: str) -> None:
    """CFL-8: t0 delete and insert start on v0; t1 insert commits v1; t2 delete tries v2."""
    one, other = two_handles(isolationLevel=level)
    one.append(rows(1, 2))
    delete = one.transaction().delete("id >= 1")
    insert = other.transaction().append(rows(3))
    assert (delete.read_version, insert.read_version) == (1, 1)
    assert insert.commit().version == 2
    if level == "Serializable":
        with pytest.raises(ConcurrentAppendException) as caught:
            delete.commit()
        error = caught.value
        assert (error.winner_version, error.winner_operation) == (2, "WRITE")
        assert error.evidence["files"] == [2]
        assert ids(handle(one.context.store)) == [1, 2, 3]
    else:
        commit_result = delete.commit()
        assert commit_result.version == 3
        assert commit_result.rebased_over == (2,)
        assert [ids(handle(one.context.store), v) for v in (1, 2, 3)] == [[1, 2], [1, 2, 3], [3]]
    assert_sound(one.context.store)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("where", ["p = 'a'", None])
def test_a_delete_decided_on_metadata_and_the_insert_it_did_not_see(
    level: str, where: str | None
) -> None:
    """CFL-8: it looked at no row, and yet more rows might have been there."""
    one = new_table(partitioned=True, isolationLevel=level)
    one.append(rows(1, 2, p=["a", "b"]))
    delete = one.transaction().delete(where)
    handle(one.context.store).append(rows(3))
    if level == "Serializable":
        with pytest.raises(ConcurrentAppendException) as caught:
            delete.commit()
        assert caught.value.evidence["partitions"] == [["a"]]
    else:
        assert delete.commit().rebased_over == (2,)
        assert ids(handle(one.context.store)) == ([2, 3] if where else [3])


@pytest.mark.parametrize("level", LEVELS)
def test_an_insert_that_a_delete_cannot_have_meant_stops_it_at_no_level(level: str) -> None:
    """CFL-8: the bounds of the concurrent commit's files show it."""
    one, other = two_handles(1, 2, isolationLevel=level)
    delete = one.transaction().delete("id <= 1")
    other.append(rows(7, 8))
    assert delete.commit().rebased_over == (2,)
    assert ids(one) == [2, 7, 8]


def test_a_blind_insert_that_a_third_one_rewrites_stops_the_first() -> None:
    """CFL-8: A starts, a blind INSERT commits, B rewrites its rows; B's new rows are not blind."""
    one, other = two_handles(1, 2)
    first = adding(one, "id >= 1", 100)
    other.append(rows(3))
    adding(other, "id = 3", 10).commit()
    with pytest.raises(ConcurrentAppendException) as caught:
        first.commit()
    assert (caught.value.winner_version, caught.value.winner_operation) == (3, "UPDATE")
    assert ids(handle(one.context.store)) == [1, 2, 13]


def test_a_skipped_insert_that_a_later_commit_may_have_read_counts() -> None:
    """CFL-9: B read the insert that A skipped, so A cannot be ordered before it any more."""
    one, other = two_handles(1, 2)
    first = one.transaction().delete("id in (1, 2, 3)")
    other.append(rows(3))
    seen = other.transaction()
    assert seen.scan(where="id = 3").count() == 1
    seen.append(rows(50)).commit()
    with pytest.raises(ConcurrentAppendException) as caught:
        first.commit()
    assert (caught.value.winner_version, caught.value.rule) == (3, "CFL-9")
    assert ids(handle(one.context.store)) == [1, 2, 3, 50]


@pytest.mark.parametrize("level", LEVELS)
def test_write_skew_by_updates_is_refused(level: str) -> None:
    """CFL-10: each reads both rows and changes one of them."""
    one, other = two_handles(1, 2, isolationLevel=level)
    first, second = one.transaction(), other.transaction()
    for txn, mine in ((first, "id = 1"), (second, "id = 2")):
        assert txn.scan().count() == 2
        txn.delete(mine)
    second.commit()
    with pytest.raises(ConcurrentDeleteReadException) as caught:
        first.commit()
    assert caught.value.evidence["rows"] == [[1, 1]]
    assert ids(handle(one.context.store)) == [1]


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("mode", ["merge-on-read", "copy-on-write"])
def test_updates_that_read_each_others_rows_never_both_commit(level: str, mode: str) -> None:
    """CFL-8, CFL-10: black becomes white beside white becomes black."""
    one, other = two_handles(1, 2, isolationLevel=level, deleteMode=mode)
    first, second = adding(one, "id = 1", 1), adding(other, "id = 2", -1)
    second.commit()
    with pytest.raises(ConcurrentModificationException) as caught:
        first.commit()
    assert isinstance(caught.value, ConcurrentAppendException | ConcurrentDeleteReadException)
    assert ids(handle(one.context.store)) == [1, 1]


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("granularity", ["row", "file"])
def test_deletes_of_different_rows_of_one_file(level: str, granularity: str) -> None:
    """CFL-10: both commit by row, one by file."""
    one, other = two_handles(1, 2, 3, isolationLevel=level, conflictGranularity=granularity)
    first, second = one.transaction().delete("id = 1"), other.transaction().delete("id = 2")
    second.commit()
    if granularity == "row":
        assert first.commit().rebased_over == (2,)
        assert ids(one) == [3]
    else:
        with pytest.raises(ConcurrentDeleteReadException):
            first.commit()
        assert ids(handle(one.context.store)) == [1, 3]
    assert_sound(one.context.store)


def test_deletes_of_one_row_never_both_commit() -> None:
    """CFL-10."""
    one, other = two_handles(1, 2, 3)
    first, second = one.transaction().delete("id < 3"), other.transaction().delete("id > 1")
    second.commit()
    with pytest.raises(ConcurrentDeleteReadException) as caught:
        first.commit()
    assert (caught.value.evidence["rows"], caught.value.evidence["rows_count"]) == ([[1, 1]], 1)


@pytest.mark.parametrize("granularity", ["row", "file", "transaction"])
def test_conditions_that_pin_different_partitions_never_conflict(granularity: str) -> None:
    """CFL-8, CFL-19: this holds also with an insert into another partition in between."""
    one = new_table(
        partitioned=True, isolationLevel="Serializable", conflictGranularity=granularity
    )
    one.append(rows(1, 2, 3, 4, p=["a", "a", "b", "b"]))
    other = handle(one.context.store)
    first = one.transaction().delete("p = 'a' AND id = 1")
    second = other.transaction().delete("p = 'b' AND id = 3")
    second.commit()
    other.transaction().append(rows(5, p="c")).commit()
    assert first.commit().rebased_over == (2, 3)
    assert ids(one) == [2, 4, 5]


@pytest.mark.parametrize("granularity", ["row", "file", "transaction"])
@pytest.mark.parametrize("verb", ["append", "overwrite", "delete"])
def test_a_scan_widens_what_a_transaction_touches_by_no_more_than_it_read(
    verb: str, granularity: str
) -> None:
    """CFL-8, CFL-19: reads in a, writes in b; what happens in c is none of its business."""
    one = new_table(
        partitioned=True, isolationLevel="Serializable", conflictGranularity=granularity
    )
    one.append(rows(1, 2, 3, p=["a", "b", "c"]))
    for place, passes in (("c", True), ("a", False)):
        other = handle(one.context.store)
        txn = one.transaction()
        assert txn.scan(where="p = 'a'").count() >= 1
        if verb == "append":
            txn.append(rows(20, p="b"))
        elif verb == "overwrite":
            txn.overwrite(rows(20, p="b"), where="p = 'b'")
        else:
            txn.delete("p = 'b'")
        other.append(rows(9, p=place))
        if passes:
            assert len(txn.commit().rebased_over) == 1
            one.append(rows(2, p="b"))
        else:
            with pytest.raises(ConcurrentModificationException):
                txn.commit()


@pytest.mark.parametrize("concurrent", ["delete", "partition"])
def test_a_delete_of_whole_partitions_meets_deletes_there(concurrent: str) -> None:
    """CFL-11: it read nothing as data."""
    one = new_table(partitioned=True)
    one.append(rows(1, 2, 3, p=["a", "a", "b"]))
    other = handle(one.context.store)
    whole = one.transaction().delete("p = 'a'")
    other.delete("id = 1" if concurrent == "delete" else "p = 'a'")
    with pytest.raises(ConcurrentDeleteDeleteException):
        whole.commit()


def test_a_new_constraint_is_stopped_by_a_violating_insert() -> None:
    """CFL-12: this holds at both levels. A change without a new constraint is not checked."""
    for level in LEVELS:
        one, other = two_handles(1, isolationLevel=level)
        alter = one.transaction().alter.add_constraint("positive", "id > 0")
        plain = one.transaction().alter.set_properties({"user.note": "x"})
        other.append(rows(-1))
        with pytest.raises(ConcurrentAppendException) as caught:
            alter.commit()
        assert caught.value.winner_version == 2
        assert plain.commit().rebased_over == (2,)
        assert ids(handle(one.context.store)) == [-1, 1]


WRITES: dict[str, Callable[[Transaction], Any]] = {
    "append": lambda txn: txn.append(rows(9)),
    "overwrite": lambda txn: txn.overwrite(rows(9)),
    "truncate": lambda txn: txn.truncate(),
    "delete": lambda txn: txn.delete("id = 1"),
    "alter": lambda txn: txn.alter.set_properties({"user.b": "2"}),
}


@pytest.mark.parametrize("name", WRITES)
def test_a_change_of_metadata_stops_every_transaction_that_runs(name: str) -> None:
    """CFL-5: blind inserts too; and none of its files stays."""
    one, other = two_handles(1, 2)
    txn = one.transaction()
    WRITES[name](txn)
    other.alter.set_properties({"user.a": "1"})
    with pytest.raises(MetadataChangedException) as caught:
        txn.commit()
    assert (caught.value.winner_version, caught.value.winner_operation) == (2, "SET TBLPROPERTIES")
    store = one.context.store
    assert ids(handle(store)) == [1, 2]
    assert len(list(store.list_after("data/"))) == 1


@pytest.mark.parametrize("name", [n for n in WRITES if n != "alter"])
def test_a_change_of_metadata_rebases_onto_writes(name: str) -> None:
    """CFL-5."""
    one, other = two_handles(1, 2)
    alter = one.transaction().alter.add_column("x", "INT")
    txn = other.transaction()
    WRITES[name](txn)
    txn.commit()
    assert alter.commit().rebased_over == (2,)
    expected = {"append": [1, 2, 9], "overwrite": [9], "truncate": [], "delete": [2]}[name]
    now = handle(one.context.store)
    assert ids(now) == expected
    assert now.schema.names == ["id", "p", "x"]
    assert now.to_arrow()["x"].to_pylist() == [None] * len(expected)


def test_an_isolation_that_changes_under_a_writer_stops_it() -> None:
    """CFL-5."""
    one, other = two_handles(1, 2)
    delete = one.transaction().delete("id = 1")
    other.alter.set_properties({"isolationLevel": "Serializable"})
    with pytest.raises(MetadataChangedException):
        delete.commit()
