"""spec/security.md names tests that are there, and has a row for each kind of threat."""

from __future__ import annotations

import ast
import re

from tests.places import ROOT

PAGE = (ROOT / "spec" / "security.md").read_text(encoding="utf-8")
KINDS = {
    "entry",
    "checkpoint",
    "history",
    "overflow metadata file",
    "data file",
    "hint",
    "import",
    "copy",
    "name",
    "text",
    "path",
    "neighbour",
    "temporary file",
    "secret",
    "worker",
}
NAMED = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")


def threats() -> list[list[str]]:
    """The cells of each row of the table of threats."""
    table = PAGE.partition("| threat |")[2].partition("\n## ")[0]
    lines = [line for line in table.splitlines() if line.startswith("| ") and "---" not in line]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_every_kind_of_thing_has_a_row() -> None:
    assert KINDS - {row[0] for row in threats()} == set()


def test_every_row_names_a_test_that_is_there() -> None:
    missing = []
    for row in threats():
        named = NAMED.findall(row[-1])
        assert named, row
        for path, function in named:
            file = ROOT / path
            text = file.read_text("utf-8") if file.is_file() else ""
            names = {n.name for n in ast.walk(ast.parse(text)) if isinstance(n, ast.FunctionDef)}
            if function not in names:
                missing.append(f"{path}::{function}")
    assert missing == []
