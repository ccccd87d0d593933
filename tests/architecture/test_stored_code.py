"""No code that a table holds can run: nothing of the package unpickles or evaluates text (F12)."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tests.places import ROOT

MODULES = frozenset({"cloudpickle", "dill", "joblib", "marshal", "pickle", "shelve"})
CALLS = frozenset({"eval", "exec", "compile", "__import__"})
EXTENSIONS = frozenset({"PyExtensionType", "UnknownExtensionType"})
"""Types of Arrow that unpickle what a file holds (CVE-2023-47248)."""

WORDS = re.compile(rf"\b({'|'.join(MODULES | CALLS | EXTENSIONS)})\b")
"""A module without one of them need not be parsed."""

TRUSTED = frozenset({"tablefmt/testing/contract.py", "tablefmt/inspection/store_races.py"})
"""Tests of stores for users, which pickle a store of the caller, and the processes of a race, which
get the store of their parent through a pipe.
"""


def running_code(path: Path) -> Iterator[str]:
    """Yield each place of a module that could run stored code."""
    source = path.read_text("utf-8")
    for node in ast.walk(ast.parse(source if WORDS.search(source) else "")):
        found: set[str] = set()
        if isinstance(node, ast.Import):
            found = {alias.name.partition(".")[0] for alias in node.names} & MODULES
        elif isinstance(node, ast.ImportFrom):
            found = {(node.module or "").partition(".")[0]} & MODULES
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            found = {node.func.id} & CALLS
        elif isinstance(node, ast.Attribute):
            found = {node.attr} & EXTENSIONS
        for name in found:
            yield f"{path.relative_to(ROOT).as_posix()}:{getattr(node, 'lineno', 0)} {name}"


def test_nothing_that_is_stored_is_unpickled() -> None:
    found = [place for path in (ROOT / "tablefmt").rglob("*.py") for place in running_code(path)]
    assert [place for place in found if place.partition(":")[0] not in TRUSTED] == []
    assert {place.partition(":")[0] for place in found} == TRUSTED
