"""spec/faults.md has each known fault, and names tests that exist and show it."""

from __future__ import annotations

import ast
import re
from collections import Counter
from functools import lru_cache

from tests.places import ROOT

PAGE = (ROOT / "spec" / "faults.md").read_text(encoding="utf-8")
FAULTS = {"A": 20, "B": 20, "C": 5, "D": 16, "E": 12, "F": 16}
"""Number of faults of each part."""

RESULTS = {"survived", "refused", "out of scope"}
FIRES = {"counted", "planted", "outcome"}
NAMED = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")


def rows() -> list[list[str]]:
    """The cells of each row of the tables of faults."""
    lines = re.findall(r"^\| ([A-F]\d+ \|.*) \|$", PAGE, re.MULTILINE)
    return [[cell.strip() for cell in line.split(" | ")] for line in lines]


@lru_cache(maxsize=256)
def functions_of(path: str) -> dict[str, bool]:
    """The tests of a file, and whether each is left to the soak."""
    file = ROOT / path
    tree = ast.parse(file.read_text("utf-8") if file.is_file() else "")
    found = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            found[node.name] = any(ast.unparse(d)[-9:] == "mark.soak" for d in node.decorator_list)
    return found


def test_the_table_has_each_fault_once() -> None:
    expected = [f"{part}{number + 1}" for part, n in FAULTS.items() for number in range(n)]
    assert [row[0] for row in rows()] == expected
    assert {len(row) for row in rows()} == {7}
    assert Counter(row[1] for row in rows()) == {"P0": 65, "P1": 23, "P2": 1}
    assert {row[3] for row in rows()} == RESULTS
    assert {row[5] for row in rows()} == FIRES


def test_every_test_that_the_page_names_is_there() -> None:
    named = NAMED.findall(PAGE)
    assert len(named) > 120
    assert [f"{path}::{name}" for path, name in named if name not in functions_of(path)] == []
    assert PAGE.count("::test_") == len(named)


def test_each_fault_of_the_first_priority_has_a_test_that_ci_runs() -> None:
    for row in rows():
        named = NAMED.findall(row[6])
        assert row[1] != "P0" or any(not functions_of(path)[name] for path, name in named), row


def test_each_part_of_the_campaign_has_a_test() -> None:
    table = PAGE.partition("| what | CI | soak |")[2].partition("\n\n")[0]
    campaign = [line for line in table.splitlines() if line.startswith("| ")]
    assert len(campaign) >= 15
    assert [line for line in campaign if not NAMED.search(line)] == []
