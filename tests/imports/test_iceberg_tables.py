"""Iceberg tables as tables over the same files; rows compared with PyIceberg (IMP-5, IMP-7)."""

from __future__ import annotations

import io
import json
import shutil
import struct
import zlib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyroaring import BitMap64

import tablefmt
from tablefmt.errors import (
    CommitRejectedError,
    CorruptDataError,
    CorruptTableError,
    UnknownArgumentError,
    UnsupportedFeatureError,
)
from tablefmt.imports import iceberg_source
from tablefmt.store.memory_store import MemoryStore
from tests.imports.sources import alike, contents, odd_rows

sql = pytest.importorskip("pyiceberg.catalog.sql")


def made(folder: Path, rows: pa.Table, **options: Any) -> Any:
    """Return a new Iceberg table with these rows."""
    folder.mkdir(parents=True, exist_ok=True)
    uri = f"sqlite:///{folder}/catalog.db"
    catalog = sql.SqlCatalog("c", uri=uri, warehouse=f"file://{folder}")
    catalog.create_namespace("db")
    table = catalog.create_table("db.t", schema=rows.schema, **options)
    table.append(rows)
    return table


def rows_without_control_characters() -> pa.Table:
    """Return rows whose paths KEY-2 allows. PyIceberg does not encode control characters."""
    rows = odd_rows()
    return rows.filter(pc.fill_null(pc.not_equal(rows["region"], "x\ny"), True))


@pytest.mark.slow
def test_renamed_and_dropped_columns_and_a_name_used_again(tmp_path: Path) -> None:
    """IMP-4, IMP-5: columns are found by field id, at every depth and version."""
    from pyiceberg.expressions import LessThan
    from pyiceberg.types import StringType

    ice = made(tmp_path, rows_without_control_characters())
    with ice.update_spec() as spec:
        spec.add_identity("region")
    with ice.update_schema() as change:
        change.rename_column("v", "value")
        change.rename_column(("st", "a"), "b")
        change.delete_column("n")
    with ice.update_schema() as change:
        change.add_column("v", StringType())
    late = {"id": 100, "region": "new", "value": 1.0, "ts": 1, "st": {"b": 1, "l": [2]}, "v": "t"}
    ice.append(pa.Table.from_pylist([late], schema=ice.schema().as_arrow()))
    ice.delete(LessThan("id", 3))
    path = tmp_path / "db" / "t"
    expected, before = ice.scan().to_arrow(), contents(path)
    table = tablefmt.import_table(path)
    assert contents(path) == before
    assert alike(table.to_arrow()) == alike(expected)
    assert (
        table.to_arrow(where="v is null and value > 20").num_rows
        == pc.sum(pc.fill_null(pc.greater(expected["value"], 20), False)).as_py()
    )
    table.update({"v": "'set'"}, "st.b = 7")
    assert table.to_arrow(where="v = 'set'")["id"].to_pylist() == [7]
    table.delete("region = 'EU'")
    left = table.to_arrow()
    assert left.num_rows == expected.num_rows - expected["region"].to_pylist().count("EU")
    table.compact("major")
    assert alike(tablefmt.open(path).to_arrow()) == alike(left)
    assert alike(tablefmt.open(path).to_arrow(version=1)) == alike(expected)
    assert alike(ice.scan().to_arrow()) == alike(expected)
    assert table.verify(deep=True).ok


def test_partitions_are_kept(tmp_path: Path) -> None:
    """IMP-5, IMP-9, VAL-1: by dates, text and a bucket between them."""
    from pyiceberg.transforms import BucketTransform

    days = pa.array([0, None, -1, 20_000], pa.date32())
    rows = pa.table({"id": pa.array(range(4), pa.int64()), "d": days, "s": ["", None, "a", "b"]})
    ice = made(tmp_path, rows.slice(0, 0))
    with ice.update_spec() as spec:
        spec.add_identity("d")
        spec.add_field("id", BucketTransform(2))
        spec.add_identity("s")
    ice.append(rows)
    table = tablefmt.import_table(tmp_path / "db" / "t", "iceberg")
    assert table.partition_by == ["d", "bucket(2, id)", "s"]
    assert alike(table.to_arrow()) == alike(ice.scan().to_arrow())
    assert table.scan(where="d = date'2024-10-04'").files().num_rows == 1
    assert table.to_arrow(where="s = ''")["id"].to_pylist() == [0]


def hand_added(ice: Any, name: str, rows: pa.Table, partition: list[Any], **more: Any) -> None:
    """Add a file that PyIceberg's writer would not write, through its metadata classes."""
    from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
    from pyiceberg.typedef import Record

    path = Path(ice.location().removeprefix("file://")) / "data" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(rows, path)
    file = DataFile.from_args(
        content=more.pop("content", DataFileContent.DATA),
        file_path=f"file://{path}",
        file_format=more.pop("form", FileFormat.PARQUET),
        partition=Record(*partition),
        record_count=rows.num_rows,
        file_size_in_bytes=path.stat().st_size,
        **more,
    )
    file.spec_id = ice.spec().spec_id
    with ice.transaction() as change, change.update_snapshot().fast_append() as append:
        append.append_data_file(file)


@pytest.mark.parametrize("version", ["1", "2"])
def test_one_column_under_two_transforms_has_its_own_value(tmp_path: Path, version: str) -> None:
    """IMP-5: Spark writes `PARTITIONED BY (s, truncate(1, s))`; the value is that of identity."""
    from pyiceberg.transforms import TruncateTransform

    kinds = pa.schema([("id", pa.int64()), ("s", pa.string())])
    ice = made(tmp_path, kinds.empty_table(), properties={"format-version": version})
    with ice.update_spec() as spec:
        spec.add_identity("s")
        spec.add_field("s", TruncateTransform(1))
    as_iceberg = ice.schema().as_arrow()
    for number, text in enumerate(["apple", "avocado", None, ""]):
        rows = pa.table({"id": [number], "s": pa.array([text], pa.string())}, schema=as_iceberg)
        first = text and text[0]
        hand_added(ice, f"{number}.parquet", rows, [text, first if text else text])
    table = tablefmt.import_table(tmp_path / "db" / "t")
    assert table.partition_by == ["s"]
    assert alike(table.to_arrow()) == alike(ice.scan().to_arrow())
    assert table.to_arrow(where="s = 'avocado'")["id"].to_pylist() == [1]
    assert table.scan(where="s = 'avocado'").files().num_rows == 1


@pytest.mark.parametrize("version", ["1", "2"])
def test_a_partitioning_that_changed_and_a_sort_order(tmp_path: Path, version: str) -> None:
    """IMP-5: only columns that partition every file do so here; the others are ordinary."""
    from pyiceberg.transforms import DayTransform, IdentityTransform

    rows = rows_without_control_characters()
    ice = made(tmp_path, rows, properties={"format-version": version})
    with ice.update_spec() as spec:
        spec.add_identity("region")
        spec.add_field("ts", DayTransform())
    ice.append(rows.slice(0, 9))
    with ice.update_spec() as spec:
        spec.remove_field("region")
        spec.add_identity("n")
    with ice.update_sort_order() as order:
        order.asc("id", IdentityTransform())
    ice.append(rows.slice(5, 7))
    expected = ice.scan().to_arrow()
    table = tablefmt.import_table(tmp_path / "db" / "t")
    assert table.partition_by == []
    assert alike(table.to_arrow()) == alike(expected)
    table.delete("n = 1")
    table.compact("major")
    assert alike(table.to_arrow()) == alike(expected.filter(pc.not_equal(expected["n"], 1)))


def test_a_value_that_only_a_former_partition_has_is_refused(tmp_path: Path) -> None:
    """IMP-7: files of a migrated hive table lack the column; it would be NULL."""
    kinds = pa.schema([("id", pa.int64()), ("s", pa.string())])
    ice = made(tmp_path, kinds.empty_table())
    with ice.update_spec() as spec:
        spec.add_identity("s")
    only_id = pa.schema([ice.schema().as_arrow().field("id")])
    for number, text in enumerate(["x", None]):
        rows = pa.table({"id": [number]}, schema=only_id)
        hand_added(ice, f"{number}.parquet", rows, [text])
    path = tmp_path / "db" / "t"
    table = tablefmt.import_table(path, into=tmp_path / "new")
    assert alike(table.to_arrow()) == alike(ice.scan().to_arrow())
    with ice.update_spec() as spec:
        spec.remove_field("s")
    ice.append(pa.table({"id": [2], "s": ["y"]}))
    before = contents(path)
    with pytest.raises(UnsupportedFeatureError, match=r"0\.parquet' lacks the column 's'"):
        tablefmt.import_table(path)
    assert contents(path) == before


def test_files_without_ids_by_the_name_mapping(tmp_path: Path) -> None:
    """IMP-4: files that `add_files` took over have no ids; names were mapped before a rename."""
    rows = rows_without_control_characters()
    ice = made(tmp_path, rows)
    plain = tmp_path / "db" / "t" / "data" / "plain.parquet"
    pq.write_table(rows, plain)
    ice.add_files([f"file://{plain}"])
    with ice.update_schema() as change:
        change.rename_column("v", "value")
        change.rename_column(("st", "a"), "b")
    expected = ice.scan().to_arrow()
    table = tablefmt.import_table(tmp_path / "db" / "t")
    assert alike(table.to_arrow()) == alike(expected)
    assert table.to_arrow(where="st.b = 7")["id"].to_pylist() == [7, 7]


def test_equality_deletes_are_refused_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """IMP-7: the deleted rows would come back."""
    from pyiceberg import manifest

    ice = made(tmp_path, pa.table({"id": [1, 2]}))
    deletes = manifest.ManifestContent.DELETES
    monkeypatch.setattr(manifest.ManifestWriterV2, "content", lambda _: deletes)
    rows = pa.table({"id": [2]}, schema=ice.schema().as_arrow())
    kind = manifest.DataFileContent.EQUALITY_DELETES
    hand_added(ice, "gone.parquet", rows, [], content=kind, equality_ids=[1])
    before = contents(tmp_path / "db" / "t")
    with pytest.raises(UnsupportedFeatureError, match=r"equality deletes.*rewrite_data_files"):
        tablefmt.import_table(tmp_path / "db" / "t")
    assert contents(tmp_path / "db" / "t") == before


@pytest.mark.parametrize("form", ["AVRO", "ORC"])
def test_files_of_other_formats_are_refused_by_name(tmp_path: Path, form: str) -> None:
    """IMP-7."""
    from pyiceberg.manifest import FileFormat

    ice = made(tmp_path, pa.table({"id": [1]}))
    rows = pa.table({"id": [2]}, schema=ice.schema().as_arrow())
    hand_added(ice, "other", rows, [], form=FileFormat[form])
    before = contents(tmp_path / "db" / "t")
    with pytest.raises(UnsupportedFeatureError, match=f"'data/other' is {form}"):
        tablefmt.import_table(tmp_path / "db" / "t")
    assert contents(tmp_path / "db" / "t") == before


def test_hostile_and_unknown_metadata_is_refused(tmp_path: Path) -> None:
    """IMP-7: paths out of the source, damage, types. The import writes no log."""
    made(tmp_path, pa.table({"id": [1]}))
    path = tmp_path / "db" / "t"
    newest = max((path / "metadata").glob("*.metadata.json"))
    document = json.loads(newest.read_text())

    def refused(change: dict[str, Any], error: type[Exception], match: str) -> None:
        newest.write_text(json.dumps(document | change))
        with pytest.raises(error, match=match):
            tablefmt.import_table(path)
        assert not (path / "_log").exists()

    snapshots = [document["snapshots"][0] | {"manifest-list": "file:///etc/passwd"}]
    refused({"snapshots": snapshots}, UnsupportedFeatureError, "outside of")
    refused({"location": str(tmp_path / "else")}, UnsupportedFeatureError, "outside of")
    snapshots[0]["manifest-list"] = f"{document['location']}/../../x"
    refused({"snapshots": snapshots}, UnsupportedFeatureError, "outside of")
    snapshots[0]["manifest-list"] = f"{document['location']}/metadata/lost.avro"
    refused({"snapshots": snapshots}, CorruptTableError, "missing")
    refused({"format-version": 9}, UnsupportedFeatureError, "PyIceberg cannot read")
    schema = json.loads(json.dumps(document["schemas"]).replace('"long"', '"uuid"'))
    refused({"schemas": schema}, UnsupportedFeatureError, "uuid")
    newest.write_text("{")
    with pytest.raises(UnsupportedFeatureError, match="PyIceberg cannot read"):
        tablefmt.import_table(path)
    newest.write_text(json.dumps(document))
    (data,) = (path / "data").glob("*.parquet")
    shutil.move(data, tmp_path / "elsewhere")
    with pytest.raises(CorruptDataError, match=data.name):
        tablefmt.import_table(path)


class Deletes:
    """Delete files of a table at /t."""

    def __init__(self) -> None:
        self.store = MemoryStore("t")
        self.folder = iceberg_source._Folder(self.store)
        self.folder.location = "/t"

    def of(self, body: bytes, form: str) -> list[int]:
        """Return the deleted positions of data/a.parquet."""
        self.store.put("d", body)
        delete = SimpleNamespace(file_path="/t/d", file_format=SimpleNamespace(name=form))
        file = SimpleNamespace(file_path="/t/data/a.parquet")
        task: Any = SimpleNamespace(file=file, delete_files=[delete])
        return list(iceberg_source._Deletes(self.folder).of(task))


def puffin(*blobs: tuple[str, bytes]) -> bytes:
    """Return a Puffin file with deletion vectors by the address of their data file."""
    body, described = b"PFA1", []
    for address, blob in blobs:
        described.append(
            {
                "type": "deletion-vector-v1",
                "fields": [],
                "snapshot-id": -1,
                "sequence-number": -1,
                "offset": len(body),
                "length": len(blob),
                "properties": {"referenced-data-file": address, "cardinality": "3"},
            }
        )
        body += blob
    footer = json.dumps({"blobs": described}).encode()
    return body + b"PFA1" + footer + struct.pack("<ii", len(footer), 0) + b"PFA1"


def vector(*positions: int) -> bytes:
    """Return a deletion vector as Iceberg 3 stores it."""
    body = struct.pack("<I", 1681511377) + BitMap64(positions).serialize()
    return struct.pack(">I", len(body)) + body + struct.pack(">I", zlib.crc32(body))


def test_positional_deletes_and_vectors() -> None:
    """IMP-5, DEL-2: one delete file has positions of several data files; damage is an error."""
    deletes = Deletes()
    other, mine = "/t/data/b.parquet", "/t/data/a.parquet"
    sink = io.BytesIO()
    paths = pa.array([mine, other, mine, mine], pa.string()).dictionary_encode()
    pq.write_table(pa.table({"file_path": paths, "pos": [5, 1, 2, 2]}), sink)
    assert deletes.of(sink.getvalue(), "PARQUET") == [2, 5]
    body = puffin((other, vector(9)), (mine, vector(1, 2, 70_000)))
    assert deletes.of(body, "PUFFIN") == [1, 2, 70_000]
    damaged = bytearray(body)
    damaged[body.index(vector(1, 2, 70_000)) + 20] ^= 1
    for wrong in (bytes(damaged), body[:-1], b"", b"PFA1" * 5):
        with pytest.raises(CorruptDataError, match="deleted rows cannot be read"):
            deletes.of(wrong, "PUFFIN")
    with pytest.raises(UnsupportedFeatureError, match="outside of"):
        deletes.of(puffin(("/u/data/a.parquet", vector(1))), "PUFFIN")
    with pytest.raises(UnsupportedFeatureError, match="is AVRO"):
        deletes.of(b"Obj1", "AVRO")


def test_a_metadata_file_that_a_catalog_names(tmp_path: Path) -> None:
    """IMP-5: the newest one and an older one are imported; a catalog's location is an address."""
    rows = pa.table({"id": pa.array(range(4), pa.int64())})
    ice = made(tmp_path, rows.slice(0, 2))
    older, first = ice.metadata_location, ice.scan().to_arrow()
    ice.append(rows.slice(2))
    newest = Path(ice.metadata_location.removeprefix("file://"))
    table = tablefmt.import_table(older, into=tmp_path / "old")
    assert alike(table.to_arrow()) == alike(first)
    for name in ("00009-one.metadata.json", "00009-two.metadata.json"):
        shutil.copy(newest, newest.with_name(name))
    with pytest.raises(UnsupportedFeatureError, match="by its address"):
        tablefmt.import_table(tmp_path / "db" / "t")
    with pytest.raises(UnsupportedFeatureError, match="format='iceberg'"):
        tablefmt.import_table(newest, "parquet")
    with pytest.raises(CorruptDataError, match="missing"):
        tablefmt.import_table(newest.with_name("00010-none.metadata.json"))
    table = tablefmt.import_table(newest)
    assert table.uri == str(tmp_path / "db" / "t")
    assert alike(table.to_arrow()) == alike(ice.scan().to_arrow()) == alike(rows)


def test_a_new_column_does_not_read_a_former_column_of_the_files(tmp_path: Path) -> None:
    """SCH-8, IMP-8: names of dropped and renamed columns in the files are not given again."""
    rows = pa.table({"id": [1, 2], "n": [7, 8], "v": [5, 6], "s": [{"a": 1, "b": 2}] * 2})
    ice = made(tmp_path, rows)
    with ice.update_schema() as change:
        change.delete_column("n")
        change.rename_column("v", "w")
        change.delete_column(("s", "b"))
    table = tablefmt.import_table(tmp_path / "db" / "t")
    assert table.context.view.head.metadata.schema.dropped == ("b", "n", "v")
    for name in ("n", "v", "s.b"):
        table.alter.add_column(name, "BIGINT")
    assert table.to_arrow(where="n IS NULL AND v IS NULL").to_pylist() == [
        {"id": 1, "w": 5, "s": {"a": 1, "b": None}, "n": None, "v": None},
        {"id": 2, "w": 6, "s": {"a": 1, "b": None}, "n": None, "v": None},
    ]


def test_the_branch_main_is_imported(tmp_path: Path) -> None:
    """IMP-5: branches and tags are left out, and an argument for one is refused by name."""
    ice = made(tmp_path, pa.table({"id": pa.array([1], pa.int64())}))
    first = ice.current_snapshot().snapshot_id
    ice.manage_snapshots().create_branch(first, "audit").create_tag(first, "old").commit()
    ice.append(pa.table({"id": pa.array([2], pa.int64())}), branch="audit")
    ice.append(pa.table({"id": pa.array([3], pa.int64())}))
    path = tmp_path / "db" / "t"
    for name in ("version", "branch", "tag", "snapshot_id", "versionAsOf"):
        asked: dict[str, Any] = {name: "audit"}
        with pytest.raises(UnknownArgumentError, match="current snapshot of the branch main"):
            tablefmt.import_table(path, **asked)
    table = tablefmt.import_table(path)
    assert sorted(table.to_arrow()["id"].to_pylist()) == [1, 3]
    (described,) = table.context.view.head.metadata.imports.values()
    assert described.version == ice.current_snapshot().snapshot_id


def test_a_source_that_others_write_to_and_clean_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """IMP-5, DAT-5: a commit meanwhile is noticed, and files that went later are named."""
    first, later = pa.table({"id": [1, 2]}), pa.table({"id": [3]})
    ice = made(tmp_path, first)
    path, into = tmp_path / "db" / "t", tmp_path / "u"
    check = getattr(iceberg_source, "_check_deletes")  # noqa: B009 - not its public name

    def late(table: Any) -> None:
        check(table)
        ice.append(later)

    with monkeypatch.context() as patch:
        patch.setattr(iceberg_source, "_check_deletes", late)
        with pytest.raises(CommitRejectedError, match="its newest metadata is"):
            tablefmt.import_table(path, into=into)
    assert not into.exists() or not list(into.iterdir())
    table = tablefmt.import_table(path, into=into)
    assert sorted(table.to_arrow()["id"].to_pylist()) == [1, 2, 3]
    before = set(path.rglob("*.parquet"))
    ice.overwrite(later)
    kept = {Path(task.file.file_path.removeprefix("file://")) for task in ice.scan().plan_files()}
    for orphan in before - kept:
        orphan.unlink()
    with pytest.raises(CorruptDataError, match="it is missing"):
        table.to_arrow()
    missing = {found.object for found in table.verify().findings}
    assert missing == {gone.relative_to(path).as_posix() for gone in before}
    # The table is damaged now. The second reader would say so after the test.
    shutil.rmtree(into / "_log")
