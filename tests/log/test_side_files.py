"""Columns of side files that this version does not know, or that nobody may write."""

from __future__ import annotations

import hashlib
import io
import json
import shutil
from pathlib import Path

import golden_maker
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tablefmt
from tablefmt.errors import CorruptTableError, UnsupportedFeatureError
from tests.oracle import assert_agrees, logdump
from tests.places import GOLDEN

pytestmark = pytest.mark.broken_tables

CASES = {"add": "side-file", "delete": "deletes-side"}


def with_column(folder: Path, place: str, name: str) -> str:
    """A golden table whose side file of `add` or `delete` has one more column; where it is."""
    shutil.copytree(GOLDEN / CASES[place] / "table", folder)
    entries = sorted((folder / "_log").glob("*.json"))
    documents = [json.loads(path.read_bytes()) for path in entries]
    first = next(i for i, each in enumerate(documents) if "side" in each.get(place, {}))
    side = documents[first][place]["side"]
    columns = pq.read_table(folder / side["path"])
    sink = io.BytesIO()
    pq.write_table(columns.append_column(name, pa.array([0] * len(columns))), sink)
    body = sink.getvalue()
    (folder / side["path"]).write_bytes(body)
    side.update(size=len(body), sha256=hashlib.sha256(body).hexdigest())
    for at in range(first, len(entries)):
        document = documents[at]
        del document["checksum"]
        if at > first:
            before = entries[at - 1].read_bytes()
            document["previous"] = hashlib.sha256(before).hexdigest()
        text = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        entries[at].write_bytes(golden_maker.seal(text.encode()))
    return str(folder)


@pytest.mark.parametrize("name", ["zebra", "zebra.1"])
@pytest.mark.parametrize("place", CASES)
def test_a_column_of_a_newer_version_is_told_by_name(tmp_path: Path, place: str, name: str) -> None:
    """VER-2, ADD-6, DEL-3: by both readers; in `delete` it may say which rows are gone."""
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
    """ADD-1, ADD-6: of a known name in a shape that it has not; by both readers."""
    folder = with_column(tmp_path / "t", "add", name)
    with pytest.raises(CorruptTableError) as caught:
        tablefmt.open(folder).to_arrow()
    assert caught.value.rule == "ADD-6"
    assert {found["rule"] for found in logdump.read(folder)["findings"]} <= {"ADD-1", "ADD-6"}
    assert logdump.read(folder)["findings"] != []
