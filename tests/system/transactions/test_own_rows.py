"""Rows of the table itself as a source; and overwrites whose scope was empty when they began."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from tablefmt.errors import (
    ConcurrentAppendException,
    ConcurrentDeleteReadException,
    ConcurrentModificationException,
    MetadataChangedException,
)
from tablefmt.log.object_names import entry_key
from tablefmt.model.log_entry import OperationClass
from tablefmt.operations.transaction import Transaction
from tablefmt.session.table_scan import Scan
from tablefmt.store.store_wrappers import CountingStore
from tablefmt.table import Table
from tests.tables import (
    assert_sound,
    behind,
    data_files,
    handle,
    ids,
    new_table,
    rows,
)

LEVELS = ("WriteSerializable", "Serializable")


def filled(**properties: Any) -> tuple[Table, Table]:
    """Two handles on a table of the ids 1, 2 in one file, 3 in another."""
    table = new_table(**properties)
    table.append(rows(1, 2))
    table.append(rows(3))
    return table, handle(table.context.store)


def pairs(table: Table) -> list[tuple[int, str]]:
    """All rows as a fresh handle reads them."""
    found = handle(table.context.store).to_arrow().to_pylist()
    return sorted((row["id"], row["p"]) for row in found)


def upsert(target: Any, source: Scan) -> Any:
    merge = target.merge(source, "t.id = s.id + 10").when_not_matched_insert(
        {"id": "s.id + 10", "p": "s.p"}
    )
    return merge.execute()


Statement = Callable[[Any, Scan], Any]

STATEMENTS: dict[str, Statement] = {
    "merge": upsert,
    "append": lambda target, source: target.append(source),
    "append merge_schema": lambda target, source: target.append(source, merge_schema=True),
    "overwrite": lambda target, source: target.overwrite(source),
    "overwrite where": lambda target, source: target.overwrite(source, where="id < 3"),
    "overwrite dynamic": lambda target, source: target.overwrite(source, dynamic_partitions=True),
}


def in_transaction(statement: Statement) -> Statement:
    """The same in a transaction of the newest version."""

    def run(target: Table, source: Scan) -> Any:
        with target.transaction() as txn:
            statement(txn, source)
        return txn.commit_result

    return run


ALL = {**STATEMENTS, **{f"txn {name}": in_transaction(each) for name, each in STATEMENTS.items()}}


@pytest.mark.share(3)
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("name", ALL)
def test_rows_of_the_table_that_others_changed_since_are_no_source(name: str, level: str) -> None:
    """CFL-22: the scan is a read of the version that its handle was at, wherever it is used."""
    one, other = filled(isolationLevel=level)
    source = one.scan(where="id < 3")
    other.update({"p": "'new'"}, "id = 1")
    before, written = pairs(one), data_files(one.context.store)
    with pytest.raises(ConcurrentAppendException) as caught:
        ALL[name](one, source)
    assert caught.value.winner_version == 3
    store = one.context.store
    assert data_files(store) == written
    other.delete("id = 1")
    with pytest.raises(ConcurrentModificationException):
        ALL[name](one, source)
    assert pairs(one) == [pair for pair in before if pair[0] != 1]
    assert data_files(store) == written
    # Read again, it goes.
    ALL[name](one, one.refresh().scan(where="id < 3"))
    assert_sound(store)


@pytest.mark.parametrize("name", ALL)
def test_rows_deleted_since_are_no_source(name: str) -> None:
    """CFL-10."""
    one, other = filled()
    source = one.scan(where="id < 3")
    other.delete("id = 2")
    with pytest.raises(ConcurrentDeleteReadException):
        ALL[name](one, source)


KEPT = {
    "merge": [1, 2, 7, 11, 12],
    "append": [1, 1, 2, 2, 7],
    "append merge_schema": [1, 1, 2, 2, 7],
    "overwrite": [1, 2, 7],
    "overwrite where": [1, 2, 7],
    "overwrite dynamic": [1, 2, 7],
}
"""The rows that stay without row 3."""


@pytest.mark.parametrize("name", ALL)
def test_an_unchanged_source_is_valid_after_other_commits(name: str) -> None:
    """CFL-22, CFL-8, CFL-10: rows that the scan could not have read make no difference."""
    one, other = filled()
    statement = name.removeprefix("txn ")
    whole = statement in ("overwrite", "overwrite dynamic")
    source = one.scan(where="id < 3")
    if not whole:
        other.delete("id = 3")
    other.append(rows(7))
    commit_result = ALL[name](one, source)
    assert commit_result.version == other.version + 1
    # An UPDATE keeps the removals of the version that it read (CFL-3).
    expected = [1, 2] if whole and name.startswith("txn") else KEPT[statement]
    assert ids(handle(one.context.store)) == expected
    (entry,) = one.context.view.entries_after(commit_result.version - 1)
    assert entry.entry.operation.cls is OperationClass.UPDATE
    assert entry.entry.basis.blind is False


@pytest.mark.share(2)
@pytest.mark.parametrize("name", ALL)
def test_a_version_that_was_asked_for_is_a_constant(name: str) -> None:
    """CFL-22: the version is given by number or time, or belongs to another table."""
    for asked in (
        lambda t: t.scan(where="id < 3", version=2),
        lambda t: t.scan(where="id < 3", timestamp=t.timestamp),
        lambda t: filled()[0].scan(where="id < 3"),
    ):
        one, other = filled()
        source = asked(one)
        other.update({"p": "'new'"}, "id = 1")
        ALL[name](one, source)
        assert handle(one.context.store).version == 4


@pytest.mark.parametrize(
    ("level", "passes"), [("WriteSerializable", True), ("Serializable", False)]
)
def test_a_blind_insert_since_is_ordered_after_it(level: str, passes: bool) -> None:
    """CFL-9: the exception is a statement that also reads a newer version with the insert."""
    one, other = filled(isolationLevel=level)
    source = one.scan()
    other.append(rows(4))
    if passes:
        assert one.append(source).version == 4
        assert ids(handle(one.context.store)) == [1, 1, 2, 2, 3, 3, 4]
        source = one.scan()
        other.append(rows(5))
    for run in (STATEMENTS["append"], in_transaction(STATEMENTS["append"])):
        if passes and run is STATEMENTS["append"]:
            continue
        with pytest.raises(ConcurrentAppendException):
            run(one, source)


def test_a_scan_newer_than_a_transaction_has_to_be_one_of_its_version_too() -> None:
    """CFL-22: a statement reads one version."""
    one, other = filled()
    txn = one.transaction()
    other.update({"p": "'new'"}, "id = 1")
    with pytest.raises(ConcurrentAppendException):
        txn.append(other.scan(where="id = 1"))
    assert txn.append(other.scan(where="id = 3")).commit().version == 4
    txn = one.transaction()
    other.alter.add_column("x", "INT")
    with pytest.raises(MetadataChangedException):
        txn.append(other.refresh().scan(where="x = 1"))


def test_a_source_of_another_schema_is_stopped_by_the_change() -> None:
    """CFL-5: it read the version before."""
    one, other = filled()
    other.alter.set_default("p", "x")
    with pytest.raises(MetadataChangedException):
        one.append(one.scan())
    assert one.refresh().append(one.scan(columns=["id"])).version == 4
    assert pairs(one).count((1, "x")) == 1


def test_an_append_that_reads_the_table_asks_for_the_head_once() -> None:
    """CMT-2."""
    table, _ = filled()
    counting = CountingStore(table.context.store)
    one = behind(table, counting)
    counting.reset()
    one.append(one.scan())
    log = [(verb, key) for verb, key in counting.requests if key.startswith("_log")]
    assert log == [("get", entry_key(3)), ("put_if_absent", entry_key(3))]


EMPTY = rows()

NOTHING: dict[str, Callable[[Any], Any]] = {
    "truncate": lambda t: t.truncate(),
    "truncate of a partition": lambda t: t.truncate("p = 'b'"),
    "overwrite": lambda t: t.overwrite(EMPTY),
    "overwrite of a partition": lambda t: t.overwrite(EMPTY, where="p = 'b'"),
}


@pytest.mark.parametrize("name", NOTHING)
def test_rows_that_came_into_an_empty_scope_go_when_the_overwrite_commits(name: str) -> None:
    """CFL-3: the commit decides which rows go, not the begin of the transaction."""
    for knows in (False, True):
        table = new_table(partitioned=True)
        if "partition" in name:
            table.append(rows(1))
        other = handle(table.context.store)
        txn = table.transaction()
        NOTHING[name](txn)
        other.append(rows(5, p="b"))
        if knows:
            table.refresh()
        commit_result = txn.commit()
        assert (commit_result.no_op, commit_result.metrics["numDeletedRows"]) == (False, 1)
        assert commit_result.version == other.version + 1
        assert ids(handle(table.context.store)) == ([1] if "partition" in name else [])


@pytest.mark.parametrize("name", NOTHING)
def test_an_overwrite_by_nothing_of_nothing_makes_no_version(name: str) -> None:
    """CFL-3: the scope stayed empty, or is empty again."""
    for others in ((), ("append",), ("append", "truncate")):
        table = new_table(partitioned=True)
        if "partition" in name:
            table.append(rows(1))
        other = handle(table.context.store)
        txn = table.transaction()
        NOTHING[name](txn)
        if "append" in others and "truncate" not in others and "partition" in name:
            other.append(rows(2))
        elif "truncate" in others:
            other.append(rows(5, p="b"))
            other.truncate("p = 'b'")
        commit_result = txn.commit()
        if others == ("append",) and "partition" not in name:
            assert commit_result.no_op
            continue
        assert (commit_result.no_op, commit_result.version) == (True, other.version)
        assert handle(table.context.store).version == other.version


def test_an_overwrite_of_nothing_is_stopped_by_a_change_of_metadata() -> None:
    """CFL-5: this holds also if no row is replaced. The condition may mean something else."""
    table = new_table(partitioned=True)
    txn = table.transaction().truncate("p = 'b'")
    handle(table.context.store).alter.add_column("x", "INT")
    with pytest.raises(MetadataChangedException):
        txn.commit()


def test_an_overwrite_of_an_empty_scope_after_a_scan_keeps_the_removals_it_had() -> None:
    """CFL-3: it is an UPDATE, so rows inserted since stay."""
    table = new_table()
    txn: Transaction = table.transaction()
    txn.scan()
    txn.truncate()
    handle(table.context.store).append(rows(5))
    assert txn.commit().no_op
    assert ids(handle(table.context.store)) == [5]


def test_pyarrow_reads_of_a_scan_are_rows_like_any_other() -> None:
    """CFL-22: the origin of the rows is unknown."""
    one, other = filled()
    source = one.scan(where="id < 3").to_arrow()
    other.update({"p": "'new'"}, "id = 1")
    assert one.append(source).version == 4
    assert isinstance(source, pa.Table)
