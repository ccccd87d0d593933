"""Findings of `verify`: each damage is named, with its versions, and repaired if derived."""

from __future__ import annotations

import json
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import jsonschema
import orjson
import pyarrow as pa
import pytest

from tablefmt.data import column_bounds
from tablefmt.errors import ConstraintViolationError, CorruptDataError, InvalidArgumentError
from tablefmt.log.compacted_log import pack, unpack, write_log_segments
from tablefmt.log.object_names import HINT, HISTORY, entry_key, log_segment_key
from tablefmt.maintenance import verify as verify_module
from tablefmt.maintenance.finding_kinds import KINDS
from tablefmt.maintenance.repair import ACTIONS, repair
from tablefmt.maintenance.verify import Finding, Report, readable, verify
from tablefmt.model.log_entry import OperationClass
from tablefmt.operations.create import create
from tablefmt.snapshot.checkpoint_reader import listed_roots
from tablefmt.store.memory_store import MemoryStore
from tablefmt.store.object_store import Store
from tablefmt.store.store_wrappers import CountingStore
from tablefmt.table import Table
from tablefmt.testing.faults import FaultyStore, Killed
from tests.places import ROOT
from tests.rows import StagedTable
from tests.system.transactions.world import copy_to
from tests.tables import Clock, contents_of, handle, ids, memory, new_table, rows

pytestmark = pytest.mark.broken_tables

SCHEMA = json.loads((ROOT / "spec/schemas/verify.schema.json").read_text("utf-8"))
HEAD = 19


@pytest.fixture(scope="module")
def sound() -> MemoryStore:
    """Versions 0 to 19: ids 1 to 17, id 1 overwritten at 18, a checkpoint there, then id 20."""
    store = memory()
    table = new_table(store, partitioned=True)
    for number in range(1, 18):
        table.append(rows(number, p="a" if number == 1 else "b"))
    table.overwrite(rows(100, p="a"), where="p = 'a'")
    table.checkpoint()
    table.append(rows(20, p="b"))
    assert [one.key for one in store.list_after(HISTORY)] == [log_segment_key(0, 15)]
    return store


AFTER = sorted([*range(2, 18), 20, 100])


def path_of(store: Store, version: int, number: int) -> str:
    """The file with an id, in a version."""
    found = handle(store).scan(version=version, where=f"id = {number}").files()
    return str(found["path"][0].as_py())


def flip(store: Store, key: str, at: int = -20) -> None:
    body = bytearray(store.get(key))
    body[at] ^= 1
    store.put(key, bytes(body))


def damage_entry(version: int) -> Callable[[Store], str]:
    def damage(store: Store) -> str:
        flip(store, entry_key(version))
        return entry_key(version)

    return damage


def drop_entry(version: int) -> Callable[[Store], str]:
    def damage(store: Store) -> str:
        store.delete(entry_key(version))
        return entry_key(version)

    return damage


def drop_file(store: Store) -> str:
    path = path_of(store, HEAD, 5)
    store.delete(path)
    return path


def flip_file(store: Store) -> str:
    path = path_of(store, HEAD, 5)
    flip(store, path)
    return path


def drop_old_file(store: Store) -> str:
    path = path_of(store, 17, 1)
    store.delete(path)
    return path


def flip_checkpoint(store: Store) -> str:
    (root,) = listed_roots(store)
    flip(store, root)
    return root


def flip_part(store: Store) -> str:
    part = next(one.key for one in store.list_after("_log/checkpoints/parts/"))
    flip(store, part)
    return part


def flip_history(store: Store) -> str:
    flip(store, log_segment_key(0, 15))
    return log_segment_key(0, 15)


def forge_history(store: Store) -> str:
    bodies = unpack(store.get(log_segment_key(0, 15)), 16)
    store.put(log_segment_key(0, 15), pack([*bodies[:3], bodies[3] + b" ", *bodies[4:]]))
    return log_segment_key(0, 15)


def wrong_hint(store: Store) -> str:
    store.put(HINT, b"{}")
    return HINT


def far_hint(store: Store) -> str:
    store.put(HINT, orjson.dumps({"table": "x", "version": 400}))
    return HINT


def lost_in_hint(store: Store) -> str:
    name = f"_log/checkpoints/{HEAD:020d}.{'0' * 32}.json"
    store.put(HINT, orjson.dumps({"table": "x", "version": HEAD, "checkpoint": name}))
    return HINT


# Damage, kind of the finding, newest readable and first damaged version, also found without deep.
DAMAGES: dict[str, tuple[Callable[[Store], str], str, int | None, int | None, bool]] = {
    "an entry before the checkpoint": (damage_entry(17), "damaged-entry", HEAD, 17, True),
    "an entry after the checkpoint": (damage_entry(19), "damaged-entry", 18, 19, True),
    "an entry lost": (drop_entry(17), "missing-entry", HEAD, 17, True),
    "an entry in a segment": (damage_entry(7), "restorable-entry", HEAD, 7, False),
    "an early entry lost in a segment": (drop_entry(7), "restorable-entry", HEAD, 7, True),
    "an entry lost in a segment": (drop_entry(9), "restorable-entry", HEAD, None, True),
    "a file lost": (drop_file, "missing-file", 4, 5, True),
    "a file damaged": (flip_file, "damaged-file", 4, 5, True),
    "a file of older versions": (drop_old_file, "missing-old-file", HEAD, 1, True),
    "a root": (flip_checkpoint, "damaged-checkpoint", HEAD, None, True),
    "a part": (flip_part, "damaged-checkpoint", HEAD, None, True),
    "a segment": (flip_history, "damaged-history", HEAD, None, True),
    "a forged segment": (forge_history, "damaged-history", HEAD, None, True),
    "a hint": (wrong_hint, "wrong-hint", HEAD, None, True),
    "a hint far ahead": (far_hint, "wrong-hint", HEAD, None, True),
    "a hint to no checkpoint": (lost_in_hint, "wrong-hint", HEAD, None, True),
}


def checked(store: Store, *, deep: bool) -> Report:
    """Return a report whose JSON keeps the schema, and whose text has every severity and remedy
    (VFY-3).
    """
    report = verify(store, deep=deep)
    document = json.loads(orjson.dumps(report.record()))
    jsonschema.validate(document, SCHEMA)
    text = str(report)
    for one in report.findings:
        assert f"{one.severity}: {one.object}: {one.problem} (rule {one.rule})" in text
        assert KINDS[one.kind].action in text
    assert pa.table(report).column("kind").to_pylist()[: len(report.findings)] == [
        one.kind for one in report.findings
    ]
    return report


def test_a_sound_table_is_sound(sound: MemoryStore) -> None:
    for deep in (False, True):
        report = checked(sound, deep=deep)
        assert (report.findings, report.ok, report.version, report.files) == ((), True, HEAD, 18)
        assert (report.newest_readable, report.first_damaged) == (HEAD, None)


@pytest.mark.parametrize("name", DAMAGES)
def test_each_damage_is_named_with_its_versions(name: str, sound: MemoryStore) -> None:
    """VFY-1, VFY-2: the object, the kind, and the versions that can still be read."""
    damage, kind, newest, first, shallow = DAMAGES[name]
    store = copy_to(sound, memory())
    key = damage(store)
    for deep in (False, True) if shallow else (True,):
        report = checked(store, deep=deep)
        found = {(one.object, one.kind) for one in report.findings}
        assert (key, kind) in found
        others = {("wrong-hint" if kind == "damaged-checkpoint" else kind)}
        assert {each for _, each in found} <= {kind} | others
        assert not report.ok
        if name == "an entry lost in a segment" and deep:
            first = 9  # the entries alone, without compacted log segments
        assert (report.newest_readable, report.first_damaged) == (newest, first)
    assert newest is not None
    if kind.endswith("entry") and newest < HEAD:
        # Opening reads the newest entry. The advice for this damage is a copy without it.
        for version in range(newest + 1, HEAD + 1):
            store.delete(entry_key(version))
    assert ids(handle(store), newest) == ids(handle(sound), newest)


@pytest.mark.parametrize("name", DAMAGES)
def test_a_repair_mends_what_is_derived_and_nothing_else(name: str, sound: MemoryStore) -> None:
    """VFY-4: a dry run changes nothing; after the repair the table is clean, with the same rows."""
    damage, kind, _, _, shallow = DAMAGES[name]
    store = copy_to(sound, memory())
    key = damage(store)
    before = contents_of(store)
    deep = not shallow

    planned = repair(store, deep=deep)

    assert contents_of(store) == before
    derived = KINDS[kind].remedy == "derived"
    assert bool(planned.steps) == derived == planned.ok
    done = repair(store, dry_run=False, deep=deep)
    assert all(step.done for step in done.steps)
    assert done.ok == derived
    assert f"{ACTIONS[kind]}: {key}" in str(done) if derived else not done.steps
    if not derived:
        assert contents_of(store) == before
        return
    assert verify(store, deep=True).ok
    assert ids(handle(store)) == AFTER
    assert ids(handle(store), 17) == list(range(1, 18))


def test_a_file_is_given_up_by_name_alone(sound: MemoryStore) -> None:
    """VFY-4: one commit says so; older versions of the file are a note, and damage of no file."""
    store = copy_to(sound, memory())
    lost, damaged = drop_file(store), path_of(store, HEAD, 6)
    flip(store, damaged)
    for wrong in ([path_of(store, HEAD, 7)], [lost, "data/x"], ["*"], lost):
        with pytest.raises(InvalidArgumentError, match="accept_loss"):
            repair(store, dry_run=False, accept_loss=wrong)
    partly = repair(store, dry_run=False, accept_loss=[lost])
    assert (partly.ok, partly.version) == (False, HEAD + 1)
    done = handle(store).repair(dry_run=False, accept_loss=[damaged])
    assert (done.ok, done.version) == (True, HEAD + 2), str(done)
    assert ids(handle(store)) == [number for number in AFTER if number not in (5, 6)]
    history = handle(store).history(limit=2).to_pylist()
    assert [one["operation"] for one in history] == ["REPAIR", "REPAIR"]
    report = checked(store, deep=False)
    assert report.ok
    assert {(one.object, one.kind) for one in report.findings} == {(lost, "given-up-file")}
    with pytest.raises(CorruptDataError):
        handle(store).to_arrow(version=HEAD)
    handle(store).append(rows(30))


def test_one_repair_mends_damage_behind_damage(sound: MemoryStore) -> None:
    """VFY-4: a lost entry hides a lost file, a damaged root and a wrong hint."""
    store = copy_to(sound, memory())
    lost = drop_file(store)
    for damage in (flip_checkpoint, far_hint, drop_entry(7)):
        damage(store)
    assert repair(store, accept_loss=[lost]).steps[0].kind == "restorable-entry"
    done = repair(store, dry_run=False, accept_loss=[lost])
    assert done.ok, str(done)
    kinds = {step.kind for step in done.steps if step.done}
    assert kinds >= {"restorable-entry", "damaged-checkpoint", "missing-file"}
    assert ids(handle(store)) == [number for number in AFTER if number != 5]


def test_an_append_only_table_gives_up_no_file() -> None:
    table = new_table(memory(), appendOnly="true")
    table.append(rows(1))
    store = table.context.store
    path = path_of(store, 1, 1)
    store.delete(path)
    with pytest.raises(ConstraintViolationError, match="append-only"):
        repair(store, dry_run=False, accept_loss=[path])
    assert handle(store).version == 1


def test_what_a_commit_writes_meanwhile_is_no_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    """VFY-1: a hint, a segment and copies of versions that came after the log was read."""
    store = memory()
    table = Table(create(store, "id BIGINT", properties={"export": "delta,iceberg"}))
    for number in range(1, 15):
        table.append(pa.table({"id": [number]}))

    def behind(*_: Any) -> list[Any]:
        written = table.append(pa.table({"id": [15]})).version
        store.put(HINT, orjson.dumps({"table": table.id, "version": written}))
        write_log_segments(store, -1, written)
        return []

    # Commits between the reading of the log and the checks of what is derived from it.
    monkeypatch.setattr(verify_module, "_row_findings", behind)
    report = verify(store)
    assert report.findings == ()
    assert [one.key for one in store.list_after(HISTORY)] == [log_segment_key(0, 15)]
    assert table.version == 15
    assert verify(store).findings == ()


STRIDES = pytest.mark.parametrize("each", [pytest.param(1, marks=pytest.mark.soak), 17])
"""Requests between two stops. The soak stops at every one."""


@pytest.mark.slow
@pytest.mark.share(2)
@STRIDES
@pytest.mark.parametrize("name", ["an entry lost in a segment", "a segment", "a root", "a hint"])
@pytest.mark.parametrize("fault", ["kill_after", "lost_answer"])
def test_a_repair_that_stops_at_any_request_can_be_repeated(
    name: str, fault: Any, each: int, sound: MemoryStore
) -> None:
    """VFY-4: the rows are right at once, a second run does the rest, and no answer is no damage."""
    damaged = copy_to(sound, memory())
    DAMAGES[name][0](damaged)
    stopped = 0
    for at in range(len(name) % each, 400, each):
        store = copy_to(damaged, memory())
        plan = lambda i, verb, key, at=at: fault if i == at else None  # noqa: E731
        faulty = FaultyStore(store, plan)
        try:
            repair(faulty, dry_run=False)
        except (Killed, Exception):
            stopped += 1
        if not faulty.fired[fault]:
            break
        if not name.startswith("an entry"):
            assert ids(handle(store)) == AFTER
        assert repair(store, dry_run=False).ok
        assert ids(handle(store)) == AFTER
    assert stopped >= 2


@pytest.mark.slow
@STRIDES
def test_giving_up_files_stops_at_any_request(each: int, sound: MemoryStore) -> None:
    """VFY-4, CMT-1: the commit is there or not; after a second run the file is given up once."""
    damaged = copy_to(sound, memory())
    lost = drop_file(damaged)
    stopped = 0
    for at in range(0, 400, each):
        store = copy_to(damaged, memory())
        fault: Any = "kill_after"
        plan = lambda i, verb, key, at=at, fault=fault: fault if i == at else None  # noqa: E731
        faulty = FaultyStore(store, plan)
        try:
            repair(faulty, dry_run=False, accept_loss=[lost])
        except Killed:
            stopped += 1
        if handle(store).version == HEAD:
            repair(store, dry_run=False, accept_loss=[lost])
        assert handle(store).version == HEAD + 1
        assert ids(handle(store)) == [number for number in AFTER if number != 5]
        assert verify(store).ok
        if not faulty.fired["kill_after"]:
            break
    assert stopped >= 2


@pytest.mark.slow
def test_a_repair_beside_a_writer_loses_no_commit(sound: MemoryStore) -> None:
    """VFY-4, CFL-11: another commit before every request; one that needs the file is refused."""
    damaged = copy_to(sound, memory())
    lost = drop_file(damaged)
    for at in range(5, 60, 15):
        store = copy_to(damaged, memory())

        def commits(index: int, verb: str, key: str, store: Store = store, at: int = at) -> None:
            if index == at:
                handle(store).append(rows(200))

        repair(FaultyStore(store, commits), dry_run=False, accept_loss=[lost])
        expected = {*AFTER, 200} - {5}
        assert set(ids(handle(store))) in (expected, expected - {200})
        assert verify(store).ok


@pytest.mark.slow
def test_bounds_that_are_not_true_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """VAL-3, ADD-1: a query would skip rows; only the pages tell."""
    schema = "i INT, s STRING, d DOUBLE, b BINARY, t TIMESTAMP, n DECIMAL(9,2)"
    true = column_bounds.FooterBounds.of
    values = {
        "i": 5,
        "s": "m",
        "d": 0.5,
        "b": b"m",
        "t": 1_700_000_000_000_000,
        "n": Decimal("5.00"),
    }
    lies: list[tuple[str, Any]] = [
        *(("lower.1", 6), ("upper.1", 4), ("lower.2", "n"), ("upper.2", "l")),
        *(("lower.3", 0.75), ("upper.3", 0.25), ("nulls.1", 1), ("nulls.2", 0)),
        *(("lower.5", 1_700_000_000_000_001), ("upper.6", "4.99"), ("lower.4", "bg==")),
    ]
    for name, lie in lies:
        other = (
            name.replace("lower", "upper") if "lower" in name else name.replace("upper", "lower")
        )

        def lying(
            self: Any, metadata: Any, name: str = name, lie: Any = lie, other: str = other
        ) -> dict[str, Any]:
            found = {**true(self, metadata), name: lie}
            # Bounds that contradict each other are ignored, not untrue.
            return {k: v for k, v in found.items() if k == name or k != other}

        monkeypatch.setattr(column_bounds.FooterBounds, "of", lying)
        store = memory()
        table = new_table_of(store, schema)
        row = {**values, "t": pa.scalar(values["t"], pa.timestamp("us", "UTC")).as_py()}
        table.append([row, {**row, "s": None}])
        monkeypatch.setattr(column_bounds.FooterBounds, "of", true)
        assert verify(store).ok
        (found,) = checked(store, deep=True).findings
        assert (found.kind, found.since) == ("wrong-bounds", 1), name
        table.append([{**row, "d": float("nan")}, {**row, "d": -0.0}])
        assert len(verify(store, deep=True).findings) == 1


def new_table_of(store: Store, schema: str) -> Table:
    return Table(create(store, schema, environment=Clock().environment()))


@pytest.mark.parametrize("lost", [False, True])
def test_an_overflow_file_that_is_damaged_ends_a_run(lost: bool) -> None:
    """VFY-2, DEL-3: the versions before it can be read, in a copy without the later entries."""
    table = StagedTable(f"memory://overflow-{lost}")
    for number in range(4):
        table.commit(OperationClass.INSERT, [[(number, 0)]])
    table.commit(OperationClass.UPDATE, marks={1: ([0], [])}, side=True)
    table.commit(OperationClass.INSERT, [[(100, 0)]])
    (key,) = (one.key for one in table.store.list_after("deletes/"))
    if lost:
        table.store.delete(key)
    else:
        flip(table.store, key)
    for deep in (False, True):
        report = checked(table.store, deep=deep)
        found = [(one.object, one.kind, one.since) for one in report.findings]
        assert found == [(key, "damaged-overflow", 5)]
        assert (report.version, report.newest_readable, report.first_damaged) == (None, 4, 5)
    for version in (5, 6):
        table.store.delete(entry_key(version))
    assert ids(handle(table.store)) == [0, 1, 2, 3]


def test_a_tag_below_the_oldest_version_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """TAG-2: a writer that does not know tags gave the version up."""
    store = memory()
    table = new_table(store)
    for number in range(3):
        table.overwrite(rows(number))
    table.alter.set_tag("quarter", version=1)
    table.alter.set_tag("short", version=1, retain="1 day")
    for module in ("vacuum", "retention", "log_expiry"):
        name = f"tablefmt.maintenance.{module}.kept_for_tags"
        monkeypatch.setattr(name, lambda metadata, now_us, kept, oldest: kept)
    monkeypatch.setattr("tablefmt.snapshot.head.tags_of", lambda metadata: {})
    handle(store).vacuum(retention=0, dry_run=False, breaks_running_transactions=True)
    report = checked(store, deep=False)
    assert [(one.object, one.kind) for one in report.findings] == [("tag.quarter", "expired-tag")]


def test_names_far_beyond_the_log_are_counted_once(sound: MemoryStore) -> None:
    """VFY-2: anybody may store an object of any version's name."""
    store = copy_to(sound, memory())
    for version in (25, 2**40, 2**63 - 1):
        store.put(entry_key(version), store.get(entry_key(3)))
    report = checked(store, deep=False)
    assert len(report.findings) == 5 + 1 + 2 * 2
    assert (report.version, report.newest_readable, report.first_damaged) == (None, HEAD, HEAD + 1)


def test_every_kind_has_a_test() -> None:
    kinds = {one for _, one, *_ in DAMAGES.values()}
    tested_elsewhere = {
        "wrong-rows", "wrong-copy", "unusable-property", "not-checked", "orphan-files",
        "clone-hold", "lost-hold", "orphan-log-object",
    }  # fmt: skip
    here = {"wrong-bounds", "given-up-file", "damaged-overflow", "expired-tag"}
    assert kinds | tested_elsewhere | here == set(KINDS)


def test_packed_history_is_read_instead_of_entries() -> None:
    """VFY-1: without deep, a request for a segment of 16 entries, and for the entries after it."""
    store = memory()
    table = new_table(store)
    for number in range(40):
        table.append(rows(number))
    table.checkpoint()
    write_log_segments(store, -1, 40)
    counted = CountingStore(store)
    assert verify(counted).ok
    entries = {key for verb, key in counted.requests if verb == "get" and key.startswith("_log/0")}
    assert len(entries) < 20
    writes = {"put", "put_if_absent", "open_output", "delete", "delete_many"}
    assert not writes & {verb for verb, _ in counted.requests}


@pytest.mark.parametrize(
    ("spans", "replayed", "expected"),
    [
        ([], [(0, 9)], (9, None)),
        ([(3, None)], [(0, 9)], (2, 3)),
        ([(3, 5)], [(0, 9)], (9, 3)),
        ([(0, None)], [(0, 9)], (None, 0)),
        ([(3, 5), (5, None)], [(0, 9)], (2, 3)),
        ([], [(0, 3), (7, 9)], (9, 4)),
        ([], [(0, 3)], (3, 4)),
        ([(8, None)], [(0, 3), (7, 9)], (7, 4)),
        ([(1, 1), (8, None), (2, 7)], [(0, 9)], (0, 1)),
        ([], [], (None, 0)),
    ],
)
def test_the_versions_that_can_be_read(
    spans: list[tuple[int, int | None]],
    replayed: list[tuple[int, int]],
    expected: tuple[int | None, int | None],
) -> None:
    """VFY-2: compared with a set of versions, one by one."""
    findings = [Finding("x", "DAT-5", "", "missing-file", a, b) for a, b in spans]
    assert readable(findings, 0, 9, replayed) == expected
    good = {v for a, b in replayed for v in range(a, b + 1)}
    good -= {v for a, b in spans for v in range(a, 10 if b is None else b + 1)}
    bad = set(range(10)) - good
    assert (max(good, default=None), min(bad, default=None)) == expected
