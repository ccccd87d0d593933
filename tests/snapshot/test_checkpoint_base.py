"""A log opened from a checkpoint base equals, from there on, the log as read from version 0."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tablefmt.changes.feed_plan import plan_changes
from tablefmt.changes.version_range import Covered
from tablefmt.errors import VersionNotFoundError
from tablefmt.log.object_names import entry_key
from tablefmt.model.log_entry import StoredEntry
from tablefmt.model.positions import DELETE_COLUMNS, pack_positions
from tablefmt.snapshot import folding
from tablefmt.snapshot.checkpoint_base import Base
from tablefmt.snapshot.deletion_vectors import Deltas
from tablefmt.snapshot.file_history import FileHistory
from tablefmt.snapshot.log_view import LogView
from tablefmt.snapshot.segments import HeldColumns, ManifestSegment
from tablefmt.snapshot.table_state import Snapshot
from tablefmt.store.object_store import Store
from tablefmt.store.store_wrappers import CountingStore
from tests.snapshot.grown import changes_of, grow, said_of
from tests.tables import Clock, handle, ids, memory, new_table, rows


def base_at(whole: LogView, entries: list[StoredEntry], version: int, seed: int) -> Base:
    """Return the checkpoint of a version, with its files in any order and any segments."""
    chance = np.random.default_rng(seed)
    snapshot = whole.snapshot(version)
    totals, metadata = whole.totals_at(version), whole.metadata_at(version)
    files = snapshot.history.as_of(version, totals, metadata, whole.metadata_version_at(version))
    segments: list[ManifestSegment] = []
    for segment in files.segments:
        part = chance.integers(0, 3, len(segment))
        for at in (np.flatnonzero(part == number) for number in chance.permutation(3)):
            segments += [shuffled(segment, chance.permutation(at))] if len(at) else []
    chance.shuffle(segments)
    deltas = () if not files.deltas else (united(snapshot, files),)
    return Base(
        head=LogView(whole.store, entries[: version + 1]).head,
        created=entries[0].entry.timestamp,
        files=replace(files, segments=tuple(segments), deltas=deltas),
    )


def shuffled(segment: ManifestSegment, order: Any) -> ManifestSegment:
    files = segment.files
    moved = HeldColumns(files.ids[order], files.added[order], files.table.take(pa.array(order)))
    assert segment.deleted is not None
    return ManifestSegment(moved, segment.removed[order], segment.deleted[order])


def united(snapshot: Snapshot, files: FileHistory) -> Deltas:
    """Return all deleted rows of each file as one set."""
    touched = np.unique(np.concatenate([part.file for part in files.deltas]))
    gone = [snapshot.positions(int(file)) for file in touched]
    count = len(touched)
    maps = pa.table(
        {
            "file": touched,
            "rows": pa.array([len(each) for each in gone], pa.int64()),
            "deleted": pa.array(map(pack_positions, gone), pa.large_binary()),
            "updated": pa.nulls(count, pa.large_binary()),
        }
    ).cast(DELETE_COLUMNS)
    return Deltas.of_entry(snapshot.version, maps, np.ones(count, bool))


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, pytest.param(None, marks=pytest.mark.soak)])
def test_a_base_and_a_tail_are_the_whole_log(seed: int | None) -> None:
    """RPL-1 .. RPL-5, DEL-4, TIM-4, INC-3: this holds at every version from the base on."""
    seed = random.randrange(1 << 32) if seed is None else seed
    print("seed", seed)
    chance = random.Random(seed)
    store, clock = memory(), Clock()
    table = new_table(store, partitioned=chance.random() < 0.5, clock=clock)
    table.alter.add_column("n", "int")
    grow(table, chance, 24)
    entries = LogView.open(store).entries_after(-1)
    whole = LogView(store, entries, whole=True)
    newest = whole.head.version
    before = [said_of(LogView(store, entries[: v + 1]), v) for v in range(newest + 1)]
    times = [whole.timeline.version_at(whole.time_version_at(v)) for v in range(newest + 1)]
    described = [whole.metadata_version_at(v) for v in range(newest + 1)]
    assert [said_of(whole, v) for v in range(newest + 1)] == before
    for version in sorted(chance.sample(range(newest + 1), 5)):
        base = base_at(whole, entries, version, chance.randrange(1 << 32))
        view = LogView(store, entries[version + 1 :], base)
        assert view.head == whole.head
        assert view.created == whole.created
        assert [said_of(view, v) for v in range(newest + 1)] == before
        stamps = map(view.time_version_at, range(newest + 1))
        assert list(map(view.timeline.version_at, stamps)) == times
        assert [view.metadata_version_at(v) for v in range(newest + 1)] == described
        assert view.entries_after(version) == whole.entries_after(version)
        for first in range(1, newest + 1):
            for last in {first, newest}:
                assert changes_of(view, first, last) == changes_of(whole, first, last)
        for ask in (view.snapshot, view.totals_at, view.timestamp_at, view.check_version):
            with pytest.raises(VersionNotFoundError):
                ask(-1)


def test_a_log_on_a_base_goes_on() -> None:
    """LOG-5: new entries are read and written as if there were no base."""
    store = memory()
    table = new_table(store)
    table.append(rows(1, 2))
    table.delete("id = 1")
    table.append(rows(3))
    entries = LogView.open(store).entries_after(-1)
    base = base_at(LogView.open(store), entries, 2, 0)
    late = handle(store)
    counting = CountingStore(store)
    late.context.view = LogView(counting, entries[3:], base)
    late.context.version = 3
    assert ids(late) == [2, 3]
    late.append(rows(4))
    late.delete("id = 3")
    table.append(rows(5))
    assert ids(late.refresh()) == ids(handle(store)) == [2, 4, 5]
    assert ids(late, 2) == [2]
    asked = {key for verb, key in counting.requests if verb == "get"}
    assert asked.isdisjoint(entry_key(version) for version in (0, 1, 2))


@pytest.mark.slow
def test_a_handle_that_follows_a_log_lets_go_of_what_went(monkeypatch: pytest.MonkeyPatch) -> None:
    """RPL-1: older versions are read again from the entries, with the same result."""
    monkeypatch.setattr(folding, "REMOVED_MAX", 5)
    store = memory()
    table = new_table(store)
    follower = handle(store)
    held = []
    for n in range(60):
        table.overwrite(rows(n, n + 1)) if n % 3 == 0 else table.append(rows(n, 100 + n))
        if n % 5 == 0:
            table.delete(f"id = {n + 1}")
        follower.refresh().to_arrow()
        held.append(len(follower.context.view.files_at(follower.version)))
    assert max(held) <= 5 + 5 + 3
    fresh = LogView.open(store, whole=True)
    assert len(fresh.snapshot().history) >= 60
    versions = random.Random(3).sample(range(fresh.head.version + 1), 30)
    for version in versions:
        assert said_of(follower.context.view, version) == said_of(fresh, version), version
        assert len(follower.context.view.files_at(version)) <= 5 + 5 + 3
    assert changes_of(follower.context.view, 1, 12) == changes_of(fresh, 1, 12)


def test_changes_of_appends_look_at_no_file_of_before() -> None:
    """INC-3: they request no entry outside of the range either."""
    store: Store = memory()
    table = new_table(store)
    for n in range(100):
        table.append(rows(n))
    view = LogView.open(store)
    view.store = counting = CountingStore(store)
    found = plan_changes(view, Covered(11, 20, True))
    assert [(c.version, c.files.num_rows) for c in found] == [(v, 1) for v in range(11, 21)]
    assert [key for _, key in counting.requests] == [entry_key(v) for v in range(11, 21)]
    assert view._files.history.version == -1
