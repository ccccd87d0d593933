"""Limits of the next entry: no version after the last one, no file removed twice."""

from __future__ import annotations

from dataclasses import replace

import pytest

import tablefmt
from tablefmt.errors import CorruptTableError, UnsupportedFeatureError
from tablefmt.log.codec import encode
from tablefmt.log.object_names import VERSION_MAX, entry_key
from tablefmt.model.log_entry import AddedFiles, OperationClass
from tablefmt.model.times import next_time
from tablefmt.snapshot.head import check_writable
from tests.tables import memory, next_entry, rows


def test_no_version_follows_the_last_one() -> None:
    """KEY-1."""
    head = tablefmt.create(memory().uri, rows().schema).context.view.head
    check_writable(replace(head, version=VERSION_MAX - 1))
    with pytest.raises(UnsupportedFeatureError, match="the last possible one"):
        check_writable(replace(head, version=VERSION_MAX))


@pytest.mark.broken_tables
def test_a_file_that_was_removed_is_not_removed_again() -> None:
    """RPL-2: the sums follow, so only the file's own history tells."""
    table = tablefmt.create(memory().uri, rows().schema)
    table.append(rows(1))
    table.append(rows(2))
    table.delete("id = 1")
    view = table.context.view
    last, head = view.entries_after(2)[0].entry, view.head
    assert list(last.remove) == [1]
    at = next_time(head.timestamp)
    totals = replace(head.totals, files=0, rows=0, bytes=0)
    again = replace(
        last,
        version=4,
        previous=head.digest,
        timestamp=at,
        time_version=at,
        transaction="f" * 32,
        totals=totals,
        operation=replace(last.operation, cls=OperationClass.UPDATE),
    )
    table.context.store.put(entry_key(4), encode(again))
    with pytest.raises(CorruptTableError, match="RPL-2"):
        tablefmt.open(table.uri).to_arrow()


@pytest.mark.broken_tables
def test_a_file_of_an_unknown_import_needs_the_feature() -> None:
    """VER-4, IMP-1: metadata without imports does not hide what a file says."""
    table = tablefmt.create(memory().uri, rows().schema)
    table.append(rows(1))
    view = table.context.view
    head, last = view.head, view.entries_after(0)[0].entry
    assert isinstance(last.add, AddedFiles)
    path = f"data/{2:032x}/0-0.parquet"
    of_import = AddedFiles({**last.add.columns, "path": [path], "import": [7]})
    sums = {name: 2 * getattr(head.totals, name) for name in ("files", "rows", "bytes")}
    totals = replace(head.totals, next_id=head.totals.next_id + 1, **sums)
    entry = next_entry(view, add=of_import, totals=totals)
    table.context.store.put(entry_key(2), encode(entry))
    with pytest.raises(CorruptTableError, match="VER-4") as caught:
        tablefmt.open(table.uri).to_arrow()
    assert "it has imports" in str(caught.value)


@pytest.mark.broken_tables
def test_wrong_values_are_blamed_on_their_entry() -> None:
    """VAL-1: values of several entries are converted together."""
    table = tablefmt.create(memory().uri, rows().schema)
    table.append(rows(1))
    table.append(rows(2))
    view = table.context.view
    head, last = view.head, view.entries_after(1)[0].entry
    assert isinstance(last.add, AddedFiles)
    wrong = {**last.add.columns, "path": [f"data/{3:032x}/0-0.parquet"], "lower.1": ["no number"]}
    sums = {name: getattr(head.totals, name) * 3 // 2 for name in ("files", "rows", "bytes")}
    totals = replace(head.totals, next_id=head.totals.next_id + 1, **sums)
    entry = next_entry(view, add=AddedFiles(wrong), totals=totals)
    table.context.store.put(entry_key(3), encode(entry))
    with pytest.raises(CorruptTableError, match="VAL-1") as caught:
        tablefmt.open(table.uri).to_arrow()
    assert caught.value.key == entry_key(3)


@pytest.mark.broken_tables
def test_the_first_entry_needs_the_feature_for_numbered_partitionings() -> None:
    """VER-4, EVO-1."""
    table = tablefmt.create(memory().uri, rows().schema, partition_by=["p"])
    table.append(rows(1))
    table.alter.set_partitioning([])
    view, store = table.context.view, table.context.store
    first = view.entries_after(-1, 0)[0].entry
    evolved = view.metadata_at(view.head.version)
    assert evolved.partitionings
    other = memory()
    other.put(entry_key(0), encode(replace(first, metadata=evolved)))
    with pytest.raises(CorruptTableError, match="VER-4"):
        tablefmt.open(other.uri)
    assert store.size(entry_key(0)) > 0
