"""The metadata that each file was written under, by the log. Spec: ADD-9."""

from __future__ import annotations

import pyarrow as pa
import pytest

from tablefmt.commit import driver
from tablefmt.model.log_entry import AddedFiles, OperationClass
from tablefmt.table import Table
from tests.compactions import stage_compact
from tests.oracle import logdump
from tests.tables import assert_sound, handle, new_table, rows


def written(table: Table) -> list[int]:
    """Return `written` of every live file, oldest first, as a fresh handle reads it."""
    fresh = handle(table.context.store)
    column: list[int] = fresh.context.view.snapshot().files["written"].to_pylist()
    return column


def test_files_say_under_which_metadata_they_were_written() -> None:
    """ADD-9: appends, changes of the schema in the same commit and before, rewrites."""
    table = new_table()
    table.append(rows(1, 2))
    table.alter.add_column("b", "ARRAY<INT>")
    table.append(rows(3))
    assert written(table) == [0, 2]
    table.append(pa.table({"id": [4], "c": [1.5]}), merge_schema=True)
    assert written(table) == [0, 2, 4]
    table.update({"c": "2.5"}, "id = 1")
    assert written(table) == [0, 2, 4, 4]
    files = handle(table.context.store).scan().files()["id"].to_pylist()
    minor = OperationClass.MINOR_COMPACT
    table.transaction().stage(lambda snapshot: stage_compact(snapshot, minor, [files])).commit()
    assert written(table) == [4]
    table.overwrite(pa.table({"id": [9]}), overwrite_schema=True)
    assert written(table) == [7]
    assert_sound(table.context.store)


def test_an_append_that_lost_to_a_new_column_keeps_what_it_was_written_under() -> None:
    """ADD-9, CFL-5: the entry has the metadata version of the concurrent commit."""
    table = new_table()
    stale = handle(table.context.store)
    table.alter.add_column("b", "INT", default=7)
    commit = stale.append(rows(2))
    assert [int(v) for v in commit.rebased_over] == [1]
    entry = handle(table.context.store).context.view.entries_after(1)[0].entry
    assert entry.totals.metadata_version == 1
    assert isinstance(entry.add, AddedFiles)
    assert entry.add.columns["written"] == [0]
    assert written(table) == [0]
    # `initial` fills what the file lacks.
    assert handle(table.context.store).to_arrow().to_pylist() == [{"id": 2, "p": "a", "b": 7}]


@pytest.mark.parametrize("merge_schema", [False, True])
def test_an_overflow_file_has_it_too(monkeypatch: pytest.MonkeyPatch, merge_schema: bool) -> None:
    """ADD-6, ADD-9."""
    monkeypatch.setattr(driver, "OVERFLOW_FROM_FILES", 1)
    monkeypatch.setattr(driver, "OVERFLOW_ABOVE_BYTES", 0)
    table = new_table()
    table.alter.add_column("b", "INT")
    given = {"id": [1], "c": [1]} if merge_schema else {"id": [1]}
    table.append(pa.table(given), merge_schema=merge_schema)
    assert written(table) == [2 if merge_schema else 1]
    assert_sound(table.context.store)


def test_the_second_reader_remarks_on_a_version_without_metadata() -> None:
    """ADD-9: no reader needs it to be one; who writes it has a fault."""
    table = new_table()
    table.append(rows(1))
    replay = logdump.Replay(lambda name: b"")
    replay._check_written({"written": 1}, 3, [0, 2])
    assert [rule for rule, _ in replay.remarks] == ["ADD-9"]
