"""Delta tables as tables over the same files; rows compared with delta-rs (IMP-5, IMP-7)."""

from __future__ import annotations

import json
import os
import shutil
import struct
import uuid
import zlib
from datetime import date, datetime, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyroaring import BitMap64

import tablefmt
from tablefmt.errors import (
    CommitRejectedError,
    CorruptDataError,
    CorruptTableError,
    SchemaMismatchError,
    TablefmtError,
    UnsupportedFeatureError,
)
from tablefmt.imports import delta_source
from tests.imports.sources import alike, contents, odd_rows, write

deltalake = pytest.importorskip("deltalake")


def rows_of(path: Path) -> pa.Table:
    """Return the rows of a Delta table by delta-rs."""
    return pa.table(deltalake.DeltaTable(str(path)).to_pyarrow_table())


@pytest.mark.slow
def test_a_partitioned_table_with_odd_values(tmp_path: Path) -> None:
    """KEY-2, VAL-2: text that paths encode twice, NULL, DML, compaction, every version."""
    path = tmp_path / "t"
    rows = odd_rows()
    deltalake.write_deltalake(str(path), rows, partition_by=["region", "n"])
    deltalake.write_deltalake(str(path), rows.slice(0, 5), mode="append")
    deltalake.DeltaTable(str(path)).delete("id % 4 = 1")
    expected, before = rows_of(path), contents(path)
    table = tablefmt.import_table(path)
    assert contents(path) == before
    assert alike(table.to_arrow()) == alike(expected)
    assert alike(table.to_arrow(where="region = 'a b/c=d%2F'")) == alike(
        expected.filter(pa.compute.field("region") == "a b/c=d%2F")
    )
    assert table.verify(deep=True).ok
    deleted = table.delete("id = 12").metrics["numDeletedRows"]
    table.update({"v": "0"}, "id = 20")
    table.checkpoint()
    table = tablefmt.open(path)
    assert table.count() == expected.num_rows - deleted
    table.compact("major")
    table.vacuum(retention=0, dry_run=False, breaks_running_transactions=True)
    assert alike(rows_of(path)) == alike(expected)
    table.restore(version=table.version)
    assert alike(tablefmt.open(path).to_arrow(where="id <> 20")) == alike(
        expected.filter((pa.compute.field("id") != 12) & (pa.compute.field("id") != 20))
    )


def test_partition_values_of_every_type(tmp_path: Path) -> None:
    """VAL-1, VAL-2: text of Delta's log as values."""
    path = tmp_path / "t"
    instant = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=timezone.utc)
    columns: dict[str, list[Any]] = {
        "b": [True, None],
        "d": [date(1969, 12, 31), None],
        "dec": [Decimal("1.50"), None],
        "i": pa.array([-7, None], pa.int32()),
        "t": pa.array([instant, None], pa.timestamp("us", "UTC")),
    }
    rows = pa.table({"x": [1, 2], **columns})
    deltalake.write_deltalake(str(path), rows, partition_by=list(columns))
    expected = rows_of(path)
    table = tablefmt.import_table(path)
    assert alike(table.to_arrow()) == alike(expected)
    assert table.scan(where="dec = 1.5 and d = date'1969-12-31'").count() == 1


def test_a_checkpoint_and_a_cleaned_log(tmp_path: Path) -> None:
    """IMP-5: older commits need not be there."""
    path = tmp_path / "t"
    for n in range(4):
        deltalake.write_deltalake(str(path), pa.table({"x": [n], "s": [{"a": n}]}), mode="append")
    deltalake.DeltaTable(str(path)).create_checkpoint()
    deltalake.write_deltalake(str(path), pa.table({"x": [9], "s": [None]}, schema=pa.schema(
        {"x": pa.int64(), "s": pa.struct({"a": pa.int64()})})), mode="append")  # fmt: skip
    expected = rows_of(path)
    for n in range(3):
        (path / "_delta_log" / f"{n:020d}.json").unlink()
    table = tablefmt.import_table(path, "delta")
    assert alike(table.to_arrow()) == alike(expected)
    (source,) = table.context.view.head.metadata.imports.values()
    assert (source.format, source.version) == ("delta", 4)


class HandMade:
    """A Delta table written by hand, for features that delta-rs does not write."""

    def __init__(self, path: Path, fields: list[dict[str, Any]], **configuration: str) -> None:
        self.path = path
        self.version = -1
        schema = json.dumps({"type": "struct", "fields": fields})
        features = ["columnMapping", "deletionVectors", "typeWidening"]
        self.protocol: dict[str, Any] = {
            "minReaderVersion": 3,
            "minWriterVersion": 7,
            "readerFeatures": features,
            "writerFeatures": features,
        }
        self.metadata: dict[str, Any] = {
            "id": "0",
            "format": {"provider": "parquet", "options": {}},
            "schemaString": schema,
            "partitionColumns": [],
            "configuration": {f"delta.{k}": v for k, v in configuration.items()},
        }

    def commit(self, *actions: dict[str, Any]) -> None:
        """Write the next commit."""
        self.version += 1
        first = [{"protocol": self.protocol}, {"metaData": self.metadata}]
        lines = [*(first if self.version == 0 else ()), *actions]
        log = self.path / "_delta_log" / f"{self.version:020d}.json"
        log.parent.mkdir(parents=True, exist_ok=True)
        log.write_text("\n".join(map(json.dumps, lines)))

    def add(self, name: str, rows: Any, **more: Any) -> dict[str, dict[str, Any]]:
        """Write a file; return its action."""
        write(self.path / name, rows)
        size = (self.path / name).stat().st_size
        return {"add": {"path": name, "size": size, "partitionValues": {}, "dataChange": True,
                        "modificationTime": 0, **more}}  # fmt: skip


def column(name: str, kind: Any, identity: int | None = None, physical: str = "") -> dict[str, Any]:
    """Return a field of a Delta schema."""
    metadata: dict[str, Any] = {}
    if identity is not None:
        metadata = {
            "delta.columnMapping.id": identity,
            "delta.columnMapping.physicalName": physical,
        }
    return {"name": name, "type": kind, "nullable": True, "metadata": metadata}


Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
DELETED = (3, 4, 7, 11, 18, 29)
"""The positions of the example in Delta's specification."""


def packed() -> bytes:
    """Return DELETED as Delta's portable form of a deletion vector."""
    return struct.pack("<I", 1681511377) + BitMap64(DELETED).serialize()


def z85(body: bytes) -> str:
    """Return bytes, whose number divides by 4, as Z85 text (ZeroMQ RFC 32)."""
    words = struct.unpack(f">{len(body) // 4}I", body)
    return "".join(Z85[word // 85**n % 85] for word in words for n in (4, 3, 2, 1, 0))


BODY = packed()
INLINE = z85(BODY + bytes(-len(BODY) % 4))
VECTOR = {
    "storageType": "i",
    "pathOrInlineDv": INLINE,
    "sizeInBytes": len(BODY),
    "cardinality": len(DELETED),
}


def test_an_inline_vector_and_a_widened_column(tmp_path: Path) -> None:
    """DEL-2, DAT-12: the example of Delta's specification."""
    made = HandMade(tmp_path / "t", [column("x", "long")])
    narrow = pa.table({"x": pa.array(range(40), pa.int32())})
    made.commit(made.add("a.parquet", narrow, deletionVector=VECTOR))
    name = uuid.uuid4()
    held = struct.pack(">I", len(BODY)) + BODY + struct.pack(">I", zlib.crc32(BODY))
    (tmp_path / "t" / "ab").mkdir()
    (tmp_path / "t" / "ab" / f"deletion_vector_{name}.bin").write_bytes(b"\x01" + held)
    stored = {**VECTOR, "storageType": "u", "pathOrInlineDv": f"ab{z85(name.bytes)}", "offset": 1}
    wide = {"x": pa.array([2**40 + n for n in range(30)])}
    made.commit(made.add("b.parquet", wide, deletionVector=stored))
    table = tablefmt.import_table(tmp_path / "t")
    right = [2**40 + n for n in range(30) if n not in DELETED]
    left = [n for n in range(40) if n not in DELETED]
    assert table.to_arrow()["x"].to_pylist() == [*left, *right]
    assert table.delete("x < 10").metrics["numDeletedRows"] == 7
    table.compact("major")
    assert sorted(table.to_arrow()["x"].to_pylist()) == [*(n for n in left if n >= 10), *right]
    assert table.verify(deep=True).ok


def as_checkpoint(made: HandMade, actions: list[dict[str, Any]], form: str) -> None:
    """Write a checkpoint of the newest version in one of Delta's forms."""
    log, name = made.path / "_delta_log", f"{made.version:020d}.checkpoint"
    base = [{"protocol": made.protocol}, {"metaData": made.metadata}]
    metadata = {**made.metadata, "configuration": [], "partitionColumns": ["p"]}
    metadata["format"] = {"provider": "parquet", "options": []}
    pairs = pa.map_(pa.string(), pa.string())
    file = pa.struct([("path", pa.string()), ("size", pa.int64()), ("partitionValues", pairs),
                      ("modificationTime", pa.int64()), ("dataChange", pa.bool_())])  # fmt: skip
    texts = pa.list_(pa.string())
    protocol = pa.struct([("minReaderVersion", pa.int32()), ("minWriterVersion", pa.int32()),
                          ("readerFeatures", texts), ("writerFeatures", texts)])  # fmt: skip
    schema = pa.struct([("id", pa.string()),
                        ("format", pa.struct([("provider", pa.string()), ("options", pairs)])),
                        ("schemaString", pa.string()), ("partitionColumns", texts),
                        ("configuration", pairs)])  # fmt: skip
    sidecar = pa.struct([("path", pa.string()), ("sizeInBytes", pa.int64()),
                         ("modificationTime", pa.int64())])  # fmt: skip
    kinds = pa.schema([("protocol", protocol), ("metaData", schema), ("add", file),
                       ("sidecar", sidecar)])  # fmt: skip
    adds = [{"add": {**a["add"], "partitionValues": list(a["add"]["partitionValues"].items())}}
            for a in actions]  # fmt: skip
    rows_of_base = [{"protocol": made.protocol}, {"metaData": metadata}]

    def stored(where: Path, lines: list[dict[str, Any]]) -> int:
        rows = [{n: line.get(n) for n in kinds.names} for line in lines]
        write(where, pa.Table.from_pylist(rows, schema=kinds))
        return where.stat().st_size

    if form == "parts":
        for n, lines in enumerate([rows_of_base, adds[:1], adds[1:]], 1):
            stored(log / f"{name}.{n:010d}.{3:010d}.parquet", lines)
        # One of a checkpoint of another writer, which is not whole.
        stored(log / f"{name}.{1:010d}.{5:010d}.parquet", adds[:1])
        return
    sidecars = []
    for lines in (adds[:1], adds[1:]):
        file_name = f"{uuid.uuid4()}.parquet"
        size = stored(log / "_sidecars" / file_name, lines)
        sidecars.append({"sidecar": {"path": file_name, "sizeInBytes": size,
                                     "modificationTime": 0}})  # fmt: skip
    if form == "json":
        lines = [{"checkpointMetadata": {"version": made.version}}, *base, *sidecars]
        (log / f"{name}.{uuid.uuid4()}.json").write_text("\n".join(map(json.dumps, lines)))
    else:
        stored(log / f"{name}.{uuid.uuid4()}.parquet", [*rows_of_base, *sidecars])


@pytest.mark.parametrize("form", ["parts", "json", "parquet"])
@pytest.mark.parametrize("later", [0, 1])
def test_checkpoints_of_every_form_alone(tmp_path: Path, form: str, later: int) -> None:
    """IMP-5: the log before the checkpoint expired; with no later commit, nothing else is left."""
    made = HandMade(tmp_path / "t", [column("x", "long"), column("p", "string")])
    made.protocol["readerFeatures"] = made.protocol["writerFeatures"] = ["v2Checkpoint"]
    made.metadata["partitionColumns"] = ["p"]
    live = []
    for n, text in enumerate(["a b", None, "ü"]):
        add = made.add(f"{n}.parquet", {"x": [n]})
        add["add"]["partitionValues"] = {"p": text}
        made.commit(add)
        live.append(add)
    made.commit({"remove": {"path": "1.parquet", "dataChange": True}})
    as_checkpoint(made, [live[0], live[2]], form)
    for old in range(4):
        (made.path / "_delta_log" / f"{old:020d}.json").unlink()
    expected = [{"x": 0, "p": "a b"}, {"x": 2, "p": "ü"}]
    if later:
        add = made.add("9.parquet", {"x": [9]})
        made.commit(add)
        expected.append({"x": 9, "p": None})
        reader = deltalake.QueryBuilder().register("t", deltalake.DeltaTable(made.path))
        assert pa.table(reader.execute("SELECT x, p FROM t ORDER BY x")).to_pylist() == expected
    table = tablefmt.import_table(made.path)
    assert sorted(table.to_arrow().to_pylist(), key=lambda r: r["x"]) == expected


@pytest.mark.parametrize("mode", ["name", "id"])
def test_mapped_columns_renamed_and_a_name_used_again(tmp_path: Path, mode: str) -> None:
    """IMP-4, SCH-3: a new column with the old name does not show the old column's values."""
    inner = {"type": "struct", "fields": [column("q", "string", 4, "p4")]}
    fields = [column("id", "long", 1, "p1"), column("v", "string", 3, "v"),
              column("w", "long", 2, "p2"), column("s", inner, 5, "p5")]  # fmt: skip
    configuration = {"columnMapping.mode": mode, "columnMapping.maxColumnId": "5"}
    made = HandMade(tmp_path / "t", fields, **configuration)

    def typed(names: list[str], ids: list[int], values: list[Any]) -> pa.Table:
        number = {b"PARQUET:field_id": b"4"}
        nested = pa.struct([pa.field("old4" if mode == "id" else "p4", pa.string(), True, number)])
        kinds = {1: pa.int64(), 2: pa.int64(), 3: pa.string(), 5: nested}
        schema = pa.schema(
            [
                pa.field(name, kinds[i], True, {b"PARQUET:field_id": str(i).encode()})
                for name, i in zip(names, ids, strict=True)
            ]
        )
        return pa.table([[value] for value in values], schema=schema)

    nested = {"old4" if mode == "id" else "p4": "in"}
    if mode == "id":
        first = typed(["x", "v", "z"], [1, 2, 5], [1, 10, nested])
    else:
        first = typed(["p1", "p2", "p5"], [1, 2, 5], [1, 10, nested])
    second = typed(["p1", "v", "p2", "p5"], [1, 3, 2, 5], [2, "new", 20, None])
    made.commit(made.add("a.parquet", first))
    made.commit(made.add("b.parquet", second))
    table = tablefmt.import_table(tmp_path / "t")
    expected: list[dict[str, Any]] = [
        {"id": 1, "v": None, "w": 10, "s": {"q": "in"}},
        {"id": 2, "v": "new", "w": 20, "s": None},
    ]
    assert table.to_arrow().to_pylist() == expected
    assert table.to_arrow(where="w = 10 and v is null")["id"].to_pylist() == [1]
    assert table.to_arrow(where="s.q = 'in'", columns=["w"]).to_pylist() == [{"w": 10}]
    table.update({"v": "concat(s.q, '!')"}, "id = 1")
    expected[0]["v"] = "in!"
    assert sorted(table.to_arrow().to_pylist(), key=lambda r: r["id"]) == expected
    table.compact("major")
    assert sorted(table.to_arrow().to_pylist(), key=lambda r: r["id"]) == expected
    names = {tuple(sorted(each.names.items())) for each in
             table.context.view.head.metadata.imports.values()}  # fmt: skip
    assert names == ({(), ((1, "x"), (2, "v"), (3, None), (4, "old4"), (5, "z"))}
                     if mode == "id" else {()}) or names == {((4, "old4"),),
                     ((1, "x"), (2, "v"), (3, None), (4, "old4"), (5, "z"))}  # fmt: skip


def test_hostile_and_unknown_metadata_is_refused(tmp_path: Path) -> None:
    """IMP-1, IMP-7: paths out of the source, features, vectors, damage. Nothing is written."""
    path = tmp_path / "t"

    def made(**more: Any) -> HandMade:
        shutil.rmtree(path, ignore_errors=True)
        table = HandMade(path, more.pop("fields", [column("x", "long")]))
        table.protocol |= more.pop("protocol", {})
        action = table.add("a.parquet", {"x": [1, 2]})
        action["add"].update(more)
        table.commit(action)
        return table

    def refused(error: type[Exception] | tuple[type[Exception], ...], match: str) -> None:
        with pytest.raises(error, match=match):
            tablefmt.import_table(path)
        assert not (path / "_log").exists()

    for outside in (
        "../a.parquet",
        "/etc/passwd",
        "s3://b/a.parquet",
        "a/%2e%2e/b",
        "_x/a.parquet",
    ):
        made(path=outside)
        refused(UnsupportedFeatureError, "IMP-1")
    made(protocol={"readerFeatures": ["zigzag"]})
    refused(UnsupportedFeatureError, "zigzag")
    made(fields=[column("x", "interval day")])
    refused(UnsupportedFeatureError, "interval")
    made(deletionVector={**VECTOR, "storageType": "p", "pathOrInlineDv": "file:///etc/passwd"})
    refused(UnsupportedFeatureError, "outside the table.s folder")
    made(deletionVector={**VECTOR, "cardinality": 5})
    refused(CorruptDataError, "a different number of rows")
    made(deletionVector={**VECTOR, "pathOrInlineDv": "0" * 50})
    refused(CorruptDataError, "cannot be read")
    made(deletionVector={**VECTOR, "sizeInBytes": 1 << 40})
    refused(CorruptDataError, "no valid size")
    made(path="lost.parquet")
    refused(CorruptDataError, r"lost\.parquet")
    made(partitionValues=7, fields=[column("x", "long"), column("p", "long")])
    (path / "_delta_log" / f"{1:020d}.json").write_text("[1")
    refused(CorruptTableError, "not JSON")
    made(size=1 << 63)
    refused(CorruptTableError, "an unexpected structure")
    table = made()
    table.metadata["partitionColumns"] = ["lost"]
    table.commit({"metaData": table.metadata})
    refused(CorruptTableError, "an unexpected structure")
    deep: Any = "long"
    for _ in range(400):
        deep = {"type": "array", "containsNull": True, "elementType": deep}
    table = made()
    table.metadata["schemaString"] = json.dumps({"fields": [column("x", deep)]})
    table.commit({"metaData": table.metadata})
    refused(SchemaMismatchError, "levels")
    made().version += 1
    (path / "_delta_log" / f"{2:020d}.json").write_text("{}")
    refused(CorruptTableError, "missing")


_FIRST = "_delta_log/00000000000000000000.json"


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        *((name, kind) for name in (_FIRST, "a.parquet", "b/v.bin") for kind in ("link", "pipe")),
        (_FIRST, "folder link"),
        ("b/v.bin", "folder link"),
    ],
)
def test_links_and_pipes_in_a_source_are_not_followed(tmp_path: Path, name: str, kind: str) -> None:
    """STO-2, IMP-7: a source's log, data files and vectors are regular files of its folder."""
    path = tmp_path / "t"
    vector = uuid.uuid4()
    table = HandMade(path, [column("x", "long")])
    stored = {**VECTOR, "storageType": "u", "pathOrInlineDv": f"b{z85(vector.bytes)}", "offset": 0}
    rows = pa.table({"x": pa.array(range(40), pa.int64())})
    table.commit(table.add("a.parquet", rows, deletionVector=stored))
    place = path / name.replace("v.bin", f"deletion_vector_{vector}.bin")
    place.parent.mkdir(exist_ok=True)
    if name.startswith("b/"):
        framed = struct.pack(">I", len(BODY)) + BODY + struct.pack(">I", zlib.crc32(BODY))
        place.write_bytes(framed)
    else:
        (path / "b").mkdir()
        (path / "b" / f"deletion_vector_{vector}.bin").write_bytes(b"")
    outside = tmp_path / "outside"
    if kind == "folder link":
        place.parent.rename(outside)
        place.parent.symlink_to(outside)
    else:
        place.rename(outside)
        if kind == "link":
            place.symlink_to(outside)
        else:
            os.mkfifo(place)
    with pytest.raises(TablefmtError):
        tablefmt.import_table(path, "delta")
    assert not (path / "_log").exists()


def test_a_commit_meanwhile_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """IMP-5."""
    path = str(tmp_path / "t")
    deltalake.write_deltalake(path, pa.table({"x": [1]}))
    read = getattr(delta_source, "read_delta")  # noqa: B009 - not its public name

    def late(store: Any) -> Any:
        state = read(store)
        deltalake.write_deltalake(path, pa.table({"x": [2]}), mode="append")
        return state

    monkeypatch.setattr(delta_source, "read_delta", late)
    with pytest.raises(CommitRejectedError, match="version 1 now"):
        tablefmt.import_table(path)


def test_a_delta_table_is_no_parquet_folder(tmp_path: Path) -> None:
    """IMP-7: some of its files are not rows any more."""
    deltalake.write_deltalake(str(tmp_path / "t"), pa.table({"x": [1]}))
    with pytest.raises(UnsupportedFeatureError, match="format delta"):
        tablefmt.import_table(tmp_path / "t", "parquet")


def test_partitions_of_floats_have_one_zero(tmp_path: Path) -> None:
    """VAL-2, IMP-4: -0.0 is 0.0 in the log; NaN and infinities are exact."""
    values = [-0.0, 0.0, float("nan"), float("inf"), float("-inf"), None]
    rows = pa.table({"id": range(6), "p": pa.array(values, pa.float64())})
    deltalake.write_deltalake(str(tmp_path / "t"), rows, partition_by=["p"])
    table = tablefmt.import_table(tmp_path / "t")
    zero = rows.set_column(1, "p", pa.array([0.0, *values[1:]]))
    for found in (table, tablefmt.open(tmp_path / "t")):
        assert alike(found.to_arrow()) == alike(zero)
    assert table.scan(where="p = 0").count() == 2
    assert table.verify(deep=True).ok


def test_names_of_partition_columns_may_have_colons(tmp_path: Path) -> None:
    """IMP-1: a colon in a path makes no address of it."""
    for number, name in enumerate(("a:b", "p a%20ü:#", "s3:c")):
        place = tmp_path / f"t{number}"
        rows = pa.table({"id": range(3), name: ["x:/y", ":", None]})
        deltalake.write_deltalake(str(place), rows, partition_by=[name])
        table = tablefmt.import_table(place)
        assert alike(table.to_arrow()) == alike(rows)
        assert table.scan(where=f"`{name}` = ':'").files().num_rows == 1


@pytest.mark.parametrize("elsewhere", [False, True])
def test_a_source_that_is_vacuumed_afterwards(tmp_path: Path, elsewhere: bool) -> None:
    """DAT-5: missing files are named. In its own folder, Delta removes the new table's files."""
    path, into = tmp_path / "t", tmp_path / "u" if elsewhere else None
    deltalake.write_deltalake(path, pa.table({"id": [1, 2], "p": ["a", "b"]}), partition_by=["p"])
    table = tablefmt.import_table(path, into=into)
    table.append([{"id": 3, "p": "c"}])
    source = deltalake.DeltaTable(path)
    source.delete("p = 'a'")
    source.vacuum(0, dry_run=False, enforce_retention_duration=False, full=True)
    table.refresh()
    with pytest.raises(CorruptDataError, match=r"p=a/.*it is missing"):
        table.to_arrow(where="p = 'a'")
    assert table.to_arrow(where="p = 'b'")["id"].to_pylist() == [2]
    if elsewhere:
        assert table.to_arrow(where="p = 'c'")["id"].to_pylist() == [3]
    else:
        with pytest.raises(CorruptDataError, match=r"data/.*it is missing"):
            table.to_arrow(where="p = 'c'")
    missing = {found.object for found in table.verify().findings}
    assert {key.split("/")[0] for key in missing} == ({"p=a"} if elsewhere else {"p=a", "data"})
    # The table is damaged now. The second reader would say so after the test.
    shutil.rmtree((into or path) / "_log")
