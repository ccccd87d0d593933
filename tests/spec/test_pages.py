"""Style of the pages of the specification."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tablefmt import errors
from tests.places import GOLDEN, ROOT

SPEC = ROOT / "spec"
FORMAT_PAGES = sorted(
    p for p in SPEC.glob("*.md") if p.name not in ("README.md", "architecture.md")
)
OF_THIS_CODE = {"security", "faults", "claims", "mutants"}
"""Pages that name tests of this repository."""

PAGES = [p for kind in ("*.md", "decisions/*.md", "examples/*.md") for p in sorted(SPEC.glob(kind))]
WIDTH = 120

FOREIGN = re.compile(
    r"\.py\b|\btablefmt\.|\btests?/|\bPython|\bpandas|\bpyarrow|\bDuckDB"
    r"|this version (of|cannot|does|can)|\bcurrently\b|\bnot yet implemented\b",
    re.IGNORECASE,
)
"""Words of one implementation, and of one day."""


def name(path: Path) -> str:
    return path.relative_to(SPEC).as_posix()


def prose(path: Path) -> Iterator[tuple[int, str]]:
    """Lines outside of tables and fences, which Markdown cannot break."""
    inside = False
    for at, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        inside ^= line.startswith("```")
        if not inside and not line.startswith("|"):
            yield at, line


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_lines_are_short(page: Path) -> None:
    assert {at: line for at, line in prose(page) if len(line) > WIDTH} == {}


WORDS = 35
"""The longest sentence of a page; most have at most 25."""


def sentences(text: str) -> Iterator[str]:
    """Yield a page's sentences: code counts as one word, parentheses as none."""
    text = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"\([^()]*\)", "", re.sub(r"`[^`]*`", "x", text))
    for paragraph in re.split(r"\n\s*\n|\n\s*(?:[-*>]|\d+\.)\s|\n(?=\|)| \| |\n(?=#)", text):
        yield from re.split(r"(?<=[.:;?!])\s+", " ".join(paragraph.split()))


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_sentences_are_short(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert [s for s in sentences(text) if len(s.split()) > WORDS] == []


def test_a_long_sentence_is_found() -> None:
    words = "word " * WORDS
    found = [len(s.split()) for s in sentences(f"A {words}`a b` (left out) end.\n- Short one.")]
    assert found == [WORDS + 3, 2]


@pytest.mark.parametrize("page", [p for p in FORMAT_PAGES if p.stem not in OF_THIS_CODE], ids=name)
def test_the_format_speaks_of_no_implementation_and_of_no_day(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert [m[0] for m in FOREIGN.finditer(text)] == []


def test_decisions_are_numbered_without_a_gap_and_each_is_titled_so() -> None:
    pages = sorted((SPEC / "decisions").glob("*.md"))
    assert [int(p.name[:4]) for p in pages] == list(range(1, len(pages) + 1))
    for page in pages:
        assert page.read_text(encoding="utf-8").startswith(f"# {page.name[:4]} ")


def cited() -> Iterator[tuple[str, str]]:
    """Decisions that are named anywhere, with where."""
    places = [p for top in ("tablefmt", "tests", "tools", "benchmarks") for p in
              [*(ROOT / top).rglob("*.py"), *(ROOT / top).rglob("*.java")]]  # fmt: skip
    places += [ROOT / "README.md", *SPEC.rglob("*.md"), *(ROOT / ".github").glob("*.md")]
    for path in places:
        for number in re.findall(r"decisions?/(\d{4}[\w-]*)", path.read_text(encoding="utf-8")):
            yield number, path.relative_to(ROOT).as_posix()


def test_every_decision_that_is_named_is_there() -> None:
    there = {p.stem for p in (SPEC / "decisions").glob("*.md")}
    there |= {stem[:4] for stem in there}
    named = list(cited())
    assert len(named) > 3
    assert [(number, where) for number, where in named if number not in there] == []


HEADING = re.compile(r"^### ([A-Z]{3}-\d+)  (.+)$", re.MULTILINE)
BOUND = re.compile(
    r"^\| ([A-Z]{3}-\d+) \| (.+) \| \[(\w+)\]\(\3\.md\) \| ([RPCWS ]+) \|$", re.MULTILINE
)


def test_every_rule_is_listed_with_who_is_bound() -> None:
    """A rule without a row in spec/rules.md is one that an implementation forgets."""
    headings = {
        rule: (title, page.stem)
        for page in FORMAT_PAGES
        for rule, title in HEADING.findall(page.read_text(encoding="utf-8"))
    }
    rows = BOUND.findall((SPEC / "rules.md").read_text(encoding="utf-8"))
    assert {rule: (title, page) for rule, title, page, _ in rows} == headings
    assert len(rows) == len(headings)
    assert {letter for *_, letters in rows for letter in letters.split()} == set("RPCWS")


def test_what_readers_are_told_and_what_they_refuse_by_binds_readers() -> None:
    text = (SPEC / "rules.md").read_text(encoding="utf-8")
    letters = {rule: bound.split() for rule, _, _, bound in BOUND.findall(text)}
    steps = text.partition("## A reader in a day")[2].partition("Not needed")[0]
    named = set(re.findall(r"\b[A-Z]{3}-\d+\b", steps))
    assert len(named) > 25
    broken = [json.loads(p.read_text("utf-8")) for p in GOLDEN.glob("*/expected.json")]
    refused = {rule for case in broken if "error" in case for rule in case["rules"]}
    assert len(refused) > 25
    assert {rule for rule in named | refused if "R" not in letters[rule]} == set()


REFUSAL = re.compile(r"`(\w+(?:Error|Exception))`")


def test_every_refusal_that_a_page_names_is_explained_and_is_one_of_the_packages() -> None:
    """The bases that group them are named nowhere but in a sentence."""
    table = (SPEC / "README.md").read_text(encoding="utf-8").partition("## Refusals")[2]
    explained = REFUSAL.findall(table)
    named = {n for page in FORMAT_PAGES for n in REFUSAL.findall(page.read_text("utf-8"))}
    assert named - set(explained) == set()
    known = {name for name, value in vars(errors).items() if isinstance(value, type)}
    groups = {"TablefmtError", "ConcurrentModificationException"}
    assert set(explained) == {n for n in known if REFUSAL.fullmatch(f"`{n}`")} - groups
    assert len(explained) == len(set(explained))


LINK = re.compile(r"\]\((?!https?://)([^)#\s]+)(?:#[^)]*)?\)")


def test_every_link_between_pages_leads_somewhere() -> None:
    for page in [*PAGES, ROOT / "README.md"]:
        for target in LINK.findall(page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name}: {target}"
