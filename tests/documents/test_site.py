"""Contents of the site: every page, every error, every pair of operations, every name."""

from __future__ import annotations

import re
import typing
from pathlib import Path

import pytest
from docs import conflict_tables, error_guide, finding_tables

import tablefmt
import tablefmt.duckdb
import tablefmt.polars
import tablefmt.spark
from tablefmt import errors
from tablefmt.inspection import store_faults
from tablefmt.maintenance import finding_kinds
from tests.documents.pages import SITE, name_of
from tests.places import ROOT

CONFIG = (ROOT / "tools" / "docs" / "mkdocs.yml").read_text(encoding="utf-8")
PAGES = sorted(SITE.rglob("*.md"))
LINK = re.compile(r"\]\(([^)\s]+)\)")
OUTSIDE = {"spec": ROOT / "spec", "project": ROOT / ".github"}
"""Folders of the site that lie elsewhere in the repository: tools/docs/site_hooks.py."""


def test_every_page_is_in_the_navigation() -> None:
    listed = re.findall(r"^ +- [^:\n]+: (\S+\.md)$", CONFIG, re.MULTILINE)
    assert len(listed) == len(set(listed))
    own = [page for page in listed if page.partition("/")[0] not in OUTSIDE]
    assert sorted(own) == sorted(name_of(page) for page in PAGES)
    chapters = {p.relative_to(ROOT).as_posix() for p in (ROOT / "spec").glob("*.md")}
    assert chapters - set(listed) == set()


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page: Path) -> None:
    """The links are checked without building the site. The build also checks the anchors."""
    lost = []
    for link in LINK.findall(page.read_text(encoding="utf-8")):
        target = link.partition("#")[0]
        if "://" in link or not target:
            continue
        place = (page.parent / target).resolve()
        first, _, rest = place.relative_to(SITE).as_posix().partition("/")
        lost += [link] if not (OUTSIDE.get(first, SITE / first) / rest).exists() else []
    assert lost == []


def test_the_faults_of_stores_are_on_their_page() -> None:
    guide = (SITE / "guide/stores.md").read_text(encoding="utf-8")
    assert guide.count("<!-- store faults -->") == 1
    table = finding_tables.store_faults()
    for name, fault in store_faults.FAULTS.items():
        row = f"| `{name}` | {fault.verdict} | {fault.meaning} | {fault.advice} |"
        assert table.count(row) == 1


def test_the_findings_are_on_their_page() -> None:
    guide = (SITE / "guide/verify.md").read_text(encoding="utf-8")
    assert guide.count("<!-- findings -->") == 1
    table = finding_tables.findings()
    for name, kind in finding_kinds.KINDS.items():
        assert table.count(f"| `{name}` | {kind.severity} | ") == 1
        assert f"| {kind.meaning} | {kind.action} |" in table


def error_classes() -> dict[str, type[errors.TablefmtError]]:
    found = [v for v in vars(errors).values() if isinstance(v, type)]
    return {c.kind: c for c in found if issubclass(c, errors.TablefmtError)}


def test_every_kind_of_error_has_a_cause_and_an_action() -> None:
    known = error_classes()
    assert set(error_guide.advice()) == set(known)
    text = error_guide.sections()
    for kind, found in known.items():
        assert text.count(f"### {found.__name__} {{ #{kind} }}") == 1
    assert text.count("**Cause.** ") == text.count("**What to do.** ") == len(known)
    assert "<!-- errors -->" in (SITE / "troubleshooting.md").read_text(encoding="utf-8")


def test_advice_names_only_what_errors_have() -> None:
    """`error.field` of an entry is an attribute that the class documents or sets."""
    source = (ROOT / "tablefmt" / "errors.py").read_text(encoding="utf-8")
    for item in error_guide.advice().values():
        for field in re.findall(r"error\.(\w+)", item.cause + item.action):
            assert re.search(rf"self\.{field} = |def {field}\(|^    {field}: ", source, re.M), field


def test_every_cell_of_the_matrices_says_what_it_means() -> None:
    """The tests cover all 96 and all 25 cells. A cell that may fail names its exception."""
    cells = conflict_tables.published("file_and_row.json")["cells"]
    assert len(cells) == 96
    for cell in cells:
        text = conflict_tables.row_meaning(cell)
        assert text.startswith("Both commit")
        refused = cell["conflict"] == "if" and cell["exception"] is not None
        assert (", unless" in text) == refused
        names = re.findall(r"\b\w+Exception\b", cell["exception"] or "") if refused else []
        assert [name for name in names if f"`{name}`" not in text] == []
    matrix = conflict_tables.published("transaction.json")["earlier_then_later"]
    pairs = [(a, b, outcome) for a, row in matrix.items() for b, outcome in row.items()]
    assert len(pairs) == 25
    for earlier, later, outcome in pairs:
        text = conflict_tables.transaction_meaning(earlier, later, outcome)
        assert text.startswith("Both commit") == (outcome != "fail")
        assert ("`ConcurrentWriteException`" in text) == (outcome == "fail")


def test_the_guide_shows_the_matrices() -> None:
    guide = (SITE / "guide/conflicts.md").read_text(encoding="utf-8")
    for marker, rendered, rows in (
        ("<!-- conflicts: transaction -->", conflict_tables.transaction_tables(), 25),
        ("<!-- conflicts: file and row -->", conflict_tables.file_and_row_tables(), 3 * 16),
    ):
        assert guide.count(marker) == 1
        meanings = [line for line in rendered.splitlines() if line.startswith("    | ")]
        assert len(meanings) >= rows


DIRECTIVE = re.compile(r"^::: (\S+)\n((?:    .*\n)*)", re.MULTILINE)
MEMBERS = re.compile(r"members: \[([^\]]*)\]")


def referenced() -> set[str]:
    """Full names that the reference shows."""
    found: set[str] = set()
    for page in (SITE / "reference").glob("*.md"):
        for name, options in DIRECTIVE.findall(page.read_text(encoding="utf-8")):
            found.add(name)
            for members in MEMBERS.findall(options):
                found |= {f"{name}.{member.strip()}" for member in members.split(",")}
    return found


def test_every_public_name_is_in_the_reference() -> None:
    names = {f"tablefmt.{n}" for n in tablefmt.__all__ if n != "__version__"}
    for module in (tablefmt.spark, tablefmt.duckdb, tablefmt.polars):
        names |= {f"{module.__name__}.{name}" for name in module.__all__}
    assert {"tablefmt.pipe", "tablefmt.PipeRun", "tablefmt.Commit", "tablefmt.spark.pipe"} <= names
    assert names - referenced() == set()


def test_what_public_methods_return_is_in_the_reference() -> None:
    """A class of the package that a method of `Table` returns, by its name."""
    shown = {name.rpartition(".")[2] for name in referenced()}
    returned: set[str] = set()
    for name in dir(tablefmt.Table):
        method = getattr(tablefmt.Table, name)
        if name.startswith("_") or not callable(method):
            continue
        text = str(method.__annotations__.get("return", ""))
        returned |= set(re.findall(r"(?<![\w.])[A-Z]\w+", text)) - {"Any", "None", *typing.__all__}
    assert len(returned) > 8
    assert returned - shown == set()
