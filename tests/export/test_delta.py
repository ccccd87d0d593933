"""Delta as a target: all rows of every version by foreign readers, and the log that they read."""

from __future__ import annotations

import itertools
import json
import shutil
import threading
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import tablefmt
from tablefmt.cli.main import main
from tablefmt.errors import CorruptTableError, ExportBlockedError, UnsupportedFeatureError
from tablefmt.export import delta_target
from tablefmt.export.delta_schema import KEEP_OUT
from tablefmt.export.delta_target import LOG, DeltaTarget, checkpoint_key, commit_key
from tablefmt.export.delta_vectors import vectors_key
from tablefmt.export.export_run import Exporter
from tablefmt.export.export_target import Mark
from tablefmt.export.table_export import copies_of
from tablefmt.log.object_names import entry_key
from tablefmt.store.object_store import Request, Store
from tablefmt.store.store_wrappers import CountingStore
from tests.export.foreign_readers import DuckDBDelta, delta_rs
from tests.export.shapes import MAKERS, differ
from tests.export.test_export_run import Dying, Killed
from tests.imports.sources import alike, hive
from tests.imports.test_iceberg_tables import made as iceberg_table
from tests.places import GOLDEN
from tests.tables import Clock, handle, memory, new_table, rows

Read = Callable[[str, int], pa.Table]


@pytest.fixture(scope="module")
def duck(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DuckDBDelta]:
    """DuckDB with its extension for Delta."""
    reader = DuckDBDelta(tmp_path_factory.mktemp("duckdb"), "delta")
    yield reader
    reader.close()


@pytest.fixture(params=["delta-rs", "duckdb"])
def read(request: pytest.FixtureRequest) -> Read:
    """A foreign reader of all rows of a version."""
    if request.param == "duckdb":
        duck: DuckDBDelta = request.getfixturevalue("duck")
        return duck.read
    pytest.importorskip("deltalake", reason="delta-rs is not installed")
    return delta_rs


@pytest.fixture(scope="module")
def shapes(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], tablefmt.Table]:
    """Tables of `shapes`, each made and exported once."""
    folder, made = tmp_path_factory.mktemp("shapes"), {}

    def shape(name: str) -> tablefmt.Table:
        if name not in made:
            made[name] = MAKERS[name](str(folder / name))
            made[name].export("delta", start=0)
        return made[name]

    return shape


def path_of(table: tablefmt.Table) -> str:
    return str(table.uri).removeprefix("file://")


def actions(table: tablefmt.Table, version: int) -> list[dict[str, Any]]:
    """The actions of a commit file."""
    body = table.context.store.get(commit_key(version))
    return [json.loads(line) for line in body.splitlines()]


def said(table: tablefmt.Table, name: str, version: int | None = None) -> dict[str, Any]:
    """The last action of a name up to a version."""
    found: dict[str, Any] = {}
    last = table.version if version is None else version
    for at in range(last + 1):
        found = next((a[name] for a in actions(table, at) if name in a), found)
    return found


def mark_of(table: tablefmt.Table, version: int) -> Mark:
    mark = DeltaTarget().read_mark(table.context.store.get(commit_key(version)))
    assert mark is not None
    return mark


WIDENED = 2
"""The first version of `wider` with a wider type, which delta-rs does not read."""


@pytest.mark.slow
@pytest.mark.share(7)
@pytest.mark.parametrize("name", list(MAKERS))
def test_every_version_has_its_rows(
    name: str, shapes: Callable[[str], tablefmt.Table], read: Read
) -> None:
    """XPT-2, XPT-6 .. XPT-9: odd partition text, NULL, "", all types, renames, names used again."""
    table = shapes(name)
    last = WIDENED - 1 if (name, read) == ("wider", delta_rs) else table.version
    for version in range(last + 1):
        wanted = table.to_arrow(version=mark_of(table, version).shown)
        assert differ(read(path_of(table), version), wanted) == "", version


def golden_tables() -> list[str]:
    """Sound golden tables."""
    found = []
    for case in sorted(GOLDEN.iterdir()):
        if case.is_dir():
            expected = json.loads((case / "expected.json").read_text(encoding="utf-8"))
            if "error" not in expected and "remarks" not in expected:
                found.append(case.name)
    return found


QUESTIONS = [
    "id > 205",
    "id = 7",
    "region = 'EU'",
    "region = ''",
    "region IS NULL",
    "day IS NULL",
    "day = DATE '1970-01-01'",
    "s >= 'text 9'",
    "s IS NULL",
    "m > 0.25",
    "i8 < -45",
    "f > 20",
    "d > 1000",
    "d < 0.1",
    "ts >= TIMESTAMP '2024-03-31 03:00:00.123456'",
    "tn < TIMESTAMP '1955-05-05 05:05:05.000050'",
    "b",
]


@pytest.mark.slow
def test_conditions_that_go_by_bounds_lose_no_row(
    shapes: Callable[[str], tablefmt.Table], duck: DuckDBDelta
) -> None:
    """XPT-9: rounded times, NaN, infinities, cut text, NULL."""
    table = shapes("types")
    for condition in QUESTIONS:
        wanted = sorted(table.to_arrow(columns=["id"], where=condition)["id"].to_pylist())
        sql = condition.replace("ts >= TIMESTAMP", "ts >= TIMESTAMPTZ").replace("456'", "456+00'")
        if "tn" in condition:
            sql = condition
        found = duck.query(f"SELECT id FROM delta_scan('{path_of(table)}') WHERE {sql}")
        assert sorted(found["id"].to_pylist()) == wanted, condition


def test_a_plain_table_asks_readers_for_nothing() -> None:
    """XPT-6."""
    table = new_table(partitioned=True)
    table.append(rows(1, 2))
    table.export("delta", start=0)
    protocol = said(table, "protocol")
    assert (protocol["minReaderVersion"], protocol["minWriterVersion"]) == (1, 7)
    assert "readerFeatures" not in protocol
    assert protocol["writerFeatures"] == ["inCommitTimestamp", KEEP_OUT]
    assert said(table, "metaData")["partitionColumns"] == []


@pytest.mark.parametrize(
    ("name", "features"),
    [
        ("types", ["deletionVectors", "timestampNtz"]),
        ("evolved", ["columnMapping", "deletionVectors"]),
        ("wider", ["timestampNtz", "typeWidening"]),
        ("big_deletes", ["deletionVectors"]),
    ],
)
def test_only_needed_features_are_asked_for(
    name: str, features: list[str], shapes: Callable[[str], tablefmt.Table]
) -> None:
    """XPT-6: named features with reader version 3, never version 2."""
    protocol = said(shapes(name), "protocol")
    assert (protocol["minReaderVersion"], protocol["readerFeatures"]) == (3, features)
    assert KEEP_OUT in protocol["writerFeatures"]


def test_delta_writers_are_kept_out(tmp_path: Path) -> None:
    """XPT-6: append, delete, vacuum and optimize of delta-rs refuse; our rows are the same."""
    deltalake = pytest.importorskip("deltalake")
    table = tablefmt.create(tmp_path / "t", "id BIGINT, p STRING")
    table.append(rows(7))
    table.overwrite(rows(1))
    table.append(rows(2))
    table.export("delta", start=0)
    path = path_of(table)
    verbs: list[Callable[[], Any]] = [
        lambda: deltalake.write_deltalake(path, rows(3), mode="append"),
        lambda: deltalake.DeltaTable(path).delete("id = 1"),
        lambda: deltalake.DeltaTable(path).vacuum(
            0, dry_run=False, enforce_retention_duration=False
        ),
        lambda: deltalake.DeltaTable(path).optimize.compact(),
    ]
    for verb in verbs:
        with pytest.raises(Exception, match=KEEP_OUT):
            verb()
    assert deltalake.DeltaTable(path).version() == table.version
    assert sorted(delta_rs(path, table.version)["id"].to_pylist()) == [1, 2]
    assert table.to_arrow(version=1)["id"].to_pylist() == [7]


def test_a_generated_column_is_a_plain_one_of_a_copy(tmp_path: Path, read: Read) -> None:
    """XPT-6, GEN-1: its values are in the files, and no reader prunes by the expression."""
    ddl = "id BIGINT, ts TIMESTAMP, day DATE GENERATED ALWAYS AS (CAST(ts AS DATE))"
    table = tablefmt.create(str(tmp_path / "t"), ddl, partition_by=["day"])
    table.append(_visits())
    table.export("delta")
    assert differ(read(table.uri, 1), table.to_arrow()) == ""
    for path in (tmp_path / "t" / "_delta_log").glob("*.json"):
        assert "generationExpression" not in path.read_text("utf-8")


def _visits() -> pa.Table:
    days = pa.array([20_000, 20_001], pa.int64())
    micros = pa.array([day.as_py() * 86_400_000_000 + 84_600_000_000 for day in days])
    return pa.table({"id": [1, 2], "ts": micros.cast(pa.timestamp("us", "UTC"))})


def test_only_exact_partition_columns_are_stated(
    shapes: Callable[[str], tablefmt.Table],
) -> None:
    """XPT-7: integers, dates and booleans; "" is NULL to Delta, and floats have no exact text."""
    assert said(shapes("types"), "metaData")["partitionColumns"] == ["day"]
    assert said(shapes("partitions"), "metaData")["partitionColumns"] == ["pi", "pz"]


def test_vectors_are_inline_or_in_one_object(shapes: Callable[[str], tablefmt.Table]) -> None:
    """XPT-8: small ones in the line; one object a commit, named by its version."""
    small = [
        a["add"]["deletionVector"]
        for version in range(shapes("types").version + 1)
        for a in actions(shapes("types"), version)
        if "deletionVector" in a.get("add", {})
    ]
    assert small
    assert {vector["storageType"] for vector in small} == {"i"}
    table = shapes("big_deletes")
    assert not Path(path_of(table), vectors_key(table.id, 2)).exists()
    for version in (3, 4):
        assert Path(path_of(table), vectors_key(table.id, version)).exists()
        found = [a["add"] for a in actions(table, version) if "add" in a]
        assert {add["deletionVector"]["storageType"] for add in found} == {"u"}
        assert all('"tightBounds":false' in add["stats"] for add in found)


def test_times_of_commits_rise() -> None:
    """XPT-10: by at least a millisecond, whatever the clock says."""
    table = new_table(clock=Clock())
    for number in range(4):
        table.append(rows(number))
    table.export("delta", start=0)
    first = [actions(table, v)[0]["commitInfo"] for v in range(table.version + 1)]
    times = [info["inCommitTimestamp"] for info in first]
    assert all(b > a for a, b in itertools.pairwise(times))
    assert {info["timestamp"] for info in first} == {times[0]}
    configuration = said(table, "metaData")["configuration"]
    assert configuration["delta.enableInCommitTimestamps"] == "true"


def test_a_default_of_older_rows_is_held_until_their_files_are_rewritten(
    tmp_path: Path, read: Read
) -> None:
    """XPT-5, XPT-11."""
    table = tablefmt.create(tmp_path / "t", "id BIGINT, p STRING")
    table.append(rows(1, 2))
    table.delete("id = 2")
    assert table.export("delta", start=0).held is None
    table.alter.add_column("n", "INT", default=7)
    table.append([{"id": 3, "n": 1}])
    report = table.export("delta")
    assert (report.exported, report.shown, table.version) == (4, 2, 4)
    assert "'n'" in str(report.held)
    assert "shows version 2" in str(report)
    assert [list(a) for a in actions(table, 4)] == [["commitInfo"]]
    assert differ(read(path_of(table), 4), table.to_arrow(version=2)) == ""
    table.compact("major")
    if table.version == 4:
        table.update({"p": "'x'"}, "id = 1")
    report = table.export("delta")
    assert (report.held, report.shown) == (None, table.version)
    assert differ(read(path_of(table), table.version), table.to_arrow()) == ""


def test_no_copy_begins_with_such_a_default(tmp_path: Path) -> None:
    """XPT-11."""
    table = tablefmt.create(tmp_path / "t", "id BIGINT, p STRING")
    table.append(rows(1, 2))
    table.alter.add_column("n", "INT", default=7)
    with pytest.raises(UnsupportedFeatureError, match=r"cannot begin with version 2.*'n'"):
        table.export("delta")
    assert not (tmp_path / "t" / "_delta_log").exists()


@pytest.mark.share(2)
@pytest.mark.slow
@pytest.mark.parametrize("start", ["head", 3, 9])
def test_a_copy_may_begin_late(
    start: Any, shapes: Callable[[str], tablefmt.Table], tmp_path: Path, read: Read
) -> None:
    """XPT-4: a checkpoint, its commit, then commits."""
    shutil.copytree(path_of(shapes("types")), tmp_path / "t", ignore=_copies)
    table = tablefmt.open(tmp_path / "t")
    table.export("delta", start=start)
    first = table.version if start == "head" else start
    table.delete("id % 5 = 0")
    table.export("delta")
    for version in range(first, table.version + 1):
        assert differ(read(path_of(table), version), table.to_arrow(version=version)) == ""
    assert not (tmp_path / "t" / commit_key(first - 1)).exists()


def _copies(folder: str, names: list[str]) -> list[str]:
    return [name for name in names if name == "_delta_log" or name.endswith(".bin")]


def test_types_that_became_wider_before_the_start_are_known(
    shapes: Callable[[str], tablefmt.Table], tmp_path: Path, duck: DuckDBDelta
) -> None:
    """XPT-6: files of the narrow types are still there."""
    shutil.copytree(path_of(shapes("wider")), tmp_path / "t", ignore=_copies)
    table = tablefmt.open(tmp_path / "t")
    table.export("delta")
    assert mark_of(table, table.version).state["features"] == ["timestampNtz", "typeWidening"]
    assert differ(duck.read(path_of(table), table.version), table.to_arrow()) == ""


def test_the_columns_of_the_copies_of_a_deep_clone_are_known(
    shapes: Callable[[str], tablefmt.Table], tmp_path: Path, duck: DuckDBDelta
) -> None:
    """CLN-3, ADD-9: its one entry has files that were written under several schemas."""
    wide = shapes("wider").clone(tmp_path / "wide", shallow=False)
    wide.export("delta", start=0)
    assert mark_of(wide, 0).state["features"] == ["timestampNtz", "typeWidening"]
    assert mark_of(wide, 0).state["changes"] == mark_of(shapes("wider"), 7).state["changes"]
    assert differ(duck.read(path_of(wide), 0), wide.to_arrow()) == ""
    table = shapes("evolved").clone(tmp_path / "evolved", shallow=False)
    with pytest.raises(UnsupportedFeatureError, match="'num' has a default for rows written"):
        table.export("delta")
    table.compact("major")
    assert not table.export("delta").held
    assert differ(duck.read(path_of(table), table.version), table.to_arrow()) == ""
    shallow = shapes("wider").clone(tmp_path / "shallow")
    with pytest.raises(UnsupportedFeatureError, match="outside the table's folder"):
        shallow.export("delta")


def test_a_restore_takes_type_changes_back(tmp_path: Path, duck: DuckDBDelta) -> None:
    """XPT-6."""
    table = tablefmt.create(tmp_path / "t", "id BIGINT, n INT")
    table.append([{"id": 1, "n": 1}])
    table.alter.widen_column("n", "BIGINT")
    table.append([{"id": 2, "n": 1 << 40}])
    table.restore(version=1)
    table.alter.widen_column("n", "DOUBLE")
    table.append([{"id": 3, "n": 0.5}])
    table.export("delta", start=0)
    for version in range(table.version + 1):
        found = duck.read(path_of(table), version)
        assert differ(found, table.to_arrow(version=version)) == "", version
    fields = json.loads(said(table, "metaData")["schemaString"])["fields"]
    assert fields[1]["metadata"]["delta.typeChanges"] == [
        {"fromType": "integer", "toType": "double"}
    ]


@pytest.mark.slow
def test_checkpoints_hold_the_whole_state(
    shapes: Callable[[str], tablefmt.Table],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    read: Read,
) -> None:
    """XPT-10: older commits may be removed."""
    monkeypatch.setattr(delta_target, "CHECKPOINT_EVERY", 3)
    for name in ("types", "big_deletes", "nested"):
        shutil.copytree(path_of(shapes(name)), tmp_path / name, ignore=_copies)
        table = tablefmt.open(tmp_path / name)
        table.export("delta", start=0)
        hint = json.loads((tmp_path / name / LOG / "_last_checkpoint").read_text())
        assert hint["version"] == table.version - table.version % 3
        for version in range(hint["version"]):
            (tmp_path / name / commit_key(version)).unlink()
        for version in range(hint["version"], table.version + 1):
            wanted = table.to_arrow(version=version)
            assert differ(read(path_of(table), version), wanted) == "", (name, version)


def copied_log(store: Store) -> dict[str, bytes]:
    """All objects of a copy."""
    found = [*store.list_after(LOG), *store.list_after("deletion_vector_")]
    return {one.key: store.get(one.key) for one in found}


def deleting_table(store: Store | None = None) -> tablefmt.Table:
    """Deletes with vectors inline and in objects, also of files that a restore brings back."""
    table = new_table(store)
    for number in range(2):
        table.append(rows(*range(number * 5000, number * 5000 + 5000)))
    table.delete("id % 7 = 0 OR id % 11 = 3")
    table.delete("id = 5")
    table.truncate("id >= 5000")
    table.delete("id % 13 = 1")
    table.restore(version=4)
    table.delete("id % 13 = 2")
    return table


@pytest.mark.slow
def test_an_exporter_may_die_at_any_put(monkeypatch: pytest.MonkeyPatch) -> None:
    """XPT-1: every object has the bytes of one undisturbed export, and nothing is left over."""
    monkeypatch.setattr(delta_target, "CHECKPOINT_EVERY", 3)
    table = deleting_table()
    store = table.context.store
    table.export("delta", start=1)
    undisturbed = copied_log(store)
    assert len([key for key in undisturbed if key.endswith(".bin")]) >= 3
    for puts in range(1, 60):
        for after in (False, True):
            for key in copied_log(store):
                store.delete(key)
            dying = handle(Dying(store, puts, after))
            try:
                dying.export("delta", start=1)
            except Killed:
                handle(store).export("delta", start=1)
            last = f"{LOG}_last_checkpoint"
            found = copied_log(store)
            missing = set(undisturbed) - set(found)
            # A checkpoint that was due when the process died may be missing.
            assert all(key == last or "checkpoint" in key for key in missing)
            assert {k: v for k, v in found.items() if k != last} == {
                k: v for k, v in undisturbed.items() if k in found and k != last
            }
            if dying.context.store.left > 0:  # type: ignore[attr-defined]
                return
    raise AssertionError("it never ends")


def test_four_exporters_race(tmp_path: Path) -> None:
    """XPT-1, XPT-3: cold handles of their own, while a writer commits."""
    table = tablefmt.create(tmp_path / "t", "id BIGINT, p STRING")
    table.append(rows(*range(2000)))
    wrong: list[BaseException] = []
    over = threading.Event()

    def keep_exporting() -> None:
        try:
            while not over.is_set():
                tablefmt.open(tmp_path / "t").export("delta", start=0)
        except BaseException as error:
            wrong.append(error)

    threads = [threading.Thread(target=keep_exporting) for _ in range(4)]
    for thread in threads:
        thread.start()
    for number in range(12):
        table.append(rows(10_000 + number)) if number % 3 else table.delete(f"id % 17 = {number}")
    over.set()
    for thread in threads:
        thread.join()
    assert wrong == []
    report = tablefmt.open(tmp_path / "t").export("delta")
    assert report.exported == table.version
    raced = copied_log(table.context.store)
    for key in raced:
        table.context.store.delete(key)
    tablefmt.open(tmp_path / "t").export("delta", start=0)
    assert copied_log(table.context.store) == raced


def test_commits_of_another_program_block_the_export(tmp_path: Path) -> None:
    """XPT-3: a Delta table in the same folder, and a commit put into our copy."""
    table = tablefmt.create(tmp_path / "t", "id BIGINT, p STRING")
    table.append(rows(1))
    theirs = {"commitInfo": {"timestamp": 1, "operation": "WRITE"}}
    (tmp_path / "t" / LOG).mkdir()
    foreign = tmp_path / "t" / commit_key(0)
    foreign.write_text(json.dumps(theirs) + "\n")
    with pytest.raises(ExportBlockedError, match="not written by tablefmt"):
        table.export("delta")
    assert [p.name for p in (tmp_path / "t" / LOG).iterdir()] == [foreign.name]
    foreign.unlink()
    table.export("delta")
    later = tmp_path / "t" / commit_key(table.version + 1)
    later.write_text(json.dumps(theirs) + "\n")
    table.append(rows(2))
    with pytest.raises(ExportBlockedError, match="not written by tablefmt"):
        table.export("delta")
    assert json.loads(later.read_text()) == theirs


@pytest.mark.parametrize("to", ["delta", "iceberg"])
def test_an_export_on_demand_knows_what_the_copy_was_made_from(to: Any) -> None:
    """XPT-3: the newest entry of the log was lost, or another entry replaced it."""
    table = new_table()
    for number in range(3):
        table.append(rows(number))
    table.export(to)
    store = table.context.store
    store.delete(entry_key(table.version))
    with pytest.raises(ExportBlockedError, match=f"no version {table.version}"):
        handle(store).export(to)
    handle(store).append(rows(7, 8))
    again = handle(store)
    assert again.version == table.version
    for _ in range(2):
        with pytest.raises(ExportBlockedError, match="made from another entry"):
            again.export(to)


def test_an_export_on_demand_knows_the_copy_of_another_table() -> None:
    """XPT-3: whatever versions it has; `describe` does not take it for the table's either."""
    one, other = new_table(), new_table()
    one.append(rows(1))
    one.export("delta")
    for _ in range(2):
        other.append(rows(2))
    for found in one.context.store.list_after(LOG):
        other.context.store.put(found.key, one.context.store.get(found.key))
    with pytest.raises(ExportBlockedError, match=f"copy of the table {one.id}"):
        other.export("delta")
    other.alter.set_properties({"export": "delta"})
    copies = copies_of(other.context.store, other.context.view)
    assert copies == {"delta": {"status": "no copy yet, or a copy of another program"}}


def test_a_checkpoint_of_another_program_blocks_the_export() -> None:
    """XPT-3, XPT-10: readers would begin with it. One of the same files is no other one."""
    table, other = new_table(), new_table()
    for one in (table, other):
        one.append(rows(1, 2, 3))
    other.export("delta")
    store, key = table.context.store, checkpoint_key(1)
    foreign = other.context.store.get(key)
    start = json.dumps({"table": table.id, "start": 1}).encode()
    for body, why in ((foreign, "not written by tablefmt"), (b"PAR1", "another program wrote it")):
        store.put(key, body)
        with pytest.raises(ExportBlockedError, match=rf"0001\.checkpoint\.parquet: .*{why}"):
            table.export("delta")
        assert store.get(key) == body
        assert commit_key(1) not in {one.key for one in store.list_after(LOG)}
        store.put(DeltaTarget().start_key, start)
    store.delete(key)
    table.export("delta")
    made = store.get(key)
    for left in list(store.list_after(LOG)):
        store.delete(left.key)
    sink = pa.BufferOutputStream()
    pq.write_table(pq.read_table(pa.BufferReader(made)), sink, compression="none")
    again = sink.getvalue().to_pybytes()
    assert again != made
    store.put(key, again)
    store.put(DeltaTarget().start_key, start)
    exporter = Exporter(store, DeltaTarget(), sleep=lambda seconds: None)
    assert exporter.run(table.context.view).written == 1
    assert store.get(key) == again
    store.put(checkpoint_key(7), foreign)
    table.append(rows(4))
    with pytest.raises(ExportBlockedError, match=r"0007\.checkpoint\.parquet"):
        Exporter(store, DeltaTarget(), sleep=lambda seconds: None).run(table.context.view)


def test_what_a_commit_needs_is_the_exporters_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """XPT-3: a vector object, and the checkpoint that is due, under names that can be foreseen."""
    monkeypatch.setattr(delta_target, "CHECKPOINT_EVERY", 2)
    table = new_table()
    store, view = table.context.store, table.context.view
    exporter = Exporter(store, DeltaTarget(), sleep=lambda seconds: None)
    table.append(rows(*range(5000)))
    exporter.run(view, start=1)
    table.delete("id % 7 = 0")
    store.put(vectors_key(table.id, 2), b"theirs")
    with pytest.raises(ExportBlockedError, match=r"deletion_vector_.*: another program"):
        exporter.run(view)
    store.delete(vectors_key(table.id, 2))
    exporter.run(view)
    table.append(rows(1))
    store.put(checkpoint_key(3), b"theirs")
    with pytest.raises(ExportBlockedError, match=r"0003\.checkpoint.*: another program"):
        exporter.run(view)
    assert store.get(checkpoint_key(3)) == b"theirs"


def test_requests_of_a_warm_commit() -> None:
    """XPT-1: one PUT, two with a vector object; a commit that moves nothing too."""
    store = CountingStore(memory())
    table = new_table(store)
    table.append(rows(*range(5000)))
    exporter = Exporter(store, DeltaTarget(), sleep=lambda seconds: None)
    exporter.run(table.context.view, start=0)

    def puts(change: Callable[[], object]) -> dict[Request, int]:
        change()
        before = store.tally.sums()
        assert exporter.run(table.context.view).written == 1
        after = store.tally.sums()
        return {k: after[k] - before[k] for k in after if after[k] != before[k]}

    assert puts(lambda: table.append(rows(1))) == {Request.PUT: 1}
    assert puts(lambda: table.delete("id % 7 = 0")) == {Request.PUT: 2}
    assert puts(lambda: table.delete("id % 11 = 0")) == {Request.PUT: 2}
    assert puts(lambda: table.alter.rename_column("p", "q")) == {Request.PUT: 1}
    assert puts(lambda: table.restore(version=2)) == {Request.PUT: 1}


def test_a_copy_of_an_expired_log_goes_on(tmp_path: Path, read: Read) -> None:
    """XPT-1: the state that a commit needs is in the mark before it."""
    table = tablefmt.create(tmp_path / "t", "id BIGINT, n INT, p DATE", partition_by=["p"])
    table.append([{"id": i, "n": i} for i in range(3000)])
    table.alter.rename_column("n", "m")
    table.delete("id % 7 = 0")
    table.export("delta")
    table.append([{"id": 5000}])
    expired = table.expire_log(retention=0, dry_run=False, breaks_running_transactions=True)
    assert expired.deleted > 0
    table = tablefmt.open(tmp_path / "t")
    table.delete("id % 11 = 0")
    table.export("delta")
    assert differ(read(path_of(table), table.version), table.to_arrow()) == ""
    assert "columnMapping" in mark_of(table, table.version).state["features"]
    late = tmp_path / "late"
    shutil.copytree(path_of(table), late, ignore=_copies)
    again = tablefmt.open(late)
    again.export("delta")
    assert differ(read(str(late), again.version), again.to_arrow()) == ""


def test_the_property_exports_every_commit(tmp_path: Path, read: Read) -> None:
    """XPT-12: the commit's result says which version each copy shows."""
    table = tablefmt.create(tmp_path / "t", "id BIGINT, p STRING", properties={"export": "delta"})
    assert table.append(rows(1)).exports == {"delta": 1}
    commit = tablefmt.open(tmp_path / "t").append(rows(2))
    assert commit.exports == {"delta": 2}
    assert commit.to_arrow()["exports"].to_pylist() == [[("delta", 2)]]
    for version in range(3):
        assert differ(read(path_of(table), version), table.to_arrow(version=version)) == ""
    table.alter.unset_properties(["export"])
    assert table.append(rows(3)).exports == {}


def test_an_older_table_begins_at_its_head(tmp_path: Path) -> None:
    """XPT-4, XPT-12."""
    table = tablefmt.create(tmp_path / "t", "id BIGINT, p STRING")
    table.append(rows(1))
    commit = table.alter.set_properties({"export": "delta"})
    assert commit.exports == {"delta": 2}
    assert not (tmp_path / "t" / commit_key(1)).exists()


def test_a_commit_never_fails_by_its_export(tmp_path: Path, caplog: Any) -> None:
    """XPT-1, XPT-12: a blocked copy stays where it is, and the log says why."""
    table = tablefmt.create(tmp_path / "t", "id BIGINT, p STRING", properties={"export": "delta"})
    table.append(rows(1))
    (tmp_path / "t" / commit_key(2)).write_text("{}\n")
    assert table.append(rows(2)).exports == {"delta": 1}
    assert "blocked" in caplog.text
    assert sorted(table.to_arrow()["id"].to_pylist()) == [1, 2]
    with pytest.raises(ExportBlockedError):
        table.export("delta")


def test_a_default_is_refused_while_commits_are_exported(tmp_path: Path) -> None:
    """XPT-12: with column, reason and way out; `force` lets the copy hold, and `describe` says."""
    table = tablefmt.create(tmp_path / "t", "id BIGINT, p STRING", properties={"export": "delta"})
    table.alter.add_column("a", "INT", default=1)
    table.append(rows(1))
    with pytest.raises(UnsupportedFeatureError, match=r"delta.*'n'.*NULL.*UPDATE.*force=True"):
        table.alter.add_column("n", "INT", default=7)
    shown = table.version
    assert table.alter.add_column("n", "INT", default=7, force=True).exports == {"delta": shown}
    assert table.append(rows(2)).exports == {"delta": shown}
    described = CliRunner().invoke(main, ["describe", str(tmp_path / "t"), "--json"])
    copy = json.loads(described.output)["exports"]["delta"]
    assert (copy["version"], copy["behind"], copy["shows"]) == (table.version, 0, shown)
    assert "'n'" in copy["why"]


def test_a_target_that_cannot_show_the_table_is_refused(tmp_path: Path) -> None:
    """XPT-12: at the time the property is set."""
    table = tablefmt.create(tmp_path / "t", "id BIGINT, p STRING")
    table.append(rows(1))
    table.alter.add_column("n", "INT", default=7)
    with pytest.raises(UnsupportedFeatureError, match=r"cannot export the table to delta.*'n'"):
        table.alter.set_properties({"export": "delta"})
    assert table.alter.set_properties({"export": "delta"}, force=True).exports == {}
    table.update({"n": "8"})
    table.compact("major")
    assert table.append(rows(2)).exports == {"delta": table.version}


def test_vacuum_and_expiry_keep_what_a_copy_shows(tmp_path: Path) -> None:
    """XPT-12: a copy that holds, or that cannot be brought up."""
    table = tablefmt.create(tmp_path / "t", "id BIGINT, p STRING", properties={"export": "delta"})
    table.append(rows(1))
    table.overwrite(rows(2))
    table.alter.add_column("n", "INT", default=7, force=True)
    table.append(rows(3))
    how: Any = {"retention": 0, "dry_run": False, "breaks_running_transactions": True}
    assert mark_of(table, 4).shown == 2
    report = table.vacuum(**how)
    assert (report.deleted, report.oldest) == (1, 2)
    table.expire_log(**how)
    assert tablefmt.open(tmp_path / "t").to_arrow(version=2)["id"].to_pylist() == [2]


def test_a_drop_keeps_what_a_copy_shows(tmp_path: Path, read: Read) -> None:
    """RET-8, XPT-13: the copy stays readable, until a drop with the data removes it."""
    table = tablefmt.create(tmp_path / "t", "id BIGINT")
    table.append([{"id": 1}, {"id": 2}])
    table.export("delta")
    path, version = path_of(table), table.version
    tablefmt.drop(tmp_path / "t")
    assert sorted(read(path, version)["id"].to_pylist()) == [1, 2]
    tablefmt.drop(tmp_path / "t", delete_data=True)
    assert {at.name for at in (tmp_path / "t").iterdir()} == {"_log", "data"}


def test_nothing_that_a_blocked_copy_may_show_is_removed(tmp_path: Path) -> None:
    """XPT-12: the newest commit is another program's, so all versions from the start stay."""
    table = tablefmt.create(tmp_path / "t", "id BIGINT, p STRING")
    table.append(rows(0))
    table.overwrite(rows(1))
    table.export("delta")
    table.overwrite(rows(2))
    (tmp_path / "t" / commit_key(3)).write_text("{}\n")
    how: Any = {"retention": 0, "dry_run": False, "breaks_running_transactions": True}
    assert table.vacuum(**how).deleted == 1
    table.expire_log(**how)
    assert tablefmt.open(tmp_path / "t").to_arrow(version=2)["id"].to_pylist() == [1]


def test_the_command_exports(tmp_path: Path) -> None:
    """The same report as `Table.export`, and exit code 1 for an error."""
    table = tablefmt.create(tmp_path / "t", "id BIGINT, p STRING")
    table.append(rows(1))
    run = CliRunner().invoke(main, ["export", str(tmp_path / "t"), "--to", "delta", "--from", "0"])
    assert (run.exit_code, "2 versions written" in run.output) == (0, True), run.output
    again = CliRunner().invoke(main, ["export", str(tmp_path / "t"), "--to", "delta", "--json"])
    record = json.loads(again.output)
    assert (record["exported"], record["written"], record["first"]) == (1, 0, None)
    (tmp_path / "t" / commit_key(2)).write_text("{}\n")
    failed = CliRunner().invoke(main, ["export", str(tmp_path / "t"), "--to", "delta"])
    assert failed.exit_code == 1


@pytest.mark.parametrize("name", ["types", "evolved", "big_deletes"])
def test_verify_compares_a_copy_with_the_log(
    name: str, shapes: Callable[[str], tablefmt.Table], tmp_path: Path
) -> None:
    """XPT-1: a copy that lost a line, or a vector, is found."""
    shutil.copytree(path_of(shapes(name)), tmp_path / "t")
    command = ["export", str(tmp_path / "t"), "--to", "delta", "--check"]
    assert tablefmt.open(tmp_path / "t").verify().ok
    assert CliRunner().invoke(main, command).exit_code == 0
    version = max(
        v for v in range(shapes(name).version) if any("add" in a for a in actions(shapes(name), v))
    )
    body = (tmp_path / "t" / commit_key(version)).read_bytes().splitlines(keepends=True)
    kept = [line for line in body if not line.startswith(b'{"add"')]
    (tmp_path / "t" / commit_key(version)).write_bytes(b"".join(kept))
    report = tablefmt.open(tmp_path / "t").verify()
    assert [finding.rule for finding in report.findings] == ["XPT-1"]
    assert CliRunner().invoke(main, command).exit_code == 1


UNREADABLE = {
    "encodings": "the library of the reader lacks an encoding",
    "levels": "too deep for the reader",
    "repartitioned": "files without their partition columns, which no writer here makes (DAT-1)",
    "variants": "Arrow has no form of them",
}
"""Golden tables that foreign readers cannot read for a reason of their own."""

REFUSED = {
    "horizon-lost-checkpoint": CorruptTableError,
    "junk": ExportBlockedError,
    "names-apart": UnsupportedFeatureError,
}
"""Golden tables of which no copy can begin with the oldest version, and the error's class."""


@pytest.mark.slow
@pytest.mark.share(9)
@pytest.mark.parametrize("case", [name for name in golden_tables() if name not in UNREADABLE])
def test_golden_tables_read_right(case: str, tmp_path: Path, read: Read) -> None:
    """XPT-2: every kept version of every sound table."""
    shutil.copytree(GOLDEN / case / "table", tmp_path / "t")
    table = tablefmt.open(tmp_path / "t")
    oldest = table.context.view.timeline.oldest
    if case in REFUSED:
        with pytest.raises(REFUSED[case]):
            table.export("delta", start=oldest)
        return
    table.export("delta", start=oldest)
    for version in range(oldest, table.version + 1):
        mark = mark_of(table, version)
        if read is delta_rs and "typeWidening" in mark.state["features"]:
            return
        wanted = table.to_arrow(version=mark.shown)
        assert differ(read(path_of(table), version), wanted) == "", version


def test_a_copy_of_an_imported_folder_has_its_partition_values(tmp_path: Path, read: Read) -> None:
    """XPT-7, DAT-8: the files lack the columns of their folders; the copy states them."""
    rows = hive(tmp_path / "t")
    table = tablefmt.import_table(tmp_path / "t")
    table.export("delta")
    assert alike(read(path_of(table), table.version)) == alike(rows)
    table.append(rows.slice(0, 3))
    table.delete("region = 'EU' AND id > 20")
    table.export("delta")
    assert differ(read(path_of(table), table.version), table.to_arrow()) == ""


def test_a_copy_waits_while_delta_would_read_other_rows(tmp_path: Path, read: Read) -> None:
    """XPT-5, XPT-11: "" in a partition column, files elsewhere; compaction sets the copy free."""
    rows = hive(tmp_path / "t")
    here = tablefmt.import_table(tmp_path / "t")
    assert here.export("delta").held is None
    here.append([{"id": 99, "region": "", "n": 1}])
    assert "reads \"\" in the partition column 'region'" in str(here.export("delta").held)
    here.delete("id = 99")
    assert here.export("delta").held is None

    there = tablefmt.import_table(tmp_path / "t", into=tmp_path / "u")
    with pytest.raises(UnsupportedFeatureError, match="outside the table's folder"):
        there.export("delta")
    there.compact("major")
    assert there.export("delta").held is None
    assert alike(read(path_of(there), there.version)) == alike(rows)


def test_a_copy_waits_while_imported_files_may_lack_partition_values(tmp_path: Path) -> None:
    """XPT-7, XPT-11: a decimal has no text that Delta's readers agree on."""
    prices = pa.array([Decimal("1.5"), Decimal("2.5")], pa.decimal128(4, 1))
    ice = iceberg_table(tmp_path, pa.table({"id": [1, 2], "p": prices}).slice(0, 0))
    with ice.update_spec() as spec:
        spec.add_identity("p")
    ice.append(pa.table({"id": [1, 2], "p": prices}))
    table = tablefmt.import_table(tmp_path / "db" / "t")
    with pytest.raises(UnsupportedFeatureError, match="may lack the partition column 'p'"):
        table.export("delta")
