"""Findings of `verify` for a store that acknowledged one version to two writers."""

from __future__ import annotations

from typing import Any

import pytest

from tablefmt.log.object_names import entry_key
from tablefmt.store.memory_store import MemoryStore
from tests.tables import behind, ids, memory, new_table, rows


def acknowledged_twice() -> tuple[MemoryStore, Any, Any, Any]:
    """Return a table whose version 1 was acknowledged to two appends.

    The second replaced the entry.
    """
    store = memory()
    table = new_table(store)
    other = behind(table, store)
    lost = table.append(rows(1))
    store.delete(entry_key(1))
    kept = other.append(rows(2))
    assert (lost.version, kept.version) == (1, 1)
    return store, table, other, lost


def test_an_overwritten_commit_without_followers_left_its_files() -> None:
    """STO-22: the log is whole, and the files of the other writer are in no entry."""
    store, _, other, lost = acknowledged_twice()
    assert ids(other) == [2]

    report = other.verify(deep=True)

    assert report.ok
    (one,) = report.unnamed
    (size,) = (f.size for f in store.list_after("data/") if lost.transaction in f.key)
    assert (one.folder, one.files, one.bytes) == (f"data/{lost.transaction}", 1, size)
    assert abs(one.modified_us - next(iter(store.list_after("data/"))).modified_us) < 60_000_000
    assert "acknowledged and then overwritten" in str(report)
    assert lost.transaction in str(report)


@pytest.mark.broken_tables
def test_an_overwritten_commit_that_somebody_went_on_from_breaks_the_chain() -> None:
    """STO-22, LOG-1."""
    _, table, other, _ = acknowledged_twice()
    table.append(rows(3))

    report = other.verify()

    assert [(f.object, f.rule) for f in report.findings] == [(entry_key(2), "LOG-1")]


@pytest.mark.parametrize("more", [0, 1, 2000])
def test_files_of_commits_and_of_removed_rows_are_named(more: int) -> None:
    """STO-22: files of truncated rows are known too. Litter is named by its folder."""
    store = memory()
    table = new_table(store)
    for n in range(3):
        table.append(rows(n))
    table.truncate()
    for n in range(more):
        store.put(f"data/f00/{n}.parquet", b"x" * 3)

    report = table.verify()

    assert report.ok
    assert [(u.folder, u.files, u.bytes) for u in report.unnamed] == (
        [("data/f00", more, 3 * more)] if more else []
    )


def test_a_commit_that_lands_during_the_listing_is_no_suspect() -> None:
    """STO-22."""
    store = memory()
    table = new_table(store)
    late = behind(table, store)

    class Landing(MemoryStore):
        def list_after(self, prefix: str, after: str | None = None) -> Any:
            if prefix == "data/":
                late.append(rows(7))
            return super().list_after(prefix, after)

    table.context.store.__class__ = Landing
    assert table.verify().unnamed == ()
    assert ids(late) == [7]
