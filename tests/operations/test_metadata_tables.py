"""Metadata tables without Spark: their rows, and the names that they have."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tablefmt
from tablefmt.errors import InvalidRangeError, UnsupportedFeatureError
from tablefmt.operations.metadata_tables import (
    KNOWN_NAMES,
    NAMES,
    OF_A_TABLE,
    REFS_SCHEMA,
    REFUSED,
    MetadataName,
    metadata_name,
    metadata_path,
    metadata_rows,
)
from tests.places import ROOT


@pytest.fixture
def table(tmp_path: Path) -> tablefmt.Table:
    """Three appends in two partitions and one of NULL, a DELETE of a row, a tag."""
    table = tablefmt.create(str(tmp_path / "t"), "id BIGINT, p STRING", partition_by=["p"])
    table.append({"id": [1, 2], "p": ["b", "a"]})
    table.append({"id": [3], "p": [None]})
    table.append({"id": [4, 5], "p": ["b", "b"]})
    table.delete("id = 4")
    table.alter.set_tag("q", version=2)
    return table.refresh()


def partitions(rows: pa.Table) -> list[tuple[Any, ...]]:
    return [(r["partition"]["p"], r["files"], r["rows"]) for r in rows.to_pylist()]


def test_partitions_are_sums_over_the_files_of_a_version(table: tablefmt.Table) -> None:
    """They are in the order of values, NULL last, and count no deleted row."""
    newest = table.scan().partitions()
    assert partitions(newest) == [("a", 1, 1), ("b", 2, 2), (None, 1, 1)]
    assert sum(newest["bytes"].to_pylist()) == sum(table.scan().files()["size"].to_pylist())
    assert partitions(table.scan(version=1).partitions()) == [("a", 1, 1), ("b", 1, 1)]
    assert partitions(table.scan(where="p = 'b'").partitions()) == [("b", 2, 2)]
    assert partitions(table.scan(version=0).partitions()) == []


def test_a_table_without_partitions_has_one_row_if_it_has_files(tmp_path: Path) -> None:
    table = tablefmt.create(str(tmp_path / "t"), "id BIGINT")
    assert table.scan().partitions().num_rows == 0
    table.append({"id": [1, 2]})
    (row,) = table.refresh().scan().partitions().to_pylist()
    assert row == {"files": 1, "rows": 2, "bytes": table.scan().files()["size"][0].as_py()}


def test_snapshots_are_the_versions_that_can_be_read(table: tablefmt.Table) -> None:
    """Each has the one before as its parent. A version that was given up is none."""
    found = table.snapshots().to_pylist()
    history = table.history().to_pylist()[::-1]
    assert [(r["snapshot_id"], r["parent_id"]) for r in found] == [
        (0, None), (1, 0), (2, 1), (3, 2), (4, 3), (5, 4),
    ]  # fmt: skip
    names = ("committed_at", "operation", "summary")
    assert [[r[n] for n in names] for r in found] == [
        [h["timestamp"], h["operation"], h["operationMetrics"]] for h in history
    ]
    table.alter.drop_tag("q")
    table.alter.set_properties({"deletedFileRetentionDuration": "0 seconds"})
    table.compact("major")
    table.vacuum(retention=0, dry_run=False)
    kept = [r["snapshot_id"] for r in table.snapshots().to_pylist()]
    assert kept == list(range(table.refresh().oldest_version, table.version + 1))
    assert table.oldest_version > 5


def with_icebergs(history: pa.Table) -> pa.Table:
    """Rows of `Table.history` with the columns of Iceberg's history."""
    versions = history["version"].to_pylist()
    more = {
        "made_current_at": history["timestamp"],
        "snapshot_id": pa.chunked_array([versions], pa.int64()),
        "parent_id": pa.chunked_array([[v - 1 if v else None for v in versions]], pa.int64()),
        "is_current_ancestor": pa.chunked_array([[True] * len(versions)], pa.bool_()),
    }
    for name, column in more.items():
        history = history.append_column(name, column)
    return history


def references(table: tablefmt.Table) -> pa.Table:
    """The newest version and the tags, in the form of Iceberg's references."""
    tags = table.tags().to_pylist()
    rows = [("main", "BRANCH", table.refresh().version)]
    rows += [(tag["name"], "TAG", tag["version"]) for tag in tags]
    given = [dict(zip(REFS_SCHEMA.names[:3], row, strict=True)) for row in rows]
    return pa.Table.from_pylist(given, REFS_SCHEMA)


def test_rows_are_those_of_the_methods(table: tablefmt.Table) -> None:
    context = table.context
    expected = {
        "history": with_icebergs(table.history()),
        "refs": references(table),
        "snapshots": table.snapshots(),
        "tags": table.tags(),
        "files": table.scan().files(),
        "partitions": table.scan().partitions(),
    }
    assert set(expected) == set(NAMES)
    for kind, rows in expected.items():
        assert metadata_rows(context, kind) == rows, kind
    for how in ({"version": 2}, {"version": "q"}):
        for kind, rows in (
            ("files", table.scan(version=2).files()),
            ("partitions", table.scan(version=2).partitions()),
        ):
            assert metadata_rows(context, kind, **how) == rows


def test_what_has_no_versions_or_no_rows_is_refused_by_name(table: tablefmt.Table) -> None:
    for kind in OF_A_TABLE:
        with pytest.raises(InvalidRangeError, match=f"{kind} covers all versions"):
            metadata_rows(table.context, kind, version=1)
    for kind, instead in REFUSED.items():
        with pytest.raises(UnsupportedFeatureError) as seen:
            metadata_rows(table.context, kind)
        assert instead in str(seen.value)
        assert seen.value.features == [f"sql:{kind}"]


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (("t", "files"), MetadataName(("t",), "files")),
        (("db", "t", "HISTORY"), MetadataName(("db", "t"), "history")),
        (("tablefmt", "/a.files", "tags"), MetadataName(("tablefmt", "/a.files"), "tags")),
        (("TableFmt", "/a#b#Files"), MetadataName(("TableFmt", "/a#b"), "files")),
        (("t", "manifests"), MetadataName(("t",), "manifests")),
        (("files",), None),
        (("t", "file"), None),
        (("files", "t"), None),
        (("delta", "/a#files"), None),
        (("tablefmt", "#files"), None),
        (("db", "tablefmt", "/a#files"), None),
    ],
)
def test_names_of_metadata_tables(words: tuple[str, ...], found: MetadataName | None) -> None:
    assert metadata_name(words) == found


def test_paths_of_metadata_tables() -> None:
    assert metadata_path("s3://b/t#files") == ("s3://b/t", "files")
    for path in ("/t", "/t#", "/t#file", "/t/files", "#files"):
        assert metadata_path(path) is None
    assert len(set(KNOWN_NAMES)) == len(NAMES) + len(REFUSED)


def test_the_page_of_the_site_has_the_columns(table: tablefmt.Table) -> None:
    page = (ROOT / "tools/docs/pages/reference/metadata-tables.md").read_text("utf-8")
    for kind in NAMES:
        section = page.partition(f"\n## {kind}\n")[2].partition("\n## ")[0]
        named = re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE)
        assert named == metadata_rows(table.context, kind).column_names, kind
    listed = re.findall(r"^\| `t\.(\w+)` \|", page, re.MULTILINE)
    assert sorted(listed) == sorted(NAMES)
