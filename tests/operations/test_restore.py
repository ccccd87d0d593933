"""Restore: an older version becomes the newest one, by metadata alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta, timezone
from typing import Any

import pyarrow as pa
import pytest

from tablefmt.errors import (
    ConcurrentAppendException,
    ConcurrentWriteException,
    ConstraintViolationError,
    InvalidRangeError,
    MetadataChangedException,
    ProtocolChangedException,
    VersionNotFoundError,
)
from tablefmt.log.codec import encode
from tablefmt.log.object_names import entry_key
from tablefmt.model.log_entry import (
    AddedFiles,
    Operation,
    OperationClass,
    PartitionScope,
    RetentionHorizon,
)
from tablefmt.operations.restore import restore_statement
from tablefmt.snapshot.log_view import LogView
from tablefmt.snapshot.table_state import Snapshot
from tablefmt.store.object_store import Store
from tablefmt.store.store_wrappers import CountingStore
from tablefmt.table import Table
from tests.tables import (
    assert_sound,
    behind,
    data_files,
    handle,
    ids,
    last_entry,
    memory,
    new_table,
    next_entry,
    rows,
)

Content = list[dict[str, Any]]


def content(table: Table, version: int | None = None) -> Content:
    """Rows at a version, in an order of their own."""
    return sorted(table.to_arrow(version=version).to_pylist(), key=repr)


def give_up(store: Store, before: int) -> None:
    """Commit a horizon by hand, as another writer would."""
    view = LogView.open(store)
    horizon = next_entry(
        view,
        time_version=view.head.time_version,
        operation=Operation(name="VACUUM", cls=OperationClass.MINOR_COMPACT),
        horizon=RetentionHorizon(before),
    )
    horizon = replace(
        horizon,
        basis=replace(horizon.basis, blind=False, scope=PartitionScope(())),
        totals=replace(horizon.totals, oldest=before),
    )
    store.put(entry_key(horizon.version), encode(horizon))


def changed_in_all_ways() -> tuple[Table, list[Content]]:
    """A table with one version of each kind of change, and the rows at each of them."""
    table = new_table(partitioned=True)
    table.append(rows(1, 2, 3, p=["a", "a", "b"]))
    table.append(rows(4, 5, p="b"))
    table.delete("id = 2")
    table.update({"id": "id + 10"}, "p = 'b'")
    table.overwrite(rows(7, 8, p="a"), where="p = 'a'")
    table.alter.add_column("q", "INT", default=3)
    table.append(pa.table({"id": [9], "p": ["c"], "q": [1]}))
    table.alter.drop_column("q")
    table.alter.rename_column("id", "number")
    table.truncate()
    return table, [content(table, version) for version in range(table.version + 1)]


@pytest.mark.slow
def test_every_version_comes_back_whatever_was_done_since() -> None:
    """RET-1, RET-3: rows, columns and their names; and no data file is written."""
    table, known = changed_in_all_ways()
    schemas = [table.scan(version=v).schema for v in range(len(known))]
    store, files = table.context.store, data_files(table.context.store)
    for version in [3, 1, 9, 6, 7, 2, 8, 5, 4, 10, 0, 6]:
        commit_result = table.restore(version=version)
        assert (commit_result.operation, commit_result.no_op) == ("RESTORE", False)
        assert content(table) == known[version]
        assert table.schema == schemas[version]
        assert_sound(store)
    assert [content(table, version) for version in range(len(known))] == known
    assert data_files(store) == files


def test_a_column_that_comes_back_is_the_one_that_was_dropped() -> None:
    """RET-3, SCH-8: a column of the same name that was added later keeps its own values."""
    table = new_table()
    table.append(rows(1, p="old"))
    table.alter.drop_column("p")
    table.alter.add_column("p", "INT")
    table.append(pa.table({"id": [2], "p": pa.array([5], pa.int32())}))
    table.restore(version=1)
    assert content(table) == [{"id": 1, "p": "old"}]
    table.restore(version=4)
    assert content(table) == [{"id": 1, "p": None}, {"id": 2, "p": 5}]
    table.restore(version=1)
    table.alter.drop_column("p")
    table.alter.add_column("p", "DATE")
    assert content(table) == [{"id": 1, "p": None}]
    assert_sound(table.context.store)


def test_what_is_there_already_is_no_version() -> None:
    """RET-1: the newest version, or one with the same files under other ids."""
    table = new_table()
    table.append(rows(1, 2))
    assert table.restore(version=1).no_op
    table.delete("id = 1")
    assert table.restore(version=1).version == 3
    assert table.restore(version=1).no_op
    assert table.restore(version=0).version == 4
    assert table.restore(version=0).no_op
    assert table.restore(version=1, application=("job", 1)).version == 5
    assert table.restore(version=1, application=("job", 2)).no_op is False
    assert table.restore(version=1, application=("job", 2)).already_applied
    assert ids(table) == [1, 2]


def test_deleted_rows_are_compared_row_by_row() -> None:
    """RET-1: the deleted rows differ but their number does not. The file may have another id."""
    table = new_table()
    table.append(rows(1, 2, 3))
    table.delete("id = 1")
    table.restore(version=1)
    table.delete("id = 3")
    table.restore(version=2)
    assert ids(table) == [2, 3]
    table.restore(version=4)
    assert ids(table) == [1, 2]
    assert table.restore(version=4).no_op
    assert_sound(table.context.store)


def test_properties_and_applications_stay() -> None:
    """RET-3, RPL-5, PTY-2."""
    table = new_table(statsColumns="p")
    table.append(rows(1), application=("job", 1))
    table.alter.set_properties({"user.note": "kept"})
    table.alter.rename_column("p", "place")
    table.append(pa.table({"id": [2], "place": ["b"]}), application=("job", 2))
    table.restore(version=1)
    assert table.properties == {"statsColumns": "`p`", "user.note": "kept"}
    assert table.append(rows(3), application=("job", 1)).already_applied
    assert table.append(rows(3), application=("job", 3)).version == 6
    assert ids(table) == [1, 3]


def test_constraints_come_back_with_the_rows() -> None:
    """RET-3, ENT-10: rows of before a constraint need not satisfy it."""
    table = new_table()
    table.append(rows(-1))
    table.delete()
    table.alter.add_constraint("positive", "id > 0")
    table.append(rows(5))
    table.restore(version=1)
    assert (ids(table), table.constraints) == ([-1], {})
    table.restore(version=4)
    assert (ids(table), table.constraints) == ([5], {"positive": "id > 0"})
    with pytest.raises(ConstraintViolationError):
        table.append(rows(-2))


def test_partitioning_comes_back() -> None:
    """RET-1, ENT-8: no file of the other partitioning stays."""
    table = new_table(partitioned=True)
    table.append(pa.table({"id": [1, 2], "p": ["a", None]}))
    table.overwrite(rows(3, 4), overwrite_schema=True, partition_by=[])
    table.restore(version=1)
    assert (table.partition_by, content(table)) == (["p"], content(table, 1))
    table.restore(version=2)
    assert (table.partition_by, ids(table)) == ([], [3, 4])
    assert_sound(table.context.store)


def test_by_time_and_in_a_transaction() -> None:
    """TIM-4, RET-1."""
    table = new_table()
    times = [table.append(rows(n)).timestamp for n in (1, 2, 3)]
    table.restore(timestamp=times[1])
    assert ids(table) == [1, 2]
    table.restore(timestamp=times[0].isoformat())
    assert ids(table) == [1]
    with table.transaction() as work:
        work.restore(version=3)
    assert work.commit_result is not None
    assert (work.commit_result.operation, ids(table)) == ("RESTORE", [1, 2, 3])
    last = table.history(1).to_pylist()[0]
    assert last["operation"] == "RESTORE"
    assert dict(last["operationParameters"])["version"] == "3"
    assert dict(last["operationMetrics"])["numOfFilesAfterRestore"] == "3"


BAD: dict[str, tuple[dict[str, Any], type[Exception], str]] = {
    "nothing": ({}, InvalidRangeError, "one of them"),
    "both": ({"version": 1, "timestamp": "2024-01-01"}, InvalidRangeError, "one of them"),
    "text": ({"version": "1"}, InvalidRangeError, "not a whole number"),
    "part": ({"version": 0.5}, InvalidRangeError, "not a whole number"),
    "no time": ({"timestamp": "soon"}, InvalidRangeError, "soon"),
    "future": ({"version": 7}, VersionNotFoundError, "it goes from 0 to 1"),
    "below": ({"version": -1}, VersionNotFoundError, "it goes from 0 to 1"),
    "before": ({"timestamp": "1999-01-01"}, VersionNotFoundError, "1999-01-01"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_cannot_be_restored_is_said(name: str) -> None:
    """TIM-4, RET-2."""
    arguments, error, text = BAD[name]
    table = new_table()
    table.append(rows(1))
    with pytest.raises(error, match=text):
        table.restore(**arguments)
    with pytest.raises(error, match=text):
        table.transaction().restore(**arguments)
    assert handle(table.context.store).version == 1


def test_an_append_only_table_is_not_restored() -> None:
    """RET-3: the property of PTY-2 refuses it."""
    table = new_table(appendOnly="true")
    table.append(rows(1))
    with pytest.raises(ConstraintViolationError, match="append-only"):
        table.restore(version=0)


def racing(win: Callable[[Table], object]) -> tuple[Table, Table]:
    """A table whose versions 0 to 3 hold [], [1], [1, 2], [1]; and a handle from before `win`."""
    table = new_table()
    table.append(rows(1))
    table.append(rows(2))
    table.delete("id = 2")
    other = behind(table, table.context.store)
    work = other.transaction()
    win(table)
    work.restore(version=2).commit()
    return table.refresh(), other


def test_a_restore_replaces_what_won() -> None:
    """RET-1, CFL-3: it is computed again after an append, a delete, an overwrite and a restore."""
    wins: list[Callable[[Table], object]] = [
        lambda t: t.append(rows(3)),
        lambda t: t.delete(),
        lambda t: t.overwrite(rows(8)),
        lambda t: t.restore(version=0),
        lambda t: t.restore(version=2),
    ]
    for win in wins:
        table, _ = racing(win)
        assert ids(table) == [1, 2]
        assert_sound(table.context.store)


def test_a_restore_does_not_pass_another_definition() -> None:
    """CFL-5, CFL-4: two restores bring another definition. One of them commits first."""
    with pytest.raises(MetadataChangedException):
        racing(lambda t: t.alter.add_column("q", "INT"))
    table = new_table()
    table.alter.add_column("q", "INT")
    first, second = (table.transaction().restore(version=0) for _ in range(2))
    first.commit()
    with pytest.raises(ProtocolChangedException):
        second.commit()


def test_what_a_vacuum_gave_up_does_not_come_back() -> None:
    """RET-2: before the restore begins, and after; the other way round it stays."""
    store = memory()
    table = new_table(store)
    for number in (1, 2, 3):
        table.overwrite(rows(number))
    late = table.transaction().restore(version=1)
    early = table.transaction().restore(version=2)
    give_up(store, 2)
    with pytest.raises(VersionNotFoundError, match=r"version 1 .* from 2 to 4") as caught:
        late.commit()
    assert (caught.value.oldest, caught.value.latest) == (2, 4)
    with pytest.raises(VersionNotFoundError, match="from 2 to 4"):
        table.restore(version=0)
    assert early.commit().version == 5
    assert ids(handle(store)) == [2]
    assert handle(store).context.view.head.totals.oldest == 2
    give_up(store, 5)
    assert ids(handle(store)) == [2]
    assert_sound(store)


def test_a_restore_under_transaction_granularity() -> None:
    """CFL-2: the cells of OVERWRITE, as the later and as the earlier."""
    table = new_table(conflictGranularity="transaction")
    table.append(rows(1))
    table.append(rows(2))
    late = table.transaction().restore(version=1)
    append = table.transaction().append(rows(3))
    table.append(rows(4))
    assert late.commit().version == 4
    with pytest.raises(ConcurrentWriteException):
        append.commit()
    assert ids(table.refresh()) == [1]


def test_what_an_update_did_not_see_is_not_kept_behind_its_back() -> None:
    """CFL-9, RET-1: a skipped INSERT stays where a restore leaves it.

    So no order of the three explains the result.
    """
    table = new_table()
    table.append(rows(1))
    table.append(rows(5))
    update = table.transaction().update({"p": "'new'"}, "id < 3")
    delete = table.transaction().delete("id = 5")
    inserted = table.append(rows(2)).version
    delete.commit()
    # The file of 5 comes back, which the update has nothing to do with; that of 2 stays.
    table.restore(version=inserted)
    with pytest.raises(ConcurrentAppendException) as caught:
        update.commit()
    assert (caught.value.rule, caught.value.winner_operation) == ("CFL-9", "RESTORE")


def test_a_restore_asks_for_nothing_but_its_entry() -> None:
    """RET-1: one request to know the head, one for the entry."""
    store = memory()
    table = new_table(store)
    for number in (1, 2, 3):
        table.overwrite(rows(number))
    counting = CountingStore(store)
    other = behind(table, counting)
    other.restore(version=1)
    verbs = [verb for verb, _ in counting.requests]
    assert verbs.count("put_if_absent") == 1
    assert set(verbs) == {"get", "put_if_absent"}
    assert all(key.startswith("_log/") for _, key in counting.requests)
    assert len(verbs) <= 4


def test_changes_across_a_restore_are_the_difference() -> None:
    """INC-3, RET-1: rows that stay are no change."""
    table = new_table()
    for number in (1, 2, 3):
        table.append(rows(number))
    table.restore(version=1)
    table.restore(version=3)
    found = table.changes(after_version=3).to_arrow().sort_by("_commit_version").to_pylist()
    said = sorted((row["_commit_version"], row["_change_type"], row["id"]) for row in found)
    assert said == [(4, "delete", 2), (4, "delete", 3), (5, "insert", 2), (5, "insert", 3)]


def test_a_file_without_bounds_comes_back_without_them() -> None:
    """VAL-4, RET-3: an entry has no column of NULLs alone, even if other files have bounds."""
    table = new_table()
    table.append(pa.table({"id": [1], "p": pa.array([None], pa.string())}))
    table.append(rows(2))
    table.truncate()
    table.restore(version=1)
    added = last_entry(table).add
    assert isinstance(added, AddedFiles)
    bounds = {name for name in added.columns if name.partition(".")[0] in ("lower", "upper")}
    assert bounds == {"lower.1", "upper.1"}
    assert content(table) == [{"id": 1, "p": None}]


@pytest.mark.slow
def test_many_files_come_back_by_an_overflow_file() -> None:
    """ADD-6, RET-1: the files keep their bounds and partitions."""
    table = new_table(partitioned=True)
    names = [f"partition {n}" for n in range(2500)]
    table.append(rows(*range(2500), p=names))
    before = table.context.view.snapshot(1).files.drop_columns(["id", "added"])
    table.truncate()
    table.restore(version=1)
    after = table.context.view.snapshot().files.drop_columns(["id", "added"])
    assert set(after.column_names) == set(before.column_names)
    assert after.select(before.column_names).to_pylist() == before.to_pylist()
    assert ids(table) == list(range(2500))


def test_the_statement_says_what_it_is() -> None:
    """CFL-23."""
    assert restore_statement(7, None).text(new_table().context.view.head.metadata) == ("7",)


def test_a_time_is_one_content_however_it_is_given() -> None:
    """CFL-7, RET-1: a retry that gives the same time as text has been applied."""
    table = new_table()
    times = [table.append(rows(n)).timestamp for n in (1, 2)]
    first = table.restore(timestamp=times[0], application=("job", 1))
    for again in (times[0].isoformat(), times[0].astimezone(timezone(timedelta(hours=5)))):
        assert table.restore(timestamp=again, application=("job", 1)).already_applied
    assert ids(table.refresh()) == [1]
    shown = dict(table.history(1)["operationParameters"].to_pylist()[0])
    assert shown["version"] == "1"
    assert first.version == table.version


def test_a_restore_of_nothing_encodes_no_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """RET-1: paths and counts alone decide if there is a difference."""

    def encoded(*_: Any) -> Any:
        raise AssertionError("an entry is made of all files")

    table = new_table()
    for number in range(3):
        table.append(rows(number))
    table.delete("id = 1")
    monkeypatch.setattr("tablefmt.commit.restore_plan.added_again", encoded)
    assert table.restore(version=table.version).no_op
    with pytest.raises(AssertionError, match="an entry is made"):
        table.restore(version=2)


def test_positions_are_compared_only_where_ids_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    """RST-1: for one id, equal counts of deleted rows are the same rows."""
    table = new_table(deleteMode="merge-on-read")
    table.append(rows(*range(9)))
    table.delete("id = 1")
    table.append(rows(20))
    compared: list[int] = []
    right = Snapshot.positions

    def positions(self: Snapshot, file: int) -> Any:
        compared.append(file)
        return right(self, file)

    monkeypatch.setattr(Snapshot, "positions", positions)
    table.restore(2)
    assert compared == []
    # Now the file comes back with fewer deleted rows, as another one.
    table.delete("id = 2")
    table.restore(2)
    assert content(table) == content(table, 2)
    table.delete("id = 3")
    compared.clear()
    table.restore(4)
    assert content(table) == content(table, 4)
