"""Sources that somebody spoilt: an import refuses them, and writes nothing (IMP-5, IMP-7)."""

from __future__ import annotations

import copy
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pytest

import tablefmt
from tablefmt.errors import (
    CorruptDataError,
    CorruptTableError,
    SchemaMismatchError,
    TablefmtError,
    UnsupportedFeatureError,
)
from tests.imports.sources import contents, write
from tests.imports.test_delta_tables import VECTOR, HandMade, column
from tests.imports.test_iceberg_tables import made

Refusal = tuple[type[TablefmtError], str]
Format = Literal["delta", "iceberg"] | None
SHAPE: Refusal = (CorruptTableError, "an unexpected structure")
PATH: Refusal = (UnsupportedFeatureError, "IMP-1")
LOST: Refusal = (CorruptDataError, "missing|no object")
OUTSIDE: Refusal = (UnsupportedFeatureError, "outside")
VECTOR_LOST: Refusal = (CorruptDataError, "cannot be read")
VECTOR_ROWS: Refusal = (CorruptDataError, "different number")
VECTOR_SIZE: Refusal = (CorruptDataError, "valid size")


def check_refused(path: Path, format: Format, refusal: Refusal) -> None:
    """Check that an import raises this error, and leaves the folder as it was."""
    error, said = refusal
    before = contents(path)
    with pytest.raises(error, match=said):
        tablefmt.import_table(path, format)
    assert contents(path) == before
    assert not (path / "_log").exists()


ADDS: list[tuple[dict[str, Any], Refusal]] = [
    *(({"path": path}, PATH) for path in (
        "../t/a.parquet", "./a.parquet", "a//b", "", "/", "..", "%2e%2e/a.parquet", "%2Fetc%2Fp",
        "file:///etc/passwd", "http://h/a", "S3://b/x", "a%00.parquet", "a%0a.parquet", "x" * 2000,
        "a\\..\\b", "_delta_log/00000000000000000000.json", "metadata/x", "deletes/x",
    )),
    *(({"path": path}, SHAPE) for path in (5, ["a"], {"a": 1}, True)),
    *(({"path": path}, LOST) for path in ("a%2", "%", "data/x", "A.parquet")),
    *(({"size": size}, SHAPE) for size in (-1, 0, 1 << 63, 1 << 100, None, [], "x", (1 << 62) + 1)),
    *(({"size": size}, (CorruptDataError, "a.parquet")) for size in (1, 1 << 62, True)),
    *(({"partitionValues": values}, SHAPE)
      for values in ([], 7, "x", {"p": 1}, {"p": ["a"]})),
    *(({"deletionVector": vector}, SHAPE) for vector in (7, [], {}, "x", {"storageType": "i"})),
    *(({"deletionVector": {**VECTOR, **changed}}, refusal) for changed, refusal in (
        ({"cardinality": -1}, VECTOR_ROWS),
        ({"cardinality": 1 << 70}, VECTOR_ROWS),
        ({"sizeInBytes": -1}, VECTOR_SIZE),
        ({"sizeInBytes": 0}, VECTOR_SIZE),
        ({"sizeInBytes": 1 << 70}, VECTOR_SIZE),
        ({"storageType": 7}, OUTSIDE),
        ({"storageType": "p", "pathOrInlineDv": "/etc/passwd"}, OUTSIDE),
        ({"storageType": "u", "pathOrInlineDv": "../" * 7 + "x"}, VECTOR_LOST),
        ({"storageType": "u", "pathOrInlineDv": "../" + "0" * 20}, VECTOR_LOST),
        ({"storageType": "u", "pathOrInlineDv": "ab" + "0" * 20}, VECTOR_LOST),
        ({"pathOrInlineDv": "\0" * 40}, VECTOR_LOST),
        ({"pathOrInlineDv": 7}, SHAPE),
    )),
]  # fmt: skip
"""Parts of the `add` of the only file, and how the import refuses them."""


def delta(path: Path, said: dict[str, Any] | None = None) -> HandMade:
    """Write a Delta table of one file, partitioned by `p`. `said` of its `add` is changed."""
    shutil.rmtree(path, ignore_errors=True)
    table = HandMade(path, [column("x", "long"), column("p", "string")])
    table.metadata["partitionColumns"] = ["p"]
    add = table.add("a.parquet", {"x": [1, 2]}, partitionValues={"p": "q"})
    add["add"] |= said or {}
    table.commit(add)
    return table


@pytest.mark.parametrize("at", range(len(ADDS)), ids=lambda at: f"{ADDS[at][0]!r:.40}")
def test_files_that_a_delta_log_describes_wrongly(tmp_path: Path, at: int) -> None:
    """IMP-1, IMP-7: paths, lengths, partition values and vectors of any type."""
    said, refusal = ADDS[at]
    delta(tmp_path / "t", said)
    check_refused(tmp_path / "t", "delta", refusal)


def test_what_an_import_of_delta_need_not_know(tmp_path: Path) -> None:
    """IMP-5: statistics, tags and times of any type."""
    delta(tmp_path / "t", {"tags": 7, "stats": "{", "dataChange": "x", "modificationTime": 1 << 70})
    rows = tablefmt.import_table(tmp_path / "t").to_arrow().to_pylist()
    assert rows == [{"x": 1, "p": "q"}, {"x": 2, "p": "q"}]


DEEP: Any = "long"
for _ in range(300):
    DEEP = {"type": "array", "containsNull": True, "elementType": DEEP}


def schema(*fields: Any) -> dict[str, Any]:
    return {"metaData": {"schemaString": json.dumps({"type": "struct", "fields": fields})}}


ACTIONS: list[tuple[dict[str, Any], Refusal]] = [
    ({"add": {"path": "%61.parquet", "size": 1, "partitionValues": {"p": "q"}}},
     (CorruptTableError, "names the file 'a.parquet' twice")),
    ({"add": 7}, SHAPE), ({"add": {"size": 7}}, SHAPE), ({"remove": {}}, SHAPE),
    ({"remove": {"path": "a.parquet", "deletionVector": 7}}, SHAPE),
    ({"protocol": 7}, SHAPE), ({"protocol": {"minReaderVersion": "1"}}, SHAPE),
    ({"protocol": {"minReaderVersion": 99}}, (UnsupportedFeatureError, "minReaderVersion 99")),
    ({"metaData": []}, (CorruptTableError, "protocol or the schema")), ({"metaData": 7}, SHAPE),
    *((schema(*fields), SHAPE) for fields in ([7], [{"name": "x"}], [{"type": "long"}])),
    (schema(column("x", "decimal(99,1)")), (UnsupportedFeatureError, "decimal")),
    (schema(column("x", {"type": "udt", "class": "os"})), (UnsupportedFeatureError, "udt")),
    (schema(column("x", DEEP)), (SchemaMismatchError, "levels")),
    (schema(column("x", "long"), column("X", "long")), (SchemaMismatchError, "case")),
    *(({"metaData": {"partitionColumns": by}}, SHAPE)
      for by in (7, "x", [7], ["x", "x"], ["lost"])),
    *(({"metaData": {"configuration": {"delta.columnMapping.mode": mode}}}, refusal)
      for mode, refusal in (("zz", (UnsupportedFeatureError, "unknown mode")), ("name", SHAPE))),
    ({"metaData": {"configuration": 7}}, SHAPE),
]  # fmt: skip
"""Another action of the log; `metaData` is added to what it says otherwise."""


@pytest.mark.parametrize("at", range(len(ACTIONS)), ids=lambda at: f"{ACTIONS[at][0]!r:.40}")
def test_actions_of_a_delta_log_of_another_shape(tmp_path: Path, at: int) -> None:
    """IMP-5, IMP-7: the type of each value is checked first."""
    action, refusal = ACTIONS[at]
    table = delta(tmp_path / "t")
    if isinstance(action.get("metaData"), dict):
        plain = {**table.metadata, "partitionColumns": []}
        action = {"metaData": {**plain, **action["metaData"]}}
    table.commit(action)
    check_refused(tmp_path / "t", "delta", refusal)


LINES: list[tuple[bytes, Refusal]] = [
    *((line, (CorruptTableError, "not JSON")) for line in (
        b"\0" * 100, '{"add":1}'.encode("utf-16"), b'{"add":"\xff"}', b'{"x":NaN}', b"[" * 100_000,
        b'{"add":',
    )),
    *((line, (CorruptTableError, "not a JSON object")) for line in (b"7", b"[]", b'"x"', b"null")),
]  # fmt: skip


@pytest.mark.parametrize("at", range(len(LINES)))
def test_lines_of_a_delta_log_that_are_no_actions(tmp_path: Path, at: int) -> None:
    """IMP-5: bytes, depth, other JSON."""
    line, refusal = LINES[at]
    delta(tmp_path / "t")
    (tmp_path / "t" / "_delta_log" / f"{1:020d}.json").write_bytes(line)
    check_refused(tmp_path / "t", "delta", refusal)


Names = Callable[[Path, Path], object]

UNLISTED: dict[str, Names] = {
    "link": lambda path, other: (path / "b.parquet").symlink_to(other / "o.parquet"),
    "folder link": lambda path, other: (path / "p").symlink_to(other),
    "dead link": lambda path, other: (path / "b.parquet").symlink_to(other / "lost"),
    "pipe": lambda path, other: os.mkfifo(path / "b.parquet"),
    "bytes": lambda path, other: Path(os.fsdecode(os.fsencode(path) + b"/\xff.parquet")).touch(),
    "bytes above": lambda path, other: Path(os.fsdecode(os.fsencode(path) + b"/\xff")).mkdir(),
    "backslash": lambda path, other: (path / "b\\c.parquet").touch(),
    "log": lambda path, other: (path / "_delta_log").symlink_to(other),
    "metadata": lambda path, other: (path / "metadata").symlink_to(other),
}


@pytest.mark.parametrize("kind", UNLISTED)
def test_a_name_that_a_store_does_not_list_is_refused(tmp_path: Path, kind: str) -> None:
    """STO-2, IMP-7: its rows would be left out, or a log be overlooked."""
    path, other = tmp_path / "t", tmp_path / "other"
    write(path / "a.parquet", {"x": [1]})
    write(other / "o.parquet", {"x": [2]})
    UNLISTED[kind](path, other)
    check_refused(path, None, (UnsupportedFeatureError, r"is a link or another special file"))


def test_a_commit_that_is_a_link_is_not_left_out(tmp_path: Path) -> None:
    """STO-2, IMP-7: an older version would be imported instead."""
    path = tmp_path / "t"
    table = delta(path)
    table.commit({"remove": {"path": "a.parquet"}})
    newest = path / "_delta_log" / f"{1:020d}.json"
    newest.rename(tmp_path / "outside.json")
    newest.symlink_to(tmp_path / "outside.json")
    check_refused(path, None, (UnsupportedFeatureError, "00000000000000000001.json"))


def test_names_of_folders_that_are_no_values(tmp_path: Path) -> None:
    """IMP-5, IMP-7: two values that are not UTF-8 would become one."""
    path = tmp_path / "t"
    write(path / "p=%ff" / "a.parquet", {"x": [1]})
    check_refused(path, None, (UnsupportedFeatureError, "not UTF-8"))
    shutil.rmtree(path)
    for value in ("٣", "%2e%2e", "%2Fetc"):
        write(path / f"p={value}" / "a.parquet", {"x": [1]})
    rows = tablefmt.import_table(path).to_arrow().to_pylist()
    assert sorted(row["p"] for row in rows) == ["..", "/etc", "٣"]


Document = dict[str, Any]


def put(*path: Any, to: Any) -> Callable[[Document], object]:
    """Return a change of one place of a document."""

    def change(document: Document) -> None:
        place = document
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = to

    return change


FIELD = ("schemas", -1, "fields", 0)
SNAPSHOT: Refusal = (CorruptTableError, "the current snapshot")
IDS: Refusal = (UnsupportedFeatureError, "ids or names")
UNREADABLE: Refusal = (UnsupportedFeatureError, "PyIceberg cannot read")

DOCUMENTS: list[tuple[Callable[[Document], object], Refusal]] = [
    *((put("current-snapshot-id", to=value), SNAPSHOT) for value in (0, 1 << 31, None, -1)),
    (put("snapshots", to=[]), SNAPSHOT),
    (put("snapshots", -1, "snapshot-id", to=7), SNAPSHOT),
    *((put(*FIELD, "id", to=value), IDS) for value in (-1, 0, 1 << 31, 1 << 63, 1 << 100)),
    (put(*FIELD, "id", to=2), (SchemaMismatchError, "string in the column")),
    (put("last-column-id", to=1 << 100), IDS),
    (put("last-column-id", to=1), IDS),
    (put(*FIELD, "name", to="p"), UNREADABLE),
    *((put(*FIELD, "type", to=kind), UNREADABLE) for kind in (7, None, {"type": "list"})),
    *((put("snapshots", -1, "manifest-list", to=address), (UnsupportedFeatureError, "outside of"))
      for address in ("../x", "file:///etc/passwd", "s3://b/x", "", "/db/t/../../x")),
    (put("snapshots", to=7), UNREADABLE),
    (put("schemas", to=[]), UNREADABLE),
]  # fmt: skip


def test_documents_of_iceberg_that_contradict_themselves(tmp_path: Path) -> None:
    """IMP-5, IMP-7, SCH-4: snapshots that are not there, ids that no table has, addresses."""
    made(tmp_path, pa.table({"id": [1, 2], "p": ["a", "b"]}))
    path = tmp_path / "db" / "t"
    newest = max((path / "metadata").glob("*.metadata.json"))
    document = json.loads(newest.read_text())
    for change, refusal in DOCUMENTS:
        spoilt = copy.deepcopy(document)
        change(spoilt)
        newest.write_text(json.dumps(spoilt))
        check_refused(path, "iceberg", refusal)
    newest.write_text(json.dumps(document))
    assert tablefmt.import_table(path).count() == 2


def test_files_that_an_iceberg_manifest_describes_wrongly(tmp_path: Path) -> None:
    """IMP-1, IMP-5, IMP-7: addresses, counts, lengths, formats, and a file that is named twice."""
    from pyiceberg.io.pyarrow import PyArrowFileIO
    from pyiceberg.manifest import (
        DataFile,
        FileFormat,
        ManifestEntry,
        ManifestEntryStatus,
        write_manifest,
        write_manifest_list,
    )

    ice = made(tmp_path, pa.table({"id": [1, 2]}))
    path, files = tmp_path / "db" / "t", PyArrowFileIO()
    snapshot, location = ice.current_snapshot(), ice.metadata.location
    (task,) = ice.scan().plan_files()
    sound = {
        "content": task.file.content, "file_path": task.file.file_path,
        "file_format": FileFormat.PARQUET, "partition": task.file.partition, "record_count": 2,
        "file_size_in_bytes": task.file.file_size_in_bytes,
    }  # fmt: skip
    outside: Refusal = (UnsupportedFeatureError, "outside of")
    wrong: list[tuple[list[dict[str, Any]], Refusal]] = [
        *(([{"file_path": address}], outside) for address in (
            "../x", "/etc/passwd", "s3://b/x", f"{location}/../x", f"{location}/a/./b", location)),
        ([{"file_path": f"{location}/_log/x"}], PATH),
        ([{"file_path": f"{location}/metadata/x"}], PATH),
        ([{"file_path": f"{location}/data/lost"}], LOST),
        *(([{"record_count": count}], (CorruptDataError, "2 rows, but the metadata says"))
          for count in (-1, 1, 99, 1 << 62)),
        *(([{"file_size_in_bytes": size}], (CorruptDataError, "data/"))
          for size in (-1, 0, 5, 1 << 20, 1 << 62)),
        ([{"file_format": FileFormat.ORC}], (UnsupportedFeatureError, "ORC")),
        ([{}, {}], (CorruptTableError, "names the file .* twice")),
    ]  # fmt: skip
    for changes, refusal in wrong:
        manifest, listed = f"{location}/metadata/spoilt.avro", snapshot.manifest_list
        spec, columns = ice.spec(), ice.schema()
        place = files.new_output(manifest)
        with write_manifest(2, spec, columns, place, snapshot.snapshot_id, "deflate") as writer:
            for change in changes:
                file = DataFile.from_args(_table_format_version=2, **{**sound, **change})
                writer.add_entry(
                    ManifestEntry.from_args(
                        status=ManifestEntryStatus.ADDED,
                        snapshot_id=snapshot.snapshot_id,
                        sequence_number=None,
                        file_sequence_number=None,
                        data_file=file,
                    )
                )
        Path(listed.removeprefix("file://")).unlink()
        with write_manifest_list(
            2, files.new_output(listed), snapshot.snapshot_id, None, 1, "deflate"
        ) as lists:
            lists.add_manifests([writer.to_manifest_file()])
        check_refused(path, "iceberg", refusal)
        Path(manifest.removeprefix("file://")).unlink()
