"""Writers whose clocks are wrong, and what vacuum and expiry may take for old all the same."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from tablefmt.commit.environment import SYSTEM, Environment
from tablefmt.errors import TableReplacedError
from tablefmt.log.object_names import entry_key
from tablefmt.maintenance.maintain import due
from tablefmt.maintenance.retention import last_old
from tablefmt.operations.create import create
from tablefmt.snapshot.head_freshness import ENTRY_SECONDS_MIN
from tablefmt.store.clocks import Moment, seconds_between, was_set_back
from tablefmt.store.local_store import LocalStore
from tablefmt.store.object_store import PutReply, Store, StoredObject
from tablefmt.store.store_wrappers import CountingStore, ForwardingStore
from tablefmt.table import Table, open_at
from tests.tables import (
    Clock,
    Dated,
    assert_sound,
    data_files,
    handle,
    ids,
    memory,
    new_table,
    rows,
)

DAY = 86_400.0
MADE: dict[str, Callable[[Path], Store]] = {
    "memory": lambda _: memory(),
    "disk": lambda folder: LocalStore(folder / "t"),
}


def off_by(days: float) -> Environment:
    """A machine with a clock that is so far ahead, or behind."""
    return replace(SYSTEM, now_us=lambda: time.time_ns() // 1000 + round(days * DAY * 1e6))


@pytest.fixture(params=MADE)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    """One that dates its objects by the real time."""
    return MADE[request.param](tmp_path)


def made(store: Store, days: float = 0.0) -> Table:
    """A new table, by a machine whose clock is so far off."""
    return Table(create(store, "id BIGINT, p STRING", environment=off_by(days)))


def test_files_of_a_transaction_stay_after_a_commit_that_was_stamped_a_week_ahead(
    store: Store,
) -> None:
    """RET-4, RET-6: this holds for the default retention, without `breaks_running_transactions`."""
    table = made(store)
    table.overwrite(rows(1))
    open_at(store, off_by(8)).overwrite(rows(2))
    work = table.refresh().transaction().append(rows(3))
    files = data_files(store)
    report = open_at(store, SYSTEM).vacuum(dry_run=False)
    assert (report.files.num_rows, report.oldest) == (0, 0)
    assert data_files(store) == files
    work.commit()
    fresh = open_at(store, SYSTEM)
    assert [ids(fresh, version) for version in range(4)] == [[], [1], [2], [2, 3]]
    assert_sound(store)


@pytest.mark.parametrize("days", [40.0, -40.0])
def test_an_append_stays_after_a_commit_that_was_stamped_far_off(store: Store, days: float) -> None:
    """RET-4, RET-9: a handle that was idle for seconds finds its next version taken."""
    table = made(store, min(days, 0))
    for number in range(12):
        open_at(store, off_by(min(days, 0))).append(rows(number))
        if number == 3:
            idle = open_at(store, SYSTEM)
        if number == 5:
            open_at(store, off_by(days)).append(rows(100))
    report = open_at(store, SYSTEM).expire_log(dry_run=False)
    assert (report.entries.num_rows, report.oldest) == (0, 0)
    assert idle.append(rows(101)).version == 14
    fresh = open_at(store, SYSTEM)
    assert (fresh.version, ids(fresh)) == (14, [*range(12), 100, 101])
    assert ids(table.refresh()) == ids(fresh)
    assert_sound(store)


def test_no_upkeep_is_due_where_only_the_log_says_that_it_is_old(store: Store) -> None:
    """RET-4: otherwise a vacuum would run again and again, and find nothing."""
    table = made(store, -40)
    for number in range(3):
        table.overwrite(rows(number))
    assert due(open_at(store, SYSTEM).context) == ()
    assert open_at(store, off_by(400)).vacuum().files.num_rows == 0


def test_what_the_log_says_is_young_stays_however_old_its_objects() -> None:
    """RET-4: both have to say so; times of objects are lost by copies of some kinds."""
    clock = Clock()
    store = Dated(clock)
    table = new_table(store, clock=clock)
    for number in range(3):
        clock.forward(DAY)
        table.overwrite(rows(number))
    store.written = dict.fromkeys(store.written, 1)
    assert table.vacuum().files.num_rows == 0
    assert table.expire_log().entries.num_rows == 0


@pytest.mark.parametrize("without", [1, 2, 3])
def test_an_object_without_a_time_is_young(without: int) -> None:
    """RET-4: it stays, and so do the versions after it."""
    clock = Clock()
    store = Dated(clock)
    table = new_table(store, clock=clock)
    for number in range(1, 5):
        clock.forward(DAY)
        table.overwrite(rows(number))
    files = {v: table.scan(version=v).files()["path"].to_pylist() for v in range(5)}
    clock.forward(60 * DAY)
    store.written[f"_log/{without:020}.json"] = 0
    report = table.vacuum()
    assert report.files["path"].to_pylist() == sorted(
        path for version in range(1, without - 1) for path in files[version]
    )
    assert table.expire_log().log_start == (without - 1 if without > 2 else 0)
    # An object that no entry names is kept if its time is unknown.
    left = f"data/{'a' * 32}/0.parquet"
    store.put(left, b"x")
    store.written[left] = 0
    assert left not in table.vacuum().files["path"].to_pylist()


def test_the_last_of_the_old_ones_is_the_one_before_the_first_young_one() -> None:
    """RET-4: later entries may have any time. A missing version counts as young."""
    times = [(1, 5), (2, 9), (None, 0), (3, 5), (4, 5)]
    assert last_old(times, 0, 4, 9) == 4
    assert last_old(times, 0, 2, 9) == 2
    assert last_old(times, 0, 4, 8) == 1
    assert last_old(times, 2, 4, 8) == 4
    assert last_old(times[:3] + times[4:], 0, 4, 9) == 2
    assert last_old([(1, 0)], 0, 4, 9) == 0
    assert last_old([], 7, 9, 9) == 7


def test_the_disks_clock_decides_and_not_this_machines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """RET-4, RET-6: a network's disk dates its files by a clock of its own."""
    store = LocalStore(tmp_path / "t")
    table = made(store)
    for number in range(3):
        table.overwrite(rows(number))
    left = tmp_path / "t" / "data" / ("a" * 32) / "0.parquet"
    left.parent.mkdir()
    left.write_bytes(b"x")
    monkeypatch.setattr(time, "time_ns", lambda: os.stat(left).st_mtime_ns + 10**9 * 86_400 * 60)
    fresh = open_at(store, SYSTEM)
    assert fresh.vacuum().files.num_rows == 0
    assert fresh.expire_log().entries.num_rows == 0
    assert not [each for each in (tmp_path / "t" / "_log").iterdir() if "tmp" in each.name]


def test_this_machines_clock_decides_where_no_file_can_be_removed(tmp_path: Path) -> None:
    """STO-10: a dry run needs no right to write."""
    store = LocalStore(tmp_path / "none")
    assert abs(store.clock_us() - time.time_ns() // 1000) < 60_000_000


def test_the_stores_times_are_asked_for_where_something_may_go() -> None:
    """RET-4: one listing, as far as the last version that removed something."""
    clock = Clock()
    dated = Dated(clock)
    table = new_table(dated, clock=clock)
    table.overwrite(rows(1))
    table.overwrite(rows(2))
    for number in range(20):
        table.append(rows(number))
    seen: list[str] = []

    class Watched(ForwardingStore):
        def list_after(self, prefix: str, after: str | None = None) -> Iterator[StoredObject]:
            for one in self.inner.list_after(prefix, after):
                if after == "_log/00000000000000000000.json":
                    seen.append(one.key[-7:-5])
                yield one

    counting = CountingStore(Watched(dated))
    young = handle(counting, clock)
    counting.reset()
    young.vacuum()
    before = counting.counts["list_after"]
    assert (before, seen) == (8, [])
    clock.forward(30 * DAY)
    counting.reset()
    assert young.vacuum().files.num_rows == 1
    assert (counting.counts["list_after"], seen) == (before + 3, ["01", "02"])


def moment(elapsed: float, wall: float, store: float | None) -> Moment:
    """Return a moment of times in seconds."""
    return Moment(elapsed, round(wall * 1e6), None if store is None else round(store * 1e6))


def test_of_several_clocks_the_one_that_went_furthest_counts() -> None:
    """RET-9: one clock stops while a machine is paused, one jumps, one is unknown."""
    then = moment(100, 1000, 5000)
    assert seconds_between(then, moment(101, 1001, 5001)) == 1
    assert seconds_between(then, moment(100, 1000, 8600)) == 3600
    assert seconds_between(then, moment(100, 4600, None)) == 3600
    assert seconds_between(moment(100, 1000, None), moment(3700, 1, 5000)) == 3600
    assert was_set_back(then, moment(101, 400, 5001)) == 600
    assert was_set_back(then, moment(101, 1001, 5001)) == 0


@pytest.mark.parametrize("jump", [ENTRY_SECONDS_MIN, -ENTRY_SECONDS_MIN])
def test_a_handle_whose_wall_clock_jumped_asks_for_the_head(jump: float) -> None:
    """RET-9: after a jump in either direction the idle time is unknown.

    Other handles send one put.
    """
    store = CountingStore(memory())
    table = new_table(store)
    table.append(rows(1))
    store.reset()
    table.append(rows(2))
    assert [each for each in store.requests if each[1].startswith("_log/")] == [
        ("put_if_absent", "_log/00000000000000000002.json")
    ]
    freshness = table.context.view.freshness
    freshness.wall = lambda: time.time_ns() // 1000 + round(jump * 1e6)
    store.reset()
    table.append(rows(3))
    asked = [verb for verb, key in store.requests if key.startswith("_log/")]
    assert asked == ["get", "list_after", "get", "put_if_absent"]
    store.reset()
    table.append(rows(4))
    assert [verb for verb, key in store.requests if key.startswith("_log/")] == ["put_if_absent"]
    assert ids(table) == [1, 2, 3, 4]


def test_commits_that_land_while_the_head_is_looked_for_are_no_gap() -> None:
    """RET-9, LOG-8: two of them, between the newest entry that was read and the listing."""
    inner = memory()
    other = new_table(inner)
    table = handle(inner)

    class Busy(ForwardingStore):
        left = 2

        def list_after(self, prefix: str, after: str | None = None) -> Iterator[StoredObject]:
            while self.left:
                self.left -= 1
                other.append(rows(self.left))
            return self.inner.list_after(prefix, after)

    table.context.store = table.context.view.store = Busy(inner)
    freshness = table.context.view.freshness
    freshness.wall = lambda: time.time_ns() // 1000 + round(ENTRY_SECONDS_MIN * 1e6)
    assert table.append(rows(2)).version == 3
    assert ids(table) == [0, 1, 2]


def test_a_machine_that_was_paused_learns_it_from_the_stores_answer() -> None:
    """RET-9: both of its own clocks stood still. The answer to the put has the store's time."""
    now = [1_800_000_000_000_000]

    class Telling(ForwardingStore):
        paused = False

        def put_if_absent(self, key: str, body: bytes) -> PutReply:
            now[0] += 3_600_000_000 if self.paused else 0
            return self.inner.put_if_absent(key, body)

        def server_time_us(self) -> int | None:
            return now[0]

    inner = memory()
    counting = CountingStore(inner)
    store = Telling(counting)
    table = new_table(store)
    table.append(rows(1))
    store.paused = True
    counting.reset()
    table.append(rows(2))
    asked = [verb for verb, key in counting.requests if key.startswith("_log/")]
    assert asked == ["put_if_absent", "list_after"]
    assert ids(handle(inner)) == [1, 2]


def test_the_stores_time_counts_from_the_first_answer_on() -> None:
    """RET-9: a handle that was opened only, when its machine was paused with both of its clocks."""
    now, answered = [1_800_000_000_000_000], [False]

    class Telling(ForwardingStore):
        def get_many(self, keys: Sequence[str]) -> list[bytes | None]:
            answered[0] = True
            return self.inner.get_many(keys)

        def put_if_absent(self, key: str, body: bytes) -> PutReply:
            now[0] += 3_600_000_000
            return self.inner.put_if_absent(key, body)

        def server_time_us(self) -> int | None:
            return now[0] if answered[0] else None

    inner = memory()
    new_table(inner)
    counting = CountingStore(inner)
    table = handle(Telling(counting))
    counting.reset()
    table.append(rows(1))
    asked = [verb for verb, key in counting.requests if key.startswith("_log/")]
    assert asked == ["put_if_absent", "list_after"]


def test_the_head_is_found_however_many_commits_land_meanwhile() -> None:
    """RET-9: one listing, and what it names; not another one after each of them."""
    inner = memory()
    other = new_table(inner)
    table = handle(inner)

    class Busy(ForwardingStore):
        listings = 0

        def list_after(self, prefix: str, after: str | None = None) -> Iterator[StoredObject]:
            self.listings += 1
            assert self.listings < 3
            for _ in range(2):
                other.append(rows(self.listings))
            return self.inner.list_after(prefix, after)

    table.context.store = table.context.view.store = Busy(inner)
    freshness = table.context.view.freshness
    freshness.wall = lambda: time.time_ns() // 1000 + round(ENTRY_SECONDS_MIN * 1e6)
    table.refresh()
    assert ids(table) == [1, 1]


@pytest.mark.broken_tables
@pytest.mark.parametrize("since", [0, 5])
def test_a_table_that_was_put_back_meanwhile_is_not_written_to(since: int) -> None:
    """RET-9: the copy of an earlier state has as many versions again, or fewer."""
    store = memory()
    table = new_table(store)
    for number in range(10):
        table.append(rows(number))
    idle = handle(store)
    for version in range(6, 11):
        store.delete(entry_key(version))
    other = handle(store)
    for number in range(since):
        other.append(rows(100 + number))
    freshness = idle.context.view.freshness
    freshness.wall = lambda: time.time_ns() // 1000 + round(ENTRY_SECONDS_MIN * 1e6)
    with pytest.raises(TableReplacedError, match=r"version 10, the newest .* earlier state"):
        idle.append(rows(99))
    assert ids(handle(store)) == [*range(5), *range(100, 100 + since)]
