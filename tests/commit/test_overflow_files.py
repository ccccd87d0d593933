"""Entries whose columns of files are too large for them, through the user's own operations."""

from __future__ import annotations

import pyarrow as pa
import pytest

from tablefmt.commit import driver
from tablefmt.model.log_entry import OverflowFile
from tests.tables import assert_sound, handle, new_table, rows


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
