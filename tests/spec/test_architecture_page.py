"""All names in spec/architecture.md exist."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from pathlib import Path

from tests.places import ROOT

PAGE = (ROOT / "spec" / "architecture.md").read_text(encoding="utf-8")
PACKAGE = ROOT / "tablefmt"
DOTTED = re.compile(r"`([a-z_]\w*(?:\.\w+)+)`")
PACKAGES = {path.stem for path in PACKAGE.iterdir() if path.suffix == ".py" or path.is_dir()}
ROOT_FILES = re.compile(r"`((?:spec|tests|tools|spark/jvm)/[\w./]+)`")


def defined_in(body: Sequence[ast.stmt]) -> dict[str, Sequence[ast.stmt]]:
    """Return the names that statements define, with the statements inside them."""
    found: dict[str, Sequence[ast.stmt]] = {}
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found[node.name] = node.body
        elif isinstance(node, ast.AnnAssign | ast.Assign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            found.update({t.id: [] for t in targets if isinstance(t, ast.Name)})
    return found


def missing(name: str) -> str | None:
    """The part of a dotted name that is not there; None if all of it is."""
    place, parts = PACKAGE, name.split(".")
    while parts and (place / parts[0]).is_dir():
        place /= parts.pop(0)
    if not parts:
        return None
    module = place / f"{parts.pop(0)}.py"
    if not module.exists():
        return module.relative_to(ROOT).as_posix()
    body: Sequence[ast.stmt] = ast.parse(module.read_text(encoding="utf-8")).body
    for part in parts:
        names = defined_in(body)
        if part not in names:
            return part
        body = names[part]
    return None


def test_every_module_and_function_that_it_names_exists() -> None:
    named = [name for name in DOTTED.findall(PAGE) if name.partition(".")[0] in PACKAGES]
    assert len(named) > 40
    assert {name: missing(name) for name in named if missing(name)} == {}


def test_every_file_that_it_names_exists() -> None:
    named = [Path(name) for name in ROOT_FILES.findall(PAGE)]
    places = [PACKAGE if path.parts[0] == "spark" else ROOT for path in named]
    assert len(named) > 8
    assert [p for p, place in zip(named, places, strict=True) if not (place / p).exists()] == []


def test_every_package_has_a_row() -> None:
    modules = (p for p in PACKAGE.iterdir() if (p / "__init__.py").exists() or p.suffix == ".py")
    table = PAGE.partition("## Packages")[2].partition("Inside")[0]
    listed = {*re.findall(r"`(\w+)`", table), "__init__", "__main__", "testing", "demo"}
    assert {path.stem for path in modules} <= listed


def test_a_name_that_is_not_there_is_found() -> None:
    """The tests above can fail."""
    assert missing("commit.commit_protocol.step") is None
    assert missing("commit.commit_protocol.Attempt") is None
    assert missing("commit.commit_protocol.stop") == "stop"
    assert missing("commit.combiner.Line") == "tablefmt/commit/combiner.py"
