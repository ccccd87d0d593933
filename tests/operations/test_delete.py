"""Delete: the files it opens, the files it writes, and the entry."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from tablefmt.errors import CorruptDataError, InvalidPredicateError, SchemaMismatchError
from tablefmt.log.object_names import entry_key
from tablefmt.model.log_entry import AddedFiles, Entry, OperationClass, PredicateScope, RowDeletes
from tablefmt.model.positions import decode_positions
from tablefmt.operations.create import create
from tablefmt.operations.update import stage_update
from tablefmt.store.store_wrappers import CountingStore
from tablefmt.table import Table
from tests.tables import assert_sound, data_files, handle, ids, last_entry, memory, new_table, rows


def marks(entry: Entry) -> dict[int, tuple[list[int], list[int]]]:
    """Return the deleted and the updated positions by file."""
    if entry.delete is None:
        return {}
    found = entry.delete
    assert isinstance(found, RowDeletes)

    def positions(text: str | None) -> list[int]:
        return [] if text is None else list(decode_positions(text))

    columns = zip(found.file, found.deleted, found.updated, strict=True)
    return {file: (positions(gone), positions(new)) for file, gone, new in columns}


def partitioned(**properties: Any) -> Table:
    """Files 1 (a: 1, 2, 3), 2 (b: 4, 5, 6) and 3 (NULL: 7)."""
    table = new_table(partitioned=True, **properties)
    table.append(rows(1, 2, 3, 4, 5, 6, p=["a"] * 3 + ["b"] * 3))
    table.append(pa.table({"id": pa.array([7], pa.int64()), "p": pa.array([None], pa.string())}))
    return table


def test_positions_go_of_the_files_that_keep_rows_and_files_that_keep_none_go() -> None:
    """DEL-1, DEL-4: the entry has only these positions. A second delete adds the new ones."""
    table = partitioned()
    commit_result = table.delete("id IN (2, 4, 5, 6, 7)")
    entry = last_entry(table)
    assert (list(entry.remove), marks(entry)) == ([2, 3], {1: ([1], [])})
    assert entry.operation.cls is OperationClass.UPDATE
    assert (
        entry.basis.predicate
        == entry.operation.parameters["predicate"]
        == ("`id` IN (2, 4, 5, 6, 7)")
    )
    assert entry.basis.scope is None
    assert (entry.basis.blind, entry.add, entry.lineage) == (False, None, None)
    assert (entry.totals.files, entry.totals.rows, entry.totals.deleted) == (1, 3, 1)
    assert commit_result.metrics["numDeletedRows"] == 5
    assert commit_result.metrics["numDeletionVectorsAdded"] == 1
    assert commit_result.metrics["numRemovedFiles"] == 2
    table.delete("id <= 2")
    assert marks(last_entry(table)) == {1: ([0], [])}
    assert last_entry(table).totals.deleted == 2
    table.delete("id <= 3")
    assert (list(last_entry(table).remove), marks(last_entry(table))) == ([1], {})
    assert last_entry(table).totals.deleted == 0
    assert [ids(handle(table.context.store), v) for v in range(2, 6)] == [
        [1, 2, 3, 4, 5, 6, 7],
        [1, 3],
        [3],
        [],
    ]
    assert_sound(table.context.store)


def test_copy_on_write_writes_what_stays_and_says_where_from() -> None:
    """LIN-1: the entry has the deleted rows for readers of changes."""
    table = partitioned(deleteMode="copy-on-write")
    commit_result = table.delete("id IN (2, 4, 5, 6)")
    entry = last_entry(table)
    assert list(entry.remove) == [1, 2]
    assert marks(entry) == {1: ([1], []), 2: ([0, 1, 2], [])}
    assert isinstance(entry.add, AddedFiles)
    assert (entry.add.columns["rows"], entry.totals.deleted) == ([2], 0)
    assert entry.lineage is not None
    lineage = entry.lineage
    assert (lineage.output, lineage.input, lineage.start, lineage.rows) == ([0], [1], [0], [3])
    assert [list(decode_positions(text)) for text in lineage.dropped if text] == [[1]]
    assert commit_result.metrics["numCopiedRows"] == 2
    assert ids(table) == [1, 3, 7]
    assert_sound(table.context.store)


@pytest.mark.parametrize("mode", ["merge-on-read", "copy-on-write"])
def test_copy_on_write_goes_on_from_positions_that_were_taken_out_before(mode: str) -> None:
    """LIN-1, DEL-4."""
    table = new_table(deleteMode="merge-on-read")
    table.append(rows(*range(10)))
    table.delete("id IN (0, 4, 9)")
    table.alter.set_properties({"deleteMode": mode})
    table.delete("id IN (5, 8)")
    if mode == "copy-on-write":
        lineage = last_entry(table).lineage
        assert lineage is not None
        dropped = [list(decode_positions(text)) for text in lineage.dropped if text]
        assert dropped == [[0, 4, 5, 8, 9]]
        assert marks(last_entry(table)) == {1: ([5, 8], [])}
    assert ids(table) == [1, 2, 3, 6, 7]
    assert_sound(table.context.store)


@pytest.mark.parametrize("mode", ["merge-on-read", "copy-on-write"])
def test_an_update_marks_rows_and_their_new_versions(mode: str) -> None:
    """DEL-1, ENT-9: an update of all rows of a file removes it, with a mark in the entry."""
    table = partitioned(deleteMode=mode)

    def change(old: pa.Table) -> pa.Table:
        new = pa.array([n + 10 for n in old["id"].to_pylist()], pa.int64())
        return old.set_column(0, "id", new)

    txn = table.transaction()
    txn.stage(lambda snapshot: stage_update(snapshot, "id >= 3", change, ["id"]))
    commit_result = txn.commit()
    entry = last_entry(table)
    assert marks(entry) == {1: ([], [2]), 2: ([], [0, 1, 2]), 3: ([], [0])}
    assert isinstance(entry.add, AddedFiles)
    assert entry.update is not None
    assert entry.update.set == (1,)
    added = sorted(zip(entry.add.columns["rows"], entry.add.columns["updated"], strict=True))
    if mode == "merge-on-read":
        assert list(entry.remove) == [2, 3]
        assert added == [(1, True), (1, True), (3, True)]
    else:
        assert list(entry.remove) == [1, 2, 3]
        assert added == [(1, True), (1, True), (2, False), (3, True)]
    assert commit_result.metrics["numUpdatedRows"] == 5
    assert ids(table) == [1, 2, 13, 14, 15, 16, 17]
    assert_sound(table.context.store)


def test_an_update_that_moves_rows_has_both_partitions_in_its_scope() -> None:
    """CFL-19, ENT-5: the scope has the partition that it read and the one that it wrote."""
    table = partitioned()

    def move(old: pa.Table) -> pa.Table:
        return old.set_column(1, "p", pa.array(["c"] * old.num_rows, pa.string()))

    txn = table.transaction()
    txn.stage(lambda snapshot: stage_update(snapshot, "p = 'a' AND id > 1", move, ["p"]))
    txn.commit()
    assert last_entry(table).basis.scope == PredicateScope("`p` = 'a' OR `p` = 'c'")
    assert table.to_arrow(where="p = 'c'")["id"].to_pylist() == [2, 3]


@pytest.mark.broken_tables
def test_partition_values_decide_without_a_look_at_data() -> None:
    """PRN-8: the data files are not even there."""
    table = partitioned()
    for key in data_files(table.context.store):
        table.context.store.delete(key)
    for where, gone in (("p = 'a' OR p > 'x'", [1]), ("p IS NULL", [3]), (None, [2])):
        table.delete(where)
        assert list(last_entry(table).remove) == gone
    assert table.scan().count() == 0
    again = partitioned()
    scopes = {
        "p = 'a'": "`p` = 'a'",
        "p = 'b' AND id = 4": "`p` = 'b'",
        "p IS NULL OR (p = 'b' AND id > 0)": "`p` IS NULL OR `p` = 'b'",
    }
    for where, scope in scopes.items():
        again.delete(where)
        assert last_entry(again).basis.scope == PredicateScope(scope)


@pytest.mark.broken_tables
def test_only_files_that_may_hold_such_rows_are_opened() -> None:
    """PRN-4: the others are not even there."""
    table = new_table()
    for start in (0, 100, 200):
        table.append(rows(*range(start, start + 5)))
    files = table.scan().files()
    for path in (files["path"][0].as_py(), files["path"][2].as_py()):
        table.context.store.delete(path)
    assert table.delete("id BETWEEN 101 AND 103").metrics["numDeletedRows"] == 3
    assert table.delete(pc.field("id") == 100).metrics["numDeletedRows"] == 1
    with pytest.raises(CorruptDataError, match="missing"):
        table.delete("id <= 104")
    assert handle(table.context.store).version == 5


def test_row_groups_that_cannot_hold_such_rows_do_not_shift_positions() -> None:
    """PRN-10: a large file, of which a few rows in the middle go."""
    table = new_table()
    table.append(rows(*range(1_500_000)))
    commit_result = table.delete("id >= 1200000 AND id < 1200010 OR id = 3")
    assert commit_result.metrics["numDeletedRows"] == 11
    gone, _ = marks(last_entry(table))[1]
    assert gone == [3, *range(1_200_000, 1_200_010)]
    assert table.scan(where="id > 1199998 AND id < 1200012").to_arrow()["id"].to_pylist() == [
        1_199_999,
        1_200_010,
        1_200_011,
    ]
    assert table.scan().count() == 1_500_000 - 11


def test_nulls_and_nans_go_only_where_the_condition_is_true() -> None:
    """PRN-2, PRN-10: NaN is above every number; NULL is neither."""
    schema = pa.schema([("id", pa.int64()), ("f", pa.float64())])
    values = [1.0, None, float("nan"), 5.0, -0.0]
    table = Table(create(memory(), schema))
    table.append(pa.table({"id": range(5), "f": pa.array(values, pa.float64())}, schema))
    assert table.delete("NOT (f <= 2.0)").metrics["numDeletedRows"] == 2
    assert ids(table) == [0, 1, 4]
    assert table.delete("f = 0.0").metrics["numDeletedRows"] == 1
    assert table.delete("f <> 7 OR f = 8").metrics["numDeletedRows"] == 1
    assert ids(table) == [1]


def test_a_delete_asks_for_the_head_and_puts_one_entry() -> None:
    """CMT-2: no file is written, nothing is listed."""
    counting = CountingStore(memory())
    table = new_table(counting)
    table.append(rows(1, 2, 3))
    counting.reset()
    table.delete("id = 2")
    asked = [(verb, key) for verb, key in counting.requests if not key.startswith("data/")]
    assert asked == [("get", entry_key(2)), ("put_if_absent", entry_key(2))]
    counting.reset()
    assert table.delete("id = 2").no_op
    assert table.delete("id = 200").no_op
    assert {verb for verb, _ in counting.requests} <= {"get", "get_range", "size"}


def test_bad_conditions_are_refused() -> None:
    """PRN-3."""
    table = new_table()
    table.append(rows(1))
    wrong: list[Any] = ["id", "id = ", "nobody = 1", "sum(id) = 1", "id = (SELECT 1)", 3, ["id"]]
    for where in wrong:
        with pytest.raises(Exception) as caught:
            table.delete(where)
        assert caught.value.kind in ("invalid_predicate", "unsupported_feature"), where  # type: ignore[attr-defined]
    with pytest.raises(InvalidPredicateError):
        table.delete(pc.field("nobody") == 1)
    with pytest.raises((InvalidPredicateError, SchemaMismatchError)):
        table.delete(pc.field("p") + 1 > 3)
    assert handle(table.context.store).version == 1
