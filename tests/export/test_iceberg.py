"""Exports to Iceberg: rows in other readers, requests, crashes, foreign writers."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tablefmt
from tablefmt.errors import CorruptTableError, ExportBlockedError, UnsupportedFeatureError
from tablefmt.export import iceberg_target
from tablefmt.export.avro_file import read_records
from tablefmt.export.export_check import copy_problems, iceberg_files
from tablefmt.export.export_run import Exporter, Progress
from tablefmt.export.iceberg_metadata import HINT, metadata_key
from tablefmt.export.iceberg_target import IcebergTarget, file_without_ids
from tablefmt.model.arrow_types import FIELD_ID
from tablefmt.store.object_store import Request, Store
from tablefmt.store.store_wrappers import CountingStore
from tablefmt.table import Table
from tests.export import shapes
from tests.export.iceberg_readers import DuckDBIceberg, Polars, PyIceberg, metadata_file
from tests.export.test_export_run import Dying, Killed, assert_puts_per_commit
from tests.tables import contents_of, handle, memory, new_table, rows

Read = Callable[[str, int], pa.Table]


@pytest.fixture(scope="module")
def duckdb(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DuckDBIceberg]:
    reader = DuckDBIceberg(tmp_path_factory.mktemp("duckdb"), "avro", "iceberg")
    yield reader
    reader.close()


@pytest.fixture(params=["pyiceberg", "polars", "duckdb"])
def read(request: pytest.FixtureRequest) -> Read:
    if request.param == "duckdb":
        return request.getfixturevalue("duckdb").read
    return PyIceberg().read if request.param == "pyiceberg" else Polars().read


def exporter(store: Store) -> Exporter:
    return Exporter(store, IcebergTarget(), sleep=lambda seconds: None)


def export(table: Table, store: Store | None = None, **how: Any) -> Progress:
    """One run with a cold exporter."""
    table.refresh()
    return exporter(store or table.context.store).run(table.context.view, **how)


def document(table: Table, version: int | None = None) -> Any:
    """The metadata file of a version."""
    at = table.version if version is None else version
    return orjson.loads(table.context.store.get(metadata_key(at)))


def manifests(table: Table, version: int) -> list[dict[str, Any]]:
    """The manifest list of a version."""
    made = document(table, version)
    return records(table, made, made["snapshots"][-1]["manifest-list"])


def records(table: Table, made: Any, path: str) -> list[dict[str, Any]]:
    key = path.removeprefix(made["location"] + "/")
    return read_records(table.context.store.get(key), key)


def puts(store: Store, run: Callable[[], Any]) -> tuple[int, Any]:
    before = store.tally.sums()[Request.PUT]
    result = run()
    return store.tally.sums()[Request.PUT] - before, result


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, str], Table]:
    """Tables by shape and format, each exported once, from version 0 on."""
    known: dict[tuple[str, str], Table] = {}
    folder = tmp_path_factory.mktemp("iceberg")

    def make(shape: str, form: str) -> Table:
        if (shape, form) not in known:
            table = SHAPES[shape](f"{folder}/{shape}-{form}")
            set_to = table.context.view.head.metadata.properties
            assert not [name for name in set_to if name.startswith("export")]
            target = IcebergTarget(form)
            table.refresh()
            run = Exporter(table.context.store, target, sleep=lambda seconds: None)
            run.run(table.context.view, start=0)
            known[shape, form] = table
        return known[shape, form]

    return make


def restored(folder: str) -> Table:
    """Files that come back with the deleted rows of then; partitions of NULL and ''."""
    table = tablefmt.create(folder, "id BIGINT, p STRING", partition_by=["p"])
    for number in range(4):
        ids = range(number * 10, number * 10 + 10)
        table.append(pa.table({"id": ids, "p": ["", None, "a/b=c", "é", "d"] * 2}))
    table.delete("id % 4 = 1")
    table.delete("id IN (2, 12, 22)")
    table.update({"p": "'x'"}, "id % 7 = 3")
    table.restore(version=5)
    table.delete("id > 25")
    table.restore(version=3)
    table.delete("id = 0")
    return table


def many_commits(folder: str) -> Table:
    """More manifests than a snapshot keeps."""
    table = tablefmt.create(folder, "id BIGINT, p INT", partition_by=["p"])
    for number in range(40):
        ids = range(number * 3, number * 3 + 3)
        table.append(pa.table({"id": ids, "p": pa.array([number % 2] * 3, pa.int32())}))
        if number % 8 == 7:
            table.delete(f"id % 3 = {number % 3} AND id > {number}")
    table.truncate("p = 1")
    table.delete("id % 5 = 0")
    return table


SHAPES = {**shapes.MAKERS, "restored": restored, "many_commits": many_commits}

SOAK = pytest.mark.soak


@pytest.mark.slow
@pytest.mark.share(8)
@pytest.mark.parametrize(
    ("shape", "form"),
    [
        ("evolved", "auto"),
        ("organized", "auto"),
        ("partitions", "3"),
        ("restored", "auto"),
        ("restored", "3"),
        *(
            pytest.param(shape, form, marks=SOAK)
            for shape in ("types", "big_deletes", "partitions", "evolved", "organized")
            for form in ("auto", "3")
        ),
    ],
)
def test_every_version_reads_right(
    made: Callable[[str, str], Table], read: Read, shape: str, form: str
) -> None:
    """XPT-20, XPT-21, XPT-26: whole rows, at each version, in each reader."""
    table = made(shape, form)
    path = str(table.uri).removeprefix("file://")
    for version in range(table.version + 1):
        found = shapes.differ(read(path, version), table.scan(version=version).to_arrow())
        assert found == "", (version, found)


@pytest.mark.parametrize("form", ["2", "3"])
def test_nested_columns_read_right(
    made: Callable[[str, str], Table], duckdb: DuckDBIceberg, form: str
) -> None:
    """XPT-23: lists and maps have ids inside, and change inside.

    PyIceberg 0.12 reads a NULL list of structs as empty, in tables that it wrote itself too.
    """
    table = made("nested", form)
    path = str(table.uri).removeprefix("file://")
    for version in range(table.version + 1):
        wanted = table.scan(version=version).to_arrow()
        assert shapes.differ(duckdb.read(path, version), wanted) == ""


CONDITIONS = (
    *("d > 1000", "d = 'NaN'", "d = 0", "f >= 24.5", "f < 0", "i8 IS NULL", "i32 < -305"),
    *("region = ''", "region IS NULL", "m > 1.0", "s >= 'text 30'", "s = 'updated'"),
    *(
        "ts < TIMESTAMP '2024-04-01 00:00:00'",
        "day = DATE '1969-12-31'",
        "tn > TIMESTAMP '2000-01-01'",
    ),
)


@pytest.mark.slow
def test_conditions_find_the_same_rows(
    made: Callable[[str, str], Table], duckdb: DuckDBIceberg
) -> None:
    """XPT-21: no bound or count drops a row that matches."""
    table = made("types", "auto")
    path = str(table.uri).removeprefix("file://")
    scan = f"iceberg_scan('{metadata_file(path, table.version)}')"
    for condition in CONDITIONS:
        found = duckdb.query(f"SELECT id FROM {scan} WHERE {condition} ORDER BY id")
        wanted = duckdb.query(f"SELECT id FROM (SELECT * FROM {scan} LIMIT 1000000) "
                              f"WHERE {condition} ORDER BY id")  # fmt: skip
        assert found["id"].to_pylist() == wanted["id"].to_pylist(), condition


@pytest.mark.slow
@pytest.mark.share(3)
@pytest.mark.parametrize("form", ["2", pytest.param("3", marks=SOAK)])
def test_many_commits_read_right(made: Callable[[str, str], Table], read: Read, form: str) -> None:
    """XPT-25: manifests are merged, and written again without removed files."""
    table = made("many_commits", form)
    path = str(table.uri).removeprefix("file://")
    for version in [5, 31, 33, 40, *range(table.version - 3, table.version + 1)]:
        wanted = table.scan(version=version).to_arrow()
        assert shapes.differ(read(path, version), wanted) == ""
    counts = [len(manifests(table, version)) for version in range(table.version + 1)]
    assert max(counts) <= 40
    for version in range(1, table.version + 1):
        data = [one for one in manifests(table, version) if one["content"] == 0]
        live = sum(one["added_files_count"] + one["existing_files_count"] for one in data)
        assert live == table.scan(version=version).files().num_rows


def test_a_table_that_iceberg_cannot_read_is_held(
    made: Callable[[str, str], Table], duckdb: DuckDBIceberg
) -> None:
    """XPT-5, XPT-23: the copy shows the last version before the widening."""
    table = made("wider", "auto")
    path = str(table.uri).removeprefix("file://")
    assert document(table)["properties"]["tablefmt.shown"] == "1"
    wanted = table.scan(version=1).to_arrow()
    assert shapes.differ(duckdb.read(path, table.version), wanted) == ""
    assert "widened from integer to double" in export(table).held
    other = shapes.wider(path + "-2")
    with pytest.raises(UnsupportedFeatureError, match="widened from integer to double"):
        export(other)


def test_a_deep_clone_has_the_columns_of_several_schemas(
    tmp_path: Path, duckdb: DuckDBIceberg
) -> None:
    """CLN-3, ADD-9: the types and columns of its files are in their footers alone."""
    wide = shapes.wider(str(tmp_path / "wide")).clone(tmp_path / "copy", shallow=False)
    with pytest.raises(UnsupportedFeatureError, match="widened from integer to double"):
        export(wide)
    source = shapes.evolved(str(tmp_path / "evolved"))
    table = source.clone(tmp_path / "other", shallow=False)
    export(table, start=0)
    assert document(table)["format-version"] == 3
    assert shapes.differ(duckdb.read(str(tmp_path / "other"), 0), source.to_arrow()) == ""


def test_a_held_copy_goes_on_after_a_compaction(tmp_path: Path) -> None:
    """XPT-5: one snapshot has the whole difference."""
    table = tablefmt.create(str(tmp_path / "t"), "id INT, b INT")
    for number in range(3):
        table.append(pa.table({"id": pa.array([number], pa.int32())}))
    export(table, start=0)
    table.alter.widen_column("b", "DOUBLE")
    table.append(pa.table({"id": pa.array([7], pa.int32()), "b": [0.5]}))
    assert export(table).held
    table.compact("major")
    assert not export(table).held
    wanted = table.to_arrow()
    assert shapes.differ(PyIceberg().read(str(tmp_path / "t"), table.version), wanted) == ""
    made = document(table)
    assert [s["snapshot-id"] for s in made["snapshots"]] == [1, 2, 3, 4, 7]
    assert made["snapshots"][-1]["parent-snapshot-id"] == 4


def test_format_three_begins_when_it_is_needed(tmp_path: Path) -> None:
    """XPT-24, XPT-27: all manifests are written again, positional deletes become vectors."""
    table = tablefmt.create(str(tmp_path / "t"), "id INT")
    table.append(pa.table({"id": pa.array(range(10), pa.int32())}))
    table.delete("id = 3")
    export(table, start=0)
    assert document(table)["format-version"] == 2
    table.alter.add_column("n", "INT", default=42)
    export(table)
    made = document(table)
    assert made["format-version"] == 3
    assert made["next-row-id"] == 2 << 32
    (deletes,) = (one for one in manifests(table, table.version) if one["content"] == 1)
    (entry,) = records(table, made, deletes["manifest_path"])
    assert entry["data_file"]["file_format"] == "PUFFIN"
    table.delete("id = 4")
    export(table)
    for version in range(table.version + 1):
        wanted = table.scan(version=version).to_arrow()
        assert shapes.differ(PyIceberg().read(str(tmp_path / "t"), version), wanted) == ""


def test_requests_of_a_commit() -> None:
    """XPT-20: a manifest, its list, the metadata file, the hint; two more with deletes."""
    counted = CountingStore(memory())
    table = new_table(counted)
    warm = exporter(counted)
    assert_puts_per_commit(table, counted, warm, 4)
    table.delete("id = 1")
    assert puts(counted, lambda: warm.run(table.context.view))[0] in (4, 5, 6)
    table.append(rows(50, 51, 52))
    table.delete("id = 51")
    warm.run(table.context.view)
    table.append(rows(60))
    before = counted.tally.sums()
    assert export(table).written == 1
    after = counted.tally.sums()
    found = {k: after[k] - before[k] for k in after if after[k] != before[k]}
    assert found[Request.PUT] == 4
    assert Request.LIST not in found


def short_history(store: Store | None = None) -> Table:
    table = new_table(store, partitioned=True)
    table.append(rows(1, 2, 3, p=["a", "b", "b"]))
    table.delete("id = 2")
    table.append(rows(4, 5, 6))
    table.update({"p": "'c'"}, "id IN (3, 4)")
    table.restore(version=2)
    return table


@pytest.mark.slow
@pytest.mark.share(2)
@pytest.mark.parametrize("form", ["2", "3"])
def test_an_exporter_may_die_at_any_write(form: str) -> None:
    """XPT-1: each version is the same in the end, byte for byte, and nothing is left over."""
    table = short_history()
    table.alter.set_properties({"export.iceberg.format": form})
    export(table, start=0)
    undisturbed = contents_of(table.context.store, "metadata/")
    for writes in range(1, 200):
        for after in (False, True):
            for key in contents_of(table.context.store, "metadata/"):
                table.context.store.delete(key)
            dying = Dying(table.context.store, writes, after)
            try:
                export(table, dying, start=0)
            except Killed:
                export(table, start=0)
            assert contents_of(table.context.store, "metadata/") == undisturbed
            if dying.left > 0:
                return
    raise AssertionError("it never ends")


def test_four_exporters_race() -> None:
    """XPT-1: all end, and the copy is that of one."""
    table = short_history()
    export(table, start=0)
    undisturbed = contents_of(table.context.store, "metadata/")
    for key in undisturbed:
        table.context.store.delete(key)
    with ThreadPoolExecutor(4) as pool:
        handles = [handle(table.context.store) for _ in range(4)]
        done = list(pool.map(lambda one: export(one, start=0), handles))
    assert contents_of(table.context.store, "metadata/") == undisturbed
    assert copy_problems(table.context.view, ("iceberg",)) == []
    assert sum(one.written for one in done) == table.version + 1


def test_a_lost_hint_is_no_loss() -> None:
    """XPT-20: a listing finds the newest metadata file, and later ones than the hint are found."""
    table = short_history()
    export(table, start=2)
    table.context.store.delete(HINT)
    assert export(table).written == 0
    table.context.store.put(HINT, b"4")
    table.append(rows(9))
    assert export(table).written == 1
    assert table.context.store.get(HINT) == str(table.version + 1).encode()


def test_the_metadata_of_another_program_blocks() -> None:
    """XPT-3: a Hadoop catalog's commit after ours, and a table of another program at the place."""
    table = short_history()
    warm = exporter(table.context.store)
    warm.run(table.context.view)
    theirs = document(table)
    theirs["snapshots"][-1]["snapshot-id"] = theirs["current-snapshot-id"] = 10**18
    table.context.store.put_if_absent(metadata_key(table.version + 1), orjson.dumps(theirs))
    table.append(rows(30))
    with pytest.raises(ExportBlockedError, match="not written by tablefmt") as raised:
        warm.run(table.context.view)
    assert raised.value.path == metadata_key(table.version)
    with pytest.raises(ExportBlockedError, match="not written by tablefmt"):
        export(table)
    other = short_history()
    other.context.store.put("metadata/v1.metadata.json", b'{"properties":{}}')
    with pytest.raises(ExportBlockedError, match="not written by tablefmt"):
        export(other)


def test_a_change_of_properties_by_another_program_blocks() -> None:
    """XPT-3: it keeps our properties, but the file's name has another version."""
    table = short_history()
    export(table)
    theirs = document(table)
    theirs["properties"]["owner"] = "somebody"
    table.context.store.put_if_absent(metadata_key(table.version + 1), orjson.dumps(theirs))
    table.append(rows(30))
    with pytest.raises(ExportBlockedError, match="another entry"):
        export(table)


def test_a_table_at_another_address_is_refused(tmp_path: Path) -> None:
    """XPT-20: addresses in Iceberg's metadata are absolute."""
    table = tablefmt.create(str(tmp_path / "a"), "id INT")
    export(table)
    os.rename(tmp_path / "a", tmp_path / "b")
    moved = tablefmt.open(str(tmp_path / "b"))
    moved.append(pa.table({"id": pa.array([1], pa.int32())}))
    with pytest.raises(ExportBlockedError, match=r"a table at file:.*/a, and its addresses"):
        export(moved)


@pytest.mark.parametrize("damage", ["missing", "garbage"])
def test_a_damaged_manifest_list_is_named(damage: str) -> None:
    """XPT-22."""
    table = short_history()
    export(table)
    made = document(table)
    key = made["snapshots"][-1]["manifest-list"].removeprefix(made["location"] + "/")
    table.context.store.delete(key)
    if damage == "garbage":
        table.context.store.put(key, b"Obj\x01garbage")
    table.append(rows(9))
    with pytest.raises(CorruptTableError, match=r"metadata/snap-.*Remove the folder metadata/"):
        export(table)


@pytest.mark.parametrize(
    ("shape", "form"), [("restored", "auto"), ("restored", "3"), ("wider", "3")]
)
def test_a_copy_is_compared_with_the_log(
    made: Callable[[str, str], Table], shape: str, form: str
) -> None:
    """XPT-1: by the copy's own rules."""
    table = made(shape, form)
    view = table.context.view
    assert copy_problems(view, ("iceberg",)) == []
    for version in range(table.version + 1):
        shown = int(document(table, version)["properties"]["tablefmt.shown"])
        files = table.scan(version=shown).files().to_pylist()
        wanted = {one["path"]: (one["size"], one["deleted"]) for one in files}
        assert iceberg_files(table.context.store, version) == wanted


def test_a_damaged_copy_is_found() -> None:
    """XPT-1: a manifest is missing, and a manifest list is that of another version."""
    table = short_history()
    export(table, start=0)
    store = table.context.store
    (key,) = (o.key for o in store.list_after(f"metadata/data-{table.version + 1}-"))
    body = store.get(key)
    store.delete(key)
    (problem,) = copy_problems(table.context.view, ("iceberg",))
    assert "the copy cannot be read: KeyNotFoundError" in str(problem)
    store.put(key, body)
    theirs = document(table, 1)["snapshots"][-1]
    mine = document(table)
    mine["snapshots"][-1]["manifest-list"] = theirs["manifest-list"]
    store.put(metadata_key(table.version), orjson.dumps(mine))
    (problem,) = copy_problems(table.context.view, ("iceberg",))
    assert "its files differ from version 5 of the log" in str(problem)


def test_snapshots_are_kept_by_the_property() -> None:
    """XPT-24: with a tag for each version."""
    table = short_history()
    table.alter.set_properties({"export.iceberg.snapshots": 3})
    export(table, start=0)
    made, last = document(table), table.version
    assert [s["snapshot-id"] for s in made["snapshots"]] == [last - 1, last, last + 1]
    assert set(made["refs"]) == {
        "main",
        *(f"v{v}" for v in range(last - 2, last + 1)),
    }
    assert made["properties"]["gc.enabled"] == "false"


IDS = [{FIELD_ID: str(number).encode()} for number in range(1, 6)]


@pytest.mark.parametrize(
    ("kind", "lacks"),
    [
        (pa.list_(pa.field("element", pa.int32(), True, IDS[0])), False),
        (pa.list_(pa.field("element", pa.int32())), True),
        (pa.map_(pa.string(), pa.field("value", pa.int32(), True, IDS[0])), True),
        (pa.struct([pa.field("l", pa.list_(pa.int32()), True, IDS[0])]), True),
        (pa.struct([pa.field("n", pa.int32())]), False),
        (pa.int32(), False),
    ],
)
def test_a_list_without_ids_is_found(kind: pa.DataType, lacks: bool) -> None:
    """XPT-23: Spark's writer gives no ids to elements, and Iceberg's readers fail without."""
    store, sink = memory(), pa.BufferOutputStream()
    pq.write_table(pa.schema([pa.field("c", kind, True, IDS[4])]).empty_table(), sink)
    body = sink.getvalue().to_pybytes()
    for name in ("data/a/1.parquet", "data/a/2.parquet"):
        store.put(name, body)
    files = pa.table({"path": ["data/a/1.parquet", "data/a/2.parquet"], "size": [len(body)] * 2})
    assert file_without_ids(store, files) == ("data/a/1.parquet" if lacks else "")


def test_a_copy_with_lists_that_have_no_ids_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    """XPT-23, XPT-5: only new files are asked, also by a cold exporter."""
    asked = []

    def none(store: Store, files: pa.Table) -> str:
        asked.append(files.num_rows)
        return files["path"][0].as_py() if len(asked) == 4 else ""

    monkeypatch.setattr(iceberg_target, "file_without_ids", none)
    table = new_table()
    table.alter.add_column("l", "ARRAY<INT>")
    for number in range(2):
        table.append(rows(number))
        assert not export(table).held
    table.append(rows(7))
    export(table)
    table.append(rows(8))
    assert "has no ids for the elements of column 'l'" in export(table).held
    assert asked == [1, 1, 1, 1]


def test_changes_that_iceberg_cannot_show_are_refused() -> None:
    """XPT-12: the request fails, unless the caller lets the copy hold."""
    table = new_table()
    table.alter.set_properties({"export": "iceberg"})
    table.append(rows(1))
    table.alter.add_column("n", "INT", default=3)
    with pytest.raises(UnsupportedFeatureError, match="widen the values in the files"):
        table.alter.widen_column("n", "DOUBLE")
    table.alter.add_column("s", "STRUCT<x: INT>")
    with pytest.raises(UnsupportedFeatureError, match=r"cannot show 's\.x'"):
        table.alter.rename_column("n", "s.x")
    assert table.alter.widen_column("n", "BIGINT").exports == {"iceberg": table.version}
    held = table.version
    forced = table.alter.widen_column("id", "DECIMAL(22,1)", force=True)
    assert forced.exports == {"iceberg": held}
    other = new_table()
    other.alter.set_properties({"export": "iceberg", "export.iceberg.format": 2})
    other.append(rows(1))
    with pytest.raises(UnsupportedFeatureError, match="Iceberg 2 reads NULL"):
        other.alter.add_column("n", "INT", default=3)
    with pytest.raises(UnsupportedFeatureError, match="Iceberg 2 has no variant"):
        other.alter.add_column("v", "VARIANT")
    assert other.alter.add_column("n", "INT").exports == {"iceberg": other.version}


def test_columns_that_iceberg_confuses_are_refused() -> None:
    """XPT-23."""
    store = memory()
    table = new_table(store)
    table.alter.add_column("s", "STRUCT<x: INT>")
    table.alter.add_column("`s.x`", "INT")
    with pytest.raises(UnsupportedFeatureError, match=r"two columns apart that are both 's.x'"):
        export(table)
