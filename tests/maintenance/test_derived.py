"""Unused checkpoints and compacted log segments: those removed, those kept, and the readers."""

from __future__ import annotations

import itertools
import random
from dataclasses import dataclass
from functools import cache
from typing import Any

import pyarrow as pa
import pytest

from tablefmt.commit.environment import SYSTEM
from tablefmt.log.codec import decode
from tablefmt.log.log_reader import Hint, write_hint
from tablefmt.log.object_names import (
    CHECKPOINTS,
    HISTORY,
    entry_key,
    entry_version,
    log_segment_key,
    log_segment_range,
    part_key,
    root_key,
    root_version,
)
from tablefmt.maintenance.log_expiry import expire_log
from tablefmt.maintenance.maintain import due
from tablefmt.maintenance.removal_plan import Needed, roots_that_stay, superseded
from tablefmt.maintenance.vacuum import DERIVED_SECONDS, MANY_CHECKPOINTS, vacuum
from tablefmt.session.checkpoint_writing import REUSED_SECONDS, checkpoint_of
from tablefmt.snapshot.checkpoint_reader import listed_roots
from tablefmt.snapshot.log_view import LogView
from tablefmt.store.object_store import Store
from tablefmt.store.store_wrappers import CountingStore, ForwardingStore
from tablefmt.table import Table
from tests.maintenance.test_log_expiry import DAY, parts_of
from tests.maintenance.test_vacuum import NOW, removed
from tests.tables import (
    Clock,
    Dated,
    assert_sound,
    behind,
    contents_of,
    handle,
    ids,
    memory,
    new_table,
    rows,
)

KNOWN = dict[int, list[int]]


def named(version: int, number: int = 0) -> str:
    return root_key(version, f"{number:032x}")


def needed(head: int, oldest: int = 0, **more: Any) -> Needed:
    defaults: dict[str, Any] = {"log_start": 0, "named": frozenset(), "before_us": 0}
    return Needed(head=head, oldest=oldest, **{**defaults, **more})


def test_checkpoints_stay_at_doubling_distances() -> None:
    """RET-10: this holds for any number of checkpoints."""
    roots = dict.fromkeys((named(v) for v in range(0, 1_000_000, 100)), 0)
    stay = sorted(root_version(key) or 0 for key in roots_that_stay(roots, needed(999_950)))
    assert len(stay) <= 2 + 15
    assert stay[-2:] == [999_800, 999_900]
    distances = [999_900 - version for version in reversed(stay)][1:]
    assert all(b == 2 * a for a, b in itertools.pairwise(distances[:-1]))
    assert max(distances) * 2 > 999_900


def test_what_the_oldest_version_stands_on_stays() -> None:
    """RET-10: no earlier checkpoint stays."""
    roots = dict.fromkeys((named(v) for v in range(0, 2000, 10)), 0)
    stay = sorted(root_version(key) or 0 for key in roots_that_stay(roots, needed(2000, 1234)))
    assert stay[0] == 1230
    assert {1980, 1990} <= {*stay}


def test_what_somebody_may_hold_stays() -> None:
    """RET-10: young roots, the newest root of a short time ago, and named roots stay."""
    roots = {named(10): 0, named(20): 0, named(30): 0, named(40): 0, named(50): 7, named(60): 9}
    stay = roots_that_stay(roots, needed(70, before_us=5, named=frozenset([named(20)])))
    # 40 was the newest one until 50 came.
    assert {named(v) for v in (20, 40, 50, 60)} <= stay
    assert named(30) not in roots_that_stay(roots, needed(70, oldest=45, before_us=5))
    of_another_log = {named(v): 0 for v in (10, 20, 30, 99)}
    assert named(99) not in roots_that_stay(of_another_log, needed(40))


@pytest.mark.parametrize("seed", range(20))
def test_every_kept_version_has_a_checkpoint_not_far_below(seed: int) -> None:
    """RET-10: replay is never longer than the distance to the head, and what there was."""
    chance = random.Random(seed)
    head = chance.randrange(1, 5000)
    versions = sorted(chance.sample(range(head + 1), min(head, chance.randrange(1, 300))))
    oldest = chance.randrange(head + 1)
    roots = {named(v, n): 0 for v in versions for n in range(chance.choice([1, 1, 2]))}
    stay = {root_version(key) or 0 for key in roots_that_stay(roots, needed(head, oldest))}
    for version in range(oldest, head + 1):
        best = max((v for v in versions if v <= version), default=None)
        left = max((v for v in stay if v <= version), default=None)
        if best is not None and best >= oldest:
            assert left is not None
            # One that stays is at most twice as far from the newest, and the next one below.
            allowed = max(versions) - 2 * max(1, max(versions) - best)
            assert left >= max((v for v in versions if v <= allowed), default=min(versions))


def test_only_names_of_ours_go() -> None:
    """RET-10, KEY-1."""
    keys = [
        named(1),
        part_key("a" * 32),
        log_segment_key(0, 15),
        log_segment_key(16, 31),
        f"{CHECKPOINTS}notes.json",
        f"{CHECKPOINTS}parts/x.parquet",
        f"{HISTORY}notes",
        part_key("b" * 32),
    ]
    listing = pa.table({"key": keys, "size": [1] * 8, "modified_us": [1] * 7 + [9]})
    going = superseded(listing, (), (), needed(50, log_start=20, before_us=5))
    assert [keys[at] for at, _ in going] == [named(1), part_key("a" * 32), log_segment_key(0, 15)]
    assert superseded(listing, keys, None, needed(50)) == []


@dataclass(frozen=True)
class Long:
    """The objects of a long table, and when each was written."""

    objects: dict[str, bytes]
    written: dict[str, int]
    clock: Clock
    known: KNOWN


@cache
def made(versions: int, more: frozenset[tuple[str, str]]) -> Long:
    clock = Clock(NOW)
    store = Dated(clock)
    table = new_table(store, clock=clock, partitioned=True, **dict(more))
    chance = random.Random(versions)
    for number in range(1, versions):
        clock.forward(900)
        table.append(rows(number, p=f"{number % 3}"))
        if number % 7 == 0:
            table.delete(f"id = {chance.randrange(number)}")
        if number % 3 == 0:
            table.checkpoint()
    objects = contents_of(store)
    known = {version: ids(table, version) for version in range(table.version + 1)}
    return Long(objects, store.written, clock, known)


def long_table(versions: int = 100, **more: str) -> tuple[Dated, Table, Clock, KNOWN]:
    """A checkpoint every third version, a version every quarter of an hour."""
    long = made(versions, frozenset(more.items()))
    clock = Clock(long.clock.micros, long.clock.seconds)
    store = Dated(clock)
    for key, body in long.objects.items():
        store.inner.put(key, body)
    store.written = dict(long.written)
    return store, handle(store, clock), clock, long.known


def assert_reads(table: Table, known: KNOWN) -> None:
    for version in range(table.oldest_version, max(known) + 1, 7):
        assert ids(table, version) == known[version]


def derived_keys(store: Store) -> list[str]:
    return [o.key for folder in (CHECKPOINTS, HISTORY) for o in store.list_after(folder)]


@pytest.mark.slow
def test_vacuum_leaves_enough_checkpoints() -> None:
    """RET-10: a dry run lists what goes, every version is read, and a second run does nothing."""
    store, table, clock, known = long_table()
    old = handle(store, clock)
    held = [ids(old), old.version]
    clock.forward(DAY)
    before = derived_keys(store)
    dry = table.vacuum()
    assert derived_keys(store) == before
    run = table.vacuum(dry_run=False)
    assert removed(run) == removed(dry) == sorted({*before} - {*derived_keys(store)})
    assert (run.oldest, run.deleted, table.refresh().oldest_version) == (0, run.files.num_rows, 0)
    assert "superseded by newer checkpoints" in str(run)
    assert table.history(1)["operation"].to_pylist() == ["VACUUM"]
    left = listed_roots(store)
    assert 4 <= len(left) <= 9
    parts = {part for root in left for part in parts_of(store, root)}
    assert {key for key in derived_keys(store) if "/parts/" in key} == parts
    assert_reads(handle(store, clock), known)
    assert [ids(old), old.version] == held
    assert_sound(store)
    assert table.vacuum(dry_run=False).files.num_rows == 0
    assert handle(store, clock).context.view.base.key == left[0]


@pytest.mark.slow
def test_roots_of_checkpoints_are_told_as_they_go() -> None:
    """RET-10: they go before all others, and count among them."""
    _, table, clock, _ = long_table(60)
    clock.forward(DAY)
    going = removed(table.vacuum())
    roots = sum(root_version(key) is not None for key in going)
    seen: list[tuple[int, int]] = []
    vacuum(table.context, dry_run=False, progress=lambda done, total: seen.append((done, total)))
    assert 0 < roots < len(going)
    assert seen == [(roots, len(going)), (len(going), len(going))]


@pytest.mark.slow
def test_handles_on_deleted_checkpoints_read_on() -> None:
    """CKP-6, RET-10: opened at a checkpoint that a stale hint named, and not read yet."""
    store, table, clock, known = long_table()
    clock.forward(DAY)
    going = [path for path in removed(table.vacuum()) if root_version(path) is not None]
    lazy = []
    for key in (going[0], going[-1]):
        write_hint(store, table.id, Hint(root_version(key) or 0, key))
        lazy.append(handle(store, clock))
        assert lazy[-1].context.view.base.key == key
    write_hint(store, table.id, Hint(table.version, listed_roots(store)[0]))
    assert {*going} <= {*removed(handle(store, clock).vacuum(dry_run=False))}
    for late in lazy:
        assert ids(late) == known[max(known)]
        assert_reads(late, known)


@pytest.mark.slow
def test_what_is_of_late_stays() -> None:
    """RET-10: a reader that began with it may still use it."""
    store, table, clock, _ = long_table(40)
    roots = listed_roots(store)
    clock.forward(DERIVED_SECONDS - 3600)
    gone = {path for path in removed(table.vacuum()) if root_version(path) is not None}
    # The last two hours have eight quarters, every third with a checkpoint.
    assert gone
    assert not gone & {*roots[:3]}
    young = part_key("c" * 32)
    store.put(young, b"x")
    clock.forward(DERIVED_SECONDS - 1)
    assert young not in removed(table.vacuum())
    clock.forward(1)
    assert young in removed(table.vacuum())


def test_a_root_of_a_newer_form_keeps_all_parts() -> None:
    """RET-10, CKP-2: a damaged root keeps no part."""
    from tablefmt.log.codec import seal

    store, table, clock, _ = long_table(40)
    clock.forward(DAY)
    all_parts = [path for path in removed(table.vacuum()) if "/parts/" in path]
    assert all_parts
    key = root_key(table.version, "d" * 32)
    store.put(key, b'{"format":2}')
    assert [path for path in removed(table.vacuum()) if "/parts/" in path] == all_parts
    store.put(key, seal({"format": 2}))
    clock.forward(DAY)
    assert [path for path in removed(table.vacuum()) if "/parts/" in path] == []
    store.delete(key)


def test_a_writer_names_no_part_of_long_ago() -> None:
    """CKP-7, RET-10: the newest checkpoint that the writer knows may be deleted by now."""
    store, table, clock, _ = long_table(40)
    idle = handle(store, clock)
    ids(idle)
    first = checkpoint_of(idle.context.view, SYSTEM.nonce)
    before = parts_of(store, idle.context.view.base.key)
    assert {*parts_of(store, first.path)} & {*before}
    for number in range(30):
        table.append(rows(number, p="x"))
    table.compact("major")
    newest = table.checkpoint()
    freshness = idle.context.view.freshness
    freshness.clock = lambda: freshness.began_at.elapsed + REUSED_SECONDS + 1
    idle.refresh()
    late = checkpoint_of(idle.context.view, SYSTEM.nonce)
    assert {*parts_of(store, late.path)} <= {*parts_of(store, newest.path)}


@pytest.mark.slow
@pytest.mark.share(2)
@pytest.mark.parametrize("order", ["vacuum", "expiry"])
def test_the_checkpoints_of_a_log_without_its_beginning_stay(order: str) -> None:
    """RET-10, ENT-13: they are no copies; blocks of what was removed go."""
    store, table, clock, _ = long_table(
        100, logRetentionDuration="2 hours", deletedFileRetentionDuration="1 hour"
    )
    clock.forward(DAY)
    if order == "vacuum":
        table.vacuum(dry_run=False)
    clock.forward(3600)
    run = expire_log(table.context, dry_run=False)
    assert run.deleted > 50
    # Another one whose checkpoints take the place of the first one's.
    for number in range(3):
        clock.forward(DAY)
        table.append(rows(number, p="z"))
    run = expire_log(table.context, dry_run=False)
    horizon = decode(store.get(entry_key(run.version)), run.version).entry.horizon
    assert horizon is not None
    assert horizon.log is not None
    for number in range(20):
        clock.forward(DAY)
        table.append(rows(number, p="z"))
        table.checkpoint()
    report = table.vacuum(dry_run=False)
    roots = listed_roots(store)
    assert {kept.path for kept in horizon.log.checkpoints} <= {*roots}
    blocks = [log_segment_range(o.key) or (0, 0) for o in store.list_after(HISTORY)]
    assert all(last >= run.log_start for _, last in blocks)
    assert any(path.startswith(HISTORY) for path in removed(report))
    fresh = handle(store, clock)
    assert_sound(store)
    assert ids(fresh) == ids(table.refresh())
    for path in roots:
        if path not in {kept.path for kept in horizon.log.checkpoints}:
            store.delete(path)
    assert ids(handle(store, clock)) == ids(table)


@pytest.mark.slow
@pytest.mark.broken_tables
def test_an_expiry_looks_whether_its_checkpoints_are_still_there() -> None:
    """RET-9: the expiry checks this before it removes the entries that they replace."""
    store, table, clock, known = long_table(40)
    clock.forward(40 * DAY)

    class Cleaner(ForwardingStore):
        def put_if_absent(self, key: str, body: bytes) -> Any:
            reply = self.inner.put_if_absent(key, body)
            if b"EXPIRE LOG" in body:
                horizon = decode(body, int(key[5:25])).entry.horizon
                assert horizon is not None
                assert horizon.log is not None
                self.inner.delete(horizon.log.checkpoints[0].path)
            return reply

    before = [one.key for one in store.list_after("_log/0")]
    with pytest.raises(Exception, match="No entry was removed"):
        behind(table, Cleaner(store)).expire_log(dry_run=False)
    assert {*before} <= {one.key for one in store.list_after("_log/0")}
    fresh = handle(store, clock)
    assert fresh.expire_log(dry_run=False).deleted > 0
    assert ids(handle(store, clock)) == known[max(known)]


@pytest.mark.slow
def test_a_root_that_cannot_be_removed_keeps_its_parts() -> None:
    """RET-10: a checkpoint that stays is complete. A later run removes the rest."""
    store, table, clock, known = long_table(60)
    clock.forward(DAY)
    going = removed(table.vacuum())

    class Stubborn(ForwardingStore):
        def delete_many(self, keys: Any) -> Any:
            kept = [key for key in keys if root_version(key) is not None][:1]
            rest = self.inner.delete_many([key for key in keys if key not in kept])
            return {**dict.fromkeys(kept, "AccessDenied"), **rest}

    report = behind(table, Stubborn(store)).vacuum(dry_run=False)
    assert {key for key in report.failures if "/parts/" not in key} == {min(going)}
    assert all(
        "could not be removed" in why or why == "AccessDenied" for why in report.failures.values()
    )
    assert all(part in derived_keys(store) for part in parts_of(store, min(going)))
    assert_reads(handle(store, clock), known)
    again = table.vacuum(dry_run=False)
    assert removed(again) == sorted(report.failures)


def test_many_old_checkpoints_make_a_vacuum_due() -> None:
    """RET-10: a vacuum is due without any file to remove."""
    clock = Clock(NOW)
    store = Dated(clock)
    table = new_table(store, clock=clock)
    for number in range(MANY_CHECKPOINTS + 2):
        table.append(rows(number))
        table.checkpoint()
    assert "vacuum" not in [one.work for one in due(table.context)]
    clock.forward(DAY)
    (why,) = [one.reason for one in due(table.context) if one.work == "vacuum"]
    assert "many superseded checkpoints" in why
    table.vacuum(dry_run=False)
    assert "vacuum" not in [one.work for one in due(table.context)]


def test_it_is_said_of_stores_in_memory_too() -> None:
    """RET-10: a table without any checkpoint has nothing to remove."""
    store = memory()
    table = new_table(store)
    table.append(rows(1))
    assert table.vacuum().files.num_rows == 0
    assert LogView.open(store).head.version == 1


@pytest.mark.slow
def test_a_long_log_is_read_by_what_was_put_together() -> None:
    """HIS-2, RET-5: a vacuum and an expiry read blocks, and each entry once; verify reads the
    entries themselves."""
    clock = Clock(NOW)
    store = Dated(clock)
    table = new_table(store, clock=clock)
    for number in range(1, 300):
        table.append(rows(number))
        clock.forward(DAY)
        if number == 100:
            table.overwrite(rows(7))
    table.checkpoint()
    for number in range(5):
        table.append(rows(number))
    expected = [table.vacuum().files.to_pylist(), table.expire_log().entries.to_pylist()]
    assert [len(found) for found in expected] == [100, 270]
    packed = CountingStore(store)
    runs: list[Any] = [behind(table, packed).vacuum, behind(table, packed).expire_log]
    for again, found in zip(runs, expected, strict=True):
        packed.requests.clear()
        assert again().to_arrow().to_pylist() == found
        asked = [key for verb, key in packed.requests if verb == "get"]
        # The hint once more, and whether there is an entry after the last.
        assert len(asked) <= len({*asked}) + 2
        assert len(asked) < 40
    # The vacuum after it reads what is left, in part from blocks as well.
    table.expire_log(dry_run=False)
    table.checkpoint()
    packed.requests.clear()
    whole = behind(table, packed).vacuum(dry_run=False)
    assert whole.deleted >= 100
    assert_sound(store)
    entries = {key for verb, key in packed.requests if verb == "get" and entry_version(key)}
    assert len(entries) < 40
    # Segments that differ from the log are not used.
    block = max(
        (o.key for o in store.list_after(HISTORY)), key=lambda key: log_segment_range(key) or (0, 0)
    )
    store.put(block, b"x")
    assert handle(store, clock).vacuum().files.num_rows >= 0
    store.delete(block)
    body = store.get(entry_key(290))
    store.put(entry_key(290), body[:-9] + b"0" * 8 + body[-1:])
    assert not handle(store, clock).verify().ok
    store.put(entry_key(290), body)
    assert handle(store, clock).verify().ok


def test_a_handle_from_before_the_oldest_version_reads_on() -> None:
    """CKP-6, RET-10: its checkpoint was deleted with all entries and checkpoints below."""
    store, table, clock, _ = long_table(40)
    old = handle(store, clock)
    lazy = handle(store, clock)
    ids(lazy)
    for number in range(20):
        clock.forward(3 * DAY)
        table.overwrite(rows(number, p="z"))
    for late in (old, lazy):
        late.refresh()
    assert table.expire_log(dry_run=False).oldest > old.context.view.base.version
    clock.forward(40 * DAY)
    table.vacuum(dry_run=False)
    assert [root_version(key) or 0 for key in listed_roots(store)][-1] > 50
    for late in (old, lazy):
        assert ids(late) == [19]
    assert old.append(rows(20)).version > 50
    assert ids(lazy.refresh()) == ids(old) == [19, 20]
    assert_sound(store)
