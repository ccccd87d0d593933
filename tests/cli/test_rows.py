"""Deleted rows in the output of the commands."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.cli.conftest import run
from tests.places import GOLDEN


@pytest.fixture
def golden(tmp_path: Path, request: pytest.FixtureRequest) -> str:
    shutil.copytree(GOLDEN / request.param / "table", tmp_path / "t")
    return str(tmp_path / "t")


@pytest.mark.parametrize(
    ("golden", "expected"),
    [
        ("deletes", [[1, 1, 0], [2, 1, 0], [1, 1, 0], [2, 0, 2]]),
        ("deletes-side", [[1, 1, 0], [2, 1, 1]]),
    ],
    indirect=["golden"],
)
def test_log_and_show_count_the_rows_taken_out_of_each_file(
    golden: str, expected: list[list[int]]
) -> None:
    """DEL-1, DEL-3: both commands show deleted and updated rows, for all columns of the log."""
    entries = run("log", golden, "--json").lines
    shown = [list(line.values()) for entry in entries for line in entry["deletes"]]
    assert shown == expected
    last = entries[-1]
    assert last["totals"]["deleted"] == sum(sum(line[1:]) for line in expected)
    document = run("show", golden, str(last["version"]), "--json").document
    document.pop("removed")
    assert document == last


@pytest.mark.parametrize("golden", ["deletes"], indirect=True)
def test_the_log_as_text_shows_rows_that_came_and_went(golden: str) -> None:
    lines = [line.split() for line in run("log", golden).out.splitlines()][1:]
    assert [line[-1] for line in lines] == ["0", "4", "8", "6", "5"]
    assert [line[-6:-1] for line in lines[3:]] == [
        ["+0", "-0", "+0", "-2", "+0"],
        ["+1", "-0", "+2", "-3", lines[4][-2]],
    ]
    text = run("show", golden, "4").out
    assert "deletes" in text
    assert "x IN (6, 7) OR x = 1" in text


@pytest.mark.parametrize("golden", ["deletes"], indirect=True)
def test_sums_of_files_and_partitions_are_of_the_rows_left(golden: str) -> None:
    described = run("describe", golden, "--json").document
    assert (described["numFiles"], described["numRows"]) == (3, 5)
    files = run("files", golden, "--json").document
    assert [(f["rows"], f["deleted"]) for f in files] == [(4, 2), (4, 3), (2, 0)]
    assert [p["rows"] for p in run("partitions", golden, "--json").document] == [5]


@pytest.mark.parametrize("golden", ["deletes"], indirect=True)
def test_diff_counts_rows_that_files_lost(golden: str) -> None:
    """Forwards they are removed, backwards added; files that came count what they have left."""
    there = run("diff", golden, "2", "4", "--json").document
    back = run("diff", golden, "4", "2", "--json").document
    assert (there["rows_added"], there["rows_removed"]) == (2, 5)
    assert (back["rows_added"], back["rows_removed"]) == (5, 2)
    assert run("diff", golden, "1", "4", "--json").document["rows_added"] == 1 + 2


@pytest.mark.parametrize("golden", ["copy-on-write"], indirect=True)
def test_show_prints_lineage(golden: str) -> None:
    """LIN-1: a line a run, with how many rows it left out."""
    version = len(run("log", golden, "--json").lines) - 1
    shown = run("show", golden, str(version), "--json").document
    assert [list(line.values()) for line in shown["lineage"]] == [[0, 1, 0, 1, 0], [0, 1, 3, 1, 0]]
    assert shown["update"] == {"set": [1], "keys": []}
    text = run("show", golden, str(version)).out
    assert [word in text for word in ("lineage", "deletes", "input")] == [True] * 3
