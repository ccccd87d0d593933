"""Rows at every version, and of ranges of commits, are those that golden tables expect.

The expected rows were written by hand beside each entry: tools/golden/feeds.py.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import logdump
import pyarrow.parquet as pq
import pytest
from golden import maker

import tablefmt
from tablefmt import errors
from tests.places import GOLDEN
from tests.spec.test_golden import GOOD, instant

EXPECTED = {
    name: json.loads((GOLDEN / name / "expected.json").read_text(encoding="utf-8")) for name in GOOD
}

RESTORE = 8

pytestmark = pytest.mark.broken_tables


def opened(name: str, folder: Path) -> tablefmt.Table:
    """A copy, for readers leave a hint."""
    shutil.copytree(GOLDEN / name / "table", folder / "t")
    return tablefmt.open(str(folder / "t"))


def bounds_of(asked: dict[str, Any]) -> dict[str, Any]:
    """Return the expected bounds as arguments of the package."""
    answer = ("rows", "error")
    return {
        name.replace("_time", "_timestamp"): instant(value) if name.endswith("_time") else value
        for name, value in asked.items()
        if name not in answer
    }


@pytest.mark.parametrize("name", [n for n in GOOD if "versions" in EXPECTED[n]])
def test_every_version_has_its_rows(name: str, tmp_path: Path) -> None:
    """RPL-1, RPL-4, TIM-4."""
    table = opened(name, tmp_path)
    shown = {
        version: maker.plain_rows(table.to_arrow(version=int(version)).to_pylist())
        for version in EXPECTED[name]["versions"]
    }
    assert shown == EXPECTED[name]["versions"]


@pytest.mark.parametrize("name", [n for n in GOOD if "changes" in EXPECTED[n]])
def test_every_range_has_its_rows(name: str, tmp_path: Path) -> None:
    """INC-1 to INC-7."""
    table = opened(name, tmp_path)
    for asked in EXPECTED[name]["changes"]:
        if "error" in asked:
            with pytest.raises(getattr(errors, asked["error"])):
                table.changes(**bounds_of(asked)).to_arrow()
            continue
        rows = table.changes(**bounds_of(asked)).to_arrow().to_pylist()
        assert maker.plain_rows(rows) == asked["rows"], asked


def test_the_log_dump_says_which_rows_came_and_went() -> None:
    """INC-5: the dump lists the changes of every entry, for a restore also equal rows (INC-6)."""
    uri = str(GOLDEN / "feed" / "table")
    told: dict[int, list[dict[str, Any]]] = {}
    for item in logdump.read(uri, changes=True)["entries"]:
        told[item["version"]] = []
        for change in item["changes"]:
            rows = pq.read_table(f"{uri}/{change['path']}").to_pylist()
            for first, end in change["rows"]:
                told[item["version"]] += [
                    {**row, "_change_type": change["type"]} for row in rows[first:end]
                ]
    for asked in EXPECTED["feed"]["changes"]:
        version = asked.get("starting_version")
        if "error" in asked or version is None or version != asked.get("ending_version"):
            continue
        rows = [{k: row[k] for k in ("k", "v", "_change_type")} for row in asked["rows"]]
        if version != RESTORE:
            assert maker.plain_rows(told[version]) == maker.plain_rows(rows), version
