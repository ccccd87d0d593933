"""A log whose entries are skipped is, once somebody reads, the log as if they had been read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tablefmt.errors import CorruptEntryError
from tablefmt.log.codec import decode, digest, encode
from tablefmt.log.object_names import entry_key
from tablefmt.model.log_entry import Operation, OperationClass, Totals
from tablefmt.snapshot import folding, version_history
from tablefmt.snapshot.log_view import LogView
from tablefmt.store.object_store import Store
from tablefmt.store.store_wrappers import CountingStore
from tablefmt.table import Table
from tests.tables import entries_of, extend, handle, ids, memory, new_table, next_entry, rows

VERSIONS = 12


def store_with_history() -> Store:
    store = memory()
    table = new_table(store)
    for n in range(1, VERSIONS):
        (table.overwrite if n % 5 == 0 else table.append)(rows(n))
    return store


def skip(view: LogView, last: int) -> None:
    """Up to `last`, which alone is read."""
    bodies = [view.store.get(entry_key(v)) for v in range(view.head.version + 1, last + 1)]
    view.skip(bodies, decode(bodies[-1], last))


def behind(store: Store, steps: list[int]) -> LogView:
    view = LogView(store, entries_of(store, 0, 1))
    for last in steps:
        skip(view, last)
    return view


LOOKS: dict[str, Callable[[LogView], Any]] = {
    "times": lambda view: list(view.timeline.timestamps),
    "sums": lambda view: [view.totals_at(version) for version in range(12)],
    "files": lambda view: view.snapshot().files.to_pylist(),
    "files of an old version": lambda view: view.snapshot(4).files.to_pylist(),
    "entries": lambda view: view.entries_after(3),
    "lineage": lambda view: view.versions.with_lineage,
    "metadata": lambda view: view.metadata_at(7),
}


@pytest.mark.share(3)
@pytest.mark.parametrize("kept", [1024, 3])
@pytest.mark.parametrize("steps", [[11], [2, 3, 11], [5, 11]])
@pytest.mark.parametrize("look", LOOKS)
def test_readers_see_skipped_entries(
    look: str, steps: list[int], kept: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """RPL-1: the bytes were kept, or are requested again if there were too many."""
    monkeypatch.setattr(version_history, "UNREAD_MAX", kept)
    store = store_with_history()
    view, whole = behind(store, steps), LogView.open(store)
    view.store = counting = CountingStore(store)
    head = view.head
    assert LOOKS[look](view) == LOOKS[look](whole)
    assert (head.version, head.digest, head.totals) == (11, whole.head.digest, whole.head.totals)
    if look != "metadata":
        assert view.head == whole.head
        got = [key for verb, key in counting.requests if verb == "get"]
        assert got == [entry_key(v) for v in range(2, 12 - kept)]


def test_a_large_entry_is_got_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """RPL-1."""
    store = store_with_history()
    sizes = {v: len(store.get(entry_key(v))) for v in range(2, 12)}
    monkeypatch.setattr(version_history, "UNREAD_BYTES", max(sizes.values()) - 1)
    view = behind(store, [11])
    view.store = counting = CountingStore(store)
    assert view.snapshot().files.equals(LogView.open(store).snapshot().files)
    large = [entry_key(v) for v in range(2, 11) if sizes[v] == max(sizes.values())]
    assert [key for verb, key in counting.requests if verb == "get"] == large


def test_an_own_entry_lies_on_what_was_skipped() -> None:
    """CMT-5: a refresh reads all entries."""
    store = store_with_history()
    view = behind(store, [11])
    for n in (100, 101):
        handle(store).append(rows(n))
        view.absorb(entries_of(store, view.head.version + 1, view.head.version + 1))
    handle(store).append(rows(200))
    assert view.head.version == 13
    view.refresh()
    whole = LogView.open(store)
    assert view.head == whole.head
    assert view.snapshot().files.equals(whole.snapshot().files)
    assert ids(handle(store)) == [10, 11, 100, 101, 200]


def test_metadata_that_follows_is_read_with_all_before_it() -> None:
    """RPL-4."""
    store = store_with_history()
    view = behind(store, [11])
    before = view.head.metadata
    entry = next_entry(
        view,
        metadata=replace(before, properties={"x": "y"}),
        operation=Operation(name="SET", cls=OperationClass.METADATA),
        totals=replace(view.head.totals, metadata_version=12),
    )
    store.put(entry_key(12), encode(entry))
    view.absorb(entries_of(store, 12, 12))
    assert view.metadata_at(11) == before
    assert view.metadata_at(12) == view.head.metadata != before
    assert view.head == LogView.open(store).head


@pytest.mark.broken_tables
def test_damage_among_what_was_skipped_is_found_by_who_reads() -> None:
    """RPL-3: again and again, until the table is repaired; the head stays as it is."""
    store = store_with_history()
    wrong = Totals(files=99, rows=99, bytes=99, next_id=99, metadata_version=0)
    spoilt = next_entry(LogView.open(store), totals=wrong)
    store.put(entry_key(12), encode(spoilt))
    at = spoilt.timestamp + 1
    last = replace(
        spoilt, version=13, previous=digest(encode(spoilt)), timestamp=at, time_version=at
    )
    store.put(entry_key(13), encode(last))
    view = behind(store, [13])
    for look in ("files", "times", "lineage"):
        with pytest.raises(CorruptEntryError) as caught:
            LOOKS[look](view)
        assert (caught.value.rule, caught.value.key) == ("RPL-3", entry_key(12))
    assert view.head.version == 13


@pytest.mark.broken_tables
def test_a_log_that_changed_since_it_was_skipped_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """LOG-1: the entries read again must lead to the head that the writer continued."""
    monkeypatch.setattr(version_history, "UNREAD_MAX", 1)
    store = store_with_history()
    view = behind(store, [11])
    other = new_table(memory())
    extend(other.context.store, other, 10)
    store.put(entry_key(5), other.context.store.get(entry_key(5)))
    with pytest.raises(CorruptEntryError, match="LOG-"):
        view.snapshot()


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({"table": "0f" * 16}, "LOG-3"),
        ({"timestamp": 1}, "TIM-1"),
        ({"totals": Totals(files=0, rows=0, bytes=0, next_id=1, metadata_version=1)}, "RPL-3"),
    ],
)
def test_a_last_entry_that_cannot_follow_is_refused(changes: dict[str, Any], rule: str) -> None:
    """LOG-3, TIM-1, RPL-3: the violations show without the entries between."""
    store = store_with_history()
    view = LogView.open(store)
    last = decode(encode(next_entry(view, **changes)), 12)
    with pytest.raises(CorruptEntryError) as caught:
        view.skip([b""], last)
    assert caught.value.rule == rule


def with_an_overflow_file(monkeypatch: pytest.MonkeyPatch) -> Table:
    """A table whose second commit keeps its files aside."""
    monkeypatch.setattr("tablefmt.commit.driver.OVERFLOW_FROM_FILES", 2)
    monkeypatch.setattr("tablefmt.commit.driver.OVERFLOW_ABOVE_BYTES", 1)
    table = new_table(partitioned=True)
    table.append(rows(1))
    table.append(rows(2, 3, p=["a", "b"]))
    return table


@pytest.mark.slow
@pytest.mark.share(2)
@pytest.mark.parametrize("opened", ["before", "after"])
def test_a_handle_that_only_appends_holds_no_more_for_an_overflow_file(
    opened: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ADD-6: it does not read an overflow file either. A later read gets the entries again."""
    monkeypatch.setattr(folding, "UNFOLDED_MAX", 4)
    monkeypatch.setattr(folding, "HELD_MAX", 10)
    table = with_an_overflow_file(monkeypatch)
    counting = CountingStore(table.context.store)
    if opened == "after":
        table = handle(counting)
    view, held = table.context.view, []
    counting.reset()
    for n in range(40):
        table.append(rows(100 + n))
        held.append(len(view._files.unfolded))
    assert max(held) <= 20
    assert not [request for request in counting.requests if request[0].startswith("get")]
    assert ids(table) == ids(handle(table.context.store)) == [1, 2, 3, *range(100, 140)]


@pytest.mark.slow
def test_a_reader_of_a_log_with_an_overflow_file_gets_entries_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """ADD-6, LOG-5: the number of later entries makes no difference."""
    monkeypatch.setattr(folding, "UNFOLDED_MAX", 4)
    monkeypatch.setattr(folding, "HELD_MAX", 10)
    table = with_an_overflow_file(monkeypatch)
    for n in range(40):
        table.append(rows(100 + n))
    counting = CountingStore(table.context.store)
    fresh = handle(counting)
    fresh.append(rows(200))
    fresh.context.view.snapshot()
    got = [key for verb, key in counting.requests if verb == "get" and key.startswith("_log/0")]
    assert sorted(set(got)) == sorted(got)
    assert ids(fresh) == [1, 2, 3, *range(100, 140), 200]


def test_entries_taken_in_at_once_are_those_taken_in_one_by_one() -> None:
    """RPL-2, DEL-1: adds, removed files and deleted rows follow each other. Older versions stay."""
    store = memory()
    table = new_table(store)
    for n in range(1, 40):
        step = n % 4
        if step in (0, 1):
            table.append(rows(n, 100 + n))
        elif step == 2:
            table.delete(f"id = {n - 1}")
        else:
            table.delete(f"id = {n - 3 + 100} OR id = {n - 2 + 100}")
    whole = entries_of(store, 0, table.context.view.head.version)
    at_once, stepwise = LogView(store, whole), LogView(store, whole[:1])
    for stored in whole[1:]:
        stepwise.absorb([stored])
        stepwise.snapshot()
    for version in range(len(whole)):
        one, other = at_once.snapshot(version), stepwise.snapshot(version)
        assert one.files.to_pylist() == other.files.to_pylist()
        assert one.with_vectors(one.files).equals(other.with_vectors(other.files))


def test_a_history_stays_when_another_is_folded_from_it() -> None:
    """RPL-1: a snapshot that a reader holds does not change."""
    store = memory()
    table = new_table(store)
    table.append(rows(1, 2))
    table.append(rows(3))
    view = table.context.view
    before = view.snapshot()
    files = before.files.to_pylist()
    kept = [(s.removed.copy(), s.deleted.copy()) for s in before.history.segments]
    table.delete("id = 1")
    table.overwrite(rows(9))
    assert view.snapshot().files.num_rows == 1
    for segment, (removed, deleted) in zip(before.history.segments, kept, strict=True):
        assert (segment.removed == removed).all()
        assert (segment.deleted == deleted).all()
    again = replace(before)
    assert again.files.to_pylist() == files
