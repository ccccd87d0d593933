"""Expiry of the log: what goes, what stays, who reads it, and who must not take a free name."""

from __future__ import annotations

from typing import Any

import pytest

import tablefmt
from tablefmt.errors import (
    CommitRejectedError,
    CommitUnknownError,
    CorruptTableError,
    InvalidRangeError,
    TableReplacedError,
    VersionNotFoundError,
)
from tablefmt.log.codec import decode, digest
from tablefmt.log.object_names import HINT, entry_key
from tablefmt.snapshot.checkpoint_reader import TRIED_MAX, read_base
from tablefmt.snapshot.head_freshness import ENTRY_SECONDS_MIN
from tablefmt.store.clocks import elapsed
from tablefmt.store.memory_store import MemoryStore
from tablefmt.store.object_store import NoAnswer, Store
from tablefmt.store.store_wrappers import ForwardingStore
from tablefmt.table import Table
from tests.tables import (
    Clock,
    Dated,
    assert_sound,
    behind,
    data_files,
    handle,
    ids,
    memory,
    new_table,
    rows,
)

DAY = 86_400.0


def long_log() -> tuple[Dated, Table, Clock, list[list[int]]]:
    """A version of every kind a day, 40 of them; and the rows at each."""
    store = Dated(clock := Clock())
    table = new_table(store, clock=clock)
    table.append(rows(0), application=("job", 7))
    for number in range(1, 40):
        clock.forward(DAY)
        if number % 7 == 0:
            table.alter.set_properties({"user.n": str(number)})
        elif number % 5 == 0:
            table.delete(f"id = {number - 1}")
        elif number % 11 == 0:
            table.update({"id": "id + 1000"}, "id < 3")
        else:
            table.append(rows(number))
    return store, table, clock, [ids(table, version) for version in range(table.version + 1)]


def log_versions(store: Store) -> list[int]:
    """The entries that there are."""
    keys = [one.key for one in store.list_after("_log/0")]
    return [int(key[5:25]) for key in keys if key.endswith(".json") and len(key) == 30]


def assert_reads(table: Table, known: list[list[int]]) -> None:
    """Every version that is kept has its rows, and every other is refused by name."""
    for version, found in enumerate(known):
        if version < table.oldest_version:
            with pytest.raises(VersionNotFoundError):
                table.scan(version=version)
        else:
            assert ids(table, version) == found


@pytest.mark.slow
def test_a_dry_run_says_what_a_run_does() -> None:
    """RET-9: entries expire by their own times.

    Version 0 and the entries with the metadata stay.
    """
    store, table, clock, known = long_log()
    before = log_versions(store)
    dry = table.expire_log()
    assert (log_versions(store), handle(store).version) == (before, 37)
    run = table.expire_log(dry_run=False)
    assert run.entries.equals(dry.entries)
    assert (dry.log_start, run.log_start, run.oldest, run.deleted) == (10, 10, 10, 8)
    # Version 8 brought the metadata that is in force at version 10.
    assert log_versions(store) == [0, 8, *range(10, 40)]
    assert "would remove 8 entries" in str(dry)
    assert "removed 8 entries" in str(run)
    fresh = handle(store, clock)
    assert_reads(fresh, known)
    assert_sound(store)
    assert fresh.context.view.head.protocol.reader == ("logExpiry",)
    last = fresh.history().to_pylist()
    assert [row["operation"] for row in last[:2]] == ["EXPIRE LOG", "UPGRADE PROTOCOL"]
    assert [row["version"] for row in last] == list(range(39, 9, -1))
    assert fresh.append(rows(0), application=("job", 7)).already_applied


def test_the_horizon_names_what_is_needed_from_then_on() -> None:
    """ENT-13: the digest of the last entry that goes, and two checkpoints by their bytes."""
    store, table, _, _ = long_log()
    gone = store.get(entry_key(9))
    run = table.expire_log(dry_run=False)
    horizon = decode(store.get(entry_key(run.version)), run.version).entry.horizon
    assert horizon is not None
    assert horizon.log is not None
    assert (horizon.version, horizon.log.version) == (10, 10)
    assert horizon.log.previous == digest(gone)
    assert len(horizon.log.checkpoints) == 2
    for named in horizon.log.checkpoints:
        body = store.get(named.path)
        assert (digest(body), len(body), named.version) == (named.sha256, named.size, 10)


def test_it_goes_on_from_where_it_was() -> None:
    """RET-9: a second time, after a vacuum that gave up more, and with nothing to do."""
    store, table, clock, known = long_log()
    table.expire_log(dry_run=False)
    assert table.expire_log(dry_run=False).entries.num_rows == 0
    clock.forward(10 * DAY)
    table.overwrite(rows(1))
    clock.forward(20 * DAY)
    vacuum = table.vacuum(dry_run=False)
    assert vacuum.deleted > 0
    run = handle(store, clock).expire_log(dry_run=False)
    assert run.oldest == vacuum.oldest == 40
    assert 0 < run.log_start <= run.oldest
    fresh = handle(store, clock)
    assert ids(fresh) == [1]
    assert_reads(fresh, known)
    assert_sound(store)


def parts_of(store: Store, key: str) -> list[str]:
    """The objects that a checkpoint names."""
    root = read_base(store, key).root
    assert root is not None
    return [part.path for part in (*root.segments, *root.deletes)]


@pytest.mark.slow
@pytest.mark.share(2)
@pytest.mark.broken_tables
@pytest.mark.parametrize("damage", ["lost", "damaged"])
def test_no_part_is_the_only_one(damage: str) -> None:
    """RET-9, CKP-6: every version can be read after the loss of any object of the checkpoints."""
    store, table, clock, known = long_log()
    clock.forward(DAY)
    table.checkpoint()
    run = table.expire_log(dry_run=False)
    horizon = decode(store.get(entry_key(run.version)), run.version).entry.horizon
    assert horizon is not None
    assert horizon.log is not None
    one, other = (parts_of(store, named.path) for named in horizon.log.checkpoints)
    assert one
    assert other
    assert not {*one} & {*other}
    # Later ones build on either of them, more than are looked at in a log that has its beginning.
    for number in range(100, 102 + TRIED_MAX):
        table.append(rows(number))
        known.append(ids(table))
        table.checkpoint()
    whole = ids(table)
    for path in (*one, *other):
        body = store.get(path)
        if damage == "lost":
            store.delete(path)
        else:
            store.put(path, body[:40] + b"\0" * 8 + body[48:])
        fresh = handle(store, clock)
        assert ids(fresh) == whole
        assert_reads(handle(store, clock), known[:38])
        store.put(path, body)
    assert_sound(store)


@pytest.mark.slow
@pytest.mark.share(2)
@pytest.mark.parametrize("lost", ["hint", "first"])
def test_a_log_without_its_beginning_is_opened(lost: str) -> None:
    """LOG-8, CKP-6: the log opens without a hint, and without one of the checkpoints."""
    store, table, clock, known = long_log()
    run = table.expire_log(dry_run=False)
    horizon = decode(store.get(entry_key(run.version)), run.version).entry.horizon
    assert horizon is not None
    assert horizon.log is not None
    store.delete(HINT)
    paths = [named.path for named in horizon.log.checkpoints]
    for path in paths[:1] if lost == "first" else []:
        store.delete(path)
    for _ in range(2):
        fresh = handle(store, clock)
        assert_reads(fresh, known)
    assert fresh.vacuum().files.num_rows >= 0


@pytest.mark.broken_tables
def test_without_any_checkpoint_it_is_refused() -> None:
    """LOG-8: the error names the missing object. The table is never read as a smaller one."""
    store, table, clock, _ = long_log()
    run = table.expire_log(dry_run=False)
    horizon = decode(store.get(entry_key(run.version)), run.version).entry.horizon
    assert horizon is not None
    assert horizon.log is not None
    for body in (None, b"{}", b""):
        for named in horizon.log.checkpoints:
            if body is None:
                store.delete(named.path)
            else:
                store.put(named.path, body)
        with pytest.raises(CorruptTableError, match="no checkpoint"):
            handle(store, clock)
        assert not table.verify().ok


@pytest.mark.slow
def test_a_missing_entry_that_is_kept_is_damage() -> None:
    """LOG-2, LOG-8."""
    store, table, clock, _ = long_log()
    run = table.expire_log(dry_run=False)
    body = store.get(entry_key(20))
    store.delete(entry_key(20))
    with pytest.raises(CorruptTableError):
        handle(store, clock).vacuum()
    store.put(entry_key(20), body)
    assert run.oldest == 10
    assert_sound(store)


BAD: dict[str, Any] = {"short": "1 day", "zero": 0, "nearly": 30 * DAY - 1}


@pytest.mark.slow
@pytest.mark.parametrize("name", BAD)
def test_a_short_retention_is_refused_unless_its_danger_is_named(name: str) -> None:
    """RET-7, RET-9."""
    store, table, clock, known = long_log()
    with pytest.raises(InvalidRangeError, match="breaks_running_transactions=True"):
        table.expire_log(retention=BAD[name])
    with pytest.raises(InvalidRangeError, match="retention"):
        table.expire_log(retention="a while", breaks_running_transactions=True)
    run = table.expire_log(retention=BAD[name], dry_run=False, breaks_running_transactions=True)
    assert run.deleted > 0
    assert_reads(handle(store, clock), known)


def test_a_property_of_zero_leaves_what_transactions_need() -> None:
    """RET-9: two hours at least."""
    store = Dated(clock := Clock())
    table = new_table(
        store,
        clock=clock,
        logRetentionDuration="0 seconds",
        deletedFileRetentionDuration="0 seconds",
    )
    for number in range(4):
        clock.forward(3600)
        table.append(rows(number))
    report = table.expire_log()
    assert report.retention_seconds == 2 * ENTRY_SECONDS_MIN
    assert report.log_start == 2


def test_a_handle_that_slept_does_not_take_a_name_that_is_free_again() -> None:
    """RET-9, LOG-8: the next version that the handle knows of existed, and was deleted."""
    store, table, clock, _ = long_log()
    early = MemoryStore("expiry-copy")
    for one in list(store.list_after("_log/0")):
        if one.key <= entry_key(3):
            early.put(one.key, store.get(one.key))
    slept = handle(early, clock)
    table.expire_log(dry_run=False)
    slept.context.store = slept.context.view.store = store
    before = log_versions(store)
    for work in (
        lambda: stale_of(slept).append(rows(99)),
        lambda: stale_of(slept).delete("id = 1"),
        lambda: stale_of(slept).refresh(),
        lambda: stale_of(slept).history(),
    ):
        with pytest.raises(TableReplacedError, match="expired since: it keeps versions 10 to 39"):
            work()
    assert log_versions(store) == before
    assert ids(handle(store, clock)) == ids(table.refresh())
    for one in list(early.list_after("")):
        early.delete(one.key)


def stale_of(table: Table) -> Table:
    """The same handle, an hour later."""
    freshness = table.context.view.freshness
    freshness.clock = lambda: freshness.heard_at.elapsed + ENTRY_SECONDS_MIN
    return table


def stalled(known: int, answer: str) -> tuple[Dated, Table, Clock, list[int]]:
    """Return a handle whose next put arrives after the log that it knows expired.

    The handle knows the log up to a version. The rows of the table are returned too.
    """
    store, table, clock, _ = long_log()
    sound = ids(table)
    early = MemoryStore("expiry-stalled")
    for one in list(store.list_after("_log/0")):
        if one.key <= entry_key(known):
            early.put(one.key, store.get(one.key))
    slept = handle(early, clock)
    for one in list(early.list_after("")):
        early.delete(one.key)

    class Stalling(ForwardingStore):
        """Loses the first answer, if it is to."""

        lost = answer == "kept"

        def put_if_absent(self, key: str, body: bytes) -> Any:
            if key != entry_key(known + 1):
                return self.inner.put_if_absent(key, body)
            if not self.lost:
                self.lost = True
                return NoAnswer("lost")
            stale_of(slept)
            return self.inner.put_if_absent(key, body)

    slept.context.store = slept.context.view.store = Stalling(store)
    table.expire_log(dry_run=False)
    return store, slept, clock, sound


@pytest.mark.slow
@pytest.mark.parametrize("known", [3, 8])
def test_an_attempt_that_stalled_is_rejected_where_its_version_was_given_up(known: int) -> None:
    """RET-9, CMT-1: no row, entry or file of it stays.

    The entry above its version was deleted, or follows another entry.
    """
    store, slept, clock, sound = stalled(known, "kept")
    files, entries = data_files(store), log_versions(store)
    with pytest.raises(CommitRejectedError, match="given up while this writer was paused"):
        slept.append(rows(99))
    assert (data_files(store), log_versions(store)) == (files, entries)
    fresh = handle(store, clock)
    assert ids(fresh) == sound
    assert fresh.append(rows(99)).version == 40
    assert ids(fresh) == sorted([*sound, 99])


@pytest.mark.slow
@pytest.mark.broken_tables
def test_an_attempt_of_which_an_answer_was_lost_stays_unknown() -> None:
    """RET-9, CMT-1: the first put may have been accepted before its version was given up."""
    store, slept, clock, sound = stalled(3, "lost")
    files = data_files(store)
    told = r"outcome of the commit at version 4 is unknown \(version 4 was given up while"
    with pytest.raises(CommitUnknownError, match=told):
        slept.append(rows(99))
    assert 4 in log_versions(store)
    assert len(data_files(store)) == len(files) + 1
    fresh = handle(store, clock)
    assert ids(fresh) == sound
    assert fresh.append(rows(99)).version == 40
    # The late entry counts as old as the beginning of the log, for any time in it.
    assert fresh.expire_log(dry_run=False).entries["version"].to_pylist() == [4]
    assert log_versions(store) == [0, 8, *range(10, 42)]


@pytest.mark.broken_tables
def test_no_commit_follows_an_entry_whose_version_was_given_up() -> None:
    """RET-9, CMT-9: two writers stalled, and the second finds the entry that the first left.

    Neither gets a commit result, then or by `resolve`.
    """
    store = Dated(clock := Clock())
    table = new_table(store, clock=clock)
    for number in range(1, 40):
        clock.forward(DAY)
        table.append(rows(number))
    sound, early = ids(table), MemoryStore("expiry-both")
    for one in list(store.list_after("_log/0")):
        if one.key <= entry_key(3):
            early.put(one.key, store.get(one.key))
    both = [handle(early, clock), handle(early, clock)]
    for one in list(early.list_after("")):
        early.delete(one.key)
    clock.forward(20 * DAY)
    table.expire_log(dry_run=False)

    class Stalling(ForwardingStore):
        """A store on which three hours pass once between a look at the clock and the put."""

        def __init__(self, slept: Table) -> None:
            super().__init__(store)
            self.slept: Table | None = slept

        def put_if_absent(self, key: str, body: bytes) -> Any:
            if self.slept is not None and key == entry_key(4):
                self.slept.context.view.freshness.clock = lambda: elapsed() + 3 * 3600
                self.slept = None
            return self.inner.put_if_absent(key, body)

    for each in both:
        each.context.store = each.context.view.store = Stalling(each)
    with pytest.raises(CommitUnknownError, match="given up while this writer was paused") as late:
        both[0].append(rows(98))
    entries = log_versions(store)
    assert entries[:3] == [0, 4, 29]
    with pytest.raises(
        CommitRejectedError, match="was paused, and its newest known version may be"
    ):
        both[1].append(rows(99))
    with pytest.raises(TableReplacedError, match="expired since"):
        both[1].append(rows(99))
    assert log_versions(store) == entries
    fresh = handle(store, clock)
    assert ids(fresh) == sound
    for version in (4, None):
        with pytest.raises(CommitUnknownError, match="can no longer be found"):
            fresh.resolve(late.value.transaction, version)


def test_files_stay_of_a_commit_that_an_expiry_took_for_old_at_once() -> None:
    """RET-9, CMT-1: it is in the table. The expiry named its danger, and that is no damage."""
    store, clock = memory(), Clock()
    table = new_table(store, clock=clock)
    other = handle(store, clock)

    class Stalling(ForwardingStore):
        def put_if_absent(self, key: str, body: bytes) -> Any:
            reply = self.inner.put_if_absent(key, body)
            freshness = table.context.view.freshness
            freshness.clock = lambda: elapsed() + 0.6 * ENTRY_SECONDS_MIN
            for number in range(2, 12):
                other.append(rows(number))
            other.expire_log(retention=0, dry_run=False, breaks_running_transactions=True)
            return reply

    table.context.store = table.context.view.store = Stalling(store)
    with pytest.raises(CommitUnknownError, match="given up while this writer was paused"):
        table.append(rows(1))
    assert ids(handle(store, clock)) == [*range(1, 12)]


@pytest.mark.parametrize("above", [True, False])
def test_an_attempt_that_stalled_and_is_in_the_log_is_believed(above: bool) -> None:
    """RET-9: our entry is the newest, or other commits followed it."""
    store, clock = memory(), Clock()
    table = new_table(store, clock=clock)
    other = handle(store, clock)

    class Stalling(ForwardingStore):
        def put_if_absent(self, key: str, body: bytes) -> Any:
            reply = self.inner.put_if_absent(key, body)
            stale_of(table)
            if above:
                other.append(rows(2))
            return reply

    table.context.store = table.context.view.store = Stalling(store)
    assert table.append(rows(1)).version == 1
    assert ids(handle(store, clock)) == ([1, 2] if above else [1])


@pytest.mark.slow
def test_two_expirers_at_once_do_no_more_than_one() -> None:
    """RET-9: both delete the same entries. The second rebases onto the first."""
    store, table, clock, known = long_log()
    other = handle(store, clock)

    class Twice(ForwardingStore):
        done = False

        def put_if_absent(self, key: str, body: bytes) -> Any:
            if not Twice.done and b"EXPIRE LOG" in body:
                Twice.done = True
                other.expire_log(dry_run=False)
            return self.inner.put_if_absent(key, body)

    run = behind(table, Twice(store)).expire_log(dry_run=False)
    assert (run.deleted, run.failures) == (8, {})
    assert log_versions(store) == [0, 8, *range(10, 41)]
    assert_reads(handle(store, clock), known)
    assert_sound(store)


@pytest.mark.slow
def test_a_spark_table_does_the_same_on_the_driver() -> None:
    """RET-1, RET-5, RET-9: no session is asked."""
    from tablefmt.spark.entry.spark_table import SparkTable

    _, table, clock, _ = long_log()
    spark_table = SparkTable(None, table)  # type: ignore[arg-type]
    assert spark_table.expire_log().entries.equals(table.expire_log().entries)
    clock.forward(8 * DAY)
    assert spark_table.vacuum().files.equals(table.vacuum().files)
    assert spark_table.restore(version=3).operation == "RESTORE"


def test_a_file_that_comes_back_was_written_under_columns_of_long_ago() -> None:
    """ADD-9, RET-3: the entry with these columns was deleted.

    The other reader accepts the table too.
    """
    store = Dated(clock := Clock())
    table = new_table(store, clock=clock)
    table.append(rows(1))
    for number in range(40):
        clock.forward(DAY)
        if number == 5:
            table.alter.add_column("n", "INT")
        else:
            table.append(rows(number + 10))
    kept = table.version
    table.delete()
    table.expire_log(retention=5 * DAY, dry_run=False, breaks_running_transactions=True)
    assert table.refresh().oldest_version > 10
    table.restore(version=kept)
    assert ids(table) == [1, *(number + 10 for number in range(40) if number != 5)]
    assert_sound(store)


@pytest.mark.slow
def test_a_log_that_was_expired_and_goes_on_with_another_table_shows_what_is_there() -> None:
    """ENT-14, HIS-1: a block of entries has some that were removed; the feature is forgotten."""
    store, table, clock, _ = long_log()
    table.checkpoint()
    table.expire_log(retention=5 * DAY, dry_run=False, breaks_running_transactions=True)
    tablefmt.drop(store.uri)
    new_table(store, clock=clock)
    there = log_versions(store)
    last = next(v for v in reversed(range(max(there))) if v not in there)
    late = handle(store, clock)
    assert sorted(late.history()["version"].to_pylist()) == [v for v in there if v > last]
    assert_sound(store)
