"""Records of log entries: converted together, as they are one by one, and as they are read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice

import pyarrow as pa
import pytest

from tablefmt.cli import log_records
from tablefmt.cli.log_records import Read, checked_entries, entry_record, entry_records
from tablefmt.errors import CorruptEntryError
from tablefmt.model.log_entry import AddedFiles
from tablefmt.store.object_store import Store
from tests.tables import memory, new_table, rows


@pytest.fixture(scope="module")
def store() -> Store:
    """A log of entries that differ in all that a record shows."""
    store = memory()
    table = new_table(store, deleteMode="merge-on-read")
    for value in range(3):
        table.append(rows(value, value + 10), user_metadata={"n": value})
    table.delete("id = 1")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tablefmt.commit.driver.OVERFLOW_ABOVE_BYTES", 1)
        patch.setattr("tablefmt.commit.driver.OVERFLOW_FROM_FILES", 0)
        table.append(rows(20, 21))
    table.update({"p": "'x'"}, "id > 10")
    table.alter.widen_column("id", "DECIMAL(20, 0)")
    table.append(pa.table({"id": pa.array([5], pa.decimal128(20, 0)), "p": ["é"]}))
    table.compact("major")
    return store


@pytest.mark.parametrize(("entries", "files"), [(256, 4096), (1, 4096), (256, 1), (3, 2)])
def test_records_are_those_of_each_entry(
    entries: int, files: int, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The windows change nothing, whatever is in them."""
    alone = [entry_record(store, *read) for read in checked_entries(store)]
    monkeypatch.setattr(log_records, "WINDOW_ENTRIES", entries)
    monkeypatch.setattr(log_records, "WINDOW_FILES", files)
    assert list(entry_records(store, checked_entries(store))) == alone
    assert [len(one["added"]) for one in alone] == [0, 1, 1, 1, 0, 1, 1, 0, 1, 1]
    assert alone[3]["added"][0]["lower"] == {"id": 2, "p": "a"}
    assert alone[-2]["added"][0]["lower"] == {"id": "5", "p": "é"}


def test_a_window_is_in_memory_at_a_time(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """The record of the first window is there before the second one is read."""
    monkeypatch.setattr(log_records, "WINDOW_ENTRIES", 2)
    read: list[int] = []

    def noted() -> Iterator[Read]:
        for entry, metadata in checked_entries(store):
            read.append(entry.version)
            yield entry, metadata

    for record in entry_records(store, noted()):
        assert read[-1] <= record["version"] + 1
    assert read == list(range(10))


def test_entries_before_damage_come_first(store: Store) -> None:
    """Entries of the same window too, and entries before one with wrong values."""
    known = list(checked_entries(store))

    def damaged() -> Iterator[Read]:
        yield from known[:3]
        raise CorruptEntryError("torn", key="x", rule="ENT-1")

    records = entry_records(store, damaged())
    assert [record["version"] for record in islice(records, 3)] == [0, 1, 2]
    with pytest.raises(CorruptEntryError, match="torn"):
        next(records)

    entry, metadata = known[2]
    assert isinstance(entry.add, AddedFiles)
    wrong = replace(entry, add=AddedFiles({**entry.add.columns, "lower.1": ["no number"]}))
    records = entry_records(store, [known[1], (wrong, metadata), known[3]])
    assert next(records)["version"] == 1
    with pytest.raises(CorruptEntryError, match="VAL-1"):
        next(records)
