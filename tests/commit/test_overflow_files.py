"""Entries whose columns of files are too large for them, through the user's own operations."""

from __future__ import annotations

import pyarrow as pa
import pytest

from tablefmt.commit import driver
from tablefmt.log.object_names import entry_key
from tablefmt.model.log_entry import OverflowFile
from tablefmt.operations.create import create
from tablefmt.table import Table
from tests.tables import assert_sound, handle, last_entry, memory, new_table, rows


def test_files_that_come_with_new_columns_keep_their_bounds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """ADD-6, SCH-8: the overflow file has the types of the schema in the same entry."""
    monkeypatch.setattr(driver, "OVERFLOW_FROM_FILES", 1)
    monkeypatch.setattr(driver, "OVERFLOW_ABOVE_BYTES", 0)
    table = new_table(partitioned=True)
    table.append(rows(1, 2, p=["a", "b"]))
    data = pa.table({"id": [3, 4], "p": ["a", "b"], "x": ["u", "v"]})
    table.append(data, merge_schema=True)
    assert isinstance(table.context.view.entries_after(1)[0].entry.add, OverflowFile)
    fresh = handle(table.context.store)
    assert fresh.to_arrow(where="x = 'v'").to_pylist() == [{"id": 4, "p": "b", "x": "v"}]
    # Files that lack the column have no bounds of it, and may be NULL there.
    assert fresh.scan(where="x = 'v'").files().num_rows < 4
    assert fresh.scan(where="x < 'v'").files()["partition"].to_pylist()[-1] == {"p": "a"}
    assert sorted(fresh.to_arrow()["id"].to_pylist()) == [1, 2, 3, 4]
    assert_sound(table.context.store)


def test_files_of_several_partitionings_are_in_one_overflow_file(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """ADD-6, EVO-2: each file keeps the number and the values of its own partitioning."""
    table = new_table(partitioned=True)
    table.append(rows(1, 2, p=["a", "b"]))
    table.alter.set_partitioning(["id"])
    table.append(rows(3, 4, p=["a", "c"]))
    table.truncate()
    monkeypatch.setattr(driver, "OVERFLOW_FROM_FILES", 1)
    monkeypatch.setattr(driver, "OVERFLOW_ABOVE_BYTES", 0)
    table.restore(version=3)
    assert isinstance(last_entry(table).add, OverflowFile)
    fresh = handle(table.context.store)
    assert sorted(fresh.to_arrow()["id"].to_pylist()) == [1, 2, 3, 4]
    assert fresh.to_arrow(where="p = 'a'").sort_by("id")["id"].to_pylist() == [1, 3]
    assert fresh.scan(where="p = 'b'").survivors.num_rows == 1
    names = ("own.1", "own.2")
    files = fresh.context.view.snapshot().files.select(names).to_pylist()
    assert sorted(files, key=str) == sorted(
        [
            {"own.1": None, "own.2": "a"},
            {"own.1": None, "own.2": "b"},
            {"own.1": 3, "own.2": None},
            {"own.1": 4, "own.2": None},
        ],
        key=str,
    )
    assert_sound(table.context.store)


def test_few_files_with_many_bounds_are_in_an_overflow_file(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """ADD-6: the length of the entry decides, and not the number of files alone."""
    monkeypatch.setattr(driver, "OVERFLOW_ABOVE_BYTES", 20_000)
    names = [f"c{at}" for at in range(10)]
    context = create(
        memory(),
        pa.schema([("p", pa.int64()), *((name, pa.string()) for name in names)]),
        partition_by=["p"],
        properties={"statsColumns": ",".join(names)},
    )
    table = Table(context)
    columns = {name: [f"{name} {at} ".ljust(40, "😀") for at in range(12)] for name in names}
    table.append(pa.table({"p": list(range(12)), **columns}))
    entry = table.context.view.entries_after(0)[0].entry
    assert isinstance(entry.add, OverflowFile)
    assert entry.add.files == 12
    store = table.context.store
    assert store.size(entry_key(1)) < 10_000
    fresh = handle(store)
    assert fresh.scan(where="c9 = 'none'").files().num_rows == 0
    assert fresh.to_arrow(where=f"c9 = '{columns['c9'][7]}'")["p"].to_pylist() == [7]
    table.append([{"p": 1, "c0": "few"}])
    assert not isinstance(table.context.view.entries_after(1)[0].entry.add, OverflowFile)
    assert_sound(store)
