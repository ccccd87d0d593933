"""Columns of overflow files that this version does not know, or that no writer may write."""

from __future__ import annotations

import hashlib
import io
import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from golden import maker

import tablefmt
from tablefmt.errors import CorruptTableError, TablefmtError, UnsupportedFeatureError
from tests.oracle import assert_agrees, logdump
from tests.places import GOLDEN
from tests.snapshot.forged import changes_of

pytestmark = pytest.mark.broken_tables

CASES = {"add": "side-file", "delete": "deletes-side"}


def with_column(folder: Path, place: str, name: str) -> str:
    """Add a column to the overflow file of `add` or `delete` in a golden table.

    Return its folder.
    """
    shutil.copytree(GOLDEN / CASES[place] / "table", folder)
    columns = overflow_columns(folder, place)
    with_overflow_file(folder, place, columns.append_column(name, pa.array([0] * len(columns))))
    return str(folder)


def entries_of(folder: Path, place: str) -> tuple[list[Path], list[Any], int]:
    """Return the entries, their documents, and the index of the first with an overflow file."""
    entries = sorted((folder / "_log").glob("*.json"))
    documents = [json.loads(path.read_bytes()) for path in entries]
    first = next(i for i, each in enumerate(documents) if "side" in each.get(place, {}))
    return entries, documents, first


def overflow_columns(folder: Path, place: str) -> pa.Table:
    _, documents, first = entries_of(folder, place)
    return pq.read_table(folder / documents[first][place]["side"]["path"])


def with_overflow_file(
    folder: Path, place: str, columns: pa.Table, files: int | None = None
) -> None:
    """Replace an overflow file by another. Every checksum is right."""
    entries, documents, first = entries_of(folder, place)
    side = documents[first][place]["side"]
    sink = io.BytesIO()
    pq.write_table(columns, sink)
    body = sink.getvalue()
    (folder / side["path"]).write_bytes(body)
    side.update(size=len(body), sha256=hashlib.sha256(body).hexdigest())
    side["files"] = side["files"] if files is None else files
    for at in range(first, len(entries)):
        document = documents[at]
        del document["checksum"]
        if at > first:
            before = entries[at - 1].read_bytes()
            document["previous"] = hashlib.sha256(before).hexdigest()
        text = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        entries[at].write_bytes(maker.seal(text.encode()))


@pytest.mark.parametrize("name", ["zebra", "zebra.1"])
@pytest.mark.parametrize("place", CASES)
def test_a_column_of_a_newer_version_is_told_by_name(tmp_path: Path, place: str, name: str) -> None:
    """VER-2, ADD-6, DEL-3: both readers refuse the column.

    In `delete` it may mean further deleted rows.
    """
    folder = with_column(tmp_path / "t", place, name)
    with pytest.raises(UnsupportedFeatureError, match="newer version") as caught:
        tablefmt.open(folder).to_arrow()
    assert caught.value.features == [f"field:{place}.zebra"]
    assert logdump.read(folder)["findings"][0]["rule"] == "VER-2"


@pytest.mark.parametrize("name", ["x_zebra", "x_zebra.1"])
@pytest.mark.parametrize("place", CASES)
def test_a_column_that_says_so_is_ignored(tmp_path: Path, place: str, name: str) -> None:
    """VER-2, ADD-6, DEL-3."""
    folder = with_column(tmp_path / "t", place, name)
    table = tablefmt.open(folder)
    assert table.to_arrow().equals(tablefmt.open(str(GOLDEN / CASES[place] / "table")).to_arrow())
    assert logdump.read(folder)["findings"] == []
    assert_agrees(table)


@pytest.mark.parametrize("name", ["path.7", "written.1", "lower", "lower.zz", "nulls.07"])
def test_a_column_that_an_entry_could_not_have_is_damage(tmp_path: Path, name: str) -> None:
    """ADD-1, ADD-6: both readers refuse a known name in an unknown form."""
    folder = with_column(tmp_path / "t", "add", name)
    with pytest.raises(CorruptTableError) as caught:
        tablefmt.open(folder).to_arrow()
    assert caught.value.rule == "ADD-6"
    assert {found["rule"] for found in logdump.read(folder)["findings"]} <= {"ADD-1", "ADD-6"}
    assert logdump.read(folder)["findings"] != []


@pytest.mark.slow
@pytest.mark.parametrize("place", CASES)
def test_wrong_content_is_read_or_refused(tmp_path: Path, place: str) -> None:
    """ADD-6, DEL-3, KEY-2, RPL-3: an overflow file with right checksums counts as part of the log.

    Content that breaks a rule is refused with an error of the package.
    """
    source = GOLDEN / CASES[place] / "table"
    folder = tmp_path / "t"
    shutil.copytree(source, folder)
    sound = tablefmt.open(str(folder)).to_arrow()
    refused = 0
    columns = overflow_columns(source, place)
    for at, (name, change) in enumerate(changes_of(columns, place)):
        try:
            changed = change(columns)
        except (pa.ArrowException, OverflowError, TypeError):
            continue
        folder = tmp_path / str(at)
        shutil.copytree(source, folder)
        with_overflow_file(folder, place, changed)
        try:
            found = tablefmt.open(str(folder)).to_arrow()
        except TablefmtError:
            refused += 1
            continue
        assert found.schema == sound.schema, name
        shutil.rmtree(folder)
    assert refused > 50


def test_a_few_bytes_of_many_rows_are_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ADD-6: the number of rows is compared before any is read."""
    folder = tmp_path / "t"
    shutil.copytree(GOLDEN / CASES["add"] / "table", folder)
    columns = overflow_columns(folder, "add")
    many = pa.concat_tables([columns] * 1000)
    with_overflow_file(folder, "add", many, files=len(columns))
    monkeypatch.setattr(pq, "read_table", lambda *given, **how: pytest.fail("it was read"))
    with pytest.raises(CorruptTableError, match="ADD-6"):
        tablefmt.open(str(folder)).to_arrow()
