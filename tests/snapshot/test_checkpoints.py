"""A log opened from a checkpoint equals the log as read from version 0, at every version."""

from __future__ import annotations

import importlib
import random
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tablefmt
from tablefmt.commit.environment import SYSTEM
from tablefmt.errors import CorruptTableError, TableNotFoundError, TableReplacedError
from tablefmt.log.log_reader import FIRST_WINDOW, Hint, write_hint
from tablefmt.log.object_names import CHECKPOINTS, HINT, entry_key
from tablefmt.maintenance.manual_checkpoint import verified
from tablefmt.operations.create import create
from tablefmt.session.checkpoint_writing import checkpoint_at, checkpoint_of
from tablefmt.session.table_scan import first_files
from tablefmt.snapshot import checkpoint_writer, log_opening, segment_reuse
from tablefmt.snapshot.checkpoint_writer import Checkpoint, Known, State, write_checkpoint
from tablefmt.snapshot.file_columns import WITHOUT_BOUNDS
from tablefmt.snapshot.log_view import LogView
from tablefmt.snapshot.segments import HeldColumns, ManifestSegment
from tablefmt.store.memory_store import MemoryStore
from tablefmt.store.object_store import Store
from tablefmt.store.store_wrappers import CountingStore, ForwardingStore
from tablefmt.table import Table
from tests.snapshot.grown import changes_of, grow, said_of, taken
from tests.tables import Clock, contents_of, handle, ids, memory, new_table, rows


def written(store: Store, before: Known | None = None) -> Checkpoint:
    """A checkpoint of the newest version."""
    return checkpoint_of(LogView.open(store), SYSTEM.nonce, before)


@pytest.mark.slow
@pytest.mark.share(2)
@pytest.mark.parametrize("seed", [1, 2, pytest.param(None, marks=pytest.mark.soak)])
def test_a_checkpoint_and_a_tail_are_the_whole_log(
    seed: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CKP-1, RPL-1 .. RPL-5, DEL-4: each builds on the one before; older versions from entries."""
    seed = random.randrange(1 << 32) if seed is None else seed
    print("seed", seed)
    chance = random.Random(seed)
    monkeypatch.setattr(segment_reuse, "SEGMENT_FILES", chance.choice([4, 10, 1000]))
    monkeypatch.setattr("tablefmt.snapshot.checkpoint_writer.SEGMENT_FILES", 7)
    monkeypatch.setattr("tablefmt.snapshot.part_file.ROW_GROUP", chance.choice([2, 1000]))
    store, clock = memory(), Clock()
    table = new_table(store, partitioned=chance.random() < 0.5, clock=clock)
    table.alter.add_column("n", "int")
    before: Known | None = None
    roots: list[Checkpoint] = []
    for _ in range(5):
        grow(table, chance, 5)
        # By one who stays, or by one who opens the table at the last one.
        roots.append(written(store, before))
        before = roots[-1].known if chance.random() < 0.5 else None
    grow(table, chance, 3)
    entries = LogView.open(store, whole=True).entries_after(-1)
    whole = LogView(store, entries, whole=True)
    newest = whole.head.version
    expected = [said_of(LogView(store, entries[: v + 1]), v) for v in range(newest + 1)]
    described = [whole.metadata_version_at(v) for v in range(newest + 1)]
    for root in roots:
        write_hint(store, whole.head.table, Hint(root.version, root.path))
        view = LogView.open(store)
        assert (view.base.version, view.base.key) == (root.version, root.path)
        assert (view.head, view.created) == (whole.head, whole.created)
        assert view.read_head == whole.read_head
        for version in chance.sample(range(newest + 1), 10):
            assert said_of(view, version) == expected[version], version
            assert view.metadata_version_at(version) == described[version]
        assert said_of(view, newest) == expected[newest]
        first = chance.randrange(1, newest + 1)
        assert changes_of(view, first, newest) == changes_of(whole, first, newest)
    at = chance.randrange(newest + 1)
    older = checkpoint_at(store, at, SYSTEM.nonce)
    write_hint(store, whole.head.table, Hint(newest, older.path))
    view = LogView.open(store)
    assert [said_of(view, v) for v in range(newest + 1)] == expected


def grown(seed: int, steps: int = 12) -> tuple[MemoryStore, Table]:
    """A table with a history, on a store of its own."""
    store, clock = memory(), Clock()
    table = new_table(store, partitioned=True, clock=clock)
    grow(table, random.Random(seed), steps)
    table.append(rows(1, 2, 3, p="a"))
    table.append(rows(4, 5, 6, 7, p="b"))
    table.delete("id = 2")
    return store, table


@pytest.mark.parametrize("stored", [False, True])
def test_the_first_files_are_those_of_all_files(
    stored: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """RPL-1: every version has deleted rows. Files come from entries, and from small segments."""
    monkeypatch.setattr("tablefmt.snapshot.checkpoint_writer.SEGMENT_FILES", 3)
    for seed in range(3):
        store, table = grown(seed, 12)
        if stored:
            table.checkpoint()
            table.append(rows(8, 9, p=["b", "a"]))
        view = LogView.open(store)
        for version in range(view.base.first, view.head.version + 1):
            fresh = LogView.open(store)
            snapshot = view.snapshot(version)
            files = snapshot.files_with(WITHOUT_BOUNDS)
            for count in (1, 2, 5, 1000):
                expected = first_files(files, count)
                found = fresh.snapshot(version).first(count, WITHOUT_BOUNDS)
                names = expected.column_names
                assert found["id"].to_pylist() == expected["id"].to_pylist()
                shared = [name for name in names if name in found.column_names]
                assert found.select(shared).to_pylist() == expected.select(shared).to_pylist()
                lacking = set(names) - set(shared)
                assert all(expected[name].null_count == len(expected) for name in lacking)


def said(store: Store) -> Any:
    """Return all answers of a fresh reader about the newest version."""
    view = LogView.open(store)
    return said_of(view, view.head.version), ids(handle(store))


def torn(body: bytes) -> Iterator[bytes | None]:
    """Yield the body with damage of all kinds. None: the object is missing."""
    yield None
    yield b""
    yield body[: len(body) // 2]
    yield body[:-1]
    yield body + b"x"
    for at in range(0, len(body), max(1, len(body) // 7)):
        yield body[:at] + bytes([body[at] ^ 0x41]) + body[at + 1 :]


@pytest.mark.slow
def test_damage_of_a_checkpoint_changes_no_answer() -> None:
    """CKP-2, CKP-3, CKP-6: an older one, or the entries, say the same."""
    store, table = grown(1)
    written(store)
    table.append(rows(7, 8, p=["a", "c"]))
    table.delete("id = 3")
    written(store)
    table.append(rows(9, p="b"))
    expected = said(store)
    whole = contents_of(store, CHECKPOINTS)
    assert len(LogView.open(store).snapshot().deltas) > 0
    assert len(whole) >= 4
    for key, body in whole.items():
        for damaged in torn(body):
            if damaged is None:
                store.delete(key)
            else:
                store.put(key, damaged)
            assert said(store) == expected, (key, damaged)
            store.put(key, body)
    for key in whole:
        store.delete(key)
    assert said(store) == expected


@pytest.mark.slow
def test_damage_that_shows_while_a_handle_is_in_use_changes_no_answer() -> None:
    """CKP-6: parts are read when they are needed, which may be after they went."""
    store, table = grown(2)
    first = written(store)
    table.append(rows(7, p="a"))
    every = list(contents_of(store, CHECKPOINTS))
    for lost in [[part] for part in every if "/parts/" in part] + [every]:
        whole = contents_of(store, CHECKPOINTS)
        for spoil in (lambda key: store.delete(key), lambda key: store.put(key, b"PAR1")):
            late, early = handle(store), handle(store)
            assert late.context.view.base.key == first.path
            early.to_arrow(where="p = 'a'")
            expected = early.to_arrow().sort_by("id"), early.count(**where(3))
            for key in lost:
                spoil(key)
            for each in (late, early):
                assert each.to_arrow().sort_by("id") == expected[0]
                assert each.count(**where(3)) == expected[1]
            late.delete("id = 1")
            late.append(rows(1, p="b"))
            store.put(HINT, b"{}")
            for key, body in whole.items():
                store.put(key, body)
            write_hint(store, table.id, Hint(0, first.path))
            assert ids(late) == ids(handle(store)) == ids(early.refresh())


def where(at: int) -> Any:
    return {"where": f"id > {at}"}


@pytest.mark.slow
def test_a_checkpoint_of_another_log_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """CKP-5, CKP-8: a checkpoint of another table, of other entries, or under a wrong version."""
    store, table = grown(3)
    one = written(store)
    expected = said(store)
    other_store, _ = grown(4)
    other = written(other_store)
    for key, body in contents_of(other_store, CHECKPOINTS).items():
        store.put(key, body)
    renamed = one.path.replace(f"{one.version:020d}", f"{one.version - 1:020d}")
    store.put(renamed, store.get(one.path))
    for key in (other.path, renamed, one.path[:-6] + "0.json", "_log/checkpoints/x", entry_key(3)):
        for version in (0, table.version, 10**12):
            store.put(HINT, orjson.dumps({"version": version, "checkpoint": key}))
            assert said(store) == expected
    # The log was put back to an older state: the checkpoint is of entries that are not there.
    newest = table.version
    table.append(rows(1))
    late = written(store)
    store.delete(entry_key(newest + 1))
    write_hint(store, table.id, Hint(newest + 1, late.path))
    assert said(store) == expected
    # And went on in another way.
    handle(store).append(rows(77))
    assert ids(handle(store)) == sorted([*expected[1], 77])


@pytest.mark.slow
def test_a_lost_hint_costs_requests_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """CKP-8, LOG-6: checkpoints of long logs are found by a listing; the hint is written again."""
    monkeypatch.setattr(log_opening, "LONG_LOG", 10)
    store, table = grown(5, steps=20)
    one = written(store)
    table.append(rows(5))
    expected = said(store)
    for hint in (None, b"junk", orjson.dumps({"version": table.version})):
        store.delete(HINT) if hint is None else store.put(HINT, hint)
        assert LogView.open(store).base.key == one.path
        assert orjson.loads(store.get(HINT))["checkpoint"] == one.path
        assert said(store) == expected


@pytest.mark.slow
def test_a_writer_that_is_stopped_anywhere_leaves_a_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """CKP-7: the kill is at every request of it, before or after it took effect."""
    for seed in (6, 7):
        store, table = grown(seed, steps=6)
        written(store)
        table.append(rows(4, p="c"))
        table.delete("id = 1")
        expected = said(store)
        for late in (False, True):
            for at in range(40):
                stopping = Stopping(store, at, late)
                try:
                    checkpoint_of(LogView.open(stopping), SYSTEM.nonce)
                except KeyboardInterrupt:
                    assert said(store) == expected
                    continue
                assert said(store) == expected
                assert stopping.writes <= at
                break
            else:
                raise AssertionError("it never ends")


class Stopping(ForwardingStore):
    """Dies at its n-th write."""

    def __init__(self, inner: Store, at: int, late: bool) -> None:
        super().__init__(inner)
        self.at, self.late, self.writes = at, late, 0

    def _write(self, work: Callable[[], Any]) -> Any:
        self.writes += 1
        if self.writes - 1 != self.at:
            return work()
        if self.late:
            work()
        raise KeyboardInterrupt

    def put(self, key: str, body: bytes) -> None:
        self._write(lambda: super(Stopping, self).put(key, body))

    def put_if_absent(self, key: str, body: bytes) -> Any:
        return self._write(lambda: super(Stopping, self).put_if_absent(key, body))


@pytest.mark.slow
def test_several_write_at_once() -> None:
    """CKP-7: writers of one version and of several. The hint may name any of them."""
    store, table = grown(8)
    expected = said(store)
    with ThreadPoolExecutor(8) as pool:
        views = [LogView.open(store) for _ in range(8)]
        roots = list(pool.map(lambda view: checkpoint_of(view, SYSTEM.nonce), views))
    assert len({root.path for root in roots}) == 8
    for root in roots:
        write_hint(store, table.id, Hint(table.version, root.path))
        assert said(store) == expected
        assert verified(store, root.path)[1:] == (root.sha256, root.size)
    assert handle(store).verify(deep=True).ok


def test_a_checkpoint_is_found_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    """CKP-1, CKP-3: the checkpoint itself is sound but differs from the entries."""

    def lying(state: State) -> Iterator[State]:
        files, head = state.files, state.head
        whole = files.as_of(head.version, head.totals, head.metadata, state.described)
        one, *others = whole.segments
        table = one.files.table
        paths = pa.array(table["path"].to_pylist()[::-1])
        swapped = table.set_column(table.schema.get_field_index("path"), "path", paths)
        held = HeldColumns(one.files.ids, one.files.added, swapped)
        yield replace(state, files=replace(whole, segments=(replace(one, files=held), *others)))
        held = HeldColumns(one.files.ids, one.files.added + 1, table)
        yield replace(state, files=replace(whole, segments=(replace(one, files=held), *others)))

    store, table = grown(9)
    view = LogView.open(store)
    head = view.read_head
    files = view.snapshot().history
    state = State(head, view.created, view.metadata_version_at(head.version), files)
    with pytest.raises(CorruptTableError, match="RPL-3"):
        write_checkpoint(store, replace(state, files=replace(files, deltas=())), SYSTEM.nonce)
    assert len(list(lying(state))) == 2
    for bad in lying(state):
        root = write_checkpoint(store, bad, SYSTEM.nonce)
        findings = table.verify().findings
        assert {finding.rule for finding in findings} & {"CKP-1", "CKP-3"}, findings
        store.delete(root.path)
    good = write_checkpoint(store, state, SYSTEM.nonce)
    assert table.verify(deep=True).ok
    verified(store, good.path)


def test_a_condition_reads_the_segments_that_can_hold_a_row(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """CKP-4, PRN-1: the root alone decides. No byte of the other segments is read."""
    monkeypatch.setattr(checkpoint_writer, "SEGMENT_FILES", 4)
    store = memory()
    table = new_table(store)
    for n in range(16):
        # The order of commits is not that of the values.
        at = n * 7 % 16
        table.append(rows(10 * at, 10 * at + 9, p="x" if at < 8 else "y"))
    root = written(store).known.root
    assert [part.bounds["1"]["lower"] for part in root.segments] == [0, 40, 80, 120]
    assert [part.bounds["2"]["upper"] for part in root.segments] == ["x", "x", "y", "y"]
    for condition, wanted in [
        ("id = 85", [2]),
        ("id BETWEEN 35 AND 45", [0, 1]),
        ("p = 'x' AND id > 70", [1]),
        ("id IS NULL", []),
        ("p = 'z'", []),
        ("p <> 'x'", [2, 3]),
    ]:
        counting = CountingStore(store)
        table = handle(counting)
        read = table.scan(where=condition).files()["path"].to_pylist()
        assert read == handle(store).scan(where=condition).files()["path"].to_pylist()
        asked = {key for _, key in counting.requests if "/parts/" in key}
        assert asked == {root.segments[at].path for at in wanted}, condition


def test_a_part_that_stays_is_asked_for_its_ids_alone() -> None:
    """CKP-7: a checkpoint after a few commits costs what changed."""
    store = memory()
    table = new_table(store)
    for n in range(64):
        table.append(rows(n))
    table.checkpoint()
    counting = CountingStore(store)
    later = handle(counting)
    later.append(rows(64))
    counting.reset()
    later.checkpoint()
    parts = [verb for verb, key in counting.requests if key.startswith("_log/checkpoints/parts/")]
    assert parts == ["get_range", "open_file", "put"]
    assert handle(store).to_arrow().num_rows == 65


def test_opening_at_a_checkpoint_takes_two_rounds() -> None:
    """LOG-5, CKP-8: the hint and the first entries; the root, its entry and those that follow."""
    store, table = grown(10)
    one = written(store)
    table.append(rows(50))
    counting = CountingStore(store)
    view = LogView.open(counting)
    assert view.base.key == one.path
    assert counting.rounds == 2
    later = [entry_key(v) for v in range(one.version, one.version + FIRST_WINDOW + 1)]
    first = [HINT, *(entry_key(v) for v in range(FIRST_WINDOW))]
    assert sorted(key for _, key in counting.requests) == sorted([*first, one.path, *later])
    assert {verb for verb, _ in counting.requests} == {"get"}
    counting.requests.clear()
    view.refresh()
    assert counting.requests == [("get", entry_key(table.version + 1))]


def test_a_table_that_was_dropped_stays_so_and_another_goes_on(tmp_path: Path) -> None:
    """CKP-5, ENT-14: checkpoints of the last version of one table, and of the other's first."""
    uri = str(tmp_path / "t")
    table = tablefmt.create(uri, "id BIGINT")
    table.append({"id": [1, 2]})
    old = table.checkpoint()
    tablefmt.drop(uri)
    store = table.context.store
    with pytest.raises(TableReplacedError, match="ENT-14"):
        checkpoint_at(store, 2, SYSTEM.nonce)
    assert not tablefmt.exists(uri)
    with pytest.raises(TableNotFoundError):
        tablefmt.open(uri)
    other = tablefmt.create(uri, "name STRING")
    other.append({"name": ["x"]})
    new = other.checkpoint()
    other.append({"name": ["y"]})
    for key in (old.path, new.path):
        write_hint(store, table.id, Hint(4, key))
        again = tablefmt.open(uri)
        assert again.context.view.base.key == key
        assert (again.id, again.to_arrow()["name"].to_pylist()) == (other.id, ["x", "y"])
        assert again.id != table.id


def agrees(seed: int) -> bool:
    """Return True if the second of two checkpoints equals the log."""
    store, table = grown(seed, steps=8)
    one = written(store)
    grow(table, random.Random(seed + 1), 5)
    table.alter.add_column("later", "int")
    table.append(rows(1, 2, 3, p="c"), application=("last", seed))
    taken(table, rows(4, p="c"), "last", seed)
    table.delete("id = 3")
    root = checkpoint_of(LogView.open(store, whole=True), SYSTEM.nonce, one.known)
    table.append(rows(8, p="b"))
    whole = LogView.open(store, whole=True)
    write_hint(store, table.id, Hint(table.version, root.path))
    view = LogView.open(store)
    version = table.version
    same = said_of(view, version) == said_of(whole, version)
    same &= view.metadata_version_at(root.version) == whole.metadata_version_at(root.version)
    # A checkpoint that is found to be wrong is given up (CKP-6), and tells nothing then.
    same &= view.snapshot(version).history.checkpoint == root.path
    return same and view.base.key == root.path and view.read_head == whole.read_head


def bad_kept(real: Any) -> Any:
    """Forget the deleted lines."""
    return lambda *given: [replace(one, gone=None) for one in real(*given)]


def bad_deletes(real: Any) -> Any:
    """Forget the rows deleted since the previous checkpoint."""

    def deletes(store: Any, state: Any, ids: Any, nonce: Any, before: Any) -> Any:
        return (before.root.deletes if before else real(store, state, ids, nonce, before)[0]), []

    return deletes


def bad_state(real: Any) -> Any:
    """Applications are left out."""
    return lambda head, *rest: real(replace(head, applications={}), *rest)


def bad_cursors(real: Any) -> Any:
    """Cursors are left out."""
    return lambda head, *rest: real(replace(head, cursors={}), *rest)


def bad_described(real: Any) -> Any:
    """The metadata came with the version."""
    return lambda head, created, described, files: real(head, created, head.version, files)


def bad_again(real: Any) -> Any:
    """A segment that stays is of other files."""

    def again(kept: Any, metadata: Any, before: Any) -> Any:
        part = real(kept, metadata, before)
        return replace(
            part,
            bounds={
                name: {**b, "upper": b["lower"]} for name, b in part.bounds.items() if "lower" in b
            },
        )

    return again


@pytest.mark.slow
@pytest.mark.share(2)
@pytest.mark.broken_tables
@pytest.mark.parametrize(
    ("place", "bad"),
    [
        ("tablefmt.snapshot.checkpoint_writer.kept_segments", bad_kept),
        ("tablefmt.snapshot.checkpoint_writer._deletes", bad_deletes),
        ("tablefmt.session.checkpoint_writing.State", bad_state),
        ("tablefmt.session.checkpoint_writing.State", bad_cursors),
        ("tablefmt.session.checkpoint_writing.State", bad_described),
        ("tablefmt.snapshot.checkpoint_writer._again", bad_again),
    ],
)
def test_writers_that_are_wrong_are_caught(
    place: str, bad: Callable[[Any], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """CKP-1, CKP-7: the comparison tells each of them from one that is right."""
    # The second checkpoint reuses no part of the first.
    monkeypatch.setattr(segment_reuse, "SEGMENT_FILES", 1)
    monkeypatch.setattr(segment_reuse, "REMOVED_SHARE", 1)
    module, _, name = place.rpartition(".")
    real = getattr(importlib.import_module(module), name)
    seeds = range(20, 24)
    assert all(agrees(seed) for seed in seeds)
    monkeypatch.setattr(place, bad(real))
    assert not all(agrees(seed) for seed in seeds)


@pytest.mark.parametrize("seed", range(3))
def test_some_columns_and_ids_are_those_of_all_files(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CKP-3, PRN-1: bounds are read only if needed, in a checkpoint and in later entries."""
    monkeypatch.setattr(checkpoint_writer, "SEGMENT_FILES", 3)
    store, table = grown(seed, steps=10)
    written(store)
    table.append(rows(70, 80, p="c"))
    table.delete("id = 70")
    for at in (table.version, table.version - 2):
        snapshot = handle(store).context.view.snapshot(at)
        some = snapshot.files_with(("path", "size"))
        known = {"path", "size", "id", "added", "deleted"}
        assert {n for n in some.column_names if not n.startswith("partition.")} == known
        assert some.equals(snapshot.files.select(some.column_names))
        for text in ("id = 70", "id < 5 OR p = 'c'", "id IS NULL", "p = 'none'"):
            predicate = handle(store).scan(where=text).predicate
            assert predicate is not None
            matching = snapshot.matching(predicate)["id"].to_pylist()
            assert snapshot.ids_matching(predicate).tolist() == matching
    counting = CountingStore(store)
    fresh = handle(counting).context.view.snapshot()
    fresh.files_with(("path",))
    assert fresh.files_with(()).num_rows == fresh.sums.files


def test_a_kept_segment_has_bounds_in_the_types_of_now() -> None:
    """CKP-4: none of a column that was dropped, and counts alone of one that was widened."""
    store = memory()
    table = Table(create(store, "id INT, n INT, gone INT"))
    schema = table.schema
    for first in range(0, 30, 10):
        table.append(pa.table([pa.array([first, None], pa.int32())] * 3, schema.names))
    before = written(store)
    assert {*before.known.root.segments[0].bounds} == {"1", "2", "3"}
    table.alter.drop_column("gone")
    table.alter.widen_column("n", "BIGINT")
    table.alter.add_column("new", "INT")
    after = written(store, before.known)
    (older,), (kept,) = before.known.root.segments, after.known.root.segments
    assert kept.path == older.path
    assert kept.bounds == {"1": older.bounds["1"], "2": {"nulls": older.bounds["2"]["nulls"]}}
    same = written(store, after.known).known.root.segments
    assert [part.bounds for part in same] == [kept.bounds]


def test_a_checkpoint_counts_the_parts_that_it_wrote() -> None:
    """CKP-7: new segments and new deleted rows; those that are kept are not counted."""
    store = memory()
    table = new_table(store)
    table.append(rows(*range(8)))
    first = written(store)
    assert (first.parts, first.written_parts, first.files) == (1, 1, 1)
    table.delete("id < 2")
    second = written(store, first.known)
    assert (second.parts, second.written_parts) == (2, 1)
    table.append(rows(8))
    third = written(store, second.known)
    assert (third.parts, third.written_parts, third.files) == (2, 1, 2)
    table.delete("id = 8 or id = 3")
    fourth = written(store, third.known)
    sizes = {one.key: one.size for one in store.list_after("_log/checkpoints/")}
    new = [part for part in (*fourth.known.root.segments, *fourth.known.root.deletes)
           if part.path not in {p.path for p in (*third.known.root.segments,
                                                 *third.known.root.deletes)}]  # fmt: skip
    assert fourth.written_parts == len(new)
    assert fourth.written_bytes == sizes[fourth.path] + sum(sizes[part.path] for part in new)
    again = written(store, fourth.known)
    assert (again.parts, again.written_parts) == (fourth.parts, 0)


def test_files_of_the_null_partition_alone_are_known_to_be_there() -> None:
    """CKP-3: NULL is a value of a partition column; a bound that is NULL is unknown."""
    store = memory()
    table = Table(create(store, "id INT, p STRING", partition_by=["p"]))
    for number in range(3):
        table.append(
            pa.table({"id": pa.array([number], pa.int32()), "p": pa.nulls(1, pa.string())})
        )
    found = written(store)
    (segment,) = found.known.root.segments
    columns = pq.read_schema(pa.BufferReader(store.get(segment.path))).names
    assert "partition.2" in columns
    assert "lower.2" not in columns
    opened = handle(store)
    assert opened.scan(where="p is null").files().num_rows == 3
    assert opened.scan(where="p = 'a'").files().num_rows == 0


def test_own_paths_are_not_compared_with_those_of_a_checkpoint() -> None:
    """ADD-1: a path with its own transaction is new; that of a restore may be a known one."""
    store = memory()
    table = new_table(store)
    table.append(rows(1, 2))
    table.append(rows(3))
    table.checkpoint()
    reader = handle(store)
    table.append(rows(4))
    reader.refresh()
    assert not reader.context.view.snapshot().history.is_held
    assert not reader.context.view.snapshot().history.readded
    table.truncate("id = 3")
    table.restore(2)
    reader.refresh()
    assert reader.context.view.snapshot().history.readded
    assert sorted(ids(reader)) == [1, 2, 3]


def test_runs_of_deleted_rows_are_merged_like_a_counter() -> None:
    """RPL-3: a run is merged with the one before it, unless that is more than twice as long."""
    store = memory()
    table = new_table(store, deleteMode="merge-on-read")
    table.append(rows(*range(20)))
    reader, lengths = handle(store), []
    for value in range(9):
        table.delete(f"id = {value}")
        reader.refresh()
        history = reader.context.view.snapshot().history
        lengths.append([len(one) for one in history.deltas])
    assert lengths == [[1], [2], [3], [3, 1], [5], [5, 1], [5, 2], [8], [8, 1]]


def test_removed_files_are_counted() -> None:
    """RPL-3: a view tells how many of its files only older versions have."""
    table = new_table(memory())
    counts = []
    for value in range(3):
        table.append(rows(value))
    for condition in ("id = 0", "id = 2"):
        table.truncate(condition)
        history = handle(table.context.store).context.view.snapshot().history
        counts.append((history.live, history.removed))
    assert counts == [(2, 1), (1, 2)]


def test_a_segment_is_copied_once_a_fold(monkeypatch: pytest.MonkeyPatch) -> None:
    """RPL-3: a fold writes to its own segments, and copies those that others may hold."""
    store = memory()
    table = new_table(store)
    for value in range(8):
        table.append(rows(value))
    copied: list[int] = []
    right = ManifestSegment.writable

    def writable(self: ManifestSegment, *given: Any) -> ManifestSegment:
        copied.append(len(self))
        return right(self, *given)

    monkeypatch.setattr(ManifestSegment, "writable", writable)
    reader = handle(store)
    assert ids(reader) == list(range(8))
    for value in range(3):
        table.truncate(f"id = {value}")
    copied.clear()
    assert ids(handle(store)) == list(range(3, 8))
    assert copied == []
    assert ids(reader.refresh()) == list(range(3, 8))
    assert copied == [8]


def test_only_a_whole_view_keeps_all_removed_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """RPL-3: another one reads them again when an older version asks for them."""
    monkeypatch.setattr("tablefmt.snapshot.folding.REMOVED_MAX", 0)
    store = memory()
    table = new_table(store)
    for value in range(6):
        table.append(rows(value))
    table.truncate("id < 5")
    gone = {}
    for whole in (True, False):
        view = LogView.open(store, whole=whole)
        assert view.snapshot().history.live == 1
        gone[whole] = view.snapshot().history.removed
    assert (gone[True], gone[False] < 5) == (5, True)
    assert ids(handle(store), 6) == list(range(6))
