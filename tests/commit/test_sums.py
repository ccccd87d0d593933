"""Sums in the log fit in 64 bits, for any numbers in an entry."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tablefmt.errors import CorruptTableError
from tablefmt.log.codec import encode
from tablefmt.log.object_names import entry_key
from tablefmt.model.log_entry import AddedFiles
from tablefmt.snapshot.file_columns import exact_sum
from tablefmt.snapshot.log_view import LogView
from tablefmt.store.memory_store import MemoryStore
from tablefmt.table import Table
from tests.tables import handle, ids, memory, new_table, next_entry, rows

MOST = (1 << 63) - 1


@pytest.mark.parametrize(
    "values", [[], [1, 2], [MOST, MOST, MOST, 1], [-(1 << 63), -1, MOST], [-5] * 7]
)
def test_sums_do_not_wrap(values: list[int]) -> None:
    assert exact_sum(np.array(values, np.int64)) == sum(values)


def with_a_file_of(name: str, number: int) -> MemoryStore:
    """A table with a row, and an entry of somebody else that adds a file of that many rows or
    bytes."""
    store = memory()
    table = new_table(store)
    table.append(rows(1))
    view = LogView.open(store)
    counts = {"rows": 1, "size": 1, name: number}
    sums = view.head.totals
    totals = type(sums)(
        files=sums.files + 1,
        rows=sums.rows + counts["rows"],
        bytes=sums.bytes + counts["size"],
        next_id=sums.next_id + 1,
        metadata_version=sums.metadata_version,
    )
    columns: dict[str, list[Any]] = {name: [count] for name, count in counts.items()}
    columns["path"] = ["data/huge.parquet"]
    entry = next_entry(view, totals=totals, add=AddedFiles(columns))
    store.put(entry_key(entry.version), encode(entry))
    return store


def fill(table: Table) -> None:
    for number in range(2, 10):
        table.append(rows(number))


@pytest.mark.broken_tables
@pytest.mark.parametrize("name", ["rows", "size"])
@pytest.mark.parametrize("below", [0, 5])
def test_an_append_does_not_write_sums_that_overflow(name: str, below: int) -> None:
    """ENT-2, ENT-6: it is refused by name, nothing is written, and the table can be mended."""
    known = 1 if name == "rows" else LogView.open(with_a_file_of("rows", 1)).totals_at(1).bytes
    store = with_a_file_of(name, MOST - known - below)
    table = handle(store)
    with pytest.raises(CorruptTableError, match="ENT-6") as raised:
        fill(table)
    assert "drop the table" in str(raised.value)
    last = table.version
    assert handle(store).version == last
    assert handle(store).history().num_rows == last + 1
    handle(store).restore(version=1)
    assert ids(handle(store)) == [1]
    handle(store).append(rows(3))
    assert ids(handle(store)) == [1, 3]


@pytest.mark.broken_tables
def test_rows_taken_out_do_not_wrap() -> None:
    """DEL-1: the number of deleted rows does not overflow."""
    store = with_a_file_of("rows", MOST - 1)
    table = handle(store)
    table.truncate()
    assert ids(handle(store)) == []
    table.append(rows(5))
    assert ids(handle(store)) == [5]
